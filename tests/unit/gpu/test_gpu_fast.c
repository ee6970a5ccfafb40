// test_gpu_fast.c - models on a GPU by "fast": layers of 16-bit weights by cuBLASLt, attention of
// decoding by cuDNN, everything else as by "law". It runs on the stand-ins for the driver and for
// these libraries, which check what they are given; the linker sends dlopen and dlsym here, so that
// a library can be missing.
//
// The logits are near the host's in every way to run a sequence; the bits may differ.
#include "gpu_missing.h"
#include "gpu_model_rig.h"

#include "unit/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/library/dnn.h"
#include "gpu/library/lt.h"
#include "standin/dnn/standin_dnn.h"
#include "standin/lt/standin_lt.h"
#include "standin/standin.h"
#include "unit/model/logit_distance.h"
#include "unit/model/small_model.h"

enum { STATUS_EXECUTION_FAILED = 13 };

static char path[64];

static int begin_test(void **state)
{
    (void)state;
    standin_reset();
    standin_lt_reset();
    standin_dnn_reset();
    gpu_missing_library = gpu_missing_symbol = NULL;
    return 0;
}

static bool is_clean(void)
{
    const standin_report r = standin_look();
    return !(r.n_stream | r.n_event | r.n_pinned | r.n_module | r.n_alloc | r.n_context |
             standin_library_count(&standin_lt, -1) | standin_library_count(&standin_dnn, -1));
}

static int end_test(void **state)
{
    (void)state;
    const standin_report r = standin_look();
    unlink(path);
    if (r.n_breach) print_error("%s\n", r.breach);
    if (*standin_faults()) print_error("%s\n", standin_faults());
    return r.n_breach || *standin_faults() || !is_clean();
}

// ---- logits ------------------------------------------------------------------------------------

enum { N_TOK = 24 };

// In the first n_way ways. Graphs are not for those who call libraries.
static void check_near(const small_model *model, double bound, int n_way)
{
    int n, n_host;
    small_model_write(path, model);
    const runner_model m = {path, NULL};
    float *host = run_plain(m, N_TOK, &n_host);
    for (int i = 0; i < n_way; i++) {
        const gpu_way way = gpu_model_way(i, "fast", N_TOK);
        float *out = gpu_model_logits(m, &way, N_TOK, &n);
        assert_int_equal(n, n_host);
        const double far = logit_distance(out, host, n_host);
        free(out);
        if (!(far < bound))
            fail_msg("%s: %.2e away from the host (bound %.0e)", way.what, far, bound);
    }
    assert_true(standin_lt_look().n_multiply > 0);
    free(host);
}

// Bounds as for "law", which rounds activations alike: 10 roundings to 8 or 11 bits.
static void test_logits_are_near_the_hosts(void **state)
{
    (void)state;
    small_model bf16 = gpu_tiny_model(FXI_BF16), f16 = gpu_tiny_model(FXI_F16);
    f16.shape.n_head = 3;
    f16.shape.n_kv_head = 1;
    f16.shape.head_dim = 80;
    check_near(&bf16, 0.04, GPU_N_WAY - 1);
    check_near(&f16, 0.005, GPU_N_WAY - 1);
}

static void test_the_output_may_be_the_embedding(void **state)
{
    (void)state;
    small_model model = gpu_tiny_model(FXI_BF16);
    model.shape.tied = true;
    check_near(&model, 0.04, 1);
}

// Several experts are packed for a kernel; the router and a single expert are cuBLASLt's.
static void test_experts(void **state)
{
    (void)state;
    small_model model = gpu_tiny_model(FXI_BF16);
    model.n_expert = 4;
    model.n_used = 2;
    check_near(&model, 0.08, 1); // twice as many roundings
    model.n_expert = model.n_used = 1;
    check_near(&model, 0.08, 1);
}

static void test_types_may_be_mixed(void **state)
{
    (void)state;
    static const fxi_dtype types[] = {FXI_BF16, FXI_Q8_0, FXI_F16, FXI_F32};
    small_model model = gpu_tiny_model(FXI_BF16);
    model.types = types;
    model.n_type = 4;
    check_near(&model, 0.04, 1);
}

