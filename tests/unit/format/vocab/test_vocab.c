// Text to ids and back: hand-derived cases on a small vocabulary, and the vectors of a real one if
// it is available. (test_vocab_model.c compares with naive models on random vocabularies.)
#include <math.h>
#include <stddef.h>
#include <stdint.h>
#include <unistd.h>

#include "base/text/utf8.h"
#include "unit/cmocka_all.h"
#include "unit/format/small_vocab.h"
#include "unit/format/vocab/encoded.h"

#define COUNT(table) (sizeof(table) / sizeof *(table))

// Ids follow the order: ID_OWN + 0, 1, ..
enum {
    SPACE,
    A,
    B,
    C,
    AB,
    BC,
    ABC,
    AA,
    SP_A,
    SP_AB,
    SPACES2,
    TOOL,
    TOOL_X,
    GO,
    IM_END,
    SPACES3,
    UNUSED_CA
};

static const small_token own[] = {
    [SPACE] = {SP, -20, NORMAL},        [A] = {"a", -21, NORMAL},
    [B] = {"b", -22, NORMAL},           [C] = {"c", -23, NORMAL},
    [AB] = {"ab", -1, NORMAL},          [BC] = {"bc", -2, NORMAL},
    [ABC] = {"abc", -3, NORMAL},        [AA] = {"aa", -1, NORMAL},
    [SP_A] = {SP "a", -4, NORMAL},      [SP_AB] = {SP "ab", -5, NORMAL},
    [SPACES2] = {SP SP, -6, NORMAL},    [TOOL] = {"<tool>", 0, USER},
    [TOOL_X] = {"<tool>x", 0, USER},    [GO] = {"<go>", 0, CONTROL},
    [IM_END] = {"<|im_end|>", 0, USER}, [SPACES3] = {SP SP SP, 0, USER},
    [UNUSED_CA] = {"ca", -9, UNUSED},
};

#define OWN(x)     (ID_OWN + (x))
#define BYTE_ID(x) (ID_BYTES + (x))

static fxi_vocab *load_small(void)
{
    fxi_vocab *v;
    const vocab_parts parts = {.own = own, .n_own = COUNT(own)};
    assert_int_equal(load_parts(&parts, &v, NULL), FX_OK);
    return v;
}

static void expect_ids(const fxi_vocab *v, const char *text, const char *own_bytes, unsigned flags,
                       const int32_t *want, size_t n)
{
    fxi_ids ids = ids_of(v, text, strlen(text), own_bytes, flags);
    bool same = ids.n == n && (!n || !memcmp(ids.id, want, n * sizeof *want));
    for (size_t i = 0; !same && i < ids.n; i++) print_message("%d ", (int)ids.id[i]);
    if (!same) fail_msg("are not the ids of '%s'", text);
    fxi_ids_free(&ids);
}

// `marks` has an 'x' for every byte that may be part of a control token.
#define EXPECT_MARKED(v, text, marks, flags, ...)               \
    do {                                                        \
        const int32_t want_[] = {__VA_ARGS__};                  \
        expect_ids(v, text, marks, flags, want_, COUNT(want_)); \
    } while (0)

#define EXPECT(v, text, flags, ...) EXPECT_MARKED(v, text, NULL, flags, __VA_ARGS__)

FX_TEST(test_merge_order)
{
    fxi_vocab *v = load_small();
    expect_ids(v, "", NULL, FXI_ENCODE_SPACE, NULL, 0);
    EXPECT(v, "a", 0, OWN(A));
    EXPECT(v, "ab", 0, OWN(AB));
    EXPECT(v, "abc", 0, OWN(ABC));          // a|bc is worse than ab|c
    EXPECT(v, "bcab", 0, OWN(BC), OWN(AB)); // ab merges first, bc is left
    EXPECT(v, "aaa", 0, OWN(AA), OWN(A));   // the leftmost of equals
    EXPECT(v, "aab", 0, OWN(AA), OWN(B));   // aa and ab have one score
    EXPECT(v, "aabc", 0, OWN(AA), OWN(BC)); // then bc is still there
    EXPECT(v, "cb", 0, OWN(C), OWN(B));
    EXPECT(v, "ca", 0, OWN(UNUSED_CA));
    fxi_vocab_free(v);
}

