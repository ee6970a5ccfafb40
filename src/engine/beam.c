// beam.c - beam search: of all continuations of all beams, the beam_width likeliest go on.
//
//   candidates   of each beam its 2 x width likeliest tokens; of all of them the 2 x width with the
//                largest sum of logprobs, ties to the lower beam, then to the likelier token
//   in order     one that ends (end-of-text or stop token) becomes a hypothesis; another goes on,
//                until width beams do; one whose text then holds a stop string, or that has max_tok
//                tokens, becomes a hypothesis too
//   score        sum of logprobs / tokens^length_penalty, tokens of the answer, its end included
//   the end      fx_early_stop, or no beam is left
//
// Logprobs are those of the logits after the rules up to the penalties: what a rule bans is in no
// beam, and where no rule applies they are the model's own. A beam that goes on in more than one way is
// forked: chunks are shared, whoever grows first gets a copy of the last one. The first of its
// continuations keeps the cache; caches of beams that are dropped are released before.
#include "engine/internal.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

typedef struct hypothesis {
    fxi_seq s; // an answer without a cache
    double score;
} hypothesis;

typedef struct candidate {
    int parent; // index of the input
    fx_logprob next;
    double sum; // with it
} candidate;

typedef struct fxi_beam {
    int width;
    hypothesis *done; // [width] descending score
    int n_done;
    candidate *cand; // [width][2 width]
    fxi_seq *next;   // [width] the beams that go on, while they are chosen
    bool is_over;
} fxi_beam;

bool fxi_beam_make(fxi_group *g)
{
    const size_t width = (size_t)g->req.beam_width;
    fxi_beam *b = g->beam = calloc(1, sizeof *b);
    if (!b) return false;
    b->width = (int)width;
    b->done = calloc(width, sizeof *b->done);
    b->cand = malloc(2 * width * width * sizeof *b->cand);
    b->next = calloc(width, sizeof *b->next);
    return b->done && b->cand && b->next;
}

void fxi_beam_free(fxi_beam *b)
{
    if (!b) return;
    for (int i = 0; b->done && i < b->n_done; i++) fxi_seq_clear(&b->done[i].s);
    free(b->done);
    free(b->cand);
    free(b->next);
    free(b);
}

fxi_seq *fxi_beam_best(const fxi_group *g, int i, double *score)
{
    const fxi_beam *b = g->beam;
    if (!b->is_over || i >= b->n_done) return NULL;
    *score = b->done[i].score;
    return &b->done[i].s;
}

// ---- hypotheses --------------------------------------------------------------------------------

static double score_of(const fxi_group *g, double sum, int n_tok)
{
    return sum / pow(n_tok, (double)g->req.length_penalty);
}

// Keeps the sequence, whose tokens it takes over, if it is among the best so far.
static void keep_hypothesis(fxi_group *g, fxi_seq *s, double sum)
{
    fxi_beam *b = g->beam;
    double score = score_of(g, sum, fxi_seq_n_generated(s));
    int at = b->n_done;
    while (at > 0 && score > b->done[at - 1].score) at--;
    if (at == b->width) {
        fxi_seq_clear(s);
        return;
    }
    if (b->n_done == b->width) fxi_seq_clear(&b->done[--b->n_done].s);
    memmove(&b->done[at + 1], &b->done[at], (size_t)(b->n_done - at) * sizeof b->done[0]);
    b->done[at] = (hypothesis){*s, score};
    b->n_done++;
    *s = (fxi_seq){.group = g};
}

// Whether no beam that goes on, the best of them with this sum and length, is worth going on for.
static bool is_settled(const fxi_group *g, double best_sum, int n_tok)
{
    const fxi_beam *b = g->beam;
    if (b->n_done < b->width) return false;
    if (g->req.early_stop == FX_STOP_EARLY) return true;
    if (g->req.early_stop == FX_STOP_NEVER && g->req.length_penalty > 0) n_tok = g->max_tok;
    return score_of(g, best_sum, n_tok) <= b->done[b->width - 1].score;
}

// ---- choosing ----------------------------------------------------------------------------------

static int by_sum(const void *a, const void *b)
{
    const candidate *x = a, *y = b;
    if (x->sum != y->sum) return x->sum < y->sum ? 1 : -1;
    if (x->parent != y->parent) return x->parent < y->parent ? -1 : 1;
    if (x->next.logprob != y->next.logprob) return x->next.logprob < y->next.logprob ? 1 : -1;
    return (x->next.token > y->next.token) - (x->next.token < y->next.token);
}

