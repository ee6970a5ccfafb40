// Linear layers: ref against double precision; every path against ref, bit by bit; and that no cut
// of the work changes anything.
#include "kernels/linear.h"
#include "kernels_test.h"

enum { MAX_TOK = 40 };

static const fxi_dtype types[] = {FXI_F32,  FXI_F16,  FXI_BF16, FXI_Q8_0, FXI_Q4_0,
                                  FXI_Q4_1, FXI_Q5_0, FXI_Q5_1, FXI_Q2_K, FXI_Q3_K,
                                  FXI_Q4_K, FXI_Q5_K, FXI_Q6_K};
enum { N_TYPE = sizeof types / sizeof types[0] };

typedef struct shape {
    int n_in, n_out;
} shape;

// Around panels (16), blocks of 32, and the blocks of 256 along k that paths work in.
static const shape shapes[] = {{32, 1},   {32, 16},  {64, 17},  {96, 40},   {256, 33},
                               {288, 48}, {512, 31}, {544, 15}, {1056, 17}, {1280, 50}};
enum { N_SHAPE = sizeof shapes / sizeof shapes[0] };
static const shape float_shapes[] = {{1, 1}, {2, 20}, {17, 33}, {172, 64}, {255, 18}, {257, 50}};
enum { N_FLOAT_SHAPE = sizeof float_shapes / sizeof float_shapes[0] };

// A packed layer with activations and ref's answer for MAX_TOK tokens.
typedef struct layer {
    fxi_linear w;
    fxi_act act;
    float *weight; // [n_out][n_in] what the packed numbers mean
    float *x;      // [MAX_TOK][n_in]
    float *want;   // [MAX_TOK][n_out]
} layer;

static void quantise(layer *l)
{
    size_t n_in = (size_t)l->w.n_in, n_block = n_in / 32;
    l->act.q = malloc(MAX_TOK * n_in);
    l->act.d = floats(MAX_TOK * n_block);
    l->act.sum = calloc(2 * MAX_TOK * n_block, sizeof(int32_t));
    for (size_t t = 0; t < MAX_TOK; t++)
        ref_path()->quant_q8(l->x + t * n_in, l->w.n_in, l->act.q + t * n_in,
                             l->act.d + t * n_block, l->act.sum + 2 * t * n_block);
}

static void layer_pack(layer *l, const float *weight)
{
    const fxi_dtype_info *t = fxi_dtype_find(l->w.type);
    size_t n = (size_t)l->w.n_in * (size_t)l->w.n_out;
    size_t raw_bytes = n / t->block_elems * t->block_bytes;
    char *raw = malloc(raw_bytes + 1); // at an odd address, as in a file
    fxi_row_from_f32(l->w.type, weight, n, raw + 1);
    fxi_row_to_f32(l->w.type, raw + 1, n, l->weight);
    l->w.data = aligned_alloc(64, fxi_linear_bytes(l->w.type, l->w.n_in, l->w.n_out));
    for (int p = 0; p < fxi_linear_n_panel(l->w.n_out); p++)
        fxi_linear_pack_panel(&l->w, raw + 1, p);
    free(raw);
}

static layer layer_make(fxi_dtype type, shape s, spread sp)
{
    layer l = {.w = {.type = type, .n_in = s.n_in, .n_out = s.n_out}};
    size_t n_in = (size_t)s.n_in, n_out = (size_t)s.n_out;
    float *weight =
        random_floats(n_in * n_out, type == FXI_F16 || fxi_qformat_find(type) ? EVEN : sp, 1);
    l.weight = floats(n_in * n_out);
    l.x = random_floats(MAX_TOK * n_in, sp, 2);
    l.want = floats(MAX_TOK * n_out);
    layer_pack(&l, weight);
    l.act.x = l.x;
    if (fxi_linear_reads_q8(&l.w)) quantise(&l);
    ref_path()->linear[type](&l.w, &l.act, MAX_TOK, 0, fxi_linear_n_panel(s.n_out), l.want, n_out);
    free(weight);
    return l;
}

static void layer_free(layer *l)
{
    free(l->w.data);
    free(l->weight);
    free(l->x);
    free(l->want);
    free(l->act.q);
    free(l->act.d);
    free(l->act.sum);
}

// The activations from token t on.
static fxi_act act_from(const layer *l, int t)
{
    size_t n_in = (size_t)l->w.n_in, at = (size_t)t * n_in;
    fxi_act a = {.x = l->x + at};
    if (l->act.q) a.q = l->act.q + at, a.d = l->act.d + at / 32, a.sum = l->act.sum + at / 16;
    return a;
}

typedef void layer_check(const layer *l);

