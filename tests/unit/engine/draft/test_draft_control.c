// test_draft_control.c - what drafting costs and saves, on machines that are a formula: passes take
// what their rows and the caches that they read say, drafts are accepted as a seed says, and all
// time is virtual.
#include "unit/cmocka_all.h"

#include "base/number/rng.h"
#include "engine/draft/draft_control.h"

#include <math.h>
#include <string.h>

enum { MAX_SEQ = 64, MOST = 8, PROMPT = 64, MAX_ROW = 64 };

// A step takes base_us, row_us for each row, jump_us from the second row on, and read_us for each
// token of the caches. Decoding reads the weights once: base_us is large where memory is slow.
// noise: it takes up to so much more or less. hitch: how likely 30 ms are added.
typedef struct machine {
    const char *name;
    double base_us, row_us, jump_us, read_us, noise, hitch;
} machine;

static const machine machines[] = {
    {.name = "slow memory", .base_us = 8000, .row_us = 500, .noise = 0.1},
    {.name = "slow cores", .base_us = 100, .row_us = 2000, .noise = 0.1},
    {.name = "a jump", .base_us = 5000, .row_us = 200, .jump_us = 4000, .noise = 0.1},
    {.name = "growing steps", .base_us = 120, .row_us = 110, .read_us = 0.6, .noise = 0.05},
    {.name = "long caches", .base_us = 1000, .row_us = 100, .read_us = 5, .noise = 0.1},
    {.name = "no noise", .base_us = 8000, .row_us = 500, .read_us = 1},
    {.name = "hitches", .base_us = 8000, .row_us = 500, .read_us = 1, .noise = 0.1, .hitch = 0.01},
};
enum { N_MACHINE = sizeof machines / sizeof machines[0] };
static const machine *const slow_memory = &machines[0], *const slow_cores = &machines[1];

// Sequences that get an answer of len_tok after the other. They draft `kind` whenever they decode;
// each token comes true with probability odds: of those with an odd number, of the others.
typedef struct crowd {
    int n, len_tok;
    double odds[2];
    fxi_draft_kind kind;
    bool is_staggered;   // answers end one by one; otherwise the next ones begin together
    int turn_steps;      // for so many steps drafts come true, and then not at all; 0: always
    bool is_half_silent; // answers have drafts and have none in turns
    int n_prompt_row;    // beside each step
    int fixed_tok;       // each draft has so many, whatever the controller says; 0: as it says
} crowd;

typedef struct world {
    fxi_draft_control control;
    fxi_draft_odds seq[MAX_SEQ];
    int at_tok[MAX_SEQ], n_answer[MAX_SEQ];
    double us, plain_us; // with drafts, and without for the same tokens
    double n_step, n_draft, n_accepted;
    double draft_read; // tokens that the rows of the step's drafts read
    double saved_us;   // as the controller has it
} world;

static uint64_t n_drawn;

static double draw_unit(void)
{
    return fxi_rng_unit(5, 0, n_drawn++);
}

static double calm_us(const machine *m, double n_row, double n_read)
{
    return m->base_us + m->row_us * n_row + (n_row > 1 ? m->jump_us : 0) + m->read_us * n_read;
}

static double measured_us(const machine *m, double us)
{
    const double hitch_us = draw_unit() < m->hitch ? 30000 : 0;
    return us * (1 + m->noise * (2 * draw_unit() - 1)) + hitch_us;
}

// ---- a step of all -----------------------------------------------------------------------------

static void begin_answers(world *w, const machine *m, const crowd *c)
{
    int n_done = 0, n = 0;
    for (int i = 0; i < c->n; i++) n_done += w->at_tok[i] >= c->len_tok;
    if (!n_done || (!c->is_staggered && n_done < c->n)) return;
    for (int i = 0; i < c->n; i++) {
        if (w->at_tok[i] < c->len_tok) continue;
        w->at_tok[i] = 0;
        w->n_answer[i]++;
        memset(&w->seq[i], 0, sizeof w->seq[i]);
        n++;
    }
    const fxi_draft_pass s = {n * PROMPT, n, (double)n * PROMPT};
    const double us = calm_us(m, n * PROMPT, n * PROMPT * PROMPT / 2.0);
    fxi_draft_note_pass(&w->control, &s, us, &(fxi_draft_result){0});
}

