// test_dry_xtc.c - dry and xtc by hand: breakers, long texts, what is excluded and how often.
// test_sampler.c compares both with the reference.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "engine/sampling/sampler.h"

#include <math.h>
#include <string.h>

enum { N_VOCAB = 20, MAX_TOK = 1 << 14 };

// ---- dry ---------------------------------------------------------------------------------------

// Token i is the text of one byte, 'a' + i, but for a few.
static const char *text_of_letter(const void *texts, int32_t id, size_t *n_bytes)
{
    static const char letters[] = "abcdefghijklmnopqrst";
    static const char *const others[N_VOCAB] = {[17] = "", [18] = "xy", [19] = "y\n"};
    (void)texts;
    *n_bytes = others[id] ? strlen(others[id]) : 1;
    return others[id] ? others[id] : letters + id;
}

typedef struct break_case {
    int32_t tok[10];
    int n_tok;
    const char *breaker[2];
    size_t n_breaker;
    int32_t id;    // that goes on with the repetition
    float penalty; // 2^n of its n tokens; 0: none
} break_case;

static const break_case break_cases[] = {
    {{0, 1, 2, 3, 0, 1, 2}, 7, {NULL}, 0, 3, 8},
    {{0, 1, 2, 3, 0, 1, 2}, 7, {"z"}, 1, 3, 8},
    {{0, 1, 2, 3, 0, 1, 2}, 7, {"b"}, 1, 3, 2},  // c alone comes after it
    {{0, 1, 2, 3, 0, 1, 2}, 7, {"c"}, 1, 3, 1},  // nothing does, and every token counts
    {{0, 1, 2, 3, 0, 1, 2}, 7, {"ab"}, 1, 3, 2}, // in two tokens
    {{0, 1, 2, 3, 0, 1, 2}, 7, {"da"}, 1, 3, 4}, // the d is no part of the repetition
    {{0, 1, 2, 3, 0, 1, 2}, 7, {"q", "ab"}, 2, 3, 2},
    {{0, 1, 2, 3, 0, 1, 2}, 7, {"d"}, 1, 3, 0},              // it is a breaker itself
    {{18, 17, 19, 2, 5, 18, 17, 19, 2}, 9, {"yy"}, 1, 5, 2}, // over a token without a text
    {{18, 17, 19, 2, 5, 18, 17, 19, 2}, 9, {"\n"}, 1, 5, 2}, // as the end of a token
};

FX_TEST(test_sequence_breakers)
{
    fxi_sample_scratch s;
    assert_true(fxi_sample_scratch_make(&s, N_VOCAB, MAX_TOK));
    for (size_t i = 0; i < sizeof break_cases / sizeof *break_cases; i++) {
        const break_case *c = &break_cases[i];
        const float logits[N_VOCAB] = {0};
        const fx_sampling rule = {.dry_multiplier = 1,
                                  .dry_base = 2,
                                  .dry_last_tok = -1,
                                  .dry_breaker = c->breaker,
                                  .n_dry_breaker = c->n_breaker};
        const fxi_sample_view v = {
            .rule = &rule, .tok = c->tok, .n_tok = c->n_tok, .text_of = text_of_letter};
        const float *got = fxi_rules_apply(&v, logits, N_VOCAB, &s);
        if (got[c->id] != -c->penalty)
            fail_msg("case %zu: %g, not %g", i, (double)got[c->id], -(double)c->penalty);
    }
    fxi_sample_scratch_free(&s);
}

// A text of one token, and texts that repeat themselves without an end; no more tokens are looked
// at than there is memory for.
FX_TEST(test_dry_of_long_texts)
{
    static int32_t tok[MAX_TOK + 5];
    const float logits[N_VOCAB] = {0};
    fxi_sample_scratch s;
    assert_true(fxi_sample_scratch_make(&s, N_VOCAB, MAX_TOK));
    for (int period = 1; period < N_VOCAB; period += 6) {
        for (int i = 0; i < MAX_TOK + 5; i++) tok[i] = i % period;
        const fx_sampling rule = {
            .dry_multiplier = 1, .dry_base = 1, .dry_allowed_length = 2, .dry_last_tok = -1};
        const fxi_sample_view v = {.rule = &rule, .tok = tok, .n_tok = MAX_TOK + 5};
        const float *got = fxi_rules_apply(&v, logits, N_VOCAB, &s);
        for (int i = 0; i < N_VOCAB; i++)
            assert_true(got[i] == (i == (MAX_TOK + 5) % period ? -1 : 0));
    }
    const fx_sampling rule = {.dry_multiplier = 1, .dry_base = 1.0009765625f, .dry_last_tok = -1};
    const fxi_sample_view v = {.rule = &rule, .tok = tok, .n_tok = MAX_TOK};
    const float *got = fxi_rules_apply(&v, logits, N_VOCAB, &s);
    assert_true(fabs((double)got[MAX_TOK % 19] + pow(1.0009765625, 1024)) < 1e-5);
    fxi_sample_scratch_free(&s);
}

// ---- xtc ---------------------------------------------------------------------------------------

// Of six tokens, three of which have a tenth of the probability or more, and a fourth a bit more
// than that.
FX_TEST(test_xtc_excludes_all_but_the_last_of_the_top)
{
    static const float logits[] = {0, 3, 2.5f, 2.75f, -4, 2};
    static const int32_t left[] = {0, 5};
    fx_sampling s = {.temperature = 1, .top_p = 1, .xtc_probability = 1, .xtc_threshold = 0.1f};
    fxi_candidate cand[6];
    int count[6] = {0};
    for (int pos = 0; pos < 2000; pos++) count[fxi_sampler_draw(&s, logits, 6, 0, pos, cand)]++;
    for (int i = 0; i < 2; i++) assert_true(count[left[i]] > 0);
    assert_int_equal(count[1] + count[2] + count[3], 0);
    s.xtc_probability = 0.25f;
    int n_top = 0;
    for (int pos = 0; pos < 4000; pos++) {
        const int32_t id = fxi_sampler_draw(&s, logits, 6, 0, pos, cand);
        n_top += id >= 1 && id <= 3;
    }
    const double share =
        (exp(3) + exp(2.5) + exp(2.75)) / (exp(3) + exp(2.5) + exp(2.75) + exp(2) + 1 + exp(-4));
    assert_true(fabs(n_top - 4000 * share * 0.75) < 150);
    s.temperature = 0;
    assert_int_equal(fxi_sampler_draw(&s, logits, 6, 0, 0, cand), 1);
}

FX_RUN(test_dry_xtc)
