// http_send.c - responses: whole ones, errors and streams. A connection with nothing to send yet is
// suspended; whoever adds to the reply resumes it (job.c).
//
// A stream's head, its first tokens and its end go through MHD. What steps bring in between goes
// past it: through MHD a token costs a wake-up of its thread, three polls and two locks besides the
// send. While its connection is suspended, MHD leaves the socket alone, and between two calls of
// read_stream_bytes it stands between two chunks of the body. So the thread that has the text sends
// a chunk, without waiting. If the socket takes nothing, MHD sends the text when it can. If it
// takes a part, the rest must follow before MHD may send again: then the job is listed, and each
// look at the list tries once more.
#include "base/system/clock.h" // defines: fxi_now_s
#include "server/http/http.h"
#include "server/reply/api_reply.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/uio.h>

#define STREAM_BLOCK (16u << 10)
#define ANSWER_BLOCK (64u << 10)

// ---- whole responses --------------------------------------------------------------------------

bool fxi_http_make_no_memory(fxi_server *srv)
{
    fxi_http_error e;
    fxi_buf b = {0};
    char seconds[16];
    (void)fxi_http_fail_memory(&e);
    snprintf(seconds, sizeof seconds, "%d", fxi_http_retry_after(e.status));
    if (fxi_http_error_body(&b, &e))
        srv->no_memory = MHD_create_response_from_buffer(b.n, b.p, MHD_RESPMEM_MUST_FREE);
    if (!srv->no_memory) fxi_buf_free(&b);
    return srv->no_memory &&
           MHD_add_response_header(srv->no_memory, "Content-Type", "application/json") &&
           MHD_add_response_header(srv->no_memory, "Retry-After", seconds);
}

enum MHD_Result fxi_http_send_no_memory(fxi_server *srv, struct MHD_Connection *conn)
{
    return MHD_queue_response(conn, 503, srv->no_memory);
}

static enum MHD_Result send_no_memory(fxi_http_job *job)
{
    job->phase = FXI_PHASE_REPLY;
    job->status = 503;
    job->code = "overloaded";
    return fxi_http_send_no_memory(job->srv, job->conn);
}

// What lets a page read the answer. Answers differ by origin, so caches must keep them apart.
static bool add_cors_headers(const fxi_http_job *job, struct MHD_Response *r)
{
    return !job->origin ||
           (MHD_add_response_header(r, "Access-Control-Allow-Origin", job->origin) &&
            MHD_add_response_header(r, "Access-Control-Expose-Headers",
                                    "X-Request-Id, Retry-After") &&
            MHD_add_response_header(r, "Vary", "Origin"));
}

// The headers that all responses share.
static bool add_headers(const fxi_http_job *job, int status, const char *type,
                        struct MHD_Response *r)
{
    char seconds[16];
    int retry_s = status < 400 ? 0 : fxi_http_retry_after(status);
    snprintf(seconds, sizeof seconds, "%d", retry_s);
    return (!type || MHD_add_response_header(r, "Content-Type", type)) &&
           MHD_add_response_header(r, "X-Request-Id", job->request_id) &&
           (!retry_s || MHD_add_response_header(r, "Retry-After", seconds)) &&
           (status != 401 || MHD_add_response_header(r, "WWW-Authenticate", "Bearer")) &&
           (!job->allow[0] || MHD_add_response_header(r, "Allow", job->allow)) &&
           (!job->at_once || MHD_add_response_header(r, "Connection", "close")) &&
           add_cors_headers(job, r);
}

// Queues *r and drops our reference to it.
static enum MHD_Result send_response(fxi_http_job *job, int status, const char *type,
                                     struct MHD_Response *r)
{
    if (!add_headers(job, status, type, r)) {
        MHD_destroy_response(r);
        return send_no_memory(job);
    }
    job->phase = FXI_PHASE_REPLY;
    job->status = status;
    enum MHD_Result res = MHD_queue_response(job->conn, (unsigned)status, r);
    MHD_destroy_response(r);
    return res;
}

// Sends *body (taken over) as the whole response.
static enum MHD_Result send_body(fxi_http_job *job, int status, const char *type, fxi_buf *body)
{
    struct MHD_Response *r =
        MHD_create_response_from_buffer(body->n, body->p, MHD_RESPMEM_MUST_FREE);
    if (!r) {
        fxi_buf_free(body);
        return send_no_memory(job);
    }
    *body = (fxi_buf){0};
    return send_response(job, status, type, r);
}

