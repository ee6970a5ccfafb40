// command.h - the commands' entry functions, and the engine they open.
#ifndef FXI_CLI_COMMAND_H
#define FXI_CLI_COMMAND_H

#include <stdio.h>

#include "cli/cli.h"

// cmd_*.c: `rest` holds the arguments that are not options, as many as the command takes. Each
// returns the program's exit status.
int fxi_cmd_serve(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_run(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_tokenize(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_inspect(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_convert(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_quantize(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_bench(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_top(const fxi_cli_options *o, const fxi_opt_rest *rest);

// cmd_serve.c: the server's options as given here; texts are borrowed, and names of hosts and
// origins point into *o.
fxi_server_options fxi_cli_server_options(const fxi_cli_options *o);
// Where spans go: the option, or what OpenTelemetry's own variables say; NULL: nowhere. *made,
// which the caller frees, holds the text where it had to be put together.
const char *fxi_cli_otlp_endpoint(const fxi_cli_options *o, fxi_buf *made);

// load.c: opens the model that the options name, with a progress bar if it is large and stderr is a
// terminal. Errors: those of fx_engine_open.
fx_status fxi_cli_open(const fxi_cli_options *o, fx_engine **out, fx_error *err);
// The same with these options of the engine, whose on_progress it sets.
fx_status fxi_cli_open_engine(fx_options opt, fx_engine **out, fx_error *err);
// The same for a model that generates texts. FX_EINVAL: it does not.
fx_status fxi_cli_open_generator(const fxi_cli_options *o, fx_engine **out, fx_error *err);
// The engine's options as given here.
fx_options fxi_cli_engine_options(const fxi_cli_options *o);
// Where that engine keeps its swap file.
const char *fxi_cli_swap_dir(const fxi_cli_options *o);

// --trace: opens the file before anything is measured; *out is NULL without a path. Error: FX_EIO.
fx_status fxi_cli_trace_open(const char *path, FILE **out, fx_error *err);
// Writes what the engine did last, as a Chrome trace, and closes the file; NULL is allowed. Without
// an engine nothing is written. Errors: FX_EIO, FX_ENOMEM.
fx_status fxi_cli_trace_write(const char *path, FILE *f, const fx_engine *eng, fx_error *err);

#endif
