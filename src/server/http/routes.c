// routes.c - the table of paths, and what is served under each.
#include "base/text/utf8.h"
#include "server/http/http.h"
#include "server/schema/openapi.h"

#include <stdio.h>
#include <string.h>

// ---- JSON answers -----------------------------------------------------------------------------

// Appends the answer of a route that has an endpoint, or an `answer` of its own.
static bool make_answer(fxi_http_job *job, fxi_buf *b, fxi_http_error *err)
{
    const fxi_route *r = job->route;
    if (r->answer) return r->answer(job, b, err);
    const fxi_limits lim = fxi_http_job_limits(job);
    const fxi_call c = {.eng = job->eng,
                        .lim = &lim,
                        .created_s = job->srv->created,
                        .tail = r->work ? "" : job->conn->head.path + strlen(r->path),
                        .body = job->body.p,
                        .n_body = job->body.n};
    return r->endpoint(&c, b, err);
}

// Where it costs nothing, on the I/O thread.
static void serve_answer(fxi_http_job *job)
{
    fxi_http_error err;
    fxi_buf b = {0};
    if (make_answer(job, &b, &err)) {
        fxi_respond_made(job, true, "application/json", &b);
        return;
    }
    fxi_buf_free(&b);
    fxi_respond_error(job, &err);
}

// Where it reads the body, on a worker.
static bool work_answer(fxi_http_job *job, fxi_http_error *err)
{
    fxi_buf b = {0};
    const bool ok = make_answer(job, &b, err);
    if (ok) fxi_http_job_answer(job, &b);
    fxi_buf_free(&b);
    return ok;
}

static bool answer_abort(fxi_http_job *job, fxi_buf *b, fxi_http_error *err)
{
    fxi_params par;
    if (!fxi_http_job_parse(job, FXI_API_ABORT, &par, err)) return false;
    const int n = fxi_jobs_abort(job, par.abort_id);
    fxi_params_free(&par);
    if (!n) return fxi_http_fail(err, 404, "not_found", "id", "no request has this id");
    return fxi_endpoint_end(fxi_buf_fmt(b, "{\"aborted\":%d}", n), err);
}

// False: the device that computes failed for good, so no request can be served any more.
static bool permit_device(const fxi_http_job *job, fxi_http_error *err)
{
    fx_stats st = {0};
    if (job->eng) fx_engine_stats(job->eng, &st);
    return !st.device_is_lost ||
           fxi_http_fail(err, 503, "device_lost", NULL,
                         "the device that computes the model failed; the server has to be "
                         "restarted");
}

// Whether the process lives and has its model; a shutdown is no illness.
static bool answer_health(fxi_http_job *job, fxi_buf *b, fxi_http_error *err)
{
    const char *state = job->srv->draining ? "draining" : "ok";
    return permit_device(job, err) && (job->eng || fxi_http_fail_loading(err)) &&
           fxi_endpoint_end(fxi_buf_fmt(b, "{\"status\":\"%s\"}", state), err);
}

// Whether it takes requests.
static bool answer_ready(fxi_http_job *job, fxi_buf *b, fxi_http_error *err)
{
    return fxi_permit_request(job->srv, err) && permit_device(job, err) &&
           fxi_endpoint_end(fxi_buf_str(b, "{\"status\":\"ready\"}"), err);
}

// What the server is doing for whom: no texts, no tokens.
static bool answer_slots(fxi_http_job *job, fxi_buf *b, fxi_http_error *err)
{
    const bool ok = fxi_buf_str(b, "{\"object\":\"list\",\"data\":[") &&
                    fxi_jobs_list(job->srv, b) && fxi_buf_str(b, "]}");
    return fxi_endpoint_end(ok, err);
}

static bool answer_limits(fxi_http_job *job, fxi_buf *b, fxi_http_error *err)
{
    const fxi_server_options *o = &job->srv->opt;
    const bool ok =
        fxi_buf_fmt(b,
                    "{\"max_model_len\":%d,\"max_choices\":%d,\"max_logprobs\":%d,"
                    "\"max_body_bytes\":%zu,\"max_queue_bytes\":%zu,\"max_connections\":%d,"
                    "\"header_timeout_s\":%g,\"body_timeout_s\":%g,\"read_timeout_s\":%g}",
                    fx_engine_info(job->eng)->ctx_tok, job->srv->lim.max_choice, o->max_logprobs,
                    o->max_body_bytes, o->max_queue_bytes, o->max_conn, o->header_timeout_s,
                    o->body_timeout_s, o->read_timeout_s);
    return fxi_endpoint_end(ok, err);
}

static bool answer_is_sleeping(fxi_http_job *job, fxi_buf *b, fxi_http_error *err)
{
    const char *word = job->srv->asleep ? "true" : "false";
    return fxi_endpoint_end(fxi_buf_fmt(b, "{\"is_sleeping\":%s}", word), err);
}

