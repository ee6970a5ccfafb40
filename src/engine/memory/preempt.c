// preempt.c - takes groups out of memory, always as a whole, and brings them back.
//
//   recompute   the computed tokens are recorded in the prefix cache, and the caches released. Idle
//               prefixes are evicted only as memory is needed, the least recently used first
//   swap        the caches are written to the swap and read back later
//
// Swapping goes on beside the engine: a group is LEAVING or COMING for some turns, in which others
// are served (group.h has the states). Memory comes free while it leaves. Whatever fails on the way
// ends in recompute.
//
// The cheaper way is chosen, by the time that it takes from sequences, this one and those that run:
//
//   recompute   tokens x the measured rate of prompts, from everyone, since all share the steps
//   swap        what comes free, there and back x the measured rate of the copies, from this one;
//               and from the others the share of a thread that copies, or all of it where they wait
//
// Where memory is still short and a group that leaves takes longer than recompute, it changes over.
// After a preemption, admissions leave more headroom (headroom_tok, admit.c), so that groups do not
// move in and out all the time.
#include "engine/memory/room.h"

#define MAX_HEADROOM_TOK 1024
#define SMOOTHING        0.25 // weight of a new measurement

static void smooth_rate(double *value, double now)
{
    *value = *value > 0 ? *value + SMOOTHING * (now - *value) : now;
}

// Only steps that are mostly prompt show what a prompt token costs.
void fxi_preempt_measure(fx_engine *eng, int n_prompt_tok, int n_tok, uint64_t us)
{
    if (2 * n_prompt_tok > n_tok) smooth_rate(&eng->us_per_tok, (double)us / n_tok);
}

// The copies since the last measurement, wherever they belong. How long a group is on its way says
// nothing of them: the steps between its turns count, too.
static void measure_swap(fx_engine *eng)
{
    const fxi_kv_moved now = fxi_kv_get_moved(eng->kv);
    const uint64_t bytes = now.bytes - eng->measured.bytes, ns = now.ns - eng->measured.ns;
    if (!bytes) return;
    if (!eng->measured.bytes) eng->swap_us_per_byte = 0; // it was a guess
    smooth_rate(&eng->swap_us_per_byte, (double)ns / 1e3 / (double)bytes);
    eng->measured = now;
}

// ---- costs -------------------------------------------------------------------------------------

// Tokens in the caches of a group, its prompt counted once.
static int n_tok_in_caches(const fxi_group *g)
{
    const int n_prompt = (int)g->req.n_prompt;
    int prompt = 0, answers = 0;
    for (int i = 0; i < g->n_seq; i++) {
        int n = g->seq[i].kv ? g->seq[i].n_computed : 0;
        int of_prompt = n < n_prompt ? n : n_prompt;
        if (of_prompt > prompt) prompt = of_prompt;
        answers += n - of_prompt;
    }
    return prompt + answers;
}

static bool swap_has_room(const fx_engine *eng, const fxi_group *g)
{
    fxi_kv_stats st;
    fxi_kv_get_stats(eng->kv, &st);
    return fxi_kv_can(eng->kv, FXI_KV_SWAP) && eng->n_swapped + g->n_seq <= eng->opt.max_seq &&
           st.swapped_bytes + fxi_preempt_bytes(eng, g) <= eng->opt.swap_bytes;
}

static double recompute_us(const fx_engine *eng, const fxi_group *g)
{
    return eng->us_per_tok * n_tok_in_caches(g);
}

// Bytes that come free if the group is swapped out.
static uint64_t swap_gain(const fx_engine *eng, const fxi_group *g)
{
    uint64_t sum = 0;
    for (int i = 0; i < g->n_seq; i++)
        if (g->seq[i].kv) sum += fxi_kv_swap_gain(eng->kv, g->seq[i].kv, g->seq[i].n_recorded);
    return sum;
}

