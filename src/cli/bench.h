// bench.h - `flexinfer bench`: what was measured, and the limit each figure is compared with.
#ifndef FXI_CLI_BENCH_H
#define FXI_CLI_BENCH_H

#include "cli/cli.h" // defines: fxi_cli_options, fxi_opt_ints

// One phase at one batch and length. Medians over the repeats; rates are of all sequences together.
typedef struct fxi_bench_row {
    int batch;
    int n_tok;       // prompt: tokens of each; decode: generated after each
    int context;     // decode: tokens in each cache at the start, at least; prompt: 0
    double mean_ctx; // decode: mean tokens in a sequence's cache over the phase
    double tok_s;
    double limit_tok_s; // the most that the machine could do
    bool by_memory;     // memory sets that limit, not arithmetic
    // The same with int8_scaled_gop_s as the peak of block types.
    double scaled_limit_tok_s;
} fxi_bench_row;

#define FXI_BENCH_MAX_ROWS (FXI_OPT_MAX_INTS * FXI_OPT_MAX_INTS)

typedef struct fxi_bench {
    const fxi_cli_options *o;
    fxi_opt_ints batch, prompt, context; // defaults filled in, no repeats
    fx_model_info model;
    fx_machine machine;
    int n_prompt, n_decode; // rows: for each batch, each length
    fxi_bench_row prompt_row[FXI_BENCH_MAX_ROWS], decode_row[FXI_BENCH_MAX_ROWS];
} fxi_bench;

// bench_run.c: fills all rows except their limits. Errors: those of fx_submit, FX_ECLOSED (a signal
// came), FX_ENOSPACE (the KV cache cannot hold a batch), FX_EINTERNAL.
fx_status fxi_bench_run(fxi_bench *b, fx_engine *eng, fx_error *err);

#endif
