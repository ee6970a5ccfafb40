// test_cuda_linear.c - linear layers and look-ups of rows on a GPU have the bits of kernels/ref,
// for every type of weights.
#include "cuda_layer.h"
#include "suite.h"

static layer random_layer(plan p)
{
    return layer_make(p, random_rows(p.type, p.n_in, p.n_out, 7),
                      random_floats((size_t)p.n_tok * (size_t)p.n_in, EVEN, 3));
}

static fxi_cuda_act act_of(const layer *l)
{
    return (fxi_cuda_act){.x = l->x, .q = l->act.q, .d = l->act.d, .sum = l->act.sum};
}

static void check_layer(plan p)
{
    layer l = random_layer(p);
    const size_t n = (size_t)p.n_tok * (size_t)p.n_out;
    fxi_cuda_linear_args a = {.w = packed(p.type, p.n_in, p.n_out, l.raw),
                              .n_expert = 1,
                              .a = act_of(&l),
                              .count = {p.n_tok, NULL},
                              .y = floats(n)};
    launch(fxi_cuda_linear_find(p.type, FXI_CUDA_CPU_EXACT, p.n_tok), &a);
    assert_same(fxi_dtype_find(p.type)->name, a.y, l.want, n);
    guarded_free_all((void *)a.w.data, a.y);
    layer_free(&l);
}

static int whole_blocks(fxi_dtype type, int n_in)
{
    const int n = (int)fxi_dtype_find(type)->block_elems;
    return (n_in + n - 1) / n * n;
}

FX_TEST(test_every_type_has_the_bits_of_ref)
{
    static const int shapes[][3] = {{1, 1, 1}, {37, 17, 3}, {288, 16, 9}, {1056, 40, 1}};
    for (int t = 0; t < N_TYPE; t++)
        for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
            check_layer((plan){types[t], whole_blocks(types[t], shapes[s][0]), shapes[s][1],
                               shapes[s][2], 0});
}

// More rows than blocks in the grid's second dimension, so that a block goes on with others.
FX_TEST(test_many_rows)
{
    check_layer((plan){FXI_F16, 5, 3, 64 * 8 + 11, 0});
    check_layer((plan){FXI_Q4_0, 32, 3, 64 * 8 + 11, 0});
}

FX_TEST(test_live_rows_alone_are_written)
{
    layer l = random_layer((plan){FXI_Q5_1, 64, 20, 12, 0});
    const int32_t live = 9;
    fxi_cuda_linear_args a = {.w = packed(FXI_Q5_1, 64, 20, l.raw),
                              .n_expert = 1,
                              .a = act_of(&l),
                              .count = {12, &live},
                              .y = floats(12 * 20)};
    launch(FXI_CUDA_LINEAR_Q5_1, &a);
    assert_same("live", a.y, l.want, 9 * 20);
    for (int i = 9 * 20; i < 12 * 20; i++) assert_true(a.y[i] == 0);
    guarded_free_all((void *)a.w.data, a.y);
    layer_free(&l);
}

// Experts side by side, one of them without rows.
static void check_experts(fxi_dtype type)
{
    enum { N_IN = 256, N_OUT = 24, N_EXPERT = 4, N_ROW = 13 };
    const int32_t range[N_EXPERT + 1] = {0, 3, 3, 12, 13};
    const size_t bytes = fxi_cuda_matrix_bytes(type, N_IN, N_OUT);
    char *all = aligned_alloc(256, bytes * N_EXPERT);
    float *x = random_floats((size_t)N_ROW * N_IN, EVEN, 5), *want = floats((size_t)N_ROW * N_OUT);
    fxi_cuda_linear_args a = {.w = {all, (int32_t)type, N_IN, N_OUT},
                              .n_expert = N_EXPERT,
                              .expert_bytes = bytes,
                              .range = range,
                              .count = {N_ROW, NULL},
                              .y = floats((size_t)N_ROW * N_OUT)};
    a.a = act_new(N_ROW, N_IN);
    fxi_cuda_rows_args form = {.x = x, .count = {N_ROW, NULL}, .n = N_IN, .out = a.a};
    launch(FXI_CUDA_ROWS, &form);
    for (int e = 0; e < N_EXPERT; e++) {
        const int row0 = range[e], n_tok = range[e + 1] - row0;
        char *raw = random_rows(type, N_IN, N_OUT, 100 * (uint64_t)e);
        fxi_cuda_pack_rows(type, N_IN, N_OUT, raw, all + bytes * (size_t)e);
        float *tok = floats((size_t)n_tok * N_IN);
        memcpy(tok, x + (size_t)row0 * N_IN, (size_t)n_tok * N_IN * sizeof *tok);
        layer l = layer_make((plan){type, N_IN, N_OUT, n_tok, 0}, raw, tok);
        memcpy(want + (size_t)row0 * N_OUT, l.want, (size_t)n_tok * N_OUT * sizeof *want);
        layer_free(&l);
    }
    launch(fxi_cuda_linear_find(type, FXI_CUDA_CPU_EXACT, N_ROW), &a);
    assert_same("experts", a.y, want, (size_t)N_ROW * N_OUT);
    act_release(&a.a);
    guarded_free_all(all, x, want, a.y);
}

FX_TEST(test_experts_read_their_rows)
{
    check_experts(FXI_BF16);
    check_experts(FXI_Q4_K);
    check_experts(FXI_MXFP4);
}

// ---- tables ------------------------------------------------------------------------------------

static void check_table(fxi_dtype type)
{
    enum { N_ROW = 5, N_TABLE = 19 };
    static const int32_t token[N_ROW] = {0, 18, 16, 7, 7};
    const int n = fxi_dtype_find(type)->block_elems > 1 ? 512 : 45;
    char *raw = random_rows(type, n, N_TABLE, 11);
    const size_t bytes = row_bytes(type, n);
    const fxi_cuda_matrix table = packed(type, n, N_TABLE, raw);
    fxi_cuda_embed_args a = {
        .table = table, .token = token, .out = act_new(N_ROW, (size_t)n), .count = {N_ROW, NULL}};
    float *want = floats((size_t)N_ROW * (size_t)n);
    for (int r = 0; r < N_ROW; r++)
        fxi_row_to_f32(type, raw + bytes * (size_t)token[r], (size_t)n, want + r * n);
    launch(FXI_CUDA_EMBED, &a);
    assert_act(fxi_dtype_find(type)->name, &a.out, want, (size_t)N_ROW * (size_t)n);
    act_release(&a.out);
    guarded_free_all((void *)table.data, raw, want);
}

FX_TEST(test_rows_of_tables)
{
    for (int t = 0; t < N_TYPE; t++) check_table(types[t]);
}

FX_RUN_GROUP(test_cuda_linear, open_kernels, NULL)
