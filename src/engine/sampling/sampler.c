// sampler.c - draws a token from a row of logits.
//
// With x = logit / temperature and p proportional to exp(x):
//
//   min_p      drops tokens less likely than min_p times the likeliest
//   top_k      keeps the k likeliest of the rest, ties to the lower id
//   top_p      keeps the shortest prefix, by likelihood, whose share of the kept mass reaches top_p
//   typical_p  does the same in the order of | -log p - H |, where H is the entropy of the rest
//   xtc        of the tokens with a share of at least xtc_threshold drops all but the least likely
//              ("exclude top choices", oobabooga/text-generation-webui, pull request 6335)
//
// With cut_first they cut at temperature 1, and x counts for the draw among what is left.
//
// One number from the counter-based generator then chooses. min_p and top_k both keep a prefix of
// the same order, so applying top_k first, as here, makes no difference.
//
// -log p is an affine function of the logit, and H, its mean, is the same function of the mean
// logit. So typical_p orders by distance to the mean logit, and top_k and top_p by distance to the
// largest one: one ordering serves all. Tokens are drawn in the order in which they were kept;
// where no rule needs an order, in that of ids.
//
// There is no full sort. Distances are cut into equal buckets, and the weights of each are summed.
// The sums tell in which bucket a prefix ends or a draw falls. Only the candidates of that bucket
// are ordered, by a heap, and only as far as needed. In the worst case all are in one bucket, and
// this is a heap of all. A small top_k needs no buckets; a draw in the order of ids needs no
// candidates; and where the whole row is drawn from, or cut by top_p alone, only the buckets where
// the prefix ends and the draw falls become candidates.
#include "engine/sampling/sampler.h"

#include "base/number/rng.h"
#include "engine/sampling/softmax.h"

#include <float.h>
#include <math.h>
#include <string.h>

#define GREEDY_BELOW 1e-5f

enum {
    BLOCK = 64,        // logits weighed at a time
    N_BUCKET = 1024,   // 8 KiB of sums
    REACH = 32,        // -log of the weight from which on all share the last bucket
    SMALL_TOP_K = 256, // largest top_k that needs no buckets
    FULL = 16,         // times top_k: candidates collected before they are cut to top_k
};

#define XTC_STREAM ((uint64_t)1 << 32) // of random numbers, apart from those of draws

// The lowest id that has this largest logit; 0 where all logits are NaN.
static int32_t first_of(const float *logits, int n, float max)
{
    for (int i = 0; i < n; i++)
        if (logits[i] == max) return i;
    return 0;
}

// ---- weights and orders ------------------------------------------------------------------------

typedef struct weights {
    double max;   // largest logit
    double inv_t; // 1 / temperature; 0: every weight is 1
    double min_p; // tokens with less weight, or none, are skipped
} weights;

static double weight_of(const weights *w, float logit)
{
    return fxi_exp(((double)logit - w->max) * w->inv_t);
}

// n <= BLOCK.
static void weigh_block(const weights *w, const float *logits, int n, double *q)
{
    for (int i = 0; i < n; i++) q[i] = weight_of(w, logits[i]);
}

static void weigh_candidates(const weights *w, const fxi_candidate *c, int n, double *q)
{
    float logits[BLOCK]; // contiguous, for SIMD
    for (int i = 0; i < n; i++) logits[i] = c[i].logit;
    if (w->inv_t == 0)
        for (int i = 0; i < n; i++) q[i] = 1;
    else
        weigh_block(w, logits, n, q);
}

// Whether a token of this weight may be drawn; false for NaN.
static bool does_count(const weights *w, double q)
{
    return q > 0 && q >= w->min_p;
}

// The nearest to the centre comes first.
typedef struct order {
    double centre;
    double scale; // buckets per unit of distance
} order;

static double distance_to(const order *o, float logit)
{
    return fabs(o->centre - (double)logit);
}

