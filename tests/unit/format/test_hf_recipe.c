// test_hf_recipe.c - tensors that are made: FP8 with scales, gpt-oss's MXFP4, and the orders of
// rows, against the definitions spelled out.
#include "unit/cmocka_all.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "base/number/rng.h"
#include "format/hf/hf_recipe.h"

static fxi_st_tensor st_tensor(fxi_st_type type, uint32_t elem_bytes, const void *data, int n_dim,
                               const uint64_t *dim)
{
    fxi_st_tensor t = {.name = "t",
                       .type = type,
                       .elem_bytes = elem_bytes,
                       .n_dim = n_dim,
                       .n_elem = 1,
                       .data = data};
    for (int i = 0; i < FXI_ST_MAX_DIM; i++) t.dim[i] = i < n_dim ? dim[i] : 1;
    for (int i = 0; i < n_dim; i++) t.n_elem *= dim[i];
    t.size_bytes = t.n_elem * elem_bytes;
    return t;
}

// ---- FP8 ---------------------------------------------------------------------------------------

// The value of an E4M3 number by the paper's definition; NaN for S.1111.111.
static double e4m3(uint8_t b)
{
    const int exp = b >> 3 & 15, mant = b & 7;
    if (exp == 15 && mant == 7) return (double)NAN;
    const double v = exp ? ldexp(1 + mant / 8.0, exp - 7) : ldexp(mant / 8.0, -6);
    return b & 0x80 ? -v : v;
}

FX_TEST(test_every_fp8_number)
{
    uint8_t bytes[256];
    uint16_t out[256];
    const float one = 1;
    const uint64_t dim[2] = {1, 256}, none[1] = {1};
    for (int i = 0; i < 256; i++) bytes[i] = (uint8_t)i;
    const fxi_st_tensor t = st_tensor(FXI_ST_F8_E4M3, 1, bytes, 2, dim),
                        s = st_tensor(FXI_ST_F32, 4, &one, 1, none);
    fxi_recipe_src src = {.t = &t, .scale = &s, .block_rows = 1, .block_cols = 256};
    const fxi_recipe r = {
        .type = FXI_BF16, .n_dim = 2, .ne = {256, 1, 1, 1}, .src = &src, .n_src = 1, .run = 256};
    assert_null(fxi_recipe_place(&r));
    fxi_recipe_make(&r, 0, 1, out);
    for (int i = 0; i < 256; i++) {
        const double want = e4m3((uint8_t)i), got = (double)fxi_bf16_to_f32(out[i]);
        if (isnan(want) ? !isnan(got) : got != want) fail_msg("%02x: %g, not %g", i, got, want);
        if (want == 0) assert_int_equal(signbit(got) != 0, i >= 128);
    }
}

// Blocks of 128 x 128 over a matrix that does not fill the last ones.
FX_TEST(test_fp8_blocks)
{
    enum { ROWS = 200, COLS = 300, SCALE_COLS = 3 };
    uint8_t *bytes = malloc(ROWS * COLS);
    uint16_t *out = malloc(ROWS * COLS * sizeof *out);
    float scale[2 * SCALE_COLS];
    const uint64_t dim[2] = {ROWS, COLS}, scales[2] = {2, SCALE_COLS};
    for (size_t i = 0; i < ROWS * COLS; i++) bytes[i] = (uint8_t)(fxi_rng_u64(1, 2, i) % 120);
    for (int i = 0; i < 2 * SCALE_COLS; i++) scale[i] = ldexpf(1, i - 3);
    const fxi_st_tensor t = st_tensor(FXI_ST_F8_E4M3, 1, bytes, 2, dim),
                        s = st_tensor(FXI_ST_F32, 4, scale, 2, scales);
    fxi_recipe_src src = {.t = &t, .scale = &s, .block_rows = 128, .block_cols = 128};
    const fxi_recipe r = {.type = FXI_BF16,
                          .n_dim = 2,
                          .ne = {COLS, ROWS, 1, 1},
                          .src = &src,
                          .n_src = 1,
                          .run = COLS};
    fxi_recipe_make(&r, 0, ROWS, out);
    for (int row = 0; row < ROWS; row++)
        for (int col = 0; col < COLS; col++) {
            const int i = row * COLS + col;
            const float want = (float)e4m3(bytes[i]) * scale[row / 128 * SCALE_COLS + col / 128];
            assert_int_equal(out[i], fxi_f32_to_bf16(want));
        }
    free(bytes);
    free(out);
}