// A model of a block type, whose attention is law's, too.
static void assert_law_computes_it(void)
{
    const small_model model = gpu_tiny_model(FXI_Q8_0);
    const gpu_way ways[] = {gpu_model_way(2, "law", N_TOK), gpu_model_way(2, "fast", N_TOK)};
    int n;
    small_model_write(path, &model);
    const runner_model m = {path, NULL};
    float *law = gpu_model_logits(m, &ways[0], N_TOK, &n),
          *fast = gpu_model_logits(m, &ways[1], N_TOK, &n);
    assert_memory_equal(law, fast, (size_t)n * sizeof *law);
    assert_int_equal(standin_lt_look().n_multiply, 0);
    assert_int_equal(standin_dnn_look().n_execute, 0);
    free(law);
    free(fast);
}

static void test_block_types_go_the_way_of_law(void **state)
{
    (void)state;
    gpu_missing_library = "cudnn";
    assert_law_computes_it();
}

// ---- attention ---------------------------------------------------------------------------------

static void test_what_cudnn_does_not_support_goes_the_way_of_law(void **state)
{
    (void)state;
    standin_dnn_refuse(1);
    assert_law_computes_it();
}

// Of a shape there is one plan: chunks of 7 and 6 tokens have one. The last layer of a chunk, where
// its last row alone is wanted, is law's, as are caches of pages, windows and sinks.
static void test_prompts_and_decoding_attend_by_cudnn(void **state)
{
    (void)state;
    enum { N_LAYER = 2, N_CHUNK = 3, N_ALL = N_LAYER * (N_TOK - 20) + (N_LAYER - 1) * N_CHUNK };
    static const gpu_way decodes = {"one by one", .n_prompt = 20, .chunk = 7, .math = "fast"},
                         paged = {"pages", .chunk = 1, .kv = "paged", .math = "fast"};
    const small_model model = gpu_tiny_model(FXI_BF16);
    gpu_model_rig g;
    small_model_write(path, &model);
    gpu_model_open(&g, (runner_model){path, NULL}, &decodes);
    assert_non_null(strstr(g.device->path, "fast with cuDNN"));
    gpu_model_run(&g, &decodes, N_TOK);
    assert_int_equal(standin_dnn_look().n_execute, N_ALL);
    assert_int_equal(standin_dnn_look().n_masked, (N_LAYER - 1) * N_CHUNK);
    assert_int_equal(standin_dnn_look().n_plan, 2);
    gpu_model_close(&g);
    gpu_model_open(&g, (runner_model){path, NULL}, &paged);
    gpu_model_run(&g, &paged, N_TOK);
    assert_int_equal(standin_dnn_look().n_execute, N_ALL);
    gpu_model_close(&g);
}

// The arrays of an attention of 2 sequences, at the end of device memory that is zero otherwise.
typedef struct two_sequences {
    int64_t q_at[3], kv_at[3];
    int32_t n_q[2], n_kv[2];
} two_sequences;

enum { ZERO_BYTES = 1 << 16, ARRAYS_AT = 1 << 15 };

static fx_status fill_arrays(fxi_cu *cu, char *at, fx_error *err)
{
    void *pinned;
    fx_status st = fxi_cu_zero(cu, cu->compute, at, ZERO_BYTES, err);
    if (st != FX_OK) return st;
    st = fxi_cu_pin(cu, sizeof(two_sequences), &pinned, err);
    if (st != FX_OK) return st;
    *(two_sequences *)pinned = (two_sequences){{0, 256, 512}, {1024, 0, 0}, {1, 1}, {3, 4}};
    st = fxi_cu_upload(cu, cu->compute, at + ARRAYS_AT, pinned, sizeof(two_sequences), err);
    (void)fxi_cu_wait(cu, cu->compute, NULL);
    fxi_cu_unpin(cu, pinned);
    return st;
}

