// respond.c - responses: their heads, whole bodies, errors, and the next bytes of streams.
//
// A response is a head in the connection's `out`, then either a body that the job keeps until all
// of it has been sent, or the job's stream, taken piece by piece as the socket takes it.
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "base/system/clock.h" // defines: fxi_now_s
#include "server/http/http.h"

#define FRAME_BYTES 24 // around a chunk: its size, three ends of lines, and the end of the body

// ---- heads ------------------------------------------------------------------------------------

// What does not fit is cut off. It always fits: a head repeats less than the request's head, which
// is shorter than `out` by far.
__attribute__((format(printf, 2, 3))) static void add_text(fxi_conn *c, const char *fmt, ...)
{
    const size_t room = FXI_CONN_OUT_BYTES - c->out_to;
    va_list ap;
    va_start(ap, fmt);
    const int n = vsnprintf(c->out + c->out_to, room, fmt, ap);
    va_end(ap);
    if (n > 0) c->out_to += (size_t)n < room ? (size_t)n : room - 1;
}

// The headers that all responses of jobs share; decides whether the connection closes afterwards.
static void begin_head(fxi_http_job *job, int status, const char *type)
{
    fxi_conn *c = job->conn;
    fxi_loop *l = &c->srv->loop;
    const fxi_http_status *s = fxi_http_status_of(status);
    const double now_s = fxi_now_s();
    if (l->date_s < 0 || now_s - l->date_s >= 1) {
        struct tm tm;
        const time_t now = time(NULL);
        l->date_s = now_s;
        strftime(l->date, sizeof l->date, "%a, %d %b %Y %H:%M:%S GMT", gmtime_r(&now, &tm));
    }
    job->status = status;
    c->is_answered = true;
    add_text(c, "HTTP/1.1 %d %s\r\nDate: %s\r\n", status, s->reason, l->date);
    if (type) add_text(c, "Content-Type: %s\r\n", type);
    add_text(c, "X-Request-Id: %s\r\n", job->request_id);
    if (s->retry_after_s) add_text(c, "Retry-After: %d\r\n", s->retry_after_s);
    if (status == 401) add_text(c, "WWW-Authenticate: Bearer\r\n");
    if (job->allow[0]) add_text(c, "Allow: %s\r\n", job->allow);
    if (job->origin) // lets its pages read the answer; caches must keep answers to others apart
        add_text(c,
                 "Access-Control-Allow-Origin: %s\r\n"
                 "Access-Control-Expose-Headers: X-Request-Id, Retry-After\r\nVary: Origin\r\n",
                 job->origin);
    c->must_close |= job->at_once || !c->head.keeps_alive || job->srv->draining;
    if (c->must_close || c->head.is_1_0)
        add_text(c, "Connection: %s\r\n", c->must_close ? "close" : "Keep-Alive");
}

static void end_head(fxi_http_job *job, const char *body, size_t n_body)
{
    fxi_conn *c = job->conn;
    add_text(c, "Content-Length: %zu\r\n\r\n", n_body);
    c->rest = body;
    c->n_rest = job->is_head ? 0 : n_body;
}

// ---- without a job ----------------------------------------------------------------------------

void fxi_respond_bare(fxi_conn *c, int status, const char *code, const char *message)
{
    char body[256];
    const fxi_http_status *s = fxi_http_status_of(status);
    const int n =
        snprintf(body, sizeof body,
                 "{\"error\":{\"message\":\"%s\",\"type\":\"%s\",\"param\":null,\"code\":\"%s\"}}",
                 message, s->type, code);
    c->is_answered = c->must_close = true;
    c->is_stream = false;
    add_text(c, "HTTP/1.1 %d %s\r\nContent-Type: application/json\r\n", status, s->reason);
    if (s->retry_after_s) add_text(c, "Retry-After: %d\r\n", s->retry_after_s);
    add_text(c, "Connection: close\r\nContent-Length: %d\r\n\r\n%s", n, body);
}

void fxi_respond_no_memory(fxi_conn *c)
{
    if (c->job) {
        c->job->status = 503;
        c->job->code = "overloaded";
    }
    fxi_respond_bare(c, 503, "overloaded", "out of memory");
}

// ---- whole responses --------------------------------------------------------------------------

void fxi_respond_error(fxi_http_job *job, const fxi_http_error *e)
{
    fxi_buf b = {0};
    const bool other =
        job->route && !strncmp(job->route->path, FXI_MESSAGES_PATH, sizeof FXI_MESSAGES_PATH - 1);
    const int status = other ? fxi_http_status_of(e->status)->anthropic_status : e->status;
    job->code = e->code;
    if (!(other ? fxi_messages_error_body(&b, e, job->request_id) : fxi_http_error_body(&b, e))) {
        fxi_buf_free(&b);
        fxi_respond_no_memory(job->conn);
        return;
    }
    begin_head(job, status, "application/json");
    end_head(job, b.p, b.n);
    fxi_buf_free(&job->answer);
    job->answer = b; // until it has been sent
}

