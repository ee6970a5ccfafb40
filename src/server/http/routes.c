// routes.c - the table of paths, and what is served under each.
#include "base/text/utf8.h"
#include "server/http/http.h"
#include "server/schema/openapi.h"

#include <stdio.h>
#include <string.h>

// ---- answers -----------------------------------------------------------------------------

// The work of a route that has an endpoint, or an `answer` of its own.
static bool make_answer(fxi_http_job *job, fxi_http_error *err)
{
    const fxi_route *r = job->route;
    const fxi_limits lim = fxi_http_job_limits(job);
    const fxi_call c = {.eng = job->eng,
                        .lim = &lim,
                        .created_s = job->srv->created,
                        .tail = r->on_worker ? "" : job->conn->head.path + strlen(r->path),
                        .body = job->body.p,
                        .n_body = job->body.n};
    fxi_buf b = {0};
    const bool ok = r->answer ? r->answer(job, &b, err) : r->endpoint(&c, &b, err);
    if (ok)
        fxi_http_job_answer(job, &b);
    else
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

// ---- other answers ----------------------------------------------------------------------------

static bool answer_metrics(fxi_http_job *job, fxi_buf *b, fxi_http_error *err)
{
    fxi_server *srv = job->srv;
    fxi_server_gauges g = {.n_connection = (uint64_t)srv->loop.places.n_place};
    pthread_mutex_lock(&srv->publisher.mu);
    g.stream = srv->publisher.count;
    pthread_mutex_unlock(&srv->publisher.mu);
    fxi_quota_read(srv->quota, &g.quota);
    fxi_workers_read(srv->workers, &g.workers);
    fxi_spans_count(srv->spans, &g.spans);
    if (srv->opt.log_dropped) g.n_log_dropped = srv->opt.log_dropped(srv->opt.log_ud);
    return fxi_endpoint_end(fxi_metrics_page(b, job->metrics, job->eng, &g), err);
}

static bool answer_index(fxi_http_job *job, fxi_buf *b, fxi_http_error *err);
static bool answer_openapi(fxi_http_job *job, fxi_buf *b, fxi_http_error *err);

// At / the page for browsers, the list of paths for others.
static bool serve_root(fxi_http_job *job, fxi_http_error *err)
{
    const fxi_web_file *page = job->wants_page ? fxi_web_find("index.html") : NULL;
    if (!page) return make_answer(job, err);
    fxi_respond_file(job, page);
    return true;
}

static bool serve_web(fxi_http_job *job, fxi_http_error *err)
{
    const fxi_web_file *f = fxi_web_find(job->conn->head.path + strlen(job->route->path));
    if (!f) return fxi_http_fail(err, 404, "not_found", NULL, "the page has no such file");
    fxi_respond_file(job, f);
    return true;
}

static bool serve_kv_snapshot(fxi_http_job *job, fxi_http_error *err)
{
    return fxi_kv_stream_begin(job, err) && (fxi_jobs_add(job) || fxi_http_fail_draining(err));
}

static bool serve_kv_stream(fxi_http_job *job, fxi_http_error *err)
{
    if (!fxi_buf_str(&job->reply.out, "retry: 2000\n\n")) return fxi_http_fail_memory(err);
    job->reply.spec.stream = job->reply.begun = true;
    if (serve_kv_snapshot(job, err)) return true;
    job->reply.spec.stream = job->reply.begun = false;
    return false;
}

// ---- the table --------------------------------------------------------------------------------

#define TEXT              "text/plain; charset=utf-8"
#define ACCESS(name)      .access = FXI_ACCESS_##name
#define ON_WORKER         .on_worker = true
#define READS(name)       ON_WORKER, .has_body = true, .api = FXI_API_##name
#define SUBMIT(name)      .work = fxi_http_job_submit, READS(name)
#define ENDPOINT(name)    .work = make_answer, .endpoint = fxi_endpoint_##name
#define ANSWER(name)      .work = make_answer, .answer = answer_##name
#define SHOWS(what, text) .schema = what, .about = text

// clang-format off
static const fxi_route routes[] = {
    {"POST", "/v1/completions", ACCESS(MODEL), SUBMIT(COMPLETIONS), SHOWS("Completion", "complete one or several texts")},
    {"POST", "/v1/chat/completions", ACCESS(MODEL), SUBMIT(CHAT), SHOWS("ChatCompletion", "answer a conversation")},
    {"POST", "/v1/responses", ACCESS(MODEL), SUBMIT(RESPONSES), SHOWS("Response", "answer a conversation: OpenAI's responses")},
    {"POST", FXI_MESSAGES_PATH, ACCESS(MODEL), SUBMIT(MESSAGES), SHOWS("AnthropicMessage", "answer a conversation: Anthropic's messages")},
    {"POST", FXI_MESSAGES_PATH "/count_tokens", ACCESS(MODEL), ENDPOINT(count), READS(COUNT), SHOWS("InputTokens", "the tokens of such a conversation")},
    {"POST", "/v1/embeddings", ACCESS(MODEL), SUBMIT(EMBEDDINGS), SHOWS("Embeddings", "turn texts into vectors")},
    {"POST", "/v1/rerank", ACCESS(MODEL), SUBMIT(RERANK), SHOWS("Rerank", "order documents by what they have to do with a query")},
    {"POST", "/v2/rerank", ACCESS(MODEL), SUBMIT(RERANK), SHOWS("Rerank", "the same, by Cohere's newer name")},
    {"POST", "/rerank", ACCESS(MODEL), SUBMIT(RERANK), SHOWS("Rerank", "the same, by a shorter name")},
    {"POST", "/v1/score", ACCESS(MODEL), SUBMIT(SCORE), SHOWS("Scores", "compare texts with texts")},
    {"POST", "/score", ACCESS(MODEL), SUBMIT(SCORE), SHOWS("Scores", "the same, by a shorter name")},
    {"GET", "/v1/models", ACCESS(MODEL), ENDPOINT(models), SHOWS("Models", "the served model under each of its names")},
    {"GET", "/v1/models/", ACCESS(MODEL), ENDPOINT(model), .is_prefix = true, SHOWS("Model", "the served model")},
    {"POST", "/tokenize", ACCESS(MODEL), ENDPOINT(tokenize), READS(TOKENIZE), SHOWS("Tokens", "text or conversation to token ids")},
    {"POST", "/detokenize", ACCESS(MODEL), ENDPOINT(detokenize), READS(DETOKENIZE), SHOWS("Text", "token ids to text")},
    {"POST", "/apply-template", ACCESS(MODEL), ENDPOINT(apply_template), READS(CHAT), SHOWS("Prompt", "what the model reads of a conversation")},
    {"GET", "/health", ACCESS(PROBE), ANSWER(health), SHOWS("Status", "whether requests are served")},
    {"GET", "/ready", ACCESS(PROBE), ANSWER(ready), SHOWS("Status", "whether new requests are accepted")},
    {"GET", "/ping", ACCESS(PROBE), ENDPOINT(ping), SHOWS("Status", "whether the server answers")},
    {"GET", "/version", ACCESS(KEY), ENDPOINT(version), SHOWS("Version", "the program's version")},
    {"GET", "/props", ACCESS(MODEL), ENDPOINT(props), SHOWS("Properties", "properties of the served model")},
    {"GET", "/tokenizer_info", ACCESS(MODEL), ENDPOINT(tokenizer_info), SHOWS("TokenizerInfo", "the tokens that begin and end a text")},
    {"GET", "/stats", ACCESS(MODEL), ENDPOINT(stats), SHOWS("Object", "the engine's figures")},
    {"GET", "/metrics", ACCESS(METRICS), ANSWER(metrics), .type = "text/plain; version=0.0.4; charset=utf-8", SHOWS("text/plain", "the server's figures for Prometheus")},
    {"GET", "/openapi.json", ACCESS(MODEL), ANSWER(openapi), SHOWS("Object", "this document")},
    {"GET", "/", ACCESS(PAGE), .work = serve_root, .answer = answer_index, .type = TEXT, SHOWS("text/plain", "the list of paths; for browsers, the page")},
    {"GET", "/web/", ACCESS(PROBE), .work = serve_web, .is_prefix = true, SHOWS("text/plain", "a file of the page")},
    {"GET", "/admin/cache", ACCESS(ADMIN), ENDPOINT(cache), SHOWS("Cache", "admin: what the KV cache holds")},
    {"POST", "/admin/cache/clear", ACCESS(ADMIN), ENDPOINT(cache_clear), SHOWS("Status", "admin: forget unused prefixes")},
    {"POST", "/reset_prefix_cache", ACCESS(ADMIN), ENDPOINT(cache_clear), SHOWS("Status", "admin: the same, by vLLM's name")},
    {"POST", "/admin/cache/retain", ACCESS(ADMIN), SUBMIT(RETAIN), SHOWS("Prefixes", "admin: keep prompts in the cache")},
    {"GET", "/admin/budget", ACCESS(ADMIN), ENDPOINT(budget), SHOWS("Budget", "admin: the budget of the KV cache")},
    {"POST", "/admin/budget", ACCESS(ADMIN), ENDPOINT(set_budget), READS(BUDGET), SHOWS("Budget", "admin: change the budget of the KV cache")},
    {"GET", "/admin/trace", ACCESS(WATCH), ENDPOINT(trace), ON_WORKER, SHOWS("Object", "admin where there are keys: what the engine did last, as a Chrome trace")},
    {"POST", "/admin/abort", ACCESS(ADMIN), ANSWER(abort), READS(ABORT), SHOWS("Aborted", "admin: end a request")},
    {"POST", "/abort", ACCESS(ADMIN), ANSWER(abort), READS(ABORT), SHOWS("Aborted", "admin: the same, by a shorter name")},
    {"GET", "/slots", ACCESS(ADMIN), ANSWER(slots), SHOWS("Slots", "admin: the requests that are being served")},
    {"GET", "/kv", ACCESS(ADMIN), ENDPOINT(cache), SHOWS("Cache", "admin: what the KV cache holds")},
    {"GET", "/kv/stream", ACCESS(WATCH), .work = serve_kv_stream, SHOWS("text/event-stream", "admin where there are keys: the KV memory, live")},
    {"GET", "/kv/snapshot", ACCESS(WATCH), .work = serve_kv_snapshot, SHOWS("Object", "admin where there are keys: the KV memory now")},
    {"GET", "/limits", ACCESS(ADMIN), ANSWER(limits), SHOWS("Limits", "admin: the server's limits")},
    {"POST", "/sleep", ACCESS(ADMIN), ANSWER(sleep), SHOWS("Sleep", "admin: refuse requests, give memory back")},
    {"POST", "/wake_up", ACCESS(ADMIN), ANSWER(wake_up), SHOWS("Sleep", "admin: serve requests again")},
    {"GET", "/is_sleeping", ACCESS(ADMIN), ANSWER(is_sleeping), SHOWS("Sleep", "admin: whether it sleeps")},
};
// clang-format on

_Static_assert(sizeof routes / sizeof routes[0] <= FXI_MAX_ROUTE, "each has its counts");

static const fxi_route *const routes_end = routes + sizeof routes / sizeof routes[0];

int fxi_route_index(const fxi_route *r)
{
    int i = 0;
    if (!r) return -1;
    while (strcmp(routes[i].path, r->path) != 0) i++;
    return i;
}

static bool answer_openapi(fxi_http_job *job, fxi_buf *b, fxi_http_error *err)
{
    fxi_operation op[FXI_MAX_ROUTE];
    size_t n = 0;
    for (const fxi_route *r = routes; r < routes_end; r++)
        op[n++] = (fxi_operation){.method = r->method,
                                  .path = r->path,
                                  .takes_id = r->is_prefix,
                                  .api = r->has_body ? (int)r->api : -1,
                                  .answer = r->schema,
                                  .about = r->about};
    return fxi_endpoint_end(fxi_openapi_write(b, fx_version(), &job->srv->lim, op, n), err);
}

int fxi_route_paths(const char **path, int max)
{
    int n = 0;
    for (const fxi_route *r = routes; r < routes_end && n < max; r++) path[n++] = r->path;
    return n;
}

static bool answer_index(fxi_http_job *job, fxi_buf *b, fxi_http_error *err)
{
    bool ok = fxi_buf_fmt(b, "flexinfer %s, serving %s\n\n", fx_version(),
                          job->eng ? job->srv->model_id : "no model yet");
    for (const fxi_route *r = routes; ok && r < routes_end; r++)
        ok = fxi_buf_fmt(b, "%-4s %s%s\n", r->method, r->path, r->is_prefix ? "{id}" : "");
    return fxi_endpoint_end(ok, err);
}

// Paths of other servers, and what does their work here. One that ends in / stands for all below.
static const struct foreign_path {
    const char *path[8]; // up to NULL
    const char *here;
} foreign_paths[] = {
    {{"/completion", "/completions", "/api/generate", "/generate"},
     "POST /v1/completions completes texts"},
    {{"/chat/completions", "/api/chat"}, "POST /v1/chat/completions answers conversations"},
    {{"/infill"}, "POST /v1/completions fills in before a 'suffix'"},
    {{"/responses"}, "POST /v1/responses"},
    {{"/messages"}, "POST /v1/messages"},
    {{"/embedding", "/embeddings", "/api/embed", "/api/embeddings", "/embed"},
     "POST /v1/embeddings turns texts into vectors"},
    {{"/reranking", "/v1/reranking"}, "POST /v1/rerank orders documents"},
    {{"/models", "/api/tags", "/api/ps", "/api/show"}, "GET /v1/models shows the model"},
    {{"/api/version"}, "GET /version"},
    {{"/api/pull", "/api/create", "/api/copy", "/api/delete"},
     "models are kept by 'flexinfer pull', 'list' and 'rm'"},
    {{"/v1/responses/", "/v1/conversations", "/v1/conversations/", "/v1/files", "/v1/batches",
      "/v1/assistants", "/v1/threads"},
     "nothing is stored between requests, so each one brings its whole conversation"},
    {{"/v1/images/", "/v1/audio/", "/v1/videos", "/v1/realtime"},
     "this server reads and writes text only"},
};

// NULL: the path is nobody's.
static const char *foreign_hint(const char *path)
{
    for (size_t i = 0; i < sizeof foreign_paths / sizeof foreign_paths[0]; i++)
        for (const char *const *p = foreign_paths[i].path; *p; p++) {
            const size_t n = strlen(*p);
            if ((*p)[n - 1] == '/' ? !strncmp(path, *p, n) : !strcmp(path, *p))
                return foreign_paths[i].here;
        }
    return NULL;
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
    const char *hint = foreign_hint(path);
    if (allow[0])
        fxi_http_fail(err, 405, "method_not_allowed", NULL, "this path allows %s only", allow);
    else
        fxi_http_fail(err, 404, "not_found", NULL, "there is no such path here: %.*s%s%s",
                      FXI_UTF8_HEAD(path, 200), hint ? "; " : "", hint ? hint : "");
    return NULL;
}