static fx_status run_one_attention(fxi_cu *cu, fxi_dnn *dnn, char *at, int max_q_tok, fx_error *err)
{
    const fxi_sdpa_shape shape = {.type = FXI_F16,
                                  .n_seq = 2,
                                  .n_head = 4,
                                  .n_kv_head = 2,
                                  .head_dim = 64,
                                  .max_q_tok = max_q_tok,
                                  .max_kv_tok = 128,
                                  .token_step = 2 * 2 * 64};
    float scale = 1;
    two_sequences *arrays = (two_sequences *)(void *)(at + ARRAYS_AT);
    void *const data[FXI_SDPA_N_DATA] = {[FXI_SDPA_Q] = at,
                                         [FXI_SDPA_OUT] = at + 2048,
                                         [FXI_SDPA_K] = at + 4096,
                                         [FXI_SDPA_V] = at + 4096 + 256,
                                         [FXI_SDPA_SCALE] = &scale,
                                         [FXI_SDPA_N_Q] = arrays->n_q,
                                         [FXI_SDPA_N_KV] = arrays->n_kv,
                                         [FXI_SDPA_Q_AT] = arrays->q_at,
                                         [FXI_SDPA_KV_AT] = arrays->kv_at};
    const fxi_sdpa *s;
    fx_status st = fill_arrays(cu, at, err);
    if (st == FX_OK) st = fxi_dnn_find(dnn, &shape, &s, err);
    if (st == FX_OK) st = fxi_dnn_run(dnn, s, data, at + ZERO_BYTES, err);
    const fx_status waited = fxi_cu_wait(cu, cu->compute, NULL);
    return st == FX_OK ? waited : st;
}

static fx_status use_cudnn(int max_q_tok, fx_error *err)
{
    fxi_cu cu;
    fxi_dnn dnn;
    assert_int_equal(fxi_cu_open(&cu, 0, err), FX_OK);
    assert_int_equal(fxi_cu_enter(&cu, err), FX_OK);
    void *at;
    assert_int_equal(fxi_cu_alloc(&cu, ZERO_BYTES + FXI_DNN_WORKSPACE_BYTES, &at, err), FX_OK);
    fx_status st = fxi_dnn_open(&dnn, &cu, err);
    if (st == FX_OK) st = run_one_attention(&cu, &dnn, at, max_q_tok, err);
    fxi_dnn_close(&dnn);
    fxi_cu_free(&cu, at);
    fxi_cu_leave(&cu);
    fxi_cu_close(&cu);
    return st;
}

// ---- what a prompt sees ------------------------------------------------------------------------

// Two sequences whose last tokens are new: 5 of 9, and all 3 of 3. Their caches lie in one piece of
// numbers, the second before the first.
enum { P_HEAD = 4, P_KV = 2, P_DIM = 64, P_STEP = 2 * P_KV * P_DIM, P_ROW = P_HEAD * P_DIM };

typedef struct prompt_case {
    uint16_t q[8][P_ROW], out[8][P_ROW], cache[12 * P_STEP];
    int64_t q_at[3], kv_at[3];
    int32_t n_q[2], n_kv[2];
} prompt_case;

static void fill_prompts(prompt_case *c)
{
    uint32_t seed = 7;
    *c = (prompt_case){.q_at = {0, 5 * P_ROW, 8 * P_ROW},
                       .kv_at = {3 * P_STEP, 0, 0},
                       .n_q = {5, 3},
                       .n_kv = {9, 3}};
    uint16_t *const all[] = {c->q[0], c->cache};
    const size_t n[] = {8 * P_ROW, 12 * P_STEP};
    for (int k = 0; k < 2; k++)
        for (size_t i = 0; i < n[k]; i++) {
            seed = seed * 1664525 + 1013904223;
            all[k][i] = fxi_f32_to_f16((float)(int32_t)seed * 0x1p-31f);
        }
}

// The result of a query, of the numbers that it may see.
static void attend_plainly(const prompt_case *c, int seq, int token, int head, float *out)
{
    const uint16_t *q = c->q[seq * 5 + token] + head * P_DIM;
    const uint16_t *k = c->cache + c->kv_at[seq] + head / (P_HEAD / P_KV) * P_DIM;
    const int n_pos = c->n_kv[seq] - c->n_q[seq] + token + 1;
    double sum = 0, acc[P_DIM] = {0};
    for (int pos = 0; pos < n_pos; pos++, k += P_STEP) {
        double score = 0;
        for (int i = 0; i < P_DIM; i++) score += fxi_f16_to_f32(q[i]) * fxi_f16_to_f32(k[i]);
        const double e = exp(score);
        for (int i = 0; i < P_DIM; i++) acc[i] += e * fxi_f16_to_f32(k[P_KV * P_DIM + i]);
        sum += e;
    }
    for (int i = 0; i < P_DIM; i++) out[i] = (float)(acc[i] / sum);
}

