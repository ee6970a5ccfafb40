// test_ops.c - operations on rows: ref against double precision, every path against ref, bit by
// bit; and a buffer of any row tells of accesses out of bounds.
#include "kernels_test.h"
#include "suite.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const int sizes[] = {1, 2, 5, 7, 15, 16, 17, 31, 32, 33, 47, 64, 100, 288, 2048, 2051};
enum { N_SIZE = sizeof sizes / sizeof sizes[0] };

// ---- norms, sums, scaling, store_kv: rows in, a row out --------------------------------------

typedef void row_op(const fxi_kernels *k, const float *a, const float *b, int n, float *y);

static void op_rms_norm(const fxi_kernels *k, const float *a, const float *b, int n, float *y)
{
    k->rms_norm(a, b, n, 1e-5f, y);
}

static void op_rms_norm_in_place(const fxi_kernels *k, const float *a, const float *b, int n,
                                 float *y)
{
    memcpy(y, a, (size_t)n * sizeof *y);
    k->rms_norm(y, b, n, 1e-5f, y);
}

static void op_add(const fxi_kernels *k, const float *a, const float *b, int n, float *y)
{
    memcpy(y, a, (size_t)n * sizeof *y);
    k->add(y, b, n);
}

static void op_layer_norm(const fxi_kernels *k, const float *a, const float *b, int n, float *y)
{
    k->layer_norm(a, b, NULL, n, 1e-5f, y);
}

static void op_layer_norm_bias(const fxi_kernels *k, const float *a, const float *b, int n,
                               float *y)
{
    memcpy(y, b, (size_t)n * sizeof *y);
    k->layer_norm(y, b, a, n, 1e-5f, y);
}

static void op_add_scaled(const fxi_kernels *k, const float *a, const float *b, int n, float *y)
{
    memcpy(y, a, (size_t)n * sizeof *y);
    k->add_scaled(y, b, 0.3f, n);
}

static void op_scale(const fxi_kernels *k, const float *a, const float *b, int n, float *y)
{
    (void)b;
    memcpy(y, a, (size_t)n * sizeof *y);
    k->scale(y, -0.7f, n);
}

static void op_multiply(const fxi_kernels *k, const float *a, const float *b, int n, float *y)
{
    memcpy(y, a, (size_t)n * sizeof *y);
    k->multiply(y, b, n);
}

// Three taps, of which the first token lacks one; with a bias, and without.
static void conv_of(const fxi_kernels *k, const float *a, const float *b, const float *bias, int n,
                    float *y)
{
    float *w = floats((size_t)n * 3);
    for (int i = 0; i < n; i++) w[i] = a[i], w[n + i] = b[i], w[2 * n + i] = a[i] - b[i];
    const float *const x[] = {bias ? b : NULL, a, b};
    k->conv(&(fxi_conv){.n_tap = 3, .n_channel = n, .w = w, .b = bias, .x = x, .y = y});
    guarded_free(w);
}

static void op_conv(const fxi_kernels *k, const float *a, const float *b, int n, float *y)
{
    conv_of(k, a, b, NULL, n, y);
}

static void op_conv_bias(const fxi_kernels *k, const float *a, const float *b, int n, float *y)
{
    conv_of(k, a, b, a, n, y);
}

// Every cache type that holds n numbers, byte by byte.
static void op_store_kv(const fxi_kernels *k, const float *a, const float *b, int n, float *y)
{
    (void)b;
    static const fxi_dtype types[] = {FXI_F32, FXI_F16, FXI_BF16, FXI_Q8_0};
    memset(y, 0, (size_t)n * sizeof *y);
    for (int i = 0; i < 4; i++) {
        if (types[i] == FXI_Q8_0 && n % 32) continue;
        size_t n_byte = fxi_kv_bytes(types[i], n);
        uint8_t *h = guarded_new(n_byte);
        k->store_kv[types[i]](a, n, h);
        for (size_t j = 0; j < n_byte; j++)
            y[j % (size_t)n] += (float)(h[j] * (1 + 3 * j / (size_t)n));
        guarded_free(h);
    }
}

// Of whole blocks.
static void op_quant_q8(const fxi_kernels *k, const float *a, const float *b, int n, float *y)
{
    (void)b;
    memset(y, 0, (size_t)n * sizeof *y);
    if (n % 32) return;
    int8_t *q = guarded_new((size_t)n);
    float *d = floats((size_t)n / 32);
    int32_t *sum = guarded_new((size_t)n / 16 * sizeof *sum);
    k->quant_q8(a, n, q, d, sum);
    for (int i = 0; i < n; i++) y[i] = (float)q[i] * d[i / 32] + (float)sum[i / 16];
    guarded_free_all(q, d, sum);
}

