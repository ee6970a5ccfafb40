// fake_grammar.c - the grammars of the fake engine: a text that says what they were compiled from.
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h"
#include "base/text/buf.h"
#include "server/fake_engine.h"

struct fx_grammar {
    atomic_int n_ref;
    fxi_buf form;
};

static bool describe_part(fxi_buf *b, const fx_part *p)
{
    static const char *const kinds[FX_N_PART] = {"text",   "control", "seq",    "alt",
                                                 "repeat", "free",    "regex",  "json",
                                                 "schema", "object",  "string", "rules"};
    fxi_buf_str(b, kinds[p->kind]);
    if (p->n_bytes) fxi_buf_fmt(b, " %.*s", (int)p->n_bytes, p->text);
    if (p->schema) fxi_buf_fmt(b, " %.*s", (int)p->schema_bytes, p->schema);
    for (size_t i = 0; i < p->n_part; i++) {
        fxi_buf_str(b, i ? "," : "(");
        describe_part(b, &p->part[i]);
    }
    return !p->n_part || fxi_buf_str(b, ")");
}

fx_status fx_grammar_compile(const fx_engine *e, const fx_part *root, fx_grammar **out,
                             fx_error *err)
{
    (void)e;
    *out = NULL;
    fx_grammar *g = calloc(1, sizeof *g);
    if (!g) return fxi_fail(err, FX_ENOMEM, "out of memory");
    atomic_init(&g->n_ref, 1);
    if (!describe_part(&g->form, root)) {
        fx_grammar_release(g);
        return fxi_fail(err, FX_ENOMEM, "out of memory");
    }
    if (strstr(g->form.p, "bad")) {
        fx_grammar_release(g);
        return fxi_fail(err, FX_EINVAL, "the script says 'bad'");
    }
    *out = g;
    return FX_OK;
}

size_t fx_grammar_memory(const fx_engine *e)
{
    (void)e;
    return 0;
}

void fx_set_grammar_memory(fx_engine *e, size_t bytes)
{
    (void)e;
    (void)bytes;
}

void fx_grammar_retain(fx_grammar *g)
{
    atomic_fetch_add(&g->n_ref, 1);
}

void fx_grammar_release(fx_grammar *g)
{
    if (!g || atomic_fetch_sub(&g->n_ref, 1) > 1) return;
    fxi_buf_free(&g->form);
    free(g);
}

const char *fake_engine_form(const fx_grammar *g)
{
    return g ? g->form.p : "";
}
