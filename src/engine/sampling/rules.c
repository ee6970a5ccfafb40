// rules.c - applies the rules of a request to a row of logits before a token is drawn.
//
//   grammar       tokens that cannot continue its texts are masked: -inf
//   allow, ban    tokens that are not allowed, or are banned, or would complete a banned run of
//                 tokens in the answer, are masked, too
//   bias          added; a token listed more than once gets each bias, in the order of the list
//   min_tok       tokens that end the answer are masked while it is too short
//   repetition    each token of prompt and answer, once: logit / r if positive, else logit * r
//   presence      each token of the answer, once: logit - p
//   frequency     the same: logit - f * its count in the answer
//   dry           each token that would go on with a repetition of n tokens, at least a:
//                 logit - m * b^(n - a)
//
// A masked token stays masked, and no other rule makes a finite logit infinite: values are clamped
// to FLT_MAX, so that huge biases leave numbers that can be compared and subtracted.
//
// Tokens are counted in an array over the vocabulary, cleared afterwards by going through the same
// tokens: the cost follows the length of the sequence, not the size of the vocabulary.
#include "engine/sampling/sampler.h"

#include <float.h>
#include <limits.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

bool fxi_sample_scratch_make(fxi_sample_scratch *s, size_t n_vocab, size_t max_tok)
{
    *s = (fxi_sample_scratch){.logit = malloc(n_vocab * sizeof *s->logit),
                              .cand = malloc(n_vocab * sizeof *s->cand),
                              .count = calloc(n_vocab, sizeof *s->count),
                              .allowed = calloc(n_vocab / 64 + 1, sizeof *s->allowed),
                              .repeat = malloc((max_tok + 1) * sizeof *s->repeat),
                              .max_tok = (int)max_tok};
    return s->logit && s->cand && s->count && s->allowed && s->repeat;
}

void fxi_sample_scratch_free(fxi_sample_scratch *s)
{
    free(s->logit);
    free(s->cand);
    free(s->count);
    free(s->allowed);
    free(s->repeat);
}

static bool is_too_short_to_end(const fxi_sample_view *v)
{
    return v->n_end > 0 && v->n_tok - v->n_prompt < v->rule->min_tok;
}

static bool has_repetition(const fx_sampling *r)
{
    return r->repetition_penalty != 0 && r->repetition_penalty != 1;
}

// A penalty that depends on the answer so far.
static bool has_answer_penalty(const fx_sampling *r)
{
    return r->presence_penalty != 0 || r->frequency_penalty != 0;
}

// Whether dry looks at the text, and how many tokens of it may go on with a repetition.
static int dry_tokens(const fxi_sample_view *v, int max_tok)
{
    const fx_sampling *r = v->rule;
    int n = v->n_tok;
    if (!(r->dry_multiplier > 0) || !(r->dry_base >= 1)) return 0;
    if (r->dry_last_tok >= 0 && r->dry_last_tok < n) n = r->dry_last_tok;
    if (n > max_tok) n = max_tok;
    return n > r->dry_allowed_length ? n : 0;
}

bool fxi_rules_are_idle(const fxi_sample_view *v)
{
    const fx_sampling *r = v->rule;
    return !v->allowed && !r->n_allow && !r->n_ban && !r->n_ban_run && !r->n_bias &&
           !is_too_short_to_end(v) && (!has_repetition(r) || v->n_tok <= 0) &&
           (!has_answer_penalty(r) || v->n_tok <= v->n_prompt) && !dry_tokens(v, INT_MAX);
}

static void set_logit(float *logit, float value)
{
    if (*logit == -INFINITY) return;
    *logit = value > FLT_MAX ? FLT_MAX : value < -FLT_MAX ? -FLT_MAX : value;
}

static void mask_ids(float *logit, const int32_t *id, size_t n)
{
    for (size_t i = 0; i < n; i++) logit[id[i]] = -INFINITY;
}

