// jinja_globals.c - the functions that every template has.
#include <string.h>

#include "format/chat/jinja_impl.h"

enum { MAX_RANGE = 100000 }; // Jinja's own

static fx_status fn_range(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    int64_t first, start = 0, stop, step;
    fxi_jrange *range;
    FX_TRY(fxi_j_arg_int(r, c, 0, 0, &first));
    FX_TRY(fxi_j_arg_int(r, c, 1, first, &stop));
    FX_TRY(fxi_j_arg_int(r, c, 2, 1, &step));
    if (c->arg[1].type != FXI_J_ABSENT) start = first;
    if (!step) return fxi_j_fail(r, "range: the step is 0");
    __int128 width = step > 0 ? (__int128)stop - start : (__int128)start - stop;
    __int128 stride = step > 0 ? step : -(__int128)step;
    __int128 n = width > 0 ? (width + stride - 1) / stride : 0;
    if (n > MAX_RANGE) return fxi_j_fail(r, "range: longer than %d", MAX_RANGE);
    FX_TRY(fxi_j_take(r, sizeof *range, &range));
    *range = (fxi_jrange){start, stop, step, (size_t)n};
    *out = (fxi_jval){.type = FXI_J_RANGE, .range = range};
    return FX_OK;
}

// The pairs of a dictionary or of a list of pairs, if there is one, and the named arguments.
static fx_status pairs_of(fxi_jrun *r, const fxi_jcall *c, fxi_jpair **out, size_t *n)
{
    fxi_jval source = c->all->n ? c->all->v[0] : fxi_j_undefined(NULL);
    fxi_jseq items = {0}, pair;
    if (c->all->n > 1) return fxi_j_fail(r, "%s: takes one mapping at most", c->row->name);
    if (source.type != FXI_J_DICT) FX_TRY(fxi_j_items(r, source, &items));
    const size_t n_item = source.type == FXI_J_DICT ? source.dict->n : items.n;
    fxi_jpair *e;
    FX_TRY(fxi_j_take(r, (n_item + c->all->n_kw) * sizeof *e, &e));
    for (*n = 0; *n < n_item; ++*n) {
        if (source.type == FXI_J_DICT) {
            e[*n] = source.dict->e[*n];
            continue;
        }
        FX_TRY(fxi_j_items(r, items.v[*n], &pair));
        if (pair.n != 2) return fxi_j_fail(r, "%s: wants pairs", c->row->name);
        e[*n] = (fxi_jpair){pair.v[0], pair.v[1]};
    }
    for (size_t i = 0; i < c->all->n_kw; i++)
        e[(*n)++] = (fxi_jpair){{.type = FXI_J_STR, .s = c->all->kw[i].name}, c->all->kw[i].value};
    *out = e;
    return FX_OK;
}

static fx_status fn_dict(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    fxi_jpair *e;
    size_t n;
    FX_TRY(pairs_of(r, c, &e, &n));
    return fxi_j_dict(r, e, n, out);
}

static fx_status fn_namespace(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    struct fxi_jnamespace *ns;
    fxi_jpair *e;
    fxi_jval d;
    size_t n;
    FX_TRY(pairs_of(r, c, &e, &n));
    for (size_t i = 0; i < n; i++)
        if (e[i].key.type != FXI_J_STR) return fxi_j_fail(r, "namespace: names are strings");
    FX_TRY(fxi_j_dict(r, e, n, &d));
    FX_TRY(fxi_j_take(r, sizeof *ns, &ns));
    *ns = (struct fxi_jnamespace){.e = e, .n = d.dict->n, .cap = n};
    *out = (fxi_jval){.type = FXI_J_NAMESPACE, .ns = ns};
    return FX_OK;
}

static fx_status make_cycler(fxi_jrun *r, fxi_jtype type, const fxi_jval *v, size_t n,
                             fxi_jval *out)
{
    struct fxi_jcycler *c;
    fxi_jval seq;
    FX_TRY(fxi_j_take(r, sizeof *c, &c));
    FX_TRY(fxi_j_seq(r, FXI_J_TUPLE, v, n, &seq));
    *c = (struct fxi_jcycler){.seq = seq.seq};
    *out = (fxi_jval){.type = (uint8_t)type, .cycler = c};
    return FX_OK;
}

static fx_status fn_cycler(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    if (!c->all->n || c->all->n_kw) return fxi_j_fail(r, "cycler: wants values");
    return make_cycler(r, FXI_J_CYCLER, c->all->v, c->all->n, out);
}

static fx_status fn_joiner(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    fxi_jval *sep;
    FX_TRY(fxi_j_take(r, sizeof *sep, &sep));
    *sep = c->arg[0];
    if (sep->type == FXI_J_ABSENT) FX_TRY(fxi_j_text(r, ", ", true, sep));
    return make_cycler(r, FXI_J_JOINER, sep, 1, out);
}

static fx_status fn_raise(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s;
    (void)out;
    FX_TRY(fxi_j_to_str(r, c->arg[0], &s));
    return fxi_j_fail_text(r, "", s);
}

// What the caller's clock shows. libc's strftime knows Python's letters; what does not fit is not
// shown at all.
static fx_status fn_strftime(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jstr *s;
    char fmt[128], text[256];
    fxi_jout o = {0};
    FX_TRY(fxi_j_arg_str(r, c, 0, &s));
    if (s->n >= sizeof fmt || memchr(s->p, 0, s->n))
        return fxi_j_fail(r, "strftime_now: the format is too long");
    memcpy(fmt, s->p, s->n);
    fmt[s->n] = 0;
    size_t n = s->n ? strftime(text, sizeof text, fmt, &r->c->now) : 0;
    FX_TRY(fxi_jout_bytes(r, &o, text, n, fxi_j_own(s, 0, s->n)));
    return fxi_jout_done(r, &o, out);
}

// ---- the table ----------------------------------------------------------------------------------

const struct fxi_jfunction fxi_j_functions[] = {
    {{.name = "cycler", .run = fn_cycler, .param = {"*"}}},
    {{.name = "dict", .run = fn_dict, .param = {"*"}}},
    {{.name = "joiner", .run = fn_joiner, .param = {"sep"}}},
    {{.name = "namespace", .run = fn_namespace, .param = {"*"}}},
    {{.name = "raise_exception", .run = fn_raise, .n_must = 1, .param = {"message"}}},
    {{.name = "range", .run = fn_range, .n_must = 1, .param = {"-", "-", "-"}}},
    {{.name = "strftime_now", .run = fn_strftime, .n_must = 1, .param = {"format"}}},
};

const struct fxi_jfunction *fxi_j_find_function(const char *name, size_t n)
{
    for (size_t i = 0; i < sizeof fxi_j_functions / sizeof *fxi_j_functions; i++) {
        const struct fxi_jfunction *f = &fxi_j_functions[i];
        if (strlen(f->row.name) == n && !memcmp(f->row.name, name, n)) return f;
    }
    return NULL;
}
