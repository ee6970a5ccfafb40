// seq_swap.c - swap_out and swap_in: a sequence on its way to the swap, or back.
//
// The backend's swap is divided into slots, each as large as the largest chunk. Only chunks that
// are not shared are written: freeing a shared one would free nothing. The list of the sequence has
// an entry for each of them; while the sequence rests, none of them is mapped.
//
// The mapper does what takes long: a vti_copy moves the rows, lane jobs unmap and back positions.
// The owner only goes from phase to phase, in vt_step or when it is asked again, and waits for
// nothing:
//
//   swap_out    FENCE --device is done--> WRITE --all--> UNMAP --none is mapped--> DONE
//   swap_in     BACK --all are mapped--> READ --all--> DONE
//
// Memory comes free while the rest is written: in WRITE, too, entries are unmapped that the swap
// has whole. A call that needs memory at once unmaps them itself (vti_moves_yield).
//
//   a failure, or the caller takes it back:
//     FENCE          memory has the rows: the new entries are dropped
//     WRITE, UNMAP   what is mapped still is dropped from the list; the rest goes BACK and READ
//     BACK, READ     UNMAP: it stays in the swap
//     again UNMAP    a device that fails so often: the span is quarantined
//
// Until a call has told the caller how it ended (DONE), the sequence stays in this state.
#include "sequence.h"

#include <stdlib.h>
#include <string.h>

// ---- The list

static bool chunk_goes_out(const vt_seq *s, uint32_t group, uint32_t position)
{
    uint32_t chunk = vti_lane_at(&s->span->lane[group], position);
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

static int by_place(const void *a, const void *b)
{
    const vti_swapped *x = a, *y = b;
    if (x->group != y->group) return x->group < y->group ? -1 : 1;
    return (x->position > y->position) - (x->position < y->position);
}

// Adds entries for the chunks that go out, n_out of them, each with a slot. Errors: VT_ENOMEM.
static vt_status list_add(vt_seq *s, uint32_t n_out)
{
    vt_manager *m = s->m;
    vti_swapped *list = calloc(s->n_swapped + n_out, sizeof *list);
    uint32_t n = s->n_swapped;
    if (!list) return VT_ENOMEM;
    if (n > 0) memcpy(list, s->swapped, n * sizeof *list);
    for (uint32_t g = 0; g < m->geo.n_group; g++)
        for (uint32_t p = s->span->lane[g].front; p < s->span->lane[g].n_owned; p++)
            if (chunk_goes_out(s, g, p))
                list[n++] = (vti_swapped){.group = g, .position = p, .slot = vti_slot_take(m, g)};
    free(s->swapped);
    qsort(list, n, sizeof *list, by_place);
    s->swapped = list;
    s->n_swapped = n;
    return VT_OK;
}

static bool is_mapped(const vt_seq *s, const vti_swapped *e)
{
    return vti_lane_at(&s->span->lane[e->group], e->position) != VTI_NO_CHUNK;
}

// What is not mapped any more is in the swap alone. (The mapper may be reading entries that it has
// not written yet.)
static void list_note_out(vt_seq *s)
{
    for (uint32_t i = 0; i < s->n_swapped; i++)
        if (!s->swapped[i].is_out && !is_mapped(s, &s->swapped[i])) s->swapped[i].is_out = true;
}

// Drops the entries whose rows memory still has.
static void list_drop_in(vt_seq *s)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < s->n_swapped; i++)
        if (s->swapped[i].is_out)
            s->swapped[n++] = s->swapped[i];
        else
            vti_slot_put(s->m, &s->swapped[i]);
    s->n_swapped = n;
    if (n == 0) vti_swap_forget(s);
}

// Looks among the first `end` entries for the first of a group at neighbouring positions that are
// mapped, or are not. Returns how many; *first is the position of the first.
static uint32_t list_stretch(const vt_seq *s, uint32_t group, uint32_t end, bool mapped,
                             uint32_t *first)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < end; i++) {
        const vti_swapped *e = &s->swapped[i];
        if (e->group != group || is_mapped(s, e) != mapped) continue;
        if (n == 0) *first = e->position;
        if (e->position != *first + n) break;
        n++;
    }
    return n;
}

// How many entries from `i` on are at neighbouring positions of one lane.
static uint32_t list_run(const vt_seq *s, uint32_t i)
{
    const vti_swapped *e = &s->swapped[i];
    uint32_t n = 1;
    while (i + n < s->n_swapped && e[n].group == e->group && e[n].position == e->position + n) n++;
    return n;
}

