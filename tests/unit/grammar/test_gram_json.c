// test_gram_json.c - the rules of JSON: what walks at random write, the parser reads; texts that
// programs write are accepted, and what is not JSON is not.
#include "json_doc.h"
#include "unit/cmocka_all.h"

#include "base/number/rng.h"
#include "grammar/syntax/gram_parts.h"
#include "unit/grammar/gram_machine.h"

static void open_json(gram_machine *w)
{
    fx_error err = {0};
    fxi_gram_json json = {0};
    *w = (gram_machine){0};
    const fx_status st = fxi_gram_json_add(&w->g, &json, &err);
    if (start_machine(w, st, json.value, &err)) fail_msg("%s", err.text);
}

// A byte that may come next: in half of the draws one of ASCII's marks, so that texts come to an
// end and values of all kinds come up.
static int draw_byte(const fxi_byte_set *may, uint64_t seed, uint64_t i)
{
    const uint64_t r = fxi_rng_u64(seed, 1, i);
    const char *const marks = "\"}],:0\\ntfe";
    for (size_t k = 0; r % 2 && k < 11; k++) {
        const uint8_t b = (uint8_t)marks[(k + (r >> 8)) % 11];
        if (fxi_byte_in(may, b)) return b;
    }
    for (uint32_t k = 0; k < 256; k++) {
        const uint8_t b = (uint8_t)(k + (r >> 16));
        if (fxi_byte_in(may, b)) return b;
    }
    return -1;
}

// A text at random in s; 0: it came to no end.
static size_t draw_text(gram_machine *w, uint64_t seed, char *s, size_t max)
{
    uint32_t at = fxi_auto_start(w->a);
    for (size_t n = 0; n < max; n++) {
        const fxi_byte_set may = fxi_auto_bytes(w->a, at);
        const int byte = draw_byte(&may, seed, n);
        if (fxi_auto_is_final(w->a, at) && (byte < 0 || fxi_rng_u64(seed, 2, n) % 4 == 0)) return n;
        assert_true(byte >= 0);
        s[n] = (char)byte;
        assert_int_equal(fxi_auto_step(w->a, at, (uint8_t)byte, &at, NULL), FX_OK);
    }
    return 0;
}

FX_TEST(test_the_parser_reads_what_random_walks_write)
{
    gram_machine w;
    size_t n_end = 0, n_nested = 0;
    open_json(&w);
    for (uint64_t seed = 0; seed < 10000; seed++) {
        char s[400];
        const size_t n = draw_text(&w, seed, s, sizeof s);
        if (!n) continue;
        fxi_json_doc v_doc = json_doc_sized(s, n);
        const fxi_json *v = v_doc.root;
        if (!v) fail_msg("%.*s: not JSON", (int)n, s);
        n_nested += fxi_json_is_object(v) || fxi_json_is_array(v);
        n_end++;
        fxi_json_doc_free(&v_doc);
    }
    assert_true(n_end > 5000);
    assert_true(n_nested > 500);
    close_machine(&w);
}

FX_TEST(test_texts_are_told_from_what_is_no_json)
{
    static const char *const yes[] = {"{}",
                                      "[]",
                                      "{ }",
                                      "0",
                                      "-1.5e+10",
                                      "\"\"",
                                      "\"a\\\"\\\\\\n\\u0001\xC3\xA9\"",
                                      "true",
                                      "[1,2, 3]",
                                      "{\"a\":1,\"b\":[{}]}",
                                      "{\"a\": {\"b\": [true, null]}}",
                                      "{\n    \"a\": [\n        1,\n        2\n    ]\n}"};
    static const char *const no[] = {
        "",        "01",         "1.",       ".5",   "+1",
        "-",       "1e",         "[1,]",     "[,1]", "{\"a\"}",
        "{a:1}",   "{\"a\":1,}", "[1 2]",    "\"",   "\"\n\"",
        "\"\\x\"", "\"\xFF\"",   "'a'",      "tru",  "nulll",
        "[",       "[]]",        "{\"a\":1", "NaN",  "1234567890123456"};
    gram_machine w;
    open_json(&w);
    for (size_t i = 0; i < sizeof yes / sizeof *yes; i++)
        if (!machine_accepts(&w, yes[i], strlen(yes[i]))) fail_msg("%s is refused", yes[i]);
    for (size_t i = 0; i < sizeof no / sizeof *no; i++)
        if (machine_accepts(&w, no[i], strlen(no[i]))) fail_msg("%s is accepted", no[i]);
    close_machine(&w);
}

FX_RUN(test_gram_json)
