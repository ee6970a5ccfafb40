// http_client.c - sockets, and just enough HTTP to send requests and read replies.
#include "server/http_client.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

static int open_socket(int family)
{
    int fd = socket(family, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct timeval limit = {.tv_sec = 60};
    setsockopt(fd, SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof limit);
    return fd;
}

static int connect_to(int fd, const struct sockaddr *a, socklen_t n)
{
    if (!connect(fd, a, n)) return fd;
    perror("connect");
    abort();
}

static struct sockaddr_in loopback(int port, int host)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    a.sin_addr.s_addr = htonl((INADDR_LOOPBACK & ~255u) | (unsigned)host);
    return a;
}

int http_open_from(int port, int host)
{
    const struct sockaddr_in here = loopback(0, host), there = loopback(port, 1);
    int fd = open_socket(AF_INET);
    if (bind(fd, (const struct sockaddr *)&here, sizeof here)) perror("bind");
    return connect_to(fd, (const struct sockaddr *)&there, sizeof there);
}

int http_open(int port)
{
    return http_open_from(port, 1);
}

int http_open_v6(int port)
{
    struct sockaddr_in6 a = {.sin6_family = AF_INET6, .sin6_port = htons((uint16_t)port)};
    a.sin6_addr = in6addr_loopback;
    return connect_to(open_socket(AF_INET6), (struct sockaddr *)&a, sizeof a);
}

static void send_all(int fd, const char *p, size_t n)
{
    while (n) {
        ssize_t k = send(fd, p, n, MSG_NOSIGNAL);
        if (k <= 0) return; // the response says the rest
        p += k, n -= (size_t)k;
    }
}

void http_send(int fd, const char *fmt, ...)
{
    char text[2048];
    va_list ap;
    va_start(ap, fmt);
    int n = vsnprintf(text, sizeof text, fmt, ap);
    va_end(ap);
    send_all(fd, text, (size_t)n);
}

void http_post(int fd, const char *path, const char *body)
{
    size_t n = strlen(body);
    http_send(fd,
              "POST %s HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"
              "Content-Length: %zu\r\n\r\n",
              path, n);
    send_all(fd, body, n);
}

int http_begin(int port, const char *path, const char *body)
{
    const int fd = http_open(port);
    http_post(fd, path, body);
    return fd;
}

static bool read_bytes(int fd, fxi_buf *b, size_t n)
{
    char piece[4096];
    while (n) {
        ssize_t k = recv(fd, piece, n < sizeof piece ? n : sizeof piece, 0);
        if (k <= 0) return false;
        fxi_buf_add(b, piece, (size_t)k);
        n -= (size_t)k;
    }
    return true;
}

// Up to and with the first `end`.
static bool read_to(int fd, fxi_buf *b, const char *end)
{
    size_t n = strlen(end), from = b->n;
    while (b->n - from < n || memcmp(b->p + b->n - n, end, n))
        if (!read_bytes(fd, b, 1)) return false;
    return true;
}

static const char *header(const http_reply *r, const char *name)
{
    const char *at = strcasestr(r->head.p, name);
    return at ? at + strlen(name) : NULL;
}

static size_t read_chunk_size(int fd, bool *ok)
{
    fxi_buf line = {0};
    *ok = read_to(fd, &line, "\r\n");
    size_t n = *ok ? strtoul(line.p, NULL, 16) : 0;
    fxi_buf_free(&line);
    return n;
}

// One chunk onto the body; false at the last one, or where the connection ended (then r->cut).
static bool read_chunk(int fd, http_reply *r)
{
    bool ok;
    fxi_buf crlf = {0};
    size_t n = read_chunk_size(fd, &ok);
    ok = ok && read_bytes(fd, &r->body, n) && read_bytes(fd, &crlf, 2);
    fxi_buf_free(&crlf);
    r->cut = !ok;
    return ok && n;
}

static bool read_head(int fd, http_reply *r)
{
    if (!read_to(fd, &r->head, "\r\n\r\n")) return false;
    sscanf(r->head.p, "HTTP/1.1 %d", &r->status);
    return true;
}

// A body of known length is read whole, whatever there is to stop at; until NULL: so is a stream.
http_reply http_read_until(int fd, const char *until)
{
    http_reply r = {0};
    if (!read_head(fd, &r)) return r;
    const char *length = header(&r, "\r\nContent-Length:");
    fxi_buf_reserve(&r.body, 0);
    if (length)
        r.cut = !read_bytes(fd, &r.body, strtoul(length, NULL, 10));
    else if (header(&r, "\r\nTransfer-Encoding: chunked"))
        while (!(until && strstr(r.body.p, until)) && read_chunk(fd, &r)) {
        }
    return r;
}

http_reply http_read(int fd)
{
    return http_read_until(fd, NULL);
}

void http_reset(int fd)
{
    struct linger now = {.l_onoff = 1, .l_linger = 0};
    setsockopt(fd, SOL_SOCKET, SO_LINGER, &now, sizeof now);
    close(fd);
}

void http_leave(int fd)
{
    char piece[4096];
    shutdown(fd, SHUT_WR);
    while (recv(fd, piece, sizeof piece, 0) > 0) {
    }
    close(fd);
}

void http_reply_free(http_reply *r)
{
    fxi_buf_free(&r->head);
    fxi_buf_free(&r->body);
}

http_reply http_call(int port, const char *method, const char *path, const char *body)
{
    int fd = http_open(port);
    if (body)
        http_post(fd, path, body);
    else
        http_send(fd, "%s %s HTTP/1.1\r\nHost: localhost\r\n\r\n", method, path);
    http_reply r = {0};
    if (strcmp(method, "HEAD"))
        r = http_read(fd);
    else
        read_head(fd, &r);
    http_leave(fd);
    return r;
}
