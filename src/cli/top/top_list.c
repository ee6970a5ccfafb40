// top_list.c - the list of requests: a row for each sequence, with its chunks as a bar.
#include "cli/top/top_view.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { STATE_COL = 9, BAR_COL = 58 };

const char fxi_top_letters[FXI_TOP_N_CHUNK] = {
    [FXI_TOP_absent] = '-', [FXI_TOP_spare] = '.',  [FXI_TOP_owned] = 'o',
    [FXI_TOP_shared] = 'S', [FXI_TOP_cached] = 'c', [FXI_TOP_swapped] = '~'};

fxi_style fxi_top_chunk_style(int state)
{
    static const fxi_style styles[FXI_TOP_N_CHUNK] = {
        [FXI_TOP_absent] = FXI_STYLE_DIM,    [FXI_TOP_spare] = FXI_STYLE_SPARE,
        [FXI_TOP_owned] = FXI_STYLE_OWNED,   [FXI_TOP_shared] = FXI_STYLE_SHARED,
        [FXI_TOP_cached] = FXI_STYLE_CACHED, [FXI_TOP_swapped] = FXI_STYLE_SWAPPED};
    return styles[state];
}

// ---- the rows ----------------------------------------------------------------------------------

typedef struct list_row {
    const fxi_top_request *request; // NULL: a span whose request is not known
    const fxi_top_span *span;       // NULL: it has none
    bool is_first;                  // of its request
    double key;
} list_row;

static double age_s(const fxi_watched *w, const fxi_top_request *r)
{
    return w->at_us > r->submit_us ? (double)(w->at_us - r->submit_us) * 1e-6 : 0;
}

// Those that run come first.
static double state_rank(const char *state)
{
    static const char *const order[] = {"running", "coming", "leaving", "away", "waiting"};
    for (int i = 0; i < (int)(sizeof order / sizeof *order); i++)
        if (!strcmp(state, order[i])) return i;
    return 9;
}

// What the list is sorted by, so that the interesting end comes first.
static double sort_key(const fxi_watched *w, const fxi_top_request *r, int sort)
{
    const double keys[FXI_TOP_N_SORT] = {[FXI_TOP_BY_id] = 0,
                                         [FXI_TOP_BY_age] = -age_s(w, r),
                                         [FXI_TOP_BY_output] = -(double)r->n_generated,
                                         [FXI_TOP_BY_rate] = -r->tok_s,
                                         [FXI_TOP_BY_prompt] = -(double)r->n_prompt,
                                         [FXI_TOP_BY_state] = state_rank(r->state)};
    return keys[sort];
}

// Spans and requests are sorted by the request's id: a row for each pair, and for each that has no
// other. rows NULL: they are only counted.
static size_t pair_rows(const fxi_watched *w, int sort, list_row *rows)
{
    size_t n = 0, k = 0;
    for (size_t i = 0; i < w->n_request; i++) {
        const fxi_top_request *r = &w->request[i];
        const double key = sort_key(w, r, sort);
        bool is_first = true;
        for (; k < w->n_span && w->span[k].request < r->id; k++, n++)
            if (rows) rows[n] = (list_row){NULL, &w->span[k], true, key};
        for (; k < w->n_span && w->span[k].request == r->id; k++, n++, is_first = false)
            if (rows) rows[n] = (list_row){r, &w->span[k], is_first, key};
        if (is_first && rows) rows[n] = (list_row){r, NULL, true, key};
        n += is_first;
    }
    for (; k < w->n_span; k++, n++)
        if (rows) rows[n] = (list_row){NULL, &w->span[k], true, INFINITY};
    return n;
}

size_t fxi_top_rows(const fxi_watched *w)
{
    return pair_rows(w, FXI_TOP_BY_id, NULL);
}

// By the key; rows of a request stay together, in the order of its choices.
static int order_rows(const void *x, const void *y)
{
    const list_row *a = x, *b = y;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    const uint64_t a_id = a->request ? a->request->id : a->span->request;
    const uint64_t b_id = b->request ? b->request->id : b->span->request;
    if (a_id != b_id) return a_id < b_id ? -1 : 1;
    const uint32_t a_choice = a->span ? a->span->choice : 0;
    const uint32_t b_choice = b->span ? b->span->choice : 0;
    return (a_choice > b_choice) - (a_choice < b_choice);
}

// ---- the bar -----------------------------------------------------------------------------------

// Calls for each position of the span, groups one after the other.
typedef struct bar {
    const fxi_watched *w;
    uint32_t *count; // [n_cell][FXI_TOP_N_CHUNK] positions of each state
    uint64_t n_cell, n_position;
} bar;

static uint64_t count_span_positions(const fxi_top_span *p)
{
    uint64_t sum = 0, end = 0;
    for (uint32_t i = 0; i < p->n_segment; i++) {
        const fxi_top_segment *g = &p->segment[i];
        if (i && g->group != p->segment[i - 1].group) sum += end, end = 0;
        if ((uint64_t)g->at + g->n > end) end = (uint64_t)g->at + g->n;
    }
    return sum + end;
}

