// dial.c - connect, send and receive, each with a deadline.
#include "base/net/dial.h"

#include <errno.h>
#include <limits.h>
#include <math.h>
#include <netdb.h>
#include <poll.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h"         // defines: fxi_fail, FX_TRY
#include "base/system/clock.h" // defines: fxi_now_s

static int poll_ms(const fxi_patience *wait)
{
    const double left_s = wait->until_s - fxi_now_s();
    if (left_s <= 0) return 0;
    return left_s > INT_MAX / 2e3 ? -1 : (int)ceil(left_s * 1e3);
}

// Waits until fd is ready for these events.
static fx_status wait_for(int fd, short events, const fxi_patience *wait, fx_error *err)
{
    struct pollfd p[2] = {{.fd = fd, .events = events}, {.fd = wait->stop_fd, .events = POLLIN}};
    int n;
    do n = poll(p, 2, poll_ms(wait));
    while (n < 0 && errno == EINTR);
    if (n < 0) return fxi_fail(err, FX_EIO, "%s", strerror(errno));
    if (n == 0) return fxi_fail(err, FX_EIO, "no answer in time");
    if (p[1].revents) return fxi_fail(err, FX_EIO, "given up");
    return FX_OK;
}

static fx_status connect_to(const struct addrinfo *a, int fd, const fxi_patience *wait,
                            fx_error *err)
{
    int e = connect(fd, a->ai_addr, a->ai_addrlen) ? errno : 0;
    socklen_t n = sizeof e;
    if (e == EINPROGRESS) {
        FX_TRY(wait_for(fd, POLLOUT, wait, err));
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

fx_status fxi_dial_open(const fxi_url *url, const fxi_patience *wait, int *out, fx_error *err)
{
    const struct addrinfo hint = {.ai_socktype = SOCK_STREAM, .ai_flags = AI_ADDRCONFIG};
    struct addrinfo *all = NULL;
    *out = -1;
    const int e = getaddrinfo(url->host, url->port, &hint, &all);
    if (e) return fxi_fail(err, FX_EIO, "%s: %s", url->host, gai_strerror(e));
    fx_status st = FX_EIO;
    for (const struct addrinfo *a = all; a && st != FX_OK; a = a->ai_next)
        st = dial_address(a, wait, out, err);
    freeaddrinfo(all);
    return st;
}

fx_status fxi_dial_send(int fd, const void *p, size_t n, const fxi_patience *wait, fx_error *err)
{
    for (const char *at = p; n > 0;) {
        const ssize_t k = send(fd, at, n, MSG_NOSIGNAL);
        if (k >= 0) {
            at += k;
            n -= (size_t)k;
        } else if (errno == EAGAIN) {
            FX_TRY(wait_for(fd, POLLOUT, wait, err));
        } else if (errno != EINTR) {
            return fxi_fail(err, FX_EIO, "%s", strerror(errno));
        }
    }
    return FX_OK;
}

fx_status fxi_dial_receive(int fd, void *p, size_t n, size_t *got, const fxi_patience *wait,
                           fx_error *err)
{
    ssize_t k;
    *got = 0;
    while ((k = recv(fd, p, n, 0)) < 0) {
        if (errno == EAGAIN)
            FX_TRY(wait_for(fd, POLLIN, wait, err));
        else if (errno != EINTR)
            return fxi_fail(err, FX_EIO, "%s", strerror(errno));
    }
    *got = (size_t)k;
    return FX_OK;
}
