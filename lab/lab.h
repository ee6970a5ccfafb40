// lab.h - flexinfer-lab: traces of requests in virtual time, or on a model in real time, for each
// of several KV managers in turn.
#ifndef FXI_LAB_LAB_H
#define FXI_LAB_LAB_H

#include <stdio.h>

#include "cli/command.h"
#include "lab/arrival.h"
#include "lab/notes.h"
#include "lab/simulated_model.h"

typedef struct fxi_lab_options {
    fxi_cli_options cli; // first: a program's options are cast to this
    const char *managers, *geometry, *device;
    const char *calibration, *timeline; // NULL: not given
    float rate_per_s, speed, shrink, sample_s;
    int n_choice, beam_width, prefix_tok, max_row;
    bool no_prefixes;
    uint64_t page_bytes;
} fxi_lab_options;

// cmd_trace.c: as the commands of cli.h; `o` is that of an fxi_lab_options.
int fxi_lab_replay(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_lab_serve(const fxi_cli_options *o, const fxi_opt_rest *rest);

// ---- calibration.c: this machine and a model as what a replay simulates, from what `flexinfer
// bench --json` measured

typedef struct fxi_calibration {
    fxi_geometry geometry; // the model's
    fxi_simulated_device
        device;     // as fast as the measured prompts and decodes; its memory is not known
    char name[128]; // of the model
} fxi_calibration;

// `out` must not be moved: its geometry's name lies in it. Errors: FX_EIO, FX_EFORMAT (not what
// bench --json writes, or a run without a prompt or without a batch of 1), FX_ENOMEM.
fx_status fxi_calibration_read(const char *path, fxi_calibration *out, fx_error *err);

// ---- replay_print.c: figures as a table and as CSV ----------------------------------------------

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
