// test_vocab_write.c - vocabularies in GGUF files: a folder's tokenizer, written as keys and read
// again, gives the same ids; so do the keys alone that other programs read, where they can.
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/gguf_write.h"
#include "format/vocab.h"
#include "format/vocab/vocab_write.h"
#include "suite.h"
#include "unit/cmocka_all.h"

#define VECTORS FX_SOURCE_DIR "/tests/vectors/tokenizers/"
#define SCRATCH FX_BINARY_DIR "/test_vocab_write.tmp"

static const char *const texts[] = {
    "Hello world",
    "  two  spaces ",
    "don't I'M 1234567",
    "na\xC3\xAFve \xE4\xBD\xA0\xE5\xA5\xBD",
    "a\n\n b\t<|x|>",
    "",
    "x",
    "</s><s> <unk>",
};

static void copy_as(const char *from, const char *name)
{
    char path[512], block[4096];
    size_t n;
    snprintf(path, sizeof path, VECTORS "%s", from);
    FILE *in = fopen(path, "rb");
    mkdir(SCRATCH, 0755);
    snprintf(path, sizeof path, SCRATCH "/%s", name);
    FILE *out = fopen(path, "wb");
    assert_true(in && out);
    while ((n = fread(block, 1, sizeof block, in))) fwrite(block, 1, n, out);
    fclose(in);
    fclose(out);
}

// The vocabulary in scratch as the bytes of a GGUF file.
static fxi_buf describe_scratch(size_t n_row)
{
    fx_error err;
    fxi_gguf_writer *w;
    fxi_buf head = {0};
    int32_t end[] = {3, 2};
    const fxi_ids ends = {end, 2, 2, 0};
    assert_int_equal(fxi_gguf_writer_open_memory("head", &w, &err), FX_OK);
    if (fxi_vocab_describe(SCRATCH, n_row, &ends, w, &err) != FX_OK) fail_msg("%s", err.text);
    if (fxi_gguf_writer_take_head(w, &head, &err) != FX_OK) fail_msg("%s", err.text);
    return head;
}

static fxi_vocab *load_head(const fxi_buf *head)
{
    fx_error err;
    fxi_gguf *g;
    fxi_vocab *v;
    if (fxi_gguf_parse(head->p, head->n, "head", &g, &err) != FX_OK) fail_msg("%s", err.text);
    if (fxi_vocab_load(g, &v, &err) != FX_OK) fail_msg("%s", err.text);
    fxi_gguf_close(g);
    return v;
}

static fxi_ids encode_text(const fxi_vocab *v, const char *text)
{
    fx_error err;
    fxi_ids ids = {0};
    const unsigned flags = FXI_ENCODE_SPACE | FXI_ENCODE_CONTROL;
    if (fxi_vocab_encode(v, text, strlen(text), flags, &ids, &err) != FX_OK)
        fail_msg("%s", err.text);
    return ids;
}

enum { N_TEXT = sizeof texts / sizeof *texts };

static void expect_same_ids(const char *file, const fxi_vocab *a, const fxi_vocab *b, size_t n_text)
{
    assert_int_equal(fxi_vocab_adds_bos(a), fxi_vocab_adds_bos(b));
    assert_int_equal(fxi_vocab_bos(a), fxi_vocab_bos(b));
    for (size_t i = 0; i < n_text; i++) {
        fxi_ids x = encode_text(a, texts[i]), y = encode_text(b, texts[i]);
        if (x.n != y.n || (x.n && memcmp(x.id, y.id, x.n * sizeof *x.id)))
            fail_msg("%s: other ids for '%s'", file, texts[i]);
        fxi_ids_free(&x);
        fxi_ids_free(&y);
    }
}

static void test_a_tokenizer_survives_its_way_through_a_file(void **state)
{
    (void)state;
    static const char *const cases[] = {
        "after_bytes.json", "fallback.json",      "plain.json", "prefix_space.json",
        "unigram.json",     "unigram_first.json", "words.json", "bert.json",
        "cased.json",       "classes.json",       "gemma.json", "split_marks.json",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fx_error err;
        fxi_vocab *direct;
        copy_as(cases[i], "tokenizer.json");
        fxi_buf head = describe_scratch(0);
        if (fxi_vocab_open(SCRATCH, NULL, NULL, &direct, &err) != FX_OK) fail_msg("%s", err.text);
        fxi_vocab *read = load_head(&head);
        assert_int_equal(fxi_vocab_size(read), fxi_vocab_size(direct));
        expect_same_ids(cases[i], direct, read, N_TEXT);
        assert_true(fxi_vocab_ends(read, 3) && fxi_vocab_ends(read, 2));
        fxi_vocab_free(direct);
        fxi_vocab_free(read);
        fxi_buf_free(&head);
        remove(SCRATCH "/tokenizer.json");
    }
}

