// wire.c - one HTTP response as it arrives: head, chunks, and the events in them. All but the data
// of chunks are lines.
#include <jansson.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "bench_serve.h"

#define SHOWN_BYTES 160 // of an event that is wrong

void wire_reset(wire *w)
{
    fxi_buf_clear(&w->line);
    fxi_buf_clear(&w->body);
    *w = (wire){.line = w->line, .body = w->body};
}

void wire_free(wire *w)
{
    fxi_buf_free(&w->line);
    fxi_buf_free(&w->body);
}

static bool end_head_line(wire *w, const char *line)
{
    if (!w->status) {
        w->status = strncmp(line, "HTTP/1.1 ", 9) ? -1 : atoi(line + 9);
        return w->status > 0;
    }
    if (!strcmp(line, "Transfer-Encoding: chunked")) w->chunked = true;
    if (*line) return true;
    w->at = WIRE_SIZE;
    return w->chunked && w->status == 200;
}

static bool end_size_line(wire *w, const char *line)
{
    char *end;
    w->n_left = strtoul(line, &end, 16);
    w->at = w->n_left ? WIRE_DATA : WIRE_TAIL;
    return end != line;
}

// What follows a chunk's data, and what ends the body: an empty line each.
static bool end_next_line(wire *w, const char *line)
{
    w->at = WIRE_SIZE;
    return !*line;
}

static bool end_tail_line(wire *w, const char *line)
{
    if (!*line) w->at = WIRE_DONE;
    return true;
}

static bool end_line(wire *w)
{
    static bool (*const ends[])(wire *, const char *) = {
        [WIRE_HEAD] = end_head_line,
        [WIRE_SIZE] = end_size_line,
        [WIRE_NEXT] = end_next_line,
        [WIRE_TAIL] = end_tail_line,
    };
    if (w->line.n && w->line.p[w->line.n - 1] == '\r') w->line.p[--w->line.n] = 0;
    const bool ok = ends[w->at](w, w->line.p ? w->line.p : "");
    fxi_buf_clear(&w->line);
    return ok;
}

// Returns the bytes used; 0: wrong.
static size_t take_line(wire *w, const char *p, size_t n)
{
    const char *end = memchr(p, '\n', n);
    const size_t n_line = end ? (size_t)(end - p) : n;
    if (!fxi_buf_add(&w->line, p, n_line)) return 0;
    if (!end) return n;
    return end_line(w) ? n_line + 1 : 0;
}

static size_t take_data(wire *w, const char *p, size_t n)
{
    const size_t n_now = n < w->n_left ? n : w->n_left;
    if (!fxi_buf_add(&w->body, p, n_now)) return 0;
    w->n_left -= n_now;
    if (!w->n_left) w->at = WIRE_NEXT;
    return n_now;
}

bool wire_take(wire *w, const char *p, size_t n)
{
    while (n) {
        if (w->at == WIRE_DONE) return false;
        const size_t n_used = w->at == WIRE_DATA ? take_data(w, p, n) : take_line(w, p, n);
        if (!n_used) return false;
        p += n_used;
        n -= n_used;
    }
    return true;
}

int wire_pieces(wire *w)
{
    static const char mark[] = "\"text\":\"";
    int n = 0;
    while (w->n_seen < w->body.n) {
        char *event = w->body.p + w->n_seen, *end = strstr(event, "\n\n");
        if (!end) break;
        const char *text = strstr(event, mark);
        if (text && text < end && text[sizeof mark - 1] != '"') n++;
        w->n_seen = (size_t)(end + 2 - w->body.p);
    }
    return n;
}

// A text may have a NUL: models that know single bytes can write one.
static fx_status add_event_text(const char *json, size_t n, fxi_buf *out, fx_error *err)
{
    json_error_t fault = {.text = ""};
    json_t *event = json_loadb(json, n, JSON_ALLOW_NUL, &fault);
    const json_t *choice = json_array_get(json_object_get(event, "choices"), 0);
    const json_t *text = json_object_get(choice, "text");
    fx_status st = FX_OK;
    if (!json_is_string(text))
        st = fxi_fail(err, FX_EINVAL, "an event without a text: %s: %.*s", fault.text,
                      (int)(n < SHOWN_BYTES ? n : SHOWN_BYTES), json);
    else if (!fxi_buf_add(out, json_string_value(text), json_string_length(text)))
        st = fxi_fail(err, FX_ENOMEM, "no memory");
    json_decref(event);
    return st;
}

fx_status wire_answer(const wire *w, fxi_buf *out, fx_error *err)
{
    static const char begin[] = "data: ", done[] = "[DONE]";
    const char *at = w->body.p;
    for (const char *end; at && (end = strstr(at, "\n\n")); at = end + 2) {
        if (strncmp(at, begin, sizeof begin - 1)) continue; // a comment
        at += sizeof begin - 1;
        if (!strncmp(at, done, sizeof done - 1)) return FX_OK;
        FX_TRY(add_event_text(at, (size_t)(end - at), out, err));
    }
    return fxi_fail(err, FX_EINVAL, "no [DONE] after %zu bytes of events", w->body.n);
}