static void for_each_layer(layer_check *check)
{
    for (int t = 0; t < N_TYPE; t++)
        for (int i = 0; i < N_SHAPE + N_FLOAT_SHAPE; i++) {
            shape s = i < N_SHAPE ? shapes[i] : float_shapes[i - N_SHAPE];
            if (s.n_in % (int)fxi_dtype_find(types[t])->block_elems) continue;
            layer l = layer_make(types[t], s, (spread)(i % N_SPREAD));
            check(&l);
            layer_free(&l);
        }
}

// What token t's activations mean to this layer: x, or q * d.
static double act_value(const layer *l, size_t t, size_t k)
{
    size_t at = t * (size_t)l->w.n_in + k;
    return l->act.q ? (double)l->act.q[at] * (double)l->act.d[at / 32] : (double)l->x[at];
}

// Each of n fused multiply-adds rounds once, by half a unit of at most the sum of magnitudes; Q8_0
// rounds the scale too, and its weights were rounded to f32 for this comparison. A subnormal step
// is 2^-149.
static void near_double(const layer *l)
{
    size_t n_in = (size_t)l->w.n_in, n_out = (size_t)l->w.n_out;
    for (size_t t = 0; t < MAX_TOK; t += 13)
        for (size_t o = 0; o < n_out; o++) {
            double sum = 0, mag = 0;
            for (size_t k = 0; k < n_in; k++) {
                double p = (double)l->weight[o * n_in + k] * act_value(l, t, k);
                sum += p;
                mag += fabs(p);
            }
            double bound = (double)(n_in + 3) * (0x1p-24 * mag + 0x1p-149);
            assert_true(fabs((double)l->want[t * n_out + o] - sum) <= bound);
        }
}

static void ref_is_near_double(void **state)
{
    (void)state;
    for_each_layer(near_double);
}

// Runs tokens [0, n_tok) in one call; rows of y are wider than n_out, and nothing may be written
// there.
static void same_bits(const fxi_kernels *k, const layer *l, int n_tok)
{
    size_t n_out = (size_t)l->w.n_out, ldy = n_out + 5;
    float *y = floats((size_t)n_tok * ldy);
    for (size_t i = 0; i < (size_t)n_tok * ldy; i++) y[i] = 12345;
    fxi_act a = act_from(l, 0);
    k->linear[l->w.type](&l->w, &a, n_tok, 0, fxi_linear_n_panel(l->w.n_out), y, ldy);
    for (size_t t = 0; t < (size_t)n_tok; t++) {
        assert_same(k->name, y + t * ldy, l->want + t * n_out, n_out);
        for (size_t o = n_out; o < ldy; o++) assert_true(y[t * ldy + o] == 12345);
    }
    free(y);
}

static void all_paths_same_bits(const layer *l)
{
    const fxi_kernels *k;
    for (int i = 0; (k = fast_path(i)); i++)
        for (int n_tok = 1; n_tok <= MAX_TOK; n_tok += n_tok < 14 ? 1 : 3 + n_tok % 2)
            same_bits(k, l, n_tok);
}

static void paths_have_refs_bits(void **state)
{
    (void)state;
    for_each_layer(all_paths_same_bits);
}

// Tokens and panels cut at random into calls.
static void random_cuts(const fxi_kernels *k, const layer *l, uint64_t seed)
{
    size_t n_out = (size_t)l->w.n_out;
    int n_panel = fxi_linear_n_panel(l->w.n_out);
    float *y = floats(MAX_TOK * n_out);
    uint64_t draw = 0;
    for (int t = 0, n; t < MAX_TOK; t += n) {
        n = 1 + (int)(fxi_rng_u64(seed, 0, draw++) % (uint64_t)(MAX_TOK - t));
        fxi_act a = act_from(l, t);
        for (int p = 0, m; p < n_panel; p += m) {
            m = 1 + (int)(fxi_rng_u64(seed, 0, draw++) % (uint64_t)(n_panel - p));
            k->linear[l->w.type](&l->w, &a, n, p, p + m, y + (size_t)t * n_out, n_out);
        }
    }
    assert_same(k->name, y, l->want, MAX_TOK * n_out);
    free(y);
}

static void all_paths_random_cuts(const layer *l)
{
    const fxi_kernels *k;
    random_cuts(ref_path(), l, 0);
    for (uint64_t seed = 1; seed < 4; seed++)
        for (int i = 0; (k = fast_path(i)); i++) random_cuts(k, l, seed);
}

static void cuts_change_no_bit(void **state)
{
    (void)state;
    for_each_layer(all_paths_random_cuts);
}

// More activations than a second-level cache is taken to hold: 40 x 6656 x 4 bytes is above 1 MiB.
static void wide_input(void **state)
{
    (void)state;
    static const fxi_dtype some[] = {FXI_F32, FXI_BF16};
    const fxi_kernels *k;
    for (int t = 0; t < 2; t++) {
        layer l = layer_make(some[t], (shape){6656, 35}, EVEN);
        for (int i = 0; (k = fast_path(i)); i++) same_bits(k, &l, MAX_TOK);
        layer_free(&l);
    }
}

