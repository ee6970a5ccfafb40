// test_kernel_bounds.c - no entry of a path's table reads or writes out of bounds. A buffer lies
// between two pages without access, once at the end of its pages and once at their beginning.
#include "linear_test.h"
#include "suite.h"

#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

static const guard_side sides[] = {GUARD_END, GUARD_BEGIN};

static const int sizes[] = {1, 2, 7, 15, 16, 17, 31, 32, 33, 47, 64, 96, 100, 287, 1024};
enum { N_SIZE = sizeof sizes / sizeof sizes[0] };

// The buffers of operations on rows, of n numbers each.
typedef struct rows {
    int n;
    float *x, *w, *b, *y;
} rows;

static rows rows_make(int n)
{
    const size_t len = (size_t)n;
    return (rows){n, random_floats(len, EVEN, 1), random_floats(len, EVEN, 2),
                  random_floats(len, EVEN, 3), random_floats(len, EVEN, 4)};
}

static void rows_free(rows *r)
{
    guarded_free_all(r->x, r->w, r->b, r->y);
}

static void run_norms(const fxi_kernels *k, const rows *r)
{
    k->rms_norm(r->x, r->w, r->n, 1e-5f, r->y);
    k->rms_norm(r->y, r->w, r->n, 1e-5f, r->y);
    k->layer_norm(r->x, r->w, NULL, r->n, 1e-5f, r->y);
    k->layer_norm(r->y, r->w, r->b, r->n, 1e-5f, r->y);
}

static void run_elements(const fxi_kernels *k, const rows *r)
{
    k->add(r->y, r->x, r->n);
    k->add_scaled(r->y, r->x, 0.3f, r->n);
    k->scale(r->y, -0.7f, r->n);
    k->softcap(r->y, 30, r->n);
    for (int a = 0; a < FXI_ACT_END; a++) {
        if (k->act[a]) k->act[a](r->x, r->n, r->y);
        if (k->gate[a]) k->gate[a](r->x, r->w, r->n, r->y);
    }
}

// A head of n numbers, of which some pairs turn.
static void run_rope(const fxi_kernels *k, const rows *r)
{
    for (int n_pair = 1; 2 * n_pair <= r->n; n_pair += 1 + n_pair / 2) {
        float *cos = random_floats((size_t)n_pair, EVEN, 5);
        float *sin = random_floats((size_t)n_pair, EVEN, 6);
        k->rope(r->y, 1, r->n, n_pair, cos, sin);
        guarded_free_all(cos, sin);
    }
}

static void run_stores(const fxi_kernels *k, const rows *r)
{
    for (int type = 0; type < FXI_DTYPE_END; type++) {
        if (!k->store_kv[type] || (type == FXI_Q8_0 && r->n % 32)) continue;
        void *row = guarded_new(fxi_kv_bytes((fxi_dtype)type, r->n));
        k->store_kv[type](r->x, r->n, row);
        guarded_free(row);
    }
    if (r->n % 32) return;
    int8_t *q = guarded_new((size_t)r->n);
    float *d = floats((size_t)r->n / 32);
    int32_t *sum = guarded_new((size_t)r->n / 16 * sizeof *sum);
    k->quant_q8(r->x, r->n, q, d, sum);
    guarded_free_all(q, d, sum);
}

FX_TEST(test_rows_stay_in_bounds)
{
    static void (*const runs[])(const fxi_kernels *k, const rows *r) = {run_norms, run_elements,
                                                                        run_rope, run_stores};
    const fxi_kernels *k;
    for (int side = 0; side < 2; side++) {
        guarded_set_side(sides[side]);
        for (int p = 0; (k = fast_path(p)); p++)
            for (int i = 0; i < N_SIZE; i++)
                for (size_t f = 0; f < sizeof runs / sizeof runs[0]; f++) {
                    rows r = rows_make(sizes[i]);
                    runs[f](k, &r);
                    rows_free(&r);
                }
    }
    guarded_set_side(GUARD_END);
}

// A layer whose weights are zeros, which are valid in every type.
static void layer_stays_in_bounds(fxi_dtype type, int n_in, int n_out, int n_tok, int group)
{
    const plan p = {type, n_in, n_out, n_tok, group};
    char *raw = guarded_new(row_bytes(type, n_in) * (size_t)n_out);
    layer l = layer_make(p, raw, random_floats((size_t)(n_tok * n_in), EVEN, 7));
    const fxi_kernels *k;
    for (int i = 0; (k = fast_path(i)); i++) same_bits(k, &l, n_tok);
    layer_free(&l);
}

