// http.c - between libmicrohttpd and a job. MHD calls fxi_http_on_request for one request several
// times, always on the same thread: with the head, with each piece of the body, with its end, and
// again whenever a suspended connection has been resumed; then fxi_http_on_completed, once, however
// the request ended.
//
// An error found in the head is answered after the body has been read (and dropped), because a
// client that still writes may never see an answer that comes with a reset. Only one that waits for
// "100 Continue", or announces far more than we take, is answered at once.
#include "server/server_internal.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/clock.h" // defines: fxi_now_s

#define MAX_HEADER_BYTES (16u << 10)
#define MAX_DROPPED      4 // times max_body_bytes
#define STREAM_BLOCK     (16u << 10)

// ---- replies ----------------------------------------------------------------------------------

// Queues and lets go of *r. The status line and headers that all replies share.
static enum MHD_Result send_response(fxi_job *job, int status, const char *type,
                                     struct MHD_Response *r)
{
    char seconds[16];
    int retry_s = status < 400 ? 0 : fxi_http_retry_after(status);
    snprintf(seconds, sizeof seconds, "%d", retry_s);
    MHD_add_response_header(r, "Content-Type", type);
    MHD_add_response_header(r, "X-Request-Id", job->request_id);
    if (retry_s) MHD_add_response_header(r, "Retry-After", seconds);
    if (job->allow[0]) MHD_add_response_header(r, "Allow", job->allow);
    job->phase = FXI_PHASE_REPLY;
    job->status = status;
    enum MHD_Result res = MHD_queue_response(job->conn, (unsigned)status, r);
    MHD_destroy_response(r);
    return res;
}

enum MHD_Result fxi_http_reply(fxi_job *job, int status, const char *type, fxi_buf *body)
{
    struct MHD_Response *r =
        MHD_create_response_from_buffer(body->n, body->p, MHD_RESPMEM_MUST_FREE);
    if (!r) {
        fxi_buf_free(body);
        return MHD_NO;
    }
    *body = (fxi_buf){0};
    return send_response(job, status, type, r);
}

enum MHD_Result fxi_http_reply_error(fxi_job *job, const fxi_http_error *e)
{
    fxi_buf b = {0};
    job->code = e->code;
    if (fxi_http_error_body(&b, e)) return fxi_http_reply(job, e->status, "application/json", &b);
    fxi_buf_free(&b);
    return MHD_NO;
}

// MHD asks for the next bytes of a stream.
static ssize_t read_stream(void *ud, uint64_t pos, char *dst, size_t max)
{
    fxi_job *job = ud;
    ssize_t res = 0;
    (void)pos;
    pthread_mutex_lock(&job->mu);
    size_t n = job->gone ? 0 : fxi_answer_take(&job->ans, dst, max);
    if (n) {
        res = (ssize_t)n;
        job->last_out_s = fxi_now_s();
    } else if (job->ans.ended) {
        res = job->gone ? MHD_CONTENT_READER_END_WITH_ERROR : MHD_CONTENT_READER_END_OF_STREAM;
    } else {
        job->suspended = true;
        MHD_suspend_connection(job->conn);
    }
    pthread_mutex_unlock(&job->mu);
    return res;
}

static enum MHD_Result reply_stream(fxi_job *job)
{
    struct MHD_Response *r =
        MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK, read_stream, job, NULL);
    if (!r) return MHD_NO;
    MHD_add_response_header(r, "Cache-Control", "no-cache");
    MHD_add_response_header(r, "X-Accel-Buffering", "no");
    return send_response(job, 200, "text/event-stream", r);
}

// The answer has ended: nobody else touches it any more.
static enum MHD_Result reply_whole(fxi_job *job)
{
    fxi_buf b = {0};
    if (job->ans.err.status) return fxi_http_reply_error(job, &job->ans.err);
    if (fxi_reply_body(&b, &job->ans)) return fxi_http_reply(job, 200, "application/json", &b);
    fxi_buf_free(&b);
    return MHD_NO;
}

enum MHD_Result fxi_http_wait(fxi_job *job)
{
    pthread_mutex_lock(&job->mu);
    bool begun = job->ans.begun, gone = job->gone;
    bool ready = begun || job->ans.ended;
    if (!ready) {
        job->suspended = true;
        MHD_suspend_connection(job->conn);
    }
    pthread_mutex_unlock(&job->mu);
    if (!ready) return MHD_YES;
    if (gone) return MHD_NO;
    return begun ? reply_stream(job) : reply_whole(job);
}

// ---- the head ---------------------------------------------------------------------------------

static const char *header(const fxi_job *job, const char *name)
{
    return MHD_lookup_connection_value(job->conn, MHD_HEADER_KIND, name);
}

// The client's own id if it is one word of printable ASCII, otherwise one of ours.
static void take_request_id(fxi_job *job)
{
    const char *id = header(job, "X-Request-Id");
    size_t n = id ? strlen(id) : 0;
    bool good = n && n < sizeof job->request_id;
    for (size_t i = 0; good && i < n; i++) good = id[i] > ' ' && id[i] <= '~';
    if (good)
        memcpy(job->request_id, id, n + 1);
    else
        fxi_random_id(job->request_id, sizeof job->request_id, "req");
}

