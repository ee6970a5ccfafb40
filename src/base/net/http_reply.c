// http_reply.c - a machine of few states: lines up to the empty one, then counted bytes, and with
// chunks lines and counted bytes in turn. Answers 1xx are skipped.
#include "base/net/http_reply.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_LINES_BYTES (16u << 10) // of a head, of a chunk's line, of trailers
#define MAX_BODY_BYTES  (UINT64_C(1) << 62)

// ---- the head ---------------------------------------------------------------------------------

// "HTTP/1.1 200 OK"; 0: it is something else.
static int reply_status_of(const char *line)
{
    if (strncmp(line, "HTTP/1.", 7) != 0 || !line[7] || line[8] != ' ') return 0;
    const char *d = line + 9;
    if (strspn(d, "0123456789") != 3) return 0;
    const int status = atoi(d);
    return status >= 100 && status < 600 ? status : 0;
}

// The value of a header in its line, or NULL.
static const char *header_value(const char *line, const char *name)
{
    const size_t n = strlen(name);
    if (strncasecmp(line, name, n) != 0 || line[n] != ':') return NULL;
    return line + n + 1 + strspn(line + n + 1, " \t");
}

static bool take_length(fxi_http_reply *r, const char *value)
{
    const size_t n_digit = strspn(value, "0123456789");
    if (!n_digit || n_digit > 18) return false;
    r->n_left = strtoull(value, NULL, 10);
    r->part = FXI_REPLY_LENGTH;
    return true;
}

static bool take_header(fxi_http_reply *r, const char *line)
{
    const char *v;
    if ((v = header_value(line, "Content-Length"))) return take_length(r, v);
    if ((v = header_value(line, "Transfer-Encoding"))) r->is_chunked = !strcasecmp(v, "chunked");
    if ((v = header_value(line, "Content-Type")))
        r->is_event_stream = !strncasecmp(v, "text/event-stream", 17);
    if ((v = header_value(line, "Retry-After")) && strspn(v, "0123456789") < 7)
        r->retry_after_s = atoi(v);
    return true;
}

static void begin_reply_body(fxi_http_reply *r, bool has_length)
{
    if (r->status == 204 || r->status == 304)
        r->part = FXI_REPLY_DONE;
    else if (r->is_chunked)
        r->part = FXI_REPLY_CHUNK_SIZE;
    else if (has_length)
        r->part = r->n_left ? FXI_REPLY_LENGTH : FXI_REPLY_DONE;
    else
        r->part = FXI_REPLY_TO_END;
}

// The head's lines, each with a NUL at its end, up to `end`.
static bool read_reply_head(fxi_http_reply *r, char *text, const char *end)
{
    bool has_length = false;
    const int status = reply_status_of(text);
    for (char *line = text + strlen(text) + 1; status && line < end; line += strlen(line) + 1) {
        if (!take_header(r, line)) return false;
        has_length = has_length || r->part == FXI_REPLY_LENGTH;
        r->part = FXI_REPLY_HEAD;
    }
    if (status >= 200) {
        r->status = status;
        begin_reply_body(r, has_length);
    }
    return status != 0;
}

// ---- lines ------------------------------------------------------------------------------------

// "1a;extension": the bytes of a chunk that follows.
static bool read_chunk_size(fxi_http_reply *r, const char *line)
{
    const size_t n_digit = strspn(line, "0123456789abcdefABCDEF");
    if (!n_digit || n_digit > 15) return false;
    r->n_left = strtoull(line, NULL, 16);
    if (r->n_left > MAX_BODY_BYTES) return false;
    r->part = r->n_left ? FXI_REPLY_CHUNK : FXI_REPLY_TRAILER;
    return true;
}

