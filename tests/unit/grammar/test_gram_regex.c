// test_gram_regex.c - regular expressions compared with PCRE2, on every short string of a small
// alphabet: the constructs one by one, and patterns made at random; characters, one by one,
// compared with the definition of their class; and what is refused, with its name and its place.
#define PCRE2_CODE_UNIT_WIDTH 8
#include "unit/cmocka_all.h"

#include <pcre2.h>
#include <stdio.h>

#include "base/number/rng.h"
#include "grammar/syntax/gram_regex.h"
#include "unit/grammar/gram_machine.h"

static fx_status make_machine(gram_machine *m, fxi_str pattern, unsigned flags,
                              fxi_gram_spelling spelling, fx_error *err)
{
    uint32_t node = 0;
    *m = (gram_machine){0};
    const fx_status st = fxi_gram_regex(&m->g, pattern, flags, spelling, &node, err);
    return start_machine(m, st, node, err);
}

static void open_machine(gram_machine *m, const char *pattern, unsigned flags,
                         fxi_gram_spelling spelling)
{
    fx_error err = {0};
    if (make_machine(m, fxi_str_of(pattern), flags, spelling, &err))
        fail_msg("%s: %s", pattern, err.text);
}

// ---- compared with PCRE2 ------------------------------------------------------------------------

typedef struct peer {
    const char *pattern;
    gram_machine m;
    pcre2_code *re;
    pcre2_match_data *match;
    pcre2_match_context *limits;
    size_t n_match, n_given_up;
} peer;

static void compare_text(peer *p, const char *s, size_t n)
{
    const int rc = pcre2_match(p->re, (PCRE2_SPTR)s, n, 0, 0, p->match, p->limits);
    if (rc == PCRE2_ERROR_MATCHLIMIT) {
        p->n_given_up++;
        return;
    }
    p->n_match += rc >= 0;
    if (machine_accepts(&p->m, s, n) != (rc >= 0))
        fail_msg("%s: \"%.*s\": PCRE2 says %d", p->pattern, (int)n, s, rc);
}

static void compare_all(peer *p, char *s, size_t n, int n_left)
{
    static const char *const letters[] = {"a", "b", "1", " ", "\xC3\xA9"};
    compare_text(p, s, n);
    for (size_t i = 0; n_left && i < sizeof letters / sizeof *letters; i++) {
        const size_t len = strlen(letters[i]);
        memcpy(s + n, letters[i], len);
        compare_all(p, s, n + len, n_left - 1);
    }
}

static peer compare_pattern(const char *pattern, unsigned flags, int max_chars)
{
    int code;
    PCRE2_SIZE at;
    char s[32];
    peer p = {.pattern = pattern};
    const uint32_t whole = flags & FXI_GRAM_SEARCH ? 0 : PCRE2_ANCHORED | PCRE2_ENDANCHORED;
    p.re = pcre2_compile((PCRE2_SPTR)pattern, PCRE2_ZERO_TERMINATED,
                         PCRE2_UTF | PCRE2_DOLLAR_ENDONLY | whole, &code, &at, NULL);
    if (!p.re) fail_msg("%s: PCRE2 says %d at %zu", pattern, code, at);
    p.match = pcre2_match_data_create_from_pattern(p.re, NULL);
    p.limits = pcre2_match_context_create(NULL);
    pcre2_set_match_limit(p.limits, 20000);
    open_machine(&p.m, pattern, flags, FXI_SPELL_UTF8);
    compare_all(&p, s, 0, max_chars);
    close_machine(&p.m);
    pcre2_match_data_free(p.match);
    pcre2_match_context_free(p.limits);
    pcre2_code_free(p.re);
    return p;
}

static const char *const patterns[] = {
    "",
    "a",
    "ab|ba",
    "a|",
    "(a|b)*1",
    "(?:ab)+?",
    "(?<x>a)(?P<y>b)?",
    "a{2}",
    "a{2,}",
    "a{1,3}b",
    "(a{0,2}){2}",
    "(a?){3}",
    "(a*)*",
    "(a*|b)+1",
    "(a|b{0,2}){2,3}",
    "((a*b?)*1?)*",
    ".",
    "..?",
    "[ab]+",
    "[^ab]*",
    "[a-b1]{2}",
    "[^\\d]+",
    "[\\w ]*",
    "[a\\-1]*",
    "[-a]*",
    "[a-]*",
    "[\xC3\xA0-\xC3\xBF]a",
    "[^\xC3\xA9]*",
    "\xC3\xA9+",
    "\\d+",
    "\\D+",
    "\\w*",
    "\\W*",
    "\\S{1,2}",
    "a\\x20b",
    "\\x{e9}a",
    "\\x61{2}",
    "a\\.b|a\\ b",
    "a{|b{a}|1{,2",
    "^a|b$",
    "^(a|b)*$",
    "a(|b)(|1)a?",
    "(((((a)))))",
};