static void run_prompts(fxi_dnn *dnn, prompt_case *at, void *workspace)
{
    const fxi_sdpa_shape shape = {FXI_F16, 2, P_HEAD, P_KV, P_DIM, 16, 32, P_STEP};
    float scale = 1;
    void *const data[FXI_SDPA_N_DATA] = {
        [FXI_SDPA_Q] = at->q,        [FXI_SDPA_OUT] = at->out,
        [FXI_SDPA_K] = at->cache,    [FXI_SDPA_V] = at->cache + P_KV * P_DIM,
        [FXI_SDPA_SCALE] = &scale,   [FXI_SDPA_N_Q] = at->n_q,
        [FXI_SDPA_N_KV] = at->n_kv,  [FXI_SDPA_Q_AT] = at->q_at,
        [FXI_SDPA_KV_AT] = at->kv_at};
    const fxi_sdpa *s;
    assert_int_equal(fxi_dnn_find(dnn, &shape, &s, NULL), FX_OK);
    assert_non_null(s);
    assert_int_equal(fxi_dnn_run(dnn, s, data, workspace, NULL), FX_OK);
}

static void check_prompts(const prompt_case *c)
{
    float want[P_DIM];
    for (int row = 0; row < 8; row++)
        for (int head = 0; head < P_HEAD; head++) {
            attend_plainly(c, row >= 5, row >= 5 ? row - 5 : row, head, want);
            for (int i = 0; i < P_DIM; i++)
                assert_true(fabsf(fxi_f16_to_f32(c->out[row][head * P_DIM + i]) - want[i]) < 2e-3f);
        }
}

static void test_a_prompt_sees_what_is_before_each_token(void **state)
{
    (void)state;
    fxi_cu cu;
    fxi_dnn dnn;
    void *host, *at;
    assert_int_equal(fxi_cu_open(&cu, 0, NULL), FX_OK);
    assert_int_equal(fxi_cu_enter(&cu, NULL), FX_OK);
    assert_int_equal(fxi_cu_pin(&cu, sizeof(prompt_case), &host, NULL), FX_OK);
    assert_int_equal(fxi_cu_alloc(&cu, sizeof(prompt_case) + FXI_DNN_WORKSPACE_BYTES, &at, NULL),
                     FX_OK);
    assert_int_equal(fxi_dnn_open(&dnn, &cu, NULL), FX_OK);
    fill_prompts(host);
    assert_int_equal(fxi_cu_upload(&cu, cu.compute, at, host, sizeof(prompt_case), NULL), FX_OK);
    run_prompts(&dnn, at, (char *)at + sizeof(prompt_case));
    assert_int_equal(fxi_cu_download(&cu, cu.compute, host, at, sizeof(prompt_case), NULL), FX_OK);
    assert_int_equal(fxi_cu_wait(&cu, cu.compute, NULL), FX_OK);
    check_prompts(host);
    fxi_dnn_close(&dnn);
    fxi_cu_unpin(&cu, host);
    fxi_cu_free(&cu, at);
    fxi_cu_leave(&cu);
    fxi_cu_close(&cu);
}

// ---- every call failing ------------------------------------------------------------------------

