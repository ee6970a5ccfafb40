// jinja_lex.c - a template's text to tokens, one at a time, and Jinja's rules about white space.
//
//     data {%- if x -%} data   '-' drops all white space on its side
//     data {%+ if x +%} data   '+' keeps the data on its side
//     data {% if x %} data     otherwise blanks before a tag that is first on its line are dropped
//                              (lstrip_blocks), and the newline after it (trim_blocks)
//
// Comments are like blocks; {{ }} knows '-' only. Inside brackets "}}" and "%}" are operators.
#include <ctype.h>
#include <errno.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/utf8.h" // defines: fxi_utf8_vprint
#include "format/jinja/jinja_parse.h"

fx_status fxi_jlex_refuse(fx_error *err, int line, const char *fmt, ...)
{
    char text[FX_ERROR_TEXT_BYTES];
    va_list ap;
    va_start(ap, fmt);
    fxi_utf8_vprint(text, sizeof text, fmt, ap);
    va_end(ap);
    return fxi_fail(err, FX_EFORMAT, "chat template, line %d: %s", line, text);
}

// ---- places in the text -------------------------------------------------------------------------

static bool text_at(const fxi_jlex *l, size_t i, const char *what)
{
    size_t n = strlen(what);
    return i <= l->n && l->n - i >= n && !memcmp(l->s + i, what, n);
}

// Moves to `to`, counting lines.
static void advance_to(fxi_jlex *l, size_t to)
{
    for (; l->at < to; l->at++) l->line += l->s[l->at] == '\n';
}

static size_t skip_space(const fxi_jlex *l, size_t i)
{
    fxi_jstr s = {.p = l->s, .n = l->n};
    while (i < l->n) {
        size_t n;
        if (!fxi_jchar_is_space(fxi_jstr_char_at(&s, i, &n))) break;
        i += n;
    }
    return i;
}

// Where s[from .. to) ends without the white space at its end.
static size_t trim_space(const fxi_jlex *l, size_t from, size_t to)
{
    fxi_jstr part = {.p = l->s + from, .n = to - from};
    return from + fxi_jstr_strip(&part, NULL, false, true).n;
}

// ---- data ---------------------------------------------------------------------------------------

// Where the data s[from .. to) before a tag ends, after the tag's sign and lstrip_blocks.
static size_t end_of_data(const fxi_jlex *l, size_t from, size_t to, char sign, bool is_var)
{
    if (sign == '-') return trim_space(l, from, to);
    if (sign == '+' || is_var) return to;
    size_t line = to;
    while (line > from && l->s[line - 1] != '\n') line--;
    if (line == from && !l->line_starts) return to;
    return trim_space(l, line, to) == line ? line : to;
}

static char sign_at(const fxi_jlex *l, size_t i)
{
    return i < l->n && (l->s[i] == '-' || l->s[i] == '+') ? l->s[i] : 0;
}

static fxi_jtoken make_token(const fxi_jlex *l, fxi_jtok kind, size_t from, size_t to)
{
    return (fxi_jtoken){.kind = kind, .line = l->line, .p = l->s + from, .n = to - from};
}

// Moves past the end of a tag, which begins at i: "-%}" and white space, "+%}", "%}" and a newline.
static void skip_tag_end(fxi_jlex *l, size_t i, bool takes_newline)
{
    char sign = sign_at(l, i);
    i += sign ? 3 : 2;
    if (sign == '-')
        i = skip_space(l, i);
    else if (!sign && takes_newline && i < l->n && l->s[i] == '\n')
        i++;
    advance_to(l, i);
    l->line_starts = l->s[i - 1] == '\n';
}

static fx_status skip_comment(fxi_jlex *l, size_t begin)
{
    size_t i = begin + 2 + (sign_at(l, begin + 2) != 0);
    const char *end = memmem(l->s + i, l->n - i, "#}", 2);
    advance_to(l, begin);
    if (!end) return fxi_jlex_refuse(l->err, l->line, "unterminated comment");
    size_t k = (size_t)(end - l->s);
    if (k > i && sign_at(l, k - 1)) k--;
    skip_tag_end(l, k, true);
    return FX_OK;
}

// Where the end of "{% word %}", with any signs, begins; 0: there is no such tag at i.
static size_t lone_word(const fxi_jlex *l, size_t i, const char *word)
{
    if (!text_at(l, i, "{%")) return 0;
    i = skip_space(l, i + 2 + (sign_at(l, i + 2) != 0));
    if (!text_at(l, i, word)) return 0;
    i = skip_space(l, i + strlen(word));
    size_t end = i + (sign_at(l, i) != 0);
    return text_at(l, end, "%}") ? i : 0;
}

