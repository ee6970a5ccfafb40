// pace.c - see pace.h.
#include "engine/draft/pace.h"

#include <math.h>
#include <stddef.h>

#define SHARE       0.01 // of a step's time, for the account and for tries
#define SHARE_STEPS 1.0  // up to which the share fills the account
#define SAVED_STEPS 4.0  // up to which what was saved does
#define FIRST_STEPS 1.0  // what it begins with
#define TRY_STEPS   0.75 // in the account are enough for any try
#define AT_ONCE     0.5  // of the account, that a step may lose beyond what a step takes
#define LEAST_ROW   0.05 // of the time of a token: what a row takes at least
#define PROVEN      0.03 // of the time of steps with drafts: saved so much, they may go on
#define SEQ_DECAY   0.75 // of what a sequence has drafted, with each draft
#define ALL_DECAY   0.98
#define SEQ_PRIOR   4.0 // tokens of a sequence that weigh as much as those of all others
#define ALL_PRIOR   2.0

enum {
    MOST_FAILED = 3, // tries that halve the share
    MADE_UP = 2,     // of them, by one that comes true
};

// Until something was drafted.
static const double first_odds[FXI_N_DRAFT_KIND] = {
    [FXI_DRAFT_FORCED] = 0.8, [FXI_DRAFT_SHORT] = 0.4,  [FXI_DRAFT_MIDDLE] = 0.6,
    [FXI_DRAFT_LONG] = 0.8,   [FXI_DRAFT_PREFIX] = 0.8, [FXI_DRAFT_MODEL] = 0.6,
};

// ---- odds --------------------------------------------------------------------------------------

// The probability that a token of such a draft comes true, if all before it have.
static double odds_of(const fxi_pace *p, const fxi_pace_seq *s, fxi_draft_kind kind)
{
    const fxi_pace_odds *all = &p->odds[kind], *own = &s->odds[kind];
    const double others = (all->n_true + ALL_PRIOR * first_odds[kind]) / (all->n_tried + ALL_PRIOR);
    return (own->n_true + SEQ_PRIOR * others) / (own->n_tried + SEQ_PRIOR);
}

static void note_odds(fxi_pace_odds *o, double decay, int n_true, int n_tried)
{
    o->n_true = decay * o->n_true + n_true;
    o->n_tried = decay * o->n_tried + n_tried;
}

void fxi_pace_note_draft(fxi_pace *p, fxi_pace_seq *s, fxi_draft_kind kind, int n_taken, int n_true)
{
    const int n_tried = n_true + (n_true < n_taken); // nothing is known of those behind a wrong one
    note_odds(&s->odds[kind], SEQ_DECAY, n_true, n_tried);
    note_odds(&p->odds[kind], ALL_DECAY, n_true, n_tried);
}

// ---- choosing ----------------------------------------------------------------------------------

static bool computes_prompts(const fxi_pace_step *s)
{
    return s->n_row != s->n_decode;
}

// What the sequences that decode would take by themselves, without drafts.
static double plain_us(const fxi_pace *p, const fxi_pace_step *s)
{
    return fxi_cost_of(&p->cost, s->n_decode, s->n_read);
}

static double token_us(const fxi_pace *p, const fxi_pace_step *s)
{
    return plain_us(p, s) / s->n_decode;
}

// What n_more rows take that read n_read tokens; beside prompts as much as one of theirs at least.
static double rows_us(const fxi_pace *p, const fxi_pace_step *s, int n_more, double n_read)
{
    const double us =
        fxi_cost_of(&p->cost, s->n_decode + n_more, s->n_read + n_read) - plain_us(p, s);
    const double fitted_us = fxi_cost_least(&p->cost, n_more);
    const double in_prompt_us = computes_prompts(s) ? n_more * fxi_cost_prompt_row(&p->cost) : 0;
    return fmax(fmax(us, n_more * LEAST_ROW * token_us(p, s)), fmax(fitted_us, in_prompt_us));
}

static double most_lost_us(const fxi_pace *p, const fxi_pace_step *s)
{
    return fmax(AT_ONCE * p->account_us, fmin(p->account_us, plain_us(p, s)));
}

static void clear_offers(const fxi_pace *p, fxi_pace_offer *o, int n)
{
    for (int i = 0; i < n; i++) {
        o[i].n_taken = 0;
        o[i].odds = o[i].next = odds_of(p, o[i].seq, o[i].kind);
    }
}

// The offer whose next token is likeliest to come true. NULL: none has another one.
static fxi_pace_offer *best_offer(fxi_pace_offer *o, int n)
{
    fxi_pace_offer *best = NULL;
    for (int i = 0; i < n; i++)
        if (o[i].n_taken < o[i].n && (!best || o[i].next > best->next)) best = &o[i];
    return best;
}

// Takes tokens of the offers, the likeliest first, as far as the account could bear that none comes
// true. Returns after how many of them their worth was most beyond what they take; 0: never.
static int take_best(const fxi_pace *p, fxi_pace_offer *o, int n, const fxi_pace_step *s,
                     int max_row)
{
    const double of_token_us = token_us(p, s), most_us = most_lost_us(p, s);
    double sum = 0, most = 0, n_read = 0;
    int best = 0;
    clear_offers(p, o, n);
    for (int m = 1; m <= max_row; m++) {
        fxi_pace_offer *next = best_offer(o, n);
        if (!next) break;
        sum += next->next * of_token_us;
        n_read += next->n_read;
        next->n_taken++;
        next->next *= next->odds;
        const double us = rows_us(p, s, m, n_read), net = sum - us;
        if (us > most_us) break;
        if (net <= most) continue;
        most = net;
        best = m;
    }
    return best;
}

