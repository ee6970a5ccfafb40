// test_gpu_models.c - every family of models on a GPU, in the CPU's order of sums: the same bits as
// the host's, whatever the batch, the chunking of the prompt, the manager of the cache, and whether
// decoding runs as a graph.
//
// It runs on the stand-in for the driver, with the kernels compiled for the CPU. Each family runs
// in one way, in turn; one model runs in all of them.
#include "gpu_model_rig.h"
#include "suite.h"

#include "unit/cmocka_all.h"

#include <glob.h>
#include <stdlib.h>
#include <string.h>

#include "standin/standin.h"

#define MODELS FX_SOURCE_DIR "/tests/vectors/models/"

enum { N_TOK = 26 };

static void assert_all_given_back(void)
{
    if (standin_left()) fail_msg("%s", standin_left());
}

static void check_way(runner_model m, int i_way, int n_tok)
{
    int n_out;
    float *want = run_plain(m, n_tok, &n_out);
    const gpu_way way = gpu_model_way(i_way, NULL, n_tok);
    check_gpu_model(m, m.path, &way, n_tok, want);
    free(want);
    assert_all_given_back();
}

// Of the two kinds of layers that only the host computes, in one line.
static bool is_refused(runner_model m)
{
    gpu_model_rig g;
    fx_error err = {0};
    const gpu_way way = gpu_model_way(0, NULL, N_TOK);
    const bool opens = gpu_model_try(&g, m, &way, &err) == FX_OK;
    gpu_model_close(&g);
    assert_all_given_back();
    if (!opens && !strstr(err.text, "latent attention") && !strstr(err.text, "recurrent layers"))
        fail_msg("%s", err.text);
    return !opens;
}

FX_TEST(test_every_family_gives_the_hosts_bits)
{
    glob_t found;
    int n_refused = 0;
    assert_int_equal(glob(MODELS "*.gguf", 0, NULL, &found), 0);
    assert_true(found.gl_pathc > 30);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        const runner_model m = {found.gl_pathv[i], NULL};
        const bool refused = is_refused(m);
        n_refused += refused;
        if (!refused) check_way(m, (int)i % GPU_N_WAY, N_TOK);
    }
    assert_true(n_refused < (int)found.gl_pathc / 4);
    globfree(&found);
}

FX_TEST(test_one_model_in_every_way)
{
    for (int i = 0; i < GPU_N_WAY; i++)
        check_way((runner_model){MODELS "gemma2.gguf", NULL}, i, 60);
}

FX_TEST(test_every_type_of_cache)
{
    static const char *const types[] = {"f32", "bf16"};
    for (int i = 0; i < 2; i++)
        check_way((runner_model){MODELS "llama.gguf", types[i]}, 2 + i, N_TOK);
}

static uint64_t count_allocations(void)
{
    return standin_calls("cuMemAlloc_v2") + standin_calls("cuMemHostAlloc") +
           standin_calls("cuEventCreate");
}

// From the third pass of a kind on, decoding is a copy, a graph and a copy.
FX_TEST(test_decoding_is_a_graph_and_allocates_nothing)
{
    static const gpu_way way = {"a graph", .chunk = 1};
    gpu_model_rig g;
    gpu_model_open(&g, (runner_model){MODELS "qwen3moe.gguf", NULL}, &way);
    gpu_model_run(&g, &way, 3);
    const uint64_t n_alloc = count_allocations(), n_launch = standin_calls("cuLaunchKernel"),
                   n_graph = standin_calls("cuGraphLaunch"),
                   n_upload = standin_calls("cuMemcpyHtoDAsync_v2"),
                   n_download = standin_calls("cuMemcpyDtoHAsync_v2");
    enum { N = 5 };
    for (int i = 0; i < N; i++) runner_pass(&g.r, &g.v, 3 + i, 1, 1, g.out);
    assert_int_equal(count_allocations(), n_alloc);
    assert_int_equal(standin_calls("cuLaunchKernel"), n_launch);
    assert_int_equal(standin_calls("cuGraphLaunch"), n_graph + N);
    assert_int_equal(standin_calls("cuMemcpyHtoDAsync_v2"), n_upload + N);
    assert_int_equal(standin_calls("cuMemcpyDtoHAsync_v2"), n_download + N);
    gpu_model_close(&g);
    assert_all_given_back();
}

// There is room for the tables of a cache at its longest from the first pass on.
FX_TEST(test_longer_tables_allocate_nothing)
{
    static const gpu_way way = {"a paged cache", .chunk = 1, .n_other = 1, .kv = "paged"};
    gpu_model_rig g;
    gpu_model_open(&g, (runner_model){MODELS "llama.gguf", NULL}, &way);
    gpu_model_run(&g, &way, 3);
    const uint64_t n_alloc = count_allocations();
    for (int i = 3; i < 70; i++) runner_pass(&g.r, &g.v, i, 1, 1, g.out);
    assert_int_equal(count_allocations(), n_alloc);
    gpu_model_close(&g);
    assert_all_given_back();
}

FX_TEST(test_the_storyteller)
{
    const char *path = FX_SOURCE_DIR "/models/storyteller.gguf";
    check_way((runner_model){path, NULL}, 3, N_TOK);
    check_way((runner_model){path, "q8_0"}, 2, N_TOK);
}

FX_RUN(test_gpu_models)
