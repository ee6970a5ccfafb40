// test_qblock.c - the block types: the same numbers as gguf-py from the same bytes, bit for bit;
// blocks packed again from their fields unchanged; the error of quantising several kinds of data.
// The vectors are made by tests/vectors/make_quant_vectors.py.
#include "unit/cmocka_all.h"

#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/number/qblock.h"
#include "base/number/rng.h"

// Bounds of the relative root mean square error, slightly above the measured one, for normal and
// uniform numbers; and the largest error of one number, relative to the largest number of its row.
static const struct type_case {
    fxi_dtype type;
    double normal, uniform, one;
    bool made; // gguf-py can write such blocks
} cases[] = {
    {FXI_Q4_0, 0.0843, 0.0602, 0.138, true},    {FXI_Q4_1, 0.0728, 0.0553, 0.119, true},
    {FXI_Q5_0, 0.0421, 0.0288, 0.065, true},    {FXI_Q5_1, 0.0348, 0.0267, 0.053, true},
    {FXI_Q8_0, 0.0056, 0.0038, 0.005, true},    {FXI_Q2_K, 0.2798, 0.2285, 0.456, false},
    {FXI_Q3_K, 0.1487, 0.1208, 0.265, false},   {FXI_Q4_K, 0.0741, 0.0561, 0.122, false},
    {FXI_Q5_K, 0.0367, 0.0280, 0.069, false},   {FXI_Q6_K, 0.0180, 0.0132, 0.025, false},
    {FXI_IQ4_NL, 0.0758, 0.0632, 0.134, false}, {FXI_IQ4_XS, 0.0765, 0.0640, 0.129, false},
    {FXI_MXFP4, 0.1144, 0.1230, 0.200, true},
};

enum { N_CASE = sizeof cases / sizeof cases[0], N_ROW = 8192, N_VECTOR = 4096, N_INPUT = 8192 };

static const char *name_of(fxi_dtype type)
{
    return fxi_dtype_find(type)->name;
}

static size_t row_bytes(fxi_dtype type, size_t n_elem)
{
    const fxi_dtype_info *t = fxi_dtype_find(type);
    return n_elem / t->block_elems * t->block_bytes;
}

// The whole of tests/vectors/quant/<name>, which has n_bytes.
static void *read_vectors(const char *name, size_t n_bytes)
{
    char path[512];
    snprintf(path, sizeof path, "%s/tests/vectors/quant/%s", FX_SOURCE_DIR, name);
    FILE *f = fopen(path, "rb");
    if (!f) fail_msg("%s is missing", path);
    char *p = malloc(n_bytes);
    assert_int_equal(fread(p, 1, n_bytes, f), n_bytes);
    assert_int_equal(fgetc(f), EOF);
    fclose(f);
    return p;
}

static void vector_name(fxi_dtype type, const char *tail, char *dst, size_t n)
{
    snprintf(dst, n, "quant_%s%s.bin", name_of(type), tail);
    for (char *c = dst; *c; c++)
        if (*c >= 'A' && *c <= 'Z') *c += 'a' - 'A';
}

FX_TEST(test_table_is_consistent)
{
    int n = 0;
    for (uint32_t id = 0; id < 40; id++) {
        const fxi_qformat *f = fxi_qformat_find((fxi_dtype)id);
        if (!f) continue;
        n++;
        const fxi_dtype_info *t = fxi_dtype_find(id);
        assert_int_equal(f->type, id);
        assert_int_equal(f->n, t->block_elems);
        assert_true(f->n <= FXI_QBLOCK_MAX && f->n % f->sub == 0 && f->n / f->sub <= 16);
        assert_true(f->value || f->zero == 0 || f->zero == 1 << (f->bits - 1));
        for (int c = 0; f->value && c < 16; c++) assert_in_range(f->value[c], 0, 2 * f->zero);
        assert_int_equal(f->has_min, f->zero == 0);
        assert_int_equal(f->sc_max > 0, f->n == 256);
    }
    assert_int_equal(n, N_CASE);
    assert_null(fxi_qformat_find(FXI_F16));
    assert_null(fxi_qformat_find((fxi_dtype)9));
}