FX_TEST(test_spaces)
{
    fxi_vocab *v = load_small();
    EXPECT(v, "a", FXI_ENCODE_SPACE, OWN(SP_A));
    EXPECT(v, " a", 0, OWN(SP_A));
    EXPECT(v, " a", FXI_ENCODE_SPACE, OWN(SPACE), OWN(SP_A)); // -4 before the -6 of two spaces
    EXPECT(v, "  ", 0, OWN(SPACES2));
    EXPECT(v, "a b", 0, OWN(A), OWN(SPACE), OWN(B));
    EXPECT(v, "ab ab", FXI_ENCODE_SPACE, OWN(SP_AB), OWN(SP_AB));
    EXPECT(v, SP "a", 0, OWN(SP_A)); // the mark itself counts as a space
    EXPECT(v, "a\n", 0, OWN(A), BYTE_ID('\n'));
    EXPECT(v, "\t", FXI_ENCODE_SPACE, OWN(SPACE), BYTE_ID('\t'));
    fxi_vocab_free(v);
}

FX_TEST(test_byte_fallback)
{
    fxi_vocab *v = load_small();
    EXPECT(v, "\xC3\xA9", 0, BYTE_ID(0xC3), BYTE_ID(0xA9));
    EXPECT(v, "a\xF0\x9F\xA6\x99z", 0, OWN(A), BYTE_ID(0xF0), BYTE_ID(0x9F), BYTE_ID(0xA6),
           BYTE_ID(0x99), BYTE_ID('z'));
    EXPECT(v, "<0x41>", 0, BYTE_ID('<'), BYTE_ID('0'), BYTE_ID('x'), BYTE_ID('4'), BYTE_ID('1'),
           BYTE_ID('>'));
    fxi_vocab_free(v);
}

FX_TEST(test_unknown_characters)
{
    fxi_vocab *v;
    vocab_parts parts = {.own = own, .n_own = COUNT(own), .no_bytes = true};
    assert_int_equal(load_parts(&parts, &v, NULL), FX_OK);
    EXPECT(v, "a\xC3\xA9z", 0, ID_BYTES + A, ID_UNK, ID_UNK);
    fxi_vocab_free(v);
}

// Neither byte tokens nor an unknown token: the character is dropped, the rest of the text stays.
FX_TEST(test_no_token_for_a_character)
{
    fxi_gguf *g;
    fxi_vocab *v;
    fxi_buf b = vocab_file(&(vocab_parts){.own = own, .n_own = COUNT(own), .no_bytes = true});
    memcpy(memmem(b.p, b.n, "<unk>", 5), "<xxx>", 5);
    assert_int_equal(fxi_gguf_parse(b.p, b.n, "mem.gguf", &g, NULL), FX_OK);
    assert_int_equal(fxi_vocab_load(g, &v, NULL), FX_OK);
    EXPECT(v,
           "a\xC3\xA9"
           "a\xC3\xA9",
           0, ID_BYTES + A, ID_BYTES + A);
    fxi_vocab_free(v);
    fxi_gguf_close(g);
    fxi_buf_free(&b);
}

FX_TEST(test_special_tokens)
{
    fxi_vocab *v = load_small();
    EXPECT(v, "a<tool>b", 0, OWN(A), OWN(TOOL), OWN(B));
    EXPECT(v, "<tool>x<tool>ab", 0, OWN(TOOL_X), OWN(TOOL),
           OWN(AB)); // the longest; nothing merges across
    EXPECT(v, "<tool>a", FXI_ENCODE_SPACE, OWN(TOOL), OWN(SP_A)); // a space after special tokens
    EXPECT(v, "a<tool>a", FXI_ENCODE_SPACE, OWN(SP_A), OWN(TOOL), OWN(SP_A));
    EXPECT(v, "a   a", 0, OWN(A), OWN(SPACES3), OWN(A)); // spelled with spaces in a text
    EXPECT(v, "a<go>a", FXI_ENCODE_CONTROL, OWN(A), OWN(GO), OWN(A));
    EXPECT(v, "<go>", 0, BYTE_ID('<'), BYTE_ID('g'), BYTE_ID('o'), BYTE_ID('>'));
    EXPECT(v, "<s>", FXI_ENCODE_CONTROL, ID_BOS);
    EXPECT(v, "<tool", 0, BYTE_ID('<'), BYTE_ID('t'), BYTE_ID('o'), BYTE_ID('o'), BYTE_ID('l'));
    fxi_vocab_free(v);
}

