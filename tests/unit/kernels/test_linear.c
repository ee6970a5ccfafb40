// test_linear.c - linear layers: ref against double precision; every path against ref, bit by bit;
// and that dividing the work changes nothing. Extreme numbers: test_linear_extreme.c.
#include "linear_test.h"
#include "suite.h"

enum { MAX_TOK = 40 };

typedef struct shape {
    int n_in, n_out;
} shape;

// Sizes around panels (16), blocks of 32, and the blocks of 512 and 1024 along k that paths use.
static const shape shapes[] = {{32, 1},   {32, 16},  {64, 17},   {96, 40},   {256, 33}, {288, 48},
                               {512, 31}, {544, 15}, {1056, 17}, {1280, 50}, {1, 1},    {2, 20},
                               {17, 33},  {172, 64}, {255, 18},  {257, 50}};
enum { N_SHAPE = sizeof shapes / sizeof shapes[0] };

// Float types can have groups.
static const int groups[] = {0, 2, 4};
enum { N_GROUP = sizeof groups / sizeof groups[0] };

static int count_groups(fxi_dtype type)
{
    return fxi_qformat_find(type) ? 1 : N_GROUP;
}

// Every type in every shape it can have.
typedef struct layers {
    layer of[N_TYPE * N_SHAPE * N_GROUP];
    int n;
} layers;

static layer layer_random(plan p, spread sp)
{
    size_t n = (size_t)p.n_in * (size_t)p.n_out;
    bool narrow = p.type == FXI_F16 || fxi_qformat_find(p.type);
    float *weight = random_floats(n, narrow ? EVEN : sp, 1);
    char *raw = guarded_new(row_bytes(p.type, p.n_in) * (size_t)p.n_out);
    fxi_row_from_f32(p.type, weight, n, raw);
    guarded_free(weight);
    return layer_make(p, raw, random_floats((size_t)p.n_tok * (size_t)p.n_in, sp, 2));
}

static void layers_add(layers *all, fxi_dtype type, int i)
{
    plan p = {type, shapes[i].n_in, shapes[i].n_out, MAX_TOK, 0};
    if (p.n_in % (int)fxi_dtype_find(type)->block_elems) return;
    for (int g = 0; g < count_groups(type); g++) {
        p.group = groups[g];
        all->of[all->n++] = layer_random(p, (spread)(i % N_SPREAD));
    }
}

static int layers_make(void **state)
{
    layers *all = guarded_new(sizeof *all);
    for (int t = 0; t < N_TYPE; t++)
        for (int i = 0; i < N_SHAPE; i++) layers_add(all, types[t], i);
    *state = all;
    return 0;
}

static int layers_free(void **state)
{
    layers *all = *state;
    for (int i = 0; i < all->n; i++) layer_free(&all->of[i]);
    guarded_free(all);
    return 0;
}

// Bound: each of n fused multiply-adds rounds once, by half a unit of at most the sum of
// magnitudes; block types also round the scale, and their weights are rounded to f32 for this
// comparison. A subnormal step is 2^-149. weight: of output o
static void output_is_near(const layer *l, const float *weight, size_t o)
{
    size_t n_in = (size_t)l->w.n_in, n_out = (size_t)l->w.n_out;
    for (size_t t = 0; t < MAX_TOK; t += 13) {
        double sum = 0, mag = 0;
        for (size_t k = 0; k < n_in; k++) {
            double p = (double)weight[k] * act_value(l, t, k);
            sum += p;
            mag += fabs(p);
        }
        double bound = (double)(n_in + 3) * (0x1p-24 * mag + 0x1p-149);
        assert_true(fabs((double)l->want[t * n_out + o] - sum) <= bound);
    }
}

FX_TEST(test_ref_is_near_double)
{
    layers *all = *state;
    for (int i = 0; i < all->n; i++) {
        const layer *l = &all->of[i];
        size_t n_byte = row_bytes(l->w.type, l->w.n_in);
        float *weight = floats((size_t)l->w.n_in);
        for (size_t o = 0; o < (size_t)l->w.n_out; o++) {
            fxi_row_to_f32(l->w.type, l->raw + o * n_byte, (size_t)l->w.n_in, weight);
            output_is_near(l, weight, o);
        }
        guarded_free(weight);
    }
}

FX_TEST(test_paths_have_refs_bits)
{
    layers *all = *state;
    for (int i = 0; i < all->n; i++) paths_same_bits(&all->of[i]);
}

// Rows of random bytes, so that zeros of both signs and all scales occur.
static void check_rows(fxi_dtype type, shape s, int group)
{
    const size_t n_in = (size_t)s.n_in, n_byte = row_bytes(type, s.n_in);
    fxi_linear w = {.type = type, .n_in = s.n_in, .n_out = s.n_out, .group = group};
    unsigned char *raw = guarded_new(n_byte * (size_t)s.n_out);
    float *want = floats(n_in), *got = floats(n_in);
    for (size_t i = 0; i < n_byte * (size_t)s.n_out; i++)
        raw[i] = (unsigned char)fxi_rng_u64(type, 0, i);
    w.data = guarded_new(fxi_linear_bytes(&w));
    for (int p = 0; p < fxi_linear_n_panel(s.n_out); p++) fxi_linear_pack_panel(&w, raw, p);
    for (int row = 0; row < s.n_out; row++) {
        fxi_row_to_f32(type, raw + (size_t)row * n_byte, n_in, want);
        fxi_linear_row(&w, row, got);
        for (size_t k = 0; k < n_in; k++)
            if (!isnan(want[k]) || !isnan(got[k]))
                assert_same(fxi_dtype_find(type)->name, got + k, want + k, 1);
    }
    guarded_free_all(w.data, raw, want, got);
}

