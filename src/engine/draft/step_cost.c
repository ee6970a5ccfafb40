// step_cost.c - see step_cost.h.
#include "engine/draft/step_cost.h"

#include <math.h>

#define LEAST_WEIGHT  0.05 // of a step in its mean, once there are many
#define FIRST_STEPS   3.0  // steps with drafts that what is expected of them weighs as much as
#define SUM_DECAY     0.995
#define SLOPE_PART    0.5
#define ALIKE         1.25 // times the time, or the tokens where the slope is not known
#define SPEED_KEPT    0.9  // of `slower`, with each step since it was measured
#define MOST_SPEED    0.5  // of it that one step may change
#define MOST_CHANGE   1.25
#define MOST_FASTER   0.5
#define HITCH         2.0
#define PROMPT_WEIGHT 0.25

enum { LEAST_PROMPT_ROWS = 32, MOST_SINCE = 32, LESS_SINCE = 4, MORE_ROWS = 8 };

static double limit_to(double least, double x, double most)
{
    return x < least ? least : x > most ? most : x;
}

// ---- the slopes --------------------------------------------------------------------------------

static void add_point(fxi_cost_fit *f, double x, double y)
{
    f->n = SUM_DECAY * f->n + 1;
    f->x = SUM_DECAY * f->x + x;
    f->y = SUM_DECAY * f->y + y;
    f->xx = SUM_DECAY * f->xx + x * x;
    f->xy = SUM_DECAY * f->xy + x * y;
}

// So much spread tells the slope; with less, a part of it is believed.
static double enough_spread(double n_read)
{
    return n_read * n_read + 1;
}

// What n_read tokens take to read more than the mean does; all that it read took no more than it.
static double read_more_us(const fxi_step_cost *c, const fxi_cost_mean *m, double n_read)
{
    const double slope = c->read.xy / fmax(c->read.xx, enough_spread(m->n_read));
    const double most = m->n_read > 0 ? m->us / m->n_read : 0;
    return limit_to(0, slope, most) * (n_read - m->n_read);
}

double fxi_cost_least(const fxi_step_cost *c, int n_more)
{
    const fxi_cost_fit *f = &c->rows;
    const double spread = f->n * f->xx - f->x * f->x;
    const double slope = spread > 0 ? (f->n * f->xy - f->x * f->y) / spread : 0;
    return SLOPE_PART * fmax(slope, 0) * c->slower * n_more;
}

double fxi_cost_prompt_row(const fxi_step_cost *c)
{
    return c->prompt_rows > 0 ? c->prompt_us / c->prompt_rows : 0;
}

// ---- means -------------------------------------------------------------------------------------

static int measured_below(const fxi_step_cost *c, int n_row)
{
    while (n_row > 0 && c->mean[n_row].n <= 0) n_row--;
    return n_row;
}

static int measured_above(const fxi_step_cost *c, int n_row)
{
    while (n_row <= FXI_COST_ROWS && c->mean[n_row].n <= 0) n_row++;
    return n_row;
}

static fxi_cost_mean mean_between(const fxi_cost_mean *a, const fxi_cost_mean *b, double part)
{
    return (fxi_cost_mean){.n = 1,
                           .us = a->us + part * (b->us - a->us),
                           .n_read = a->n_read + part * (b->n_read - a->n_read)};
}

// What a row more takes than `low`, which no step with more rows was measured beyond: by a step
// with a prompt, or by the next fewer; with one measurement only, as long as each of its rows.
static double row_beyond_us(const fxi_step_cost *c, int low)
{
    const double us = c->mean[low].us;
    const int lower = measured_below(c, low - 1);
    if (c->prompt_rows > 2 * low)
        return fmax(0, (c->prompt_us / c->slower - us) / (c->prompt_rows - low));
    return lower ? fmax(0, (us - c->mean[lower].us) / (low - lower)) : us / low;
}

static fxi_cost_mean mean_beyond(const fxi_step_cost *c, int low, int n_row)
{
    const fxi_cost_mean *a = &c->mean[low];
    return (fxi_cost_mean){.n = 1,
                           .us = a->us + row_beyond_us(c, low) * (n_row - low),
                           .n_read = a->n_read * n_row / low};
}

static fxi_cost_mean mean_of(const fxi_step_cost *c, int n_row)
{
    const int low = measured_below(c, n_row < FXI_COST_ROWS ? n_row : FXI_COST_ROWS);
    const int high = measured_above(c, n_row);
    if (low == n_row || (!low && high > FXI_COST_ROWS)) return c->mean[low];
    if (!low) return c->mean[high];
    if (high > FXI_COST_ROWS) return mean_beyond(c, low, n_row);
    return mean_between(&c->mean[low], &c->mean[high], (double)(n_row - low) / (high - low));
}

double fxi_cost_of(const fxi_step_cost *c, int n_row, double n_read)
{
    const fxi_cost_mean m = mean_of(c, n_row);
    return m.n > 0 ? c->slower * m.us + read_more_us(c, &m, n_read) : 0;
}

