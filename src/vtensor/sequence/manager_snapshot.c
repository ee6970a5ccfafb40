// manager_snapshot.c - the state of every chunk and every span: in runs, call by call; and as one
// block, vt_snapshot:
//
//   | head | at [n_span, n_position] | chunk [n_chunk] | span [n_span] |
#include "sequence.h"

#include <stdlib.h>

static uint32_t group_of_class(const vt_manager *m, uint32_t cls)
{
    uint32_t g = 0;
    while (m->geo.group[g].cls != cls) g++;
    return g;
}

// ---- Lanes

// Reads a lane from its first position on: what it maps, and what the swap alone has of it.
typedef struct lane_reader {
    const vti_lane *lane;
    const vti_swapped *out, *out_end; // of the group, from the position on
} lane_reader;

static lane_reader read_lane(const vti_span *sp, uint32_t group)
{
    const vt_seq *s = sp->seq;
    lane_reader r = {.lane = &sp->lane[group]};
    if (!s || !s->n_swapped) return r;
    r.out = s->swapped;
    r.out_end = s->swapped + s->n_swapped;
    while (r.out < r.out_end && r.out->group < group) r.out++;
    while (r.out_end > r.out && r.out_end[-1].group > group) r.out_end--;
    return r;
}

// Positions must grow from call to call.
static uint64_t name_at(lane_reader *r, uint32_t position)
{
    while (r->out < r->out_end && (r->out->position < position || !r->out->is_out)) r->out++;
    if (position < r->lane->n_end && r->lane->at[position] != VTI_NO_CHUNK)
        return r->lane->at[position];
    const bool is_out = r->out < r->out_end && r->out->position == position;
    return is_out ? VT_AT_SWAP | r->out->slot : VT_AT_NOTHING;
}

// ---- One block

typedef struct snapshot_block {
    vt_snapshot head; // first
    vt_chunk_info *chunk;
    vt_span_info *span;
    uint64_t *at;
} snapshot_block;

static void fill_chunk(const vt_manager *m, snapshot_block *b, uint32_t number)
{
    const vti_chunk chunk = vti_pset_chunk(&m->pset, number);
    if (!chunk.is_created) return;
    b->chunk[b->head.n_chunk++] = (vt_chunk_info){
        .index = number,
        .group = group_of_class(m, vti_pset_class(&m->pset, number)),
        .state = vti_chunk_state(&chunk),
        .n_seq = chunk.n_user,
        .n_node = chunk.n_node,
    };
}

static void fill_span(const vt_manager *m, snapshot_block *b, const vti_span *sp)
{
    const vt_seq *s = sp->seq;
    vt_span_info *info = &b->span[sp->id];
    uint64_t *at = b->at + (size_t)sp->id * b->head.n_position;
    *info = (vt_span_info){
        .plane0 = (void *)vti_lane_addr(&m->geo, sp, 0, 0, 0),
        .is_live = s != NULL,
        .seq = s,
        .is_swapped = s && vti_seq_is_away(s),
        .len_tok = s ? s->len_tok : 0,
    };
    for (uint32_t g = 0; g < m->geo.n_group; g++) {
        lane_reader r = read_lane(sp, g);
        info->n_chunk += r.lane->n_owned - r.lane->front;
        info->n_run += r.lane->n_run;
        for (uint32_t p = 0; p < m->geo.group[g].n_position; p++) {
            at[p] = name_at(&r, p);
            info->n_mapped += at[p] != VT_AT_NOTHING && !(at[p] & VT_AT_SWAP);
        }
        at += m->geo.group[g].n_position;
    }
}

vt_status vt_snapshot_take(const vt_manager *m, vt_snapshot **out)
{
    const uint32_t n_span = m->vset.n_span;
    vt_snapshot head = {.n_span = n_span, .n_group = m->geo.n_group};
    uint64_t n_created = 0;
    *out = NULL;
    for (uint32_t g = 0; g < m->geo.n_group; g++)
        head.n_position += head.group_position[g] = m->geo.group[g].n_position;
    for (uint32_t c = 0; c < m->pset.n_class; c++) n_created += vti_class_created(&m->pset.cls[c]);
    const size_t n_at = (size_t)n_span * head.n_position;
    snapshot_block *b = malloc(sizeof *b + n_created * sizeof *b->chunk + n_span * sizeof *b->span +
                               n_at * sizeof *b->at);
    if (!b) return VT_ENOMEM;
    *b = (snapshot_block){.head = head, .at = (uint64_t *)(b + 1)}; // the strictest alignment first
    b->chunk = (vt_chunk_info *)(b->at + n_at);
    b->span = (vt_span_info *)(b->chunk + n_created);
    for (uint32_t i = 0; i < vti_pset_end(&m->pset); i++) fill_chunk(m, b, i);
    for (uint32_t i = 0; i < n_span; i++) fill_span(m, b, m->vset.span[i]);
    b->head.chunk = b->chunk;
    b->head.span = b->span;
    b->head.at = b->at;
    *out = &b->head;
    return VT_OK;
}

void vt_snapshot_free(vt_snapshot *snap)
{
    free(snap); // the head is the block's first member
}

// ---- Call by call

void vt_chunk_each(const vt_manager *m,
                   void (*fn)(void *ud, uint64_t first, uint64_t n, uint32_t group,
                              vt_chunk_state state),
                   void *ud)
{
    const uint32_t end = vti_pset_end(&m->pset);
    uint32_t first = 0, cls = 0;
    vt_chunk_state state = VT_CHUNK_ABSENT;
    for (uint32_t i = 0; i <= end; i++) {
        const vt_chunk_state is = i < end ? vti_pset_state(&m->pset, i) : VT_CHUNK_ABSENT;
        const uint32_t is_cls = i < end ? vti_pset_class(&m->pset, i) : cls;
        if (is == state && is_cls == cls) continue;
        if (state != VT_CHUNK_ABSENT) fn(ud, first, i - first, group_of_class(m, cls), state);
        first = i;
        state = is;
        cls = is_cls;
    }
}

void vt_seq_each(const vt_manager *m, void (*fn)(void *ud, const vt_seq *s), void *ud)
{
    for (uint32_t i = 0; i < m->vset.n_span; i++)
        if (m->vset.span[i]->seq) fn(ud, m->vset.span[i]->seq);
}

void vt_seq_map(const vt_seq *s,
                void (*fn)(void *ud, uint32_t group, uint32_t position, uint64_t at, uint32_t n),
                void *ud)
{
    for (uint32_t g = 0; g < s->m->geo.n_group; g++) {
        lane_reader r = read_lane(s->span, g);
        uint32_t end = r.lane->n_end, n = 0;
        uint64_t first = VT_AT_NOTHING;
        if (r.out < r.out_end && r.out_end[-1].position >= end) end = r.out_end[-1].position + 1;
        for (uint32_t p = 0; p < end; p++) {
            const uint64_t at = name_at(&r, p);
            if (at != VT_AT_NOTHING && n && at == first + n) {
                n++;
                continue;
            }
            if (n) fn(ud, g, p - n, first, n);
            first = at;
            n = at != VT_AT_NOTHING;
        }
        if (n) fn(ud, g, end - n, first, n);
    }
}