FX_TEST(test_marked_text)
{
    fxi_vocab *v = load_small();
    const int32_t lt = BYTE_ID('<'), g = BYTE_ID('g'), o = BYTE_ID('o'), gt = BYTE_ID('>');
    EXPECT_MARKED(v, "<go>", "xxxx", 0, OWN(GO));
    EXPECT_MARKED(v, "<go>", "xxx.", 0, lt, g, o, gt);
    EXPECT_MARKED(v, "<go>", ".xxx", 0, lt, g, o, gt);
    EXPECT_MARKED(v, "<go><go>", "....xxxx", 0, lt, g, o, gt, OWN(GO));
    EXPECT_MARKED(v, "<go>ab", "xxxxx.", 0, OWN(GO), OWN(AB)); // other text is tokenized as one
    EXPECT_MARKED(v, "<tool>x", ".......", 0, OWN(TOOL_X));    // user-defined: always split off
    fxi_vocab_free(v);
}

// A chat mark is a control token even if the file calls it user-defined.
FX_TEST(test_marks_are_control)
{
    fxi_vocab *v = load_small();
    assert_true(fxi_vocab_control(v, OWN(IM_END)));
    assert_true(fxi_vocab_ends(v, OWN(IM_END)));
    assert_false(fxi_vocab_control(v, OWN(TOOL)));
    EXPECT(v, "<|im_end|>", FXI_ENCODE_CONTROL, OWN(IM_END));
    fxi_ids ids = ids_of(v, "<|im_end|>", 10, NULL, 0);
    for (size_t i = 0; i < ids.n; i++) assert_false(fxi_vocab_control(v, ids.id[i]));
    fxi_ids_free(&ids);
    fxi_vocab_free(v);
}

static void expect_text(const fxi_vocab *v, int32_t id, const char *bytes, const char *piece)
{
    size_t n;
    const char *p = fxi_vocab_bytes(v, id, &n);
    assert_true(fxi_str_is((fxi_str){p, n}, bytes));
    p = fxi_vocab_piece(v, id, &n);
    assert_true(fxi_str_is((fxi_str){p, n}, piece));
    assert_int_equal(fxi_vocab_find(v, piece, n), id);
}

FX_TEST(test_questions)
{
    fxi_vocab *v = load_small();
    assert_int_equal(fxi_vocab_size(v), ID_OWN + COUNT(own));
    assert_int_equal(fxi_vocab_bos(v), ID_BOS); // found by its piece
    assert_int_equal(fxi_vocab_eos(v), ID_EOS);
    assert_true(fxi_vocab_adds_bos(v));
    assert_true(fxi_vocab_ends(v, ID_EOS));
    assert_false(fxi_vocab_ends(v, ID_BOS));
    assert_true(fxi_vocab_control(v, ID_UNK));
    expect_text(v, OWN(SP_AB), " ab", SP "ab");
    expect_text(v, OWN(SPACES3), "   ", SP SP SP);
    expect_text(v, BYTE_ID('A'), "A", "<0x41>");
    expect_text(v, ID_EOS, "", "</s>");
    expect_text(v, OWN(TOOL), "<tool>", "<tool>");
    assert_int_equal(fxi_vocab_find(v, "nothing", 7), -1);
    fxi_vocab_free(v);
}

FX_TEST(test_bad_utf8)
{
    static const struct {
        const char *text;
        size_t at;
    } bad[] = {{"ab\xFFz", 2},
               {"\x80", 0},
               {"a\xC3", 1},
               {"\xC0\xAF", 0},
               {"a\xE0\x80\x80", 1},
               {"\xED\xA0\x80", 0},
               {"\xF4\x90\x80\x80", 0},
               {"\xF0\x9F\xA6", 0},
               {"\xF8\x88\x80\x80\x80", 0},
               {"\xE2\x82\xACx\xE2\x28\xA1", 4}};
    fxi_vocab *v = load_small();
    for (size_t i = 0; i < COUNT(bad); i++) {
        fx_error err;
        char want[48];
        fxi_ids ids = {0};
        fxi_ids_add(&ids, 77);
        snprintf(want, sizeof want, "bad UTF-8 at byte %zu", bad[i].at);
        assert_int_equal(fxi_vocab_encode(v, bad[i].text, strlen(bad[i].text), 0, &ids, &err),
                         FX_EINVAL);
        assert_string_equal(err.text, want);
        assert_int_equal(ids.n, 1); // as before
        fxi_ids_free(&ids);
    }
    fxi_vocab_free(v);
}

