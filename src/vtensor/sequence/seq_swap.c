// seq_swap.c - swap_out and swap_in.
//
// The backend's swap is divided into slots of a chunk each; slice v of the chunk in slot i lies at
// i x chunk_bytes + v x slice_bytes. Only chunks that are not shared are written: freeing a shared
// one would free nothing. Each has a checksum, which is compared when it is read back.
//
//   out   write all, detach all, drop them         on a failure before the last: nothing is lost
//   in    back the same positions, read all        on a failure: they are shed, the slots stay
#include "sequence.h"

#include <stdlib.h>
#include <string.h>

#include "vtensor/common/try.h"

vt_status vti_swap_init(vti_swap *sw, const vt_config *cfg, size_t chunk_bytes)
{
    uint64_t n_slot = cfg->swap_bytes / chunk_bytes;
    *sw = (vti_swap){.n_slot = n_slot < UINT32_MAX ? (uint32_t)n_slot : UINT32_MAX};
    if (sw->n_slot == 0) return VT_OK;
    sw->size_bytes = sw->n_slot * (uint64_t)chunk_bytes;
    sw->n_free = sw->n_slot;
    sw->free_slot = calloc(sw->n_slot, sizeof *sw->free_slot);
    size_t dir_bytes = cfg->swap_dir ? strlen(cfg->swap_dir) + 1 : 0;
    if (dir_bytes > 0) sw->dir = calloc(dir_bytes, 1);
    if (!sw->free_slot || (dir_bytes > 0 && !sw->dir)) {
        vti_swap_free(sw);
        return VT_ENOMEM;
    }
    if (sw->dir) memcpy(sw->dir, cfg->swap_dir, dir_bytes);
    for (uint32_t i = 0; i < sw->n_slot; i++) sw->free_slot[i] = sw->n_slot - 1 - i;
    return VT_OK;
}

void vti_swap_free(vti_swap *sw)
{
    free(sw->free_slot);
    free(sw->dir);
    *sw = (vti_swap){0};
}

static void slot_put(vt_manager *m, uint32_t slot)
{
    m->vmm->ops->swap_drop(m->vmm, slot * (uint64_t)m->geo.chunk_bytes, m->geo.chunk_bytes);
    m->swap.free_slot[m->swap.n_free++] = slot;
}

void vti_swap_forget(vt_seq *s)
{
    for (uint32_t i = 0; i < s->n_swapped; i++) slot_put(s->m, s->swapped[i].slot);
    free(s->swapped);
    s->swapped = NULL;
    s->n_swapped = 0;
}

static vt_status open_swap_once(vt_manager *m)
{
    vti_swap *sw = &m->swap;
    if (sw->n_slot == 0) return VT_EINVAL;
    if (sw->open) return VT_OK;
    VT_TRY(vti_tally_backend(m, m->vmm->ops->swap_open(m->vmm, sw->dir, sw->size_bytes)));
    sw->open = true;
    return VT_OK;
}

typedef vt_status slice_fn(vt_vmm *vmm, uint64_t offset, uintptr_t addr, size_t n, uint64_t *sum);

static vt_status slice_write(vt_vmm *vmm, uint64_t offset, uintptr_t addr, size_t n, uint64_t *sum)
{
    return vmm->ops->swap_write(vmm, offset, addr, n, sum);
}

static vt_status slice_read(vt_vmm *vmm, uint64_t offset, uintptr_t addr, size_t n, uint64_t *sum)
{
    return vmm->ops->swap_read(vmm, addr, offset, n, sum);
}

