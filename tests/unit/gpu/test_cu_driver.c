// test_cu_driver.c - the driver as it is called here: a device opened and used, what is said where
// there is none, and every call of the driver failing once.
//
// It runs on the stand-in for libcuda.so.1, which can be missing, or old (gpu_missing.h).
#include "suite.h"
#include "unit/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/driver/cu.h"
#include "gpu_missing.h"
#include "kernels/cuda/cuda_args.h"
#include "standin/standin.h"

enum { N = 40 }; // numbers of a row

static const unsigned char image[64] = "flexinfer stand-in kernel image";

static int begin_test(void **state)
{
    (void)state;
    standin_reset();
    gpu_missing_library = gpu_missing_symbol = NULL;
    return 0;
}

// All that the driver gave was given back.
static void assert_clean(void)
{
    if (standin_left()) fail_msg("%s", standin_left());
}

static void assert_text(const fx_error *err, fx_status st, const char *text)
{
    assert_int_equal(err->status, st);
    assert_string_equal(err->text, text);
}

// ---- a device ----------------------------------------------------------------------------------

FX_TEST(test_open_names_the_device)
{
    fxi_cu cu;
    fx_error err = {0};
    if (fxi_cu_open(&cu, 1, &err) != FX_OK) fail_msg("%s", err.text);
    assert_string_equal(cu.label, "cuda:1");
    assert_true(strlen(cu.name) > 0);
    assert_int_equal(cu.cc, 90);
    assert_true(cu.n_sm > 0 && cu.max_shared_bytes >= 48 << 10);
    fxi_cu_close(&cu);
    assert_clean();
}

FX_TEST(test_without_a_driver_one_line_says_so)
{
    fxi_cu cu;
    fx_error err = {0};
    gpu_missing_library = "libcuda.so";
    assert_int_equal(fxi_cu_open(&cu, 0, &err), FX_EINVAL);
    assert_text(&err, FX_EINVAL, "cuda:0: libcuda.so.1, NVIDIA's driver, cannot be loaded");
    gpu_missing_library = NULL;
    gpu_missing_symbol = "cuGraphLaunch";
    assert_int_equal(fxi_cu_open(&cu, 0, &err), FX_EINVAL);
    assert_text(&err, FX_EINVAL,
                "cuda:0: NVIDIA's driver is too old: libcuda.so.1 has no function cuGraphLaunch");
    assert_clean();
}

FX_TEST(test_without_a_device_one_line_says_so)
{
    fxi_cu cu;
    fx_error err = {0};
    assert_int_equal(fxi_cu_open(&cu, 7, &err), FX_EINVAL);
    assert_text(&err, FX_EINVAL, "cuda:7: this machine has 4 NVIDIA GPUs: cuda:0 and so on");
    standin_set_device_count(0);
    assert_int_equal(fxi_cu_open(&cu, 0, &err), FX_EINVAL);
    assert_text(&err, FX_EINVAL, "cuda:0: this machine has no NVIDIA GPU");
    standin_set_device_count(STANDIN_N_DEVICE);
    standin_set_vmm(false);
    assert_int_equal(fxi_cu_open(&cu, 0, &err), FX_EINVAL);
    assert_non_null(strstr(err.text, "has no virtual memory management"));
    assert_clean();
}

FX_TEST(test_the_context_is_put_back)
{
    fxi_cu cu;
    fx_error err = {0};
    standin_use_context(-1);
    assert_int_equal(fxi_cu_open(&cu, 0, &err), FX_OK);
    assert_int_equal(standin_context_depth(), 0);
    assert_int_equal(fxi_cu_enter(&cu, &err), FX_OK);
    assert_int_equal(standin_context_depth(), 1);
    fxi_cu_leave(&cu, FX_OK);
    assert_int_equal(standin_context_depth(), 0);
    fxi_cu_close(&cu);
    assert_clean();
}

// ---- everything once ---------------------------------------------------------------------------

// What a run takes from the driver.
typedef struct driver_use {
    fxi_cu cu;
    void *pinned, *other, *at, *to;
    vti_cu_event event;
    vti_cu_module module;
    vti_cu_function rows;
    fxi_cu_chain chain;
} driver_use;