// At equal distance the likelier comes first, then the lower id.
static bool comes_before(const order *o, fxi_candidate a, fxi_candidate b)
{
    const double far_a = distance_to(o, a.logit), far_b = distance_to(o, b.logit);
    if (far_a != far_b) return far_a < far_b;
    return a.logit > b.logit || (a.logit == b.logit && a.id < b.id);
}

// Monotonic in the distance, so that the order of buckets is that of their candidates.
static int bucket_at(const order *o, float logit)
{
    const double at = distance_to(o, logit) * o->scale;
    return (int)(at < N_BUCKET - 1 ? at : N_BUCKET - 1);
}

// ---- the heap ----------------------------------------------------------------------------------

static void sift_candidate(const order *o, fxi_candidate *c, int n, int i)
{
    fxi_candidate moving = c[i];
    for (int child; (child = 2 * i + 1) < n; i = child) {
        if (child + 1 < n && comes_before(o, c[child + 1], c[child])) child++;
        if (!comes_before(o, c[child], moving)) break;
        c[i] = c[child];
    }
    c[i] = moving;
}

// Candidates to take in order: a heap, and after it what was taken. They may be sorted already, as
// ties are.
typedef struct queue {
    const order *o;
    fxi_candidate *c; // [n_all]
    int n_all, n;     // n are left
    bool sorted;
} queue;

static queue queue_of(const order *o, fxi_candidate *c, int n)
{
    int i = 1;
    while (i < n && comes_before(o, c[i - 1], c[i])) i++;
    const bool sorted = i >= n;
    for (i = sorted ? 0 : n / 2; i-- > 0;) sift_candidate(o, c, n, i);
    return (queue){o, c, n, n, sorted};
}

static fxi_candidate take_next(queue *q)
{
    if (q->sorted) return q->c[q->n_all - q->n--];
    const fxi_candidate first = q->c[0];
    q->c[0] = q->c[--q->n];
    q->c[q->n] = first;
    sift_candidate(q->o, q->c, q->n, 0);
    return first;
}

// Moves the taken ones to the front; returns their number.
static int bring_taken(const queue *q)
{
    const int n = q->n_all - q->n;
    if (!q->sorted) memmove(q->c, q->c + q->n, (size_t)n * sizeof *q->c);
    return n;
}

// ---- candidates --------------------------------------------------------------------------------

// The candidates that may be drawn.
typedef struct kept {
    fxi_candidate *c; // [n]
    int n;
    double mass; // sum of the weights
} kept;

// All tokens that are not -inf.
static kept list_all(const float *logits, int n_vocab, fxi_candidate *cand)
{
    int n = 0;
    for (int i = 0; i < n_vocab; i++) {
        cand[n] = (fxi_candidate){logits[i], i};
        n += logits[i] > -INFINITY; // skips NaN as well
    }
    return (kept){.c = cand, .n = n};
}

// Brings the first `most` of c[0..n) to its front; returns the last of them.
static fxi_candidate bring_first(const order *o, int most, fxi_candidate *c, int n)
{
    fxi_candidate last = c[0];
    queue q = queue_of(o, c, n);
    for (int i = 0; i < most; i++) last = take_next(&q);
    bring_taken(&q);
    return last;
}

// The `most` likeliest tokens that are not -inf, or all if there are fewer. A few times as many are
// collected and cut to `most`; from then on the least of them is a threshold that hardly any logit
// passes.
static kept small_top_k(const float *logits, int n_vocab, double max, int most, fxi_candidate *cand)
{
    const order o = {max, 1};
    const int n_full = FULL * most;
    float least = -INFINITY;
    kept k = {.c = cand};
    for (int i = 0; i < n_vocab; i++) {
        if (!(logits[i] > least)) continue; // skips NaN as well
        cand[k.n++] = (fxi_candidate){logits[i], i};
        if (k.n < n_full) continue;
        least = bring_first(&o, most, cand, k.n).logit;
        k.n = most;
    }
    if (k.n <= most) return k;
    bring_first(&o, most, cand, k.n);
    return (kept){.c = cand, .n = most};
}

