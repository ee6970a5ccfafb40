// test_cuda_rows.c - what is done to rows on a GPU has the bits of kernels/ref: the residual stream
// and its norms, activations, logits.
#include "cuda_layer.h"
#include "suite.h"

enum { N_ROW = 3 };

// ---- the stream --------------------------------------------------------------------------------

// One row's way through add_norm, in the steps of the host.
typedef struct stream_case {
    int dim;
    bool is_rms, is_post, has_bias, has_branch_norm, has_norm, holds, has_held;
    fxi_cuda_stream kind;
    float scale;
} stream_case;

typedef struct stream_data {
    float *x, *h, *held, *bias, *type, *w, *b, *branch_w, *branch_b, *positions;
    int32_t *pos, *x_row, *which; // row of `type`
} stream_data;

static stream_data stream_new(int dim)
{
    const size_t n = (size_t)dim, all = N_ROW * n;
    stream_data d = {
        .x = random_floats(2 * all, EVEN, 1), // rows 1, 3 and 4 of 6
        .h = random_floats(all, EVEN, 2),
        .held = random_floats(all, EVEN, 3),
        .bias = random_floats(n, EVEN, 4),
        .type = random_floats(2 * n, EVEN, 5),
        .w = random_floats(n, EVEN, 6),
        .b = random_floats(n, EVEN, 7),
        .branch_w = random_floats(n, EVEN, 8),
        .branch_b = random_floats(n, EVEN, 9),
        .positions = random_floats(8 * n, EVEN, 10),
        .pos = zeroed(N_ROW, sizeof(int32_t)),
        .x_row = zeroed(N_ROW, sizeof(int32_t)),
        .which = zeroed(N_ROW, sizeof(int32_t)),
    };
    static const int32_t rows[N_ROW] = {1, 3, 4}, pos[N_ROW] = {7, 0, 2}, which[N_ROW] = {0, 1, 1};
    memcpy(d.x_row, rows, sizeof rows);
    memcpy(d.pos, pos, sizeof pos);
    memcpy(d.which, which, sizeof which);
    return d;
}

static void stream_free(stream_data *d)
{
    guarded_free_all(d->x, d->h, d->held, d->bias, d->type, d->w, d->b, d->branch_w, d->branch_b,
                     d->positions, d->pos, d->x_row, d->which);
}

static void norm_row_of(const stream_case *c, const float *w, const float *b, float *x, float *y)
{
    const fxi_kernels *k = ref_path();
    if (c->is_rms)
        k->rms_norm(x, w, c->dim, 1e-5f, y);
    else
        k->layer_norm(x, w, b, c->dim, 1e-5f, y);
}

static void host_branch(const stream_case *c, const stream_data *d, float *x, float *h, float *held)
{
    const fxi_kernels *k = ref_path();
    if (c->has_bias) k->add(h, d->bias, c->dim);
    if (c->has_branch_norm) norm_row_of(c, d->branch_w, d->branch_b, h, h);
    if (c->scale != 1) k->scale(h, c->scale, c->dim);
    if (c->kind == FXI_CUDA_STREAM_HOLD) {
        memcpy(held, h, (size_t)c->dim * sizeof *h);
        return;
    }
    if (c->has_held) k->add(x, held, c->dim);
    k->add(x, h, c->dim);
}

static void host_row(const stream_case *c, const stream_data *d, int row, float *out)
{
    const size_t n = (size_t)c->dim;
    float *x = d->x + (size_t)d->x_row[row] * n;
    if (c->kind == FXI_CUDA_STREAM_BEGIN) {
        if (c->scale != 1) ref_path()->scale(x, c->scale, c->dim);
        const float *type = d->type + (c->is_rms ? 0 : (size_t)d->which[row] * n);
        if (c->has_bias) ref_path()->add(x, type, c->dim);
        if (c->has_held) ref_path()->add(x, d->positions + (size_t)d->pos[row] * n, c->dim);
    } else {
        host_branch(c, d, x, d->h + (size_t)row * n, d->held + (size_t)row * n);
    }
    if (c->has_norm) norm_row_of(c, d->w, d->b, x, c->is_post ? x : out);
    if (!c->has_norm || c->is_post) memcpy(out, x, n * sizeof *out);
}

static fxi_cuda_norm norm_of(const stream_case *c, bool is_there, float *w, float *b)
{
    return (fxi_cuda_norm){.w = is_there ? w : NULL,
                           .b = c->is_rms ? NULL : b,
                           .n = c->dim,
                           .is_rms = c->is_rms,
                           .eps = 1e-5f};
}

