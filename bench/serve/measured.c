// measured.c - the server that is measured: a child of ours, or one at an address; and what it says
// about itself.
//
// A child's stderr is read to its end by a thread, because a server may wait for its reader.
#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench_serve.h"

// Between fork and exec only calls that are safe there: this process may have threads.
__attribute__((noreturn)) static void become_child(const char *path, char *const *argv, int log_fd)
{
    const int null_fd = open("/dev/null", O_WRONLY | O_CLOEXEC);
    prctl(PR_SET_PDEATHSIG, SIGKILL); // so that it does not outlive a bench that dies
    dup2(null_fd, STDOUT_FILENO);
    dup2(log_fd, STDERR_FILENO);
    execv(path, argv);
    dprintf(STDERR_FILENO, "%s: %s\n", path, strerror(errno));
    _exit(127);
}

static void *drain_log(void *ud)
{
    char line[512];
    while (fgets(line, sizeof line, ud)) continue;
    return NULL;
}

// The port from the line that says that it listens; the last line is the reason why it does not.
static void await_port(server *s)
{
    static const char mark[] = "listening on http://127.0.0.1:";
    char line[512] = "", last[512] = "no output";
    while (fgets(line, sizeof line, s->log)) {
        const char *at = strstr(line, mark);
        if (at) {
            s->port = atoi(at + sizeof mark - 1);
            return;
        }
        line[strcspn(line, "\n")] = 0;
        memcpy(last, line, sizeof last);
    }
    die("the server: %s", last);
}

static void start_child(server *s, const bench *b)
{
    char own[4096] = "", threads[16], max_seq[16]; // own: flexinfer in the folder of this program
    int ends[2];
    snprintf(threads, sizeof threads, "%d", b->n_thread);
    snprintf(max_seq, sizeof max_seq, "%d", MAX_STREAM);
    if (readlink("/proc/self/exe", own, sizeof own - sizeof "flexinfer") < 0) die("no /proc");
    strcpy(strrchr(own, '/') + 1, "flexinfer");
    char *path = b->program ? (char *)b->program : own;
    char *argv[] = {path,        "serve", "-m",        (char *)b->model, "--port", "0",
                    "--threads", threads, "--max-seq", max_seq,          NULL};
    if (pipe2(ends, O_CLOEXEC)) die("pipe: %s", strerror(errno));
    s->pid = fork();
    if (s->pid < 0) die("fork: %s", strerror(errno));
    if (!s->pid) become_child(path, argv, ends[1]);
    close(ends[1]);
    s->log = need(fdopen(ends[0], "r"));
    await_port(s);
    const int e = pthread_create(&s->reader, NULL, drain_log, s->log);
    if (e) die("thread: %s", strerror(e));
}

void server_start(server *s, const bench *b)
{
    *s = (server){0};
    s->port = b->port;
    if (!s->port) {
        start_child(s, b);
        return;
    }
    const int fd = server_connect(s);
    if (fd < 0) die("--port: no server listens at this port of 127.0.0.1");
    close(fd);
}

void server_stop(server *s)
{
    int status = 0;
    if (!s->pid) return;
    kill(s->pid, SIGTERM);
    while (waitpid(s->pid, &status, 0) < 0 && errno == EINTR) continue;
    pthread_join(s->reader, NULL);
    fclose(s->log);
    if (!WIFEXITED(status) || WEXITSTATUS(status)) die("the server: did not end cleanly");
}

double server_cpu_ns(const server *s)
{
    clockid_t clock;
    struct timespec t;
    if (!s->pid || clock_getcpuclockid(s->pid, &clock) || clock_gettime(clock, &t)) return NAN;
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

int server_connect(const server *s)
{
    return server_connect_from(s, INADDR_LOOPBACK);
}

int server_connect_from(const server *s, uint32_t address)
{
    const struct sockaddr_in own = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(address)};
    const struct sockaddr_in a = {.sin_family = AF_INET,
                                  .sin_port = htons((uint16_t)s->port),
                                  .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    int one = 1, fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd < 0) return -1;
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    setsockopt(fd, IPPROTO_IP, IP_BIND_ADDRESS_NO_PORT, &one, sizeof one); // connect chooses it
    if (!bind(fd, (const struct sockaddr *)&own, sizeof own) &&
        !connect(fd, (const struct sockaddr *)&a, sizeof a))
        return fd;
    close(fd);
    return -1;
}

// ---- what the server says about itself: figures of its page /metrics

void metrics_ask(const server *srv, metrics *m)
{
    static const char get[] = "GET /metrics HTTP/1.0\r\n\r\n";
    size_t n = 0;
    ssize_t more;
    const int fd = server_connect(srv);
    if (fd < 0 || send(fd, get, sizeof get - 1, MSG_NOSIGNAL) < 0) die("/metrics: no answer");
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
    if (!at) die("/metrics: a figure is missing");
    return strtod(at + strlen(key), NULL);
}
