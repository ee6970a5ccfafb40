// test_kv_trace.c - random calls to every manager, beside the reference of kv_world.h, which knows
// each byte: with much memory and with little, with and without windows, and while calls of the
// backend fail at random. Whatever fails, nothing that the reference knows has changed.
//
//   KV_TRACE_STEPS=n test_kv_trace   more steps for each seed
//   FX_TEST_LONG=1 test_kv_trace     twice as many seeds, of twice as many steps
#include "suite.h"
#include "unit/cmocka_all.h"

#include "unit/kv/support/kv_world.h"

#include <stdlib.h>

enum { N_STEP = 1200, N_TEXT = 6, ALL_CHECKED = 16 };

typedef struct trace {
    kv_world w;
    const char *manager;
    uint64_t rng, budget_bytes, now_ms;
    bool windows, faults;
    bool threaded; // the manager's own thread works beside the calls, at random speeds
    int block_tok; // 0: the manager's choice
    int32_t text[N_TEXT][KV_WORLD_CTX];
    int32_t own[KV_WORLD_MAX_SEQ][KV_WORLD_CTX]; // what each sequence grows into
    int domain[KV_WORLD_MAX_SEQ];                // where it is recorded
} trace;

static trace t; // too large for a stack

static int draw(int lo, int hi)
{
    t.rng ^= t.rng << 13;
    t.rng ^= t.rng >> 7;
    t.rng ^= t.rng << 17;
    return lo + (int)(t.rng % (uint64_t)(hi - lo + 1));
}

static bool one_in(int n)
{
    return draw(1, n) == 1;
}

static void take_text(int i)
{
    const int32_t *from = t.text[draw(0, N_TEXT - 1)];
    const int n = draw(0, KV_WORLD_CTX);
    for (int k = 0; k < KV_WORLD_CTX; k++) t.own[i][k] = k < n ? from[k] : draw(0, 50);
}

static bool is_normal(fx_status st)
{
    return st == FX_OK || st == FX_ENOSPACE || (t.faults && st == FX_EIO);
}

// ---- steps -------------------------------------------------------------------------------------

static void do_begin(int i)
{
    const fxi_kv_expect e = {draw(0, 150), one_in(2) ? draw(0, 100) : 0,
                             one_in(2) ? draw(150, KV_WORLD_CTX) : 0};
    int hit;
    if (t.w.seq[i].kv) return;
    take_text(i);
    t.domain[i] = draw(0, KV_WORLD_N_DOMAIN - 1);
    const bool match = fxi_kv_can(t.w.kv, FXI_KV_PREFIX) && !one_in(3);
    assert_true(is_normal(
        match ? kv_world_match(&t.w, i, t.domain[i], t.own[i], draw(0, KV_WORLD_CTX), &hit)
              : kv_world_create(&t.w, i, &e)));
}

static bool is_in(int i)
{
    return t.w.seq[i].kv && !t.w.seq[i].is_out;
}

static bool fits_alone(int n_tok)
{
    const fxi_kv_need one = {.n_seq = 1, .each = {n_tok, 0, n_tok}, .end_tok = n_tok};
    fxi_kv_stats st;
    fxi_kv_get_stats(t.w.kv, &st);
    return n_tok <= KV_WORLD_CTX && fxi_kv_cost(t.w.kv, &one) <= st.usable_bytes;
}

// The cost of a sequence with windows is that of growing by whole steps: by less, it may succeed.
static void do_extend(int i)
{
    if (!is_in(i)) return;
    const int more = one_in(2) ? 1 : draw(0, 64), len = t.w.seq[i].len_tok + more;
    const fx_status st = kv_world_extend(&t.w, i, len, t.own[i]);
    if (fits_alone(len))
        assert_true(is_normal(st));
    else if (!t.windows)
        assert_true(st != FX_OK);
}

// All that are in memory, by one call: as a step of the engine does.
static void do_extend_many(int i)
{
    int which[KV_WORLD_MAX_SEQ], len[KV_WORLD_MAX_SEQ], n = 0;
    const int32_t *tok[KV_WORLD_MAX_SEQ];
    for (int k = 0; k < KV_WORLD_MAX_SEQ; k++) {
        const int at = (i + k) % KV_WORLD_MAX_SEQ;
        if (!is_in(at) || !fits_alone(t.w.seq[at].len_tok + 9)) continue;
        which[n] = at;
        tok[n] = t.own[at];
        len[n++] = t.w.seq[at].len_tok + (one_in(3) ? 9 : 1);
    }
    assert_true(is_normal(kv_world_extend_many(&t.w, which, len, tok, n)));
}

