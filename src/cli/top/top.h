// top.h - `flexinfer top`: what it knows of a server becomes a screen.
//
//   snapshots, /metrics -> top_state.c -> top_view.c -> cells -> top_terminal.c, or text
//
// Nothing that the server says is trusted: a snapshot that is not valid is an error.
#ifndef FXI_CLI_TOP_H
#define FXI_CLI_TOP_H

#include <stdbool.h>

#include "base/json/json.h"
#include "base/text/buf.h"
#include "flexinfer/snapshot.h"

// ---- top_state.c: the last snapshot, figures of /metrics, rates, and memory over time -----------

enum {
    FXI_TOP_HISTORY = 512,       // samples of memory
    FXI_TOP_PAGES = 32,          // figures of /metrics
    FXI_TOP_MAX_CHUNK = 1 << 24, // in a run, and positions of a span
};

typedef struct fxi_top_request { // what a request generates
    uint64_t id;
    double tok_s;                 // smoothed
    uint64_t rated_us, rated_tok; // when that was last measured, and what it had then
} fxi_top_request;

typedef struct fxi_top_sample {
    uint64_t at_us, mapped_bytes, live_bytes, shared_bytes;
} fxi_top_sample;

// X(name, metric): times that /metrics has as a sum and a count.
#define FXI_TOP_TIMES(X)                          \
    X(first_token, "time_to_first_token_seconds") \
    X(queued, "request_queue_time_seconds")       \
    X(between, "inter_token_latency_seconds")
#define FXI_NAME_TOP_TIME(name, metric) FXI_TOP_##name,
enum { FXI_TOP_TIMES(FXI_NAME_TOP_TIME) FXI_TOP_N_TIME };
#undef FXI_NAME_TOP_TIME

typedef struct fxi_top_page { // of /metrics
    double sum_s[FXI_TOP_N_TIME], count[FXI_TOP_N_TIME];
} fxi_top_page;

typedef struct fxi_top_rates { // per second, over the last seconds
    double generated_tok, prompt_tok, step;
} fxi_top_rates;

typedef struct fxi_top_state { // all zero: nothing is known
    fxi_json_doc doc;          // the snapshot, with what is read of it checked
    uint64_t number, at_us;    // of the snapshot; number 0: there is none
    fx_stats stats;
    uint64_t n_chunk[FX_N_CHUNK_STATE];
    fxi_top_request *request; // [n_request] as in the snapshot, by id
    size_t n_request;
    fxi_top_rates rate;
    fx_stats rated;                          // the figures that rates are measured from,
    uint64_t rated_us;                       // taken then
    uint64_t n_rate;                         // times that rates were measured
    fxi_top_sample history[FXI_TOP_HISTORY]; // sample k lies in k % FXI_TOP_HISTORY
    uint64_t n_sample;
    fxi_top_page page[FXI_TOP_PAGES]; // page k lies in k % FXI_TOP_PAGES
    uint64_t n_page;
} fxi_top_state;

// Takes in the JSON of a snapshot, text[0..n). Errors: FX_EFORMAT, FX_ENOMEM; then *s is as it was.
fx_status fxi_top_take_snapshot(fxi_top_state *s, const char *text, size_t n, fx_error *err);
// Takes in a page of /metrics. What is not there counts as 0.
void fxi_top_take_metrics(fxi_top_state *s, const char *text, size_t n);
void fxi_top_free(fxi_top_state *s); // all zero again

// A member of the snapshot; a whole number of an object, 0 where there is none; and whether a list
// is n whole numbers, which go to v.
const fxi_json *fxi_top_get(const fxi_top_state *s, const char *key);
uint64_t fxi_top_number(const fxi_json *o, const char *key);
bool fxi_top_row(const fxi_json *list, uint64_t *v, size_t n);
// The state of chunk `name`, FX_CHUNK_*, and how many from it on have the same for sure.
unsigned fxi_top_chunk_state(const fxi_top_state *s, uint64_t name, uint64_t *n);
// The mean of a time (FXI_TOP_*) over what happened during the last pages; over everything where
// nothing did. False: there is nothing to tell.
bool fxi_top_time(const fxi_top_state *s, int time, double *mean_s);