// ---- what may be judged by it ------------------------------------------------------------------

static bool knows_reads(const fxi_step_cost *c, double n_read)
{
    return c->read.xx > enough_spread(n_read);
}

// Whether steps of such a mean take about the same, whether they read so many tokens or so many.
static bool reads_alike(const fxi_step_cost *c, const fxi_cost_mean *m, double a, double b)
{
    if (!knows_reads(c, m->n_read)) return a < ALIKE * b && b < ALIKE * a;
    const double a_us = read_more_us(c, m, a), b_us = read_more_us(c, m, b);
    return fabs(a_us - b_us) < (ALIKE - 1) * (c->slower * m->us + fmin(a_us, b_us));
}

bool fxi_cost_is_sure(const fxi_step_cost *c, int n_row, double n_read)
{
    if (n_row > FXI_COST_ROWS || c->n_since >= c->most_since) return false;
    const int low = measured_below(c, n_row), high = measured_above(c, n_row);
    if (!low || high > FXI_COST_ROWS || high - low > n_row / 4) return false;
    return reads_alike(c, &c->mean[low], n_read, c->plain_read);
}

int fxi_cost_most_more(const fxi_step_cost *c, int n_row)
{
    const int most = measured_below(c, FXI_COST_ROWS);
    return MORE_ROWS + (most > n_row ? 2 * (most - n_row) : 0);
}

void fxi_cost_trust(fxi_step_cost *c, bool more)
{
    const int n = more ? 2 * c->most_since : c->most_since / LESS_SINCE;
    c->most_since = n < 1 ? 1 : n < MOST_SINCE ? n : MOST_SINCE;
}

// ---- measuring ---------------------------------------------------------------------------------

double fxi_cost_without_hitch(const fxi_step_cost *c, int n_row, double n_read, double us)
{
    const double most_us = HITCH * fxi_cost_of(c, n_row, n_read);
    return most_us > 0 ? fmin(us, most_us) : us;
}

// The longer ago the last step without drafts, the more this one tells.
static void measure_speed(fxi_step_cost *c, const fxi_cost_mean *m, double n_read, double us)
{
    const bool is_alike = reads_alike(c, m, n_read, c->plain_read);
    const double now = (us - read_more_us(c, m, n_read)) / m->us;
    const double part = is_alike ? 1 - pow(SPEED_KEPT, 1 + c->n_since) : MOST_SPEED;
    const double change = limit_to(MOST_FASTER, now / c->slower, MOST_CHANGE) - 1;
    c->slower *= 1 + fmin(part, MOST_SPEED) * change;
}

// A step without drafts, which the next ones with drafts are judged by.
static void note_plain(fxi_step_cost *c, const fxi_cost_mean *m, double n_read, double us)
{
    if (m->n > 0) measure_speed(c, m, n_read, us);
    if (!reads_alike(c, m, n_read, c->plain_read)) fxi_cost_trust(c, false);
    c->plain_read = n_read;
    c->n_since = 0;
}

// The mean moves along the slope of reading, too, as its tokens read do.
static void add_to_mean(fxi_step_cost *c, fxi_cost_mean *m, double n_read, double us)
{
    if (m->n > 0) add_point(&c->read, n_read - m->n_read, us - m->raw_us);
    if (m->n > 1 && !reads_alike(c, m, n_read, m->n_read)) m->n = 1;
    if (m->n * LEAST_WEIGHT < 1) m->n++;
    m->us += (us / c->slower - m->us) / m->n;
    m->raw_us += (us - m->raw_us) / m->n;
    m->n_read += (n_read - m->n_read) / m->n;
}

static fxi_cost_mean expected_mean(const fxi_step_cost *c, int n_row)
{
    fxi_cost_mean m = mean_of(c, n_row);
    if (m.n > 0) m.n = FIRST_STEPS;
    m.raw_us = m.us * c->slower;
    return m;
}

void fxi_cost_note(fxi_step_cost *c, int n_row, double n_read, double us, bool has_drafts)
{
    if (n_row > FXI_COST_ROWS || us <= 0) return;
    fxi_cost_mean *m = &c->mean[n_row];
    if (c->slower <= 0) c->slower = c->most_since = 1;
    if (has_drafts && m->n <= 0) *m = expected_mean(c, n_row);
    if (m->n > 0) us = fxi_cost_without_hitch(c, n_row, n_read, us);
    if (has_drafts)
        c->n_since++;
    else
        note_plain(c, m, n_read, us);
    add_to_mean(c, m, n_read, us);
    add_point(&c->rows, n_row, us / c->slower + read_more_us(c, m, m->n_read - n_read));
}

void fxi_cost_note_prompt(fxi_step_cost *c, int n_row, double us)
{
    if (n_row < LEAST_PROMPT_ROWS) return;
    const double part = c->prompt_rows > 0 ? PROMPT_WEIGHT : 1;
    c->prompt_us += part * (us - c->prompt_us);
    c->prompt_rows += part * (n_row - c->prompt_rows);
}
