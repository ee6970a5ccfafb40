// test_kv_vtensor.c - the KV manager over libvtensor, as the engine uses it.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "kv/kv.h"

#include <string.h>

static const fxi_kv_shape shape = {
    .layout = {1, {{6, 256, 0}}}, .ctx_tok = 500, .max_seq = 4, .budget_bytes = 2 << 20};

static fxi_kv *open_kv(void)
{
    fxi_kv *kv;
    assert_int_equal(fxi_kv_open("vtensor", &shape, &kv, NULL), FX_OK);
    return kv;
}

static fxi_kv_seq *new_seq(fxi_kv *kv)
{
    fxi_kv_seq *s;
    assert_int_equal(fxi_kv_create(kv, &(fxi_kv_expect){0}, &s), FX_OK);
    return s;
}

static void test_unknown_manager(void **state)
{
    (void)state;
    fxi_kv *kv;
    fx_error err = {0};
    assert_int_equal(fxi_kv_open("none", &shape, &kv, &err), FX_EINVAL);
    assert_non_null(strstr(err.text, "'none'"));
    assert_null(kv);
}

// Every row of every plane is separate memory, and keeps what was written while other sequences
// come, grow and go.
static void test_rows_are_apart(void **state)
{
    (void)state;
    fxi_kv *kv = open_kv();
    fxi_kv_seq *a = new_seq(kv), *b = new_seq(kv);
    for (int n = 1; n <= 200; n += 50) {
        assert_int_equal(fxi_kv_extend(kv, a, n), FX_OK);
        assert_int_equal(fxi_kv_extend(kv, b, n), FX_OK);
        fxi_kv_view va = fxi_kv_get_views(kv, a).group[0], vb = fxi_kv_get_views(kv, b).group[0];
        for (int p = 0; p < 6; p++) {
            memset(fxi_kv_plane(&va, p) + (size_t)(n - 1) * va.tok_stride_bytes, n + p, 256);
            memset(fxi_kv_plane(&vb, p) + (size_t)(n - 1) * vb.tok_stride_bytes, n + p + 7, 256);
        }
    }
    fxi_kv_release(kv, b);
    fxi_kv_view v = fxi_kv_get_views(kv, a).group[0];
    for (int n = 1; n <= 200; n += 50)
        for (int p = 0; p < 6; p++) {
            const char *row = fxi_kv_plane(&v, p) + (size_t)(n - 1) * v.tok_stride_bytes;
            for (int i = 0; i < 256; i++) assert_int_equal(row[i], (char)(n + p));
        }
    fxi_kv_close(kv);
}

static void test_budget_is_a_normal_answer(void **state)
{
    (void)state;
    fxi_kv *kv = open_kv();
    fxi_kv_seq *s[4];
    fx_status st = FX_OK;
    int n_full = 0;
    while (n_full < 4 && st == FX_OK) {
        s[n_full] = new_seq(kv);
        st = fxi_kv_extend(kv, s[n_full++], 500);
    }
    assert_int_equal(st, FX_ENOSPACE);
    fxi_kv_stats stats;
    fxi_kv_get_stats(kv, &stats);
    assert_true(stats.mapped_bytes <= stats.budget_bytes);
    assert_int_equal(stats.live_bytes, (uint64_t)(n_full - 1) * 500 * 6 * 256);
    fxi_kv_release(kv, s[0]);
    assert_int_equal(fxi_kv_extend(kv, s[n_full - 1], 500),
                     FX_OK); // released memory is reused
    fxi_kv_close(kv);
}

static void test_limits(void **state)
{
    (void)state;
    fxi_kv *kv = open_kv();
    fxi_kv_seq *s = new_seq(kv), *more;
    assert_int_equal(fxi_kv_extend(kv, s, 501), FX_EINVAL);
    for (int i = 1; i < 4; i++) new_seq(kv);
    assert_int_equal(fxi_kv_create(kv, &(fxi_kv_expect){0}, &more), FX_ENOSPACE);
    fxi_kv_close(kv);
}

static void test_bytes_for_is_what_is_mapped(void **state)
{
    (void)state;
    for (int n = 1; n <= 500; n += 83) {
        fxi_kv *kv = open_kv();
        fxi_kv_stats stats;
        assert_int_equal(fxi_kv_extend(kv, new_seq(kv), n), FX_OK);
        fxi_kv_get_stats(kv, &stats);
        assert_int_equal(stats.mapped_bytes, fxi_kv_bytes_for(kv, n));
        fxi_kv_close(kv);
    }
}

static void test_trim_gives_back(void **state)
{
    (void)state;
    fxi_kv *kv = open_kv();
    fxi_kv_stats stats;
    fxi_kv_seq *s = new_seq(kv);
    assert_int_equal(fxi_kv_extend(kv, s, 400), FX_OK);
    fxi_kv_release(kv, s);
    assert_int_equal(fxi_kv_trim(kv, 0), FX_OK);
    fxi_kv_get_stats(kv, &stats);
    assert_int_equal(stats.mapped_bytes, 0);
    fxi_kv_close(kv);
}

static uint64_t mappings_of(int n_seq, int *n_together)
{
    enum { N_LAYER = 80, CTX_TOK = 8192 };
    const fxi_kv_shape many = {.layout = {1, {{2 * N_LAYER, 64, 0}}},
                               .ctx_tok = CTX_TOK,
                               .max_seq = 2 * n_seq,
                               .run_seq = n_seq,
                               .budget_bytes = (uint64_t)1 << 40};
    fxi_kv *kv;
    fxi_kv_stats stats;
    assert_int_equal(fxi_kv_open("vtensor", &many, &kv, NULL), FX_OK);
    fxi_kv_seq *s = new_seq(kv);
    assert_int_equal(fxi_kv_extend(kv, s, 1), FX_OK);
    fxi_kv_get_stats(kv, &stats);
    const fxi_kv_view v = fxi_kv_get_views(kv, s).group[0];
    *n_together = v.view_planes ? v.view_planes : 1;
    for (int layer = 0; layer < N_LAYER; layer++) {
        const fxi_kv_view one = fxi_kv_layer(&v, layer);
        assert_ptr_equal(fxi_kv_row(&one, 0, 0), fxi_kv_row(&v, 2 * layer, 0));
        assert_ptr_equal(fxi_kv_row(&one, 1, 0), fxi_kv_row(&v, 2 * layer + 1, 0));
    }
    assert_true(2 * stats.n_mapping * (uint64_t)n_seq <= stats.max_mapping);
    fxi_kv_close(kv);
    return stats.n_mapping;
}

// With two runs each, 64 sequences of 160 planes fit Linux's default limit; 1,000 share views.
static void test_planes_share_views_where_many_sequences_run(void **state)
{
    (void)state;
    int n_together;
    assert_int_equal(mappings_of(64, &n_together), 160);
    assert_int_equal(n_together, 1);
    assert_int_equal(mappings_of(1000, &n_together), 5);
    assert_int_equal(n_together, 32);
}

FX_SUITE(test_kv_vtensor)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_unknown_manager),
        cmocka_unit_test(test_rows_are_apart),
        cmocka_unit_test(test_budget_is_a_normal_answer),
        cmocka_unit_test(test_limits),
        cmocka_unit_test(test_bytes_for_is_what_is_mapped),
        cmocka_unit_test(test_trim_gives_back),
        cmocka_unit_test(test_planes_share_views_where_many_sequences_run),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