enum MHD_Result fxi_http_send_made(fxi_http_job *job, bool made, const char *type, fxi_buf *body)
{
    if (made) return send_body(job, 200, type, body);
    fxi_buf_free(body);
    return send_no_memory(job);
}

enum MHD_Result fxi_http_send_error(fxi_http_job *job, const fxi_http_error *e)
{
    fxi_buf b = {0};
    const bool other =
        job->route && !strncmp(job->route->path, FXI_MESSAGES_PATH, sizeof FXI_MESSAGES_PATH - 1);
    const int status = other ? fxi_messages_error_status(e->status) : e->status;
    job->code = e->code;
    if (other ? fxi_messages_error_body(&b, e, job->request_id) : fxi_http_error_body(&b, e))
        return send_body(job, status, "application/json", &b);
    fxi_buf_free(&b);
    return send_no_memory(job);
}

// The page runs its own scripts alone, and nothing of a model's answer is ever a script: whatever
// slipped through would not run.
static bool add_file_headers(struct MHD_Response *r, const fxi_web_file *f)
{
    return MHD_add_response_header(r, "ETag", f->etag) &&
           MHD_add_response_header(r, "Cache-Control", "no-cache") &&
           MHD_add_response_header(r, "Content-Security-Policy",
                                   "default-src 'none'; script-src 'self'; style-src 'self'; "
                                   "img-src 'self'; connect-src 'self'; base-uri 'none'; "
                                   "form-action 'none'; frame-ancestors 'none'; "
                                   "require-trusted-types-for 'script'; trusted-types 'none'") &&
           MHD_add_response_header(r, "X-Content-Type-Options", "nosniff") &&
           MHD_add_response_header(r, "Referrer-Policy", "no-referrer") &&
           MHD_add_response_header(r, "Cross-Origin-Resource-Policy", "same-origin") &&
           MHD_add_response_header(r, "Cross-Origin-Opener-Policy", "same-origin");
}

enum MHD_Result fxi_http_send_file(fxi_http_job *job, const fxi_web_file *f)
{
    const char *known = MHD_lookup_connection_value(job->conn, MHD_HEADER_KIND, "If-None-Match");
    const bool is_known = known && strstr(known, f->etag);
    struct MHD_Response *r = MHD_create_response_from_buffer(
        is_known ? 0 : (size_t)(f->end - f->bytes), (void *)f->bytes, MHD_RESPMEM_PERSISTENT);
    if (!r) return send_no_memory(job);
    if (add_file_headers(r, f)) return send_response(job, is_known ? 304 : 200, f->type, r);
    MHD_destroy_response(r);
    return send_no_memory(job);
}

static bool add_preflight_headers(const fxi_http_job *job, struct MHD_Response *r)
{
    const char *headers =
        MHD_lookup_connection_value(job->conn, MHD_HEADER_KIND, "Access-Control-Request-Headers");
    const bool is_private = MHD_lookup_connection_value(job->conn, MHD_HEADER_KIND,
                                                        "Access-Control-Request-Private-Network");
    return MHD_add_response_header(r, "Access-Control-Allow-Methods", "GET, HEAD, POST, OPTIONS") &&
           MHD_add_response_header(r, "Access-Control-Max-Age", "600") &&
           (!headers || MHD_add_response_header(r, "Access-Control-Allow-Headers", headers)) &&
           (!is_private ||
            MHD_add_response_header(r, "Access-Control-Allow-Private-Network", "true"));
}

enum MHD_Result fxi_http_send_preflight(fxi_http_job *job)
{
    struct MHD_Response *r = MHD_create_response_from_buffer(0, NULL, MHD_RESPMEM_PERSISTENT);
    if (!r) return send_no_memory(job);
    if (add_preflight_headers(job, r)) return send_response(job, 204, NULL, r);
    MHD_destroy_response(r);
    return send_no_memory(job);
}

// ---- replies ----------------------------------------------------------------------------------

// ---- past MHD: job.mu is held ----

typedef enum push_result { PUSHED, PUSH_BLOCKED, PUSH_FAILED } push_result;

