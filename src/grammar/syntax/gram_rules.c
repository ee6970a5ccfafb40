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
    bool refused; // *err says why; nothing is left to read
    bool is_lark;
    int depth;        // open groups
    named_rule *name; // [n_name]
    size_t n_name, cap_name;
    uint32_t current;     // the rule that is being read
    bool in_terminal;     // it is a NAME of Lark: nothing is ignored in it
    uint32_t ignored;     // rule: texts that are ignored
    fxi_node_list ignore; // their nodes
} rule_reader;

// The first refusal counts. Returns 0.
__attribute__((format(printf, 2, 3))) static uint32_t refuse_rules(rule_reader *r, const char *fmt,
                                                                   ...)
{
    char what[300];
    size_t line = 1;
    va_list ap;
    if (r->refused) return 0;
    va_start(ap, fmt);
    fxi_utf8_vprint(what, sizeof what, fmt, ap);
    va_end(ap);
    for (size_t i = 0; i < r->at && i < r->s.n; i++) line += r->s.p[i] == '\n';
    fxi_error_set(r->err, FX_EINVAL, "grammar: %s in line %zu", what, line);
    r->refused = true;
    r->at = r->s.n;
    return 0;
}

static void need_memory(rule_reader *r, bool got)
{
    if (!got && !r->g->broken) r->g->broken = FX_ENOMEM;
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

// The rule of this name, added where the name is first used.
static uint32_t find_rule(rule_reader *r, fxi_str name)
{
    for (size_t i = 0; i < r->n_name; i++)
        if (!fxi_str_compare(r->name[i].name, name)) return r->name[i].rule;
    if (r->n_name == MAX_NAMES) return refuse_rules(r, "more than %d rules", MAX_NAMES);
    need_memory(r, fxi_grow(&r->name, sizeof *r->name, r->n_name, &r->cap_name));
    const uint32_t rule = fxi_gram_rule_add(r->g, name);
    if (!r->g->broken) r->name[r->n_name++] = (named_rule){name, rule};
    return rule;
}

// ---- texts --------------------------------------------------------------------------------------

// \xHH, \uHHHH and \UHHHHHHHH, after the letter.
static void read_code(rule_reader *r, char letter, fxi_buf *out)
{
    const int n = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
    uint32_t c = 0;
    for (int i = 0; i < n; i++) {
        const int v = r->at < r->s.n ? fxi_hex_digit(r->s.p[r->at]) : -1;
        if (v < 0 || c > 0x10FFFF) {
            refuse_rules(r, "a broken escape \\%c", letter);
            return;
        }
        c = c << 4 | (uint32_t)v;
        r->at++;
    }
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        refuse_rules(r, "an escape \\%c that is not a character", letter);
    char utf8[4];
    need_memory(r, r->refused || fxi_buf_add(out, utf8, fxi_utf8_put(utf8, c)));
}

static void read_text_escape(rule_reader *r, fxi_buf *out)
{
    static const char letters[] = "nrtfvb", values[] = "\n\r\t\f\v\b";
    if (r->at >= r->s.n) {
        refuse_rules(r, "a backslash without a character");
        return;
    }
    const char c = r->s.p[r->at++], *p = c ? strchr(letters, c) : NULL;
    if (c == 'x' || c == 'u' || c == 'U')
        read_code(r, c, out);
    else if (!p && !strchr("\\\"'[]/-", c))
        refuse_rules(r, "an unknown escape (\\%c)", c > ' ' && c < 0x7F ? c : '?');
    else
        need_memory(r, fxi_buf_add(out, p ? &values[p - letters] : &c, 1));
}

// After the quote.
static void take_quoted_text(rule_reader *r, fxi_buf *out)
{
    while (r->at < r->s.n && r->s.p[r->at] != '\n') {
        const char c = r->s.p[r->at++];
        if (c == '"') return;
        if (c == '\\')
            read_text_escape(r, out);
        else
            need_memory(r, fxi_buf_add(out, &c, 1));
    }
    refuse_rules(r, "a text without its closing quote");
}

// A text whose letters of ASCII match in both cases.
static uint32_t make_caseless(rule_reader *r, const fxi_buf *text)
{
    fxi_node_list l = {0};
    for (size_t i = 0; i < text->n; i++) {
        const uint8_t c = (uint8_t)text->p[i], low = c | 0x20;
        fxi_byte_set s = {0};
        fxi_byte_put(&s, c);
        if (low >= 'a' && low <= 'z') fxi_byte_put(&s, c ^ 0x20);
        fxi_node_list_add(&l, fxi_gram_set(r->g, &s));
    }
    return fxi_gram_list(r->g, FXI_GRAM_SEQ, &l);
}

// The only character of a text; -1: it has none or several.
static int64_t only_char(const fxi_buf *text)
{
    size_t n = 0;
    const int32_t c = text->n ? fxi_utf8_at(text->p, text->n, &n) : -1;
    return n == text->n ? c : -1;
}

static uint32_t make_range(rule_reader *r, const fxi_buf *from)
{
    fxi_buf to = {0};
    if (take_mark(r, "\""))
        take_quoted_text(r, &to);
    else
        refuse_rules(r, "a range without its end");
    const int64_t lo = only_char(from), hi = only_char(&to);
    fxi_buf_free(&to);
    if (lo < 0 || hi < lo) return refuse_rules(r, "a range that is not of characters");
    return fxi_gram_char_range(r->g, (uint32_t)lo, (uint32_t)hi, FXI_SPELL_UTF8);
}

// After the quote.
static uint32_t read_text_atom(rule_reader *r)
{
    fxi_buf text = {0};
    take_quoted_text(r, &text);
    const uint32_t node = r->is_lark && take_mark(r, "..")  ? make_range(r, &text)
                          : r->is_lark && take_mark(r, "i") ? make_caseless(r, &text)
                                                            : fxi_gram_text(r->g, text.p, text.n);
    fxi_buf_free(&text);
    return node;
}

// ---- atoms --------------------------------------------------------------------------------------

// After the slash.
static uint32_t read_regex_atom(rule_reader *r)
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
    uint32_t node;
    if (fxi_gram_regex(r->g, pattern, 0, FXI_SPELL_UTF8, &node, &e))
        return refuse_rules(r, "%.*s", FXI_UTF8_HEAD(e.text, 250));
    return node;
}