static void row_same_bits(row_op *op, int n, spread s)
{
    float *a = random_floats((size_t)n, s, 5), *b = random_floats((size_t)n, s, 6);
    float *want = floats((size_t)n), *y = floats((size_t)n);
    const fxi_kernels *k;
    op(ref_path(), a, b, n, want);
    for (int i = 0; (k = fast_path(i)); i++) {
        op(k, a, b, n, y);
        assert_same(k->name, y, want, (size_t)n);
    }
    guarded_free_all(a, b, want, y);
}

FX_TEST(test_rows_have_refs_bits)
{
    static row_op *const ops[] = {
        op_rms_norm,   op_rms_norm_in_place, op_add,  op_layer_norm, op_layer_norm_bias,
        op_add_scaled, op_multiply,          op_conv, op_conv_bias,  op_scale,
        op_store_kv,   op_quant_q8};
    for (size_t o = 0; o < sizeof ops / sizeof *ops; o++)
        for (int i = 0; i < N_SIZE; i++)
            for (int s = 0; s < N_SPREAD; s++) row_same_bits(ops[o], sizes[i], (spread)s);
}

// Ties, numbers that round to inf, the smallest numbers, and NaN.
FX_TEST(test_bf16_rounds_as_base_does)
{
    static const uint32_t bits[] = {0x3f808000, 0x3f818000, 0x3f808001, 0xbf817fff, 0x7f7fffff,
                                    0xff7f8000, 0x7f800000, 0x7f800001, 0xffc00000, 0x00008000,
                                    0x00018000, 0x00000001, 0x80000000, 0x7fffffff, 0x3f7fffff};
    enum { N = sizeof bits / sizeof bits[0] };
    float x[N + 16] = {0};
    uint16_t got[N + 16];
    memcpy(x + 16, bits, sizeof bits); // in the tail after a whole vector, and alone
    memcpy(x, bits, 15 * sizeof *bits);
    const fxi_kernels *k;
    for (int i = 0; (k = fast_path(i)); i++) {
        k->store_kv[FXI_BF16](x, N + 16, got);
        for (int j = 0; j < N + 16; j++) assert_int_equal(got[j], fxi_f32_to_bf16(x[j]));
    }
}

FX_TEST(test_rms_norm_is_near)
{
    for (int i = 0; i < N_SIZE; i++) {
        int n = sizes[i];
        float *x = random_floats((size_t)n, EVEN, 7), *w = random_floats((size_t)n, EVEN, 8);
        float *y = floats((size_t)n);
        ref_path()->rms_norm(x, w, n, 1e-5f, y);
        double sum = 0;
        for (int k = 0; k < n; k++) sum += (double)x[k] * (double)x[k];
        double scale = 1 / sqrt(sum / n + 1e-5);
        for (int k = 0; k < n; k++) {
            double want = (double)x[k] * scale * (double)w[k];
            assert_true(fabs((double)y[k] - want) <= 1e-5 * fabs(want));
        }
        guarded_free_all(x, w, y);
    }
}

// Numbers around 3, so that the mean matters.
static void layer_norm_is_near(int n, bool with_bias)
{
    float *x = random_floats((size_t)n, EVEN, 7), *w = random_floats((size_t)n, EVEN, 8);
    float *b = random_floats((size_t)n, EVEN, 9), *y = floats((size_t)n);
    double mean = 0, var = 0;
    for (int k = 0; k < n; k++) mean += (double)(x[k] += 3) / n;
    for (int k = 0; k < n; k++) var += ((double)x[k] - mean) * ((double)x[k] - mean) / n;
    ref_path()->layer_norm(x, w, with_bias ? b : NULL, n, 1e-5f, y);
    for (int k = 0; k < n; k++) {
        double want = ((double)x[k] - mean) / sqrt(var + 1e-5) * (double)w[k];
        if (with_bias) want += (double)b[k];
        assert_true(fabs((double)y[k] - want) <= 1e-5);
    }
    guarded_free_all(x, w, b, y);
}

FX_TEST(test_layer_norm_is_near)
{
    for (int i = 0; i < N_SIZE; i++) layer_norm_is_near(sizes[i], true);
    for (int i = 0; i < N_SIZE; i++) layer_norm_is_near(sizes[i], false);
}

// Every f16 number and the midpoints between neighbours.
FX_TEST(test_store_f16_every_number)
{
    enum { N = 2 * 0x7c00 };
    float *x = floats(N);
    uint16_t *want = guarded_new(N * sizeof *want), *h = guarded_new(N * sizeof *h);
    for (int i = 0; i < N; i++) {
        float f = fxi_f16_to_f32((uint16_t)(i / 2));
        x[i] = i % 2 ? (f + fxi_f16_to_f32((uint16_t)(i / 2 + 1))) / 2 : -f;
        want[i] = fxi_f32_to_f16(x[i]);
    }
    const fxi_kernels *k = ref_path();
    for (int i = 0; k; k = fast_path(i++)) {
        k->store_kv[FXI_F16](x, N, h);
        assert_memory_equal(h, want, N * sizeof *h);
    }
    guarded_free_all(x, want, h);
}