// ---- buckets -----------------------------------------------------------------------------------

typedef struct bucket_sums {
    double mass[N_BUCKET];
} bucket_sums;

// Distances beyond the least logit, or with a negligible weight, need no buckets of their own.
static order order_to(double centre, float least, const weights *w)
{
    const double reach = fmin(w->max - (double)least, REACH / w->inv_t);
    return (order){centre, reach > 0 ? N_BUCKET / reach : 1};
}

static order order_from(double centre, const kept *k, const weights *w)
{
    float least = INFINITY;
    for (int i = 0; i < k->n; i++)
        if (k->c[i].logit < least) least = k->c[i].logit;
    return order_to(centre, least, w);
}

// Drops skipped candidates and sums the weights of the rest by bucket.
static void sum_buckets(kept *k, const weights *w, const order *o, bucket_sums *s)
{
    fxi_candidate *c = k->c;
    double q[BLOCK], mass = 0;
    int n = 0;
    memset(s, 0, sizeof *s);
    for (int from = 0; from < k->n; from += BLOCK) {
        const int n_block = k->n - from < BLOCK ? k->n - from : BLOCK;
        weigh_candidates(w, c + from, n_block, q);
        for (int i = 0; i < n_block; i++) {
            if (!does_count(w, q[i])) continue;
            s->mass[bucket_at(o, c[from + i].logit)] += q[i];
            mass += q[i];
            c[n++] = c[from + i];
        }
    }
    k->n = n;
    k->mass = mass;
}

// The bucket in which the running sum passes `target`; if it never does, by rounding, the last one
// that is not empty. *run becomes the sum of the buckets before it.
static int find_bucket(const bucket_sums *s, double target, double *run)
{
    int found = 0;
    double sum = 0;
    for (int b = 0; b < N_BUCKET && sum <= target; b++) {
        if (s->mass[b] == 0) continue;
        found = b;
        *run = sum;
        sum += s->mass[b];
    }
    return found;
}

// Drops candidates of buckets after `last` and moves those of `last` to the end; returns the
// number before them.
static int split_at_bucket(kept *k, const order *o, int last)
{
    fxi_candidate *c = k->c;
    int n = 0, n_before = 0;
    for (int i = 0; i < k->n; i++) { // branch-free: a branch would be mispredicted
        const fxi_candidate x = c[i];
        c[n] = x;
        n += bucket_at(o, x.logit) <= last;
    }
    for (int i = 0; i < n; i++) {
        const fxi_candidate x = c[i];
        if (bucket_at(o, x.logit) == last) continue;
        c[i] = c[n_before];
        c[n_before++] = x;
    }
    k->n = n;
    return n_before;
}

// Keeps the shortest prefix in this order that weighs `target`. The sums can still be drawn from:
// those of the buckets before its end stay right.
static void keep_run(kept *k, const weights *w, const order *o, const bucket_sums *s, double target)
{
    double run = 0, in_last = 0;
    const int last = find_bucket(s, target, &run), n_before = split_at_bucket(k, o, last);
    queue q = queue_of(o, k->c + n_before, k->n - n_before);
    while (q.n > 0 && run + in_last < target) in_last += weight_of(w, take_next(&q).logit);
    k->n = n_before + bring_taken(&q);
    k->mass = run + in_last;
}

// The first token, in this order, at which the running sum passes `target`; the last one if it
// never does, by rounding.
static int32_t draw_ordered(const kept *k, const weights *w, const order *o, const bucket_sums *s,
                            double target)
{
    fxi_candidate *c = k->c, drawn = c[0];
    double run = 0;
    const int b = find_bucket(s, target, &run);
    int n = 0;
    for (int i = 0; i < k->n; i++) {
        c[n] = c[i];
        n += bucket_at(o, c[i].logit) == b;
    }
    queue q = queue_of(o, c, n);
    while (q.n > 0 && run <= target) {
        drawn = take_next(&q);
        run += weight_of(w, drawn.logit);
    }
    return drawn.id;
}

