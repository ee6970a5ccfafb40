// jinja_sequences.c - filters of sequences: items, selections, order.
#include <string.h>

#include "format/jinja/jinja_run.h"

// ---- ends, lengths, copies ----------------------------------------------------------------------

FXI_JROUTINE(filter_length)
{
    size_t n;
    if (c->self.type == FXI_JVAL_STR) FX_TRY(fxi_jrun_work(r, c->self.s->n));
    if (!fxi_jval_length(c->self, &n))
        return fxi_jrun_fail(r, "a %s has no length", fxi_jval_type_name(c->self));
    *out = fxi_jval_int((int64_t)n);
    return FX_OK;
}

FXI_JROUTINE(filter_first)
{
    fxi_jseq items;
    struct fxi_jgenerator *g = c->self.type == FXI_JVAL_GENERATOR ? c->self.gen : NULL;
    size_t at = g ? g->at : 0;
    FX_TRY(fxi_jval_items(r, c->self, &items));
    if (g) g->at = at + (items.n != 0); // the rest is still unread
    *out = items.n ? items.v[0] : fxi_jval_undefined(NULL);
    return FX_OK;
}

FXI_JROUTINE(filter_last)
{
    fxi_jseq items;
    if (c->self.type == FXI_JVAL_GENERATOR) return fxi_jrun_fail(r, "last: a generator has no end");
    FX_TRY(fxi_jval_items(r, c->self, &items));
    *out = items.n ? items.v[items.n - 1] : fxi_jval_undefined(NULL);
    return FX_OK;
}

FXI_JROUTINE(filter_list)
{
    fxi_jseq items;
    FX_TRY(fxi_jval_items(r, c->self, &items));
    return fxi_jval_make_seq(r, FXI_JVAL_LIST, items.v, items.n, out);
}

FXI_JROUTINE(filter_reverse)
{
    fxi_jseq items;
    fxi_jval *v;
    fxi_jout o = {0};
    FX_TRY(fxi_jval_items(r, c->self, &items));
    if (c->self.type == FXI_JVAL_STR) {
        for (size_t i = items.n; i; i--) FX_TRY(fxi_jout_add(r, &o, items.v[i - 1].s));
        return fxi_jout_finish(r, &o, out);
    }
    FX_TRY(fxi_jrun_take(r, items.n * sizeof *v, &v));
    for (size_t i = 0; i < items.n; i++) v[i] = items.v[items.n - 1 - i];
    return fxi_jval_make_generator(r, v, items.n, out);
}

FXI_JROUTINE(filter_items)
{
    struct fxi_jview view = {c->self.dict, FXI_JVIEW_ITEMS};
    fxi_jseq items = {0};
    if (c->self.type == FXI_JVAL_DICT)
        FX_TRY(fxi_jval_items(r, (fxi_jval){.type = FXI_JVAL_VIEW, .view = &view}, &items));
    FX_TRY(fxi_jval_make_generator(r, items.v, items.n, out));
    if (c->self.type != FXI_JVAL_DICT && c->self.type != FXI_JVAL_UNDEFINED)
        out->gen->of = fxi_jval_type_name(c->self);
    return FX_OK;
}

FXI_JROUTINE(filter_join)
{
    const fxi_jstr *between = fxi_jcall_str(c, 0);
    fxi_jseq items;
    fxi_jout o = {0};
    FX_TRY(fxi_jval_items(r, c->self, &items));
    for (size_t i = 0; i < items.n; i++) {
        fxi_jval v = items.v[i];
        if (i && between) FX_TRY(fxi_jout_add(r, &o, between));
        if (fxi_jcall_given(c, 1)) FX_TRY(fxi_jval_path(r, v, c->arg[1], fxi_jval_none(), &v));
        FX_TRY(fxi_jval_show(r, &o, v));
    }
    return fxi_jout_finish(r, &o, out);
}

// ---- map, select, reject ------------------------------------------------------------------------

