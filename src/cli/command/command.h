// command.h - the commands' entry functions, and the engine they open.
#ifndef FXI_CLI_COMMAND_H
#define FXI_CLI_COMMAND_H

#include "cli/cli.h"
#include "server/server.h"

// cmd_*.c: `rest` holds the arguments that are not options, as many as the command takes. Each
// returns the program's exit status.
int fxi_cmd_serve(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_run(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_tokenize(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_inspect(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_convert(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_quantize(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_bench(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_figures(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_serve_trace(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_top(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_replay(const fxi_cli_options *o, const fxi_opt_rest *rest);

// serve_say.c: what `serve` says besides its requests. As text these are lines without a time, for
// a person who starts the program; with --log-format json each is an object like the others.
typedef struct fxi_say {
    bool is_json;
    void (*line)(void *ud, const char *line); // gets it without a newline
    void *ud;
} fxi_say;

// `level` is an fxi_level; `event` is a word, `text` the line as a person reads it.
void fxi_say_event(const fxi_say *say, int level, const char *event, const char *text);
void fxi_say_start(const fxi_say *say, const fx_engine *eng, const fxi_cli_options *o);
// The address, and warnings where others can reach it or read its keys.
void fxi_say_address(const fxi_say *say, const fxi_server_options *opt, fxi_server *srv);

// serve_check.c: `serve --check-config`. Returns the exit status: 0, or 1 after one line that says
// what is wrong.
int fxi_serve_check(const fxi_cli_options *o, const fxi_opt_rest *rest,
                    const fxi_server_options *server);

// serve_options.c: the server's options as given here; texts are borrowed, and names of hosts and
// origins point into *o.
fxi_server_options fxi_cli_server_options(const fxi_cli_options *o);
// Where spans go: the option, or what OpenTelemetry's own variables say; NULL: nowhere. *made,
// which the caller frees, holds the text where it had to be put together.
const char *fxi_cli_otlp_endpoint(const fxi_cli_options *o, fxi_buf *made);

// load.c: opens the model that the options name, with a progress bar if it is large and stderr is a
// terminal. Errors: those of fx_engine_open.
fx_status fxi_cli_open(const fxi_cli_options *o, fx_engine **out, fx_error *err);
// The same for a model that generates texts. FX_EINVAL: it does not.
fx_status fxi_cli_open_generator(const fxi_cli_options *o, fx_engine **out, fx_error *err);
// The engine's options as given here.
fx_options fxi_cli_engine_options(const fxi_cli_options *o);
// Where that engine keeps its swap file.
const char *fxi_cli_swap_dir(const fxi_cli_options *o);

#endif
