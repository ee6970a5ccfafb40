// cuda_test.h - shared by the tests of the CUDA kernels: a launch by id on the emulator.
#ifndef CUDA_TEST_H
#define CUDA_TEST_H

#include "kernels_test.h"

#include "emu_rig.h"
#include "kernels/cuda/cuda_launch.h"
#include "kernels/cuda/cuda_pack.h"
#include "kernels/cuda/cuda_plan.h"

static const emu_library *library;

static inline int open_kernels(void **state)
{
    (void)state;
    const char *other = getenv("STANDIN_KERNELS"); // the checked build of the same
    library = emu_rig_open(other ? other : CUDA_KERNELS);
    return library ? 0 : -1;
}

// Launches the kernel as its shape says; args: its struct.
static inline void launch(fxi_cuda_kernel_id id, const void *args)
{
    const fxi_cuda_kernel *k = fxi_cuda_kernel_find(id);
    fxi_cuda_grid g;
    k->shape(args, &g);
    if (!g.grid[0] || !g.grid[1] || !g.grid[2]) return;
    const emu_size grid = {g.grid[0], g.grid[1], g.grid[2]};
    const emu_size block = {g.block[0], g.block[1], g.block[2]};
    const int fault = emu_rig_run(library, k->name, grid, block, g.shared_bytes, args);
    if (fault) fail_msg("%s: fault %d\n%s", k->name, fault, fault < 0 ? "" : library->faults());
}

static inline void *zeroed(size_t n, size_t bytes)
{
    return calloc(n ? n : 1, bytes);
}

// Rows of activations in every form that n allows, zeroed.
static inline fxi_cuda_act act_new(size_t n_row, size_t n)
{
    fxi_cuda_act a = {.x = zeroed(n_row * n, sizeof(float)),
                      .f16 = zeroed(n_row * n, sizeof(uint16_t)),
                      .b16 = zeroed(n_row * n, sizeof(uint16_t))};
    if (n % 32) return a;
    a.q = zeroed(n_row * n, 1);
    a.d = zeroed(n_row * n / 32, sizeof(float));
    a.sum = zeroed(n_row * n / 16, sizeof(int32_t));
    return a;
}

static inline void act_release(fxi_cuda_act *a)
{
    guarded_free_all(a->x, a->f16, a->b16, a->q, a->d, a->sum);
}

static inline void assert_quantised(const fxi_cuda_act *a, const float *want, size_t n)
{
    int8_t *q = zeroed(n, 1);
    float *d = zeroed(n / 32, sizeof *d);
    int32_t *sum = zeroed(n / 16, sizeof *sum);
    ref_path()->quant_q8(want, (int)n, q, d, sum);
    assert_memory_equal(a->q, q, n);
    assert_memory_equal(a->d, d, n / 32 * sizeof *d);
    assert_memory_equal(a->sum, sum, n / 16 * sizeof *sum);
    guarded_free_all(q, d, sum);
}

// Every form of `a` has these n numbers, rounded as it is.
static inline void assert_act(const char *what, const fxi_cuda_act *a, const float *want, size_t n)
{
    assert_same(what, a->x, want, n);
    for (size_t i = 0; i < n; i++) {
        assert_int_equal(a->f16[i], fxi_f32_to_f16(want[i]));
        assert_int_equal(a->b16[i], fxi_f32_to_bf16(want[i]));
    }
    if (a->q) assert_quantised(a, want, n);
}

#endif
