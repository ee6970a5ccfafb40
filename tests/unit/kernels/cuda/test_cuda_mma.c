// test_cuda_mma.c - linear layers and attention by tensor cores have the bits of the orders that
// linear_mma.cu and attention_mma.cu state, written down here in plain C, row by row. So neither
// the number of rows, nor tiles, nor pages, nor how segments are spread changes a bit.
#include "cuda_batch.h"
#include "cuda_layer.h"
#include "kernels/ref/mathf.h"
#include "suite.h"

// One step of a tensor core, as the emulator's model has it: 16 exact products and the sum so far
// are cut off 25 bits below the highest bit of the largest of them, added, and cut to f32.
static float tensor_step(float acc, const float *x, const float *y)
{
    double part[17] = {(double)acc}, sum = 0;
    int top = -2000, e;
    for (int i = 0; i < 16; i++) part[1 + i] = (double)x[i] * (double)y[i];
    for (int i = 0; i < 17; i++)
        if (part[i] != 0 && (frexp(part[i], &e), e > top)) top = e;
    if (top == -2000) return 0;
    const double unit = ldexp(1, top - 26);
    for (int i = 0; i < 17; i++) sum += trunc(part[i] / unit);
    if (sum == 0) return 0;
    frexp(sum * unit, &e);
    const double last = ldexp(1, e - 24);
    return (float)(trunc(sum * unit / last) * last);
}

static float to_half(fxi_dtype type, float x)
{
    return type == FXI_F16 ? fxi_f16_to_f32(fxi_f32_to_f16(x))
                           : fxi_bf16_to_f32(fxi_f32_to_bf16(x));
}

// A chain of two steps over 32 numbers, as both orders take them.
static float add_32(float acc, const float *x, const float *y)
{
    for (int half = 0; half < 2; half++) {
        float a[16], b[16];
        for (int i = 0; i < 16; i++) {
            a[i] = x[i / 4 * 8 + half * 4 + i % 4];
            b[i] = y[i / 4 * 8 + half * 4 + i % 4];
        }
        acc = tensor_step(acc, a, b);
    }
    return acc;
}

// ---- linear layers -----------------------------------------------------------------------------

// w, x: of numbers that the type holds, padded with zeros to a multiple of 32.
static float mma_output(const float *w, const float *x, int n_in)
{
    float y = 0;
    for (int k0 = 0; k0 < n_in; k0 += 512) {
        float slice = 0;
        for (int k = k0; k < k0 + 512 && k < n_in; k += 32) slice = add_32(slice, w + k, x + k);
        y += slice;
    }
    return y;
}

// Rows as f32, of whole 32s.
static float *padded_rows(const float *x, int n_row, int n, fxi_dtype type)
{
    const int wide = (n + 31) / 32 * 32;
    float *y = floats((size_t)n_row * (size_t)wide);
    for (int r = 0; r < n_row; r++)
        for (int i = 0; i < n; i++) y[r * wide + i] = to_half(type, x[r * n + i]);
    return y;
}

static float *mma_layer(plan p, const char *raw, const float *x)
{
    const int wide = (p.n_in + 31) / 32 * 32;
    float *rows = floats((size_t)(p.n_out * p.n_in)), *y = floats((size_t)(p.n_tok * p.n_out));
    fxi_row_to_f32(p.type, raw, (size_t)(p.n_out * p.n_in), rows);
    float *w = padded_rows(rows, p.n_out, p.n_in, p.type),
          *a = padded_rows(x, p.n_tok, p.n_in, p.type);
    for (int t = 0; t < p.n_tok; t++)
        for (int o = 0; o < p.n_out; o++)
            y[t * p.n_out + o] = mma_output(w + o * wide, a + t * wide, p.n_in);
    guarded_free_all(rows, w, a);
    return y;
}

