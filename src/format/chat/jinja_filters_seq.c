// jinja_filters_seq.c - filters of what has members.
//
// Where Jinja gives a generator, so does this: true whatever it holds, without a length, read once.
#include <stdlib.h>
#include <string.h>

#include "format/chat/jinja_impl.h"

// ---- ends, lengths, copies ----------------------------------------------------------------------

static fx_status filter_length(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    size_t n;
    if (c->self.type == FXI_J_STR) FX_TRY(fxi_j_work(r, c->self.s->n));
    if (!fxi_j_length(c->self, &n))
        return fxi_j_fail(r, "a %s has no length", fxi_j_type_name(c->self));
    *out = fxi_j_int((int64_t)n);
    return FX_OK;
}

static fx_status filter_first(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    fxi_jseq items;
    struct fxi_jgenerator *g = c->self.type == FXI_J_GENERATOR ? c->self.gen : NULL;
    size_t at = g ? g->at : 0;
    FX_TRY(fxi_j_items(r, c->self, &items));
    if (g) g->at = at + (items.n != 0); // the rest can be read on
    *out = items.n ? items.v[0] : fxi_j_undefined(NULL);
    return FX_OK;
}

static fx_status filter_last(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    fxi_jseq items;
    if (c->self.type == FXI_J_GENERATOR) return fxi_j_fail(r, "last: a generator has no end");
    FX_TRY(fxi_j_items(r, c->self, &items));
    *out = items.n ? items.v[items.n - 1] : fxi_j_undefined(NULL);
    return FX_OK;
}

static fx_status filter_list(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    fxi_jseq items;
    FX_TRY(fxi_j_items(r, c->self, &items));
    return fxi_j_seq(r, FXI_J_LIST, items.v, items.n, out);
}

static fx_status reverse_str(fxi_jrun *r, fxi_jval s, fxi_jval *out)
{
    fxi_jseq chars;
    fxi_jout o = {0};
    FX_TRY(fxi_j_items(r, s, &chars));
    for (size_t i = chars.n; i; i--) FX_TRY(fxi_jout_add(r, &o, chars.v[i - 1].s));
    return fxi_jout_done(r, &o, out);
}

static fx_status filter_reverse(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    fxi_jseq items;
    fxi_jval *v;
    if (c->self.type == FXI_J_STR) return reverse_str(r, c->self, out);
    FX_TRY(fxi_j_items(r, c->self, &items));
    FX_TRY(fxi_j_take(r, items.n * sizeof *v, &v));
    for (size_t i = 0; i < items.n; i++) v[i] = items.v[items.n - 1 - i];
    return fxi_j_generator(r, v, items.n, out);
}

static fx_status filter_items(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    struct fxi_jview view = {c->self.dict, FXI_J_ITEMS};
    fxi_jseq items = {0};
    if (c->self.type == FXI_J_DICT)
        FX_TRY(fxi_j_items(r, (fxi_jval){.type = FXI_J_VIEW, .view = &view}, &items));
    FX_TRY(fxi_j_generator(r, items.v, items.n, out));
    if (c->self.type != FXI_J_DICT && c->self.type != FXI_J_UNDEFINED)
        out->gen->of = fxi_j_type_name(c->self);
    return FX_OK;
}

static fx_status join_one(fxi_jrun *r, const fxi_jcall *c, fxi_jval item, fxi_jout *o)
{
    if (fxi_j_given(c, 1)) FX_TRY(fxi_j_path(r, item, c->arg[1], &item));
    return fxi_j_show(r, o, item, false);
}

static fx_status filter_join(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *between = &(fxi_jstr){.p = "", .n = 0};
    fxi_jseq items;
    fxi_jout o = {0};
    FX_TRY(fxi_j_items(r, c->self, &items));
    if (c->arg[0].type != FXI_J_ABSENT) FX_TRY(fxi_j_to_str(r, c->arg[0], &between));
    for (size_t i = 0; i < items.n; i++) {
        if (i) FX_TRY(fxi_jout_add(r, &o, between));
        FX_TRY(join_one(r, c, items.v[i], &o));
    }
    return fxi_jout_done(r, &o, out);
}

static fx_status filter_sum(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    fxi_jseq items;
    FX_TRY(fxi_j_items(r, c->self, &items));
    *out = c->arg[1].type != FXI_J_ABSENT ? c->arg[1] : fxi_j_int(0);
    if (out->type == FXI_J_STR) return fxi_j_fail(r, "sum: strings are not summed");
    for (size_t i = 0; i < items.n; i++) {
        fxi_jval item = items.v[i];
        if (fxi_j_given(c, 0)) FX_TRY(fxi_j_path(r, item, c->arg[0], &item));
        FX_TRY(fxi_j_binary(r, FXI_J_ADD, *out, item, out));
    }
    return FX_OK;
}

