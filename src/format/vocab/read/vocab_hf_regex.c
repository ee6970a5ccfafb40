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
//   {,n}         0 to n times
//
// Rare differences are errors: intervals followed by + or ? ({1,3}+ repeats in Oniguruma and is
// possessive in PCRE2), options that begin inside a group, \X and others that depend on what a
// character or a line is.
//
// PCRE2 has neither classes inside classes nor intersections in brackets. Each of these matches
// exactly one character:
//
//   [a[bc]]        a union: the members of inner classes become members
//   [a[^b]\W]      complements inside a class: alternatives, (?:[a]|[^b]|[^..])
//   [a-z&&[^b]]    an intersection: a lookahead for each part but the last, (?:(?=[a-z])[^b])
//   [^a[^b]]       the complement of what brackets cannot say: (?:(?!..)(?s:.))
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "format/vocab/read/vocab_hf.h"

// ---- writing a pattern --------------------------------------------------------------------------

#define HEX_DIGITS "0-9A-Fa-f"
#define WORD_ALONE FXI_HF_WORD "\\xB2\\xB3\\xB9\\xBC-\\xBE" // \w outside of a class

typedef struct pattern_writer {
    const char *begin, *p, *end; // the pattern; p: the next character
    fxi_buf out, item;           // what it becomes; the escape read last
    unsigned depth;              // nesting of classes
    const char *bad;             // NULL, or what is not supported
    bool short_memory;
} pattern_writer;

// Members of a PCRE2 class; but: all characters but these. Valid until the next is read.
typedef struct class_item {
    fxi_str text;
    bool but;
} class_item;

// Keeps the first of several reasons.
static void refuse_pattern(pattern_writer *w, const char *what)
{
    if (!w->bad) w->bad = what;
}

static void put_pattern(pattern_writer *w, fxi_buf *out, const char *text, size_t n)
{
    if (!fxi_buf_add(out, text, n)) w->short_memory = true;
}

static void put_pattern_text(pattern_writer *w, fxi_buf *out, const char *text)
{
    put_pattern(w, out, text, strlen(text));
}

// ---- escapes that stand for characters: as members of a PCRE2 class -----------------------------

// The members of a POSIX class; NULL: there is no such class. \p{Punct} and \p{Word} are not
// [:punct:] and [:word:].
static const char *posix_class(fxi_str name, bool is_property)
{
    static const struct {
        const char *name, *members, *as_property; // NULL: the same
    } classes[] = {
        {"alnum", "\\p{Alphabetic}\\p{Nd}", NULL},
        {"alpha", "\\p{Alphabetic}", NULL},
        {"ascii", "\\x00-\\x7F", NULL},
        {"blank", "\\p{Zs}\\t", NULL},
        {"cntrl", "\\p{Cc}", NULL},
        {"digit", "\\p{Nd}", NULL},
        {"graph", "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}", NULL},
        {"lower", "\\p{Lowercase}", NULL},
        {"print", "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}\\p{Zs}", NULL},
        {"punct", "\\p{P}\\p{S}", "\\p{P}"},
        {"space", "\\p{White_Space}", NULL},
        {"upper", "\\p{Uppercase}", NULL},
        {"word", FXI_HF_WORD, WORD_ALONE},
        {"xdigit", HEX_DIGITS, NULL},
    };
    for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
        if (strlen(classes[i].name) == name.n && !strncasecmp(name.p, classes[i].name, name.n))
            return is_property && classes[i].as_property ? classes[i].as_property
                                                         : classes[i].members;
    return NULL;
}

// What w->item holds now.
static class_item written_item(const pattern_writer *w)
{
    return (class_item){.text = {w->item.p ? w->item.p : "", w->item.n}};
}