// Copies all slices of the chunk at c->position to or from its slot; *sum depends on each slice and
// on their order.
static vt_status chunk_move(vt_manager *m, const vti_span *sp, const vti_swapped *c, slice_fn *move,
                            uint64_t *sum)
{
    const vti_geo *g = &m->geo;
    *sum = 0;
    for (uint32_t v = 0; v < g->n_view; v++) {
        uint64_t one, offset = c->slot * (uint64_t)g->chunk_bytes + v * g->slice_bytes;
        uintptr_t addr = vti_span_addr(g, sp, v, c->position);
        VT_TRY(vti_tally_backend(m, move(m->vmm, offset, addr, g->slice_bytes, &one)));
        *sum = vt_vmm_checksum(*sum, &one, sizeof one);
    }
    return VT_OK;
}

static int by_position(const void *a, const void *b)
{
    const vti_swapped *x = a, *y = b;
    return (x->position > y->position) - (x->position < y->position);
}

// A position that is swapped out may have a chunk mapped, if undoing a swap_in failed.
static bool chunk_is_out(const vt_seq *s, uint32_t position)
{
    vti_swapped key = {.position = position};
    return s->n_swapped > 0 &&
           bsearch(&key, s->swapped, s->n_swapped, sizeof key, by_position) != NULL;
}

static bool chunk_goes_out(const vt_seq *s, uint32_t position)
{
    uint32_t region = s->span->at[position];
    return region != VTI_NO_REGION && !chunk_is_out(s, position) &&
           vti_pset_state(&s->m->pset, region, position) == VT_CHUNK_OWNED;
}

static uint32_t count_out(const vt_seq *s)
{
    uint32_t n = 0;
    for (uint32_t p = 0; p < s->span->n_owned; p++) n += chunk_goes_out(s, p);
    return n;
}

// Writes the chunks that go out and appends them to the list; *n counts its entries, each with a
// slot.
static vt_status write_chunks(vt_seq *s, vti_swapped *list, uint32_t *n)
{
    vt_manager *m = s->m;
    for (uint32_t p = 0; p < s->span->n_owned; p++) {
        if (!chunk_goes_out(s, p)) continue;
        vti_swapped *c = &list[(*n)++];
        *c = (vti_swapped){.position = p, .slot = m->swap.free_slot[--m->swap.n_free]};
        VT_TRY(chunk_move(m, s->span, c, slice_write, &c->sum));
    }
    return VT_OK;
}

// The next run from *p on that goes out; 0: none.
static uint32_t next_run_out(const vt_seq *s, uint32_t *p)
{
    const vti_span *sp = s->span;
    while (*p < sp->n_owned && !chunk_goes_out(s, *p)) (*p)++;
    uint32_t n = 0;
    while (*p + n < sp->n_owned && sp->at[*p + n] == sp->at[*p] && chunk_goes_out(s, *p + n)) n++;
    return n;
}

// A chunk that goes out may leave a hole in a run.
static vt_status room_for_holes(vt_seq *s)
{
    int64_t more = 0;
    for (uint32_t p = 0, n; (n = next_run_out(s, &p)) > 0; p += n) {
        int32_t one = vti_span_runs_if(&s->m->vset, s->span, p, n, VTI_NO_REGION);
        more += one > 0 ? one : 0;
    }
    return vti_runs_make(s->m, s->span, more);
}

static vt_status detach_chunks(vt_seq *s)
{
    for (uint32_t p = 0, n; (n = next_run_out(s, &p)) > 0; p += n)
        VT_TRY(vti_span_detach(s->m, s->span, p, n));
    return VT_OK;
}

static vt_status try_swap_out(vt_seq *s, vti_swapped *list, uint32_t *n)
{
    vt_manager *m = s->m;
    VT_TRY(vti_span_quiesce(m, s->span));
    VT_TRY(write_chunks(s, list, n));
    vt_status st = detach_chunks(s);
    if (st != VT_OK) (void)vti_span_repair(m, s->span); // else torn
    return st;
}

