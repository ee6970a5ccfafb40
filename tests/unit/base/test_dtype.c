// test_dtype.c - the conversions, on every 16-bit number, and the rounding ones at and around every
// midpoint between two neighbours; where the compiler has _Float16, also against it on random bits.
#include <math.h>
#include <string.h>

#include "base/number/dtype.h"
#include "base/number/rng.h"
#include "unit/cmocka_all.h"

static uint32_t bits(float f)
{
    uint32_t u;
    memcpy(&u, &f, sizeof u);
    return u;
}

static float from_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

FX_TEST(test_table_is_consistent)
{
    int n = 0;
    for (uint32_t id = 0; id < 300; id++) {
        const fxi_dtype_info *t = fxi_dtype_find(id);
        if (!t) continue;
        n++;
        assert_int_equal(t->id, id);
        assert_ptr_equal(fxi_dtype_by_name(t->name), t);
        assert_true(t->block_elems && t->block_bytes);
    }
    assert_int_equal(n, 32);
    assert_null(fxi_dtype_find(4)); // withdrawn
    assert_null(fxi_dtype_find(UINT32_MAX));
    assert_null(fxi_dtype_by_name("Q8"));
    assert_null(fxi_dtype_by_name(""));
}

FX_TEST(test_table_has_the_sizes)
{
    const fxi_dtype_info *t = fxi_dtype_by_name("q8_0");
    assert_int_equal(t->id, FXI_Q8_0);
    assert_int_equal(t->block_elems, FXI_Q8_0_ELEMS);
    assert_int_equal(t->block_bytes, sizeof(fxi_block_q8_0));
    assert_true(t->runs);
    t = fxi_dtype_by_name("Q4_K");
    assert_int_equal(t->block_elems, 256);
    assert_int_equal(t->block_bytes, 144);
    assert_true(t->runs);
    assert_true(fxi_dtype_by_name("IQ4_XS")->runs);
    assert_false(fxi_dtype_by_name("IQ2_XS")->runs);
    assert_int_equal(fxi_dtype_find(FXI_BF16)->block_bytes, 2);
}

// What the 16 bits mean, by the definition of the format.
static double f16_value(uint16_t h)
{
    int exp = h >> 10 & 31, mant = h & 0x3ff;
    double mag = exp ? ldexp(1024 + mant, exp - 25) : ldexp(mant, -24);
    if (exp == 31) mag = mant ? NAN : INFINITY;
    return h & 0x8000 ? -mag : mag;
}

FX_TEST(test_f16_every_number)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = fxi_f16_to_f32((uint16_t)h);
        double want = f16_value((uint16_t)h);
        if (isnan(want)) {
            assert_true(isnan(f) && isnan(fxi_f16_to_f32(fxi_f32_to_f16(f))));
            continue;
        }
        assert_true((double)f == want && !signbit(f) == !(h & 0x8000));
        assert_int_equal(fxi_f32_to_f16(f), h);
    }
}

// Between each number and its upper neighbour: the midpoint goes to the even one, its neighbours to
// the nearer.
FX_TEST(test_f16_rounds_to_nearest_even)
{
    for (uint32_t h = 0; h < 0x7c00; h++) {
        double above = h == 0x7bff ? 65536 : f16_value((uint16_t)(h + 1));
        float mid = (float)((f16_value((uint16_t)h) + above) / 2); // exact
        uint32_t even = h & 1 ? h + 1 : h;
        for (uint32_t sign = 0; sign <= 0x8000; sign += 0x8000) {
            float s = sign ? -1.0f : 1.0f;
            assert_int_equal(fxi_f32_to_f16(s * mid), sign | even);
            assert_int_equal(fxi_f32_to_f16(s * nextafterf(mid, 0)), sign | h);
            assert_int_equal(fxi_f32_to_f16(s * nextafterf(mid, INFINITY)), sign | (h + 1));
        }
    }
    assert_int_equal(fxi_f32_to_f16(3.4e38f), 0x7c00);
    assert_int_equal(fxi_f32_to_f16(-1e-45f), 0x8000);
}

FX_TEST(test_f16_agrees_with_the_compiler)
{
#ifdef __FLT16_MAX__
    for (uint64_t i = 0; i < 300000; i++) {
        float f = from_bits((uint32_t)fxi_rng_u64(1, 0, i));
        _Float16 want = (_Float16)f;
        uint16_t h;
        memcpy(&h, &want, sizeof h);
        if (!isnan(f)) assert_int_equal(fxi_f32_to_f16(f), h);
    }
#else
    skip();
#endif
}