// What stays in memory while the group is away is lost to everyone: recorded prefixes would only
// have to go where they are in the way.
static bool should_swap(const fx_engine *eng, const fxi_group *g)
{
    if (!swap_has_room(eng, g)) return false;
    const uint64_t gain = swap_gain(eng, g);
    if (2 * gain < fxi_preempt_bytes(eng, g)) return false;
    const int n_others = eng->running.n_seq - (g->state == FXI_RUNNING ? g->n_seq : 0);
    const double swap_us = 2 * eng->swap_us_per_byte * (double)gain;
    const double of_others = n_others * eng->copy_share;
    return swap_us * (1 + of_others) < recompute_us(eng, g) * (1 + n_others);
}

uint64_t fxi_preempt_bytes(const fx_engine *eng, const fxi_group *g)
{
    return fxi_kv_bytes_for(eng->kv, n_tok_in_caches(g));
}

// ---- on the way --------------------------------------------------------------------------------

typedef fx_status move_fn(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving);

// Every sequence of the group goes on. The first failure; *is_moving: some have not arrived.
static fx_status move_each(fx_engine *eng, fxi_group *g, move_fn *fn, bool *is_moving)
{
    fx_status first = FX_OK;
    *is_moving = false;
    for (int i = 0; i < g->n_seq; i++) {
        bool moves = false;
        g->seq[i].n_step = 0;
        const fx_status st = g->seq[i].kv ? fn(eng->kv, g->seq[i].kv, &moves) : FX_OK;
        if (first == FX_OK) first = st;
        *is_moving |= moves;
    }
    return first;
}

static void set_moving(fx_engine *eng, fxi_group *g, fxi_group_state way)
{
    if (g->state != way) g->moving_since_us = fxi_now_us(eng);
    fxi_lists_move(eng, g, way);
}

// A group that has left waits for the memory of others.
static void arrive_at(fx_engine *eng, fxi_group *g, fxi_group_state at)
{
    measure_swap(eng);
    fxi_lists_move(eng, g, at);
    eng->n_freed++;
    g->tried_at = at == FXI_SWAPPED ? eng->n_freed : 0;
}

// ---- out ---------------------------------------------------------------------------------------

static void count_preemption(fx_engine *eng, uint64_t *of)
{
    pthread_mutex_lock(&eng->mu);
    ++*of;
    pthread_mutex_unlock(&eng->mu);
}

// The caches are lost; the tokens are not.
static void drop_caches(fx_engine *eng, fxi_group *g)
{
    count_preemption(eng, &eng->stats.n_preempt_recompute);
    fxi_cache_release_all(eng, g);
    fxi_lists_move(eng, g, FXI_WAITING);
    eng->n_freed++;
}

// What is still in memory, and whole, is recorded first.
static void drop_computed(fx_engine *eng, fxi_group *g)
{
    const bool can_swap = fxi_kv_can(eng->kv, FXI_KV_SWAP);
    for (int i = 0; i < g->n_seq; i++) {
        fxi_seq *s = &g->seq[i];
        bool is_away = false;
        if (!s->kv || (can_swap && fxi_kv_swap_in(eng->kv, s->kv, &is_away) != FX_OK)) continue;
        if (!is_away) fxi_cache_record_all(eng, s);
    }
    drop_caches(eng, g);
}

// False: it failed, and the caches are where they happen to be.
static bool go_out(fx_engine *eng, fxi_group *g)
{
    bool is_moving;
    if (!fxi_kv_can(eng->kv, FXI_KV_SWAP)) return false;
    if (move_each(eng, g, fxi_kv_swap_out, &is_moving) != FX_OK) return false;
    if (is_moving)
        set_moving(eng, g, FXI_LEAVING);
    else
        arrive_at(eng, g, FXI_SWAPPED);
    return true;
}

static void note_preemption(fx_engine *eng, fxi_group *g)
{
    eng->headroom_tok *= 2;
    if (eng->headroom_tok > MAX_HEADROOM_TOK) eng->headroom_tok = MAX_HEADROOM_TOK;
    g->tried_at = ++eng->n_freed; // others may find room; the group itself waits for more
    if (g->state != FXI_WAITING) count_preemption(eng, &eng->stats.n_preempt_swap);
}