static fxi_cuda_add_norm_args stream_args(const stream_case *c, const stream_data *d)
{
    const bool begins = c->kind == FXI_CUDA_STREAM_BEGIN;
    const bool has_held = c->has_held || c->kind == FXI_CUDA_STREAM_HOLD;
    fxi_cuda_add_norm_args a = {
        .kind = c->kind,
        .count = {N_ROW, NULL},
        .dim = c->dim,
        .x = d->x,
        .x_row = d->x_row,
        .embd_scale = c->scale,
        .token_type = c->has_bias ? d->type : NULL,
        .type = c->is_rms ? NULL : d->which,
        .pos = d->pos,
        .h = d->h,
        .bias = c->has_bias ? d->bias : NULL,
        .branch_norm = norm_of(c, c->has_branch_norm, d->branch_w, d->branch_b),
        .residual_scale = c->scale,
        .held = !begins && has_held ? d->held : NULL,
        .norm = norm_of(c, c->has_norm, d->w, d->b),
        .is_post = c->is_post,
        .out = act_new(N_ROW, (size_t)c->dim),
    };
    if (begins && c->has_held) a.positions = packed(FXI_F32, c->dim, 8, d->positions);
    return a;
}

static void check_stream(const stream_case *c)
{
    const size_t n = (size_t)c->dim;
    stream_data host = stream_new(c->dim), gpu = stream_new(c->dim);
    fxi_cuda_add_norm_args a = stream_args(c, &gpu);
    float *want = floats(N_ROW * n);
    for (int row = 0; row < N_ROW; row++) host_row(c, &host, row, want + (size_t)row * n);
    launch(FXI_CUDA_ADD_NORM, &a);
    assert_act("add_norm", &a.out, want, N_ROW * n);
    assert_same("x", gpu.x, host.x, 2 * N_ROW * n);
    if (a.held) assert_same("held", gpu.held, host.held, N_ROW * n);
    act_release(&a.out);
    guarded_free_all((void *)a.positions.data, want);
    stream_free(&host);
    stream_free(&gpu);
}

// Bit i of `bits` is the case's i-th choice.
static stream_case stream_case_of(int bits, fxi_cuda_stream kind, int dim)
{
    return (stream_case){.dim = dim,
                         .is_rms = bits & 1,
                         .is_post = bits & 2,
                         .has_bias = bits & 4,
                         .has_branch_norm = bits & 8,
                         .has_norm = bits & 16,
                         .has_held = bits & 32,
                         .kind = kind,
                         .scale = bits & 64 ? 0.37f : 1};
}

FX_TEST(test_the_stream_has_the_bits_of_ref)
{
    static const int dims[] = {96, 5, 288, 1};
    for (int bits = 0; bits < 128; bits++)
        for (int kind = FXI_CUDA_STREAM_BEGIN; kind <= FXI_CUDA_STREAM_HOLD; kind++) {
            stream_case c = stream_case_of(bits, (fxi_cuda_stream)kind, dims[(bits + kind) % 4]);
            check_stream(&c);
        }
}

// h and out.x are one buffer in a pass.
FX_TEST(test_the_branch_may_be_overwritten)
{
    enum { N = 64 };
    const stream_case c = stream_case_of(1 | 4 | 16, FXI_CUDA_STREAM_HOLD, N);
    stream_data host = stream_new(N), gpu = stream_new(N);
    fxi_cuda_add_norm_args a = stream_args(&c, &gpu);
    float *want = floats((size_t)N_ROW * N);
    for (int row = 0; row < N_ROW; row++) host_row(&c, &host, row, want + row * N);
    act_release(&a.out);
    a.out = (fxi_cuda_act){.x = gpu.h};
    launch(FXI_CUDA_ADD_NORM, &a);
    assert_same("h", gpu.h, want, (size_t)N_ROW * N);
    guarded_free(want);
    stream_free(&host);
    stream_free(&gpu);
}

// ---- rows, rounding ----------------------------------------------------------------------------

FX_TEST(test_rows_are_rounded_as_by_ref)
{
    enum { N = 160 };
    static const int32_t from[N_ROW] = {4, 0, 2};
    for (spread s = EVEN; s < N_SPREAD; s++) {
        float *x = random_floats(5 * N, s, 1), *want = floats((size_t)N_ROW * N);
        fxi_cuda_rows_args a = {
            .x = x, .from = from, .count = {N_ROW, NULL}, .n = N, .out = act_new(N_ROW, N)};
        for (int row = 0; row < N_ROW; row++)
            memcpy(want + row * N, x + from[row] * N, N * sizeof *x);
        launch(FXI_CUDA_ROWS, &a);
        assert_act("rows", &a.out, want, (size_t)N_ROW * N);
        act_release(&a.out);
        guarded_free_all(x, want);
    }
}

// ---- activations -------------------------------------------------------------------------------

