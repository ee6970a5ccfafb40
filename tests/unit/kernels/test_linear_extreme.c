// test_linear_extreme.c - linear layers of block types with extreme numbers: the largest and
// smallest codes and scales; scales that are negative, zero of either sign, subnormal or the
// largest possible; activations of +-127, zeros, and some that make products vanish. No sum may
// saturate, and no sign of a zero may differ.
#include "linear_test.h"
#include "suite.h"

enum { N_IN = 512, N_OUT = 100, N_TOK = 40 };

static int draw(int n)
{
    static uint64_t i;
    return (int)(fxi_rng_u64(8, 0, i++) % (uint64_t)n);
}

static uint16_t extreme_f16(void)
{
    static const uint16_t f16[] = {0x3c00, 0xbc00, 0x0000, 0x8000, 0x0001, 0x8001,
                                   0x03ff, 0x83ff, 0x7bff, 0xfbff, 0x2e66};
    return f16[draw(sizeof f16 / sizeof f16[0])];
}

// A power of two as bf16: the smallest, 1, others, and the largest of which sums stay finite.
static uint16_t extreme_power(void)
{
    static const uint16_t power[] = {0x20, 0x40, 0x80, 0x3f80, 0x3e00, 94 << 7, 170 << 7};
    return power[draw(sizeof power / sizeof power[0])];
}

// lo, hi, 0, or anything from lo to hi.
static int extreme_int(int lo, int hi)
{
    const int some[] = {lo, hi, 0, lo + draw(hi - lo + 1)};
    return some[draw(4)];
}

static fxi_qblock extreme_block(const fxi_qformat *f)
{
    fxi_qblock b = {.d = f->d_bf16 ? extreme_power() : extreme_f16()};
    const int top = (1 << f->bits) - 1, some[] = {top, 0, f->value ? 8 : f->zero};
    if (f->has_min) b.m = extreme_f16();
    for (int j = 0; f->sc_max && j < f->n / f->sub; j++) {
        b.sc[j] = (int8_t)extreme_int(f->sc_min, f->sc_max);
        if (f->has_min) b.mn[j] = (uint8_t)extreme_int(0, f->sc_max);
    }
    for (int i = 0, how = 0; i < f->n; i++) {
        if (i % f->sub == 0) how = draw(5);
        b.code[i] = (uint8_t)(how < 3 ? some[how] : how == 3 ? top * (i % 2) : draw(top + 1));
    }
    return b;
}

static char *extreme_rows(const fxi_qformat *f)
{
    size_t block_bytes = fxi_dtype_find(f->type)->block_bytes, n = N_OUT * N_IN / (size_t)f->n;
    char *raw = guarded_new(n * block_bytes);
    for (size_t i = 0; i < n; i++) {
        fxi_qblock b = extreme_block(f);
        f->write(&b, raw + i * block_bytes);
    }
    return raw;
}

// A number of magnitude s, times a sign or a random share that `how` selects.
static float extreme_x(int how, int s, int k)
{
    static const float size[] = {127, 127 * 0x1p-127f, 127 * 0x1p-110f, 127 * 0x1p60f, 0};
    const float signs[] = {1, -1, k % 2 ? -1 : 1, spread_number(EVEN, 3, (uint64_t)draw(8000))};
    return signs[how] * size[s];
}

// One token: the same kind of number throughout; the last tokens change it with each block of 32.
static void extreme_token(float *x, int t)
{
    int how = t % 4, s = t / 4 % 5;
    for (int k = 0; k < N_IN; k++) {
        if (t >= 20 && k % 32 == 0) how = draw(4), s = draw(5);
        x[k] = extreme_x(how, s, k);
    }
}

static layer extreme_layer(const fxi_qformat *f)
{
    float *x = floats(N_TOK * N_IN);
    for (int t = 0; t < N_TOK; t++) extreme_token(x + t * N_IN, t);
    return layer_make((plan){f->type, N_IN, N_OUT, N_TOK, 0}, extreme_rows(f), x);
}

typedef void layer_check(const layer *l);

static void for_each_type(layer_check *check)
{
    for (int t = 0; t < N_TYPE; t++) {
        if (!fxi_qformat_find(types[t])) continue;
        layer l = extreme_layer(fxi_qformat_find(types[t]));
        check(&l);
        layer_free(&l);
    }
}

// An output computed exactly in double: its value and the sum of the magnitudes.
typedef struct exact {
    double sum, mag;
} exact;

static void exact_add(exact *e, const fxi_qformat *f, const fxi_qblock *b, int i, double x)
{
    double d = (double)fxi_qformat_scale(f, b->d), m = (double)fxi_f16_to_f32(b->m);
    if (f->sc_max) d *= b->sc[i / f->sub], m *= -b->mn[i / f->sub];
    double p = d * fxi_qformat_value(f, b->code[i]) * x;
    e->sum += p + m * x;
    e->mag += fabs(p) + fabs(m * x);
}

static exact exact_output(const layer *l, size_t t, size_t o)
{
    const fxi_qformat *f = fxi_qformat_find(l->w.type);
    const char *row = l->raw + o * row_bytes(f->type, N_IN);
    exact e = {0};
    for (int k = 0; k < N_IN; k += f->n) {
        fxi_qblock b = {0};
        f->read(row, &b);
        for (int i = 0; i < f->n; i++) exact_add(&e, f, &b, i, act_value(l, t, (size_t)(k + i)));
        row += fxi_dtype_find(f->type)->block_bytes;
    }
    return e;
}

static void near_exact(const layer *l)
{
    for (size_t t = 0; t < N_TOK; t++)
        for (size_t o = 0; o < N_OUT; o++) {
            exact e = exact_output(l, t, o);
            double got = (double)l->want[t * N_OUT + o];
            assert_true(fabs(got - e.sum) <= N_IN * (0x1p-24 * e.mag + 0x1p-149));
        }
}

FX_TEST(test_ref_is_near_exact)
{
    for_each_type(near_exact);
}

FX_TEST(test_paths_have_refs_bits)
{
    for_each_type(paths_same_bits);
}

FX_RUN(test_linear_extreme)