// The page runs its own scripts alone, and nothing of a model's answer is ever a script: whatever
// slipped through would not run.
void fxi_respond_file(fxi_http_job *job, const fxi_web_file *f)
{
    const char *known = fxi_http_job_header(job, "If-None-Match");
    const bool is_known = known && strstr(known, f->etag);
    begin_head(job, is_known ? 304 : 200, f->type);
    add_text(job->conn,
             "ETag: %s\r\n"
             "Cache-Control: no-cache\r\n"
             "Content-Security-Policy: default-src 'none'; script-src 'self'; style-src 'self'; "
             "img-src 'self'; connect-src 'self'; base-uri 'none'; form-action 'none'; "
             "frame-ancestors 'none'; require-trusted-types-for 'script'; trusted-types 'none'\r\n"
             "X-Content-Type-Options: nosniff\r\n"
             "Referrer-Policy: no-referrer\r\n"
             "Cross-Origin-Resource-Policy: same-origin\r\n"
             "Cross-Origin-Opener-Policy: same-origin\r\n",
             f->etag);
    if (is_known)
        add_text(job->conn, "\r\n");
    else
        end_head(job, (const char *)f->bytes, (size_t)(f->end - f->bytes));
}

void fxi_respond_preflight(fxi_http_job *job)
{
    const char *headers = fxi_http_job_header(job, "Access-Control-Request-Headers");
    begin_head(job, 204, NULL);
    add_text(job->conn, "Access-Control-Allow-Methods: GET, HEAD, POST, OPTIONS\r\n"
                        "Access-Control-Max-Age: 600\r\n");
    if (headers) add_text(job->conn, "Access-Control-Allow-Headers: %s\r\n", headers);
    if (fxi_http_job_header(job, "Access-Control-Request-Private-Network"))
        add_text(job->conn, "Access-Control-Allow-Private-Network: true\r\n");
    add_text(job->conn, "\r\n");
}

// ---- streams ----------------------------------------------------------------------------------

fxi_fill fxi_respond_fill(fxi_conn *c)
{
    fxi_http_job *job = c->job;
    const fxi_reply *r = &job->reply;
    pthread_mutex_lock(&job->mu);
    const size_t n_taken = c->out_to + FRAME_BYTES, n_there = r->out.n - r->n_sent;
    const size_t room = n_taken < FXI_CONN_OUT_BYTES ? FXI_CONN_OUT_BYTES - n_taken : 0;
    const size_t n = n_there < room ? n_there : room;
    fxi_fill fill = n ? FXI_FILLED : FXI_NOTHING_YET;
    if (n && c->has_chunks) add_text(c, "%zx\r\n", n);
    c->out_to += fxi_http_job_take(job, c->out + c->out_to, n);
    if (n && c->has_chunks) add_text(c, "\r\n");
    if (r->ended && r->out.n == r->n_sent && !r->cut) {
        if (c->has_chunks) add_text(c, "0\r\n\r\n");
        c->is_stream = false;
        fill = FXI_FILLED;
    } else if (r->ended && !n_there) {
        fill = FXI_FILL_CUT;
    }
    pthread_mutex_unlock(&job->mu);
    fxi_str text;
    if (fill == FXI_NOTHING_YET && job->watches && fxi_kv_stream_next(job, true, &text)) {
        if (c->has_chunks) add_text(c, "%zx\r\n", text.n);
        c->rest = text.p;
        c->n_rest = text.n + (c->has_chunks ? 2 : 0);
        fill = FXI_FILLED;
    }
    return fill;
}

// The reply has ended, so no other thread touches it. Its body is small, or has been made.
static void respond_whole(fxi_http_job *job)
{
    if (!job->answer.p && job->reply.err.status) {
        fxi_respond_error(job, &job->reply.err);
        return;
    }
    if (!job->answer.p) {
        if (!fxi_whole_body(&job->answer, &job->reply)) {
            fxi_respond_no_memory(job->conn);
            return;
        }
        fxi_charge_add(&job->charge, FXI_BYTES_ANSWER, job->answer.cap);
    }
    begin_head(job, 200, job->route->type ? job->route->type : "application/json");
    end_head(job, job->answer.p, job->answer.n);
}

// A client of HTTP/1.0 knows the end of a stream by that of the connection.
void fxi_respond_reply(fxi_conn *c)
{
    fxi_http_job *job = c->job;
    fxi_str text;
    pthread_mutex_lock(&job->mu);
    const bool has_begun = job->reply.begun, is_ready = job->reply.ended && !job->rendering;
    pthread_mutex_unlock(&job->mu);
    if (has_begun) {
        c->has_chunks = !c->head.is_1_0;
        c->must_close |= !c->has_chunks || job->is_head;
        begin_head(job, 200, "text/event-stream");
        add_text(c, "Cache-Control: no-cache\r\nX-Accel-Buffering: no\r\n%s\r\n",
                 c->has_chunks ? "Transfer-Encoding: chunked\r\n" : "");
        c->is_stream = !job->is_head;
        if (c->is_stream) (void)fxi_respond_fill(c);
    } else if (is_ready) {
        respond_whole(job);
    } else if (job->watches && fxi_kv_stream_next(job, false, &text)) {
        begin_head(job, 200, "application/json");
        end_head(job, text.p, text.n);
    }
}
