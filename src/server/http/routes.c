// routes.c - the table of paths, and what is served under each.
#include "base/text/utf8.h"
#include "server/http/http.h"
#include "server/schema/openapi.h"

#include <stdio.h>
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

static bool work_responses(fxi_http_job *job, fxi_http_error *err)
{
    return fxi_http_job_submit(job, FXI_API_RESPONSES, err);
}

static bool work_messages(fxi_http_job *job, fxi_http_error *err)
{
    return fxi_http_job_submit(job, FXI_API_MESSAGES, err);
}

static bool work_embeddings(fxi_http_job *job, fxi_http_error *err)
{
    return fxi_http_job_submit(job, FXI_API_EMBEDDINGS, err);
}

static bool work_retain(fxi_http_job *job, fxi_http_error *err)
{
    return fxi_http_job_submit(job, FXI_API_RETAIN, err);
}

static fxi_call call_of(const fxi_http_job *job, const fxi_limits *lim)
{
    return (fxi_call){.eng = job->eng,
                      .lim = lim,
                      .created_s = job->srv->created,
                      .body = job->body.p,
                      .n_body = job->body.n};
}

// Of routes with an endpoint that reads the body.
static bool work_endpoint(fxi_http_job *job, fxi_http_error *err)
{
    const fxi_limits lim = fxi_http_job_limits(job);
    const fxi_call c = call_of(job, &lim);
    fxi_buf b = {0};
    bool ok = job->route->endpoint(&c, &b, err);
    if (ok) fxi_http_job_answer(job, &b);
    fxi_buf_free(&b);
    return ok;
}

static bool work_abort(fxi_http_job *job, fxi_http_error *err)
{
    fxi_params par;
    fxi_buf b = {0};
    if (!fxi_http_job_parse(job, FXI_API_ABORT, &par, err)) return false;
    const int n = fxi_watch_abort(job, par.abort_id);
    bool ok = n > 0 || fxi_http_fail(err, 404, "not_found", "id", "no request has this id");
    fxi_params_free(&par);
    ok = ok && fxi_endpoint_end(fxi_buf_fmt(&b, "{\"aborted\":%d}", n), err);
    if (ok) fxi_http_job_answer(job, &b);
    fxi_buf_free(&b);
    return ok;
}

// ---- handlers: on the I/O thread --------------------------------------------------------------

static enum MHD_Result send_json(fxi_http_job *job, bool made, fxi_buf *b)
{
    return fxi_http_send_made(job, made, "application/json", b);
}

// Of routes with an endpoint that costs nothing.
static enum MHD_Result serve_endpoint(fxi_http_job *job)
{
    fxi_call c = call_of(job, &job->srv->lim);
    fxi_http_error err;
    fxi_buf b = {0};
    c.tail = job->path + strlen(job->route->path);
    if (job->route->endpoint(&c, &b, &err)) return send_json(job, true, &b);
    fxi_buf_free(&b);
    return fxi_http_send_error(job, &err);
}

// Whether the device that computes failed for good: then no request can be served any more.
static bool has_lost_device(const fxi_http_job *job, fxi_http_error *err)
{
    fx_stats st = {0};
    if (job->eng) fx_engine_stats(job->eng, &st);
    if (st.device_is_lost)
        fxi_http_fail(err, 503, "device_lost", NULL,
                      "the device that computes the model failed; the server has to be restarted");
    return st.device_is_lost != 0;
}

// Whether the process lives and has its model; a shutdown is no illness.
static enum MHD_Result serve_health(fxi_http_job *job)
{
    fxi_buf b = {0};
    fxi_http_error err;
    const bool drains = job->srv->draining;
    if (has_lost_device(job, &err)) return fxi_http_send_error(job, &err);
    if (job->eng)
        return send_json(job, fxi_buf_fmt(&b, "{\"status\":\"%s\"}", drains ? "draining" : "ok"),
                         &b);
    fxi_http_fail(&err, 503, "loading", NULL, "the model is loading");
    return fxi_http_send_error(job, &err);
}

// Whether it takes requests.
static enum MHD_Result serve_ready(fxi_http_job *job)
{
    fxi_buf b = {0};
    fxi_http_error err;
    if (!fxi_permit_request(job->srv, &err)) return fxi_http_send_error(job, &err);
    if (has_lost_device(job, &err)) return fxi_http_send_error(job, &err);
    return send_json(job, fxi_buf_str(&b, "{\"status\":\"ready\"}"), &b);
}

