// test_sdpa_support.c - what cuDNN supports of attention over this program's caches, asked without
// a GPU: the properties of one are given as text. Skipped where there is no libcudnn.so.9, or one
// that cannot be asked; the library also wants some libcuda.so.1, such as the toolkit's stub.
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <string.h>

#include "gpu/library/sdpa.h"

enum { N_LAYER = 32, N_KV_HEAD = 8 };

// An H100, or a B200 by the numbers that the library looks at.
static void describe_gpu(int cc, char *json, size_t size_bytes)
{
    snprintf(json, size_bytes,
             "{\"maxGridSize\":[2147483647,65535,65535],\"maxBlockSize\":[1024,1024,64],"
             "\"regsPerBlock\":65536,\"multiProcessorCount\":132,\"warpSize\":32,"
             "\"maxSharedMemoryPerBlock\":49152,\"maxSharedMemoryPerBlockOptin\":232448,"
             "\"reservedSharedMemoryPerBlock\":1024,\"maxRegistersPerSM\":65536,"
             "\"maxSharedMemoryPerSM\":233472,\"maxCtasPerSM\":32,\"maxThreadsPerBlock\":1024,"
             "\"maxThreadsPerSM\":2048,\"totalGlobalMem\":85017755648,\"pciDeviceId\":0,"
             "\"isTccDriver\":0,\"supportCoopLaunch\":1,\"smClockRateKHz\":1980000,"
             "\"memClockRateKHz\":2619000,\"l2CacheSize\":52428800,"
             "\"deviceName\":\"NVIDIA H100 80GB HBM3\",\"deviceVer\":%d,\"driverVer\":13000,"
             "\"cudaDeviceId\":0,\"ccMajor\":%d,\"ccMinor\":%d}",
             cc * 10, cc / 10, cc % 10);
}

// A cache of all layers, whose tokens hold K and V of each: "packed".
static fxi_sdpa_shape packed_cache(int n_seq, int head_dim)
{
    return (fxi_sdpa_shape){.type = FXI_BF16,
                            .n_seq = n_seq,
                            .n_head = 32,
                            .n_kv_head = N_KV_HEAD,
                            .head_dim = head_dim,
                            .max_q_tok = 1,
                            .max_kv_tok = 4096,
                            .token_step = (int64_t)2 * N_LAYER * N_KV_HEAD * head_dim};
}

// ---- the library, with calls counted and made to fail ------------------------------------------

static fxi_dnn_api real, dnn;
static int n_object, n_call, fail_at = -1;
static bool plans; // what is supported is planned, too

static fxi_dnn_status count_call(void)
{
    return n_call++ == fail_at ? FXI_DNN_ALLOC_FAILED : FXI_DNN_SUCCESS;
}

static fxi_dnn_status counted_make(fxi_dnn_kind kind, fxi_dnn_object *object)
{
    fxi_dnn_status r = count_call();
    if (r == FXI_DNN_SUCCESS) r = real.make(kind, object);
    n_object += r == FXI_DNN_SUCCESS;
    return r;
}

static fxi_dnn_status counted_drop(fxi_dnn_object object)
{
    n_object--;
    return real.drop(object);
}

static fxi_dnn_status counted_set(fxi_dnn_object object, fxi_dnn_attribute which, fxi_dnn_type type,
                                  int64_t n, const void *values)
{
    const fxi_dnn_status r = count_call();
    return r == FXI_DNN_SUCCESS ? real.set(object, which, type, n, values) : r;
}

static fxi_dnn_status counted_finish(fxi_dnn_object object)
{
    const fxi_dnn_status r = count_call();
    return r == FXI_DNN_SUCCESS ? real.finish(object) : r;
}

static void load_library(void)
{
    fx_error err = {0};
    if (fxi_dl_load(&fxi_dnn_source, &real, &err) != FX_OK) print_message("%s\n", err.text);
    dnn = real;
    dnn.make = counted_make;
    dnn.drop = counted_drop;
    dnn.set = counted_set;
    dnn.finish = counted_finish;
}

// ---- questions ---------------------------------------------------------------------------------

