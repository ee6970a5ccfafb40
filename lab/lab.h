// lab.h - flexinfer-lab: traces of requests in virtual time, or on a model in real time, for each
// of several KV managers in turn.
#ifndef FXI_LAB_LAB_H
#define FXI_LAB_LAB_H

#include "cli/command.h"

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

#endif
