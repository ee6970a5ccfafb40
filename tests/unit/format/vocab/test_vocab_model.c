// The models against naive ones on random vocabularies and texts: merging in long and short words;
// the best segmentation. A megabyte of one letter, and other worst cases of slow algorithms.
#include <math.h>

#include "base/number/rng.h"
#include "suite.h"
#include "unit/cmocka_all.h"
#include "unit/format/small_spec.h"

enum { MAX_TEXT = 120, N_PIECE = 30 };

typedef struct dice {
    uint64_t seed, i;
} dice;

static uint64_t roll(dice *d, uint64_t below)
{
    return fxi_rng_u64(d->seed, 0, d->i++) % below;
}

static void random_text(dice *d, size_t n, char *out)
{
    for (size_t i = 0; i < n; i++) out[i] = "aaabbc"[roll(d, 6)];
    out[n] = 0;
}

static void expect_same(const fxi_ids *got, const fxi_ids *want, const char *text, uint64_t seed)
{
    bool same = got->n == want->n && !memcmp(got->id, want->id, got->n * sizeof *got->id);
    for (size_t i = 0; !same && i < got->n; i++) print_message("%d ", (int)got->id[i]);
    if (!same) fail_msg("seed %llu: are not the ids of '%s'", (unsigned long long)seed, text);
}

static void encode(const fxi_vocab *v, const char *text, size_t n, fxi_ids *out)
{
    fx_error err;
    if (fxi_vocab_encode(v, text, n, FXI_ENCODE_SPACE, out, &err) != FX_OK)
        fail_msg("%s", err.text);
}

//
// Merges
//

// Random merges of existing pieces; some make the same piece.
static void random_merges(dice *d, fxi_vocab_spec *s)
{
    const size_t first = s->n_tok - 3;
    for (int i = 0; i < N_PIECE; i++) {
        char part[2][32];
        for (int k = 0; k < 2; k++) {
            fxi_str p = s->tok[first + roll(d, s->n_tok - first)].piece;
            snprintf(part[k], sizeof part[k], "%.*s", (int)p.n, p.p);
        }
        if (strlen(part[0]) + strlen(part[1]) < 16) add_pair_of(s, part[0], part[1]);
    }
}

static int naive_rank(const fxi_vocab_spec *s, int32_t left, int32_t right)
{
    for (size_t i = 0; i < s->n_merge; i++)
        if (s->merge[i].left == left && s->merge[i].right == right) return (int)i;
    return INT32_MAX;
}

static void naive_merge(const fxi_vocab_spec *s, fxi_ids *ids)
{
    for (;;) {
        size_t best = 0;
        int rank = INT32_MAX;
        for (size_t i = 0; i + 1 < ids->n; i++) {
            int r = naive_rank(s, ids->id[i], ids->id[i + 1]);
            if (r < rank) rank = r, best = i;
        }
        if (rank == INT32_MAX) return;
        ids->id[best] = s->merge[rank].to;
        ids->n--;
        memmove(&ids->id[best + 1], &ids->id[best + 2], (ids->n - best - 1) * sizeof *ids->id);
    }
}

// With bytes as units a word is merged whole; with characters it may be cut first.
static void compare_merges(uint64_t seed, bool bytes)
{
    dice d = {.seed = seed};
    char text[MAX_TEXT + 1];
    fxi_vocab *v;
    fxi_vocab_spec s;
    fxi_vocab_spec_init(&s, "test");
    s.kind = FXI_VOCAB_MERGES;
    s.unit_bytes = bytes;
    for (const char *c = "abc"; *c; c++) add_piece(&s, (char[]){*c, 0}, 0, FXI_TOKEN_NORMAL);
    random_merges(&d, &s);
    assert_int_equal(fxi_vocab_build(&s, &v, NULL), FX_OK);
    for (int k = 0; k < 20; k++) {
        fxi_ids want = {0}, got = {0};
        random_text(&d, 1 + roll(&d, k < 10 ? 20 : MAX_TEXT), text);
        for (const char *c = text; *c; c++) fxi_ids_add(&want, *c - 'a');
        naive_merge(&s, &want);
        encode(v, text, strlen(text), &got);
        expect_same(&got, &want, text, seed);
        fxi_ids_free(&want);
        fxi_ids_free(&got);
    }
    fxi_vocab_free(v);
    fxi_vocab_spec_free(&s);
}

static void test_merges(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) compare_merges(seed, seed & 1);
}