// The largest integers there are: -128 in the weights, 127 in the activations. No sum may saturate.
static void extreme_integers(void **state)
{
    (void)state;
    enum { N_IN = 64, N_OUT = 16 };
    layer l = {.w = {.type = FXI_Q8_0, .n_in = N_IN, .n_out = N_OUT}};
    fxi_block_q8_0 rows[N_OUT][N_IN / 32];
    for (int o = 0; o < N_OUT; o++)
        for (int b = 0; b < N_IN / 32; b++) {
            rows[o][b].d = fxi_f32_to_f16(1);
            memset(rows[o][b].q, o % 2 ? -128 : 127, 32);
        }
    l.w.data = aligned_alloc(64, fxi_linear_bytes(FXI_Q8_0, N_IN, N_OUT));
    fxi_linear_pack_panel(&l.w, rows, 0);
    l.x = floats(MAX_TOK * N_IN);
    for (int i = 0; i < MAX_TOK * N_IN; i++) l.x[i] = i / N_IN % 2 ? -127 : 127;
    quantise(&l);
    l.want = floats(MAX_TOK * N_OUT);
    for (int i = 0; i < MAX_TOK * N_OUT; i++)
        l.want[i] = (float)(N_IN * (i % 2 ? -128 : 127) * (i / N_OUT % 2 ? -127 : 127));
    same_bits(ref_path(), &l, MAX_TOK);
    all_paths_same_bits(&l);
    layer_free(&l);
}

// Rows of any bytes, so that zeros of both signs and all scales occur.
static void check_rows(fxi_dtype type, shape s)
{
    const fxi_dtype_info *t = fxi_dtype_find(type);
    const size_t n_in = (size_t)s.n_in, row_bytes = n_in / t->block_elems * t->block_bytes;
    fxi_linear w = {.type = type, .n_in = s.n_in, .n_out = s.n_out};
    unsigned char *raw = malloc(row_bytes * (size_t)s.n_out);
    float *want = floats(n_in), *got = floats(n_in);
    for (size_t i = 0; i < row_bytes * (size_t)s.n_out; i++)
        raw[i] = (unsigned char)fxi_rng_u64(type, 0, i);
    w.data = aligned_alloc(64, fxi_linear_bytes(type, s.n_in, s.n_out));
    for (int p = 0; p < fxi_linear_n_panel(s.n_out); p++) fxi_linear_pack_panel(&w, raw, p);
    for (int row = 0; row < s.n_out; row++) {
        fxi_row_to_f32(type, raw + (size_t)row * row_bytes, n_in, want);
        fxi_linear_row(&w, row, got);
        for (size_t k = 0; k < n_in; k++)
            if (!isnan(want[k]) || !isnan(got[k])) assert_same(t->name, got + k, want + k, 1);
    }
    free(w.data);
    free(raw);
    free(want);
    free(got);
}

static void rows_come_back(void **state)
{
    (void)state;
    for (int t = 0; t < N_TYPE; t++)
        for (int i = 0; i < N_SHAPE; i++)
            if (shapes[i].n_in % (int)fxi_dtype_find(types[t])->block_elems == 0)
                check_rows(types[t], shapes[i]);
    for (int i = 0; i < N_FLOAT_SHAPE; i++) check_rows(FXI_BF16, float_shapes[i]);
}

static void sizes_are_whole_lines(void **state)
{
    (void)state;
    assert_int_equal(fxi_linear_n_panel(1), 1);
    assert_int_equal(fxi_linear_n_panel(16), 1);
    assert_int_equal(fxi_linear_n_panel(17), 2);
    assert_int_equal(fxi_linear_bytes(FXI_F32, 3, 20), 2 * 3 * 16 * 4);
    assert_int_equal(fxi_linear_bytes(FXI_F16, 3, 20), 2 * 128); // 96 rounded up
    assert_int_equal(fxi_linear_bytes(FXI_Q8_0, 32, 16), 576);   // 512 + 32 rounded up
    for (int t = 0; t < N_TYPE; t++)
        for (int n_in = 32; n_in < 400; n_in += 32)
            assert_int_equal(fxi_linear_bytes(types[t], n_in, 50) % 64, 0);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(sizes_are_whole_lines), cmocka_unit_test(ref_is_near_double),
        cmocka_unit_test(paths_have_refs_bits),  cmocka_unit_test(cuts_change_no_bit),
        cmocka_unit_test(extreme_integers),      cmocka_unit_test(wide_input),
        cmocka_unit_test(rows_come_back),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