// ---- chunks -------------------------------------------------------------------------------------

// Appends `fill` to a short run of n values, so that there are `width`.
static fx_status filled(fxi_jrun *r, fxi_jseq run, size_t width, fxi_jval fill, fxi_jval *out)
{
    fxi_jval *v;
    if (run.n >= width || fill.type == FXI_J_ABSENT || fill.type == FXI_J_NONE)
        return fxi_j_seq(r, FXI_J_LIST, run.v, run.n, out);
    if (width > SIZE_MAX / sizeof *v) return fxi_j_fail(r, "a list is too long");
    FX_TRY(fxi_j_work(r, width));
    FX_TRY(fxi_j_take(r, width * sizeof *v, &v));
    for (size_t i = 0; i < width; i++) v[i] = i < run.n ? run.v[i] : fill;
    return fxi_j_seq(r, FXI_J_LIST, v, width, out);
}

static fx_status filter_batch(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    int64_t width;
    fxi_jseq items;
    fxi_jval *runs;
    size_t n_run = 0;
    FX_TRY(fxi_j_arg_int(r, c, 0, 1, &width));
    FX_TRY(fxi_j_source(r, c->self, &items, out));
    if (out->type != FXI_J_ABSENT) return FX_OK;
    if (width < 1) return fxi_j_fail(r, "batch: %lld in a batch", (long long)width);
    FX_TRY(fxi_j_take(r, items.n * sizeof *runs, &runs));
    for (size_t at = 0; at < items.n; n_run++) {
        size_t n = items.n - at < (size_t)width ? items.n - at : (size_t)width;
        FX_TRY(filled(r, (fxi_jseq){items.v + at, n}, (size_t)width, c->arg[1], &runs[n_run]));
        at += n;
    }
    return fxi_j_generator(r, runs, n_run, out);
}

// ---- sorting ------------------------------------------------------------------------------------

typedef struct sortable { // a member and what it is sorted by
    fxi_jval item, key;
} sortable;

static fx_status lowered(fxi_jrun *r, fxi_jval v, fxi_jval *out)
{
    *out = v;
    if (v.type != FXI_J_STR) return FX_OK;
    return fxi_jroutine_call(r, fxi_jroutine_find(fxi_j_filters, "lower", 5), v, &(fxi_jargs){0},
                             out);
}

// a.b,c: a list of what the paths lead to.
static fx_status keys_by(fxi_jrun *r, fxi_jval item, fxi_jval paths, bool cased, fxi_jval *out)
{
    fxi_jval *v, path;
    size_t n = 1, i = 0;
    if (paths.type != FXI_J_STR) {
        FX_TRY(fxi_j_path(r, item, paths, out));
        return cased ? FX_OK : lowered(r, *out, out);
    }
    for (size_t k = 0; k < paths.s->n; k++) n += paths.s->p[k] == ',';
    FX_TRY(fxi_j_take(r, n * sizeof *v, &v));
    for (size_t from = 0; i < n; i++) {
        const char *comma = memchr(paths.s->p + from, ',', paths.s->n - from);
        size_t to = comma ? (size_t)(comma - paths.s->p) : paths.s->n;
        FX_TRY(fxi_j_part(r, paths.s, from, to - from, &path));
        FX_TRY(fxi_j_path(r, item, path, &v[i]));
        if (!cased) FX_TRY(lowered(r, v[i], &v[i]));
        from = to + 1;
    }
    return fxi_j_seq(r, FXI_J_LIST, v, n, out);
}

static fx_status key_of(fxi_jrun *r, fxi_jval item, fxi_jval by, bool cased, fxi_jval *out)
{
    bool plain = by.type == FXI_J_ABSENT || by.type == FXI_J_NONE;
    if (!plain) return keys_by(r, item, by, cased, out);
    *out = item;
    return cased ? FX_OK : lowered(r, item, out);
}

static fx_status merge(fxi_jrun *r, const sortable *a, size_t n_a, const sortable *b, size_t n_b,
                       bool down, sortable *to)
{
    while (n_a && n_b) {
        int c;
        FX_TRY(fxi_j_compare(r, b->key, a->key, "<", &c));
        if (down ? c > 0 : c < 0)
            *to++ = *b++, n_b--;
        else
            *to++ = *a++, n_a--;
    }
    if (n_a) memcpy(to, a, n_a * sizeof *to);
    if (n_b) memcpy(to + n_a, b, n_b * sizeof *to);
    return FX_OK;
}

