// test_kv_fault.c - for every manager, every call of kv.h and every i: the i-th call of the backend
// fails, with VT_NOSPACE and with VT_EDEVICE. Afterwards all sequences are as before, the manager's
// invariants hold, the call succeeds in the next step, and at the end nothing is left.
//
// Of a cache that devices share out a sample: three devices, of which another one fails with each
// call of kv.h. With FX_TEST_LONG two as well, and each of them with each call.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "unit/kv/support/kv_world.h"

#include "vmm_fake.h"

#include <stdio.h>

enum { BUDGET = 2 << 20, MOST_CALLS = 400, MAX_RANK = 3 };

static kv_world w; // too large for a stack
static int32_t text[2][KV_WORLD_CTX];

// ---- what is there before, and the call --------------------------------------------------------

static fx_status begin(int i, int n_tok, const int32_t *tok)
{
    const fxi_kv_expect e = {.begin_tok = n_tok, .output_tok = 10};
    if (!w.seq[i].kv) FX_TRY(kv_world_create(&w, i, &e));
    return kv_world_extend(&w, i, n_tok, tok);
}

static void make_two(void)
{
    assert_int_equal(begin(0, 150, text[0]), FX_OK);
    assert_int_equal(begin(1, 90, text[1]), FX_OK);
    if (fxi_kv_can(w.kv, FXI_KV_PREFIX))
        assert_int_equal(kv_world_record_seq(&w, 0, 0, 140), FX_OK);
}

static void make_forked(void)
{
    make_two();
    assert_int_equal(kv_world_fork(&w, 0, 7, 140), FX_OK);
}

static void make_swapped(void)
{
    make_two();
    assert_int_equal(kv_world_swap_out(&w, 1), FX_OK);
}

static void make_long_swapped(void)
{
    make_two();
    assert_int_equal(kv_world_swap_out(&w, 0), FX_OK);
}

static void make_full(void)
{
    make_two();
    for (int i = 2; i < 7 && begin(i, 290, text[1]) == FX_OK;) i++;
    for (int i = 2; i < 7 && w.seq[i].kv; i++) kv_world_release(&w, i);
}

// Room for one block more than there are, but for the longest sequence alone at least.
static void make_tight(void)
{
    fxi_kv_stats st;
    make_two();
    fxi_kv_get_stats(w.kv, &st);
    const uint64_t most = st.held_bytes + fxi_kv_bytes_for(w.kv, 1);
    const uint64_t least = fxi_kv_bytes_for(w.kv, 290);
    assert_int_equal(fxi_kv_set_budget(w.kv, most > least ? most : least), FX_OK);
}

static fx_status do_begin(void)
{
    const fx_status st = begin(7, 120, text[0]);
    if (st != FX_OK && w.seq[7].kv && !w.seq[7].len_tok) kv_world_release(&w, 7);
    return st;
}

static fx_status do_grow(void)
{
    return kv_world_extend(&w, 0, 290, text[0]); // a move, where memory is contiguous
}

static fx_status do_match(void)
{
    int hit;
    return kv_world_match(&w, 7, 0, text[0], 137, &hit);
}

static fx_status do_fork(void)
{
    return kv_world_fork(&w, 0, 7, 133);
}

// The first writer to a shared end.
static fx_status do_part(void)
{
    if (!w.seq[7].kv) FX_TRY(kv_world_fork(&w, 0, 7, 150));
    return kv_world_extend(&w, 7, 170, text[0]);
}

static fx_status do_record(void)
{
    return kv_world_record_seq(&w, 1, 0, 90);
}

static fx_status do_swap_out(void)
{
    const fx_status st = kv_world_swap_out(&w, 1);
    assert_int_equal(w.seq[1].is_out, st == FX_OK);
    return st;
}

static fx_status do_swap_in(void)
{
    return kv_world_swap_in(&w, 1);
}

// Turned round when some of it has been moved.
static fx_status do_turn_in(void)
{
    FX_TRY(kv_world_swap_ask(&w, 0, true));
    fxi_kv_step(w.kv, 0, 1);
    return kv_world_swap_in(&w, 0);
}

// Where the way in has failed, too, it is out. Where memory that was mapped for it could not be
// unmapped, it can only be released.
static fx_status do_turn_out(void)
{
    (void)kv_world_swap_ask(&w, 0, false);
    fxi_kv_step(w.kv, 0, 1);
    const fx_status st = kv_world_swap_out(&w, 0);
    if (st != FX_EIO || !fxi_kv_can(w.kv, FXI_KV_ELASTIC)) return st;
    kv_world_release(&w, 0);
    return FX_OK;
}

