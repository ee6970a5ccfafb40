// draft_control.c - see draft_control.h.
#include "engine/draft/draft_control.h"

#include <math.h>
#include <stddef.h>

#define SHARE         0.01 // of a pass's time, for the account and for tries
#define SAVED_PASSES  3.0  // cap on what drafts have saved, in the account
#define TRY_PASSES    0.75 // in the account are enough for any try
#define AT_ONCE       0.58 // of the account, that a pass may lose beyond what a pass takes
#define WORTH         0.87 // of what a token saves counts: what rows take is known roughly
#define LEAST_ROW     0.05 // of the time of a token: what a row takes at least,
#define BESIDE_ROW    0.5  // and in a pass that computes prompts, too
#define SEQ_DECAY     0.75 // of what a sequence has drafted, with each draft
#define ALL_DECAY     0.98
#define SEQ_PRIOR     4.0 // tokens of a sequence that weigh as much as those of all others
#define ALL_PRIOR     2.0
#define MEAN_PASSES   20.0 // in a mean at most
#define ALIKE         1.3  // times the tokens read, or the time
#define REACH         3.0  // times the tokens read, where reading them takes about no time
#define SCALE_KEPT    0.7  // of the scale, with each pass since it was measured
#define HITCH         2.0  // times what was expected, that a pass counts as at most
#define PROMPT_WEIGHT 0.25

enum { LEAST_PROMPT_ROWS = 32, MOST_SINCE = 8, MORE_ROWS = 8, MOST_FAILED = 3 };

// ---- what passes take --------------------------------------------------------------------------

// The next number of rows from n_row on, up (step 1) or down (-1), that was measured.
static int measured_from(const fxi_draft_control *c, int n_row, int step)
{
    while (n_row > 0 && n_row <= FXI_PASS_ROWS && c->mean[n_row].n <= 0) n_row += step;
    return n_row;
}

// By rows that were measured; 0: there are none. A row beyond the most of them takes what a pass
// with a prompt says, or as long as each of theirs.
static double pass_us(const fxi_draft_control *c, int n_row)
{
    const int low = measured_from(c, n_row < FXI_PASS_ROWS ? n_row : FXI_PASS_ROWS, -1);
    const int high = measured_from(c, n_row, 1);
    const double low_us = c->scale * c->mean[low].us;
    if (low == n_row || (!low && high > FXI_PASS_ROWS)) return low_us;
    if (high <= FXI_PASS_ROWS) {
        const double high_us = c->scale * c->mean[high].us;
        return low ? low_us + (high_us - low_us) * (n_row - low) / (high - low) : high_us;
    }
    const double in_prompt = (c->prompt_us - low_us) / (c->prompt_rows - low);
    return low_us + (c->prompt_rows > 2 * low ? fmax(0, in_prompt) : low_us / low) * (n_row - low);
}

// What n_more rows would take beyond a pass without drafts and prompts.
static double rows_us(const fxi_draft_control *c, const fxi_draft_pass *p, int n_more)
{
    const double plain = pass_us(c, p->n_decode);
    const double least = p->n_row == p->n_decode ? LEAST_ROW : BESIDE_ROW;
    return fmax(pass_us(c, p->n_decode + n_more) - plain, n_more * least * plain / p->n_decode);
}

static double without_hitch(const fxi_draft_control *c, int n_row, double us)
{
    const double most_us = HITCH * pass_us(c, n_row);
    return most_us > 0 ? fmin(us, most_us) : us;
}

// Whether a pass reads at most so many times the tokens that the last one without drafts read, and
// no fewer.
static bool reads_within(const fxi_draft_control *c, const fxi_draft_pass *p, double times)
{
    return p->n_read < times * c->plain_read && c->plain_read < times * p->n_read;
}

