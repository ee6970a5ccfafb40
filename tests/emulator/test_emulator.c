// test_emulator.c - kernels on the CPU do what plain C says they do, whatever the order in which
// the threads of a block take turns.
#include "emu_rig.h"
#include "sample.h"
#include "suite.h"
#include "unit/cmocka_all.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const emu_library *library;
static const emu_size one = {1, 1, 1}, warp = {32, 1, 1};

static int open_library(void **state)
{
    (void)state;
    library = emu_rig_open(EMU_SAMPLE);
    return library ? 0 : -1;
}

static void run_kernel(const char *name, emu_size grid, emu_size block, size_t dynamic,
                       const sample_args *args)
{
    int r = emu_rig_run(library, name, grid, block, dynamic, args);
    if (r != EMU_FAULT_NONE) fail_msg("%s: fault %d\n%s", name, r, library->faults());
}

static float small_number(int i)
{
    return (float)((i * 37 + 11) % 64 - 32) / 8;
}

FX_TEST(test_sums_of_a_block)
{
    enum { N = 1000, BLOCK = 128, N_BLOCK = 8 };
    float x[N], sum[N_BLOCK];
    int whole[N_BLOCK];
    for (int i = 0; i < N; i++) x[i] = (float)(i % 13);
    run_kernel("sample_sum", (emu_size){N_BLOCK, 1, 1}, (emu_size){BLOCK, 1, 1}, 0,
               &(sample_args){.a = x, .out = sum, .more = whole, .n = N});
    for (int b = 0; b < N_BLOCK; b++) {
        int expected = 0;
        for (int i = b * BLOCK; i < (b + 1) * BLOCK && i < N; i++) expected += i % 13;
        assert_int_equal(whole[b], expected);
        assert_true(sum[b] == (float)expected);
    }
}

// An f16 or bf16 that holds a small multiple of 1/8.
static uint16_t narrow_bits(float v, bool bf16)
{
    uint32_t u;
    memcpy(&u, &v, sizeof u);
    if (bf16 || v == 0) return (uint16_t)(u >> 16);
    return (uint16_t)((u >> 16 & 0x8000) | (((u & 0x7FFFFFFF) - (112u << 23)) >> 13));
}

FX_TEST(test_mma_of_f16_and_bf16)
{
    uint16_t a[16 * 16], b[8 * 16];
    float d[16 * 8];
    for (int bf16 = 0; bf16 < 2; bf16++) {
        for (int i = 0; i < 256; i++) a[i] = narrow_bits(small_number(i), bf16);
        for (int i = 0; i < 128; i++) b[i] = narrow_bits(small_number(3 * i + 5), bf16);
        run_kernel("sample_mma", one, warp, 0, &(sample_args){.a = a, .b = b, .out = d, .n = bf16});
        for (int row = 0; row < 16; row++)
            for (int col = 0; col < 8; col++) {
                float sum = 0;
                for (int k = 0; k < 16; k++)
                    sum += small_number(row * 16 + k) * small_number(3 * (col * 16 + k) + 5);
                assert_true(d[row * 8 + col] == sum);
            }
    }
}

// The runtime takes a shorter way where a column is zeros: infinity times zero is none of its.
FX_TEST(test_mma_of_zeros)
{
    enum { ROW = 2, COL = 3 };
    uint16_t a[16 * 16], b[8 * 16];
    float d[16 * 8];
    for (int i = 0; i < 256; i++) a[i] = narrow_bits(small_number(i), false);
    for (int i = 0; i < 128; i++) b[i] = i / 16 == COL ? 0x8000 * (i % 2) : 0x3C00; // -0, 0; 1
    a[ROW * 16 + 5] = 0x7C00;
    run_kernel("sample_mma", one, warp, 0, &(sample_args){.a = a, .b = b, .out = d});
    for (int row = 0; row < 16; row++) {
        const float got = d[row * 8 + COL];
        assert_true(row == ROW ? got != got : got == 0);
    }
}