// Ranks of a rank file: the joined text must be a piece, whatever its halves are.
static void test_scores_of_bytes(void **state)
{
    (void)state;
    fxi_vocab_spec s;
    fxi_vocab_spec_init(&s, "test");
    s.unit_bytes = true;
    const char *const pieces[] = {"\xC3", "\xA9", "a", "\xC3\xA9", "\xA9\xC3", "a\xC3\xA9"};
    for (int i = 0; i < 6; i++) add_piece(&s, pieces[i], -i, FXI_TOKEN_NORMAL);
    fxi_vocab *v = build_and_free(&s);
    fxi_ids ids = {0};
    encode(v,
           "\xC3\xA9\xC3\xA9"
           "a\xC3\xA9",
           7, &ids);
    const int32_t want[] = {3, 3, 5};
    assert_int_equal(ids.n, 3);
    assert_memory_equal(ids.id, want, sizeof want);
    fxi_ids_free(&ids);
    fxi_vocab_free(v);
}

// No text becomes a control token by merges.
static void test_no_merge_makes_a_control_token(void **state)
{
    (void)state;
    fxi_vocab_spec s;
    fxi_vocab_spec_init(&s, "test");
    s.kind = FXI_VOCAB_MERGES;
    for (const char *c = "<s>"; *c; c++) add_piece(&s, (char[]){*c, 0}, 0, FXI_TOKEN_NORMAL);
    add_pair_of(&s, "<", "s");
    const int32_t bos = add_piece(&s, "<s>", 0, FXI_TOKEN_CONTROL);
    add_pair_of(&s, "<s", ">");
    s.whole_words = true;
    fxi_vocab *v = build_and_free(&s);
    fxi_ids ids = {0};
    encode(v, "<s>", 3, &ids);
    for (size_t i = 0; i < ids.n; i++) assert_int_not_equal(ids.id[i], bos);
    fxi_ids_free(&ids);
    fxi_vocab_free(v);
}

//
// Unigram
//

static double naive_best(const fxi_vocab_spec *s, const char *text)
{
    const size_t n = strlen(text);
    double best[MAX_TEXT + 1] = {0};
    for (size_t end = 1; end <= n; end++) {
        best[end] = best[end - 1] - 1000;
        for (size_t i = 0; i < s->n_tok; i++) {
            const fxi_str p = s->tok[i].piece;
            if (p.n > end || memcmp(text + end - p.n, p.p, p.n)) continue;
            best[end] = fmax(best[end], best[end - p.n] + s->tok[i].score);
        }
    }
    return best[n];
}

static void compare_unigram(uint64_t seed)
{
    dice d = {.seed = seed};
    char text[MAX_TEXT + 1], piece[8];
    fxi_vocab *v;
    fxi_vocab_spec s;
    fxi_vocab_spec_init(&s, "test");
    s.kind = FXI_VOCAB_UNIGRAM;
    for (const char *c = "abc"; *c; c++) add_piece(&s, (char[]){*c, 0}, -9, FXI_TOKEN_NORMAL);
    for (int i = 0; i < N_PIECE; i++) {
        random_text(&d, 2 + roll(&d, 4), piece);
        add_piece(&s, piece, -(double)roll(&d, 1000) / 64, FXI_TOKEN_NORMAL);
    }
    for (size_t i = 3; i < s.n_tok; i++) // of equal pieces the last is found
        for (size_t k = 3; k < i; k++)
            if (!fxi_str_compare(s.tok[i].piece, s.tok[k].piece)) s.tok[k].score = s.tok[i].score;
    assert_int_equal(fxi_vocab_build(&s, &v, NULL), FX_OK);
    for (int k = 0; k < 20; k++) {
        fxi_ids got = {0};
        fxi_buf back = {0};
        double sum = 0;
        random_text(&d, 1 + roll(&d, MAX_TEXT), text);
        encode(v, text, strlen(text), &got);
        for (size_t i = 0; i < got.n; i++) sum += s.tok[got.id[i]].score;
        assert_true(sum == naive_best(&s, text)); // sums of multiples of 1/64 are exact
        assert_true(fxi_vocab_decode(v, got.id, got.n, 0, &back));
        assert_string_equal(back.p, text);
        fxi_buf_free(&back);
        fxi_ids_free(&got);
    }
    fxi_vocab_free(v);
    fxi_vocab_spec_free(&s);
}

static void test_unigram(void **state)
{
    (void)state;
    for (uint64_t seed = 0; seed < 200; seed++) compare_unigram(seed);
}

