// commit.c - the results of a pass, applied in the order of the requests: tokens are appended and
// emitted, beams are chosen, choices and beams get caches.
//
// Forks share chunks. There is one policy for a fork that fails: whatever the error, the request is
// preempted and computed again, since memory or mappings may be available then. While other
// requests run, they may hold what is missing, so only the forks that fail while it runs alone soon
// end it with an error: MAX_TRIES_ALONE in a row while its longest sequence did not grow. MAX_TRIES
// bounds the retries where others always run. A beam search grows by a token even where every fork
// fails, so it always completes.
#include "engine/iteration.h"

#include <math.h>
#include <stdlib.h>

#define MAX_TRIES_ALONE 16
#define MAX_TRIES       1024

// ---- forks -------------------------------------------------------------------------------------

// Counts a failed fork. False: no tries are left.
static bool count_fork_failure(fx_engine *eng, fxi_live_request *r)
{
    const fxi_sched *d = &eng->sched;
    int n_tok = 0;
    for (int i = 0; i < r->n_seq; i++)
        if (r->seq[i].n_tok > n_tok) n_tok = r->seq[i].n_tok;
    if (n_tok > r->fork_fail_tok) r->n_fork_fail = r->n_fork_fail_alone = 0;
    r->fork_fail_tok = n_tok;
    r->n_fork_fail++;
    // It is not alone while a swapped request holds what it shares, which that one loses now.
    r->n_fork_fail_alone += d->running.head == d->running.tail && !d->n_swapping_out &&
                            !d->n_swapping_in && !fxi_preempt_drop_swapped(&eng->memory);
    return r->n_fork_fail < MAX_TRIES && r->n_fork_fail_alone < MAX_TRIES_ALONE;
}

// True: the request was preempted; false: its failure is decided.
static bool retry_or_fail(fx_engine *eng, fxi_live_request *r)
{
    static const char failed[] = "the KV cache of the prompt could not be forked for all choices";
    if (count_fork_failure(eng, r)) {
        fxi_preempt_request(&eng->memory, r, FXI_RECOMPUTE);
        return true;
    }
    const uint64_t need = fxi_request_bytes(&eng->service, &r->spec, r->max_tok);
    const bool has_shrunk = need > eng->service.budget_bytes;
    fxi_request_fail(r, has_shrunk ? FX_ENOSPACE : FX_EINTERNAL, failed);
    return false;
}

// Gives s, which has the first n_tok tokens of `from`, a cache with them. Where the manager cannot
// fork, s gets none: it will be matched, and what is not recorded computed again.
static bool fork_cache(fx_engine *eng, fxi_seq *s, const fxi_seq *from, int n_tok)
{
    const bool can = fxi_kv_can(eng->kv, FXI_KV_FORK);
    const fx_status st = can ? fxi_kv_fork(eng->kv, from->kv, n_tok, &s->kv) : FX_OK;
    if (can) fxi_memory_note_call(&eng->memory, FX_RECORD_fork, s, n_tok, st);
    if (st != FX_OK) return false;
    s->n_computed = can ? n_tok : 0;
    s->n_recorded = can ? from->n_recorded : 0;
    return true;
}

// Makes an unborn s another choice, with the prompt that the first one has computed.
static bool fork_choice(fx_engine *eng, fxi_seq *s, const fxi_seq *first)
{
    const int n = (int)s->request->spec.n_prompt;
    if (!fxi_seq_reserve(s, n + 1) || !fork_cache(eng, s, first, n)) return false;
    for (int i = 0; i < n; i++) s->tok[i] = first->tok[i];
    s->n_tok = n;
    s->n_prompt_emitted = first->n_prompt_emitted;
    s->state = FXI_SEQ_LIVE;
    return true;
}

// Before a retry all choices but the first are dropped: the prompt's end is computed again.
bool fxi_commit_fork_choices(fx_engine *eng, fxi_live_request *r)
{
    int n = 1;
    while (n < r->n_seq && fork_choice(eng, &r->seq[n], &r->seq[0])) n++;
    if (n == r->n_seq) return true;
    if (!retry_or_fail(eng, r)) return false;
    for (int i = 1; i < r->n_seq; i++) fxi_seq_clear(&r->seq[i]);
    return false;
}

