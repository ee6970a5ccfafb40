// top_view.c - the figures above the list, the graph, the keys.
#include "cli/top/top_view.h"

#include <stdio.h>
#include <string.h>

#include "cli/terminal/terminal.h" // defines: fxi_cli_size

enum { HEAD_ROWS = 5, GRAPH_ROWS = 3, TITLE_ROWS = 1, KEY_ROWS = 1, LABEL_COLS = 11 };
enum { GRAPH_FROM_ROWS = 14 }; // smaller screens have no graph

#define TEXT_OF(name) #name,

static int graph_rows(int n_row, bool has_no_keys)
{
    return n_row >= GRAPH_FROM_ROWS || has_no_keys ? GRAPH_ROWS : 0;
}

size_t fxi_top_rows_shown(int n_row)
{
    const int n = n_row - HEAD_ROWS - graph_rows(n_row, false) - TITLE_ROWS - KEY_ROWS;
    return n > 0 ? (size_t)n : 0;
}

int fxi_top_height(const fxi_watched *w)
{
    const size_t n = fxi_top_rows(w);
    const int n_list = n < 100000 ? (int)n : 100000;
    return HEAD_ROWS + GRAPH_ROWS + TITLE_ROWS + n_list;
}

// ---- the head ----------------------------------------------------------------------------------

static void draw_title(fxi_screen *s, const fxi_watched *w, const fxi_top_view *v)
{
    const char *going = w->number ? "live" : "connecting";
    const char *state = v->trouble ? "NO CONNECTION" : v->is_paused ? "PAUSED" : going;
    const fxi_style style = v->trouble ? FXI_STYLE_WARN : FXI_STYLE_BAR;
    fxi_screen_paint(s, 0, FXI_STYLE_BAR);
    fxi_screen_put(s, 0, 0, FXI_STYLE_BAR, "flexinfer %s  %s  %s", w->version, v->url, w->manager);
    fxi_screen_put(s, 0, s->n_col - (int)strlen(state) - 2, style, "  %s", state);
}

static void draw_sequences(fxi_screen *s, int row, const fxi_watched *w)
{
    const fx_stats *st = &w->stats;
    char swapped[FXI_SIZE_TEXT_BYTES];
    int col = fxi_screen_put(s, row, 0, FXI_STYLE_BOLD, "sequences  ");
    col = fxi_screen_put(s, row, col, FXI_STYLE_PLAIN, "%llu running  %llu waiting",
                         (unsigned long long)st->n_running, (unsigned long long)st->n_waiting);
    fxi_screen_put(s, row, col, FXI_STYLE_PLAIN,
                   " (%llu prompt tokens)  %zu requests  %s in the swap",
                   (unsigned long long)st->n_waiting_tok, w->n_request,
                   fxi_cli_size(st->kv_swapped_bytes, swapped));
}

static void draw_rates(fxi_screen *s, int row, const fxi_watched *w)
{
    static const char *const names[] = {[FXI_TOP_queued] = "queue",
                                        [FXI_TOP_first_token] = "first token",
                                        [FXI_TOP_between] = "between"};
    double mean_s;
    int col = fxi_screen_put(s, row, 0, FXI_STYLE_BOLD, "tokens/s   ");
    col = fxi_screen_put(s, row, col, FXI_STYLE_PLAIN, "%.1f generated  %.1f prompt  %.1f steps/s",
                         w->rate.generated_tok, w->rate.prompt_tok, w->rate.step);
    for (int i = 0; i < FXI_TOP_N_TIME; i++)
        if (fxi_watched_time(w, i, &mean_s))
            col = fxi_screen_put(s, row, col, FXI_STYLE_PLAIN, "  %s %.4f s", names[i], mean_s);
}

// 92 columns at most. 80 always have all but the last, which the chunks' line has as a count.
static void draw_memory(fxi_screen *s, int row, const fxi_watched *w)
{
    const struct {
        const char *name;
        uint64_t bytes;
    } parts[] = {{"mapped", w->stats.kv_mapped_bytes},
                 {"budget", w->stats.kv_budget_bytes},
                 {"live", w->stats.kv_live_bytes},
                 {"shared", w->stats.kv_shared_bytes},
                 {"cached", w->stats.kv_cached_bytes}};
    char size[FXI_SIZE_TEXT_BYTES];
    int col = fxi_screen_put(s, row, 0, FXI_STYLE_BOLD, "memory     ");
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        col = fxi_screen_put(s, row, col, FXI_STYLE_PLAIN, "%s %s  ",
                             fxi_cli_size(parts[i].bytes, size), parts[i].name);
}

static void draw_chunks(fxi_screen *s, int row, const fxi_watched *w)
{
    static const char *const names[] = {FXI_TOP_CHUNKS(TEXT_OF)};
    int col = fxi_screen_put(s, row, 0, FXI_STYLE_BOLD, "chunks     ");
    for (int i = FXI_TOP_spare; i < FXI_TOP_N_CHUNK; i++) {
        col = fxi_screen_put(s, row, col, fxi_top_chunk_style(i), "%c", fxi_top_letters[i]);
        col = fxi_screen_put(s, row, col, FXI_STYLE_PLAIN, " %llu %s  ",
                             (unsigned long long)w->n_chunk[i], names[i]);
    }
}

// ---- the graph ---------------------------------------------------------------------------------

