// top_view.c - cells, and what is in them: the figures, the graph, the list of requests with a bar
// of chunks for each sequence, and the keys.
#include "cli/top/top.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli/terminal/terminal.h" // defines: fxi_cli_size

enum { HEAD_ROWS = 5, GRAPH_ROWS = 3, TITLE_ROWS = 1, KEY_ROWS = 1, LABEL_COLS = 11 };
#define TEXT_OF(name) #name,

enum { GRAPH_FROM_ROWS = 14 }; // smaller screens have no graph

enum { STATE_COL = 9, BAR_COL = 58 };

static const char chunk_letters[FX_N_CHUNK_STATE] = {
    [FX_CHUNK_absent] = '-', [FX_CHUNK_spare] = '.',  [FX_CHUNK_owned] = 'o',
    [FX_CHUNK_shared] = 'S', [FX_CHUNK_cached] = 'c', [FX_CHUNK_swapped] = '~'};

static const fxi_style chunk_style[FX_N_CHUNK_STATE] = {
    [FX_CHUNK_absent] = FXI_STYLE_DIM,    [FX_CHUNK_spare] = FXI_STYLE_SPARE,
    [FX_CHUNK_owned] = FXI_STYLE_OWNED,   [FX_CHUNK_shared] = FXI_STYLE_SHARED,
    [FX_CHUNK_cached] = FXI_STYLE_CACHED, [FX_CHUNK_swapped] = FXI_STYLE_SWAPPED};

// ---- cells ------------------------------------------------------------------------------------

void fxi_screen_free(fxi_screen *s)
{
    free(s->cell);
    *s = (fxi_screen){0};
}

// One character of up to 3 bytes of UTF-8. Rows and columns outside the screen are allowed.
static void put_glyph(fxi_screen *s, int row, int col, fxi_style style, const char *glyph)
{
    if (row < 0 || row >= s->n_row || col < 0 || col >= s->n_col) return;
    fxi_cell *c = &s->cell[row * s->n_col + col];
    snprintf(c->text, sizeof c->text, "%s", glyph);
    c->style = (unsigned char)style;
}

// Writes a text from this cell on, cut off at the edge; what is not printable ASCII becomes '?'.
// Returns the column after it.
__attribute__((format(printf, 5, 6))) static int put_text(fxi_screen *s, int row, int col,
                                                          fxi_style style, const char *fmt, ...)
{
    char text[512];
    va_list args;
    va_start(args, fmt);
    vsnprintf(text, sizeof text, fmt, args);
    va_end(args);
    for (const char *p = text; *p; p++, col++) {
        const char one[2] = {*p >= ' ' && *p <= '~' ? *p : '?', 0};
        put_glyph(s, row, col, style, one);
    }
    return col;
}

// The whole row gets this style.
static void paint_row(fxi_screen *s, int row, fxi_style style)
{
    if (row < 0 || row >= s->n_row) return;
    for (int col = 0; col < s->n_col; col++)
        s->cell[row * s->n_col + col].style = (unsigned char)style;
}

bool fxi_screen_text(const fxi_screen *s, fxi_buf *out)
{
    bool ok = true;
    for (int row = 0; ok && row < s->n_row; row++) {
        const fxi_cell *cell = &s->cell[row * s->n_col];
        int n = s->n_col;
        while (n > 0 && !strcmp(cell[n - 1].text, " ")) n--;
        for (int col = 0; ok && col < n; col++) ok = fxi_buf_str(out, cell[col].text);
        ok = ok && fxi_buf_str(out, "\n");
    }
    return ok;
}

// ---- the rows ----------------------------------------------------------------------------------

typedef struct list_row {
    const fxi_json *request, *span; // one of them may be NULL: not known, and none
    uint64_t id;
    double tok_s, key;
    bool is_first; // of its request
} list_row;

static double age_s(const fxi_top_state *now, const fxi_json *request)
{
    const uint64_t submit_us = fxi_top_number(request, "submit_us");
    return now->at_us > submit_us ? (double)(now->at_us - submit_us) * 1e-6 : 0;
}

// FX_REQUEST_*; FX_N_REQUEST_STATE: none that is known.
static unsigned request_state(const fxi_json *request)
{
    const char *name = fxi_json_text(fxi_json_get(request, "state"));
    unsigned state = 0;
    while (state < FX_N_REQUEST_STATE && (!name || strcmp(name, fx_request_state_name(state)) != 0))
        state++;
    return state;
}