static vt_status swap_out_chunks_of(vt_seq *s, uint32_t n_out)
{
    vt_manager *m = s->m;
    uint32_t had = s->n_swapped, n = had;
    vti_swapped *list = calloc(had + n_out, sizeof *list);
    if (!list) return VT_ENOMEM;
    if (had > 0) memcpy(list, s->swapped, had * sizeof *list);
    vt_status st = try_swap_out(s, list, &n);
    if (st != VT_OK) {
        while (n > had) slot_put(m, list[--n].slot);
        free(list);
        return st;
    }
    vti_span_drop_detached(m, s->span, 0);
    qsort(list, n, sizeof *list, by_position);
    free(s->swapped);
    s->swapped = list;
    s->n_swapped = n;
    m->tally.swap_out_chunks += n_out;
    (void)vti_strays_free(m); // what cannot be freed stays spare and counted
    return VT_OK;
}

static vt_status swap_out_seq(vt_seq *s)
{
    vt_manager *m = s->m;
    VT_TRY(open_swap_once(m));
    vti_job_settle(m, s->span);
    VT_TRY(vti_span_repair(m, s->span));
    uint32_t n_out = count_out(s);
    if (n_out == 0) return VT_OK;
    if (n_out > m->swap.n_free) return VT_NOSPACE;
    VT_TRY(room_for_holes(s));
    return swap_out_chunks_of(s, n_out);
}

vt_status vt_seq_swap_out(vt_seq *s)
{
    return vti_tally_answer(s->m, swap_out_seq(s));
}

// Backs the *n entries from `i` on whose positions are neighbours. The first may be mapped already.
static vt_status back_chunks(vt_seq *s, uint32_t i, uint32_t *n)
{
    vt_manager *m = s->m;
    vti_span *sp = s->span;
    uint32_t first = s->swapped[i].position, end = first + 1;
    *n = 1;
    if (sp->at[first] != VTI_NO_REGION) return VT_OK;
    for (uint32_t k = i + 1; k < s->n_swapped && s->swapped[k].position == end; k++) end++;
    VT_TRY(vti_span_back(m, sp, first, end, n));
    sp->n_warm -= *n;
    for (uint32_t p = first; p < first + *n; p++) vti_pset_user_hold(&m->pset, sp->at[p], p);
    return VT_OK;
}

static vt_status read_chunk(vt_seq *s, const vti_swapped *c)
{
    uint64_t sum;
    VT_TRY(chunk_move(s->m, s->span, c, slice_read, &sum));
    if (sum == c->sum) return VT_OK;
    s->m->tally.swap_corrupt++;
    return VT_EDEVICE;
}

static vt_status read_chunks(vt_seq *s)
{
    for (uint32_t i = 0, n; i < s->n_swapped; i += n) {
        VT_TRY(back_chunks(s, i, &n));
        for (uint32_t k = i; k < i + n; k++) VT_TRY(read_chunk(s, &s->swapped[k]));
    }
    return VT_OK;
}

// Drops the chunks that were made for entries of the swap.
static void undo_swap_in(vt_seq *s)
{
    vt_manager *m = s->m;
    vti_span *sp = s->span;
    for (uint32_t i = 0; i < s->n_swapped; i++) {
        uint32_t p = s->swapped[i].position;
        if (sp->at[p] != VTI_NO_REGION && vti_span_detach(m, sp, p, 1) != VT_OK) break;
    }
    vti_span_drop_detached(m, sp, 0);
    (void)vti_strays_free(m);
}

static vt_status swap_in_seq(vt_seq *s)
{
    vt_manager *m = s->m;
    vti_job_settle(m, s->span);
    VT_TRY(vti_span_repair(m, s->span));
    VT_TRY(vti_room_make(m, s->span, s->span->n_owned, s->n_swapped));
    vt_status st = read_chunks(s);
    if (st != VT_OK) {
        undo_swap_in(s);
        return st;
    }
    m->tally.swap_in_chunks += s->n_swapped;
    vti_swap_forget(s);
    return VT_OK;
}

vt_status vt_seq_swap_in(vt_seq *s)
{
    return s->swapped ? vti_tally_answer(s->m, swap_in_seq(s)) : VT_OK;
}
