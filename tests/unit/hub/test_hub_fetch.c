// test_hub_fetch.c - a file in ranges from a server of the test's own, in the same process: threads
// and their end, resumption, and every allocation failing once (with LeakSanitizer and, in the
// preset tsan, ThreadSanitizer). tests/hub has the rest, over the built program.
#include "unit/cmocka_all.h"
#include "unit/wrapped_memory.h"

#include <fcntl.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include "hub/hub_parts.h"

enum { FILE_BYTES = (17 << 20) + 12345 }; // runs of 16 MiB: two, so two threads

static atomic_long n_left = -1; // allocations that still succeed; < 0: all do

static bool fails_now(size_t n_bytes)
{
    if (atomic_load(&n_left) < 0) return false;
    return atomic_fetch_sub(&n_left, 1) == 0; // this one alone
}

// ---- a server: one answer per connection, which allocates nothing -------------------------------

static struct file_server {
    int fd;
    char url[64];
    pthread_t thread;
    atomic_int n_request;
    atomic_long left_bytes;  // of bodies, until answers are cut off; < 0: no limit
    atomic_long asked_bytes; // of all ranges
} server;

static unsigned char content[FILE_BYTES];

static bool send_all(int fd, const void *p, size_t n)
{
    for (size_t done = 0; done < n;) {
        const ssize_t w = send(fd, (const char *)p + done, n - done, MSG_NOSIGNAL);
        if (w <= 0) return false;
        done += (size_t)w;
    }
    return true;
}

static void answer_request(int fd)
{
    char request[4096], head[300];
    size_t n = 0;
    for (ssize_t got; n < sizeof request - 1; n += (size_t)got) {
        got = recv(fd, request + n, sizeof request - 1 - n, 0);
        if (got <= 0) return;
        request[n + (size_t)got] = 0;
        if (strstr(request, "\r\n\r\n")) break;
    }
    const char *range = strstr(request, "Range: bytes=");
    unsigned long from = 0, to = FILE_BYTES - 1;
    if (range) sscanf(range, "Range: bytes=%lu-%lu", &from, &to);
    const size_t n_body = to - from + 1;
    atomic_fetch_add(&server.asked_bytes, (long)n_body);
    snprintf(head, sizeof head,
             "HTTP/1.1 206 OK\r\nConnection: close\r\nContent-Length: %zu\r\nContent-Range: bytes "
             "%lu-%lu/%d\r\n\r\n",
             n_body, from, to, FILE_BYTES);
    long may = atomic_load(&server.left_bytes);
    if (may >= 0) atomic_store(&server.left_bytes, may < (long)n_body ? 0 : may - (long)n_body);
    if (may < 0 || may > (long)n_body) may = (long)n_body;
    if (send_all(fd, head, strlen(head))) (void)send_all(fd, content + from, (size_t)may);
}

static void *serve_file(void *ud)
{
    for (int fd; (fd = accept(server.fd, NULL, NULL)) >= 0; close(fd)) {
        atomic_fetch_add(&server.n_request, 1);
        answer_request(fd);
    }
    return NULL;
}

static char folder[] = "/tmp/fx-fetch-XXXXXX";
static char path[64], part[96];

static int start_server(void **state)
{
    struct sockaddr_in a = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t n = sizeof a;
    for (size_t i = 0; i < FILE_BYTES; i++) content[i] = (unsigned char)(i * 7 + (i >> 9));
    server.left_bytes = -1;
    server.fd = socket(AF_INET, SOCK_STREAM, 0);
    assert_int_equal(bind(server.fd, (struct sockaddr *)&a, n), 0);
    assert_int_equal(listen(server.fd, 16), 0);
    assert_int_equal(getsockname(server.fd, (struct sockaddr *)&a, &n), 0);
    snprintf(server.url, sizeof server.url, "http://127.0.0.1:%d/file", ntohs(a.sin_port));
    assert_int_equal(pthread_create(&server.thread, NULL, serve_file, NULL), 0);
    assert_non_null(mkdtemp(folder));
    snprintf(path, sizeof path, "%s/file", folder);
    snprintf(part, sizeof part, "%s.flexinfer.incomplete", path);
    return 0;
}

static int stop_server(void **state)
{
    shutdown(server.fd, SHUT_RDWR);
    pthread_join(server.thread, NULL);
    close(server.fd);
    return rmdir(folder);
}

// ---- a fetch ------------------------------------------------------------------------------------

static uint64_t n_shown; // bytes, the last time

static void show_bytes(void *ud, const char *file, uint64_t done, uint64_t total)
{
    assert_true(done <= total);
    n_shown = done;
}

static void show_note(void *ud, const char *line)
{
    fail_msg("%s", line);
}

