// test_kv_waste.c - what managers promise beyond kv.h: how much the reserving ones keep, and of
// which kind their waste is; what sequences share in blocks, and when they get a copy.
#include "unit/cmocka_all.h"

#include "unit/kv/support/kv_world.h"

enum { BUDGET = 4 << 20, BLOCK = 16, TOK_BYTES = 4 * 192 };

static kv_world w; // too large for a stack
static int32_t text[KV_WORLD_CTX];

static void open_world(const char *manager)
{
    const fxi_kv_shape shape = kv_world_shape(BUDGET, false);
    for (int i = 0; i < KV_WORLD_CTX; i++) text[i] = i;
    kv_world_open(&w, manager, &shape);
}

// In tokens.
static fxi_kv_stats stats_in_tok(void)
{
    fxi_kv_stats st;
    fxi_kv_get_stats(w.kv, &st);
    st.used_bytes /= TOK_BYTES, st.reserved_bytes /= TOK_BYTES, st.internal_bytes /= TOK_BYTES;
    st.external_bytes /= TOK_BYTES, st.held_bytes /= TOK_BYTES, st.cached_bytes /= TOK_BYTES;
    return st;
}

static void expect_waste(int used, int reserved, int internal, int external)
{
    const fxi_kv_stats st = stats_in_tok();
    assert_int_equal(st.used_bytes, used);
    assert_int_equal(st.reserved_bytes, reserved);
    assert_int_equal(st.internal_bytes, internal);
    assert_int_equal(st.external_bytes, external);
}

FX_TEST(test_reservations)
{
    static const struct {
        const char *manager;
        int output, kept, block; // expected output; tokens reserved, and in the block
    } rows[] = {
        {"reserve-max", 40, 300, 512},  {"reserve-max", 0, 300, 512},
        {"reserve-pow2", 40, 84, 128},  {"reserve-pow2", 32, 52, 64},
        {"reserve-pow2", 0, 130, 256},  {"reserve-oracle", 40, 60, 64},
        {"reserve-oracle", 44, 64, 64}, {"reserve-oracle", 0, 130, 256},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        const int output = rows[i].output, kept = rows[i].kept, block = rows[i].block;
        const fxi_kv_expect e = {.begin_tok = 20, .output_tok = output, .most_tok = 130};
        open_world(rows[i].manager);
        assert_int_equal(kv_world_create(&w, 0, &e), FX_OK);
        assert_int_equal(kv_world_extend(&w, 0, 20, text), FX_OK);
        expect_waste(20, output, kept - 20 - output, block - kept);
        assert_int_equal(kv_world_extend(&w, 0, 30, text), FX_OK);
        const int left = output > 10 ? output - 10 : 0;
        expect_waste(30, left, kept - 30 - left, block - kept);
        kv_world_close(&w);
    }
}

static uint64_t waste_of(const char *manager)
{
    open_world(manager);
    assert_int_equal(kv_world_create(&w, 0, &(fxi_kv_expect){.begin_tok = 20}), FX_OK);
    assert_int_equal(kv_world_extend(&w, 0, 20, text), FX_OK);
    fxi_kv_stats st;
    fxi_kv_get_stats(w.kv, &st);
    kv_world_close(&w);
    return st.internal_bytes;
}

// One page per group instead of one for each plane.
FX_TEST(test_planes_side_by_side_waste_less)
{
    assert_true(waste_of("vattention-mega") < waste_of("vattention"));
}

// A sequence that is longer than was expected moves, and its rows with it.
FX_TEST(test_outgrowing_a_reservation)
{
    const fxi_kv_expect e = {.begin_tok = 20, .output_tok = 10};
    open_world("reserve-oracle");
    assert_int_equal(kv_world_create(&w, 0, &e), FX_OK);
    assert_int_equal(kv_world_create(&w, 1, &e), FX_OK);
    for (int n = 20; n <= 290; n += 9) {
        assert_int_equal(kv_world_extend(&w, 0, n, text), FX_OK);
        assert_int_equal(kv_world_extend(&w, 1, n, text), FX_OK);
        kv_world_verify(&w);
    }
    assert_int_equal(stats_in_tok().held_bytes, 2 * 512);
    kv_world_close(&w);
}

