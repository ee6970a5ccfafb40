// Pre-tokenizers by name, compared with the `tokenizers` package on the models' own patterns
// (tests/vectors/pretokenizers.json, by make_pretokenizer_vectors.py).
#include <jansson.h>

#include "suite.h"
#include "unit/cmocka_all.h"
#include "unit/format/small_spec.h"

static json_t *load_vectors(void)
{
    json_error_t e;
    json_t *all =
        json_load_file(FX_SOURCE_DIR "/tests/vectors/pretokenizers.json", JSON_ALLOW_NUL, &e);
    if (!all) fail_msg("pretokenizers.json: %s", e.text);
    return all;
}

static fxi_vocab *make_vocab(const json_t *merges, const char *pre)
{
    fxi_vocab_spec s;
    fx_error err = {.text = ""};
    fxi_vocab_spec_init(&s, "test");
    s.kind = FXI_VOCAB_MERGES;
    add_printable_bytes(&s);
    for (size_t i = 0; i < json_array_size(merges); i++) {
        const json_t *m = json_array_get(merges, i);
        add_pair_of(&s, json_string_value(json_array_get(m, 0)),
                    json_string_value(json_array_get(m, 1)));
    }
    if (fxi_spec_add_pre(&s, str_of(pre), &err) != FX_OK) fail_msg("%s", err.text);
    return build_and_free(&s);
}

static void check_text(const char *pre, const fxi_vocab *v, const json_t *text, const char *want)
{
    fxi_ids ids = {0};
    fxi_buf got = {0};
    assert_int_equal(
        fxi_vocab_encode(v, json_string_value(text), json_string_length(text), 0, &ids, NULL),
        FX_OK);
    for (size_t i = 0; i < ids.n; i++)
        assert_true(fxi_buf_fmt(&got, i ? " %d" : "%d", (int)ids.id[i]));
    if (strcmp(got.p ? got.p : "", want))
        fail_msg("%s: '%s'\n%s\n%s", pre, json_string_value(text), want, got.p ? got.p : "");
    fxi_buf_free(&got);
    fxi_ids_free(&ids);
}

static void test_pre_tokenizers(void **state)
{
    (void)state;
    json_t *all = load_vectors();
    const json_t *texts = json_object_get(all, "texts"), *merges = json_object_get(all, "merges");
    json_t *ids = json_object_get(all, "ids"), *of_pre;
    const char *pre;
    assert_true(json_object_size(ids) >= 30 && json_array_size(texts) >= 20);
    json_object_foreach(ids, pre, of_pre)
    {
        fxi_vocab *v = make_vocab(merges, pre);
        for (size_t i = 0; i < json_array_size(texts); i++)
            check_text(pre, v, json_array_get(texts, i),
                       json_string_value(json_array_get(of_pre, i)));
        fxi_vocab_free(v);
    }
    json_decref(all);
}

FX_SUITE(test_vocab_pre)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_pre_tokenizers)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
