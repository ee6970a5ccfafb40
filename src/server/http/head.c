// head.c - the reader of head.h: lines are found first, then cut apart in place.
#include "server/http/head.h"

#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/text/str.h" // defines: fxi_hex_digit, fxi_list_has, fxi_str_is_plain

#define MAX_EXTRA (16u << 10) // bytes of a body's extensions, trailers and leading zeros

static bool refuse_head(fxi_http_error *err, const char *why)
{
    return fxi_http_fail(err, 400, "invalid_request", NULL, "%s", why);
}

static bool is_token(const char *p, size_t n)
{
    return n > 0 && fxi_str_is_plain((fxi_str){p, n}, "!#$%&'*+-.^_`|~");
}

// Whether there is no byte below `least` but tabs, and no DEL.
static bool is_plain_text(const char *p, size_t n, unsigned char least)
{
    for (size_t i = 0; i < n; i++) {
        const unsigned char c = (unsigned char)p[i];
        if ((c < least && c != '\t') || c == 0x7f) return false;
    }
    return true;
}

ptrdiff_t fxi_head_find_end(const char *text, size_t n, size_t *n_seen)
{
    size_t i = *n_seen;
    for (; i < n; i++) {
        if (text[i] != '\n') continue;
        if (!i || text[i - 1] != '\r') return -1;
        if (i >= 3 && text[i - 2] == '\n') return (ptrdiff_t)i + 1;
    }
    *n_seen = i;
    return 0;
}

// ---- the request line -------------------------------------------------------------------------

// Cuts the query off, and replaces %XX in place. What is no escape stays as it is.
static void unescape_path(char *p)
{
    p[strcspn(p, "?")] = 0;
    char *to = p;
    for (; *p; p++) {
        const int high = *p == '%' ? fxi_hex_digit(p[1]) : -1;
        const int low = high >= 0 ? fxi_hex_digit(p[2]) : -1;
        *to++ = low >= 0 ? (char)(high * 16 + low) : *p;
        if (low >= 0) p += 2;
    }
    *to = 0;
}

// line[0..n) without its CR LF. The method and the path stay readable whatever is wrong with the
// rest of the head.
static bool parse_request_line(fxi_head *h, char *line, size_t n, fxi_http_error *err)
{
    char *const end = line + n, *target = memchr(line, ' ', n);
    char *version = target ? memchr(target + 1, ' ', (size_t)(end - target - 1)) : NULL;
    if (!is_token(line, target ? (size_t)(target - line) : n))
        return refuse_head(err, "invalid request method");
    if (!version) return refuse_head(err, "invalid request line");
    *target++ = 0;
    const size_t n_target = (size_t)(version - target);
    if (!n_target || !is_plain_text(target, n_target, '!') || memchr(target, '\t', n_target) ||
        memmem(target, n_target, "%00", 3) || memchr(version + 1, ' ', (size_t)(end - version - 1)))
        return refuse_head(err, "the path contains a space, a control character or a NUL");
    *version++ = 0;
    *end = 0;
    unescape_path(target);
    h->method = line;
    h->path = target;
    if (end - version != 8 || memcmp(version, "HTTP/", 5) != 0 || version[5] < '0' ||
        version[5] > '9' || version[6] != '.' || version[7] < '0' || version[7] > '9')
        return refuse_head(err, "invalid request line");
    if (version[5] != '1')
        return fxi_http_fail(err, 505, "unsupported_version", NULL,
                             "only HTTP/1.0 and HTTP/1.1 are supported");
    h->is_1_0 = version[7] == '0';
    return true;
}

// ---- header lines -----------------------------------------------------------------------------

// Turns "Name: value" into "Name\0value\0" at `to`, at or before it. NULL: it is invalid.
static char *parse_field(char *to, const char *line, size_t n)
{
    const char *colon = memchr(line, ':', n), *end = line + n;
    if (!colon || !is_token(line, (size_t)(colon - line))) return NULL;
    const char *value = colon + 1;
    while (value < end && (*value == ' ' || *value == '\t')) value++;
    if (!is_plain_text(value, (size_t)(end - value), ' ')) return NULL;
    const size_t n_name = (size_t)(colon - line), n_value = (size_t)(end - value);
    memmove(to, line, n_name);
    to[n_name] = 0;
    memmove(to + n_name + 1, value, n_value);
    to[n_name + 1 + n_value] = 0;
    return to + n_name + n_value + 2;
}

static bool parse_fields(fxi_head *h, char *p, const char *end, fxi_http_error *err)
{
    char *to = p;
    h->field = h->end = p;
    while (p < end) {
        char *newline = memchr(p, '\n', (size_t)(end - p));
        to = parse_field(to, p, (size_t)(newline - p) - 1);
        if (!to) return refuse_head(err, "invalid header name or value");
        h->end = to;
        p = newline + 1;
    }
    return true;
}

// How many headers have this name; *value: that of the first.
static int find_fields(const fxi_head *h, const char *name, const char **value)
{
    int n = 0;
    *value = NULL;
    for (const char *p = h->field; p < h->end;) {
        const char *of = p + strlen(p) + 1;
        if (!strcasecmp(p, name) && !n++) *value = of;
        p = of + strlen(of) + 1;
    }
    return n;
}

const char *fxi_head_get(const fxi_head *h, const char *name)
{
    const char *value;
    (void)find_fields(h, name, &value);
    return value;
}

// ---- where the request ends -------------------------------------------------------------------

