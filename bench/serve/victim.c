// victim.c - one client's requests, alone and with each kind of abuser: how long they take, and
// whether any fails.
#include <errno.h>
#include <fcntl.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <unistd.h>

#include "bench_serve.h"

// ---- abusers
//
// Clients that a server must bear: each kind is a thread that runs until it is stopped.
//
// The threads run at the lowest priority, so that what a victim loses is the server's doing and not
// that of our own work.

typedef struct abuser {
    const struct abuse *kind;
    const server *srv;
    atomic_bool stop;
    atomic_int n_begun; // connections or requests
    pthread_t thread;
} abuser;

typedef struct abuse {
    const char *name;
    void (*run)(abuser *a);   // until a->stop
    uint32_t address;         // where it comes from
    const char *first, *then; // of run_connections
} abuse;

#define N_CONN        64
#define HUGE_BYTES    (8000u << 10)
#define OWN_ADDRESS   0x7f000001u // 127.0.0.1, as the victim
#define OTHER_ADDRESS 0x7f000002u // 127.0.0.2

// What is sent may be refused, and the connection closed: that is the server's good right.
static bool send_text(int fd, const char *p)
{
    for (size_t n = strlen(p); n;) {
        const ssize_t k = send(fd, p, n, MSG_NOSIGNAL | MSG_DONTWAIT);
        if (k < 0 && errno != EAGAIN) return false;
        if (k < 0) return true; // it does not read: as good
        p += k;
        n -= (size_t)k;
    }
    return true;
}

// Many connections, on each of which `first` comes, and `then` again and again.
static void run_connections(abuser *a)
{
    int fd[N_CONN];
    bool begun[N_CONN] = {false};
    for (int i = 0; i < N_CONN; i++) fd[i] = -1;
    while (!a->stop) {
        for (int i = 0; i < N_CONN; i++) {
            if (fd[i] >= 0) continue;
            fd[i] = server_connect_from(a->srv, a->kind->address);
            a->n_begun += fd[i] >= 0;
        }
        for (int i = 0; i < N_CONN; i++) {
            const bool ok =
                fd[i] < 0 || send_text(fd[i], begun[i] ? a->kind->then : a->kind->first);
            begun[i] = ok;
            if (ok) continue;
            close(fd[i]);
            fd[i] = -1;
        }
        sleep_ms(10);
    }
    for (int i = 0; i < N_CONN; i++)
        if (fd[i] >= 0) close(fd[i]);
}

#define POST "POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n"
#define TYPE "Content-Type: application/json\r\n"

static void garbage(abuser *a)
{
    static const char *const lines[] = {"\x16\x03\x01\x02\x01\xfc\x03\x03", "GET\r\n\r\n",
                                        "POST / HTTP/9.9\r\n\r\n", "\r\n\r\n\r\n{}\xff\xfe",
                                        "GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n"};
    while (!a->stop) {
        const int fd = server_connect_from(a->srv, a->kind->address);
        if (fd < 0) continue;
        send_text(fd, lines[(size_t)(a->n_begun++) % (sizeof lines / sizeof *lines)]);
        sleep_ms(1);
        close(fd);
    }
}

static void post_body(abuser *a, const fxi_buf *body, bool wait)
{
    char head[256], reply[4096];
    const int fd = server_connect_from(a->srv, a->kind->address);
    if (fd < 0) return;
    a->n_begun++;
    const int n = snprintf(head, sizeof head, POST TYPE "Content-Length: %zu\r\n\r\n", body->n);
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
        die("abusers: no memory");
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
    if (!ok || !fxi_buf_str(&body, "]}")) die("abusers: no memory");
    while (!a->stop) {
        post_body(a, &body, false);
        sleep_ms(50);
    }
    fxi_buf_free(&body);
}

// Streams of many choices that nobody reads.
static void slow_readers(abuser *a)
{
    static const char body[] = "{\"prompt\":\"a\",\"n\":8,\"max_tokens\":200,\"ignore_eos\":true,"
                               "\"stream\":true}";
    char text[512];
    snprintf(text, sizeof text, POST TYPE "Content-Length: %zu\r\n\r\n%s", sizeof body - 1, body);
    int fd = -1;
    while (!a->stop) {
        fd = server_connect_from(a->srv, a->kind->address);
        if (fd < 0) continue;
        send_text(fd, text);
        a->n_begun++;
        sleep_ms(500);
        close(fd);
    }
}

