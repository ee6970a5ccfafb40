// chat_render.c - a conversation through its template: to marked text, and to ids.
#include <string.h>

#include "format/show.h"
#include "format/template/chat_impl.h"

static fx_status no_memory(fx_error *err)
{
    return fxi_fail(err, FX_ENOMEM, "no memory to render the conversation");
}

// ---- messages as the template wants them --------------------------------------------------------

// The texts of a list of parts with newlines between them.
static fx_status join_parts(const json_t *parts, size_t i, json_t **out, fx_error *err)
{
    fxi_buf text = {0};
    bool ok = true;
    for (size_t k = 0; ok && k < json_array_size(parts); k++) {
        const json_t *part = json_object_get(json_array_get(parts, k), "text");
        if (!json_is_string(part)) {
            fxi_buf_free(&text);
            return fxi_fail(err, FX_EINVAL,
                            "messages[%zu].content[%zu]: is not text, and the "
                            "chat template takes nothing else",
                            i, k);
        }
        ok = (!k || fxi_buf_str(&text, "\n")) &&
             fxi_buf_add(&text, json_string_value(part), json_string_length(part));
    }
    *out = ok ? json_stringn(text.p ? text.p : "", text.n) : NULL;
    fxi_buf_free(&text);
    return *out ? FX_OK : no_memory(err);
}

static bool known_to_builtins(const char *role)
{
    return !strcmp(role, "system") || !strcmp(role, "user") || !strcmp(role, "assistant");
}

static fx_status fit_role(const fxi_chat *c, const fxi_chat_template *t, json_t *message, size_t i,
                          fx_error *err)
{
    const char *role = json_string_value(json_object_get(message, "role"));
    if (!role) return fxi_fail(err, FX_EINVAL, "messages[%zu]: has no role", i);
    if (!strcmp(role, "developer") && !t->knows_developer) {
        role = "system";
        if (json_object_set_new(message, "role", json_string(role))) return no_memory(err);
    }
    if (!c->builtin || known_to_builtins(role)) return FX_OK;
    return fxi_fail(err, FX_EINVAL, "messages[%zu]: unknown role '%s'", i,
                    fxi_show(role, strlen(role)).s);
}

static fx_status fit_content(const fxi_chat *c, const fxi_chat_template *t, json_t *message,
                             size_t i, fx_error *err)
{
    const json_t *content = json_object_get(message, "content");
    json_t *joined;
    if (json_is_array(content) && !fxi_jinja_reads_parts(t->jinja)) {
        FX_TRY(join_parts(content, i, &joined, err));
        return json_object_set_new(message, "content", joined) ? no_memory(err) : FX_OK;
    }
    if (c->builtin && !json_is_string(content))
        return fxi_fail(err, FX_EINVAL, "messages[%zu]: has no text", i);
    return FX_OK;
}

static fx_status fit_message(const fxi_chat *c, const fxi_chat_template *t, const json_t *from,
                             size_t i, json_t *list, fx_error *err)
{
    if (!json_is_object(from))
        return fxi_fail(err, FX_EINVAL, "messages[%zu]: is not an object", i);
    json_t *copy = json_copy((json_t *)from);                            // its members are shared
    const bool whole = json_object_size(copy) == json_object_size(from); // jansson does not say
    if (!copy || json_array_append_new(list, copy) || !whole) return no_memory(err);
    FX_TRY(fit_role(c, t, copy, i, err));
    return fit_content(c, t, copy, i, err);
}

// *out: a list that the caller gives back.
static fx_status fit_messages(const fxi_chat *c, const fxi_chat_template *t, const json_t *from,
                              json_t **out, fx_error *err)
{
    fx_status st = FX_OK;
    *out = NULL;
    if (!json_array_size(from)) return fxi_fail(err, FX_EINVAL, "messages: at least one is needed");
    json_t *list = json_array();
    if (!list) return no_memory(err);
    for (size_t i = 0; st == FX_OK && i < json_array_size(from); i++)
        st = fit_message(c, t, json_array_get(from, i), i, list, err);
    if (st == FX_OK)
        *out = list;
    else
        json_decref(list);
    return st;
}

// ---- variables ----------------------------------------------------------------------------------

enum { N_USUAL = 8, MAX_KWARGS = 64 };

// A variable of the caller's replaces a usual one, as in Hugging Face's apply_chat_template.
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

static fx_status render_fit(const fxi_chat *c, const fxi_chat_template *t,
                            const fxi_chat_request *q, const fxi_chat_said *said,
                            const json_t *messages, fxi_marked *out, fx_error *err)
{
    const json_t *tools = json_array_size(said->tools) ? said->tools : json_null();
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
    FX_TRY(add_kwargs(said->kwargs, var, &context.n_var, err));
    return fxi_jinja_render(t->jinja, &context, out, err);
}

static fx_status render(const fxi_chat *c, const fxi_chat_request *q, const fxi_chat_said *said,
                        fxi_marked *out, fx_error *err)
{
    const bool with_tools = c->has_tools && json_array_size(said->tools);
    const fxi_chat_template *t = with_tools ? &c->tools : &c->usual;
    json_t *messages;
    if (!t->jinja) {
        if (err) *err = t->broken;
        return t->broken.status;
    }
    FX_TRY(fit_messages(c, t, said->messages, &messages, err));
    fx_status st = render_fit(c, t, q, said, messages, out, err);
    json_decref(messages);
    return st;
}

fx_status fxi_chat_render(const fxi_chat *c, const fxi_chat_request *q, fxi_marked *out,
                          fx_error *err)
{
    fxi_chat_said said;
    FX_TRY(fxi_chat_parse(q, &said, err));
    fx_status st = render(c, q, &said, out, err);
    fxi_chat_said_free(&said);
    return st;
}

// ---- ids ----------------------------------------------------------------------------------------

fx_status fxi_chat_encode(const fxi_chat *c, const fxi_vocab *v, const fxi_chat_request *q,
                          fxi_ids *out, fx_error *err)
{
    fxi_marked m = {0};
    fx_status st = fxi_chat_render(c, q, &m, err);
    if (st == FX_OK && m.text.n)
        st = fxi_vocab_encode_marked(v, m.text.p, m.own.p, m.text.n, FXI_ENCODE_SPACE, out, err);
    fxi_marked_free(&m);
    return st;
}