// ---- reading and writing -----------------------------------------------------------------------

FX_TEST(test_numbers_are_those_of_gguf_py)
{
    for (int i = 0; i < N_CASE; i++) {
        char name[64];
        size_t n_bytes = row_bytes(cases[i].type, N_VECTOR);
        vector_name(cases[i].type, "", name, sizeof name);
        char *p = read_vectors(name, n_bytes + N_VECTOR * sizeof(float));
        float *got = malloc(N_VECTOR * sizeof *got);
        for (size_t shift = 0; shift < 4; shift++) { // blocks at any address
            char *moved = malloc(n_bytes + shift);
            memcpy(moved + shift, p, n_bytes);
            fxi_row_to_f32(cases[i].type, moved + shift, N_VECTOR, got);
            if (memcmp(got, p + n_bytes, N_VECTOR * sizeof *got)) fail_msg("%s", name);
            free(moved);
        }
        free(got);
        free(p);
    }
}

FX_TEST(test_blocks_come_back)
{
    for (int i = 0; i < N_CASE; i++) {
        const fxi_qformat *f = fxi_qformat_find(cases[i].type);
        size_t n_bytes = row_bytes(f->type, (size_t)f->n);
        for (uint64_t k = 0; k < 300; k++) {
            char raw[300], again[300] = {0};
            for (size_t b = 0; b < n_bytes; b++)
                raw[1 + b] = (char)fxi_rng_u64(7, k, (uint64_t)i << 32 | b);
            memset(again, k & 1 ? -1 : 0, sizeof again); // previous contents do not matter
            fxi_qblock q;
            f->read(raw + 1, &q);
            f->write(&q, again + 1);
            if (memcmp(raw + 1, again + 1, n_bytes))
                fail_msg("%s, block %d", name_of(f->type), (int)k);
            assert_int_equal(again[0], k & 1 ? -1 : 0); // bytes around it are unchanged
            assert_int_equal(again[1 + n_bytes], k & 1 ? -1 : 0);
        }
    }
}

typedef struct picker { // of fields: the least in block 0, the largest in block 1, then any
    uint64_t block, at;
} picker;

static int pick(picker *p, int lo, int hi)
{
    if (p->block < 2) return p->block ? hi : lo;
    return lo + (int)(fxi_rng_u64(8, p->block, p->at++) % (uint64_t)(hi - lo + 1));
}

static fxi_qblock random_fields(const fxi_qformat *f, uint64_t block)
{
    picker p = {block, 0};
    fxi_qblock q = {.d = (uint16_t)pick(&p, 0, 0xffff)};
    if (f->d_bf16) q.d = (uint16_t)(pick(&p, 1, 254) << 7); // a power of two
    if (f->has_min) q.m = (uint16_t)pick(&p, 0, 0xffff);
    for (int j = 0; f->sc_max && j < f->n / f->sub; j++) {
        q.sc[j] = (int8_t)pick(&p, f->sc_min, f->sc_max);
        if (f->has_min) q.mn[j] = (uint8_t)pick(&p, 0, f->sc_max);
    }
    for (int j = 0; j < f->n; j++) q.code[j] = (uint8_t)pick(&p, 0, (1 << f->bits) - 1);
    return q;
}

FX_TEST(test_fields_come_back)
{
    for (int i = 0; i < N_CASE; i++) {
        const fxi_qformat *f = fxi_qformat_find(cases[i].type);
        for (uint64_t k = 0; k < 300; k++) {
            char raw[300];
            fxi_qblock q = random_fields(f, k), again;
            memset(&again, 0x55, sizeof again);
            f->write(&q, raw + 1);
            f->read(raw + 1, &again);
            const size_t n_set = offsetof(fxi_qblock, code) + (size_t)f->n;
            if (memcmp(&q, &again, n_set)) fail_msg("%s, block %d", name_of(f->type), (int)k);
        }
    }
}

