// test_gpu_ranks.c - several GPUs that compute one model together: in the CPU's order of sums they
// have the bits of hosts that do so, and in any fixed order they have bits of their own, whatever
// the batch, the chunking of the prompt and the other sequences.
//
// It runs on the stand-ins for the driver, which has four devices, and for NCCL, whose order of
// three addends depends on how many numbers there are, as the library's does.
#include "gpu_model_rig.h"
#include "suite.h"

#include "unit/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "standin/standin.h"
#include "standin/standin_nccl.h"
#include "unit/model/host_ranks.h"
#include "unit/model/small_model.h"

#define MODELS FX_SOURCE_DIR "/tests/vectors/models/"

enum { N_TOK = 26 };

static int begin_test(void **state)
{
    (void)state;
    standin_reset();
    standin_nccl_reset();
    return 0;
}

static int end_test(void **state)
{
    (void)state;
    if (standin_left()) print_error("%s\n", standin_left());
    return standin_left() || standin_nccl_look().n_comm;
}

// The reference: as many hosts, which add in plain C.
static float *run_hosts(runner_model m, int n_rank, int n_tok)
{
    static const variant v = {"hosts", RUNNER_MAX_TOK, 1, 0, NULL, NULL};
    int n_out;
    fx_error err = {0};
    float *out = host_ranks_run(m, n_rank, &v, n_tok, &n_out, &err);
    if (!out) fail_msg("%s", err.text);
    return out;
}

static const char *const lists[] = {NULL, "cuda:0", "cuda:0,cuda:1", "cuda:2,cuda:0,cuda:1",
                                    "cuda:0,cuda:1,cuda:2,cuda:3"};

static void check_exact(runner_model m, int n_rank, int i_way)
{
    gpu_way way = gpu_model_way(i_way, NULL, N_TOK);
    float *want = run_hosts(m, n_rank, N_TOK);
    way.ranks = lists[n_rank];
    check_gpu_model(m, m.path, &way, N_TOK, want);
    free(want);
}

// ---- exact -------------------------------------------------------------------------------------

FX_TEST(test_models_of_many_kinds)
{
    static const struct {
        const char *file;
        int n_rank;
    } models[] = {{"gemma2.gguf", 2},   {"qwen3.gguf", 2}, {"gpt2.gguf", 3}, {"gptneox.gguf", 3},
                  {"stablelm.gguf", 3}, {"llama.gguf", 3}, {"phi2.gguf", 3}, {"bert.gguf", 3}};
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) {
        if (!suite_takes(i, 2)) continue;
        char path[256];
        snprintf(path, sizeof path, MODELS "%s", models[i].file);
        check_exact((runner_model){path, NULL}, models[i].n_rank, (int)i % GPU_N_RANK_WAY);
    }
}

// Written for the test: quantized weights, blocks of 256 that are not cut, tied embeddings.
static const small_model quantized = {.shape = {"", 2, 256, 8, 4, 64, 768, 300, true},
                                      .type = FXI_Q4_K};
static const small_model halves = {.shape = {"", 2, 128, 8, 4, 64, 160, 300, false},
                                   .type = FXI_F16};

static const small_model mixture = {
    .shape = {"", 2, 64, 4, 2, 32, 96, 300, false}, .type = FXI_Q8_0, .n_expert = 4, .n_used = 2};

FX_TEST(test_quantized_weights_and_caches)
{
    small_model_write("gpu-ranks.gguf", &quantized);
    check_exact((runner_model){"gpu-ranks.gguf", "q8_0"}, 2, 2);
    remove("gpu-ranks.gguf");
}

// Two KV heads for four devices.
static const small_model few_heads = {.shape = {"", 2, 128, 8, 2, 64, 160, 300, false},
                                      .type = FXI_F16};

FX_TEST(test_devices_may_have_the_same_kv_head)
{
    small_model_write("gpu-ranks.gguf", &few_heads);
    check_exact((runner_model){"gpu-ranks.gguf", NULL}, 4, 2);
    check_exact((runner_model){"gpu-ranks.gguf", NULL}, 4, 3);
    remove("gpu-ranks.gguf");
}

FX_TEST(test_experts_are_cut)
{
    small_model_write("gpu-ranks.gguf", &mixture);
    check_exact((runner_model){"gpu-ranks.gguf", NULL}, 2, 3);
    remove("gpu-ranks.gguf");
}

