// panel_ranges.c - how long a range of panels is.
#include "model/host/panel_ranges.h"

#define SMALL_TOK 32 // up to this many tokens, reading the weights dominates
#define UNIT      4  // panels that kernels work on together

static int between_units(int n, int least, int most)
{
    n = n / UNIT * UNIT;
    return n < least ? least : n > most ? most : n;
}

void fxi_ranges_init(fxi_panel_ranges *r, const fxi_compute *c, int n_panel, int period, int n_tok,
                     int most)
{
    const int n_thread = fxi_pool_n_thread(c->pool);
    *r = (fxi_panel_ranges){.n_panel = n_panel, .period = period, .n_share = 4 * n_thread};
    atomic_init(&r->next, 0);
    r->least = n_tok <= SMALL_TOK ? UNIT : between_units(n_panel / (4 * n_thread), UNIT, most);
    r->most = n_tok <= SMALL_TOK ? n_panel : r->least;
}

static int range_end(const fxi_panel_ranges *r, int first)
{
    const int whole = first / r->period * r->period + r->period;
    const int end = first + between_units((r->n_panel - first) * 3 / r->n_share, r->least, r->most);
    return end < whole ? end : whole;
}

bool fxi_ranges_take(fxi_panel_ranges *r, int *first, int *end)
{
    *first = atomic_load_explicit(&r->next, memory_order_relaxed);
    do {
        if (*first >= r->n_panel) return false;
        *end = range_end(r, *first);
    } while (!atomic_compare_exchange_weak_explicit(&r->next, first, *end, memory_order_relaxed,
                                                    memory_order_relaxed));
    return true;
}