// As a step does whose last tokens are not kept; or any part, where no window has passed it. What
// others share is cut into only where nothing fails: an extend then copies a block.
static void do_truncate(int i)
{
    kv_world_seq *s = &t.w.seq[i];
    if (!is_in(i)) return;
    const bool is_step = !one_in(4);
    const int least = is_step ? s->was_tok : 0, shared = t.faults ? s->shared_tok : 0;
    const int len = draw(least > shared ? least : shared, s->len_tok);
    const fx_status st = kv_world_truncate(&t.w, i, len);
    assert_true(st == FX_OK || (t.faults && st == FX_EIO) ||
                (t.windows && !is_step && st == FX_EINVAL));
    if (st == FX_OK && s->was_tok > s->len_tok) s->was_tok = s->len_tok;
    for (int k = s->len_tok; k < KV_WORLD_CTX; k++) t.own[i][k] = draw(0, 50);
}

static void do_fork(int i)
{
    const int to = draw(0, KV_WORLD_MAX_SEQ - 1), n = t.w.seq[i].len_tok;
    if (!fxi_kv_can(t.w.kv, FXI_KV_FORK) || !is_in(i) || t.w.seq[to].kv) return;
    const int len = one_in(2) ? n : draw(0, n);
    const fx_status st = kv_world_fork(&t.w, i, to, len);
    assert_true(is_normal(st) || (t.windows && st == FX_EINVAL && len < n));
    if (st != FX_OK) return;
    take_text(to);
    for (int k = 0; k < len; k++) t.own[to][k] = t.w.seq[i].tok[k];
    t.domain[to] = t.domain[i];
}

static void do_record(int i)
{
    if (!fxi_kv_can(t.w.kv, FXI_KV_PREFIX) || !is_in(i)) return;
    const int n = one_in(2) ? t.w.seq[i].len_tok : draw(0, t.w.seq[i].len_tok);
    const fx_status st = kv_world_record_seq(&t.w, i, t.domain[i], n);
    assert_true(is_normal(st) || (t.windows && st == FX_EINVAL));
}

// It arrives, or is left on its way: then it goes on beside the others' calls, is turned round, or
// released there.
static void do_swap(int i)
{
    if (!fxi_kv_can(t.w.kv, FXI_KV_SWAP) || !t.w.seq[i].kv) return;
    const bool out = t.w.seq[i].is_out ? one_in(4) : true;
    if (one_in(2))
        assert_true(is_normal(kv_world_swap_ask(&t.w, i, out)));
    else
        assert_true(is_normal(out ? kv_world_swap_out(&t.w, i) : kv_world_swap_in(&t.w, i)));
}

static void do_release(int i)
{
    if (t.w.seq[i].kv) kv_world_release(&t.w, i);
}

static void do_memory(int i)
{
    (void)i;
    const bool elastic = fxi_kv_can(t.w.kv, FXI_KV_ELASTIC);
    const int what = draw(0, 9);
    if (what == 0 && elastic)
        assert_true(
            is_normal(fxi_kv_set_budget(t.w.kv, t.budget_bytes * (uint64_t)draw(2, 8) / 8)));
    else if (what == 1 && elastic)
        assert_true(is_normal(fxi_kv_trim(t.w.kv, (uint64_t)draw(0, 1 << 18))));
    else if (what == 2 && fxi_kv_can(t.w.kv, FXI_KV_PREFIX) && one_in(5))
        assert_true(is_normal(kv_world_forget(&t.w)));
    else if (what == 3 && elastic)
        (void)fxi_kv_set_budget(t.w.kv, t.budget_bytes);
    else
        kv_world_step(&t.w, draw(0, 2) * 8, t.now_ms += 10);
}

static void do_prepare(int i)
{
    if (is_in(i) && t.w.seq[i].len_tok + 40 <= KV_WORLD_CTX)
        fxi_kv_prepare(t.w.kv, t.w.seq[i].kv, t.w.seq[i].len_tok + draw(0, 40), draw(0, 2));
}

static const struct step_row {
    void (*act)(int i);
    int weight;
} steps[] = {
    {do_begin, 5}, {do_extend, 9},  {do_extend_many, 3}, {do_fork, 2},    {do_record, 3},
    {do_swap, 3},  {do_release, 2}, {do_memory, 4},      {do_prepare, 1}, {do_truncate, 4},
};

// ---- traces ------------------------------------------------------------------------------------

