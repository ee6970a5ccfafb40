// test_vt_vattention_model.c - vattention.h against the reference of va_world.h: long random
// traces, every byte compared, on host and fake, in both layouts, with steps of both kinds, with a
// backend that fails now and then, and with a device that runs concurrently.
//
// VT_TEST_SEED and VT_TEST_STEPS (per trace) can be set in the environment; FX_TEST_LONG doubles
// the steps.
#include <stdlib.h>

#include "assert_vt.h"
#include "suite.h"
#include "va_world.h"
#include "vtensor/vtensor.h"

typedef struct mode {
    bool host, cuda, device, async, faulty;
} mode;

static va_world w;

static bool chance(uint32_t one_in)
{
    return va_draw(&w, one_in) == 0;
}

// Mostly short, now and then up to the longest there is.
static uint32_t draw_len(void)
{
    return (uint32_t)va_draw(&w, 1 + w.setup.max_tok / (chance(4) ? 1 : 4));
}

// An answer that only a failing backend may give.
static bool is_excused(const mode *m, vt_status st)
{
    bool may_fail = vt_fault_fired(w.fault) > 0 || va_stats(&w).requests_lost > 0;
    return m->faulty && (st == VT_EDEVICE || vt_is_shortage(st)) && may_fail;
}

static void expect(const mode *m, vt_status want, vt_status got)
{
    if (!is_excused(m, got)) assert_status(want, got);
}

static uint32_t n_active(void)
{
    uint32_t n = 0;
    for (uint32_t i = 0; i < w.setup.max_batch; i++) n += w.req[i].is_active;
    return n;
}

static void do_alloc(const mode *m)
{
    uint32_t reqid;
    vt_status want = n_active() < w.setup.max_batch ? VT_OK : VT_NOSPANS;
    expect(m, want, va_alloc(&w, draw_len(), &reqid));
}

static void do_free(const mode *m)
{
    uint32_t i = (uint32_t)va_draw(&w, w.setup.max_batch);
    vt_status want = w.req[i].is_active ? VT_OK : VT_EINVAL;
    expect(m, want, va_free(&w, i));
}

static void do_budget(const mode *m)
{
    uint64_t need = 0, n = va_draw(&w, 40);
    for (uint32_t i = 0; i < w.setup.max_batch; i++) need += vt_va_look(w.va, i).n_need;
    expect(m, need <= n || n >= w.setup.budget_groups ? VT_OK : VT_NOSPACE, va_set_budget(&w, n));
}

static void do_deferral(const mode *m)
{
    (void)m;
    vt_va_set_deferred_reclamation(w.va, !chance(3));
}

static void draw_lengths(void)
{
    for (uint32_t i = 0; i < w.setup.max_batch; i++) {
        const va_world_req *r = &w.req[i];
        uint32_t more = (uint32_t)va_draw(&w, 3);
        w.len[i] = r->len_tok;
        if (!r->is_active) continue;
        if (chance(12))
            w.len[i] = draw_len(); // a prompt's chunk, or a step back
        else if (r->len_tok + more <= w.setup.max_tok)
            w.len[i] += more;
    }
    if (chance(40)) w.len[va_draw(&w, w.setup.max_batch)] = w.setup.max_tok + 1;
}

static void forget_lengths(void)
{
    for (uint32_t i = 0; i < w.setup.max_batch; i++) w.len[i] = w.req[i].len_tok;
}

static void write_some(void)
{
    for (uint32_t i = 0; i < w.setup.max_batch; i++) {
        uint32_t end = w.req[i].given_tok;
        if (end == 0) continue;
        uint32_t n = (uint32_t)va_draw(&w, 6);
        va_write(&w, i, end > n ? end - n : 0, end);
        va_write(&w, i, 0, 1);
    }
}

static void do_step(const mode *m)
{
    draw_lengths();
    vt_status want = va_foresee(&w);
    vt_status st = m->async && !chance(4) ? va_step_async(&w) : va_step(&w, chance(10));
    expect(m, want, st);
    if (st != VT_OK) forget_lengths();
    va_verify_given(&w);
    write_some();
}

// Whoever waits for memory and does not get it has to end somebody.
static void do_relief(const mode *m)
{
    forget_lengths();
    if (va_foresee(&w) == VT_NOSPACE) do_free(m);
}

static void one_round(const mode *m)
{
    static void (*const act[])(const mode *) = {
        do_step, do_step, do_step, do_step,  do_step,   do_step,  do_step,
        do_step, do_step, do_step, do_alloc, do_relief, do_alloc, do_free,
    };
    if (chance(40))
        do_budget(m);
    else if (chance(40))
        do_deferral(m);
    else
        act[va_draw(&w, sizeof act / sizeof act[0])](m);
    if (m->device && chance(3)) va_finish_work(&w);
}