FX_TEST(test_one_rank_is_that_gpu_alone)
{
    int n_out;
    for (int i = 0; i < GPU_N_RANK_WAY; i++) {
        if (!suite_takes((size_t)i, 3)) continue;
        const runner_model m = {MODELS "gemma2.gguf", NULL};
        float *want = run_plain(m, N_TOK, &n_out);
        gpu_way way = gpu_model_way(i, NULL, N_TOK);
        way.ranks = "cuda:1";
        check_gpu_model(m, m.path, &way, N_TOK, want);
        free(want);
    }
}

// ---- batch-invariant ---------------------------------------------------------------------------

static float *run_mma(const char *ranks, int i_way)
{
    int n;
    gpu_way way = gpu_model_way(i_way, "batch-invariant", N_TOK);
    way.ranks = ranks;
    return gpu_model_logits((runner_model){"gpu-ranks.gguf", NULL}, &way, N_TOK, &n);
}

static void check_mma(int n_rank, int n_vocab)
{
    float *want = run_mma(lists[n_rank], 0);
    for (int i = 1; i < GPU_N_RANK_WAY; i++) {
        if (!suite_takes((size_t)(i + n_rank), 4)) continue; // a way each
        float *got = run_mma(lists[n_rank], i);
        if (memcmp(got, want, (size_t)n_vocab * sizeof *got) != 0)
            fail_msg("%s: way %d gives other bits", lists[n_rank], i);
        free(got);
    }
    free(want);
}

FX_TEST(test_bits_depend_on_nothing_but_the_ranks)
{
    small_model_write("gpu-ranks.gguf", &halves);
    check_mma(2, 300);
    check_mma(4, 300);
    remove("gpu-ranks.gguf");
}

FX_TEST(test_two_add_by_the_library_and_four_by_a_kernel)
{
    small_model_write("gpu-ranks.gguf", &halves);
    free(run_mma("cuda:0,cuda:1", 0));
    const standin_nccl_report two = standin_nccl_look();
    assert_true(two.n_sum > 0 && two.n_gather == 0);
    standin_nccl_reset();
    free(run_mma(lists[4], 0));
    const standin_nccl_report four = standin_nccl_look();
    assert_true(four.n_sum == 0 && four.n_gather > 0);
    remove("gpu-ranks.gguf");
}

// ---- graphs ------------------------------------------------------------------------------------

enum { N_SEQ = 3, N_PASS = 6, N_LAYER = 2, N_VOCAB = 300 };

static void open_together(gpu_model_rig *g, const char *ranks, bool no_graphs)
{
    const gpu_way way = {"together", .chunk = 1, .n_other = N_SEQ - 1, .ranks = ranks,
                         .no_graphs = no_graphs};
    small_model_write("gpu-ranks.gguf", &halves);
    gpu_model_open(g, (runner_model){"gpu-ranks.gguf", NULL}, &way);
    remove("gpu-ranks.gguf");
}

// One token of every sequence, all of which want logits.
static fx_status decode_together(gpu_model_rig *g, int pos, float *logits, fx_error *err)
{
    int32_t tok[N_SEQ];
    fxi_batch_seq seq[N_SEQ];
    for (int i = 0; i < N_SEQ; i++) {
        if (fxi_kv_extend(g->r.kv, g->r.seq[i], pos + 1) != FX_OK) return FX_EIO;
        tok[i] = 3 + i * 7 + pos * 11;
        seq[i] = (fxi_batch_seq){
            .views = fxi_kv_get_views(g->r.kv, g->r.seq[i]), .pos = pos, .n_tok = 1, .n_logit = 1};
    }
    const fxi_batch b = {.token = tok, .n_tok = N_SEQ, .seq = seq, .n_seq = N_SEQ};
    return fxi_model_forward(g->r.model, &b, logits, err);
}

static void must_decode(gpu_model_rig *g, int pos, float *logits)
{
    fx_error err = {0};
    if (decode_together(g, pos, logits, &err) != FX_OK) fail_msg("%s", err.text);
}

