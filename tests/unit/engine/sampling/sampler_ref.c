// sampler_ref.c - every rule exactly as defined: lists are searched for each token, all candidates
// are sorted, H is computed as an entropy.
#include "unit/engine/sampling/sampler_ref.h"

#include "base/number/rng.h"

#include <float.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

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

// ---- dry ---------------------------------------------------------------------------------------

// Whether a breaker ends in token `at` of the text.
static bool breaks(const fxi_sample_view *v, int at)
{
    static char all[1 << 16];
    size_t n_all = 0, from = 0;
    for (int i = 0; i <= at; i++) {
        size_t n;
        const char *bytes = v->text_of(v->texts, v->tok[i], &n);
        from = n_all;
        memcpy(all + n_all, bytes, n);
        n_all += n;
    }
    for (size_t b = 0; b < v->rule->n_dry_breaker; b++) {
        const size_t n = strlen(v->rule->dry_breaker[b]);
        for (size_t end = from + 1; end <= n_all; end++)
            if (end >= n && !memcmp(all + end - n, v->rule->dry_breaker[b], n)) return true;
    }
    return false;
}

// The tokens before token `at` that are also the last ones of the text, up to the last breaker.
static int repeated(const fxi_sample_view *v, int first, int at)
{
    int n = 0;
    while (at - 1 - n >= first && v->tok[at - 1 - n] == v->tok[v->n_tok - 1 - n] &&
           !(v->text_of && breaks(v, v->n_tok - 1 - n)))
        n++;
    return n;
}

static bool is_breaker(const fxi_sample_view *v, int32_t id)
{
    const fx_sampling one = *v->rule;
    const fxi_sample_view alone = {
        .rule = &one, .tok = &id, .n_tok = 1, .text_of = v->text_of, .texts = v->texts};
    return v->text_of && breaks(&alone, 0);
}

static float dry(const fxi_sample_view *v, int32_t id, float x)
{
    const fx_sampling *r = v->rule;
    int longest = -1;
    int first = r->dry_last_tok < 0 ? 0 : v->n_tok - r->dry_last_tok;
    if (first < 0) first = 0;
    if (!(r->dry_multiplier > 0) || r->dry_base < 1 || !isfinite(x)) return x;
    if (v->n_tok - first <= r->dry_allowed_length || is_breaker(v, id)) return x;
    for (int at = first + 1; at < v->n_tok; at++)
        if (v->tok[at] == id && repeated(v, first, at) > longest) longest = repeated(v, first, at);
    if (longest < r->dry_allowed_length || longest < 0) return x;
    const double penalty =
        (double)r->dry_multiplier * pow((double)r->dry_base, longest - r->dry_allowed_length);
    return (float)fmax((double)x - penalty, -(double)FLT_MAX);
}

bool ref_rules(const fxi_sample_view *v, const float *logits, int n_vocab, float *out)
{
    int n_left = 0;
    for (int i = 0; i < n_vocab; i++) {
        out[i] = is_masked(v, i) ? -INFINITY : dry(v, i, ruled(v, i, logits[i]));
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

static int keep_items(const fx_sampling *p, const float *logits, int n_vocab, bool any_order,
                      ref_item *out)
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
    any_order = any_order && (!p->cut_first || p->min_p == 0);
    if (p->top_k == 0 && p->top_p >= 1 && any_order) qsort(out, (size_t)n, sizeof *out, by_id);
    return n;
}

// Of those with a share of the threshold only the least likely, the last in order, is left.
static int exclude_top(const fx_sampling *p, ref_item *it, int n)
{
    const double least = (double)p->xtc_threshold * mass_of(it, n);
    int last = -1, n_top = 0, n_left = 0;
    for (int i = 0; i < n; i++) {
        if (it[i].weight < least) continue;
        if (!n_top++ || likelier(&it[last], &it[i]) < 0) last = i;
    }
    if (n_top < 2) return n;
    for (int i = 0; i < n; i++)
        if (i == last || it[i].weight < least) it[n_left++] = it[i];
    return n_left;
}

static int keep_all(const fx_sampling *p, const float *logits, int n_vocab, bool excludes,
                    ref_item *out)
{
    int n = keep_items(p, logits, n_vocab, !excludes, out);
    if (excludes) n = exclude_top(p, out, n);
    double max = -INFINITY;
    for (int i = 0; i < n; i++) max = fmax(max, (double)out[i].logit);
    for (int i = 0; p->cut_first && i < n; i++)
        out[i].weight = exp(((double)out[i].logit - max) / (double)p->temperature);
    return n;
}

int ref_kept(const fx_sampling *p, const float *logits, int n_vocab, ref_item *out)
{
    return keep_all(p, logits, n_vocab, false, out);
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
    const double chance =
        fxi_rng_unit(p->seed, (1ull << 32) + (uint64_t)choice, (uint64_t)position);
    const int n = keep_all(p, logits, n_vocab, chance < (double)p->xtc_probability, it);
    if (n == 0) return lowest_of_largest(logits, n_vocab);
    const double unit = fxi_rng_unit(p->seed, (uint64_t)choice, (uint64_t)position);
    const double target = unit * mass_of(it, n);
    double run = it[0].weight;
    int i = 0;
    while (i < n - 1 && run <= target) run += it[++i].weight;
    return it[i].id;
}
