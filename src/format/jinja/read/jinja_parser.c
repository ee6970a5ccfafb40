// jinja_parser.c - what both parsers use: tokens, nodes, names, nesting.
#include <stdio.h>
#include <string.h>

#include "format/jinja/read/jinja_parse.h"

fx_status fxi_jparse_next(fxi_jparse *p)
{
    p->cur = p->ahead;
    return fxi_jlex_next(&p->lex, &p->ahead);
}

bool fxi_jparse_at_op(const fxi_jparse *p, int op)
{
    return p->cur.kind == FXI_JTOK_OP && p->cur.op == op;
}

bool fxi_jtoken_is_name(const fxi_jtoken *t, const char *name)
{
    return t->kind == FXI_JTOK_NAME && t->n == strlen(name) && !memcmp(t->p, name, t->n);
}

bool fxi_jparse_at_name(const fxi_jparse *p, const char *name)
{
    return fxi_jtoken_is_name(&p->cur, name);
}

fx_status fxi_jparse_wrong(fxi_jparse *p, const char *expected)
{
    static const char *const words[] = {[FXI_JTOK_END] = "the end",
                                        [FXI_JTOK_DATA] = "text",
                                        [FXI_JTOK_VAR_END] = "'}}'",
                                        [FXI_JTOK_BLOCK_END] = "'%}'"};
    const fxi_jtoken *t = &p->cur;
    if (t->kind <= FXI_JTOK_BLOCK_END && words[t->kind])
        return fxi_jlex_refuse(p->err, t->line, "expected %s, got %s", expected, words[t->kind]);
    return fxi_jlex_refuse(p->err, t->line, "expected %s, got '%.*s'", expected,
                           t->n < 40 ? (int)t->n : 40, t->p);
}

fx_status fxi_jparse_expect_op(fxi_jparse *p, int op)
{
    char what[] = {'\'', (char)op, '\'', 0};
    return fxi_jparse_at_op(p, op) ? fxi_jparse_next(p) : fxi_jparse_wrong(p, what);
}

fx_status fxi_jparse_expect_name(fxi_jparse *p, const char *name)
{
    char what[32];
    snprintf(what, sizeof what, "'%s'", name);
    return fxi_jparse_at_name(p, name) ? fxi_jparse_next(p) : fxi_jparse_wrong(p, what);
}

fx_status fxi_jparse_no_memory(fxi_jparse *p)
{
    return fxi_fail(p->err, FX_ENOMEM, "no memory for the chat template");
}

fx_status fxi_jparse_node(fxi_jparse *p, fxi_jkind kind, int line, fxi_jnode **out)
{
    fxi_jnode *n = fxi_jmem_take(p->mem, sizeof *n);
    if (!n) return fxi_jparse_no_memory(p);
    *n = (fxi_jnode){.kind = (uint8_t)kind, .line = line};
    *out = n;
    return FX_OK;
}

fx_status fxi_jparse_intern(fxi_jparse *p, fxi_jnames **names, const char *s, size_t n,
                            const fxi_jstr **out)
{
    *out = fxi_jnames_add(p->mem, names, s, n);
    if (*out) return FX_OK;
    if (!fxi_jnames_is_full(*names)) return fxi_jparse_no_memory(p);
    return fxi_jlex_refuse(p->err, p->cur.line, "more than %d names", FXI_JNAMES_MAX);
}

fx_status fxi_jparse_name(fxi_jparse *p, const fxi_jstr **out)
{
    if (p->cur.kind != FXI_JTOK_NAME) return fxi_jparse_wrong(p, "a name");
    FX_TRY(fxi_jparse_intern(p, p->names, p->cur.p, p->cur.n, out));
    return fxi_jparse_next(p);
}

fx_status fxi_jparse_binds(fxi_jparse *p, const fxi_jstr *name)
{
    const fxi_jstr *same;
    return fxi_jparse_intern(p, &p->bound, name->p, name->n, &same);
}

fx_status fxi_jparse_enter(fxi_jparse *p)
{
    if (p->depth == FXI_JLEX_MAX_NEST)
        return fxi_jlex_refuse(p->err, p->cur.line, "nests deeper than %d", FXI_JLEX_MAX_NEST);
    p->depth++;
    return FX_OK;
}
