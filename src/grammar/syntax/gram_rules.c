// gram_rules.c - reads a grammar's text, bottom up: blanks and names; atoms; repeats and groups;
// alternatives; statements.
//
// An alternative that begins with its own rule is kept apart: a: a x | b is b x*.
#include "grammar/syntax/gram_rules.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/system/grow.h"
#include "base/text/utf8.h"
#include "grammar/syntax/gram.h"
#include "grammar/syntax/gram_regex.h"

enum { MAX_NAMES = 5000, MAX_OPEN = 100, LAST_CHAR = 0x10FFFF };

#define HEAD_OF(s, max) ((s).n > (max) ? (max) : (int)(s).n), (s).p // two arguments of a printf

typedef struct named_rule {
    fxi_str name;
    uint32_t rule;
} named_rule;

typedef struct rule_reader {
    fxi_gram *g;
    fxi_str s;
    size_t at;
    fx_error *err;
    bool is_lark;
    int depth;        // open groups
    named_rule *name; // [n_name]
    size_t n_name, cap_name;
    uint32_t current;     // the rule that is being read
    bool in_terminal;     // it is a NAME of Lark: nothing is ignored in it
    uint32_t ignored;     // rule: texts that are ignored
    fxi_node_list ignore; // their nodes
} rule_reader;

__attribute__((format(printf, 2, 3))) static fx_status refuse_rules(const rule_reader *r,
                                                                    const char *fmt, ...)
{
    char what[300];
    size_t line = 1;
    va_list ap;
    va_start(ap, fmt);
    fxi_utf8_vprint(what, sizeof what, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < r->at && i < r->s.n; i++) line += r->s.p[i] == '\n';
    return fxi_fail(r->err, FX_EINVAL, "grammar: %s in line %zu", what, line);
}

// The next character for a message; '?': none, or not ASCII.
static char show_next(const rule_reader *r)
{
    const char c = r->at < r->s.n ? r->s.p[r->at] : 0;
    return c > ' ' && c < 0x7F ? c : '?';
}

static bool is_next(const rule_reader *r, const char *text)
{
    const size_t n = strlen(text);
    return r->s.n - r->at >= n && !memcmp(r->s.p + r->at, text, n);
}

// Takes `text` if it comes next.
static bool take_mark(rule_reader *r, const char *text)
{
    if (!is_next(r, text)) return false;
    r->at += strlen(text);
    return true;
}

// Skips blanks and comments, with lines also line breaks.
static void pass_blanks(rule_reader *r, bool lines)
{
    for (; r->at < r->s.n; r->at++) {
        if (is_next(r, r->is_lark ? "//" : "#"))
            while (r->at < r->s.n && r->s.p[r->at] != '\n') r->at++;
        if (r->at == r->s.n) return;
        const char c = r->s.p[r->at];
        if (c != ' ' && c != '\t' && c != '\r' && !(lines && c == '\n')) return;
    }
}

// The name that comes next; n 0: there is none.
static fxi_str take_name(rule_reader *r)
{
    const size_t from = r->at;
    for (; r->at < r->s.n; r->at++) {
        const char c = r->s.p[r->at], low = (char)(c | 0x20);
        const bool is_letter = low >= 'a' && low <= 'z', is_digit = c >= '0' && c <= '9';
        if (!is_letter && !is_digit && c != '_' && (c != '-' || r->is_lark)) break;
    }
    return (fxi_str){r->s.p + from, r->at - from};
}

// NAME or _NAME.
static bool is_terminal_name(fxi_str name)
{
    size_t i = 0;
    while (i < name.n && name.p[i] == '_') i++;
    return i < name.n && name.p[i] >= 'A' && name.p[i] <= 'Z';
}

static fx_status list_node(const rule_reader *r, fxi_node_list *l, uint32_t node)
{
    return fxi_node_list_add(l, node) ? FX_OK : fxi_fail_memory(r->err);
}

