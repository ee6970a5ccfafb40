// beam.c - beam search as data; see beam.h.
#include "engine/request/beam.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

bool fxi_beam_make(fxi_live_request *r)
{
    const size_t width = (size_t)r->spec.beam_width;
    fxi_beam *b = r->beam = calloc(1, sizeof *b);
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

// ---- candidates --------------------------------------------------------------------------------

static int by_sum(const void *a, const void *b)
{
    const fxi_beam_next *x = a, *y = b;
    if (x->sum != y->sum) return x->sum < y->sum ? 1 : -1;
    if (x->parent != y->parent) return x->parent < y->parent ? -1 : 1;
    if (x->next.logprob != y->next.logprob) return x->next.logprob < y->next.logprob ? 1 : -1;
    return (x->next.token > y->next.token) - (x->next.token < y->next.token);
}

void fxi_beam_offer(fxi_beam *b, int parent, double sum, const fx_logprob *next, int n_next)
{
    for (int k = 0; k < n_next; k++)
        b->cand[b->n_cand++] = (fxi_beam_next){parent, next[k], sum + (double)next[k].logprob};
}

int fxi_beam_rank(fxi_beam *b)
{
    const int n = b->n_cand;
    qsort(b->cand, (size_t)n, sizeof *b->cand, by_sum);
    b->n_cand = 0;
    return n < 2 * b->width ? n : 2 * b->width;
}

// ---- hypotheses --------------------------------------------------------------------------------

static double beam_score(const fxi_live_request *r, double sum, int n_tok)
{
    return sum / pow(n_tok, (double)r->spec.length_penalty);
}

void fxi_beam_keep(fxi_live_request *r, fxi_seq *s, double sum)
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

bool fxi_beam_may_end(const fxi_live_request *r, double best_sum, int n_tok)
{
    const fxi_beam *b = r->beam;
    if (b->n_done < b->width) return false;
    if (r->spec.early_stop == FX_STOP_EARLY) return true;
    if (r->spec.early_stop == FX_STOP_NEVER && r->spec.length_penalty > 0) n_tok = r->max_tok;
    return beam_score(r, best_sum, n_tok) <= b->done[b->width - 1].score;
}
