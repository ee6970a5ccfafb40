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
    assert_int_equal(comm.n_rank, 0);
}

FX_RUN(test_gpu_comm_none)