// The filter or test named by argument `at`, and the arguments after it.
static fx_status named_routine(fxi_jrun *r, const fxi_jcall *c, size_t at, bool is_test,
                               const fxi_jroutine **row, fxi_jargs *args)
{
    fxi_jval name = c->all->v[at];
    FX_TRY(fxi_jcall_need(r, c, 's', &name));
    *row = fxi_jlibrary_find(r->t->lib, is_test, name.s->p, name.s->n);
    if (!*row)
        return fxi_jrun_fail(r, "%s: the %s '%.*s' is not supported", c->row->name,
                             is_test ? "test" : "filter", FXI_JINJA_HEAD(name.s));
    *args = (fxi_jargs){c->all->v + at + 1, c->all->n - at - 1, c->all->kw, c->all->n_kw};
    return FX_OK;
}

static const fxi_jval *find_keyword(const fxi_jargs *a, const char *name)
{
    for (size_t i = 0; i < a->n_kw; i++)
        if (fxi_jstr_is(a->kw[i].name, name)) return &a->kw[i].value;
    return NULL;
}

// The items of a generator filter, and room for as many results. Unless out->type is ABSENT
// afterwards, *out is the filter's result already: empty, or a generator that fails when consumed.
static fx_status take_items(fxi_jrun *r, const fxi_jcall *c, fxi_jseq *items, fxi_jval **v,
                            fxi_jval *out)
{
    if (!fxi_jval_truth(c->self))
        return fxi_jval_make_generator(r, NULL, 0, out); // Jinja: also for 0
    FX_TRY(fxi_jval_generator_source(r, c->self, items, out));
    if (out->type != FXI_JVAL_ABSENT) return FX_OK;
    FX_TRY(fxi_jrun_work(r, items->n * sizeof **v));
    return fxi_jrun_take(r, items->n * sizeof **v, v);
}

FXI_JROUTINE(filter_map)
{
    const fxi_jval *path = c->all->n ? NULL : find_keyword(c->all, "attribute"),
                   *preset = find_keyword(c->all, "default");
    fxi_jseq items;
    fxi_jval *v;
    FX_TRY(take_items(r, c, &items, &v, out));
    if (out->type != FXI_JVAL_ABSENT) return FX_OK;
    if (path) {
        if (c->all->n_kw > (preset ? 2u : 1u))
            return fxi_jrun_fail(r, "map: only attribute and default are allowed");
        for (size_t i = 0; i < items.n; i++)
            FX_TRY(fxi_jval_path(r, items.v[i], *path, preset ? *preset : fxi_jval_none(), &v[i]));
        return fxi_jval_make_generator(r, v, items.n, out);
    }
    const fxi_jroutine *row;
    fxi_jargs args;
    if (!c->all->n) return fxi_jrun_fail(r, "map: expected a filter's name or attribute=");
    FX_TRY(named_routine(r, c, 0, false, &row, &args));
    FX_TRY(fxi_jrun_enter(r)); // map('map', 'map', ..)
    for (size_t i = 0; i < items.n; i++)
        FX_TRY(fxi_jroutine_call(r, row, items.v[i], &args, &v[i]));
    fxi_jrun_leave(r);
    return fxi_jval_make_generator(r, v, items.n, out);
}

enum { REJECT = 1, BY_ATTRIBUTE = 2 }; // row->how

static fx_status item_passes(fxi_jrun *r, const fxi_jcall *c, fxi_jval v, bool *out)
{
    const size_t at = c->row->how & BY_ATTRIBUTE ? 1 : 0;
    const fxi_jroutine *row;
    fxi_jargs args;
    fxi_jval verdict;
    if (at) FX_TRY(fxi_jval_path(r, v, c->all->v[0], fxi_jval_none(), &v));
    *out = fxi_jval_truth(v);
    if (c->all->n <= at) return FX_OK;
    FX_TRY(named_routine(r, c, at, true, &row, &args));
    FX_TRY(fxi_jroutine_call(r, row, v, &args, &verdict));
    *out = fxi_jval_truth(verdict);
    return FX_OK;
}

