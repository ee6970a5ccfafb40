// gram_regex.c - the structure of a regular expression, by recursive descent.
//
// A pattern that may match anywhere gets "any text" in front of and behind each of its outermost
// alternatives, but where ^ and $ anchor it.
#include "grammar/read/gram_regex.h"

#include <stdlib.h>

#include "base/system/grow.h"
#include "base/text/utf8.h"
#include "grammar/read/regex_char.h"

enum { MAX_GROUPS = 100, MAX_COUNT = 1000000 };

typedef struct regex_reader {
    fxi_gram *g;
    fxi_regex_text text;
    unsigned flags;
    fxi_gram_spelling spelling;
    int depth; // groups that are open
} regex_reader;

typedef struct node_list {
    uint32_t *node;
    size_t n, cap;
} node_list;

static fx_status read_ways(regex_reader *r, uint32_t *node);

static fx_status list_node(regex_reader *r, node_list *l, uint32_t node)
{
    if (!fxi_grow(&l->node, sizeof *l->node, l->n, &l->cap)) return fxi_regex_no_memory(&r->text);
    l->node[l->n++] = node;
    return FX_OK;
}

static bool is_next(const regex_reader *r, char c)
{
    return r->text.at < r->text.s.n && r->text.s.p[r->text.at] == c;
}

static bool is_way_end(const regex_reader *r)
{
    return r->text.at >= r->text.s.n || is_next(r, '|') || is_next(r, ')');
}

// ---- repeats ------------------------------------------------------------------------------------

static bool take_count(regex_reader *r, uint32_t *out)
{
    const size_t from = r->text.at;
    uint64_t v = 0;
    for (; r->text.at < r->text.s.n; r->text.at++) {
        const char c = r->text.s.p[r->text.at];
        if (c < '0' || c > '9') break;
        v = v > MAX_COUNT ? v : 10 * v + (uint64_t)(c - '0');
    }
    *out = v > MAX_COUNT ? MAX_COUNT + 1 : (uint32_t)v;
    return r->text.at > from;
}

// {m}, {m,} or {m,n}; a brace that begins none of them is a character.
static bool take_braces(regex_reader *r, uint32_t *min, uint32_t *max)
{
    const size_t from = r->text.at;
    if (fxi_regex_take(&r->text, "{") && take_count(r, min)) {
        *max = *min;
        if (fxi_regex_take(&r->text, ",") && !take_count(r, max)) *max = FXI_GRAM_NO_MAX;
        if (fxi_regex_take(&r->text, "}")) return true;
    }
    r->text.at = from;
    return false;
}

static bool take_repeat(regex_reader *r, uint32_t *min, uint32_t *max)
{
    *min = is_next(r, '+');
    *max = is_next(r, '?') ? 1 : FXI_GRAM_NO_MAX;
    return fxi_regex_take(&r->text, "*") || fxi_regex_take(&r->text, "+") ||
           fxi_regex_take(&r->text, "?") || take_braces(r, min, max);
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
    if (!st && !fxi_gram_chars(r->g, set, r->spelling, node)) st = fxi_regex_no_memory(&r->text);
    fxi_char_set_free(set);
    return st;
}

static fx_status class_atom(regex_reader *r, uint32_t *node)
{
    fxi_char_set set = {0};
    const fx_status st = fxi_regex_class(&r->text, &set);
    return make_chars(r, &set, st, node);
}

static fx_status read_escape(regex_reader *r, uint32_t *node)
{
    fxi_char_set set = {0};
    bool is_one;
    const fx_status st = fxi_regex_escape(&r->text, false, &set, &is_one);
    return make_chars(r, &set, st, node);
}

static fx_status make_any(regex_reader *r, bool with_lines, uint32_t *node)
{
    fxi_char_set set = {0};
    bool ok =
        with_lines || (fxi_char_set_add(&set, '\n', '\n') && fxi_char_set_add(&set, '\r', '\r') &&
                       fxi_char_set_add(&set, 0x2028, 0x2029));
    ok = ok && fxi_char_set_invert(&set);
    return make_chars(r, &set, ok ? FX_OK : fxi_regex_no_memory(&r->text), node);
}

static fx_status read_literal(regex_reader *r, uint32_t *node)
{
    size_t n;
    const char *p = r->text.s.p + r->text.at;
    fxi_utf8_at(p, r->text.s.n - r->text.at, &n);
    r->text.at += n;
    return fxi_gram_spell(r->g, (fxi_str){p, n}, r->spelling, node) ? FX_OK
                                                                    : fxi_regex_no_memory(&r->text);
}

// What begins with "(?" or "(*" and is not supported.
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
        if (fxi_regex_take(&r->text, known[i].mark))
            return fxi_regex_refuse(&r->text, at, known[i].name);
    return FX_OK;
}

static fx_status take_group_name(regex_reader *r, size_t at)
{
    const size_t from = r->text.at;
    while (r->text.at < r->text.s.n && !is_next(r, '>') && !is_next(r, ')')) r->text.at++;
    if (r->text.at == from || !fxi_regex_take(&r->text, ">"))
        return fxi_regex_refuse(&r->text, at, "a group without a complete name");
    return FX_OK;
}