FX_TEST(test_rows_come_back)
{
    for (int t = 0; t < N_TYPE; t++)
        for (int i = 0; i < N_SHAPE; i++)
            for (int g = 0; g < count_groups(types[t]); g++)
                if (shapes[i].n_in % (int)fxi_dtype_find(types[t])->block_elems == 0)
                    check_rows(types[t], shapes[i], groups[g]);
}

// Tokens [0, n_tok) and panels divided at random into calls.
static void random_cuts(const fxi_kernels *k, const layer *l, int n_tok, uint64_t seed)
{
    size_t n_out = (size_t)l->w.n_out;
    int n_panel = fxi_linear_n_panel(l->w.n_out);
    float *y = floats((size_t)n_tok * n_out);
    uint64_t draw = 0;
    for (int t = 0, n; t < n_tok; t += n) {
        n = 1 + (int)(fxi_rng_u64(seed, 0, draw++) % (uint64_t)(n_tok - t));
        fxi_act a = act_from(l, t);
        for (int p = 0, m; p < n_panel; p += m) {
            m = 1 + (int)(fxi_rng_u64(seed, 0, draw++) % (uint64_t)(n_panel - p));
            k->linear[l->w.type](&l->w, &a, n, p, p + m, y + (size_t)t * n_out, n_out);
        }
    }
    assert_same(k->name, y, l->want, (size_t)n_tok * n_out);
    guarded_free(y);
}

FX_TEST(test_cuts_change_no_bit)
{
    layers *all = *state;
    const fxi_kernels *k;
    for (int i = 0; i < all->n; i++) {
        random_cuts(ref_path(), &all->of[i], 7, 0);
        for (uint64_t seed = 1; seed < (suite_is_long() ? 4 : 2); seed++)
            for (int p = 0; (k = fast_path(p)); p++) random_cuts(k, &all->of[i], MAX_TOK, seed);
    }
}

// Every two neighbouring panels as a layer of their own, from each panel on.
static void parts_same_bits(const fxi_kernels *k, const layer *l)
{
    const int n_out = l->w.n_out;
    float *y = floats((size_t)l->n_tok * (size_t)n_out);
    for (int o = 0; o < n_out; o += FXI_PANEL) {
        const int n = n_out - o < 2 * FXI_PANEL ? n_out - o : 2 * FXI_PANEL;
        const fxi_linear part = fxi_linear_part(&l->w, o, n);
        k->linear[part.type](&part, &l->act, l->n_tok, 0, fxi_linear_n_panel(n), y + o,
                             (size_t)n_out);
        const fxi_linear last = fxi_linear_part(&part, n > FXI_PANEL ? FXI_PANEL : 0, 1);
        assert_ptr_equal(fxi_linear_panel(&last, 0),
                         fxi_linear_panel(&l->w, o / FXI_PANEL + (n > FXI_PANEL)));
    }
    assert_same(k->name, y, l->want, (size_t)l->n_tok * (size_t)n_out);
    guarded_free(y);
}

FX_TEST(test_parts_are_layers)
{
    layers *all = *state;
    const fxi_kernels *k;
    for (int i = 0; i < all->n; i++) {
        if (!suite_takes((size_t)i, 4)) continue; // there are three groups
        parts_same_bits(ref_path(), &all->of[i]);
        for (int p = 0; (k = fast_path(p)); p++) parts_same_bits(k, &all->of[i]);
    }
}

// ---- big layers --------------------------------------------------------------------------------

// Rows of blocks with random codes and scales near 1.
static char *random_blocks(const fxi_qformat *f, size_t n_block)
{
    size_t block_bytes = fxi_dtype_find(f->type)->block_bytes;
    char *raw = guarded_new(n_block * block_bytes);
    uint64_t draw = 0;
    for (size_t b = 0; b < n_block; b++) {
        fxi_qblock blk = {.d = (uint16_t)(0x3000 + fxi_rng_u64(7, 0, draw++) % 0x1000),
                          .m = (uint16_t)(0x3000 + fxi_rng_u64(7, 0, draw++) % 0x1000)};
        if (f->d_bf16) blk.d = (uint16_t)((120 + fxi_rng_u64(7, 0, draw++) % 12) << 7);
        for (int j = 0; f->sc_max && j < 16; j++) {
            blk.sc[j] = (int8_t)(f->sc_min + (int)(fxi_rng_u64(7, 0, draw++) %
                                                   (uint64_t)(f->sc_max - f->sc_min + 1)));
            blk.mn[j] = (uint8_t)(fxi_rng_u64(7, 0, draw++) % (uint64_t)(f->sc_max + 1));
        }
        for (int i = 0; i < f->n; i++)
            blk.code[i] = (uint8_t)(fxi_rng_u64(7, 0, draw++) >> (64 - f->bits));
        f->write(&blk, raw + b * block_bytes);
    }
    return raw;
}

