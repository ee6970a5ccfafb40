// gram_regex.c - reads a regular expression by recursive descent: escapes and classes, atoms,
// repeats, alternatives.
//
// A pattern that may match anywhere gets "any text" before and after each of its outermost
// alternatives, except where ^ and $ anchor it.
#include "grammar/syntax/gram_regex.h"

#include <stdio.h>
#include <stdlib.h>

#include "base/text/utf8.h"

enum { MAX_GROUPS = 100, LAST_CHAR = 0x10FFFF };
#define NO_CHAR UINT32_MAX

typedef struct regex_reader {
    fxi_str s;
    size_t at;
    fx_error *err;
    bool refused; // *err says why; nothing is left to read
    fxi_gram *g;
    unsigned flags;
    fxi_gram_spelling spelling;
    int depth; // open groups
} regex_reader;

// The first refusal counts. Returns 0.
static uint32_t refuse_regex(regex_reader *r, size_t at, const char *what)
{
    if (!r->refused)
        fxi_error_set(r->err, FX_EINVAL, "regular expression: %s at byte %zu", what, at);
    r->refused = true;
    r->at = r->s.n;
    return 0;
}

// Takes `text` if it comes next.
static bool take_regex(regex_reader *r, const char *text)
{
    const size_t n = strlen(text);
    if (r->s.n - r->at < n || memcmp(r->s.p + r->at, text, n) != 0) return false;
    r->at += n;
    return true;
}

static bool is_next(const regex_reader *r, char c)
{
    return r->at < r->s.n && r->s.p[r->at] == c;
}

// ---- kinds of characters ------------------------------------------------------------------------

static const fxi_char_range digits[] = {{'0', '9'}},
                            words[] = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}},
                            spaces[] = {{9, 13},          {' ', ' '},       {0xA0, 0xA0},
                                        {0x1680, 0x1680}, {0x2000, 0x200A}, {0x2028, 0x2029},
                                        {0x202F, 0x202F}, {0x205F, 0x205F}, {0x3000, 0x3000},
                                        {0xFEFF, 0xFEFF}};