// \p{..} or \P{..}; w->p is past the letter.
static class_item read_property(pattern_writer *w, char letter)
{
    static const char *const scripts[] = {
        "Arabic",    "Armenian", "Bengali", "Cyrillic", "Devanagari", "Georgian",
        "Greek",     "Gujarati", "Hangul",  "Han",      "Hebrew",     "Hiragana",
        "Kannada",   "Katakana", "Khmer",   "Lao",      "Latin",      "Malayalam",
        "Mongolian", "Myanmar",  "Tamil",   "Telugu",   "Thai",       "Tibetan",
    };
    const char *close =
        w->p < w->end && *w->p == '{' ? memchr(w->p, '}', (size_t)(w->end - w->p)) : NULL;
    fxi_buf_clear(&w->item);
    put_pattern(w, &w->item, (const char[]){'\\', letter}, 2);
    if (!close) return written_item(w);
    const bool but = w->p[1] == '^';
    const fxi_str name = {w->p + 1 + but, (size_t)(close - w->p) - 1 - but};
    const char *posix = posix_class(name, true);
    w->p = close + 1;
    if (posix) return (class_item){.text = fxi_str_of(posix), .but = but != (letter == 'P')};
    put_pattern_text(w, &w->item, but ? "{^" : "{");
    if (fxi_str_is_any(name, scripts, sizeof scripts / sizeof *scripts))
        put_pattern_text(w, &w->item, "sc:");
    put_pattern(w, &w->item, name.p, name.n + 1);
    return written_item(w);
}

// \uHHHH; w->p is past the letter.
static class_item read_code_escape(pattern_writer *w)
{
    size_t n = 0;
    while (n < 4 && w->p + n < w->end && fxi_hex_digit(w->p[n]) >= 0) n++;
    if (n < 4) refuse_pattern(w, "\\u needs four hexadecimal digits");
    fxi_buf_clear(&w->item);
    put_pattern_text(w, &w->item, "\\x{");
    put_pattern(w, &w->item, w->p, n);
    put_pattern_text(w, &w->item, "}");
    w->p += n;
    return written_item(w);
}

// An escape that stands for characters; w->p is past the backslash.
static class_item read_char_escape(pattern_writer *w)
{
    static const char refused[] = "GKNORXyY";
    const char *word = w->depth ? FXI_HF_WORD : WORD_ALONE;
    const struct {
        char letter;
        const char *text;
        bool but;
    } known[] = {
        {'s', "\\p{White_Space}", false},
        {'S', "\\P{White_Space}", false},
        {'w', word, false},
        {'W', word, true},
        {'h', HEX_DIGITS, false},
        {'H', HEX_DIGITS, true},
        {'v', "\\x0B", false},
    };
    const char letter = w->p < w->end ? *w->p++ : 0;
    if (!letter) refuse_pattern(w, "the pattern ends with a backslash");
    if (letter && strchr(refused, letter))
        refuse_pattern(w, "\\R, \\X, \\K and the like are not supported");
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (known[i].letter == letter)
            return (class_item){.text = fxi_str_of(known[i].text), .but = known[i].but};
    if (letter == 'p' || letter == 'P') return read_property(w, letter);
    if (letter == 'u') return read_code_escape(w);
    fxi_buf_clear(&w->item);
    put_pattern(w, &w->item, (const char[]){'\\', letter}, 2);
    return written_item(w);
}

// ---- classes ------------------------------------------------------------------------------------

enum { MAX_DEPTH = 16 };

typedef struct char_class {
    fxi_buf parts;  // lookaheads of the parts before &&
    fxi_buf plain;  // members of the current part
    fxi_buf others; // its alternatives, each after a bar
    bool but, meets;
} char_class;

static void put_part(pattern_writer *w, const char_class *c, fxi_buf *out)
{
    if (!c->plain.n && !c->others.n) refuse_pattern(w, "an empty class is not supported");
    if (c->others.n) put_pattern_text(w, out, "(?:");
    if (c->plain.n) {
        put_pattern_text(w, out, "[");
        put_pattern(w, out, c->plain.p, c->plain.n);
        put_pattern_text(w, out, "]");
    }
    if (!c->others.n) return;
    const size_t skip = c->plain.n ? 0 : 1; // the first bar
    put_pattern(w, out, c->others.p + skip, c->others.n - skip);
    put_pattern_text(w, out, ")");
}

static void add_item(pattern_writer *w, char_class *c, class_item item)
{
    fxi_buf *to = item.but ? &c->others : &c->plain;
    if (item.but) put_pattern_text(w, to, "|[^");
    put_pattern(w, to, item.text.p, item.text.n);
    if (item.but) put_pattern_text(w, to, "]");
}

// [:name:] or [:^name:]; w->p is past the bracket. False: it is none.
static bool take_posix(pattern_writer *w, char_class *c)
{
    static const char close[] = ":]";
    if (w->p == w->end || *w->p != ':') return false;
    const char *name = w->p + 1, *end = memmem(name, (size_t)(w->end - name), close, 2);
    const bool but = name < w->end && *name == '^';
    name += but;
    const char *members =
        end && end > name ? posix_class((fxi_str){name, (size_t)(end - name)}, false) : NULL;
    if (!members) {
        refuse_pattern(w, "unknown POSIX class");
        return true;
    }
    w->p = end + 2;
    add_item(w, c, (class_item){.text = fxi_str_of(members), .but = but});
    return true;
}