// ---- storing numbers ---------------------------------------------------------------------------

static void normal_row(float *x, float scale)
{
    for (uint64_t i = 0; i < N_ROW; i++) {
        double u = 1 - fxi_rng_unit(3, 0, 2 * i), v = fxi_rng_unit(3, 0, 2 * i + 1);
        x[i] = scale * (float)(sqrt(-2 * log(u)) * cos(6.283185307179586 * v));
    }
}

static void uniform_row(float *x, float scale)
{
    for (uint64_t i = 0; i < N_ROW; i++) x[i] = scale * (float)(2 * fxi_rng_unit(4, 0, i) - 1);
}

typedef struct error {
    double rms;   // relative
    double worst; // of one number
} error;

static error error_of(const float *x, const float *got, size_t n)
{
    double sum = 0, squares = 0;
    error e = {0, 0};
    for (size_t i = 0; i < n; i++) {
        double diff = fabs((double)got[i] - (double)x[i]);
        assert_true(isfinite(got[i]));
        sum += diff * diff;
        squares += (double)x[i] * (double)x[i];
        e.worst = diff > e.worst ? diff : e.worst;
    }
    e.rms = squares > 0 ? sqrt(sum / squares) : 0;
    return e;
}

// Through the type and back.
static error store(fxi_dtype type, const float *x, float *got)
{
    char *raw = malloc(row_bytes(type, N_ROW) + 1), *even = malloc(row_bytes(type, N_ROW));
    fxi_row_from_f32(type, x, N_ROW, raw + 1); // at an odd address
    fxi_row_from_f32(type, x, N_ROW, even);
    assert_memory_equal(raw + 1, even, row_bytes(type, N_ROW));
    fxi_row_to_f32(type, raw + 1, N_ROW, got);
    free(raw);
    free(even);
    return error_of(x, got, N_ROW);
}

FX_TEST(test_errors_are_bounded)
{
    static const float scales[] = {1, 0.02f, 100};
    static float x[N_ROW], got[N_ROW];
    for (int i = 0; i < N_CASE; i++)
        for (int s = 0; s < 3; s++) {
            normal_row(x, scales[s]);
            error normal = store(cases[i].type, x, got);
            uniform_row(x, scales[s]);
            error uniform = store(cases[i].type, x, got);
            if (!s)
                print_message("%s: normal %.5f, uniform %.5f, one %.4f\n", name_of(cases[i].type),
                              normal.rms, uniform.rms, uniform.worst);
            if (!(normal.rms < cases[i].normal && uniform.rms < cases[i].uniform))
                fail_msg("%s x %g: normal %g, uniform %g", name_of(cases[i].type),
                         (double)scales[s], normal.rms, uniform.rms);
            if (!(uniform.worst < cases[i].one * (double)scales[s]))
                fail_msg("%s x %g: one is %g off", name_of(cases[i].type), (double)scales[s],
                         uniform.worst);
        }
}

// The error of our blocks is at most that of gguf-py's.
FX_TEST(test_no_worse_than_gguf_py)
{
    float *x = read_vectors("quant_input.bin", N_INPUT * sizeof(float)), *got = malloc(4 * N_INPUT);
    for (int i = 0; i < N_CASE; i++) {
        if (!cases[i].made) continue;
        fxi_dtype type = cases[i].type;
        size_t n_bytes = row_bytes(type, N_INPUT);
        char name[64], *raw = malloc(n_bytes);
        vector_name(type, "_made", name, sizeof name);
        char *made = read_vectors(name, n_bytes);
        fxi_row_to_f32(type, made, N_INPUT, got);
        double theirs = error_of(x, got, N_INPUT).rms;
        fxi_row_from_f32(type, x, N_INPUT, raw);
        fxi_row_to_f32(type, raw, N_INPUT, got);
        double ours = error_of(x, got, N_INPUT).rms;
        print_message("%s: %.5f, gguf-py %.5f\n", name_of(type), ours, theirs);
        assert_true(ours <= theirs * (type == FXI_Q8_0 ? 1.0001 : 0.97));
        free(raw);
        free(made);
    }
    free(got);
    free(x);
}

