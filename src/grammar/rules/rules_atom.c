// rules_atom.c - what a rule is made of: texts, ranges, classes, regular expressions, names.
#include <stdlib.h>

#include "base/text/buf.h"
#include "base/text/utf8.h"
#include "grammar/read/gram_chars.h"
#include "grammar/read/gram_regex.h"
#include "grammar/read/regex_char.h"
#include "grammar/rules/rules_parts.h"

// ---- texts --------------------------------------------------------------------------------------

static int hex_value_of_char(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    c |= 0x20;
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

static bool add_char(fxi_buf *out, uint32_t c)
{
    char s[4] = {(char)c};
    size_t n = c < 0x80 ? 1 : c < 0x800 ? 2 : c < 0x10000 ? 3 : 4;
    static const uint8_t lead[] = {0, 0, 0xC0, 0xE0, 0xF0};
    if (n > 1) {
        for (size_t i = n; i-- > 1; c >>= 6) s[i] = (char)(0x80 | (c & 0x3F));
        s[0] = (char)(lead[n] | c);
    }
    return fxi_buf_add(out, s, n);
}

// \xHH, \uHHHH and \UHHHHHHHH, behind the letter.
static fx_status read_code_of(fxi_rule_reader *r, char letter, fxi_buf *out)
{
    const int n = letter == 'x' ? 2 : letter == 'u' ? 4 : 8;
    uint32_t c = 0;
    for (int i = 0; i < n; i++, r->at++) {
        const int v = r->at < r->s.n ? hex_value_of_char(r->s.p[r->at]) : -1;
        if (v < 0 || c > 0x10FFFF) return fxi_rules_refuse(r, "a broken escape \\%c", letter);
        c = c << 4 | (uint32_t)v;
    }
    if (c > 0x10FFFF || (c >= 0xD800 && c <= 0xDFFF))
        return fxi_rules_refuse(r, "an escape \\%c that is no character", letter);
    return add_char(out, c) ? FX_OK : fxi_rules_no_memory(r);
}

static fx_status read_text_escape(fxi_rule_reader *r, fxi_buf *out)
{
    static const char letters[] = "nrtfvb", values[] = "\n\r\t\f\v\b";
    if (r->at >= r->s.n) return fxi_rules_refuse(r, "a backslash without a character");
    const char c = r->s.p[r->at++];
    const char *p = c ? strchr(letters, c) : NULL;
    if (c == 'x' || c == 'u' || c == 'U') return read_code_of(r, c, out);
    if (!p && strchr("\\\"'[]/-", c) == NULL)
        return fxi_rules_refuse(r, "an unknown escape (\\%c)", c > ' ' && c < 0x7F ? c : '?');
    return fxi_buf_add(out, p ? &values[p - letters] : &c, 1) ? FX_OK : fxi_rules_no_memory(r);
}

// Behind the quote.
static fx_status take_quoted_text(fxi_rule_reader *r, fxi_buf *out)
{
    for (;;) {
        if (r->at >= r->s.n || r->s.p[r->at] == '\n')
            return fxi_rules_refuse(r, "a text without its last quote");
        const char c = r->s.p[r->at++];
        if (c == '"') return FX_OK;
        if (c == '\\')
            FX_TRY(read_text_escape(r, out));
        else if (!fxi_buf_add(out, &c, 1))
            return fxi_rules_no_memory(r);
    }
}

// Letters of ASCII in either case.
static uint32_t caseless_node(fxi_rule_reader *r, const fxi_buf *text, fxi_rule_list *l, bool *ok)
{
    for (size_t i = 0; *ok && i < text->n; i++) {
        const uint8_t c = (uint8_t)text->p[i], low = c | 0x20;
        fxi_byte_set s = {0};
        fxi_byte_put(&s, c);
        if (low >= 'a' && low <= 'z') fxi_byte_put(&s, c ^ 0x20);
        *ok = fxi_rules_list(r, l, fxi_gram_set(r->g, &s)) == FX_OK;
    }
    return fxi_gram_seq(r->g, l->node, l->n);
}

static fx_status make_text(fxi_rule_reader *r, const fxi_buf *text, uint32_t *node)
{
    fxi_rule_list l = {0};
    bool ok = true;
    if (r->is_lark && fxi_rules_take(r, "i"))
        *node = caseless_node(r, text, &l, &ok);
    else
        *node = fxi_gram_text(r->g, text->n ? text->p : "", text->n);
    free(l.node);
    return ok ? FX_OK : FX_ENOMEM;
}

// The one character of a text; -1: it has none or more.
static int64_t only_char(const fxi_buf *text)
{
    size_t n = 0;
    const int32_t c = text->n ? fxi_utf8_at(text->p, text->n, &n) : -1;
    return n == text->n ? c : -1;
}

static fx_status make_range(fxi_rule_reader *r, const fxi_buf *from, uint32_t *node)
{
    fxi_buf to = {0};
    fxi_char_set set = {0};
    fx_status st = FX_OK;
    if (!fxi_rules_take(r, "\"")) return fxi_rules_refuse(r, "a range without its end");
    st = take_quoted_text(r, &to);
    const int64_t lo = only_char(from), hi = st ? -1 : only_char(&to);
    if (!st && (lo < 0 || hi < lo)) st = fxi_rules_refuse(r, "a range that is not of characters");
    if (!st && (!fxi_char_set_add(&set, (uint32_t)lo, (uint32_t)hi) ||
                !fxi_gram_chars(r->g, &set, FXI_SPELL_UTF8, node)))
        st = fxi_rules_no_memory(r);
    fxi_char_set_free(&set);
    fxi_buf_free(&to);
    return st;
}

static fx_status read_text_atom(fxi_rule_reader *r, uint32_t *node)
{
    fxi_buf text = {0};
    fx_status st = take_quoted_text(r, &text);
    if (!st && r->is_lark && fxi_rules_take(r, ".."))
        st = make_range(r, &text, node);
    else if (!st)
        st = make_text(r, &text, node);
    fxi_buf_free(&text);
    return st;
}

// ---- classes and regular expressions ------------------------------------------------------------

static fx_status make_char_set(fxi_rule_reader *r, fxi_char_set *set, fx_status st, uint32_t *node)
{
    if (!st && !fxi_gram_chars(r->g, set, FXI_SPELL_UTF8, node)) st = fxi_rules_no_memory(r);
    fxi_char_set_free(set);
    return st;
}

static fx_status read_class_atom(fxi_rule_reader *r, uint32_t *node)
{
    fxi_char_set set = {0};
    fxi_regex_text text = {.s = r->s, .at = r->at, .err = r->err};
    const fx_status st = fxi_regex_class(&text, &set);
    r->at = text.at;
    return make_char_set(r, &set, st, node);
}

static fx_status read_any_atom(fxi_rule_reader *r, uint32_t *node)
{
    fxi_char_set set = {0};
    const fx_status st = fxi_char_set_add(&set, 0, 0x10FFFF) ? FX_OK : fxi_rules_no_memory(r);
    return make_char_set(r, &set, st, node);
}

static fx_status make_regex(fxi_rule_reader *r, fxi_str pattern, uint32_t *node)
{
    fx_error e;
    const fx_status st = fxi_gram_regex(r->g, pattern, 0, FXI_SPELL_UTF8, node, &e);
    if (st == FX_EINVAL) return fxi_rules_refuse(r, "%.*s", FXI_UTF8_HEAD(e.text, 250));
    return st ? fxi_rules_no_memory(r) : FX_OK;
}

// Behind the slash.
static fx_status read_regex_atom(fxi_rule_reader *r, uint32_t *node)
{
    const size_t from = r->at;
    while (r->at < r->s.n && r->s.p[r->at] != '/' && r->s.p[r->at] != '\n')
        r->at += r->s.p[r->at] == '\\' && r->at + 1 < r->s.n ? 2 : 1;
    const fxi_str pattern = {r->s.p + from, r->at - from};
    if (!fxi_rules_take(r, "/"))
        return fxi_rules_refuse(r, "a regular expression without its last \"/\"");
    const fxi_str flags = fxi_rules_take_name(r);
    if (flags.n)
        return fxi_rules_refuse(r, "the flags \"%.*s\" of a regular expression are not supported",
                                flags.n > 20 ? 20 : (int)flags.n, flags.p);
    return make_regex(r, pattern, node);
}

// ---- names --------------------------------------------------------------------------------------

static fx_status read_name_atom(fxi_rule_reader *r, uint32_t *node, bool *is_self,
                                bool *is_terminal)
{
    uint32_t rule = 0;
    const fxi_str name = fxi_rules_take_name(r);
    if (!name.n)
        return fxi_rules_refuse(r, "\"%c\" where a text or a name should be", fxi_rules_next(r));
    if (r->is_lark && fxi_rules_is_next(r, "{"))
        return fxi_rules_refuse(r, "a template (%.*s{..}) is not supported",
                                name.n > 60 ? 60 : (int)name.n, name.p);
    FX_TRY(fxi_rules_find(r, name, &rule));
    *is_self = rule == r->current;
    *is_terminal = fxi_rules_is_terminal(name);
    *node = fxi_gram_ref(r->g, rule);
    return FX_OK;
}

// What may be ignored behind it, if it is a terminal within a rule.
static uint32_t with_ignored(fxi_rule_reader *r, uint32_t node)
{
    const uint32_t part[] = {node, fxi_gram_ref(r->g, r->ignored)};
    return r->is_lark && !r->in_terminal ? fxi_gram_seq(r->g, part, 2) : node;
}

fx_status fxi_rules_atom(fxi_rule_reader *r, uint32_t *node, bool *is_self)
{
    bool is_terminal = true;
    *is_self = false;
    if (fxi_rules_take(r, "\""))
        FX_TRY(read_text_atom(r, node));
    else if (!r->is_lark && fxi_rules_take(r, "["))
        FX_TRY(read_class_atom(r, node));
    else if (!r->is_lark && fxi_rules_take(r, "."))
        FX_TRY(read_any_atom(r, node));
    else if (r->is_lark && fxi_rules_take(r, "/"))
        FX_TRY(read_regex_atom(r, node));
    else
        FX_TRY(read_name_atom(r, node, is_self, &is_terminal));
    if (is_terminal) *node = with_ignored(r, *node);
    return FX_OK;
}
