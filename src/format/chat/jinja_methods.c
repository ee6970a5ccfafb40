// jinja_methods.c - methods of dictionaries, lists, cyclers and loops, and which methods a Python
// type has at all: their names hide items of the same name, whether we run them or not.
#include <string.h>

#include "format/chat/jinja_impl.h"

// ---- dictionaries -------------------------------------------------------------------------------

static fx_status dict_get(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    const fxi_jval *found;
    if (!fxi_j_hashable(c->arg[0]))
        return fxi_j_fail(r, "a %s cannot be a key", fxi_j_type_name(c->arg[0]));
    FX_TRY(fxi_j_lookup(r, c->self.dict, c->arg[0], &found));
    *out = found ? *found : c->arg[1].type == FXI_J_ABSENT ? fxi_j_none() : c->arg[1];
    return FX_OK;
}

// row->how: what is seen of it
static fx_status dict_view(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    struct fxi_jview *v;
    FX_TRY(fxi_j_take(r, sizeof *v, &v));
    *v = (struct fxi_jview){c->self.dict, (fxi_jview_kind)c->row->how};
    *out = (fxi_jval){.type = FXI_J_VIEW, .view = v};
    return FX_OK;
}

// Nothing can be changed, so that a copy is the thing itself.
static fx_status self_again(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    (void)r;
    *out = c->self;
    return FX_OK;
}

const fxi_jroutine fxi_j_dict_methods[] = {
    {.name = "copy", .run = self_again},
    {.name = "get", .run = dict_get, .n_must = 1, .param = {"-", "-"}},
    {.name = "items", .run = dict_view, .how = FXI_J_ITEMS},
    {.name = "keys", .run = dict_view, .how = FXI_J_KEYS},
    {.name = "values", .run = dict_view, .how = FXI_J_VALUES},
    {.name = NULL},
};

// ---- lists and tuples ---------------------------------------------------------------------------

static fx_status seq_count(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    int64_t n = 0;
    for (size_t i = 0; i < c->self.seq->n; i++) {
        bool same;
        FX_TRY(fxi_j_equal(r, c->self.seq->v[i], c->arg[0], &same));
        n += same;
    }
    *out = fxi_j_int(n);
    return FX_OK;
}

static fx_status seq_index(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    for (size_t i = 0; i < c->self.seq->n; i++) {
        bool same;
        FX_TRY(fxi_j_equal(r, c->self.seq->v[i], c->arg[0], &same));
        if (!same) continue;
        *out = fxi_j_int((int64_t)i);
        return FX_OK;
    }
    return fxi_j_fail(r, "index: it is not in there");
}

const fxi_jroutine fxi_j_seq_methods[] = {
    {.name = "count", .run = seq_count, .n_must = 1, .param = {"-"}},
    {.name = "copy", .run = self_again},
    {.name = "index", .run = seq_index, .n_must = 1, .param = {"-"}},
    {.name = NULL},
};

// ---- loops and cyclers --------------------------------------------------------------------------

static fx_status loop_cycle(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    if (!c->all->n || c->all->n_kw) return fxi_j_fail(r, "cycle: wants values");
    *out = c->all->v[c->self.loop->i % c->all->n];
    return FX_OK;
}

// Whether it is called with other values than the last time.
static fx_status loop_changed(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    fxi_jval now;
    bool same = false;
    if (c->all->n_kw) return fxi_j_fail(r, "changed: takes no names");
    FX_TRY(fxi_j_seq(r, FXI_J_TUPLE, c->all->v, c->all->n, &now));
    if (c->self.loop->changed.type != FXI_J_ABSENT)
        FX_TRY(fxi_j_equal(r, c->self.loop->changed, now, &same));
    c->self.loop->changed = now;
    *out = fxi_j_bool(!same);
    return FX_OK;
}

const fxi_jroutine fxi_j_loop_methods[] = {
    {.name = "changed", .run = loop_changed, .param = {"*"}},
    {.name = "cycle", .run = loop_cycle, .param = {"*"}},
    {.name = NULL},
};

static fx_status cycler_next(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    struct fxi_jcycler *cy = c->self.cycler;
    (void)r;
    *out = cy->seq->v[cy->at];
    cy->at = (cy->at + 1) % cy->seq->n;
    return FX_OK;
}

static fx_status cycler_reset(fxi_jrun *r, const fxi_jcall *c, fxi_jval *out)
{
    (void)r;
    c->self.cycler->at = 0;
    *out = fxi_j_none();
    return FX_OK;
}

static const fxi_jroutine cycler_methods[] = {
    {.name = "next", .run = cycler_next},
    {.name = "reset", .run = cycler_reset},
    {.name = NULL},
};

// ---- which methods there are --------------------------------------------------------------------

// The names that Python's types have beside those of our tables, with blanks around each.
static const char str_has[] = " casefold encode expandtabs format_map isascii isdecimal "
                              "isidentifier isprintable maketrans translate ";
static const char dict_has[] = " clear fromkeys pop popitem setdefault update ";
static const char list_has[] = " append clear extend insert pop remove reverse sort ";

static const struct {
    const fxi_jroutine *rows;
    const char *others;
} methods[FXI_J_N_TYPE] = {
    [FXI_J_STR] = {fxi_j_str_methods, str_has},   [FXI_J_DICT] = {fxi_j_dict_methods, dict_has},
    [FXI_J_LIST] = {fxi_j_seq_methods, list_has}, [FXI_J_TUPLE] = {fxi_j_seq_methods, ""},
    [FXI_J_LOOP] = {fxi_j_loop_methods, ""},      [FXI_J_CYCLER] = {cycler_methods, ""},
};

static bool has_word(const char *words, const fxi_jstr *name)
{
    for (const char *at = words; name->n && (at = memmem(at, strlen(at), name->p, name->n)); at++)
        if (at > words && at[-1] == ' ' && at[name->n] == ' ') return true;
    return false;
}

const fxi_jroutine *fxi_j_find_method(fxi_jval v, const fxi_jstr *name, bool *exists)
{
    *exists = false;
    if (!methods[v.type].rows) return NULL;
    const fxi_jroutine *row = fxi_jroutine_find(methods[v.type].rows, name->p, name->n);
    *exists = row || has_word(methods[v.type].others, name);
    return row;
}
