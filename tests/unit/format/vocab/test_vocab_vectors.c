// Small vocabularies of every form: the ids and decoded texts that the libraries give
// (tests/vectors/tokenizers, made by tests/vectors/make_tokenizer_vectors.py).
#include <jansson.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "base/fail.h"
#include "format/vocab.h"
#include "suite.h"
#include "unit/cmocka_all.h"

#define FOLDER FX_SOURCE_DIR "/tests/vectors/tokenizers/"

static json_t *load_cases(void)
{
    json_error_t e;
    json_t *all = json_load_file(FOLDER "cases.json", JSON_ALLOW_NUL, &e);
    if (!all) fail_msg("cases.json: %s", e.text);
    return all;
}

static fxi_vocab *open_vocab(const json_t *entry)
{
    char path[512];
    fx_error err = {.text = ""};
    fxi_vocab *v;
    snprintf(path, sizeof path, FOLDER "%s", json_string_value(json_object_get(entry, "file")));
    if (fxi_vocab_open(path, json_string_value(json_object_get(entry, "pre")), NULL, &v, &err))
        fail_msg("%s", err.text);
    return v;
}

typedef struct place {
    const char *file, *text;
} place;

static void print_ids(const char *what, const int32_t *id, size_t n)
{
    print_message("%s", what);
    for (size_t i = 0; i < n; i++) print_message(" %d", (int)id[i]);
    print_message("\n");
}

static void expect_ids(place at, const json_t *want, const fxi_ids *got)
{
    fxi_ids ids = {0};
    for (size_t i = 0; i < json_array_size(want); i++)
        assert_true(fxi_ids_add(&ids, (int32_t)json_integer_value(json_array_get(want, i))));
    if (ids.n != got->n || (ids.n && memcmp(ids.id, got->id, ids.n * sizeof *ids.id))) {
        print_ids("want", ids.id, ids.n);
        print_ids("got ", got->id, got->n);
        fail_msg("%s: other ids for '%s'", at.file, at.text);
    }
    fxi_ids_free(&ids);
}

static void check_decoded(place at, const fxi_vocab *v, const json_t *want, const fxi_ids *ids)
{
    fxi_buf text = {0};
    if (!want) return; // the library decodes unknown tokens in its own way
    assert_true(fxi_vocab_decode(v, ids->id, ids->n, 0, &text));
    if (text.n != json_string_length(want) ||
        (text.n && memcmp(text.p, json_string_value(want), text.n)))
        fail_msg("%s: '%s' decoded is '%.*s', not '%s'", at.file, at.text, (int)text.n, text.p,
                 json_string_value(want));
    fxi_buf_free(&text);
}

// The ids under the key, if the case has them, are those of the text with these flags.
static bool check_ids(place at, const fxi_vocab *v, const json_t *c, const char *key,
                      unsigned flags, bool decoded)
{
    const json_t *want = json_object_get(c, key);
    fxi_ids ids = {0};
    if (!want) return false;
    const size_t n = json_string_length(json_object_get(c, "text"));
    assert_int_equal(fxi_vocab_encode(v, at.text, n, flags, &ids, NULL), FX_OK);
    expect_ids(at, want, &ids);
    if (decoded) check_decoded(at, v, json_object_get(c, "decoded"), &ids);
    fxi_ids_free(&ids);
    return true;
}

static void check_case(const char *file, const fxi_vocab *v, const json_t *c)
{
    const place at = {file, json_string_value(json_object_get(c, "text"))};
    const unsigned plain = FXI_ENCODE_SPACE, special = FXI_ENCODE_SPACE | FXI_ENCODE_CONTROL;
    check_ids(at, v, c, "both", plain, true);
    check_ids(at, v, c, "both", special, true);
    const bool has_special = check_ids(at, v, c, "ids", special, true);
    check_ids(at, v, c, "without_special", plain, !has_special);
    assert_int_equal(json_integer_value(json_object_get(c, "n_around")),
                     fxi_vocab_adds_bos(v) + fxi_vocab_adds_eos(v));
}

static void test_vectors(void **state)
{
    (void)state;
    json_t *all = load_cases();
    size_t n_case = 0;
    for (size_t i = 0; i < json_array_size(all); i++) {
        const json_t *entry = json_array_get(all, i), *cases = json_object_get(entry, "cases");
        const char *file = json_string_value(json_object_get(entry, "file"));
        fxi_vocab *v = open_vocab(entry);
        for (size_t k = 0; k < json_array_size(cases); k++, n_case++)
            check_case(file, v, json_array_get(cases, k));
        fxi_vocab_free(v);
    }
    assert_true(n_case > 400);
    json_decref(all);
}

//
// Files beside a vocabulary
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

static void test_template(void **state)
{
    (void)state;
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
static void test_other_formats(void **state)
{
    (void)state;
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

FX_SUITE(test_vocab_vectors)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_vectors),
                                       cmocka_unit_test(test_template),
                                       cmocka_unit_test(test_other_formats)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
