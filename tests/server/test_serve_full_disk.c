// test_serve_full_disk.c - a swap on a full disk: requests that were to be swapped out are computed
// again, and every client gets the answer that it gets alone. pwrite, which the linker wraps, finds
// no space.
#include <errno.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "flexinfer/flexinfer.h"
#include "server/http_client.h"
#include "server/open_and_serve.h"
#include "unit/cmocka_all.h"

enum { N_CLIENT = 6 };

static atomic_int n_write;

ssize_t __wrap_pwrite(int fd, const void *src, size_t n, off_t at);

ssize_t __wrap_pwrite(int fd, const void *src, size_t n, off_t at)
{
    (void)fd, (void)src, (void)n, (void)at;
    atomic_fetch_add(&n_write, 1);
    errno = ENOSPC;
    return -1;
}

static int post_request(int port, int i)
{
    static const char *const names[N_CLIENT] = {"Tom", "Lily", "Ben", "Sue", "Max", "Amy"};
    char body[256];
    snprintf(body, sizeof body,
             "{\"prompt\":\"Once upon a time %s\",\"max_tokens\":120,\"temperature\":0,"
             "\"ignore_eos\":true,\"cache_prompt\":false}",
             names[i]);
    int fd = http_open(port);
    http_post(fd, "/v1/completions", body);
    return fd;
}

// The answer's text, from its member to the end of the body's string.
static char *read_text(int fd)
{
    http_reply r = http_read(fd);
    assert_int_equal(r.status, 200);
    const char *text = strstr(r.body.p, "\"text\":"), *end = strstr(text, "\"logprobs\"");
    char *copy = strndup(text, (size_t)(end - text));
    http_reply_free(&r);
    close(fd);
    return copy;
}

FX_TEST(test_a_full_disk_costs_time_only)
{
    fx_options opt = fx_options_default();
    fx_engine *eng;
    fxi_server *srv;
    fx_error err;
    fx_stats st;
    char *alone[N_CLIENT];
    int fd[N_CLIENT];
    opt.model_path = FX_SOURCE_DIR "/models/storyteller.gguf";
    opt.kv_memory_bytes = 640 << 10;
    opt.swap_bytes = 256 << 20;
    if (fx_engine_open(&opt, &eng, &err) != FX_OK) fail_msg("%s", err.text);
    if (open_and_serve(eng, &(fxi_server_options){0}, &srv, &err) != FX_OK)
        fail_msg("%s", err.text);
    const int port = fxi_server_port(srv);
    for (int i = 0; i < N_CLIENT; i++) alone[i] = read_text(post_request(port, i));
    for (int i = 0; i < N_CLIENT; i++) fd[i] = post_request(port, i);
    for (int i = 0; i < N_CLIENT; i++) {
        char *text = read_text(fd[i]);
        assert_string_equal(text, alone[i]);
        free(text);
        free(alone[i]);
    }
    fx_engine_stats(eng, &st);
    assert_true(st.n_preempt_swap > 0 && n_write > 0);
    fxi_server_stop(srv);
    fx_engine_close(eng);
}

FX_RUN(test_serve_full_disk)
