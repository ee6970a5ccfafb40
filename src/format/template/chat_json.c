// chat_json.c - a conversation's JSON: read from a request, and written for messages of plain text.
#include <string.h>

#include "base/utf8.h"
#include "format/json_text.h"
#include "format/template/chat_impl.h"

// ---- in -----------------------------------------------------------------------------------------

static fx_status parse(const char *what, const char *text, json_type type, json_t **out,
                       fx_error *err)
{
    json_error_t e;
    bool no_memory;
    *out = NULL;
    if (!text) return FX_OK;
    *out = fxi_json_text(text, strlen(text), 0, &no_memory, &e);
    if (no_memory) return fxi_fail(err, FX_ENOMEM, "no memory for %s", what);
    if (!*out)
        return fxi_fail(err, FX_EINVAL, "%s: not JSON: line %d, column %d: %s", what, e.line,
                        e.column, e.text);
    if (json_typeof(*out) == type) return FX_OK;
    json_decref(*out);
    *out = NULL;
    return fxi_fail(err, FX_EINVAL, "%s: not an %s", what, type == JSON_ARRAY ? "array" : "object");
}

fx_status fxi_chat_parse(const fxi_chat_request *q, fxi_chat_said *out, fx_error *err)
{
    *out = (fxi_chat_said){0};
    fx_status st = parse("messages", q->messages, JSON_ARRAY, &out->messages, err);
    if (st == FX_OK) st = parse("tools", q->tools, JSON_ARRAY, &out->tools, err);
    if (st == FX_OK) st = parse("chat_template_kwargs", q->kwargs, JSON_OBJECT, &out->kwargs, err);
    if (st != FX_OK) fxi_chat_said_free(out);
    return st;
}

void fxi_chat_said_free(fxi_chat_said *s)
{
    json_decref(s->messages);
    json_decref(s->tools);
    json_decref(s->kwargs);
    *s = (fxi_chat_said){0};
}

// ---- out ----------------------------------------------------------------------------------------

static fx_status no_memory(fx_error *err)
{
    return fxi_fail(err, FX_ENOMEM, "no memory for the messages");
}

static fx_status quote_one(const fxi_chat_msg *m, size_t i, json_t *list, fx_error *err)
{
    const char *role = m->role ? m->role : "";
    size_t bad = fxi_utf8_check(m->text.p, m->text.n);
    if (bad < m->text.n)
        return fxi_fail(err, FX_EINVAL, "messages[%zu]: bad UTF-8 at byte %zu", i, bad);
    if (memchr(m->text.p ? m->text.p : "", 0, m->text.n))
        return fxi_fail(err, FX_EINVAL, "messages[%zu]: a character of code 0", i);
    if (fxi_utf8_check(role, strlen(role)) < strlen(role))
        return fxi_fail(err, FX_EINVAL, "messages[%zu]: bad UTF-8 in the role", i);
    json_t *one =
        json_pack("{s:s, s:s%}", "role", role, "content", m->text.p ? m->text.p : "", m->text.n);
    return one && !json_array_append_new(list, one) ? FX_OK : no_memory(err);
}

static int add_bytes(const char *p, size_t n, void *to)
{
    return fxi_buf_add(to, p, n) ? 0 : -1;
}

fx_status fxi_chat_quote(const fxi_chat_msg *msg, size_t n_msg, fxi_buf *json, fx_error *err)
{
    const size_t before = json->n;
    json_t *list = json_array();
    fx_status st = list ? FX_OK : no_memory(err);
    for (size_t i = 0; st == FX_OK && i < n_msg; i++) st = quote_one(&msg[i], i, list, err);
    if (st == FX_OK && json_dump_callback(list, add_bytes, json, JSON_COMPACT)) st = no_memory(err);
    if (st != FX_OK) json->n = before;
    json_decref(list);
    return st;
}
