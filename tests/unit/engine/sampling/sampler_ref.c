// sampler_ref.c - every rule exactly as defined: lists are searched for each token, all candidates
// are sorted, H is computed as an entropy.
#include "unit/engine/sampling/sampler_ref.h"

#include "base/number/rng.h"

#include <math.h>
#include <stdlib.h>

// ---- rules -------------------------------------------------------------------------------------

static int n_times(const int32_t *id, size_t n, int32_t what)
{
    int times = 0;
    for (size_t i = 0; i < n; i++) times += id[i] == what;
    return times;
}

static bool is_masked(const fxi_sample_view *v, int32_t id)
{
    const fx_sampling *r = v->rule;
    if (v->allowed && !(v->allowed[id / 64] >> (id % 64) & 1)) return true;
    if (r->n_allow > 0 && n_times(r->allow, r->n_allow, id) == 0) return true;
    if (n_times(r->ban, r->n_ban, id) > 0) return true;
    return v->n_tok - v->n_prompt < r->min_tok && n_times(v->end, (size_t)v->n_end, id) > 0;
}

static float ruled(const fxi_sample_view *v, int32_t id, float x)
{
    const fx_sampling *r = v->rule;
    const int n_all = n_times(v->tok, (size_t)v->n_tok, id);
    const int n_answer = n_times(v->tok + v->n_prompt, (size_t)(v->n_tok - v->n_prompt), id);
    const float rep = r->repetition_penalty == 0 ? 1 : r->repetition_penalty;
    for (size_t i = 0; i < r->n_bias; i++)
        if (r->bias[i].token == id) x += r->bias[i].bias;
    if (n_all > 0) x = x > 0 ? x / rep : x * rep;
    if (n_answer > 0) x -= r->presence_penalty;
    if (n_answer > 0) x -= r->frequency_penalty * (float)n_answer;
    return x;
}

bool ref_rules(const fxi_sample_view *v, const float *logits, int n_vocab, float *out)
{
    int n_left = 0;
    for (int i = 0; i < n_vocab; i++) {
        out[i] = is_masked(v, i) ? -INFINITY : ruled(v, i, logits[i]);
        n_left += out[i] > -INFINITY;
    }
    return n_left > 0;
}

// ---- what is kept ------------------------------------------------------------------------------

static int by_id(const void *a, const void *b)
{
    const ref_item *x = a, *y = b;
    return x->id - y->id;
}

static int likelier(const void *a, const void *b)
{
    const ref_item *x = a, *y = b;
    if (x->logit != y->logit) return x->logit > y->logit ? -1 : 1;
    return by_id(a, b);
}

typedef struct typical_item {
    ref_item item;
    double far; // | -log p - H |
} typical_item;

static int more_typical(const void *a, const void *b)
{
    const typical_item *x = a, *y = b;
    if (x->far != y->far) return x->far < y->far ? -1 : 1;
    return likelier(&x->item, &y->item);
}

static double mass_of(const ref_item *it, int n)
{
    double mass = 0;
    for (int i = 0; i < n; i++) mass += it[i].weight;
    return mass;
}

// How many of the first reach this share of the mass of all n.
static int run_of(double share, const ref_item *it, int n)
{
    const double mass = mass_of(it, n);
    double run = it[0].weight;
    int k = 1;
    while (k < n && run < share * mass) run += it[k++].weight;
    return k;
}

static double entropy(const ref_item *it, int n)
{
    const double mass = mass_of(it, n);
    double h = 0;
    for (int i = 0; i < n; i++) {
        const double p = it[i].weight / mass;
        if (p > 0) h -= p * log(p);
    }
    return h;
}

// All tokens above -inf, likeliest first.
static int sorted_items(const fx_sampling *p, const float *logits, int n_vocab, ref_item *out)
{
    int n = 0;
    for (int i = 0; i < n_vocab; i++)
        if (logits[i] > -INFINITY) out[n++] = (ref_item){.id = i, .logit = logits[i]};
    qsort(out, (size_t)n, sizeof *out, likelier);
    const double t = p->cut_first ? 1 : (double)p->temperature;
    for (int i = 0; i < n; i++)
        out[i].weight = exp(((double)out[i].logit - (double)out[0].logit) / t);
    return n;
}

static int keep_items(const fx_sampling *p, const float *logits, int n_vocab, ref_item *out)
{
    const int n_all = sorted_items(p, logits, n_vocab, out);
    int n = 0;
    while (n < n_all && out[n].weight > 0 && out[n].weight >= (double)p->min_p) n++;
    if (p->top_k > 0 && p->top_k < n) n = p->top_k;
    if (n > 0 && p->top_p < 1) n = run_of((double)p->top_p, out, n);
    if (n > 0 && p->typical_p > 0 && p->typical_p < 1) {
        static typical_item t[REF_MAX_VOCAB];
        const double mass = mass_of(out, n), h = entropy(out, n);
        for (int i = 0; i < n; i++)
            t[i] = (typical_item){out[i], fabs(-log(out[i].weight / mass) - h)};
        qsort(t, (size_t)n, sizeof *t, more_typical);
        for (int i = 0; i < n; i++) out[i] = t[i].item;
        return run_of((double)p->typical_p, out, n);
    }
    const bool any_order = !p->cut_first || p->min_p == 0;
    if (p->top_k == 0 && p->top_p >= 1 && any_order) qsort(out, (size_t)n, sizeof *out, by_id);
    return n;
}

int ref_kept(const fx_sampling *p, const float *logits, int n_vocab, ref_item *out)
{
    const int n = keep_items(p, logits, n_vocab, out);
    double max = -INFINITY;
    for (int i = 0; i < n; i++) max = fmax(max, (double)out[i].logit);
    for (int i = 0; p->cut_first && i < n; i++)
        out[i].weight = exp(((double)out[i].logit - max) / (double)p->temperature);
    return n;
}

// ---- the draw ----------------------------------------------------------------------------------

static int32_t lowest_of_largest(const float *logits, int n_vocab)
{
    float max = -INFINITY;
    for (int i = 0; i < n_vocab; i++)
        if (logits[i] > max) max = logits[i];
    for (int i = 0; i < n_vocab; i++)
        if (logits[i] == max) return i;
    return 0;
}

int32_t ref_sample(const fx_sampling *p, const float *logits, int n_vocab, int choice, int position)
{
    static ref_item it[REF_MAX_VOCAB];
    if (p->temperature < 1e-5f) return lowest_of_largest(logits, n_vocab);
    const int n = ref_kept(p, logits, n_vocab, it);
    if (n == 0) return lowest_of_largest(logits, n_vocab);
    const double unit = fxi_rng_unit(p->seed, (uint64_t)choice, (uint64_t)position);
    const double target = unit * mass_of(it, n);
    double run = it[0].weight;
    int i = 0;
    while (i < n - 1 && run <= target) run += it[++i].weight;
    return it[i].id;
}