static void fill(float *x, float v)
{
    for (int i = 0; i < N_ROW; i++) x[i] = v;
}

FX_TEST(test_zeros_stay_zeros)
{
    static float x[N_ROW], got[N_ROW];
    for (int i = 0; i < N_CASE; i++) {
        error e = store(cases[i].type, x, got);
        assert_true(e.worst == 0);
    }
}

// The largest relative error of the number that is farthest from 0. With a scale that is a power of
// two it may lie halfway between two values, of which 3 and 4 are the farthest apart.
static double error_of_peak(fxi_dtype type, double usual)
{
    return type == FXI_MXFP4 ? 0.5 / 3.5 : usual;
}

FX_TEST(test_constants_stay_near)
{
    static const float values[] = {1, -1, 1000, -30, 0.5f};
    static float x[N_ROW], got[N_ROW];
    for (int i = 0; i < N_CASE; i++)
        for (int v = 0; v < 5; v++) {
            fill(x, values[v]);
            error e = store(cases[i].type, x, got);
            if (!(e.worst <= error_of_peak(cases[i].type, 0.002) * (double)fabsf(values[v])))
                fail_msg("%s: %g is %g off", name_of(cases[i].type), (double)values[v], e.worst);
        }
}

// How far the largest code may be off because its scale is a multiple of f16's finest step.
static double finest(fxi_dtype type)
{
    const fxi_qformat *f = fxi_qformat_find(type);
    return ldexp(1, (f->value ? 8 : f->bits) - 25);
}

// Beyond the type's numbers: its largest; below: 0, or a step of the smallest scale.
FX_TEST(test_huge_and_tiny_numbers)
{
    static const float huge[] = {1e5f, 1e7f, 1e12f, 1e38f, FLT_MAX};
    static const float tiny[] = {1e-5f, 1e-7f, 1e-12f, 1e-38f, 1e-45f};
    static float x[N_ROW], got[N_ROW];
    for (int i = 0; i < N_CASE; i++)
        for (int k = 0; k < 5; k++) {
            uniform_row(x, huge[k]);
            store(cases[i].type, x, got); // all of them finite
            for (int n = 0; n < N_ROW; n++)
                assert_true(fabsf(x[n]) < 0.9f * huge[k] || fabsf(got[n]) > 2.6e4f);
            uniform_row(x, tiny[k]);
            error e = store(cases[i].type, x, got);
            if (!(e.worst <= cases[i].one * (double)tiny[k] + finest(cases[i].type)))
                fail_msg("%s x %g: %g", name_of(cases[i].type), (double)tiny[k], e.worst);
            fill(x, huge[k]);
            store(cases[i].type, x, got);
            fill(x, -tiny[k]);
            store(cases[i].type, x, got);
        }
}

// One number a thousand times the others: it keeps its size, they stay small, other blocks are
// unchanged.
FX_TEST(test_one_outlier)
{
    static float x[N_ROW], got[N_ROW], before[N_ROW];
    for (int i = 0; i < N_CASE; i++)
        for (int sign = -1; sign <= 1; sign += 2) {
            uniform_row(x, 1);
            store(cases[i].type, x, before);
            x[300] = (float)(1000 * sign);
            store(cases[i].type, x, got);
            if (!((double)fabsf(got[300] - x[300]) < 1000 * error_of_peak(cases[i].type, 0.02)))
                fail_msg("%s: %g", name_of(cases[i].type), (double)got[300]);
            for (int n = 0; n < N_ROW; n++) {
                if (n < 256 || n >= 512) assert_true(got[n] == before[n]);
                if (n != 300) assert_true(fabsf(got[n] - x[n]) < 200);
            }
        }
}

FX_RUN(test_qblock)