static void undo_use(driver_use *u)
{
    if (!u->cu.context || fxi_cu_enter(&u->cu, NULL) != FX_OK) return;
    (void)fxi_cu_wait(&u->cu, u->cu.compute, NULL);
    (void)fxi_cu_wait(&u->cu, u->cu.copy, NULL);
    fxi_cu_chain_free(&u->cu, &u->chain);
    fxi_cu_module_free(&u->cu, u->module);
    fxi_cu_event_free(&u->cu, u->event);
    fxi_cu_free(&u->cu, u->at);
    fxi_cu_free(&u->cu, u->to);
    fxi_cu_unpin(&u->cu, u->pinned);
    fxi_cu_unpin(&u->cu, u->other);
    fxi_cu_leave(&u->cu, FX_OK);
}

static fx_status move_bytes(driver_use *u, fx_error *err)
{
    const size_t n = N * sizeof(float);
    uint64_t is_free, total;
    FX_TRY(fxi_cu_memory(&u->cu, &is_free, &total, err));
    FX_TRY(fxi_cu_alloc(&u->cu, n, &u->at, err));
    FX_TRY(fxi_cu_alloc(&u->cu, n, &u->to, err));
    FX_TRY(fxi_cu_pin(&u->cu, n, &u->pinned, err));
    FX_TRY(fxi_cu_pin(&u->cu, n, &u->other, err));
    FX_TRY(fxi_cu_event_make(&u->cu, &u->event, err));
    for (int i = 0; i < N; i++) ((float *)u->pinned)[i] = (float)i;
    FX_TRY(fxi_cu_upload(&u->cu, u->cu.copy, u->at, u->pinned, n, err));
    FX_TRY(fxi_cu_event_mark(&u->cu, u->event, u->cu.copy, err));
    FX_TRY(fxi_cu_event_wait(&u->cu, u->event, err));
    FX_TRY(fxi_cu_upload(&u->cu, u->cu.compute, u->to, u->pinned, n, err));
    memset(u->other, 0, n);
    return fxi_cu_upload(&u->cu, u->cu.compute, u->at, u->other, n, err);
}

// Copies a row from `to` to `at` by the kernel "rows".
static fx_status run_rows(driver_use *u, bool as_chain, fx_error *err)
{
    const fxi_cuda_rows_args args = {.x = u->to, .count = {1, NULL}, .n = N, .out = {.x = u->at}};
    const fxi_cu_launch l = {.function = u->rows,
                             .name = "rows",
                             .grid = {1, 1, 1},
                             .block = {256, 1, 1},
                             .args = &args};
    if (!as_chain) return fxi_cu_run(&u->cu, &l, err);
    FX_TRY(fxi_cu_chain_begin(&u->cu, &u->chain, err));
    FX_TRY(fxi_cu_chain_add(&u->cu, &u->chain, &l, err));
    FX_TRY(fxi_cu_chain_add(&u->cu, &u->chain, &l, err));
    FX_TRY(fxi_cu_chain_finish(&u->cu, &u->chain, err));
    return fxi_cu_chain_run(&u->cu, &u->chain, err);
}

static fx_status run_all(driver_use *u, bool as_chain, fx_error *err)
{
    vti_cu_function none;
    FX_TRY(move_bytes(u, err));
    FX_TRY(fxi_cu_module_load(&u->cu, image, &u->module, err));
    FX_TRY(fxi_cu_module_find(&u->cu, u->module, "fxi_cuda_nothing", &none, err));
    FX_TRY(fxi_cu_module_find(&u->cu, u->module, "fxi_cuda_rows", &u->rows, err));
    if (none || !u->rows) return fxi_fail(err, FX_EINVAL, "the wrong kernels");
    FX_TRY(fxi_cu_allow_shared(&u->cu, u->rows, 64 << 10, err));
    FX_TRY(run_rows(u, as_chain, err));
    FX_TRY(fxi_cu_download(&u->cu, u->cu.compute, u->other, u->at, N * sizeof(float), err));
    return fxi_cu_wait(&u->cu, u->cu.compute, err);
}

// Uses everything, and gives it back whatever happens. other: [N], what was read back at last
static fx_status use_driver(bool as_chain, float *other, fx_error *err)
{
    driver_use u = {0};
    FX_TRY(fxi_cu_open(&u.cu, 0, err));
    fx_status st = fxi_cu_enter(&u.cu, err);
    if (st == FX_OK) {
        st = fxi_cu_leave(&u.cu, run_all(&u, as_chain, err));
    }
    if (st == FX_OK) memcpy(other, u.other, N * sizeof *other);
    undo_use(&u);
    fxi_cu_close(&u.cu);
    return st;
}

