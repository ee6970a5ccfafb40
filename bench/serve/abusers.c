// abusers.c - clients that a server must bear: each kind is a thread that goes on until it is told
// to stop.
//
// The threads run at the lowest priority, so that what a victim loses is the server's doing and not
// that of our own work.
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

#include "bench_serve.h"

#define N_CONN        64
#define HUGE_BYTES    (8000u << 10)
#define OWN_ADDRESS   0x7f000001u // 127.0.0.1, as the victim
#define OTHER_ADDRESS 0x7f000002u // 127.0.0.2

static void pause_ms(int ms)
{
    const struct timespec t = {0, ms * 1000000L};
    nanosleep(&t, NULL);
}

// What is sent may be refused, and the connection closed: that is the server's good right.
static bool send_text(int fd, const char *p, size_t n)
{
    while (n) {
        const ssize_t k = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k < 0 && errno != EAGAIN) return false;
        if (k < 0) return true; // it does not read: as good
        p += k;
        n -= (size_t)k;
    }
    return true;
}

static bool send_line(int fd, const char *text)
{
    return send_text(fd, text, strlen(text));
}

// Opens what is closed, and counts it.
static void keep_open(abuser *a, int fd[N_CONN])
{
    for (int i = 0; i < N_CONN; i++) {
        if (fd[i] >= 0) continue;
        fd[i] = server_connect_from(a->srv, a->kind->address);
        if (fd[i] >= 0) a->n_begun++;
    }
}

static void close_all(int fd[N_CONN])
{
    for (int i = 0; i < N_CONN; i++)
        if (fd[i] >= 0) close(fd[i]);
}

static void run_connections(abuser *a, const char *first, const char *then)
{
    int fd[N_CONN];
    bool begun[N_CONN] = {false};
    for (int i = 0; i < N_CONN; i++) fd[i] = -1;
    while (!a->stop) {
        keep_open(a, fd);
        for (int i = 0; i < N_CONN; i++) {
            const bool ok = fd[i] < 0 || send_line(fd[i], begun[i] ? then : first);
            begun[i] = ok;
            if (ok) continue;
            close(fd[i]);
            fd[i] = -1;
        }
        pause_ms(10);
    }
    close_all(fd);
}

// A head that never ends.
static void slow_heads(abuser *a)
{
    run_connections(a, "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: ", "a");
}

// Bodies that are announced and come a byte at a time.
static void half_bodies(abuser *a)
{
    run_connections(a,
                    "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
                    "application/json\r\nContent-Length: 4000000\r\n\r\n{\"prompt\":\"",
                    "a");
}

static void garbage(abuser *a)
{
    static const char *const lines[] = {"\x16\x03\x01\x02\x01\xfc\x03\x03", "GET\r\n\r\n",
                                        "POST / HTTP/9.9\r\n\r\n", "\r\n\r\n\r\n{}\xff\xfe",
                                        "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"};
    while (!a->stop) {
        const int fd = server_connect_from(a->srv, a->kind->address);
        if (fd < 0) continue;
        send_line(fd, lines[(size_t)(a->n_begun++) % (sizeof lines / sizeof *lines)]);
        pause_ms(1);
        close(fd);
    }
}

static void post_body(abuser *a, const fxi_buf *body, bool wait)
{
    char head[256], reply[4096];
    const int fd = server_connect_from(a->srv, a->kind->address);
    if (fd < 0) return;
    a->n_begun++;
    const int n = snprintf(head, sizeof head,
                           "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
                           "application/json\r\nContent-Length: %zu\r\n\r\n",
                           body->n);
    if (send(fd, head, (size_t)n, MSG_NOSIGNAL) == n)
        for (size_t at = 0; at < body->n && !a->stop;) {
            const ssize_t k = send(fd, body->p + at, body->n - at, MSG_NOSIGNAL);
            if (k <= 0) break;
            at += (size_t)k;
        }
    if (wait) (void)!recv(fd, reply, sizeof reply, 0);
    close(fd);
}

// One request after the other with a stop string that nearly fills the body.
static void huge_bodies(abuser *a)
{
    fxi_buf body = {0};
    char *fill = need(malloc(HUGE_BYTES));
    memset(fill, 'x', HUGE_BYTES);
    if (!fxi_buf_str(&body, "{\"prompt\":\"a\",\"max_tokens\":1,\"stop\":\"") ||
        !fxi_buf_add(&body, fill, HUGE_BYTES) || !fxi_buf_str(&body, "\"}"))
        die("abusers", "no memory");
    free(fill);
    while (!a->stop) post_body(a, &body, true);
    fxi_buf_free(&body);
}

// One request of a thousand prompts after the other; each is left as soon as it has been sent. They
// fill the queue of their client, so they come from an address that is not the victim's.
static void many_prompts(abuser *a)
{
    fxi_buf body = {0};
    bool ok = fxi_buf_str(&body, "{\"max_tokens\":16,\"ignore_eos\":true,\"prompt\":[\"a\"");
    for (int i = 1; i < 1000; i++) ok = ok && fxi_buf_fmt(&body, ",\"a dog %d\"", i);
    if (!ok || !fxi_buf_str(&body, "]}")) die("abusers", "no memory");
    while (!a->stop) {
        post_body(a, &body, false);
        pause_ms(50);
    }
    fxi_buf_free(&body);
}

// Streams of many choices that nobody reads.
static void slow_readers(abuser *a)
{
    static const char body[] = "{\"prompt\":\"a\",\"n\":8,\"max_tokens\":200,\"ignore_eos\":true,"
                               "\"stream\":true}";
    char text[512];
    snprintf(text, sizeof text,
             "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: "
             "application/json\r\nContent-Length: %zu\r\n\r\n%s",
             sizeof body - 1, body);
    int fd = -1;
    while (!a->stop) {
        fd = server_connect_from(a->srv, a->kind->address);
        if (fd < 0) continue;
        send_line(fd, text);
        a->n_begun++;
        pause_ms(500);
        close(fd);
    }
}

const abuse abuses[] = {
    {"slow heads", slow_heads, OWN_ADDRESS},     {"half bodies", half_bodies, OWN_ADDRESS},
    {"garbage", garbage, OWN_ADDRESS},           {"huge bodies", huge_bodies, OWN_ADDRESS},
    {"slow readers", slow_readers, OWN_ADDRESS}, {"many prompts", many_prompts, OTHER_ADDRESS},
};

const int n_abuse_kind = sizeof abuses / sizeof abuses[0];

static void *abuse_main(void *ud)
{
    abuser *a = ud;
    setpriority(PRIO_PROCESS, (id_t)gettid(), 19);
    a->kind->run(a);
    return NULL;
}

void abuser_start(abuser *a, const abuse *kind, const server *srv)
{
    a->kind = kind;
    a->srv = srv;
    atomic_init(&a->stop, false);
    atomic_init(&a->n_begun, 0);
    const int e = pthread_create(&a->thread, NULL, abuse_main, a);
    if (e) die("thread", strerror(e));
}

void abuser_stop(abuser *a)
{
    a->stop = true;
    pthread_join(a->thread, NULL);
}
