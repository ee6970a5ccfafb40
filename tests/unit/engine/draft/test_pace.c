// test_pace.c - what drafting costs and saves, on machines that are a formula: steps take what
// their rows say, drafts come true as a seed says, and all time is virtual.
#include "unit/cmocka_all.h"

#include "base/number/rng.h"
#include "engine/draft/pace.h"

#include <string.h>

enum { MAX_SEQ = 32, MOST = 8, PROMPT = 100 };

// A step of n rows takes base_us + row_us * n, and jump_us more from the second row on. Decoding
// reads the weights once: base_us is large on machines whose memory is slow. noise: it takes up to
// so many times as much.
typedef struct machine {
    double base_us, row_us, jump_us, noise;
} machine;

// Sequences that draft `kind` whenever they decode; each token comes true with probability `odds`.
typedef struct crowd {
    int n;
    double odds[MAX_SEQ];
    fxi_draft_kind kind[MAX_SEQ];
} crowd;

typedef struct result {
    double us, plain_us; // with drafts, and without for the same tokens
    double n_step, n_draft, n_true;
} result;

static uint64_t n_drawn;

static double draw_unit(void)
{
    return fxi_rng_unit(5, 0, n_drawn++);
}

static double step_time(const machine *m, int n_row)
{
    return (m->base_us + m->row_us * n_row + (n_row > 1 ? m->jump_us : 0)) *
           (1 + m->noise * draw_unit());
}

static double plain_time(const machine *m, int n_row)
{
    const machine calm = {m->base_us, m->row_us, m->jump_us, 0};
    return step_time(&calm, n_row) * (1 + m->noise / 2);
}

static int n_coming_true(double odds, int n)
{
    int k = 0;
    while (k < n && draw_unit() < odds) k++;
    return k;
}

// One step of all.
static void run_step(fxi_pace *p, fxi_pace_seq *seq, const machine *m, const crowd *c, result *r)
{
    fxi_pace_offer o[MAX_SEQ];
    int n_draft = 0, n_true = 0;
    for (int i = 0; i < c->n; i++)
        o[i] = (fxi_pace_offer){.seq = &seq[i], .kind = c->kind[i], .n = MOST};
    fxi_pace_choose(p, o, c->n, c->n, c->n, 64);
    for (int i = 0; i < c->n; i++) {
        if (!o[i].n_taken) continue;
        assert_in_range(o[i].n_taken, 1, MOST);
        const int k = n_coming_true(c->odds[i], o[i].n_taken);
        fxi_pace_note_draft(p, &seq[i], c->kind[i], o[i].n_taken, k);
        n_draft += o[i].n_taken;
        n_true += k;
    }
    assert_in_range(n_draft, 0, 64);
    const double us = step_time(m, c->n + n_draft);
    fxi_pace_note_step(p, c->n + n_draft, us, c->n, n_draft, n_true, 0);
    r->us += us;
    r->plain_us += plain_time(m, c->n) * (c->n + n_true) / c->n;
    r->n_step++;
    r->n_draft += n_draft;
    r->n_true += n_true;
}

static result run_crowd(fxi_pace *p, const machine *m, const crowd *c, int n_step)
{
    fxi_pace_seq seq[MAX_SEQ];
    result r = {0};
    memset(seq, 0, sizeof seq);
    fxi_pace_note_step(p, PROMPT, plain_time(m, PROMPT), 0, 0, 0, 0);
    for (int i = 0; i < n_step; i++) run_step(p, seq, m, c, &r);
    return r;
}

static crowd crowd_of(int n, double odds, fxi_draft_kind kind)
{
    crowd c = {.n = n};
    for (int i = 0; i < n; i++) c.odds[i] = odds, c.kind[i] = kind;
    return c;
}

static const machine memory_bound = {8000, 500, 0, 0}, compute_bound = {100, 2000, 0, 0},
                     with_a_jump = {5000, 200, 4000, 0}, noisy = {8000, 500, 0, 0.5};

static void expect_gain(const machine *m, crowd c, int n_step, double least)
{
    fxi_pace p = {0};
    const result r = run_crowd(&p, m, &c, n_step);
    if (r.plain_us < least * r.us)
        fail_msg("%d together, steps of %.0f + %.0f n us: %.0f drafted, %.0f came true: %.3f times "
                 "as fast, at least %.3f expected",
                 c.n, m->base_us, m->row_us, r.n_draft, r.n_true, r.plain_us / r.us, least);
}

// ---- never slower ------------------------------------------------------------------------------

// Whatever the machine and the kind: drafts that never come true cost at most 2 % of 400 tokens.
static void test_wrong_drafts_cost_little(void **state)
{
    (void)state;
    static const machine *const all[] = {&memory_bound, &compute_bound, &with_a_jump, &noisy};
    for (int i = 0; i < 4; i++)
        for (int kind = 0; kind < FXI_N_DRAFT_KIND; kind++)
            for (int n = 1; n <= 16; n *= 4)
                expect_gain(all[i], crowd_of(n, 0, (fxi_draft_kind)kind), 400, 0.98);
}

