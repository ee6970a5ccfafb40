// pace.c - see pace.h.
#include "engine/draft/pace.h"

#include <math.h>
#include <stddef.h>

#define PACE_SHARE   0.01 // of each step's time
#define CREDIT_STEPS 3.0  // most that the account holds, in steps
#define FIRST_STEPS  1.0  // what it begins with
#define LEAST_WEIGHT 0.05 // of a new measurement of a step, once there are many
#define FIT_DECAY    0.995
#define FIT_PART     0.5 // of a row's time by the fit: what it takes at least
#define LARGE_WEIGHT 0.25
#define MOST_JUMP    2.0  // a step counts as at most so many times what its like took
#define SEQ_DECAY    0.75 // of what a sequence has drafted, with each draft
#define ALL_DECAY    0.98
#define SEQ_PRIOR    4.0 // tokens of a sequence that weigh as much as those of all others
#define ALL_PRIOR    2.0
#define MOST_TRIED   4 // rows of a draft that is tried to see whether it comes true

// Until something was drafted.
static const double first_odds[FXI_N_DRAFT_KIND] = {
    [FXI_DRAFT_FORCED] = 0.8, [FXI_DRAFT_SHORT] = 0.4,  [FXI_DRAFT_MIDDLE] = 0.6,
    [FXI_DRAFT_LONG] = 0.8,   [FXI_DRAFT_PREFIX] = 0.8, [FXI_DRAFT_MODEL] = 0.6,
};

// ---- what steps take ---------------------------------------------------------------------------

static int measured_below(const fxi_pace *p, int n_row)
{
    while (n_row > 0 && p->step_us[n_row] <= 0) n_row--;
    return n_row;
}

static int measured_above(const fxi_pace *p, int n_row)
{
    while (n_row <= FXI_PACE_ROWS && p->step_us[n_row] <= 0) n_row++;
    return n_row;
}

// Beyond what was measured, which ends at `low`: as between the last two, or rows of a large step.
// With one measurement only, another row is expected to take as long as each of these.
static double guess_step(const fxi_pace *p, int low, int n_row)
{
    const int lower = measured_below(p, low - 1);
    double row_us = p->step_us[low] / low;
    if (p->row_us > 0)
        row_us = p->row_us;
    else if (lower)
        row_us = (p->step_us[low] - p->step_us[lower]) / (low - lower);
    return p->step_us[low] + row_us * (n_row - low);
}

double fxi_pace_step_us(const fxi_pace *p, int n_row)
{
    const int at = n_row < FXI_PACE_ROWS ? n_row : FXI_PACE_ROWS;
    const int low = measured_below(p, at), high = measured_above(p, at);
    if (n_row > at && low) return guess_step(p, low, n_row);
    if (low == at) return p->step_us[at];
    if (high > FXI_PACE_ROWS) return low ? guess_step(p, low, n_row) : 0;
    if (!low) return p->step_us[high];
    const double part = (double)(at - low) / (high - low);
    return p->step_us[low] + part * (p->step_us[high] - p->step_us[low]);
}

// Of two measurements one may be off by more than a row takes. A line through all of them is not.
static void fit_step(fxi_pace_fit *f, double n_row, double us)
{
    f->n = FIT_DECAY * f->n + 1;
    f->x = FIT_DECAY * f->x + n_row;
    f->y = FIT_DECAY * f->y + us;
    f->xx = FIT_DECAY * f->xx + n_row * n_row;
    f->xy = FIT_DECAY * f->xy + n_row * us;
}

static double fitted_row_us(const fxi_pace_fit *f)
{
    const double spread = f->n * f->xx - f->x * f->x;
    const double slope = spread > 0 ? (f->n * f->xy - f->x * f->y) / spread : 0;
    return slope > 0 ? slope : 0;
}

static void measure_step(fxi_pace *p, int n_row, double us)
{
    if (n_row > FXI_PACE_ROWS) {
        p->row_us += (p->row_us > 0 ? LARGE_WEIGHT : 1) * (us / n_row - p->row_us);
        return;
    }
    double *of = &p->step_us[n_row], *n = &p->n_step[n_row];
    if (*n > 0 && us > MOST_JUMP * *of) us = MOST_JUMP * *of;
    if (*n * LEAST_WEIGHT < 1) ++*n;
    *of += (us - *of) / *n;
    fit_step(&p->fit, n_row, us);
}

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

// What a token takes in a step without drafts.
static double token_us(const fxi_pace *p, int n_decode)
{
    return fxi_pace_step_us(p, n_decode) / n_decode;
}

static double rows_us(const fxi_pace *p, int n_row, int n_more)
{
    const double us = fxi_pace_step_us(p, n_row + n_more) - fxi_pace_step_us(p, n_row);
    const double least_us = FIT_PART * n_more * fitted_row_us(&p->fit);
    return us > least_us ? us : least_us;
}