static void check_mma_layer(plan p)
{
    const size_t n = (size_t)(p.n_tok * p.n_out);
    char *raw = random_rows(p.type, p.n_in, p.n_out, 7);
    float *x = random_floats((size_t)(p.n_tok * p.n_in), EVEN, 3), *want = mma_layer(p, raw, x);
    fxi_cuda_linear_args a = {.w = packed(p.type, p.n_in, p.n_out, raw),
                              .n_expert = 1,
                              .a = act_new((size_t)p.n_tok, (size_t)p.n_in),
                              .count = {p.n_tok, NULL},
                              .y = floats(n)};
    launch(FXI_CUDA_ROWS,
           &(fxi_cuda_rows_args){.x = x, .count = {p.n_tok, NULL}, .n = p.n_in, .out = a.a});
    static const char *const names[] = {"few", "some", "many"};
    static const int n_row[] = {1, 40, 999}; // that their kernels are for
    for (int i = 0; i < 3; i++) {
        memset(a.y, 0xff, n * sizeof *a.y);
        launch(fxi_cuda_linear_find(p.type, FXI_CUDA_BATCH_INVARIANT, n_row[i]), &a);
        assert_same(names[i], a.y, want, n);
    }
    act_release(&a.a);
    guarded_free_all((void *)a.w.data, a.y, raw, x, want);
}

FX_TEST(test_linear_layers_keep_their_order)
{
    static const int shapes[][3] = {
        {37, 5, 1}, {1056, 40, 3}, {1600, 17, 70}, {8, 70, 9}, {4640, 17, 2}};
    for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++) {
        check_mma_layer((plan){FXI_F16, shapes[s][0], shapes[s][1], shapes[s][2], 0});
        check_mma_layer((plan){FXI_BF16, shapes[s][0], shapes[s][1], shapes[s][2], 0});
    }
}

