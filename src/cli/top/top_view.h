// top_view.h - what `flexinfer top` shows: a server's state becomes a screen. Nothing else goes in,
// and nothing else comes out.
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
#ifndef FXI_CLI_TOP_VIEW_H
#define FXI_CLI_TOP_VIEW_H

#include "cli/top/screen.h"
#include "cli/top/top_state.h"

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

// Draws all of the screen. False: no memory.
bool fxi_top_draw(fxi_screen *s, const fxi_top_state *now, const fxi_top_view *v);

// Rows of the whole list, and how many of them such a screen shows.
size_t fxi_top_rows(const fxi_top_state *now);
size_t fxi_top_rows_shown(int n_row);
// Rows of a screen that shows all of the list, and no keys.
int fxi_top_height(const fxi_top_state *now);

#endif