// Of equal sums the first path found stays; a character without a piece costs 10 more than the
// worst piece, and adjacent ones are one unknown token.
static void test_unigram_ties_and_unknowns(void **state)
{
    (void)state;
    fxi_vocab_spec s;
    fxi_vocab_spec_init(&s, "test");
    s.kind = FXI_VOCAB_UNIGRAM;
    s.fuse_unknown = true;
    s.unk = add_piece(&s, "<unk>", 0, FXI_TOKEN_UNKNOWN);
    const int32_t a = add_piece(&s, "a", -2, FXI_TOKEN_NORMAL);
    const int32_t aa = add_piece(&s, "aa", -2, FXI_TOKEN_NORMAL);
    const int32_t axx = add_piece(&s, "a??", -21, FXI_TOKEN_NORMAL);
    add_piece(&s, "worst", -4, FXI_TOKEN_NORMAL);
    fxi_vocab *v = build_and_free(&s);
    fxi_ids ids = {0};
    encode(v,
           "aaa\xC3\xA9\xE2\x82\xAC"
           "a",
           9, &ids);
    const int32_t want[] = {a, aa, 0,
                            a}; // the path to byte 3 from byte 1 was found before that from 2
    assert_int_equal(ids.n, 4);
    assert_memory_equal(ids.id, want, sizeof want);
    ids.n = 0;
    encode(v, "a??", 3, &ids); // -2 - 31 - 31 is worse than -21
    assert_int_equal(ids.n, 1);
    assert_int_equal(ids.id[0], axx);
    fxi_ids_free(&ids);
    fxi_vocab_free(v);
}

//
// Long texts: quadratic time would exceed the test's time limit
//

enum { LONG = 1 << 20 };

// Every doubling of a letter is a piece, up to 2^6 of them.
static fxi_vocab *doubling(fxi_vocab_kind kind, bool bytes, const char *pattern)
{
    fxi_vocab_spec s;
    char piece[17], half[9];
    fxi_vocab_spec_init(&s, "test");
    s.kind = kind;
    s.unit_bytes = bytes;
    add_piece(&s, "a", -1, FXI_TOKEN_NORMAL);
    for (size_t n = 2; n <= 16; n *= 2) {
        memset(piece, 'a', n);
        memset(half, 'a', n / 2);
        piece[n] = half[n / 2] = 0;
        if (kind == FXI_VOCAB_MERGES)
            add_pair_of(&s, half, half);
        else
            add_piece(&s, piece, -1 - 2 * (double)n, FXI_TOKEN_NORMAL);
    }
    add_split_of(&s, pattern, FXI_SPLIT_ISOLATED, false);
    s.inside = str_of(""); // kind WORDS: every piece continues a word
    return build_and_free(&s);
}

static void test_megabyte_of_one_letter(void **state)
{
    (void)state;
    char *text = malloc(LONG);
    memset(text, 'a', LONG);
    for (int kind = 0; kind < FXI_VOCAB_N_KIND; kind++) {
        fxi_vocab *v = doubling((fxi_vocab_kind)kind, kind == FXI_VOCAB_MERGES, "[ab]+(?!x)|a*b");
        fxi_ids ids = {0};
        encode(v, text, LONG, &ids);
        assert_int_equal(ids.n, kind == FXI_VOCAB_UNIGRAM ? LONG : LONG / 16);
        fxi_ids_free(&ids);
        fxi_vocab_free(v);
    }
    free(text);
}

// A pattern that needs memory for each character fails at its limit, with a clear error.
static void test_pattern_beyond_its_limits(void **state)
{
    (void)state;
    char *text = malloc(LONG);
    memset(text, 'a', LONG);
    fxi_vocab *v = doubling(FXI_VOCAB_MERGES, true, "(?:a|b)+(?!x)");
    fxi_ids ids = {0};
    fx_error err;
    fxi_ids_add(&ids, 7);
    assert_int_equal(fxi_vocab_encode(v, text, LONG, 0, &ids, &err), FX_EINVAL);
    assert_non_null(strstr(err.text, "takes too many steps on this text"));
    assert_int_equal(ids.n, 1);
    fxi_ids_free(&ids);
    fxi_vocab_free(v);
    free(text);
}

FX_SUITE(test_vocab_model)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_merges),
        cmocka_unit_test(test_scores_of_bytes),
        cmocka_unit_test(test_no_merge_makes_a_control_token),
        cmocka_unit_test(test_unigram),
        cmocka_unit_test(test_unigram_ties_and_unknowns),
        cmocka_unit_test(test_megabyte_of_one_letter),
        cmocka_unit_test(test_pattern_beyond_its_limits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
