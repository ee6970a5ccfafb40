// test_kv_contract.c - what kv.h promises, of every manager of the product and of the laboratory:
// with one device, and with up to three that share a cache out: of one to three, one number for
// each manager, and all of them with FX_TEST_LONG.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "unit/kv/support/kv_world.h"

#include <string.h>

enum { PAGE = 4096, BUDGET = 264 * PAGE }; // which up to three devices share out in whole pages

static kv_world world; // too large for a stack
static int32_t text[4][KV_WORLD_CTX];

static void each_manager(void (*fn)(const char *manager))
{
    for (int k = 0; k < 4; k++)
        for (int i = 0; i < KV_WORLD_CTX; i++) text[k][i] = (i * 7 + k * (i > 100) * 13) % 97;
    for (int i = 0; fxi_lab_manager_name(i); i++)
        for (kv_world_n_rank = 0; kv_world_n_rank <= 3; kv_world_n_rank++)
            if (!kv_world_n_rank || suite_takes((size_t)(i + kv_world_n_rank), 3))
                fn(fxi_lab_manager_name(i));
    kv_world_n_rank = 0;
}

// A test with each of them.
#define EACH_MANAGER(name)                        \
    static void name##_with(const char *manager); \
    FX_TEST(name)                                 \
    {                                             \
        each_manager(name##_with);                \
    }                                             \
    static void name##_with(const char *manager)

static fxi_kv_expect of_length(int n_tok)
{
    return (fxi_kv_expect){.begin_tok = n_tok, .most_tok = n_tok};
}

static void open_world(const char *manager, uint64_t budget_bytes)
{
    const fxi_kv_shape shape = kv_world_shape(budget_bytes, false);
    kv_world_open(&world, manager, &shape);
}

// A sequence with the first n_tok tokens of a text.
static void begin(int i, int n_tok)
{
    const fxi_kv_expect e = of_length(n_tok);
    assert_int_equal(kv_world_create(&world, i, &e), FX_OK);
    assert_int_equal(kv_world_extend(&world, i, n_tok, text[0]), FX_OK);
}

static fxi_kv_stats stats_now(void)
{
    fxi_kv_stats st;
    fxi_kv_get_stats(world.kv, &st);
    assert_int_equal(fxi_kv_held_bytes(world.kv), st.held_bytes);
    return st;
}

// ---- every manager -----------------------------------------------------------------------------

EACH_MANAGER(test_unknown_is_refused)
{
    const fxi_kv_shape shape = kv_world_shape(BUDGET, false);
    fxi_kv *kv;
    fx_error err = {0};
    assert_int_equal(fxi_kv_open("none", &shape, &kv, &err), FX_EINVAL);
    assert_null(kv);
    assert_non_null(strstr(err.text, "'none'"));
    if (!fxi_kv_reserve_find(manager)) assert_non_null(strstr(err.text, manager)); // all are listed
}

EACH_MANAGER(test_slots_follow_capabilities)
{
    open_world(manager, BUDGET);
    const fxi_kv_ops *o = world.kv->ops;
    const bool prefix = fxi_kv_can(world.kv, FXI_KV_PREFIX);
    assert_string_equal(o->name, manager);
    assert_int_equal(prefix, o->domain_open && o->domain_close && o->peek && o->seq_match &&
                                 o->seq_record && o->whole_tok && o->forget_idle);
    assert_true(prefix || !fxi_kv_can(world.kv, FXI_KV_EXACT));
    assert_int_equal(fxi_kv_can(world.kv, FXI_KV_FORK), o->seq_fork != NULL);
    assert_non_null(o->seq_truncate);
    assert_int_equal(fxi_kv_can(world.kv, FXI_KV_CONTINUE), o->lookup_continuation != NULL);
    assert_int_equal(fxi_kv_can(world.kv, FXI_KV_SWAP),
                     o->seq_swap_out && o->seq_swap_in && o->swap_gain && o->moved);
    assert_true(fxi_kv_can(world.kv, FXI_KV_SWAP) || !fxi_kv_can(world.kv, FXI_KV_ASYNC_SWAP));
    assert_int_equal(fxi_kv_can(world.kv, FXI_KV_ELASTIC), o->set_budget && o->trim);
    kv_world_close(&world);
}

EACH_MANAGER(test_small_budgets_are_refused)
{
    const fxi_kv_shape shape = kv_world_shape(1, false);
    fxi_kv *kv;
    fx_error err = {0};
    const fx_status st = kv_world_open_kv(manager, &shape, &kv, &err);
    if (st == FX_OK) { // then nothing fits
        const fxi_kv_need one = {.n_seq = 1, .each = of_length(1), .end_tok = 1};
        assert_true(fxi_kv_cost(kv, &one) > 1);
        fxi_kv_close(kv);
        return;
    }
    assert_int_equal(st, FX_ENOSPACE);
    assert_true(err.text[0]);
    assert_null(kv);
}

// Of every device, where the manager counts them.
EACH_MANAGER(test_calls_of_the_memory_are_counted)
{
    fx_op_stats calls[FX_N_DRIVER_OP];
    const uint64_t n_device = kv_world_n_rank ? (uint64_t)kv_world_n_rank : 1;
    open_world(manager, BUDGET);
    begin(0, 200);
    fxi_kv_driver_calls(world.kv, calls);
    const uint64_t least = world.kv->ops->driver_calls ? n_device : 0;
    assert_true(calls[FX_DRIVER_reserve].n_call >= least);
    assert_true(calls[FX_DRIVER_create].n_call >= least);
    assert_true(calls[FX_DRIVER_map].n_call >= least);
    assert_true(least || !fxi_kv_can(world.kv, FXI_KV_ELASTIC)); // who maps counts
    kv_world_close(&world);
}

EACH_MANAGER(test_rows_stay)
{
    for (int windows = 0; windows < 2; windows++) {
        const fxi_kv_shape shape = kv_world_shape(4 * BUDGET, windows);
        kv_world_open(&world, manager, &shape);
        for (int i = 0; i < 4; i++) {
            const fxi_kv_expect e = {.begin_tok = 10, .output_tok = 20, .most_tok = 300};
            assert_int_equal(kv_world_create(&world, i, &e), FX_OK);
        }
        for (int n = 1; n <= 260; n += 37) {
            for (int i = 0; i < 4; i++)
                if (world.seq[i].kv)
                    assert_int_equal(kv_world_extend(&world, i, n + i, text[i]), FX_OK);
            kv_world_verify(&world);
            if (n > 100 && world.seq[1].kv) kv_world_release(&world, 1);
        }
        kv_world_close(&world);
    }
}

EACH_MANAGER(test_limits_are_kept)
{
    open_world(manager, 8 * BUDGET);
    begin(0, 20);
    assert_int_equal(kv_world_extend(&world, 0, KV_WORLD_CTX + 1, text[0]), FX_EINVAL);
    for (int i = 1; i < KV_WORLD_MAX_SEQ; i++) begin(i, 20);
    fxi_kv_seq *more;
    const fxi_kv_expect e = of_length(1);
    assert_int_equal(fxi_kv_create(world.kv, &e, &more), FX_ENOSPACE);
    assert_null(more);
    kv_world_close(&world);
}

// Creates and fills a sequence; ENOSPACE of either leaves none.
static fx_status try_begin(int i, int n_tok)
{
    const fxi_kv_expect e = of_length(n_tok);
    FX_TRY(kv_world_create(&world, i, &e));
    const fx_status st = kv_world_extend(&world, i, n_tok, text[0]);
    if (st != FX_OK) kv_world_release(&world, i);
    return st;
}

EACH_MANAGER(test_full_is_a_normal_answer)
{
    open_world(manager, BUDGET);
    int n = 0;
    fx_status st = FX_OK;
    while (n < KV_WORLD_MAX_SEQ && (st = try_begin(n, 290)) == FX_OK) n++;
    assert_int_equal(st, FX_ENOSPACE);
    assert_true(n >= 2);
    kv_world_verify(&world);
    kv_world_release(&world, 0);
    assert_int_equal(try_begin(0, 290), FX_OK);
    kv_world_verify(&world);
    kv_world_close(&world);
}

EACH_MANAGER(test_bytes_for_is_what_is_held)
{
    for (int n = 1; n <= KV_WORLD_CTX; n += 41) {
        open_world(manager, BUDGET);
        begin(0, n);
        assert_int_equal(stats_now().held_bytes, fxi_kv_bytes_for(world.kv, n));
        if (!strcmp(manager, "vtensor")) // and no more is mapped
            assert_int_equal(stats_now().mapped_bytes, fxi_kv_bytes_for(world.kv, n));
        kv_world_close(&world);
    }
}

EACH_MANAGER(test_growth_is_enough)
{
    for (int end = 30; end <= KV_WORLD_CTX; end += 45) {
        const fxi_kv_expect e = {.begin_tok = 20, .output_tok = 40};
        open_world(manager, BUDGET);
        assert_int_equal(kv_world_create(&world, 0, &e), FX_OK);
        assert_int_equal(kv_world_extend(&world, 0, 20, text[0]), FX_OK);
        const uint64_t held = stats_now().held_bytes;
        const uint64_t growth = fxi_kv_growth(world.kv, world.seq[0].kv, end);
        for (int n = 21; n <= end; n++)
            assert_int_equal(kv_world_extend(&world, 0, n, text[0]), FX_OK);
        assert_true(stats_now().held_bytes <= held + growth);
        kv_world_close(&world);
    }
}

// The first one of `need` is computed; the others share it, or begin on their own.
static void begin_all(const fxi_kv_need *need)
{
    const bool forks = !need->is_apart && fxi_kv_can(world.kv, FXI_KV_FORK);
    for (int i = 0; i < need->n_seq; i++) {
        if (i && forks) {
            assert_int_equal(kv_world_fork(&world, 0, i, need->each.begin_tok), FX_OK);
            continue;
        }
        assert_int_equal(kv_world_create(&world, i, &need->each), FX_OK);
        assert_int_equal(kv_world_extend(&world, i, need->each.begin_tok, text[0]), FX_OK);
    }
}

// Opens the manager with a budget of which it can use this much, or a little more.
static void open_usable(const char *manager, uint64_t bytes)
{
    uint64_t budget = bytes + 9 * PAGE; // a pool has some scratch pages on each device
    open_world(manager, budget);
    while (stats_now().usable_bytes < bytes) {
        kv_world_close(&world);
        open_world(manager, budget += PAGE);
    }
}

// A budget of what is asked for is enough for it, in whatever order the sequences grow.
static void check_cost(const char *manager, const fxi_kv_need *need, uint64_t cost)
{
    open_usable(manager, cost);
    begin_all(need);
    for (int n = need->each.begin_tok; n < need->end_tok; n++)
        for (int k = 0; k < need->n_seq; k++) {
            const int i = n % 2 ? k : need->n_seq - 1 - k;
            const int len = n + 1 + (k % 3 == 0 ? 5 : 0);
            const int32_t *own = world.seq[i].tok;
            int32_t tok[KV_WORLD_CTX];
            memcpy(tok, text[0], sizeof tok);
            memcpy(tok, own, (size_t)world.seq[i].len_tok * sizeof *tok);
            for (int t = world.seq[i].len_tok; t < KV_WORLD_CTX; t++) tok[t] = t + i;
            const int want = len < need->end_tok ? len : need->end_tok;
            assert_int_equal(kv_world_extend(&world, i, want, tok), FX_OK);
        }
    kv_world_verify(&world);
    kv_world_close(&world);
}

EACH_MANAGER(test_cost_is_enough)
{
    fxi_kv_need need[4][8];
    uint64_t cost[4][8];
    open_world(manager, 32 * BUDGET);
    for (int n = 0; n < 4; n++)
        for (int k = 0; k < 8; k++) {
            const int begin_tok = 1 + k * 23, end_tok = begin_tok + 10 + (k * 31) % 100;
            need[n][k] = (fxi_kv_need){
                .n_seq = n + 1,
                .each = {begin_tok, k % 2 ? 40 : 0, k % 3 ? end_tok : 0},
                .end_tok = end_tok,
                .is_apart = k % 4 == 3,
            };
            cost[n][k] = fxi_kv_cost(world.kv, &need[n][k]);
        }
    kv_world_close(&world);
    for (int n = 0; n < 4; n++)
        for (int k = 0; k < 8; k++) check_cost(manager, &need[n][k], cost[n][k]);
}

// One after the other is released and created again where it was, at every length.
static void check_beginning_again(const char *manager, const fxi_kv_need *need)
{
    open_world(manager, 4 * BUDGET);
    const uint64_t cost = fxi_kv_cost(world.kv, need);
    kv_world_close(&world);
    open_usable(manager, cost);
    for (int i = 0; i < need->n_seq; i++)
        assert_int_equal(kv_world_create(&world, i, &need->each), FX_OK);
    for (int n = need->each.begin_tok; n <= need->end_tok; n++)
        for (int i = 0; i < need->n_seq; i++) {
            if ((n + i) % 3 == 0) {
                // What the engine knows of a sequence that it creates again once it has n_tok
                // tokens.
                const int end = need->each.begin_tok + need->each.output_tok;
                const fxi_kv_expect e =
                    (fxi_kv_expect){n, end > n ? end - n : 0, need->each.most_tok};
                kv_world_release(&world, i);
                assert_int_equal(kv_world_create(&world, i, &e), FX_OK);
            }
            assert_int_equal(kv_world_extend(&world, i, n, text[i]), FX_OK);
        }
    kv_world_verify(&world);
    kv_world_close(&world);
}

EACH_MANAGER(test_cost_covers_beginning_again)
{
    for (int n_seq = 1; n_seq <= 3; n_seq++)
        for (int output = 0; output <= 100; output += 20) {
            const int begin_tok = 30 + output % 7, most = begin_tok + 100;
            const fxi_kv_need need = {
                .n_seq = n_seq,
                .each = {begin_tok, output, most},
                .end_tok = most,
                .is_apart = true,
            };
            check_beginning_again(manager, &need);
        }
}

EACH_MANAGER(test_idle_memory_goes_back)
{
    open_world(manager, BUDGET);
    begin(0, 200);
    kv_world_release(&world, 0);
    kv_world_step(&world, 0, 1);
    if (fxi_kv_can(world.kv, FXI_KV_ELASTIC)) {
        assert_int_equal(fxi_kv_trim(world.kv, 0), FX_OK);
        assert_int_equal(stats_now().mapped_bytes, 0);
    } else {
        assert_true(stats_now().mapped_bytes > BUDGET - 2 * PAGE); // the whole pool
        assert_int_equal(stats_now().spare_bytes, stats_now().mapped_bytes);
    }
    kv_world_close(&world);
}

EACH_MANAGER(test_budget_can_change)
{
    open_world(manager, BUDGET);
    if (fxi_kv_can(world.kv, FXI_KV_ELASTIC)) {
        begin(0, 200);
        const uint64_t least = fxi_kv_bytes_for(world.kv, 200);
        const uint64_t budget = stats_now().budget_bytes;
        assert_in_range(budget, BUDGET - 2, BUDGET); // three devices cannot share it out
        assert_int_equal(fxi_kv_set_budget(world.kv, least / 2), FX_ENOSPACE);
        assert_int_equal(stats_now().budget_bytes, budget);
        assert_int_equal(fxi_kv_set_budget(world.kv, least), FX_OK);
        assert_int_equal(stats_now().budget_bytes, least);
        assert_int_equal(try_begin(1, 20), FX_ENOSPACE);
        assert_int_equal(fxi_kv_set_budget(world.kv, 2 * BUDGET), FX_OK);
        assert_int_equal(try_begin(1, 290), FX_OK);
    }
    kv_world_close(&world);
}

// ---- capabilities ------------------------------------------------------------------------------

EACH_MANAGER(test_prefixes_are_shared)
{
    open_world(manager, BUDGET);
    if (fxi_kv_can(world.kv, FXI_KV_PREFIX)) {
        int hit;
        begin(0, 200);
        assert_int_equal(kv_world_record_seq(&world, 0, 0, 150), FX_OK);
        assert_int_equal(kv_world_match(&world, 1, 0, text[1], 200, &hit), FX_OK);
        assert_true(hit > 64 && hit <= 101); // the texts part there
        assert_int_equal(kv_world_extend(&world, 1, 180, text[1]), FX_OK);
        assert_int_equal(kv_world_match(&world, 2, 0, text[0], 200, &hit), FX_OK);
        assert_true(hit > 100 && hit <= 150);
        assert_int_equal(kv_world_extend(&world, 2, 180, text[0]), FX_OK);
        assert_int_equal(kv_world_match(&world, 3, 1, text[0], 200, &hit), FX_OK);
        assert_int_equal(hit, 0); // another domain
        kv_world_verify(&world);
        assert_true(stats_now().used_bytes < stats_now().live_bytes);
        for (int i = 0; i < 4; i++) kv_world_release(&world, i);
        assert_true(stats_now().cached_bytes > 0);
        assert_int_equal(kv_world_match(&world, 0, 0, text[0], 140, &hit), FX_OK);
        assert_true(hit >= 128);
        kv_world_verify(&world);
        kv_world_release(&world, 0);
        assert_int_equal(kv_world_forget(&world), FX_OK);
        assert_int_equal(stats_now().cached_bytes, 0);
        assert_int_equal(fxi_kv_peek(world.kv, world.domain[0], text[0], 200), 0);
    }
    kv_world_close(&world);
}

// Memory for a new sequence comes from what is recorded: first from what is worth least.
EACH_MANAGER(test_prefixes_make_room_by_worth)
{
    open_world(manager, BUDGET);
    world.is_lossy = true;
    if (fxi_kv_can(world.kv, FXI_KV_PREFIX)) {
        static int32_t other[KV_WORLD_CTX];
        const fxi_kv_keep keep = {.priority = 5, .until_ms = 1000};
        for (int i = 0; i < KV_WORLD_CTX; i++) other[i] = 500 + i;
        begin(0, 290);
        assert_int_equal(
            fxi_kv_record(world.kv, world.seq[0].kv, world.domain[0], text[0], 290, &keep), FX_OK);
        kv_world_release(&world, 0);
        const fxi_kv_expect e = of_length(290);
        for (int round = 0; round < 6; round++) {
            assert_int_equal(kv_world_create(&world, 1, &e), FX_OK);
            other[0] = 1000 + round;
            assert_int_equal(kv_world_extend(&world, 1, 290, other), FX_OK);
            assert_int_equal(kv_world_record_seq(&world, 1, 0, 290), FX_OK);
            kv_world_release(&world, 1);
            kv_world_step(&world, 0, 10);
        }
        assert_true(fxi_kv_peek(world.kv, world.domain[0], text[0], 290) >= 272);
        other[0] = 1000;
        assert_true(fxi_kv_peek(world.kv, world.domain[0], other, 290) < 200);
        kv_world_step(&world, 0, 2000); // it is no longer worth more than others
        for (int round = 0; round < 6; round++) {
            assert_int_equal(kv_world_create(&world, 1, &e), FX_OK);
            other[0] = 2000 + round;
            assert_int_equal(kv_world_extend(&world, 1, 290, other), FX_OK);
            assert_int_equal(kv_world_record_seq(&world, 1, 0, 290), FX_OK);
            kv_world_release(&world, 1);
        }
        assert_true(fxi_kv_peek(world.kv, world.domain[0], text[0], 290) < 200);
    }
    kv_world_close(&world);
}

EACH_MANAGER(test_forks_share_and_part)
{
    open_world(manager, BUDGET);
    if (fxi_kv_can(world.kv, FXI_KV_FORK)) {
        begin(0, 105);
        const uint64_t apart = 2 * fxi_kv_bytes_for(world.kv, 105) + fxi_kv_bytes_for(world.kv, 77);
        assert_int_equal(kv_world_fork(&world, 0, 1, 105), FX_OK);
        assert_int_equal(kv_world_fork(&world, 0, 2, 77), FX_OK);
        kv_world_verify(&world);
        assert_true(stats_now().held_bytes < apart);
        assert_int_equal(kv_world_extend(&world, 1, 130, text[0]), FX_OK);
        assert_int_equal(kv_world_extend(&world, 0, 130, text[0]), FX_OK);
        kv_world_verify(&world);
        kv_world_release(&world, 0);
        assert_int_equal(kv_world_extend(&world, 2, 130, text[1]), FX_OK);
        kv_world_verify(&world);
    }
    kv_world_close(&world);
}

// What followed some tokens in the domain, to its end.
EACH_MANAGER(test_followers_are_told)
{
    open_world(manager, BUDGET);
    if (fxi_kv_can(world.kv, FXI_KV_CONTINUE)) {
        int32_t out[KV_WORLD_CTX];
        begin(0, 290);
        assert_int_equal(kv_world_record_seq(&world, 0, 0, 290), FX_OK);
        kv_world_release(&world, 0);
        for (int n = 0; n <= 290; n += 29) {
            const int got = fxi_kv_lookup_continuation(world.kv, world.domain[0], text[0], n, out,
                                                       KV_WORLD_CTX);
            assert_int_equal(got, 290 - n);
            assert_memory_equal(out, text[0] + n, (size_t)got * sizeof *out);
            assert_int_equal(
                fxi_kv_lookup_continuation(world.kv, world.domain[1], text[0], n, out, 9), 0);
        }
        assert_int_equal(fxi_kv_lookup_continuation(world.kv, world.domain[0], text[0], 7, out, 5),
                         5);
        assert_int_equal(
            fxi_kv_lookup_continuation(world.kv, world.domain[0], text[1], 150, out, 5), 0);
    }
    kv_world_close(&world);
}

// A step that computed more tokens than are kept: they go, others come in their place, and nothing
// else has moved. With windows, too, back to the length before the step.
EACH_MANAGER(test_ends_are_cut_off)
{
    for (int windows = 0; windows < 2; windows++) {
        const fxi_kv_shape shape = kv_world_shape(4 * BUDGET, windows);
        kv_world_open(&world, manager, &shape);
        begin(0, 20), begin(1, 60);
        for (int n = 20; n + 9 < KV_WORLD_CTX; n += n % 5) {
            int32_t wrong[KV_WORLD_CTX];
            memcpy(wrong, text[0], sizeof wrong);
            for (int i = n; i < KV_WORLD_CTX; i++) wrong[i] += 1;
            const void *base = fxi_kv_get_views(world.kv, world.seq[0].kv).group[0].base;
            assert_int_equal(kv_world_extend(&world, 0, n + 9, wrong), FX_OK);
            if (world.seq[0].kv && fxi_kv_can(world.kv, FXI_KV_EXACT))
                assert_ptr_equal(fxi_kv_get_views(world.kv, world.seq[0].kv).group[0].base, base);
            assert_int_equal(kv_world_truncate(&world, 0, n), FX_OK);
            assert_int_equal(kv_world_truncate(&world, 0, n + 1), FX_OK); // no effect
            kv_world_verify(&world);
            assert_int_equal(kv_world_extend(&world, 0, n + n % 5 + (n % 5 == 0), text[0]), FX_OK);
            kv_world_verify(&world);
            if (n % 5 == 0) n++;
        }
        kv_world_close(&world);
    }
}

EACH_MANAGER(test_cut_memory_is_free)
{
    open_world(manager, BUDGET);
    begin(0, 290);
    const uint64_t held = stats_now().held_bytes;
    assert_int_equal(kv_world_truncate(&world, 0, 10), FX_OK);
    if (fxi_kv_can(world.kv, FXI_KV_EXACT | FXI_KV_FORK))
        assert_true(stats_now().held_bytes <= fxi_kv_bytes_for(world.kv, 10));
    assert_true(stats_now().held_bytes <= held);
    assert_int_equal(stats_now().live_bytes, 10 * fxi_kv_tok_bytes(&world.layout));
    kv_world_close(&world);
}

EACH_MANAGER(test_swapped_bytes_come_back)
{
    open_world(manager, BUDGET);
    if (fxi_kv_can(world.kv, FXI_KV_SWAP)) {
        begin(0, 290);
        const uint64_t held = stats_now().held_bytes;
        assert_int_equal(fxi_kv_swap_gain(world.kv, world.seq[0].kv, 0), held);
        assert_int_equal(kv_world_swap_out(&world, 0), FX_OK);
        assert_true(stats_now().held_bytes < held / 4);
        const uint64_t out_bytes = stats_now().swapped_bytes;
        assert_true(out_bytes > 0);
        assert_int_equal(fxi_kv_get_moved(world.kv).bytes, out_bytes);
        assert_true(fxi_kv_get_moved(world.kv).ns > 0);
        begin(1, 290), begin(2, 290);
        fx_status st = kv_world_swap_in(&world, 0);
        if (st == FX_OK) begin(3, 290); // more room than this test has thought
        kv_world_release(&world, 1);
        if (st != FX_OK) assert_int_equal(kv_world_swap_in(&world, 0), FX_OK);
        kv_world_verify(&world);
        assert_int_equal(fxi_kv_get_moved(world.kv).bytes, 2 * out_bytes);
        assert_int_equal(kv_world_swap_in(&world, 0), FX_OK); // no effect
        assert_int_equal(fxi_kv_get_moved(world.kv).bytes, 2 * out_bytes);
        assert_int_equal(kv_world_swap_out(&world, 0), FX_OK);
        kv_world_release(&world, 0); // where it is
    }
    kv_world_close(&world);
}

// Whether what is recorded stays in memory or goes, the gain is what comes free.
EACH_MANAGER(test_recorded_memory_is_swapped)
{
    open_world(manager, BUDGET);
    if (fxi_kv_can(world.kv, FXI_KV_SWAP) && fxi_kv_can(world.kv, FXI_KV_PREFIX)) {
        begin(0, 290);
        const int n = fxi_kv_whole_tok(world.kv, 192);
        assert_int_equal(kv_world_record_seq(&world, 0, 0, n), FX_OK);
        const uint64_t held = stats_now().held_bytes;
        const uint64_t gain = fxi_kv_swap_gain(world.kv, world.seq[0].kv, n);
        assert_true(gain > 0);
        assert_int_equal(kv_world_swap_out(&world, 0), FX_OK);
        assert_int_equal(held - stats_now().held_bytes, gain);
        assert_int_equal(kv_world_swap_in(&world, 0), FX_OK);
        kv_world_verify(&world);
    }
    kv_world_close(&world);
}

// What two sequences share leaves memory once both are out.
EACH_MANAGER(test_shared_memory_is_swapped)
{
    open_world(manager, BUDGET);
    if (fxi_kv_can(world.kv, FXI_KV_SWAP) && fxi_kv_can(world.kv, FXI_KV_FORK)) {
        begin(0, 200);
        const uint64_t held = stats_now().held_bytes;
        assert_int_equal(kv_world_fork(&world, 0, 1, 200), FX_OK);
        assert_int_equal(kv_world_extend(&world, 1, 230, text[0]), FX_OK);
        assert_int_equal(kv_world_swap_out(&world, 0), FX_OK);
        kv_world_verify(&world);
        assert_int_equal(kv_world_swap_in(&world, 0), FX_OK);
        kv_world_verify(&world);
        assert_int_equal(kv_world_swap_out(&world, 0), FX_OK);
        kv_world_release(&world, 1);
        assert_int_equal(kv_world_swap_out(&world, 0), FX_OK);
        assert_true(stats_now().held_bytes < held / 4);
        assert_int_equal(kv_world_swap_in(&world, 0), FX_OK);
        kv_world_verify(&world);
    }
    kv_world_close(&world);
}

// A manager keeps states, or says who does.
EACH_MANAGER(test_states_are_kept_or_refused)
{
    fx_error err;
    fxi_kv *kv;
    fxi_kv_shape shape = kv_world_shape(4 * BUDGET, true);
    kv_world_add_states(&shape);
    const fx_status st = kv_world_open_kv(manager, &shape, &kv, &err);
    if (kv_world_can(manager, FXI_KV_STATES)) {
        assert_int_equal(st, FX_OK);
        fxi_kv_close(kv);
        return;
    }
    assert_int_equal(st, FX_EINVAL);
    assert_non_null(strstr(err.text, manager));
    assert_non_null(strstr(err.text, fxi_kv_manager_name(0)));
}

FX_RUN(test_kv_contract)