// ---- MXFP4 -------------------------------------------------------------------------------------

// Row `row` of blocks and scales as gpt-oss defines them.
static double mx_value(const uint8_t *codes, const uint8_t *scales, uint64_t n_block, uint64_t row,
                       uint64_t i)
{
    static const double e2m1[] = {0, 0.5, 1, 1.5, 2, 3, 4, 6};
    const uint64_t block = row * n_block + i / 32;
    const uint8_t pair = codes[block * 16 + i % 32 / 2], code = i % 2 ? pair >> 4 : pair & 15;
    return ldexp(code & 8 ? -e2m1[code & 7] : e2m1[code], scales[block] - 127);
}

FX_TEST(test_mxfp4_rows)
{
    enum { N_EXPERT = 2, ROWS = 6, N_BLOCK = 3, N_COL = 32 * N_BLOCK };
    uint8_t codes[N_EXPERT * ROWS * N_BLOCK * 16], scales[N_EXPERT * ROWS * N_BLOCK];
    const uint64_t dim[4] = {N_EXPERT, ROWS, N_BLOCK, 16}, few[3] = {N_EXPERT, ROWS, N_BLOCK};
    for (size_t i = 0; i < sizeof codes; i++) codes[i] = (uint8_t)fxi_rng_u64(3, 1, i);
    for (size_t i = 0; i < sizeof scales; i++)
        scales[i] = (uint8_t)(120 + fxi_rng_u64(3, 2, i) % 16);
    const fxi_st_tensor t = st_tensor(FXI_ST_U8, 1, codes, 4, dim),
                        s = st_tensor(FXI_ST_U8, 1, scales, 3, few);
    fxi_recipe_src src = {.t = &t, .scale = &s};
    for (uint64_t odd = 0; odd < 2; odd++) {
        char blocks[ROWS / 2 * N_EXPERT * N_BLOCK * 17];
        float got[N_COL];
        const fxi_recipe r = {.type = FXI_MXFP4,
                              .n_dim = 3,
                              .ne = {N_COL, ROWS / 2, N_EXPERT, 1},
                              .src = &src,
                              .n_src = 1,
                              .run = N_COL,
                              .mxfp4 = true,
                              .view = {{UINT64_MAX, odd, 1, 1, {2}}},
                              .n_view = 1};
        fxi_recipe_make(&r, 0, ROWS / 2 * N_EXPERT, blocks);
        for (uint64_t row = 0; row < ROWS / 2 * N_EXPERT; row++) {
            fxi_row_to_f32(FXI_MXFP4, blocks + row * N_BLOCK * 17, N_COL, got);
            for (uint64_t i = 0; i < N_COL; i++)
                assert_true((double)got[i] == mx_value(codes, scales, N_BLOCK, 2 * row + odd, i));
        }
    }
}

// ---- orders ------------------------------------------------------------------------------------

// Row numbers as data: a made tensor shows where its rows came from.
static void check_rows(fxi_recipe r, uint64_t n_row, const int *want)
{
    enum { MAX_ROW = 32, COLS = 3 };
    float data[MAX_ROW * COLS], out[MAX_ROW * COLS];
    for (int i = 0; i < MAX_ROW * COLS; i++) data[i] = (float)(i / COLS);
    const uint64_t dim[2] = {MAX_ROW, COLS};
    const fxi_st_tensor t = st_tensor(FXI_ST_F32, 4, data, 2, dim);
    fxi_recipe_src src = {.t = &t};
    r.type = FXI_F32;
    r.n_dim = 2;
    r.ne[0] = r.run = COLS;
    r.ne[1] = n_row;
    r.src = &src;
    r.n_src = 1;
    fxi_recipe_make(&r, 0, n_row, out);
    for (uint64_t i = 0; i < n_row; i++)
        for (int c = 0; c < COLS; c++)
            if ((int)out[i * COLS + (uint64_t)c] != want[i])
                fail_msg("row %d is row %d, not %d", (int)i, (int)out[i * COLS], want[i]);
}

