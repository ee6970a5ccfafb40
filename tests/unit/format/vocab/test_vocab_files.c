// test_vocab_files.c - files of vocabularies. Small vocabularies of every form give the ids and
// decoded texts that the libraries give (tests/vectors/tokenizers, made by
// make_tokenizer_vectors.py). A folder's tokenizer, written as GGUF's keys and read again, gives
// the same ids; so do the keys alone that other programs read, where they can. Rank files: special
// tokens after the ranks, and the error line for a broken file.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "format/gguf_write.h"
#include "format/vocab.h"
#include "format/vocab/read/vocab_read.h"
#include "format/vocab/vocab_write.h"
#include "json_doc.h"
#include "unit/cmocka_all.h"
#include "unit/format/vocab/encoded.h"

// ---- vectors ------------------------------------------------------------------------------------

#define FOLDER FX_SOURCE_DIR "/tests/vectors/tokenizers/"

static fxi_vocab *open_vocab(const char *file, const char *pre)
{
    char path[512];
    fx_error err = {.text = ""};
    fxi_vocab *v;
    snprintf(path, sizeof path, FOLDER "%s", file);
    if (fxi_vocab_open(path, pre, NULL, &v, &err)) fail_msg("%s", err.text);
    return v;
}

typedef struct place {
    const char *file, *text;
} place;

static void expect_ids(place at, const fxi_json *want, fxi_ids got)
{
    fxi_buf wanted = {0}, ids = numbers_of(got);
    for (size_t i = 0; i < fxi_json_array_size(want); i++)
        assert_true(
            fxi_buf_fmt(&wanted, i ? " %d" : "%d", (int)fxi_json_int(fxi_json_at(want, i))));
    if (strcmp(wanted.n ? wanted.p : "", ids.p))
        fail_msg("%s: '%s' became %s, not %s", at.file, at.text, ids.p, wanted.p);
    fxi_buf_free(&wanted);
    fxi_buf_free(&ids);
}

static void check_decoded(place at, const fxi_vocab *v, const fxi_json *want, const fxi_ids *ids)
{
    fxi_buf text = {0};
    if (!want) return; // the library decodes unknown tokens in its own way
    assert_true(fxi_vocab_decode(v, ids->id, ids->n, 0, &text));
    if (text.n != fxi_json_string(want).n ||
        (text.n && memcmp(text.p, fxi_json_text(want), text.n)))
        fail_msg("%s: '%s' decoded is '%.*s', not '%s'", at.file, at.text, (int)text.n, text.p,
                 fxi_json_text(want));
    fxi_buf_free(&text);
}

// The ids under the key, if the case has them, are those of the text with these flags.
static bool check_ids(place at, const fxi_vocab *v, const fxi_json *c, const char *key,
                      unsigned flags, bool decoded)
{
    const fxi_json *want = fxi_json_get(c, key);
    if (!want) return false;
    const size_t n = fxi_json_string(fxi_json_get(c, "text")).n;
    fxi_ids ids = ids_of(v, at.text, n, NULL, flags);
    if (decoded) check_decoded(at, v, fxi_json_get(c, "decoded"), &ids);
    expect_ids(at, want, ids);
    return true;
}

static void check_case(const char *file, const fxi_vocab *v, const fxi_json *c)
{
    const place at = {file, fxi_json_text(fxi_json_get(c, "text"))};
    const unsigned plain = FXI_ENCODE_SPACE, special = FXI_ENCODE_SPACE | FXI_ENCODE_CONTROL;
    check_ids(at, v, c, "both", plain, true);
    check_ids(at, v, c, "both", special, true);
    const bool has_special = check_ids(at, v, c, "ids", special, true);
    check_ids(at, v, c, "without_special", plain, !has_special);
    assert_int_equal(fxi_json_int(fxi_json_get(c, "n_around")),
                     fxi_vocab_adds_bos(v) + fxi_vocab_adds_eos(v));
}