// Of every type, at shapes that fill no panel, group, tile or block of k.
FX_TEST(test_linear_layers_stay_in_bounds)
{
    static const int n_tok[] = {1, 2, 3, 5, 8, 9, 13, 33};
    for (int side = 0; side < 2; side++) {
        guarded_set_side(sides[side]);
        for (int t = 0; t < N_TYPE; t++) {
            const int block = (int)fxi_dtype_find(types[t])->block_elems;
            const bool is_float = block == 1;
            const int n_in = is_float ? 37 : block * 3;
            for (size_t i = 0; i < sizeof n_tok / sizeof n_tok[0]; i++) {
                layer_stays_in_bounds(types[t], n_in, 1, n_tok[i], 0);
                layer_stays_in_bounds(types[t], n_in, 49, n_tok[i], 0);
                if (is_float) layer_stays_in_bounds(types[t], n_in, 49, n_tok[i], 4);
            }
        }
    }
    guarded_set_side(GUARD_END);
}

enum { GROUP = 3, N_KV_HEAD = 2, N_HEAD = GROUP * N_KV_HEAD };

// One call, in one step and in two, over a cache that holds what it reads and nothing else.
static void attention_stays_in_bounds(const fxi_kernels *k, fxi_dtype type, int head_dim, int n_tok,
                                      int pos)
{
    const int n_pos = pos + n_tok;
    const size_t row = fxi_kv_bytes(type, N_KV_HEAD * head_dim);
    const size_t n = (size_t)(n_tok * N_HEAD * head_dim);
    const int n_segment = fxi_attn_n_segment(n_pos);
    char *cache = guarded_new(2 * (size_t)n_pos * row);
    float *q = random_floats(n, EVEN, 8), *out = floats(n),
          *scratch = floats(fxi_attn_scratch(GROUP, head_dim));
    float *part =
        floats((size_t)(N_KV_HEAD * n_segment * n_tok * GROUP) * fxi_attn_part_floats(head_dim));
    const fxi_attn a = {
        .view = {.base = cache, .plane_stride_bytes = (size_t)n_pos * row, .tok_stride_bytes = row},
        .kv_type = type,
        .n_kv_head = N_KV_HEAD,
        .n_head = N_HEAD,
        .head_dim = head_dim,
        .group = GROUP,
        .n_tok = n_tok,
        .pos = pos,
        .q = q,
        .out = out,
        .scale = 0.1f,
        .scratch = scratch};
    k->attention(&a);
    k->attention_part(&a, 0, n_segment, part);
    k->attention_merge(&a, part);
    guarded_free_all(cache, q, out, scratch, part);
}

FX_TEST(test_attention_stays_in_bounds)
{
    static const fxi_dtype kinds[] = {FXI_F32, FXI_F16, FXI_BF16, FXI_Q8_0};
    static const int dims[] = {1, 8, 16, 20, 32, 48, 64, 96, 100}, at[] = {0, 5, 15, 63, 255, 300};
    const fxi_kernels *k;
    for (int side = 0; side < 2; side++) {
        guarded_set_side(sides[side]);
        for (int p = 0; (k = fast_path(p)); p++)
            for (int t = 0; t < 4; t++)
                for (size_t d = 0; d < sizeof dims / sizeof dims[0]; d++)
                    for (size_t i = 0; i < sizeof at / sizeof at[0]; i++)
                        for (int n_tok = 1; n_tok <= 16; n_tok += 3 * n_tok)
                            if (kinds[t] != FXI_Q8_0 || dims[d] % 32 == 0)
                                attention_stays_in_bounds(k, kinds[t], dims[d], n_tok, at[i]);
    }
    guarded_set_side(GUARD_END);
}

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

FX_TEST(test_the_guards_catch_one_number)
{
    if (!fast_path(0)) skip();
    for (int side = 0; side < 2; side++) {
        guarded_set_side(sides[side]);
        const int before = sides[side] == GUARD_BEGIN;
        float *x = floats(16), *y = floats(17);
        assert_false(dies_of_add(y, x, 16));
        assert_true(dies_of_add(y, x - before, 17));
        guarded_free_all(x, y);
    }
    guarded_set_side(GUARD_END);
}

FX_RUN(test_kernel_bounds)
