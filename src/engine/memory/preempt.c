// preempt.c - takes requests out of memory, always as a whole, and brings them back.
//
//   recompute   the computed tokens are recorded in the prefix cache, and the caches released. Idle
//               prefixes are evicted only as memory is needed, the least recently used first
//   swap        the caches are written to the swap and read back later
//
// Swapping runs in the background: a request is SWAPPING_OUT or SWAPPING_IN for some iterations, in
// which others are served (request.h has the states). Memory comes free while it is swapped out.
// Whatever fails on the way ends in recompute.
//
// The cheaper way is chosen, by the time that it takes from sequences, this one and those that run:
//
//   recompute   tokens x the measured rate of prompts, from everyone, since all share the passes
//   swap        what comes free, there and back x the measured rate of the copies, from this one;
//               and from the others the share of a thread that copies, or all of it where they wait
//
// Where memory is still short and swapping out takes longer than recompute, the request changes
// over to that. After a preemption, admissions leave more headroom (headroom_tok, admit.c), so that
// requests do not move in and out all the time.
#include "engine/memory/kv_memory.h"

#define MAX_HEADROOM_TOK 1024
#define SMOOTHING        0.25 // weight of a new measurement

static void smooth_rate(double *value, double now)
{
    *value = *value > 0 ? *value + SMOOTHING * (now - *value) : now;
}

// Only steps that are mostly prompt show what a prompt token costs.
void fxi_preempt_measure(fxi_memory *m, int n_prompt_tok, int n_tok, uint64_t us)
{
    if (2 * n_prompt_tok > n_tok) smooth_rate(&m->us_per_tok, (double)us / n_tok);
}

// The copies since the last measurement, whichever requests they belong to. How long a request is
// on its way says nothing about them: the passes between its iterations count too.
static void measure_swap(fxi_memory *m)
{
    const fxi_kv_moved now = fxi_kv_get_moved(m->kv);
    const uint64_t bytes = now.bytes - m->measured.bytes, ns = now.ns - m->measured.ns;
    if (!bytes) return;
    if (!m->measured.bytes) m->swap_us_per_byte = 0; // it was a guess
    smooth_rate(&m->swap_us_per_byte, (double)ns / 1e3 / (double)bytes);
    m->measured = now;
}

// ---- costs -------------------------------------------------------------------------------------

// Tokens in the caches of a request, its prompt counted once.
static int n_tok_in_caches(const fxi_live_request *r)
{
    const int n_prompt = (int)r->spec.n_prompt;
    int prompt = 0, answers = 0;
    for (int i = 0; i < r->n_seq; i++) {
        const int n = r->seq[i].kv ? r->seq[i].n_computed : 0;
        const int of_prompt = n < n_prompt ? n : n_prompt;
        if (of_prompt > prompt) prompt = of_prompt;
        answers += n - of_prompt;
    }
    return prompt + answers;
}

uint64_t fxi_preempt_bytes(const fxi_memory *m, const fxi_live_request *r)
{
    return fxi_kv_bytes_for(m->kv, n_tok_in_caches(r));
}

static double recompute_us(const fxi_memory *m, const fxi_live_request *r)
{
    return m->us_per_tok * n_tok_in_caches(r);
}

// What stays in memory while the request is swapped is lost to everyone: recorded prefixes would
// only have to be evicted later.
static bool should_swap(const fxi_memory *m, const fxi_live_request *r)
{
    uint64_t gain = 0; // bytes that come free
    fxi_kv_stats kv;
    fxi_kv_get_stats(m->kv, &kv);
    const bool has_room = m->sched->n_swapped + r->n_seq <= m->service->max_seq &&
                          kv.swapped_bytes + fxi_preempt_bytes(m, r) <= m->swap_bytes;
    if (!fxi_kv_can(m->kv, FXI_KV_SWAP) || !has_room) return false;
    for (int i = 0; i < r->n_seq; i++)
        if (r->seq[i].kv) gain += fxi_kv_swap_gain(m->kv, r->seq[i].kv, r->seq[i].n_recorded);
    if (2 * gain < fxi_preempt_bytes(m, r)) return false;
    const int n_others = m->sched->running.n_seq - (r->state == FXI_RUNNING ? r->n_seq : 0);
    const double swap_us = 2 * m->swap_us_per_byte * (double)gain;
    return swap_us * (1 + n_others * m->copy_share) < recompute_us(m, r) * (1 + n_others);
}

