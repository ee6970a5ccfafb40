// draft_control.c - see draft_control.h.
#include "engine/draft/draft_control.h"

#include <math.h>
#include <stddef.h>

#define SHARE         0.01 // of a pass's time, for the account and for tries
#define SAVED_PASSES  3.0  // cap on what drafts have saved, in the account
#define TRY_PASSES    0.75 // in the account are enough for any try
#define AT_ONCE       0.5  // of the account, that a pass may lose beyond what a pass takes
#define LEAST_ROW     0.05 // of the time of a token: what a row takes at least
#define SEQ_DECAY     0.75 // of what a sequence has drafted, with each draft
#define ALL_DECAY     0.98
#define SEQ_PRIOR     4.0 // tokens of a sequence that weigh as much as those of all others
#define ALL_PRIOR     2.0
#define MEAN_PASSES   20.0 // in a mean at most
#define SLOPE_DECAY   0.995
#define ALIKE         1.25 // times the time, or the tokens where the slope is not known
#define SPEED_KEPT    0.9  // of `slower`, with each pass since it was measured
#define MOST_SPEED    0.5  // of it that one pass may change
#define HITCH         2.0  // times what was expected, that a pass counts as at most
#define PROMPT_WEIGHT 0.25

enum { LEAST_PROMPT_ROWS = 32, MOST_SINCE = 8, MORE_ROWS = 8, MOST_FAILED = 3 };

static double limit_to(double least, double x, double most)
{
    return x < least ? least : x > most ? most : x;
}

// ---- what passes take --------------------------------------------------------------------------

// What n_read tokens take to read more than the mean does; all that it read took no more than it.
// Where little is known of the slope, a part of it is believed.
static double read_more_us(const fxi_draft_control *c, const fxi_pass_mean *m, double n_read)
{
    const double slope = c->read_xy / fmax(c->read_xx, m->n_read * m->n_read + 1);
    const double most = m->n_read > 0 ? m->us / m->n_read : 0;
    return limit_to(0, slope, most) * (n_read - m->n_read);
}

static int measured_below(const fxi_draft_control *c, int n_row)
{
    while (n_row > 0 && c->mean[n_row].n <= 0) n_row--;
    return n_row;
}

static int measured_above(const fxi_draft_control *c, int n_row)
{
    while (n_row <= FXI_PASS_ROWS && c->mean[n_row].n <= 0) n_row++;
    return n_row;
}

// By rows that were measured. A row beyond the most of them takes what a pass with a prompt says,
// or as long as each of theirs.
static fxi_pass_mean mean_of(const fxi_draft_control *c, int n_row)
{
    const int low = measured_below(c, n_row < FXI_PASS_ROWS ? n_row : FXI_PASS_ROWS);
    const int high = measured_above(c, n_row);
    fxi_pass_mean m = c->mean[low];
    if (low == n_row || (!low && high > FXI_PASS_ROWS)) return m;
    if (!low) return c->mean[high];
    m.n = 1;
    if (high > FXI_PASS_ROWS) {
        const double in_prompt = (c->prompt_us / c->slower - m.us) / (c->prompt_rows - low);
        m.us += (c->prompt_rows > 2 * low ? fmax(0, in_prompt) : m.us / low) * (n_row - low);
        m.n_read *= (double)n_row / low;
    } else {
        const double part = (double)(n_row - low) / (high - low);
        m.us += part * (c->mean[high].us - m.us);
        m.n_read += part * (c->mean[high].n_read - m.n_read);
    }
    return m;
}

// 0: nothing was measured that tells.
static double pass_us(const fxi_draft_control *c, int n_row, double n_read)
{
    const fxi_pass_mean m = mean_of(c, n_row);
    return m.n > 0 ? c->slower * m.us + read_more_us(c, &m, n_read) : 0;
}

// Whether passes of such a mean take about the same, whether they read a or b tokens.
static bool reads_alike(const fxi_draft_control *c, const fxi_pass_mean *m, double a, double b)
{
    if (c->read_xx <= m->n_read * m->n_read + 1) return a < ALIKE * b && b < ALIKE * a;
    const double a_us = read_more_us(c, m, a), b_us = read_more_us(c, m, b);
    return fabs(a_us - b_us) < (ALIKE - 1) * (c->slower * m->us + fmin(a_us, b_us));
}

static double without_hitch(const fxi_draft_control *c, int n_row, double n_read, double us)
{
    const double most_us = HITCH * pass_us(c, n_row, n_read);
    return most_us > 0 ? fmin(us, most_us) : us;
}

// A pass without drafts, by which the next ones with drafts are judged. The longer ago the last one
// was, the more this one tells of the speed.
static void note_plain(fxi_draft_control *c, const fxi_pass_mean *m, double n_read, double us)
{
    const bool is_alike = reads_alike(c, m, n_read, c->plain_read);
    if (m->n > 0) {
        const double now = (us - read_more_us(c, m, n_read)) / m->us;
        const double part = is_alike ? 1 - pow(SPEED_KEPT, 1 + c->n_since) : MOST_SPEED;
        c->slower *= 1 + fmin(part, MOST_SPEED) * (limit_to(0.5, now / c->slower, 1.25) - 1);
    }
    c->plain_read = n_read;
    c->n_since = 0;
}

