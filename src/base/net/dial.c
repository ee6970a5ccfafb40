// dial.c - connect, send and receive, each with a deadline.
#include "base/net/dial.h"

#include <errno.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY

static fx_status connect_to(const struct addrinfo *a, int fd, const fxi_patience *wait,
                            fx_error *err)
{
    int e = connect(fd, a->ai_addr, a->ai_addrlen) ? errno : 0;
    socklen_t n = sizeof e;
    if (e == EINPROGRESS) {
        FX_TRY(fxi_patience_wait(wait, fd, POLLOUT, err));
        if (getsockopt(fd, SOL_SOCKET, SO_ERROR, &e, &n)) e = errno;
    }
    return e ? fxi_fail(err, FX_EIO, "%s", strerror(e)) : FX_OK;
}

static fx_status dial_address(const struct addrinfo *a, const fxi_patience *wait, int *out,
                              fx_error *err)
{
    const int fd = socket(a->ai_family, a->ai_socktype | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return fxi_fail(err, FX_EIO, "%s", strerror(errno));
    const fx_status st = connect_to(a, fd, wait, err);
    if (st == FX_OK)
        *out = fd;
    else
        close(fd);
    return st;
}

static fx_status dial_host(const fxi_url *url, const fxi_patience *wait, int *out, fx_error *err)
{
    const struct addrinfo hint = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *all = NULL;
    const int e = getaddrinfo(url->host, url->port, &hint, &all);
    if (e) return fxi_fail(err, FX_EIO, "%s: %s", url->host, gai_strerror(e));
    fx_status st = FX_EIO;
    for (const struct addrinfo *a = all; a && st != FX_OK; a = a->ai_next)
        st = dial_address(a, wait, out, err);
    freeaddrinfo(all);
    return st;
}

fx_status fxi_dial_open(const fxi_url *url, const fxi_trust *trust, const fxi_patience *wait,
                        fxi_link *out, fx_error *err)
{
    *out = (fxi_link){.fd = -1};
    FX_TRY(dial_host(url, wait, &out->fd, err));
    return url->is_tls ? fxi_tls_open(out->fd, url->host, trust, wait, &out->tls, err) : FX_OK;
}

void fxi_dial_close(fxi_link *line)
{
    if (line->tls) fxi_tls_close(line->tls);
    if (line->fd >= 0) close(line->fd);
    *line = (fxi_link){.fd = -1};
}

fx_status fxi_dial_send(const fxi_link *line, const void *p, size_t n, const fxi_patience *wait,
                        fx_error *err)
{
    if (line->tls) return fxi_tls_send(line->tls, p, n, wait, err);
    for (const char *at = p; n > 0;) {
        const ssize_t k = send(line->fd, at, n, MSG_NOSIGNAL);
        if (k >= 0) {
            at += k;
            n -= (size_t)k;
        } else if (errno == EAGAIN) {
            FX_TRY(fxi_patience_wait(wait, line->fd, POLLOUT, err));
        } else if (errno != EINTR) {
            return fxi_fail(err, FX_EIO, "%s", strerror(errno));
        }
    }
    return FX_OK;
}

fx_status fxi_dial_receive(const fxi_link *line, void *p, size_t n, size_t *got,
                           const fxi_patience *wait, fx_error *err)
{
    ssize_t k;
    *got = 0;
    if (line->tls) return fxi_tls_receive(line->tls, p, n, got, wait, err);
    while ((k = recv(line->fd, p, n, 0)) < 0) {
        if (errno == EAGAIN)
            FX_TRY(fxi_patience_wait(wait, line->fd, POLLIN, err));
        else if (errno != EINTR)
            return fxi_fail(err, FX_EIO, "%s", strerror(errno));
    }
    *got = (size_t)k;
    return FX_OK;
}