static uint64_t sample_bytes(const fxi_top_sample *p, int line)
{
    return line == 0 ? p->mapped_bytes : line == 1 ? p->live_bytes : p->shared_bytes;
}

// One line of the graph: the last samples, each against the largest of all lines.
static void draw_line(fxi_screen *s, int row, const fxi_watched *w, int line, uint64_t most,
                      const fxi_top_view *v)
{
    static const char *const names[] = {"mapped", "live", "shared"};
    static const char *const blocks[] = {" ",      "\u2581", "\u2582", "\u2583", "\u2584",
                                         "\u2585", "\u2586", "\u2587", "\u2588"};
    static const char *const marks[] = {" ", "_", ".", ":", "-", "=", "+", "*", "#"};
    const uint64_t n_col = s->n_col > LABEL_COLS ? (uint64_t)(s->n_col - LABEL_COLS) : 0;
    const uint64_t n_kept = w->n_sample < FXI_TOP_HISTORY ? w->n_sample : FXI_TOP_HISTORY;
    const uint64_t n = n_kept < n_col ? n_kept : n_col;
    fxi_screen_put(s, row, 0, FXI_STYLE_BOLD, "%s", names[line]);
    for (uint64_t i = 0; i < n; i++) {
        const uint64_t k = w->n_sample - n + i;
        const uint64_t bytes = sample_bytes(&w->history[k % FXI_TOP_HISTORY], line);
        const double part = most ? (double)bytes / (double)most : 0;
        const int level = !bytes ? 0 : part >= 1 ? 8 : 1 + (int)(part * 8);
        fxi_screen_glyph(s, row, LABEL_COLS + (int)i, FXI_STYLE_PLAIN,
                         (v->is_utf8 ? blocks : marks)[level < 8 ? level : 8]);
    }
}

static void draw_graph(fxi_screen *s, int row, const fxi_watched *w, const fxi_top_view *v)
{
    const uint64_t n_kept = w->n_sample < FXI_TOP_HISTORY ? w->n_sample : FXI_TOP_HISTORY;
    uint64_t most = 0;
    for (uint64_t k = w->n_sample - n_kept; k < w->n_sample; k++)
        for (int line = 0; line < GRAPH_ROWS; line++) {
            const uint64_t bytes = sample_bytes(&w->history[k % FXI_TOP_HISTORY], line);
            if (bytes > most) most = bytes;
        }
    for (int line = 0; line < GRAPH_ROWS; line++) draw_line(s, row + line, w, line, most, v);
}

// ---- keys and help -----------------------------------------------------------------------------

static void draw_keys(fxi_screen *s, const fxi_watched *w, const fxi_top_view *v)
{
    static const char *const sorts[] = {FXI_TOP_SORTS(TEXT_OF)};
    const int row = s->n_row - 1;
    const size_t n = fxi_top_rows(w), n_shown = fxi_top_rows_shown(s->n_row);
    const size_t last = v->first + n_shown < n ? v->first + n_shown : n;
    fxi_screen_paint(s, row, FXI_STYLE_BAR);
    int col = fxi_screen_put(s, row, 0, FXI_STYLE_BAR, "q quit  p pause  s sort: %s%s  r reverse",
                             sorts[v->sort], v->is_reversed ? " (reversed)" : "");
    col = fxi_screen_put(s, row, col, FXI_STYLE_BAR, "  ? help");
    if (n > n_shown)
        fxi_screen_put(s, row, col, FXI_STYLE_BAR, "  %zu-%zu of %zu", v->first + 1, last, n);
}

static void draw_trouble(fxi_screen *s, const fxi_top_view *v)
{
    const int row = s->n_row - 1;
    fxi_screen_paint(s, row, FXI_STYLE_WARN);
    fxi_screen_put(s, row, 0, FXI_STYLE_WARN, "no connection: %s; trying again", v->trouble);
}

static void draw_help(fxi_screen *s, int row)
{
    static const char *const lines[] = {
        "Keys",
        "  q          quit",
        "  p, space   pause, and go on",
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
        fxi_screen_put(s, row, 0, FXI_STYLE_PLAIN, "%s", lines[i]);
}

// ---- the whole ---------------------------------------------------------------------------------

static void draw_head(fxi_screen *s, const fxi_watched *w, const fxi_top_view *v)
{
    draw_sequences(s, 1, w);
    draw_rates(s, 2, w);
    draw_memory(s, 3, w);
    draw_chunks(s, 4, w);
    if (graph_rows(s->n_row, v->has_no_keys)) draw_graph(s, HEAD_ROWS, w, v);
}

bool fxi_top_draw(fxi_screen *s, const fxi_watched *w, const fxi_top_view *v)
{
    const int title = HEAD_ROWS + graph_rows(s->n_row, v->has_no_keys);
    const int end = s->n_row - (v->has_no_keys ? 0 : KEY_ROWS);
    bool ok = true;
    draw_title(s, w, v);
    if (v->shows_help) {
        draw_help(s, 2);
    } else if (w->number || w->n_sample) {
        draw_head(s, w, v);
        ok = fxi_top_draw_list(s, title, end, w, v);
    } else if (!v->trouble) {
        fxi_screen_put(s, 2, 0, FXI_STYLE_PLAIN, "waiting for the server");
    }
    if (v->has_no_keys) return ok;
    if (v->trouble)
        draw_trouble(s, v);
    else
        draw_keys(s, w, v);
    return ok;
}
