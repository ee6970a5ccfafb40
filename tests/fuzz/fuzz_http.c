// fuzz_http.c - whatever bytes arrive on a connection: the served engine is asked only by requests
// that a strict reader of RFC 9112 sees in them, and none is answered after the first that it does
// not. So there is nothing to smuggle past a proxy that reads strictly. The connection ends, and
// the server goes on.
#include "fuzz.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include "base/text/str.h"
#include "server/fake_engine.h"
#include "server/open_and_serve.h"

FUZZ_TARGET(fuzz_http);

// ---- the strict reader --------------------------------------------------------------------------

typedef struct reader {
    const char *p, *end;
} reader;

typedef struct request_facts {
    bool is_post, is_head, is_1_0;
    int n_length, n_coding, n_host;
    uint64_t length;
    bool is_bad;
} request_facts;

static bool is_token_char(char c)
{
    return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
           (c && strchr("!#$%&'*+-.^_`|~", c));
}

static bool is_token(fxi_str s)
{
    for (size_t i = 0; i < s.n; i++)
        if (!is_token_char(s.p[i])) return false;
    return s.n > 0;
}

static bool is_text(fxi_str s, char least)
{
    for (size_t i = 0; i < s.n; i++)
        if (((unsigned char)s.p[i] < (unsigned char)least && s.p[i] != '\t') || s.p[i] == 0x7f)
            return false;
    return true;
}

// The next line, without its CR LF. False: there is none, or it ends otherwise.
static bool next_line(reader *r, fxi_str *line)
{
    const char *at = memchr(r->p, '\n', (size_t)(r->end - r->p));
    if (!at || at == r->p || at[-1] != '\r') return false;
    *line = (fxi_str){r->p, (size_t)(at - r->p) - 1};
    r->p = at + 1;
    return true;
}

static fxi_str cut_at(fxi_str *s, char c)
{
    const char *at = memchr(s->p, c, s->n);
    fxi_str head = {s->p, at ? (size_t)(at - s->p) : s->n};
    s->p += head.n + (at != NULL);
    s->n -= head.n + (at != NULL);
    return head;
}

static bool is_later_version(fxi_str s)
{
    return s.n == 8 && !memcmp(s.p, "HTTP/1.", 7) && s.p[7] >= '1' && s.p[7] <= '9';
}

static bool read_request_line(fxi_str line, request_facts *f)
{
    const fxi_str method = cut_at(&line, ' '), target = cut_at(&line, ' ');
    f->is_post = fxi_str_is(method, "POST");
    f->is_head = fxi_str_is(method, "HEAD");
    f->is_1_0 = fxi_str_is(line, "HTTP/1.0");
    return is_token(method) && target.n && is_text(target, '!') &&
           !memchr(target.p, '\t', target.n) && (f->is_1_0 || is_later_version(line));
}

static bool is_named(fxi_str s, const char *name)
{
    return s.n == strlen(name) && !strncasecmp(s.p, name, s.n);
}

static void read_length(fxi_str value, request_facts *f)
{
    f->n_length++;
    f->is_bad |= !value.n || value.n > 19;
    for (size_t i = 0; !f->is_bad && i < value.n; i++) {
        f->is_bad = value.p[i] < '0' || value.p[i] > '9';
        f->length = f->length * 10 + (uint64_t)(value.p[i] - '0');
    }
}

static void read_header(fxi_str line, request_facts *f)
{
    const bool has_colon = memchr(line.p, ':', line.n);
    const fxi_str name = cut_at(&line, ':');
    while (line.n && strchr(" \t", line.p[0])) line.p++, line.n--;
    while (line.n && strchr(" \t", line.p[line.n - 1])) line.n--;
    f->is_bad |= !has_colon || !is_token(name) || !is_text(line, ' ');
    f->n_host += is_named(name, "Host");
    if (is_named(name, "Content-Length")) read_length(line, f);
    if (is_named(name, "Transfer-Encoding")) {
        f->n_coding++;
        f->is_bad |= !is_named(line, "chunked");
    }
}

static void skip_empty_lines(reader *r)
{
    while (r->end - r->p > 1 && !memcmp(r->p, "\r\n", 2)) r->p += 2;
}

// Up to and with the empty line after the headers. False: it is not whole, or not valid.
static bool read_head(reader *r, request_facts *f)
{
    fxi_str line;
    skip_empty_lines(r);
    if (!next_line(r, &line) || !read_request_line(line, f)) return false;
    for (;;) {
        if (!next_line(r, &line)) return false;
        if (!line.n) break;
        read_header(line, f);
    }
    return !f->is_bad && f->n_length + f->n_coding <= 1 && f->n_host <= 1 &&
           (f->n_host || f->is_1_0) && !(f->n_coding && f->is_1_0);
}