static bool parse_framing(fxi_head *h, fxi_http_error *err)
{
    const char *length, *coding;
    if (find_fields(h, "Content-Length", &length) > 1)
        return refuse_head(err, "more than one Content-Length header");
    if (find_fields(h, "Transfer-Encoding", &coding) > 1)
        return refuse_head(err, "more than one Transfer-Encoding header");
    if (length && coding)
        return refuse_head(err, "both Content-Length and Transfer-Encoding are given");
    if (length && (!*length || length[strspn(length, "0123456789")]))
        return refuse_head(err, "Content-Length is not a number");
    h->n_bytes = length ? strtoull(length, NULL, 10) : 0; // UINT64_MAX where it does not fit
    h->has_body = h->n_bytes > 0;
    if (!coding) return true;
    if (h->is_1_0) return refuse_head(err, "HTTP/1.0 has no Transfer-Encoding");
    if (strcasecmp(coding, "chunked") != 0)
        return fxi_http_fail(err, 501, "unsupported_encoding", NULL,
                             "the only supported Transfer-Encoding is chunked");
    h->has_body = h->is_chunked = true;
    return true;
}

bool fxi_head_parse(fxi_head *h, char *text, size_t n, fxi_http_error *err)
{
    char *const newline = memchr(text, '\n', n);
    if (!parse_request_line(h, text, (size_t)(newline - text) - 1, err)) return false;
    if (!parse_fields(h, newline + 1, text + n - 2, err) || !parse_framing(h, err)) return false;
    const char *host, *connection = fxi_head_get(h, "Connection");
    const int n_host = find_fields(h, "Host", &host);
    if (n_host > 1) return refuse_head(err, "more than one Host header");
    if (!n_host && !h->is_1_0) return refuse_head(err, "missing Host header");
    h->keeps_alive = !fxi_list_has(connection, ", \t", "close") &&
                     (!h->is_1_0 || fxi_list_has(connection, ", \t", "keep-alive"));
    return true;
}

// ---- chunked bodies ---------------------------------------------------------------------------

// What comes next: SIZE_1 a size's first digit, SIZE more of them, EXTENSION what may follow a
// size, NEWLINE the LF of that line; DATA; CR and LF after data; LINE the start of a trailer or
// of the empty line at the end, TRAILER the rest of it, TRAILER_LF, and END the last LF.
enum { SIZE_1, SIZE, EXTENSION, NEWLINE, DATA, DATA_CR, DATA_LF, LINE, TRAILER, TRAILER_LF, END };

static fxi_chunk_result take_size(fxi_chunks *c, char byte)
{
    const int digit = fxi_hex_digit(byte);
    if (digit >= 0) {
        if (c->n_left >> 56) return FXI_CHUNK_HUGE;
        c->n_extra += !c->n_left;
        c->n_left = c->n_left * 16 + (uint64_t)digit;
        c->at = SIZE;
        return FXI_CHUNK_MORE;
    }
    if (c->at == SIZE_1 || (byte != ';' && byte != '\r')) return FXI_CHUNK_BAD;
    c->at = byte == ';' ? EXTENSION : NEWLINE;
    return FXI_CHUNK_MORE;
}

// A byte of an extension or a trailer, which goes on until a CR; then comes `next`.
static fxi_chunk_result take_text(fxi_chunks *c, char byte, int next)
{
    c->n_extra++;
    if (byte == '\r')
        c->at = next;
    else if (!is_plain_text(&byte, 1, ' '))
        return FXI_CHUNK_BAD;
    return FXI_CHUNK_MORE;
}

static fxi_chunk_result take_exactly(fxi_chunks *c, char byte, char want, int next)
{
    if (byte != want) return FXI_CHUNK_BAD;
    c->at = next;
    return FXI_CHUNK_MORE;
}

// A byte that is no data.
static fxi_chunk_result take_byte(fxi_chunks *c, char byte)
{
    if (c->n_extra > MAX_EXTRA) return FXI_CHUNK_BAD;
    switch (c->at) {
    case SIZE_1:
    case SIZE: return take_size(c, byte);
    case EXTENSION: return take_text(c, byte, NEWLINE);
    case NEWLINE: return take_exactly(c, byte, '\n', c->n_left ? DATA : LINE);
    case DATA_CR: return take_exactly(c, byte, '\r', DATA_LF);
    case DATA_LF: return take_exactly(c, byte, '\n', SIZE_1);
    case LINE: c->at = TRAILER; return take_text(c, byte, END);
    case TRAILER: return take_text(c, byte, TRAILER_LF);
    case TRAILER_LF: return take_exactly(c, byte, '\n', LINE);
    default: return byte == '\n' ? FXI_CHUNK_END : FXI_CHUNK_BAD;
    }
}

fxi_chunk_result fxi_chunks_read(fxi_chunks *c, const char *p, size_t n, size_t *n_used,
                                 size_t *n_data)
{
    *n_data = 0;
    if (c->at == DATA && n) {
        *n_used = *n_data = c->n_left < n ? (size_t)c->n_left : n;
        c->n_left -= *n_data;
        if (!c->n_left) c->at = DATA_CR;
        return FXI_CHUNK_DATA;
    }
    fxi_chunk_result res = FXI_CHUNK_MORE;
    size_t i = 0;
    while (i < n && res == FXI_CHUNK_MORE && c->at != DATA) res = take_byte(c, p[i++]);
    *n_used = i;
    return res;
}