// What two share, and what one of them shares no more.
static fx_status do_swap_both(void)
{
    FX_TRY(kv_world_swap_out(&w, 7));
    FX_TRY(kv_world_swap_out(&w, 0));
    FX_TRY(kv_world_swap_in(&w, 7));
    return kv_world_swap_in(&w, 0);
}

static fx_status do_trim(void)
{
    return fxi_kv_trim(w.kv, 0);
}

static fx_status do_shrink(void)
{
    return fxi_kv_set_budget(w.kv, BUDGET / 2);
}

static fx_status do_forget(void)
{
    return kv_world_forget(&w);
}

static fx_status do_release(void)
{
    if (w.seq[1].kv) kv_world_release(&w, 1);
    return FX_OK;
}

// What the tree holds too, and what a fork shared with it.
static fx_status do_release_shared(void)
{
    if (w.seq[7].kv) kv_world_release(&w, 7);
    if (w.seq[0].kv) kv_world_release(&w, 0);
    return FX_OK;
}

// Twice, because what a failing release leaves is free for others after their next step only.
static fx_status do_replace(void)
{
    if (w.seq[1].kv) kv_world_release(&w, 1);
    FX_TRY(kv_world_extend(&w, 0, 200, text[0]));
    return kv_world_extend(&w, 0, 290, text[0]);
}

static fx_status do_step(void)
{
    fxi_kv_step(w.kv, 16, 1);
    return FX_OK;
}

static const struct call_row {
    const char *name;
    unsigned needs;
    void (*before)(void);
    fx_status (*call)(void);
} calls[] = {
    {"begin", 0, make_two, do_begin},
    {"begin where others were", 0, make_full, do_begin},
    {"grow", 0, make_two, do_grow},
    {"grow where others were", 0, make_full, do_grow},
    {"release", 0, make_two, do_release},
    {"release what is shared", FXI_KV_FORK, make_forked, do_release_shared},
    {"step", 0, make_two, do_step},
    {"match", FXI_KV_PREFIX, make_two, do_match},
    {"record", FXI_KV_PREFIX, make_two, do_record},
    {"forget", FXI_KV_PREFIX, make_two, do_forget},
    {"fork", FXI_KV_FORK, make_two, do_fork},
    {"part", FXI_KV_FORK, make_two, do_part},
    {"swap out", FXI_KV_SWAP, make_two, do_swap_out},
    {"swap in", FXI_KV_SWAP, make_swapped, do_swap_in},
    {"swap out and back", FXI_KV_ASYNC_SWAP, make_two, do_turn_in},
    {"swap in and back", FXI_KV_ASYNC_SWAP, make_long_swapped, do_turn_out},
    {"swap what is shared", FXI_KV_ASYNC_SWAP, make_forked, do_swap_both},
    {"grow into what was released", FXI_KV_ELASTIC, make_tight, do_replace},
    {"trim", FXI_KV_ELASTIC, make_full, do_trim},
    {"shrink", FXI_KV_ELASTIC, make_full, do_shrink},
};

// ---- the sweep ---------------------------------------------------------------------------------

static void open_world(const char *manager)
{
    const fxi_kv_shape shape = kv_world_shape(BUDGET, false);
    kv_world_open(&w, manager, &shape);
    w.is_lossy = true;
}

// False: the call makes no i-th call of the backend.
static bool fails_well(const char *manager, const struct call_row *row, uint64_t i, vt_status how)
{
    open_world(manager);
    row->before();
    vt_fault_arm(w.fault, i, 0, how);
    const fx_status st = row->call();
    const bool fired = vt_fault_fired(w.fault) > 0;
    vt_fault_disarm(w.fault);
    kv_world_verify(&w);
    if (st != FX_OK && st != FX_EIO && st != FX_ENOSPACE)
        fail_msg("%s, %s, call %d: status %d", manager, row->name, (int)i, (int)st);
    fxi_kv_step(w.kv, 0, 1); // a system that had no memory is asked again
    const fx_status again = st == FX_OK ? st : row->call();
    if (again != FX_OK)
        fail_msg("%s, %s, call %d: status %d, then %d", manager, row->name, (int)i, (int)st,
                 (int)again);
    kv_world_verify(&w);
    fxi_kv_step(w.kv, 0, 2); // frees what a failing device kept
    kv_world_close(&w);
    return fired;
}

static void sweep_call(const char *manager, const struct call_row *row)
{
    open_world(manager);
    const bool can = (w.kv->ops->caps & row->needs) == row->needs;
    kv_world_close(&w);
    for (uint64_t i = 0; can && i < MOST_CALLS; i++) {
        const bool more = fails_well(manager, row, i, VT_EDEVICE);
        if (!more) break;
        (void)fails_well(manager, row, i, VT_NOSPACE);
    }
}

static void make_texts(void)
{
    for (int i = 0; i < KV_WORLD_CTX; i++) text[0][i] = i % 71, text[1][i] = 100 + i % 31;
}