static void run_trace(uint64_t seed, int n_step)
{
    fxi_kv_shape shape = kv_world_shape(t.budget_bytes, t.windows);
    if (t.windows) kv_world_add_states(&shape);
    shape.block_tok = t.block_tok;
    shape.single_thread = !t.threaded;
    t.rng = seed * UINT64_C(0x9e3779b97f4a7c15) + 1;
    t.now_ms = 0;
    print_message("%s, seed %llu\n", t.manager, (unsigned long long)seed);
    // Texts that begin alike, so that prefixes branch.
    for (int k = 0; k < N_TEXT; k++)
        for (int i = 0; i < KV_WORLD_CTX; i++) t.text[k][i] = draw(0, 50);
    for (int k = 1; k < N_TEXT; k++)
        for (int i = 0; i < k * 40; i++) t.text[k][i] = t.text[0][i];
    kv_world_open(&t.w, t.manager, &shape);
    t.w.is_lossy = true;
    if (t.threaded) vt_fault_set_delay(t.w.fault, seed, 20);
    for (int i = 0; i < n_step; i++) {
        const bool armed = t.faults && one_in(3);
        // One of the next calls of the backend.
        if (armed) {
            vt_fault_arm(t.w.fault, (uint64_t)draw(0, one_in(2) ? 2 : 12), 0,
                         one_in(2) ? VT_NOSPACE : VT_EDEVICE);
        }
        int k = 0, at = draw(1, 36);
        while ((at -= steps[k].weight) > 0) k++;
        steps[k].act(draw(0, KV_WORLD_MAX_SEQ - 1));
        if (armed) vt_fault_disarm(t.w.fault);
        if (i % ALL_CHECKED == 0) kv_world_verify(&t.w);
    }
    kv_world_step(&t.w, 0, t.now_ms + 10); // puts right what failed
    kv_world_close(&t.w);
}

static int n_steps(void)
{
    const char *more = getenv("KV_TRACE_STEPS");
    return more ? atoi(more) : suite_is_long() ? N_STEP : N_STEP / 2;
}

static void run_traces(bool windows, bool faults)
{
    static const uint64_t budgets[] = {300 << 10, 700 << 10, 4 << 20};
    t.windows = windows;
    t.faults = faults;
    for (int i = 0; (t.manager = fxi_lab_manager_name(i)) != NULL; i++)
        for (uint64_t seed = 1; seed <= (suite_is_long() ? 6 : 3); seed++) {
            t.budget_bytes = budgets[seed % 3] * (kv_world_page_bytes ? 8 : 1);
            run_trace(seed, n_steps());
        }
}

FX_TEST(test_random_calls)
{
    run_traces(false, false);
}

FX_TEST(test_random_calls_with_windows)
{
    run_traces(true, false);
}

FX_TEST(test_random_failures)
{
    run_traces(false, true);
}

FX_TEST(test_random_failures_with_windows)
{
    run_traces(true, true);
}

static void run_traces_on(int n_device)
{
    kv_world_n_rank = n_device;
    for (uint64_t seed = 1; seed <= 6; seed++) {
        kv_world_faulty_rank = (int)seed % n_device;
        t.windows = seed % 2;
        t.faults = seed > 2;
        t.budget_bytes = seed % 3 ? 700 << 10 : 4 << 20;
        run_trace(seed, n_steps());
    }
    kv_world_n_rank = kv_world_faulty_rank = 0;
}

// Pages on their way to the swap and back, beside the calls.
FX_TEST(test_random_calls_beside_a_thread)
{
    t.threaded = true;
    for (int i = 0; (t.manager = fxi_lab_manager_name(i)) != NULL; i++)
        for (uint64_t seed = 1; seed <= 6 && kv_world_can(t.manager, FXI_KV_ASYNC_SWAP); seed++) {
            t.windows = seed % 2;
            t.faults = seed > 3;
            t.budget_bytes = seed % 3 ? 300 << 10 : 700 << 10;
            run_trace(seed, n_steps());
        }
    t.threaded = false;
}

// Each of several devices has its part of every row; calls of one of them fail.
FX_TEST(test_random_calls_on_several_devices)
{
    for (int i = 0; (t.manager = fxi_lab_manager_name(i)) != NULL; i++)
        for (int n = 2; n <= 3; n++) run_traces_on(n);
}

// Pages as large as a device's: vtensor lays the planes of a group side by side.
FX_TEST(test_random_calls_on_large_pages)
{
    kv_world_page_bytes = 64 << 10;
    run_traces(false, false);
    run_traces(true, false);
    run_traces(false, true);
    run_traces(true, true);
    kv_world_page_bytes = 0;
}

FX_TEST(test_random_calls_with_other_blocks)
{
    for (t.block_tok = 1; t.block_tok <= 8; t.block_tok *= 8) {
        run_traces(false, false);
        run_traces(false, true);
    }
    t.block_tok = 0;
}

FX_RUN(test_kv_trace)