FX_TEST(test_every_construct_matches_as_in_pcre2)
{
    for (size_t i = 0; i < sizeof patterns / sizeof *patterns; i++) {
        assert_int_equal(compare_pattern(patterns[i], 0, 4).n_given_up, 0);
        assert_int_equal(compare_pattern(patterns[i], FXI_GRAM_SEARCH, 4).n_given_up, 0);
    }
}

// A pattern at random, appended to s.
static void random_pattern(char *s, uint64_t seed, uint64_t *i, int depth)
{
    static const char *const atoms[] = {"a", "b", "1", ".", "[ab]", "[^a]", "\\d", "\xC3\xA9", ""};
    static const char *const repeats[] = {"", "", "*", "+", "?", "{2}", "{1,2}", "{0,2}", "{2,}"};
    const uint64_t kind = fxi_rng_u64(seed, 5, (*i)++) % 4;
    if (depth == 0 || kind == 0) {
        strcat(s, atoms[fxi_rng_u64(seed, 5, (*i)++) % 9]);
        return;
    }
    strcat(s, "(?:");
    random_pattern(s, seed, i, depth - 1);
    if (kind == 1) strcat(s, "|");
    if (kind <= 2) random_pattern(s, seed, i, depth - 1);
    strcat(s, ")");
    strcat(s, repeats[fxi_rng_u64(seed, 5, (*i)++) % 9]);
}

FX_TEST(test_random_patterns_match_as_in_pcre2)
{
    size_t n_match = 0, n_given_up = 0;
    for (uint64_t seed = 0; seed < 300; seed++) {
        char pattern[2048] = "";
        uint64_t i = 0;
        random_pattern(pattern, seed, &i, 4);
        const peer p = compare_pattern(pattern, 0, 3);
        n_match += p.n_match;
        n_given_up += p.n_given_up;
    }
    assert_true(n_match > 1000);
    assert_true(n_given_up < 2000); // of 46800
}

// ---- characters ---------------------------------------------------------------------------------

static size_t encode_char(uint32_t c, char s[4]) // surrogates, too
{
    if (c < 0x80) return s[0] = (char)c, 1;
    const size_t n = c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    const uint32_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    for (size_t i = n; i-- > 1; c >>= 6) s[i] = (char)(0x80 | (c & 63));
    s[0] = (char)(lead[n] | c);
    return n;
}

static bool is_ecma_space(uint32_t c)
{
    return (c >= 9 && c <= 13) || c == ' ' || c == 0xA0 || c == 0x1680 ||
           (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F ||
           c == 0x205F || c == 0x3000 || c == 0xFEFF;
}

static bool is_not_space(uint32_t c)
{
    return !is_ecma_space(c);
}

static bool is_dot(uint32_t c)
{
    return c != '\n' && c != '\r' && c != 0x2028 && c != 0x2029;
}

static bool is_odd_range(uint32_t c)
{
    return (c >= 0x7E && c <= 0x12345) || (c >= 0x1F600 && c <= 0x10FFFF);
}

FX_TEST(test_characters_are_those_of_their_class)
{
    static const struct {
        const char *pattern;
        bool (*has)(uint32_t c);
    } row[] = {{"\\s", is_ecma_space},
               {"\\S", is_not_space},
               {".", is_dot},
               {"[~-\\u{12345}\\uD83D\\uDE00-\\u{10ffff}]", is_odd_range}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        gram_machine m;
        open_machine(&m, row[i].pattern, 0, FXI_SPELL_UTF8);
        for (uint32_t c = 0; c <= 0x1FFFFF; c += c < 0x12400 ? 1 : 251) { // beyond Unicode, too
            char s[4];
            const size_t n = encode_char(c, s);
            const bool is_char = c <= 0x10FFFF && (c < 0xD800 || c > 0xDFFF);
            if (machine_accepts(&m, s, n) != (is_char && row[i].has(c)))
                fail_msg("%s: U+%04X", row[i].pattern, c);
        }
        assert_false(machine_accepts(&m, "\xC1\xA0", 2)); // overlong
        assert_false(machine_accepts(&m, "\xE0\x81\xA0", 3));
        close_machine(&m);
    }
}

FX_TEST(test_characters_are_spelled_as_in_json)
{
    static const struct {
        const char *pattern, *yes, *no;
    } row[] = {{"a\"b", "a\\\"b", "a\"b"},  {"\\\\", "\\\\", "\\"},
               {"[\\n\\x01]", "\\n", "\n"}, {"[\\n\\x1f]", "\\u001f", "\x1f"},
               {"[^a]", "\\\"", "\""},      {"[^a]", "\xC3\xA9", "a"},
               {".*", "x\\ty/", "x\\ny"},   {"\xC3\xA9\"", "\xC3\xA9\\\"", "\\u00e9\\\""}};
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        gram_machine m;
        open_machine(&m, row[i].pattern, 0, FXI_SPELL_JSON);
        if (!machine_accepts(&m, row[i].yes, strlen(row[i].yes))) fail_msg("%s", row[i].yes);
        if (machine_accepts(&m, row[i].no, strlen(row[i].no))) fail_msg("%s", row[i].no);
        close_machine(&m);
    }
}