static uint32_t read_class_atom(rule_reader *r)
{
    fxi_char_set set = {0};
    if (fxi_regex_class(r->s, &r->at, &set, r->err)) {
        r->refused = true; // in the words of regular expressions
        r->at = r->s.n;
    }
    return fxi_gram_chars(r->g, &set, FXI_SPELL_UTF8);
}

static uint32_t read_name_atom(rule_reader *r, bool *is_self, bool *is_terminal)
{
    const fxi_str name = take_name(r);
    if (!name.n) return refuse_rules(r, "\"%c\" where a text or a name should be", show_next(r));
    if (r->is_lark && is_next(r, "{"))
        return refuse_rules(r, "a template (%.*s{..}) is not supported", HEAD_OF(name, 60));
    const uint32_t rule = find_rule(r, name);
    *is_self = rule == r->current;
    *is_terminal = is_terminal_name(name);
    return fxi_gram_ref(r->g, rule);
}

// *is_self: it is the name of the current rule.
static uint32_t read_atom(rule_reader *r, bool *is_self)
{
    bool is_terminal = true;
    uint32_t node;
    if (take_mark(r, "\""))
        node = read_text_atom(r);
    else if (!r->is_lark && take_mark(r, "["))
        node = read_class_atom(r);
    else if (r->is_lark && take_mark(r, "/"))
        node = read_regex_atom(r);
    else if (!r->is_lark && take_mark(r, "."))
        node = fxi_gram_char_range(r->g, 0, LAST_CHAR, FXI_SPELL_UTF8);
    else
        node = read_name_atom(r, is_self, &is_terminal);
    if (!is_terminal || !r->is_lark || r->in_terminal) return node;
    return FXI_SEQ_OF(r->g, node, fxi_gram_ref(r->g, r->ignored));
}

// ---- repeats ------------------------------------------------------------------------------------

// A number between blanks.
static bool take_times(rule_reader *r, uint32_t *out)
{
    pass_blanks(r, false);
    const bool found = fxi_regex_count(r->s, &r->at, out);
    pass_blanks(r, false);
    return found;
}

// Takes * + ?, in GBNF {m}, {m,}, {m,n} and {,n}, in Lark ~m and ~m..n.
static bool take_repeat(rule_reader *r, uint32_t *min, uint32_t *max)
{
    *min = is_next(r, "+");
    *max = is_next(r, "?") ? 1 : FXI_GRAM_NO_MAX;
    if (take_mark(r, "*") || take_mark(r, "+") || take_mark(r, "?")) return true;
    if (!r->is_lark && take_mark(r, "{")) {
        const bool has_min = take_times(r, min);
        *max = *min;
        if (take_mark(r, ",")) {
            if (!take_times(r, max)) *max = FXI_GRAM_NO_MAX;
        } else if (!has_min) {
            refuse_rules(r, "a repeat without a number");
        }
        if (!take_mark(r, "}")) refuse_rules(r, "a repeat without \"}\"");
        return true;
    }
    if (!r->is_lark || !take_mark(r, "~")) return false;
    if (!take_times(r, min)) refuse_rules(r, "a repeat (~) without a number");
    *max = *min;
    if (take_mark(r, "..") && !take_times(r, max))
        refuse_rules(r, "a repeat (~) without its maximum");
    return true;
}