// The rule of this name, added where the name is first used.
static fx_status find_rule(rule_reader *r, fxi_str name, uint32_t *rule)
{
    for (size_t i = 0; i < r->n_name; i++)
        if (!fxi_str_compare(r->name[i].name, name)) {
            *rule = r->name[i].rule;
            return FX_OK;
        }
    if (r->n_name == MAX_NAMES) return refuse_rules(r, "more than %d rules", MAX_NAMES);
    if (!fxi_grow(&r->name, sizeof *r->name, r->n_name, &r->cap_name))
        return fxi_fail_memory(r->err);
    *rule = fxi_gram_rule_add(r->g, name);
    r->name[r->n_name++] = (named_rule){name, *rule};
    return FX_OK;
}

// ---- texts --------------------------------------------------------------------------------------

// \xHH, \uHHHH and \UHHHHHHHH, after the letter.
static fx_status read_code(rule_reader *r, char letter, fxi_buf *out)
{
    const int n = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
    uint32_t c = 0;
    for (int i = 0; i < n; i++, r->at++) {
        const int v = r->at < r->s.n ? fxi_hex_digit(r->s.p[r->at]) : -1;
        if (v < 0 || c > 0x10FFFF) return refuse_rules(r, "a broken escape \\%c", letter);
        c = c << 4 | (uint32_t)v;
    }
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        return refuse_rules(r, "an escape \\%c that is not a character", letter);
    char utf8[4];
    return fxi_buf_add(out, utf8, fxi_utf8_put(utf8, c)) ? FX_OK : fxi_fail_memory(r->err);
}

static fx_status read_text_escape(rule_reader *r, fxi_buf *out)
{
    static const char letters[] = "nrtfvb", values[] = "\n\r\t\f\v\b";
    if (r->at >= r->s.n) return refuse_rules(r, "a backslash without a character");
    const char c = r->s.p[r->at++];
    const char *p = c ? strchr(letters, c) : NULL;
    if (c == 'x' || c == 'u' || c == 'U') return read_code(r, c, out);
    if (!p && strchr("\\\"'[]/-", c) == NULL)
        return refuse_rules(r, "an unknown escape (\\%c)", c > ' ' && c < 0x7F ? c : '?');
    return fxi_buf_add(out, p ? &values[p - letters] : &c, 1) ? FX_OK : fxi_fail_memory(r->err);
}

// After the quote.
static fx_status take_quoted_text(rule_reader *r, fxi_buf *out)
{
    for (;;) {
        if (r->at >= r->s.n || r->s.p[r->at] == '\n')
            return refuse_rules(r, "a text without its closing quote");
        const char c = r->s.p[r->at++];
        if (c == '"') return FX_OK;
        if (c == '\\')
            FX_TRY(read_text_escape(r, out));
        else if (!fxi_buf_add(out, &c, 1))
            return fxi_fail_memory(r->err);
    }
}

static fx_status make_text(rule_reader *r, const fxi_buf *text, uint32_t *node)
{
    const bool is_caseless = r->is_lark && take_mark(r, "i");
    fxi_node_list l = {0};
    bool ok = true;
    if (!is_caseless) *node = fxi_gram_text(r->g, text->n ? text->p : "", text->n);
    for (size_t i = 0; is_caseless && ok && i < text->n; i++) {
        const uint8_t c = (uint8_t)text->p[i], low = c | 0x20;
        fxi_byte_set s = {0};
        fxi_byte_put(&s, c);
        if (low >= 'a' && low <= 'z') fxi_byte_put(&s, c ^ 0x20);
        ok = fxi_node_list_add(&l, fxi_gram_set(r->g, &s));
    }
    if (is_caseless) *node = fxi_gram_seq(r->g, l.node, l.n);
    free(l.node);
    return ok ? FX_OK : fxi_fail_memory(r->err);
}

// The only character of a text; -1: it has none or several.
static int64_t only_char(const fxi_buf *text)
{
    size_t n = 0;
    const int32_t c = text->n ? fxi_utf8_at(text->p, text->n, &n) : -1;
    return n == text->n ? c : -1;
}