// Moves each beam's cache to the first of its children; a beam without children releases it.
static void hand_down(fx_engine *eng, fxi_live_request *r, int n)
{
    fxi_seq *next = r->beam->next;
    for (int i = 0; i < r->n_seq; i++) {
        fxi_seq *parent = &r->seq[i];
        int k = 0;
        while (k < n && next[k].choice != i) k++;
        if (k < n)
            next[k].kv = parent->kv;
        else
            fxi_cache_release(&eng->memory, parent);
        parent->kv = NULL;
    }
}

// Forks caches for the children that have none, from the first child of the same beam.
static bool fork_siblings(fx_engine *eng, fxi_seq *next, int n)
{
    for (int k = 0; k < n; k++) {
        if (next[k].kv) continue;
        int heir = 0;
        while (next[heir].choice != next[k].choice) heir++;
        if (!fork_cache(eng, &next[k], &next[heir], next[k].n_computed)) return false;
    }
    return true;
}

// Makes the n sequences in r->beam->next the beams of the request, each with the cache of its
// parent, whose index is in `choice`, or a fork of it.
static void fork_beams(fx_engine *eng, fxi_live_request *r, int n)
{
    fxi_seq *next = r->beam->next;
    hand_down(eng, r, n);
    const bool is_forked = fork_siblings(eng, next, n);
    for (int k = 0; k < r->n_seq; k++) {
        fxi_seq_clear(&r->seq[k]);
        if (k >= n) continue;
        r->seq[k] = next[k];
        r->seq[k].choice = k;
        next[k] = (fxi_seq){.request = r};
    }
    if (!is_forked) (void)retry_or_fail(eng, r);
}

// ---- beams -------------------------------------------------------------------------------------

static int by_sum(const void *a, const void *b)
{
    const fxi_beam_next *x = a, *y = b;
    if (x->sum != y->sum) return x->sum < y->sum ? 1 : -1;
    if (x->parent != y->parent) return x->parent < y->parent ? -1 : 1;
    if (x->next.logprob != y->next.logprob) return x->next.logprob < y->next.logprob ? 1 : -1;
    return (x->next.token > y->next.token) - (x->next.token < y->next.token);
}

static double beam_score(const fxi_live_request *r, double sum, int n_tok)
{
    return sum / pow(n_tok, (double)r->spec.length_penalty);
}

// Keeps an ended sequence with this sum of logprobs if it is among the width best so far. Takes
// over what *s owns either way.
static void keep_hypothesis(fxi_live_request *r, fxi_seq *s, double sum)
{
    fxi_beam *b = r->beam;
    double score = beam_score(r, sum, fxi_seq_n_generated(s));
    int at = b->n_done;
    while (at > 0 && score > b->done[at - 1].score) at--;
    if (at == b->width) {
        fxi_seq_clear(s);
        return;
    }
    if (b->n_done == b->width) fxi_seq_clear(&b->done[--b->n_done].s);
    memmove(&b->done[at + 1], &b->done[at], (size_t)(b->n_done - at) * sizeof b->done[0]);
    b->done[at] = (fxi_hypothesis){*s, score};
    b->n_done++;
    *s = (fxi_seq){.request = r};
}

// Whether the search may end although beams could continue; the best one has this sum and length.
static bool search_may_end(const fxi_live_request *r, double best_sum, int n_tok)
{
    const fxi_beam *b = r->beam;
    if (b->n_done < b->width) return false;
    if (r->spec.early_stop == FX_STOP_EARLY) return true;
    if (r->spec.early_stop == FX_STOP_NEVER && r->spec.length_penalty > 0) n_tok = r->max_tok;
    return beam_score(r, best_sum, n_tok) <= b->done[b->width - 1].score;
}

// Makes the empty `to` the parent's continuation by one token, and decides its finish. False: no
// memory.
static bool extend_beam(fx_engine *eng, fxi_seq *to, const fxi_sample *parent,
                        const fxi_beam_next *c)
{
    fxi_live_request *r = parent->s->request;
    const int n_vocab = eng->info.n_vocab;
    const float *row = eng->pass->logits + (size_t)parent->row * (size_t)n_vocab;
    fx_logprob top[FX_MAX_TOP];
    fx_token_prob prob;
    *to = (fxi_seq){.request = r, .stop_token = -1, .choice = parent->s->choice};
    if (!fxi_seq_copy(to, parent->s)) return false;
    if (r->spec.logprobs) fxi_logprob_of(row, n_vocab, c->next.token, r->spec.n_top, top, &prob);
    fxi_output_add(eng, to, c->next.token, r->spec.logprobs ? &prob : NULL);
    to->beam_sum = c->sum;
    return to->finish != FX_FINISH_ERROR;
}