FX_TEST(test_utf8_complete)
{
    static const struct {
        const char *text;
        size_t complete;
    } cases[] = {{"", 0},
                 {"a", 1},
                 {"a\xC3", 1},
                 {"a\xC3\xA9", 3},
                 {"\xE2\x82", 0},
                 {"x\xE2", 1},
                 {"\xE2\x82\xAC", 3},
                 {"x\xF0\x9F\xA6", 1},
                 {"\xF0\x9F\xA6\x99", 4},
                 {"x\xFF", 2},
                 {"x\x80", 2},
                 {"x\xC0", 2},
                 {"x\xED\xA0", 3},
                 {"x\xE2\x28", 3},
                 {"\x80\x80\x80\x80", 4}};
    for (size_t i = 0; i < COUNT(cases); i++)
        assert_int_equal(fxi_utf8_complete(cases[i].text, strlen(cases[i].text)),
                         cases[i].complete);
}

//
// Broken vocabularies
//

FX_TEST(test_utf8_at)
{
    static const struct {
        const char *text;
        size_t n, n_bytes;
        int32_t cp;
    } cases[] = {{"a", 1, 1, 'a'},
                 {"\xC3\xA9x", 3, 2, 0xE9},
                 {"\xE2\x96\x81", 3, 3, 0x2581},
                 {"\xF0\x9F\x98\x80", 4, 4, 0x1F600},
                 {"\xF4\x8F\xBF\xBF", 4, 4, 0x10FFFF},
                 {"\xE2\x96\x81", 2, 1, 0xE2 & 0x7F}, // cut off
                 {"\x81", 1, 1, 0x01}};               // begins none
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        size_t n_bytes;
        assert_int_equal(fxi_utf8_at(cases[i].text, cases[i].n, &n_bytes), cases[i].cp);
        assert_int_equal(n_bytes, cases[i].n_bytes);
    }
}