// ---- top_k, top_p, typical_p, xtc, in this order -----------------------------------------------

// What top_k keeps.
static kept keep_top_k(const fx_sampling *p, const weights *w, const float *logits, int n_vocab,
                       fxi_candidate *cand)
{
    if (p->top_k > 0 && p->top_k <= SMALL_TOP_K)
        return small_top_k(logits, n_vocab, w->max, p->top_k, cand);
    kept k = list_all(logits, n_vocab, cand);
    if (p->top_k == 0 || p->top_k >= k.n) return k;
    const weights one = {.max = w->max};
    const order o = order_from(w->max, &k, w);
    bucket_sums s;
    sum_buckets(&k, &one, &o, &s);
    keep_run(&k, &one, &o, &s, p->top_k);
    return k;
}

static bool has_typical(const fx_sampling *p)
{
    return p->typical_p > 0 && p->typical_p < 1;
}

// Sums differences to the largest logit, which is exact where logits are large and close.
static double mean_logit(const kept *k, const weights *w)
{
    double q[BLOCK], sum = 0;
    for (int from = 0; from < k->n; from += BLOCK) {
        const fxi_candidate *c = k->c + from;
        const int n = k->n - from < BLOCK ? k->n - from : BLOCK;
        weigh_candidates(w, c, n, q);
        for (int i = 0; i < n; i++) sum += q[i] * ((double)c[i].logit - w->max);
    }
    return w->max + sum / k->mass;
}

static bool is_xtc_due(const fx_sampling *p, int choice, int position)
{
    return p->xtc_probability > 0 && fxi_rng_unit(p->seed, XTC_STREAM + (uint64_t)choice,
                                                  (uint64_t)position) < (double)p->xtc_probability;
}

static void exclude_top(kept *k, const weights *w, double threshold)
{
    const order by_weight = {w->max, 1};
    const double least = threshold * k->mass;
    int last = -1, n_top = 0, n = 0;
    for (int i = 0; i < k->n; i++) {
        if (weight_of(w, k->c[i].logit) < least) continue;
        if (!n_top++ || comes_before(&by_weight, k->c[last], k->c[i])) last = i;
    }
    for (int i = 0; n_top > 1 && i < k->n; i++)
        if (i == last || weight_of(w, k->c[i].logit) < least) k->c[n++] = k->c[i];
    if (n_top > 1) k->n = n;
}

// Draws at the temperature from what was cut without it.
static int32_t draw_after_cuts(const fx_sampling *p, kept *k, double centre, double unit)
{
    weights w = {-INFINITY, 1 / (double)p->temperature, 0};
    bucket_sums s;
    for (int i = 0; i < k->n; i++) w.max = fmax(w.max, (double)k->c[i].logit);
    const order o = order_from(centre, k, &w);
    sum_buckets(k, &w, &o, &s);
    return draw_ordered(k, &w, &o, &s, unit * k->mass);
}

static int32_t draw_in_order(const fx_sampling *p, const weights *w, const float *logits,
                             int n_vocab, double unit, bool excludes, fxi_candidate *cand)
{
    kept k = keep_top_k(p, w, logits, n_vocab, cand);
    order o = order_from(w->max, &k, w);
    bucket_sums s;
    sum_buckets(&k, w, &o, &s);
    if (p->top_p < 1) keep_run(&k, w, &o, &s, (double)p->top_p * k.mass);
    if (has_typical(p)) {
        o = order_from(mean_logit(&k, w), &k, w);
        sum_buckets(&k, w, &o, &s);
        keep_run(&k, w, &o, &s, (double)p->typical_p * k.mass);
    }
    if (excludes) {
        exclude_top(&k, w, (double)p->xtc_threshold);
        sum_buckets(&k, w, &o, &s);
    }
    if (p->cut_first) return draw_after_cuts(p, &k, o.centre, unit);
    return draw_ordered(&k, w, &o, &s, unit * k.mass);
}