static void free_class(char_class *c)
{
    fxi_buf_free(&c->parts);
    fxi_buf_free(&c->plain);
    fxi_buf_free(&c->others);
}

// A whole class, as an expression that matches one character.
static void put_whole(pattern_writer *w, const char_class *c, fxi_buf *out)
{
    if (c->but && !c->others.n) {
        put_pattern_text(w, out, "[^");
        put_pattern(w, out, c->plain.p, c->plain.n);
        put_pattern_text(w, out, "]");
        if (!c->plain.n) refuse_pattern(w, "an empty class is not supported");
        return;
    }
    if (c->but) put_pattern_text(w, out, "(?:(?!");
    if (c->meets) {
        put_pattern_text(w, out, "(?:");
        put_pattern(w, out, c->parts.p, c->parts.n);
    }
    put_part(w, c, out);
    if (c->meets) put_pattern_text(w, out, ")");
    if (c->but) put_pattern_text(w, out, ")(?s:.))");
}

static void read_class(pattern_writer *w, char_class *c);

static void take_member(pattern_writer *w, char_class *c, char member)
{
    const bool literal = member == '^' && !c->plain.n;
    if (member == '\\') {
        add_item(w, c, read_char_escape(w));
    } else if (member == '[') {
        if (!take_posix(w, c)) {
            char_class inner = {.but = false};
            read_class(w, &inner);
            if (!inner.but && !inner.meets && !inner.others.n) {
                put_pattern(w, &c->plain, inner.plain.p, inner.plain.n);
            } else {
                put_pattern_text(w, &c->others, "|");
                put_whole(w, &inner, &c->others);
            }
            free_class(&inner);
        }
    } else if (member == '&' && w->p < w->end && *w->p == '&') {
        w->p++;
        if (c->but) refuse_pattern(w, "the complement of an intersection (&&) is not supported");
        c->meets = true;
        put_pattern_text(w, &c->parts, "(?=");
        put_part(w, c, &c->parts);
        put_pattern_text(w, &c->parts, ")");
        fxi_buf_clear(&c->plain);
        fxi_buf_clear(&c->others);
    } else {
        if (literal) put_pattern_text(w, &c->plain, "\\");
        put_pattern(w, &c->plain, &member, 1);
    }
}

// From after the bracket to the one that closes it.
static void read_class(pattern_writer *w, char_class *c)
{
    if (++w->depth > MAX_DEPTH) refuse_pattern(w, "character classes nest too deeply");
    if (w->p < w->end && *w->p == '^') {
        c->but = true;
        w->p++;
    }
    if (w->p < w->end && *w->p == ']')
        refuse_pattern(w, "a class that begins with ']' is not supported");
    while (!w->bad && w->p < w->end && *w->p != ']') take_member(w, c, *w->p++);
    if (!w->bad && w->p == w->end) refuse_pattern(w, "unterminated character class");
    if (!w->bad) w->p++;
    w->depth--;
}

// ---- patterns -----------------------------------------------------------------------------------

// One member that stands for itself needs no brackets.
static bool is_single(fxi_str s)
{
    if (s.n < 2 || *s.p != '\\') return false;
    const char *close = memchr(s.p, '}', s.n);
    return s.n == 2 || (close ? close + 1 == s.p + s.n : s.n == 4);
}

static void put_escape(pattern_writer *w)
{
#define IN_WORD "[" WORD_ALONE "]"
    static const char edge[] =
        "(?:(?<=" IN_WORD ")(?!" IN_WORD ")|(?<!" IN_WORD ")(?=" IN_WORD "))";
    static const char no_edge[] =
        "(?:(?<=" IN_WORD ")(?=" IN_WORD ")|(?<!" IN_WORD ")(?!" IN_WORD "))";
#undef IN_WORD
    const char letter = w->p < w->end ? *w->p : 0;
    if (letter == 'b' || letter == 'B') {
        w->p++;
        return put_pattern_text(w, &w->out, letter == 'b' ? edge : no_edge);
    }
    const class_item item = read_char_escape(w);
    const bool bare = !item.but && is_single(item.text);
    if (!bare) put_pattern_text(w, &w->out, item.but ? "[^" : "[");
    put_pattern(w, &w->out, item.text.p, item.text.n);
    if (!bare) put_pattern_text(w, &w->out, "]");
}