// From the third pass of a kind on, decoding launches no kernel: there is a graph before each sum,
// and one after the last.
static void check_graphs(const char *ranks, int n_rank)
{
    static float want[N_PASS][N_SEQ * N_VOCAB], got[N_SEQ * N_VOCAB];
    gpu_model_rig g;
    open_together(&g, ranks, true);
    for (int i = 0; i < N_PASS; i++) must_decode(&g, i, want[i]);
    gpu_model_close(&g);
    open_together(&g, ranks, false);
    const uint64_t made_before = standin_calls("cuGraphInstantiateWithFlags");
    uint64_t n_launch = 0, n_graph = 0, n_made = made_before;
    for (int i = 0; i < N_PASS; i++) {
        must_decode(&g, i, got);
        if (memcmp(got, want[i], sizeof got) != 0) fail_msg("%s: pass %d: other bits", ranks, i);
        if (i >= 2) {
            assert_int_equal(standin_calls("cuLaunchKernel"), n_launch);
            assert_int_equal(standin_calls("cuGraphInstantiateWithFlags"), n_made);
            assert_int_equal(standin_calls("cuGraphLaunch") - n_graph, n_rank * (2 * N_LAYER + 1));
        }
        n_launch = standin_calls("cuLaunchKernel");
        n_graph = standin_calls("cuGraphLaunch");
        n_made = standin_calls("cuGraphInstantiateWithFlags");
    }
    assert_int_equal(n_made - made_before, n_rank * (2 * N_LAYER + 1));
    gpu_model_close(&g);
}

FX_TEST(test_decoding_is_a_graph_up_to_each_sum)
{
    check_graphs("cuda:0,cuda:1", 2);
    check_graphs(lists[4], 4);
}

// The i-th call of the driver fails; the pass is given up on all ranks, and run again. What a rank
// had recorded then differs from what the others had. False: there are not so many calls.
static bool fail_one_call(const char *ranks, uint64_t i, const float *want)
{
    static float got[N_SEQ * N_VOCAB];
    gpu_model_rig g;
    fx_error err = {0};
    open_together(&g, ranks, false);
    standin_fail(NULL, i, 1, 999);
    for (int pos = 0; pos < N_PASS; pos++)
        if (decode_together(&g, pos, got, &err) != FX_OK && !g.device->ops->is_lost(g.device))
            must_decode(&g, pos, got);
    const bool fired = standin_fired() > 0, is_lost = g.device->ops->is_lost(g.device);
    standin_fail(NULL, 0, 0, 0);
    if (!is_lost && memcmp(got, want, sizeof got) != 0)
        fail_msg("other bits after call %d", (int)i);
    gpu_model_close(&g);
    return fired;
}

FX_TEST(test_a_failed_call_leaves_ranks_together)
{
    static float want[N_SEQ * N_VOCAB];
    const char *const ranks = lists[4];
    gpu_model_rig g;
    open_together(&g, ranks, false);
    for (int i = 0; i < N_PASS; i++) must_decode(&g, i, want);
    gpu_model_close(&g);
    for (uint64_t i = 0; i < 4000 && fail_one_call(ranks, i, want);)
        i += suite_is_long() ? 2 + i / 4 : 3 + 2 * i;
}

// ---- names -------------------------------------------------------------------------------------

FX_TEST(test_bad_lists_are_refused)
{
    static const struct {
        const char *list, *want;
    } bad[] = {
        {"cuda:0,cuda:0", "device 'cuda:0,cuda:0' names cuda:0 twice"},
        {"cuda,cuda:0", "device 'cuda,cuda:0' names cuda:0 twice"},
        {"cuda:0,", "device 'cuda:0,': '' is not cuda:N"},
        {"cuda:0,cpu", "device 'cuda:0,cpu': 'cpu' is not cuda:N"},
        {"cuda:0,cuda:x", "device 'cuda:x' is not cuda:N with a number N"},
        {"cuda:1,cuda:9", "cuda:9: this machine has 4 NVIDIA GPUs: cuda:0 and so on"},
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        const fxi_gpu_options opt = {.name = bad[i].list};
        fxi_device *d;
        fx_error err = {0};
        assert_int_equal(fxi_gpu_ranks_open(&opt, &d, &err), FX_EINVAL);
        assert_null(d);
        assert_string_equal(err.text, bad[i].want);
    }
}

FX_RUN_EACH(test_gpu_ranks, begin_test, end_test)
