// Words and their neighbours: the model of longest pieces, characters without a token, steps that
// change words, the beginning of a text, and what decoding puts between tokens.
#include "base/text/utf8.h"
#include "suite.h"
#include "unit/cmocka_all.h"
#include "unit/format/small_spec.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

// The pieces of a text, each followed by a bar.
static void expect_pieces(const fxi_vocab *v, const char *text, unsigned flags, const char *want)
{
    fxi_ids ids = {0};
    fxi_buf got = {0};
    fx_error err = {.text = ""};
    if (fxi_vocab_encode(v, text, strlen(text), flags, &ids, &err) != FX_OK)
        fail_msg("'%s': %s", text, err.text);
    for (size_t i = 0; i < ids.n; i++) {
        size_t n;
        const char *p = fxi_vocab_piece(v, ids.id[i], &n);
        assert_true(fxi_buf_add(&got, p, n) && fxi_buf_str(&got, "|"));
    }
    if (strcmp(got.n ? got.p : "", want)) fail_msg("'%s' became %s", text, got.n ? got.p : "");
    fxi_buf_free(&got);
    fxi_ids_free(&ids);
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
    fxi_vocab_spec s;
    fxi_vocab_spec_init(&s, "test");
    s.kind = FXI_VOCAB_WORDS;
    if (unk) s.unk = add_piece(&s, "[UNK]", 0, FXI_TOKEN_UNKNOWN);
    add_pieces(&s, pieces, COUNT(pieces));
    if (inside) s.inside = str_of(inside);
    s.max_word = max_word;
    add_split_of(&s, " ", FXI_SPLIT_REMOVED, false);
    return build_and_free(&s);
}

static void test_longest_pieces(void **state)
{
    (void)state;
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
static void test_dropped_characters(void **state)
{
    (void)state;
    for (int bytes = 0; bytes < 2; bytes++) {
        fxi_vocab_spec s;
        fxi_vocab_spec_init(&s, "test");
        s.kind = FXI_VOCAB_MERGES;
        add_pieces(&s, (const char *const[]){"a", "b"}, 2);
        add_pair_of(&s, "a", "b");
        s.byte_fallback = bytes;
        if (bytes) add_piece(&s, "<0x78>", 0, FXI_TOKEN_BYTE);
        fxi_vocab *v = build_and_free(&s);
        expect_pieces(v, "ab a?b ?? \u00E9", 0, "ab|ab|");
        expect_pieces(v, "axb", 0, bytes ? "a|<0x78>|b|" : "ab|");
        expect_pieces(v, "a??????????????????????????????????????????????????b", 0, "ab|");
        expect_pieces(v, "????????????????????????????????????????????????????", 0, "");
        fxi_vocab_free(v);
    }
}

// Unknown neighbours are one before byte tokens are tried, in a unigram model that fuses them.
static void test_fused_unknown(void **state)
{
    (void)state;
    fxi_vocab_spec s;
    fxi_vocab_spec_init(&s, "test");
    s.kind = FXI_VOCAB_UNIGRAM;
    s.byte_fallback = s.fuse_unknown = true;
    s.unk = add_piece(&s, "[UNK]", -3, FXI_TOKEN_UNKNOWN);
    add_piece(&s, "a", -1, FXI_TOKEN_NORMAL);
    add_piece(&s, "<0x78>", -9, FXI_TOKEN_BYTE);
    fxi_vocab *v = build_and_free(&s);
    expect_pieces(v, "axa", 0, "a|<0x78>|a|");
    expect_pieces(v, "axya", 0, "a|[UNK]|a|");
    fxi_vocab_free(v);
}

//
// Steps that change words
//

static void test_changed_words(void **state)
{
    (void)state;
    fxi_vocab_spec s;
    fxi_vocab_spec_init(&s, "test");
    s.kind = FXI_VOCAB_WORDS;
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
    fxi_vocab *v = build_and_free(&s);
    assert_true(fxi_vocab_adds_space(v));
    expect_pieces(v, "a a-b\n" SP "a b", FXI_ENCODE_SPACE, SP "|a|" SP "|a|-|" SP "|a|" SP "|");
    expect_pieces(v, "a a-b", 0, "a|a|-|");
    fxi_vocab_free(v);
}

// The mark in front goes to the beginning of the input: not to a word behind it, nor to a text
// whose beginning a step took away, but to every word that comes from the first character.
static void test_front(void **state)
{
    (void)state;
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
        fxi_vocab_spec s;
        fxi_vocab_spec_init(&s, "test");
        s.kind = FXI_VOCAB_WORDS;
        s.inside = str_of("");
        add_pieces(&s, (const char *const[]){"a", "b", "-", SP, " ", "\u4E2D"}, 6);
        add_norm_of(&s, cases[i].kind, cases[i].from, cases[i].to);
        add_split_of(&s, "[- ]|\\p{Han}", FXI_SPLIT_ISOLATED, false);
        must_be(fxi_spec_add_split(
            &s, (fxi_split){.how = FXI_SPLIT_CHANGE,
                            .change = {.kind = FXI_NORM_PREPEND_FIRST, .to = str_of(SP)}}));
        fxi_vocab *v = build_and_free(&s);
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
    fxi_vocab_spec s;
    fxi_vocab_spec_init(&s, "test");
    s.kind = FXI_VOCAB_WORDS;
    s.spelling = join == FXI_JOIN_MARKS ? FXI_SPELL_MARKS : FXI_SPELL_PLAIN;
    s.join = join;
    s.join_inside = str_of(inside);
    s.tidies = tidies;
    add_pieces(&s, pieces, COUNT(pieces));
    add_piece(&s, "[SEP]", 0, FXI_TOKEN_CONTROL);
    add_piece(&s, " lead", 0, FXI_TOKEN_USER);
    return build_and_free(&s);
}

static void test_joined(void **state)
{
    (void)state;
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

static void test_joined_control_tokens(void **state)
{
    (void)state;
    fxi_vocab *v = joined(FXI_JOIN_WORDS, "##", true);
    expect_joined(v, "[SEP]|un|##able|[SEP]", FXI_DECODE_CONTROL, "[SEP] unable [SEP]");
    expect_joined(v, "un|[SEP]|.", FXI_DECODE_CONTROL, "un [SEP].");
    fxi_vocab_free(v);
}

FX_SUITE(test_vocab_words)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_longest_pieces),
        cmocka_unit_test(test_dropped_characters),
        cmocka_unit_test(test_fused_unknown),
        cmocka_unit_test(test_changed_words),
        cmocka_unit_test(test_front),
        cmocka_unit_test(test_joined),
        cmocka_unit_test(test_joined_control_tokens),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