// Makes the key of the file's text one that is not read.
static void hide_text(fxi_buf *head)
{
    static const char key[] = "tokenizer.huggingface.json";
    char *at = memmem(head->p, head->n, key, sizeof key - 1);
    assert_non_null(at);
    *at = 'X';
}

static void test_keys_that_other_programs_read(void **state)
{
    (void)state;
    fx_error err;
    fxi_vocab *direct;
    copy_as("fallback.json", "tokenizer.json");
    fxi_buf head = describe_scratch(0);
    hide_text(&head);
    if (fxi_vocab_open(SCRATCH, NULL, NULL, &direct, &err) != FX_OK) fail_msg("%s", err.text);
    fxi_vocab *read = load_head(&head);
    expect_same_ids("fallback.json", direct, read, N_TEXT - 1);
    fxi_vocab_free(direct);
    fxi_vocab_free(read);
    fxi_buf_free(&head);
    remove(SCRATCH "/tokenizer.json");
}

// Other programs expect a token for every row of the embedding.
static void test_rows_without_a_token(void **state)
{
    (void)state;
    fxi_gguf *g;
    fx_error err;
    const fxi_gguf_kv *kv, *types;
    copy_as("plain.json", "tokenizer.json");
    fxi_buf head = describe_scratch(5000);
    assert_int_equal(fxi_gguf_parse(head.p, head.n, "head", &g, &err), FX_OK);
    assert_int_equal(fxi_gguf_array(g, "tokenizer.ggml.tokens", true, FXI_GGUF_STR, &kv, &err),
                     FX_OK);
    assert_int_equal(
        fxi_gguf_array(g, "tokenizer.ggml.token_type", true, FXI_GGUF_I32, &types, &err), FX_OK);
    assert_int_equal(kv->n_elem, 5000);
    assert_int_equal(types->n_elem, 5000);
    const unsigned char *at = kv->value;
    fxi_str last = {0};
    for (int i = 0; i < 5000; i++) last = fxi_gguf_next_str(&at);
    assert_true(fxi_str_is(last, "[PAD4999]"));
    assert_int_equal(fxi_gguf_int_at(types, 4999), 5);
    fxi_gguf_close(g);
    fxi_buf_free(&head);
    remove(SCRATCH "/tokenizer.json");
}

// ---- names of pre-tokenizers --------------------------------------------------------------------

static void expect_pre(const char *pattern, bool whole_words, const char *want)
{
    fxi_vocab_spec s;
    fxi_vocab_spec_init(&s, "spec");
    s.whole_words = whole_words;
    assert_true(fxi_spec_add_split(&s, (fxi_split){.pattern = fxi_str_of(pattern)}));
    const char *got = fxi_spec_pre_name(&s);
    if (want ? !got || strcmp(got, want) : got != NULL)
        fail_msg("%s: %s, not %s", pattern, got ? got : "none", want ? want : "none");
    fxi_vocab_spec_free(&s);
}

// As the models' tokenizer.json files spell them.
static void test_published_patterns_are_recognised(void **state)
{
    (void)state;
    expect_pre("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
               "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
               true, "llama-bpe");
    expect_pre("(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\\r\\n\\p{L}\\p{N}]?\\p{L}+|\\p{N}{1,3}| "
               "?[^\\s\\p{L}\\p{N}]+[\\r\\n]*|\\s*[\\r\\n]+|\\s+(?!\\S)|\\s+",
               false, "gpt-4");
    expect_pre("'s|'t|'re|'ve|'m|'ll|'d| ?\\p{L}+| ?\\p{N}+| "
               "?[^\\s\\p{L}\\p{N}]+|\\s+(?!\\S)|\\s+",
               false, "gpt-2");
    expect_pre("\\p{L}+|\\s", false, NULL);
}

static void test_every_name_is_recognised(void **state)
{
    (void)state;
    static const char *const names[] = {"llama-bpe", "qwen2",          "gpt-2",       "smollm",
                                        "tekken",    "gpt-4o",         "gpt-4",       "stablelm2",
                                        "falcon",    "deepseek-coder", "deepseek-v3", "bloom"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fxi_vocab_spec s;
        fx_error err;
        fxi_vocab_spec_init(&s, "spec");
        assert_int_equal(fxi_spec_add_pre(&s, fxi_str_of(names[i]), &err), FX_OK);
        const char *got = fxi_spec_pre_name(&s);
        if (!got || strcmp(got, names[i])) fail_msg("%s: %s", names[i], got ? got : "none");
        fxi_vocab_spec_free(&s);
    }
}

FX_SUITE(test_vocab_write)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_tokenizer_survives_its_way_through_a_file),
        cmocka_unit_test(test_keys_that_other_programs_read),
        cmocka_unit_test(test_rows_without_a_token),
        cmocka_unit_test(test_published_patterns_are_recognised),
        cmocka_unit_test(test_every_name_is_recognised),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