static void fill_segment(bar *b, const fxi_top_segment *g, uint64_t base)
{
    for (uint32_t i = 0; i < g->n; i++) {
        const uint64_t cell = (base + g->at + i) * b->n_cell / b->n_position;
        const int state = fxi_watched_chunk(b->w, g->chunk + i);
        b->count[cell * FXI_TOP_N_CHUNK + (uint64_t)state]++;
    }
}

static void fill_bar(bar *b, const fxi_top_span *p)
{
    uint64_t base = 0, end = 0;
    for (uint32_t i = 0; i < p->n_segment; i++) {
        const fxi_top_segment *g = &p->segment[i];
        if (i && g->group != p->segment[i - 1].group) base += end, end = 0;
        if ((uint64_t)g->at + g->n > end) end = (uint64_t)g->at + g->n;
        fill_segment(b, g, base);
    }
}

// The state that most positions of a cell have.
static int state_of_cell(const uint32_t count[FXI_TOP_N_CHUNK])
{
    int state = FXI_TOP_absent;
    for (int i = 1; i < FXI_TOP_N_CHUNK; i++)
        if (count[i] > count[state] || (count[i] && state == FXI_TOP_absent)) state = i;
    return state;
}

static bool draw_bar(fxi_screen *s, int row, const fxi_watched *w, const fxi_top_span *p)
{
    bar b = {.w = w, .n_position = count_span_positions(p)};
    const uint64_t n_col = s->n_col > BAR_COL ? (uint64_t)(s->n_col - BAR_COL) : 0;
    b.n_cell = b.n_position < n_col ? b.n_position : n_col;
    if (!b.n_cell) return true;
    b.count = calloc(b.n_cell, sizeof *b.count * FXI_TOP_N_CHUNK);
    if (!b.count) return false;
    fill_bar(&b, p);
    for (uint64_t i = 0; i < b.n_cell; i++) {
        const int state = state_of_cell(&b.count[i * FXI_TOP_N_CHUNK]);
        fxi_screen_put(s, row, BAR_COL + (int)i, fxi_top_chunk_style(state), "%c",
                       fxi_top_letters[state]);
    }
    free(b.count);
    return true;
}

// ---- drawing -----------------------------------------------------------------------------------

static const char *age_text(double s, char text[16])
{
    if (s < 100)
        snprintf(text, 16, "%.0fs", s);
    else if (s < 6000)
        snprintf(text, 16, "%.0fm", s / 60);
    else
        snprintf(text, 16, "%.0fh", fmin(s / 3600, 99999));
    return text;
}

static void draw_request(fxi_screen *s, int row, const fxi_watched *w, const fxi_top_request *r)
{
    char age[16];
    const fxi_style style = strcmp(r->state, "running") ? FXI_STYLE_DIM : FXI_STYLE_PLAIN;
    fxi_screen_put(s, row, STATE_COL, style, "%-8.8s%7u%7u%7u%7u%7.1f%5s", r->state, r->n_prompt,
                   r->n_cached, r->n_generated, r->max_tok, r->tok_s, age_text(age_s(w, r), age));
    if (r->place) fxi_screen_put(s, row, BAR_COL, FXI_STYLE_DIM, "place %u in the queue", r->place);
}

static bool draw_row(fxi_screen *s, int row, const fxi_watched *w, const list_row *l)
{
    const unsigned long long id = l->request ? l->request->id : l->span->request;
    if (l->is_first && !(l->request && l->request->n_seq > 1))
        fxi_screen_put(s, row, 0, FXI_STYLE_BOLD, "%llu", id);
    else
        fxi_screen_put(s, row, 0, l->is_first ? FXI_STYLE_BOLD : FXI_STYLE_DIM, "%llu.%u", id,
                       l->span ? l->span->choice : 0);
    if (l->is_first && l->request) draw_request(s, row, w, l->request);
    return !l->span || draw_bar(s, row, w, l->span);
}

static bool draw_rows(fxi_screen *s, int top, int end, const fxi_watched *w, const fxi_top_view *v,
                      const list_row *rows, size_t n)
{
    bool ok = true;
    for (int row = top; ok && row < end; row++) {
        const size_t i = v->first + (size_t)(row - top);
        if (i >= n) break;
        ok = draw_row(s, row, w, &rows[v->is_reversed ? n - 1 - i : i]);
    }
    return ok;
}

bool fxi_top_draw_list(fxi_screen *s, int top, int end, const fxi_watched *w, const fxi_top_view *v)
{
    const size_t n = fxi_top_rows(w);
    list_row *rows = calloc(n + 1, sizeof *rows);
    if (!rows) return false;
    pair_rows(w, v->sort, rows);
    qsort(rows, n, sizeof *rows, order_rows);
    fxi_screen_paint(s, top, FXI_STYLE_BAR);
    fxi_screen_put(s, top, 0, FXI_STYLE_BAR, "%-9s%-8s%7s%7s%7s%7s%7s%5s %s", "REQUEST", "STATE",
                   "PROMPT", "CACHED", "OUTPUT", "MAX", "TOK/S", "AGE", "CHUNKS");
    const bool ok = draw_rows(s, top + 1, end, w, v, rows, n);
    free(rows);
    return ok;
}
