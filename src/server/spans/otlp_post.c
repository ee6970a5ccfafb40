// otlp_post.c - a POST of OTLP over HTTP with a JSON body, and what the answer means.
#include "server/spans/otlp_post.h"

#include <stdio.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "base/net/http_reply.h"
#include "base/text/utf8.h"
#include "server/spans/otel_pairs.h"
#include "server/spans/otlp_json.h"

#define MAX_ANSWER_BYTES (64u << 10)

static bool write_head(fxi_buf *b, const fxi_url *url, const char *headers, size_t n_body_bytes)
{
    bool ok = fxi_buf_fmt(b,
                          "POST %s HTTP/1.1\r\nHost: %s%s%s:%s\r\nUser-Agent: flexinfer\r\n"
                          "Content-Type: application/json\r\nContent-Length: %zu\r\n",
                          url->path, url->is_v6 ? "[" : "", url->host, url->is_v6 ? "]" : "",
                          url->port, n_body_bytes);
    for (fxi_otel_pair p; ok && fxi_otel_pair_next(&headers, &p);)
        if (fxi_otel_pair_is_header(&p)) ok = fxi_buf_fmt(b, "%s: %s\r\n", p.key, p.value);
    return ok && fxi_buf_str(b, "Connection: close\r\n\r\n");
}

static fx_status send_request(const fxi_link *line, const fxi_url *url, const char *headers,
                              const fxi_buf *body, const fxi_patience *wait, fx_error *err)
{
    fxi_buf head = {0};
    fx_status st = write_head(&head, url, headers, body->n)
                       ? fxi_dial_send(line, head.p, head.n, wait, err)
                       : fxi_fail(err, FX_ENOMEM, "out of memory");
    if (st == FX_OK) st = fxi_dial_send(line, body->p, body->n, wait, err);
    fxi_buf_free(&head);
    return st;
}

static fx_status read_answer(const fxi_link *line, fxi_http_reply *r, fxi_buf *answer,
                             const fxi_patience *wait, fx_error *err)
{
    char piece[4096];
    size_t n;
    fxi_reply_state st = FXI_REPLY_MORE;
    while (st == FXI_REPLY_MORE) {
        FX_TRY(fxi_dial_receive(line, piece, sizeof piece, &n, wait, err));
        st = fxi_http_reply_add(r, piece, n, answer);
        if (answer->n > MAX_ANSWER_BYTES) return fxi_fail(err, FX_EIO, "its answer is too long");
    }
    if (st == FXI_REPLY_NO_MEMORY) return fxi_fail(err, FX_ENOMEM, "out of memory");
    return st == FXI_REPLY_WHOLE ? FX_OK : fxi_fail(err, FX_EIO, "it does not answer in HTTP");
}

// A collector that refuses early answers before it has read all: what it says counts.
static fx_status exchange_texts(const fxi_link *line, const fxi_url *url, const char *headers,
                                const fxi_buf *body, const fxi_patience *wait, fxi_http_reply *r,
                                fxi_buf *answer, fx_error *err)
{
    fx_error unread;
    const fx_status st = send_request(line, url, headers, body, wait, err);
    if (st != FX_OK && st != FX_EIO) return st;
    const fx_status got = read_answer(line, r, answer, wait, st == FX_OK ? err : &unread);
    return st == FX_OK || got == FX_OK ? got : st;
}

static fx_status call_collector(const fxi_url *url, const fxi_trust *trust, const char *headers,
                                const fxi_buf *body, const fxi_patience *wait, fxi_http_reply *r,
                                fxi_buf *answer, fx_error *err)
{
    fxi_link line;
    fx_status st = fxi_dial_open(url, trust, wait, &line, err);
    if (st == FX_OK) st = exchange_texts(&line, url, headers, body, wait, r, answer, err);
    fxi_dial_close(&line);
    return st;
}

static bool may_come_later(int status)
{
    return status == 429 || status == 502 || status == 503 || status == 504;
}

fxi_post_result fxi_otlp_post(const fxi_url *url, const fxi_trust *trust, const char *headers,
                              const fxi_buf *body, const fxi_patience *wait)
{
    fxi_post_result out = {.outcome = FXI_POST_LATER};
    fxi_http_reply r = {0};
    fxi_buf answer = {0};
    fx_error err;
    if (call_collector(url, trust, headers, body, wait, &r, &answer, &err) != FX_OK) {
        snprintf(out.why, sizeof out.why, "%.*s", FXI_UTF8_HEAD(err.text, 200));
    } else if (r.status < 300) {
        out.outcome = FXI_POST_TAKEN;
        out.n_rejected =
            fxi_otlp_rejected(answer.p ? answer.p : "", answer.n, out.why, sizeof out.why);
    } else {
        out.outcome = may_come_later(r.status) ? FXI_POST_LATER : FXI_POST_REFUSED;
        out.retry_after_s = r.retry_after_s;
        snprintf(out.why, sizeof out.why, "status %d", r.status);
    }
    fxi_buf_free(&answer);
    fxi_http_reply_free(&r);
    return out;
}
