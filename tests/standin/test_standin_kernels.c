// test_standin_kernels.c - the stand-in for the driver runs kernels as a device would: in the order
// of streams and graphs, late, on memory that the host cannot touch; and a kernel's fault breaks
// the context.
#include "emulator/sample.h"
#include "standin/state.h"
#include "suite.h"
#include "unit/cmocka_all.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

static const char image[64] = STANDIN_IMAGE;
static vti_cu_module module;

#define OK(call) assert_int_equal(call, VTI_CU_SUCCESS)

static int open_world(void **state)
{
    (void)state;
    vti_cu_context context;
    setenv("STANDIN_KERNELS", EMU_SAMPLE, 1);
    standin_reset();
    standin_use_context(-1);
    OK(cuInit(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0));
    OK(cuCtxSetCurrent(context));
    OK(cuModuleLoadData(&module, image));
    return 0;
}

static int close_world(void **state)
{
    (void)state;
    (void)cuModuleUnload(module);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    if (standin_left()) fail_msg("%s", standin_left());
    return 0;
}

static vti_cu_function find_kernel(const char *name)
{
    vti_cu_function f = NULL;
    OK(cuModuleGetFunction(&f, module, name));
    return f;
}

static vti_cu_ptr new_memory(const void *bytes, size_t n)
{
    vti_cu_ptr at = 0;
    OK(cuMemAlloc_v2(&at, n));
    if (bytes) OK(cuMemcpyHtoD_v2(at, bytes, n));
    return at;
}

static vti_cu_result launch(const char *name, vti_cu_stream stream, const sample_args *args)
{
    void *params[] = {(void *)args};
    return cuLaunchKernel(find_kernel(name), 1, 1, 1, 32, 1, 1, 0, stream, params, NULL);
}

// Whether the host may read there, asked of the system.
static bool host_can_read(vti_cu_ptr at)
{
    int ends[2];
    assert_int_equal(pipe(ends), 0);
    bool can = write(ends[1], (const void *)(uintptr_t)at, 1) == 1;
    close(ends[0]);
    close(ends[1]);
    return can;
}

// Work is done late, in the stream's order, with the arguments of the launch.
FX_TEST(test_launches_run_in_order_and_late)
{
    float x[32], y[32], *pinned;
    for (int i = 0; i < 32; i++) x[i] = (float)i;
    const vti_cu_ptr at = new_memory(x, sizeof x);
    sample_args a = {.out = (void *)at, .by = 3, .n = 32};
    vti_cu_stream s;
    OK(cuStreamCreate(&s, VTI_CU_STREAM_NON_BLOCKING));
    OK(cuMemHostAlloc((void **)&pinned, sizeof x, 0));
    memset(pinned, 0, sizeof x);
    OK(launch("sample_scale", s, &a));
    a.by = 5;
    OK(launch("sample_scale", s, &a));
    a.by = 1000; // nobody sees that
    OK(cuMemcpyDtoHAsync_v2(pinned, at, sizeof x, s));
    assert_true(pinned[1] == 0);
    OK(cuMemcpyDtoH_v2(y, at, sizeof y)); // of the default stream, which waits for no other
    assert_true(y[1] == 1);
    OK(cuStreamSynchronize(s));
    for (int i = 0; i < 32; i++) assert_true(pinned[i] == 15 * x[i]);
    OK(cuMemFree_v2(at));
    OK(cuMemFreeHost(pinned));
    OK(cuStreamDestroy_v2(s));
}

FX_TEST(test_the_host_cannot_touch_device_memory)
{
    int word = 7;
    vti_cu_ptr at = new_memory(&word, sizeof word);
    assert_false(host_can_read(at));
    assert_true(host_can_read((uintptr_t)&word));
    word = 0;
    OK(cuMemcpyDtoH_v2(&word, at, sizeof word));
    assert_int_equal(word, 7);
    assert_int_not_equal(cuMemcpyDtoH_v2(&word, at + 4, 4), VTI_CU_SUCCESS); // beyond its end
    OK(cuMemFree_v2(at));
    assert_int_equal(standin_look().n_breach, 1);
    standin_reset();
    OK(open_world(NULL));
}

