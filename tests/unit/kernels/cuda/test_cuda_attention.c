// test_cuda_attention.c - what a GPU stores in the cache and what attention reads from it have the
// bits of kernels/ref: every type of cache, contiguous and paged, windows, caps and sinks, tiles of
// any number of tokens, segments walked by one block or spread over many.
#include "cuda_batch.h"
#include "suite.h"

// ---- attention ---------------------------------------------------------------------------------

static void host_token(const batch *b, int i, int tok, float *sink, float *q, float *out)
{
    const batch_shape *s = b->s;
    const int group = s->n_head / s->n_kv_head;
    const size_t at = (size_t)((i * s->n_tok + tok) * s->n_head * s->head_dim);
    float *scratch = floats(fxi_attn_scratch(group * FXI_ATTN_MAX_TOK, s->head_dim, s->head_dim));
    const fxi_attn a = {.view = b->seq[i].view[1],
                        .kv_type = s->type,
                        .layer = LAYER,
                        .n_kv_head = s->n_kv_head,
                        .n_head = s->n_head,
                        .head_dim = s->head_dim,
                        .group = group,
                        .n_tok = 1,
                        .pos = s->pos[i] + tok,
                        .n_pos = b->seq[i].n_pos,
                        .window = s->window,
                        .softcap = s->softcap,
                        .sink = sink,
                        .q = q + at,
                        .out = out + at,
                        .scale = 0.3f,
                        .scratch = scratch};
    ref_path()->attention(&a);
    guarded_free(scratch);
}

// n_block: as of the plan; n_want: of each sequence's last tokens.
static void check_attention(const batch_shape *s, int n_block, int n_want)
{
    batch b = batch_new(s);
    attn_call c = attn_call_new(&b, n_block, n_want);
    float *want = floats(c.n);
    attn_call_run(&c, s, FXI_CUDA_CPU_EXACT);
    for (int i = 0; i < s->n_seq; i++)
        for (int t = s->n_tok - n_want; t < s->n_tok; t++)
            host_token(&b, i, t, s->flags & SINKS ? c.sink : NULL, c.q, want);
    assert_same(n_block ? "spread" : "walked", c.out, want, c.n);
    guarded_free(want);
    attn_call_free(&c);
    batch_free(&b);
}

static const batch_shape shapes[] = {
    {16, 4, 2, FXI_F16, 3, 3, {0, 700, 254}, 0, 0, 0},
    {20, 6, 1, FXI_F32, 5, 2, {509, 3}, 0, 4, PAGED},
    {64, 4, 4, FXI_BF16, 1, 3, {0, 255, 256}, 0, 0, SINKS | PAGED},
    {32, 20, 1, FXI_Q8_0, 2, 2, {300, 31}, 0, 0, SINKS},
    {8, 2, 1, FXI_F16, 40, 2, {522, 10}, 33, 0, 0},
    {16, 2, 2, FXI_F16, 300, 1, {0}, 0, 0, BOTH_WAYS},
    {16, 2, 2, FXI_F32, 270, 1, {0}, 20, 0, BOTH_WAYS},
    {288, 1, 1, FXI_Q8_0, 2, 1, {270}, 0, 0, 0},
};
enum { N_SHAPE = sizeof shapes / sizeof *shapes };

FX_TEST(test_attention_has_the_bits_of_ref)
{
    for (int i = 0; i < N_SHAPE; i++) {
        check_attention(&shapes[i], 0, shapes[i].n_tok);
        check_attention(&shapes[i], 1 << 20, shapes[i].n_tok);
    }
}

FX_TEST(test_wanted_rows_alone_are_computed)
{
    check_attention(&shapes[0], 0, 1);
    check_attention(&shapes[0], 1 << 20, 2);
}

// A plan that has no room for partial results walks.
FX_TEST(test_a_plan_keeps_to_its_room)
{
    const fxi_cuda_seq seq[2] = {{.n_tok = 1, .pos = 1000}, {.n_tok = 1, .pos = 600}};
    fxi_cuda_tile tile[2];
    fxi_cuda_plan p = {.n_head = 8, .n_kv_head = 2, .n_block = 100, .max_part = 8 * 4};
    for (int i = 0; i < 2; i++) fxi_cuda_plan_add(&p, seq, i, 1, tile);
    fxi_cuda_plan_end(&p, tile);
    assert_int_equal(p.n_tile, 2);
    assert_int_equal(tile[0].n_range, 4);
    assert_int_equal(tile[1].n_range, 1);
    assert_int_equal(tile[1].n_seg, 3);
    assert_int_equal(p.max_range, 4);
}

// ---- rope_store --------------------------------------------------------------------------------

typedef struct heads {
    float *q, *k, *v;
} heads;

static heads heads_new(const batch *b)
{
    const size_t n_q = (size_t)(b->s->n_head * b->s->head_dim),
                 n_kv = (size_t)(b->s->n_kv_head * b->s->head_dim), n = (size_t)b->n_row;
    return (heads){random_floats(n * n_q, EVEN, 1), random_floats(n * n_kv, EVEN, 2),
                   random_floats(n * n_kv, EVEN, 3)};
}

static void heads_free(heads *h)
{
    guarded_free_all(h->q, h->k, h->v);
}

// What is done to the heads of a row, and whether any of it is absent.
typedef struct head_work {
    bool has_bias, has_norm, has_rope, has_gain, rotates_first;
    int n_pair;
    float *bias, *w, *cos, *sin, *gain;
} head_work;

