// replay_print.h - the figures of `flexinfer bench replay`, as a table and as CSV.
#ifndef FXI_CLI_REPLAY_PRINT_H
#define FXI_CLI_REPLAY_PRINT_H

#include <stdio.h>

#include "replay/replay.h"

void fxi_replay_print_head(const fxi_replay_options *o, const char *trace);
void fxi_replay_print_row(const char *manager, const fxi_replay_figures *f);
void fxi_replay_print_csv_head(void);
void fxi_replay_print_csv_row(const fxi_replay_options *o, const char *trace,
                              const fxi_replay_figures *f);
// Memory and load over time. The head comes once.
void fxi_replay_print_timeline_head(FILE *to);
void fxi_replay_print_timeline(FILE *to, const char *manager, const fxi_replay_figures *f);

#endif
