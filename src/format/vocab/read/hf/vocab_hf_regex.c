// vocab_hf_regex.c - rewrites patterns of tokenizer.json, made for Oniguruma (Ruby's syntax), for
// PCRE2. What the two read differently is rewritten:
//
//   ^ $          ends of lines in Oniguruma: (?m) goes in front of the pattern
//   (?m)         . matches line ends: (?s) in PCRE2
//   \s \w \b     White_Space; Alphabetic, M, Nd and Pc in Oniguruma. PCRE2's \s has U+180E too, its
//   \S \W \B     \w all of N and no marks
//   \h \H        hexadecimal digits in Oniguruma, horizontal white space in PCRE2
//   \v           one character in Oniguruma, vertical white space in PCRE2
//   \uHHHH       a character; not known to PCRE2
//   \p{Han}      characters of the script in Oniguruma, of the script's extensions in PCRE2
//   \w           outside of a class also the superscripts and fractions of Latin-1, by Oniguruma's
//                tables
//   \p{Alpha}    POSIX classes, by Unicode, as are [:alpha:] and [:^alpha:]
//   [..]         vocab_hf_class.c
//   {,n}         0 to n times
//
// Rare differences are errors: intervals followed by + or ? ({1,3}+ repeats in Oniguruma and is
// possessive in PCRE2), options that begin inside a group, \X and others that depend on what a
// character or a line is.
#include <string.h>

#include "format/vocab/read/hf/vocab_hf_pattern.h"

// One member that stands for itself needs no brackets.
static bool is_single(fxi_str s)
{
    if (s.n < 2 || *s.p != '\\') return false;
    const char *close = memchr(s.p, '}', s.n);
    return s.n == 2 || (close ? close + 1 == s.p + s.n : s.n == 4);
}

static void put_escape(fxi_hf_pattern *w)
{
    static const char word[] = "[" FXI_HF_WORD_ALONE "]";
    const char letter = w->p < w->end ? *w->p : 0;
    if (letter == 'b' || letter == 'B') {
        const bool at = letter == 'b';
        w->p++;
        fxi_hf_put_text(w, &w->out, "(?:(?<=");
        fxi_hf_put_text(w, &w->out, word);
        fxi_hf_put_text(w, &w->out, at ? ")(?!" : ")(?=");
        fxi_hf_put_text(w, &w->out, word);
        fxi_hf_put_text(w, &w->out, ")|(?<!");
        fxi_hf_put_text(w, &w->out, word);
        fxi_hf_put_text(w, &w->out, at ? ")(?=" : ")(?!");
        fxi_hf_put_text(w, &w->out, word);
        fxi_hf_put_text(w, &w->out, "))");
        return;
    }
    const fxi_hf_item item = fxi_hf_read_escape(w);
    const bool bare = !item.but && is_single(item.text);
    if (!bare) fxi_hf_put_text(w, &w->out, item.but ? "[^" : "[");
    fxi_hf_put(w, &w->out, item.text.p, item.text.n);
    if (!bare) fxi_hf_put_text(w, &w->out, "]");
}

//
// Outside of classes
//

// Options as in (?i) or (?m-x:..); w->p is past "(?".
static void put_options(fxi_hf_pattern *w)
{
    const size_t at = (size_t)(w->p - w->begin) - 2;
    size_t n = 0;
    while (w->p + n < w->end && w->p[n] && strchr("imx-", w->p[n])) n++;
    if (!n || w->p + n == w->end || !strchr(":)", w->p[n])) return;
    if (w->p[n] == ')' && at && w->p[-3] != '(')
        fxi_hf_refuse(w, "options that begin inside a group are not supported");
    for (; n; n--, w->p++) fxi_hf_put_text(w, &w->out, *w->p == 'm' ? "s" : (char[]){*w->p, 0});
}

static bool is_digit(const fxi_hf_pattern *w, const char *p)
{
    return p < w->end && *p >= '0' && *p <= '9';
}

// Whether an interval of one number ends before w->p: in Ruby's syntax it may be optional.
static bool is_count(const fxi_hf_pattern *w)
{
    const char *p = w->p - 1; // the brace
    while (p > w->begin && is_digit(w, p - 1)) p--;
    return p < w->p - 1 && p > w->begin && p[-1] == '{';
}

static void put_outside(fxi_hf_pattern *w, char c)
{
    const char next = w->p < w->end ? *w->p : 0;
    if (c == '}' && (next == '+' || (next == '?' && is_count(w))))
        fxi_hf_refuse(w, "'+' or '?' after an interval is not supported");
    fxi_hf_put(w, &w->out, &c, 1);
    if (c == '{' && next == ',' && is_digit(w, w->p + 1)) fxi_hf_put_text(w, &w->out, "0");
    if (c != '(' || next != '?') return;
    fxi_hf_put(w, &w->out, w->p++, 1);
    if (w->p < w->end && *w->p == '~') fxi_hf_refuse(w, "(?~ is not supported");
    put_options(w);
}

static void rewrite_pattern(fxi_hf_pattern *w)
{
    fxi_hf_put_text(w, &w->out, "(?m)");
    while (w->p < w->end && !w->bad) {
        const char c = *w->p++;
        if (c == '\\')
            put_escape(w);
        else if (c == '[')
            fxi_hf_put_class(w);
        else
            put_outside(w, c);
    }
}

// Every ASCII character that is neither letter nor digit may be escaped.
static void quote_literal(fxi_hf_pattern *w)
{
    for (; w->p < w->end; w->p++) {
        const unsigned char c = (unsigned char)*w->p;
        const bool plain =
            c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!plain) fxi_hf_put_text(w, &w->out, "\\");
        fxi_hf_put(w, &w->out, w->p, 1);
    }
}

static fx_status finish_pattern(fxi_hf *h, fxi_hf_pattern *w, const char *path, fxi_str *out)
{
    fx_status st = FX_OK;
    if (w->bad && !w->short_memory)
        st = fxi_hf_fail(h, path, "%s", w->bad);
    else if (w->short_memory || !fxi_spec_str(h->s, w->out.p, w->out.n, out))
        st = fxi_hf_fail_memory(h);
    fxi_buf_free(&w->out);
    fxi_buf_free(&w->item);
    return st;
}

fx_status fxi_hf_read_pattern(fxi_hf *h, const json_t *pattern, const char *path, bool *literal,
                              fxi_str *out)
{
    fxi_str regex;
    FX_TRY(fxi_hf_get_str(h, pattern, path, "Regex", &regex));
    FX_TRY(fxi_hf_get_str(h, pattern, path, "String", out));
    *literal = out->p;
    if (!regex.p == !out->p) return fxi_hf_fail(h, path, "neither a String nor a Regex");
    if (!regex.n && !out->n) return fxi_hf_fail(h, path, "empty");
    if (*literal) return FX_OK;
    fxi_hf_pattern w = {.begin = regex.p, .p = regex.p, .end = regex.p + regex.n};
    rewrite_pattern(&w);
    return finish_pattern(h, &w, path, out);
}

fx_status fxi_hf_quote(fxi_hf *h, const char *path, fxi_str text, fxi_str *out)
{
    fxi_hf_pattern w = {.begin = text.p, .p = text.p, .end = text.p + text.n};
    quote_literal(&w);
    return finish_pattern(h, &w, path, out);
}

fx_status fxi_hf_read_quoted_pattern(fxi_hf *h, const json_t *pattern, const char *path,
                                     fxi_str *out)
{
    bool literal;
    FX_TRY(fxi_hf_read_pattern(h, pattern, path, &literal, out));
    return literal ? fxi_hf_quote(h, path, *out, out) : FX_OK;
}