static void fail_each_call_of_cudnn(int max_q_tok)
{
    enum { DNN_EXECUTION_FAILED = 5000 };
    fx_error err = {0};
    standin_dnn_reset();
    if (use_cudnn(max_q_tok, &err) != FX_OK) fail_msg("%s", err.text);
    const uint64_t n = standin_dnn.n_call;
    assert_int_equal(standin_dnn_look().n_execute, 1);
    assert_true(n > 60);
    for (uint64_t i = 0; i < n; i++) {
        standin_dnn_reset();
        standin_library_fail(&standin_dnn, i, i % 2 ? DNN_EXECUTION_FAILED : FXI_DNN_ALLOC_FAILED);
        const fx_status st = use_cudnn(max_q_tok, &err);
        assert_int_equal(standin_dnn.n_failed, 1);
        assert_int_equal(st, i % 2 ? FX_EINTERNAL : FX_ENOMEM);
        assert_non_null(strstr(err.text, "cuda:0: cudnn"));
        assert_non_null(strstr(err.text, ": CUDNN_STATUS_"));
        assert_true(is_clean());
    }
}

static void test_each_call_of_cudnn_may_fail(void **state)
{
    (void)state;
    fail_each_call_of_cudnn(1);
    fail_each_call_of_cudnn(2);
}

// ---- algorithms --------------------------------------------------------------------------------

// The shapes of the model: q, k = v, o, gate = up, down, output.
static void test_an_algorithm_is_chosen_once_for_a_shape(void **state)
{
    (void)state;
    enum { N_SHAPE = 6 };
    const gpu_way way = {"one by one", .chunk = 1, .math = "fast"};
    const small_model model = gpu_tiny_model(FXI_BF16);
    gpu_model_rig g;
    small_model_write(path, &model);
    gpu_model_open(&g, (runner_model){path, NULL}, &way);
    assert_int_equal(standin_lt_look().n_find, 2 * N_SHAPE); // one row, and the most
    gpu_model_run(&g, &way, N_TOK);
    assert_int_equal(standin_lt_look().n_find, 2 * N_SHAPE);
    assert_int_equal(standin_lt_look().n_multiply, N_TOK * (2 * 7 + 1));
    gpu_model_close(&g);
}

// ---- refusals ----------------------------------------------------------------------------------

static fx_status open_fast(fxi_pool *pool, fxi_device **out, fx_error *err)
{
    const fxi_gpu_options opt = {.name = "cuda:0", .math = "fast", .pool = pool};
    return fxi_gpu_open(&opt, out, err);
}

static void assert_refused(const char *text)
{
    fxi_device *device;
    fx_error err = {0};
    assert_int_equal(open_fast(NULL, &device, &err), FX_EINVAL);
    assert_null(device);
    assert_string_equal(err.text, text);
    assert_true(is_clean());
}

static void test_without_the_library_one_line_says_so(void **state)
{
    (void)state;
    gpu_missing_library = "cublasLt";
    assert_refused("cuda:0: GPU arithmetic 'fast': libcublasLt.so.13 or libcublasLt.so.12, "
                   "NVIDIA's cuBLASLt, cannot be loaded");
    gpu_missing_library = NULL;
    gpu_missing_symbol = "cublasLtMatmul";
    assert_refused("cuda:0: GPU arithmetic 'fast': NVIDIA's cuBLASLt is too old: "
                   "libcublasLt.so.13 has no function cublasLtMatmul");
}

// Products of a shape, one of them of 5 rows. With `pass` the products themselves.
static fx_status run_products(fxi_cu *cu, fxi_lt *lt, fx_error *err)
{
    enum { N_IN = 40, N_OUT = 24, MAX_ROW = 16, BYTES = 1 << 16 };
    char *at;
    fx_status st = fxi_cu_alloc(cu, BYTES + FXI_LT_WORKSPACE_BYTES, (void **)&at, err);
    if (st != FX_OK) return st;
    fxi_lt_job job = {.type = FXI_F16,
                      .n_in = N_IN,
                      .n_out = N_OUT,
                      .n_row = 5,
                      .w = at,
                      .a = at + BYTES / 4,
                      .y = (float *)(void *)(at + BYTES / 2),
                      .workspace = at + BYTES};
    st = fxi_cu_zero(cu, cu->compute, at, BYTES, err);
    if (st == FX_OK) st = fxi_lt_announce(lt, FXI_F16, N_IN, N_OUT, err);
    if (st == FX_OK) st = fxi_lt_prepare(lt, MAX_ROW, err);
    if (st == FX_OK) st = fxi_lt_run(lt, &job, err);
    job.n_row = 6;
    if (st == FX_OK) st = fxi_lt_run(lt, &job, err);
    const fx_status waited = fxi_cu_wait(cu, cu->compute, NULL);
    fxi_cu_free(cu, at);
    return st == FX_OK ? waited : st;
}