FX_TEST(test_broken_vocabularies)
{
    static const small_token bad_type[] = {{"x", 0, 7}}, bad_byte[] = {{"<0xGG>", 0, BYTE}},
                             nan_score[] = {{"x", NAN, 1}};
    static const struct {
        vocab_parts parts;
        const char *expected;
    } cases[] = {
        {{.model = "rwkv"}, "mem.gguf: tokenizer kind 'rwkv' is not supported by this version"},
        {{.more_scores = 1}, "key 'tokenizer.ggml.scores' has 260 elements for 259 tokens"},
        {{.more_scores = -1}, "key 'tokenizer.ggml.scores' has 258 elements for 259 tokens"},
        {{.more_types = 1}, "key 'tokenizer.ggml.token_type' has 260 elements for 259 tokens"},
        {{.more_types = -1}, "key 'tokenizer.ggml.token_type' has 258 elements for 259 tokens"},
        {{.bos = 259}, "key 'tokenizer.ggml.bos_token_id' is 259, but there are 259 tokens"},
        {{.own = bad_type, .n_own = 1}, "token 259 has the unknown type 7"},
        {{.own = bad_byte, .n_own = 1}, "byte token 259 is spelled '<0xGG>'"},
        {{.own = nan_score, .n_own = 1}, "the score of token 259 is NaN"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fxi_vocab *v = NULL;
        fx_error err;
        assert_int_equal(load_parts(&cases[i].parts, &v, &err), FX_EFORMAT);
        assert_null(v);
        if (!strstr(err.text, cases[i].expected))
            fail_msg("\"%s\" does not say \"%s\"", err.text, cases[i].expected);
    }
}

FX_TEST(test_missing_keys)
{
    static const char *const keys[] = {"tokenizer.ggml.model", "tokenizer.ggml.tokens",
                                       "tokenizer.ggml.scores"};
    fxi_buf b = vocab_file(&(vocab_parts){0});
    for (size_t i = 0; i < COUNT(keys); i++) {
        fxi_gguf *g;
        fxi_vocab *v;
        fx_error err;
        char want[80];
        char *at = memmem(b.p, b.n, keys[i], strlen(keys[i]));
        *at = 'T'; // another key now
        snprintf(want, sizeof want, "mem.gguf: missing key '%s'", keys[i]);
        assert_int_equal(fxi_gguf_parse(b.p, b.n, "mem.gguf", &g, &err), FX_OK);
        assert_int_equal(fxi_vocab_load(g, &v, &err), FX_EFORMAT);
        assert_string_equal(err.text, want);
        fxi_gguf_close(g);
        *at = 't';
    }
    fxi_buf_free(&b);
}

//
// Long texts
//

static void check_long(const fxi_vocab *v, const char *unit, size_t n_unit, size_t n_id)
{
    size_t n = strlen(unit), n_back = 0;
    char *text = malloc(n * n_unit);
    for (size_t i = 0; i < n_unit; i++) memcpy(text + i * n, unit, n);
    fxi_ids ids = ids_of(v, text, n * n_unit, NULL, 0);
    assert_int_equal(ids.n, n_id);
    for (size_t i = 0; i < ids.n; i++) {
        size_t n_bytes;
        const char *p = fxi_vocab_bytes(v, ids.id[i], &n_bytes);
        assert_memory_equal(p, text + n_back, n_bytes);
        n_back += n_bytes;
    }
    assert_int_equal(n_back, n * n_unit);
    fxi_ids_free(&ids);
    free(text);
}

FX_TEST(test_long_texts)
{
    enum { N = 1 << 18 };
    fxi_vocab *v = load_small();
    check_long(v, " abc", N, 2 * N); // words
    check_long(v, "bcab", N, 2 * N); // one word of a megabyte
    check_long(v, "\xF0\x9F\xA6\x99", N, 4 * N);
    check_long(v, "<tool>", N, N);
    check_long(v, "<too", N, 4 * N); // prefixes of special tokens
    fxi_vocab_free(v);
}

//
// Real vectors
//

#define REAL FX_SOURCE_DIR "/../shared/data/tokenizers/ggml-vocab-"

static fxi_buf read_file(const char *path)
{
    fxi_buf b = {0};
    char part[4096];
    FILE *f = fopen(path, "rb");
    assert_non_null(f);
    for (size_t n; (n = fread(part, 1, sizeof part, f));) put_bytes(&b, part, n);
    fclose(f);
    return b;
}

static void check_real(const char *name)
{
    static const char separator[] = "\n__ggml_vocab_test__\n";
    char path[512];
    fxi_gguf *g;
    fxi_vocab *v;
    snprintf(path, sizeof path, REAL "%s.gguf", name);
    assert_int_equal(fxi_gguf_open(path, &g, NULL), FX_OK);
    assert_int_equal(fxi_vocab_load(g, &v, NULL), FX_OK);
    fxi_gguf_close(g);
    snprintf(path, sizeof path, REAL "%s.gguf.inp", name);
    fxi_buf texts = read_file(path);
    snprintf(path, sizeof path, REAL "%s.gguf.out", name);
    fxi_buf lines = read_file(path);
    char *text = texts.p, *line = lines.p;
    int n_text = 0;
    for (char *end; (end = strstr(text, separator)); text = end + sizeof separator - 1, n_text++) {
        fxi_ids want = {0};
        char *line_end = strchr(line, '\n');
        *end = *line_end = 0;
        for (char *rest; *line; line = rest) fxi_ids_add(&want, (int32_t)strtol(line, &rest, 10));
        line = line_end + 1;
        expect_ids(v, text, NULL, FXI_ENCODE_SPACE, want.id, want.n);
        fxi_ids_free(&want);
    }
    assert_int_equal(n_text, 46); // the 47th, after the last separator, is empty
    assert_true(!*text && !*line);
    fxi_buf_free(&texts);
    fxi_buf_free(&lines);
    fxi_vocab_free(v);
}

FX_TEST(test_real_vectors)
{
    if (access(REAL "llama-spm.gguf", R_OK)) {
        print_message("skipped: ../shared/data not present\n");
        skip();
    }
    check_real("llama-spm");
    check_real("phi-3");
    check_real("gpt-2");
    check_real("deepseek-llm");
}

FX_RUN(test_vocab)