// The offer whose next token is worth most; *gain: its worth. NULL: none has another one.
static fxi_pace_offer *best_offer(const fxi_pace *p, fxi_pace_offer *o, int n, double of_token_us,
                                  double *gain)
{
    fxi_pace_offer *best = NULL;
    for (int i = 0; i < n; i++) {
        if (o[i].n_taken == o[i].n) continue;
        const double odds = odds_of(p, o[i].seq, o[i].kind);
        const double g = pow(odds, o[i].n_taken + 1) * of_token_us;
        if (best && g <= *gain) continue;
        best = &o[i];
        *gain = g;
    }
    return best;
}

// Takes tokens of the offers, the most valuable first, as far as the account could bear that none
// comes true. Returns after how many of them their worth was most beyond what they take; 0: never.
static int take_best(const fxi_pace *p, fxi_pace_offer *o, int n, int n_row, int n_decode,
                     int max_row)
{
    const double of_token_us = token_us(p, n_decode);
    double sum = 0, most = 0, gain = 0;
    int best = 0;
    for (int i = 0; i < n; i++) o[i].n_taken = 0;
    for (int m = 1; m <= max_row; m++) {
        fxi_pace_offer *next = best_offer(p, o, n, of_token_us, &gain);
        if (!next) break;
        next->n_taken++;
        sum += gain;
        const double us = rows_us(p, n_row, m), net = sum - us;
        if (us > p->account_us) break;
        if (net <= most) continue;
        most = net;
        best = m;
    }
    return best;
}

// One draft, where the account has what it takes.
static void try_one(const fxi_pace *p, fxi_pace_offer *o, int n, int n_row, int n_decode,
                    int max_row)
{
    double gain = 0;
    fxi_pace_offer *best = best_offer(p, o, n, token_us(p, n_decode), &gain);
    if (!best) return;
    int m = best->n < max_row ? best->n : max_row;
    if (m > MOST_TRIED) m = MOST_TRIED;
    while (m > 0 && rows_us(p, n_row, m) > p->account_us) m--;
    best->n_taken = m;
}

static bool may_draft(const fxi_pace *p, int n_decode)
{
    return p->account_us > 0 && n_decode > 0 &&
           measured_below(p, n_decode < FXI_PACE_ROWS ? n_decode : FXI_PACE_ROWS);
}

int fxi_pace_length(const fxi_pace *p, const fxi_pace_seq *s, fxi_draft_kind kind, double cost_us,
                    int n_row, int n_decode, int most)
{
    if (!may_draft(p, n_decode)) return 0;
    const double odds = odds_of(p, s, kind), of_token_us = token_us(p, n_decode);
    double sum = 0, largest = 0;
    int best = 0, tried = 0;
    for (int k = 1; k <= most; k++) {
        const double us = rows_us(p, n_row, k) + k * cost_us;
        sum += pow(odds, k) * of_token_us;
        if (us > p->account_us) break;
        if (k <= MOST_TRIED) tried = k;
        if (sum - us <= largest) continue;
        largest = sum - us;
        best = k;
    }
    return best ? best : tried;
}

void fxi_pace_choose(fxi_pace *p, fxi_pace_offer *o, int n, int n_row, int n_decode, int max_row)
{
    for (int i = 0; i < n; i++) o[i].n_taken = 0;
    if (n <= 0 || !may_draft(p, n_decode)) return;
    const int best = take_best(p, o, n, n_row, n_decode, max_row);
    (void)take_best(p, o, n, n_row, n_decode, best);
    if (!best) try_one(p, o, n, n_row, n_decode, max_row);
}

// ---- the account -------------------------------------------------------------------------------

// What the drafts of a step have saved, by what it really took: what its like are thought to take
// is no proof of anything. A hitch is not theirs.
static double saved_us(const fxi_pace *p, int n_row, double us, int n_decode, int n_draft,
                       int n_true)
{
    const double most_us = MOST_JUMP * fxi_pace_step_us(p, n_row);
    const double took_us = us < most_us ? us : most_us;
    const double least_us = FIT_PART * n_draft * fitted_row_us(&p->fit);
    const double more_us = took_us - fxi_pace_step_us(p, n_row - n_draft);
    return n_true * token_us(p, n_decode) - (more_us > least_us ? more_us : least_us);
}

void fxi_pace_note_step(fxi_pace *p, int n_row, double us, int n_decode, int n_draft, int n_true,
                        double draft_us)
{
    if (n_row <= 0) return;
    measure_step(p, n_row, us);
    if (n_decode <= 0) return;
    const double plain_us = fxi_pace_step_us(p, n_decode);
    if (!p->is_open) p->account_us = FIRST_STEPS * plain_us;
    p->is_open = true;
    p->account_us += PACE_SHARE * plain_us - draft_us;
    if (n_draft) p->account_us += saved_us(p, n_row, us, n_decode, n_draft, n_true);
    if (p->account_us > CREDIT_STEPS * plain_us) p->account_us = CREDIT_STEPS * plain_us;
}
