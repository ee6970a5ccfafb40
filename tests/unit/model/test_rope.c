// test_rope.c - angles are made where positions are used: a table for millions of positions costs
// memory and work only for the blocks that were reached, and a position's angles are the same
// whichever order it was reached in.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "model/plan.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_POS = 1 << 22, N_ROT = 128, N_PAIR = N_ROT / 2 };

static fxi_rope make_rope(void)
{
    fxi_rope s = {.n_rot = N_ROT, .n_pair = N_PAIR, .base = 1e6, .scale = 0.25, .gain = 1.2};
    s.freq = malloc(N_PAIR * sizeof *s.freq);
    for (int i = 0; i < N_PAIR; i++) s.freq[i] = pow(s.base, -2.0 * i / N_ROT);
    return s;
}

static fxi_pool *open_pool(void)
{
    fxi_pool *pool;
    fx_error err;
    assert_int_equal(fxi_pool_create(2, &pool, &err), FX_OK);
    return pool;
}

static long resident_kib(void)
{
    long pages = 0;
    FILE *f = fopen("/proc/self/statm", "r");
    assert_non_null(f);
    assert_int_equal(fscanf(f, "%*s %ld", &pages), 1);
    fclose(f);
    return pages * 4;
}

static int blocks_made(const fxi_rope *r)
{
    int n = 0;
    for (int b = 0; b < N_POS / FXI_ROPE_BLOCK; b++) n += r->is_made[b];
    return n;
}

static void expect_angles(const fxi_rope *r, int pos)
{
    for (int i = 0; i < N_PAIR; i++) {
        const double angle = pos * 0.25 * pow(1e6, -2.0 * i / N_ROT);
        const size_t at = (size_t)pos * N_PAIR + (size_t)i;
        assert_true(fabs((double)r->cos[at] - 1.2 * cos(angle)) < 1e-6);
        assert_true(fabs((double)r->sin[at] - 1.2 * sin(angle)) < 1e-6);
    }
}

FX_TEST(test_only_what_is_reached)
{
    fxi_pool *pool = open_pool();
    fxi_rope r = make_rope();
    fx_error err;
    const long before = resident_kib();
    assert_int_equal(fxi_rope_open(&r, N_POS, &err), FX_OK);
    assert_int_equal(blocks_made(&r), 0);
    fxi_rope_reach(pool, &r, N_POS - 5, 5);
    assert_int_equal(blocks_made(&r), 1);
    fxi_rope_reach(pool, &r, FXI_ROPE_BLOCK - 1, 2);
    assert_int_equal(blocks_made(&r), 3);
    expect_angles(&r, N_POS - 1);
    expect_angles(&r, FXI_ROPE_BLOCK - 1);
    expect_angles(&r, FXI_ROPE_BLOCK);
    assert_true(resident_kib() - before < 64 << 10); // all of it would be 2 GiB
    fxi_rope_close(&r);
    fxi_pool_destroy(pool);
}

FX_TEST(test_any_order_gives_the_same_bits)
{
    fxi_pool *pool = open_pool();
    fxi_rope a = make_rope(), b = make_rope();
    fx_error err;
    const size_t bytes = (size_t)1000 * N_PAIR * sizeof(float);
    a.dynamic_tok = b.dynamic_tok = 300;
    a.dynamic_factor = b.dynamic_factor = 4;
    assert_int_equal(fxi_rope_open(&a, 1000, &err), FX_OK);
    assert_int_equal(fxi_rope_open(&b, 1000, &err), FX_OK);
    fxi_rope_reach(pool, &a, 0, 1000);
    for (int pos = 999; pos >= 0; pos--) fxi_rope_reach(pool, &b, pos, 1);
    assert_memory_equal(a.cos, b.cos, bytes);
    assert_memory_equal(a.sin, b.sin, bytes);
    fxi_rope_close(&a);
    fxi_rope_close(&b);
    fxi_pool_destroy(pool);
}

FX_RUN(test_rope)
