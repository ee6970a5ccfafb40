// The steps before and after the model: norm steps, split steps, special tokens, decoding; and
// specs that cannot be built.
#include <math.h>
#include <utf8proc.h>

#include "base/number/rng.h"
#include "base/text/utf8.h"
#include "format/vocab/encode/vocab_norm.h"
#include "unit/cmocka_all.h"
#include "unit/format/small_spec.h"
#include "unit/format/vocab/encoded.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

// Every byte is a token and nothing merges: the ids are the bytes that the model sees.
static fxi_vocab_spec byte_spec(void)
{
    fxi_vocab_spec s = spec_of(FXI_VOCAB_SCORES);
    s.unit_bytes = true;
    for (int i = 0; i < 256; i++) {
        char byte = (char)i;
        fxi_token t = {.piece = {&byte, 1}, .type = FXI_TOKEN_NORMAL};
        assert_true(fxi_spec_add_token(&s, t));
    }
    return s;
}

static fxi_buf seen(const fxi_vocab *v, const char *text, size_t n, unsigned flags)
{
    return pieces_of(v, ids_of(v, text, n, NULL, flags), "%.*s", NULL);
}

//
// Norm steps
//

FX_TEST(test_norm_steps)
{
    static const struct {
        fxi_norm_kind kind;
        const char *from, *to, *text, *want;
    } cases[] = {
        {FXI_NORM_NFC, "", "", "xe\u0301y", "x\u00E9y"},
        {FXI_NORM_NFC, "", "", "\u212B", "\u00C5"},
        {FXI_NORM_NFC, "", "", "a\u0307\u0323", "\u1EA1\u0307"},
        {FXI_NORM_NFC, "", "", "\u1112\u1161\u11AB", "\uD55C"},
        {FXI_NORM_NFC, "", "", "\u304B\u3099", "\u304C"},
        {FXI_NORM_NFD, "", "", "\u00E9\uD55C", "e\u0301\u1112\u1161\u11AB"},
        {FXI_NORM_NFKC, "", "", "\uFB01 \u2460 \uFF21", "fi 1 A"},
        {FXI_NORM_NFKD, "", "", "\uFB01\u00E9", "fie\u0301"},
        {FXI_NORM_LOWERCASE, "", "", "aB\u00C9\u0130\u03A3", "ab\u00E9i\u0307\u03C3"},
        {FXI_NORM_STRIP_ACCENTS, "", "", "e\u0301a\u00E9", "ea\u00E9"},
        {FXI_NORM_STRIP_ACCENTS, "", "", "\u0915\u093F\u20DD", "\u0915"},
        {FXI_NORM_STRIP_MN, "", "", "e\u0301\u0915\u093F", "e\u0915\u093F"},
        {FXI_NORM_CLEAN, "", "", "a\tb\u200B\uFFFD\x01\u00A0c\uE000\u0378", "a b c\u0378"},
        {FXI_NORM_PAD_HAN, "", "", "a\u4E2D\u6587b\u30A2", "a \u4E2D  \u6587 b\u30A2"},
        {FXI_NORM_REPLACE, "aa", "b", "aaaxaa", "baxb"},
        {FXI_NORM_REPLACE, "aa", "", "xaay", "xy"},
        {FXI_NORM_REPLACE, "q", "b", "same", "same"},
        {FXI_NORM_REPLACE_REGEX, " {2,}", " ", "a   b c  ", "a b c "},
        {FXI_NORM_REPLACE_REGEX, "^|b*", "-", "abb", "-a-"},
        {FXI_NORM_STRIP_LEFT, "", "", " \u3000\na ", "a "},
        {FXI_NORM_STRIP_RIGHT, "", "", " a \u3000\n", " a"},
        {FXI_NORM_STRIP_LEFT, "", "", " \t ", ""},
        {FXI_NORM_COLLAPSE, "", "", "  a   b  ", "a b"},
        {FXI_NORM_COLLAPSE, "", "", "a" SP " " SP, "a"},
        {FXI_NORM_PREPEND, "", "_", "_a", "__a"},
        {FXI_NORM_PREPEND_OTHER, "", "_", "_a", "_a"},
        {FXI_NORM_PREPEND_OTHER, "", "_", "a", "_a"},
        {FXI_NORM_PREPEND_FIRST, "", "_", "a", "_a"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fxi_vocab_spec s = byte_spec();
        add_norm_of(&s, cases[i].kind, cases[i].from, cases[i].to);
        fxi_vocab *v = build_spec(&s);
        fxi_buf got = seen(v, cases[i].text, strlen(cases[i].text), FXI_ENCODE_SPACE);
        if (strcmp(got.p, cases[i].want))
            fail_msg("case %zu: '%s' became '%s'", i, cases[i].text, got.p);
        fxi_buf_free(&got);
        fxi_vocab_free(v);
    }
}

// Steps that make a text much longer stop before memory runs out.
FX_TEST(test_steps_that_grow)
{
    static const struct {
        fxi_norm_kind kind;
        const char *from;
    } cases[] = {{FXI_NORM_REPLACE, "a"}, {FXI_NORM_REPLACE_REGEX, "a"}};
    enum { N = 1 << 19, N_TO = 1 << 12 };
    char *text = malloc(N), *to = malloc(N_TO + 1);
    memset(text, 'a', N);
    memset(to, 'b', N_TO);
    to[N_TO] = 0;
    for (size_t i = 0; i < COUNT(cases); i++) {
        fxi_vocab_spec s = byte_spec();
        fxi_ids ids = {0};
        fx_error err;
        add_norm_of(&s, cases[i].kind, cases[i].from, to);
        if (i) add_norm_of(&s, cases[i].kind, "b{4096}", "b"); // and shorter again
        fxi_vocab *v = build_spec(&s);
        const size_t n = cases[i].kind == FXI_NORM_REPLACE ? N : 1000;
        fx_status st = fxi_vocab_encode(v, text, n, 0, &ids, &err);
        assert_int_equal(st, n == N ? FX_EINVAL : FX_OK);
        if (st != FX_OK)
            assert_string_equal(err.text, "the text becomes too long for the vocabulary's steps");
        assert_int_equal(ids.n, st == FX_OK ? n : 0);
        fxi_ids_free(&ids);
        fxi_vocab_free(v);
    }
    free(text);
    free(to);
}

static const struct {
    fxi_norm_kind kind;
    utf8proc_option_t options;
} forms[] = {
    {FXI_NORM_NFC, UTF8PROC_STABLE | UTF8PROC_COMPOSE},
    {FXI_NORM_NFD, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE},
    {FXI_NORM_NFKC, UTF8PROC_STABLE | UTF8PROC_COMPOSE | UTF8PROC_COMPAT},
    {FXI_NORM_NFKD, UTF8PROC_STABLE | UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT},
};

// Letters, marks and characters that compose, mixed.
static size_t random_unicode(uint64_t seed, uint64_t *i, char *out, size_t n)
{
    static const int32_t from[][2] = {{0x20, 0x7E},     {0xC0, 0x17F},     {0x300, 0x34F},
                                      {0x300, 0x34F},   {0x1100, 0x11FF},  {0xAC00, 0xAC60},
                                      {0x1E00, 0x1EFF}, {0x9A0, 0x9E0},    {0x3040, 0x30FF},
                                      {0xFB00, 0xFB4F}, {0x1D160, 0x1D16F}};
    size_t at = 0;
    for (size_t k = 0; k < n; k++) {
        const int32_t *range = from[fxi_rng_u64(seed, 1, (*i)++) % COUNT(from)];
        uint64_t wide = (uint64_t)(range[1] - range[0] + 1);
        int32_t cp = range[0] + (int32_t)(fxi_rng_u64(seed, 1, (*i)++) % wide);
        at += (size_t)utf8proc_encode_char(cp, (utf8proc_uint8_t *)out + at);
    }
    return at;
}

// Stretches apart give the same as the whole.
FX_TEST(test_normal_forms_of_random_text)
{
    char text[4 * 40];
    for (size_t f = 0; f < COUNT(forms); f++) {
        uint64_t i = 0;
        fxi_vocab_spec s = byte_spec();
        add_norm_of(&s, forms[f].kind, "", "");
        fxi_vocab *v = build_spec(&s);
        for (int k = 0; k < 3000; k++) {
            utf8proc_uint8_t *want;
            size_t n = random_unicode(f, &i, text, 1 + fxi_rng_u64(f, 2, (uint64_t)k) % 40);
            utf8proc_ssize_t n_want = utf8proc_map((const utf8proc_uint8_t *)text,
                                                   (utf8proc_ssize_t)n, &want, forms[f].options);
            fxi_buf got = seen(v, text, n, 0);
            if ((size_t)n_want != got.n || memcmp(want, got.p, got.n))
                fail_msg("form %zu: '%.*s' became '%s', not '%s'", f, (int)n, text, got.p, want);
            fxi_buf_free(&got);
            free(want);
        }
        fxi_vocab_free(v);
    }
}

// Marks are sorted by class, however many there are.
FX_TEST(test_marks_in_wrong_order)
{
    enum { N = 1 << 18 };
    fxi_vocab_spec s = byte_spec();
    add_norm_of(&s, FXI_NORM_NFC, "", "");
    fxi_vocab *v = build_spec(&s);
    char *text = malloc(4 * N);
    for (size_t i = 0; i < N; i++) memcpy(text + 4 * i, "\u0301\u0316", 4);
    fxi_buf got = seen(v, text, 4 * N, 0);
    assert_int_equal(got.n, 4 * N);
    for (size_t i = 0; i < N; i++) assert_memory_equal(got.p + 2 * i, "\u0316", 2);
    fxi_buf_free(&got);
    free(text);
    fxi_vocab_free(v);
}

// One key, "A" for "bc", in a double array: the root's child by 'A' is unit 0x40, its value 0x42.
static fxi_buf small_charsmap(uint32_t value)
{
    enum { N_UNIT = 0x43 };
    uint32_t unit[N_UNIT + 1] = {N_UNIT * 4, [1] = 1 << 10};
    unit[1 + 0x40] = 0x41 | 1 << 8 | 2 << 10;
    unit[1 + 0x42] = value | 1u << 31;
    fxi_buf b = {0};
    assert_true(fxi_buf_add(&b, unit, sizeof unit) && fxi_buf_add(&b, "bc\0\u00E9", 6));
    return b;
}

FX_TEST(test_charsmap)
{
    static const struct {
        uint32_t value;
        const char *want;
    } cases[] = {
        {0, "xbcB"}, {3, "x\u00E9B"}, {4, "xAB"}, {99, "xAB"}, // inside a character; beyond the end
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fxi_vocab_spec s = byte_spec();
        fxi_buf map = small_charsmap(cases[i].value), got;
        assert_true(
            fxi_spec_add_norm(&s, (fxi_norm){.kind = FXI_NORM_CHARSMAP, .from = {map.p, map.n}}));
        fxi_vocab *v = build_spec(&s);
        got = seen(v, "xAB", 3, 0);
        assert_string_equal(got.p, cases[i].want);
        fxi_buf_free(&got);
        fxi_buf_free(&map);
        fxi_vocab_free(v);
    }
}

// A short or broken map is refused, or read within its bounds.
FX_TEST(test_broken_charsmaps)
{
    fxi_buf map = small_charsmap(0);
    for (size_t n = 0; n < map.n; n++) {
        char *cut = malloc(n ? n : 1); // exact size: reading past it is detected
        fxi_buf out = {0};
        memcpy(cut, map.p, n);
        if (fxi_charsmap_check((fxi_str){cut, n}))
            assert_true(fxi_charsmap_append((fxi_str){cut, n}, (fxi_str){"xAAB", 4}, &out));
        fxi_buf_free(&out);
        free(cut);
    }
    map.p[0] = 1; // the trie's size is not a multiple of 4
    assert_false(fxi_charsmap_check((fxi_str){map.p, map.n}));
    fxi_buf_free(&map);
}

// Steps of a pre-tokenizer come after the tokens that are looked for normalized.
FX_TEST(test_late_steps)
{
    fxi_vocab_spec s = byte_spec();
    const int32_t mark = add_piece(&s, "<M>", 0, FXI_TOKEN_USER);
    s.tok[mark].normalized = true;
    add_norm_of(&s, FXI_NORM_LOWERCASE, "", "");
    add_norm_of(&s, FXI_NORM_PREPEND_OTHER, "", "_");
    s.norm[1].late = true;
    fxi_vocab *v = build_spec(&s);
    fxi_buf got = seen(v, "A<m>B<M>", 8, FXI_ENCODE_SPACE);
    assert_string_equal(got.p, "_a<M>_b<M>");
    fxi_buf_free(&got);
    fxi_vocab_free(v);
}

//
// Split steps
//

enum { MAX_WORD = 5 };

// All words of a, b and - up to MAX_WORD characters are tokens.
static void add_words(fxi_vocab_spec *s, char *word, size_t n)
{
    for (const char *c = "ab-"; *c && n < MAX_WORD; c++) {
        word[n] = *c;
        word[n + 1] = 0;
        add_piece(s, word, 0, FXI_TOKEN_NORMAL);
        add_words(s, word, n + 1);
    }
}

static void expect_words(const char *const *pattern, fxi_split_how how, bool invert,
                         const char *text, const char *want)
{
    char word[MAX_WORD + 1];
    fxi_vocab_spec s = spec_of(FXI_VOCAB_SCORES);
    s.whole_words = true;
    add_words(&s, word, 0);
    for (; *pattern; pattern++) add_split_of(&s, *pattern, how, invert);
    fxi_vocab *v = build_spec(&s);
    fxi_buf got = pieces_of(v, ids_of(v, text, strlen(text), NULL, 0), "%.*s|", NULL);
    if (strncmp(got.p, want, got.n - 1) || want[got.n - 1])
        fail_msg("'%s', how %d%s: %s", text, (int)how, invert ? " inverted" : "", got.p);
    fxi_buf_free(&got);
    fxi_vocab_free(v);
}

FX_TEST(test_split_steps)
{
    static const struct {
        const char *pattern[3];
        fxi_split_how how;
        bool invert;
        const char *text, *want;
    } cases[] = {
        {{"-"}, FXI_SPLIT_ISOLATED, false, "aa--b-", "aa|-|-|b|-"},
        {{"-"}, FXI_SPLIT_REMOVED, false, "aa--b-", "aa|b"},
        {{"-"}, FXI_SPLIT_MERGED_PREVIOUS, false, "aa--b-", "aa-|-|b-"},
        {{"-"}, FXI_SPLIT_MERGED_PREVIOUS, false, "-a", "-|a"},
        {{"-"}, FXI_SPLIT_MERGED_NEXT, false, "aa--b-", "aa|-|-b|-"},
        {{"-"}, FXI_SPLIT_CONTIGUOUS, false, "aa--b-", "aa|--|b|-"},
        {{"-"}, FXI_SPLIT_ISOLATED, true, "aa--b-", "aa|-|-|b|-"},
        {{"-"}, FXI_SPLIT_REMOVED, true, "aa--b-", "-|-|-"},
        {{"-"}, FXI_SPLIT_MERGED_PREVIOUS, true, "aa--b-", "aa|-|-b|-"},
        {{"-"}, FXI_SPLIT_MERGED_NEXT, true, "aa--b-", "aa-|-|b-"},
        {{"-"}, FXI_SPLIT_CONTIGUOUS, true, "aa--b-", "aa|--|b|-"},
        {{"(?=b)"}, FXI_SPLIT_ISOLATED, false, "aabb", "aa|b|b"}, // empty matches cut
        {{"a*"}, FXI_SPLIT_ISOLATED, false, "baab", "b|aa|b"},
        {{"a+b"}, FXI_SPLIT_ISOLATED, false, "--", "--"},
        {{"-", "ab"}, FXI_SPLIT_ISOLATED, false, "aab-abb", "a|ab|-|ab|b"}, // one after the other
        {{"a(?=b)", "(?<=a)b"}, FXI_SPLIT_ISOLATED, false, "ab", "a|b"},
        {{"(?<=a)b"}, FXI_SPLIT_ISOLATED, false, "abb", "a|b|b"},
    };
    for (size_t i = 0; i < COUNT(cases); i++)
        expect_words(cases[i].pattern, cases[i].how, cases[i].invert, cases[i].text, cases[i].want);
}

//
// Special tokens
//

static void expect_seen(const fxi_vocab *v, const char *text, const char *own, unsigned flags,
                        const char *want)
{
    fxi_buf got = pieces_of(v, ids_of(v, text, strlen(text), own, flags), "%.*s", "{%.*s}");
    if (strcmp(got.p, want)) fail_msg("'%s' became '%s'", text, got.p);
    fxi_buf_free(&got);
}

static fxi_token *new_piece(fxi_vocab_spec *s, const char *piece, int type)
{
    const int32_t id = add_piece(s, piece, 0, type);
    return &s->tok[id];
}

FX_TEST(test_special_tokens)
{
    fxi_vocab_spec s = byte_spec();
    new_piece(&s, "<l>", FXI_TOKEN_USER)->eats_left = true;
    new_piece(&s, "<r>", FXI_TOKEN_CONTROL)->eats_right = true;
    new_piece(&s, "word", FXI_TOKEN_USER)->whole_word = true;
    new_piece(&s, "<N>", FXI_TOKEN_CONTROL)->normalized = true;
    fxi_token *tabs = new_piece(&s, "\t\t", FXI_TOKEN_USER);
    tabs->eats_left = tabs->eats_right = true;
    new_piece(&s, "<\uFF5Cuser\uFF5C>", FXI_TOKEN_USER); // looks like a mark of a template
    add_piece(&s, "<l", 0, FXI_TOKEN_USER);
    add_norm_of(&s, FXI_NORM_LOWERCASE, "", "");
    fxi_vocab *v = build_spec(&s);
    const unsigned control = FXI_ENCODE_CONTROL;
    expect_seen(v, "a \u3000<l> b", NULL, 0, "a{<l>} b");
    expect_seen(v, " <l> <l>", NULL, 0, "{<l>}{<l>}");
    expect_seen(v, "<lx", NULL, 0, "{<l}x");
    expect_seen(v, "A <r> \n b<r>", NULL, control, "a {<r>}b{<r>}");
    expect_seen(v, "<r> <l>", NULL, control, "{<r>}{<l>}");
    expect_seen(v, "a<r> b", NULL, 0, "a<r> b");
    expect_seen(v, "a \t\t\t\t b", NULL, 0, "a{\t\t}b"); // the first swallowed the second
    expect_seen(v, "<r>\t\t<l>", NULL, control, "{<r>}{<l>}");
    expect_seen(v, "<\uFF5Cuser\uFF5C>", NULL, 0, "<\uFF5Cuser\uFF5C>");
    expect_seen(v, "<\uFF5Cuser\uFF5C>", NULL, control, "{<\uFF5Cuser\uFF5C>}");
    expect_seen(v, "word sword word2 (word) \u00E9word", NULL, 0,
                "{word} sword word2 ({word}) \u00E9word");
    expect_seen(v, "<n><N>", NULL, control, "{<N>}{<N>}"); // as the norm steps leave its spelling
    expect_seen(v, "<n><N>", NULL, 0, "<n><n>");
    expect_seen(v, "<n><N><N>", "xxxxxx...", 0, "<n>{<N>}<n>"); // own bytes: as it is spelled
    expect_seen(v, "<r>A<r>", "xxx....", 0, "{<r>}a<r>");
    fxi_vocab_free(v);
}

//
// Decoding
//

FX_TEST(test_decoder)
{
    static const struct {
        bool marks, strips;
        const char *token[6], *want;
    } cases[] = {
        {false,
         false,
         {"\xE2\x82", "\xAC", "x"},
         "\u20AC"
         "x"},
        {false, false, {"\xE2\x82", "x", "\xFF\xFE"}, "\uFFFDx\uFFFD\uFFFD"},
        {true, false, {"\xE2\x82", "x"}, "\uFFFD\uFFFDx"},
        {false, false, {"a\xF0\x9F\x98"}, "a\uFFFD"},
        {true, false, {"a\xF0\x9F\x98"}, "a\uFFFD\uFFFD\uFFFD"},
        {false, false, {"\xED\xA0\x80"}, "\uFFFD\uFFFD\uFFFD"},
        {true, true, {" ", " a", " b"}, " a b"},
        {true, true, {"", " a"}, "a"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fxi_vocab_spec s = byte_spec();
        fxi_buf out = {0};
        s.spelling = cases[i].marks ? FXI_SPELL_MARKS : FXI_SPELL_PLAIN;
        s.strips_space = cases[i].strips;
        fxi_vocab *v = build_spec(&s);
        fxi_decoder d = fxi_decoder_begin(v, true), copy = {0};
        for (const char *const *t = cases[i].token; *t; t++) {
            assert_true(fxi_decoder_add(&d, *t, strlen(*t), &out));
            assert_int_equal(fxi_utf8_check(out.p ? out.p : "", out.n), out.n);
        }
        assert_true(fxi_decoder_copy(&copy, &d) && copy.raw.n == d.raw.n);
        assert_true(fxi_decoder_end(&d, &out));
        assert_string_equal(out.p, cases[i].want);
        fxi_decoder_free(&d);
        fxi_decoder_free(&copy);
        fxi_buf_free(&out);
        fxi_vocab_free(v);
    }
}

// Token by token gives the same as the whole, for any bytes.
FX_TEST(test_decode_random_bytes)
{
    static const unsigned char often[] = {0x41, 0xC3, 0xA9, 0xE2, 0x82, 0xAC, 0xF0, 0x9F, 0x98};
    fxi_vocab_spec s = byte_spec();
    fxi_vocab *v = build_spec(&s);
    for (uint64_t seed = 0; seed < 2000; seed++) {
        int32_t id[40];
        fxi_buf whole = {0}, parts = {0};
        fxi_decoder d = fxi_decoder_begin(v, true);
        for (size_t i = 0; i < COUNT(id); i++) {
            uint64_t r = fxi_rng_u64(seed, 3, i);
            id[i] = r & 1 ? often[(r >> 8) % sizeof often] : (int32_t)(r >> 8 & 255);
            const char byte = (char)id[i];
            assert_true(fxi_decoder_add(&d, &byte, 1, &parts));
        }
        assert_true(fxi_decoder_end(&d, &parts));
        assert_true(fxi_vocab_decode(v, id, COUNT(id), 0, &whole));
        assert_int_equal(whole.n, parts.n);
        assert_memory_equal(whole.p, parts.p, parts.n);
        assert_int_equal(fxi_utf8_check(whole.p, whole.n), whole.n);
        fxi_decoder_free(&d);
        fxi_buf_free(&whole);
        fxi_buf_free(&parts);
    }
    fxi_vocab_free(v);
}

FX_TEST(test_decode_control_tokens)
{
    fxi_vocab_spec s = byte_spec();
    const int32_t id[] = {add_piece(&s, "<s>", 0, FXI_TOKEN_CONTROL), 'a', 9999, -1};
    fxi_vocab *v = build_spec(&s);
    fxi_buf out = {0};
    assert_true(fxi_vocab_decode(v, id, COUNT(id), 0, &out));
    assert_true(fxi_vocab_decode(v, id, COUNT(id), FXI_DECODE_CONTROL, &out));
    assert_string_equal(out.p, "a<s>a");
    fxi_buf_free(&out);
    fxi_vocab_free(v);
}

//
// Pre-tokenizers
//

// Names of tokenizer.ggml.pre besides those of test_vocab_gguf.c.
static const char known_pre[] =
    "gpt-2 llama-bpe qwen2 qwen35 deepseek-llm deepseek-v3 falcon starcoder refact "
    "command-r smollm codeshell exaone gpt-4o tekken bloom chatglm-bpe glm4 viking dbrx "
    "stablelm2 poro-chat olmo default jina-v2-code smaug-bpe deepseek-coder llama-v3 "
    "minimind phi-2 a.x-4.0 mellum2 grok-2 solar-open talkie minimax-m2 cohere2moe "
    "granite-embed-multi-97m hunyuan-dense hy_v4 joyai-llm llada-moe granite-docling "
    "bailingmoe2";

FX_TEST(test_pre_names)
{
    for (const char *at = known_pre, *end; *at; at = end + (*end == ' ')) {
        fxi_vocab_spec s = byte_spec();
        end = at + strcspn(at, " ");
        assert_int_equal(fxi_spec_add_pre(&s, (fxi_str){at, (size_t)(end - at)}, NULL), FX_OK);
        fxi_vocab *v = build_spec(&s);
        fxi_buf got = seen(v, "It's 1234 \u3042\n", 14, 0);
        assert_string_equal(got.p, "It's 1234 \u3042\n");
        fxi_buf_free(&got);
        fxi_vocab_free(v);
    }
    static const char *const unknown[] = {"gpt-3", "", "gpt", "qwen", "gpt-2 ", "no\n"};
    for (size_t i = 0; i < COUNT(unknown); i++) {
        fxi_vocab_spec s = byte_spec();
        fx_error err;
        assert_int_equal(fxi_spec_add_pre(&s, str_of(unknown[i]), &err), FX_EFORMAT);
        assert_non_null(strstr(err.text, "unknown pre-tokenizer '"));
        fxi_vocab_spec_free(&s);
    }
}

//
// Specs that cannot be built
//

// What is added to a sound spec of 256 tokens.
typedef struct spoilt_spec {
    const char *says;
    int32_t bos, end, merge_to; // 0: none
    struct {
        size_t n, n_bytes; // tokens; 'a's, 0: the piece "x"
        double score;
        uint8_t type;
    } token;
    bool has_norm;
    fxi_norm norm;
    size_t n_to; // 'a's that the norm step inserts
    const char *split;
    bool by_bytes, no_tokens;
} spoilt_spec;

static void spoil_spec(fxi_vocab_spec *s, const spoilt_spec *c, char *many)
{
    const size_t n = c->token.n_bytes;
    fxi_norm norm = c->norm;
    if (c->bos) s->bos = c->bos;
    if (c->end) must_be(fxi_ids_add(&s->ends, c->end));
    if (c->merge_to) {
        s->kind = FXI_VOCAB_MERGES;
        must_be(fxi_spec_add_merge(s, (fxi_spec_merge){0, 1, c->merge_to}));
    }
    for (size_t i = 0; i < c->token.n; i++)
        must_be(fxi_spec_add_token(s, (fxi_token){.piece = n ? (fxi_str){many, n} : str_of("x"),
                                                  .score = c->token.score,
                                                  .type = c->token.type}));
    if (c->n_to) norm.to = (fxi_str){many, c->n_to};
    if (c->has_norm) must_be(fxi_spec_add_norm(s, norm));
    if (c->split) add_split_of(s, c->split, FXI_SPLIT_ISOLATED, false);
    if (c->by_bytes) {
        s->split[0].bytes = true;
        s->unit_bytes = false;
    }
    if (c->no_tokens) s->n_tok = 0;
}

FX_TEST(test_broken_specs)
{
    enum { MANY = 4097 };
    static const spoilt_spec cases[] = {
        {"the id of BOS is 256, but there are 256 tokens", .bos = 256},
        {"the id of an end is 1000", .end = 1000},
        {"merge 0 has id 256, but there are 256 tokens", .merge_to = 256},
        {"the score of token 256 is NaN", .token = {1, 0, NAN, FXI_TOKEN_NORMAL}},
        {"byte token 256 is spelled 'x', not <0xNN>", .token = {1, .type = FXI_TOKEN_BYTE}},
        {"the pattern 'a(b': missing closing parenthesis", .split = "a(b"},
        {"the pattern '[': missing terminating ]", .has_norm = true,
         .norm = {.kind = FXI_NORM_REPLACE_REGEX, .from = {"[", 1}}},
        {"the precompiled character map is broken", .has_norm = true,
         .norm = {.kind = FXI_NORM_CHARSMAP, .from = {"abc", 3}}},
        {"a normalization step replaces an empty text", .has_norm = true,
         .norm = {.kind = FXI_NORM_REPLACE, .to = {"x", 1}}},
        {"a normalization step has bad UTF-8", .has_norm = true,
         .norm = {.kind = FXI_NORM_PREPEND, .to = {"\xFF", 1}}},
        {"a normalization step inserts 4097 bytes (at most 4096)", .has_norm = true,
         .norm = {.kind = FXI_NORM_PREPEND}, .n_to = MANY},
        {"a pre-tokenizer step splits characters, but the model takes whole ones", .split = "a",
         .by_bytes = true},
        {"there are 0 tokens", .no_tokens = true},
        {"token 256 has 4097 bytes (at most 4096)", .token = {1, MANY, .type = FXI_TOKEN_NORMAL}},
        {"token 256 has 513 bytes (at most 512)", .token = {1, 513, .type = FXI_TOKEN_USER}},
        {"too many long tokens", .token = {600, 4096, .type = FXI_TOKEN_NORMAL}},
    };
    char many[MANY];
    memset(many, 'a', sizeof many);
    for (size_t i = 0; i < COUNT(cases); i++) {
        fxi_vocab_spec s = byte_spec();
        fxi_vocab *v = NULL;
        fx_error err;
        spoil_spec(&s, &cases[i], many);
        assert_int_equal(fxi_vocab_build(&s, &v, &err), FX_EFORMAT);
        assert_null(v);
        if (strncmp(err.text, "test: ", 6) || !strstr(err.text, cases[i].says))
            fail_msg("\"%s\"", err.text);
    }
}

FX_RUN(test_vocab_steps)
