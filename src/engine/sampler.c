// sampler.c - a token from a row of logits.
//
// With x = logit / temperature and p proportional to exp(x): min_p drops what is less likely than
// min_p times the likeliest; top_k keeps the k likeliest of the rest (ties to the lower id); top_p
// keeps the shortest run of those whose share of the kept mass reaches top_p; typical_p does the
// same in the order of | -log p - H |, where H is the entropy of what is left. One number from the
// counter-based generator then chooses.
//
// -log p is an affine function of the logit, and H, its mean, is the same function of the mean
// logit. So the order of typical_p is that of the distance to the mean logit, and the order of
// top_k and top_p that of the distance to +inf: one heap serves both.
//
// No full sort: only as many candidates are popped as are kept.
#include "engine/sampler.h"

#include "base/rng.h"

#include <math.h>

#define GREEDY_BELOW 1e-5f

// 0 where there is nothing above -inf.
static int32_t argmax(const float *logits, int n)
{
    int best = 0;
    float max = -INFINITY;
    for (int i = 0; i < n; i++) {
        if (!(logits[i] > max)) continue;
        max = logits[i];
        best = i;
    }
    return best;
}

// ---- the heap ----------------------------------------------------------------------------------

// Nearer to the centre first; then likelier first; then the lower id. All are equally far from
// +inf.
static bool before(double centre, fxi_candidate a, fxi_candidate b)
{
    const double far_a = fabs(centre - (double)a.logit), far_b = fabs(centre - (double)b.logit);
    if (far_a != far_b) return far_a < far_b;
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

static void sift_down(double centre, fxi_candidate *c, int n, int i)
{
    fxi_candidate moving = c[i];
    for (int child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && before(centre, c[child + 1], c[child])) child++;
        if (!before(centre, c[child], moving)) break;
        c[i] = c[child];
    }
    c[i] = moving;
}

static void heapify(double centre, fxi_candidate *c, int n)
{
    for (int i = n / 2 - 1; i >= 0; i--) sift_down(centre, c, n, i);
}

// Moves the first of the heap c[0..n) behind it, to c[n-1].
static fxi_candidate pop(double centre, fxi_candidate *c, int n)
{
    fxi_candidate top = c[0];
    c[0] = c[n - 1];
    c[n - 1] = top;
    sift_down(centre, c, n - 1, 0);
    return top;
}

// ---- what is kept ------------------------------------------------------------------------------

typedef struct weights {
    double max;   // largest logit
    double inv_t; // 1 / temperature
} weights;

static double weight(const weights *w, float logit)
{
    return exp(((double)logit - w->max) * w->inv_t);
}

// What may be drawn.
typedef struct kept {
    fxi_candidate *c; // [n]
    int n;
    bool reversed; // the first one to draw is c[n-1], as popping leaves it
    double mass;   // sum of the weights
} kept;

// The candidates that min_p leaves, in the order of ids. None: the largest logit is not finite.
static kept gather(const fx_sampling *p, const weights *w, const float *logits, int n_vocab,
                   fxi_candidate *cand)
{
    kept k = {.c = cand};
    for (int i = 0; i < n_vocab; i++) {
        const double q = weight(w, logits[i]);
        if (!(q > 0 && q >= (double)p->min_p)) continue; // nor what is no number
        cand[k.n++] = (fxi_candidate){logits[i], i};
        k.mass += q;
    }
    return k;
}

// Keeps the first `most` in the order of the distance to `centre`, and of these the shortest run
// whose share of their mass reaches `share`.
static void keep_first(kept *k, const weights *w, double centre, int most, double share)
{
    fxi_candidate *c = k->c;
    const int n = k->n, n_max = most < n ? most : n;
    int n_popped = 0, n_run = 0;
    heapify(centre, c, n);
    if (n_max < n) {
        k->mass = 0;
        for (; n_popped < n_max; n_popped++)
            k->mass += weight(w, pop(centre, c, n - n_popped).logit);
    }
    double run = 0;
    while (n_run < n_max && run < share * k->mass) {
        if (n_run == n_popped) pop(centre, c, n - n_popped++);
        run += weight(w, c[n - 1 - n_run++].logit);
    }
    *k = (kept){c + n - n_run, n_run, true, run};
}

static double mean_logit(const kept *k, const weights *w)
{
    double sum = 0; // of differences, which keeps it exact where logits are large and close
    for (int i = 0; i < k->n; i++)
        sum += weight(w, k->c[i].logit) * ((double)k->c[i].logit - w->max);
    return w->max + sum / k->mass;
}

// Goes through them until the running sum passes its share `unit` of the mass; the last one if
// rounding left a rest.
static int32_t draw(const kept *k, const weights *w, double unit)
{
    const fxi_candidate *c = k->reversed ? k->c + k->n - 1 : k->c;
    const int step = k->reversed ? -1 : 1;
    const double target = unit * k->mass;
    double sum = 0;
    for (int i = 0; i < k->n - 1; i++, c += step) {
        sum += weight(w, c->logit);
        if (sum > target) break;
    }
    return c->id;
}

int32_t fxi_sample(const fx_sampling *p, const float *logits, int n_vocab, int choice, int position,
                   fxi_candidate *cand)
{
    const int32_t best = argmax(logits, n_vocab);
    if (p->temperature < GREEDY_BELOW) return best;
    const weights w = {(double)logits[best], 1 / (double)p->temperature};
    kept k = gather(p, &w, logits, n_vocab, cand);
    if (k.n == 0) return best;
    if (p->top_k > 0 || p->top_p < 1)
        keep_first(&k, &w, INFINITY, p->top_k > 0 ? p->top_k : k.n, (double)p->top_p);
    if (p->typical_p > 0 && p->typical_p < 1)
        keep_first(&k, &w, mean_logit(&k, &w), k.n, (double)p->typical_p);
    return draw(&k, &w, fxi_rng_unit(p->seed, (uint64_t)choice, (uint64_t)position));
}
