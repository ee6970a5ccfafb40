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

static const gpu_way ways[] = {
    {"one pass", .n_prompt = N_TOK, .chunk = N_TOK},
    {"one token at a time", .chunk = 1},
    {"chunks of 7, then decoding", .n_prompt = 21, .chunk = 7},
    {"without graphs", .n_prompt = 20, .chunk = 16, .no_graphs = true},
    {"beside three others", .n_prompt = 22, .chunk = 11, .n_other = 3},
    {"a paged cache", .n_prompt = 22, .chunk = 13, .n_other = 1, .kv = "paged"},
    {"results not pinned", .n_prompt = 23, .chunk = 23, .unpinned = true},
};

enum { N_WAY = sizeof ways / sizeof *ways };

static void assert_all_given_back(void)
{
    const standin_report r = standin_look();
    if (r.n_breach) fail_msg("%s", r.breach);
    assert_false(r.n_stream | r.n_event | r.n_pinned | r.n_module | r.n_graph | r.n_exec |
                 r.n_alloc | r.n_context | r.n_mapping | r.n_reservation | r.n_memory);
}

static void check_way(runner_model m, const gpu_way *way, int n_tok)
{
    int n_out;
    float *want = run_plain(m, n_tok, &n_out);
    check_gpu_model(m, m.path, way, n_tok, want);
    free(want);
    assert_all_given_back();
}

static void test_every_family_gives_the_hosts_bits(void **state)
{
    (void)state;
    glob_t found;
    assert_int_equal(glob(MODELS "*.gguf", 0, NULL, &found), 0);
    assert_true(found.gl_pathc > 30);
    for (size_t i = 0; i < found.gl_pathc; i++)
        check_way((runner_model){found.gl_pathv[i], NULL}, &ways[i % N_WAY], N_TOK);
    globfree(&found);
}

static void test_one_model_in_every_way(void **state)
{
    (void)state;
    for (int i = 0; i < N_WAY; i++)
        check_way((runner_model){MODELS "gemma2.gguf", NULL}, &ways[i], 60);
}

static void test_every_type_of_cache(void **state)
{
    (void)state;
    static const char *const types[] = {"f32", "bf16"};
    for (int i = 0; i < 2; i++)
        check_way((runner_model){MODELS "llama.gguf", types[i]}, &ways[2 + i], N_TOK);
}

static uint64_t count_allocations(void)
{
    return standin_calls("cuMemAlloc_v2") + standin_calls("cuMemHostAlloc") +
           standin_calls("cuEventCreate");
}

// From the third pass of a kind on, decoding is a copy, a graph and a copy.
static void test_decoding_is_a_graph_and_allocates_nothing(void **state)
{
    (void)state;
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
static void test_longer_tables_allocate_nothing(void **state)
{
    (void)state;
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

static void test_the_storyteller(void **state)
{
    (void)state;
    const char *path = FX_SOURCE_DIR "/models/storyteller.gguf";
    check_way((runner_model){path, NULL}, &ways[4], N_TOK);
    check_way((runner_model){path, "q8_0"}, &ways[2], N_TOK);
}

FX_SUITE(test_gpu_models)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_family_gives_the_hosts_bits),
        cmocka_unit_test(test_one_model_in_every_way),
        cmocka_unit_test(test_every_type_of_cache),
        cmocka_unit_test(test_decoding_is_a_graph_and_allocates_nothing),
        cmocka_unit_test(test_longer_tables_allocate_nothing),
        cmocka_unit_test(test_the_storyteller),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