// ---- elements -----------------------------------------------------------------------------------

static uint32_t read_alts(rule_reader *r); // groups are read recursively

// After "(" or "[".
static uint32_t read_rule_group(rule_reader *r, const char *close)
{
    if (++r->depth > MAX_OPEN) return refuse_rules(r, "groups nested deeper than %d", MAX_OPEN);
    const uint32_t node = read_alts(r);
    if (!take_mark(r, close)) return refuse_rules(r, "a group without \"%s\"", close);
    r->depth--;
    return *close == ']' ? fxi_gram_repeat(r->g, node, 0, 1) : node;
}

// *is_self: it is the name of the current rule and nothing more.
static uint32_t read_element(rule_reader *r, bool *is_self)
{
    uint32_t min, max;
    *is_self = false;
    uint32_t node = take_mark(r, "(")                 ? read_rule_group(r, ")")
                    : r->is_lark && take_mark(r, "[") ? read_rule_group(r, "]")
                                                      : read_atom(r, is_self);
    for (;;) {
        pass_blanks(r, false);
        if (!take_repeat(r, &min, &max)) return node;
        if (min > max || min > FXI_GRAM_MAX_COUNT ||
            (max > FXI_GRAM_MAX_COUNT && max != FXI_GRAM_NO_MAX))
            return refuse_rules(r, "a repeat of %u to %u times", min, max);
        node = fxi_gram_repeat(r->g, node, min, max);
        *is_self = false;
    }
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

// To *left: what follows the rule's own name, if the alternative begins with it.
static void read_alternative(rule_reader *r, fxi_node_list *alts, fxi_node_list *left)
{
    fxi_node_list l = {0};
    bool is_left = false, is_self;
    while (!ends_alt(r)) {
        const uint32_t node = read_element(r, &is_self);
        if (!l.n && is_self && !r->depth && !is_left)
            is_left = true;
        else
            fxi_node_list_add(&l, node);
    }
    if (r->is_lark && take_mark(r, "->")) {
        pass_blanks(r, false);
        if (!take_name(r).n) refuse_rules(r, "an alias (->) without a name");
    }
    const bool adds = !is_left || l.n || l.failed; // a: a adds nothing
    const uint32_t node = fxi_gram_list(r->g, FXI_GRAM_SEQ, &l);
    if (adds) fxi_node_list_add(is_left ? left : alts, node);
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

static uint32_t read_alts(rule_reader *r)
{
    fxi_node_list alts = {0}, left = {0};
    do {
        skip_to_alt(r);
        read_alternative(r, &alts, &left);
    } while (!ends_alts(r) && take_mark(r, "|"));
    const uint32_t node = fxi_gram_list(r->g, FXI_GRAM_ALT, &alts);
    if (!left.n && !left.failed) return node;
    const uint32_t again = fxi_gram_list(r->g, FXI_GRAM_ALT, &left);
    return FXI_SEQ_OF(r->g, node, fxi_gram_repeat(r->g, again, 0, FXI_GRAM_NO_MAX));
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

// NAME, and with may_alias perhaps -> NAME.
static void import_name(rule_reader *r, bool may_alias)
{
    const fxi_str name = take_name(r);
    const size_t n_row = sizeof common_rows / sizeof *common_rows;
    size_t row = 0;
    fxi_str own = name;
    while (row < n_row && !fxi_str_is(name, common_rows[row].name)) row++;
    if (row == n_row) {
        refuse_rules(r, "\"%.*s\" is not among the terminals that can be imported",
                     HEAD_OF(name, 80));
        return;
    }
    pass_blanks(r, false);
    if (may_alias && take_mark(r, "->")) {
        pass_blanks(r, false);
        own = take_name(r);
    }
    uint32_t node = 0;
    const uint32_t rule = find_rule(r, own);
    (void)fxi_gram_regex(r->g, fxi_str_of(common_rows[row].pattern), 0, FXI_SPELL_UTF8, &node,
                         NULL);
    fxi_gram_rule_define(r->g, rule, node);
}

// common.NAME, or common (NAME, NAME).
static void read_import(rule_reader *r)
{
    const fxi_str library = take_name(r);
    if (!fxi_str_is(library, "common"))
        refuse_rules(r, "%%import of \"%.*s\": only `common` can be imported",
                     HEAD_OF(library, 80));
    if (take_mark(r, ".")) {
        import_name(r, true);
        return;
    }
    pass_blanks(r, false);
    if (!take_mark(r, "(")) refuse_rules(r, "%%import without a name");
    do {
        pass_blanks(r, true);
        import_name(r, false);
        pass_blanks(r, true);
    } while (take_mark(r, ","));
    if (!take_mark(r, ")")) refuse_rules(r, "%%import without \")\"");
}

static void read_directive(rule_reader *r)
{
    const fxi_str name = take_name(r);
    pass_blanks(r, false);
    r->current = UINT32_MAX;
    if (fxi_str_is(name, "import")) {
        read_import(r);
    } else if (fxi_str_is(name, "ignore")) {
        r->in_terminal = true;
        fxi_node_list_add(&r->ignore, read_alts(r));
    } else {
        refuse_rules(r, "%%%.*s is not supported", HEAD_OF(name, 80));
    }
}

// ---- rules --------------------------------------------------------------------------------------

static void read_rule(rule_reader *r)
{
    const char *mark = r->is_lark ? ":" : "::=";
    if (r->is_lark && !take_mark(r, "?")) (void)take_mark(r, "!");
    const fxi_str name = take_name(r);
    if (!name.n) refuse_rules(r, "\"%c\" where a rule should begin", show_next(r));
    if (r->is_lark && take_mark(r, ".")) (void)take_name(r); // a priority
    pass_blanks(r, false);
    if (r->is_lark && is_next(r, "{"))
        refuse_rules(r, "a template (%.*s{..}) is not supported", HEAD_OF(name, 80));
    if (!take_mark(r, mark))
        refuse_rules(r, "\"%s\" is missing after \"%.*s\"", mark, HEAD_OF(name, 80));
    const uint32_t rule = find_rule(r, name);
    if (r->g->broken) refuse_rules(r, "more than %d parts", FXI_GRAM_MAX_SIZE);
    if (r->refused) return;
    if (r->g->rule[rule].defined) refuse_rules(r, "\"%.*s\" is defined twice", HEAD_OF(name, 80));
    r->in_terminal = is_terminal_name(name);
    r->current = rule;
    fxi_gram_rule_define(r->g, rule, read_alts(r));
}

static void read_statements(rule_reader *r)
{
    for (pass_blanks(r, true); r->at < r->s.n; pass_blanks(r, true)) {
        if (r->is_lark && take_mark(r, "%"))
            read_directive(r);
        else
            read_rule(r);
        pass_blanks(r, false);
        if (r->at < r->s.n && !take_mark(r, "\n"))
            refuse_rules(r, "\"%c\" where a line should end", show_next(r));
    }
}

static uint32_t find_start(rule_reader *r)
{
    const char *start = r->is_lark ? "start" : "root";
    for (size_t i = 0; i < r->n_name; i++)
        if (fxi_str_is(r->name[i].name, start)) return fxi_gram_ref(r->g, r->name[i].rule);
    if (!r->refused) fxi_error_set(r->err, FX_EINVAL, "grammar: it has no rule \"%s\"", start);
    r->refused = true;
    return 0;
}

fx_status fxi_rules_add(fxi_gram *g, fxi_str text, uint32_t *node, fx_error *err)
{
    const bool is_lark = !text.n || !memmem(text.p, text.n, "::=", 3);
    rule_reader r = {.g = g, .s = text, .err = err, .is_lark = is_lark};
    const size_t bad = fxi_utf8_check(text.p, text.n);
    if (bad < text.n) return fxi_fail(err, FX_EINVAL, "grammar: bad UTF-8 at byte %zu", bad);
    if (is_lark) r.ignored = fxi_gram_rule_add(g, fxi_str_of("%ignore"));
    read_statements(&r);
    if (is_lark) {
        const uint32_t ignored = fxi_gram_list(g, FXI_GRAM_ALT, &r.ignore);
        fxi_gram_rule_define(g, r.ignored, fxi_gram_repeat(g, ignored, 0, FXI_GRAM_NO_MAX));
    }
    *node = find_start(&r);
    if (is_lark) *node = FXI_SEQ_OF(g, fxi_gram_ref(g, r.ignored), *node);
    free(r.name);
    if (g->broken == FX_ENOMEM) return fxi_fail_memory(err);
    return r.refused ? FX_EINVAL : FX_OK;
}
