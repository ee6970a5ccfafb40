// test_gpu_comm_none.c - several GPUs in a build without NCCL.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "gpu/comm/comm.h"

FX_TEST(test_a_build_without_nccl_says_so_in_one_line)
{
    fxi_cu one = {.label = "cuda:0"}, other = {.label = "cuda:1"};
    fxi_cu *const both[] = {&one, &other};
    fxi_comm comm;
    fx_error err = {0};
    assert_int_equal(fxi_comm_open(&comm, both, 2, &err), FX_EINVAL);
    assert_string_equal(err.text, "cuda:0, cuda:1: this program was built without NCCL (FX_NCCL)");
    assert_false(fxi_comm_is_open(&comm));
}

FX_TEST(test_one_gpu_needs_none)
{
    fxi_cu one = {.label = "cuda:0"};
    fxi_cu *const all[] = {&one};
    fxi_comm comm;
    float x = 1;
    float *const data[] = {&x};
    assert_int_equal(fxi_comm_open(&comm, all, 1, NULL), FX_OK);
    assert_int_equal(fxi_comm_sum(&comm, data, 1, NULL), FX_OK);
    assert_true(x == 1);
    fxi_comm_close(&comm);
    assert_false(fxi_comm_is_open(&comm));
}

FX_RUN(test_gpu_comm_none)
