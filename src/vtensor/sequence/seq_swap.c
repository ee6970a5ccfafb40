// seq_swap.c - swap_out and swap_in.
//
// The backend's swap is divided into slots, each as large as the largest chunk; slice v of the
// chunk in slot i lies at i x slot_bytes + v x slice_bytes. Only chunks that are not shared are
// written: freeing a shared one would free nothing. Each has a checksum, which is compared when it
// is read back.
//
//   out   wait for the device, write all, unmap run by run     a failure of an unmap: what was
//         unmapped is brought back; if that fails too, it stays in the swap
//   in    back the positions run by run, read all              a failure: they are given up, the
//                                                              slots stay
#include "sequence.h"

#include <stdlib.h>
#include <string.h>

#include "vtensor/common/try.h"

// ---- Bytes

typedef vt_status slice_fn(vt_vmm *vmm, uint64_t offset, uintptr_t addr, size_t n, uint64_t *sum);

static vt_status slice_write(vt_vmm *vmm, uint64_t offset, uintptr_t addr, size_t n, uint64_t *sum)
{
    vt_status st = vmm->ops->swap_write(vmm, offset, addr, n, sum);
    return st == VT_NOSPACE ? VT_NOSWAP : st;
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
    const vti_lane_geo *gr = &m->geo.group[c->group];
    *sum = 0;
    for (uint32_t v = 0; v < gr->n_view; v++) {
        uint64_t one, offset = c->slot * m->swap.slot_bytes + v * gr->slice_bytes;
        uintptr_t addr = vti_lane_addr(&m->geo, sp, c->group, v, c->position);
        VT_TRY(vti_tally_backend(m, move(m->vmm, offset, addr, gr->slice_bytes, &one)));
        *sum = vt_vmm_checksum(*sum, &one, sizeof one);
    }
    return VT_OK;
}

// ---- Out

static bool chunk_goes_out(const vt_seq *s, uint32_t group, uint32_t position)
{
    uint32_t chunk = s->span->lane[group].at[position];
    return chunk != VTI_NO_CHUNK && vti_pset_state(&s->m->pset, chunk) == VT_CHUNK_OWNED;
}

// *n_hole: mappings that the gaps they leave may cost.
static uint32_t count_out(const vt_seq *s, uint64_t *n_hole)
{
    uint32_t n = 0;
    *n_hole = 0;
    for (uint32_t g = 0; g < s->m->geo.n_group; g++) {
        bool was_out = false;
        for (uint32_t p = s->span->lane[g].front; p < s->span->lane[g].n_owned; p++) {
            bool is_out = chunk_goes_out(s, g, p);
            n += is_out;
            if (is_out && !was_out) *n_hole += s->m->geo.group[g].n_view;
            was_out = is_out;
        }
    }
    return n;
}

// Writes the chunks that go out and appends them to the list; *n counts its entries, each with a
// slot.
static vt_status write_chunks(vt_seq *s, vti_swapped *list, uint32_t *n)
{
    vt_manager *m = s->m;
    for (uint32_t g = 0; g < m->geo.n_group; g++)
        for (uint32_t p = s->span->lane[g].front; p < s->span->lane[g].n_owned; p++) {
            if (!chunk_goes_out(s, g, p)) continue;
            vti_swapped *c = &list[(*n)++];
            *c = (vti_swapped){g, p, vti_slot_take(m, g), 0};
            VT_TRY(chunk_move(m, s->span, c, slice_write, &c->sum));
        }
    return VT_OK;
}

// How many entries from `i` on are at neighbouring positions of one lane.
static uint32_t entry_run(const vti_swapped *list, uint32_t i, uint32_t n)
{
    uint32_t k = i + 1;
    while (k < n && list[k].group == list[i].group && list[k].position == list[k - 1].position + 1)
        k++;
    return k - i;
}

// Unmaps the entries, which gives their chunks up. *n_out: how many.
static vt_status unmap_entries(vt_seq *s, const vti_swapped *list, uint32_t n, uint32_t *n_out)
{
    for (uint32_t run; *n_out < n; *n_out += run) {
        const vti_swapped *c = &list[*n_out];
        run = entry_run(list, *n_out, n);
        VT_TRY(vti_job_now(s->m, s->span, c->group,
                           &(vti_order_form){VTI_JOB_UNMAP, c->position, run, 0, 0}));
    }
    return VT_OK;
}

static void keep_entries(vt_seq *s, vti_swapped *list, uint32_t n)
{
    s->swapped = n > 0 ? list : NULL;
    s->n_swapped = n;
    if (n == 0) free(list);
}