// Running answers end, new requests are refused, and prefixes that nobody uses give their memory
// back.
static bool answer_sleep(fxi_http_job *job, fxi_buf *b, fxi_http_error *err)
{
    job->srv->asleep = true;
    fx_clear_cache(job->eng);
    return answer_is_sleeping(job, b, err);
}

static bool answer_wake_up(fxi_http_job *job, fxi_buf *b, fxi_http_error *err)
{
    job->srv->asleep = false;
    return answer_is_sleeping(job, b, err);
}

static bool answer_openapi(fxi_http_job *job, fxi_buf *b, fxi_http_error *err)
{
    return fxi_endpoint_end(fxi_openapi_write(b, fx_version(), &job->srv->lim), err);
}

// ---- other answers ----------------------------------------------------------------------------

static void serve_metrics(fxi_http_job *job)
{
    fxi_server *srv = job->srv;
    fxi_quota_gauges held;
    fxi_workers_gauges work;
    fxi_buf b = {0};
    pthread_mutex_lock(&srv->publisher.mu);
    const fxi_publisher_counts kv = srv->publisher.count;
    pthread_mutex_unlock(&srv->publisher.mu);
    fxi_quota_read(srv->quota, &held);
    fxi_workers_read(srv->workers, &work);
    fxi_server_gauges g = {.n_connection = (uint64_t)srv->loop.places.n_place,
                           .limit_bytes = held.limit_bytes,
                           .refused = held.n_refused,
                           .n_worker = (uint64_t)work.n_thread,
                           .n_busy_worker = (uint64_t)work.n_busy,
                           .n_waiting_work = (uint64_t)(work.n_small + work.n_large),
                           .n_subscriber = kv.n_subscriber,
                           .n_kv_made = kv.n_made,
                           .n_kv_sent = kv.n_sent,
                           .kv_sent_bytes = kv.n_bytes,
                           .kv_send_ns = kv.ns};
    if (srv->opt.log_dropped) g.n_log_dropped = srv->opt.log_dropped(srv->opt.log_ud);
    fxi_spans_count(srv->spans, &g.spans);
    for (int i = 0; i < FXI_N_BYTES_OF; i++) g.held_bytes[i] = held.of_bytes[i];
    const bool made = fxi_metrics_page(&b, job->metrics, job->eng, &g);
    fxi_respond_made(job, made, "text/plain; version=0.0.4; charset=utf-8", &b);
}

static void serve_index(fxi_http_job *job);

// At / the page for browsers, the list of paths for others.
static void serve_root(fxi_http_job *job)
{
    const fxi_web_file *page = job->wants_page ? fxi_web_find("index.html") : NULL;
    if (page)
        fxi_respond_file(job, page);
    else
        serve_index(job);
}

static void serve_web(fxi_http_job *job)
{
    const fxi_web_file *f = fxi_web_find(job->conn->head.path + strlen(job->route->path));
    fxi_http_error err;
    if (f) {
        fxi_respond_file(job, f);
        return;
    }
    fxi_http_fail(&err, 404, "not_found", NULL, "the page has no such file");
    fxi_respond_error(job, &err);
}

static void serve_subscriber(fxi_http_job *job, bool is_stream)
{
    fxi_http_error err;
    bool ok = fxi_kv_stream_begin(job, &err);
    if (ok && is_stream)
        ok = fxi_buf_str(&job->reply.out, "retry: 2000\n\n") || fxi_http_fail_memory(&err);
    job->reply.spec.stream = job->reply.begun = ok && is_stream;
    if (ok && !fxi_jobs_add(job)) ok = fxi_http_fail_draining(&err);
    if (ok)
        fxi_respond_reply(job->conn);
    else
        fxi_respond_error(job, &err);
}

static void serve_kv_stream(fxi_http_job *job)
{
    serve_subscriber(job, true);
}

static void serve_kv_snapshot(fxi_http_job *job)
{
    serve_subscriber(job, false);
}

// ---- the table --------------------------------------------------------------------------------

#define ACCESS(name)        .access = FXI_ACCESS_##name
#define SUBMIT(name)        .work = fxi_http_job_submit, .api = FXI_API_##name
// On the I/O thread: an endpoint, an `answer`. On a worker: the same.
#define ENDPOINT(name)      .run = serve_answer, .endpoint = fxi_endpoint_##name
#define ANSWER(name)        .run = serve_answer, .answer = answer_##name
#define WORK_ENDPOINT(name) .work = work_answer, .endpoint = fxi_endpoint_##name
#define WORK_ANSWER(name)   .work = work_answer, .answer = answer_##name