static void test_no_odds_make_it_slower(void **state)
{
    (void)state;
    static const machine *const all[] = {&memory_bound, &compute_bound, &with_a_jump, &noisy};
    for (int i = 0; i < 4; i++)
        for (int tenth = 0; tenth <= 10; tenth++)
            for (int n = 1; n <= 16; n *= 4)
                expect_gain(all[i], crowd_of(n, tenth / 10.0, FXI_DRAFT_MIDDLE), 1000, 0.98);
}

// Drafts that came true until now and never again.
static void test_luck_that_turns_costs_little(void **state)
{
    (void)state;
    fxi_pace p = {0};
    fxi_pace_seq seq = {0};
    result r = {0}, after = {0};
    const crowd good = crowd_of(1, 0.9, FXI_DRAFT_LONG), bad = crowd_of(1, 0, FXI_DRAFT_LONG);
    for (int i = 0; i < 400; i++) run_step(&p, &seq, &memory_bound, &good, &r);
    for (int i = 0; i < 400; i++) run_step(&p, &seq, &memory_bound, &bad, &after);
    assert_true(after.us < 1.02 * after.plain_us);
    for (int i = 0; i < 400; i++) run_step(&p, &seq, &memory_bound, &good, &r);
    assert_true(r.plain_us > 2.5 * r.us); // and it is found when it comes back
}

// One whose drafts are wrong does not take the others' time, nor do they stop because of it.
static void test_each_by_its_own_odds(void **state)
{
    (void)state;
    fxi_pace p = {0};
    crowd c = crowd_of(4, 0.9, FXI_DRAFT_LONG);
    c.odds[0] = c.odds[1] = 0;
    const result r = run_crowd(&p, &memory_bound, &c, 600);
    assert_true(r.plain_us > 1.3 * r.us);
}

// ---- faster ------------------------------------------------------------------------------------

static void test_good_drafts_pay(void **state)
{
    (void)state;
    expect_gain(&memory_bound, crowd_of(1, 0.9, FXI_DRAFT_LONG), 200, 2.5);
    expect_gain(&memory_bound, crowd_of(1, 0.9, FXI_DRAFT_SHORT), 200, 2.5);
    expect_gain(&noisy, crowd_of(1, 0.9, FXI_DRAFT_PREFIX), 200, 2.2);
    expect_gain(&with_a_jump, crowd_of(1, 0.95, FXI_DRAFT_LONG), 200, 2);
    expect_gain(&memory_bound, crowd_of(4, 0.8, FXI_DRAFT_LONG), 200, 1.3);
}

// Where a row takes as long as a step, nothing is drafted.
static void test_a_full_machine_drafts_little(void **state)
{
    (void)state;
    fxi_pace p = {0};
    const crowd c = crowd_of(32, 0.7, FXI_DRAFT_LONG);
    const result r = run_crowd(&p, &compute_bound, &c, 1000);
    assert_true(r.n_draft < 0.05 * r.n_step * c.n);
}

// The length follows the odds.
static void test_lengths_follow_the_odds(void **state)
{
    (void)state;
    double last = 0;
    for (int tenth = 3; tenth <= 9; tenth += 3) {
        fxi_pace p = {0};
        const crowd c = crowd_of(1, tenth / 10.0, FXI_DRAFT_MIDDLE);
        const result r = run_crowd(&p, &memory_bound, &c, 500);
        assert_true(r.n_draft / r.n_step > last + 0.5);
        last = r.n_draft / r.n_step;
    }
}

static void test_steps_between_measured_ones(void **state)
{
    (void)state;
    fxi_pace p = {0};
    assert_true(fxi_pace_step_us(&p, 4) == 0);
    fxi_pace_note_step(&p, 2, 100, 2, 0, 0, 0);
    fxi_pace_note_step(&p, 6, 140, 6, 0, 0, 0);
    assert_true(fxi_pace_step_us(&p, 2) == 100 && fxi_pace_step_us(&p, 6) == 140);
    assert_true(fxi_pace_step_us(&p, 4) == 120);
    assert_true(fxi_pace_step_us(&p, 1) == 100);
    assert_true(fxi_pace_step_us(&p, 10) > 140);
    fxi_pace_note_step(&p, 500, 5000, 1, 0, 0, 0); // a row of a large step takes 10
    assert_true(fxi_pace_step_us(&p, 10) == 180);
    assert_true(fxi_pace_step_us(&p, 200) == 140 + 1940);
    fxi_pace_note_step(&p, 2, 100000, 2, 0, 0, 0); // a hitch
    assert_true(fxi_pace_step_us(&p, 2) <= 150);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_wrong_drafts_cost_little),
        cmocka_unit_test(test_no_odds_make_it_slower),
        cmocka_unit_test(test_luck_that_turns_costs_little),
        cmocka_unit_test(test_each_by_its_own_odds),
        cmocka_unit_test(test_good_drafts_pay),
        cmocka_unit_test(test_a_full_machine_drafts_little),
        cmocka_unit_test(test_lengths_follow_the_odds),
        cmocka_unit_test(test_steps_between_measured_ones),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