static bool is_named_group(regex_reader *r)
{
    const fxi_regex_text before = r->text;
    if (fxi_regex_take(&r->text, "?P<")) return true;
    if (fxi_regex_take(&r->text, "?<") && !is_next(r, '=') && !is_next(r, '!')) return true;
    r->text = before;
    return false;
}

// Behind "(".
static fx_status read_group(regex_reader *r, uint32_t *node)
{
    const size_t at = r->text.at - 1;
    if (++r->depth > MAX_GROUPS)
        return fxi_regex_refuse(&r->text, at, "a group inside more than 100 others");
    if (is_named_group(r))
        FX_TRY(take_group_name(r, at));
    else if (!fxi_regex_take(&r->text, "?:"))
        FX_TRY(refuse_group(r, at));
    FX_TRY(read_ways(r, node));
    if (!fxi_regex_take(&r->text, ")"))
        return fxi_regex_refuse(&r->text, at, "a group without \")\"");
    r->depth--;
    return FX_OK;
}

static fx_status read_atom(regex_reader *r, uint32_t *node)
{
    const size_t at = r->text.at;
    if (is_repeat_next(r)) return fxi_regex_refuse(&r->text, at, "a repeat of nothing");
    if (is_next(r, '^') || is_next(r, '$'))
        return fxi_regex_refuse(&r->text, at,
                                "an anchor inside a group or an alternative (^ or $)");
    if (fxi_regex_take(&r->text, "(")) return read_group(r, node);
    if (fxi_regex_take(&r->text, "[")) return class_atom(r, node);
    if (fxi_regex_take(&r->text, "\\")) return read_escape(r, node);
    if (fxi_regex_take(&r->text, ".")) return make_any(r, false, node);
    return read_literal(r, node);
}

// An atom, and how often.
static fx_status read_repeated(regex_reader *r, uint32_t *node)
{
    uint32_t min, max;
    FX_TRY(read_atom(r, node));
    const size_t at = r->text.at;
    if (!take_repeat(r, &min, &max)) return FX_OK;
    if (min > MAX_COUNT || (max > MAX_COUNT && max != FXI_GRAM_NO_MAX))
        return fxi_regex_refuse(&r->text, at, "a repeat of more than 1000000 times");
    if (min > max)
        return fxi_regex_refuse(&r->text, at, "a repeat whose minimum is above its maximum");
    fxi_regex_take(&r->text, "?"); // lazy
    if (is_repeat_next(r)) return fxi_regex_refuse(&r->text, at, "a possessive or double repeat");
    *node = fxi_gram_repeat(r->g, *node, min, max);
    return FX_OK;
}

// ---- alternatives -------------------------------------------------------------------------------

static fx_status add_any_text(regex_reader *r, node_list *l)
{
    uint32_t any;
    if (!(r->flags & FXI_GRAM_SEARCH) || r->depth) return FX_OK;
    FX_TRY(make_any(r, true, &any));
    return list_node(r, l, fxi_gram_repeat(r->g, any, 0, FXI_GRAM_NO_MAX));
}

static bool takes_end_anchor(regex_reader *r)
{
    const fxi_regex_text before = r->text;
    if (!r->depth && fxi_regex_take(&r->text, "$") && is_way_end(r)) return true;
    r->text = before;
    return false;
}

static fx_status read_pieces(regex_reader *r, node_list *l)
{
    const bool from_start = !r->depth && fxi_regex_take(&r->text, "^");
    bool to_end = false;
    uint32_t node = 0;
    if (!from_start) FX_TRY(add_any_text(r, l));
    while (!to_end && !is_way_end(r)) {
        if ((to_end = takes_end_anchor(r))) break;
        FX_TRY(read_repeated(r, &node));
        FX_TRY(list_node(r, l, node));
    }
    return to_end ? FX_OK : add_any_text(r, l);
}

static fx_status read_way(regex_reader *r, uint32_t *node)
{
    node_list l = {0};
    const fx_status st = read_pieces(r, &l);
    if (!st) *node = fxi_gram_seq(r->g, l.node, l.n);
    free(l.node);
    return st;
}

static fx_status read_ways(regex_reader *r, uint32_t *node)
{
    node_list l = {0};
    fx_status st;
    uint32_t way = 0;
    do {
        st = read_way(r, &way);
        if (!st) st = list_node(r, &l, way);
    } while (!st && fxi_regex_take(&r->text, "|"));
    if (!st) *node = fxi_gram_alt(r->g, l.node, l.n);
    free(l.node);
    return st;
}

fx_status fxi_gram_regex(fxi_gram *g, fxi_str pattern, unsigned flags, fxi_gram_spelling spelling,
                         uint32_t *node, fx_error *err)
{
    regex_reader r = {
        .g = g, .text = {.s = pattern, .err = err}, .flags = flags, .spelling = spelling};
    const size_t bad = fxi_utf8_check(pattern.p, pattern.n);
    if (bad < pattern.n) return fxi_regex_refuse(&r.text, bad, "bad UTF-8");
    FX_TRY(read_ways(&r, node));
    if (r.text.at < pattern.n) return fxi_regex_refuse(&r.text, r.text.at, "\")\" without \"(\"");
    return FX_OK;
}