static int by_place(const void *a, const void *b)
{
    const vti_swapped *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

// The entries of an earlier swap_out, and the new ones.
static void merge_entries(vt_seq *s, vti_swapped *list, uint32_t n_new)
{
    uint32_t n = n_new + s->n_swapped;
    if (s->n_swapped > 0) memcpy(list + n_new, s->swapped, s->n_swapped * sizeof *list);
    free(s->swapped);
    qsort(list, n, sizeof *list, by_place);
    keep_entries(s, list, n);
}

static vt_status swap_in_all(vt_seq *s);

static vt_status write_and_unmap(vt_seq *s, vti_swapped *list)
{
    vt_manager *m = s->m;
    uint32_t n = 0, n_out = 0;
    bool had_none = s->n_swapped == 0;
    vt_status st = write_chunks(s, list, &n);
    if (st == VT_OK) st = unmap_entries(s, list, n, &n_out);
    for (uint32_t i = n_out; i < n; i++) vti_slot_put(m, &list[i]);
    merge_entries(s, list, n_out);
    if (st == VT_OK) m->tally.swap_out_chunks += n;
    if (st != VT_OK && had_none && n_out > 0) (void)swap_in_all(s);
    return st;
}

static vt_status swap_out_seq(vt_seq *s)
{
    vt_manager *m = s->m;
    if (s->span->is_lost) return VT_EDEVICE;
    VT_TRY(vti_swap_open(m));
    vti_span_settle(m, s->span);
    uint64_t n_hole;
    uint32_t n_out = count_out(s, &n_hole);
    if (n_out == 0) return VT_OK;
    if (n_out > m->swap.n_free) return VT_NOSWAP;
    VT_TRY(vti_runs_make(m, s->span, n_hole));
    VT_TRY(vti_fence_take(m, s->span));
    VT_TRY(vti_fence_await(m, s->span->fence));
    vti_swapped *list = calloc(s->n_swapped + n_out, sizeof *list);
    return list ? write_and_unmap(s, list) : VT_ENOMEM;
}

vt_status vt_seq_swap_out(vt_seq *s)
{
    return vti_tally_answer(s->m, swap_out_seq(s));
}

// ---- In

static vt_status read_chunk(vt_seq *s, const vti_swapped *c)
{
    uint64_t sum;
    VT_TRY(chunk_move(s->m, s->span, c, slice_read, &sum));
    if (sum == c->sum) return VT_OK;
    s->m->tally.swap_corrupt++;
    return VT_EDEVICE;
}

// What comes back may have rows beyond the length, of tokens that were truncated.
static void note_dirty(vt_seq *s, const vti_swapped *last)
{
    vti_lane *l = &s->span->lane[last->group];
    size_t end = (last->position + 1) * s->m->geo.group[last->group].slice_bytes;
    if (end > l->dirty_end) l->dirty_end = end;
}

static vt_status read_chunks(vt_seq *s)
{
    for (uint32_t i = 0, n; i < s->n_swapped; i += n) {
        const vti_swapped *c = &s->swapped[i];
        n = entry_run(s->swapped, i, s->n_swapped);
        VT_TRY(vti_lane_back_unwiped(s->m, s->span, c->group, c->position, c->position + n));
        note_dirty(s, c + n - 1);
        for (uint32_t k = i; k < i + n; k++) VT_TRY(read_chunk(s, &s->swapped[k]));
        VT_TRY(vti_lane_guard_again(s->m, s->span, c->group, c->position, c->position + n));
    }
    return VT_OK;
}

// Gives up the chunks that were made for entries of the swap.
static void undo_swap_in(vt_seq *s)
{
    for (uint32_t i = 0; i < s->n_swapped; i++) {
        const vti_swapped *c = &s->swapped[i];
        if (s->span->is_lost || s->span->lane[c->group].at[c->position] == VTI_NO_CHUNK) continue;
        vti_order_form one = {VTI_JOB_UNMAP, c->position, 1, 0, 0};
        if (vti_job_now(s->m, s->span, c->group, &one) != VT_OK) vti_span_quarantine(s->m, s->span);
    }
}

static uint64_t swapped_bytes(const vt_seq *s)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n_swapped; i++)
        n += s->m->geo.group[s->swapped[i].group].chunk_bytes;
    return n;
}

static vt_status swap_in_all(vt_seq *s)
{
    vt_manager *m = s->m;
    if (s->span->is_lost) return VT_EDEVICE;
    vti_span_settle(m, s->span);
    VT_TRY(vti_seq_room(s, swapped_bytes(s), s->len_tok));
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
    return s->swapped ? vti_tally_answer(s->m, swap_in_all(s)) : VT_OK;
}