// What the list is sorted by, so that the interesting end comes first; of states, what runs.
static double sort_key(const fxi_top_state *now, const list_row *l, int sort)
{
    static const int ranks[FX_N_REQUEST_STATE + 1] = {
        [FX_REQUEST_running] = 0, [FX_REQUEST_coming] = 1,  [FX_REQUEST_leaving] = 2,
        [FX_REQUEST_away] = 3,    [FX_REQUEST_waiting] = 4, [FX_N_REQUEST_STATE] = 5};
    const double keys[FXI_TOP_N_SORT] = {
        [FXI_TOP_BY_age] = -age_s(now, l->request),
        [FXI_TOP_BY_output] = -(double)fxi_top_number(l->request, "generated"),
        [FXI_TOP_BY_rate] = -l->tok_s,
        [FXI_TOP_BY_prompt] = -(double)fxi_top_number(l->request, "prompt"),
        [FXI_TOP_BY_state] = ranks[request_state(l->request)]};
    return l->request || sort == FXI_TOP_BY_id ? keys[sort] : INFINITY;
}

// Spans and requests are sorted by the request's id: a row for each pair, and for each that has no
// other. rows NULL: they are only counted.
static size_t pair_rows(const fxi_top_state *now, int sort, list_row *rows)
{
    const fxi_json *requests = fxi_top_get(now, "requests"), *spans = fxi_top_get(now, "spans");
    const size_t n_span = fxi_json_array_size(spans);
    bool has_row = false; // the request
    size_t n = 0;
    for (size_t i = 0, k = 0; i < now->n_request || k < n_span;) {
        const fxi_top_request *r = i < now->n_request ? &now->request[i] : NULL;
        const fxi_json *span = fxi_json_at(spans, k);
        const uint64_t r_id = r ? r->id : UINT64_MAX;
        const uint64_t span_id = span ? fxi_top_number(span, "request") : UINT64_MAX;
        const bool is_pair = span_id == r_id;
        if (is_pair || span_id < r_id || !has_row) {
            list_row l = {.id = span_id < r_id ? span_id : r_id, .is_first = !is_pair || !has_row};
            if (span_id <= r_id) l.span = span;
            if (r_id <= span_id) l.request = fxi_json_at(requests, i);
            if (l.request) l.tok_s = r->tok_s;
            l.key = sort_key(now, &l, sort);
            if (rows) rows[n] = l;
            n++;
        }
        has_row = is_pair;
        k += span_id <= r_id;
        i += span_id > r_id;
    }
    return n;
}

size_t fxi_top_rows(const fxi_top_state *now)
{
    return pair_rows(now, FXI_TOP_BY_id, NULL);
}

// By the key; rows of a request stay together, in the order of its choices.
static int order_rows(const void *x, const void *y)
{
    const list_row *a = x, *b = y;
    if (a->key != b->key) return a->key < b->key ? -1 : 1;
    if (a->id != b->id) return a->id < b->id ? -1 : 1;
    const uint64_t a_choice = fxi_top_number(a->span, "choice");
    const uint64_t b_choice = fxi_top_number(b->span, "choice");
    return (a_choice > b_choice) - (a_choice < b_choice);
}

// ---- the list ----------------------------------------------------------------------------------

// A bar of cells for the positions of a span, groups one after the other: the first pass over the
// segments counts positions, the second those of each state in each cell. A cell shows the state
// that most of its positions have.
static bool draw_bar(fxi_screen *s, int row, const fxi_top_state *now, const fxi_json *segments)
{
    const size_t n_segment = fxi_json_array_size(segments);
    const uint64_t n_col = s->n_col > BAR_COL ? (uint64_t)(s->n_col - BAR_COL) : 0;
    uint64_t n_position = 0, n_cell = 0;
    uint32_t(*count)[FX_N_CHUNK_STATE] = NULL;
    for (int pass = 0; pass < 2; pass++) {
        uint64_t base = 0, end = 0, last_group = 0;
        for (size_t i = 0; i < n_segment; i++) {
            uint64_t v[4] = {0};
            (void)fxi_top_row(fxi_json_at(segments, i), v, 4);
            const uint64_t group = v[0], at = v[1], chunk = v[2], n = v[3];
            if (i && group != last_group) {
                base += end;
                end = 0;
            }
            last_group = group;
            if (at + n > end) end = at + n;
            unsigned state = 0;
            for (uint64_t k = 0, n_alike = 0; count && k < n; k++, n_alike--) {
                if (!n_alike) state = fxi_top_chunk_state(now, chunk + k, &n_alike);
                count[(base + at + k) * n_cell / n_position][state]++;
            }
        }
        if (count) break;
        n_position = base + end;
        n_cell = n_position < n_col ? n_position : n_col;
        if (!n_cell) return true;
        count = calloc(n_cell, sizeof *count);
        if (!count) return false;
    }
    for (uint64_t i = 0; i < n_cell; i++) {
        int state = FX_CHUNK_absent;
        for (int k = 1; k < FX_N_CHUNK_STATE; k++)
            if (count[i][k] > count[i][state] || (count[i][k] && state == FX_CHUNK_absent))
                state = k;
        put_text(s, row, BAR_COL + (int)i, chunk_style[state], "%c", chunk_letters[state]);
    }
    free(count);
    return true;
}

