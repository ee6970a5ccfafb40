// test_gpu_fast.c - models on a GPU by "fast": layers of 16-bit weights by cuBLASLt, everything
// else as by "law". It runs on the stand-ins for the driver and for this library, which check what
// they are given; the linker sends dlopen and dlsym here, so that the library can be missing.
//
// The logits are near the host's in every way to run a sequence; the bits may differ.
#include "gpu_missing.h"
#include "gpu_model_rig.h"
#include "suite.h"

#include "unit/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "gpu/library/lt.h"
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
    gpu_missing_library = gpu_missing_symbol = NULL;
    return 0;
}

static bool is_clean(void)
{
    const standin_report r = standin_look();
    return !(r.n_stream | r.n_event | r.n_pinned | r.n_module | r.n_alloc | r.n_context |
             standin_library_count(&standin_lt, -1));
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

// Attention, too.
static void test_block_types_go_the_way_of_law(void **state)
{
    (void)state;
    const small_model model = gpu_tiny_model(FXI_Q8_0);
    const gpu_way ways[] = {gpu_model_way(2, "law", N_TOK), gpu_model_way(2, "fast", N_TOK)};
    int n;
    small_model_write(path, &model);
    const runner_model m = {path, NULL};
    float *law = gpu_model_logits(m, &ways[0], N_TOK, &n),
          *fast = gpu_model_logits(m, &ways[1], N_TOK, &n);
    assert_memory_equal(law, fast, (size_t)n * sizeof *law);
    assert_int_equal(standin_lt_look().n_multiply, 0);
    free(law);
    free(fast);
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

FX_SUITE(test_gpu_fast)
{
    snprintf(path, sizeof path, "/tmp/test_gpu_fast_%d.gguf", (int)getpid());
#define FAST_TEST(f) cmocka_unit_test_setup_teardown(f, begin_test, end_test)
    const struct CMUnitTest tests[] = {
        FAST_TEST(test_logits_are_near_the_hosts),
        FAST_TEST(test_the_output_may_be_the_embedding),
        FAST_TEST(test_experts),
        FAST_TEST(test_types_may_be_mixed),
        FAST_TEST(test_block_types_go_the_way_of_law),
        FAST_TEST(test_an_algorithm_is_chosen_once_for_a_shape),
        FAST_TEST(test_without_the_library_one_line_says_so),
        FAST_TEST(test_each_call_may_fail),
        FAST_TEST(test_closing_a_lost_device_drops_the_library),
        FAST_TEST(test_a_shape_without_an_algorithm_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
