// jinja_lex.c - a template's text to tokens, one at a time, and Jinja's rules about white space.
//
//     data {%- if x -%} data   '-' takes all white space on its side
//     data {%+ if x +%} data   '+' leaves the data on its side as it is
//     data {% if x %} data     otherwise blanks in front of the tag go if it is the first thing on
//                              its line (lstrip_blocks), and the newline behind it (trim_blocks)
//
// Comments are like blocks; {{ }} obeys '-' alone. Inside brackets "}}" and "%}" are operators.
#include <ctype.h>
#include <string.h>

#include "format/chat/jinja_impl.h"

// ---- places in the text -------------------------------------------------------------------------

static bool at(const fxi_jlex *l, size_t i, const char *what)
{
    size_t n = strlen(what);
    return i <= l->n && l->n - i >= n && !memcmp(l->s + i, what, n);
}

// Moves on to `to`, counting lines.
static void go_to(fxi_jlex *l, size_t to)
{
    for (; l->at < to; l->at++) l->line += l->s[l->at] == '\n';
}

static size_t behind_space(const fxi_jlex *l, size_t i)
{
    fxi_jstr s = {.p = l->s, .n = l->n};
    while (i < l->n) {
        size_t n;
        if (!fxi_j_is_space(fxi_j_char(&s, i, &n))) break;
        i += n;
    }
    return i;
}

// The length of s[from .. to) without white space at its end.
static size_t before_space(const fxi_jlex *l, size_t from, size_t to)
{
    fxi_jstr part = {.p = l->s + from, .n = to - from};
    return from + fxi_j_stripped(&part, NULL, false, true).n;
}

// ---- data ---------------------------------------------------------------------------------------

// What stands in front of a tag: s[from .. to) less what the tag's sign and lstrip_blocks take.
static size_t end_of_data(const fxi_jlex *l, size_t from, size_t to, char sign, bool is_var)
{
    if (sign == '-') return before_space(l, from, to);
    if (sign == '+' || is_var) return to;
    size_t line = to;
    while (line > from && l->s[line - 1] != '\n') line--;
    if (line == from && !l->line_starts) return to;
    return before_space(l, line, to) == line ? line : to;
}

static char sign_at(const fxi_jlex *l, size_t i)
{
    return i < l->n && (l->s[i] == '-' || l->s[i] == '+') ? l->s[i] : 0;
}

static fxi_jtoken token(const fxi_jlex *l, fxi_jtok kind, size_t from, size_t to)
{
    return (fxi_jtoken){.kind = kind, .line = l->line, .p = l->s + from, .n = to - from};
}

// Moves behind the end of a tag that begins at i: "-%}" and white space, "+%}", "%}" and a newline.
static void end_tag(fxi_jlex *l, size_t i, bool takes_newline)
{
    char sign = sign_at(l, i);
    i += sign ? 3 : 2;
    if (sign == '-')
        i = behind_space(l, i);
    else if (!sign && takes_newline && i < l->n && l->s[i] == '\n')
        i++;
    go_to(l, i);
    l->line_starts = l->s[i - 1] == '\n';
}

static fx_status skip_comment(fxi_jlex *l, size_t begin)
{
    size_t i = begin + 2 + (sign_at(l, begin + 2) != 0);
    const char *end = memmem(l->s + i, l->n - i, "#}", 2);
    go_to(l, begin);
    if (!end) return fxi_j_refuse(l->err, l->line, "a comment does not end");
    size_t k = (size_t)(end - l->s);
    if (k > i && sign_at(l, k - 1)) k--;
    end_tag(l, k, true);
    return FX_OK;
}

// "{% word %}" at i, with any signs: where its end begins, 0 if this is something else.
static size_t lone_word(const fxi_jlex *l, size_t i, const char *word)
{
    if (!at(l, i, "{%")) return 0;
    i = behind_space(l, i + 2 + (sign_at(l, i + 2) != 0));
    if (!at(l, i, word)) return 0;
    i = behind_space(l, i + strlen(word));
    size_t end = i + (sign_at(l, i) != 0);
    return at(l, end, "%}") ? i : 0;
}

