// command.h - the commands' entry functions, and the engine they open.
#ifndef FXI_CLI_COMMAND_H
#define FXI_CLI_COMMAND_H

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

// load.c: opens the model that the options name, with a progress bar if it is large and stderr is a
// terminal. Errors: those of fx_engine_open.
fx_status fxi_cli_open(const fxi_cli_options *o, fx_engine **out, fx_error *err);
// The same for a model that generates texts. FX_EINVAL: it does not.
fx_status fxi_cli_open_generator(const fxi_cli_options *o, fx_engine **out, fx_error *err);
// Where that engine keeps its swap file.
const char *fxi_cli_swap_dir(const fxi_cli_options *o);

#endif
