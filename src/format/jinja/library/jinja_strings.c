// jinja_strings.c - string operations that filters and methods share, as in Python's str.
#include <string.h>

#include "format/jinja/library/jinja_library.h"
#include "format/jinja/tree/jinja_str.h"

// ---- splitting ----------------------------------------------------------------------------------

typedef struct text_pieces { // strings found so far
    fxi_jval *v;
    size_t n, cap;
} text_pieces;

static fx_status add_piece(fxi_jrun *r, text_pieces *p, const fxi_jstr *s, size_t from, size_t to)
{
    if (p->n == p->cap) {
        fxi_jval *more;
        const size_t cap = 2 * p->cap + 8;
        FX_TRY(fxi_jrun_take(r, cap * sizeof *more, &more));
        if (p->n) memcpy(more, p->v, p->n * sizeof *more);
        p->v = more;
        p->cap = cap;
    }
    FX_TRY(fxi_jrun_work(r, 0));
    return fxi_jstr_part(r, s, from, to - from, &p->v[p->n++]);
}

static size_t skip_space_at(const fxi_jstr *s, size_t at)
{
    fxi_jstr rest = {.p = s->p + at, .n = s->n - at};
    return s->n - fxi_jstr_strip(&rest, NULL, true, false).n;
}

static size_t word_end(const fxi_jstr *s, size_t at)
{
    size_t n;
    while (at < s->n && !fxi_jchar_is_space(fxi_jstr_char_at(s, at, &n))) at += n;
    return at;
}

static fx_status split_words(fxi_jrun *r, const fxi_jstr *s, uint64_t most, text_pieces *p)
{
    for (size_t at = skip_space_at(s, 0); at < s->n; at = skip_space_at(s, at)) {
        size_t end = p->n < most ? word_end(s, at) : s->n;
        FX_TRY(add_piece(r, p, s, at, end));
        at = end;
    }
    return FX_OK;
}

static size_t word_begin(const fxi_jstr *s, size_t end)
{
    while (end) {
        size_t at = end - 1, n;
        while ((s->p[at] & 0xC0) == 0x80) at--;
        if (fxi_jchar_is_space(fxi_jstr_char_at(s, at, &n))) break;
        end = at;
    }
    return end;
}

static fx_status rsplit_words(fxi_jrun *r, const fxi_jstr *s, uint64_t most, text_pieces *p)
{
    fxi_jstr left = *s;
    while (left = fxi_jstr_strip(&left, NULL, false, true), left.n) {
        size_t begin = p->n < most ? word_begin(&left, left.n) : 0;
        FX_TRY(add_piece(r, p, s, begin, left.n));
        left.n = begin;
    }
    return FX_OK;
}

static fx_status split_by(fxi_jrun *r, const fxi_jstr *s, const fxi_jstr *by, uint64_t most,
                          text_pieces *p)
{
    size_t from = 0, at;
    while (p->n < most && (at = fxi_jstr_find(s, by, from, s->n)) != SIZE_MAX) {
        FX_TRY(add_piece(r, p, s, from, at));
        from = at + by->n;
    }
    return add_piece(r, p, s, from, s->n);
}

static fx_status rsplit_by(fxi_jrun *r, const fxi_jstr *s, const fxi_jstr *by, uint64_t most,
                           text_pieces *p)
{
    size_t to = s->n, at;
    while (p->n < most && (at = fxi_jstr_rfind(s, by, 0, to)) != SIZE_MAX) {
        FX_TRY(add_piece(r, p, s, at + by->n, to));
        to = at;
    }
    return add_piece(r, p, s, 0, to);
}

static void reverse_pieces(text_pieces *p)
{
    for (size_t i = 0; i < p->n / 2; i++) {
        fxi_jval v = p->v[i];
        p->v[i] = p->v[p->n - 1 - i];
        p->v[p->n - 1 - i] = v;
    }
}

fx_status fxi_jstr_split(fxi_jrun *r, const fxi_jstr *s, const fxi_jstr *by, uint64_t most,
                         fxi_jseq *out)
{
    text_pieces p = {0};
    FX_TRY(fxi_jrun_work_chars(r, s->n, 0));
    FX_TRY(by ? split_by(r, s, by, most, &p) : split_words(r, s, most, &p));
    *out = (fxi_jseq){p.v, p.n};
    return FX_OK;
}