// {% raw %} .. {% endraw %} at `begin`: what is between them is data.
static fx_status read_raw(fxi_jlex *l, size_t begin, size_t end_of_begin, fxi_jtoken *out)
{
    go_to(l, begin);
    const int line = l->line;
    end_tag(l, end_of_begin, false);
    const size_t from = l->at;
    for (size_t i = from; i < l->n; i++) {
        size_t end = l->s[i] == '{' ? lone_word(l, i, "endraw") : 0;
        if (!end) continue;
        *out = token(l, FXI_J_T_DATA, from, end_of_data(l, from, i, sign_at(l, i + 2), false));
        end_tag(l, end, true);
        return FX_OK;
    }
    return fxi_j_refuse(l->err, line, "'raw' has no 'endraw'");
}

static size_t find_tag(const fxi_jlex *l, size_t i)
{
    for (; i + 1 < l->n; i++)
        if (l->s[i] == '{' && memchr("{%#", l->s[i + 1], 3)) return i;
    return l->n;
}

// Leaves data for the tag at `begin`; its token is given out next.
static void begin_tag(fxi_jlex *l, size_t begin, char sign)
{
    bool is_var = l->s[begin + 1] == '{';
    go_to(l, begin + 2 + (sign != 0));
    l->begin = token(l, is_var ? FXI_J_T_VAR_BEGIN : FXI_J_T_BLOCK_BEGIN, begin, begin + 2);
    l->has_begin = true;
    l->in = is_var ? FXI_J_IN_VAR : FXI_J_IN_BLOCK;
}

// The data up to the next tag; it may be empty.
static fx_status next_data(fxi_jlex *l, fxi_jtoken *out)
{
    const size_t from = l->at, begin = find_tag(l, from);
    if (begin == l->n) {
        *out = token(l, FXI_J_T_DATA, from, l->n);
        go_to(l, l->n);
        return FX_OK;
    }
    char sign = sign_at(l, begin + 2);
    size_t end = end_of_data(l, from, begin, sign, l->s[begin + 1] == '{');
    *out = token(l, FXI_J_T_DATA, from, end);
    if (l->s[begin + 1] == '#') return skip_comment(l, begin);
    size_t raw = lone_word(l, begin, "raw");
    if (!raw) {
        begin_tag(l, begin, sign);
        return FX_OK;
    }
    if (out->n) { // the raw text is given out after what stands in front of it
        go_to(l, begin);
        return FX_OK;
    }
    return read_raw(l, begin, raw, out);
}

// ---- inside of tags -----------------------------------------------------------------------------

static bool is_word(char c)
{
    return isalnum((unsigned char)c) || c == '_';
}

// Digits with single '_' between them.
static size_t digits(const fxi_jlex *l, size_t i)
{
    size_t start = i;
    while (i < l->n &&
           (isdigit((unsigned char)l->s[i]) ||
            (i > start && l->s[i] == '_' && i + 1 < l->n && isdigit((unsigned char)l->s[i + 1]))))
        i++;
    return i;
}

static size_t exponent(const fxi_jlex *l, size_t i)
{
    if (i >= l->n || (l->s[i] != 'e' && l->s[i] != 'E')) return i;
    size_t from = i + 1 + (sign_at(l, i + 1) != 0), end = digits(l, from);
    return end > from ? end : i;
}

// Behind a '.' a number is whole: "x.0.1" is an item of an item.
static fxi_jtoken read_number(const fxi_jlex *l)
{
    size_t whole = digits(l, l->at), i = whole;
    if (l->s[l->at - 1] == '.') return token(l, FXI_J_T_INT, l->at, whole);
    if (i + 1 < l->n && l->s[i] == '.' && isdigit((unsigned char)l->s[i + 1])) i = digits(l, i + 1);
    i = exponent(l, i);
    return token(l, i > whole ? FXI_J_T_FLOAT : FXI_J_T_INT, l->at, i);
}

