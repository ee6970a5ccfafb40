// test_load_memory.c - loading a model never needs more memory than 1.1 times its file, and reports
// progress in small steps.
//
// The model is loaded in a process of its own, whose peak the system records.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "model/model.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

// Memory besides the weights: buffers of 8 tokens, tables of 64 positions, the rest of a huge page.
#define BESIDES_BYTES ((uint64_t)2 << 20)
#define STEP_BYTES    ((uint64_t)5 << 20) // largest step of progress

static const char path[] = FX_BINARY_DIR "/test_load_memory.gguf";

// A field of /proc/self/status, in bytes.
static uint64_t status_bytes(const char *field)
{
    char line[256];
    uint64_t kib = 0;
    FILE *f = fopen("/proc/self/status", "r");
    while (f && fgets(line, sizeof line, f))
        if (!strncmp(line, field, strlen(field))) sscanf(line + strlen(field), ": %" SCNu64, &kib);
    if (f) fclose(f);
    return kib * 1024;
}

typedef struct report {
    fx_status status;
    uint64_t file_bytes, peak_bytes; // peak: beyond the memory in use before
    uint64_t reported_bytes, total_bytes, longest_step;
} report;

static void note_progress(void *ud, uint64_t done, uint64_t total)
{
    report *r = ud;
    uint64_t step = done - r->reported_bytes;
    if (step > r->longest_step) r->longest_step = step;
    r->reported_bytes = done;
    r->total_bytes = total;
}

static void load(report *r)
{
    fxi_gguf *g = NULL;
    fxi_pool *pool = NULL;
    fxi_model *m = NULL;
    fx_error err;
    r->status = fxi_gguf_open(path, &g, &err);
    if (r->status == FX_OK) r->status = fxi_pool_create(2, &pool, &err);
    if (r->status != FX_OK) return;
    fxi_model_options opt = {.pool = pool,
                             .ctx_tok = 64,
                             .max_batch_tok = 8,
                             .max_batch_logit = 1,
                             .on_progress = note_progress,
                             .progress_ud = r};
    uint64_t before = status_bytes("VmRSS");
    r->file_bytes = fxi_gguf_size(g);
    r->status = fxi_model_load(g, &opt, &m, &err);
    r->peak_bytes = status_bytes("VmHWM") - before;
    fxi_model_free(m);
    fxi_pool_destroy(pool);
    fxi_gguf_close(g);
}

static report load_apart(void)
{
    int fd[2];
    report r = {.status = FX_EINTERNAL};
    assert_int_equal(pipe(fd), 0);
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        load(&r);
        _exit(write(fd[1], &r, sizeof r) != sizeof r);
    }
    close(fd[1]);
    assert_int_equal(read(fd[0], &r, sizeof r), sizeof r);
    close(fd[0]);
    assert_int_equal(waitpid(child, NULL, 0), child);
    return r;
}

static void check_load(const char *options)
{
    char command[1024];
    snprintf(command, sizeof command, "%s -o %s %s", FX_BINARY_DIR "/bin/make_model", path,
             options);
    assert_int_equal(system(command), 0);
    report r = load_apart();
    unlink(path);
    assert_int_equal(r.status, FX_OK);
    assert_true(r.file_bytes > (uint64_t)60 << 20);
    const double most = 1.1 * (double)r.file_bytes + (double)BESIDES_BYTES;
    if ((double)r.peak_bytes > most)
        fail_msg("%s: %.1f MB to load a file of %.1f MB, %.1f allowed", options,
                 1e-6 * (double)r.peak_bytes, 1e-6 * (double)r.file_bytes, 1e-6 * most);
    assert_int_equal(r.reported_bytes, r.total_bytes);
    assert_true(r.total_bytes <= r.file_bytes);
    assert_true(r.longest_step <= STEP_BYTES);
}

// Many tensors; then few large ones, of which embedding and output are most.
static void test_peak(void **state)
{
    (void)state;
    check_load("--layers 10 --dim 768 --ffn 2048 --heads 12 --kv-heads 4 --vocab 4096 "
               "--type q8_0");
    check_load("--layers 1 --dim 512 --ffn 1024 --heads 8 --kv-heads 8 --vocab 32000 --type f16");
}

FX_SUITE(test_load_memory)
{
#if defined(__SANITIZE_THREAD__)
    print_message("skipped: the thread sanitizer's own memory is many times the model\n");
    return 77;
#endif
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_peak)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