static bool check_header_bytes(fxi_job *job)
{
    const union MHD_ConnectionInfo *info =
        MHD_get_connection_info(job->conn, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
    if (!info || info->header_size <= MAX_HEADER_BYTES) return true;
    return fxi_http_fail(&job->early, 431, NULL, NULL, "the headers are longer than %u bytes",
                         MAX_HEADER_BYTES);
}

// Many clients send JSON under another name, or under none: only what is clearly something else is
// refused.
static bool check_content_type(fxi_job *job)
{
    static const char *const fine[] = {"json", "text/plain", "x-www-form-urlencoded",
                                       "octet-stream"};
    const char *type = header(job, "Content-Type"), *coding = header(job, "Content-Encoding");
    if (coding && strcasecmp(coding, "identity"))
        return fxi_http_fail(&job->early, 415, NULL, NULL, "compressed bodies are not accepted");
    if (!type || !*type) return true;
    for (size_t i = 0; i < sizeof fine / sizeof fine[0]; i++)
        if (strcasestr(type, fine[i])) return true;
    return fxi_http_fail(&job->early, 415, NULL, NULL, "the body must be application/json");
}

static bool too_large(fxi_job *job)
{
    return fxi_http_fail(&job->early, 413, NULL, NULL, "the body is larger than %zu bytes",
                         job->srv->opt.max_body_bytes);
}

// What the head announces; 0 where it says nothing (a chunked body is counted as it comes).
static uint64_t announced_bytes(const fxi_job *job)
{
    const char *length = header(job, "Content-Length");
    return length ? strtoumax(length, NULL, 10) : 0;
}

static bool check_head(fxi_job *job, const char *method, const char *url)
{
    if (!check_header_bytes(job)) return false;
    job->route = fxi_route_find(method, url, job->allow, sizeof job->allow, &job->early);
    if (!job->route) return false;
    if (!strcmp(method, "POST") && !check_content_type(job)) return false;
    if (announced_bytes(job) > job->srv->opt.max_body_bytes) return too_large(job);
    return true;
}

static bool must_answer_now(const fxi_job *job)
{
    return header(job, "Expect") ||
           announced_bytes(job) / MAX_DROPPED > job->srv->opt.max_body_bytes;
}

static enum MHD_Result begin(fxi_server *srv, struct MHD_Connection *conn, const char *method,
                             const char *url, void **con_cls)
{
    fxi_job *job = fxi_job_new(srv, conn);
    if (!job) return MHD_NO;
    *con_cls = job;
    take_request_id(job);
    if (check_head(job, method, url) || !must_answer_now(job)) return MHD_YES;
    return fxi_http_reply_error(job, &job->early);
}

// ---- the body ---------------------------------------------------------------------------------

static enum MHD_Result take_body(fxi_job *job, const char *data, size_t n)
{
    size_t max = job->srv->opt.max_body_bytes;
    job->n_body_bytes += n;
    if (job->n_body_bytes / MAX_DROPPED > max) return MHD_NO;
    if (!job->early.status && job->n_body_bytes > max) too_large(job);
    if (!job->early.status && !fxi_buf_add(&job->body, data, n))
        fxi_http_fail(&job->early, 500, NULL, NULL, "out of memory");
    if (job->early.status) fxi_buf_free(&job->body);
    return MHD_YES;
}

enum MHD_Result fxi_http_on_request(void *ud, struct MHD_Connection *conn, const char *url,
                                    const char *method, const char *version, const char *data,
                                    size_t *n_data, void **con_cls)
{
    fxi_job *job = *con_cls;
    (void)version;
    if (!job) return begin(ud, conn, method, url, con_cls);
    if (*n_data) {
        size_t n = *n_data;
        *n_data = 0;
        return take_body(job, data, n);
    }
    if (job->phase == FXI_PHASE_WAIT) return fxi_http_wait(job);
    if (job->early.status) return fxi_http_reply_error(job, &job->early);
    job->path = url;
    return job->route->run(job);
}

// ---- the end ----------------------------------------------------------------------------------

static int logged_status(const fxi_job *job, enum MHD_RequestTerminationCode why)
{
    if (job->gone) return 499;
    if (why == MHD_REQUEST_TERMINATED_TIMEOUT_REACHED && !job->status) return 408;
    if (why == MHD_REQUEST_TERMINATED_COMPLETED_OK) return job->status;
    if (why == MHD_REQUEST_TERMINATED_DAEMON_SHUTDOWN) return job->status ? job->status : 503;
    return 499;
}

static void log_job(fxi_job *job, int status)
{
    const fxi_answer *a = &job->ans;
    fxi_buf b = {0};
    bool ok = fxi_buf_fmt(&b, "%s %s %d request=%s", job->route ? job->route->method : "-",
                          job->route ? job->route->path : "-", status, job->request_id);
    if (ok && a->choice) {
        fxi_prompt_use use = fxi_answer_prompt_use(a);
        ok = fxi_buf_fmt(&b, " id=%s prompt=%d cached=%d generated=%d", a->id, use.n_prompt,
                         use.n_cached, fxi_answer_generated(a));
    }
    const char *code = job->code ? job->code : a->err.code;
    if (ok && code) ok = fxi_buf_fmt(&b, " error=%s", code);
    if (ok && fxi_buf_fmt(&b, " seconds=%.3f", fxi_now_s() - job->started_s))
        fxi_server_log(job->srv, b.p);
    fxi_buf_free(&b);
}

void fxi_http_on_completed(void *ud, struct MHD_Connection *conn, void **con_cls,
                           enum MHD_RequestTerminationCode why)
{
    fxi_job *job = *con_cls;
    fxi_http_error gone;
    (void)ud, (void)conn;
    if (!job) return;
    *con_cls = NULL;
    fxi_watch_remove(job);
    fxi_http_fail(&gone, 499, NULL, NULL, "the client has gone");
    fxi_job_end(job, &gone);
    pthread_mutex_lock(&job->mu);
    job->conn = NULL;
    pthread_mutex_unlock(&job->mu);
    log_job(job, logged_status(job, why));
    fxi_job_unref(job);
}