FX_TEST(test_vectors)
{
    fxi_json_doc all_doc = json_doc_file(FOLDER "cases.json");
    const fxi_json *all = all_doc.root;
    size_t n_case = 0;
    for (size_t i = 0; i < fxi_json_array_size(all); i++) {
        const fxi_json *entry = fxi_json_at(all, i), *cases = fxi_json_get(entry, "cases");
        const char *file = fxi_json_text(fxi_json_get(entry, "file"));
        fxi_vocab *v = open_vocab(file, fxi_json_text(fxi_json_get(entry, "pre")));
        for (size_t k = 0; k < fxi_json_array_size(cases); k++, n_case++)
            check_case(file, v, fxi_json_at(cases, k));
        fxi_vocab_free(v);
    }
    assert_true(n_case > 400);
    fxi_json_doc_free(&all_doc);
}

//
// Files next to a vocabulary
//

static void put_file(const char *folder, const char *name, const char *text)
{
    char path[512];
    snprintf(path, sizeof path, "%s/%s", folder, name);
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    fclose(f);
}

static void expect_template(const char *folder, const char *want)
{
    fxi_buf got = {0};
    fxi_vocab *v;
    fx_error err = {.text = ""};
    if (fxi_vocab_open(folder, NULL, &got, &v, &err)) fail_msg("%s", err.text);
    assert_string_equal(got.n ? got.p : "", want);
    fxi_buf_free(&got);
    fxi_vocab_free(v);
}

static void remove_all(const char *folder)
{
    static const char *const names[] = {"tokenizer.json", "tokenizer_config.json",
                                        "chat_template.jinja", "vocab.json", "tokenizer.model"};
    char path[512];
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        remove(path);
    }
    assert_int_equal(rmdir(folder), 0);
}

FX_TEST(test_template)
{
    char folder[] = "/tmp/test-vocab-XXXXXX";
    assert_non_null(mkdtemp(folder));
    put_file(folder, "tokenizer.json",
             "{\"model\":{\"type\":\"BPE\",\"vocab\":{\"a\":0},\"merges\":[]},"
             "\"decoder\":{\"type\":\"Fuse\"}}");
    expect_template(folder, "");
    put_file(folder, "tokenizer_config.json", "{\"chat_template\":\"{{ a }}\"}");
    expect_template(folder, "{{ a }}");
    put_file(folder, "chat_template.jinja", "{{ b }}\n");
    expect_template(folder, "{{ b }}\n");
    remove_all(folder);
}

// A folder with nothing but formats that are not read says what to do.
FX_TEST(test_other_formats)
{
    static const char *const names[] = {"tokenizer.model", "vocab.json"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char folder[] = "/tmp/test-vocab-XXXXXX", path[512];
        fxi_vocab *v;
        fx_error err = {.text = ""};
        assert_non_null(mkdtemp(folder));
        put_file(folder, names[i], i ? "{\"a\":0}" : "\n\x05<unk>");
        assert_int_equal(fxi_vocab_open(folder, NULL, NULL, &v, &err), FX_EIO);
        assert_non_null(strstr(err.text, "a directory without tokenizer.json; transformers makes"));
        snprintf(path, sizeof path, "%s/%s", folder, names[i]);
        assert_int_equal(fxi_vocab_open(path, NULL, NULL, &v, &err), FX_EFORMAT);
        assert_non_null(strstr(err.text, i ? "model: not an object" : "neither GGUF nor"));
        remove_all(folder);
    }
}

// ---- written and read again ---------------------------------------------------------------------

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