// Stable, from runs of 1, 2, 4, ..; `down`: the greatest first, equals as they were.
static fx_status sort(fxi_jrun *r, sortable *s, size_t n, bool down)
{
    sortable *other;
    FX_TRY(fxi_j_take(r, n * sizeof *other, &other));
    for (size_t run = 1; run < n; run *= 2) {
        FX_TRY(fxi_j_work(r, n * sizeof *s));
        for (size_t at = 0; at < n; at += 2 * run) {
            size_t n_a = n - at < run ? n - at : run, rest = n - at - n_a;
            FX_TRY(merge(r, s + at, n_a, s + at + n_a, rest < run ? rest : run, down, other + at));
        }
        memcpy(s, other, n * sizeof *s);
    }
    return FX_OK;
}

static fx_status sort_items(fxi_jrun *r, sortable *s, size_t n, bool down, fxi_jval *out)
{
    fxi_jval *v;
    FX_TRY(sort(r, s, n, down));
    FX_TRY(fxi_j_take(r, n * sizeof *v, &v));
    for (size_t i = 0; i < n; i++) v[i] = s[i].item;
    return fxi_j_seq(r, FXI_J_LIST, v, n, out);
}

static fx_status filter_sort(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    fxi_jseq items;
    sortable *s;
    FX_TRY(fxi_j_items(r, c->self, &items));
    FX_TRY(fxi_j_take(r, items.n * sizeof *s, &s));
    for (size_t i = 0; i < items.n; i++) {
        s[i].item = items.v[i];
        FX_TRY(key_of(r, items.v[i], c->arg[2], fxi_j_arg_true(c, 1), &s[i].key));
    }
    return sort_items(r, s, items.n, fxi_j_arg_true(c, 0), out);
}

static fx_status filter_dictsort(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *by = &(fxi_jstr){.p = "key", .n = 3};
    sortable *s;
    FX_TRY(fxi_j_defined(r, c->self));
    if (c->self.type != FXI_J_DICT)
        return fxi_j_fail(r, "dictsort: a %s is no mapping", fxi_j_type_name(c->self));
    if (c->arg[1].type != FXI_J_ABSENT) FX_TRY(fxi_j_arg_str(r, c, 1, &by));
    bool by_value = fxi_j_str_is(by, "value");
    if (!by_value && !fxi_j_str_is(by, "key"))
        return fxi_j_fail(r, "dictsort: by 'key' or 'value'");
    const fxi_jdict *d = c->self.dict;
    FX_TRY(fxi_j_take(r, d->n * sizeof *s, &s));
    for (size_t i = 0; i < d->n; i++) {
        fxi_jval key = by_value ? d->e[i].value : d->e[i].key;
        FX_TRY(fxi_j_seq(r, FXI_J_TUPLE, &d->e[i].key, 2, &s[i].item));
        FX_TRY(key_of(r, key, fxi_j_none(), fxi_j_arg_true(c, 0), &s[i].key));
    }
    return sort_items(r, s, d->n, fxi_j_arg_true(c, 2), out);
}

// min, max: row->how is the sign of what is looked for; the first of equals.
static fx_status filter_extreme(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    fxi_jseq items;
    fxi_jval best = fxi_j_none(), key;
    int order;
    FX_TRY(fxi_j_items(r, c->self, &items));
    *out = fxi_j_undefined(NULL);
    for (size_t i = 0; i < items.n; i++) {
        FX_TRY(key_of(r, items.v[i], c->arg[1], fxi_j_arg_true(c, 0), &key));
        if (i) FX_TRY(fxi_j_compare(r, key, best, c->row->how > 0 ? ">" : "<", &order));
        if (i && order * c->row->how <= 0) continue;
        best = key;
        *out = items.v[i];
    }
    return FX_OK;
}

static fx_status filter_unique(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    fxi_jseq items;
    fxi_jval *v, *keys;
    size_t n = 0;
    FX_TRY(fxi_j_source(r, c->self, &items, out));
    if (out->type != FXI_J_ABSENT) return FX_OK;
    FX_TRY(fxi_j_take(r, items.n * sizeof *v, &v));
    FX_TRY(fxi_j_take(r, items.n * sizeof *v, &keys));
    for (size_t i = 0; i < items.n; i++) {
        bool seen = false;
        FX_TRY(key_of(r, items.v[i], c->arg[1], fxi_j_arg_true(c, 0), &keys[n]));
        if (keys[n].type == FXI_J_DICT)
            return fxi_j_fail(r, "unique: a dict cannot be compared by what it holds");
        for (size_t k = 0; k < n && !seen; k++) FX_TRY(fxi_j_equal(r, keys[k], keys[n], &seen));
        if (!seen) v[n++] = items.v[i];
    }
    return fxi_j_generator(r, v, n, out);
}