// ---- the whole row by likelihood, cut by top_p or not ------------------------------------------

typedef struct row {
    const weights *w;
    order o;
    const float *logits; // [n]
    int n;
} row;

// Sums the weights by bucket; returns the sum of all.
FXI_ROW_LOOP static double row_sum_buckets(const row *r, bucket_sums *s)
{
    double q[BLOCK], mass = 0;
    int bucket[BLOCK];
    memset(s, 0, sizeof *s);
    for (int i = 0; i < r->n; i += BLOCK) {
        const int n = r->n - i < BLOCK ? r->n - i : BLOCK;
        weigh_block(r->w, r->logits + i, n, q);
        for (int k = 0; k < n; k++) bucket[k] = bucket_at(&r->o, r->logits[i + k]);
        for (int k = 0; k < n; k++) s->mass[bucket[k]] += does_count(r->w, q[k]) ? q[k] : 0;
    }
    for (int b = 0; b < N_BUCKET; b++) mass += s->mass[b];
    return mass;
}

// Whether any logit of the block from i on lies in [low, high].
static bool block_meets(const row *r, int i, float low, float high)
{
    const int n = r->n - i < BLOCK ? r->n - i : BLOCK;
    int n_in = 0;
    for (int k = 0; k < n; k++) n_in += (r->logits[i + k] >= low) & (r->logits[i + k] <= high);
    return n_in > 0;
}

// Appends the tokens of bucket b in the block from i on; returns their number.
static int block_gather(const row *r, int i, int b, fxi_candidate *cand)
{
    const int end = r->n - i < BLOCK ? r->n : i + BLOCK;
    int n_found = 0;
    for (; i < end; i++) {
        const float x = r->logits[i];
        if (bucket_at(&r->o, x) == b && does_count(r->w, weight_of(r->w, x)))
            cand[n_found++] = (fxi_candidate){x, i};
    }
    return n_found;
}

// The tokens of one bucket, in order, in cand[n_vocab]. Blocks with no logit near it are skipped.
static queue row_queue(const row *r, int b, fxi_candidate *cand)
{
    const double centre = r->o.centre, step = 1 / r->o.scale;
    const float low = b == N_BUCKET - 1 ? -INFINITY : (float)(centre - (b + 2) * step);
    const float high = (float)(centre - (b - 1) * step);
    int n_found = 0;
    for (int i = 0; i < r->n; i += BLOCK)
        if (block_meets(r, i, low, high)) n_found += block_gather(r, i, b, cand + n_found);
    return queue_of(&r->o, cand, n_found);
}

// Where the shortest prefix with top_p of the mass ends: in a bucket, after its first n tokens.
typedef struct cut {
    int bucket, n;
    double before, mass; // of the buckets before it; of the prefix
} cut;

static cut row_cut(const row *r, const bucket_sums *s, double target, fxi_candidate *cand)
{
    cut c = {0};
    c.bucket = find_bucket(s, target, &c.before);
    double in_last = 0;
    for (queue q = row_queue(r, c.bucket, cand); q.n > 0 && c.before + in_last < target; c.n++)
        in_last += weight_of(r->w, take_next(&q).logit);
    c.mass = c.before + in_last;
    return c;
}

// The first token of the prefix at which the running sum passes `target`.
static int32_t row_draw(const row *r, const bucket_sums *s, const cut *c, double target,
                        fxi_candidate *cand)
{
    double run = 0;
    if (target >= c->mass) target = nextafter(c->mass, 0);
    int b = find_bucket(s, target, &run);
    if (b > c->bucket) b = c->bucket, run = c->before;
    queue q = row_queue(r, b, cand);
    const int most = b == c->bucket && c->n < q.n_all ? c->n : q.n_all;
    fxi_candidate drawn = take_next(&q);
    for (int n = 1; n < most && (run += weight_of(r->w, drawn.logit)) <= target; n++)
        drawn = take_next(&q);
    return drawn.id;
}

