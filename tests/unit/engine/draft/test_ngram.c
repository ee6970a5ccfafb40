// test_ngram.c - the index finds what a search through the whole text finds, however the text grew.
#include "unit/cmocka_all.h"

#include "base/number/rng.h"
#include "engine/draft/ngram.h"

#include <stdlib.h>

enum { N_TOK = 3000 };

static int32_t text[N_TOK];

static int draw_below(uint64_t seed, int n)
{
    static uint64_t index;
    return (int)(fxi_rng_u64(seed, 0, index++) % (uint64_t)n);
}

// Quotations of earlier parts between tokens drawn from a few, by a seed.
static void make_text(uint64_t seed, int n_id)
{
    for (int i = 0; i < N_TOK;) {
        const int n = 1 + draw_below(seed, 20);
        const int from = i > 40 ? draw_below(seed, i - 20) : -1;
        const bool quotes = from >= 0 && draw_below(seed, 3);
        for (int k = 0; k < n && i < N_TOK; k++, i++)
            text[i] = quotes ? text[from + k] : draw_below(seed, n_id);
    }
}

static int n_common(int at, int end)
{
    int n = 0;
    while (n < FXI_NGRAM_LONGEST && n < at && text[at - 1 - n] == text[end - 1 - n]) n++;
    return n;
}

// The longest, and of equal ones the latest.
static int find_slowly(int n_tok, int *n_same)
{
    int best = 0;
    *n_same = FXI_NGRAM - 1;
    for (int at = n_tok - 1; at >= FXI_NGRAM; at--)
        if (n_common(at, n_tok) > *n_same) *n_same = n_common(at, n_tok), best = at;
    return best;
}

static void check_text(uint64_t seed, int n_id, int step)
{
    fxi_ngram x = {0};
    int n_found = 0;
    make_text(seed, n_id);
    for (int n = 1; n <= N_TOK; n += 1 + (n * 7) % step) {
        int same, want_same;
        assert_true(fxi_ngram_grow(&x, text, n));
        const int at = fxi_ngram_find(&x, text, n, &same), want = find_slowly(n, &want_same);
        assert_int_equal(at, want);
        if (at) assert_int_equal(same, want_same);
        n_found += at != 0;
    }
    assert_true(n_found > 20);
    fxi_ngram_free(&x);
}

// So many ids that no chain is longer than what is looked at.
FX_TEST(test_finds_what_a_search_finds)
{
    for (uint64_t seed = 1; seed <= 8; seed++) check_text(seed, 400, 1 + (int)seed * 3);
}

// A text of few ids has long chains, of which the latest places are looked at.
FX_TEST(test_long_chains_are_cut)
{
    fxi_ngram x = {0};
    int same;
    make_text(3, 2);
    assert_true(fxi_ngram_grow(&x, text, N_TOK));
    const int at = fxi_ngram_find(&x, text, N_TOK, &same);
    assert_true(at > 0 && at < N_TOK);
    assert_int_equal(same, n_common(at, N_TOK));
    fxi_ngram_free(&x);
}

FX_TEST(test_a_repetition_goes_on)
{
    static const int32_t tok[] = {9, 1, 2, 3, 1, 2, 3, 1, 2, 3};
    static const int32_t want[] = {1, 2, 3, 1, 2, 3, 1};
    fxi_ngram x = {0};
    int32_t out[7];
    int same;
    assert_true(fxi_ngram_grow(&x, tok, 10));
    const int at = fxi_ngram_find(&x, tok, 10, &same);
    assert_int_equal(at, 7);
    assert_int_equal(same, 6);
    assert_int_equal(fxi_ngram_read(tok, 10, at, out, 7), 7);
    assert_memory_equal(out, want, sizeof want);
    fxi_ngram_free(&x);
}

FX_TEST(test_short_texts_have_nothing)
{
    static const int32_t tok[] = {1, 1, 1, 1};
    fxi_ngram x = {0};
    int same;
    for (int n = 0; n <= 3; n++) {
        assert_true(fxi_ngram_grow(&x, tok, n));
        assert_int_equal(fxi_ngram_find(&x, tok, n, &same), 0);
    }
    assert_true(fxi_ngram_grow(&x, tok, 4));
    assert_int_equal(fxi_ngram_find(&x, tok, 4, &same), 3);
    fxi_ngram_free(&x);
    assert_int_equal(fxi_ngram_find(&x, tok, 4, &same), 0);
}

FX_RUN(test_ngram)
