// vocab_hf_regex.c - rewrites patterns of tokenizer.json, made for Oniguruma (Ruby's syntax), for
// PCRE2. What the two read differently is rewritten:
//
//   ^ $      ends of lines in Oniguruma: (?m) goes in front of the pattern
//   \s \w    White_Space; Alphabetic, M, Nd and Pc in Oniguruma. PCRE2's \s has U+180E too, its
//   \S \W    \w all of N and no marks
//   \h \H    hexadecimal digits in Oniguruma, horizontal white space in PCRE2
//   \v       one character in Oniguruma, vertical white space in PCRE2
//   \p{Han}  characters of the script in Oniguruma, of the script's extensions in PCRE2
//   [a[bc]]  a union of classes in Oniguruma, a bracket in PCRE2
//
// Rare differences are errors: intervals followed by + ({1,3}+ repeats in Oniguruma and is
// possessive in PCRE2), complements inside classes, intersections (&&), POSIX classes, \b and
// others that depend on what a word or a line is.
#include <string.h>

#include "format/vocab/read/hf/vocab_hf.h"

typedef struct regex_writer {
    const char *p, *end;
    fxi_buf out;
    unsigned in_class; // how deep
    const char *bad;
    bool short_memory;
} regex_writer;

static void put_pattern(regex_writer *w, const char *text, size_t n)
{
    if (!fxi_buf_add(&w->out, text, n)) w->short_memory = true;
}

static void put_text(regex_writer *w, const char *text)
{
    put_pattern(w, text, strlen(text));
}

// A class; `inside` goes between its brackets.
static void put_class(regex_writer *w, const char *inside)
{
    if (!w->in_class) put_text(w, "[");
    put_text(w, inside);
    if (!w->in_class) put_text(w, "]");
}

// The complement of a class, which PCRE2 cannot express inside another class.
static void put_complement(regex_writer *w, const char *inside)
{
    if (w->in_class) w->bad = "\\W, \\H inside a class are not supported";
    put_text(w, "[^");
    put_text(w, inside);
    put_text(w, "]");
}

#define HEX "0-9A-Fa-f"

static bool is_script(const char *name, size_t n)
{
    static const char *const scripts[] = {
        "Arabic",    "Armenian", "Bengali", "Cyrillic", "Devanagari", "Georgian",
        "Greek",     "Gujarati", "Hangul",  "Han",      "Hebrew",     "Hiragana",
        "Kannada",   "Katakana", "Khmer",   "Lao",      "Latin",      "Malayalam",
        "Mongolian", "Myanmar",  "Tamil",   "Telugu",   "Thai",       "Tibetan",
    };
    for (size_t i = 0; i < sizeof scripts / sizeof *scripts; i++)
        if (fxi_str_is((fxi_str){name, n}, scripts[i])) return true;
    return false;
}

// \p{..} or \P{..}; w->p is past the letter.
static void put_property(regex_writer *w, char letter)
{
    const char *close =
        w->p < w->end && *w->p == '{' ? memchr(w->p, '}', (size_t)(w->end - w->p)) : NULL;
    const char head[] = {'\\', letter};
    put_pattern(w, head, 2);
    if (!close) return;
    const char *name = w->p + 1;
    const bool not = *name == '^';
    name += not ;
    put_text(w, not ? "{^" : "{");
    if (is_script(name, (size_t)(close - name))) put_text(w, "sc:");
    put_pattern(w, name, (size_t)(close + 1 - name));
    w->p = close + 1;
}

static void put_escape(regex_writer *w)
{
    static const char refused[] = "bBGKNORXyY";
    const char letter = w->p < w->end ? *w->p++ : 0;
    if (letter && strchr(refused, letter))
        w->bad = "\\b, \\B, \\R, \\X and the like are not supported";
    const char same[] = {'\\', letter};
    switch (letter) {
    case 0: w->bad = "it ends with a backslash"; break;
    case 's': put_text(w, "\\p{White_Space}"); break;
    case 'S': put_text(w, "\\P{White_Space}"); break;
    case 'w': put_class(w, FXI_HF_WORD); break;
    case 'W': put_complement(w, FXI_HF_WORD); break;
    case 'h': put_class(w, HEX); break;
    case 'H': put_complement(w, HEX); break;
    case 'v': put_text(w, "\\x0B"); break;
    case 'p':
    case 'P': put_property(w, letter); break;
    default: put_pattern(w, same, 2);
    }
}

static void put_in_class(regex_writer *w, char c)
{
    if (c == '[' && w->p < w->end && *w->p == ':') w->bad = "a POSIX class is not supported";
    if (c == '[' && w->p < w->end && (*w->p == '^' || *w->p == ']'))
        w->bad = "the complement of a class inside a class is not supported";
    if (c == '&' && w->p < w->end && *w->p == '&') w->bad = "an intersection (&&) is not supported";
    if (c == '[') w->in_class++;
    if (c == ']') w->in_class--;
    if ((c == '[' || c == ']') && w->in_class) return; // an inner class: only its members stay
    put_pattern(w, &c, 1);
}

static void put_outside(regex_writer *w, char c)
{
    if (c == '}' && w->p < w->end && *w->p == '+')
        w->bad = "'+' after an interval is not supported";
    put_pattern(w, &c, 1);
    if (c != '[') return;
    w->in_class = 1;
    if (w->p < w->end && *w->p == '^') put_pattern(w, w->p++, 1);
    if (w->p < w->end && *w->p == ']') w->bad = "a class that begins with ']' is not supported";
}

static void rewrite_pattern(regex_writer *w)
{
    put_text(w, "(?m)");
    while (w->p < w->end && !w->bad) {
        const char c = *w->p++;
        if (c == '\\')
            put_escape(w);
        else if (w->in_class)
            put_in_class(w, c);
        else
            put_outside(w, c);
    }
}

// Every ASCII character that is neither letter nor digit may be escaped.
static void quote_literal(regex_writer *w)
{
    for (; w->p < w->end; w->p++) {
        const unsigned char c = (unsigned char)*w->p;
        const bool plain =
            c >= 0x80 || (c >= '0' && c <= '9') || (c >= 'A' && c <= 'Z') || (c >= 'a' && c <= 'z');
        if (!plain) put_text(w, "\\");
        put_pattern(w, w->p, 1);
    }
}

static fx_status finish_pattern(fxi_hf *h, regex_writer *w, const char *path, fxi_str *out)
{
    fx_status st = FX_OK;
    if (w->bad)
        st = fxi_hf_fail(h, path, "%s", w->bad);
    else if (w->short_memory || !fxi_spec_str(h->s, w->out.p, w->out.n, out))
        st = fxi_hf_fail_memory(h);
    fxi_buf_free(&w->out);
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
    regex_writer w = {.p = regex.p, .end = regex.p + regex.n};
    rewrite_pattern(&w);
    return finish_pattern(h, &w, path, out);
}

fx_status fxi_hf_read_quoted_pattern(fxi_hf *h, const json_t *pattern, const char *path,
                                     fxi_str *out)
{
    bool literal;
    FX_TRY(fxi_hf_read_pattern(h, pattern, path, &literal, out));
    if (!literal) return FX_OK;
    regex_writer w = {.p = out->p, .end = out->p + out->n};
    quote_literal(&w);
    return finish_pattern(h, &w, path, out);
}