// Masks the last token of each run whose other tokens end the answer.
static void mask_runs(const fxi_sample_view *v, float *logit)
{
    const fx_sampling *r = v->rule;
    for (const fx_id_run *run = r->ban_run; run < r->ban_run + r->n_ban_run; run++) {
        const size_t n_before = run->n - 1;
        if ((size_t)(v->n_tok - v->n_prompt) < n_before) continue;
        if (!memcmp(v->tok + v->n_tok - n_before, run->id, n_before * sizeof *run->id))
            logit[run->id[n_before]] = -INFINITY;
    }
}

static void copy_allowed(const fx_sampling *r, const float *logits, int n_vocab, float *logit)
{
    if (!r->n_allow) {
        memcpy(logit, logits, (size_t)n_vocab * sizeof *logit);
        return;
    }
    for (int i = 0; i < n_vocab; i++) logit[i] = -INFINITY;
    for (size_t i = 0; i < r->n_allow; i++) logit[r->allow[i]] = logits[r->allow[i]];
}

static void penalise_repetition(const fxi_sample_view *v, float *logit, int32_t *count)
{
    const float r = v->rule->repetition_penalty;
    for (int i = 0; i < v->n_tok; i++) {
        float *x = &logit[v->tok[i]];
        if (count[v->tok[i]]++ == 0) set_logit(x, *x > 0 ? *x / r : *x * r);
    }
    for (int i = 0; i < v->n_tok; i++) count[v->tok[i]] = 0;
}

static void penalise_answer(const fxi_sample_view *v, float *logit, int32_t *count)
{
    for (int i = v->n_prompt; i < v->n_tok; i++) count[v->tok[i]]++;
    for (int i = v->n_prompt; i < v->n_tok; i++) {
        const int32_t id = v->tok[i], n = count[id];
        if (n == 0) continue; // penalised already
        set_logit(&logit[id], logit[id] - v->rule->presence_penalty);
        set_logit(&logit[id], logit[id] - v->rule->frequency_penalty * (float)n);
        count[id] = 0;
    }
}

// ---- dry ----------------------------------------------------------------------------------------
//
// As llama.cpp has it ("don't repeat yourself", oobabooga/text-generation-webui, pull request
// 5677); but breakers are found in the text, however it is divided into tokens. The text is looked
// at from its end: place 0 is the last token.

// Tokens of a repetition that count: what is looked at for breakers is bounded.
enum { MAX_REPEAT = 1024 };

static int32_t recent_token(const fxi_sample_view *v, int place)
{
    return v->tok[v->n_tok - 1 - place];
}

// repeat[k] = how many tokens from place k on are those from place 0 on, for 0 < k < n; returns the
// largest. In linear time: what begins within the furthest match so far is a match already known
// (the Z algorithm; Gusfield, Algorithms on Strings, Trees, and Sequences, 1997).
static int find_repeats(const fxi_sample_view *v, int n, int32_t *repeat)
{
    int from = 0, end = 0, longest = 0; // of the match that ends last
    for (int k = 1; k < n; k++) {
        int same = k < end ? repeat[k - from] : 0;
        if (same >= end - k) {
            same = k < end ? end - k : 0;
            while (k + same < n && recent_token(v, same) == recent_token(v, k + same)) same++;
            from = k;
            end = k + same;
        }
        repeat[k] = same;
        if (same > longest) longest = same;
    }
    return longest;
}

// Whether text[0..n) stands before byte `end` of the token at this place.
static bool text_ends_at(const fxi_sample_view *v, int place, size_t end, const char *text,
                         size_t n)
{
    size_t n_bytes;
    const char *bytes = v->text_of(v->texts, recent_token(v, place), &n_bytes);
    while (n) {
        while (!end) {
            if (++place >= v->n_tok) return false;
            bytes = v->text_of(v->texts, recent_token(v, place), &end);
        }
        if (bytes[--end] != text[--n]) return false;
    }
    return true;
}

static bool breaker_ends_in(const fxi_sample_view *v, int place)
{
    size_t n_bytes;
    const char *bytes = v->text_of(v->texts, recent_token(v, place), &n_bytes);
    for (size_t b = 0; b < v->rule->n_dry_breaker; b++) {
        const char *text = v->rule->dry_breaker[b];
        const size_t n = strlen(text);
        for (size_t i = 0; i < n_bytes; i++)
            if (bytes[i] == text[n - 1] && text_ends_at(v, place, i + 1, text, n)) return true;
    }
    return false;
}