static int collect_offers(world *w, const crowd *c, fxi_draft_pass *s, fxi_draft_offer *o, int *who)
{
    int n = 0;
    for (int i = 0; i < c->n; i++) {
        if (w->at_tok[i] >= c->len_tok) continue;
        s->n_row++;
        s->n_decode++;
        s->n_read += PROMPT + w->at_tok[i];
        const int left = c->len_tok - 1 - w->at_tok[i];
        if (!(w->at_tok[i] < c->len_tok - 1 && !(c->is_half_silent && w->n_answer[i] % 2 == 0)))
            continue;
        who[n] = i;
        o[n++] =
            (fxi_draft_offer){.seq = &w->seq[i], .kind = c->kind, .n = left < MOST ? left : MOST};
    }
    s->n_row += c->n_prompt_row;
    return n;
}

static fxi_draft_result verify_drafts(world *w, const crowd *c, const fxi_draft_offer *o, int n,
                                      const int *who)
{
    fxi_draft_result d = {0};
    w->draft_read = 0;
    for (int j = 0; j < n; j++) {
        if (!o[j].n_proposed) continue;
        assert_in_range(o[j].n_proposed, 1, o[j].n);
        const bool has_turned = c->turn_steps && (int)w->n_step / c->turn_steps % 2;
        const double odds = has_turned ? 0 : c->odds[who[j] % 2];
        int k = 0;
        while (k < o[j].n_proposed && draw_unit() < odds) k++;
        fxi_draft_note(&w->control, o[j].seq, c->kind, o[j].n_proposed, k);
        d.n_tok += o[j].n_proposed;
        w->draft_read += (double)o[j].n_proposed * (PROMPT + w->at_tok[who[j]] - 1);
        d.n_accepted += k;
        w->at_tok[who[j]] += k;
    }
    assert_in_range(d.n_tok, 0, MAX_ROW);
    return d;
}

static void run_step(world *w, const machine *m, const crowd *c)
{
    fxi_draft_offer o[MAX_SEQ];
    fxi_draft_pass s = {0};
    int who[MAX_SEQ];
    begin_answers(w, m, c);
    const int n = collect_offers(w, c, &s, o, who);
    if (c->fixed_tok) {
        for (int i = 0, left = MAX_ROW; i < n; i++) {
            o[i].n_proposed = c->fixed_tok < o[i].n ? c->fixed_tok : o[i].n;
            if (o[i].n_proposed > left) o[i].n_proposed = left;
            left -= o[i].n_proposed;
        }
    } else
        fxi_draft_choose(&w->control, o, n, &s, MAX_ROW, 0);
    for (int i = 0; i < c->n; i++) w->at_tok[i]++;
    const fxi_draft_result d = verify_drafts(w, c, o, n, who);
    const double us = calm_us(m, s.n_row + d.n_tok, s.n_read + w->draft_read);
    const double plain_us = calm_us(m, s.n_row, s.n_read);
    const double token_us = calm_us(m, s.n_decode, s.n_read) / s.n_decode;
    w->saved_us += fxi_draft_note_pass(&w->control, &s, measured_us(m, us), &d);
    w->us += us;
    w->plain_us += plain_us + d.n_accepted * token_us;
    w->n_step++;
    w->n_draft += d.n_tok;
    w->n_accepted += d.n_accepted;
}

// ---- runs of them ------------------------------------------------------------------------------

static world *new_world(const crowd *c)
{
    static world w;
    w = (world){0};
    n_drawn = 0;
    for (int i = 0; i < c->n; i++)
        w.at_tok[i] = i && c->is_staggered ? i * c->len_tok / c->n : c->len_tok;
    return &w;
}

static double gain_of(const machine *m, const crowd *c, int n_step)
{
    world *w = new_world(c);
    for (int i = 0; i < n_step; i++) run_step(w, m, c);
    return w->plain_us / w->us;
}

static void expect_gain(const machine *m, crowd c, int n_step, double least)
{
    const double gain = gain_of(m, &c, n_step);
    if (gain < least)
        fail_msg("%s, %d sequences, answers of %d, odds %.2f and %.2f: %.3f times as fast, at "
                 "least %.3f expected",
                 m->name, c.n, c.len_tok, c.odds[0], c.odds[1], gain, least);
}