static void skip_sent(struct iovec *v, int n, size_t skip)
{
    for (int i = 0; i < n && skip; i++) {
        const size_t part = skip < v[i].iov_len ? skip : v[i].iov_len;
        v[i].iov_base = (char *)v[i].iov_base + part;
        v[i].iov_len -= part;
        skip -= part;
    }
}

// Sends the chunk that is open, or one of all text that there is.
static push_result push_chunk(fxi_http_job *job)
{
    fxi_reply *r = &job->reply;
    char head[24];
    if (!job->chunk_bytes) job->chunk_bytes = r->out.n - r->n_sent;
    const size_t n_head = (size_t)snprintf(head, sizeof head, "%zx\r\n", job->chunk_bytes);
    struct iovec v[] = {{head, n_head}, {r->out.p + r->n_sent, job->chunk_bytes}, {"\r\n", 2}};
    skip_sent(v, 3, job->chunk_sent);
    const struct msghdr msg = {.msg_iov = v, .msg_iovlen = 3};
    const ssize_t n = sendmsg(job->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (n < 0 && errno != EAGAIN && errno != EINTR) return PUSH_FAILED;
    if (n > 0) {
        job->chunk_sent += (size_t)n;
        fxi_http_job_sent(job, (size_t)n);
    }
    if (!job->chunk_sent) job->chunk_bytes = 0;
    if (job->chunk_sent < n_head + job->chunk_bytes + 2) return PUSH_BLOCKED;
    fxi_http_job_take(job, NULL, job->chunk_bytes);
    fxi_http_job_sent(job, 0);
    job->chunk_bytes = job->chunk_sent = 0;
    return PUSHED;
}

static void push_later(fxi_http_job *job)
{
    atomic_fetch_add(&job->refs, 1);
    if (!fxi_wakes_add(&job->srv->wakes, &job->wake, FXI_WAKE_LATER, fxi_now_s()))
        atomic_fetch_sub(&job->refs, 1);
}

// A chunk that is open must become whole, whatever else there is to send.
static bool may_push(const fxi_http_job *job)
{
    if (job->broken || !job->chunks || !job->reply.begun || job->srv->opt.tls_cert) return false;
    return job->chunk_bytes || (job->n_out && !job->reply.ended && fxi_reply_has_news(&job->reply));
}

// Behind a chunk that was open there may be text that came meanwhile.
static push_result push_all(fxi_http_job *job)
{
    push_result res;
    do res = may_push(job) ? push_chunk(job) : PUSH_BLOCKED;
    while (res == PUSHED && !job->reply.ended && fxi_reply_has_news(&job->reply));
    return res;
}

// The connection is suspended. It stays so unless there is something for MHD to do.
static void wake_suspended(fxi_http_job *job)
{
    const push_result res = push_all(job);
    job->broken |= res == PUSH_FAILED && job->chunk_bytes;
    if (job->chunk_bytes && !job->broken)
        push_later(job);
    else if (res != PUSHED || job->reply.ended)
        fxi_http_job_resume(job);
}

bool fxi_http_send_added(fxi_http_job *job)
{
    pthread_mutex_lock(&job->mu);
    job->last_out_s = fxi_now_s();
    if (job->suspended) wake_suspended(job);
    const bool is_left = !job->suspended && fxi_reply_has_news(&job->reply);
    pthread_mutex_unlock(&job->mu);
    return is_left;
}

static void wake_listed(fxi_server *srv, fxi_wake_list l)
{
    for (fxi_wake *w; (w = fxi_wakes_pop(&srv->wakes, &l));) {
        fxi_http_job *job = (fxi_http_job *)((char *)w - offsetof(fxi_http_job, wake));
        pthread_mutex_lock(&job->mu);
        if (job->suspended) wake_suspended(job);
        pthread_mutex_unlock(&job->mu);
        fxi_http_job_unref(job);
    }
}

void fxi_http_send_listed(void *ud)
{
    fxi_server *srv = ud;
    wake_listed(srv, fxi_wakes_after_step(&srv->wakes, fxi_now_s()));
}

void fxi_http_wake_after_step(void *ud)
{
    fxi_server *srv = ud;
    if (!fxi_wakes_tell(&srv->wakes, fxi_now_s())) fxi_http_send_listed(srv);
}

void fxi_http_wake_late(fxi_server *srv, double now_s)
{
    wake_listed(srv, fxi_wakes_late(&srv->wakes, now_s));
}

void fxi_http_wake_all(fxi_server *srv)
{
    wake_listed(srv, fxi_wakes_take(&srv->wakes));
}

// ---- through MHD ----

static void suspend_locked(fxi_http_job *job)
{
    job->suspended = true;
    MHD_suspend_connection(job->conn);
}

static ssize_t read_stream_locked(fxi_http_job *job, char *dst, size_t max)
{
    if (job->broken || (job->chunk_bytes && job->gone)) return MHD_CONTENT_READER_END_WITH_ERROR;
    if (job->chunk_bytes) { // something else resumed the connection
        suspend_locked(job);
        push_later(job);
        return 0;
    }
    const size_t n = job->gone ? 0 : fxi_http_job_take(job, dst, max);
    fxi_http_job_sent(job, n);
    if (n) return (ssize_t)n;
    if (job->reply.ended)
        return job->gone || job->reply.cut ? MHD_CONTENT_READER_END_WITH_ERROR
                                           : MHD_CONTENT_READER_END_OF_STREAM;
    suspend_locked(job);
    return 0;
}

// MHD wants the next bytes of a stream.
static ssize_t read_stream_bytes(void *ud, uint64_t pos, char *dst, size_t max)
{
    fxi_http_job *job = ud;
    (void)pos;
    pthread_mutex_lock(&job->mu);
    const ssize_t n = read_stream_locked(job, dst, max);
    pthread_mutex_unlock(&job->mu);
    return n;
}

static enum MHD_Result send_stream(fxi_http_job *job)
{
    struct MHD_Response *r = MHD_create_response_from_callback(MHD_SIZE_UNKNOWN, STREAM_BLOCK,
                                                               read_stream_bytes, job, NULL);
    if (!r) return send_no_memory(job);
    if (MHD_add_response_header(r, "Cache-Control", "no-cache") &&
        MHD_add_response_header(r, "X-Accel-Buffering", "no"))
        return send_response(job, 200, "text/event-stream", r);
    MHD_destroy_response(r);
    return send_no_memory(job);
}

// MHD wants the next bytes of a whole answer. It asks once it has sent those before.
static ssize_t read_answer_bytes(void *ud, uint64_t pos, char *dst, size_t max)
{
    fxi_http_job *job = ud;
    const size_t left = job->answer.n - (size_t)pos, n = left < max ? left : max;
    memcpy(dst, job->answer.p + pos, n);
    pthread_mutex_lock(&job->mu);
    fxi_http_job_sent(job, n);
    pthread_mutex_unlock(&job->mu);
    return (ssize_t)n;
}

// Sends a whole body. If it is large, the job keeps it until all of it has been sent.
static enum MHD_Result send_answer(fxi_http_job *job)
{
    if (job->answer.n <= ANSWER_BLOCK) {
        pthread_mutex_lock(&job->mu);
        fxi_http_job_sent(job, job->answer.n);
        pthread_mutex_unlock(&job->mu);
        return send_body(job, 200, "application/json", &job->answer);
    }
    struct MHD_Response *r = MHD_create_response_from_callback(job->answer.n, ANSWER_BLOCK,
                                                               read_answer_bytes, job, NULL);
    if (!r) return send_no_memory(job);
    return send_response(job, 200, "application/json", r);
}

// The reply has ended, so no other thread touches it. Its body is small, or has been made.
static enum MHD_Result send_whole(fxi_http_job *job)
{
    if (!job->answer.p && job->reply.err.status) return fxi_http_send_error(job, &job->reply.err);
    if (!job->answer.p) {
        if (!fxi_whole_body(&job->answer, &job->reply)) return send_no_memory(job);
        fxi_bill_force(&job->bill, FXI_BYTES_ANSWER, job->answer.cap);
    }
    return send_answer(job);
}

enum MHD_Result fxi_http_send_reply(fxi_http_job *job)
{
    pthread_mutex_lock(&job->mu);
    bool begun = job->reply.begun, gone = job->gone;
    bool ready = begun || (job->reply.ended && !job->rendering);
    if (!ready) suspend_locked(job);
    pthread_mutex_unlock(&job->mu);
    if (!ready) return MHD_YES;
    if (gone) return MHD_NO;
    return begun ? send_stream(job) : send_whole(job);
}