void fxi_preempt_group(fx_engine *eng, fxi_group *g, fxi_preempt_how how)
{
    if (g->state == FXI_COMING && how == FXI_PREEMPT_CHEAPER) how = FXI_SWAP;
    if (how == FXI_PREEMPT_CHEAPER) how = should_swap(eng, g) ? FXI_SWAP : FXI_RECOMPUTE;
    fxi_engine_note(eng, (fx_record){.kind = FX_RECORD_preempt,
                                     .request = g->id,
                                     .n_tok = (uint32_t)n_tok_in_caches(g),
                                     .n = (uint32_t)g->n_seq,
                                     .is_swap = how == FXI_SWAP});
    if (how == FXI_RECOMPUTE || !go_out(eng, g)) drop_computed(eng, g);
    note_preemption(eng, g);
}

static fxi_group *last_of(const fxi_group_list *l, fxi_group_state state)
{
    fxi_group *g = l->tail;
    while (g && g->state != state) g = g->prev;
    return g;
}

// One that comes back where nobody else is would come again, to find as little room. It is computed
// again instead.
static fxi_preempt_how how_for(const fx_engine *eng, const fxi_group *g)
{
    const bool is_alone = !eng->running.head && eng->n_coming == g->n_seq;
    return g->state == FXI_COMING && is_alone ? FXI_RECOMPUTE : FXI_PREEMPT_CHEAPER;
}

bool fxi_preempt_last(fx_engine *eng, bool may_be_only)
{
    fxi_group *last = eng->running.tail, *coming = last_of(&eng->aside, FXI_COMING);
    const bool is_only = !coming && last == eng->running.head;
    if (!last || (coming && fxi_group_goes_before(last, coming))) last = coming;
    if (!last || (is_only && !may_be_only)) return fxi_preempt_drop_swapped(eng);
    fxi_preempt_group(eng, last, how_for(eng, last));
    return true;
}

bool fxi_preempt_drop_late(fx_engine *eng)
{
    const uint64_t now_us = fxi_now_us(eng);
    for (fxi_group *g = eng->n_leaving ? eng->waiting.tail : NULL; g; g = g->prev) {
        const double us = (double)(now_us - g->moving_since_us), limit_us = recompute_us(eng, g);
        if (g->state != FXI_LEAVING || limit_us <= 0 || us <= limit_us) continue;
        drop_computed(eng, g);
        return true;
    }
    return false;
}

// ---- back --------------------------------------------------------------------------------------

bool fxi_preempt_drop_swapped(fx_engine *eng)
{
    fxi_group *g = last_of(&eng->waiting, FXI_SWAPPED);
    if (g) drop_caches(eng, g);
    return g != NULL;
}

// Where others run, it waits in the swap until there is more room.
static void coming_failed(fx_engine *eng, fxi_group *g, fx_status st)
{
    const int n_coming = eng->n_coming - (g->state == FXI_COMING ? g->n_seq : 0);
    const bool has_others = eng->running.head || eng->n_leaving || n_coming;
    if (st != FX_ENOSPACE || !has_others || !go_out(eng, g)) drop_caches(eng, g);
}

static void go_on_in(fx_engine *eng, fxi_group *g)
{
    bool is_moving;
    const fx_status st = move_each(eng, g, fxi_kv_swap_in, &is_moving);
    if (st != FX_OK)
        coming_failed(eng, g, st);
    else if (is_moving)
        set_moving(eng, g, FXI_COMING);
    else
        arrive_at(eng, g, FXI_RUNNING);
}

static void go_on_out(fx_engine *eng, fxi_group *g)
{
    if (!go_out(eng, g)) drop_computed(eng, g);
}

void fxi_preempt_swap_in(fx_engine *eng, fxi_group *g)
{
    go_on_in(eng, g);
}

void fxi_preempt_go_on(fx_engine *eng)
{
    for (fxi_group *g = eng->n_leaving ? eng->waiting.head : NULL, *next; g; g = next) {
        next = g->next;
        if (g->state == FXI_LEAVING) go_on_out(eng, g);
    }
    for (fxi_group *g = eng->n_coming ? eng->aside.head : NULL, *next; g; g = next) {
        next = g->next;
        if (g->state == FXI_COMING) go_on_in(eng, g);
    }
}