FX_TEST(test_mma_of_int8)
{
    int8_t a[16 * 32], b[8 * 32];
    int d[16 * 8];
    for (int i = 0; i < 512; i++) a[i] = (int8_t)(i * 29 - 128);
    for (int i = 0; i < 256; i++) b[i] = (int8_t)(i * 83 + 7);
    run_kernel("sample_mma_s8", one, warp, 0, &(sample_args){.a = a, .b = b, .out = d});
    for (int row = 0; row < 16; row++)
        for (int col = 0; col < 8; col++) {
            int sum = 0;
            for (int k = 0; k < 32; k++) sum += a[row * 32 + k] * b[col * 32 + k];
            assert_int_equal(d[row * 8 + col], sum);
        }
}

FX_TEST(test_ldmatrix_transposes)
{
    _Alignas(16) uint16_t in[256];
    uint32_t out[32][4];
    for (int i = 0; i < 256; i++) in[i] = (uint16_t)(i * 257);
    run_kernel("sample_ldmatrix", one, warp, 512, &(sample_args){.a = in, .out = out});
    for (int lane = 0; lane < 32; lane++)
        for (int m = 0; m < 4; m++)
            for (int i = 0; i < 2; i++)
                assert_int_equal(out[lane][m] >> 16 * i & 0xFFFF,
                                 in[m * 64 + (lane % 4 * 2 + i) * 8 + lane / 4]);
}

FX_TEST(test_shuffles_of_every_kind)
{
    int in[32], out[4][32];
    for (int i = 0; i < 32; i++) in[i] = 100 + i * i;
    run_kernel("sample_shuffle", one, warp, 0, &(sample_args){.a = in, .out = out});
    for (int i = 0; i < 32; i++) {
        assert_int_equal(out[0][i], in[5]);
        assert_int_equal(out[1][i], in[i % 8 + 3 >= 8 ? i : i + 3]);
        assert_int_equal(out[2][i], in[i ^ 1]);
        assert_int_equal(out[3][i], i < 16 ? in[15 - i] : -1);
    }
}

FX_TEST(test_every_order)
{
    static const char *const orders[] = {"up", "down", "1", "2", "3"};
    for (int i = 0; i < 5; i++) {
        setenv("EMU_ORDER", orders[i], 1);
        test_sums_of_a_block(state);
        test_mma_of_f16_and_bf16(state);
        test_ldmatrix_transposes(state);
        test_shuffles_of_every_kind(state);
    }
    unsetenv("EMU_ORDER");
}

FX_TEST(test_odd_launches_are_refused)
{
    const emu_size none = {1, 0, 1}, many = {1024, 2, 1};
    const sample_args v = {0};
    assert_int_equal(emu_rig_run(library, "no_such_kernel", one, one, 0, &v), -1);
    assert_int_equal(emu_rig_run(library, "sample_scale", none, one, 0, &v), EMU_FAULT_CONFIG);
    assert_int_equal(emu_rig_run(library, "sample_scale", one, many, 0, &v), EMU_FAULT_CONFIG);
    assert_int_equal(emu_rig_run(library, "sample_scale", one, one, 228 << 10, &v),
                     EMU_FAULT_CONFIG);
}

FX_TEST(test_an_address_that_is_not_there_ends_the_launch)
{
    int out[128];
    const sample_args nowhere = {.a = (const void *)(uintptr_t)0x1000, .out = out};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(emu_rig_run(library, "sample_shuffle", one, warp, 0, &nowhere),
                         EMU_FAULT_ADDRESS);
        assert_non_null(strstr(library->faults(), "sample_shuffle: sample.cu:"));
        assert_non_null(strstr(library->faults(), "access at 0x1000"));
    }
    test_shuffles_of_every_kind(state); // and the next one runs
}

FX_RUN_GROUP(test_emulator, open_library, NULL)