// The 2 x width best continuations of all.
static int gather(fxi_beam *b, const fxi_beam_input *in, int n)
{
    int n_cand = 0;
    for (int i = 0; i < n; i++)
        for (int k = 0; k < in[i].n_next; k++)
            b->cand[n_cand++] =
                (candidate){i, in[i].next[k], in[i].s->beam_sum + (double)in[i].next[k].logprob};
    qsort(b->cand, (size_t)n_cand, sizeof *b->cand, by_sum);
    return n_cand < 2 * b->width ? n_cand : 2 * b->width;
}

// Makes `to` the continuation. False: no memory.
static bool go_on(fx_engine *eng, fxi_group *g, fxi_seq *to, const fxi_beam_input *in,
                  const candidate *c)
{
    fx_logprob top[FX_MAX_TOP];
    fx_token_prob prob;
    *to = (fxi_seq){.group = g, .stop_token = -1, .stop_string = -1, .choice = c->parent};
    if (!fxi_seq_copy(to, in->s)) return false;
    if (g->req.logprobs)
        fxi_logprob_of(in->logits, eng->info.n_vocab, c->next.token, g->req.n_top, top, &prob);
    fxi_answer_add(eng, to, c->next.token, g->req.logprobs ? &prob : NULL);
    to->beam_sum = c->sum;
    return to->finish != FX_FINISH_ERROR;
}

// Fills b->next with the beams that go on; returns how many, -1: no memory.
static int choose(fx_engine *eng, fxi_group *g, const fxi_beam_input *in, int n_in)
{
    fxi_beam *b = g->beam;
    const int n_cand = gather(b, in, n_in);
    int n = 0;
    for (int i = 0; i < n_cand && n < b->width; i++) {
        const candidate *c = &b->cand[i];
        fxi_seq *s = &b->next[n];
        if (!go_on(eng, g, s, &in[c->parent], c)) {
            for (int k = 0; k <= n; k++) fxi_seq_clear(&b->next[k]);
            return -1;
        }
        if (s->finish == FX_FINISH_NONE)
            n++;
        else
            keep_hypothesis(g, s, c->sum);
    }
    return n;
}

// ---- taking over -------------------------------------------------------------------------------

// Moves each parent's cache to the first of its children, and releases the others.
static void hand_down(fx_engine *eng, fxi_group *g, const fxi_beam_input *in, int n_in, int n)
{
    for (int i = 0; i < n_in; i++) {
        fxi_seq *parent = in[i].s, *heir = NULL;
        for (int k = n - 1; k >= 0; k--)
            if (g->beam->next[k].choice == i) heir = &g->beam->next[k];
        if (heir)
            heir->kv = parent->kv;
        else
            fxi_release(eng, parent);
        parent->kv = NULL;
    }
}

// Gives caches to the children that have none. False: memory or mappings are short.
static bool fork_rest(fx_engine *eng, fxi_group *g, int n)
{
    fxi_seq *next = g->beam->next;
    for (int k = 0; k < n; k++) {
        if (next[k].kv) continue;
        int heir = 0;
        while (next[heir].choice != next[k].choice) heir++;
        if (fxi_kv_fork(eng->kv, next[heir].kv, next[k].n_computed, &next[k].kv) != FX_OK)
            return false;
    }
    return true;
}

// The chosen beams become the group's sequences, the others wait for the next choice.
static void install(fxi_group *g, int n)
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

static void end_search(fx_engine *eng, fxi_group *g, int n)
{
    fxi_beam *b = g->beam;
    b->is_over = true;
    for (int k = 0; k < n; k++) fxi_seq_clear(&b->next[k]);
    fxi_drop_caches(eng, g);
    fxi_group_fail(g, "the search has found fewer answers"); // told where hypotheses are missing
}

void fxi_beam_advance(fx_engine *eng, fxi_group *g, const fxi_beam_input *in, int n_in)
{
    const int n = choose(eng, g, in, n_in);
    if (n < 0) {
        fxi_group_fail(g, "no memory for the beams");
        return;
    }
    if (n == 0 ||
        is_settled(g, g->beam->next[0].beam_sum, fxi_seq_n_generated(&g->beam->next[0]))) {
        end_search(eng, g, n);
        return;
    }
    hand_down(eng, g, in, n_in, n);
    const bool forked = fork_rest(eng, g, n);
    install(g, n);
    if (!forked) fxi_preempt(eng, g, FXI_RECOMPUTE);
}
