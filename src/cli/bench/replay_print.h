// replay_print.h - figures of `flexinfer bench replay` and `bench serve`, as a table and as CSV.
#ifndef FXI_CLI_REPLAY_PRINT_H
#define FXI_CLI_REPLAY_PRINT_H

#include <stdio.h>

#include "replay/arrival.h"
#include "replay/notes.h"

// What a row of figures is about.
typedef struct fxi_replay_setting {
    const char *trace; // path
    const char *manager, *model, *device;
    size_t page_bytes;
    uint64_t budget_bytes; // of KV memory; 0: by default
    int max_seq;           // 0: by default
    int block_tok;         // 0: the manager's choice
    bool swaps;
    const fxi_load *load;
} fxi_replay_setting;

void fxi_replay_print_head(const fxi_replay_setting *s);
void fxi_replay_print_row(const char *manager, const fxi_replay_figures *f);
void fxi_replay_print_csv_head(void);
void fxi_replay_print_csv_row(const fxi_replay_setting *s, const fxi_replay_figures *f);
// Memory and load over time. The head comes once.
void fxi_replay_print_timeline_head(FILE *to);
void fxi_replay_print_timeline(FILE *to, const char *manager, const fxi_replay_figures *f);

#endif
