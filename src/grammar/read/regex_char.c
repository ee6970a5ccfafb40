// regex_char.c - escapes and classes.
#include "grammar/read/regex_char.h"

#include <stdio.h>

#include "base/text/utf8.h"

fx_status fxi_regex_refuse(const fxi_regex_text *r, size_t at, const char *what)
{
    return fxi_fail(r->err, FX_EINVAL, "regular expression: %s at byte %zu", what, at);
}

fx_status fxi_regex_no_memory(const fxi_regex_text *r)
{
    return fxi_fail(r->err, FX_ENOMEM, "out of memory");
}

bool fxi_regex_take(fxi_regex_text *r, const char *text)
{
    const size_t n = strlen(text);
    if (r->s.n - r->at < n || memcmp(r->s.p + r->at, text, n) != 0) return false;
    r->at += n;
    return true;
}

static fx_status add_chars(fxi_regex_text *r, fxi_char_set *out, uint32_t lo, uint32_t hi)
{
    return fxi_char_set_add(out, lo, hi) ? FX_OK : fxi_regex_no_memory(r);
}

// ---- kinds of characters ------------------------------------------------------------------------

static const fxi_char_range digits[] = {{'0', '9'}},
                            words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                            spaces[] = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},
                                        {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                        {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
                                        {0xFEFF, 0xFEFF}};

static const struct char_kind {
    char lower, upper; // the kind, and all other characters
    const fxi_char_range *range;
    size_t n;
} char_kinds[] = {{'d', 'D', digits, sizeof digits / sizeof *digits},
                  {'w', 'W', words, sizeof words / sizeof *words},
                  {'s', 'S', spaces, sizeof spaces / sizeof *spaces}};

static const struct char_kind *find_kind(char letter)
{
    for (size_t i = 0; i < sizeof char_kinds / sizeof *char_kinds; i++)
        if (char_kinds[i].lower == letter || char_kinds[i].upper == letter) return &char_kinds[i];
    return NULL;
}

static fx_status add_kind(fxi_regex_text *r, const struct char_kind *k, char letter,
                          fxi_char_set *out)
{
    fxi_char_set set = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < k->n; i++)
        ok = fxi_char_set_add(&set, k->range[i].lo, k->range[i].hi);
    ok = ok && (letter == k->lower || fxi_char_set_invert(&set)) && fxi_char_set_join(out, &set);
    fxi_char_set_free(&set);
    return ok ? FX_OK : fxi_regex_no_memory(r);
}

// ---- escapes ------------------------------------------------------------------------------------