// What the server is doing for whom: no texts, no tokens.
static enum MHD_Result serve_slots(fxi_http_job *job)
{
    fxi_buf b = {0};
    bool ok = fxi_buf_str(&b, "{\"object\":\"list\",\"data\":[") && fxi_watch_list(job->srv, &b) &&
              fxi_buf_str(&b, "]}");
    return send_json(job, ok, &b);
}

static enum MHD_Result serve_limits(fxi_http_job *job)
{
    const fxi_server_options *o = &job->srv->opt;
    fxi_buf b = {0};
    bool ok = fxi_buf_fmt(&b,
                          "{\"max_model_len\":%d,\"max_choices\":%d,\"max_logprobs\":%d,"
                          "\"max_body_bytes\":%zu,\"max_queue_bytes\":%zu,"
                          "\"max_connections\":%d,\"header_timeout_s\":%g,"
                          "\"body_timeout_s\":%g,\"read_timeout_s\":%g}",
                          fx_engine_info(job->eng)->ctx_tok, job->srv->lim.max_choice,
                          o->max_logprobs, o->max_body_bytes, o->max_queue_bytes, o->max_conn,
                          o->header_timeout_s, o->body_timeout_s, o->read_timeout_s);
    return send_json(job, ok, &b);
}

static enum MHD_Result send_sleep(fxi_http_job *job)
{
    fxi_buf b = {0};
    const char *word = job->srv->asleep ? "true" : "false";
    return send_json(job, fxi_buf_fmt(&b, "{\"is_sleeping\":%s}", word), &b);
}

// Running answers end, new requests are refused, and prefixes that nobody uses give their memory
// back.
static enum MHD_Result serve_sleep(fxi_http_job *job)
{
    job->srv->asleep = true;
    fx_clear_cache(job->eng);
    return send_sleep(job);
}

static enum MHD_Result serve_wake_up(fxi_http_job *job)
{
    job->srv->asleep = false;
    return send_sleep(job);
}

static enum MHD_Result serve_openapi(fxi_http_job *job)
{
    fxi_buf b = {0};
    return send_json(job, fxi_openapi_write(&b, fx_version(), &job->srv->lim), &b);
}

static enum MHD_Result serve_index(fxi_http_job *job);

// At / the page for browsers, the list of paths for others.
static enum MHD_Result serve_root(fxi_http_job *job)
{
    const fxi_web_file *page = job->wants_page ? fxi_web_find("index.html") : NULL;
    return page ? fxi_http_send_file(job, page) : serve_index(job);
}

static enum MHD_Result serve_web(fxi_http_job *job)
{
    const fxi_web_file *f = fxi_web_find(job->path + strlen(job->route->path));
    fxi_http_error err;
    if (f) return fxi_http_send_file(job, f);
    fxi_http_fail(&err, 404, "not_found", NULL, "the page has no such file");
    return fxi_http_send_error(job, &err);
}

// ---- the table --------------------------------------------------------------------------------

#define MODEL   FXI_ACCESS_MODEL
#define KEY     FXI_ACCESS_KEY
#define PROBE   FXI_ACCESS_PROBE
#define METRICS FXI_ACCESS_METRICS
#define ADMIN   FXI_ACCESS_ADMIN
#define WATCH   FXI_ACCESS_WATCH
#define PAGE    FXI_ACCESS_PAGE