// ---- on the way --------------------------------------------------------------------------------

typedef fx_status move_fn(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving);

// Moves every sequence of the request. Returns the first failure; *is_moving: some have not
// arrived.
static fx_status move_each(fxi_memory *m, fxi_live_request *r, move_fn *move, bool *is_moving)
{
    fx_status first = FX_OK;
    *is_moving = false;
    for (int i = 0; i < r->n_seq; i++) {
        bool moves = false;
        r->seq[i].n_planned = 0;
        const fx_status st = r->seq[i].kv ? move(m->kv, r->seq[i].kv, &moves) : FX_OK;
        if (first == FX_OK) first = st;
        *is_moving |= moves;
    }
    return first;
}

static void set_moving(fxi_memory *m, fxi_live_request *r, fxi_request_state way)
{
    if (r->state != way) r->swap_since_us = fxi_journal_us(m->journal);
    fxi_sched_move(m->sched, r, way);
}

// A request that is SWAPPED waits until others free memory.
static void arrive_at(fxi_memory *m, fxi_live_request *r, fxi_request_state at)
{
    measure_swap(m);
    fxi_sched_move(m->sched, r, at);
    m->sched->n_freed++;
    r->tried_at = at == FXI_SWAPPED ? m->sched->n_freed : 0;
}

// ---- out ---------------------------------------------------------------------------------------

// The caches are lost; the tokens are not.
static void drop_caches(fxi_memory *m, fxi_live_request *r)
{
    fxi_stats_add(m->stats, &m->stats->now.n_preempt_recompute, 1);
    fxi_cache_release_all(m, r);
    fxi_sched_move(m->sched, r, FXI_WAITING);
    m->sched->n_freed++;
}

// What is still in memory, and whole, is recorded first.
static void drop_computed(fxi_memory *m, fxi_live_request *r)
{
    const bool can_swap = fxi_kv_can(m->kv, FXI_KV_SWAP);
    for (int i = 0; i < r->n_seq; i++) {
        fxi_seq *s = &r->seq[i];
        bool is_out = false;
        if (!s->kv || (can_swap && fxi_kv_swap_in(m->kv, s->kv, &is_out) != FX_OK)) continue;
        if (!is_out) fxi_cache_record_all(m, s);
    }
    drop_caches(m, r);
}

// Begins or continues. False: it failed, and the caches are where they happen to be.
static bool swap_out(fxi_memory *m, fxi_live_request *r)
{
    bool is_moving;
    if (!fxi_kv_can(m->kv, FXI_KV_SWAP)) return false;
    if (move_each(m, r, fxi_kv_swap_out, &is_moving) != FX_OK) return false;
    if (is_moving)
        set_moving(m, r, FXI_SWAPPING_OUT);
    else
        arrive_at(m, r, FXI_SWAPPED);
    return true;
}

void fxi_preempt_request(fxi_memory *m, fxi_live_request *r, fxi_preempt_how how)
{
    fxi_sched *d = m->sched;
    if (how == FXI_PREEMPT_CHEAPER) {
        const bool swaps = r->state == FXI_SWAPPING_IN || should_swap(m, r);
        how = swaps ? FXI_SWAP : FXI_RECOMPUTE;
    }
    fxi_journal_note(m->journal, (fx_record){.kind = FX_RECORD_preempt,
                                             .request = r->id,
                                             .n_tok = (uint32_t)n_tok_in_caches(r),
                                             .n = (uint32_t)r->n_seq,
                                             .is_swap = how == FXI_SWAP});
    if (how == FXI_RECOMPUTE || !swap_out(m, r)) drop_computed(m, r);
    d->headroom_tok =
        2 * d->headroom_tok < MAX_HEADROOM_TOK ? 2 * d->headroom_tok : MAX_HEADROOM_TOK;
    r->tried_at = ++d->n_freed; // others may find memory; the request itself waits for more
    if (r->state != FXI_WAITING) fxi_stats_add(m->stats, &m->stats->now.n_preempt_swap, 1);
}

