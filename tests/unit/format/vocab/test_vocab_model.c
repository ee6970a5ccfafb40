// test_vocab_model.c - the models against naive ones on random vocabularies and texts: merging in
// long and short words; the best segmentation. A megabyte of one letter, and other worst cases of
// slow algorithms. Words and their neighbours: the model of longest pieces, characters without a
// token, steps that change words, the beginning of a text, and what decoding puts between tokens.
#include <math.h>

#include "base/number/rng.h"
#include "base/text/utf8.h"
#include "unit/cmocka_all.h"
#include "unit/format/small_spec.h"
#include "unit/format/vocab/encoded.h"

// ---- models -------------------------------------------------------------------------------------

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
    fxi_vocab_spec s = spec_of(FXI_VOCAB_MERGES);
    s.unit_bytes = bytes;
    for (const char *c = "abc"; *c; c++) add_piece(&s, (char[]){*c, 0}, 0, FXI_TOKEN_NORMAL);
    random_merges(&d, &s);
    fxi_vocab_spec known = s;
    known.merge = malloc((s.n_merge + 1) * sizeof *known.merge);
    memcpy(known.merge, s.merge, s.n_merge * sizeof *known.merge);
    assert_int_equal(fxi_vocab_build(&s, &v, NULL), FX_OK);
    for (int k = 0; k < 20; k++) {
        fxi_ids want = {0};
        random_text(&d, 1 + roll(&d, k < 10 ? 20 : MAX_TEXT), text);
        for (const char *c = text; *c; c++) fxi_ids_add(&want, *c - 'a');
        naive_merge(&known, &want);
        fxi_ids got = ids_of(v, text, strlen(text), NULL, FXI_ENCODE_SPACE);
        expect_same(&got, &want, text, seed);
        fxi_ids_free(&want);
        fxi_ids_free(&got);
    }
    fxi_vocab_free(v);
    free(known.merge);
}

FX_TEST(test_merges)
{
    for (uint64_t seed = 0; seed < 200; seed++) compare_merges(seed, seed & 1);
}

// By the definition of kind SCORES: of all neighbours whose joined text is a piece, the pair of the
// highest score, the leftmost of equals. A character that is no piece becomes byte tokens.
static void naive_scores(const fxi_vocab_spec *s, const char *text, fxi_ids *out)
{
    fxi_str part[MAX_TEXT];
    size_t n = 0;
    for (const char *c = text; *c; c += part[n++].n)
        part[n] = (fxi_str){c, (size_t)fxi_utf8_len((unsigned char)*c)};
    for (;;) {
        size_t best = n;
        double score = -INFINITY;
        for (size_t i = 0; i + 1 < n; i++) {
            const int32_t id = fxi_spec_find(s, (fxi_str){part[i].p, part[i].n + part[i + 1].n});
            if (id < 0 || s->tok[id].score <= score) continue;
            score = s->tok[id].score;
            best = i;
        }
        if (best == n) break;
        part[best].n += part[best + 1].n;
        n--;
        memmove(&part[best + 1], &part[best + 2], (n - best - 1) * sizeof *part);
    }
    for (size_t i = 0; i < n; i++) {
        const int32_t id = fxi_spec_find(s, part[i]);
        if (id >= 0) fxi_ids_add(out, id);
        for (size_t k = 0; id < 0 && k < part[i].n; k++) {
            char piece[8];
            snprintf(piece, sizeof piece, "<0x%02X>", (unsigned char)part[i].p[k]);
            fxi_ids_add(out, find_in_spec(s, piece));
        }
    }
}

static void random_units(dice *d, size_t n, char *out)
{
    static const char *const units[] = {"a", "b", "c", SP};
    *out = 0;
    for (size_t i = 0; i < n; i++) strcat(out, units[roll(d, 4)]);
}