// Mappings that they cost while they can be written although those around them cannot.
static uint64_t list_guard_runs(const vt_seq *s)
{
    uint64_t n_run = 0;
    for (uint32_t i = 0; i < s->n_swapped; i += list_run(s, i)) {
        const vti_swapped *e = &s->swapped[i];
        if (e->position < s->span->lane[e->group].n_ro)
            n_run += 2 * (uint64_t)s->m->geo.group[e->group].n_view;
    }
    return n_run;
}

static uint64_t list_bytes(const vt_seq *s, bool mapped)
{
    uint64_t n = 0;
    for (uint32_t i = 0; i < s->n_swapped; i++)
        if (is_mapped(s, &s->swapped[i]) == mapped)
            n += s->m->geo.group[s->swapped[i].group].chunk_bytes;
    return n;
}

uint64_t vti_coming_bytes(const vt_manager *m)
{
    uint64_t n = 0;
    for (const vti_move *mv = m->moves; mv; mv = mv->older)
        if (mv->phase <= VTI_MOVE_UNMAP && !mv->seq->span->is_lost) n += list_bytes(mv->seq, true);
    return n;
}

// ---- From phase to phase. Each answers whether it has changed the phase.

static bool go_to(vt_seq *s, vti_move_phase phase)
{
    s->move->phase = phase;
    return true;
}

static void reserve_runs(vt_seq *s, uint64_t n_run)
{
    s->m->runs_reserved += n_run;
    s->move->n_run += n_run;
}

static bool end_move(vt_seq *s, vt_status st)
{
    s->m->runs_reserved -= s->move->n_run;
    s->move->n_run = 0;
    s->move->st = st;
    return go_to(s, VTI_MOVE_DONE);
}

static bool begin_back(vt_seq *s)
{
    reserve_runs(s, list_guard_runs(s));
    return go_to(s, VTI_MOVE_BACK);
}

static bool begin_copy(vt_seq *s, vti_job_kind kind)
{
    s->move->copy = (vti_copy){.job = {.kind = kind, .span = s->span->id, .n = s->n_swapped},
                               .span = s->span,
                               .list = s->swapped};
    return go_to(s, kind == VTI_JOB_WRITE ? VTI_MOVE_WRITE : VTI_MOVE_READ);
}

// True: it has ended, well or not.
static bool copy_ended(vt_seq *s)
{
    vti_copy *c = &s->move->copy;
    if (c->job.in_flight) return false;
    if (c->job.st != VT_OK || c->job.n_done == c->job.n) return true;
    if (vti_copy_post(s->m, c) != VT_ENOMEM) return false; // with the mapper, or its queue is full
    c->job.st = VT_ENOMEM;
    return true;
}

static bool pass_fence(vt_seq *s)
{
    bool is_passed;
    vt_status st = vti_fence_passed(s->m, s->move->ticket, false, &is_passed);
    if (st == VT_OK && !is_passed) return false;
    if (st == VT_OK) return begin_copy(s, VTI_JOB_WRITE);
    list_drop_in(s);
    return end_move(s, st);
}

// How the lane jobs of this phase ended: a failure of one of them, once.
static vt_status lanes_status(vt_seq *s)
{
    vt_status st = s->ahead;
    s->ahead = VT_OK;
    return s->span->is_lost ? VT_EDEVICE : st;
}

static bool unmapping_failed(vt_seq *s, vt_status st)
{
    vti_span_settle(s->m, s->span);
    list_note_out(s);
    for (uint32_t i = 0; i < s->n_swapped && !s->span->is_lost; i++)
        if (s->swapped[i].is_out && is_mapped(s, &s->swapped[i]))
            vti_span_quarantine(s->m, s->span);
    if (s->span->is_lost) return end_move(s, VT_EDEVICE);
    list_drop_in(s);
    s->move->st = st;
    return s->move->had_none && s->n_swapped > 0 ? begin_back(s) : end_move(s, st);
}

// Entries that the swap has whole, from the first on.
static uint32_t n_written(const vt_seq *s)
{
    vti_move *mv = s->move;
    if (mv->phase == VTI_MOVE_UNMAP) return s->n_swapped;
    return mv->phase == VTI_MOVE_WRITE
               ? atomic_load_explicit(&mv->copy.n_moved, memory_order_acquire)
               : 0;
}

