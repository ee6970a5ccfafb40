// idle.c - the CPU that the server takes while nothing is asked of it: without connections, and
// with connections that are kept alive.
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench_serve.h"

static void sleep_s(double s)
{
    const struct timespec t = {(time_t)s, (long)((s - floor(s)) * 1e9)};
    nanosleep(&t, NULL);
}

// One request, so that the connection is an idle one and not a new one.
static int open_idle(const server *srv)
{
    static const char get[] = "GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n";
    char reply[1024];
    const int fd = server_connect(srv);
    if (fd < 0 || send(fd, get, sizeof get - 1, MSG_NOSIGNAL) < 0 ||
        recv(fd, reply, sizeof reply, 0) <= 0)
        die("idle", "the server does not answer");
    return fd;
}

static void idle_row(bench *b, int n_conn)
{
    const double start_ns = now_ns(), start_cpu_ns = server_cpu_ns(&b->srv);
    sleep_s(b->size.idle_s);
    const double cpu_ns = server_cpu_ns(&b->srv) - start_cpu_ns;
    const double share = cpu_ns / (now_ns() - start_ns) * 100;
    b->found.idle = fmax(b->found.idle, share);
    row_begin(&b->out, "%d connections", n_conn);
    row_cell(&b->out, "time", b->size.idle_s, "s");
    row_cell(&b->out, "CPU time", cpu_ns / 1e6, "ms");
    row_cell(&b->out, "CPU", share, "%");
    row_end(&b->out);
}

void bench_idle(bench *b)
{
    int fd[MAX_STREAM];
    if (!b->srv.pid) return; // another process's CPU cannot be read
    section(&b->out, "idle", "CPU of the server while nothing is asked of it");
    sleep_s(1); // what the last request left to do
    idle_row(b, 0);
    for (int i = 0; i < MAX_STREAM; i++) fd[i] = open_idle(&b->srv);
    sleep_s(0.2);
    idle_row(b, MAX_STREAM);
    for (int i = 0; i < MAX_STREAM; i++) close(fd[i]);
}