// Pieces of one to four units with few distinct scores: ties are common.
static void compare_scores(uint64_t seed)
{
    static const char *const bytes[] = {"<0x61>", "<0x62>", "<0x63>", "<0xE2>", "<0x96>", "<0x81>"};
    dice d = {.seed = seed};
    char text[MAX_TEXT + 1];
    fxi_vocab *v;
    fxi_vocab_spec s = spec_of(FXI_VOCAB_SCORES);
    s.byte_fallback = true;
    for (size_t i = 0; i < 6; i++) add_piece(&s, bytes[i], 0, FXI_TOKEN_BYTE);
    while (s.n_tok < N_PIECE) {
        random_units(&d, 1 + roll(&d, 4), text);
        if (fxi_spec_find(&s, str_of(text)) < 0)
            add_piece(&s, text, -(double)roll(&d, 6), FXI_TOKEN_NORMAL);
    }
    assert_int_equal(fxi_vocab_build(&s, &v, NULL), FX_OK);
    for (int k = 0; k < 20; k++) {
        fxi_ids want = {0};
        random_units(&d, 1 + roll(&d, 40), text);
        naive_scores(&v->spec, text, &want);
        fxi_ids got = ids_of(v, text, strlen(text), NULL, 0);
        expect_same(&got, &want, text, seed);
        fxi_ids_free(&want);
        fxi_ids_free(&got);
    }
    fxi_vocab_free(v);
}

FX_TEST(test_scores)
{
    for (uint64_t seed = 0; seed < 200; seed++) compare_scores(seed);
}

// Ranks of a rank file: the joined text must be a piece, whatever its halves are.
FX_TEST(test_scores_of_bytes)
{
    fxi_vocab_spec s = spec_of(FXI_VOCAB_SCORES);
    s.unit_bytes = true;
    const char *const pieces[] = {"\xC3", "\xA9", "a", "\xC3\xA9", "\xA9\xC3", "a\xC3\xA9"};
    for (int i = 0; i < 6; i++) add_piece(&s, pieces[i], -i, FXI_TOKEN_NORMAL);
    fxi_vocab *v = build_spec(&s);
    expect_numbers(v,
                   "\u00E9\u00E9"
                   "a\u00E9",
                   FXI_ENCODE_SPACE, "3 3 5");
    fxi_vocab_free(v);
}

// No text becomes a control token by merges.
FX_TEST(test_no_merge_makes_a_control_token)
{
    fxi_vocab_spec s = spec_of(FXI_VOCAB_MERGES);
    for (const char *c = "<s>"; *c; c++) add_piece(&s, (char[]){*c, 0}, 0, FXI_TOKEN_NORMAL);
    add_pair_of(&s, "<", "s");
    const int32_t bos = add_piece(&s, "<s>", 0, FXI_TOKEN_CONTROL);
    add_pair_of(&s, "<s", ">");
    s.whole_words = true;
    fxi_vocab *v = build_spec(&s);
    fxi_ids ids = ids_of(v, "<s>", 3, NULL, FXI_ENCODE_SPACE);
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
    fxi_vocab_spec s = spec_of(FXI_VOCAB_UNIGRAM);
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
        fxi_buf back = {0};
        double sum = 0;
        random_text(&d, 1 + roll(&d, MAX_TEXT), text);
        fxi_ids got = ids_of(v, text, strlen(text), NULL, FXI_ENCODE_SPACE);
        for (size_t i = 0; i < got.n; i++) sum += v->spec.tok[got.id[i]].score;
        assert_true(sum == naive_best(&v->spec, text)); // sums of multiples of 1/64 are exact
        assert_true(fxi_vocab_decode(v, got.id, got.n, 0, &back));
        assert_string_equal(back.p, text);
        fxi_buf_free(&back);
        fxi_ids_free(&got);
    }
    fxi_vocab_free(v);
}

FX_TEST(test_unigram)
{
    for (uint64_t seed = 0; seed < 200; seed++) compare_unigram(seed);
}

// Of equal sums the first path found stays; a character without a piece costs 10 more than the
// worst piece, and adjacent ones are one unknown token.
FX_TEST(test_unigram_ties_and_unknowns)
{
    fxi_vocab_spec s = spec_of(FXI_VOCAB_UNIGRAM);
    s.fuse_unknown = true;
    s.unk = add_piece(&s, "<unk>", 0, FXI_TOKEN_UNKNOWN);
    add_piece(&s, "a", -2, FXI_TOKEN_NORMAL);
    add_piece(&s, "aa", -2, FXI_TOKEN_NORMAL);
    add_piece(&s, "a??", -21, FXI_TOKEN_NORMAL);
    add_piece(&s, "worst", -4, FXI_TOKEN_NORMAL);
    fxi_vocab *v = build_spec(&s);
    // The path to byte 3 from byte 1 was found before that from 2.
    expect_numbers(v,
                   "aaa\u00E9\u20AC"
                   "a",
                   FXI_ENCODE_SPACE, "1 2 0 1");
    expect_numbers(v, "a??", FXI_ENCODE_SPACE, "3"); // -2 - 31 - 31 is worse than -21
    fxi_vocab_free(v);
}

