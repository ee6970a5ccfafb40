// preempt.c - takes groups out of memory, always as a whole, and brings them back.
//
//   recompute   the computed tokens are recorded in the prefix cache, and the caches released. Idle
//               prefixes are evicted only as memory is needed, the least recently used first
//   swap        the caches are written to the swap and read back later
//
// The cheaper way is chosen: tokens to compute again, at the measured rate of prompts, against
// bytes to write and read, at the measured rate of the swap. After a preemption, admissions leave
// more headroom (headroom_tok, admit.c), so that groups do not move in and out all the time.
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

static bool should_swap(const fx_engine *eng, const fxi_group *g)
{
    if (!swap_has_room(eng, g)) return false;
    double recompute_us = eng->us_per_tok * n_tok_in_caches(g);
    double swap_us = 2 * eng->swap_us_per_byte * (double)fxi_preempt_bytes(eng, g);
    return swap_us < recompute_us;
}

uint64_t fxi_preempt_bytes(const fx_engine *eng, const fxi_group *g)
{
    return fxi_kv_bytes_for(eng->kv, n_tok_in_caches(g));
}

// ---- out ---------------------------------------------------------------------------------------

static fx_status swap_each(fx_engine *eng, fxi_group *g, fx_status (*op)(fxi_kv *kv, fxi_kv_seq *s))
{
    for (int i = 0; i < g->n_seq; i++) {
        g->seq[i].n_step = 0;
        if (g->seq[i].kv) FX_TRY(op(eng->kv, g->seq[i].kv));
    }
    return FX_OK;
}

static bool swap_group_out(fx_engine *eng, fxi_group *g)
{
    const uint64_t bytes = fxi_preempt_bytes(eng, g), start_us = fxi_now_us(eng);
    if (!fxi_kv_can(eng->kv, FXI_KV_SWAP)) return false;
    if (swap_each(eng, g, fxi_kv_swap_out) != FX_OK) return false;
    double us = (double)(fxi_now_us(eng) - start_us);
    if (bytes) smooth_rate(&eng->swap_us_per_byte, us / (double)bytes);
    return true;
}

static void drop_computed(fx_engine *eng, fxi_group *g)
{
    for (int i = 0; i < g->n_seq; i++) fxi_cache_record_all(eng, &g->seq[i]);
    fxi_cache_release_all(eng, g);
}

static void note_preemption(fx_engine *eng, fxi_group *g)
{
    eng->headroom_tok *= 2;
    if (eng->headroom_tok > MAX_HEADROOM_TOK) eng->headroom_tok = MAX_HEADROOM_TOK;
    g->tried_at = ++eng->n_freed; // others may find room; the group itself waits for more
    pthread_mutex_lock(&eng->mu);
    eng->stats.n_preempt_swap += g->state == FXI_SWAPPED;
    eng->stats.n_preempt_recompute += g->state == FXI_WAITING;
    pthread_mutex_unlock(&eng->mu);
}

void fxi_preempt_group(fx_engine *eng, fxi_group *g, fxi_preempt_how how)
{
    if (how == FXI_PREEMPT_CHEAPER) how = should_swap(eng, g) ? FXI_SWAP : FXI_RECOMPUTE;
    bool swapped = how == FXI_SWAP && swap_group_out(eng, g);
    if (!swapped) drop_computed(eng, g);
    fxi_lists_move(eng, g, swapped ? FXI_SWAPPED : FXI_WAITING);
    note_preemption(eng, g);
}

// ---- back --------------------------------------------------------------------------------------

// The caches are lost; the tokens are not.
static void drop_swapped(fx_engine *eng, fxi_group *g)
{
    fxi_cache_release_all(eng, g);
    fxi_lists_move(eng, g, FXI_WAITING);
    eng->n_freed++;
}

bool fxi_preempt_drop_swapped(fx_engine *eng)
{
    fxi_group *g = eng->waiting.tail;
    while (g && g->state != FXI_SWAPPED) g = g->prev;
    if (g) drop_swapped(eng, g);
    return g != NULL;
}

fx_status fxi_preempt_swap_in(fx_engine *eng, fxi_group *g)
{
    fx_status st = swap_each(eng, g, fxi_kv_swap_in);
    if (st == FX_OK) return FX_OK;
    const bool stays = st == FX_ENOSPACE && eng->running.head;
    if (!stays || swap_each(eng, g, fxi_kv_swap_out) != FX_OK) drop_swapped(eng, g);
    return st;
}