FXI_JROUTINE(filter_select)
{
    fxi_jseq items;
    fxi_jval *v;
    size_t n = 0;
    if (c->row->how & BY_ATTRIBUTE && !c->all->n)
        return fxi_jrun_fail(r, "%s: expected an attribute's name", c->row->name);
    FX_TRY(take_items(r, c, &items, &v, out));
    if (out->type != FXI_JVAL_ABSENT) return FX_OK;
    for (size_t i = 0; i < items.n; i++) {
        bool yes;
        FX_TRY(item_passes(r, c, items.v[i], &yes));
        if (yes != (c->row->how & REJECT)) v[n++] = items.v[i];
    }
    return fxi_jval_make_generator(r, v, n, out);
}

// ---- order: sort, dictsort, unique --------------------------------------------------------------

typedef struct sort_item { // an item and its key
    fxi_jval item, key;
} sort_item;

static fx_status lowered_key(fxi_jrun *r, fxi_jval v, fxi_jval *out)
{
    *out = v;
    return v.type == FXI_JVAL_STR ? fxi_jstr_recase(r, v.s, 'l', 'l', out) : FX_OK;
}

// What an item is sorted by: itself, or, by "a.b,c", a list of the values at these paths.
static fx_status key_of(fxi_jrun *r, fxi_jval item, fxi_jval by, bool cased, fxi_jval *out)
{
    fxi_jval *v, path;
    *out = item;
    if (by.type != FXI_JVAL_STR) {
        if (by.type != FXI_JVAL_ABSENT) FX_TRY(fxi_jval_path(r, item, by, fxi_jval_none(), out));
        return cased ? FX_OK : lowered_key(r, *out, out);
    }
    size_t n = 1, i = 0;
    for (size_t k = 0; k < by.s->n; k++) n += by.s->p[k] == ',';
    FX_TRY(fxi_jrun_take(r, n * sizeof *v, &v));
    for (size_t from = 0; i < n; i++) {
        const char *comma = memchr(by.s->p + from, ',', by.s->n - from);
        size_t to = comma ? (size_t)(comma - by.s->p) : by.s->n;
        FX_TRY(fxi_jstr_part(r, by.s, from, to - from, &path));
        FX_TRY(fxi_jval_path(r, item, path, fxi_jval_none(), &v[i]));
        if (!cased) FX_TRY(lowered_key(r, v[i], &v[i]));
        from = to + 1;
    }
    return fxi_jval_make_seq(r, FXI_JVAL_LIST, v, n, out);
}

static fx_status merge_runs(fxi_jrun *r, const sort_item *a, size_t n_a, const sort_item *b,
                            size_t n_b, bool down, sort_item *to)
{
    while (n_a && n_b) {
        int c;
        FX_TRY(fxi_jval_compare(r, b->key, a->key, "<", &c));
        if (down ? c > 0 : c < 0)
            *to++ = *b++, n_b--;
        else
            *to++ = *a++, n_a--;
    }
    if (n_a) memcpy(to, a, n_a * sizeof *to);
    if (n_b) memcpy(to + n_a, b, n_b * sizeof *to);
    return FX_OK;
}

// Stable; `down`: descending, equal items still in their order.
static fx_status merge_sort(fxi_jrun *r, sort_item *s, size_t n, bool down)
{
    sort_item *other;
    FX_TRY(fxi_jrun_take(r, n * sizeof *other, &other));
    for (size_t run = 1; run < n; run *= 2) {
        FX_TRY(fxi_jrun_work(r, n * sizeof *s));
        for (size_t at = 0; at < n; at += 2 * run) {
            size_t n_a = n - at < run ? n - at : run, rest = n - at - n_a;
            FX_TRY(merge_runs(r, s + at, n_a, s + at + n_a, rest < run ? rest : run, down,
                              other + at));
        }
        memcpy(s, other, n * sizeof *s);
    }
    return FX_OK;
}

static fx_status make_sorted(fxi_jrun *r, sort_item *s, size_t n, bool down, fxi_jval *out)
{
    fxi_jval *v;
    FX_TRY(merge_sort(r, s, n, down));
    FX_TRY(fxi_jrun_take(r, n * sizeof *v, &v));
    for (size_t i = 0; i < n; i++) v[i] = s[i].item;
    return fxi_jval_make_seq(r, FXI_JVAL_LIST, v, n, out);
}