FX_TEST(test_every_call_of_a_devices_backend_fails)
{
    make_texts();
    for (int m = 0; fxi_lab_manager_name(m); m++)
        for (int n = suite_is_long() ? 2 : MAX_RANK; n <= MAX_RANK; n++) {
            kv_world_n_rank = n;
            for (kv_world_faulty_rank = n - 1; kv_world_faulty_rank >= 0; kv_world_faulty_rank--)
                for (size_t k = 0; k < sizeof calls / sizeof *calls; k++)
                    if (suite_takes(k + (size_t)kv_world_faulty_rank, MAX_RANK))
                        sweep_call(fxi_lab_manager_name(m), &calls[k]);
            kv_world_n_rank = kv_world_faulty_rank = 0;
        }
}

FX_TEST(test_every_call_of_the_backend_fails)
{
    make_texts();
    for (int m = 0; fxi_lab_manager_name(m); m++)
        for (size_t k = 0; k < sizeof calls / sizeof *calls; k++)
            sweep_call(fxi_lab_manager_name(m), &calls[k]);
}

// ---- opening and closing -----------------------------------------------------------------------

typedef struct memory {
    vt_vmm *fault, *fake; // one below the other
    vt_fake_report end;   // of the fake
} memory;

static void open_fake(memory *m)
{
    m->fake = vt_fake_open();
    vt_fake_set_epitaph(m->fake, &m->end);
    m->fault = vt_fault_open(m->fake);
}

// n_rank: devices that share the cache out; 0: one has all
static bool open_over(const char *manager, int n_rank, memory *m, fxi_kv **kv, fx_error *err)
{
    fxi_kv_shape shape = kv_world_shape(BUDGET, true);
    shape.n_rank = n_rank;
    for (int k = 0; k < n_rank; k++) shape.rank_vmm[k] = m[k].fault;
    if (!n_rank) shape.vmm = m[0].fault;
    return kv_world_open_kv(manager, &shape, kv, err) == FX_OK;
}

// A manager that does not open leaves the backends to the caller, with nothing in them.
static bool open_fails_well(const char *manager, int n_rank, int faulty, uint64_t i, vt_status how)
{
    memory m[MAX_RANK] = {{0}};
    const int n = n_rank ? n_rank : 1;
    fx_error err = {0};
    fxi_kv *kv;
    for (int k = 0; k < n; k++) open_fake(&m[k]);
    vt_fault_arm(m[faulty].fault, i, 0, how);
    const bool is_open = open_over(manager, n_rank, m, &kv, &err);
    const bool fired = vt_fault_fired(m[faulty].fault) > 0;
    vt_fault_disarm(m[faulty].fault);
    if (is_open) fxi_kv_close(kv);
    assert_true(is_open || (!kv && err.text[0]));
    for (int k = 0; k < n; k++) {
        if (!is_open) m[k].fault->ops->close(m[k].fault);
        if (m[k].end.n_violation) fail_msg("%s, call %d: %s", manager, (int)i, m[k].end.violation);
        assert_int_equal(m[k].end.n_created + m[k].end.n_mapped + m[k].end.reserved_bytes, 0);
    }
    return fired;
}

static void sweep_open(const char *manager, int n_rank, int faulty)
{
    for (uint64_t i = 0; open_fails_well(manager, n_rank, faulty, i, VT_EDEVICE); i++)
        (void)open_fails_well(manager, n_rank, faulty, i, VT_NOSPACE);
}

FX_TEST(test_opening_fails_well)
{
    for (int m = 0; fxi_lab_manager_name(m); m++) {
        const char *manager = fxi_lab_manager_name(m);
        sweep_open(manager, 0, 0);
        for (int n_rank = 1; n_rank <= MAX_RANK; n_rank++)
            for (int faulty = 0; faulty < n_rank; faulty++) sweep_open(manager, n_rank, faulty);
    }
}

FX_TEST(test_devices_share_out_whole_bytes)
{
    fxi_kv_shape shape = kv_world_shape(BUDGET, false);
    fx_error err = {0};
    fxi_kv *kv;
    shape.n_rank = 5;
    for (int m = 0; fxi_lab_manager_name(m); m++) {
        assert_int_equal(kv_world_open_kv(fxi_lab_manager_name(m), &shape, &kv, &err), FX_EINVAL);
        assert_string_equal(err.text, "KV cache: 5 devices cannot share out rows of 192 bytes");
    }
}