static bool read_chunk_size(reader *r, uint64_t *size)
{
    fxi_str line;
    size_t i = 0;
    *size = 0;
    if (!next_line(r, &line) || !is_text(line, ' ')) return false;
    for (; i < line.n && fxi_hex_digit(line.p[i]) >= 0; i++) {
        if (*size >> 60) return false;
        *size = *size * 16 + (uint64_t)fxi_hex_digit(line.p[i]);
    }
    return i && (i == line.n || line.p[i] == ';');
}

static bool read_trailers(reader *r)
{
    fxi_str line;
    do
        if (!next_line(r, &line) || !is_text(line, ' ')) return false;
    while (line.n);
    return true;
}

static bool read_chunks(reader *r)
{
    uint64_t size;
    while (read_chunk_size(r, &size)) {
        if (!size) return read_trailers(r);
        if (size > (uint64_t)(r->end - r->p)) return false;
        r->p += size;
        fxi_str line;
        if (!next_line(r, &line) || line.n) return false;
    }
    return false;
}

// One whole and valid request. False: there is none.
static bool read_request(reader *r, request_facts *f)
{
    *f = (request_facts){.length = 0};
    if (!read_head(r, f)) return false;
    if (f->n_coding) return read_chunks(r);
    if (f->length > (uint64_t)(r->end - r->p)) return false;
    r->p += f->length;
    return true;
}

// ---- the server ---------------------------------------------------------------------------------

static fx_engine *engine;
static fxi_server *server;
static unsigned n_connection;

static void start_once(void)
{
    fx_error err;
    const fxi_server_options opt = {.max_body_bytes = 4096, .body_timeout_s = 600};
    if (server) return;
    engine = fake_engine_new();
    FUZZ_CHECK(open_and_serve(engine, &opt, &server, &err) == FX_OK);
}

// From another address each time: a pair of addresses cannot be used again at once.
static int open_connection(void)
{
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval guard = {.tv_sec = 30};
    struct sockaddr_in from = {.sin_family = AF_INET}, to = from;
    n_connection++;
    from.sin_addr.s_addr = htonl(0x7f010001 + n_connection % 0xfff0);
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    to.sin_port = htons((uint16_t)fxi_server_port(server));
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &guard, sizeof guard);
    FUZZ_CHECK(!bind(fd, (struct sockaddr *)&from, sizeof from));
    FUZZ_CHECK(!connect(fd, (struct sockaddr *)&to, sizeof to));
    return fd;
}

static void send_all(int fd, const uint8_t *p, size_t n)
{
    while (n) {
        const ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
        if (k <= 0) return; // the server has closed it
        p += k, n -= (size_t)k;
    }
}

// False: the connection has ended.
static bool read_more(int fd, fxi_buf *b)
{
    char piece[4096];
    const ssize_t n = recv(fd, piece, sizeof piece, 0);
    FUZZ_CHECK(n >= 0 || (errno != EAGAIN && errno != EWOULDBLOCK)); // it waits for ever
    return n > 0 && fxi_buf_add(b, piece, (size_t)n);
}

// Reads until `end` stands after b->p + from; *at is after it.
static bool read_up_to(int fd, fxi_buf *b, size_t from, const char *end, size_t *at)
{
    for (;;) {
        const char *found = b->n > from ? memmem(b->p + from, b->n - from, end, strlen(end)) : NULL;
        if (found) *at = (size_t)(found - b->p) + strlen(end);
        if (found) return true;
        if (!read_more(fd, b)) return false;
    }
}

static bool read_bytes(int fd, fxi_buf *b, size_t n)
{
    while (b->n < n)
        if (!read_more(fd, b)) return false;
    return true;
}

// The status of the answer that begins at *at, which moves past it; 0: the connection ended.
static int read_answer(int fd, fxi_buf *b, size_t *at, bool is_head)
{
    size_t head_end;
    int status = 0;
    const size_t from = *at;
    if (!read_up_to(fd, b, from, "\r\n\r\n", &head_end)) return 0;
    *at = head_end;
    if (sscanf(b->p + from, "HTTP/1.1 %d", &status) != 1) return 0;
    if (status == 100) return read_answer(fd, b, at, is_head);
    const char *length = memmem(b->p + from, head_end - from, "\r\nContent-Length: ", 18);
    if (length && !is_head) {
        *at += strtoul(length + 18, NULL, 10);
        if (!read_bytes(fd, b, *at)) return 0;
    } else if (memmem(b->p + from, head_end - from, "chunked", 7) && !is_head) {
        if (!read_up_to(fd, b, *at, "\r\n0\r\n\r\n", at)) return 0;
    }
    return status;
}

