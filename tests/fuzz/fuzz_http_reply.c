// fuzz_http_reply.c - an HTTP answer as a client reads it: the same state and body whatever the
// pieces, and never more body than there were bytes. The first byte of an input is the size of the
// pieces; a URL is taken apart, too.
#include "fuzz.h"

#include <string.h>

#include "base/net/http_reply.h"
#include "base/net/url.h"

FUZZ_TARGET(fuzz_http_reply);

static fxi_reply_state read_pieces(fxi_http_reply *r, const char *p, size_t n, size_t piece,
                                   fxi_buf *body)
{
    fxi_reply_state st = FXI_REPLY_MORE;
    for (size_t at = 0; at < n && st == FXI_REPLY_MORE; at += piece)
        st = fxi_http_reply_add(r, p + at, n - at < piece ? n - at : piece, body);
    return st == FXI_REPLY_MORE ? fxi_http_reply_add(r, p, 0, body) : st;
}

static void check_url(const char *text)
{
    fxi_url u;
    if (fxi_url_parse(text, &u, NULL) != FX_OK) return;
    FUZZ_CHECK(u.path[0] == '/' && u.host[0] && u.port[0] && !strchr(u.host, '/'));
}

// Ends with a NUL.
static void check_text(char *text, size_t n, size_t piece)
{
    fxi_http_reply a = {0}, b = {0};
    fxi_buf one = {0}, two = {0};
    const fxi_reply_state st = read_pieces(&a, text, n, n + 1, &one);
    FUZZ_CHECK(read_pieces(&b, text, n, piece, &two) == st);
    FUZZ_CHECK(one.n <= n && one.n == two.n && (!one.n || !memcmp(one.p, two.p, one.n)));
    FUZZ_CHECK(st != FXI_REPLY_WHOLE || (a.status >= 200 && a.status == b.status));
    fxi_buf_free(&one);
    fxi_buf_free(&two);
    fxi_http_reply_free(&a);
    fxi_http_reply_free(&b);
    check_url(text);
}

int fuzz_http_reply_run(const uint8_t *data, size_t n_bytes)
{
    if (!n_bytes) return 0;
    char *text = calloc(1, n_bytes);
    if (!text) abort();
    memcpy(text, data + 1, n_bytes - 1);
    check_text(text, n_bytes - 1, 1 + data[0] % 32u);
    free(text);
    return 0;
}

bool fuzz_http_reply_seed(unsigned i, fxi_buf *out)
{
    static const char *const seeds[] = {
        "AHTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello",
        "BHTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3;x\r\nabc\r\n0\r\nA: b\r\n\r\n",
        "CHTTP/1.0 503 Busy\nRetry-After: 5\n\nto the end",
        "DHTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 None\r\n\r\n",
        "Ehttp://[::1]:8080/v1/traces?x=y",
        "Fhttp://collector.example:4318",
    };
    return i < sizeof seeds / sizeof *seeds && fxi_buf_str(out, seeds[i]);
}
