// test_json_scan.c - JSON byte by byte: what it takes for a value, where a value ends, escapes.
#include <stdio.h>
#include <string.h>

#include "output_parser/json_scan.h"
#include "suite.h"
#include "unit/cmocka_all.h"

static bool scans_all(const char *text)
{
    return fxi_json_scan_all(text, strlen(text));
}

static void test_what_is_json_is_taken(void **state)
{
    static const char *const texts[] = {
        "{}",         "[]", " {\"a\": [1, -2.5e+3, 0, 0.1E5, true, false, null, \"x\\u00e9\\n\"]} ",
        "\"\"",       "-0", "12",
        "[[[]], {}]", "1 ", "{\"a\":{\"b\":[{}]},\"c\":\"}\"}"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!scans_all(texts[i])) fail_msg("refused: %s", texts[i]);
}

static void test_what_is_no_json_is_refused(void **state)
{
    static const char *const texts[] = {
        "",      " ",     "{",   "{a: 1}", "{\"a\" 1}", "{\"a\":}",    "{\"a\":1,}", "[1,]",
        "[1 2]", "01",    "1.",  ".5",     "+1",        "1e",          "1e+",        "--1",
        "tru",   "truex", "nul", "\"",     "\"\\x\"",   "\"\\u12g4\"", "\"\n\"",     "{} {}",
        "1 2",   "[}",    "{]",  "'a'",    "1.2.3",     "{\"a\":1}}",  "NaN"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (scans_all(texts[i])) fail_msg("taken: %s", texts[i]);
}

static void test_a_value_ends_with_its_last_byte_or_before_the_next(void **state)
{
    (void)state;
    fxi_json_scan s = {0};
    assert_int_equal(fxi_json_scan_byte(&s, '{'), FXI_SCAN_MORE);
    assert_false(fxi_json_scan_in_text(&s));
    assert_int_equal(fxi_json_scan_byte(&s, '"'), FXI_SCAN_MORE);
    assert_true(fxi_json_scan_in_text(&s));
    for (const char *p = "a\":7"; *p; p++) assert_int_equal(fxi_json_scan_byte(&s, *p), 0);
    assert_int_equal(fxi_json_scan_byte(&s, '}'), FXI_SCAN_DONE);
    s = (fxi_json_scan){0};
    assert_int_equal(fxi_json_scan_byte(&s, '7'), FXI_SCAN_MORE);
    assert_int_equal(fxi_json_scan_byte(&s, ','), FXI_SCAN_BEFORE);
}

static void test_levels_are_counted_up_to_a_limit(void **state)
{
    (void)state;
    char text[2 * (FXI_SCAN_DEPTH + 1)];
    const size_t n = FXI_SCAN_DEPTH;
    for (size_t i = 0; i < n; i++) text[i] = '[', text[n + i] = ']';
    assert_true(fxi_json_scan_all(text, 2 * n));
    memset(text, '[', sizeof text);
    assert_false(fxi_json_scan_all(text, sizeof text));
    fxi_json_scan s = {0};
    for (size_t i = 0; i < n; i++) assert_int_equal(fxi_json_scan_byte(&s, '['), FXI_SCAN_MORE);
    assert_int_equal(fxi_json_scan_byte(&s, '['), FXI_SCAN_BAD);
}

static void assert_unescaped(const char *from, const char *to)
{
    fxi_buf b = {0};
    assert_true(fxi_json_unescape(&b, from, strlen(from)));
    assert_string_equal(b.p, to);
    fxi_buf_free(&b);
}

static void test_escapes_become_what_they_stand_for(void **state)
{
    (void)state;
    assert_unescaped("a\\n\\\"\\\\\\/b", "a\n\"\\/b");
    assert_unescaped("\\u0041\\u00e9\\u20AC\\ud83d\\ude00",
                     "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_unescaped("\\ud83dx", "\xef\xbf\xbdx");
    assert_unescaped("\\q\\u12", "\\q\\u12");
    assert_unescaped("end\\", "end\\");
}

static void test_text_is_escaped_so_that_it_comes_back(void **state)
{
    static const char text[] = "a\"\\\n\t\x01\x1f/\xc3\xa9";
    char escape[FXI_ESCAPE_BYTES];
    fxi_buf b = {0}, back = {0};
    (void)state;
    for (const char *c = text; *c; c++)
        assert_true(fxi_buf_add(&b, escape, fxi_json_escape(*c, escape)));
    assert_string_equal(b.p, "a\\\"\\\\\\n\\t\\u0001\\u001f/\xc3\xa9");
    assert_true(fxi_json_unescape(&back, b.p, b.n));
    assert_string_equal(back.p, text);
    fxi_buf_free(&b);
    fxi_buf_free(&back);
}

FX_SUITE(test_json_scan)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_json_is_taken),
        cmocka_unit_test(test_what_is_no_json_is_refused),
        cmocka_unit_test(test_a_value_ends_with_its_last_byte_or_before_the_next),
        cmocka_unit_test(test_levels_are_counted_up_to_a_limit),
        cmocka_unit_test(test_escapes_become_what_they_stand_for),
        cmocka_unit_test(test_text_is_escaped_so_that_it_comes_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