// A view has one stride for all devices.
FX_TEST(test_devices_with_two_page_sizes_are_refused)
{
    for (int m = 0; fxi_lab_manager_name(m); m++) {
        const char *manager = fxi_lab_manager_name(m);
        memory mem[2] = {{0}};
        fx_error err = {0};
        fxi_kv *kv;
        for (int k = 0; k < 2; k++) open_fake(&mem[k]);
        vt_fault_set_granularity(mem[1].fault, 1 << 16);
        assert_false(open_over(manager, 2, mem, &kv, &err));
        assert_string_equal(err.text, "KV cache: the devices have memory pages of two sizes");
        for (int k = 0; k < 2; k++) {
            mem[k].fault->ops->close(mem[k].fault);
            assert_int_equal(mem[k].end.n_created + mem[k].end.reserved_bytes, 0);
        }
    }
}

// ---- a swap that has other bytes ---------------------------------------------------------------

typedef fx_status swap_fn(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving);

static fx_status swap_to_the_end(fxi_kv *kv, fxi_kv_seq *s, swap_fn *fn)
{
    bool is_moving;
    fx_status st;
    while ((st = fn(kv, s, &is_moving)) == FX_OK && is_moving) fxi_kv_step(kv, 0, 0);
    return st;
}

static fx_status swap_in(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving)
{
    return fxi_kv_swap_in(kv, s, is_moving);
}

static fx_status swap_out(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving)
{
    return fxi_kv_swap_out(kv, s, is_moving);
}

// It stays out, and its slots serve another.
static void expect_bad_swap_found(const char *manager, int n_rank)
{
    memory m[MAX_RANK] = {{0}};
    fxi_kv *kv;
    fxi_kv_seq *s[2];
    for (int k = 0; k < MAX_RANK; k++) open_fake(&m[k]);
    assert_true(open_over(manager, n_rank, m, &kv, NULL));
    for (int i = 0; i < 2; i++) {
        assert_int_equal(fxi_kv_create(kv, &(fxi_kv_expect){.begin_tok = 40}, &s[i]), FX_OK);
        assert_int_equal(fxi_kv_extend(kv, s[i], 40), FX_OK);
    }
    assert_int_equal(swap_to_the_end(kv, s[0], swap_out), FX_OK);
    vt_fake_corrupt(m[n_rank ? n_rank - 1 : 0].fake, 100);
    for (int i = 0; i < 2; i++) assert_int_equal(swap_to_the_end(kv, s[0], swap_in), FX_EIO);
    fxi_kv_release(kv, s[0]);
    assert_int_equal(swap_to_the_end(kv, s[1], swap_out), FX_OK);
    assert_int_equal(swap_to_the_end(kv, s[1], swap_in), FX_OK);
    fxi_kv_release(kv, s[1]);
    fxi_kv_close(kv);
    for (int k = n_rank ? n_rank : 1; k < MAX_RANK; k++) m[k].fault->ops->close(m[k].fault);
    for (int k = 0; k < MAX_RANK; k++)
        assert_int_equal(m[k].end.n_violation + m[k].end.n_created + m[k].end.reserved_bytes, 0);
}

FX_TEST(test_other_bytes_do_not_come_back)
{
    for (int i = 0; fxi_lab_manager_name(i); i++)
        for (int n = 0; n <= MAX_RANK && kv_world_can(fxi_lab_manager_name(i), FXI_KV_SWAP); n++)
            expect_bad_swap_found(fxi_lab_manager_name(i), n);
}

// ---- block copies ------------------------------------------------------------------------------

// Copy-on-write of a block: all planes in one call.
FX_TEST(test_a_block_is_copied_in_one_call)
{
    enum { N_PLANE = 64, N_TOK = 5 };
    vt_vmm *host;
    assert_int_equal(vt_vmm_host_open(&host), VT_OK);
    vt_vmm *fault = vt_fault_open(host);
    const fxi_kv_shape shape = {.layout = {1, {{.n_plane = N_PLANE, .row_bytes = 64}}},
                                .ctx_tok = 64,
                                .max_seq = 2,
                                .budget_bytes = 2 << 20,
                                .vmm = fault};
    fxi_kv *kv;
    fxi_kv_seq *s, *t;
    assert_int_equal(fxi_kv_open("paged", &shape, &kv, NULL), FX_OK);
    assert_int_equal(fxi_kv_create(kv, &(fxi_kv_expect){.begin_tok = N_TOK}, &s), FX_OK);
    assert_int_equal(fxi_kv_extend(kv, s, N_TOK), FX_OK);
    assert_int_equal(fxi_kv_fork(kv, s, N_TOK, &t), FX_OK);
    vt_fault_arm(fault, UINT64_MAX, 0, VT_EDEVICE);
    assert_int_equal(fxi_kv_extend(kv, t, N_TOK + 1), FX_OK);
    assert_int_equal(vt_fault_calls(fault), 1);
    fxi_kv_release(kv, s);
    fxi_kv_release(kv, t);
    fxi_kv_close(kv);
}

FX_RUN(test_kv_fault)