// A pass without drafts tells the more of the scale the longer ago the last one was, and all of it
// where caches have changed. Where they have, and it took about the same, it tells of others, too.
static void note_decodes(fxi_draft_control *c, const fxi_draft_pass *p, int n_draft, double us)
{
    const int n_row = p->n_row + n_draft;
    const bool is_alike = reads_within(c, p, c->reach);
    if (n_row > FXI_PASS_ROWS || us <= 0) return;
    struct fxi_pass_mean *m = &c->mean[n_row];
    if (c->scale <= 0) c->scale = 1;
    if (n_draft && m->n <= 0 && pass_us(c, n_row) > 0) // what is expected weighs as much as some
        *m = (struct fxi_pass_mean){3, pass_us(c, n_row) / c->scale};
    if (n_draft || is_alike) us = without_hitch(c, n_row, us);
    c->n_since++;
    if (!n_draft) {
        const double now = m->n > 0 ? us / (m->us * c->scale) : 1;
        const bool is_same = m->n > 0 && now < ALIKE && now * ALIKE > 1;
        if (!reads_within(c, p, ALIKE)) c->reach = is_same ? REACH : ALIKE;
        c->scale *= 1 + (is_alike ? 1 - pow(SCALE_KEPT, c->n_since) : 1) * (now - 1);
        c->plain_read = p->n_read;
        c->n_since = 0;
    }
    if (m->n < MEAN_PASSES) m->n++;
    m->us += (us / c->scale - m->us) / m->n;
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

// Whether drafts can be judged: passes of about as many rows were measured, and lately one without
// drafts that read about as much.
static bool may_draft(const fxi_draft_control *c, const fxi_draft_pass *p)
{
    const int n = p->n_decode;
    if (c->account_us <= 0 || n <= 0 || n > FXI_PASS_ROWS || c->n_since >= MOST_SINCE) return false;
    const int low = measured_from(c, n, -1), high = measured_from(c, n, 1);
    return low && high <= FXI_PASS_ROWS && high - low <= n / 4 && reads_within(c, p, c->reach);
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
// most beyond what they take; 0: never. *saves_us: by how much.
static int propose_best(const fxi_draft_control *c, fxi_draft_offer *o, int n,
                        const fxi_draft_pass *p, int max_row, double cost_us, double *saves_us)
{
    const double plain = pass_us(c, p->n_decode), token_us = plain / p->n_decode;
    const double most_us = fmax(AT_ONCE * c->account_us, fmin(c->account_us, plain));
    double sum = 0;
    int best = 0;
    *saves_us = 0;
    for (int i = 0; i < n; i++) {
        o[i].n_proposed = 0;
        o[i].odds = o[i].next = odds_of(c, o[i].seq, o[i].kind);
    }
    for (int k = 1; k <= max_row; k++) {
        fxi_draft_offer *next = best_offer(o, n);
        if (!next) break;
        sum += WORTH * next->next * token_us;
        next->n_proposed++;
        next->next *= next->odds;
        const double us = rows_us(c, p, k) + k * cost_us;
        if (us > most_us) break;
        if (sum - us <= *saves_us) continue;
        *saves_us = sum - us;
        best = k;
    }
    return best;
}

bool fxi_draft_may_pay(const fxi_draft_control *c, const fxi_draft_pass *p, double cost_us)
{
    const double token_us = p->n_decode > 0 ? pass_us(c, p->n_decode) / p->n_decode : 0;
    return token_us <= 0 || cost_us < (WORTH - LEAST_ROW) * token_us;
}

double fxi_draft_choose(fxi_draft_control *c, fxi_draft_offer *o, int n, const fxi_draft_pass *p,
                        int max_row, double cost_us)
{
    double saves_us, ignored;
    for (int i = 0; i < n; i++) o[i].n_proposed = 0;
    c->has_offers |= n > 0;
    c->is_try = false;
    if (n <= 0 || max_row <= 0 || !may_draft(c, p)) return 0;
    const int n_measured = measured_from(c, FXI_PASS_ROWS, -1) - p->n_decode;
    const int most_more = MORE_ROWS + (n_measured > 0 ? 2 * n_measured : 0);
    const int n_best =
        propose_best(c, o, n, p, max_row < most_more ? max_row : most_more, cost_us, &saves_us);
    (void)propose_best(c, o, n, p, n_best, cost_us, &ignored);
    fxi_draft_offer *best = n_best ? NULL : best_offer(o, n);
    const double most_us = TRY_PASSES * pass_us(c, p->n_decode); // more is expected, not measured
    c->is_try = best && c->wait_us <= 0 && p->n_row == p->n_decode &&
                fmin(rows_us(c, p, 1) + cost_us, most_us) <= c->account_us;
    if (c->is_try) best->n_proposed = 1;
    return saves_us;
}

// ---- what was lost and saved -------------------------------------------------------------------

// What drafts have saved of the pass; less than nothing where they cost more. A pass that is faster
// than expected is no merit of theirs. Beside prompts, each row took as much as the others, and no
// less than without prompts.
static double saved_us(const fxi_draft_control *c, const fxi_draft_pass *p, double us,
                       const fxi_draft_result *d)
{
    const int n_row = p->n_row + d->n_tok;
    const double plain = pass_us(c, p->n_decode);
    if (!d->n_tok) return -d->us;
    const double took_us = p->n_row != p->n_decode
                               ? fmax(d->n_tok * us / n_row, rows_us(c, p, d->n_tok))
                               : fmax(without_hitch(c, n_row, us) - plain, 0);
    return d->n_accepted * plain / p->n_decode - took_us - d->us;
}

double fxi_draft_note_pass(fxi_draft_control *c, const fxi_draft_pass *p, double us,
                           const fxi_draft_result *d)
{
    const int n_row = p->n_row + d->n_tok;
    double saved = 0;
    if (p->n_row <= 0) return 0;
    if (p->n_row == p->n_decode) {
        note_decodes(c, p, d->n_tok, us);
    } else if (n_row >= LEAST_PROMPT_ROWS) {
        const double part = c->prompt_rows > 0 ? PROMPT_WEIGHT : 1;
        c->prompt_us += part * (us - c->prompt_us);
        c->prompt_rows += part * (n_row - c->prompt_rows);
    }
    if (p->n_decode > 0) {
        const double plain = pass_us(c, p->n_decode);
        saved = saved_us(c, p, us, d);
        if (!c->is_open) c->account_us = plain;
        c->is_open = plain > 0;
        if (c->has_offers) c->wait_us -= plain;
        if (c->has_offers && c->account_us < plain) c->account_us += SHARE * plain;
        c->account_us = fmin(c->account_us + saved, SAVED_PASSES * plain);
        if (c->is_try && d->n_tok) {
            c->wait_us = d->n_accepted ? 0 : -saved / SHARE * (1 << c->n_failed);
            const int n_failed = c->n_failed + (d->n_accepted ? -2 : 1);
            c->n_failed = n_failed < 0 ? 0 : n_failed > MOST_FAILED ? MOST_FAILED : n_failed;
        }
    }
    c->has_offers = c->is_try = false;
    return c->is_open ? saved : 0;
}