static void begin(int i, int n_tok)
{
    const fxi_kv_expect e = {.begin_tok = n_tok};
    assert_int_equal(kv_world_create(&w, i, &e), FX_OK);
    assert_int_equal(kv_world_extend(&w, i, n_tok, text), FX_OK);
}

static int n_held_block(void)
{
    return (int)stats_in_tok().held_bytes / BLOCK;
}

static int n_shared_block(void)
{
    fxi_kv_stats st;
    fxi_kv_get_stats(w.kv, &st);
    return (int)(st.shared_bytes / (BLOCK * TOK_BYTES));
}

// The first writer to a shared block gets a copy; the last one writes in place.
FX_TEST(test_copy_on_write)
{
    open_world("paged");
    begin(0, 3 * BLOCK + 5);
    expect_waste(3 * BLOCK + 5, 0, BLOCK - 5, 0);
    assert_int_equal(kv_world_fork(&w, 0, 1, 3 * BLOCK + 5), FX_OK);
    assert_int_equal(kv_world_fork(&w, 0, 2, 3 * BLOCK + 5), FX_OK);
    assert_int_equal(n_held_block(), 4);
    assert_int_equal(n_shared_block(), 4);
    for (int i = 0; i < 3; i++)
        assert_int_equal(kv_world_extend(&w, i, 3 * BLOCK + 6, text), FX_OK);
    kv_world_verify(&w);
    assert_int_equal(n_held_block(), 3 + 3);
    assert_int_equal(n_shared_block(), 3);
    expect_waste(3 * BLOCK + 3 * 6, 0, 3 * (BLOCK - 6), 0);
    kv_world_close(&w);
}

// Twins that computed the same prompt hold its full blocks once they are recorded.
FX_TEST(test_twins_share_what_is_recorded)
{
    open_world("paged");
    begin(0, 4 * BLOCK), begin(1, 4 * BLOCK);
    assert_int_equal(n_held_block(), 8);
    assert_int_equal(kv_world_record_seq(&w, 0, 0, 4 * BLOCK), FX_OK);
    assert_int_equal(kv_world_record_seq(&w, 1, 0, 4 * BLOCK), FX_OK);
    assert_int_equal(n_held_block(), 4);
    kv_world_verify(&w);
    kv_world_release(&w, 0);
    assert_int_equal(n_held_block(), 4);
    kv_world_release(&w, 1);
    assert_int_equal(stats_in_tok().cached_bytes, 4 * BLOCK);
    kv_world_close(&w);
}

// Sequences count as holders, and so do recorded prefixes: what one alone holds is not shared.
FX_TEST(test_what_is_shared_is_counted)
{
    int hit;
    open_world("paged");
    begin(0, 4 * BLOCK + 1);
    assert_int_equal(n_shared_block(), 0);
    assert_int_equal(kv_world_record_seq(&w, 0, 0, 3 * BLOCK), FX_OK);
    assert_int_equal(n_shared_block(), 3);
    assert_int_equal(kv_world_match(&w, 1, 0, text, 2 * BLOCK, &hit), FX_OK);
    assert_int_equal(n_shared_block(), 3);
    kv_world_release(&w, 0);
    assert_int_equal(n_shared_block(), 2);
    assert_int_equal(kv_world_fork(&w, 1, 2, 2 * BLOCK), FX_OK);
    assert_int_equal(kv_world_swap_out(&w, 1), FX_OK);
    assert_int_equal(n_shared_block(), 2);
    assert_int_equal(kv_world_swap_out(&w, 2), FX_OK);
    assert_int_equal(n_shared_block(), 0);
    assert_int_equal(kv_world_swap_in(&w, 1), FX_OK);
    assert_int_equal(kv_world_swap_in(&w, 2), FX_OK);
    assert_int_equal(n_shared_block(), 2);
    kv_world_release(&w, 1);
    kv_world_release(&w, 2);
    assert_int_equal(n_shared_block(), 0);
    kv_world_close(&w);
}