static fx_status ask_support(fxi_sdpa_shape shape, int cc, fx_error *err)
{
    fxi_sdpa s;
    char json[1024];
    if (!dnn.library) skip();
    describe_gpu(cc, json, sizeof json);
    fx_status st = fxi_sdpa_open(&s, &dnn, &shape, &(fxi_sdpa_device){.json = json}, err);
    if (st == FX_OK && plans) st = fxi_sdpa_plan(&s, 32 << 20, err);
    if (st == FX_OK) assert_true(!plans || (s.plan && s.workspace_bytes <= 32 << 20));
    fxi_sdpa_close(&s);
    assert_int_equal(n_object, 0);
    return st;
}

static void assert_supported(fxi_sdpa_shape shape)
{
    fx_error err = {0};
    for (int cc = 90; cc <= 100; cc += 10)
        if (ask_support(shape, cc, &err) != FX_OK) fail_msg("sm_%d: %s", cc, err.text);
}

static void test_caches_anywhere_with_interleaved_layers(void **state)
{
    (void)state;
    assert_supported(packed_cache(16, 128));
    assert_supported(packed_cache(1, 128));
    assert_supported(packed_cache(64, 64));
}

static void test_layers_side_by_side(void **state)
{
    (void)state;
    fxi_sdpa_shape shape = packed_cache(16, 128);
    shape.token_step = N_KV_HEAD * 128;
    assert_supported(shape);
}

// The library takes the description of a plan, and chooses a kernel; where there is no GPU, it then
// fails to load that.
static void test_a_plan_goes_as_far_as_the_driver(void **state)
{
    (void)state;
    fx_error err = {0};
    plans = true;
    const fx_status st = ask_support(packed_cache(16, 128), 90, &err);
    plans = false;
    if (st != FX_OK && !strstr(err.text, "cuLibraryLoadData")) fail_msg("%s", err.text);
}

// Prompts: the same caches with several new tokens in a sequence, each of which sees what is before
// it.
static void test_prompts_with_a_mask(void **state)
{
    (void)state;
    fxi_sdpa_shape shape = packed_cache(4, 128);
    shape.max_q_tok = 512;
    assert_supported(shape);
    shape = packed_cache(1, 64);
    shape.max_q_tok = 16;
    shape.type = FXI_F16;
    assert_supported(shape);
}

static void test_f16_and_other_heads(void **state)
{
    (void)state;
    fxi_sdpa_shape shape = packed_cache(16, 80);
    assert_supported(shape);
    shape.type = FXI_F16;
    assert_supported(shape);
}

// What it does not support it says in one line.
static void test_odd_heads_are_refused(void **state)
{
    (void)state;
    fx_error err = {0};
    assert_int_equal(ask_support(packed_cache(16, 100), 90, &err), FX_EINVAL);
    print_message("%s\n", err.text);
    assert_null(strchr(err.text, '\n'));
}

static void fail_each_call(fxi_sdpa_shape shape)
{
    fx_error err = {0};
    n_call = 0;
    assert_int_equal(ask_support(shape, 90, &err), FX_OK);
    const int n = n_call;
    for (fail_at = 0; fail_at < n; fail_at++) {
        n_call = 0;
        assert_int_equal(ask_support(shape, 90, &err), FX_ENOMEM);
        assert_non_null(strstr(err.text, "cudnnBackend"));
    }
    fail_at = -1;
}

static void test_each_call_may_fail(void **state)
{
    (void)state;
    fxi_sdpa_shape shape = packed_cache(4, 128);
    fail_each_call(shape);
    shape.max_q_tok = 32;
    fail_each_call(shape);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_caches_anywhere_with_interleaved_layers),
        cmocka_unit_test(test_layers_side_by_side),
        cmocka_unit_test(test_a_plan_goes_as_far_as_the_driver),
        cmocka_unit_test(test_prompts_with_a_mask),
        cmocka_unit_test(test_f16_and_other_heads),
        cmocka_unit_test(test_odd_heads_are_refused),
        cmocka_unit_test(test_each_call_may_fail),
    };
    load_library();
    return cmocka_run_group_tests(tests, NULL, NULL);
}