// ---- outside of classes -------------------------------------------------------------------------

// Options as in (?i) or (?m-x:..); w->p is past "(?".
static void put_options(pattern_writer *w)
{
    const size_t at = (size_t)(w->p - w->begin) - 2;
    size_t n = 0;
    while (w->p + n < w->end && w->p[n] && strchr("imx-", w->p[n])) n++;
    if (!n || w->p + n == w->end || !strchr(":)", w->p[n])) return;
    if (w->p[n] == ')' && at && w->p[-3] != '(')
        refuse_pattern(w, "options that begin inside a group are not supported");
    for (; n; n--, w->p++) put_pattern_text(w, &w->out, *w->p == 'm' ? "s" : (char[]){*w->p, 0});
}

static bool is_digit(const pattern_writer *w, const char *p)
{
    return p < w->end && *p >= '0' && *p <= '9';
}

// Whether an interval of one number ends before w->p: in Ruby's syntax it may be optional.
static bool is_count(const pattern_writer *w)
{
    const char *p = w->p - 1; // the brace
    while (p > w->begin && is_digit(w, p - 1)) p--;
    return p < w->p - 1 && p > w->begin && p[-1] == '{';
}

static void put_outside(pattern_writer *w, char c)
{
    const char next = w->p < w->end ? *w->p : 0;
    if (c == '}' && (next == '+' || (next == '?' && is_count(w))))
        refuse_pattern(w, "'+' or '?' after an interval is not supported");
    put_pattern(w, &w->out, &c, 1);
    if (c == '{' && next == ',' && is_digit(w, w->p + 1)) put_pattern_text(w, &w->out, "0");
    if (c != '(' || next != '?') return;
    put_pattern(w, &w->out, w->p++, 1);
    if (w->p < w->end && *w->p == '~') refuse_pattern(w, "(?~ is not supported");
    put_options(w);
}

static void rewrite_pattern(pattern_writer *w)
{
    put_pattern_text(w, &w->out, "(?m)");
    while (w->p < w->end && !w->bad) {
        const char c = *w->p++;
        if (c == '[') {
            char_class whole = {.but = false};
            read_class(w, &whole);
            put_whole(w, &whole, &w->out);
            free_class(&whole);
        } else if (c == '\\') {
            put_escape(w);
        } else {
            put_outside(w, c);
        }
    }
}

// at: the pattern's place.
static fx_status finish_pattern(fxi_hf *h, pattern_writer *w, const fxi_members *at, fxi_str *out)
{
    fx_status st = FX_OK;
    if (w->bad && !w->short_memory)
        st = fxi_members_fail(at, NULL, "%s", w->bad);
    else if (w->short_memory || !fxi_spec_str(h->s, w->out.p, w->out.n, out))
        st = fxi_fail_memory(h->err);
    fxi_buf_free(&w->out);
    fxi_buf_free(&w->item);
    return st;
}

fx_status fxi_hf_read_pattern(fxi_hf *h, bool *literal, fxi_str *out)
{
    const fxi_members at = fxi_members_part(&h->at, "pattern");
    fxi_str regex = {0};
    *out = (fxi_str){0};
    FX_TRY(fxi_members_str(&at, "Regex", false, &regex));
    FX_TRY(fxi_members_str(&at, "String", false, out));
    *literal = out->p;
    if (!regex.p == !out->p) return fxi_members_fail(&at, NULL, "neither a String nor a Regex");
    if (!regex.n && !out->n) return fxi_members_fail(&at, NULL, "empty");
    if (*literal) return FX_OK;
    pattern_writer w = {.begin = regex.p, .p = regex.p, .end = regex.p + regex.n};
    rewrite_pattern(&w);
    return finish_pattern(h, &w, &at, out);
}

fx_status fxi_hf_quote(fxi_hf *h, fxi_str text, fxi_str *out)
{
    pattern_writer w = {.begin = text.p, .p = text.p, .end = text.p + text.n};
    // Every ASCII character that is neither letter nor digit may be escaped.
    for (; w.p < w.end; w.p++) {
        if ((unsigned char)*w.p < 0x80 && !isalnum((unsigned char)*w.p))
            put_pattern_text(&w, &w.out, "\\");
        put_pattern(&w, &w.out, w.p, 1);
    }
    return finish_pattern(h, &w, &h->at, out);
}