static fx_status use_library(fx_error *err)
{
    fxi_cu cu;
    fxi_lt lt;
    assert_int_equal(fxi_cu_open(&cu, 0, err), FX_OK);
    assert_int_equal(fxi_cu_enter(&cu, err), FX_OK);
    fx_status st = fxi_lt_open(&lt, &cu, err);
    if (st == FX_OK) st = run_products(&cu, &lt, err);
    fxi_lt_close(&lt);
    fxi_cu_leave(&cu);
    fxi_cu_close(&cu);
    return st;
}

static void test_each_call_may_fail(void **state)
{
    (void)state;
    fx_error err = {0};
    assert_int_equal(use_library(&err), FX_OK);
    const uint64_t n = standin_lt.n_call;
    assert_true(n > 12);
    for (uint64_t i = 0; i < n; i++) {
        const int status = i % 2 ? STATUS_EXECUTION_FAILED : FXI_LT_ALLOC_FAILED;
        standin_lt_reset();
        standin_library_fail(&standin_lt, i, status);
        const fx_status st = use_library(&err);
        assert_int_equal(standin_lt.n_failed, 1);
        assert_int_equal(st, i % 2 ? FX_EINTERNAL : FX_ENOMEM);
        assert_non_null(strstr(err.text, "cuda:0: cublasLt"));
        assert_non_null(strstr(err.text, i % 2 ? ": CUBLAS_STATUS_EXECUTION_FAILED"
                                               : ": CUBLAS_STATUS_ALLOC_FAILED"));
        assert_true(is_clean());
    }
}

// A device whose context cannot be entered any more is closed; the library's objects are not left.
static void test_closing_a_lost_device_drops_the_library(void **state)
{
    (void)state;
    fxi_device *device;
    fx_error err = {0};
    assert_int_equal(open_fast(NULL, &device, &err), FX_OK);
    assert_true(standin_library_count(&standin_lt, -1) > 0);
    standin_fail("cuCtxPushCurrent_v2", 0, UINT64_MAX, 700);
    device->ops->close(device);
    standin_fail(NULL, 0, 0, 0);
    assert_int_equal(standin_library_count(&standin_lt, -1), 0);
    assert_int_equal(standin_library_count(&standin_dnn, -1), 0);
    standin_reset(); // of the driver what the context's end would free is left
}

static void test_a_shape_without_an_algorithm_is_refused(void **state)
{
    (void)state;
    fx_error err = {0};
    standin_lt_refuse(16);
    assert_int_equal(use_library(&err), FX_EINVAL);
    assert_string_equal(err.text,
                        "cuda:0: cuBLASLt cannot multiply 16 rows by 24 x 40 F16 weights");
}

int main(void)
{
    snprintf(path, sizeof path, "/tmp/test_gpu_fast_%d.gguf", (int)getpid());
#define FAST_TEST(f) cmocka_unit_test_setup_teardown(f, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        FAST_TEST(test_logits_are_near_the_hosts),
        FAST_TEST(test_the_output_may_be_the_embedding),
        FAST_TEST(test_experts),
        FAST_TEST(test_types_may_be_mixed),
        FAST_TEST(test_block_types_go_the_way_of_law),
        FAST_TEST(test_what_cudnn_does_not_support_goes_the_way_of_law),
        FAST_TEST(test_prompts_and_decoding_attend_by_cudnn),
        FAST_TEST(test_a_prompt_sees_what_is_before_each_token),
        FAST_TEST(test_each_call_of_cudnn_may_fail),
        FAST_TEST(test_an_algorithm_is_chosen_once_for_a_shape),
        FAST_TEST(test_without_the_library_one_line_says_so),
        FAST_TEST(test_each_call_may_fail),
        FAST_TEST(test_closing_a_lost_device_drops_the_library),
        FAST_TEST(test_a_shape_without_an_algorithm_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