static int32_t draw_from_row(const fx_sampling *p, const weights *w, const float *logits,
                             int n_vocab, double unit, fxi_candidate *cand)
{
    const row r = {w, order_to(w->max, fxi_logits_min(logits, n_vocab), w), logits, n_vocab};
    bucket_sums s;
    const double mass = row_sum_buckets(&r, &s);
    const cut all = {N_BUCKET - 1, n_vocab, 0, mass};
    const cut c = p->top_p < 1 ? row_cut(&r, &s, (double)p->top_p * mass, cand) : all;
    return row_draw(&r, &s, &c, unit * c.mass, cand);
}

// ---- the whole row by id -----------------------------------------------------------------------

// Adds the weights of logits[0..n), n <= BLOCK, to `sum`.
static double sum_block(const weights *w, const float *logits, int n, double sum)
{
    double q[BLOCK];
    weigh_block(w, logits, n, q);
    for (int i = 0; i < n; i++)
        if (does_count(w, q[i])) sum += q[i];
    return sum;
}

// The running sum is noted at up to N_BUCKET places, so that the draw only walks from the last
// place before its target.
static int32_t draw_by_id(const weights *w, const float *logits, int n_vocab, double unit)
{
    const int n_each = n_vocab / N_BUCKET / BLOCK * BLOCK + BLOCK;
    double noted[N_BUCKET], sum = 0;
    for (int i = 0; i < n_vocab; i += BLOCK) {
        if (i % n_each == 0) noted[i / n_each] = sum;
        sum = sum_block(w, logits + i, n_vocab - i < BLOCK ? n_vocab - i : BLOCK, sum);
    }
    const double target = unit * sum;
    int at = (n_vocab - 1) / n_each;
    while (noted[at] > target) at--;
    sum = noted[at];
    for (int id = at * n_each; id < n_vocab; id++) {
        sum = sum_block(w, logits + id, 1, sum);
        if (sum > target) return id;
    }
    return first_of(logits, n_vocab, (float)w->max); // never passed, by rounding
}

bool fxi_logits_are_finite(const float *logits, int n_vocab)
{
    bool finite = true; // without an early end, so that it is vector code
    for (int i = 0; i < n_vocab; i++) finite &= fabsf(logits[i]) <= FLT_MAX;
    return finite;
}

bool fxi_sampler_is_greedy(const fx_sampling *p)
{
    return p->temperature < GREEDY_BELOW;
}

int32_t fxi_sampler_draw(const fx_sampling *p, const float *logits, int n_vocab, int choice,
                         int position, fxi_candidate *cand)
{
    const float max = fxi_logits_max(logits, n_vocab);
    if (fxi_sampler_is_greedy(p) || !isfinite(max)) return first_of(logits, n_vocab, max);
    const bool cuts_top_k = p->top_k > 0 && p->top_k < n_vocab;
    const bool excludes = is_xtc_due(p, choice, position);
    const bool cuts = cuts_top_k || p->top_p < 1 || p->min_p > 0 || has_typical(p) || excludes;
    const bool cut_first = p->cut_first && cuts;
    const weights w = {(double)max, cut_first ? 1 : 1 / (double)p->temperature, (double)p->min_p};
    const double unit = fxi_rng_unit(p->seed, (uint64_t)choice, (uint64_t)position);
    if (cut_first || cuts_top_k || has_typical(p) || excludes)
        return draw_in_order(p, &w, logits, n_vocab, unit, excludes, cand);
    if (p->top_k > 0 || p->top_p < 1) return draw_from_row(p, &w, logits, n_vocab, unit, cand);
    return draw_by_id(&w, logits, n_vocab, unit);
}