static void host_heads(const batch *b, const head_work *w, int row, float *x, int n_head)
{
    const fxi_kernels *k = ref_path();
    const int head_dim = b->s->head_dim;
    const size_t at = (size_t)(row * w->n_pair);
    if (w->has_bias) k->add(x, w->bias, n_head * head_dim);
    for (int step = 0; step < 2; step++) {
        const bool is_norm = step == w->rotates_first;
        if (!is_norm && w->has_rope)
            k->rope(x, n_head, head_dim, w->n_pair, w->cos + at, w->sin + at);
        for (int h = 0; is_norm && w->has_norm && h < n_head; h++)
            k->rms_norm(x + h * head_dim, w->w, head_dim, 1e-6f, x + h * head_dim);
    }
}

static void host_store(const batch *b, const head_work *w, heads *h, int row)
{
    const batch_shape *s = b->s;
    const int n_q = s->n_head * s->head_dim, n_kv = s->n_kv_head * s->head_dim;
    const int i = row / s->n_tok, pos = s->pos[i] + row % s->n_tok;
    const fxi_kv_view *view = &b->seq[i].view[1];
    host_heads(b, w, row, h->q + row * n_q, s->n_head);
    host_heads(b, w, row, h->k + row * n_kv, s->n_kv_head);
    if (w->has_bias) ref_path()->add(h->v + row * n_kv, w->bias, n_kv);
    if (w->has_gain) ref_path()->scale(h->q + row * n_q, w->gain[row], n_q);
    ref_path()->store_kv[s->type](h->k + row * n_kv, n_kv, fxi_kv_row(view, 2 * LAYER, pos));
    ref_path()->store_kv[s->type](h->v + row * n_kv, n_kv, fxi_kv_row(view, 2 * LAYER + 1, pos));
}

// n_live: rows there are, of those that the grid has
static void gpu_store(const batch *b, const head_work *w, heads *h, int32_t n_live)
{
    const batch_shape *s = b->s;
    int32_t *of = zeroed((size_t)(2 * b->n_row), sizeof *of);
    for (int r = 0; r < b->n_row; r++) {
        of[r] = r / s->n_tok;
        of[b->n_row + r] = s->pos[of[r]] + r % s->n_tok;
    }
    const fxi_cuda_norm norm = {
        .w = w->has_norm ? w->w : NULL, .n = s->head_dim, .is_rms = 1, .eps = 1e-6f};
    const float *bias = w->has_bias ? w->bias : NULL;
    const fxi_cuda_rope_store_args a = {.q = h->q,
                                        .k = h->k,
                                        .v = h->v,
                                        .q_bias = bias,
                                        .k_bias = bias,
                                        .v_bias = bias,
                                        .q_norm = norm,
                                        .k_norm = norm,
                                        .rotates_first = w->rotates_first,
                                        .cos = w->has_rope ? w->cos : NULL,
                                        .sin = w->sin,
                                        .q_scale = w->has_gain ? w->gain : NULL,
                                        .seq = b->seq,
                                        .row_seq = of,
                                        .pos = of + b->n_row,
                                        .count = {b->n_row, n_live < b->n_row ? &n_live : NULL},
                                        .n_head = s->n_head,
                                        .n_kv_head = s->n_kv_head,
                                        .head_dim = s->head_dim,
                                        .n_pair = w->n_pair,
                                        .kv_type = (int32_t)s->type,
                                        .kv_group = 1,
                                        .kv_layer = LAYER};
    launch(FXI_CUDA_ROPE_STORE, &a);
    guarded_free(of);
}

static void check_store(const batch_shape *s, int bits, int n_idle)
{
    batch host = batch_new(s), gpu = batch_new(s);
    heads want = heads_new(&host), got = heads_new(&gpu);
    const size_t row = (size_t)s->n_head * (size_t)s->head_dim, n = (size_t)host.n_row;
    head_work w = {bits & 1, bits & 2, bits & 4, bits & 8, .n_pair = s->head_dim / 2};
    if (bits & 16) w.n_pair = s->head_dim / 4;
    w.rotates_first = bits & 32;
    w.bias = random_floats(row, EVEN, 7), w.w = random_floats((size_t)s->head_dim, EVEN, 8);
    w.cos = random_floats(n * (size_t)w.n_pair, EVEN, 9);
    w.sin = random_floats(n * (size_t)w.n_pair, EVEN, 10);
    w.gain = random_floats(n, EVEN, 11);
    gpu_store(&gpu, &w, &got, gpu.n_row - n_idle);
    for (int r = 0; r < host.n_row - n_idle; r++) host_store(&host, &w, &want, r);
    assert_same("q", got.q, want.q, n * row);
    for (int i = 0; i < s->n_seq; i++)
        for (int p = 0; p < N_PLANE; p++)
            for (int t = 0; t < cached_tok(s, i); t++)
                assert_memory_equal(fxi_kv_row(&gpu.seq[i].view[1], p, t),
                                    fxi_kv_row(&host.seq[i].view[1], p, t), kv_row_bytes(s));
    guarded_free_all(w.bias, w.w, w.cos, w.sin, w.gain);
    heads_free(&want), heads_free(&got);
    batch_free(&host), batch_free(&gpu);
}

FX_TEST(test_stored_rows_have_the_bits_of_ref)
{
    for (int bits = 0; bits < 32; bits++)
        for (int i = 0; i < 4; i++) check_store(&shapes[i], bits, 0);
}

FX_TEST(test_norms_may_follow_the_rotation)
{
    for (int bits = 32; bits < 64; bits += 31)
        for (int i = 0; i < 4; i++) check_store(&shapes[i], bits | 6, 0);
}

// A graph's grid has room for more rows than there are.
FX_TEST(test_live_rows_alone_are_stored)
{
    for (int i = 0; i < 4; i++) check_store(&shapes[i], 31, 1);
}

FX_RUN_GROUP(test_cuda_attention, open_kernels, NULL)
