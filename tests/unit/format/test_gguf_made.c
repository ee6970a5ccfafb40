// test_gguf_made.c - rows of a tensor that is made on demand: threads share them, each row is made
// once, and only those that were asked for.
#include "suite.h"
#include "unit/cmocka_all.h"

#include <stdatomic.h>
#include <string.h>

#include "format/gguf/gguf_made.h"
#include "format/gguf_write.h"

enum { N_COL = 96, N_ROW = 20000, N_THREAD = 3 };

typedef struct counts {
    const fxi_gguf *g;
    atomic_int of_row[N_ROW];
    atomic_int n_call;
    int n_made, n_closed;
} counts;

static const void *no_place(void *ud, uint64_t i)
{
    (void)ud, (void)i;
    return NULL;
}

static float number_of(uint64_t row, uint64_t col)
{
    return (float)(row * N_COL + col);
}

static void make_numbers(void *ud, uint64_t i, uint64_t row, uint64_t n_row, void *dst)
{
    counts *c = ud;
    float *to = dst;
    assert_int_equal(i, 0);
    atomic_fetch_add(&c->n_call, 1);
    for (uint64_t r = row; r < row + n_row; r++) {
        atomic_fetch_add(&c->of_row[r], 1);
        for (uint64_t k = 0; k < N_COL; k++) *to++ = number_of(r, k);
    }
}

static void count_made(void *ud, uint64_t i)
{
    counts *c = ud;
    assert_int_equal(i, 0);
    c->n_made++;
}

static void count_closed(void *ud)
{
    ((counts *)ud)->n_closed++;
}

static fxi_gguf *present_numbers(counts *c)
{
    const fxi_gguf_maker maker = {.ud = c,
                                  .place = no_place,
                                  .make = make_numbers,
                                  .made = count_made,
                                  .close = count_closed};
    fxi_gguf_writer *w;
    fxi_buf head = {0};
    fxi_gguf *g;
    fx_error err;
    assert_int_equal(fxi_gguf_writer_open_memory("made", &w, &err), FX_OK);
    fxi_gguf_declare_tensor(w, "numbers", FXI_F32, 2, (const uint64_t[]){N_COL, N_ROW});
    assert_int_equal(fxi_gguf_writer_take_head(w, &head, &err), FX_OK);
    if (fxi_gguf_present("made", &head, &maker, &g, &err) != FX_OK) fail_msg("%s", err.text);
    return g;
}

// Rows [from, end) are made once, the others not; then they are forgotten.
static void fetch_rows(counts *c, fxi_gguf *g, uint64_t from, uint64_t end, fxi_pool *pool)
{
    const fxi_gguf_tensor *t = fxi_gguf_tensor_at(g, 0);
    const uint64_t row_bytes = N_COL * sizeof(float), n_bytes = (end - from) * row_bytes;
    const float *v = t->data;
    fx_error err;
    c->n_made = 0;
    assert_int_equal(fxi_gguf_fetch(g, t, from * row_bytes, n_bytes, pool, &err), FX_OK);
    for (uint64_t r = 0; r < N_ROW; r++) {
        assert_int_equal(c->of_row[r], r >= from && r < end);
        c->of_row[r] = 0;
    }
    for (uint64_t r = from; r < end; r++)
        for (uint64_t k = 0; k < N_COL; k++)
            if (v[r * N_COL + k] != number_of(r, k)) fail_msg("row %d", (int)r);
    assert_int_equal(c->n_made, 1);
    fxi_gguf_drop(g, (const char *)t->data + from * row_bytes, n_bytes);
}

static void test_threads_make_each_row_once(void **state)
{
    (void)state;
    static counts c;
    fxi_pool *pool;
    fx_error err;
    fxi_gguf *g = present_numbers(&c);
    assert_int_equal(fxi_pool_create(N_THREAD, &pool, &err), FX_OK);
    fetch_rows(&c, g, 0, N_ROW, pool);
    assert_true(c.n_call > N_THREAD); // tasks for all of them
    fetch_rows(&c, g, 7, 1234, pool);
    fetch_rows(&c, g, N_ROW - 1, N_ROW, pool);
    c.n_call = 0;
    fetch_rows(&c, g, 3, N_ROW - 5, NULL);
    assert_int_equal(c.n_call, 1);
    fxi_pool_destroy(pool);
    fxi_gguf_close(g);
    assert_int_equal(c.n_closed, 1);
}

FX_SUITE(test_gguf_made)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_threads_make_each_row_once)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