// {% raw %} .. {% endraw %} at `begin`: the text between them is data.
static fx_status lex_raw(fxi_jlex *l, size_t begin, size_t end_of_begin, fxi_jtoken *out)
{
    advance_to(l, begin);
    const int line = l->line;
    skip_tag_end(l, end_of_begin, false);
    const size_t from = l->at;
    for (size_t i = from; i < l->n; i++) {
        size_t end = l->s[i] == '{' ? lone_word(l, i, "endraw") : 0;
        if (!end) continue;
        *out =
            make_token(l, FXI_JTOK_DATA, from, end_of_data(l, from, i, sign_at(l, i + 2), false));
        skip_tag_end(l, end, true);
        return FX_OK;
    }
    return fxi_jlex_refuse(l->err, line, "'raw' has no 'endraw'");
}

// The data up to the next tag, possibly empty.
static fx_status lex_data(fxi_jlex *l, fxi_jtoken *out)
{
    const size_t from = l->at;
    size_t begin = from;
    while (begin < l->n &&
           (l->s[begin] != '{' || begin + 1 == l->n || !memchr("{%#", l->s[begin + 1], 3)))
        begin++;
    if (begin == l->n) {
        *out = make_token(l, FXI_JTOK_DATA, from, l->n);
        advance_to(l, l->n);
        return FX_OK;
    }
    char sign = sign_at(l, begin + 2);
    size_t end = end_of_data(l, from, begin, sign, l->s[begin + 1] == '{');
    *out = make_token(l, FXI_JTOK_DATA, from, end);
    if (l->s[begin + 1] == '#') return skip_comment(l, begin);
    size_t raw = lone_word(l, begin, "raw");
    if (!raw) {
        // Enters the tag at `begin`, whose token is returned next.
        bool is_var = l->s[begin + 1] == '{';
        advance_to(l, begin + 2 + (sign != 0));
        l->begin =
            make_token(l, is_var ? FXI_JTOK_VAR_BEGIN : FXI_JTOK_BLOCK_BEGIN, begin, begin + 2);
        l->has_begin = true;
        l->in = is_var ? FXI_JLEX_IN_VAR : FXI_JLEX_IN_BLOCK;
        return FX_OK;
    }
    if (out->n) { // the data before the tag comes first
        advance_to(l, begin);
        return FX_OK;
    }
    return lex_raw(l, begin, raw, out);
}

// ---- inside tags --------------------------------------------------------------------------------

// Digits with single '_' between them.
static size_t skip_digits(const fxi_jlex *l, size_t i)
{
    size_t start = i;
    while (i < l->n &&
           (isdigit((unsigned char)l->s[i]) ||
            (i > start && l->s[i] == '_' && i + 1 < l->n && isdigit((unsigned char)l->s[i + 1]))))
        i++;
    return i;
}

// After a '.' a number has no fraction: "x.0.1" is an item of an item.
static fxi_jtoken lex_number(const fxi_jlex *l)
{
    const size_t whole = skip_digits(l, l->at);
    size_t i = whole;
    if (l->s[l->at - 1] == '.') return make_token(l, FXI_JTOK_INT, l->at, whole);
    if (i + 1 < l->n && l->s[i] == '.' && isdigit((unsigned char)l->s[i + 1]))
        i = skip_digits(l, i + 1);
    if (i < l->n && (l->s[i] == 'e' || l->s[i] == 'E')) {
        size_t from = i + 1 + (sign_at(l, i + 1) != 0), end = skip_digits(l, from);
        if (end > from) i = end;
    }
    return make_token(l, i > whole ? FXI_JTOK_FLOAT : FXI_JTOK_INT, l->at, i);
}

static fx_status lex_string(fxi_jlex *l, fxi_jtoken *out)
{
    for (size_t i = l->at + 1; i < l->n; i++) {
        if (l->s[i] == '\\') {
            i++;
            continue;
        }
        if (l->s[i] != l->s[l->at]) continue;
        *out = make_token(l, FXI_JTOK_STR, l->at, i + 1);
        return FX_OK;
    }
    return fxi_jlex_refuse(l->err, l->line, "unterminated string");
}

static fx_status lex_operator(fxi_jlex *l, fxi_jtoken *out)
{
    static const char doubles[][3] = {"//", "**", "==", "!=", ">=", "<="};
    static const char opens[] = "([{", closes[] = ")]}";
    *out = make_token(l, FXI_JTOK_OP, l->at, l->at + 2);
    for (size_t i = 0; i < sizeof doubles / sizeof *doubles; i++)
        if (text_at(l, l->at, doubles[i])) return FX_OK;
    const char c = l->s[l->at];
    out->n = 1;
    if (!memchr("+-/*%~[](){}><=.:|,;", c, 20))
        return fxi_jlex_refuse(l->err, l->line, "unexpected character '%.*s'",
                               (unsigned char)c < 0x80, out->p);
    const char *open = memchr(opens, c, 3);
    if (open && l->n_open == FXI_JLEX_MAX_NEST)
        return fxi_jlex_refuse(l->err, l->line, "brackets nest deeper than %d", FXI_JLEX_MAX_NEST);
    if (open) l->open[l->n_open++] = closes[open - opens];
    if (!memchr(closes, c, 3)) return FX_OK;
    if (!l->n_open || l->open[l->n_open - 1] != c)
        return fxi_jlex_refuse(l->err, l->line, "unexpected '%c'", c);
    l->n_open--;
    return FX_OK;
}