// clang-format off
static const fxi_route routes[] = {
    {"POST", "/v1/completions", false, NULL, MODEL, work_completions, NULL},
    {"POST", "/v1/chat/completions", false, NULL, MODEL, work_chat, NULL},
    {"POST", "/v1/responses", false, NULL, MODEL, work_responses, NULL},
    {"POST", FXI_MESSAGES_PATH, false, NULL, MODEL, work_messages, NULL},
    {"POST", FXI_MESSAGES_PATH "/count_tokens", false, NULL, MODEL, work_endpoint, fxi_endpoint_count},
    {"POST", "/v1/embeddings", false, NULL, MODEL, work_embeddings, NULL},
    {"GET", "/v1/models", false, serve_endpoint, MODEL, NULL, fxi_endpoint_models},
    {"GET", "/v1/models/", true, serve_endpoint, MODEL, NULL, fxi_endpoint_model},
    {"POST", "/tokenize", false, NULL, MODEL, work_endpoint, fxi_endpoint_tokenize},
    {"POST", "/detokenize", false, NULL, MODEL, work_endpoint, fxi_endpoint_detokenize},
    {"POST", "/apply-template", false, NULL, MODEL, work_endpoint, fxi_endpoint_apply_template},
    {"GET", "/health", false, serve_health, PROBE, NULL, NULL},
    {"GET", "/ready", false, serve_ready, PROBE, NULL, NULL},
    {"GET", "/ping", false, serve_endpoint, PROBE, NULL, fxi_endpoint_ping},
    {"GET", "/version", false, serve_endpoint, KEY, NULL, fxi_endpoint_version},
    {"GET", "/props", false, serve_endpoint, MODEL, NULL, fxi_endpoint_props},
    {"GET", "/tokenizer_info", false, serve_endpoint, MODEL, NULL, fxi_endpoint_tokenizer_info},
    {"GET", "/stats", false, serve_endpoint, MODEL, NULL, fxi_endpoint_stats},
    {"GET", "/metrics", false, fxi_serve_metrics, METRICS, NULL, NULL},
    {"GET", "/openapi.json", false, serve_openapi, MODEL, NULL, NULL},
    {"GET", "/", false, serve_root, PAGE, NULL, NULL},
    {"GET", "/web/", true, serve_web, PROBE, NULL, NULL},
    {"GET", "/admin/cache", false, serve_endpoint, ADMIN, NULL, fxi_endpoint_cache},
    {"POST", "/admin/cache/clear", false, serve_endpoint, ADMIN, NULL, fxi_endpoint_cache_clear},
    {"POST", "/reset_prefix_cache", false, serve_endpoint, ADMIN, NULL, fxi_endpoint_cache_clear},
    {"POST", "/admin/cache/retain", false, NULL, ADMIN, work_retain, NULL},
    {"GET", "/admin/budget", false, serve_endpoint, ADMIN, NULL, fxi_endpoint_budget},
    {"POST", "/admin/budget", false, NULL, ADMIN, work_endpoint, fxi_endpoint_set_budget},
    {"GET", "/admin/trace", false, NULL, WATCH, work_endpoint, fxi_endpoint_trace},
    {"POST", "/admin/abort", false, NULL, ADMIN, work_abort, NULL},
    {"POST", "/abort", false, NULL, ADMIN, work_abort, NULL},
    {"GET", "/slots", false, serve_slots, ADMIN, NULL, NULL},
    {"GET", "/kv", false, serve_endpoint, ADMIN, NULL, fxi_endpoint_cache},
    {"GET", "/kv/stream", false, NULL, WATCH, fxi_kv_stream_begin, NULL},
    {"GET", "/kv/snapshot", false, NULL, WATCH, fxi_kv_stream_poll, NULL},
    {"GET", "/limits", false, serve_limits, ADMIN, NULL, NULL},
    {"POST", "/sleep", false, serve_sleep, ADMIN, NULL, NULL},
    {"POST", "/wake_up", false, serve_wake_up, ADMIN, NULL, NULL},
    {"GET", "/is_sleeping", false, send_sleep, ADMIN, NULL, NULL},
};
// clang-format on

static const fxi_route *const routes_end = routes + sizeof routes / sizeof routes[0];

int fxi_route_index(const fxi_route *r)
{
    int i = 0;
    if (!r) return -1;
    while (strcmp(routes[i].path, r->path) != 0) i++;
    return i;
}

int fxi_route_paths(const char **path, int max)
{
    int n = 0;
    for (const fxi_route *r = routes; r < routes_end && n < max; r++) path[n++] = r->path;
    return n;
}

static enum MHD_Result serve_index(fxi_http_job *job)
{
    fxi_buf b = {0};
    bool ok = fxi_buf_fmt(&b, "flexinfer %s, serving %s\n\n", fx_version(),
                          job->eng ? job->srv->model_id : "no model yet");
    for (const fxi_route *r = routes; ok && r < routes_end; r++)
        ok = fxi_buf_fmt(&b, "%-4s %s%s\n", r->method, r->path, r->prefix ? "{id}" : "");
    return fxi_http_send_made(job, ok, "text/plain; charset=utf-8", &b);
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
        if (method_matches(r, method)) {
            allow[0] = 0;
            return r;
        }
        const size_t n = strlen(allow);
        snprintf(allow + n, cap - n, "%s%s", n ? ", " : "",
                 strcmp(r->method, "GET") ? r->method : "GET, HEAD");
    }
    if (allow[0])
        fxi_http_fail(err, 405, "method_not_allowed", NULL, "this path allows %s only", allow);
    else
        fxi_http_fail(err, 404, "not_found", NULL, "there is no such path here: %.*s",
                      FXI_UTF8_HEAD(path, 200));
    return NULL;
}
