// jinja_filters_sort.c - filters that compare items: sort, dictsort, unique.
#include <string.h>

#include "format/jinja/library/jinja_library.h"
#include "format/jinja/tree/jinja_str.h"

typedef struct sort_item { // an item and its key
    fxi_jval item, key;
} sort_item;

static fx_status lowered_key(fxi_jrun *r, fxi_jval v, fxi_jval *out)
{
    *out = v;
    return v.type == FXI_JVAL_STR ? fxi_jstr_recase(r, v.s, 'l', out) : FX_OK;
}

// "a.b,c": a list of the values at these paths.
static fx_status keys_by(fxi_jrun *r, fxi_jval item, fxi_jval paths, bool cased, fxi_jval *out)
{
    fxi_jval *v, path;
    size_t n = 1, i = 0;
    if (paths.type != FXI_JVAL_STR) {
        FX_TRY(fxi_jval_path(r, item, paths, out));
        return cased ? FX_OK : lowered_key(r, *out, out);
    }
    for (size_t k = 0; k < paths.s->n; k++) n += paths.s->p[k] == ',';
    FX_TRY(fxi_jrun_take(r, n * sizeof *v, &v));
    for (size_t from = 0; i < n; i++) {
        const char *comma = memchr(paths.s->p + from, ',', paths.s->n - from);
        size_t to = comma ? (size_t)(comma - paths.s->p) : paths.s->n;
        FX_TRY(fxi_jstr_part(r, paths.s, from, to - from, &path));
        FX_TRY(fxi_jval_path(r, item, path, &v[i]));
        if (!cased) FX_TRY(lowered_key(r, v[i], &v[i]));
        from = to + 1;
    }
    return fxi_jval_make_seq(r, FXI_JVAL_LIST, v, n, out);
}

static fx_status key_of(fxi_jrun *r, fxi_jval item, fxi_jval by, bool cased, fxi_jval *out)
{
    bool plain = by.type == FXI_JVAL_ABSENT || by.type == FXI_JVAL_NONE;
    if (!plain) return keys_by(r, item, by, cased, out);
    *out = item;
    return cased ? FX_OK : lowered_key(r, item, out);
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

static fx_status filter_sort(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
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

static fx_status filter_dictsort(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *by = &(fxi_jstr){.p = "key", .n = 3};
    sort_item *s;
    FX_TRY(fxi_jval_need_defined(r, c->self));
    if (c->self.type != FXI_JVAL_DICT)
        return fxi_jrun_fail(r, "dictsort: a %s is not a mapping", fxi_jval_type_name(c->self));
    if (c->arg[1].type != FXI_JVAL_ABSENT) FX_TRY(fxi_jcall_str(r, c, 1, &by));
    bool by_value = fxi_jstr_is(by, "value");
    if (!by_value && !fxi_jstr_is(by, "key"))
        return fxi_jrun_fail(r, "dictsort: by 'key' or 'value'");
    const fxi_jdict *d = c->self.dict;
    FX_TRY(fxi_jrun_take(r, d->n * sizeof *s, &s));
    for (size_t i = 0; i < d->n; i++) {
        fxi_jval key = by_value ? d->e[i].value : d->e[i].key;
        FX_TRY(fxi_jval_make_seq(r, FXI_JVAL_TUPLE, &d->e[i].key, 2, &s[i].item));
        FX_TRY(key_of(r, key, fxi_jval_none(), fxi_jcall_true(c, 0), &s[i].key));
    }
    return make_sorted(r, s, d->n, fxi_jcall_true(c, 2), out);
}

static fx_status filter_unique(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
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
            return fxi_jrun_fail(r, "unique: a dict cannot be compared by what it holds");
        for (size_t k = 0; k < n && !seen; k++) FX_TRY(fxi_jval_equal(r, keys[k], keys[n], &seen));
        if (!seen) v[n++] = items.v[i];
    }
    return fxi_jval_make_generator(r, v, n, out);
}

// ---- the table ----------------------------------------------------------------------------------

const fxi_jroutine fxi_jlibrary_sort_filters[] = {
    {.name = "dictsort", .run = filter_dictsort, .param = {"case_sensitive", "by", "reverse"}},
    {.name = "sort", .run = filter_sort, .param = {"reverse", "case_sensitive", "attribute"}},
    {.name = "unique", .run = filter_unique, .param = {"case_sensitive", "attribute"}},
    {.name = NULL},
};