static fx_status make_range(rule_reader *r, const fxi_buf *from, uint32_t *node)
{
    fxi_buf to = {0};
    if (!take_mark(r, "\"")) return refuse_rules(r, "a range without its end");
    fx_status st = take_quoted_text(r, &to);
    const int64_t lo = only_char(from), hi = st ? -1 : only_char(&to);
    if (!st && (lo < 0 || hi < lo)) st = refuse_rules(r, "a range that is not of characters");
    if (!st && !fxi_gram_char_range(r->g, (uint32_t)lo, (uint32_t)hi, FXI_SPELL_UTF8, node))
        st = fxi_fail_memory(r->err);
    fxi_buf_free(&to);
    return st;
}

static fx_status read_text_atom(rule_reader *r, uint32_t *node)
{
    fxi_buf text = {0};
    fx_status st = take_quoted_text(r, &text);
    if (!st && r->is_lark && take_mark(r, ".."))
        st = make_range(r, &text, node);
    else if (!st)
        st = make_text(r, &text, node);
    fxi_buf_free(&text);
    return st;
}

// ---- classes and regular expressions ------------------------------------------------------------

static fx_status read_class_atom(rule_reader *r, uint32_t *node)
{
    fxi_char_set set = {0};
    fx_status st = fxi_regex_class(r->s, &r->at, &set, r->err);
    if (!st && !fxi_gram_chars(r->g, &set, FXI_SPELL_UTF8, node)) st = fxi_fail_memory(r->err);
    fxi_char_set_free(&set);
    return st;
}

// After the slash.
static fx_status read_regex_atom(rule_reader *r, uint32_t *node)
{
    const size_t from = r->at;
    while (r->at < r->s.n && r->s.p[r->at] != '/' && r->s.p[r->at] != '\n')
        r->at += r->s.p[r->at] == '\\' && r->at + 1 < r->s.n ? 2 : 1;
    const fxi_str pattern = {r->s.p + from, r->at - from};
    if (!take_mark(r, "/"))
        return refuse_rules(r, "a regular expression without its closing \"/\"");
    const fxi_str flags = take_name(r);
    if (flags.n)
        return refuse_rules(r, "the flags \"%.*s\" of a regular expression are not supported",
                            HEAD_OF(flags, 20));
    fx_error e;
    const fx_status st = fxi_gram_regex(r->g, pattern, 0, FXI_SPELL_UTF8, node, &e);
    if (st == FX_EINVAL) return refuse_rules(r, "%.*s", FXI_UTF8_HEAD(e.text, 250));
    return st ? fxi_fail_memory(r->err) : FX_OK;
}

// ---- atoms --------------------------------------------------------------------------------------

static fx_status read_name_atom(rule_reader *r, uint32_t *node, bool *is_self, bool *is_terminal)
{
    uint32_t rule = 0;
    const fxi_str name = take_name(r);
    if (!name.n) return refuse_rules(r, "\"%c\" where a text or a name should be", show_next(r));
    if (r->is_lark && is_next(r, "{"))
        return refuse_rules(r, "a template (%.*s{..}) is not supported", HEAD_OF(name, 60));
    FX_TRY(find_rule(r, name, &rule));
    *is_self = rule == r->current;
    *is_terminal = is_terminal_name(name);
    *node = fxi_gram_ref(r->g, rule);
    return FX_OK;
}

// *is_self: it is the name of the current rule.
static fx_status read_atom(rule_reader *r, uint32_t *node, bool *is_self)
{
    bool is_terminal = true;
    *is_self = false;
    if (take_mark(r, "\""))
        FX_TRY(read_text_atom(r, node));
    else if (!r->is_lark && take_mark(r, "["))
        FX_TRY(read_class_atom(r, node));
    else if (r->is_lark && take_mark(r, "/"))
        FX_TRY(read_regex_atom(r, node));
    else if (r->is_lark || !take_mark(r, "."))
        FX_TRY(read_name_atom(r, node, is_self, &is_terminal));
    else if (!fxi_gram_char_range(r->g, 0, LAST_CHAR, FXI_SPELL_UTF8, node))
        return fxi_fail_memory(r->err);
    if (is_terminal && r->is_lark && !r->in_terminal)
        *node = FXI_SEQ_OF(r->g, *node, fxi_gram_ref(r->g, r->ignored));
    return FX_OK;
}

