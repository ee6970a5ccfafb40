// dtype.c - the table of number formats; f16 and bf16 to and from f32.
#include "base/number/dtype.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <strings.h>

static const fxi_dtype_info dtypes[] = {
    {0, "F32", 1, 4, true},          {1, "F16", 1, 2, true},
    {2, "Q4_0", 32, 18, true},       {3, "Q4_1", 32, 20, true},
    {6, "Q5_0", 32, 22, true},       {7, "Q5_1", 32, 24, true},
    {8, "Q8_0", 32, 34, true},       {9, "Q8_1", 32, 36, false},
    {10, "Q2_K", 256, 84, true},     {11, "Q3_K", 256, 110, true},
    {12, "Q4_K", 256, 144, true},    {13, "Q5_K", 256, 176, true},
    {14, "Q6_K", 256, 210, true},    {15, "Q8_K", 256, 292, false},
    {16, "IQ2_XXS", 256, 66, false}, {17, "IQ2_XS", 256, 74, false},
    {18, "IQ3_XXS", 256, 98, false}, {19, "IQ1_S", 256, 50, false},
    {20, "IQ4_NL", 32, 18, true},    {21, "IQ3_S", 256, 110, false},
    {22, "IQ2_S", 256, 82, false},   {23, "IQ4_XS", 256, 136, true},
    {24, "I8", 1, 1, false},         {25, "I16", 1, 2, false},
    {26, "I32", 1, 4, false},        {27, "I64", 1, 8, false},
    {28, "F64", 1, 8, false},        {29, "IQ1_M", 256, 56, false},
    {30, "BF16", 1, 2, true},        {34, "TQ1_0", 256, 54, false},
    {35, "TQ2_0", 256, 66, false},   {39, "MXFP4", 32, 17, true},
};

#define N_DTYPE (sizeof dtypes / sizeof dtypes[0])

const fxi_dtype_info *fxi_dtype_find(uint32_t id)
{
    for (size_t i = 0; i < N_DTYPE; i++)
        if (dtypes[i].id == id) return &dtypes[i];
    return NULL;
}

const fxi_dtype_info *fxi_dtype_by_name(const char *name)
{
    for (size_t i = 0; i < N_DTYPE; i++)
        if (!strcasecmp(dtypes[i].name, name)) return &dtypes[i];
    return NULL;
}

static float float_of_bits(uint32_t u)
{
    float f;
    memcpy(&f, &u, sizeof f);
    return f;
}

// u >> shift, rounded to nearest, ties to even. Pre: 1 <= shift <= 31.
static uint32_t shift_round(uint32_t u, int shift)
{
    uint32_t half = 1u << (shift - 1), rest = u & (2 * half - 1), q = u >> shift;
    return q + (rest > half || (rest == half && (q & 1)));
}

float fxi_f16_to_f32(uint16_t h)
{
    uint32_t sign = (uint32_t)(h & 0x8000) << 16, exp = h >> 10 & 31, mant = h & 0x3ff;
    if (exp == 31) return float_of_bits(sign | 0x7f800000 | (mant ? 0x400000 | mant << 13 : 0));
    if (exp == 0) { // zero and subnormal numbers: mant x 2^-24
        float f = (float)mant * 0x1p-24f;
        return sign ? -f : f;
    }
    return float_of_bits(sign | (exp + 112) << 23 | mant << 13);
}

uint16_t fxi_f32_to_f16(float f)
{
    uint32_t u, h;
    memcpy(&u, &f, sizeof u);
    const uint32_t sign = u >> 16 & 0x8000, mag = u & 0x7fffffff;
    if (mag > 0x7f800000)
        h = 0x7e00 | (mag >> 13 & 0x3ff); // NaN
    else if (mag >= 0x47800000)
        h = 0x7c00; // 2^16 and more: inf
    else if (mag >= 0x38800000)
        h = shift_round(mag - (112u << 23), 13); // normal; a carry may reach inf, as it must
    else if (mag < 0x33000000)
        h = 0; // below half of the smallest subnormal number
    else
        h = shift_round((mag & 0x7fffff) | 0x800000, 126 - (int)(mag >> 23));
    return (uint16_t)(sign | h);
}