static fx_status lex_token(fxi_jlex *l, fxi_jtoken *out)
{
    unsigned char c = (unsigned char)l->s[l->at];
    if (isdigit(c)) {
        *out = lex_number(l);
    } else if (isalpha(c) || c == '_') {
        size_t i = l->at;
        while (i < l->n && (isalnum((unsigned char)l->s[i]) || l->s[i] == '_')) i++;
        *out = make_token(l, FXI_JTOK_NAME, l->at, i);
    } else if (c == '"' || c == '\'') {
        FX_TRY(lex_string(l, out));
    } else {
        FX_TRY(lex_operator(l, out));
    }
    advance_to(l, l->at + out->n);
    return FX_OK;
}

static fx_status lex_in_tag(fxi_jlex *l, fxi_jtoken *out)
{
    const bool is_var = l->in == FXI_JLEX_IN_VAR;
    advance_to(l, skip_space(l, l->at));
    if (l->at == l->n)
        return fxi_jlex_refuse(l->err, l->begin.line, "unterminated '%.2s'", l->begin.p);
    const char sign = sign_at(l, l->at);
    const size_t end = l->at + (sign != 0); // of "}}", "-}}", "%}", "-%}", "+%}"
    if (l->n_open || (sign == '+' && is_var) || !text_at(l, end, is_var ? "}}" : "%}"))
        return lex_token(l, out);
    *out = make_token(l, is_var ? FXI_JTOK_VAR_END : FXI_JTOK_BLOCK_END, end, end + 2);
    skip_tag_end(l, l->at, !is_var);
    l->in = FXI_JLEX_IN_DATA;
    return FX_OK;
}

fx_status fxi_jlex_next(fxi_jlex *l, fxi_jtoken *out)
{
    if (l->in != FXI_JLEX_IN_DATA && !l->has_begin) return lex_in_tag(l, out);
    while (!l->has_begin) {
        if (l->at == l->n) {
            *out = make_token(l, FXI_JTOK_END, l->n, l->n);
            return FX_OK;
        }
        FX_TRY(lex_data(l, out));
        if (out->n) return FX_OK;
    }
    l->has_begin = false;
    *out = l->begin;
    return FX_OK;
}

// ---- what literals say --------------------------------------------------------------------------

// An escape with a number, \xhh, \uhhhh, \Uhhhhhhhh or \ooo, after its backslash. Returns the bytes
// read; 0: it is not whole, or names no character.
static size_t numbered_escape(const char *s, size_t n, uint32_t *c)
{
    const bool octal = *s >= '0' && *s <= '7';
    const size_t first = octal ? 0 : 1, most = octal ? 3 : *s == 'x' ? 2 : *s == 'u' ? 4 : 8;
    size_t i = first;
    for (*c = 0; i < n && i < first + most; i++) {
        int digit = fxi_hex_digit(s[i]);
        if (digit < 0 || (octal && digit > 7)) break;
        *c = *c << (octal ? 3 : 4) | (uint32_t)digit;
    }
    if (octal) return i;
    return i == first + most && *c <= 0x10FFFF && (*c & ~0x7FFu) != 0xD800 ? i : 0;
}

bool fxi_jtoken_unescape(const fxi_jtoken *t, char *dst, size_t *n)
{
    static const char from[] = "\\'\"abfnrtv", to[] = "\\'\"\a\b\f\n\r\t\v";
    const char *s = t->p + 1, *const end = t->p + t->n - 1;
    while (s < end) {
        if (*s != '\\') {
            dst[(*n)++] = *s++;
            continue;
        }
        const char c = *++s, *plain = c ? strchr(from, c) : NULL;
        size_t n_read = 1;
        if (plain) {
            dst[(*n)++] = to[plain - from];
        } else if (c && strchr("01234567xuU", c)) {
            uint32_t code;
            n_read = numbered_escape(s, (size_t)(end - s), &code);
            if (!n_read) return false;
            *n += fxi_utf8_put(dst + *n, code);
        } else if (c == 'N') {
            return false;
        } else if (c != '\n') { // as in Python, an unknown escape keeps its backslash
            dst[(*n)++] = '\\';
            dst[(*n)++] = c;
        }
        s += n_read;
    }
    return true;
}

bool fxi_jtoken_number(const fxi_jtoken *t, fxi_jval *out)
{
    char text[64]; // without its '_'
    size_t n = 0;
    for (size_t i = 0; i < t->n; i++) {
        if (t->p[i] == '_') continue;
        if (n == sizeof text - 1) return false;
        text[n++] = t->p[i];
    }
    text[n] = 0;
    errno = 0;
    *out = t->kind == FXI_JTOK_INT ? fxi_jval_int(strtoll(text, NULL, 10))
                                   : fxi_jval_float(strtod(text, NULL));
    return t->kind == FXI_JTOK_FLOAT || errno != ERANGE;
}
