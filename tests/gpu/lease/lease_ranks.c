// lease_ranks.c - two GPUs that compute one model together: in the CPU's order of sums they have
// the bits of two hosts that add in plain C, and by tensor cores the same bits in every way.
//
//     lease_ranks TREE
//
// TREE has tests/vectors. Where there is one GPU, or no NCCL, it says so and has nothing to do.
#include "gpu_model_rig.h"

#include "unit/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/model/host_ranks.h"

#define RANKS "cuda:0,cuda:1"

enum { N_TOK = 40 };

static const gpu_way ways[] = {
    {"one pass", .n_prompt = N_TOK, .chunk = N_TOK},
    {"one token at a time", .chunk = 1},
    {"chunks of 7, then decoding", .n_prompt = 30, .chunk = 7},
    {"beside three others", .n_prompt = 28, .chunk = 11, .n_other = 3},
};

enum { N_WAY = sizeof ways / sizeof *ways };

static const char *tree;

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
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        char path[1024];
        int n_out;
        fx_error err = {0};
        const runner_model m = {model_path(names[i], path), NULL};
        float *want = host_ranks_run(m, 2, &v, N_TOK, &n_out, &err);
        if (!want) fail_msg("%s", err.text);
        for (int k = 0; k < N_WAY; k++) {
            gpu_way way = ways[k];
            way.ranks = RANKS;
            check_gpu_model(m, path, &way, N_TOK, want);
        }
        printf("%s: the bits of two hosts\n", names[i]);
        free(want);
    }
}

static void run_law(runner_model m, gpu_way way, float *out, size_t n_bytes)
{
    gpu_model_rig g;
    way.math = "law";
    way.ranks = RANKS;
    gpu_model_open(&g, m, &way);
    gpu_model_run(&g, &way, N_TOK);
    assert_in_range((size_t)g.r.n_out * sizeof *out, 1, n_bytes);
    memset(out, 0, n_bytes);
    memcpy(out, g.out, (size_t)g.r.n_out * sizeof *out);
    gpu_model_close(&g);
}

static void test_law_has_the_same_bits_in_every_way(void **state)
{
    (void)state;
    static float want[4096], got[4096];
    char path[1024];
    const runner_model m = {model_path("logits/tiny-bf16", path), NULL};
    run_law(m, ways[0], want, sizeof want);
    for (int k = 1; k < N_WAY; k++) {
        run_law(m, ways[k], got, sizeof got);
        if (memcmp(got, want, sizeof got) != 0) fail_msg("%s gives other bits", ways[k].what);
    }
    printf("law: the same bits in %d ways\n", N_WAY);
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
        cmocka_unit_test(test_law_has_the_same_bits_in_every_way),
    };
    if (argc < 2) return 2;
    tree = argv[1];
    return has_two() ? cmocka_run_group_tests(tests, NULL, NULL) : 0;
}