static bool may_draft(const fxi_pace *p, const fxi_pace_step *s)
{
    return p->account_us > 0 && s->n_decode > 0 &&
           fxi_cost_is_sure(&p->cost, s->n_decode, s->n_read);
}

static bool may_try(const fxi_pace *p, const fxi_pace_step *s, double us)
{
    const double most_us = TRY_STEPS * plain_us(p, s); // more is only expected, not measured
    return p->wait_us <= 0 && !computes_prompts(s) && fmin(us, most_us) <= p->account_us;
}

// A token of the draft that is likeliest to come true.
static void try_one(fxi_pace *p, fxi_pace_offer *o, int n, const fxi_pace_step *s)
{
    fxi_pace_offer *best = best_offer(o, n);
    if (!best || !may_try(p, s, rows_us(p, s, 1, best->n_read))) return;
    best->n_taken = 1;
    p->is_try = true;
}

int fxi_pace_length(fxi_pace *p, const fxi_pace_offer *o, double cost_us, const fxi_pace_step *s)
{
    p->has_offers = true;
    if (!may_draft(p, s)) return 0;
    const double odds = odds_of(p, o->seq, o->kind), of_token_us = token_us(p, s);
    double sum = 0, largest = 0;
    int best = 0;
    for (int k = 1; k <= o->n; k++) {
        const double us = rows_us(p, s, k, k * o->n_read) + k * cost_us;
        sum += pow(odds, k) * of_token_us;
        if (us > most_lost_us(p, s)) break;
        if (sum - us <= largest) continue;
        largest = sum - us;
        best = k;
    }
    return best ? best : may_try(p, s, rows_us(p, s, 1, o->n_read) + cost_us);
}

void fxi_pace_choose(fxi_pace *p, fxi_pace_offer *o, int n, const fxi_pace_step *s, int max_row)
{
    for (int i = 0; i < n; i++) o[i].n_taken = 0;
    p->has_offers |= n > 0;
    if (n <= 0 || max_row <= 0 || !may_draft(p, s)) return;
    const int most_more = fxi_cost_most_more(&p->cost, s->n_decode);
    const int best = take_best(p, o, n, s, max_row < most_more ? max_row : most_more);
    (void)take_best(p, o, n, s, best);
    if (!best) try_one(p, o, n, s);
}

// ---- what was lost and saved -------------------------------------------------------------------

// What the step took because of its drafts; a faster one is no merit of theirs. Beside prompts:
// each row as much as the others, and no less than without prompts.
static double took_us(const fxi_pace *p, const fxi_pace_step *s, double us,
                      const fxi_pace_drafts *d)
{
    const int n_row = s->n_row + d->n_tok;
    if (computes_prompts(s)) return fmax(d->n_tok * us / n_row, rows_us(p, s, d->n_tok, d->n_read));
    const double all_us = fxi_cost_without_hitch(&p->cost, n_row, s->n_read + d->n_read, us);
    return fmax(all_us - plain_us(p, s), fxi_cost_least(&p->cost, d->n_tok));
}

static double saved_us(const fxi_pace *p, const fxi_pace_step *s, double us,
                       const fxi_pace_drafts *d)
{
    return d->n_tok ? d->n_true * token_us(p, s) - took_us(p, s, us, d) - d->us : -d->us;
}

// After a try.
static void wait_for_next(fxi_pace *p, double lost_us, bool has_failed)
{
    p->wait_us = has_failed ? lost_us / SHARE * (1 << p->n_failed) : 0;
    p->n_failed += has_failed ? 1 : -MADE_UP;
    if (p->n_failed > MOST_FAILED) p->n_failed = MOST_FAILED;
    if (p->n_failed < 0) p->n_failed = 0;
}

// A RUN is the steps with drafts between two without. They may be more the next time if they have
// saved something, and are fewer otherwise.
static void note_run(fxi_pace *p, double us, double of_step_us, bool has_drafts)
{
    if (has_drafts) {
        p->run_us += us;
        p->run_saved_us += of_step_us;
    } else if (p->run_us > 0) {
        fxi_cost_trust(&p->cost, p->run_saved_us > PROVEN * p->run_us);
        p->run_us = p->run_saved_us = 0;
    }
}

static void settle_account(fxi_pace *p, const fxi_pace_step *s, double us, const fxi_pace_drafts *d)
{
    const double step_us = plain_us(p, s), saved = saved_us(p, s, us, d);
    if (!p->is_open) p->account_us = FIRST_STEPS * step_us;
    p->is_open = step_us > 0;
    if (p->has_offers) p->wait_us -= step_us;
    if (p->has_offers && p->account_us < SHARE_STEPS * step_us) p->account_us += SHARE * step_us;
    p->account_us = fmin(p->account_us + saved, SAVED_STEPS * step_us);
    if (!computes_prompts(s)) note_run(p, us, saved, d->n_tok > 0);
    if (p->is_try && d->n_tok) wait_for_next(p, -saved, !d->n_true);
}

void fxi_pace_note_step(fxi_pace *p, const fxi_pace_step *s, double us, const fxi_pace_drafts *d)
{
    if (s->n_row <= 0) return;
    const int n_row = s->n_row + d->n_tok;
    if (computes_prompts(s))
        fxi_cost_note_prompt(&p->cost, n_row, us);
    else
        fxi_cost_note(&p->cost, n_row, s->n_read + d->n_read, us, d->n_tok > 0);
    if (s->n_decode > 0) settle_account(p, s, us, d);
    p->has_offers = p->is_try = false;
}