static bool draw_row(fxi_screen *s, int row, const fxi_top_state *now, const list_row *l)
{
    static const char *const states[FX_N_REQUEST_STATE + 1] = {
        FX_REQUEST_STATES(TEXT_OF)[FX_N_REQUEST_STATE] = "?"};
    const fxi_json *r = l->request;
    const unsigned state = request_state(r);
    const unsigned long long id = l->id, choice = fxi_top_number(l->span, "choice");
    char text[48];
    if (l->is_first && fxi_top_number(r, "sequences") < 2)
        snprintf(text, sizeof text, "%llu", id);
    else
        snprintf(text, sizeof text, "%llu.%llu", id, choice);
    put_text(s, row, 0, l->is_first ? FXI_STYLE_BOLD : FXI_STYLE_DIM, "%s", text);
    if (l->is_first && r) {
        static const char *const figures[] = {"prompt", "cached", "generated", "max"};
        const double age = age_s(now, r);
        const fxi_style style = state == FX_REQUEST_running ? FXI_STYLE_PLAIN : FXI_STYLE_DIM;
        const unsigned long long place = fxi_top_number(r, "place");
        if (age < 100)
            snprintf(text, sizeof text, "%.0fs", age);
        else if (age < 6000)
            snprintf(text, sizeof text, "%.0fm", age / 60);
        else
            snprintf(text, sizeof text, "%.0fh", fmin(age / 3600, 99999));
        int col = put_text(s, row, STATE_COL, style, "%-8.8s", states[state]);
        for (size_t i = 0; i < sizeof figures / sizeof *figures; i++)
            col = put_text(s, row, col, style, "%7llu",
                           (unsigned long long)fxi_top_number(r, figures[i]));
        put_text(s, row, col, style, "%7.1f%5s", l->tok_s, text);
        if (place) put_text(s, row, BAR_COL, FXI_STYLE_DIM, "place %llu in the queue", place);
    }
    return draw_bar(s, row, now, fxi_json_get(l->span, "segments"));
}

static bool draw_list(fxi_screen *s, int top, int end, const fxi_top_state *now,
                      const fxi_top_view *v)
{
    const size_t n = fxi_top_rows(now);
    bool ok = true;
    list_row *rows = calloc(n + 1, sizeof *rows);
    if (!rows) return false;
    pair_rows(now, v->sort, rows);
    qsort(rows, n, sizeof *rows, order_rows);
    paint_row(s, top, FXI_STYLE_BAR);
    put_text(s, top, 0, FXI_STYLE_BAR, "%-9s%-8s%7s%7s%7s%7s%7s%5s %s", "REQUEST", "STATE",
             "PROMPT", "CACHED", "OUTPUT", "MAX", "TOK/S", "AGE", "CHUNKS");
    for (size_t i = v->first; ok && i < n && ++top < end; i++)
        ok = draw_row(s, top, now, &rows[v->is_reversed ? n - 1 - i : i]);
    free(rows);
    return ok;
}

// ---- the screen as a whole ----------------------------------------------------------------------

static int graph_rows(int n_row, bool has_no_keys)
{
    return n_row >= GRAPH_FROM_ROWS || has_no_keys ? GRAPH_ROWS : 0;
}

size_t fxi_top_rows_shown(int n_row)
{
    const int n = n_row - HEAD_ROWS - graph_rows(n_row, false) - TITLE_ROWS - KEY_ROWS;
    return n > 0 ? (size_t)n : 0;
}

int fxi_top_height(const fxi_top_state *now)
{
    const size_t n = fxi_top_rows(now);
    const int n_list = n < 100000 ? (int)n : 100000;
    return HEAD_ROWS + GRAPH_ROWS + TITLE_ROWS + n_list;
}