//
// Long texts: quadratic time would exceed the test's time limit
//

enum { LONG = 1 << 20 };

// Every doubling of a letter is a piece, up to 2^6 of them.
static fxi_vocab *doubling(fxi_vocab_kind kind, bool bytes, const char *pattern)
{
    fxi_vocab_spec s = spec_of(kind);
    char piece[17], half[9];
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
    return build_spec(&s);
}

FX_TEST(test_megabyte_of_one_letter)
{
    char *text = malloc(LONG);
    memset(text, 'a', LONG);
    for (int kind = 0; kind < FXI_VOCAB_N_KIND; kind++) {
        fxi_vocab *v = doubling((fxi_vocab_kind)kind, kind == FXI_VOCAB_MERGES, "[ab]+(?!x)|a*b");
        fxi_ids ids = ids_of(v, text, LONG, NULL, FXI_ENCODE_SPACE);
        assert_int_equal(ids.n, kind == FXI_VOCAB_UNIGRAM ? LONG : LONG / 16);
        fxi_ids_free(&ids);
        fxi_vocab_free(v);
    }
    free(text);
}

// A pattern that needs memory for each character fails at its limit, with a clear error.
FX_TEST(test_pattern_beyond_its_limits)
{
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

// ---- words and their neighbours -----------------------------------------------------------------

#define COUNT(table) (sizeof(table) / sizeof *(table))

// The pieces of a text, each followed by a bar.
static void expect_pieces(const fxi_vocab *v, const char *text, unsigned flags, const char *want)
{
    fxi_buf got = pieces_of(v, ids_of(v, text, strlen(text), NULL, flags), "%.*s|", NULL);
    if (strcmp(got.p, want)) fail_msg("'%s' became %s", text, got.p);
    fxi_buf_free(&got);
}

static void add_pieces(fxi_vocab_spec *s, const char *const *piece, size_t n)
{
    for (size_t i = 0; i < n; i++) add_piece(s, piece[i], -1 - (double)i, FXI_TOKEN_NORMAL);
}

//
// The longest piece each time
//

static fxi_vocab *words_of(const char *inside, size_t max_word, bool unk)
{
    static const char *const pieces[] = {"un", "unable", "##able", "##ab", "##\u00E9", "a", "u"};
    fxi_vocab_spec s = spec_of(FXI_VOCAB_WORDS);
    if (unk) s.unk = add_piece(&s, "[UNK]", 0, FXI_TOKEN_UNKNOWN);
    add_pieces(&s, pieces, COUNT(pieces));
    if (inside) s.inside = str_of(inside);
    s.max_word = max_word;
    add_split_of(&s, " ", FXI_SPLIT_REMOVED, false);
    return build_spec(&s);
}

FX_TEST(test_longest_pieces)
{
    static const struct {
        const char *inside;
        size_t max_word;
        bool unk;
        const char *text, *want;
    } cases[] = {
        {"##", 100, true, "unable unab unabl aable", "unable|un|##ab|[UNK]|a|##able|"},
        {"##", 100, true, "un\u00E9 \u00E9", "un|##\u00E9|[UNK]|"},
        {"##", 100, true, "##able", "##able|"}, // any piece may begin a word
        {"##", 3, true, "un\u00E9 un\u00E9\u00E9", "un|##\u00E9|[UNK]|"},
        {"##", 100, false, "unabl a", "a|"},
        {"", 0, true, "unun auna", "un|un|a|un|a|"},
        {NULL, 0, true, "unable un unun", "unable|un|[UNK]|"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fxi_vocab *v = words_of(cases[i].inside, cases[i].max_word, cases[i].unk);
        expect_pieces(v, cases[i].text, 0, cases[i].want);
        fxi_vocab_free(v);
    }
}

//
// Characters without a token
//

// They are dropped before anything merges, in words of any length; one with byte tokens stays.
FX_TEST(test_dropped_characters)
{
    for (int bytes = 0; bytes < 2; bytes++) {
        fxi_vocab_spec s = spec_of(FXI_VOCAB_MERGES);
        add_pieces(&s, (const char *const[]){"a", "b"}, 2);
        add_pair_of(&s, "a", "b");
        s.byte_fallback = bytes;
        if (bytes) add_piece(&s, "<0x78>", 0, FXI_TOKEN_BYTE);
        fxi_vocab *v = build_spec(&s);
        expect_pieces(v, "ab a?b ?? \u00E9", 0, "ab|ab|");
        expect_pieces(v, "axb", 0, bytes ? "a|<0x78>|b|" : "ab|");
        expect_pieces(v, "a??????????????????????????????????????????????????b", 0, "ab|");
        expect_pieces(v, "????????????????????????????????????????????????????", 0, "");
        fxi_vocab_free(v);
    }
}

// Unknown neighbours are one before byte tokens are tried, in a unigram model that fuses them.
FX_TEST(test_fused_unknown)
{
    fxi_vocab_spec s = spec_of(FXI_VOCAB_UNIGRAM);
    s.byte_fallback = s.fuse_unknown = true;
    s.unk = add_piece(&s, "[UNK]", -3, FXI_TOKEN_UNKNOWN);
    add_piece(&s, "a", -1, FXI_TOKEN_NORMAL);
    add_piece(&s, "<0x78>", -9, FXI_TOKEN_BYTE);
    fxi_vocab *v = build_spec(&s);
    expect_pieces(v, "axa", 0, "a|<0x78>|a|");
    expect_pieces(v, "axya", 0, "a|[UNK]|a|");
    fxi_vocab_free(v);
}

//
// Steps that change words
//

FX_TEST(test_changed_words)
{
    fxi_vocab_spec s = spec_of(FXI_VOCAB_WORDS);
    s.inside = str_of("");
    add_pieces(&s, (const char *const[]){"a", "b", "-", SP}, 4);
    add_split_of(&s, "\\p{White_Space}", FXI_SPLIT_REMOVED, false);
    must_be(fxi_spec_add_split(
        &s, (fxi_split){.how = FXI_SPLIT_CHANGE,
                        .change = {.kind = FXI_NORM_PREPEND_OTHER, .to = str_of(SP)}}));
    add_split_of(&s, "-", FXI_SPLIT_ISOLATED, false);
    must_be(fxi_spec_add_split(
        &s, (fxi_split){.how = FXI_SPLIT_CHANGE,
                        .change = {.kind = FXI_NORM_REPLACE, .from = str_of("b"), .to = {"", 0}}}));
    fxi_vocab *v = build_spec(&s);
    expect_pieces(v, "a a-b\n" SP "a b", FXI_ENCODE_SPACE, SP "|a|" SP "|a|-|" SP "|a|" SP "|");
    expect_pieces(v, "a a-b", 0, "a|a|-|");
    fxi_vocab_free(v);
}

// The mark in front goes to the beginning of the input: not to a word after it, nor to a text
// whose beginning a step took away, but to every word that comes from the first character.
FX_TEST(test_front)
{
    static const struct {
        fxi_norm_kind kind;
        const char *from, *to, *text, *want;
    } cases[] = {
        {FXI_NORM_LOWERCASE, "", "", "A-a", SP "|a|-|a|"},
        {FXI_NORM_STRIP_LEFT, "", "", " a", "a|"},
        {FXI_NORM_STRIP_LEFT, "", "", "a ", SP "|a| |"},
        {FXI_NORM_STRIP_ACCENTS, "", "", "\u0301a", "a|"},
        {FXI_NORM_REPLACE, "b", "", "ba", "a|"},
        {FXI_NORM_REPLACE, "b", "a", "b", SP "|a|"},
        {FXI_NORM_REPLACE, "bb", "a", "bb", "a|"},
        {FXI_NORM_REPLACE_REGEX, "^", "a", "b", SP "|a|b|"},
        {FXI_NORM_REPLACE_REGEX, "b+", "a", "bb", "a|"},
        {FXI_NORM_PREPEND, "", "-", "a", SP "|-|" SP "|a|"},
        {FXI_NORM_PAD_HAN, "", "",
         "\u4E2D"
         "a",
         SP "| |" SP "|\u4E2D|" SP "| |a|"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fxi_vocab_spec s = spec_of(FXI_VOCAB_WORDS);
        s.inside = str_of("");
        add_pieces(&s, (const char *const[]){"a", "b", "-", SP, " ", "\u4E2D"}, 6);
        add_norm_of(&s, cases[i].kind, cases[i].from, cases[i].to);
        add_split_of(&s, "[- ]|\\p{Han}", FXI_SPLIT_ISOLATED, false);
        must_be(fxi_spec_add_split(
            &s, (fxi_split){.how = FXI_SPLIT_CHANGE,
                            .change = {.kind = FXI_NORM_PREPEND_FIRST, .to = str_of(SP)}}));
        fxi_vocab *v = build_spec(&s);
        expect_pieces(v, cases[i].text, FXI_ENCODE_SPACE, cases[i].want);
        fxi_vocab_free(v);
    }
}

//
// Between tokens
//

// Decodes at once and token by token: the same.
static void expect_joined(const fxi_vocab *v, const char *pieces, unsigned flags, const char *want)
{
    fxi_ids ids = {0};
    fxi_buf all = {0}, steps = {0};
    for (size_t n; *pieces; pieces += n + (pieces[n] == '|')) {
        n = strcspn(pieces, "|");
        assert_true(fxi_ids_add(&ids, fxi_vocab_find(v, pieces, n)));
    }
    assert_true(fxi_vocab_decode(v, ids.id, ids.n, flags, &all));
    assert_string_equal(all.n ? all.p : "", want);
    fxi_decoder d = fxi_decoder_begin(v, true);
    for (size_t i = 0; i < ids.n; i++) {
        size_t n;
        const char *p = fxi_decoder_bytes(&d, v, ids.id[i], &n);
        assert_true(fxi_decoder_add(&d, p, n, &steps));
    }
    assert_true(fxi_decoder_end(&d, &steps));
    if (!flags) assert_string_equal(steps.n ? steps.p : "", want);
    fxi_decoder_free(&d);
    fxi_buf_free(&all);
    fxi_buf_free(&steps);
    fxi_ids_free(&ids);
}

static fxi_vocab *joined(fxi_join_kind join, const char *inside, bool tidies)
{
    static const char *const pieces[] = {"un",     "##able",         ".", "'s", "n't",
                                         "do not", SP SP "a" SP "b", SP,  "##", "'"};
    fxi_vocab_spec s = spec_of(FXI_VOCAB_WORDS);
    s.spelling = join == FXI_JOIN_MARKS ? FXI_SPELL_MARKS : FXI_SPELL_PLAIN;
    s.join = join;
    s.join_inside = str_of(inside);
    s.tidies = tidies;
    add_pieces(&s, pieces, COUNT(pieces));
    add_piece(&s, "[SEP]", 0, FXI_TOKEN_CONTROL);
    add_piece(&s, " lead", 0, FXI_TOKEN_USER);
    return build_spec(&s);
}

FX_TEST(test_joined)
{
    static const struct {
        fxi_join_kind join;
        const char *inside;
        bool tidies;
        const char *pieces, *want;
    } cases[] = {
        {FXI_JOIN_WORDS, "##", true, "un|##able|.|un|n't|un|'s", "unable. unn't un's"},
        {FXI_JOIN_WORDS, "##", true, "un|do not|##", "un don't"},
        {FXI_JOIN_WORDS, "##", false, "un|##able|.|'", "unable . '"},
        {FXI_JOIN_WORDS, "##", true, "##able|un| lead", "##able un  lead"},
        {FXI_JOIN_WORDS, "", false, "un|##able|.", "un ##able ."},
        {FXI_JOIN_WORDS, "##", true, "[SEP]|un|[SEP]|un", "un un"},
        {FXI_JOIN_MARKS, "", false, SP SP "a" SP "b|" SP SP "a" SP "b", "ab  a b"},
        {FXI_JOIN_MARKS, "", false, SP "|" SP, " "},
        {FXI_JOIN_MARKS, "", false, "[SEP]|" SP "|un", "un"},
        {FXI_JOIN_MARKS, "", false, " lead|" SP, " lead "},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fxi_vocab *v = joined(cases[i].join, cases[i].inside, cases[i].tidies);
        expect_joined(v, cases[i].pieces, 0, cases[i].want);
        fxi_vocab_free(v);
    }
}

FX_TEST(test_joined_control_tokens)
{
    fxi_vocab *v = joined(FXI_JOIN_WORDS, "##", true);
    expect_joined(v, "[SEP]|un|##able|[SEP]", FXI_DECODE_CONTROL, "[SEP] unable [SEP]");
    expect_joined(v, "un|[SEP]|.", FXI_DECODE_CONTROL, "un [SEP].");
    fxi_vocab_free(v);
}

FX_RUN(test_vocab_model)