static int hex_value(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// Takes min to max hexadecimal digits. False: there are fewer.
static bool take_hex(fxi_regex_text *r, int min, int max, uint32_t *out)
{
    int n = 0, v;
    *out = 0;
    while (n < max && r->at < r->s.n && (v = hex_value(r->s.p[r->at])) >= 0) {
        *out = *out << 4 | (uint32_t)v;
        r->at++;
        n++;
    }
    return n >= min;
}

// The second half of a pair of surrogates, if it comes next.
static void take_low_surrogate(fxi_regex_text *r, uint32_t *c)
{
    const size_t at = r->at;
    uint32_t low;
    if (*c < 0xD800 || *c > 0xDBFF) return;
    if (fxi_regex_take(r, "\\u") && take_hex(r, 4, 4, &low) && low >= 0xDC00 && low <= 0xDFFF)
        *c = 0x10000 + ((*c - 0xD800) << 10) + (low - 0xDC00);
    else
        r->at = at;
}

// \xHH, \x{H..}, \uHHHH, \u{H..}, behind the letter.
static fx_status read_code(fxi_regex_text *r, char letter, size_t from, uint32_t *c)
{
    const int n = letter == 'x' ? 2 : 4;
    const bool ok = fxi_regex_take(r, "{") ? take_hex(r, 1, 6, c) && fxi_regex_take(r, "}")
                                           : take_hex(r, n, n, c);
    if (!ok) return fxi_regex_refuse(r, from, "an incomplete code of a character");
    if (letter == 'u') take_low_surrogate(r, c);
    if (*c > 0x10FFFF || (*c >= 0xD800 && *c <= 0xDFFF))
        return fxi_regex_refuse(r, from, "a code that is no character");
    return FX_OK;
}

// What a letter behind a backslash is, where it is no character.
static const char *name_escape(char letter)
{
    static const struct {
        const char *letters, *name;
    } known[] = {{"123456789", "a backreference"},
                 {"kg", "a named backreference"},
                 {"bB", "a word boundary"},
                 {"pP", "a Unicode property"},
                 {"AzZG", "an anchor"},
                 {"QE", "a quoted text (\\Q..\\E)"},
                 {"KRXCNhHvV", "an escape of PCRE"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strchr(known[i].letters, letter)) return known[i].name;
    return "an unknown escape";
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

// The value of \n and the like; -1: it is none.
static int control_of(fxi_regex_text *r, char letter, bool in_class)
{
    static const char letters[] = "nrtfv0b", values[] = "\n\r\t\f\v\0\b";
    const char *p = letter ? strchr(letters, letter) : NULL;
    if (letter == 'b' && !in_class) return -1;
    if (letter == '0' && r->at < r->s.n && r->s.p[r->at] >= '0' && r->s.p[r->at] <= '9') return -1;
    if (p) return values[p - letters];
    if (letter != 'c' || r->at >= r->s.n || !is_alnum(r->s.p[r->at]) || r->s.p[r->at] <= '9')
        return -1;
    return r->s.p[r->at++] & 0x1F;
}

fx_status fxi_regex_escape(fxi_regex_text *r, bool in_class, fxi_char_set *out, bool *is_one)
{
    const size_t from = r->at - 1;
    char what[64];
    size_t n;
    if (r->at >= r->s.n) return fxi_regex_refuse(r, from, "a backslash without a character");
    const char letter = r->s.p[r->at];
    const struct char_kind *kind = find_kind(letter);
    uint32_t c = (uint32_t)fxi_utf8_at(r->s.p + r->at, r->s.n - r->at, &n);
    r->at += n;
    *is_one = !kind;
    if (kind) return add_kind(r, kind, letter, out);
    const int control = control_of(r, letter, in_class);
    if (control >= 0) {
        c = (uint32_t)control;
    } else if (letter == 'x' || letter == 'u') {
        FX_TRY(read_code(r, letter, from, &c));
    } else if (is_alnum(letter)) {
        snprintf(what, sizeof what, "%s (\\%c)", name_escape(letter), letter);
        return fxi_regex_refuse(r, from, what);
    }
    return add_chars(r, out, c, c);
}

// ---- classes ------------------------------------------------------------------------------------

// A character or an escape of a class.
static fx_status read_item(fxi_regex_text *r, fxi_char_set *out, bool *is_one)
{
    size_t n;
    if (r->at >= r->s.n) return fxi_regex_refuse(r, r->s.n, "a class without \"]\"");
    if (fxi_regex_take(r, "\\")) return fxi_regex_escape(r, true, out, is_one);
    const uint32_t c = (uint32_t)fxi_utf8_at(r->s.p + r->at, r->s.n - r->at, &n);
    *is_one = true;
    r->at += n;
    return add_chars(r, out, c, c);
}

// Makes the last character of the set, which was read alone, the range up to the next one.
static fx_status read_range_end(fxi_regex_text *r, fxi_char_set *out, bool is_one, size_t from)
{
    bool end_is_one = false;
    FX_TRY(read_item(r, out, &end_is_one));
    if (!is_one || !end_is_one)
        return fxi_regex_refuse(r, from, "a range of what is not one character");
    const uint32_t hi = out->range[--out->n].lo;
    if (hi < out->range[out->n - 1].lo)
        return fxi_regex_refuse(r, from, "a range that ends before it begins");
    out->range[out->n - 1].hi = hi;
    return FX_OK;
}

static bool is_range_next(const fxi_regex_text *r)
{
    return r->s.n - r->at >= 2 && r->s.p[r->at] == '-' && r->s.p[r->at + 1] != ']';
}

fx_status fxi_regex_class(fxi_regex_text *r, fxi_char_set *out)
{
    const bool is_inverted = fxi_regex_take(r, "^");
    if (fxi_regex_take(r, "]"))
        return fxi_regex_refuse(r, r->at - 1, "an empty class, on which dialects disagree,");
    while (!fxi_regex_take(r, "]")) {
        const size_t from = r->at;
        bool is_one = false;
        if (fxi_regex_take(r, "[:") || fxi_regex_take(r, "[.") || fxi_regex_take(r, "[="))
            return fxi_regex_refuse(r, from, "a class of POSIX");
        FX_TRY(read_item(r, out, &is_one));
        if (!is_range_next(r)) continue;
        r->at++;
        FX_TRY(read_range_end(r, out, is_one, from));
    }
    return is_inverted && !fxi_char_set_invert(out) ? fxi_regex_no_memory(r) : FX_OK;
}
