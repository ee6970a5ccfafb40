// test_gpu_batch_invariant.c - models on a GPU by "batch-invariant": attention and 16-bit weights
// on tensor cores, in an order of sums of their own. Whatever the batch, the chunking, the manager
// of the cache and the graphs, the bits are the same; and they are near the host's.
#include "gpu_model_rig.h"
#include "suite.h"

#include "unit/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/model/logit_distance.h"
#include "unit/model/small_model.h"

enum { N_TOK = 40 };

static void check_mma(const char *path, double bound)
{
    const runner_model m = {path, NULL};
    const gpu_way whole = gpu_model_way(0, "batch-invariant", N_TOK);
    int n, n_host;
    float *want = gpu_model_logits(m, &whole, N_TOK, &n), *host = run_plain(m, N_TOK, &n_host);
    const double far = logit_distance(want, host, n);
    print_message("%s: %.2e away from the host (bound %.0e)\n", path, far, bound);
    assert_true(far > 0 && far < bound); // 0: these are the exact kernels
    for (int i = 1; i < GPU_N_WAY; i++) {
        const gpu_way way = gpu_model_way(i, "batch-invariant", N_TOK);
        check_gpu_model(m, path, &way, N_TOK, want);
    }
    free(want);
    free(host);
}

// 16-bit activations have 8 (bf16) or 11 bits (f16), and a model of 2 layers rounds them some ten
// times: bounds of 2^-8 and 2^-11 times 10.
FX_TEST(test_batch_invariant_is_the_same_in_every_way)
{
    static const struct {
        fxi_dtype type;
        int head_dim, n_head, n_kv_head;
        double bound;
    } rows[] = {
        {FXI_BF16, 64, 4, 2, 0.04}, {FXI_F16, 128, 3, 1, 0.005}, {FXI_F16, 80, 2, 2, 0.005}};
    char path[64];
    snprintf(path, sizeof path, "/tmp/test_gpu_batch_invariant_%d.gguf", (int)getpid());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        if (!suite_takes(i, 2)) continue;
        small_model model = gpu_tiny_model(rows[i].type);
        model.shape.n_head = rows[i].n_head;
        model.shape.n_kv_head = rows[i].n_kv_head;
        model.shape.head_dim = rows[i].head_dim;
        small_model_write(path, &model);
        check_mma(path, rows[i].bound);
        unlink(path);
    }
}

// Heads of 126 numbers need a little less than the 48 KiB of shared memory that every kernel may
// have, and with the kernel's own arrays more.
FX_TEST(test_a_kernels_own_shared_memory_counts)
{
    char path[64];
    snprintf(path, sizeof path, "/tmp/test_gpu_batch_invariant_%d.gguf", (int)getpid());
    small_model model = gpu_tiny_model(FXI_F16);
    model.shape.n_head = model.shape.n_kv_head = 1;
    model.shape.head_dim = 126;
    small_model_write(path, &model);
    const runner_model m = {path, NULL};
    const gpu_way way = gpu_model_way(0, "batch-invariant", 8);
    int n, n_host;
    float *out = gpu_model_logits(m, &way, 8, &n), *host = run_plain(m, 8, &n_host);
    const double far = logit_distance(out, host, n);
    assert_true(far > 0 && far < 0.005);
    free(out);
    free(host);
    unlink(path);
}

// A grid has no room for more tiles of attention.
FX_TEST(test_more_tokens_than_a_grid_has_room_for_are_refused)
{
    const fxi_gpu_options opt = {.name = "cuda:0", .math = "batch-invariant"};
    const fxi_transformer plan = {.ctx_tok = 16};
    fxi_device *d;
    fx_error err = {0};
    assert_int_equal(fxi_gpu_open(&opt, &d, &err), FX_OK);
    const fxi_pass_limits most = {.max_tok = 65536, .max_logit = 1};
    assert_int_equal(d->ops->prepare(d, &plan, &most, &err), FX_EINVAL);
    assert_string_equal(err.text, "cuda:0: 65536 tokens in a step; a GPU computes at most 65535");
    d->ops->close(d);
}

FX_RUN(test_gpu_batch_invariant)
