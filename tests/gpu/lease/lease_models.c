// lease_models.c - models on a real GPU:
//
//     lease_models TREE families [FILE]     every family, or FILE of tests/vectors/models: the
//                                           host's bits, in every way
//     lease_models TREE ranks [small]       two GPUs compute a model together: in the CPU's order
//                                           of sums the bits of two hosts, by tensor cores the same
//                                           bits in every way
//     lease_models TREE lost                a kernel that reads where no memory is ends the pass
//                                           with one line; the device is lost, and says so again
//     lease_models TREE batch-invariant [small]     the suite test_gpu_batch_invariant
//
// TREE has tests/vectors. Small: the first case of each sweep; test_gpu_batch_invariant and
// test_gpu_ranks run more of them. `ranks` has nothing to do where there is one GPU, or no NCCL.
// Real kernels are fast, so every family runs in every way, unlike in test_gpu_models.c.
#include "gpu_model_rig.h"
#include "suite.h"

#include "unit/cmocka_all.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/model/host_ranks.h"

#define RANKS "cuda:0,cuda:1"

enum { N_TOK = 60, N_TOK_SMALL = 20, N_TOK_RANKS = 40 }; // some models have 64 positions

int test_gpu_batch_invariant(void);

static const char *tree, *option = "";

int suite_is_long(void)
{
    return strcmp(option, "small") != 0;
}

int suite_takes(size_t i, size_t every)
{
    (void)every;
    return suite_is_long() || i == 0;
}

static char *tree_path(char out[1024], const char *folder, const char *file)
{
    snprintf(out, 1024, "%s/tests/vectors/%s/%s", tree, folder, file);
    return out;
}

// ---- one GPU -----------------------------------------------------------------------------------

FX_TEST(test_families)
{
    glob_t found;
    char pattern[1024];
    const int n_tok = *option ? N_TOK_SMALL : N_TOK;
    tree_path(pattern, "models", *option ? option : "*.gguf");
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const runner_model m = {found.gl_pathv[i], NULL};
        int n_out;
        float *want = run_plain(m, n_tok, &n_out);
        for (int k = 0; k < GPU_N_WAY; k++) {
            const gpu_way way = gpu_model_way(k, NULL, n_tok);
            check_gpu_model(m, m.path, &way, n_tok, want);
        }
        free(want);
        printf("%s: the host's bits\n", strrchr(m.path, '/') + 1);
        fflush(stdout);
    }
    globfree(&found);
}

FX_TEST(test_lost)
{
    static const gpu_way way = {"lost", .n_prompt = 4, .chunk = 4};
    char path[1024];
    gpu_model_rig g;
    fx_error err = {0}, again = {0};
    gpu_model_open(&g, (runner_model){tree_path(path, "models", "llama.gguf"), NULL}, &way);
    gpu_model_run(&g, &way, 4);
    const int32_t token = 5;
    fxi_batch_seq seq = {.views = fxi_kv_get_views(g.r.kv, g.r.seq[0]), .pos = 3, .n_tok = 1};
    seq.n_logit = 1;
    seq.views.group[0].base += (size_t)1 << 40;
    const fxi_batch b = {.token = &token, .n_tok = 1, .seq = &seq, .n_seq = 1};
    assert_int_equal(fxi_model_forward(g.r.model, &b, g.out, &err), FX_EINTERNAL);
    printf("%s\n", err.text);
    assert_memory_equal(err.text, "cuda:0: ", 8);
    assert_non_null(strstr(err.text, "CUDA_ERROR_"));
    assert_true(g.device->ops->is_lost(g.device));
    assert_int_equal(fxi_model_forward(g.r.model, &b, g.out, &again), FX_EINTERNAL);
    assert_string_equal(again.text, err.text);
    gpu_model_close(&g);
}

// ---- two GPUs ----------------------------------------------------------------------------------

// Skips the test, and says why, unless two GPUs can compute together.
static void require_two(void)
{
    const fxi_gpu_options opt = {.name = RANKS};
    fxi_device *d;
    fx_error err = {0};
    if (fxi_gpu_ranks_open(&opt, &d, &err) != FX_OK) {
        printf("skipped: %s\n", err.text);
        skip();
    }
    d->ops->close(d);
}

// In each way that ranks can run, the logits are those of `want`.
static void check_ranks(runner_model m, const char *math, const float *want)
{
    for (int k = 0; k < GPU_N_RANK_WAY; k++) {
        gpu_way way = gpu_model_way(k, math, N_TOK_RANKS);
        way.ranks = RANKS;
        check_gpu_model(m, m.path, &way, N_TOK_RANKS, want);
    }
    printf("%s, %s: the same bits in every way\n", m.path, math);
}

FX_TEST(test_ranks_exact)
{
    static const char *const files[][2] = {
        {"models", "gemma2.gguf"}, {"models", "qwen3.gguf"}, {"logits", "tiny-q8_0.gguf"}};
    static const variant v = {"hosts", RUNNER_MAX_TOK, 1, 0, NULL, NULL};
    require_two();
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) {
        char path[1024];
        int n_out;
        fx_error err = {0};
        if (!suite_takes(i, 3)) continue;
        const runner_model m = {tree_path(path, files[i][0], files[i][1]), NULL};
        float *want = host_ranks_run(m, 2, &v, N_TOK_RANKS, &n_out, &err);
        if (!want) fail_msg("%s", err.text);
        check_ranks(m, "cpu-exact", want);
        free(want);
    }
}

FX_TEST(test_ranks_batch_invariant)
{
    char path[1024];
    int n;
    require_two();
    const runner_model m = {tree_path(path, "logits", "tiny-bf16.gguf"), NULL};
    gpu_way way = gpu_model_way(0, "batch-invariant", N_TOK_RANKS);
    way.ranks = RANKS;
    float *want = gpu_model_logits(m, &way, N_TOK_RANKS, &n);
    check_ranks(m, "batch-invariant", want);
    free(want);
}

FX_RUN(run_chosen)

int main(int argc, char **argv)
{
    char filter[64];
    if (argc < 3) return 2;
    tree = argv[1];
    if (argc > 3) option = argv[3];
    if (strcmp(argv[2], "batch-invariant") == 0) return test_gpu_batch_invariant();
    snprintf(filter, sizeof filter, "test_%s*", argv[2]);
    cmocka_set_test_filter(filter);
    return run_chosen();
}
