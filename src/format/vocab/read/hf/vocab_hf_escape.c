// vocab_hf_escape.c - the escapes of a pattern that stand for characters, as members of a PCRE2
// class, and the buffers that a pattern is written to.
#include <string.h>
#include <strings.h>

#include "format/vocab/read/hf/vocab_hf_pattern.h"

void fxi_hf_refuse(fxi_hf_pattern *w, const char *what)
{
    if (!w->bad) w->bad = what;
}

void fxi_hf_put(fxi_hf_pattern *w, fxi_buf *out, const char *text, size_t n)
{
    if (!fxi_buf_add(out, text, n)) w->short_memory = true;
}

void fxi_hf_put_text(fxi_hf_pattern *w, fxi_buf *out, const char *text)
{
    fxi_hf_put(w, out, text, strlen(text));
}

//
// Escapes
//

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

const char *fxi_hf_posix_class(const char *name, size_t n)
{
    static const char *const classes[][2] = {
        {"alnum", "\\p{Alphabetic}\\p{Nd}"},
        {"alpha", "\\p{Alphabetic}"},
        {"ascii", "\\x00-\\x7F"},
        {"blank", "\\p{Zs}\\t"},
        {"cntrl", "\\p{Cc}"},
        {"digit", "\\p{Nd}"},
        {"graph", "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}"},
        {"lower", "\\p{Lowercase}"},
        {"print", "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}\\p{Zs}"},
        {"punct", "\\p{P}\\p{S}"},
        {"space", "\\p{White_Space}"},
        {"upper", "\\p{Uppercase}"},
        {"word", FXI_HF_WORD},
        {"xdigit", FXI_HF_HEX},
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strlen(classes[i][0]) == n && !strncasecmp(name, classes[i][0], n))
            return classes[i][1];
    return NULL;
}

// \p{Punct} and \p{Word} are not [:punct:] and [:word:].
static const char *property_class(fxi_str name)
{
    static const char *const others[][2] = {{"punct", "\\p{P}"}, {"word", FXI_HF_WORD_ALONE}};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        if (strlen(others[i][0]) == name.n && !strncasecmp(name.p, others[i][0], name.n))
            return others[i][1];
    return fxi_hf_posix_class(name.p, name.n);
}

static fxi_hf_item plain_item(fxi_str text)
{
    return (fxi_hf_item){.text = text};
}

// \p{..} or \P{..}; w->p is past the letter.
static fxi_hf_item read_property(fxi_hf_pattern *w, char letter)
{
    const char *close =
        w->p < w->end && *w->p == '{' ? memchr(w->p, '}', (size_t)(w->end - w->p)) : NULL;
    fxi_buf_clear(&w->item);
    if (!close) {
        fxi_hf_put(w, &w->item, (const char[]){'\\', letter}, 2);
        return plain_item((fxi_str){w->item.p, w->item.n});
    }
    const bool but = w->p[1] == '^';
    const char *name = w->p + 1 + but;
    const size_t n = (size_t)(close - name);
    const char *posix = property_class((fxi_str){name, n});
    w->p = close + 1;
    if (posix && !is_script(name, n))
        return (fxi_hf_item){.text = fxi_str_of(posix), .but = but != (letter == 'P')};
    fxi_hf_put(w, &w->item, (const char[]){'\\', letter}, 2);
    fxi_hf_put_text(w, &w->item, but ? "{^" : "{");
    if (is_script(name, n)) fxi_hf_put_text(w, &w->item, "sc:");
    fxi_hf_put(w, &w->item, name, n + 1);
    return plain_item((fxi_str){w->item.p ? w->item.p : "", w->item.n});
}

// \uHHHH; w->p is past the letter.
static fxi_hf_item read_unicode(fxi_hf_pattern *w)
{
    size_t n = 0;
    while (n < 4 && w->p + n < w->end && w->p[n] && strchr("0123456789abcdefABCDEF", w->p[n])) n++;
    if (n < 4) fxi_hf_refuse(w, "\\u wants four hexadecimal digits");
    fxi_buf_clear(&w->item);
    fxi_hf_put_text(w, &w->item, "\\x{");
    fxi_hf_put(w, &w->item, w->p, n);
    fxi_hf_put_text(w, &w->item, "}");
    w->p += n;
    return plain_item((fxi_str){w->item.p ? w->item.p : "", w->item.n});
}

fxi_hf_item fxi_hf_read_escape(fxi_hf_pattern *w)
{
    static const char refused[] = "GKNORXyY";
    static const struct {
        char letter;
        const char *text;
        bool but;
    } known[] = {
        {'s', "\\p{White_Space}", false},
        {'S', "\\P{White_Space}", false},
        {'w', NULL, false},
        {'W', NULL, true},
        {'h', FXI_HF_HEX, false},
        {'H', FXI_HF_HEX, true},
        {'v', "\\x0B", false},
    };
    const char letter = w->p < w->end ? *w->p++ : 0;
    if (!letter) fxi_hf_refuse(w, "it ends with a backslash");
    if (letter && strchr(refused, letter))
        fxi_hf_refuse(w, "\\R, \\X, \\K and the like are not supported");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].letter == letter) {
            const char *word = w->depth ? FXI_HF_WORD : FXI_HF_WORD_ALONE;
            return (fxi_hf_item){.text = fxi_str_of(known[i].text ? known[i].text : word),
                                 .but = known[i].but};
        }
    if (letter == 'p' || letter == 'P') return read_property(w, letter);
    if (letter == 'u') return read_unicode(w);
    fxi_buf_clear(&w->item);
    fxi_hf_put(w, &w->item, (const char[]){'\\', letter}, 2);
    return plain_item((fxi_str){w->item.p ? w->item.p : "", w->item.n});
}
