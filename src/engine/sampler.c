// sampler.c - a token from a row of logits.
//
// With x = logit / temperature and p proportional to exp(x): min_p drops what is less likely than
// min_p times the likeliest; top_k keeps the k likeliest of the rest (ties to the lower id); top_p
// keeps the shortest run of those whose share of the kept mass reaches top_p. One number from the
// counter-based generator then chooses.
//
// No full sort: the candidates form a heap, and only as many are popped as top_k or top_p keep.
#include "engine/internal.h"

#include "base/rng.h"

#include <math.h>

#define GREEDY_BELOW 1e-5f

static int32_t argmax(const float *logits, int n)
{
    int best = 0;
    for (int i = 1; i < n; i++)
        if (logits[i] > logits[best]) best = i;
    return best;
}

// Likelier first; ties to the lower id.
static bool before(fxi_candidate a, fxi_candidate b)
{
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void sift_down(fxi_candidate *c, int n, int i)
{
    fxi_candidate moving = c[i];
    for (int child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(c[child + 1], c[child])) child++;
        if (!before(c[child], moving)) break;
        c[i] = c[child];
    }
    c[i] = moving;
}

static void heapify(fxi_candidate *c, int n)
{
    for (int i = n / 2 - 1; i >= 0; i--) sift_down(c, n, i);
}

// Moves the likeliest of the heap c[0..n) behind it, to c[n-1].
static fxi_candidate pop(fxi_candidate *c, int n)
{
    fxi_candidate top = c[0];
    c[0] = c[n - 1];
    c[n - 1] = top;
    sift_down(c, n - 1, 0);
    return top;
}

typedef struct weights {
    double max;   // largest logit
    double inv_t; // 1 / temperature
} weights;

static double weight(const weights *w, float logit)
{
    return exp(((double)logit - w->max) * w->inv_t);
}

// The candidates that min_p leaves, in the order of ids; *mass is the sum of their weights.
static int gather(const fx_sampling *p, const weights *w, const float *logits, int n_vocab,
                  fxi_candidate *cand, double *mass)
{
    int n = 0;
    *mass = 0;
    for (int i = 0; i < n_vocab; i++) {
        double q = weight(w, logits[i]);
        if (q < (double)p->min_p || q == 0) continue;
        cand[n++] = (fxi_candidate){logits[i], i};
        *mass += q;
    }
    return n;
}

// Sorts the k likeliest to the array's end, descending towards its front; *mass becomes their sum.
static int keep_top_k(const weights *w, int k, fxi_candidate *cand, int n, double *mass)
{
    *mass = 0;
    for (int i = 0; i < k; i++) *mass += weight(w, pop(cand, n - i).logit);
    return k;
}

// Walks candidates from c, `step` apart, until the running sum passes `target`; the last one if
// rounding left a rest.
static int32_t walk(const weights *w, const fxi_candidate *c, int n, int step, double target)
{
    double sum = 0;
    for (int i = 0; i < n - 1; i++, c += step) {
        sum += weight(w, c->logit);
        if (sum > target) return c->id;
    }
    return c->id;
}

static int32_t draw_sorted(const fx_sampling *p, const weights *w, fxi_candidate *cand, int n,
                           double mass, double unit)
{
    const int k = p->top_k > 0 && p->top_k < n ? p->top_k : n;
    int n_kept = 0;
    heapify(cand, n);
    if (k < n) n_kept = keep_top_k(w, k, cand, n, &mass);
    double kept = 0, want = (double)p->top_p * mass;
    int n_nucleus = 0;
    while (n_nucleus < k && kept < want) {
        if (n_nucleus == n_kept) pop(cand, n - n_kept++);
        kept += weight(w, cand[n - 1 - n_nucleus++].logit);
    }
    return walk(w, cand + n - 1, n_nucleus, -1, unit * kept);
}

int32_t fxi_sample(const fx_sampling *p, const float *logits, int n_vocab, int choice, int position,
                   fxi_candidate *cand)
{
    const int32_t best = argmax(logits, n_vocab);
    if (p->temperature < GREEDY_BELOW) return best;
    const weights w = {(double)logits[best], 1 / (double)p->temperature};
    const double unit = fxi_rng_unit(p->seed, (uint64_t)choice, (uint64_t)position);
    double mass;
    int n = gather(p, &w, logits, n_vocab, cand, &mass);
    if (n == 0) return best; // logits that are no numbers
    if (p->top_k <= 0 && p->top_p >= 1) return walk(&w, cand, n, 1, unit * mass);
    return draw_sorted(p, &w, cand, n, mass, unit);
}