// A line is complete: r->line from `at` on, without its end. False: it is broken.
static bool end_line(fxi_http_reply *r, size_t at)
{
    const char *line = r->line.p + at;
    const bool is_empty = !*line;
    bool ok = true;
    if (r->part == FXI_REPLY_HEAD && !is_empty) return true; // read together, at its end
    if (r->part == FXI_REPLY_HEAD)
        ok = at > 0 && read_reply_head(r, r->line.p, r->line.p + at);
    else if (r->part == FXI_REPLY_CHUNK_SIZE)
        ok = read_chunk_size(r, line);
    else if (r->part == FXI_REPLY_CHUNK_END)
        ok = is_empty, r->part = FXI_REPLY_CHUNK_SIZE;
    else if (is_empty)
        r->part = FXI_REPLY_DONE;
    fxi_buf_clear(&r->line);
    return ok;
}

// Where the line that is being read begins in r->line: behind the NUL of the one before.
static size_t line_start(const fxi_http_reply *r)
{
    const char *before = r->line.n ? memrchr(r->line.p, 0, r->line.n) : NULL;
    return before ? (size_t)(before - r->line.p) + 1 : 0;
}

static fxi_reply_state read_reply_line(fxi_http_reply *r, const char **p, size_t *n)
{
    const char *nl = memchr(*p, '\n', *n);
    const size_t k = nl ? (size_t)(nl - *p) : *n;
    if (memchr(*p, 0, k) || r->line.n + k > MAX_LINES_BYTES) return FXI_REPLY_BROKEN;
    if (!fxi_buf_add(&r->line, *p, k)) return FXI_REPLY_NO_MEMORY;
    *p += nl ? k + 1 : k;
    *n -= nl ? k + 1 : k;
    if (!nl) return FXI_REPLY_MORE;
    const size_t at = line_start(r);
    if (r->line.n > at && r->line.p[r->line.n - 1] == '\r') r->line.p[--r->line.n] = 0;
    const bool was_head = r->part == FXI_REPLY_HEAD && r->line.n > at;
    if (!end_line(r, at)) return FXI_REPLY_BROKEN;
    return !was_head || fxi_buf_add(&r->line, "", 1) ? FXI_REPLY_MORE : FXI_REPLY_NO_MEMORY;
}

// ---- the body ---------------------------------------------------------------------------------

static fxi_reply_state read_counted(fxi_http_reply *r, const char **p, size_t *n, fxi_buf *body)
{
    const bool to_end = r->part == FXI_REPLY_TO_END;
    const size_t k = to_end || *n < r->n_left ? *n : (size_t)r->n_left;
    if (!fxi_buf_add(body, *p, k)) return FXI_REPLY_NO_MEMORY;
    *p += k;
    *n -= k;
    if (to_end) return FXI_REPLY_MORE;
    r->n_left -= k;
    if (!r->n_left) r->part = r->part == FXI_REPLY_CHUNK ? FXI_REPLY_CHUNK_END : FXI_REPLY_DONE;
    return FXI_REPLY_MORE;
}

fxi_reply_state fxi_http_reply_add(fxi_http_reply *r, const char *p, size_t n, fxi_buf *body)
{
    fxi_reply_state st = FXI_REPLY_MORE;
    if (!n && r->part == FXI_REPLY_TO_END) r->part = FXI_REPLY_DONE;
    if (!n && r->part != FXI_REPLY_DONE) return FXI_REPLY_BROKEN;
    while (st == FXI_REPLY_MORE && n > 0 && r->part != FXI_REPLY_DONE) {
        const bool is_bytes = r->part == FXI_REPLY_LENGTH || r->part == FXI_REPLY_TO_END ||
                              r->part == FXI_REPLY_CHUNK;
        st = is_bytes ? read_counted(r, &p, &n, body) : read_reply_line(r, &p, &n);
    }
    return st == FXI_REPLY_MORE && r->part == FXI_REPLY_DONE ? FXI_REPLY_WHOLE : st;
}

void fxi_http_reply_free(fxi_http_reply *r)
{
    fxi_buf_free(&r->line);
    *r = (fxi_http_reply){0};
}
