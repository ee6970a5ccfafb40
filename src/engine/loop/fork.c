// fork.c - caches for choices and beams: forks that share chunks, and one policy for a fork that
// fails.
//
// Whatever the error, the group is preempted and computed again, since memory or mappings may be
// available then. While other groups run, they may hold what is missing, so only the forks that
// fail when it runs alone soon end it with an error: MAX_TRIES_ALONE in a row while its longest
// sequence did not grow. MAX_TRIES bounds the retries where others always run. A beam search grows
// by a token even where every fork fails, so it always completes.
#include "engine/loop/loop.h"
#include "engine/memory/room.h"

#define MAX_TRIES_ALONE 16
#define MAX_TRIES       1024

static int longest_seq_tok(const fxi_group *g)
{
    int n = 0;
    for (int i = 0; i < g->n_seq; i++)
        if (g->seq[i].n_tok > n) n = g->seq[i].n_tok;
    return n;
}

// Whether no other group holds memory. One in the swap holds what it shares: it lets go of that.
static bool is_alone(fx_engine *eng)
{
    return eng->running.head == eng->running.tail && !eng->n_leaving && !eng->n_coming &&
           !fxi_preempt_drop_swapped(eng);
}

// Counts a failed fork. False: no tries are left.
static bool count_fork_failure(fx_engine *eng, fxi_group *g)
{
    const int n_tok = longest_seq_tok(g);
    if (n_tok > g->fork_fail_tok) g->n_fork_fail = g->n_fork_fail_alone = 0;
    g->fork_fail_tok = n_tok;
    g->n_fork_fail++;
    g->n_fork_fail_alone += is_alone(eng);
    return g->n_fork_fail < MAX_TRIES && g->n_fork_fail_alone < MAX_TRIES_ALONE;
}

// The failure policy. True: the group was preempted; false: its failure is decided.
static bool retry_or_fail(fx_engine *eng, fxi_group *g)
{
    static const char failed[] = "the KV cache of the prompt could not be forked for all choices";
    const bool may_retry = count_fork_failure(eng, g);
    if (may_retry)
        fxi_preempt_group(eng, g, FXI_RECOMPUTE);
    else if (fxi_request_bytes(eng, &g->req, g->max_tok) > eng->budget_bytes)
        fxi_group_refuse(g, FX_ENOSPACE, failed); // the budget has shrunk
    else
        fxi_group_fail(g, failed);
    return may_retry;
}

// ---- choices -----------------------------------------------------------------------------------

// Gives s, which has the first n_tok tokens of `from`, a cache with them. Where the manager cannot
// fork, s gets none: it will be matched, and what is not recorded computed again.
static bool fork_cache(fx_engine *eng, fxi_seq *s, const fxi_seq *from, int n_tok)
{
    const bool can = fxi_kv_can(eng->kv, FXI_KV_FORK);
    const fx_status st = can ? fxi_kv_fork(eng->kv, from->kv, n_tok, &s->kv) : FX_OK;
    if (can) fxi_engine_note_call(eng, fxi_engine_seq_event(FX_RECORD_fork, s, n_tok), st);
    if (st != FX_OK) return false;
    s->n_computed = can ? n_tok : 0;
    s->n_recorded = can ? from->n_recorded : 0;
    return true;
}

// Makes an unborn s another choice, with the prompt that the first one has computed.
static bool fork_choice(fx_engine *eng, fxi_seq *s, const fxi_seq *first)
{
    const int n = (int)s->group->req.n_prompt;
    if (!fxi_seq_reserve(s, n + 1) || !fork_cache(eng, s, first, n)) return false;
    for (int i = 0; i < n; i++) s->tok[i] = first->tok[i];
    s->n_tok = n;
    s->n_prompt_emitted = first->n_prompt_emitted;
    s->state = FXI_SEQ_LIVE;
    return true;
}

// Before a retry all choices but the first are dropped: the prompt's end is computed again.
bool fxi_fork_choices(fx_engine *eng, fxi_group *g)
{
    int n = 1;
    while (n < g->n_seq && fork_choice(eng, &g->seq[n], &g->seq[0])) n++;
    if (n == g->n_seq) return true;
    if (!retry_or_fail(eng, g)) return false;
    for (int i = 1; i < g->n_seq; i++) fxi_seq_clear(&g->seq[i]);
    return false;
}

// ---- beams -------------------------------------------------------------------------------------

// Moves each beam's cache to the first of its children; a beam without children releases it.
static void hand_down(fx_engine *eng, fxi_group *g, int n)
{
    fxi_seq *next = g->beam->next;
    for (int i = 0; i < g->n_seq; i++) {
        fxi_seq *parent = &g->seq[i];
        int k = 0;
        while (k < n && next[k].choice != i) k++;
        if (k < n)
            next[k].kv = parent->kv;
        else
            fxi_cache_release(eng, parent);
        parent->kv = NULL;
    }
}

// Forks caches for the children that have none, from the first child of the same beam.
static bool fork_siblings(fx_engine *eng, fxi_group *g, int n)
{
    fxi_seq *next = g->beam->next;
    for (int k = 0; k < n; k++) {
        if (next[k].kv) continue;
        int heir = 0;
        while (next[heir].choice != next[k].choice) heir++;
        if (!fork_cache(eng, &next[k], &next[heir], next[k].n_computed)) return false;
    }
    return true;
}

static void install_beams(fxi_group *g, int n)
{
    fxi_beam *b = g->beam;
    for (int k = 0; k < g->n_seq; k++) {
        fxi_seq_clear(&g->seq[k]);
        if (k >= n) continue;
        g->seq[k] = b->next[k];
        g->seq[k].choice = k;
        b->next[k] = (fxi_seq){.group = g};
    }
}

void fxi_fork_beams(fx_engine *eng, fxi_group *g, int n)
{
    hand_down(eng, g, n);
    const bool forked = fork_siblings(eng, g, n);
    install_beams(g, n);
    if (!forked) (void)retry_or_fail(eng, g);
}