static const abuse abuses[] = {
    // A head that never ends; bodies that are announced and come a byte at a time.
    {"slow heads", run_connections, OWN_ADDRESS, POST "X-A: ", "a"},
    {"half bodies", run_connections, OWN_ADDRESS,
     POST TYPE "Content-Length: 4000000\r\n\r\n{\"prompt\":\"", "a"},
    {"garbage", garbage, OWN_ADDRESS, NULL, NULL},
    {"huge bodies", huge_bodies, OWN_ADDRESS, NULL, NULL},
    {"slow readers", slow_readers, OWN_ADDRESS, NULL, NULL},
    {"many prompts", many_prompts, OTHER_ADDRESS, NULL, NULL},
};

enum { N_ABUSE = sizeof abuses / sizeof abuses[0] };

static void *abuse_main(void *ud)
{
    abuser *a = ud;
    setpriority(PRIO_PROCESS, (id_t)gettid(), 19);
    a->kind->run(a);
    return NULL;
}

// ---- the victim

typedef struct victim_sum {
    samples first_ms, whole_ms;
    int n_failed;
} victim_sum;

static void run_victim(bench *b, victim_sum *v)
{
    work w;
    pass p;
    work_make(&w, b, 1, b->size.n_victim);
    pass_init(&p, &w);
    http_pass(b, &w, &p);
    samples_join(&v->first_ms, &p.first_ms);
    samples_join(&v->whole_ms, &p.whole_ms);
    v->n_failed += p.n_failed;
    pass_free(&p, &w);
    work_free(&w);
}

static void run_abused(bench *b, const abuse *kind, victim_sum *v, int *n_abuse)
{
    abuser a = {.kind = kind, .srv = &b->srv};
    const int e = pthread_create(&a.thread, NULL, abuse_main, &a);
    if (e) die("thread: %s", strerror(e));
    for (int i = 0; i < 1000 && !a.n_begun; i++) sleep_ms(10); // its priority is the lowest
    sleep_ms(200);
    run_victim(b, v);
    a.stop = true;
    pthread_join(a.thread, NULL);
    *n_abuse += a.n_begun;
}

// kind: NULL if the victim is alone.
static void victim_row(bench *b, const abuse *kind, int n_abuse, victim_sum *v, double own_ms)
{
    const double p99 = samples_at(&v->whole_ms, 0.99);
    row_begin(&b->out, "%s", kind ? kind->name : "alone");
    row_cell(&b->out, "n", (double)v->whole_ms.n, "requests");
    row_cell(&b->out, "failed", v->n_failed, "requests");
    row_cell(&b->out, "first token p50", samples_at(&v->first_ms, 0.5), "ms");
    row_cell(&b->out, "first token p99", samples_at(&v->first_ms, 0.99), "ms");
    row_cell(&b->out, "answer p50", samples_at(&v->whole_ms, 0.5), "ms");
    row_cell(&b->out, "answer p99", p99, "ms");
    if (kind) {
        row_cell(&b->out, "p99 over its own", p99 / own_ms, "x");
        row_cell(&b->out, "abuses", n_abuse, "connections");
        b->found.victim = fmax(b->found.victim, p99 / own_ms);
    }
    row_end(&b->out);
    samples_free(&v->first_ms), samples_free(&v->whole_ms);
}

void bench_victim(bench *b)
{
    victim_sum own = {.n_failed = 0};
    section(&b->out, "victim", "one client's requests among abusers");
    for (int r = 0; r < b->size.n_repeat; r++) run_victim(b, &own);
    const double own_ms = samples_at(&own.whole_ms, 0.99);
    victim_row(b, NULL, 0, &own, own_ms);
    for (int i = 0; i < b->size.n_abuse && i < N_ABUSE; i++) {
        victim_sum v = {.n_failed = 0};
        int n_abuse = 0;
        for (int r = 0; r < b->size.n_repeat; r++) run_abused(b, &abuses[i], &v, &n_abuse);
        victim_row(b, &abuses[i], n_abuse, &v, own_ms);
    }
}