static fxi_live_request *last_of(const fxi_request_list *l, fxi_request_state state)
{
    fxi_live_request *r = l->tail;
    while (r && r->state != state) r = r->prev;
    return r;
}

bool fxi_preempt_last(fxi_memory *m, bool may_be_only)
{
    const fxi_sched *d = m->sched;
    fxi_live_request *last = d->running.tail, *coming = last_of(&d->aside, FXI_SWAPPING_IN);
    const bool is_only = !coming && last == d->running.head;
    if (!last || (coming && fxi_request_goes_before(last, coming))) last = coming;
    if (!last || (is_only && !may_be_only)) return fxi_preempt_drop_swapped(m);
    // One that is swapped in alone would only come back to find as little memory.
    const bool is_alone = !d->running.head && d->n_swapping_in == last->n_seq;
    const bool recomputes = is_alone && last->state == FXI_SWAPPING_IN;
    fxi_preempt_request(m, last, recomputes ? FXI_RECOMPUTE : FXI_PREEMPT_CHEAPER);
    return true;
}

bool fxi_preempt_drop_late(fxi_memory *m)
{
    const uint64_t now_us = fxi_journal_us(m->journal);
    fxi_live_request *r = m->sched->n_swapping_out ? m->sched->waiting.tail : NULL;
    for (; r; r = r->prev) {
        const double us = (double)(now_us - r->swap_since_us), limit_us = recompute_us(m, r);
        if (r->state != FXI_SWAPPING_OUT || limit_us <= 0 || us <= limit_us) continue;
        drop_computed(m, r);
        return true;
    }
    return false;
}

bool fxi_preempt_drop_swapped(fxi_memory *m)
{
    fxi_live_request *r = last_of(&m->sched->waiting, FXI_SWAPPED);
    if (r) drop_caches(m, r);
    return r != NULL;
}

bool fxi_preempt_free(fxi_memory *m, bool may_be_only)
{
    if (fxi_preempt_drop_late(m)) return true;
    return !m->sched->n_swapping_out && fxi_preempt_last(m, may_be_only);
}

// ---- back --------------------------------------------------------------------------------------

void fxi_preempt_swap_in(fxi_memory *m, fxi_live_request *r)
{
    bool is_moving;
    const fx_status st = move_each(m, r, fxi_kv_swap_in, &is_moving);
    if (st == FX_OK && is_moving) {
        set_moving(m, r, FXI_SWAPPING_IN);
    } else if (st == FX_OK) {
        arrive_at(m, r, FXI_RUNNING);
    } else { // where others run, it waits in the swap until there is more memory
        const fxi_sched *d = m->sched;
        const int n_others_in = d->n_swapping_in - (r->state == FXI_SWAPPING_IN ? r->n_seq : 0);
        const bool has_others = d->running.head || d->n_swapping_out || n_others_in;
        if (st != FX_ENOSPACE || !has_others || !swap_out(m, r)) drop_caches(m, r);
    }
}

void fxi_preempt_continue(fxi_memory *m)
{
    fxi_sched *d = m->sched;
    for (fxi_live_request *r = d->n_swapping_out ? d->waiting.head : NULL, *next; r; r = next) {
        next = r->next;
        if (r->state == FXI_SWAPPING_OUT && !swap_out(m, r)) drop_computed(m, r);
    }
    for (fxi_live_request *r = d->n_swapping_in ? d->aside.head : NULL, *next; r; r = next) {
        next = r->next;
        if (r->state == FXI_SWAPPING_IN) fxi_preempt_swap_in(m, r);
    }
}