// *is_done: nothing of it is mapped any more.
static vt_status post_unmaps(vt_seq *s, bool *is_done)
{
    vt_manager *m = s->m;
    vt_status st = lanes_status(s);
    uint32_t end = n_written(s);
    *is_done = true;
    for (uint32_t g = 0; g < m->geo.n_group && st == VT_OK; g++) {
        vti_job_spec spec = {.kind = VTI_JOB_UNMAP, .deadline = VTI_SOON};
        bool in_flight = s->span->lane[g].job.in_flight;
        if (!in_flight) spec.n = list_stretch(s, g, end, true, &spec.first);
        if (spec.n > 0) st = vti_job_post(m, s->span, g, &spec);
        if (st == VT_NOSPACE) st = VT_OK; // a full queue: later
        *is_done &= !in_flight && spec.n == 0;
    }
    return st;
}

static bool write_rows(vt_seq *s)
{
    vti_copy *c = &s->move->copy;
    bool is_new = !c->job.in_flight && c->job.n_done == 0; // it begins now
    bool has_unmapped, has_ended = copy_ended(s);
    vt_status st = has_ended ? c->job.st : VT_OK;
    if (st == VT_OK && !is_new && !s->move->is_hasty) st = post_unmaps(s, &has_unmapped);
    list_note_out(s);
    if (st == VT_OK) return has_ended && go_to(s, VTI_MOVE_UNMAP);
    vti_job_settle(s->m, &c->job);
    return unmapping_failed(s, st);
}

static bool unmap_rows(vt_seq *s)
{
    vt_manager *m = s->m;
    bool is_done;
    vt_status st = post_unmaps(s, &is_done);
    if (st != VT_OK) return unmapping_failed(s, st);
    if (!is_done) return false;
    list_note_out(s);
    if (s->move->st == VT_OK) m->count.swap_out_chunks += s->move->n_new;
    return end_move(s, s->move->st);
}

// It stays in the swap. The gaps were there before, but for those of other positions.
static bool give_up(vt_seq *s, vt_status st)
{
    uint64_t n_hole;
    (void)count_out(s, &n_hole);
    reserve_runs(s, n_hole);
    s->move->n_new = 0;
    s->move->had_none = false;
    if (s->move->st == VT_OK) s->move->st = st;
    return go_to(s, VTI_MOVE_UNMAP);
}

// Takes chunks for a stretch: first what other sequences have left, which may have to be unmapped
// by the mapper; then, a portion at a time, what the caller may take at once. VT_BUSY: not yet.
static vt_status plan_stretch(vt_seq *s, uint32_t group, uint32_t first, uint32_t *n)
{
    vt_manager *m = s->m;
    uint32_t all = *n;
    vt_status st = vti_plan_make(m, s->span, group, first, n, VTI_AHEAD);
    if (st != VT_NOSPACE && st != VT_NOMAPS) return st;
    if (!s->move->is_hasty && m->vset.mapped_free_bytes[VTI_SPAN_IDLE] > 0) return VT_BUSY;
    uint32_t portion = vti_portion_chunks(m, m->geo.group[group].cls);
    if (portion > all) portion = all;
    *n = portion;
    st = vti_plan_make(m, s->span, group, first, n, VTI_NOW);
    if (st != VT_BUSY || !s->move->is_hasty) return st;
    vti_sources_release(m, true);
    (void)vti_spans_reap(m, VTI_REAP_WAIT);
    VT_TRY(vti_live_spans_await(m)); // kernels may read what other sequences have ready
    *n = portion;
    return vti_plan_make(m, s->span, group, first, n, VTI_NOW);
}

// What comes is overwritten at once, so it is not wiped.
static vt_status back_stretch(vt_seq *s, uint32_t group, uint32_t first, uint32_t n)
{
    vt_manager *m = s->m;
    const vti_lane *l = &s->span->lane[group];
    vti_job_spec spec = {VTI_JOB_BACK, first, n, VT_VMM_WRITE, VTI_SWAP};
    VT_TRY(plan_stretch(s, group, first, &spec.n));
    for (uint32_t i = 0; i < spec.n; i++) l->plan[i].is_dirty = false;
    vt_status st = vti_job_post(m, s->span, group, &spec);
    if (st == VT_OK) return VT_OK;
    for (uint32_t i = 0; i < spec.n; i++) l->plan[i].is_dirty = true;
    vti_plan_drop(m, m->geo.group[group].cls, l->plan, 0, spec.n);
    return st == VT_NOSPACE ? VT_OK : st; // a full queue: later
}

