// lease_ranks.c - two GPUs that compute one model together: in the CPU's order of sums they have
// the bits of two hosts that add in plain C, and by tensor cores the same bits in every way.
//
//     lease_ranks TREE [small]
//
// TREE has tests/vectors. Where there is one GPU, or no NCCL, it says so and has nothing to do.
#include "gpu_model_rig.h"

#include "unit/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/model/host_ranks.h"

#define RANKS "cuda:0,cuda:1"

enum { N_TOK = 40, N_WAY = 4 }; // ways: the first ones of gpu_model_way's

static const char *tree;
static bool is_small; // one model of several is enough

static char *model_path(const char *name, char out[1024])
{
    snprintf(out, 1024, "%s/tests/vectors/%s.gguf", tree, name);
    return out;
}

static void test_exact_has_the_bits_of_two_hosts(void **state)
{
    (void)state;
    static const char *const names[] = {"models/gemma2", "models/qwen3", "logits/tiny-q8_0"};
    static const variant v = {"hosts", RUNNER_MAX_TOK, 1, 0, NULL, NULL};
    for (size_t i = 0; i < (is_small ? 1 : sizeof names / sizeof *names); i++) {
        char path[1024];
        int n_out;
        fx_error err = {0};
        const runner_model m = {model_path(names[i], path), NULL};
        float *want = host_ranks_run(m, 2, &v, N_TOK, &n_out, &err);
        if (!want) fail_msg("%s", err.text);
        for (int k = 0; k < N_WAY; k++) {
            gpu_way way = gpu_model_way(k, NULL, N_TOK);
            way.ranks = RANKS;
            check_gpu_model(m, path, &way, N_TOK, want);
        }
        printf("%s: the bits of two hosts\n", names[i]);
        free(want);
    }
}

static float *mma_logits(runner_model m, int k, int *n_out)
{
    gpu_way way = gpu_model_way(k, "batch-invariant", N_TOK);
    way.ranks = RANKS;
    return gpu_model_logits(m, &way, N_TOK, n_out);
}

static void test_batch_invariant_has_the_same_bits_in_every_way(void **state)
{
    (void)state;
    char path[1024];
    int n;
    const runner_model m = {model_path("logits/tiny-bf16", path), NULL};
    float *want = mma_logits(m, 0, &n);
    for (int k = 1; k < N_WAY; k++) {
        float *got = mma_logits(m, k, &n);
        if (memcmp(got, want, (size_t)n * sizeof *got) != 0)
            fail_msg("%s gives other bits", gpu_model_way(k, "batch-invariant", N_TOK).what);
        free(got);
    }
    free(want);
    printf("batch-invariant: the same bits in %d ways\n", N_WAY);
}

// Whether there are two GPUs that can compute together; says why not.
static bool has_two(void)
{
    const fxi_gpu_options opt = {.name = RANKS};
    fxi_device *d;
    fx_error err = {0};
    if (fxi_gpu_ranks_open(&opt, &d, &err) == FX_OK) {
        d->ops->close(d);
        return true;
    }
    printf("skipped: %s\n", err.text);
    return false;
}

int main(int argc, char **argv)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_exact_has_the_bits_of_two_hosts),
        cmocka_unit_test(test_batch_invariant_has_the_same_bits_in_every_way),
    };
    if (argc < 2) return 2;
    tree = argv[1];
    is_small = argc > 2 && strcmp(argv[2], "small") == 0;
    return has_two() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