// The tokenizer of a file as the bytes of a GGUF file.
static fxi_buf describe_file(const char *path, size_t n_row)
{
    fx_error err;
    fxi_gguf_writer *w;
    fxi_buf head = {0};
    int32_t end[] = {3, 2};
    const fxi_ids ends = {end, 2, 2, 0};
    assert_int_equal(fxi_gguf_writer_open_memory("head", &w, &err), FX_OK);
    if (fxi_vocab_describe(path, n_row, &ends, w, &err) != FX_OK) fail_msg("%s", err.text);
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

enum { N_TEXT = sizeof texts / sizeof *texts };

static void expect_same_ids(const char *file, const fxi_vocab *a, const fxi_vocab *b, size_t n_text)
{
    const unsigned flags = FXI_ENCODE_SPACE | FXI_ENCODE_CONTROL;
    assert_int_equal(fxi_vocab_adds_bos(a), fxi_vocab_adds_bos(b));
    assert_int_equal(fxi_vocab_bos(a), fxi_vocab_bos(b));
    for (size_t i = 0; i < n_text; i++) {
        const size_t n = strlen(texts[i]);
        fxi_ids x = ids_of(a, texts[i], n, NULL, flags), y = ids_of(b, texts[i], n, NULL, flags);
        if (x.n != y.n || (x.n && memcmp(x.id, y.id, x.n * sizeof *x.id)))
            fail_msg("%s: other ids for '%s'", file, texts[i]);
        fxi_ids_free(&x);
        fxi_ids_free(&y);
    }
}

FX_TEST(test_a_tokenizer_survives_its_way_through_a_file)
{
    static const char *const cases[] = {
        "after_bytes.json", "fallback.json",      "plain.json", "prefix_space.json",
        "unigram.json",     "unigram_first.json", "words.json", "bert.json",
        "cased.json",       "classes.json",       "gemma.json", "split_marks.json",
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char path[512];
        snprintf(path, sizeof path, FOLDER "%s", cases[i]);
        fxi_buf head = describe_file(path, 0);
        fxi_vocab *direct = open_vocab(cases[i], NULL), *read = load_head(&head);
        assert_int_equal(fxi_vocab_size(read), fxi_vocab_size(direct));
        expect_same_ids(cases[i], direct, read, N_TEXT);
        assert_true(fxi_vocab_ends(read, 3) && fxi_vocab_ends(read, 2));
        fxi_vocab_free(direct);
        fxi_vocab_free(read);
        fxi_buf_free(&head);
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

FX_TEST(test_keys_that_other_programs_read)
{
    fxi_buf head = describe_file(FOLDER "fallback.json", 0);
    hide_text(&head);
    fxi_vocab *direct = open_vocab("fallback.json", NULL), *read = load_head(&head);
    expect_same_ids("fallback.json", direct, read, N_TEXT - 1);
    fxi_vocab_free(direct);
    fxi_vocab_free(read);
    fxi_buf_free(&head);
}

// Other programs expect a token for every row of the embedding.
FX_TEST(test_rows_without_a_token)
{
    fxi_gguf *g;
    fx_error err;
    const fxi_gguf_kv *kv, *types;
    fxi_buf head = describe_file(FOLDER "plain.json", 5000);
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
FX_TEST(test_published_patterns_are_recognised)
{
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

FX_TEST(test_every_name_is_recognised)
{
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

// ---- rank files ---------------------------------------------------------------------------------

#define COUNT(list) (sizeof list / sizeof *list)

static const char three[] = "YQ== 0\nYg== 1\nYWI= 2\n"; // a, b, ab

static fx_status read_ranks(const char *text, const char *pre, fxi_vocab_spec *s, fx_error *err)
{
    fxi_vocab_spec_init(s, "t.tiktoken");
    return fxi_vocab_read_ranks(fxi_str_of(text), pre, s, err);
}

FX_TEST(test_ranks)
{
    static const char *const rank_texts[] = {
        three, "YWI= 2\r\nYQ== 0\r\n\r\nYg== 1", // another order, other line ends
    };
    for (size_t i = 0; i < COUNT(rank_texts); i++) {
        fxi_vocab_spec s;
        assert_int_equal(read_ranks(rank_texts[i], "gpt-4", &s, NULL), FX_OK);
        assert_int_equal(s.kind, FXI_VOCAB_SCORES);
        assert_int_equal(s.n_tok, 3);
        assert_true(fxi_str_is(s.tok[2].piece, "ab") && s.tok[2].score == -2);
        assert_true(s.unit_bytes && s.whole_words && s.n_split == 1);
        assert_int_equal(s.bos, -1);
        assert_false(s.adds_bos);
        fxi_vocab_spec_free(&s);
    }
}

// The tokens after the ranks; one that has a rank already keeps its id.
FX_TEST(test_special_tokens_of_ranks)
{
    static const struct {
        const char *ranks, *pre;
        size_t n_tok;
        int32_t bos, eos;
        bool adds_bos;
        struct {
            int32_t id;
            const char *piece;
        } special[8];
    } cases[] = {
        {three,
         "llama-bpe",
         3 + 256,
         3,
         4,
         true,
         {{3, "<|begin_of_text|>"},
          {4, "<|end_of_text|>"},
          {5, "<|reserved_special_token_0|>"},
          {9, "<|start_header_id|>"},
          {10, "<|end_header_id|>"},
          {11, "<|reserved_special_token_4|>"},
          {12, "<|eot_id|>"},
          {258, "<|reserved_special_token_250|>"}}},
        {three,
         "qwen2",
         3 + 208,
         -1,
         3,
         false,
         {{3, "<|endoftext|>"}, {4, "<|im_start|>"}, {5, "<|im_end|>"}, {210, "<|extra_204|>"}}},
        {"YQ== 0\nPHxlbmRvZnRleHR8Pg== 1\n", "gpt-2", 2, -1, 1, false, {{1, "<|endoftext|>"}}},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fxi_vocab_spec s;
        assert_int_equal(read_ranks(cases[i].ranks, cases[i].pre, &s, NULL), FX_OK);
        assert_int_equal(s.n_tok, cases[i].n_tok);
        for (size_t k = 0; k < COUNT(cases[i].special) && cases[i].special[k].piece; k++) {
            const fxi_token *t = &s.tok[cases[i].special[k].id];
            assert_true(fxi_str_is(t->piece, cases[i].special[k].piece));
            assert_int_equal(t->type, FXI_TOKEN_CONTROL);
        }
        assert_true(s.bos == cases[i].bos && s.eos == cases[i].eos);
        assert_int_equal(s.adds_bos, cases[i].adds_bos);
        fxi_vocab_spec_free(&s);
    }
}

FX_TEST(test_broken)
{
    static const struct {
        const char *text, *pre, *error;
    } cases[] = {
        {three, NULL, "the name of a pre-tokenizer must be given"},
        {three, "nobody", "unknown pre-tokenizer 'nobody'"},
        {"", "gpt-2", "0 ranks"},
        {"\n\n", "gpt-2", "0 ranks"},
        {"YQ== 0\nb\n", "gpt-2", "line 2 is not a token"},
        {"YQ== 0\nYg==\n", "gpt-2", "line 2 is not a token in base64 and its rank"},
        {"YQ== 0\n Yg== 1\n", "gpt-2", "line 2 is not a token"},
        {"YQ== 0\nYg== 1x\n", "gpt-2", "line 2 is not a token"},
        {"YQ== 0\nYg== -1\n", "gpt-2", "line 2 is not a token"},
        {"YQ== 0\nYg== 1234567890\n", "gpt-2", "line 2 is not a token"},
        {"YQ== 0\nYg== 3\n", "gpt-2", "line 2: rank 3, but there are 2 tokens"},
        {"YQ== 0\nYg== 0\n", "gpt-2", "line 2: duplicate rank 0"},
        {"YQ== 0\nY!== 1\n", "gpt-2", "line 2: 'Y!==' is not base64"},
    };
    for (size_t i = 0; i < COUNT(cases); i++) {
        fxi_vocab_spec s;
        fx_error err = {.text = ""};
        assert_int_equal(read_ranks(cases[i].text, cases[i].pre, &s, &err), FX_EFORMAT);
        if (strncmp(err.text, "t.tiktoken: ", 12) || !strstr(err.text, cases[i].error))
            fail_msg("'%s' is not the error '%s'", err.text, cases[i].error);
        fxi_vocab_spec_free(&s);
    }
}

FX_RUN(test_vocab_files)