// ---- repeats ------------------------------------------------------------------------------------

// {m}, {m,}, {m,n} and {,n}, after the brace.
static fx_status read_brace_times(rule_reader *r, uint32_t *min, uint32_t *max)
{
    const bool has_min = fxi_regex_count(r->s, &r->at, min);
    pass_blanks(r, false);
    *max = *min;
    if (take_mark(r, ",")) {
        pass_blanks(r, false);
        if (!fxi_regex_count(r->s, &r->at, max)) *max = FXI_GRAM_NO_MAX;
        pass_blanks(r, false);
    } else if (!has_min) {
        return refuse_rules(r, "a repeat without a number");
    }
    return take_mark(r, "}") ? FX_OK : refuse_rules(r, "a repeat without \"}\"");
}

// ~m and ~m..n, after the tilde.
static fx_status read_tilde_times(rule_reader *r, uint32_t *min, uint32_t *max)
{
    pass_blanks(r, false);
    if (!fxi_regex_count(r->s, &r->at, min))
        return refuse_rules(r, "a repeat (~) without a number");
    *max = *min;
    pass_blanks(r, false);
    if (take_mark(r, "..")) {
        pass_blanks(r, false);
        if (!fxi_regex_count(r->s, &r->at, max))
            return refuse_rules(r, "a repeat (~) without its maximum");
    }
    return FX_OK;
}

static fx_status read_times(rule_reader *r, uint32_t *min, uint32_t *max, bool *found)
{
    *min = is_next(r, "+");
    *max = is_next(r, "?") ? 1 : FXI_GRAM_NO_MAX;
    *found = true;
    if (take_mark(r, "*") || take_mark(r, "+") || take_mark(r, "?")) return FX_OK;
    if (!r->is_lark && take_mark(r, "{")) return read_brace_times(r, min, max);
    if (r->is_lark && take_mark(r, "~")) return read_tilde_times(r, min, max);
    *found = false;
    return FX_OK;
}

// ---- elements -----------------------------------------------------------------------------------

static fx_status read_alts(rule_reader *r, uint32_t *node); // groups are read recursively

// After "(" or "[".
static fx_status read_rule_group(rule_reader *r, const char *close, uint32_t *node)
{
    if (++r->depth > MAX_OPEN) return refuse_rules(r, "groups nested deeper than %d", MAX_OPEN);
    FX_TRY(read_alts(r, node));
    if (!take_mark(r, close)) return refuse_rules(r, "a group without \"%s\"", close);
    r->depth--;
    if (*close == ']') *node = fxi_gram_repeat(r->g, *node, 0, 1);
    return FX_OK;
}

static fx_status read_element(rule_reader *r, uint32_t *node, bool *is_self)
{
    uint32_t min, max;
    bool found = true;
    *is_self = false;
    if (take_mark(r, "("))
        FX_TRY(read_rule_group(r, ")", node));
    else if (r->is_lark && take_mark(r, "["))
        FX_TRY(read_rule_group(r, "]", node));
    else
        FX_TRY(read_atom(r, node, is_self));
    while (found) {
        pass_blanks(r, false);
        FX_TRY(read_times(r, &min, &max, &found));
        if (!found) break;
        if (min > max || min > FXI_GRAM_MAX_COUNT ||
            (max > FXI_GRAM_MAX_COUNT && max != FXI_GRAM_NO_MAX))
            return refuse_rules(r, "a repeat of %u to %u times", min, max);
        *node = fxi_gram_repeat(r->g, *node, min, max);
        *is_self = false;
    }
    return FX_OK;
}