// ---- the head ----------------------------------------------------------------------------------

static void draw_title(fxi_screen *s, const fxi_top_state *now, const fxi_top_view *v)
{
    const char *going = now->number ? "live" : "connecting";
    const char *state = v->trouble ? "NO CONNECTION" : v->is_paused ? "PAUSED" : going;
    const fxi_style style = v->trouble ? FXI_STYLE_WARN : FXI_STYLE_BAR;
    paint_row(s, 0, FXI_STYLE_BAR);
    const char *version = fxi_json_text(fxi_top_get(now, "version"));
    const char *manager = fxi_json_text(fxi_top_get(now, "manager"));
    put_text(s, 0, 0, FXI_STYLE_BAR, "flexinfer %s  %s  %s", version ? version : "", v->url,
             manager ? manager : "");
    put_text(s, 0, s->n_col - (int)strlen(state) - 2, style, "  %s", state);
}

// Memory takes 92 columns at most. 80 always have all but the last figure, which the chunks' line
// has as a count.
static void draw_figures(fxi_screen *s, const fxi_top_state *now)
{
    static const char *const labels[] = {"", "sequences", "tokens/s", "memory", "chunks"};
    static const char *const states[] = {FX_CHUNK_STATES(TEXT_OF)};
    static const char *const times[] = {[FXI_TOP_queued] = "queue",
                                        [FXI_TOP_first_token] = "first token",
                                        [FXI_TOP_between] = "between"};
    const fx_stats *st = &now->stats;
    const struct {
        const char *name;
        uint64_t bytes;
    } parts[] = {{"mapped", st->kv_mapped_bytes},
                 {"budget", st->kv_budget_bytes},
                 {"live", st->kv_live_bytes},
                 {"shared", st->kv_shared_bytes},
                 {"cached", st->kv_cached_bytes}};
    char size[FXI_SIZE_TEXT_BYTES];
    double mean_s;
    for (int row = 1; row < HEAD_ROWS; row++)
        put_text(s, row, 0, FXI_STYLE_BOLD, "%s", labels[row]);
    put_text(s, 1, LABEL_COLS, FXI_STYLE_PLAIN,
             "%llu running  %llu waiting (%llu prompt tokens)  %llu requests  %s in the swap",
             (unsigned long long)st->n_running, (unsigned long long)st->n_waiting,
             (unsigned long long)st->n_waiting_tok,
             (unsigned long long)fxi_top_number(fxi_top_get(now, "counts"), "requests"),
             fxi_cli_size(st->kv_swapped_bytes, size));
    int col =
        put_text(s, 2, LABEL_COLS, FXI_STYLE_PLAIN, "%.1f generated  %.1f prompt  %.1f steps/s",
                 now->rate.generated_tok, now->rate.prompt_tok, now->rate.step);
    for (int i = 0; i < FXI_TOP_N_TIME; i++)
        if (fxi_top_time(now, i, &mean_s))
            col = put_text(s, 2, col, FXI_STYLE_PLAIN, "  %s %.4f s", times[i], mean_s);
    col = LABEL_COLS;
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        col = put_text(s, 3, col, FXI_STYLE_PLAIN, "%s %s  ", fxi_cli_size(parts[i].bytes, size),
                       parts[i].name);
    col = LABEL_COLS;
    for (int i = FX_CHUNK_spare; i < FX_N_CHUNK_STATE; i++) {
        col = put_text(s, 4, col, chunk_style[i], "%c", chunk_letters[i]);
        col = put_text(s, 4, col, FXI_STYLE_PLAIN, " %llu %s  ",
                       (unsigned long long)now->n_chunk[i], states[i]);
    }
}

static uint64_t sample_bytes(const fxi_top_sample *p, int line)
{
    return line == 0 ? p->mapped_bytes : line == 1 ? p->live_bytes : p->shared_bytes;
}