static bool back_rows(vt_seq *s)
{
    vt_manager *m = s->m;
    bool is_done = true;
    vt_status st = lanes_status(s);
    if (st == VT_NOSPACE && vti_system_note_full(m)) st = VT_OK; // chunks that exist will do
    for (uint32_t g = 0; g < m->geo.n_group && st == VT_OK; g++) {
        uint32_t first = 0, n = 0;
        bool in_flight = s->span->lane[g].job.in_flight;
        if (!in_flight) n = list_stretch(s, g, s->n_swapped, false, &first);
        if (n > 0) st = back_stretch(s, g, first, n);
        if (st == VT_BUSY) st = s->move->is_hasty ? VT_NOSPACE : VT_OK;
        is_done &= !in_flight && n == 0;
    }
    if (st != VT_OK) return give_up(s, st);
    return is_done && begin_copy(s, VTI_JOB_READ);
}

static bool read_rows(vt_seq *s)
{
    vt_manager *m = s->m;
    if (!copy_ended(s)) return false;
    vt_status st = s->move->copy.job.st;
    m->count.swap_corrupt += s->move->copy.is_corrupt;
    for (uint32_t i = 0, n; i < s->n_swapped && st == VT_OK; i += n) {
        const vti_swapped *e = &s->swapped[i];
        vti_lane *l = &s->span->lane[e->group];
        n = list_run(s, i);
        // It may have rows beyond the length, of tokens that were truncated.
        size_t end = (e->position + n) * m->geo.group[e->group].slice_bytes;
        if (end > l->dirty_end) l->dirty_end = end;
        st = vti_lane_guard_again(m, s->span, e->group, e->position, e->position + n);
    }
    if (st != VT_OK) return give_up(s, st);
    m->count.swap_in_chunks += s->n_swapped;
    vti_swap_forget(s);
    return end_move(s, s->move->st);
}

// As far as it goes now.
static void move_on(vt_seq *s)
{
    static bool (*const phase[VTI_N_MOVE_PHASE])(vt_seq *) = {
        [VTI_MOVE_FENCE] = pass_fence, [VTI_MOVE_WRITE] = write_rows, [VTI_MOVE_UNMAP] = unmap_rows,
        [VTI_MOVE_BACK] = back_rows,   [VTI_MOVE_READ] = read_rows,
    };
    while (s->move->phase != VTI_MOVE_DONE && phase[s->move->phase](s)) {
    }
}

void vti_moves_continue(vt_manager *m)
{
    for (vti_move *mv = m->moves; mv; mv = mv->older) move_on(mv->seq);
}

bool vti_moves_yield(vt_manager *m)
{
    for (vti_move *mv = m->moves; mv; mv = mv->older) {
        vt_seq *s = mv->seq;
        vti_span *sp = s->span;
        if (sp->is_lost || n_written(s) == 0) continue;
        uint64_t had = vti_pset_bytes(&m->pset, VTI_POOLED);
        vti_span_settle(m, sp);
        for (uint32_t g = 0; g < m->geo.n_group && !sp->is_lost; g++) {
            vti_job_spec spec = {.kind = VTI_JOB_UNMAP};
            uint32_t most = vti_portion_chunks(m, m->geo.group[g].cls);
            spec.n = list_stretch(s, g, n_written(s), true, &spec.first);
            if (spec.n > most) spec.n = most;
            if (spec.n > 0) (void)vti_job_now(m, sp, g, &spec);
        }
        list_note_out(s);
        if (vti_pset_bytes(&m->pset, VTI_POOLED) > had) return true;
    }
    return false;
}

// ---- Waiting

static vt_status tell_end(vt_seq *s)
{
    vt_status st = s->move->st;
    vti_move_end(s);
    return st;
}

void vti_seq_arrive(vt_seq *s)
{
    if (!s->move) return;
    vt_manager *m = s->m;
    vti_move *mv = s->move;
    mv->is_hasty = true;
    for (move_on(s); mv->phase != VTI_MOVE_DONE; move_on(s)) {
        if (mv->phase == VTI_MOVE_FENCE) {
            vt_status st = vti_fence_await(m, mv->ticket);
            if (st == VT_OK) continue;
            list_drop_in(s);
            (void)end_move(s, st);
            continue;
        }
        // If nothing is in flight, the mapper's queue was full.
        if (!mv->copy.job.in_flight && !vti_span_in_flight(&m->vset, s->span)) vti_jobs_settle(m);
        vti_job_await(m, &mv->copy.job);
        for (uint32_t g = 0; g < m->geo.n_group; g++) vti_job_await(m, &s->span->lane[g].job);
    }
}

