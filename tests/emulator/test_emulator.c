// test_emulator.c - kernels on the CPU do what plain C says they do, whatever the order in which
// the threads of a block take turns.
#include "emu_rig.h"
#include "suite.h"
#include "unit/cmocka_all.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static const emu_library *library;

static int open_library(void **state)
{
    (void)state;
    library = emu_rig_open(EMU_SAMPLE);
    return library ? 0 : -1;
}

#define ARGS(...) ((void *[]){__VA_ARGS__})
#define RUN(name, grid, block, dynamic, ...) \
    run_kernel(name, (emu_size)grid, (emu_size)block, dynamic, ARGS(__VA_ARGS__))
#define SIZE(...)   \
    {               \
        __VA_ARGS__ \
    }

static void run_kernel(const char *name, emu_size grid, emu_size block, size_t dynamic, void **args)
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
    float x[N], sum[N_BLOCK], *px = x, *psum = sum;
    int whole[N_BLOCK], *pwhole = whole, n = N;
    for (int i = 0; i < N; i++) x[i] = (float)(i % 13);
    RUN("sample_sum", SIZE(N_BLOCK, 1, 1), SIZE(BLOCK, 1, 1), 0, &px, &pwhole, &psum, &n);
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

static void run_mma(const uint16_t *a, const uint16_t *b, float *d, int bf16)
{
    struct {
        const uint16_t *a, *b;
        float *d;
        int bf16;
    } v = {a, b, d, bf16};
    RUN("sample_mma", SIZE(1, 1, 1), SIZE(32, 1, 1), 0, &v);
}

static void check_mma(int bf16)
{
    uint16_t a[16 * 16], b[8 * 16];
    float d[16 * 8];
    for (int i = 0; i < 256; i++) a[i] = narrow_bits(small_number(i), bf16);
    for (int i = 0; i < 128; i++) b[i] = narrow_bits(small_number(3 * i + 5), bf16);
    run_mma(a, b, d, bf16);
    for (int row = 0; row < 16; row++)
        for (int col = 0; col < 8; col++) {
            float sum = 0;
            for (int k = 0; k < 16; k++)
                sum += small_number(row * 16 + k) * small_number(3 * (col * 16 + k) + 5);
            assert_true(d[row * 8 + col] == sum);
        }
}

FX_TEST(test_mma_of_f16_and_bf16)
{
    check_mma(0);
    check_mma(1);
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
    run_mma(a, b, d, false);
    for (int row = 0; row < 16; row++) {
        if (row == ROW)
            assert_true(d[row * 8 + COL] != d[row * 8 + COL]);
        else
            assert_true(d[row * 8 + COL] == 0);
    }
}

FX_TEST(test_mma_of_int8)
{
    int8_t a[16 * 32], b[8 * 32], *pa = a, *pb = b;
    int d[16 * 8], *pd = d;
    for (int i = 0; i < 512; i++) a[i] = (int8_t)(i * 29 - 128);
    for (int i = 0; i < 256; i++) b[i] = (int8_t)(i * 83 + 7);
    RUN("sample_mma_s8", SIZE(1, 1, 1), SIZE(32, 1, 1), 0, &pa, &pb, &pd);
    for (int row = 0; row < 16; row++)
        for (int col = 0; col < 8; col++) {
            int sum = 0;
            for (int k = 0; k < 32; k++) sum += a[row * 32 + k] * b[col * 32 + k];
            assert_int_equal(d[row * 8 + col], sum);
        }
}

FX_TEST(test_ldmatrix_of_every_kind)
{
    static const int n_matrix[] = {1, 2, 4};
    uint16_t in[256], *pin = in;
    uint32_t out[6][32][4], *pout = &out[0][0][0];
    for (int i = 0; i < 256; i++) in[i] = (uint16_t)(i * 257);
    RUN("sample_ldmatrix", SIZE(1, 1, 1), SIZE(32, 1, 1), 512, &pin, &pout);
    for (int kind = 0; kind < 6; kind++)
        for (int lane = 0; lane < 32; lane++)
            for (int m = 0; m < n_matrix[kind % 3]; m++)
                for (int i = 0; i < 2; i++) {
                    int row = lane / 4, col = lane % 4 * 2 + i;
                    int at = m * 64 + (kind < 3 ? row * 8 + col : col * 8 + row);
                    assert_int_equal(out[kind][lane][m] >> 16 * i & 0xFFFF, in[at]);
                }
}

FX_TEST(test_shuffles_of_every_kind)
{
    int in[32], out[4][32], *pin = in, *pout = &out[0][0];
    for (int i = 0; i < 32; i++) in[i] = 100 + i * i;
    RUN("sample_shuffle", SIZE(1, 1, 1), SIZE(32, 1, 1), 0, &pin, &pout);
    for (int i = 0; i < 32; i++) {
        assert_int_equal(out[0][i], in[5]);
        assert_int_equal(out[1][i], in[i % 8 + 3 >= 8 ? i : i + 3]);
        assert_int_equal(out[2][i], in[i ^ 1]);
        assert_int_equal(out[3][i], i < 16 ? in[15 - i] : -1);
    }
}

FX_TEST(test_a_part_of_a_block_has_its_barrier)
{
    int in[128], out[128], *pin = in, *pout = out;
    for (int i = 0; i < 128; i++) in[i] = i * i;
    RUN("sample_parts", SIZE(1, 1, 1), SIZE(128, 1, 1), 0, &pin, &pout);
    for (int i = 0; i < 128; i++) assert_int_equal(out[i], in[i / 64 * 64 + (i + 1) % 64]);
}

FX_TEST(test_every_order)
{
    static const char *const orders[] = {"up", "down", "1", "2", "3"};
    for (int i = 0; i < 5; i++) {
        setenv("EMU_ORDER", orders[i], 1);
        test_sums_of_a_block(state);
        test_mma_of_f16_and_bf16(state);
        test_ldmatrix_of_every_kind(state);
        test_shuffles_of_every_kind(state);
        test_a_part_of_a_block_has_its_barrier(state);
    }
    unsetenv("EMU_ORDER");
}

FX_TEST(test_odd_launches_are_refused)
{
    int in[1], *p = in;
    emu_size one = {1, 1, 1}, none = {1, 0, 1}, many = {1024, 2, 1};
    void *args[] = {&p, &p};
    assert_int_equal(emu_rig_run(library, "no_such_kernel", one, one, 0, args), -1);
    assert_int_equal(emu_rig_run(library, "sample_parts", none, one, 0, args), EMU_FAULT_CONFIG);
    assert_int_equal(emu_rig_run(library, "sample_parts", one, many, 0, args), EMU_FAULT_CONFIG);
    assert_int_equal(emu_rig_run(library, "sample_parts", one, one, 228 << 10, args),
                     EMU_FAULT_CONFIG);
}

FX_TEST(test_an_address_that_is_not_there_ends_the_launch)
{
    int *nowhere = (int *)(uintptr_t)0x1000, out[128], *pout = out;
    emu_size one = {1, 1, 1}, block = {128, 1, 1};
    for (int i = 0; i < 2; i++) {
        assert_int_equal(emu_rig_run(library, "sample_parts", one, block, 0, ARGS(&nowhere, &pout)),
                         EMU_FAULT_ADDRESS);
        assert_non_null(strstr(library->faults(), "sample_parts: sample.cu:"));
        assert_non_null(strstr(library->faults(), "access at 0x1000"));
    }
    test_a_part_of_a_block_has_its_barrier(state); // and the next one runs
}

FX_RUN_GROUP(test_emulator, open_library, NULL)