// ---- alternatives -------------------------------------------------------------------------------

// Whether the rule or the group ends here. Moves on to a next line that begins with "|".
static bool ends_alts(rule_reader *r)
{
    pass_blanks(r, r->depth > 0);
    if (r->at < r->s.n && r->s.p[r->at] == '\n') {
        const size_t at = r->at;
        pass_blanks(r, true);
        if (is_next(r, "|")) return false;
        r->at = at;
        return true;
    }
    return r->at >= r->s.n || is_next(r, ")") || (r->is_lark && is_next(r, "]"));
}

static bool ends_alt(rule_reader *r)
{
    return ends_alts(r) || is_next(r, "|") || (r->is_lark && is_next(r, "->"));
}

static fx_status read_elements(rule_reader *r, fxi_node_list *l, bool *is_left)
{
    *is_left = false;
    while (!ends_alt(r)) {
        uint32_t node = 0;
        bool is_self;
        FX_TRY(read_element(r, &node, &is_self));
        if (!l->n && is_self && !r->depth && !*is_left)
            *is_left = true; // drop the reference to itself
        else
            FX_TRY(list_node(r, l, node));
    }
    if (!r->is_lark || !take_mark(r, "->")) return FX_OK;
    pass_blanks(r, false);
    if (!take_name(r).n) return refuse_rules(r, "an alias (->) without a name");
    return FX_OK;
}

static fx_status read_alternative(rule_reader *r, fxi_node_list *alts, fxi_node_list *left)
{
    fxi_node_list l = {0};
    bool is_left;
    fx_status st = read_elements(r, &l, &is_left);
    if (!st && !(is_left && !l.n)) // a: a adds nothing
        st = list_node(r, is_left ? left : alts, fxi_gram_seq(r->g, l.node, l.n));
    free(l.node);
    return st;
}

// Whether a rule begins here.
static bool is_rule_next(const rule_reader *r)
{
    rule_reader ahead = *r;
    if (r->is_lark && !take_mark(&ahead, "?")) (void)take_mark(&ahead, "!");
    if (!take_name(&ahead).n) return is_next(r, "%") && r->is_lark;
    if (r->is_lark && take_mark(&ahead, ".")) (void)take_name(&ahead);
    pass_blanks(&ahead, false);
    return is_next(&ahead, r->is_lark ? ":" : "::=");
}

// Moves to an alternative, which may stand in a later line; an empty one ends before the next rule.
static void skip_to_alt(rule_reader *r)
{
    pass_blanks(r, false);
    const size_t at = r->at;
    pass_blanks(r, true);
    if (r->at > at && !r->depth && is_rule_next(r)) r->at = at;
}

static fx_status read_alts(rule_reader *r, uint32_t *node)
{
    fxi_node_list alts = {0}, left = {0};
    fx_status st = FX_OK;
    do {
        skip_to_alt(r);
        st = read_alternative(r, &alts, &left);
    } while (!st && !ends_alts(r) && take_mark(r, "|"));
    if (!st) *node = fxi_gram_alt(r->g, alts.node, alts.n);
    if (!st && left.n) {
        const uint32_t again = fxi_gram_alt(r->g, left.node, left.n);
        *node = FXI_SEQ_OF(r->g, *node, fxi_gram_repeat(r->g, again, 0, FXI_GRAM_NO_MAX));
    }
    free(alts.node);
    free(left.node);
    return st;
}

// ---- directives of Lark -------------------------------------------------------------------------

// Terminals of Lark's library `common`, as regular expressions.
#define INT     "[0-9]+"
#define DECIMAL "(?:[0-9]+\\.[0-9]*|\\.[0-9]+)"
#define EXP     "[eE][+-]?[0-9]+"
#define FLOAT   "(?:" INT EXP "|" DECIMAL "(?:" EXP ")?)"