// ---- what is refused ----------------------------------------------------------------------------

FX_TEST(test_what_is_not_supported_is_named_with_its_place)
{
    static const char *const row[][2] = {
        {"a(?=b)", "lookahead (?=) at byte 1"},
        {"(?!b)", "negative lookahead (?!) at byte 0"},
        {"(?<=b)", "lookbehind (?<=) at byte 0"},
        {"(?<!b)", "negative lookbehind (?<!) at byte 0"},
        {"(?>a)", "an atomic group (?>) at byte 0"},
        {"(?i)a", "a flag or an unknown group (?) at byte 0"},
        {"(*ACCEPT)", "a verb (*) at byte 0"},
        {"(a)\\1", "a backreference (\\1) at byte 3"},
        {"\\k<x>", "a named backreference (\\k) at byte 0"},
        {"a\\b", "a word boundary (\\b) at byte 1"},
        {"\\p{L}", "a Unicode property (\\p) at byte 0"},
        {"\\y", "an unknown escape (\\y) at byte 0"},
        {"a\\", "a backslash without a character at byte 1"},
        {"\\x1", "an incomplete character code at byte 0"},
        {"\\uD800", "a code that is not a character at byte 0"},
        {"\\x{110000}", "a code that is not a character at byte 0"},
        {"[a", "a class without \"]\" at byte 2"},
        {"[]", "an empty class, on which dialects disagree, at byte 1"},
        {"[[:alpha:]]", "a POSIX class at byte 1"},
        {"[b-a]", "a range that ends before it begins at byte 1"},
        {"[a-\\d]", "a range whose end is not one character at byte 1"},
        {"*a", "a repeat of nothing at byte 0"},
        {"{2}a", "a repeat of nothing at byte 0"},
        {"a|+", "a repeat of nothing at byte 2"},
        {"a**", "a possessive or double repeat at byte 1"},
        {"a{2}{3}", "a possessive or double repeat at byte 1"},
        {"a*+", "a possessive or double repeat at byte 1"},
        {"a{2,1}", "a repeat whose minimum is above its maximum at byte 1"},
        {"a{1000001}", "a repeat of more than 1000000 times at byte 1"},
        {"a{99999999999999999999}", "a repeat of more than 1000000 times at byte 1"},
        {"(a", "a group without \")\" at byte 0"},
        {"a)", "\")\" without \"(\" at byte 1"},
        {"(?<x", "a group without a complete name at byte 0"},
        {"(^a)", "an anchor inside a group or an alternative (^ or $) at byte 1"},
        {"a$b", "an anchor inside a group or an alternative (^ or $) at byte 1"},
        {"a\xFF", "bad UTF-8 at byte 1"},
    };
    for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
        fxi_gram g = {0};
        uint32_t node;
        fx_error err = {0};
        char want[256];
        snprintf(want, sizeof want, "regular expression: %s", row[i][1]);
        assert_int_equal(fxi_gram_regex(&g, fxi_str_of(row[i][0]), 0, FXI_SPELL_UTF8, &node, &err),
                         FX_EINVAL);
        assert_string_equal(err.text, want);
        fxi_gram_free(&g);
    }
}

FX_TEST(test_groups_have_a_depth)
{
    fxi_gram g = {0};
    uint32_t node;
    fx_error err = {0};
    char pattern[5000];
    memset(pattern, '(', sizeof pattern);
    assert_int_equal(
        fxi_gram_regex(&g, (fxi_str){pattern, sizeof pattern}, 0, FXI_SPELL_UTF8, &node, &err),
        FX_EINVAL);
    assert_non_null(strstr(err.text, "a group nested deeper than 100 at byte 100"));
    fxi_gram_free(&g);
}

FX_RUN(test_gram_regex)
