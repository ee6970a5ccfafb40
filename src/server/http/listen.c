// listen.c - see listen.h.
#include "server/http/listen.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <unistd.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "server/guard/origin.h"

#define BACKLOG 256

typedef union socket_address {
    struct sockaddr any;
    struct sockaddr_in v4;
    struct sockaddr_in6 v6;
    struct sockaddr_un file;
} socket_address;

// Returns the bytes of *a that are used; 0: the text is not an address.
static socklen_t parse_address(const char *host, int port, socket_address *a)
{
    const char *path = fxi_host_file(host);
    memset(a, 0, sizeof *a);
    if (path) {
        if (!*path || strlen(path) >= sizeof a->file.sun_path) return 0;
        a->file.sun_family = AF_UNIX;
        strcpy(a->file.sun_path, path);
        return sizeof a->file;
    }
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

fx_status fxi_listen_check(const char *host, fx_error *err)
{
    socket_address a;
    if (parse_address(host, 0, &a)) return FX_OK;
    if (fxi_host_file(host))
        return fxi_fail(err, FX_EINVAL, "'%s': the path of a socket has 1 to %zu bytes", host,
                        sizeof a.file.sun_path - 1);
    return fxi_fail(err, FX_EINVAL, "'%s' is not an IPv4 or IPv6 address", host);
}

// Removes a socket's file that nobody listens on: connecting to it is refused.
static void remove_stale(const socket_address *a, socklen_t n)
{
    struct stat s;
    if (lstat(a->file.sun_path, &s) || !S_ISSOCK(s.st_mode)) return;
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (fd < 0) return;
    if (connect(fd, &a->any, n) && errno == ECONNREFUSED) (void)unlink(a->file.sun_path);
    close(fd);
}

// The file is there and has its permissions before anybody can connect.
static int bind_file(fxi_listener *l, const socket_address *a, socklen_t n, mode_t mode)
{
    struct stat s;
    remove_stale(a, n);
    if (bind(l->fd, &a->any, n)) return -1;
    if (lstat(a->file.sun_path, &s)) return -1;
    l->device = s.st_dev;
    l->file = s.st_ino;
    return chmod(a->file.sun_path, mode);
}

fx_status fxi_listen_open(const char *host, int port, mode_t mode, fxi_listener *l, fx_error *err)
{
    socket_address a;
    const int one = 1;
    socklen_t n = parse_address(host, port, &a);
    *l = (fxi_listener){.fd = -1};
    FX_TRY(fxi_listen_check(host, err));
    const bool is_file = a.any.sa_family == AF_UNIX;
    l->fd = socket(a.any.sa_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0);
    if (l->fd >= 0 && !is_file) setsockopt(l->fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (l->fd < 0 || (is_file ? bind_file(l, &a, n, mode) : bind(l->fd, &a.any, n)) ||
        listen(l->fd, BACKLOG) || getsockname(l->fd, &a.any, &n)) {
        const int e = errno;
        const bool v6 = !is_file && strchr(host, ':');
        char at[16] = "";
        if (!is_file) snprintf(at, sizeof at, ":%d", port);
        fxi_listen_close(l, host);
        return fxi_fail(err, FX_EIO, "cannot listen on %s%s%s%s: %s", v6 ? "[" : "", host,
                        v6 ? "]" : "", at, strerror(e));
    }
    if (!is_file) l->port = ntohs(a.any.sa_family == AF_INET ? a.v4.sin_port : a.v6.sin6_port);
    return FX_OK;
}

void fxi_listen_close(fxi_listener *l, const char *host)
{
    struct stat s;
    const char *path = fxi_host_file(host);
    if (l->fd >= 0) close(l->fd);
    if (path && l->file && !lstat(path, &s) && s.st_dev == l->device && s.st_ino == l->file)
        (void)unlink(path);
    *l = (fxi_listener){.fd = -1};
}
