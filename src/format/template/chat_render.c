// chat_render.c - a conversation through its template: to marked text, and to ids.
#include <string.h>

#include "format/template/chat_impl.h"

// ---- variables ----------------------------------------------------------------------------------

enum { N_USUAL = 8, MAX_KWARGS = 64 };

// A caller's variable replaces a usual one, as in transformers' apply_chat_template.
static fx_status add_kwargs(const json_t *kwargs, fxi_jinja_var *var, size_t *n, fx_error *err)
{
    const char *name;
    json_t *value;
    if (json_object_size(kwargs) > MAX_KWARGS)
        return fxi_fail(err, FX_EINVAL, "chat_template_kwargs: more than %d", MAX_KWARGS);
    json_object_foreach((json_t *)kwargs, name, value)
    {
        if (!strcmp(name, "messages") || !strcmp(name, "tools"))
            return fxi_fail(err, FX_EINVAL, "chat_template_kwargs: '%s' has its own field", name);
        var[(*n)++] = (fxi_jinja_var){name, value, FXI_JINJA_CALLERS};
    }
    return FX_OK;
}

static fx_status render_fitted(const fxi_chat *c, const fxi_chat_template *t,
                               const fxi_conversation *q, const json_t *messages, fxi_marked *out,
                               fx_error *err)
{
    const json_t *tools = json_array_size(q->tools) ? q->tools : json_null();
    fxi_jinja_var var[N_USUAL + MAX_KWARGS] = {
        {"messages", messages, FXI_JINJA_MESSAGES},
        {"tools", tools, FXI_JINJA_CALLERS},
        {"documents", json_null(), FXI_JINJA_CALLERS},
        {"add_generation_prompt", json_boolean(q->add_generation_prompt), FXI_JINJA_CALLERS},
        {"bos_token", c->bos, FXI_JINJA_OWN},
        {"eos_token", c->eos, FXI_JINJA_OWN},
    };
    fxi_jinja_context context = {.var = var, .n_var = 6, .now = q->now};
    if (c->builtin)
        var[context.n_var++] =
            (fxi_jinja_var){"add_bos", json_boolean(c->adds_bos), FXI_JINJA_CALLERS};
    FX_TRY(add_kwargs(q->kwargs, var, &context.n_var, err));
    return fxi_jinja_render(t->jinja, &context, out, err);
}

static fx_status check_types(const fxi_conversation *q, fx_error *err)
{
    if (q->messages && !json_is_array(q->messages))
        return fxi_fail(err, FX_EINVAL, "messages: not an array");
    if (q->tools && !json_is_array(q->tools))
        return fxi_fail(err, FX_EINVAL, "tools: not an array");
    if (q->kwargs && !json_is_object(q->kwargs))
        return fxi_fail(err, FX_EINVAL, "chat_template_kwargs: not an object");
    return FX_OK;
}

fx_status fxi_chat_render(const fxi_chat *c, const fxi_conversation *q, fxi_marked *out,
                          fx_error *err)
{
    const bool with_tools = c->has_tools && json_array_size(q->tools);
    const fxi_chat_template *t = with_tools ? &c->tools : &c->usual;
    const size_t from = out->text.n;
    json_t *messages;
    FX_TRY(check_types(q, err));
    if (!t->jinja) {
        if (err) *err = t->broken;
        return t->broken.status;
    }
    FX_TRY(fxi_chat_fit(c, t, q, &messages, err));
    fx_status st = render_fitted(c, t, q, messages, out, err);
    if (st == FX_OK && q->continue_final) st = fxi_chat_cut_final(messages, from, out, err);
    if (st != FX_OK) out->text.n = out->own.n = from;
    json_decref(messages);
    return st;
}

// ---- ids ----------------------------------------------------------------------------------------

fx_status fxi_chat_encode(const fxi_chat *c, const fxi_vocab *v, const fxi_conversation *q,
                          fxi_ids *out, fx_error *err)
{
    fxi_marked m = {0};
    fx_status st = fxi_chat_render(c, q, &m, err);
    if (st == FX_OK && m.text.n)
        st = fxi_vocab_encode_marked(v, m.text.p, m.own.p, m.text.n, FXI_ENCODE_SPACE, out, err);
    fxi_marked_free(&m);
    return st;
}
