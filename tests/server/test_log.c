// test_log.c - lines arrive whole and in order, and a reader that does not read holds nobody up.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <fcntl.h>
#include <pthread.h>
#include <signal.h>
#include <unistd.h>

#include "base/text/buf.h"
#include "server/log/log.h"
#include "unit/cmocka_all.h"

#define PATIENCE_S 60.0 // a guard: what is waited for happens at once

static fxi_log *open_log(int fd, size_t ring_bytes)
{
    fxi_log *log;
    fx_error err;
    if (fxi_log_open(fd, ring_bytes, false, &log, &err) != FX_OK) fail_msg("%s", err.text);
    return log;
}

// All that there is, up to the end or until a read would wait.
static void drain_pipe(int fd, fxi_buf *b)
{
    char piece[4096];
    for (ssize_t n; (n = read(fd, piece, sizeof piece)) > 0;) fxi_buf_add(b, piece, (size_t)n);
}

enum { N_WRITER = 4, N_LINE = 500 };

typedef struct writer {
    pthread_t thread;
    fxi_log *log;
    int i;
} writer;

static void *write_lines(void *ud)
{
    writer *w = ud;
    for (int k = 0; k < N_LINE; k++) {
        char line[64];
        snprintf(line, sizeof line, "writer %d line %d", w->i, k);
        fxi_log_add(w->log, line);
    }
    return NULL;
}

// Each line of text is one that a writer has added, and those of each writer come in order.
static void check_lines(char *text)
{
    int next[N_WRITER] = {0}, i, k, used;
    for (char *p = text; *p; p += used) {
        used = 0;
        sscanf(p, "writer %d line %d%n", &i, &k, &used);
        assert_true(used && p[used] == '\n' && i < N_WRITER);
        assert_int_equal(k, next[i]++);
        used++;
    }
    for (i = 0; i < N_WRITER; i++) assert_int_equal(next[i], N_LINE);
}

FX_TEST(test_lines_of_many_threads_arrive_whole)
{
    int fd[2];
    writer w[N_WRITER];
    fxi_buf text = {0};
    FILE *file = tmpfile();
    fd[1] = fileno(file);
    fxi_log *log = open_log(fd[1], 0);
    for (int i = 0; i < N_WRITER; i++) {
        w[i] = (writer){.log = log, .i = i};
        pthread_create(&w[i].thread, NULL, write_lines, &w[i]);
    }
    for (int i = 0; i < N_WRITER; i++) pthread_join(w[i].thread, NULL);
    fxi_log_close(log, PATIENCE_S);
    fd[0] = dup(fd[1]);
    lseek(fd[0], 0, SEEK_SET);
    drain_pipe(fd[0], &text);
    close(fd[0]);
    check_lines(text.p);
    fxi_buf_free(&text);
    fclose(file);
}

// The sum of what the lines that tell of dropped ones say.
static unsigned long long told_dropped(const char *text)
{
    static const char head[] = "warning: ";
    unsigned long long sum = 0;
    for (const char *p = text; (p = strstr(p, head)); p++)
        sum += strtoull(p + sizeof head - 1, NULL, 10);
    return sum;
}

static int count_lines(const char *text, const char *line)
{
    int n = 0;
    for (const char *p = text; (p = strstr(p, line)); p++) n++;
    return n;
}

static void set_waiting(int fd, bool waits)
{
    assert_int_equal(fcntl(fd, F_SETFL, waits ? 0 : O_NONBLOCK), 0);
}

// A pipe that has no room, and whose reading end does not wait.
static void make_full_pipe(int fd[2])
{
    assert_int_equal(pipe2(fd, O_CLOEXEC | O_NONBLOCK), 0);
    while (write(fd[1], "-\n", 2) == 2) {
    }
    set_waiting(fd[1], true);
}

// Fills a pipe that nobody reads, and then some. All calls return; every line is written or told to
// be missing, and what comes after is written again.
FX_TEST(test_a_pipe_that_nobody_reads_holds_nobody_up)
{
    enum { RING = 4096, N = 20000 };
    static const char line[] = "0123456789012345678901234567890123456789";
    int fd[2], n_added = N;
    fxi_buf text = {0};
    make_full_pipe(fd);
    fxi_log *log = open_log(fd[1], RING);
    for (int i = 0; i < N; i++) fxi_log_add(log, line);
    uint64_t before, after = fxi_log_n_dropped(log);
    assert_true(after > N - RING);
    do { // until a line has room again
        drain_pipe(fd[0], &text);
        before = after;
        fxi_log_add(log, line);
        n_added++;
    } while ((after = fxi_log_n_dropped(log)) > before);
    set_waiting(fd[0], true);
    fxi_log_close(log, PATIENCE_S);
    close(fd[1]);
    drain_pipe(fd[0], &text);
    close(fd[0]);
    assert_int_equal(told_dropped(text.p), after);
    assert_int_equal(count_lines(text.p, line) + (int)after, n_added);
    assert_non_null(strstr(strstr(text.p, "were dropped"), line));
    fxi_buf_free(&text);
}

// One that does not read, and one that has gone.
FX_TEST(test_a_log_without_a_reader_can_be_closed)
{
    signal(SIGPIPE, SIG_IGN);
    for (int is_gone = 0; is_gone < 2; is_gone++) {
        int fd[2];
        assert_int_equal(pipe2(fd, O_CLOEXEC), 0);
        if (is_gone) close(fd[0]);
        fxi_log *log = open_log(fd[1], 0);
        for (int i = 0; i < 20000; i++)
            fxi_log_add(log, "0123456789012345678901234567890123456789");
        // A busy machine may need as long for the log's thread to end.
        fxi_log_close(log, is_gone ? PATIENCE_S : 1);
        if (!is_gone) close(fd[0]);
        close(fd[1]);
    }
}

FX_RUN(test_log)
