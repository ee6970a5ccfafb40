// jinja_strings.c - operations on strings that filters and methods share, and the methods of
// strings and dictionaries, as Python's. Positions count characters.
#include <string.h>

#include "base/text/utf8.h"
#include "format/jinja/jinja_run.h"

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

static fx_status split_str(fxi_jrun *r, const fxi_jstr *s, const fxi_jstr *by, uint64_t most,
                           fxi_jseq *out)
{
    text_pieces p = {0};
    FX_TRY(fxi_jrun_work_chars(r, s->n, 0));
    FX_TRY(by ? split_by(r, s, by, most, &p) : split_words(r, s, most, &p));
    *out = (fxi_jseq){p.v, p.n};
    return FX_OK;
}

static fx_status rsplit_str(fxi_jrun *r, const fxi_jstr *s, const fxi_jstr *by, uint64_t most,
                            fxi_jseq *out)
{
    text_pieces p = {0};
    FX_TRY(fxi_jrun_work_chars(r, s->n, by ? by->n : 0));
    FX_TRY(by ? rsplit_by(r, s, by, most, &p) : rsplit_words(r, s, most, &p));
    for (size_t i = 0; i < p.n / 2; i++) {
        fxi_jval v = p.v[i];
        p.v[i] = p.v[p.n - 1 - i];
        p.v[p.n - 1 - i] = v;
    }
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

fx_status fxi_jstr_recase(fxi_jrun *r, const fxi_jstr *s, char first, char how, fxi_jval *out)
{
    fxi_jout o = {0};
    for (size_t at = 0, n; at < s->n; at += n) {
        uint32_t c = fxi_jstr_char_at(s, at, &n);
        FX_TRY(fxi_jout_add_cased(r, &o, c, at ? how : first, fxi_jstr_owns(s, at, n)));
    }
    return fxi_jout_finish(r, &o, out);
}

#define METHOD(name) static fx_status name(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)

// ---- methods: searching -------------------------------------------------------------------------

// Bytes from .. to of the string, given in characters by arguments i and i + 1.
static fx_status search_window(fxi_jrun *r, const fxi_jcall *c, int i, size_t *from, size_t *to)
{
    const fxi_jstr *s = c->self.s;
    int64_t bound[2] = {0, INT64_MAX};
    FX_TRY(fxi_jrun_work(r, 4 * s->n));
    *from = 0;
    *to = s->n;
    if (!fxi_jcall_given(c, i) && !fxi_jcall_given(c, i + 1)) return FX_OK;
    const int64_t n = (int64_t)fxi_utf8_count(s->p, s->n);
    for (int k = 0; k < 2; k++) {
        if (fxi_jcall_given(c, i + k)) FX_TRY(fxi_jcall_int(r, c, i + k, 0, &bound[k]));
        if (bound[k] < 0) bound[k] += n;
        if (bound[k] < 0) bound[k] = 0;
    }
    *from = bound[0] > n ? s->n + 1 : fxi_jstr_byte_of(s, (size_t)bound[0]);
    *to = fxi_jstr_byte_of(s, bound[1] > n ? (size_t)n : (size_t)bound[1]);
    return FX_OK;
}

static bool text_matches(const fxi_jstr *s, const fxi_jstr *what, size_t from, size_t to,
                         bool at_end)
{
    if (from > to || what->n > to - from) return false;
    return !memcmp(s->p + (at_end ? to - what->n : from), what->p, what->n);
}

// startswith, endswith (row->how: 1). The argument may be a tuple of strings.
METHOD(str_begins)
{
    size_t from, to;
    fxi_jseq one = {&c->arg[0], 1};
    bool yes = false;
    FX_TRY(search_window(r, c, 1, &from, &to));
    if (c->arg[0].type == FXI_JVAL_TUPLE) one = *c->arg[0].seq;
    for (size_t i = 0; i < one.n && !yes; i++) {
        FX_TRY(fxi_jval_need_defined(r, one.v[i]));
        if (one.v[i].type != FXI_JVAL_STR)
            return fxi_jrun_fail(r, "%s: expected a string, got a %s", c->row->name,
                                 fxi_jval_type_name(one.v[i]));
        FX_TRY(fxi_jrun_work(r, one.v[i].s->n));
        yes = text_matches(c->self.s, one.v[i].s, from, to, c->row->how);
    }
    *out = fxi_jval_bool(yes);
    return FX_OK;
}

METHOD(str_find)
{
    const fxi_jstr *s = c->self.s, *what;
    size_t from, to;
    FX_TRY(fxi_jcall_str(r, c, 0, &what));
    FX_TRY(search_window(r, c, 1, &from, &to));
    size_t at = fxi_jstr_find(s, what, from, to);
    fxi_jstr before = {.p = s->p, .n = at == SIZE_MAX ? 0 : at};
    *out = fxi_jval_int(at == SIZE_MAX ? -1 : (int64_t)fxi_utf8_count(before.p, before.n));
    return FX_OK;
}

// ---- methods: cutting ---------------------------------------------------------------------------

enum { LEFT = 1, RIGHT = 2 };

METHOD(str_strip)
{
    const fxi_jstr *chars = NULL;
    if (fxi_jcall_given(c, 0)) FX_TRY(fxi_jcall_str(r, c, 0, &chars));
    FX_TRY(fxi_jrun_work_chars(r, c->self.s->n, chars ? chars->n : 0));
    fxi_jstr rest = fxi_jstr_strip(c->self.s, chars, c->row->how & LEFT, c->row->how & RIGHT);
    return fxi_jstr_make(r, rest.p, rest.own, rest.n, out);
}

// removeprefix, removesuffix (row->how: 1)
METHOD(str_remove)
{
    const fxi_jstr *s = c->self.s, *what;
    FX_TRY(fxi_jcall_str(r, c, 0, &what));
    FX_TRY(fxi_jrun_work(r, what->n));
    *out = c->self;
    if (!text_matches(s, what, 0, s->n, c->row->how)) return FX_OK;
    return fxi_jstr_part(r, s, c->row->how ? 0 : what->n, s->n - what->n, out);
}

// ---- methods: splitting, joining, replacing -----------------------------------------------------

// split, rsplit (row->how: 1)
METHOD(str_split)
{
    const fxi_jstr *by = NULL;
    int64_t most;
    fxi_jseq pieces = {0};
    if (fxi_jcall_given(c, 0)) FX_TRY(fxi_jcall_str(r, c, 0, &by));
    FX_TRY(fxi_jcall_int(r, c, 1, -1, &most));
    if (by && !by->n) return fxi_jrun_fail(r, "%s: the separator is empty", c->row->name);
    const uint64_t n = most < 0 ? UINT64_MAX : (uint64_t)most;
    FX_TRY(c->row->how ? rsplit_str(r, c->self.s, by, n, &pieces)
                       : split_str(r, c->self.s, by, n, &pieces));
    return fxi_jval_make_seq(r, FXI_JVAL_LIST, pieces.v, pieces.n, out);
}

METHOD(str_splitlines)
{
    fxi_jseq lines = {0};
    FX_TRY(fxi_jstr_lines(r, c->self.s, fxi_jcall_true(c, 0), &lines));
    return fxi_jval_make_seq(r, FXI_JVAL_LIST, lines.v, lines.n, out);
}

METHOD(str_join)
{
    fxi_jseq items;
    fxi_jout o = {0};
    FX_TRY(fxi_jval_need_defined(r, c->arg[0]));
    FX_TRY(fxi_jval_items(r, c->arg[0], &items));
    for (size_t i = 0; i < items.n; i++) {
        if (items.v[i].type != FXI_JVAL_STR)
            return fxi_jrun_fail(r, "join: expected strings, got a %s",
                                 fxi_jval_type_name(items.v[i]));
        if (i) FX_TRY(fxi_jout_add(r, &o, c->self.s));
        FX_TRY(fxi_jout_add(r, &o, items.v[i].s));
    }
    return fxi_jout_finish(r, &o, out);
}

METHOD(str_replace)
{
    const fxi_jstr *old, *by;
    int64_t count;
    FX_TRY(fxi_jcall_str(r, c, 0, &old));
    FX_TRY(fxi_jcall_str(r, c, 1, &by));
    FX_TRY(fxi_jcall_int(r, c, 2, -1, &count));
    return fxi_jstr_replace(r, c->self.s, old, by, count < 0 ? UINT64_MAX : (uint64_t)count, out);
}

// ---- methods: case ------------------------------------------------------------------------------

// upper, lower, capitalize: row->how is 'u', 'l', 't'
METHOD(str_case)
{
    const char how = (char)c->row->how;
    return fxi_jstr_recase(r, c->self.s, how, how == 't' ? 'l' : how, out);
}

// A word is a run of characters that have case.
METHOD(str_title)
{
    const fxi_jstr *s = c->self.s;
    fxi_jout o = {0};
    size_t n;
    bool inside = false;
    for (size_t at = 0; at < s->n; at += n) {
        uint32_t ch = fxi_jstr_char_at(s, at, &n);
        bool cased = fxi_jchar_is_upper(ch) || fxi_jchar_is_lower(ch) || fxi_jchar_is_title(ch);
        if (!cased)
            FX_TRY(fxi_jout_add_part(r, &o, s, at, n));
        else
            FX_TRY(fxi_jout_add_cased(r, &o, ch, inside ? 'l' : 't', fxi_jstr_owns(s, at, n)));
        inside = cased;
    }
    return fxi_jout_finish(r, &o, out);
}

// ---- methods of dictionaries --------------------------------------------------------------------

static fx_status dict_get(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jval *found;
    if (!fxi_jval_is_hashable(c->arg[0]))
        return fxi_jrun_fail(r, "a %s cannot be a key", fxi_jval_type_name(c->arg[0]));
    FX_TRY(fxi_jdict_lookup(r, c->self.dict, c->arg[0], &found));
    *out = found ? *found : c->arg[1].type == FXI_JVAL_ABSENT ? fxi_jval_none() : c->arg[1];
    return FX_OK;
}

// items, keys, values: row->how
static fx_status dict_view(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    struct fxi_jview *v;
    FX_TRY(fxi_jrun_take(r, sizeof *v, &v));
    *v = (struct fxi_jview){c->self.dict, (fxi_jview_kind)c->row->how};
    *out = (fxi_jval){.type = FXI_JVAL_VIEW, .view = v};
    return FX_OK;
}

// ---- the tables ---------------------------------------------------------------------------------

#define POSITIONS .n_must = 1, .param = {"-", "-", "-"}
#define ONE       .n_must = 1, .param = {"-"}

const fxi_jroutine fxi_jlibrary_str_methods[] = {
    {.name = "capitalize", .run = str_case, .how = 't'},
    {.name = "endswith", .run = str_begins, POSITIONS, .how = 1},
    {.name = "find", .run = str_find, POSITIONS},
    {.name = "join", .run = str_join, ONE},
    {.name = "lower", .run = str_case, .how = 'l'},
    {.name = "lstrip", .run = str_strip, .param = {"-"}, .how = LEFT},
    {.name = "removeprefix", .run = str_remove, ONE},
    {.name = "removesuffix", .run = str_remove, ONE, .how = 1},
    {.name = "replace", .run = str_replace, .n_must = 2, .param = {"-", "-", "-"}},
    {.name = "rsplit", .run = str_split, .param = {"sep", "maxsplit"}, .how = 1},
    {.name = "rstrip", .run = str_strip, .param = {"-"}, .how = RIGHT},
    {.name = "split", .run = str_split, .param = {"sep", "maxsplit"}},
    {.name = "splitlines", .run = str_splitlines, .param = {"keepends"}},
    {.name = "startswith", .run = str_begins, POSITIONS},
    {.name = "strip", .run = str_strip, .param = {"-"}, .how = LEFT | RIGHT},
    {.name = "title", .run = str_title},
    {.name = "upper", .run = str_case, .how = 'u'},
    {.name = NULL},
};

const fxi_jroutine fxi_jlibrary_dict_methods[] = {
    {.name = "get", .run = dict_get, .n_must = 1, .param = {"-", "-"}},
    {.name = "items", .run = dict_view, .how = FXI_JVIEW_ITEMS},
    {.name = "keys", .run = dict_view, .how = FXI_JVIEW_KEYS},
    {.name = "values", .run = dict_view, .how = FXI_JVIEW_VALUES},
    {.name = NULL},
};
