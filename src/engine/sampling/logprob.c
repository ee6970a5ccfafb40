// logprob.c - how likely tokens are: log-softmax of a row of logits.
//
// exp(logit - max) is summed in double over ascending ids, and each logprob is rounded to float
// once, so that a token has the same logprob whichever way it is requested. Order and rank are
// those of the logits, since two logprobs may round to the same float. exp is computed for a block
// of ids at a time, with SIMD, and then added in order.
//
// The likeliest tokens are found in one pass: a short sorted array whose last element is a
// threshold that hardly any logit of a large vocabulary passes.
#include "engine/sampling/sampler.h"
#include "engine/sampling/softmax.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCK = 64 }; // exp computed at a time

typedef struct softmax {
    float max;
    double log_sum; // log of the sum of exp(logit - max)
} softmax;

// NaN counts as -inf.
static float number_or_least(float logit)
{
    return logit > -INFINITY ? logit : -INFINITY;
}

// Adds exp(logit - max) of n <= BLOCK logits to sum.
static double add_exps(double sum, const float *logits, int n, float max)
{
    double e[BLOCK];
    for (int i = 0; i < n; i++) e[i] = fxi_exp((double)logits[i] - (double)max);
    for (int i = 0; i < n; i++)
        if (logits[i] > -INFINITY) sum += e[i];
    return sum;
}

static softmax softmax_of(const float *logits, int n_vocab)
{
    softmax s = {.max = fxi_logits_max(logits, n_vocab)};
    double sum = 0;
    // Where the largest logit is infinite, each one equal to it counts 1, all others 0.
    for (int i = 0; i < n_vocab && isinf(s.max); i++) sum += logits[i] == s.max;
    for (int i = 0; i < n_vocab && !isinf(s.max); i += BLOCK)
        sum = add_exps(sum, logits + i, n_vocab - i < BLOCK ? n_vocab - i : BLOCK, s.max);
    s.log_sum = log(sum);
    return s;
}

static float logprob_at(const softmax *s, float logit)
{
    if (!(logit > -INFINITY)) return -INFINITY;
    const double below = logit == s->max ? 0 : (double)logit - (double)s->max; // 0 for infinities
    return (float)(below - s->log_sum);
}

// Inserts a token into top[0..at), which is sorted; top[at] is free.
static void insert_likelier(fx_logprob *top, int at, fx_logprob t)
{
    for (; at > 0 && top[at - 1].logprob < t.logprob; at--) top[at] = top[at - 1];
    top[at] = t;
}

// The min(k, n_vocab) likeliest; returns their number. Until all are found, `logprob` holds the
// logit.
static int find_top(const float *logits, int n_vocab, const softmax *s, int k, fx_logprob *top)
{
    const int n = k < n_vocab ? k : n_vocab;
    if (n <= 0) return 0;
    for (int i = 0; i < n; i++)
        insert_likelier(top, i, (fx_logprob){i, number_or_least(logits[i])});
    for (int i = n; i < n_vocab; i++)
        if (logits[i] > top[n - 1].logprob) insert_likelier(top, n - 1, (fx_logprob){i, logits[i]});
    for (int i = 0; i < n; i++) top[i].logprob = logprob_at(s, top[i].logprob);
    return n;
}

static int rank_of(const float *logits, int n_vocab, int32_t token)
{
    const float mine = number_or_least(logits[token]);
    int n_likelier = 0;
    for (int i = 0; i < token; i++) n_likelier += number_or_least(logits[i]) >= mine;
    for (int i = token + 1; i < n_vocab; i++) n_likelier += logits[i] > mine;
    return 1 + n_likelier;
}

void fxi_logprob_of(const float *logits, int n_vocab, int32_t token, int n_top, fx_logprob *top,
                    fx_token_prob *out)
{
    const softmax s = softmax_of(logits, n_vocab);
    *out = (fx_token_prob){
        .logprob = logprob_at(&s, logits[token]),
        .rank = rank_of(logits, n_vocab, token),
        .top = top,
        .n_top = find_top(logits, n_vocab, &s, n_top, top),
    };
}

int fxi_logprob_top(const float *logits, int n_vocab, int k, fx_logprob *top)
{
    const softmax s = softmax_of(logits, n_vocab);
    int n = find_top(logits, n_vocab, &s, k, top);
    while (n > 0 && top[n - 1].logprob == -INFINITY) n--;
    return n;
}

// ---- kept probabilities ------------------------------------------------------------------------

// Room for `cap` tokens, and for their `top` if it is wanted or there already.
static bool reserve_log(fxi_prob_log *l, int cap, bool wants_top)
{
    fx_token_prob *tok = realloc(l->tok, (size_t)cap * sizeof *tok);
    if (!tok) return false;
    l->tok = tok;
    if (l->top || wants_top) {
        fx_logprob *top = realloc(l->top, (size_t)cap * FX_MAX_TOP * sizeof *top);
        if (!top) return false;
        l->top = top;
    }
    l->cap = cap;
    return true;
}

bool fxi_prob_log_add(fxi_prob_log *l, const fx_token_prob *p)
{
    const bool is_full = l->n == l->cap, wants_top = p->n_top && !l->top;
    const int cap = !is_full ? l->cap : l->cap ? 2 * l->cap : 16;
    if ((is_full || wants_top) && !reserve_log(l, cap, wants_top)) return false;
    l->tok[l->n] = *p;
    if (p->n_top)
        memcpy(l->top + (size_t)l->n * FX_MAX_TOP, p->top, (size_t)p->n_top * sizeof *p->top);
    l->n++;
    return true;
}

bool fxi_prob_log_copy(fxi_prob_log *to, const fxi_prob_log *from)
{
    if (!from->n) return true;
    if (!reserve_log(to, from->cap, from->top != NULL)) return false;
    memcpy(to->tok, from->tok, (size_t)from->n * sizeof *to->tok);
    if (from->top) memcpy(to->top, from->top, (size_t)from->n * FX_MAX_TOP * sizeof *to->top);
    to->n = from->n;
    return true;
}

fx_token_prob fxi_prob_log_at(const fxi_prob_log *l, int i)
{
    fx_token_prob p = l->tok[i];
    p.top = p.n_top ? l->top + (size_t)i * FX_MAX_TOP : NULL;
    return p;
}

void fxi_prob_log_free(fxi_prob_log *l)
{
    free(l->tok);
    free(l->top);
    *l = (fxi_prob_log){0};
}