static fx_status fetch_file(int stop_fd, int max_try, fx_error *err)
{
    const fxi_hub_watch watch = {.stop_fd = stop_fd, .on_bytes = show_bytes, .on_note = show_note};
    const fxi_hub_net net = {.stop_fd = stop_fd, .max_try = max_try, .watch = &watch};
    const fxi_hub_source src = {
        .url = server.url, .name = "file", .hash = "", .n_bytes = FILE_BYTES, .total = FILE_BYTES};
    return fxi_hub_fetch(&net, &src, path, err);
}

// Whether the file is there, whole, and right; removes it.
static bool take_whole(void)
{
    static unsigned char got[FILE_BYTES];
    struct stat file;
    const int fd = open(path, O_RDONLY);
    if (fd < 0) return false;
    const bool same = !fstat(fd, &file) && file.st_size == FILE_BYTES &&
                      read(fd, got, FILE_BYTES) == FILE_BYTES && !memcmp(got, content, FILE_BYTES);
    close(fd);
    unlink(path);
    return same;
}

FX_TEST(test_a_file_in_two_runs)
{
    fx_error err;
    server.n_request = 0;
    if (fetch_file(-1, 1, &err) != FX_OK) fail_msg("%s", err.text);
    assert_int_equal(server.n_request, 2);
    assert_int_equal(n_shown, FILE_BYTES);
    assert_true(take_whole());
    assert_int_equal(access(part, F_OK), -1);
}

FX_TEST(test_what_came_stays)
{
    fx_error err;
    server.left_bytes = (5 << 20) + 100;
    assert_int_equal(fetch_file(-1, 1, &err), FX_EIO);
    server.left_bytes = -1;
    server.asked_bytes = 0;
    assert_int_equal(access(path, F_OK), -1);
    const uint64_t n_came = n_shown; // whole pieces, fewer where the other thread failed first
    assert_in_range(n_came, 0, 5 << 20);
    if (fetch_file(-1, 1, &err) != FX_OK) fail_msg("%s", err.text);
    assert_int_equal(server.asked_bytes, FILE_BYTES - (long)n_came);
    assert_true(take_whole());
}

// A part of another length or program, without a mark, or with a journal of nonsense begins anew.
FX_TEST(test_parts_that_are_none)
{
    enum { N_PIECE = 18 };
    static const struct {
        long n_bytes;
        const char *mark;
        char journal;
    } parts[] = {{0, "", 0},
                 {1, "", 0},
                 {FILE_BYTES + N_PIECE, "", 0},
                 {FILE_BYTES + N_PIECE + 8, "fxpartsX", 1},
                 {FILE_BYTES + N_PIECE + 8, "fxparts1", 2},
                 {FILE_BYTES + N_PIECE + 9, "fxparts1", 1}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++) {
        fx_error err;
        const int fd = open(part, O_RDWR | O_CREAT, 0600);
        assert_int_equal(ftruncate(fd, parts[i].n_bytes), 0);
        if (parts[i].mark[0]) {
            assert_int_equal(pwrite(fd, parts[i].mark, 8, FILE_BYTES + N_PIECE), 8);
            assert_int_equal(pwrite(fd, &parts[i].journal, 1, FILE_BYTES + 3), 1);
        }
        close(fd);
        server.asked_bytes = 0;
        if (fetch_file(-1, 1, &err) != FX_OK) fail_msg("%s", err.text);
        assert_int_equal(server.asked_bytes, FILE_BYTES);
        assert_true(take_whole());
    }
}

// The caller's stop ends all threads.
FX_TEST(test_a_stop)
{
    fx_error err;
    int fds[2];
    assert_int_equal(pipe(fds), 0);
    assert_int_equal(write(fds[1], "x", 1), 1);
    assert_int_equal(fetch_file(fds[0], 5, &err), FX_EIO);
    close(fds[0]);
    close(fds[1]);
    unlink(part);
    assert_int_equal(access(path, F_OK), -1);
}

FX_TEST(test_every_allocation_fails_once)
{
    enum { MAX_ALLOCATION = 500 };
    for (long n = 0; n < MAX_ALLOCATION; n++) {
        fx_error err;
        unlink(part);
        atomic_store(&n_left, n);
        const fx_status st = fetch_file(-1, 1, &err);
        const bool has_failed = atomic_exchange(&n_left, -1) < 0;
        if (st == FX_OK) assert_true(take_whole());
        if (!has_failed) {
            assert_in_range(n, 10, MAX_ALLOCATION);
            return;
        }
        if (st != FX_ENOMEM) fail_msg("allocation %ld: status %d: %s", n, st, err.text);
    }
    fail_msg("it never ends");
}

FX_RUN_GROUP(test_hub_fetch, start_server, stop_server)
