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

typedef struct regex_reader {
    fxi_str s;
    size_t at;
    fx_error *err;
    fxi_gram *g;
    unsigned flags;
    fxi_gram_spelling spelling;
    int depth; // open groups
} regex_reader;

static fx_status refuse_regex(const regex_reader *r, size_t at, const char *what)
{
    return fxi_fail(r->err, FX_EINVAL, "regular expression: %s at byte %zu", what, at);
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

static fx_status add_chars(regex_reader *r, fxi_char_set *out, uint32_t lo, uint32_t hi)
{
    return fxi_char_set_add(out, lo, hi) ? FX_OK : fxi_fail_memory(r->err);
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

static fx_status add_kind(regex_reader *r, const struct char_kind *k, char letter,
                          fxi_char_set *out)
{
    fxi_char_set set = {0};
    bool ok = true;
    for (size_t i = 0; ok && i < k->n; i++)
        ok = fxi_char_set_add(&set, k->range[i].lo, k->range[i].hi);
    ok = ok && (letter == k->lower || fxi_char_set_invert(&set)) && fxi_char_set_join(out, &set);
    fxi_char_set_free(&set);
    return ok ? FX_OK : fxi_fail_memory(r->err);
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
static fx_status read_code(regex_reader *r, char letter, size_t from, uint32_t *c)
{
    const int n = letter == 'x' ? 2 : 4;
    const bool ok =
        take_regex(r, "{") ? take_hex(r, 1, 6, c) && take_regex(r, "}") : take_hex(r, n, n, c);
    if (!ok) return refuse_regex(r, from, "an incomplete character code");
    if (letter == 'u') take_low_surrogate(r, c);
    if (*c > 0x10FFFF || (*c >= 0xD800 && *c <= 0xDFFF))
        return refuse_regex(r, from, "a code that is not a character");
    return FX_OK;
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

// Reads an escape, after its backslash, and adds its characters to *out. *is_one: it stands for one
// character.
static fx_status read_escape_chars(regex_reader *r, bool in_class, fxi_char_set *out, bool *is_one)
{
    const size_t from = r->at - 1;
    char what[64];
    size_t n;
    if (r->at >= r->s.n) return refuse_regex(r, from, "a backslash without a character");
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
        return refuse_regex(r, from, what);
    }
    return add_chars(r, out, c, c);
}

// ---- classes ------------------------------------------------------------------------------------

// A character or an escape of a class.
static fx_status read_item(regex_reader *r, fxi_char_set *out, bool *is_one)
{
    size_t n;
    if (r->at >= r->s.n) return refuse_regex(r, r->s.n, "a class without \"]\"");
    if (take_regex(r, "\\")) return read_escape_chars(r, true, out, is_one);
    const uint32_t c = (uint32_t)fxi_utf8_at(r->s.p + r->at, r->s.n - r->at, &n);
    *is_one = true;
    r->at += n;
    return add_chars(r, out, c, c);
}

// Makes the last character of the set, which was read alone, the range up to the next one.
static fx_status read_range_end(regex_reader *r, fxi_char_set *out, bool is_one, size_t from)
{
    bool end_is_one = false;
    FX_TRY(read_item(r, out, &end_is_one));
    if (!is_one || !end_is_one)
        return refuse_regex(r, from, "a range whose end is not one character");
    const uint32_t hi = out->range[--out->n].lo;
    if (hi < out->range[out->n - 1].lo)
        return refuse_regex(r, from, "a range that ends before it begins");
    out->range[out->n - 1].hi = hi;
    return FX_OK;
}

// After the bracket.
static fx_status read_regex_class(regex_reader *r, fxi_char_set *out)
{
    const bool is_inverted = take_regex(r, "^");
    if (take_regex(r, "]"))
        return refuse_regex(r, r->at - 1, "an empty class, on which dialects disagree,");
    while (!take_regex(r, "]")) {
        const size_t from = r->at;
        bool is_one = false;
        if (take_regex(r, "[:") || take_regex(r, "[.") || take_regex(r, "[="))
            return refuse_regex(r, from, "a POSIX class");
        FX_TRY(read_item(r, out, &is_one));
        if (r->s.n - r->at < 2 || r->s.p[r->at] != '-' || r->s.p[r->at + 1] == ']') continue;
        r->at++;
        FX_TRY(read_range_end(r, out, is_one, from));
    }
    return is_inverted && !fxi_char_set_invert(out) ? fxi_fail_memory(r->err) : FX_OK;
}

fx_status fxi_regex_class(fxi_str s, size_t *at, fxi_char_set *out, fx_error *err)
{
    regex_reader r = {.s = s, .at = *at, .err = err};
    const fx_status st = read_regex_class(&r, out);
    *at = r.at;
    return st;
}

static fx_status read_alts(regex_reader *r, uint32_t *node); // groups are read recursively

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

static fx_status make_chars(regex_reader *r, fxi_char_set *set, fx_status st, uint32_t *node)
{
    if (!st && !fxi_gram_chars(r->g, set, r->spelling, node)) st = fxi_fail_memory(r->err);
    fxi_char_set_free(set);
    return st;
}

static fx_status read_set(regex_reader *r, bool is_class, uint32_t *node)
{
    fxi_char_set set = {0};
    bool is_one;
    const fx_status st =
        is_class ? read_regex_class(r, &set) : read_escape_chars(r, false, &set, &is_one);
    return make_chars(r, &set, st, node);
}

static fx_status make_dot(regex_reader *r, uint32_t *node)
{
    fxi_char_set set = {0};
    const bool ok = fxi_char_set_add(&set, '\n', '\n') && fxi_char_set_add(&set, '\r', '\r') &&
                    fxi_char_set_add(&set, 0x2028, 0x2029) && fxi_char_set_invert(&set);
    return make_chars(r, &set, ok ? FX_OK : fxi_fail_memory(r->err), node);
}

static fx_status read_literal(regex_reader *r, uint32_t *node)
{
    size_t n;
    const char *p = r->s.p + r->at;
    fxi_utf8_at(p, r->s.n - r->at, &n);
    r->at += n;
    const bool ok = fxi_gram_spell(r->g, (fxi_str){p, n}, r->spelling, node);
    return ok ? FX_OK : fxi_fail_memory(r->err);
}

// Refuses a group that begins with "(?" or "(*" and is not supported.
static fx_status refuse_group(regex_reader *r, size_t at)
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
        if (take_regex(r, known[i].mark)) return refuse_regex(r, at, known[i].name);
    return FX_OK;
}

static fx_status take_group_name(regex_reader *r, size_t at)
{
    const size_t from = r->at;
    while (r->at < r->s.n && !is_next(r, '>') && !is_next(r, ')')) r->at++;
    if (r->at == from || !take_regex(r, ">"))
        return refuse_regex(r, at, "a group without a complete name");
    return FX_OK;
}

static bool is_named_group(regex_reader *r)
{
    const size_t before = r->at;
    if (take_regex(r, "?P<")) return true;
    if (take_regex(r, "?<") && !is_next(r, '=') && !is_next(r, '!')) return true;
    r->at = before;
    return false;
}

// After "(".
static fx_status read_group(regex_reader *r, uint32_t *node)
{
    const size_t at = r->at - 1;
    if (++r->depth > MAX_GROUPS) return refuse_regex(r, at, "a group nested deeper than 100");
    if (is_named_group(r))
        FX_TRY(take_group_name(r, at));
    else if (!take_regex(r, "?:"))
        FX_TRY(refuse_group(r, at));
    FX_TRY(read_alts(r, node));
    if (!take_regex(r, ")")) return refuse_regex(r, at, "a group without \")\"");
    r->depth--;
    return FX_OK;
}

static fx_status read_atom(regex_reader *r, uint32_t *node)
{
    const size_t at = r->at;
    if (is_repeat_next(r)) return refuse_regex(r, at, "a repeat of nothing");
    if (is_next(r, '^') || is_next(r, '$'))
        return refuse_regex(r, at, "an anchor inside a group or an alternative (^ or $)");
    if (take_regex(r, "(")) return read_group(r, node);
    if (take_regex(r, "[")) return read_set(r, true, node);
    if (take_regex(r, "\\")) return read_set(r, false, node);
    if (take_regex(r, ".")) return make_dot(r, node);
    return read_literal(r, node);
}

// An atom and its repeat.
static fx_status read_repeated(regex_reader *r, uint32_t *node)
{
    uint32_t min, max;
    FX_TRY(read_atom(r, node));
    const size_t at = r->at;
    if (!take_repeat(r, &min, &max)) return FX_OK;
    if (min > FXI_GRAM_MAX_COUNT || (max > FXI_GRAM_MAX_COUNT && max != FXI_GRAM_NO_MAX))
        return refuse_regex(r, at, "a repeat of more than 1000000 times");
    if (min > max) return refuse_regex(r, at, "a repeat whose minimum is above its maximum");
    take_regex(r, "?"); // lazy
    if (is_repeat_next(r)) return refuse_regex(r, at, "a possessive or double repeat");
    *node = fxi_gram_repeat(r->g, *node, min, max);
    return FX_OK;
}

// ---- alternatives -------------------------------------------------------------------------------

static fx_status list_node(regex_reader *r, fxi_node_list *l, uint32_t node)
{
    return fxi_node_list_add(l, node) ? FX_OK : fxi_fail_memory(r->err);
}

static fx_status add_any_text(regex_reader *r, fxi_node_list *l)
{
    uint32_t any;
    if (!(r->flags & FXI_GRAM_SEARCH) || r->depth) return FX_OK;
    if (!fxi_gram_char_range(r->g, 0, LAST_CHAR, r->spelling, &any)) return fxi_fail_memory(r->err);
    return list_node(r, l, fxi_gram_repeat(r->g, any, 0, FXI_GRAM_NO_MAX));
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

static fx_status read_pieces(regex_reader *r, fxi_node_list *l)
{
    const bool from_start = !r->depth && take_regex(r, "^");
    bool to_end = false;
    uint32_t node = 0;
    if (!from_start) FX_TRY(add_any_text(r, l));
    while (!to_end && !is_alt_end(r)) {
        if ((to_end = takes_end_anchor(r))) break;
        FX_TRY(read_repeated(r, &node));
        FX_TRY(list_node(r, l, node));
    }
    return to_end ? FX_OK : add_any_text(r, l);
}

static fx_status read_alt(regex_reader *r, uint32_t *node)
{
    fxi_node_list l = {0};
    const fx_status st = read_pieces(r, &l);
    if (!st) *node = fxi_gram_seq(r->g, l.node, l.n);
    free(l.node);
    return st;
}

static fx_status read_alts(regex_reader *r, uint32_t *node)
{
    fxi_node_list l = {0};
    fx_status st;
    uint32_t alt = 0;
    do {
        st = read_alt(r, &alt);
        if (!st) st = list_node(r, &l, alt);
    } while (!st && take_regex(r, "|"));
    if (!st) *node = fxi_gram_alt(r->g, l.node, l.n);
    free(l.node);
    return st;
}

fx_status fxi_gram_regex(fxi_gram *g, fxi_str pattern, unsigned flags, fxi_gram_spelling spelling,
                         uint32_t *node, fx_error *err)
{
    regex_reader r = {.s = pattern, .err = err, .g = g, .flags = flags, .spelling = spelling};
    const size_t bad = fxi_utf8_check(pattern.p, pattern.n);
    if (bad < pattern.n) return refuse_regex(&r, bad, "bad UTF-8");
    FX_TRY(read_alts(&r, node));
    if (r.at < pattern.n) return refuse_regex(&r, r.at, "\")\" without \"(\"");
    return FX_OK;
}