FX_TEST(test_bf16_every_number)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        float f = fxi_bf16_to_f32((uint16_t)h);
        assert_int_equal(bits(f), h << 16);
        if (isnan(f))
            assert_true(isnan(fxi_bf16_to_f32(fxi_f32_to_bf16(f))));
        else
            assert_int_equal(fxi_f32_to_bf16(f), h);
    }
    assert_true(isnan(fxi_bf16_to_f32(fxi_f32_to_bf16(from_bits(0x7f800001)))));
}

FX_TEST(test_bf16_rounds_to_nearest_even)
{
    for (uint32_t h = 0; h < 0x10000; h++) {
        if ((h & 0x7f80) == 0x7f80) continue;
        assert_int_equal(fxi_f32_to_bf16(from_bits(h << 16 | 0x7fff)), h);
        assert_int_equal(fxi_f32_to_bf16(from_bits(h << 16 | 0x8000)), h & 1 ? h + 1 : h);
        assert_int_equal(fxi_f32_to_bf16(from_bits(h << 16 | 0x8001)), h + 1);
    }
}

enum { N_ROW = 256 };

static void random_row(float *x, uint64_t stream, float scale)
{
    for (uint64_t i = 0; i < N_ROW; i++) x[i] = scale * (float)(2 * fxi_rng_unit(3, stream, i) - 1);
}

// 16-bit and f32 rows, also at odd addresses.
FX_TEST(test_rows_round_trip)
{
    static const fxi_dtype types[] = {FXI_F32, FXI_F16, FXI_BF16};
    float x[N_ROW], back[N_ROW], again[N_ROW];
    random_row(x, 0, 3);
    for (int i = 0; i < 3; i++) {
        char raw[N_ROW * 4 + 1];
        fxi_row_from_f32(types[i], x, N_ROW, raw + 1);
        fxi_row_to_f32(types[i], raw + 1, N_ROW, back);
        fxi_row_from_f32(types[i], back, N_ROW, raw + 1);
        fxi_row_to_f32(types[i], raw + 1, N_ROW, again);
        assert_memory_equal(back, again, sizeof back);
        for (int k = 0; k < N_ROW; k++) assert_true(fabsf(back[k] - x[k]) <= fabsf(x[k]) / 256);
    }
}

FX_TEST(test_q8_0_row_is_near)
{
    static const float scales[] = {1, 1e-3f, 1e-6f, 1e4f};
    for (int s = 0; s < 4; s++) {
        float x[N_ROW], back[N_ROW];
        fxi_block_q8_0 blk[N_ROW / FXI_Q8_0_ELEMS];
        random_row(x, 1, scales[s]);
        fxi_row_from_f32(FXI_Q8_0, x, N_ROW, blk);
        fxi_row_to_f32(FXI_Q8_0, blk, N_ROW, back);
        for (int k = 0; k < N_ROW; k++) {
            float d = fxi_f16_to_f32(blk[k / 32].d);
            float d_error = d * 0x1p-11f + 0x1p-25f; // of storing the scale as f16
            assert_true(fabsf(back[k] - x[k]) <= 0.5001f * d + 128 * d_error);
        }
    }
}

FX_TEST(test_q8_0_block_by_hand)
{
    float x[32] = {254, -254, 1, -1, 3, 0.99f, 127};
    fxi_block_q8_0 blk;
    fxi_row_from_f32(FXI_Q8_0, x, 32, &blk);
    assert_int_equal(blk.d, 0x4000);                               // 2.0
    static const int8_t want[8] = {127, -127, 1, -1, 2, 0, 64, 0}; // halves away from zero
    assert_memory_equal(blk.q, want, sizeof want);
    memset(x, 0, sizeof x);
    fxi_row_from_f32(FXI_Q8_0, x, 32, &blk);
    static const fxi_block_q8_0 zero;
    assert_memory_equal(&blk, &zero, sizeof blk);
    x[5] = 1e-45f; // a scale that underflows to zero
    fxi_row_from_f32(FXI_Q8_0, x, 32, &blk);
    assert_memory_equal(&blk, &zero, sizeof blk);
}

FX_RUN(test_dtype)