static crowd crowd_of(int n, int len_tok, double odds, fxi_draft_kind kind)
{
    return (crowd){.n = n, .len_tok = len_tok, .odds = {odds, odds}, .kind = kind};
}

// With short and long answers that end together or one by one.
static void expect_no_loss(const machine *m, crowd c)
{
    static const int len_tok[] = {20, 100, 400};
    for (int i = 0; i < 6; i++) {
        c.len_tok = len_tok[i / 2];
        c.is_staggered = i % 2;
        expect_gain(m, c, 600, 0.98);
    }
}

// ---- never slower ------------------------------------------------------------------------------

FX_TEST(test_wrong_drafts_cost_little)
{
    for (int i = 0; i < N_MACHINE; i++)
        for (int n = 1; n <= 64; n *= 4)
            expect_no_loss(&machines[i], crowd_of(n, 0, 0, FXI_DRAFT_SHORT));
    for (int kind = 0; kind < FXI_N_DRAFT_KIND; kind++)
        for (int n = 1; n <= 16; n *= 4)
            expect_no_loss(slow_memory, crowd_of(n, 0, 0, (fxi_draft_kind)kind));
}

// Tries become rarer as they fail: what is wrong all day costs far less than what is allowed.
FX_TEST(test_drafts_that_stay_wrong_cost_hardly_anything)
{
    for (int i = 0; i < N_MACHINE; i++)
        for (int n = 1; n <= 16; n *= 4) {
            const crowd c = crowd_of(n, 100, 0, FXI_DRAFT_SHORT);
            world *w = new_world(&c);
            for (int j = 0; j < 1000; j++) run_step(w, &machines[i], &c);
            const double us = w->us, plain_us = w->plain_us;
            for (int j = 0; j < 2000; j++) run_step(w, &machines[i], &c);
            if (w->plain_us - plain_us < 0.995 * (w->us - us))
                fail_msg("%s, %d sequences: %.4f times as fast", machines[i].name, n,
                         (w->plain_us - plain_us) / (w->us - us));
        }
}

FX_TEST(test_no_odds_make_it_slower)
{
    for (int i = 0; i < N_MACHINE; i++)
        for (int tenth = 1; tenth <= 9; tenth += 2)
            for (int n = 1; n <= 32; n *= 8)
                expect_no_loss(&machines[i], crowd_of(n, 0, tenth / 10.0, FXI_DRAFT_MIDDLE));
}

// What was measured at the end of one answer must not make the first steps of the next look cheap.
FX_TEST(test_caches_that_grow_cost_little)
{
    for (int i = 0; i < N_MACHINE; i++)
        for (int n = 2; n <= 32; n *= 2)
            for (int tenth = 0; tenth <= 4; tenth += 2) {
                crowd c = crowd_of(n, 200, tenth / 10.0, FXI_DRAFT_SHORT);
                c.is_half_silent = true;
                expect_gain(&machines[i], c, 1200, 0.98);
            }
}

FX_TEST(test_luck_that_turns_costs_little)
{
    for (int i = 0; i < N_MACHINE; i++)
        for (int n = 1; n <= 16; n *= 4) {
            crowd c = crowd_of(n, 0, 0.9, FXI_DRAFT_LONG);
            c.turn_steps = 150;
            expect_no_loss(&machines[i], c);
        }
}

// By itself: drafts that came true until now and never again.
FX_TEST(test_luck_that_has_turned_costs_little)
{
    crowd good = crowd_of(1, 10000, 0.9, FXI_DRAFT_LONG), bad = crowd_of(1, 10000, 0, good.kind);
    world *w = new_world(&good);
    for (int i = 0; i < 400; i++) run_step(w, slow_memory, &good);
    const double us = w->us, plain_us = w->plain_us;
    for (int i = 0; i < 400; i++) run_step(w, slow_memory, &bad);
    assert_true(w->us - us < 1.02 * (w->plain_us - plain_us));
    const double back_us = w->us, back_plain_us = w->plain_us;
    for (int i = 0; i < 400; i++) run_step(w, slow_memory, &good); // it is found when it comes back
    assert_true(w->plain_us - back_plain_us > 2.5 * (w->us - back_us));
}