static fx_status filter_groupby(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    fxi_jseq items;
    sortable *s;
    fxi_jval *pair, *groups, *members;
    size_t n_group = 0;
    FX_TRY(fxi_j_items(r, c->self, &items));
    FX_TRY(fxi_j_take(r, items.n * sizeof *s, &s));
    for (size_t i = 0; i < items.n; i++) {
        s[i].item = items.v[i];
        FX_TRY(fxi_j_path(r, items.v[i], c->arg[0], &s[i].key));
        if (s[i].key.type == FXI_J_UNDEFINED && c->arg[1].type != FXI_J_ABSENT)
            s[i].key = c->arg[1];
        if (!fxi_j_arg_true(c, 2)) FX_TRY(lowered(r, s[i].key, &s[i].key));
    }
    FX_TRY(sort(r, s, items.n, false));
    FX_TRY(fxi_j_take(r, items.n * sizeof *groups, &groups));
    FX_TRY(fxi_j_take(r, items.n * sizeof *members, &members));
    for (size_t from = 0, to; from < items.n; from = to) {
        bool same = true;
        for (to = from; to < items.n; to++) {
            FX_TRY(fxi_j_equal(r, s[from].key, s[to].key, &same));
            if (!same) break;
            members[to] = s[to].item;
        }
        FX_TRY(fxi_j_take(r, 2 * sizeof *pair, &pair));
        FX_TRY(fxi_j_path(r, s[from].item, c->arg[0], &pair[0]));
        if (pair[0].type == FXI_J_UNDEFINED) pair[0] = s[from].key;
        FX_TRY(fxi_j_seq(r, FXI_J_LIST, members + from, to - from, &pair[1]));
        FX_TRY(fxi_j_seq(r, FXI_J_TUPLE, pair, 2, &groups[n_group++]));
    }
    return fxi_j_seq(r, FXI_J_LIST, groups, n_group, out);
}

// ---- map, select, reject ------------------------------------------------------------------------

// A filter or test by its name in args[at], and the arguments behind it.
static fx_status named(fxi_jrun *r, const fxi_jcall *c, size_t at,
                       const fxi_jroutine *(*find)(const char *, size_t), const fxi_jroutine **row,
                       fxi_jargs *args)
{
    const fxi_jval name = c->all->v[at];
    FX_TRY(fxi_j_defined(r, name));
    *row = name.type == FXI_J_STR ? find(name.s->p, name.s->n) : NULL;
    if (!*row) return fxi_j_fail(r, "%s: there is no filter or test of this name", c->row->name);
    *args = (fxi_jargs){c->all->v + at + 1, c->all->n - at - 1, c->all->kw, c->all->n_kw};
    return FX_OK;
}

static const fxi_jval *keyword(const fxi_jargs *a, const char *name)
{
    for (size_t i = 0; i < a->n_kw; i++)
        if (fxi_j_str_is(a->kw[i].name, name)) return &a->kw[i].value;
    return NULL;
}

static fx_status map_attribute(fxi_jrun *r, const fxi_jcall *c, const fxi_jseq *items, fxi_jval *v)
{
    const fxi_jval *path = keyword(c->all, "attribute"), *preset = keyword(c->all, "default");
    if (c->all->n_kw > (preset ? 2u : 1u)) return fxi_j_fail(r, "map: attribute and default alone");
    for (size_t i = 0; i < items->n; i++) {
        FX_TRY(fxi_j_path(r, items->v[i], *path, &v[i]));
        if (v[i].type == FXI_J_UNDEFINED && preset) v[i] = *preset;
    }
    return FX_OK;
}

static fx_status map_filter(fxi_jrun *r, const fxi_jcall *c, const fxi_jseq *items, fxi_jval *v)
{
    const fxi_jroutine *row;
    fxi_jargs args;
    if (!c->all->n) return fxi_j_fail(r, "map: wants a filter's name or attribute=");
    FX_TRY(named(r, c, 0, fxi_j_find_filter, &row, &args));
    FX_TRY(fxi_j_enter(r)); // map('map', 'map', ..)
    for (size_t i = 0; i < items->n; i++)
        FX_TRY(fxi_jroutine_call(r, row, items->v[i], &args, &v[i]));
    fxi_j_leave(r);
    return FX_OK;
}