vt_status vti_move_wait(vt_seq *s)
{
    vti_seq_arrive(s);
    return tell_end(s);
}

// ---- Out

static vt_status move_begin(vt_seq *s, vti_move_phase phase, bool is_out)
{
    s->move = calloc(1, sizeof *s->move);
    if (!s->move) return VT_ENOMEM;
    *s->move = (vti_move){.seq = s, .older = s->m->moves, .phase = phase, .is_out = is_out};
    if (s->m->moves) s->m->moves->newer = s->move;
    s->m->moves = s->move;
    vti_seq_count_slack(s);
    s->ahead = VT_OK; // of an earlier prepare
    return VT_OK;
}

static vt_status begin_out(vt_seq *s)
{
    vt_manager *m = s->m;
    bool had_none = s->n_swapped == 0;
    uint64_t n_hole;
    VT_TRY(vti_swap_open(m));
    vti_span_settle(m, s->span);
    if (s->span->is_lost) return VT_EDEVICE;
    uint32_t n_out = count_out(s, &n_hole);
    if (n_out == 0) return VT_OK;
    if (n_out > m->swap.n_free) vti_job_settle(m, &m->swap.drop.job);
    if (n_out > m->swap.n_free) return VT_NOSWAP;
    VT_TRY(vti_runs_make(m, s->span, n_hole));
    VT_TRY(vti_fence_take(m, s->span));
    VT_TRY(move_begin(s, VTI_MOVE_FENCE, true));
    vt_status st = list_add(s, n_out);
    if (st != VT_OK) {
        (void)tell_end(s);
        return st;
    }
    s->move->had_none = had_none;
    s->move->n_new = n_out;
    s->move->ticket = s->span->fence;
    reserve_runs(s, n_hole);
    return VT_OK;
}

// Before a call in one direction: what the last one in the other direction has left.
static void turn_to(vt_seq *s, bool out)
{
    vti_move *mv = s->move;
    if (!mv || mv->is_out == out) return;
    if (mv->phase == VTI_MOVE_DONE) {
        (void)tell_end(s);
        return;
    }
    const bool goes_out = mv->phase <= VTI_MOVE_UNMAP;
    mv->is_out = out;
    mv->st = VT_OK;
    if (goes_out == out) return;
    vti_job_settle(s->m, &mv->copy.job);
    vti_span_settle(s->m, s->span);
    if (out) {
        (void)give_up(s, VT_OK);
        return;
    }
    list_note_out(s);
    list_drop_in(s);
    (void)(s->n_swapped > 0 ? begin_back(s) : end_move(s, VT_OK));
}

static vt_status move_answer(vt_seq *s)
{
    move_on(s);
    return s->move->phase == VTI_MOVE_DONE ? tell_end(s) : VT_BUSY;
}

static vt_status swap_out_seq(vt_seq *s)
{
    vti_jobs_take(s->m);
    turn_to(s, true);
    if (s->move) VT_TRY(move_answer(s));
    VT_TRY(begin_out(s));
    return s->move ? move_answer(s) : VT_OK;
}

// What is not there yet is no shortage.
static vt_status tally_move(vt_manager *m, vt_status st)
{
    return st == VT_BUSY ? st : vti_tally_answer(m, st);
}

vt_status vt_seq_swap_out(vt_seq *s)
{
    return tally_move(s->m, swap_out_seq(s));
}

// ---- In

// Room that is still to come is waited for while the sequence moves.
static vt_status begin_in(vt_seq *s)
{
    vti_span_settle(s->m, s->span);
    if (s->span->is_lost) return VT_EDEVICE;
    vt_status st = vti_span_room(s->m, s->span, list_bytes(s, false), s->len_tok);
    if (st != VT_OK && st != VT_BUSY) return st;
    VT_TRY(vti_runs_make(s->m, s->span, list_guard_runs(s)));
    VT_TRY(move_begin(s, VTI_MOVE_BACK, false));
    (void)begin_back(s);
    return VT_OK;
}

static vt_status swap_in_seq(vt_seq *s)
{
    vti_jobs_take(s->m);
    turn_to(s, false);
    if (s->move) return move_answer(s);
    if (!s->swapped) return VT_OK;
    VT_TRY(begin_in(s));
    return move_answer(s);
}

vt_status vt_seq_swap_in(vt_seq *s)
{
    return tally_move(s->m, swap_in_seq(s));
}