static void verify_in_peace(const mode *m)
{
    vt_fault_disarm(w.fault);
    va_verify(&w);
    if (m->faulty) vt_fault_arm_random(w.fault, va_draw(&w, UINT64_MAX), 15);
}

// Of what is lost nothing comes back: another instance goes on.
static void replace_when_lost(const va_setup *setup)
{
    if (va_stats(&w).requests_lost < 2) return;
    uint64_t seed = va_draw(&w, UINT64_MAX);
    vt_fault_disarm(w.fault);
    va_verify(&w);
    va_close(&w);
    va_open(&w, setup, seed);
}

static void run_trace(const va_setup *setup, const mode *m, uint64_t seed, uint64_t n_step)
{
    va_open(&w, setup, seed);
    if (m->async) vt_fault_set_delay(w.fault, seed, 20);
    for (uint64_t i = 0; i < n_step; i++) {
        replace_when_lost(setup);
        // while the worker works only what is given may be looked at
        if (!m->async || chance(3)) verify_in_peace(m);
        one_round(m);
    }
    vt_fault_disarm(w.fault);
    va_verify(&w);
    va_close(&w);
}

static const va_setup setups[] = {
    // 8 heads x 96 x 2 bytes: no whole number of tokens fits a page
    {.n_plane = 4,
     .row_bytes = 1536,
     .page_bytes = 8192,
     .max_tok = 60,
     .max_batch = 5,
     .budget_groups = 24,
     .next_groups = 3},
    {.n_plane = 3,
     .row_bytes = 100,
     .page_bytes = 4096,
     .max_tok = 300,
     .max_batch = 8,
     .budget_groups = 30,
     .eager_groups = 5,
     .low_percent = 25,
     .high_percent = 50},
    // less than one token to a page; one run for each request, and a few more
    {.n_plane = 2,
     .row_bytes = 5000,
     .page_bytes = 4096,
     .max_tok = 9,
     .max_batch = 4,
     .budget_groups = 25,
     .eager_groups = VT_VA_NONE,
     .max_runs = 2 * (4 + 3)},
    // as many runs as requests
    {.n_plane = 6,
     .row_bytes = 48,
     .max_tok = 200,
     .max_batch = 16,
     .budget_groups = 20,
     .next_groups = 2,
     .low_percent = 10,
     .max_runs = 6 * 16},
};

enum { N_SETUP = sizeof setups / sizeof setups[0], CUDA_PAGES = 16 }; // its granularity over 4096

static void run_all(mode m, uint64_t n_step)
{
    uint64_t seed = env_or("VT_TEST_SEED", 20240507);
    n_step = env_or("VT_TEST_STEPS", suite_is_long() ? n_step : n_step / 2);
    print_message("seed %llu, %llu steps\n", (unsigned long long)seed, (unsigned long long)n_step);
    for (uint64_t i = 0; i < 2 * N_SETUP; i++) {
        va_setup setup = setups[i / 2];
        setup.megacache = i % 2;
        setup.host = m.host;
        setup.cuda = m.cuda;
        if (m.cuda) setup.row_bytes *= CUDA_PAGES, setup.page_bytes *= CUDA_PAGES;
        setup.device = m.device;
        run_trace(&setup, &m, seed + i, n_step);
    }
}

typedef struct va_case {
    const char *name;
    mode m;
    uint64_t n_step;
} va_case;

static void test_trace_against_reference(void **state)
{
    const va_case *run = *state;
    run_all(run->m, run->n_step);
}

static const va_case runs[] = {
    {"host", {.host = true}, 400},
    {"host, async", {.host = true, .async = true}, 400},
    {"fake", {.device = true}, 800},
    {"fake, async", {.device = true, .async = true}, 400},
    {"cuda", {.cuda = true}, 10},
    {"cuda, async", {.cuda = true, .async = true}, 10},
    {"faulty host", {.host = true, .faulty = true}, 400},
    {"faulty host, async", {.host = true, .faulty = true, .async = true}, 400},
    {"faulty fake", {.device = true, .faulty = true}, 800},
    {"faulty fake, async", {.device = true, .faulty = true, .async = true}, 400},
    {"faulty cuda", {.cuda = true, .faulty = true}, 10},
    {"faulty cuda, async", {.cuda = true, .faulty = true, .async = true}, 10},
};

FX_SUITE(test_vt_vattention_model)
{
    return RUN_CASES(test_vt_vattention_model, test_trace_against_reference, runs);
}