static fx_status filter_map(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    fxi_jseq items;
    fxi_jval *v;
    if (!fxi_j_truth(c->self)) return fxi_j_generator(r, NULL, 0, out); // as Jinja: 0 too
    FX_TRY(fxi_j_source(r, c->self, &items, out));
    if (out->type != FXI_J_ABSENT) return FX_OK;
    FX_TRY(fxi_j_work(r, items.n * sizeof *v));
    FX_TRY(fxi_j_take(r, items.n * sizeof *v, &v));
    bool attribute = !c->all->n && keyword(c->all, "attribute");
    FX_TRY(attribute ? map_attribute(r, c, &items, v) : map_filter(r, c, &items, v));
    return fxi_j_generator(r, v, items.n, out);
}

enum { REJECT = 1, BY_ATTRIBUTE = 2 }; // row->how

static fx_status holds(fxi_jrun *r, const fxi_jcall *c, fxi_jval v, bool *out)
{
    const size_t at = c->row->how & BY_ATTRIBUTE ? 1 : 0;
    const fxi_jroutine *row;
    fxi_jargs args;
    fxi_jval verdict;
    if (at) FX_TRY(fxi_j_path(r, v, c->all->v[0], &v));
    *out = fxi_j_truth(v);
    if (c->all->n <= at) return FX_OK;
    FX_TRY(named(r, c, at, fxi_j_find_test, &row, &args));
    FX_TRY(fxi_jroutine_call(r, row, v, &args, &verdict));
    *out = fxi_j_truth(verdict);
    return FX_OK;
}

static fx_status filter_select(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    fxi_jseq items;
    fxi_jval *v;
    size_t n = 0;
    if (c->row->how & BY_ATTRIBUTE && !c->all->n)
        return fxi_j_fail(r, "%s: wants an attribute's name", c->row->name);
    if (!fxi_j_truth(c->self)) return fxi_j_generator(r, NULL, 0, out); // as Jinja: 0 too
    FX_TRY(fxi_j_source(r, c->self, &items, out));
    if (out->type != FXI_J_ABSENT) return FX_OK;
    FX_TRY(fxi_j_work(r, items.n * sizeof *v));
    FX_TRY(fxi_j_take(r, items.n * sizeof *v, &v));
    for (size_t i = 0; i < items.n; i++) {
        bool yes;
        FX_TRY(holds(r, c, items.v[i], &yes));
        if (yes != (c->row->how & REJECT)) v[n++] = items.v[i];
    }
    return fxi_j_generator(r, v, n, out);
}

// ---- the table ----------------------------------------------------------------------------------

const fxi_jroutine fxi_j_seq_filters[] = {
    {.name = "batch", .run = filter_batch, .n_must = 1, .param = {"linecount", "fill_with"}},
    {.name = "count", .run = filter_length},
    {.name = "dictsort", .run = filter_dictsort, .param = {"case_sensitive", "by", "reverse"}},
    {.name = "first", .run = filter_first},
    {.name = "groupby",
     .run = filter_groupby,
     .n_must = 1,
     .param = {"attribute", "default", "case_sensitive"}},
    {.name = "items", .run = filter_items},
    {.name = "join", .run = filter_join, .param = {"d", "attribute"}},
    {.name = "last", .run = filter_last},
    {.name = "length", .run = filter_length},
    {.name = "list", .run = filter_list},
    {.name = "map", .run = filter_map, .param = {"*"}},
    {.name = "max", .run = filter_extreme, .param = {"case_sensitive", "attribute"}, .how = 1},
    {.name = "min", .run = filter_extreme, .param = {"case_sensitive", "attribute"}, .how = -1},
    {.name = "reject", .run = filter_select, .param = {"*"}, .how = REJECT},
    {.name = "rejectattr", .run = filter_select, .param = {"*"}, .how = REJECT | BY_ATTRIBUTE},
    {.name = "reverse", .run = filter_reverse},
    {.name = "select", .run = filter_select, .param = {"*"}},
    {.name = "selectattr", .run = filter_select, .param = {"*"}, .how = BY_ATTRIBUTE},
    {.name = "sort", .run = filter_sort, .param = {"reverse", "case_sensitive", "attribute"}},
    {.name = "sum", .run = filter_sum, .param = {"attribute", "start"}},
    {.name = "unique", .run = filter_unique, .param = {"case_sensitive", "attribute"}},
    {.name = NULL},
};