fx_status fxi_jstr_rsplit(fxi_jrun *r, const fxi_jstr *s, const fxi_jstr *by, uint64_t most,
                          fxi_jseq *out)
{
    text_pieces p = {0};
    FX_TRY(fxi_jrun_work_chars(r, s->n, by ? by->n : 0));
    FX_TRY(by ? rsplit_by(r, s, by, most, &p) : rsplit_words(r, s, most, &p));
    reverse_pieces(&p);
    *out = (fxi_jseq){p.v, p.n};
    return FX_OK;
}

static bool ends_line(uint32_t c)
{
    return (c >= '\n' && c <= '\r') || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 ||
           c == 0x2029;
}

fx_status fxi_jstr_lines(fxi_jrun *r, const fxi_jstr *s, bool keep_ends, fxi_jseq *out)
{
    text_pieces p = {0};
    size_t from = 0, n;
    FX_TRY(fxi_jrun_work_chars(r, s->n, 0));
    for (size_t at = 0; at < s->n; at += n) {
        if (!ends_line(fxi_jstr_char_at(s, at, &n))) continue;
        if (s->p[at] == '\r' && at + 1 < s->n && s->p[at + 1] == '\n') n = 2;
        FX_TRY(add_piece(r, &p, s, from, keep_ends ? at + n : at));
        from = at + n;
    }
    if (from < s->n) FX_TRY(add_piece(r, &p, s, from, s->n));
    *out = (fxi_jseq){p.v, p.n};
    return FX_OK;
}

// ---- replacing ----------------------------------------------------------------------------------

// An empty text occurs before every character and after the last one.
static fx_status insert_between(fxi_jrun *r, const fxi_jstr *s, const fxi_jstr *by, uint64_t most,
                                fxi_jout *o)
{
    size_t at = 0, n;
    for (; most && at < s->n; most--, at += n) {
        fxi_jstr_char_at(s, at, &n);
        FX_TRY(fxi_jout_add(r, o, by));
        FX_TRY(fxi_jout_add_part(r, o, s, at, n));
    }
    if (most) FX_TRY(fxi_jout_add(r, o, by));
    return fxi_jout_add_part(r, o, s, at, s->n - at);
}

fx_status fxi_jstr_replace(fxi_jrun *r, const fxi_jstr *s, const fxi_jstr *old, const fxi_jstr *by,
                           uint64_t most, fxi_jval *out)
{
    fxi_jout o = {0};
    size_t from = 0, at;
    FX_TRY(fxi_jrun_work(r, 4 * s->n));
    if (!old->n) {
        FX_TRY(insert_between(r, s, by, most, &o));
        return fxi_jout_finish(r, &o, out);
    }
    for (; most && (at = fxi_jstr_find(s, old, from, s->n)) != SIZE_MAX; most--) {
        FX_TRY(fxi_jout_add_part(r, &o, s, from, at - from));
        FX_TRY(fxi_jout_add(r, &o, by));
        from = at + old->n;
    }
    *out = fxi_jval_str(s);
    if (!from) return FX_OK;
    FX_TRY(fxi_jout_add_part(r, &o, s, from, s->n - from));
    return fxi_jout_finish(r, &o, out);
}

// ---- case ---------------------------------------------------------------------------------------

fx_status fxi_jstr_recase(fxi_jrun *r, const fxi_jstr *s, char how, fxi_jval *out)
{
    fxi_jout o = {0};
    for (size_t at = 0, n; at < s->n; at += n) {
        uint32_t c = fxi_jstr_char_at(s, at, &n);
        FX_TRY(fxi_jout_add_cased(r, &o, c, how, fxi_jstr_owns(s, at, n)));
    }
    return fxi_jout_finish(r, &o, out);
}

fx_status fxi_jstr_capitalize(fxi_jrun *r, const fxi_jstr *s, fxi_jval *out)
{
    fxi_jout o = {0};
    for (size_t at = 0, n; at < s->n; at += n) {
        uint32_t c = fxi_jstr_char_at(s, at, &n);
        FX_TRY(fxi_jout_add_cased(r, &o, c, at ? 'l' : 't', fxi_jstr_owns(s, at, n)));
    }
    return fxi_jout_finish(r, &o, out);
}