static void check_join(fxi_activation act, bool has_gate, int n, spread s)
{
    const size_t all = N_ROW * (size_t)n;
    static const int32_t expert[N_ROW] = {1, 0, 1};
    float *gate = random_floats(all, s, 1), *up = random_floats(all, s, 2), *want = floats(all);
    float *gate_bias = random_floats(2 * (size_t)n, s, 3),
          *up_bias = random_floats(2 * (size_t)n, s, 4);
    fxi_cuda_join_args a = {.act = act,
                            .gate = has_gate ? gate : NULL,
                            .up = up,
                            .gate_bias = gate_bias,
                            .up_bias = up_bias,
                            .row_expert = expert,
                            .count = {N_ROW, NULL},
                            .n = n,
                            .out = act_new(N_ROW, (size_t)n)};
    launch(FXI_CUDA_JOIN, &a);
    for (int row = 0; row < N_ROW; row++) {
        float *g = gate + row * n, *u = up + row * n;
        ref_path()->add(g, gate_bias + expert[row] * n, n);
        ref_path()->add(u, up_bias + expert[row] * n, n);
        if (has_gate)
            ref_path()->gate[act](g, u, n, want + row * n);
        else
            ref_path()->act[act](u, n, want + row * n);
    }
    assert_act("join", &a.out, want, all);
    act_release(&a.out);
    guarded_free_all(gate, up, want, gate_bias, up_bias);
}

FX_TEST(test_activations_have_the_bits_of_ref)
{
    for (int act = 0; act < FXI_ACT_END; act++)
        for (spread s = EVEN; s < N_SPREAD; s++) {
            check_join((fxi_activation)act, true, 320, s);
            check_join((fxi_activation)act, true, 37, s);
            if (act != FXI_ACT_CLAMPED) check_join((fxi_activation)act, false, 96, s);
        }
}

// ---- logits ------------------------------------------------------------------------------------

FX_TEST(test_logits_are_finished_as_by_ref)
{
    enum { N = 301 };
    float *y = random_floats((size_t)N_ROW * N, EVEN, 1), *bias = random_floats(N, EVEN, 2);
    float *want = floats((size_t)N_ROW * N);
    memcpy(want, y, (size_t)N_ROW * N * sizeof *y);
    fxi_cuda_logits_args a = {
        .y = y, .bias = bias, .scale = 3.3f, .cap = 1.5f, .count = {N_ROW, NULL}, .n = N};
    launch(FXI_CUDA_LOGITS, &a);
    for (int row = 0; row < N_ROW; row++) {
        ref_path()->add(want + row * N, bias, N);
        ref_path()->scale(want + row * N, 3.3f, N);
        ref_path()->softcap(want + row * N, 1.5f, N);
    }
    assert_same("logits", y, want, (size_t)N_ROW * N);
    guarded_free_all(y, bias, want);
}

FX_TEST(test_ranks_are_added_in_their_order)
{
    enum { N = 300, N_RANK = 4, ALL = N_ROW * N };
    float *from = random_floats((size_t)N_RANK * ALL, EVEN, 1), *y = floats(ALL);
    float *want = floats(ALL);
    memcpy(want, from, ALL * sizeof *want);
    for (int k = 1; k < N_RANK; k++) ref_path()->add(want, from + k * ALL, ALL);
    fxi_cuda_add_ranks_args a = {
        .from = from, .n_rank = N_RANK, .count = {N_ROW, NULL}, .n = N, .y = y};
    launch(FXI_CUDA_ADD_RANKS, &a);
    assert_same("ranks", y, want, ALL);
    guarded_free_all(from, y, want);
}

FX_TEST(test_the_first_of_the_largest_is_best)
{
    enum { N = 1000, ROWS = 6 };
    float *y = random_floats((size_t)ROWS * N, EVEN, 1);
    int32_t best[ROWS];
    float value[ROWS];
    y[0 * N + 999] = 2;
    y[1 * N + 700] = y[1 * N + 33] = y[1 * N + 289] = 2;
    y[2 * N + 5] = NAN;
    y[3 * N + 512] = -INFINITY;
    for (int i = 0; i < N; i++) y[4 * N + i] = -7;
    y[5 * N + 18] = 3; // in the second half of a warp
    fxi_cuda_argmax_args a = {.y = y, .count = {ROWS, NULL}, .n = N, .best = best, .value = value};
    launch(FXI_CUDA_ARGMAX, &a);
    static const int32_t want[ROWS] = {999, 33, -1, -1, 0, 18};
    for (int row = 0; row < ROWS; row++) {
        assert_int_equal(best[row], want[row]);
        if (want[row] >= 0) assert_true(value[row] == y[row * N + want[row]]);
    }
    guarded_free(y);
}

FX_RUN_GROUP(test_cuda_rows, open_kernels, NULL)