static layer layer_big(plan p)
{
    const fxi_qformat *f = fxi_qformat_find(p.type);
    if (!f) return layer_random(p, EVEN);
    char *raw = random_blocks(f, (size_t)p.n_in / (size_t)f->n * (size_t)p.n_out);
    return layer_make(p, raw, random_floats((size_t)p.n_tok * (size_t)p.n_in, EVEN, 2));
}

// More than is prepared together: for block types 384 tokens, or as many blocks of 512 along k. For
// 16-bit types so many tokens that weights are widened first. Calls of small batches, of those that
// just fit with copies of their last token, of more than 24 tokens, and of more than fit.
FX_TEST(test_layers_too_big_to_prepare)
{
    static const plan plans[] = {{FXI_F32, 2100, 85, 40, 4},     {FXI_F16, 1072, 85, 300, 2},
                                 {FXI_BF16, 2051, 85, 300, 4},   {FXI_F32, 2100, 85, 40, 2},
                                 {FXI_F16, 1072, 85, 300, 4},    {FXI_BF16, 2051, 85, 300, 2},
                                 {FXI_Q8_0, 2304, 35, 400, 0},   {FXI_Q4_0, 1280, 19, 400, 0},
                                 {FXI_Q4_1, 1312, 19, 400, 0},   {FXI_Q5_0, 1280, 19, 400, 0},
                                 {FXI_Q5_1, 2304, 19, 400, 0},   {FXI_Q2_K, 1280, 35, 400, 0},
                                 {FXI_Q3_K, 2304, 19, 400, 0},   {FXI_Q4_K, 1280, 35, 400, 0},
                                 {FXI_Q5_K, 1280, 19, 400, 0},   {FXI_Q6_K, 1280, 35, 400, 0},
                                 {FXI_Q8_0, 8480, 70, 24, 0},    {FXI_Q4_K, 8448, 35, 24, 0},
                                 {FXI_Q8_0, 25088, 18, 8, 0},    {FXI_Q6_K, 25088, 18, 8, 0},
                                 {FXI_IQ4_NL, 1312, 19, 400, 0}, {FXI_IQ4_XS, 1280, 35, 400, 0},
                                 {FXI_MXFP4, 2304, 19, 400, 0},  {FXI_MXFP4, 25088, 18, 8, 0},
                                 {FXI_Q6_K, 12288, 35, 15, 0},   {FXI_Q4_0, 12288, 35, 16, 0},
                                 {FXI_Q4_K, 6144, 70, 31, 0}};
    const fxi_kernels *k;
    for (size_t i = 0; i < sizeof plans / sizeof plans[0]; i++) {
        layer l = layer_big(plans[i]);
        for (int p = 0; (k = fast_path(p)); p++) {
            same_bits(k, &l, l.n_tok);
            same_bits(k, &l, l.n_tok / 3);
            random_cuts(k, &l, l.n_tok, i);
        }
        layer_free(&l);
    }
}

static void assert_size(fxi_dtype type, int n_in, int n_out, int group, size_t n_byte)
{
    const fxi_linear w = {.type = type, .n_in = n_in, .n_out = n_out, .group = group};
    assert_int_equal(fxi_linear_bytes(&w), n_byte);
}

FX_TEST(test_sizes_are_whole_lines)
{
    assert_int_equal(fxi_linear_n_panel(1), 1);
    assert_int_equal(fxi_linear_n_panel(16), 1);
    assert_int_equal(fxi_linear_n_panel(17), 2);
    assert_size(FXI_F32, 3, 20, 0, 2 * 3 * 16 * 4);
    assert_size(FXI_F16, 3, 20, 0, 2 * 128);              // 96 rounded up
    assert_size(FXI_F16, 3, 20, 4, 4 * 128);              // a whole group
    assert_size(FXI_F16, 3, 65, 4, 8 * 128);              // two of them
    assert_size(FXI_Q8_0, 32, 16, 0, 576);                // 512 + 32 rounded up
    assert_size(FXI_F16, 2048, 5632, 4, 2048 * 5632 * 2); // as in a file
    assert_size(FXI_BF16, 2048, 5632, 2, 2048 * 5632 * 2);
    assert_size(FXI_IQ4_XS, 2048, 5632, 0, 2048 * 5632 / 256 * 138);
    assert_size(FXI_MXFP4, 2048, 5632, 0, 2048 * 5632 / 32 * 18); // 17 there
    for (int t = 0; t < N_TYPE; t++)
        for (int n_in = 32; n_in < 400; n_in += 32) {
            const fxi_linear w = {.type = types[t], .n_in = n_in, .n_out = 50};
            assert_int_equal(fxi_linear_bytes(&w) % 64, 0);
        }
}

FX_RUN_GROUP(test_linear, layers_make, layers_free)