// Fills b->next with the new beams, from the samples x[n_sample] of the request, one of each beam,
// by choice; keeps those that end as hypotheses. Returns how many beams there are, -1: no memory.
static int choose_beams(fx_engine *eng, fxi_live_request *r, const fxi_sample *x, int n_sample)
{
    fxi_beam *b = r->beam;
    int n_cand = 0, n = 0;
    for (int i = 0; i < n_sample; i++)
        for (int k = 0; k < x[i].n_next; k++) { // at most 2 x width of each beam
            const fx_logprob next = x[i].lists->next[k];
            const double sum = x[i].s->beam_sum + (double)next.logprob;
            b->cand[n_cand++] = (fxi_beam_next){i, next, sum};
        }
    qsort(b->cand, (size_t)n_cand, sizeof *b->cand, by_sum);
    if (n_cand > 2 * b->width) n_cand = 2 * b->width;
    for (int i = 0; i < n_cand && n < b->width; i++) {
        const fxi_beam_next *c = &b->cand[i];
        fxi_seq *s = &b->next[n];
        if (!extend_beam(eng, s, &x[c->parent], c)) {
            for (int k = 0; k <= n; k++) fxi_seq_clear(&b->next[k]);
            return -1;
        }
        if (s->finish == FX_FINISH_NONE)
            n++;
        else
            keep_hypothesis(r, s, c->sum);
    }
    return n;
}

// error: why a beam could not continue; NULL: all that the rules allow has been found. It is
// emitted where hypotheses are missing.
static void end_search(fx_engine *eng, fxi_live_request *r, int n, const char *error)
{
    fxi_beam *b = r->beam;
    b->is_over = true;
    for (int k = 0; k < n; k++) fxi_seq_clear(&b->next[k]);
    fxi_cache_release_all(&eng->memory, r);
    fxi_request_fail(r, error ? FX_EINTERNAL : FX_EINVAL,
                     error ? error : "the search has found fewer answers");
}

static void commit_beams(fx_engine *eng, fxi_live_request *r, const fxi_sample *x, int n_sample)
{
    const int n = choose_beams(eng, r, x, n_sample);
    const fxi_seq *best = &r->beam->next[0];
    const char *error = NULL;
    for (int i = 0; i < n_sample && !error; i++) error = x[i].error;
    if (n < 0)
        fxi_request_fail(r, FX_EINTERNAL, "no memory for the beams");
    else if (n == 0 || search_may_end(r, best->beam_sum, fxi_seq_n_generated(best)))
        end_search(eng, r, n, error);
    else
        fork_beams(eng, r, n);
}

// ---- tokens ------------------------------------------------------------------------------------

static void commit_sample(fx_engine *eng, const fxi_sample *x)
{
    if (x->s->finish == FX_FINISH_ERROR) return; // another sample has ended its request
    if (x->position)
        fxi_output_prompt_prob(eng, x->s, x->position, &x->prob);
    else if (x->tok < 0 && x->error)
        fxi_seq_fail(x->s, FX_EINTERNAL, x->error);
    else if (x->tok < 0)
        fxi_seq_fail(x->s, FX_EINVAL, "the request's rules leave no token to continue with");
    else
        fxi_output_add(eng, x->s, x->tok, x->has_prob ? &x->prob : NULL);
}

int fxi_commit_samples(fx_engine *eng)
{
    const fxi_forward *p = eng->pass;
    int n_sampled = 0;
    for (int i = 0, n; i < p->n_sample; i += n) {
        const fxi_sample *x = &p->sample[i];
        fxi_live_request *r = x->s->request;
        const bool is_beam = r->beam && !x->position;
        bool is_broken = x->is_broken;
        for (n = 1; is_beam && i + n < p->n_sample && x[n].s->request == r; n++)
            is_broken |= x[n].is_broken;
        n_sampled += !x->position;
        if (!x->position) fxi_clients_serve(&eng->sched.clients, r->client, 0, n);
        // Weights or a cache that are broken, or a model that overflows: no token means anything.
        if (is_broken)
            fxi_request_fail(r, FX_EINTERNAL,
                             "the model computed logits that are not finite numbers");
        else if (is_beam)
            commit_beams(eng, r, x, n);
        else
            commit_sample(eng, x);
    }
    return n_sampled;
}
