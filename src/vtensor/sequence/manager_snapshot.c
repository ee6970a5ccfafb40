// manager_snapshot.c - vt_snapshot: the state of every chunk and every span, as one block:
//
//   | head | at [n_span, n_position] | chunk [n_chunk] | span [n_span] |
#include "sequence.h"

#include <stdlib.h>

typedef struct picture {
    vt_snapshot head;
    vt_chunk_info *chunk;
    vt_span_info *span;
    uint64_t *at;
} picture;

static void draw_region(const vt_manager *m, picture *pic, uint32_t region)
{
    for (uint32_t p = 0; p < m->geo.chunks_per_span; p++) {
        vti_chunk c = vti_pset_chunk(&m->pset, region, p);
        if (!c.created) continue;
        pic->chunk[pic->head.n_chunk++] = (vt_chunk_info){
            .index = vti_pset_index(&m->pset, region, p),
            .state = vti_pset_state(&m->pset, region, p),
            .n_seq = c.n_user,
            .n_node = c.n_node,
        };
    }
}

static void draw_span(const vt_manager *m, picture *pic, const vti_span *sp)
{
    const vt_seq *s = sp->seq;
    vt_span_info *info = &pic->span[sp->id];
    *info = (vt_span_info){
        .plane0 = (void *)vti_span_addr(&m->geo, sp, 0, 0),
        .is_live = s != NULL,
        .is_swapped = s && s->swapped,
        .len_tok = s ? s->len_tok : 0,
        .n_chunk = sp->n_owned,
        .n_run = sp->n_run,
    };
    uint64_t *at = pic->at + (size_t)sp->id * m->geo.chunks_per_span;
    for (uint32_t p = 0; p < m->geo.chunks_per_span; p++) {
        bool mapped = sp->at[p] != VTI_NO_REGION;
        at[p] = mapped ? vti_pset_index(&m->pset, sp->at[p], p) : UINT64_MAX;
        info->n_mapped += mapped;
    }
}

vt_status vt_snapshot_take(const vt_manager *m, vt_snapshot **out)
{
    *out = NULL;
    size_t n_chunk = vti_pset_created(&m->pset), n_span = m->vset.n_span;
    size_t n_at = n_span * m->geo.chunks_per_span;
    picture *pic = calloc(1, sizeof *pic + n_chunk * sizeof *pic->chunk +
                                 n_span * sizeof *pic->span + n_at * sizeof *pic->at);
    if (!pic) return VT_ENOMEM;
    pic->at = (uint64_t *)(pic + 1); // the strictest alignment first
    pic->chunk = (vt_chunk_info *)(pic->at + n_at);
    pic->span = (vt_span_info *)(pic->chunk + n_chunk);
    for (uint32_t r = 0; r < m->pset.n_region; r++) draw_region(m, pic, r);
    for (uint32_t i = 0; i < n_span; i++) draw_span(m, pic, m->vset.span[i]);
    pic->head.n_span = (uint32_t)n_span;
    pic->head.n_position = m->geo.chunks_per_span;
    pic->head.chunk = pic->chunk;
    pic->head.span = pic->span;
    pic->head.at = pic->at;
    *out = &pic->head;
    return VT_OK;
}

void vt_snapshot_free(vt_snapshot *snap)
{
    free(snap); // the head is the block's first member
}