FX_TEST(test_bytes_and_kernels_go_round)
{
    for (int as_chain = 0; as_chain < 2; as_chain++) {
        float other[N];
        fx_error err = {0};
        if (use_driver(as_chain, other, &err) != FX_OK) fail_msg("%s", err.text);
        for (int i = 0; i < N; i++) assert_true(other[i] == (float)i);
        assert_clean();
    }
}

FX_TEST(test_an_image_of_something_else_is_refused)
{
    static const unsigned char other[64] = "something else";
    fxi_cu cu;
    vti_cu_module module;
    fx_error err = {0};
    assert_int_equal(fxi_cu_open(&cu, 0, &err), FX_OK);
    assert_int_equal(fxi_cu_enter(&cu, &err), FX_OK);
    assert_int_equal(fxi_cu_module_load(&cu, other, &module, &err), FX_EINVAL);
    assert_text(&err, FX_EINVAL,
                "cuda:0: NVIDIA's driver, which supports CUDA 13.0, does not take the kernels of "
                "this build");
    fxi_cu_leave(&cu, FX_OK);
    fxi_cu_close(&cu);
    assert_clean();
}

// ---- every call failing ------------------------------------------------------------------------

enum { N_IN_USE = 38 }; // functions of the table that cu.c calls

#define SYMBOL_NAME(member, symbol, parameters) #symbol,
static const char *const symbols[] = {VTI_CU_FUNCTIONS(SYMBOL_NAME)
                                          VTI_CU_KERNEL_FUNCTIONS(SYMBOL_NAME)};

// Calls that give something back: if one fails, that stays, and nobody is told.
static bool gives_back(const char *symbol)
{
    static const char *const list[] = {"cuDevicePrimaryCtxRelease_v2",
                                       "cuCtxPopCurrent_v2",
                                       "cuMemFree_v2",
                                       "cuMemFreeHost",
                                       "cuStreamDestroy_v2",
                                       "cuEventDestroy_v2",
                                       "cuModuleUnload",
                                       "cuGraphDestroy",
                                       "cuGraphExecDestroy"};
    for (size_t i = 0; i < sizeof list / sizeof *list; i++)
        if (strcmp(symbol, list[i]) == 0) return true;
    return false;
}

// Whether a failure of its i-th call may pass unnoticed: it is one of the end.
static bool belongs_to_end(const char *symbol, uint64_t i)
{
    return gives_back(symbol) || strcmp(symbol, "cuCtxPushCurrent_v2") == 0 ||
           (i > 0 && strcmp(symbol, "cuStreamSynchronize") == 0);
}

static void check_line(const char *symbol, const fx_error *err)
{
    if (strncmp(err->text, "cuda:0: ", 8) != 0 || strchr(err->text, '\n'))
        fail_msg("%s: '%s'", symbol, err->text);
    if (!strstr(err->text, "CUDA_ERROR_")) fail_msg("%s: '%s' names no error", symbol, err->text);
}

// The i-th call of a function fails. False: there is no such call.
static bool fail_call(const char *symbol, uint64_t i, bool as_chain)
{
    float other[N];
    fx_error err = {0};
    standin_reset();
    standin_use_context(-1);
    standin_fail(symbol, i, 1, STANDIN_UNKNOWN);
    const fx_status st = use_driver(as_chain, other, &err);
    const bool fired = standin_fired() > 0;
    if (!fired || belongs_to_end(symbol, i)) return fired;
    if (st != FX_EINTERNAL) fail_msg("call %d of %s failed, and nobody said so", (int)i, symbol);
    check_line(symbol, &err);
    if (standin_left()) fail_msg("call %d of %s failed: %s", (int)i, symbol, standin_left());
    return true;
}

FX_TEST(test_every_failing_call_is_one_line_and_leaves_nothing)
{
    int n = 0;
    for (size_t s = 0; s < sizeof symbols / sizeof *symbols; s++)
        for (uint64_t i = 0; fail_call(symbols[s], i, s % 2); i++) n++;
    assert_true(n >= N_IN_USE);
    standin_use_context(-1);
}

FX_TEST(test_memory_that_is_short_is_another_status)
{
    float other[N];
    fx_error err = {0};
    standin_fail("cuMemAlloc_v2", 1, 1, STANDIN_OUT_OF_MEMORY);
    assert_int_equal(use_driver(false, other, &err), FX_ENOMEM);
    assert_text(&err, FX_ENOMEM, "cuda:0: cuMemAlloc of 160 bytes: CUDA_ERROR_OUT_OF_MEMORY");
    assert_clean();
}

FX_RUN_EACH(test_cu_driver, begin_test, NULL)