static void note_decodes(fxi_draft_control *c, int n_row, double n_read, double us, bool has_drafts)
{
    if (n_row > FXI_PASS_ROWS || us <= 0) return;
    fxi_pass_mean *m = &c->mean[n_row];
    if (c->slower <= 0) c->slower = 1;
    if (has_drafts && m->n <= 0) { // what is expected weighs as much as some passes
        *m = mean_of(c, n_row);
        if (m->n > 0) m->n = 3;
        m->raw_us = m->us * c->slower;
    }
    if (m->n > 0) us = without_hitch(c, n_row, n_read, us);
    if (has_drafts)
        c->n_since++;
    else
        note_plain(c, m, n_read, us);
    if (m->n > 0) {
        const double x = n_read - m->n_read;
        c->read_xx = SLOPE_DECAY * c->read_xx + x * x;
        c->read_xy = SLOPE_DECAY * c->read_xy + x * (us - m->raw_us);
    }
    if (m->n > 1 && !reads_alike(c, m, n_read, m->n_read)) m->n = 1;
    if (m->n < MEAN_PASSES) m->n++;
    m->us += (us / c->slower - m->us) / m->n;
    m->raw_us += (us - m->raw_us) / m->n;
    m->n_read += (n_read - m->n_read) / m->n;
}

// ---- odds --------------------------------------------------------------------------------------

// The probability that a token of such a draft is accepted, if all before it are.
static double odds_of(const fxi_draft_control *c, const fxi_draft_odds *own, fxi_draft_kind kind)
{
    static const double first[FXI_N_DRAFT_KIND] = {
        [FXI_DRAFT_FORCED] = 0.8, [FXI_DRAFT_SHORT] = 0.4,  [FXI_DRAFT_MIDDLE] = 0.6,
        [FXI_DRAFT_LONG] = 0.8,   [FXI_DRAFT_PREFIX] = 0.8, [FXI_DRAFT_MODEL] = 0.6,
    };
    const fxi_draft_odds *all = &c->odds;
    const double others =
        (all->n_accepted[kind] + ALL_PRIOR * first[kind]) / (all->n_tried[kind] + ALL_PRIOR);
    return (own->n_accepted[kind] + SEQ_PRIOR * others) / (own->n_tried[kind] + SEQ_PRIOR);
}

void fxi_draft_note(fxi_draft_control *c, fxi_draft_odds *seq, fxi_draft_kind kind, int n_proposed,
                    int n_accepted)
{
    const int n_tried =
        n_accepted + (n_accepted < n_proposed); // those after a wrong one tell nothing
    seq->n_accepted[kind] = SEQ_DECAY * seq->n_accepted[kind] + n_accepted;
    seq->n_tried[kind] = SEQ_DECAY * seq->n_tried[kind] + n_tried;
    c->odds.n_accepted[kind] = ALL_DECAY * c->odds.n_accepted[kind] + n_accepted;
    c->odds.n_tried[kind] = ALL_DECAY * c->odds.n_tried[kind] + n_tried;
}

// ---- choosing ----------------------------------------------------------------------------------

// What a pass would take without drafts and prompts.
static double plain_us(const fxi_draft_control *c, const fxi_draft_pass *p)
{
    return pass_us(c, p->n_decode, p->n_read);
}

// What n_more rows take that read n_read tokens.
static double rows_us(const fxi_draft_control *c, const fxi_draft_pass *p, int n_more,
                      double n_read)
{
    const double us = pass_us(c, p->n_decode + n_more, p->n_read + n_read) - plain_us(c, p);
    return fmax(us, n_more * LEAST_ROW * plain_us(c, p) / p->n_decode);
}

static double most_lost_us(const fxi_draft_control *c, const fxi_draft_pass *p)
{
    return fmax(AT_ONCE * c->account_us, fmin(c->account_us, plain_us(c, p)));
}

// Whether drafts can be judged: passes of about as many rows were measured, and lately one without
// drafts that read about as much.
static bool may_draft(const fxi_draft_control *c, const fxi_draft_pass *p)
{
    const int n = p->n_decode;
    if (c->account_us <= 0 || n <= 0 || n > FXI_PASS_ROWS || c->n_since >= MOST_SINCE) return false;
    const int low = measured_below(c, n), high = measured_above(c, n);
    return low && high <= FXI_PASS_ROWS && high - low <= n / 4 &&
           reads_alike(c, &c->mean[low], p->n_read, c->plain_read);
}

static bool may_try(const fxi_draft_control *c, const fxi_draft_pass *p, double us)
{
    const double most_us = TRY_PASSES * plain_us(c, p); // more is only expected, not measured
    return c->wait_us <= 0 && p->n_row == p->n_decode && fmin(us, most_us) <= c->account_us;
}

// The offer whose next token is likeliest to be accepted. NULL: none has another one.
static fxi_draft_offer *best_offer(fxi_draft_offer *o, int n)
{
    fxi_draft_offer *best = NULL;
    for (int i = 0; i < n; i++)
        if (o[i].n_proposed < o[i].n && (!best || o[i].next > best->next)) best = &o[i];
    return best;
}

