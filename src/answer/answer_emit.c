// answer_emit.c - events. Neighbouring bytes of one kind are emitted together, at the end of the
// bytes at hand, or before an event of another kind.
#include "answer/answer_states.h"

bool fxi_emit_flush(fxi_answer *a)
{
    const fxi_answer_event ev = {.kind = a->kind, .p = a->out.p, .n = a->out.n};
    bool ok = !a->out.n || a->fn(a->ud, &ev);
    fxi_buf_clear(&a->out);
    return ok;
}

bool fxi_emit_bytes(fxi_answer *a, fxi_answer_kind kind, const char *p, size_t n)
{
    if (a->kind != kind && !fxi_emit_flush(a)) return false;
    a->kind = kind;
    return !n || fxi_buf_add(&a->out, p, n);
}

bool fxi_emit_byte(fxi_answer *a, fxi_answer_kind kind, char c)
{
    if (fxi_is_blank(c) && a->trim) return true;
    if (fxi_is_blank(c)) return fxi_buf_add(&a->space, &c, 1);
    a->trim = false;
    bool ok = fxi_emit_bytes(a, kind, a->space.p, a->space.n) && fxi_emit_bytes(a, kind, &c, 1);
    fxi_buf_clear(&a->space);
    return ok;
}

// ---- calls --------------------------------------------------------------------------------------

static bool names_a_tool(const fxi_answer *a)
{
    const fxi_buf *name = &a->call.name;
    return !a->bare || !a->spec.has_tool || a->spec.has_tool(a->spec.tools, name->p, name->n);
}

fxi_body_step fxi_emit_call(fxi_answer *a)
{
    fxi_call_draft *d = &a->call;
    const fxi_answer_event ev = {FXI_ANSWER_CALL, d->name.p, d->name.n, d->id.p, d->id.n, 0};
    if (d->begun) return FXI_BODY_MORE;
    if (!names_a_tool(a)) return fxi_body_bad(a, 0);
    if (!fxi_emit_flush(a) || !a->fn(a->ud, &ev)) return FXI_BODY_NO_MEMORY;
    d->begun = true;
    a->emitted = d->args.n ? a->at + 1 : a->at;
    const bool ok = fxi_emit_bytes(a, FXI_ANSWER_ARGS, d->args.p, d->args.n);
    fxi_buf_clear(&d->args);
    return ok ? FXI_BODY_MORE : FXI_BODY_NO_MEMORY;
}

bool fxi_emit_args(fxi_answer *a, const char *p, size_t n)
{
    a->call.has_args = true;
    if (!a->call.begun) return fxi_buf_add(&a->call.args, p, n);
    a->emitted = a->at + 1;
    return fxi_emit_bytes(a, FXI_ANSWER_ARGS, p, n);
}

bool fxi_emit_done(fxi_answer *a)
{
    const fxi_answer_event ev = {.kind = FXI_ANSWER_DONE};
    a->has_called = true;
    fxi_buf_clear(&a->space);
    return fxi_emit_flush(a) && a->fn(a->ud, &ev);
}

static bool emit_text_bytes(fxi_answer *a, size_t to)
{
    a->trim = false;
    for (size_t i = a->from; i < to; i++)
        if (!fxi_emit_byte(a, FXI_ANSWER_TEXT, a->in.p[i])) return false;
    return true;
}

// What is no call: the bytes from a->from to `to`.
static bool emit_broken(fxi_answer *a, size_t to)
{
    if (!a->call.begun) return emit_text_bytes(a, to);
    const size_t emitted = a->emitted > to ? to : a->emitted > a->from ? a->emitted : a->from;
    fxi_buf *raw = &a->space; // with the white space in front
    fxi_answer_event ev = {.kind = FXI_ANSWER_BROKEN, .n_emitted = raw->n + emitted - a->from};
    if (!fxi_buf_add(raw, a->in.p + a->from, to - a->from) || !fxi_emit_flush(a)) return false;
    ev.p = raw->p;
    ev.n = raw->n;
    a->trim = false;
    const bool ok = a->fn(a->ud, &ev);
    fxi_buf_clear(raw);
    return ok;
}

// ---- what follows an event ----------------------------------------------------------------------

void fxi_answer_settle(fxi_answer *a, size_t at)
{
    a->from = a->mark = a->at = at;
}

void fxi_answer_enter(fxi_answer *a, int state)
{
    a->state = state;
    a->trim = true;
    fxi_buf_clear(&a->space);
}

bool fxi_answer_break(fxi_answer *a, size_t to)
{
    if (to <= a->from) to = a->from + 1;
    const bool ok = emit_broken(a, to);
    a->call.begun = false;
    fxi_answer_settle(a, to);
    a->state = FXI_STATE_TEXT;
    return ok;
}