static const struct char_kind {
    char lower, upper; // letters of the kind, and of all other characters
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

static void add_kind(const struct char_kind *k, char letter, fxi_char_set *out)
{
    fxi_char_set set = {0};
    for (size_t i = 0; i < k->n; i++) fxi_char_set_add(&set, k->range[i].lo, k->range[i].hi);
    if (letter == k->upper) fxi_char_set_invert(&set);
    fxi_char_set_join(out, &set);
    fxi_char_set_free(&set);
}

// ---- escapes ------------------------------------------------------------------------------------

// Takes min to max hexadecimal digits. False: there are fewer.
static bool take_hex(regex_reader *r, int min, int max, uint32_t *out)
{
    int n = 0, v;
    *out = 0;
    while (n < max && r->at < r->s.n && (v = fxi_hex_digit(r->s.p[r->at])) >= 0) {
        *out = *out << 4 | (uint32_t)v;
        r->at++;
        n++;
    }
    return n >= min;
}

// Takes the low half of a surrogate pair, if it comes next.
static void take_low_surrogate(regex_reader *r, uint32_t *c)
{
    const size_t at = r->at;
    uint32_t low;
    if (*c < 0xD800 || *c > 0xDBFF) return;
    if (take_regex(r, "\\u") && take_hex(r, 4, 4, &low) && low >= 0xDC00 && low <= 0xDFFF)
        *c = 0x10000 + ((*c - 0xD800) << 10) + (low - 0xDC00);
    else
        r->at = at;
}

// \xHH, \x{H..}, \uHHHH, \u{H..}, after the letter.
static uint32_t read_code(regex_reader *r, char letter, size_t from)
{
    uint32_t c;
    const int n = letter == 'x' ? 2 : 4;
    const bool ok =
        take_regex(r, "{") ? take_hex(r, 1, 6, &c) && take_regex(r, "}") : take_hex(r, n, n, &c);
    if (!ok) return refuse_regex(r, from, "an incomplete character code");
    if (letter == 'u') take_low_surrogate(r, &c);
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        return refuse_regex(r, from, "a code that is not a character");
    return c;
}

// What a backslash and this letter are in other dialects.
static const char *name_escape(char letter)
{
    static const struct {
        const char *letters, *name;
    } known[] = {{"123456789", "a backreference"},
                 {"kg", "a named backreference"},
                 {"bB", "a word boundary"},
                 {"pP", "a Unicode property"},
                 {"AzZG", "an anchor"},
                 {"QE", "quoted text (\\Q..\\E)"},
                 {"KRXCNhHvV", "an escape of PCRE"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (strchr(known[i].letters, letter)) return known[i].name;
    return "an unknown escape";
}

static bool is_alnum(char c)
{
    return (c >= '0' && c <= '9') || ((c | 0x20) >= 'a' && (c | 0x20) <= 'z');
}

// The value of \n and the like; -1: not one of these.
static int control_of(regex_reader *r, char letter, bool in_class)
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

static uint32_t take_char(regex_reader *r)
{
    size_t n;
    const uint32_t c = (uint32_t)fxi_utf8_at(r->s.p + r->at, r->s.n - r->at, &n);
    r->at += n;
    return c;
}

// Reads an escape, after its backslash. Returns its character; NO_CHAR: it stands for several,
// which are added to *out.
static uint32_t read_escape(regex_reader *r, bool in_class, fxi_char_set *out)
{
    const size_t from = r->at - 1;
    char what[64];
    if (r->at >= r->s.n) return refuse_regex(r, from, "a backslash without a character");
    const char letter = r->s.p[r->at];
    const struct char_kind *kind = find_kind(letter);
    const uint32_t c = take_char(r);
    if (kind) {
        add_kind(kind, letter, out);
        return NO_CHAR;
    }
    const int control = control_of(r, letter, in_class);
    if (control >= 0) return (uint32_t)control;
    if (letter == 'x' || letter == 'u') return read_code(r, letter, from);
    if (!is_alnum(letter)) return c;
    snprintf(what, sizeof what, "%s (\\%c)", name_escape(letter), letter);
    return refuse_regex(r, from, what);
}

// ---- classes ------------------------------------------------------------------------------------

// A character or an escape of a class, returned as above.
static uint32_t read_item(regex_reader *r, fxi_char_set *out)
{
    if (r->at >= r->s.n) return refuse_regex(r, r->s.n, "a class without \"]\"");
    return take_regex(r, "\\") ? read_escape(r, true, out) : take_char(r);
}

// After the bracket.
static void read_char_class(regex_reader *r, fxi_char_set *out)
{
    const bool is_inverted = take_regex(r, "^");
    if (take_regex(r, "]"))
        refuse_regex(r, r->at - 1, "an empty class, on which dialects disagree,");
    while (!r->refused && !take_regex(r, "]")) {
        const size_t from = r->at;
        if (take_regex(r, "[:") || take_regex(r, "[.") || take_regex(r, "[="))
            refuse_regex(r, from, "a POSIX class");
        const uint32_t lo = read_item(r, out);
        uint32_t hi = lo;
        if (r->s.n - r->at >= 2 && r->s.p[r->at] == '-' && r->s.p[r->at + 1] != ']') {
            r->at++;
            hi = read_item(r, out);
            if (lo == NO_CHAR || hi == NO_CHAR)
                refuse_regex(r, from, "a range whose end is not one character");
            else if (hi < lo)
                refuse_regex(r, from, "a range that ends before it begins");
        }
        if (lo != NO_CHAR) fxi_char_set_add(out, lo, hi);
    }
    if (is_inverted) fxi_char_set_invert(out);
}

fx_status fxi_regex_class(fxi_str s, size_t *at, fxi_char_set *out, fx_error *err)
{
    regex_reader r = {.s = s, .at = *at, .err = err};
    read_char_class(&r, out);
    *at = r.at;
    return r.refused ? FX_EINVAL : FX_OK;
}

static uint32_t read_alts(regex_reader *r); // groups are read recursively

// ---- repeats ------------------------------------------------------------------------------------

bool fxi_regex_count(fxi_str s, size_t *at, uint32_t *out)
{
    const size_t from = *at;
    uint64_t v = 0;
    for (; *at < s.n && s.p[*at] >= '0' && s.p[*at] <= '9'; ++*at)
        v = v > FXI_GRAM_MAX_COUNT ? v : 10 * v + (uint64_t)(s.p[*at] - '0');
    *out = v > FXI_GRAM_MAX_COUNT ? FXI_GRAM_MAX_COUNT + 1 : (uint32_t)v;
    return *at > from;
}

// {m}, {m,} or {m,n}; a brace that begins none of them is a character.
static bool take_braces(regex_reader *r, uint32_t *min, uint32_t *max)
{
    const size_t from = r->at;
    if (take_regex(r, "{") && fxi_regex_count(r->s, &r->at, min)) {
        *max = *min;
        if (take_regex(r, ",") && !fxi_regex_count(r->s, &r->at, max)) *max = FXI_GRAM_NO_MAX;
        if (take_regex(r, "}")) return true;
    }
    r->at = from;
    return false;
}

static bool take_repeat(regex_reader *r, uint32_t *min, uint32_t *max)
{
    *min = is_next(r, '+');
    *max = is_next(r, '?') ? 1 : FXI_GRAM_NO_MAX;
    return take_regex(r, "*") || take_regex(r, "+") || take_regex(r, "?") ||
           take_braces(r, min, max);
}

static bool is_repeat_next(const regex_reader *r)
{
    regex_reader ahead = *r;
    uint32_t min, max;
    return take_repeat(&ahead, &min, &max);
}

// ---- atoms --------------------------------------------------------------------------------------

static uint32_t read_set(regex_reader *r, bool is_class)
{
    fxi_char_set set = {0};
    const uint32_t c = is_class ? NO_CHAR : read_escape(r, false, &set);
    if (is_class)
        read_char_class(r, &set);
    else if (c != NO_CHAR)
        fxi_char_set_add(&set, c, c);
    return fxi_gram_chars(r->g, &set, r->spelling);
}

static uint32_t make_dot(const regex_reader *r)
{
    fxi_char_set set = {0};
    fxi_char_set_add(&set, '\n', '\n');
    fxi_char_set_add(&set, '\r', '\r');
    fxi_char_set_add(&set, 0x2028, 0x2029);
    fxi_char_set_invert(&set);
    return fxi_gram_chars(r->g, &set, r->spelling);
}

// Refuses a group that begins with "(?" or "(*" and is not supported.
static void refuse_group(regex_reader *r, size_t at)
{
    static const struct {
        const char *mark, *name;
    } known[] = {{"?=", "lookahead (?=)"},
                 {"?!", "negative lookahead (?!)"},
                 {"?<=", "lookbehind (?<=)"},
                 {"?<!", "negative lookbehind (?<!)"},
                 {"?>", "an atomic group (?>)"},
                 {"?#", "a comment (?#)"},
                 {"?P=", "a backreference (?P=)"},
                 {"?P>", "a call of a group (?P>)"},
                 {"?(", "a condition (?()"},
                 {"?|", "a branch reset (?|)"},
                 {"?", "a flag or an unknown group (?)"},
                 {"*", "a verb (*)"}};
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (take_regex(r, known[i].mark)) refuse_regex(r, at, known[i].name);
}

static bool takes_name_mark(regex_reader *r)
{
    const size_t before = r->at;
    if (take_regex(r, "?P<")) return true;
    if (take_regex(r, "?<") && !is_next(r, '=') && !is_next(r, '!')) return true;
    r->at = before;
    return false;
}

// After "(".
static uint32_t read_group(regex_reader *r)
{
    const size_t at = r->at - 1;
    if (++r->depth > MAX_GROUPS) return refuse_regex(r, at, "a group nested deeper than 100");
    if (takes_name_mark(r)) {
        const size_t from = r->at;
        while (r->at < r->s.n && !is_next(r, '>') && !is_next(r, ')')) r->at++;
        if (r->at == from || !take_regex(r, ">"))
            return refuse_regex(r, at, "a group without a complete name");
    } else if (!take_regex(r, "?:")) {
        refuse_group(r, at);
    }
    const uint32_t node = read_alts(r);
    if (!take_regex(r, ")")) return refuse_regex(r, at, "a group without \")\"");
    r->depth--;
    return node;
}

static uint32_t read_atom(regex_reader *r)
{
    const size_t at = r->at;
    if (is_repeat_next(r)) return refuse_regex(r, at, "a repeat of nothing");
    if (is_next(r, '^') || is_next(r, '$'))
        return refuse_regex(r, at, "an anchor inside a group or an alternative (^ or $)");
    if (take_regex(r, "(")) return read_group(r);
    if (take_regex(r, "[")) return read_set(r, true);
    if (take_regex(r, "\\")) return read_set(r, false);
    if (take_regex(r, ".")) return make_dot(r);
    take_char(r);
    return fxi_gram_spell(r->g, (fxi_str){r->s.p + at, r->at - at}, r->spelling);
}

// An atom and its repeat.
static uint32_t read_repeated(regex_reader *r)
{
    uint32_t min, max;
    const uint32_t node = read_atom(r);
    const size_t at = r->at;
    if (!take_repeat(r, &min, &max)) return node;
    if (min > FXI_GRAM_MAX_COUNT || (max > FXI_GRAM_MAX_COUNT && max != FXI_GRAM_NO_MAX))
        return refuse_regex(r, at, "a repeat of more than 1000000 times");
    if (min > max) return refuse_regex(r, at, "a repeat whose minimum is above its maximum");
    take_regex(r, "?"); // lazy
    if (is_repeat_next(r)) return refuse_regex(r, at, "a possessive or double repeat");
    return fxi_gram_repeat(r->g, node, min, max);
}

// ---- alternatives -------------------------------------------------------------------------------

static void add_any_text(regex_reader *r, fxi_node_list *l)
{
    if (!(r->flags & FXI_GRAM_SEARCH) || r->depth) return;
    const uint32_t any = fxi_gram_char_range(r->g, 0, LAST_CHAR, r->spelling);
    fxi_node_list_add(l, fxi_gram_repeat(r->g, any, 0, FXI_GRAM_NO_MAX));
}

static bool is_alt_end(const regex_reader *r)
{
    return r->at >= r->s.n || is_next(r, '|') || is_next(r, ')');
}

static bool takes_end_anchor(regex_reader *r)
{
    const size_t before = r->at;
    if (!r->depth && take_regex(r, "$") && is_alt_end(r)) return true;
    r->at = before;
    return false;
}

static uint32_t read_alt(regex_reader *r)
{
    fxi_node_list l = {0};
    bool to_end = false;
    if (r->depth || !take_regex(r, "^")) add_any_text(r, &l);
    while (!is_alt_end(r) && !(to_end = takes_end_anchor(r)))
        fxi_node_list_add(&l, read_repeated(r));
    if (!to_end) add_any_text(r, &l);
    return fxi_gram_list(r->g, FXI_GRAM_SEQ, &l);
}

static uint32_t read_alts(regex_reader *r)
{
    fxi_node_list l = {0};
    do {
        fxi_node_list_add(&l, read_alt(r));
    } while (take_regex(r, "|"));
    return fxi_gram_list(r->g, FXI_GRAM_ALT, &l);
}

fx_status fxi_gram_regex(fxi_gram *g, fxi_str pattern, unsigned flags, fxi_gram_spelling spelling,
                         uint32_t *node, fx_error *err)
{
    regex_reader r = {.s = pattern, .err = err, .g = g, .flags = flags, .spelling = spelling};
    const size_t bad = fxi_utf8_check(pattern.p, pattern.n);
    if (bad < pattern.n) refuse_regex(&r, bad, "bad UTF-8");
    *node = read_alts(&r);
    if (r.at < pattern.n) refuse_regex(&r, r.at, "\")\" without \"(\"");
    return r.refused ? FX_EINVAL : FX_OK;
}