static bool has_breaker(const fxi_sample_view *v, int32_t id)
{
    size_t n_bytes;
    const char *bytes = v->text_of ? v->text_of(v->texts, id, &n_bytes) : NULL;
    for (size_t b = 0; bytes && b < v->rule->n_dry_breaker; b++)
        if (memmem(bytes, n_bytes, v->rule->dry_breaker[b], strlen(v->rule->dry_breaker[b])))
            return true;
    return false;
}

// How many of the last `most` tokens come after the last breaker.
static int tokens_unbroken(const fxi_sample_view *v, int most)
{
    int n = 0;
    if (!v->text_of || !v->rule->n_dry_breaker) return most;
    while (n < most && !breaker_ends_in(v, n)) n++;
    return n;
}

static double dry_penalty(const fx_sampling *r, int n)
{
    double power = 1, base = (double)r->dry_base; // by squares: the same bits everywhere
    for (n -= r->dry_allowed_length; n; n /= 2, base *= base)
        if (n % 2) power *= base;
    return (double)r->dry_multiplier * power;
}

static void penalise_repeats(const fxi_sample_view *v, int n, float *logit,
                             fxi_sample_scratch *scratch)
{
    const fx_sampling *r = v->rule;
    int32_t *repeat = scratch->repeat, *count = scratch->count; // of tokens, n + 1
    const int longest = find_repeats(v, n, repeat);
    const int most = tokens_unbroken(v, longest < MAX_REPEAT ? longest : MAX_REPEAT);
    if (most < r->dry_allowed_length) return;
    for (int k = 1; k < n; k++) {
        const int32_t id = recent_token(v, k - 1), same = repeat[k] < most ? repeat[k] : most;
        if (same >= r->dry_allowed_length && same >= count[id]) count[id] = same + 1;
    }
    for (int k = 1; k < n; k++) {
        const int32_t id = recent_token(v, k - 1), same = count[id] - 1;
        count[id] = 0;
        if (same < 0 || has_breaker(v, id)) continue;
        const double value = (double)logit[id] - dry_penalty(r, same);
        set_logit(&logit[id], value < -FLT_MAX ? -FLT_MAX : (float)value);
    }
}

// ---- all of them --------------------------------------------------------------------------------

static bool any_left(const float *logit, int n_vocab)
{
    for (int i = 0; i < n_vocab; i++)
        if (logit[i] > -INFINITY) return true;
    return false;
}

const float *fxi_rules_apply(const fxi_sample_view *v, const float *logits, int n_vocab,
                             fxi_sample_scratch *scratch)
{
    const fx_sampling *r = v->rule;
    float *logit = scratch->logit;
    if (fxi_rules_are_idle(v)) return logits;
    copy_allowed(r, logits, n_vocab, logit);
    for (int i = 0; v->allowed && i < n_vocab; i++) {
        const uint64_t word = v->allowed[i / 64];
        if (word == UINT64_MAX)
            i |= 63; // most of free text
        else if (!(word >> (i % 64) & 1))
            logit[i] = -INFINITY;
    }
    mask_ids(logit, r->ban, r->n_ban);
    if (r->n_ban_run) mask_runs(v, logit);
    for (size_t i = 0; i < r->n_bias; i++) {
        float *x = &logit[r->bias[i].token];
        set_logit(x, *x + r->bias[i].bias);
    }
    if (is_too_short_to_end(v)) mask_ids(logit, v->end, (size_t)v->n_end);
    if (has_repetition(r)) penalise_repetition(v, logit, scratch->count);
    if (has_answer_penalty(r)) penalise_answer(v, logit, scratch->count);
    const int n_dry = dry_tokens(v, scratch->max_tok);
    if (n_dry) penalise_repeats(v, n_dry, logit, scratch);
    return any_left(logit, n_vocab) ? logit : NULL;
}