// A page is recorded in one domain only. The pages before it, which the other domain knows from
// another sequence, stay the sequence's own.
FX_TEST(test_a_refused_record_changes_nothing)
{
    const fxi_kv_keep keep = {0};
    open_world("paged");
    begin(0, 4 * BLOCK), begin(1, 2 * BLOCK);
    assert_int_equal(kv_world_record_seq(&w, 0, 0, 4 * BLOCK), FX_OK);
    assert_int_equal(kv_world_record_seq(&w, 1, 1, 2 * BLOCK), FX_OK);
    assert_int_equal(n_held_block(), 4 + 2);
    assert_int_equal(fxi_kv_record(w.kv, w.seq[0].kv, w.domain[1], text, 4 * BLOCK, &keep),
                     FX_EINVAL);
    assert_int_equal(n_held_block(), 4 + 2);
    assert_int_equal(fxi_kv_peek(w.kv, w.domain[0], text, 4 * BLOCK), 4 * BLOCK);
    assert_int_equal(fxi_kv_peek(w.kv, w.domain[1], text, 4 * BLOCK), 2 * BLOCK);
    kv_world_verify(&w);
    kv_world_release(&w, 1);
    kv_world_close(&w);
}

// From one token on, unless the kernels read more rows at once.
FX_TEST(test_block_sizes)
{
    for (int tile = 0; tile <= 16; tile += 16)
        for (int n = 1; n <= 512; n *= 2) {
            fxi_kv_shape shape = kv_world_shape(BUDGET, false);
            const int least = tile ? tile : 1;
            fx_error err = {0};
            shape.block_tok = n;
            shape.tile_tok = tile;
            if (n >= least && n <= 256) {
                kv_world_open(&w, "paged", &shape);
                begin(0, 37);
                assert_int_equal(stats_in_tok().held_bytes, (37 + n - 1) / n * n);
                kv_world_close(&w);
                continue;
            }
            assert_int_equal(fxi_kv_open("paged", &shape, &w.kv, &err), FX_EINVAL);
            assert_null(w.kv);
        }
}

// Whole blocks are matched, whatever their place in the pool; another token ends the match.
FX_TEST(test_blocks_are_matched_by_their_tokens)
{
    int hit;
    open_world("paged");
    begin(0, 5 * BLOCK);
    assert_int_equal(kv_world_record_seq(&w, 0, 0, 5 * BLOCK), FX_OK);
    assert_int_equal(fxi_kv_peek(w.kv, w.domain[0], text, 5 * BLOCK), 5 * BLOCK);
    assert_int_equal(fxi_kv_peek(w.kv, w.domain[0], text, 5 * BLOCK - 1), 4 * BLOCK);
    text[2 * BLOCK + 3]++;
    assert_int_equal(fxi_kv_peek(w.kv, w.domain[0], text, 5 * BLOCK), 2 * BLOCK);
    assert_int_equal(kv_world_match(&w, 1, 0, text, 5 * BLOCK, &hit), FX_OK);
    assert_int_equal(hit, 2 * BLOCK);
    assert_int_equal(kv_world_extend(&w, 1, 5 * BLOCK, text), FX_OK);
    assert_int_equal(n_held_block(), 5 + 3);
    assert_int_equal(kv_world_record_seq(&w, 1, 0, 5 * BLOCK), FX_OK);
    assert_int_equal(fxi_kv_peek(w.kv, w.domain[0], text, 5 * BLOCK), 5 * BLOCK);
    kv_world_verify(&w);
    kv_world_close(&w);
}

FX_RUN(test_kv_waste)