FX_TEST(test_few_some_and_many_are_kernels_of_their_own)
{
    static const struct {
        fxi_dtype type;
        int n_row;
        fxi_cuda_kernel_id want;
    } rows[] = {{FXI_F16, 1, FXI_CUDA_LINEAR_F16_FEW},
                {FXI_F16, 40, FXI_CUDA_LINEAR_F16_SOME},
                {FXI_BF16, 40, FXI_CUDA_LINEAR_BF16_SOME},
                {FXI_BF16, 999, FXI_CUDA_LINEAR_BF16_MANY},
                {FXI_Q4_K, 999, FXI_CUDA_LINEAR_Q4_K}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        assert_int_equal(
            fxi_cuda_linear_find(rows[i].type, FXI_CUDA_BATCH_INVARIANT, rows[i].n_row),
            rows[i].want);
    assert_int_equal(fxi_cuda_linear_form(FXI_F16, FXI_CUDA_BATCH_INVARIANT), FXI_CUDA_FORM_F16);
    assert_int_equal(fxi_cuda_linear_form(FXI_BF16, FXI_CUDA_CPU_EXACT), FXI_CUDA_FORM_X);
}

FX_TEST(test_attention_has_kernels_of_its_own)
{
    static const struct {
        fxi_dtype type;
        int head_dim;
        fxi_cuda_math math;
        fxi_cuda_kernel_id want, want_wide;
    } rows[] = {
        {FXI_F16, 80, FXI_CUDA_BATCH_INVARIANT, FXI_CUDA_ATTN_F16_80, FXI_CUDA_ATTN_F16_80_MANY},
        {FXI_BF16, 96, FXI_CUDA_BATCH_INVARIANT, FXI_CUDA_ATTN_BF16_96, FXI_CUDA_ATTN_BF16_96_MANY},
        {FXI_F16, 256, FXI_CUDA_BATCH_INVARIANT, FXI_CUDA_ATTN_F16_256, FXI_CUDA_KERNEL_END},
        {FXI_F16, 48, FXI_CUDA_BATCH_INVARIANT, FXI_CUDA_ATTENTION, FXI_CUDA_KERNEL_END},
        {FXI_Q8_0, 64, FXI_CUDA_BATCH_INVARIANT, FXI_CUDA_ATTENTION, FXI_CUDA_KERNEL_END},
        {FXI_F16, 64, FXI_CUDA_CPU_EXACT, FXI_CUDA_ATTENTION, FXI_CUDA_KERNEL_END}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const fxi_dtype type = rows[i].type;
        const int n = rows[i].head_dim;
        assert_int_equal(fxi_cuda_attention_find(type, n, rows[i].math), rows[i].want);
        assert_int_equal(fxi_cuda_attention_wide_find(type, n, rows[i].math), rows[i].want_wide);
    }
}

// ---- attention ---------------------------------------------------------------------------------

enum { MAX_HEAD = 256 };

// One query row: its sequence, head, and the positions it attends to.
typedef struct mma_row {
    const batch *b;
    int seq, kv_head, from, end;
    float q[MAX_HEAD]; // x scale, rounded
} mma_row;

typedef struct mma_sum {
    float m, l, acc[MAX_HEAD];
} mma_sum;

static void cached_number(const mma_row *r, int plane, int pos, float *to)
{
    const batch_shape *s = r->b->s;
    const char *row = fxi_kv_row(&r->b->seq[r->seq].view[1], 2 * LAYER + plane, pos);
    memset(to, 0, MAX_HEAD * sizeof *to);
    fxi_row_to_f32(s->type, row + fxi_kv_bytes(s->type, r->kv_head * s->head_dim),
                   (size_t)s->head_dim, to);
}

static float mma_score(const mma_row *r, int pos)
{
    float k[MAX_HEAD], s = 0;
    cached_number(r, 0, pos, k);
    for (int d = 0; d < r->b->s->head_dim; d += 32) s = add_32(s, r->q + d, k + d);
    const float cap = r->b->s->softcap;
    return cap != 0 ? cap * fxi_tanhf(s * (1 / cap)) : s;
}

static bool attends(const mma_row *r, int pos)
{
    return pos >= r->from && pos < r->end;
}

// acc of 64 weights of the positions from pos on.
static void mma_values(const mma_row *r, int pos, const float *p, float *acc)
{
    static float v[64][MAX_HEAD];
    for (int k = 0; k < 64; k++) {
        memset(v[k], 0, sizeof v[k]);
        if (attends(r, pos + k)) cached_number(r, 1, pos + k, v[k]);
    }
    for (int d = 0; d < r->b->s->head_dim; d++) {
        acc[d] = 0;
        for (int k = 0; k < 64; k += 16) {
            float x[16], y[16];
            for (int i = 0; i < 16; i++)
                x[i] = to_half(r->b->s->type, p[k + i]), y[i] = v[k + i][d];
            acc[d] = tensor_step(acc[d], x, y);
        }
    }
}

// Of the 64 positions from pos on. False: it attends to none of them.
static bool mma_part(const mma_row *r, int pos, mma_sum *out)
{
    float p[64], lane[4] = {0};
    out->m = -INFINITY;
    for (int k = 0; k < 64; k++) {
        p[k] = attends(r, pos + k) ? mma_score(r, pos + k) : -INFINITY;
        out->m = fmaxf(out->m, p[k]);
    }
    if (out->m == -INFINITY) return false;
    for (int k = 0; k < 64; k++) {
        p[k] = p[k] == -INFINITY ? 0 : fxi_expf(p[k] - out->m);
        lane[k % 8 / 2] += p[k];
    }
    out->l = (lane[0] + lane[1]) + (lane[2] + lane[3]);
    mma_values(r, pos, p, out->acc);
    return true;
}

static void mma_merge(const mma_sum *part, int n, mma_sum *to)
{
    const float m = fmaxf(to->m, part->m), e = fxi_expf(to->m - m), es = fxi_expf(part->m - m);
    to->m = m;
    to->l = fmaf(part->l, es, to->l * e);
    for (int d = 0; d < n; d++) to->acc[d] = fmaf(part->acc[d] + 0, es, to->acc[d] * e);
}

static void mma_attend(const mma_row *r, mma_sum all, float *out)
{
    const int n = r->b->s->head_dim;
    for (int pos0 = r->from / 256 * 256; pos0 < r->end; pos0 += 256) {
        mma_sum segment = {.m = -INFINITY}, part;
        for (int pos = pos0; pos < pos0 + 256; pos += 64)
            if (mma_part(r, pos, &part)) mma_merge(&part, n, &segment);
        mma_merge(&segment, n, &all);
    }
    for (int d = 0; d < n; d++) out[d] = all.acc[d] * (1 / all.l);
}

static void mma_token(const batch *b, const attn_call *c, int seq, int tok, float *want)
{
    const batch_shape *s = b->s;
    const int pos = s->pos[seq] + tok, n_pos = b->seq[seq].n_pos;
    mma_row r = {.b = b, .seq = seq, .end = n_pos ? n_pos : pos + 1};
    if (s->window && pos >= s->window) r.from = pos + 1 - s->window;
    if (s->window && n_pos && pos + s->window < n_pos) r.end = pos + s->window;
    for (int h = 0; h < s->n_head; h++) {
        const size_t at = (size_t)(((seq * s->n_tok + tok) * s->n_head + h) * s->head_dim);
        r.kv_head = h / (s->n_head / s->n_kv_head);
        memset(r.q, 0, sizeof r.q);
        for (int d = 0; d < s->head_dim; d++)
            r.q[d] = to_half(s->type, c->q[at + (size_t)d] * 0.3f);
        mma_sum all = {.m = s->flags & SINKS ? c->sink[h] : -INFINITY,
                       .l = s->flags & SINKS ? 1 : 0};
        mma_attend(&r, all, want + at);
    }
}

static void assert_close(const float *got, const float *want, size_t n)
{
    for (size_t i = 0; i < n; i++) assert_true(fabsf(got[i] - want[i]) < 0.02f);
}

// Where there is a kernel for them, wide tiles have the same bits.
static void check_wide_tiles(const batch *b, int n_block, const float *want)
{
    const batch_shape *s = b->s;
    if (fxi_cuda_attention_wide_find(s->type, s->head_dim, FXI_CUDA_BATCH_INVARIANT) ==
        FXI_CUDA_KERNEL_END)
        return;
    attn_call c = attn_call_plan(b, n_block, s->n_tok, true);
    memset(c.out, 0xff, c.n * sizeof *c.out);
    attn_call_run(&c, s, FXI_CUDA_BATCH_INVARIANT);
    assert_same(n_block ? "wide, spread" : "wide, walked", c.out, want, c.n);
    attn_call_free(&c);
}

static void check_mma_attention(const batch_shape *s)
{
    batch b = batch_new(s);
    float *want = NULL;
    for (int n_block = 0; n_block < 1 << 20; n_block += (1 << 20) - 1) {
        attn_call c = attn_call_new(&b, n_block, s->n_tok);
        if (!want) {
            want = floats(c.n);
            attn_call_run(&c, s, FXI_CUDA_CPU_EXACT);
            for (int i = 0; i < s->n_seq; i++)
                for (int t = 0; t < s->n_tok; t++) mma_token(&b, &c, i, t, want);
            assert_close(c.out, want, c.n);
        }
        memset(c.out, 0xff, c.n * sizeof *c.out);
        attn_call_run(&c, s, FXI_CUDA_BATCH_INVARIANT);
        assert_same(n_block ? "spread" : "walked", c.out, want, c.n);
        attn_call_free(&c);
        check_wide_tiles(&b, n_block, want);
    }
    guarded_free(want);
    batch_free(&b);
}

static const batch_shape mma_shapes[] = {
    {64, 4, 2, FXI_F16, 3, 3, {0, 300, 254}, 0, 0, 0},
    {128, 6, 2, FXI_BF16, 1, 3, {0, 255, 571}, 0, 0, SINKS | PAGED},
    {80, 2, 1, FXI_F16, 20, 1, {280}, 33, 0, PAGED}, // later rows begin in a later segment
    {96, 20, 1, FXI_BF16, 2, 2, {63, 31}, 0, 4, 0},
    {64, 1, 1, FXI_BF16, 90, 1, {0}, 20, 0, BOTH_WAYS},
    {128, 3, 1, FXI_F16, 45, 2, {500, 0}, 0, 0, SINKS},
    {64, 8, 2, FXI_F16, 19, 2, {240, 600}, 300, 0, 0},
    {256, 2, 1, FXI_F16, 5, 2, {130, 0}, 0, 4, 0},
};

FX_TEST(test_attention_keeps_its_order)
{
    for (size_t i = 0; i < sizeof mma_shapes / sizeof *mma_shapes; i++) {
        batch_shape s = mma_shapes[i];
        check_mma_attention(&s);
        s.flags ^= PAGED;
        if (suite_is_long()) check_mma_attention(&s);
    }
}

FX_RUN_GROUP(test_cuda_mma, open_kernels, NULL)