// A line for each kind of memory: the last samples, each against the largest of all lines.
static void draw_graph(fxi_screen *s, int row, const fxi_top_state *now, const fxi_top_view *v)
{
    static const char *const names[GRAPH_ROWS] = {"mapped", "live", "shared"};
    static const char *const blocks[] = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                         "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char *const marks[] = {" ", "_", ".", ":", "-", "=", "+", "*", "#"};
    const uint64_t n_col = s->n_col > LABEL_COLS ? (uint64_t)(s->n_col - LABEL_COLS) : 0;
    const uint64_t n_kept = now->n_sample < FXI_TOP_HISTORY ? now->n_sample : FXI_TOP_HISTORY;
    const uint64_t n = n_kept < n_col ? n_kept : n_col;
    uint64_t most = 0;
    for (uint64_t k = now->n_sample - n_kept; k < now->n_sample; k++)
        for (int line = 0; line < GRAPH_ROWS; line++) {
            const uint64_t bytes = sample_bytes(&now->history[k % FXI_TOP_HISTORY], line);
            if (bytes > most) most = bytes;
        }
    for (int line = 0; line < GRAPH_ROWS; line++, row++) {
        put_text(s, row, 0, FXI_STYLE_BOLD, "%s", names[line]);
        for (uint64_t i = 0; i < n; i++) {
            const uint64_t k = now->n_sample - n + i;
            const uint64_t bytes = sample_bytes(&now->history[k % FXI_TOP_HISTORY], line);
            const int level = bytes < most ? 1 + (int)((double)bytes / (double)most * 8) : 8;
            put_glyph(s, row, LABEL_COLS + (int)i, FXI_STYLE_PLAIN,
                      (v->is_utf8 ? blocks : marks)[!bytes      ? 0
                                                    : level < 8 ? level
                                                                : 8]);
        }
    }
}

// ---- keys and help -----------------------------------------------------------------------------

static void draw_keys(fxi_screen *s, const fxi_top_state *now, const fxi_top_view *v)
{
    static const char *const sorts[] = {FXI_TOP_SORTS(TEXT_OF)};
    const int row = s->n_row - 1;
    const size_t n = fxi_top_rows(now), n_shown = fxi_top_rows_shown(s->n_row);
    const size_t last = v->first + n_shown < n ? v->first + n_shown : n;
    const fxi_style style = v->trouble ? FXI_STYLE_WARN : FXI_STYLE_BAR;
    paint_row(s, row, style);
    if (v->trouble) {
        put_text(s, row, 0, style, "no connection: %s; trying again", v->trouble);
        return;
    }
    const int col = put_text(s, row, 0, style, "q quit  p pause  s sort: %s%s  r reverse  ? help",
                             sorts[v->sort], v->is_reversed ? " (reversed)" : "");
    if (n > n_shown) put_text(s, row, col, style, "  %zu-%zu of %zu", v->first + 1, last, n);
}

static void draw_help(fxi_screen *s, int row)
{
    static const char *const lines[] = {
        "Keys",
        "  q          quit",
        "  p, space   pause, and continue",
        "  s          sort by another column",
        "  r          reverse the order",
        "  up, down   scroll; also k and j, page up and page down, home and end",
        "  ?, h       this help, and back",
        "",
        "Chunks: what backs a sequence's positions, from the first token on",
        "  o owned    this sequence alone holds it",
        "  S shared   other sequences or recorded prefixes hold it, too",
        "  c cached   recorded prefixes alone hold it",
        "  . spare    memory kept for the next sequence",
        "  ~ swapped  its rows are in the swap",
        "  - nothing is mapped there",
        "",
        "queue, first token, between: seconds that requests waited, until their",
        "first token came, and from one token to the next, lately",
    };
    for (size_t i = 0; i < sizeof lines / sizeof *lines && row < s->n_row - 1; i++, row++)
        put_text(s, row, 0, FXI_STYLE_PLAIN, "%s", lines[i]);
}

// ---- the whole ---------------------------------------------------------------------------------

bool fxi_top_draw(fxi_screen *s, int n_row, int n_col, const fxi_top_state *now,
                  const fxi_top_view *v)
{
    const int n_graph = graph_rows(n_row, v->has_no_keys);
    bool ok = true;
    *s = (fxi_screen){n_row, n_col, calloc((size_t)n_row * (size_t)n_col + 1, sizeof(fxi_cell))};
    if (!s->cell) return false;
    for (int i = 0; i < n_row * n_col; i++) s->cell[i].text[0] = ' ';
    draw_title(s, now, v);
    if (v->shows_help) {
        draw_help(s, 2);
    } else if (now->number || now->n_sample) {
        draw_figures(s, now);
        if (n_graph) draw_graph(s, HEAD_ROWS, now, v);
        ok = draw_list(s, HEAD_ROWS + n_graph, s->n_row - (v->has_no_keys ? 0 : KEY_ROWS), now, v);
    } else if (!v->trouble) {
        put_text(s, 2, 0, FXI_STYLE_PLAIN, "waiting for the server");
    }
    if (!v->has_no_keys) draw_keys(s, now, v);
    return ok;
}