FXI_JROUTINE(filter_sort)
{
    fxi_jseq items;
    sort_item *s;
    FX_TRY(fxi_jval_items(r, c->self, &items));
    FX_TRY(fxi_jrun_take(r, items.n * sizeof *s, &s));
    for (size_t i = 0; i < items.n; i++) {
        s[i].item = items.v[i];
        FX_TRY(key_of(r, items.v[i], c->arg[2], fxi_jcall_true(c, 1), &s[i].key));
    }
    return make_sorted(r, s, items.n, fxi_jcall_true(c, 0), out);
}

FXI_JROUTINE(filter_dictsort)
{
    const fxi_jstr *by = fxi_jcall_str(c, 1);
    sort_item *s;
    if (c->self.type != FXI_JVAL_DICT)
        return fxi_jrun_fail(r, "dictsort: a %s is not a mapping", fxi_jval_type_name(c->self));
    const bool by_value = by && fxi_jstr_is(by, "value");
    if (by && !by_value && !fxi_jstr_is(by, "key"))
        return fxi_jrun_fail(r, "dictsort: by must be 'key' or 'value'");
    const fxi_jdict *d = c->self.dict;
    FX_TRY(fxi_jrun_take(r, d->n * sizeof *s, &s));
    for (size_t i = 0; i < d->n; i++) {
        fxi_jval key = by_value ? d->e[i].value : d->e[i].key;
        FX_TRY(fxi_jval_make_seq(r, FXI_JVAL_TUPLE, &d->e[i].key, 2, &s[i].item));
        FX_TRY(
            key_of(r, key, (fxi_jval){.type = FXI_JVAL_ABSENT}, fxi_jcall_true(c, 0), &s[i].key));
    }
    return make_sorted(r, s, d->n, fxi_jcall_true(c, 2), out);
}

FXI_JROUTINE(filter_unique)
{
    fxi_jseq items;
    fxi_jval *v, *keys;
    size_t n = 0;
    FX_TRY(fxi_jval_generator_source(r, c->self, &items, out));
    if (out->type != FXI_JVAL_ABSENT) return FX_OK;
    FX_TRY(fxi_jrun_take(r, items.n * sizeof *v, &v));
    FX_TRY(fxi_jrun_take(r, items.n * sizeof *v, &keys));
    for (size_t i = 0; i < items.n; i++) {
        bool seen = false;
        FX_TRY(key_of(r, items.v[i], c->arg[1], fxi_jcall_true(c, 0), &keys[n]));
        if (keys[n].type == FXI_JVAL_DICT)
            return fxi_jrun_fail(r, "unique: a dict cannot be compared");
        for (size_t k = 0; k < n && !seen; k++) FX_TRY(fxi_jval_equal(r, keys[k], keys[n], &seen));
        if (!seen) v[n++] = items.v[i];
    }
    return fxi_jval_make_generator(r, v, n, out);
}

// ---- the table ----------------------------------------------------------------------------------

const fxi_jroutine fxi_jlibrary_seq_filters[] = {
    {"count", .run = filter_length},
    {"dictsort", .run = filter_dictsort, .self = 'd', .types = "vsv",
     .param = {"case_sensitive", "by", "reverse"}},
    {"first", .run = filter_first},
    {"items", .run = filter_items},
    {"join", .run = filter_join, .types = "tV", .param = {"d", "attribute"}},
    {"last", .run = filter_last},
    {"length", .run = filter_length},
    {"list", .run = filter_list},
    {"map", .run = filter_map, .types = "*"},
    {"reject", .run = filter_select, .types = "*", .how = REJECT},
    {"rejectattr", .run = filter_select, .types = "*", .how = REJECT | BY_ATTRIBUTE},
    {"reverse", .run = filter_reverse},
    {"select", .run = filter_select, .types = "*"},
    {"selectattr", .run = filter_select, .types = "*", .how = BY_ATTRIBUTE},
    {"sort", .run = filter_sort, .types = "vvV",
     .param = {"reverse", "case_sensitive", "attribute"}},
    {"unique", .run = filter_unique, .types = "vV", .param = {"case_sensitive", "attribute"}},
    {.name = NULL},
};