// Proposes tokens of the offers, the likeliest first, as far as the account could bear that none is
// accepted; cost_us: what it takes to draft each. Returns after how many of them their worth was
// most beyond what they take; 0: never.
static int propose_best(const fxi_draft_control *c, fxi_draft_offer *o, int n,
                        const fxi_draft_pass *p, int max_row, double cost_us)
{
    const double token_us = plain_us(c, p) / p->n_decode, most_us = most_lost_us(c, p);
    double sum = 0, most = 0, n_read = 0;
    int best = 0;
    for (int i = 0; i < n; i++) {
        o[i].n_proposed = 0;
        o[i].odds = o[i].next = odds_of(c, o[i].seq, o[i].kind);
    }
    for (int k = 1; k <= max_row; k++) {
        fxi_draft_offer *next = best_offer(o, n);
        if (!next) break;
        sum += next->next * token_us;
        n_read += next->n_read;
        next->n_proposed++;
        next->next *= next->odds;
        const double us = rows_us(c, p, k, n_read) + k * cost_us;
        if (us > most_us) break;
        if (sum - us <= most) continue;
        most = sum - us;
        best = k;
    }
    return best;
}

void fxi_draft_choose(fxi_draft_control *c, fxi_draft_offer *o, int n, const fxi_draft_pass *p,
                      int max_row)
{
    for (int i = 0; i < n; i++) o[i].n_proposed = 0;
    c->has_offers |= n > 0;
    if (n <= 0 || max_row <= 0 || !may_draft(c, p)) return;
    const int n_measured = measured_below(c, FXI_PASS_ROWS) - p->n_decode;
    const int most_more = MORE_ROWS + (n_measured > 0 ? 2 * n_measured : 0);
    const int n_best = propose_best(c, o, n, p, max_row < most_more ? max_row : most_more, 0);
    (void)propose_best(c, o, n, p, n_best, 0);
    fxi_draft_offer *best = n_best ? NULL : best_offer(o, n);
    c->is_try = best && may_try(c, p, rows_us(c, p, 1, best->n_read));
    if (c->is_try) best->n_proposed = 1;
}

int fxi_draft_length(fxi_draft_control *c, const fxi_draft_offer *o, double cost_us,
                     const fxi_draft_pass *p)
{
    fxi_draft_offer one = *o;
    c->has_offers = true;
    if (!may_draft(c, p)) return 0;
    const int n_best = propose_best(c, &one, 1, p, o->n, cost_us);
    return n_best ? n_best : may_try(c, p, rows_us(c, p, 1, o->n_read) + cost_us);
}

// ---- what was lost and saved -------------------------------------------------------------------

// What drafts have saved of the pass; less than nothing where they cost more. A pass that is faster
// than expected is no merit of theirs. Beside prompts, each row took as much as the others, and no
// less than without prompts.
static double saved_us(const fxi_draft_control *c, const fxi_draft_pass *p, double us,
                       const fxi_draft_result *d)
{
    const int n_row = p->n_row + d->n_tok;
    if (!d->n_tok) return -d->us;
    const double took_us =
        p->n_row != p->n_decode
            ? fmax(d->n_tok * us / n_row, rows_us(c, p, d->n_tok, d->n_read))
            : fmax(without_hitch(c, n_row, p->n_read + d->n_read, us) - plain_us(c, p), 0);
    return d->n_accepted * plain_us(c, p) / p->n_decode - took_us - d->us;
}

static void note_savings(fxi_draft_control *c, const fxi_draft_pass *p, double us,
                         const fxi_draft_result *d)
{
    const double plain = plain_us(c, p), saved = saved_us(c, p, us, d);
    if (!c->is_open) c->account_us = plain;
    c->is_open = plain > 0;
    if (c->has_offers) c->wait_us -= plain;
    if (c->has_offers && c->account_us < plain) c->account_us += SHARE * plain;
    c->account_us = fmin(c->account_us + saved, SAVED_PASSES * plain);
    if (!c->is_try || !d->n_tok) return;
    c->wait_us = d->n_accepted ? 0 : -saved / SHARE * (1 << c->n_failed);
    c->n_failed = (int)limit_to(0, c->n_failed + (d->n_accepted ? -2 : 1), MOST_FAILED);
}

void fxi_draft_note_pass(fxi_draft_control *c, const fxi_draft_pass *p, double us,
                         const fxi_draft_result *d)
{
    if (p->n_row <= 0) return;
    const int n_row = p->n_row + d->n_tok;
    if (p->n_row == p->n_decode) {
        note_decodes(c, n_row, p->n_read + d->n_read, us, d->n_tok > 0);
    } else if (n_row >= LEAST_PROMPT_ROWS) {
        const double part = c->prompt_rows > 0 ? PROMPT_WEIGHT : 1;
        c->prompt_us += part * (us - c->prompt_us);
        c->prompt_rows += part * (n_row - c->prompt_rows);
    }
    if (p->n_decode > 0) note_savings(c, p, us, d);
    c->has_offers = c->is_try = false;
}
