// test_gpu_law.c - models on a GPU by "law": attention and 16-bit weights on tensor cores, in an
// order of sums of their own. Whatever the batch, the chunking, the manager of the cache and the
// graphs, the bits are the same; and they are near the host's.
#include "gpu_model_rig.h"

#include "unit/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "unit/model/logit_distance.h"
#include "unit/model/small_model.h"

enum { N_TOK = 40 };

static void check_law(const char *path, double bound)
{
    const runner_model m = {path, NULL};
    const gpu_way whole = gpu_model_way(0, "law", N_TOK);
    int n, n_host;
    float *want = gpu_model_logits(m, &whole, N_TOK, &n), *host = run_plain(m, N_TOK, &n_host);
    const double far = logit_distance(want, host, n);
    print_message("%s: %.2e away from the host (bound %.0e)\n", path, far, bound);
    assert_true(far > 0 && far < bound); // 0: these are the exact kernels
    for (int i = 1; i < GPU_N_WAY; i++) {
        const gpu_way way = gpu_model_way(i, "law", N_TOK);
        check_gpu_model(m, path, &way, N_TOK, want);
    }
    free(want);
    free(host);
}

// 16-bit activations have 8 (bf16) or 11 bits (f16), and a model of 2 layers rounds them some ten
// times: bounds of 2^-8 and 2^-11 times 10.
static void test_law_is_the_same_in_every_way(void **state)
{
    (void)state;
    static const struct {
        fxi_dtype type;
        int head_dim, n_head, n_kv_head;
        double bound;
    } rows[] = {
        {FXI_BF16, 64, 4, 2, 0.04}, {FXI_F16, 128, 3, 1, 0.005}, {FXI_F16, 80, 2, 2, 0.005}};
    char path[64];
    snprintf(path, sizeof path, "/tmp/test_gpu_law_%d.gguf", (int)getpid());
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        small_model model = gpu_tiny_model(rows[i].type);
        model.shape.n_head = rows[i].n_head;
        model.shape.n_kv_head = rows[i].n_kv_head;
        model.shape.head_dim = rows[i].head_dim;
        small_model_write(path, &model);
        check_law(path, rows[i].bound);
        unlink(path);
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_law_is_the_same_in_every_way)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