static void check_status(int status)
{
    FUZZ_CHECK(status == 0 || (status >= 200 && status < 500) || status == 501 || status == 503 ||
               status == 505);
}

static void reset_socket(int fd)
{
    const struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

// ---- one input ----------------------------------------------------------------------------------

static int count_submitted(void)
{
    return fake_engine_counts(engine).n_submitted;
}

int fuzz_http_run(const uint8_t *data, size_t n_bytes)
{
    reader r = {(const char *)data, (const char *)data + n_bytes};
    request_facts f;
    fxi_buf got = {0};
    size_t at = 0;
    int n_post = 0, status = 1;
    start_once();
    const int n_before = count_submitted(), fd = open_connection();
    send_all(fd, data, n_bytes);
    while (status && read_request(&r, &f)) { // whole ones are answered, or the connection ends
        n_post += f.is_post;
        check_status(status = read_answer(fd, &got, &at, f.is_head));
    }
    shutdown(fd, SHUT_WR);
    if (status) check_status(status = read_answer(fd, &got, &at, false));
    FUZZ_CHECK(!status || status >= 400); // what the reader does not see is refused
    if (status >= 400) status = read_answer(fd, &got, &at, false) >= 200;
    FUZZ_CHECK(!status); // and ends the connection
    reset_socket(fd);
    FUZZ_CHECK(count_submitted() - n_before <= n_post);
    fxi_buf_free(&got);
    return 0;
}

#define POST "POST /v1/completions HTTP/1.1\r\n"
#define HOST "Host: localhost\r\n"
#define TYPE "Content-Type: application/json\r\n"
#define SAY  "{\"prompt\":\"say a\"}"
#define GET  "GET /health HTTP/1.1\r\n" HOST

FUZZ_SEEDS(fuzz_http, POST HOST TYPE "Content-Length: 18\r\n\r\n" SAY GET "\r\n",
           POST HOST TYPE "Transfer-Encoding: chunked\r\n\r\n12\r\n" SAY "\r\n0\r\n\r\n" GET "\r\n",
           POST HOST TYPE
           "Transfer-Encoding: chunked\r\n\r\n9;a=b\r\n{\"prompt\"\r\n9\r\n:\"say a\"}\r\n"
           "0\r\nX-Trailer: c\r\n\r\n" GET "\r\n",
           GET "\r\n" GET "\r\n" GET "Connection: close\r\n\r\n" GET "\r\n",
           POST HOST TYPE "Content-Length: 18\r\nContent-Length: 5\r\n\r\n" SAY GET "\r\n",
           POST HOST TYPE "Content-Length: 5\r\nTransfer-Encoding: chunked\r\n\r\n12\r\n" SAY
                          "\r\n0\r\n\r\n" GET "\r\n",
           POST HOST TYPE "Transfer-Encoding : chunked\r\n\r\n12\r\n" SAY "\r\n0\r\n\r\n" GET
                          "\r\n",
           POST HOST TYPE "Transfer-Encodin: chunked\r\n g\r\n\r\n12\r\n" SAY "\r\n0\r\n\r\n",
           POST HOST TYPE "X-A: b\nContent-Length: 18\r\n\r\n" SAY GET "\r\n",
           POST HOST TYPE "Content-Length: 40\r\n\r\n" SAY GET "\r\n",
           POST HOST TYPE "Content-Length: 18\r\nExpect: 100-continue\r\n\r\n" SAY,
           POST HOST TYPE "Content-Length: 28\r\n\r\n{\"stream\":true,\"prompt\":\"a\"}" GET "\r\n",
           POST HOST "Content-Type: text/plain\r\nContent-Length: 18\r\n\r\n" SAY GET "\r\n",
           POST "Host: evil.example\r\n" TYPE "Content-Length: 18\r\n\r\n" SAY GET "\r\n",
           POST HOST TYPE "Origin: null\r\nContent-Length: 18\r\n\r\n" SAY GET "\r\n",
           "POST /v1/completions HTTP/1.0\r\nConnection: keep-alive\r\n" TYPE
           "Content-Length: 18\r\n\r\n" SAY "GET /health HTTP/1.0\r\n\r\n",
           "HEAD /health HTTP/1.1\r\n" HOST "\r\nOPTIONS * HTTP/1.1\r\n" HOST "\r\n" GET "\r\n",
           "GET http://localhost/health HTTP/1.1\r\n" HOST "Cookie: a=b; c=\"d\"\r\n\r\n"
           "GET /health?a=b%00&c HTTP/1.1\r\n" HOST "\r\n",
           "\r\n\r\n" GET "Content-Length: 5\r\n\r\nhello" GET "Transfer-Encoding: gzip\r\n\r\n" GET
           "\r\n",
           "GET /health HTTP/1.1\r\n\r\n" GET "\r\n")
