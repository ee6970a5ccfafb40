// metrics.c - what the server says about itself: figures of its page /metrics.
#include <sys/socket.h>
#include <unistd.h>

#include "bench_serve.h"

void metrics_ask(const server *srv, metrics *m)
{
    static const char get[] = "GET /metrics HTTP/1.0\r\n\r\n";
    size_t n = 0;
    ssize_t more;
    const int fd = server_connect(srv);
    if (fd < 0 || send(fd, get, sizeof get - 1, MSG_NOSIGNAL) < 0) die("/metrics", "no answer");
    while (n < sizeof m->page - 1 && (more = recv(fd, m->page + n, sizeof m->page - 1 - n, 0)) > 0)
        n += (size_t)more;
    close(fd);
    m->page[n] = 0;
}

double metrics_figure(const metrics *m, const char *name)
{
    char key[80];
    snprintf(key, sizeof key, "\nflexinfer_%s ", name);
    const char *at = strstr(m->page, key);
    if (!at) die("/metrics", "a figure is missing");
    return strtod(at + strlen(key), NULL);
}
