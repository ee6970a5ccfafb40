// test_json_scan.c - JSON byte by byte: what it takes for a value, where a value ends, escapes.
#include <stdio.h>
#include <string.h>

#include "output_parser/json_scan.h"
#include "unit/cmocka_all.h"

static bool scans_all(const char *text)
{
    return fxi_json_scan_all(text, strlen(text));
}

FX_TEST(test_what_is_json_is_taken)
{
    static const char *const texts[] = {
        "{}",         "[]", " {\"a\": [1, -2.5e+3, 0, 0.1E5, true, false, null, \"x\\u00e9\\n\"]} ",
        "\"\"",       "-0", "12",
        "[[[]], {}]", "1 ", "{\"a\":{\"b\":[{}]},\"c\":\"}\"}"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (!scans_all(texts[i])) fail_msg("refused: %s", texts[i]);
}

FX_TEST(test_what_is_no_json_is_refused)
{
    static const char *const texts[] = {
        "",      " ",     "{",   "{a: 1}", "{\"a\" 1}", "{\"a\":}",    "{\"a\":1,}", "[1,]",
        "[1 2]", "01",    "1.",  ".5",     "+1",        "1e",          "1e+",        "--1",
        "tru",   "truex", "nul", "\"",     "\"\\x\"",   "\"\\u12g4\"", "\"\n\"",     "{} {}",
        "1 2",   "[}",    "{]",  "'a'",    "1.2.3",     "{\"a\":1}}",  "NaN"};
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++)
        if (scans_all(texts[i])) fail_msg("taken: %s", texts[i]);
}

FX_TEST(test_a_value_ends_with_its_last_byte_or_before_the_next)
{
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

FX_TEST(test_levels_are_counted_up_to_a_limit)
{
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

FX_TEST(test_escapes_become_what_they_stand_for)
{
    assert_unescaped("a\\n\\\"\\\\\\/b", "a\n\"\\/b");
    assert_unescaped("\\u0041\\u00e9\\u20AC\\ud83d\\ude00",
                     "A\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80");
    assert_unescaped("\\ud83dx", "\xef\xbf\xbdx");
    assert_unescaped("\\q\\u12", "\\q\\u12");
    assert_unescaped("end\\", "end\\");
}

FX_TEST(test_text_is_escaped_so_that_it_comes_back)
{
    static const char text[] = "a\"\\\n\t\x01\x1f/\xc3\xa9";
    char escape[FXI_ESCAPE_BYTES];
    fxi_buf b = {0}, back = {0};
    for (const char *c = text; *c; c++)
        assert_true(fxi_buf_add(&b, escape, fxi_json_escape(*c, escape)));
    assert_string_equal(b.p, "a\\\"\\\\\\n\\t\\u0001\\u001f/\xc3\xa9");
    assert_true(fxi_json_unescape(&back, b.p, b.n));
    assert_string_equal(back.p, text);
    fxi_buf_free(&b);
    fxi_buf_free(&back);
}

FX_RUN(test_json_scan)