// ---- top_view.c: a screen as data, and what is on it --------------------------------------------
//
//     flexinfer 0.1.0  http://127.0.0.1:8080  vtensor                               live
//     sequences  2 running  0 waiting (0 prompt tokens)  0 bytes in the swap
//     tokens/s   120.0 generated  0.0 prompt  60.0 steps/s  first token 0.1200 s  queue 0.0010 s
//     memory     12.0 MiB mapped  8.0 MiB live  1.0 MiB shared  2.0 MiB cached  of 1.0 GiB
//     chunks     . 3 spare  o 20 owned  S 4 shared  c 50 cached  ~ 0 swapped
//     mapped     _.-=*#          over the last seconds
//     live       _.-=*#
//     shared     _.-=*#
//     REQUEST  STATE    PROMPT CACHED OUTPUT    MAX  TOK/S  AGE CHUNKS
//     12       running    1024    512     80    256   60.0   2s SSSSoooo
//
// Every state has a letter or a word, so that colours may be missing.

typedef enum fxi_style {
    FXI_STYLE_PLAIN,
    FXI_STYLE_DIM,
    FXI_STYLE_BOLD,
    FXI_STYLE_BAR,  // lines at the edges
    FXI_STYLE_WARN, // what is wrong
    // States of chunks, which have letters, too.
    FXI_STYLE_SPARE,
    FXI_STYLE_OWNED,
    FXI_STYLE_SHARED,
    FXI_STYLE_CACHED,
    FXI_STYLE_SWAPPED,
    FXI_N_STYLE
} fxi_style;

typedef struct fxi_cell {
    char text[4]; // one character of one column, UTF-8
    unsigned char style;
} fxi_cell;

typedef struct fxi_screen { // all zero: none
    int n_row, n_col;
    fxi_cell *cell; // [n_row][n_col]
} fxi_screen;

void fxi_screen_free(fxi_screen *s);
// Appends the lines as plain text, without blanks at their ends. False: no memory.
bool fxi_screen_text(const fxi_screen *s, fxi_buf *out);

// X(name): how the list is sorted.
#define FXI_TOP_SORTS(X)        X(id) X(age) X(output) X(rate) X(prompt) X(state)
#define FXI_NAME_TOP_SORT(name) FXI_TOP_BY_##name,
enum { FXI_TOP_SORTS(FXI_NAME_TOP_SORT) FXI_TOP_N_SORT };
#undef FXI_NAME_TOP_SORT

typedef struct fxi_top_view {
    const char *url;
    const char *trouble; // why there is no connection; NULL: there is one
    bool is_utf8;        // the graph may have characters beyond ASCII
    bool is_paused, shows_help, is_reversed;
    bool has_no_keys; // nobody can press one: their line is left out, and the screen is as high as
                      // fxi_top_height says
    int sort;         // FXI_TOP_BY_*
    size_t first;     // the list is shown from this row on
} fxi_top_view;

// Draws a screen of this size. False: no memory. Free it with fxi_screen_free in any case.
bool fxi_top_draw(fxi_screen *s, int n_row, int n_col, const fxi_top_state *now,
                  const fxi_top_view *v);

// Rows of the whole list, and how many of them such a screen shows.
size_t fxi_top_rows(const fxi_top_state *now);
size_t fxi_top_rows_shown(int n_row);
// Rows of a screen that shows all of the list, and no keys.
int fxi_top_height(const fxi_top_state *now);

// ---- top_terminal.c, if the program was built with ncurses (FX_NCURSES) -------------------------

// Takes over the terminal of stdin and stdout until fxi_curses_close. One at a time. Colours only
// where the terminal has some and NO_COLOR is not set. *is_utf8: what it can show. Error: FX_EIO:
// no terminal that ncurses knows (TERM).
fx_status fxi_curses_open(bool *is_utf8, fx_error *err);
void fxi_curses_close(void);
// Draws; brings v->first back to where there are rows. False: no memory.
bool fxi_curses_draw(const fxi_top_state *now, fxi_top_view *v);
// Has the keys that wait change the view. False: the user has seen enough.
bool fxi_curses_take_keys(fxi_top_view *v);

#endif