static const struct common_row {
    const char *name, *pattern;
} common_rows[] = {
    {"DIGIT", "[0-9]"},
    {"HEXDIGIT", "[0-9A-Fa-f]"},
    {"INT", INT},
    {"SIGNED_INT", "[+-]?" INT},
    {"DECIMAL", DECIMAL},
    {"FLOAT", FLOAT},
    {"SIGNED_FLOAT", "[+-]?" FLOAT},
    {"NUMBER", "(?:" FLOAT "|" INT ")"},
    {"SIGNED_NUMBER", "[+-]?(?:" FLOAT "|" INT ")"},
    {"ESCAPED_STRING", "\"(?:[^\"\\\\\\n]|\\\\[^\\n])*\""},
    {"LCASE_LETTER", "[a-z]"},
    {"UCASE_LETTER", "[A-Z]"},
    {"LETTER", "[A-Za-z]"},
    {"WORD", "[A-Za-z]+"},
    {"CNAME", "[_A-Za-z][_A-Za-z0-9]*"},
    {"WS_INLINE", "[ \\t]+"},
    {"WS", "[ \\t\\f\\r\\n]+"},
    {"CR", "\\r"},
    {"LF", "\\n"},
    {"NEWLINE", "(?:\\r?\\n)+"},
    {"SH_COMMENT", "#[^\\n]*"},
    {"CPP_COMMENT", "//[^\\n]*"},
    {"SQL_COMMENT", "--[^\\n]*"},
};

static const char *find_common(fxi_str name)
{
    for (size_t i = 0; i < sizeof common_rows / sizeof *common_rows; i++)
        if (fxi_str_is(name, common_rows[i].name)) return common_rows[i].pattern;
    return NULL;
}

// NAME, and with may_alias perhaps -> NAME.
static fx_status import_name(rule_reader *r, bool may_alias)
{
    uint32_t rule = 0, node = 0;
    const fxi_str name = take_name(r);
    const char *pattern = find_common(name);
    fxi_str own = name;
    if (!pattern)
        return refuse_rules(r, "\"%.*s\" is not among the terminals that can be imported",
                            HEAD_OF(name, 80));
    pass_blanks(r, false);
    if (may_alias && take_mark(r, "->")) {
        pass_blanks(r, false);
        own = take_name(r);
    }
    FX_TRY(find_rule(r, own, &rule));
    FX_TRY(fxi_gram_regex(r->g, fxi_str_of(pattern), 0, FXI_SPELL_UTF8, &node, r->err));
    fxi_gram_rule_define(r->g, rule, node);
    return FX_OK;
}

// common.NAME, or common (NAME, NAME).
static fx_status read_import(rule_reader *r)
{
    const fxi_str library = take_name(r);
    if (!fxi_str_is(library, "common"))
        return refuse_rules(r, "%%import of \"%.*s\": only `common` can be imported",
                            HEAD_OF(library, 80));
    if (take_mark(r, ".")) return import_name(r, true);
    pass_blanks(r, false);
    if (!take_mark(r, "(")) return refuse_rules(r, "%%import without a name");
    do {
        pass_blanks(r, true);
        FX_TRY(import_name(r, false));
        pass_blanks(r, true);
    } while (take_mark(r, ","));
    return take_mark(r, ")") ? FX_OK : refuse_rules(r, "%%import without \")\"");
}

static fx_status read_ignore(rule_reader *r)
{
    uint32_t node = 0;
    r->in_terminal = true;
    FX_TRY(read_alts(r, &node));
    return list_node(r, &r->ignore, node);
}

static fx_status read_directive(rule_reader *r)
{
    const fxi_str name = take_name(r);
    pass_blanks(r, false);
    r->current = UINT32_MAX;
    if (fxi_str_is(name, "import")) return read_import(r);
    if (fxi_str_is(name, "ignore")) return read_ignore(r);
    return refuse_rules(r, "%%%.*s is not supported", HEAD_OF(name, 80));
}

// ---- rules --------------------------------------------------------------------------------------