// From the wait that runs it on, all calls answer the error; what is freed is free nevertheless.
FX_TEST(test_a_fault_breaks_the_context)
{
    vti_cu_ptr at = new_memory(NULL, 64), other;
    vti_cu_context context;
    const sample_args a = {.out = (void *)(uintptr_t)0x1000, .by = 1, .n = 1};
    vti_cu_function f = find_kernel("sample_scale");
    void *params[] = {(void *)&a};
    OK(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL));
    assert_int_equal(cuStreamSynchronize(NULL), CU_ILLEGAL_ADDRESS);
    assert_non_null(strstr(standin_faults(), "sample_scale: sample.cu:"));
    assert_int_equal(cuStreamSynchronize(NULL), CU_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemAlloc_v2(&other, 64), CU_ILLEGAL_ADDRESS);
    assert_int_equal(cuLaunchKernel(f, 1, 1, 1, 1, 1, 1, 0, NULL, params, NULL),
                     CU_ILLEGAL_ADDRESS);
    assert_int_equal(cuMemFree_v2(at), CU_ILLEGAL_ADDRESS);
    assert_int_equal(cuModuleUnload(module), CU_ILLEGAL_ADDRESS);
    assert_int_equal(standin_look().n_alloc + standin_look().n_module, 0);
    OK(cuDevicePrimaryCtxRelease_v2(0));
    OK(cuDevicePrimaryCtxRetain(&context, 0)); // a new one
    OK(cuModuleLoadData(&module, image));
    OK(launch("sample_scale", NULL, &(sample_args){0}));
    OK(cuStreamSynchronize(NULL));
}

// ---- graphs

static vti_cu_node add_append(vti_cu_graph g, vti_cu_node after, vti_cu_ptr at, int word)
{
    vti_cu_node n = NULL;
    sample_args a = {.out = (void *)at, .n = word};
    vti_cu_kernel_node p = {.function = find_kernel("sample_append"),
                            .grid = {1, 1, 1},
                            .block = {1, 1, 1},
                            .params = (void *[]){&a}};
    OK(cuGraphAddKernelNode_v2(&n, g, &after, after != NULL, &p));
    return n;
}

static void assert_list(vti_cu_ptr at, int n, const int *words)
{
    int got[16] = {0};
    OK(cuMemcpyDtoH_v2(got, at, sizeof got));
    assert_int_equal(got[0], n);
    for (int i = 0; i < n; i++) assert_int_equal(got[i + 1], words[i]);
}

FX_TEST(test_graphs_follow_their_edges_and_nothing_else)
{
    int empty[16] = {0};
    vti_cu_ptr at = new_memory(empty, sizeof empty);
    vti_cu_graph g;
    vti_cu_exec e;
    OK(cuGraphCreate(&g, 0));
    vti_cu_node first = add_append(g, NULL, at, 1), second = add_append(g, first, at, 2);
    (void)add_append(g, second, at, 3);
    (void)add_append(g, NULL, at, 4); // nothing says that it comes last
    OK(cuGraphInstantiateWithFlags(&e, g, 0));
    OK(cuGraphDestroy(g));
    OK(cuGraphLaunch(e, NULL));
    assert_list(at, 4, (int[]){4, 1, 2, 3});
    OK(cuGraphLaunch(e, NULL));
    assert_list(at, 8, (int[]){4, 1, 2, 3, 4, 1, 2, 3});
    OK(cuGraphExecDestroy(e));
    OK(cuMemFree_v2(at));
}

static void enter_device(int device)
{
    vti_cu_context context;
    OK(cuDevicePrimaryCtxRetain(&context, device));
    OK(cuCtxPushCurrent_v2(context));
}

static void leave_device(int device)
{
    vti_cu_context context;
    OK(cuCtxPopCurrent_v2(&context));
    OK(cuDevicePrimaryCtxRelease_v2(device));
}

// A kernel reaches the memory of its own device, and runs where its module was loaded.
FX_TEST(test_devices_are_apart)
{
    const float x[32] = {1};
    sample_args a = {.by = 3, .n = 32};
    vti_cu_stream here, there;
    OK(cuStreamCreate(&here, VTI_CU_STREAM_NON_BLOCKING));
    enter_device(1);
    OK(cuStreamCreate(&there, VTI_CU_STREAM_NON_BLOCKING));
    a.out = (void *)new_memory(x, sizeof x);
    assert_int_equal(launch("sample_scale", there, &a), CU_INVALID_VALUE);
    leave_device(1);
    assert_int_equal(standin_look().n_breach, 0);
    assert_int_equal(launch("sample_scale", there, &a), CU_INVALID_VALUE);
    assert_int_equal(standin_look().n_breach, 1);
    OK(launch("sample_scale", here, &a));
    assert_int_equal(cuStreamSynchronize(here), CU_ILLEGAL_ADDRESS);
    standin_reset();
    (void)open_world(NULL);
}

FX_RUN_EACH(test_standin_kernels, open_world, close_world)