// One whose drafts are wrong does not take the others' time, nor do they stop because of it.
FX_TEST(test_each_by_its_own_odds)
{
    for (int i = 0; i < N_MACHINE; i++)
        for (int n = 2; n <= 32; n *= 4) {
            crowd c = crowd_of(n, 0, 0, FXI_DRAFT_SHORT);
            c.odds[1] = 0.9;
            expect_no_loss(&machines[i], c);
        }
    crowd c = crowd_of(4, 200, 0, FXI_DRAFT_LONG);
    c.odds[1] = 0.9;
    c.is_staggered = true;
    expect_gain(slow_memory, c, 600, 1.3);
}

// While prompts are computed in the same steps, there are none without to judge by.
FX_TEST(test_drafts_beside_prompts_cost_little)
{
    for (int i = 0; i < N_MACHINE; i++)
        for (int tenth = 0; tenth <= 9; tenth += 3) {
            crowd c = crowd_of(8, 100, tenth / 10.0, FXI_DRAFT_SHORT);
            for (int k = 0; k < 2; k++) {
                c.n_prompt_row = 100 * k;
                world *w = new_world(&c);
                for (int j = 0; j < 200; j++) run_step(w, &machines[i], &c);
                c.n_prompt_row = 100;
                for (int j = 0; j < 200; j++) run_step(w, &machines[i], &c);
                if (w->plain_us < 0.98 * w->us)
                    fail_msg("%s, odds 0.%d, prompts %s: %.3f times as fast", machines[i].name,
                             tenth, k ? "always" : "later", w->plain_us / w->us);
            }
        }
}

// ---- faster ------------------------------------------------------------------------------------

static double best_fixed(const machine *m, crowd c, int n_step)
{
    double best = 1;
    for (c.fixed_tok = 1; c.fixed_tok <= MOST; c.fixed_tok++) {
        const double gain = gain_of(m, &c, n_step);
        if (gain > best) best = gain;
    }
    return best;
}

// As the best of all fixed lengths, but for what it takes to find out.
FX_TEST(test_good_drafts_pay)
{
    static const double odds[] = {0.7, 0.9, 0.97};
    for (int i = 0; i < N_MACHINE; i++)
        for (int k = 0; k < 3; k++)
            for (int n = 1; n <= 32; n *= 8) {
                const crowd c = crowd_of(n, 100, odds[k], FXI_DRAFT_SHORT);
                if (machines[i].jump_us > 0 && k == 0) continue; // a try costs more than it brings
                expect_gain(&machines[i], c, 1000, 0.9 * best_fixed(&machines[i], c, 1000));
            }
}

// What it says drafts saved is what they saved, whether they are good or bad. It does not count the
// first passes, and those that were faster than expected.
FX_TEST(test_the_estimate_of_what_was_saved)
{
    for (int i = 0; i < N_MACHINE; i++)
        for (int n = 1; n <= 16; n *= 4)
            for (int tenth = 0; tenth <= 9; tenth += 3) {
                crowd c = crowd_of(n, 200, tenth / 10.0, FXI_DRAFT_LONG);
                world *w = new_world(&c);
                for (int j = 0; j < 2000; j++) run_step(w, &machines[i], &c);
                const double saved = w->plain_us - w->us, off = fabs(w->saved_us - saved);
                if (off > 0.05 * w->plain_us)
                    fail_msg("%s, %d sequences, odds 0.%d: %.0f us saved of %.0f, not %.0f",
                             machines[i].name, n, tenth, saved, w->plain_us, w->saved_us);
            }
}

FX_TEST(test_good_drafts_are_found_soon)
{
    expect_gain(slow_memory, crowd_of(1, 100, 0.9, FXI_DRAFT_LONG), 50, 2.5);
    expect_gain(slow_memory, crowd_of(1, 100, 0.9, FXI_DRAFT_SHORT), 50, 2.5);
    expect_gain(slow_memory, crowd_of(4, 100, 0.8, FXI_DRAFT_LONG), 100, 1.3);
}