static fx_status read_string(fxi_jlex *l, fxi_jtoken *out)
{
    for (size_t i = l->at + 1; i < l->n; i++) {
        if (l->s[i] == '\\') {
            i++;
            continue;
        }
        if (l->s[i] != l->s[l->at]) continue;
        *out = token(l, FXI_J_T_STR, l->at, i + 1);
        return FX_OK;
    }
    return fxi_j_refuse(l->err, l->line, "a string does not end");
}

static fx_status balance(fxi_jlex *l, char c)
{
    static const char opens[] = "([{", closes[] = ")]}";
    const char *open = memchr(opens, c, 3), *close = memchr(closes, c, 3);
    if (open && l->n_open == FXI_J_MAX_NEST)
        return fxi_j_refuse(l->err, l->line, "brackets nest deeper than %d", FXI_J_MAX_NEST);
    if (open) l->open[l->n_open++] = closes[open - opens];
    if (!close) return FX_OK;
    if (!l->n_open || l->open[l->n_open - 1] != c)
        return fxi_j_refuse(l->err, l->line, "unexpected '%c'", c);
    l->n_open--;
    return FX_OK;
}

static fx_status read_operator(fxi_jlex *l, fxi_jtoken *out)
{
    static const char doubles[][3] = {"//", "**", "==", "!=", ">=", "<="};
    *out = token(l, FXI_J_T_OP, l->at, l->at + 2);
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++) {
        out->op = FXI_J_OP2(doubles[i][0], doubles[i][1]);
        if (at(l, l->at, doubles[i])) return FX_OK;
    }
    out->op = (unsigned char)l->s[l->at];
    out->n = 1;
    if (!memchr("+-/*%~[](){}><=.:|,;", out->op, 20))
        return fxi_j_refuse(l->err, l->line, "unexpected character '%.*s'", out->op < 0x80 ? 1 : 0,
                            out->p);
    return balance(l, (char)out->op);
}

// Whether the tag ends here: "}}", "-}}", "%}", "-%}", "+%}".
static bool tag_ends(const fxi_jlex *l)
{
    char sign = sign_at(l, l->at);
    if (l->n_open || (sign == '+' && l->in == FXI_J_IN_VAR)) return false;
    return at(l, l->at + (sign != 0), l->in == FXI_J_IN_VAR ? "}}" : "%}");
}

static fx_status read_token(fxi_jlex *l, fxi_jtoken *out)
{
    unsigned char c = (unsigned char)l->s[l->at];
    if (isdigit(c)) {
        *out = read_number(l);
    } else if (isalpha(c) || c == '_') {
        size_t i = l->at;
        while (i < l->n && is_word(l->s[i])) i++;
        *out = token(l, FXI_J_T_NAME, l->at, i);
    } else if (c == '"' || c == '\'') {
        FX_TRY(read_string(l, out));
    } else {
        FX_TRY(read_operator(l, out));
    }
    go_to(l, l->at + out->n);
    return FX_OK;
}

static fx_status next_in_tag(fxi_jlex *l, fxi_jtoken *out)
{
    go_to(l, behind_space(l, l->at));
    if (l->at == l->n)
        return fxi_j_refuse(l->err, l->begin.line, "a '%.2s' does not end", l->begin.p);
    if (!tag_ends(l)) return read_token(l, out);
    bool is_var = l->in == FXI_J_IN_VAR;
    *out = token(l, is_var ? FXI_J_T_VAR_END : FXI_J_T_BLOCK_END, l->at, l->at + 2);
    end_tag(l, l->at, !is_var);
    l->in = FXI_J_IN_DATA;
    return FX_OK;
}

fx_status fxi_jlex_next(fxi_jlex *l, fxi_jtoken *out)
{
    if (l->in != FXI_J_IN_DATA && !l->has_begin) return next_in_tag(l, out);
    while (!l->has_begin) {
        if (l->at == l->n) {
            *out = token(l, FXI_J_T_END, l->n, l->n);
            return FX_OK;
        }
        FX_TRY(next_data(l, out));
        if (out->n) return FX_OK;
    }
    l->has_begin = false;
    *out = l->begin;
    return FX_OK;
}
