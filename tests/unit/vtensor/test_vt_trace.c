// test_vt_trace.c - long random traces of all operations together against the reference of family.h, on
// every backend, in both layouts, with and without a mapper thread, with budgets, mappings and swaps that
// are too small. First with a backend that works, where only a lack of space may be answered; then with
// one whose calls fail at random, those that undo included, where anything may be answered but nothing
// may be lost, mixed up or read by others.
//
// VT_TEST_SEED and VT_TEST_STEPS (environment) repeat a failure or run for longer.
#include "unit/cmocka_all.h"

#include <stdlib.h>

#include "family.h"

static family f;
static uint64_t now_ms;

static uint64_t env_or(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

static uint32_t draw(uint64_t below)
{
    return (uint32_t)family_draw(&f, below);
}

// ---- Steps. Each for the sequence at place i, which lives.

static vt_status step_grow(uint32_t i)
{
    uint32_t left = FAMILY_MAX_TOK - f.kin[i].len_tok, n_more = 1 + draw(40);
    return family_grow(&f, i, n_more < left ? n_more : left);
}

static vt_status step_fork(uint32_t i)
{
    uint32_t child = draw(f.setup.n_seq);
    if (f.kin[child].s) return VT_OK;
    return family_fork(&f, i, child, draw(f.kin[i].len_tok + 1));
}

static vt_status step_cut(uint32_t i)
{
    return family_cut(&f, i, draw(f.kin[i].len_tok + 1));
}

static vt_status step_record(uint32_t i)
{
    vt_retention keep = {
        .priority = (uint8_t)draw(3), .pinned = draw(6) == 0, .until_ms = draw(2) * (now_ms + 100)};
    uint32_t len = f.kin[i].len_tok;
    return family_record(&f, i, draw(2) ? len : draw(len + 1), draw(2) ? &keep : NULL);
}

static vt_status step_retain(uint32_t i)
{
    vt_retention keep = {.priority = (uint8_t)draw(3)};
    const kin *k = &f.kin[i];
    return vt_retain(f.domain[k->domain], k->tok, draw(k->len_tok + 1), &keep, NULL);
}

static vt_status step_release(uint32_t i)
{
    family_release(&f, i);
    return VT_OK;
}

static vt_status step_swap_out(uint32_t i)
{
    return vt_seq_swap_out(f.kin[i].s);
}

static vt_status step_swap_in(uint32_t i)
{
    return vt_seq_swap_in(f.kin[i].s);
}

static vt_status step_prepare(uint32_t i)
{
    vt_status st = vt_seq_prepare(f.kin[i].s, f.kin[i].len_tok + draw(80), draw(5));
    if (st == VT_OK && draw(2)) st = vt_seq_wait(f.kin[i].s);
    return st;
}

static vt_status step_ahead(uint32_t i)
{
    (void)i;
    vt_status st = vt_step(f.m, (vt_ahead)draw(3), draw(50), now_ms += draw(20));
    vt_work(f.m, draw(4), NULL);
    return st;
}

static vt_status step_trim(uint32_t i)
{
    (void)i;
    uint64_t freed, had = family_stats(&f).mapped_bytes;
    vt_status st = vt_trim(f.m, draw(4) * f.chunk_bytes, &freed);
    if (f.setup.mapper == VT_MAPPER_OWNER)
        assert_int_equal(freed, had - family_stats(&f).mapped_bytes);
    return st;
}

static vt_status step_evict(uint32_t i)
{
    (void)i;
    return vt_evict(f.m, draw(8) * f.chunk_bytes, NULL);
}

static vt_status step_forget(uint32_t i)
{
    return vt_domain_forget(f.domain[f.kin[i].domain]);
}

static vt_status step_reopen(uint32_t i)
{
    uint32_t d = f.kin[i].domain;
    vt_domain_close(f.domain[d]);
    return vt_domain_open(f.m, &d, sizeof d, &f.domain[d]);
}

static vt_status step_budget(uint32_t i)
{
    (void)i;
    vt_stats was = family_stats(&f);
    uint64_t size_bytes = (2 + draw(60)) * f.chunk_bytes;
    vt_status st = vt_set_budget(f.m, size_bytes);
    vt_stats is = family_stats(&f);
    assert_int_equal(is.budget_bytes, st == VT_OK ? size_bytes : was.budget_bytes);
    return st;
}

static vt_status step_snapshot(uint32_t i)
{
    (void)i;
    vt_snapshot *snap;
    vt_status st = vt_snapshot_take(f.m, &snap);
    assert_int_equal(snap->n_chunk, family_stats(&f).chunks_created);
    vt_snapshot_free(snap);
    return st;
}

typedef struct step {
    vt_status (*run)(uint32_t i);
    uint32_t weight;
} step;

static const step steps[] = {
    {step_grow, 40},    {step_fork, 10},   {step_cut, 10},     {step_record, 20},
    {step_retain, 2},   {step_release, 9}, {step_swap_out, 6}, {step_swap_in, 8},
    {step_prepare, 10}, {step_ahead, 12},  {step_trim, 1},     {step_evict, 1},
    {step_forget, 1},   {step_reopen, 1},  {step_budget, 2},   {step_snapshot, 1},
};

enum { N_STEP = sizeof steps / sizeof steps[0] };

static const step *draw_step(void)
{
    uint32_t sum = 0, at;
    for (int k = 0; k < N_STEP; k++) sum += steps[k].weight;
    at = draw(sum);
    const step *s = steps;
    while (at >= s->weight) at -= (s++)->weight;
    return s;
}

static vt_status bring_to_life(uint32_t i)
{
    uint32_t tok[FAMILY_MAX_TOK], n_tok = draw(FAMILY_MAX_TOK + 1);
    if (draw(3) == 0) return family_create(&f, i, draw(FAMILY_MAX_TOK));
    for (uint32_t t = 0; t < n_tok; t++) tok[t] = family_token(&f);
    return family_match(&f, i, tok, n_tok);
}

static void one_step(bool faulty)
{
    uint32_t i = draw(f.setup.n_seq);
    bool lives = f.kin[i].s != NULL, swapped = lives && vt_seq_is_swapped(f.kin[i].s);
    bool swap = f.setup.swap_chunks > 0;
    vt_status st = lives ? draw_step()->run(i) : bring_to_life(i);
    vt_fault_disarm(f.fault);
    assert_int_not_equal(st, VT_ENOMEM);
    if (!faulty) assert_int_not_equal(st, VT_EDEVICE);
    if (st == VT_EINVAL) assert_true(swapped || !swap);
}

static void run_trace(const family_setup *setup, uint64_t seed, uint64_t n_step, bool faulty)
{
    family_open(&f, setup, seed);
    now_ms = 0;
    for (uint64_t k = 0; k < n_step; k++) {
        if (faulty && k % 4 > 0)
            vt_fault_arm_random(f.fault, seed ^ (k << 20), 3 + (uint32_t)(k % 12));
        one_step(faulty);
        if (k % 4 == 0) family_verify(&f);
    }
    family_verify(&f);
    family_close(&f);
}

#define COMMON .n_seq = 8, .slice_pages = 1

static const family_setup setups[] = {
    {.name = "roomy", COMMON, .n_plane = 3, .row_bytes = 100, .budget_chunks = UINT64_MAX},
    {.name = "tight",
     COMMON,
     .n_plane = 2,
     .row_bytes = 128,
     .budget_chunks = 24,
     .swap_chunks = 12,
     .mapper = VT_MAPPER_OWNER},
    {.name = "straddling",
     COMMON,
     .n_plane = 4,
     .row_bytes = 96,
     .budget_chunks = 60,
     .low_chunks = 5,
     .swap_chunks = 200},
    {.name = "few mappings",
     COMMON,
     .n_plane = 2,
     .row_bytes = 200,
     .budget_chunks = 80,
     .max_runs = 21,
     .mapper = VT_MAPPER_OWNER},
    {.name = "long chunks",
     .n_seq = 5,
     .slice_pages = 2,
     .n_plane = 2,
     .row_bytes = 60,
     .budget_chunks = 14,
     .low_chunks = 2,
     .swap_chunks = 3},
};

enum { N_SETUP = sizeof setups / sizeof setups[0] };

// Rows that are as long for the stand-in's pages as they are for the host's.
static family_setup on(backend b, vt_layout layout, const family_setup *from)
{
    family_setup s = *from;
    s.backend = b;
    s.layout = layout;
    if (b == ON_CUDA) s.row_bytes *= 8;
    if (b != ON_FAKE) s.max_runs = 0;
    return s;
}

static void run_all(backend b, bool faulty, uint64_t n_step)
{
    uint64_t seed = env_or("VT_TEST_SEED", 20240715);
    n_step = env_or("VT_TEST_STEPS", n_step);
    for (int k = 0; k < N_SETUP; k++)
        for (int layout = VT_LAYOUT_SPLIT; layout <= VT_LAYOUT_PACKED; layout++) {
            family_setup s = on(b, (vt_layout)layout, &setups[k]);
            print_message("%s, layout %d, seed %llu\n", s.name, layout, (unsigned long long)seed);
            run_trace(&s, seed + (uint64_t)k, n_step, faulty);
        }
}

static void on_the_host(void **state)
{
    (void)state;
    run_all(ON_HOST, false, 400);
}

static void on_the_fake(void **state)
{
    (void)state;
    run_all(ON_FAKE, false, 1500);
}

static void on_cuda(void **state)
{
    (void)state;
    run_all(ON_CUDA, false, 120);
}

static void on_a_faulty_host(void **state)
{
    (void)state;
    run_all(ON_HOST, true, 400);
}

static void on_a_faulty_fake(void **state)
{
    (void)state;
    run_all(ON_FAKE, true, 1500);
}

static void on_a_faulty_cuda(void **state)
{
    (void)state;
    run_all(ON_CUDA, true, 120);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(on_the_host),      cmocka_unit_test(on_the_fake),
        cmocka_unit_test(on_cuda),          cmocka_unit_test(on_a_faulty_host),
        cmocka_unit_test(on_a_faulty_fake), cmocka_unit_test(on_a_faulty_cuda),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