// clang-format off
static const fxi_route routes[] = {
    {"POST", "/v1/completions", ACCESS(MODEL), SUBMIT(COMPLETIONS)},
    {"POST", "/v1/chat/completions", ACCESS(MODEL), SUBMIT(CHAT)},
    {"POST", "/v1/responses", ACCESS(MODEL), SUBMIT(RESPONSES)},
    {"POST", FXI_MESSAGES_PATH, ACCESS(MODEL), SUBMIT(MESSAGES)},
    {"POST", FXI_MESSAGES_PATH "/count_tokens", ACCESS(MODEL), WORK_ENDPOINT(count)},
    {"POST", "/v1/embeddings", ACCESS(MODEL), SUBMIT(EMBEDDINGS)},
    {"GET", "/v1/models", ACCESS(MODEL), ENDPOINT(models)},
    {"GET", "/v1/models/", ACCESS(MODEL), ENDPOINT(model), .is_prefix = true},
    {"POST", "/tokenize", ACCESS(MODEL), WORK_ENDPOINT(tokenize)},
    {"POST", "/detokenize", ACCESS(MODEL), WORK_ENDPOINT(detokenize)},
    {"POST", "/apply-template", ACCESS(MODEL), WORK_ENDPOINT(apply_template)},
    {"GET", "/health", ACCESS(PROBE), ANSWER(health)},
    {"GET", "/ready", ACCESS(PROBE), ANSWER(ready)},
    {"GET", "/ping", ACCESS(PROBE), ENDPOINT(ping)},
    {"GET", "/version", ACCESS(KEY), ENDPOINT(version)},
    {"GET", "/props", ACCESS(MODEL), ENDPOINT(props)},
    {"GET", "/tokenizer_info", ACCESS(MODEL), ENDPOINT(tokenizer_info)},
    {"GET", "/stats", ACCESS(MODEL), ENDPOINT(stats)},
    {"GET", "/metrics", ACCESS(METRICS), .run = serve_metrics},
    {"GET", "/openapi.json", ACCESS(MODEL), ANSWER(openapi)},
    {"GET", "/", ACCESS(PAGE), .run = serve_root},
    {"GET", "/web/", ACCESS(PROBE), .run = serve_web, .is_prefix = true},
    {"GET", "/admin/cache", ACCESS(ADMIN), ENDPOINT(cache)},
    {"POST", "/admin/cache/clear", ACCESS(ADMIN), ENDPOINT(cache_clear)},
    {"POST", "/reset_prefix_cache", ACCESS(ADMIN), ENDPOINT(cache_clear)},
    {"POST", "/admin/cache/retain", ACCESS(ADMIN), SUBMIT(RETAIN)},
    {"GET", "/admin/budget", ACCESS(ADMIN), ENDPOINT(budget)},
    {"POST", "/admin/budget", ACCESS(ADMIN), WORK_ENDPOINT(set_budget)},
    {"GET", "/admin/trace", ACCESS(WATCH), WORK_ENDPOINT(trace)},
    {"POST", "/admin/abort", ACCESS(ADMIN), WORK_ANSWER(abort)},
    {"POST", "/abort", ACCESS(ADMIN), WORK_ANSWER(abort)},
    {"GET", "/slots", ACCESS(ADMIN), ANSWER(slots)},
    {"GET", "/kv", ACCESS(ADMIN), ENDPOINT(cache)},
    {"GET", "/kv/stream", ACCESS(WATCH), .run = serve_kv_stream},
    {"GET", "/kv/snapshot", ACCESS(WATCH), .run = serve_kv_snapshot},
    {"GET", "/limits", ACCESS(ADMIN), ANSWER(limits)},
    {"POST", "/sleep", ACCESS(ADMIN), ANSWER(sleep)},
    {"POST", "/wake_up", ACCESS(ADMIN), ANSWER(wake_up)},
    {"GET", "/is_sleeping", ACCESS(ADMIN), ANSWER(is_sleeping)},
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

static void serve_index(fxi_http_job *job)
{
    fxi_buf b = {0};
    bool ok = fxi_buf_fmt(&b, "flexinfer %s, serving %s\n\n", fx_version(),
                          job->eng ? job->srv->model_id : "no model yet");
    for (const fxi_route *r = routes; ok && r < routes_end; r++)
        ok = fxi_buf_fmt(&b, "%-4s %s%s\n", r->method, r->path, r->is_prefix ? "{id}" : "");
    fxi_respond_made(job, ok, "text/plain; charset=utf-8", &b);
}

const fxi_route *fxi_route_find(const char *method, const char *path, char *allow, size_t cap,
                                fxi_http_error *err)
{
    allow[0] = 0;
    for (const fxi_route *r = routes; r < routes_end; r++) {
        const bool is_get = !strcmp(r->method, "GET");
        if (r->is_prefix ? strncmp(path, r->path, strlen(r->path)) : strcmp(path, r->path))
            continue;
        if (!strcmp(method, r->method) || (is_get && !strcmp(method, "HEAD"))) {
            allow[0] = 0;
            return r;
        }
        const size_t n = strlen(allow);
        snprintf(allow + n, cap - n, "%s%s", n ? ", " : "", is_get ? "GET, HEAD" : r->method);
    }
    if (allow[0])
        fxi_http_fail(err, 405, "method_not_allowed", NULL, "this path allows %s only", allow);
    else
        fxi_http_fail(err, 404, "not_found", NULL, "there is no such path here: %.*s",
                      FXI_UTF8_HEAD(path, 200));
    return NULL;
}
