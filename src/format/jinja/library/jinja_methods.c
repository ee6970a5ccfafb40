// jinja_methods.c - methods of strings and dictionaries, as Python's. Positions count characters.
#include <string.h>

#include "format/jinja/library/jinja_library.h"
#include "format/jinja/tree/jinja_str.h"

#define METHOD(name) static fx_status name(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)

// ---- searching ----------------------------------------------------------------------------------

// Bytes from .. to of the string, given in characters by arguments i and i + 1.
static fx_status search_window(fxi_jrun *r, const fxi_jcall *c, int i, size_t *from, size_t *to)
{
    const fxi_jstr *s = c->self.s;
    int64_t bound[2] = {0, INT64_MAX};
    FX_TRY(fxi_jrun_work(r, 4 * s->n));
    *from = 0;
    *to = s->n;
    if (!fxi_jcall_given(c, i) && !fxi_jcall_given(c, i + 1)) return FX_OK;
    const int64_t n = (int64_t)fxi_jstr_count_chars(s);
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
            return fxi_jrun_fail(r, "%s: wants a string, got a %s", c->row->name,
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
    *out = fxi_jval_int(at == SIZE_MAX ? -1 : (int64_t)fxi_jstr_count_chars(&before));
    return FX_OK;
}

// ---- cutting ------------------------------------------------------------------------------------

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

// ---- splitting, joining, replacing --------------------------------------------------------------

// split, rsplit (row->how: 1)
METHOD(str_split)
{
    const fxi_jstr *by = NULL;
    int64_t most;
    fxi_jseq pieces;
    if (fxi_jcall_given(c, 0)) FX_TRY(fxi_jcall_str(r, c, 0, &by));
    FX_TRY(fxi_jcall_int(r, c, 1, -1, &most));
    if (by && !by->n) return fxi_jrun_fail(r, "%s: the separator is empty", c->row->name);
    const uint64_t n = most < 0 ? UINT64_MAX : (uint64_t)most;
    FX_TRY(c->row->how ? fxi_jstr_rsplit(r, c->self.s, by, n, &pieces)
                       : fxi_jstr_split(r, c->self.s, by, n, &pieces));
    return fxi_jval_make_seq(r, FXI_JVAL_LIST, pieces.v, pieces.n, out);
}

METHOD(str_splitlines)
{
    fxi_jseq lines;
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
            return fxi_jrun_fail(r, "join: wants strings, got a %s",
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

// ---- case ---------------------------------------------------------------------------------------

// upper, lower: row->how
METHOD(str_case)
{
    return fxi_jstr_recase(r, c->self.s, (char)c->row->how, out);
}

METHOD(str_capitalize)
{
    return fxi_jstr_capitalize(r, c->self.s, out);
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

// ---- dictionaries -------------------------------------------------------------------------------

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
    {.name = "capitalize", .run = str_capitalize},
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
