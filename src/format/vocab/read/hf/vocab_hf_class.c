// vocab_hf_class.c - rewrites the classes of a pattern for PCRE2, which has neither classes inside
// classes nor intersections in brackets.
//
//   [a[bc]]        a union: the members of inner classes become members
//   [a[^b]\W]      complements inside a class: alternatives, (?:[a]|[^b]|[^..])
//   [a-z&&[^b]]    an intersection: a lookahead for each part but the last, (?:(?=[a-z])[^b])
//   [^a[^b]]       the complement of what brackets cannot say: (?:(?!..)(?s:.))
//
// Each of them matches exactly one character.
#include <string.h>

#include "format/vocab/read/hf/vocab_hf_pattern.h"

enum { MAX_DEPTH = 16 };

typedef struct char_class {
    fxi_buf parts;  // lookaheads of the parts before &&
    fxi_buf plain;  // members of the current part
    fxi_buf others; // its alternatives, each after a bar
    bool but, meets;
} char_class;

static void put_part(fxi_hf_pattern *w, const char_class *c, fxi_buf *out)
{
    if (!c->plain.n && !c->others.n) fxi_hf_refuse(w, "an empty class is not supported");
    if (c->others.n) fxi_hf_put_text(w, out, "(?:");
    if (c->plain.n) {
        fxi_hf_put_text(w, out, "[");
        fxi_hf_put(w, out, c->plain.p, c->plain.n);
        fxi_hf_put_text(w, out, "]");
    }
    if (!c->others.n) return;
    const size_t skip = c->plain.n ? 0 : 1; // the first bar
    fxi_hf_put(w, out, c->others.p + skip, c->others.n - skip);
    fxi_hf_put_text(w, out, ")");
}

static void end_part(fxi_hf_pattern *w, char_class *c)
{
    if (c->but) fxi_hf_refuse(w, "the complement of an intersection (&&) is not supported");
    c->meets = true;
    fxi_hf_put_text(w, &c->parts, "(?=");
    put_part(w, c, &c->parts);
    fxi_hf_put_text(w, &c->parts, ")");
    fxi_buf_clear(&c->plain);
    fxi_buf_clear(&c->others);
}

static void add_item(fxi_hf_pattern *w, char_class *c, fxi_hf_item item)
{
    fxi_buf *to = item.but ? &c->others : &c->plain;
    if (item.but) fxi_hf_put_text(w, to, "|[^");
    fxi_hf_put(w, to, item.text.p, item.text.n);
    if (item.but) fxi_hf_put_text(w, to, "]");
}

// [:name:] or [:^name:]; w->p is past the bracket. False: it is none.
static bool take_posix(fxi_hf_pattern *w, char_class *c)
{
    static const char close[] = ":]";
    if (w->p == w->end || *w->p != ':') return false;
    const char *name = w->p + 1, *end = memmem(name, (size_t)(w->end - name), close, 2);
    const bool but = name < w->end && *name == '^';
    name += but;
    const char *members = end && end > name ? fxi_hf_posix_class(name, (size_t)(end - name)) : NULL;
    if (!members) {
        fxi_hf_refuse(w, "a POSIX class of this name is not known");
        return true;
    }
    w->p = end + 2;
    add_item(w, c, (fxi_hf_item){.text = fxi_str_of(members), .but = but});
    return true;
}

static void free_class(char_class *c)
{
    fxi_buf_free(&c->parts);
    fxi_buf_free(&c->plain);
    fxi_buf_free(&c->others);
}

static bool is_plain_class(const char_class *c)
{
    return !c->but && !c->meets && !c->others.n;
}

// A whole class, as an expression that matches one character.
static void put_whole(fxi_hf_pattern *w, const char_class *c, fxi_buf *out)
{
    if (c->but && !c->others.n) {
        fxi_hf_put_text(w, out, "[^");
        fxi_hf_put(w, out, c->plain.p ? c->plain.p : "", c->plain.n);
        fxi_hf_put_text(w, out, "]");
        if (!c->plain.n) fxi_hf_refuse(w, "an empty class is not supported");
        return;
    }
    if (c->but) fxi_hf_put_text(w, out, "(?:(?!");
    if (c->meets) {
        fxi_hf_put_text(w, out, "(?:");
        fxi_hf_put(w, out, c->parts.p ? c->parts.p : "", c->parts.n);
    }
    put_part(w, c, out);
    if (c->meets) fxi_hf_put_text(w, out, ")");
    if (c->but) fxi_hf_put_text(w, out, ")(?s:.))");
}

static void read_class(fxi_hf_pattern *w, char_class *c);

static void take_inner(fxi_hf_pattern *w, char_class *c)
{
    char_class inner = {.but = false};
    read_class(w, &inner);
    if (is_plain_class(&inner)) {
        fxi_hf_put(w, &c->plain, inner.plain.p ? inner.plain.p : "", inner.plain.n);
    } else {
        fxi_hf_put_text(w, &c->others, "|");
        put_whole(w, &inner, &c->others);
    }
    free_class(&inner);
}

static void take_member(fxi_hf_pattern *w, char_class *c, char member)
{
    const bool literal = member == '^' && !c->plain.n;
    if (member == '\\') {
        add_item(w, c, fxi_hf_read_escape(w));
    } else if (member == '[') {
        if (!take_posix(w, c)) take_inner(w, c);
    } else if (member == '&' && w->p < w->end && *w->p == '&') {
        w->p++;
        end_part(w, c);
    } else {
        if (literal) fxi_hf_put_text(w, &c->plain, "\\");
        fxi_hf_put(w, &c->plain, &member, 1);
    }
}

// From after the bracket to the one that closes it.
static void read_class(fxi_hf_pattern *w, char_class *c)
{
    if (++w->depth > MAX_DEPTH) fxi_hf_refuse(w, "classes are too deep in each other");
    if (w->p < w->end && *w->p == '^') {
        c->but = true;
        w->p++;
    }
    if (w->p < w->end && *w->p == ']')
        fxi_hf_refuse(w, "a class that begins with ']' is not supported");
    while (!w->bad && w->p < w->end && *w->p != ']') take_member(w, c, *w->p++);
    if (!w->bad && w->p == w->end) fxi_hf_refuse(w, "a class is not closed");
    if (!w->bad) w->p++;
    w->depth--;
}

void fxi_hf_put_class(fxi_hf_pattern *w)
{
    char_class c = {.but = false};
    read_class(w, &c);
    put_whole(w, &c, &w->out);
    free_class(&c);
}