// Where a row takes as long as a step, nothing is drafted.
FX_TEST(test_a_full_machine_drafts_little)
{
    const crowd c = crowd_of(32, 400, 0.7, FXI_DRAFT_LONG);
    world *w = new_world(&c);
    for (int i = 0; i < 600; i++) run_step(w, slow_cores, &c);
    assert_true(w->n_draft < 0.05 * w->n_step * c.n);
}

// The length follows the odds.
FX_TEST(test_lengths_follow_the_odds)
{
    double last = 0;
    for (int tenth = 3; tenth <= 9; tenth += 3) {
        const crowd c = crowd_of(1, 400, tenth / 10.0, FXI_DRAFT_MIDDLE);
        world *w = new_world(&c);
        for (int i = 0; i < 500; i++) run_step(w, slow_memory, &c);
        assert_true(w->n_draft / w->n_step > last + 0.5);
        last = w->n_draft / w->n_step;
    }
}

// ---- the account -------------------------------------------------------------------------------

// Steps that have nothing to choose from, those of requests that want no drafts among them, bring
// nothing in.
FX_TEST(test_plain_steps_pay_for_no_drafts)
{
    fxi_draft_control p = {0};
    fxi_draft_odds seq = {0};
    const fxi_draft_pass s = {8, 8, 800};
    fxi_draft_offer o = {.seq = &seq, .kind = FXI_DRAFT_SHORT, .n = 1};
    const fxi_draft_result none = {0}, lost = {.us = 300};
    for (int i = 0; i < 10; i++) fxi_draft_note_pass(&p, &s, 1000, &none);
    assert_true(p.account_us == 1000); // what it begins with
    fxi_draft_note_pass(&p, &s, 1000, &lost);
    fxi_draft_note_pass(&p, &s, 1000, &none);
    assert_true(p.account_us == 700);
    fxi_draft_choose(&p, &o, 1, &s, 0, 0);
    fxi_draft_note_pass(&p, &s, 1000, &none);
    assert_true(p.account_us == 710);
}

// What a try has lost is 1 % of the time until the next one, then half as much. One that memory was
// missing for is none.
FX_TEST(test_tries_become_rarer)
{
    fxi_draft_control p = {0};
    fxi_draft_odds seq = {0};
    const fxi_draft_pass s = {8, 8, 800};
    const fxi_draft_result none = {0}, wrong = {.n_tok = 1};
    fxi_draft_offer o = {.seq = &seq, .kind = FXI_DRAFT_SHORT, .n = 8};
    for (int i = 0; i < 20; i++) fxi_draft_note(&p, &seq, o.kind, 1, 0);
    fxi_draft_note_pass(&p, &s, 1000, &none);
    fxi_draft_choose(&p, &o, 1, &s, 64, 0);
    assert_int_equal(o.n_proposed, 1);
    fxi_draft_note_pass(&p, &s, 1000, &none);
    for (int n_wait = 10; n_wait <= 80; n_wait *= 2) {
        fxi_draft_choose(&p, &o, 1, &s, 64, 0);
        assert_int_equal(o.n_proposed, 1);
        fxi_draft_note_pass(&p, &s, 1100, &wrong);
        int n = 0;
        for (o.n_proposed = 0; !o.n_proposed; n++) {
            fxi_draft_note_pass(&p, &s, 1000, &none);
            fxi_draft_choose(&p, &o, 1, &s, 64, 0);
        }
        assert_in_range(n, n_wait - 1, n_wait + 2);
    }
}

// Nor do drafts stay away for good that a model has yet to make.
FX_TEST(test_an_overdrawn_account_fills_again)
{
    fxi_draft_control p = {0};
    fxi_draft_odds seq = {0};
    const fxi_draft_pass s = {1, 1, 100};
    fxi_draft_offer o = {.seq = &seq, .kind = FXI_DRAFT_MODEL, .n = 8};
    const fxi_draft_result none = {0}, lost = {.us = 1500};
    fxi_draft_note_pass(&p, &s, 1000, &none);
    fxi_draft_note_pass(&p, &s, 1000, &lost);
    int n_step = 0;
    for (; n_step < 1000 && !o.n_proposed; n_step++) {
        fxi_draft_note_pass(&p, &s, 1000, &none);
        fxi_draft_choose(&p, &o, 1, &s, 8, 10);
    }
    assert_in_range(n_step, 50, 200);
}

FX_RUN(test_draft_control)