// Takes the mark between a rule's name and its right side, in Lark perhaps after a priority.
static fx_status read_mark(rule_reader *r, fxi_str name)
{
    if (r->is_lark && take_mark(r, ".")) (void)take_name(r);
    pass_blanks(r, false);
    if (r->is_lark && is_next(r, "{"))
        return refuse_rules(r, "a template (%.*s{..}) is not supported", HEAD_OF(name, 80));
    if (take_mark(r, r->is_lark ? ":" : "::=")) return FX_OK;
    return refuse_rules(r, "\"%s\" is missing after \"%.*s\"",
                        r->is_lark ? ":" : "::=", HEAD_OF(name, 80));
}

static fx_status read_rule(rule_reader *r)
{
    uint32_t rule = 0, node = 0;
    if (r->is_lark && !take_mark(r, "?")) (void)take_mark(r, "!");
    const fxi_str name = take_name(r);
    if (!name.n) return refuse_rules(r, "\"%c\" where a rule should begin", show_next(r));
    FX_TRY(read_mark(r, name));
    FX_TRY(find_rule(r, name, &rule));
    if (r->g->broken == FX_ENOMEM) return fxi_fail_memory(r->err);
    if (r->g->broken) return refuse_rules(r, "more than %d parts", FXI_GRAM_MAX_SIZE);
    if (r->g->rule[rule].defined)
        return refuse_rules(r, "\"%.*s\" is defined twice", HEAD_OF(name, 80));
    r->in_terminal = is_terminal_name(name);
    r->current = rule;
    FX_TRY(read_alts(r, &node));
    fxi_gram_rule_define(r->g, rule, node);
    return FX_OK;
}

static fx_status read_statements(rule_reader *r)
{
    for (pass_blanks(r, true); r->at < r->s.n; pass_blanks(r, true)) {
        if (r->is_lark && take_mark(r, "%"))
            FX_TRY(read_directive(r));
        else
            FX_TRY(read_rule(r));
        pass_blanks(r, false);
        if (r->at < r->s.n && !take_mark(r, "\n"))
            return refuse_rules(r, "\"%c\" where a line should end", show_next(r));
    }
    return FX_OK;
}

static fx_status find_start(rule_reader *r, uint32_t *node)
{
    const char *start = r->is_lark ? "start" : "root";
    for (size_t i = 0; i < r->n_name; i++)
        if (fxi_str_is(r->name[i].name, start)) {
            *node = fxi_gram_ref(r->g, r->name[i].rule);
            return FX_OK;
        }
    return fxi_fail(r->err, FX_EINVAL, "grammar: it has no rule \"%s\"", start);
}

static fx_status read_lark(rule_reader *r, uint32_t *node)
{
    r->ignored = fxi_gram_rule_add(r->g, fxi_str_of("%ignore"));
    FX_TRY(read_statements(r));
    const uint32_t all = fxi_gram_alt(r->g, r->ignore.node, r->ignore.n);
    fxi_gram_rule_define(r->g, r->ignored, fxi_gram_repeat(r->g, all, 0, FXI_GRAM_NO_MAX));
    FX_TRY(find_start(r, node));
    *node = FXI_SEQ_OF(r->g, fxi_gram_ref(r->g, r->ignored), *node);
    return FX_OK;
}

fx_status fxi_rules_add(fxi_gram *g, fxi_str text, uint32_t *node, fx_error *err)
{
    const bool is_lark = !text.n || !memmem(text.p, text.n, "::=", 3);
    rule_reader r = {.g = g, .s = text, .err = err, .is_lark = is_lark};
    const size_t bad = fxi_utf8_check(text.p, text.n);
    if (bad < text.n) return fxi_fail(err, FX_EINVAL, "grammar: bad UTF-8 at byte %zu", bad);
    fx_status st = is_lark ? read_lark(&r, node) : read_statements(&r);
    if (!st && !is_lark) st = find_start(&r, node);
    free(r.name);
    free(r.ignore.node);
    return st;
}
