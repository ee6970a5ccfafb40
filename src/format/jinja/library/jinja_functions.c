// jinja_functions.c - the functions that every template can call.
#include <string.h>

#include "format/jinja/library/jinja_library.h"
#include "format/jinja/tree/jinja_str.h"

enum { MAX_RANGE = 100000 }; // Jinja's limit

static fx_status fn_range(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    int64_t first, start = 0, stop, step;
    fxi_jrange *range;
    FX_TRY(fxi_jcall_int(r, c, 0, 0, &first));
    FX_TRY(fxi_jcall_int(r, c, 1, first, &stop));
    FX_TRY(fxi_jcall_int(r, c, 2, 1, &step));
    if (c->arg[1].type != FXI_JVAL_ABSENT) start = first;
    if (!step) return fxi_jrun_fail(r, "range: the step is 0");
    __int128 width = step > 0 ? (__int128)stop - start : (__int128)start - stop;
    __int128 stride = step > 0 ? step : -(__int128)step;
    __int128 n = width > 0 ? (width + stride - 1) / stride : 0;
    if (n > MAX_RANGE) return fxi_jrun_fail(r, "range: longer than %d", MAX_RANGE);
    FX_TRY(fxi_jrun_take(r, sizeof *range, &range));
    *range = (fxi_jrange){start, stop, step, (size_t)n};
    *out = (fxi_jval){.type = FXI_JVAL_RANGE, .range = range};
    return FX_OK;
}

// The pairs of an optional dictionary or list of pairs, then the named arguments.
static fx_status collect_pairs(fxi_jrun *r, const fxi_jcall *c, fxi_jpair **out, size_t *n)
{
    fxi_jval source = c->all->n ? c->all->v[0] : fxi_jval_undefined(NULL);
    fxi_jseq items = {0}, pair;
    if (c->all->n > 1) return fxi_jrun_fail(r, "%s: takes one mapping at most", c->row->name);
    if (source.type != FXI_JVAL_DICT) FX_TRY(fxi_jval_items(r, source, &items));
    const size_t n_item = source.type == FXI_JVAL_DICT ? source.dict->n : items.n;
    fxi_jpair *e;
    FX_TRY(fxi_jrun_take(r, (n_item + c->all->n_kw) * sizeof *e, &e));
    for (*n = 0; *n < n_item; ++*n) {
        if (source.type == FXI_JVAL_DICT) {
            e[*n] = source.dict->e[*n];
            continue;
        }
        FX_TRY(fxi_jval_items(r, items.v[*n], &pair));
        if (pair.n != 2) return fxi_jrun_fail(r, "%s: wants pairs", c->row->name);
        e[*n] = (fxi_jpair){pair.v[0], pair.v[1]};
    }
    for (size_t i = 0; i < c->all->n_kw; i++)
        e[(*n)++] =
            (fxi_jpair){{.type = FXI_JVAL_STR, .s = c->all->kw[i].name}, c->all->kw[i].value};
    *out = e;
    return FX_OK;
}

static fx_status fn_namespace(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    struct fxi_jnamespace *ns;
    fxi_jpair *e = NULL;
    fxi_jval d;
    size_t n = 0;
    FX_TRY(collect_pairs(r, c, &e, &n));
    for (size_t i = 0; i < n; i++)
        if (e[i].key.type != FXI_JVAL_STR) return fxi_jrun_fail(r, "namespace: names are strings");
    FX_TRY(fxi_jdict_merge(r, e, n, &d));
    FX_TRY(fxi_jrun_take(r, sizeof *ns, &ns));
    *ns = (struct fxi_jnamespace){.e = e, .n = d.dict->n, .cap = n};
    *out = (fxi_jval){.type = FXI_JVAL_NAMESPACE, .ns = ns};
    return FX_OK;
}

static fx_status fn_raise(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s;
    (void)out;
    FX_TRY(fxi_jval_to_str(r, c->arg[0], &s));
    return fxi_jrun_fail_text(r, "", s);
}

// The caller's clock. libc's strftime has Python's letters; a result that does not fit is empty.
static fx_status fn_strftime(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s;
    char fmt[128], text[256];
    fxi_jout o = {0};
    FX_TRY(fxi_jcall_str(r, c, 0, &s));
    if (s->n >= sizeof fmt || memchr(s->p, 0, s->n))
        return fxi_jrun_fail(r, "strftime_now: the format is too long");
    memcpy(fmt, s->p, s->n);
    fmt[s->n] = 0;
    size_t n = s->n ? strftime(text, sizeof text, fmt, &r->c->now) : 0;
    FX_TRY(fxi_jout_add_bytes(r, &o, text, n, fxi_jstr_owns(s, 0, s->n)));
    return fxi_jout_finish(r, &o, out);
}

// ---- the table ----------------------------------------------------------------------------------

const fxi_jroutine fxi_jlibrary_functions[] = {
    {.name = "namespace", .run = fn_namespace, .param = {"*"}},
    {.name = "raise_exception", .run = fn_raise, .n_must = 1, .param = {"message"}},
    {.name = "range", .run = fn_range, .n_must = 1, .param = {"-", "-", "-"}},
    {.name = "strftime_now", .run = fn_strftime, .n_must = 1, .param = {"format"}},
    {.name = NULL},
};
