// routes.c - the table of paths, and what is served under each.
#include "server/http/http.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- work: on a worker ------------------------------------------------------------------------

static bool work_completions(fxi_http_job *job, fxi_http_error *err)
{
    return fxi_http_job_submit(job, FXI_API_COMPLETIONS, err);
}

static bool work_chat(fxi_http_job *job, fxi_http_error *err)
{
    return fxi_http_job_submit(job, FXI_API_CHAT, err);
}

// Appends {"prompt": text}, with the text that the model would get for a chat. False: *err says
// why.
static bool render_chat(fxi_http_job *job, fxi_buf *b, fxi_http_error *err)
{
    fxi_params par;
    fx_error e;
    char *text = NULL;
    size_t n = 0;
    if (!fxi_http_job_parse(job, FXI_API_CHAT, &par, err)) return false;
    const fx_chat_request q = fxi_params_chat(&par);
    bool ok = fx_chat_request_text(job->eng, &q, &text, &n, &e) == FX_OK ||
              fxi_http_fail_fx(err, &e, "messages");
    fxi_params_free(&par);
    if (ok && !fxi_whole_prompt(b, text, n))
        ok = fxi_http_fail(err, 500, NULL, NULL, "out of memory");
    free(text);
    return ok;
}

static bool work_apply_template(fxi_http_job *job, fxi_http_error *err)
{
    fxi_buf b = {0};
    bool ok = render_chat(job, &b, err);
    if (ok) fxi_http_job_answer(job, &b);
    fxi_buf_free(&b);
    return ok;
}

// ---- handlers: on the I/O thread --------------------------------------------------------------

static enum MHD_Result send_json(fxi_http_job *job, bool ok, fxi_buf *b)
{
    if (ok) return fxi_http_send(job, 200, "application/json", b);
    fxi_buf_free(b);
    return MHD_NO;
}

static bool add_model(fxi_http_job *job, fxi_buf *b)
{
    const fxi_server *srv = job->srv;
    return fxi_whole_model(b, srv->model_id, srv->created, fx_engine_info(srv->eng)->ctx_tok);
}

static enum MHD_Result serve_models(fxi_http_job *job)
{
    fxi_buf b = {0};
    bool ok = fxi_buf_str(&b, "{\"object\":\"list\",\"data\":[") && add_model(job, &b) &&
              fxi_buf_str(&b, "]}");
    return send_json(job, ok, &b);
}

static enum MHD_Result serve_model(fxi_http_job *job)
{
    const char *id = job->path + strlen(job->route->path);
    fxi_buf b = {0};
    if (!strcmp(id, job->srv->model_id)) return send_json(job, add_model(job, &b), &b);
    fxi_http_error err;
    fxi_http_fail(&err, 404, "model_not_found", "model",
                  "the model '%.100s' does not exist; this server has '%.100s'", id,
                  job->srv->model_id);
    return fxi_http_send_error(job, &err);
}

static enum MHD_Result serve_health(fxi_http_job *job)
{
    fxi_buf b = {0};
    fxi_http_error err;
    if (!fxi_watch_is_closing(job->srv))
        return send_json(job, fxi_buf_str(&b, "{\"status\":\"ok\"}"), &b);
    fxi_http_fail(&err, 503, "draining", NULL, "the server is shutting down");
    return fxi_http_send_error(job, &err);
}

// The engine's figures, as one flat object with the names of FX_STATS.
static enum MHD_Result serve_stats(fxi_http_job *job)
{
    fx_stats st;
    fx_engine_stats(job->srv->eng, &st);
    fxi_buf b = {0};
    bool ok = fxi_buf_str(&b, "{");
#define ADD_STAT(name, help) \
    ok = ok && fxi_buf_fmt(&b, "%s\"" #name "\":%" PRIu64, b.n > 1 ? "," : "", st.name);
    FX_STATS(ADD_STAT)
#undef ADD_STAT
    return send_json(job, ok && fxi_buf_str(&b, "}"), &b);
}

static enum MHD_Result serve_index(fxi_http_job *job);

// ---- the table --------------------------------------------------------------------------------

static const fxi_route routes[] = {
    {"POST", "/v1/completions", false, NULL, FXI_ACCESS_MODEL, work_completions},
    {"POST", "/v1/chat/completions", false, NULL, FXI_ACCESS_MODEL, work_chat},
    {"POST", "/apply-template", false, NULL, FXI_ACCESS_MODEL, work_apply_template},
    {"GET", "/v1/models", false, serve_models, FXI_ACCESS_MODEL, NULL},
    {"GET", "/v1/models/", true, serve_model, FXI_ACCESS_MODEL, NULL},
    {"GET", "/health", false, serve_health, FXI_ACCESS_PROBE, NULL},
    {"GET", "/stats", false, serve_stats, FXI_ACCESS_MODEL, NULL},
    {"GET", "/", false, serve_index, FXI_ACCESS_KEY, NULL},
};

static const fxi_route *const routes_end = routes + sizeof routes / sizeof routes[0];

static enum MHD_Result serve_index(fxi_http_job *job)
{
    fxi_buf b = {0};
    bool ok = fxi_buf_fmt(&b, "flexinfer %s, serving %s\n\n", fx_version(), job->srv->model_id);
    for (const fxi_route *r = routes; ok && r < routes_end; r++)
        ok = fxi_buf_fmt(&b, "%-4s %s%s\n", r->method, r->path, r->prefix ? "{id}" : "");
    if (ok) return fxi_http_send(job, 200, "text/plain; charset=utf-8", &b);
    fxi_buf_free(&b);
    return MHD_NO;
}

static bool path_matches(const fxi_route *r, const char *path)
{
    return r->prefix ? !strncmp(path, r->path, strlen(r->path)) : !strcmp(path, r->path);
}

static bool method_matches(const fxi_route *r, const char *method)
{
    return !strcmp(method, r->method) || (!strcmp(method, "HEAD") && !strcmp(r->method, "GET"));
}

const fxi_route *fxi_route_find(const char *method, const char *path, char *allow, size_t cap,
                                fxi_http_error *err)
{
    allow[0] = 0;
    for (const fxi_route *r = routes; r < routes_end; r++) {
        if (!path_matches(r, path)) continue;
        if (method_matches(r, method)) return r;
        snprintf(allow, cap, "%s", strcmp(r->method, "GET") ? r->method : "GET, HEAD");
    }
    if (allow[0])
        fxi_http_fail(err, 405, "method_not_allowed", NULL, "this path allows %s only", allow);
    else
        fxi_http_fail(err, 404, "not_found", NULL, "there is no such path here: %.200s", path);
    return NULL;
}
