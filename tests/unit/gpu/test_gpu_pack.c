// test_gpu_pack.c - what goes to a device in large pieces: bytes arrive whatever their number,
// matrices arrive packed, through two buffers and no more; memory is taken from few allocations.
#include "suite.h"
#include "unit/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "gpu/gpu_impl.h"
#include "kernels/cuda/cuda_pack.h"
#include "standin/standin.h"

typedef struct pack_rig {
    fxi_device *d;
    fxi_pool *pool;
} pack_rig;

static void must(fx_status st, const fx_error *err)
{
    if (st != FX_OK) fail_msg("%s", err->text);
}

static void open_rig(pack_rig *r)
{
    fx_error err = {0};
    standin_reset();
    must(fxi_pool_create(2, &r->pool, &err), &err);
    must(fxi_gpu_open(&(fxi_gpu_options){.name = "cuda:0", .pool = r->pool}, &r->d, &err), &err);
}

static void close_rig(pack_rig *r)
{
    r->d->ops->close(r->d);
    fxi_pool_destroy(r->pool);
    if (standin_left()) fail_msg("%s", standin_left());
}

static char *make_bytes(size_t n)
{
    char *p = malloc(n ? n : 1);
    uint32_t seed = (uint32_t)n + 1;
    assert_non_null(p);
    for (size_t i = 0; i < n; i++) {
        seed = seed * 1664525 + 1013904223;
        p[i] = (char)(seed >> 24);
    }
    return p;
}

// What the device has at `at`.
static char *read_back(pack_rig *r, const void *at, size_t n)
{
    fx_error err = {0};
    char *p = malloc(n ? n : 1);
    assert_non_null(p);
    fxi_gpu *g = fxi_gpu_of(r->d);
    must(fxi_cu_enter(&g->cu, &err), &err);
    must(fxi_gpu_stage_drain(&g->cu, &g->stage, &err), &err);
    must(fxi_gpu_stage_download(&g->cu, &g->stage, p, at, n, &err), &err);
    fxi_cu_leave(&g->cu, FX_OK);
    return p;
}

static void *take_room(pack_rig *r, size_t n)
{
    void *at;
    fx_error err = {0};
    must(r->d->ops->take(r->d, n, 0, &at, &err), &err);
    assert_int_equal((uintptr_t)at % FXI_GPU_ALIGN, 0);
    return at;
}

FX_TEST(test_bytes_of_any_number_arrive)
{
    static const size_t sizes[] = {0,
                                   1,
                                   255,
                                   4096,
                                   FXI_GPU_STAGE_BYTES - 1,
                                   FXI_GPU_STAGE_BYTES,
                                   3 * (size_t)FXI_GPU_STAGE_BYTES + 17};
    pack_rig r;
    fx_error err = {0};
    open_rig(&r);
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
        const size_t n = sizes[i];
        char *src = make_bytes(n), *copy = malloc(n + 1);
        void *at = take_room(&r, n);
        memcpy(copy, src, n);
        must(r.d->ops->upload(r.d, at, src, n, &err), &err);
        memset(src, 0, n); // it may be reused
        char *got = read_back(&r, at, n);
        assert_memory_equal(got, copy, n);
        assert_int_equal(standin_look().n_pinned, 2);
        assert_int_equal(standin_look().pinned_bytes, 2 * (size_t)FXI_GPU_STAGE_BYTES);
        free(src);
        free(copy);
        free(got);
    }
    close_rig(&r);
}

typedef struct matrix_case {
    fxi_dtype type;
    int n_in, n_row, part; // rows of a call
} matrix_case;

static void check_matrix(pack_rig *r, const matrix_case *c)
{
    fx_error err = {0};
    const fxi_dtype_info *t = fxi_dtype_find(c->type);
    const size_t row = (size_t)c->n_in / t->block_elems * t->block_bytes;
    const size_t n = fxi_cuda_matrix_bytes(c->type, c->n_in, c->n_row);
    char *rows = make_bytes((size_t)c->n_row * row), *want = calloc(1, n);
    const fxi_linear w = {
        .type = c->type, .n_in = c->n_in, .n_out = c->n_row, .data = take_room(r, n)};
    fxi_cuda_pack_rows(c->type, c->n_in, c->n_row, rows, want);
    for (int row0 = 0; row0 < c->n_row; row0 += c->part) {
        const int left = c->n_row - row0, n_put = left < c->part ? left : c->part;
        const char *from = rows + (size_t)row0 * row;
        must(r->d->ops->put_linear(r->d, &w, row0, n_put, from, &err), &err);
    }
    memset(rows, 0, (size_t)c->n_row * row);
    char *got = read_back(r, w.data, n);
    assert_memory_equal(got, want, n);
    free(rows);
    free(want);
    free(got);
}

// In calls of several parts, with a last panel that is not full, and with panels so large that a
// buffer holds one.
FX_TEST(test_matrices_arrive_packed)
{
    static const matrix_case cases[] = {{FXI_F32, 40, 37, 37},     {FXI_BF16, 96, 64, 16},
                                        {FXI_Q8_0, 64, 50, 32},    {FXI_Q4_K, 256, 33, 16},
                                        {FXI_Q6_K, 512, 48, 48},   {FXI_F32, 1 << 17, 40, 40},
                                        {FXI_F16, 4096, 4000, 160}};
    pack_rig r;
    open_rig(&r);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_matrix(&r, &cases[i]);
    assert_int_equal(standin_look().n_pinned, 2);
    close_rig(&r);
}

// A panel that a buffer does not hold makes the buffers larger.
FX_TEST(test_a_large_panel_makes_buffers_larger)
{
    static const matrix_case c = {FXI_F32, 1 << 18, 17, 17};
    pack_rig r;
    open_rig(&r);
    check_matrix(&r, &c);
    assert_int_equal(standin_look().n_pinned, 2);
    assert_true(standin_look().pinned_bytes >= 2 * fxi_cuda_panel_bytes(c.type, c.n_in));
    close_rig(&r);
}

FX_TEST(test_pieces_share_an_allocation)
{
    pack_rig r;
    fx_error err = {0};
    char *last = NULL;
    open_rig(&r);
    for (int i = 0; i < 10; i++) {
        void *at;
        must(r.d->ops->take(r.d, 1000, (uint64_t)(9 - i) * 1024, &at, &err), &err);
        assert_true(!last || (char *)at == last + 1024);
        last = at;
    }
    assert_int_equal(standin_look().n_alloc, 1);
    close_rig(&r);
}

// Where the estimate does not fit, the piece alone is taken.
FX_TEST(test_an_estimate_is_no_demand)
{
    pack_rig r;
    void *at;
    fx_error err = {0};
    open_rig(&r);
    standin_limit_allocs(8 << 20);
    must(r.d->ops->take(r.d, 1 << 20, (uint64_t)1 << 40, &at, &err), &err);
    assert_int_equal(r.d->ops->take(r.d, (size_t)64 << 20, 0, &at, &err), FX_ENOMEM);
    assert_null(at);
    close_rig(&r);
}

FX_RUN(test_gpu_pack)
