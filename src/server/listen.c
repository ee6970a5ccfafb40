// listen.c - an address and a port to a listening socket.
#include "server/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdbool.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY

#define BACKLOG 256

typedef union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
} socket_address;

// Returns the bytes of *a that are used; 0: the text is not an address.
static socklen_t parse_address(const char *host, int port, socket_address *a)
{
    memset(a, 0, sizeof *a);
    if (!strcmp(host, "localhost")) host = "127.0.0.1";
    if (inet_pton(AF_INET, host, &a->v4.sin_addr) == 1) {
        a->v4.sin_family = AF_INET;
        a->v4.sin_port = htons((uint16_t)port);
        return sizeof a->v4;
    }
    if (inet_pton(AF_INET6, host, &a->v6.sin6_addr) != 1) return 0;
    a->v6.sin6_family = AF_INET6;
    a->v6.sin6_port = htons((uint16_t)port);
    return sizeof a->v6;
}

static int open_listener(const socket_address *a, socklen_t n_addr)
{
    int one = 1, fd = socket(a->any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return -1;
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (!bind(fd, &a->any, n_addr) && !listen(fd, BACKLOG)) return fd;
    int e = errno;
    close(fd);
    errno = e;
    return -1;
}

fx_status fxi_listen_check(const char *host, fx_error *err)
{
    socket_address a;
    if (parse_address(host, 0, &a)) return FX_OK;
    return fxi_fail(err, FX_EINVAL, "'%s' is not an IPv4 or IPv6 address", host);
}

fx_status fxi_listen_open(const char *host, int *port, int *fd, fx_error *err)
{
    socket_address a;
    socklen_t n = parse_address(host, *port, &a);
    FX_TRY(fxi_listen_check(host, err));
    *fd = open_listener(&a, n);
    if (*fd < 0 || getsockname(*fd, &a.any, &n)) {
        bool v6 = strchr(host, ':');
        return fxi_fail(err, FX_EIO, "cannot listen on %s%s%s:%d: %s", v6 ? "[" : "", host,
                        v6 ? "]" : "", *port, strerror(errno));
    }
    *port = ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
    return FX_OK;
}
