// ep_model.c - what is served: the model under each of its names, its properties, the version.
#include <string.h>

#include "base/json/json_write.h"
#include "server/endpoint/endpoint.h"

bool fxi_endpoint_end(bool ok, fxi_http_error *err)
{
    return ok || fxi_http_fail_memory(err);
}

static bool add_model(const fxi_call *c, const char *name, fxi_buf *b)
{
    return fxi_buf_str(b, "{\"id\":") && fxi_json_cstr(b, name) &&
           fxi_buf_fmt(b,
                       ",\"object\":\"model\",\"created\":%lld,\"owned_by\":\"flexinfer\","
                       "\"max_model_len\":%d,\"root\":",
                       (long long)c->created_s, fx_engine_info(c->eng)->ctx_tok) &&
           fxi_json_cstr(b, c->lim->model_id) && fxi_buf_str(b, ",\"parent\":null}");
}

bool fxi_endpoint_models(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    bool ok =
        fxi_buf_str(out, "{\"object\":\"list\",\"data\":[") && add_model(c, c->lim->model_id, out);
    for (size_t i = 0; ok && i < c->lim->n_alias; i++)
        ok = fxi_buf_str(out, ",") && add_model(c, c->lim->alias[i], out);
    return fxi_endpoint_end(ok && fxi_buf_str(out, "]}"), err);
}

bool fxi_endpoint_model(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    const char *name = fxi_limits_model(c->lim, c->tail);
    if (!name) return fxi_limits_no_model(c->lim, "model", c->tail, err);
    return fxi_endpoint_end(add_model(c, name, out), err);
}

static bool add_shape(const fx_model_info *m, fxi_buf *b)
{
    return fxi_buf_str(b, ",\"architecture\":") && fxi_json_cstr(b, m->arch) &&
           fxi_buf_str(b, ",\"type\":") && fxi_json_cstr(b, m->type) &&
           fxi_buf_fmt(b,
                       ",\"parameters\":%llu,\"layers\":%d,\"vocabulary\":%d,\"max_model_len\":%d,"
                       "\"generates\":%s,\"embeds\":%s,\"embedding_length\":%d,"
                       "\"has_chat_template\":%s",
                       (unsigned long long)m->n_param, m->n_layer, m->n_vocab, m->ctx_tok,
                       m->generates ? "true" : "false", m->embeds ? "true" : "false", m->n_embd,
                       m->has_chat_template ? "true" : "false");
}

// n_ctx stands where clients of llama.cpp look for it.
bool fxi_endpoint_props(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    const fx_model_info *m = fx_engine_info(c->eng);
    bool ok = fxi_buf_str(out, "{\"model\":") && fxi_json_cstr(out, c->lim->model_id) &&
              add_shape(m, out) &&
              fxi_buf_fmt(out, ",\"default_generation_settings\":{\"n_ctx\":%d},\"build_info\":",
                          m->ctx_tok) &&
              fxi_json_cstr(out, fx_version()) && fxi_buf_str(out, "}");
    return fxi_endpoint_end(ok, err);
}

// A token as it is spelled out in a prompt.
static bool add_token(const fx_engine *eng, const char *name, int32_t id, fxi_buf *b)
{
    size_t n = 0;
    const char *text = id < 0 ? NULL : fx_token_text(eng, id, &n);
    return fxi_buf_fmt(b, "\"%s\":", name) &&
           (text ? fxi_json_str(b, text, n) : fxi_buf_str(b, "null")) && fxi_buf_str(b, ",");
}

// By vLLM's name: with it and /tokenize, evaluation tools need no tokenizer of their own.
bool fxi_endpoint_tokenizer_info(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    const fx_model_info *m = fx_engine_info(c->eng);
    const bool ok =
        fxi_buf_str(out, "{") && add_token(c->eng, "bos_token", m->bos_id, out) &&
        add_token(c->eng, "eos_token", m->eos_id, out) &&
        fxi_buf_fmt(out, "\"max_model_len\":%d,\"vocabulary\":%d}", m->ctx_tok, m->n_vocab);
    return fxi_endpoint_end(ok, err);
}

bool fxi_endpoint_version(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    (void)c;
    bool ok = fxi_buf_str(out, "{\"version\":") && fxi_json_cstr(out, fx_version()) &&
              fxi_buf_str(out, "}");
    return fxi_endpoint_end(ok, err);
}

bool fxi_endpoint_ping(const fxi_call *c, fxi_buf *out, fxi_http_error *err)
{
    (void)c;
    return fxi_endpoint_end(fxi_buf_str(out, "{\"status\":\"ok\"}"), err);
}