// ---- rope --------------------------------------------------------------------------------------

static void rope_same_bits(int head_dim, int n_pair)
{
    enum { N_HEAD = 3 };
    size_t n = (size_t)(N_HEAD * head_dim);
    float *x = random_floats(n, EVEN, 9), *want = floats(n), *y = floats(n);
    float *cos_ = random_floats((size_t)n_pair, EVEN, 10);
    float *sin_ = random_floats((size_t)n_pair, EVEN, 11);
    memcpy(want, x, n * sizeof *x);
    ref_path()->rope(want, N_HEAD, head_dim, n_pair, cos_, sin_);
    const fxi_kernels *k;
    for (int i = 0; (k = fast_path(i)); i++) {
        memcpy(y, x, n * sizeof *x);
        k->rope(y, N_HEAD, head_dim, n_pair, cos_, sin_);
        assert_same(k->name, y, want, n);
    }
    guarded_free_all(x, want, y, cos_, sin_);
}

FX_TEST(test_rope_has_refs_bits)
{
    static const int head_dims[] = {2, 8, 16, 32, 48, 64, 80, 96, 128};
    for (int i = 0; i < 9; i++)
        for (int n_pair = 1; n_pair <= head_dims[i] / 2; n_pair++)
            rope_same_bits(head_dims[i], n_pair);
}

FX_TEST(test_rope_turns)
{
    float x[6] = {1, 0, 0, 1, 7, 8};
    const float c[2] = {0.6f, 0.6f}, s[2] = {0.8f, 0.8f};
    ref_path()->rope(x, 1, 6, 2, c, s);
    const float want[6] = {0.6f, 0.8f, -0.8f, 0.6f, 7, 8};
    assert_memory_equal(x, want, sizeof x);
}

// ---- quant_q8 ----------------------------------------------------------------------------------

enum { Q_N = 32 * 64 };

typedef struct q8_row {
    int8_t q[Q_N];
    float d[Q_N / 32];
    int32_t sum[Q_N / 16];
} q8_row;

// Blocks of many magnitudes: one power of two per block, down to where numbers vanish.
static float *q8_input(int scale)
{
    float *x = floats(Q_N);
    for (int i = 0; i < Q_N; i++)
        x[i] =
            ldexpf(spread_number((spread)(i / 32 % N_SPREAD), 12, (uint64_t)i), scale - i / 32 % 8);
    return x;
}

FX_TEST(test_quant_has_refs_bits)
{
    q8_row *want = guarded_new(sizeof *want), *got = guarded_new(sizeof *got);
    const fxi_kernels *k;
    for (int scale = -145; scale < 80; scale++) {
        float *x = q8_input(scale);
        ref_path()->quant_q8(x, Q_N, want->q, want->d, want->sum);
        for (int i = 0; (k = fast_path(i)); i++) {
            k->quant_q8(x, Q_N, got->q, got->d, got->sum);
            assert_memory_equal(got, want, sizeof *got);
        }
        guarded_free(x);
    }
    guarded_free_all(want, got);
}

FX_TEST(test_quant_is_near)
{
    q8_row *r = guarded_new(sizeof *r);
    for (int scale = -100; scale < 80; scale += 9) {
        float *x = q8_input(scale);
        ref_path()->quant_q8(x, Q_N, r->q, r->d, r->sum);
        for (int b = 0; b < Q_N / 32; b++) {
            int sum[2] = {0};
            for (int i = 32 * b; i < 32 * b + 32; i++) {
                sum[i / 16 % 2] += r->q[i];
                double off = fabs((double)r->q[i] * (double)r->d[b] - (double)x[i]);
                assert_true(off <= 0.5001 * (double)r->d[b] + 0x1p-120);
            }
            assert_memory_equal(sum, r->sum + 2 * b, sizeof sum);
        }
        guarded_free(x);
    }
    guarded_free(r);
}

// ---- bounds ------------------------------------------------------------------------------------

// Whether a child process that adds n numbers of x to y dies of it.
static bool dies_of_add(float *y, const float *x, int n)
{
    int status = 0;
    const pid_t child = fork();
    assert_true(child >= 0);
    if (!child) {
        signal(SIGSEGV, SIG_DFL);
        fast_path(0)->add(y, x, n);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    return WIFSIGNALED(status);
}

// At the end of its pages and at their beginning.
FX_TEST(test_buffers_tell_of_one_number_too_many)
{
    int n_before = 0;
    if (!fast_path(0)) skip();
    for (int i = 0; i < 8; i++) {
        float *x = floats(16), *y = floats(17);
        const int before = (uintptr_t)x % 4096 == 0;
        assert_false(dies_of_add(y, x, 16));
        assert_true(dies_of_add(y, x - before, 17));
        n_before += before;
        guarded_free_all(x, y);
    }
    assert_in_range(n_before, 1, 7);
}

FX_RUN(test_ops)