FX_TEST(test_orders_of_rows)
{
    static const struct {
        fxi_recipe_view view[3];
        size_t n_view;
        uint64_t n_row;
        int want[16];
    } cases[] = {
        // Pairs of heads of 6; q, k and v of two groups, two heads of two rows each.
        {{{UINT64_MAX, 0, 3, 2, {6, 1, 3}}}, 1, 12, {0, 3, 1, 4, 2, 5, 6, 9, 7, 10, 8, 11}},
        {{{8, 0, 1, 4, {8, 0, 1}}, {4, 4, 1, 2, {8, 0, 1}}, {4, 6, 1, 2, {8, 0, 1}}},
         3,
         16,
         {0, 1, 2, 3, 8, 9, 10, 11, 4, 5, 12, 13, 6, 7, 14, 15}},
        {{{UINT64_MAX, 1, 1, 1, {2}}}, 1, 4, {1, 3, 5, 7}},       // odd rows
        {{{UINT64_MAX, 2, 1, 1, {1}}}, 1, 3, {2, 3, 4}},          // from the third on
        {{{UINT64_MAX, 2, 1, 2, {4, 0, 1}}}, 1, 4, {2, 3, 6, 7}}, // second halves
        {.n_row = 3, .want = {0, 1, 2}},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        fxi_recipe r = {.n_view = cases[i].n_view};
        memcpy(r.view, cases[i].view, sizeof r.view);
        check_rows(r, cases[i].n_row, cases[i].want);
    }
}

FX_TEST(test_transposed_slabs)
{
    enum { N_SLAB = 2, IN = 3, OUT = 4 };
    float data[N_SLAB * IN * OUT], out[N_SLAB * IN * OUT];
    for (int i = 0; i < N_SLAB * IN * OUT; i++) data[i] = (float)i;
    const uint64_t dim[3] = {N_SLAB, IN, OUT};
    const fxi_st_tensor t = st_tensor(FXI_ST_F32, 4, data, 3, dim);
    fxi_recipe_src src = {.t = &t};
    fxi_recipe r = {.type = FXI_F32,
                    .n_dim = 3,
                    .ne = {IN, OUT, N_SLAB, 1},
                    .src = &src,
                    .n_src = 1,
                    .run = 1,
                    .view = {{UINT64_MAX, 0, OUT, IN, {IN * OUT, 1, OUT}}},
                    .n_view = 1};
    fxi_recipe_make(&r, 0, OUT * N_SLAB, out);
    for (int s = 0; s < N_SLAB; s++)
        for (int o = 0; o < OUT; o++)
            for (int i = 0; i < IN; i++)
                assert_true(out[(s * OUT + o) * IN + i] == data[(s * IN + i) * OUT + o]);
    r.ne[1] = OUT / 2;
    r.view[0] = (fxi_recipe_view){UINT64_MAX, 1, OUT / 2, IN, {IN * OUT, 2, OUT}};
    fxi_recipe_make(&r, 0, OUT / 2 * N_SLAB, out);
    for (int s = 0; s < N_SLAB; s++)
        for (int o = 0; o < OUT / 2; o++)
            for (int i = 0; i < IN; i++)
                assert_true(out[(s * OUT / 2 + o) * IN + i] ==
                            data[(s * IN + i) * OUT + 2 * o + 1]);
}

FX_TEST(test_numbers_at_odd_bytes_are_copied)
{
    char room[4 * sizeof(float) + 1];
    const float v[] = {1, -0.0f, 3, 4};
    float out[4];
    const uint64_t dim[1] = {4};
    for (size_t shift = 0; shift < 2; shift++) {
        char *aligned = (char *)(((uintptr_t)room + 3) / 4 * 4);
        char *at = shift ? room + ((uintptr_t)room % 4 == 3 ? 0 : 1) : aligned;
        if (!shift && aligned + sizeof v > room + sizeof room) continue;
        memcpy(at, v, sizeof v);
        const fxi_st_tensor t = st_tensor(FXI_ST_F32, 4, at, 1, dim);
        fxi_recipe_src src = {.t = &t};
        const fxi_recipe r = {
            .type = FXI_F32, .n_dim = 1, .ne = {4, 1, 1, 1}, .src = &src, .n_src = 1, .run = 4};
        const bool odd = (uintptr_t)at % 4 != 0;
        assert_ptr_equal(fxi_recipe_place(&r), odd ? NULL : at);
        fxi_recipe_make(&r, 0, 1, out);
        assert_memory_equal(out, v, sizeof v);
    }
}

FX_RUN(test_hf_recipe)
