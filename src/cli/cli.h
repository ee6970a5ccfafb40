// cli.h - the tables of a program: its commands, and the options of all commands; the entry
// functions of flexinfer's, and the engine that they open.
//
// One command is one file, cmd_*.c, with one entry function. All options of all commands are fields
// of one struct, filled from one table. Help, the manual page and the completions of shells are
// made from these tables. flexinfer-lab (lab/) is a second program with tables of its own.
#ifndef FXI_CLI_H
#define FXI_CLI_H

#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>

#include "base/option/opt.h"
#include "flexinfer/flexinfer.h"
#include "server/server.h"

// ---- program.c ---------------------------------------------------------------------------------

typedef struct fxi_cli_options fxi_cli_options;

typedef struct fxi_cli_command {
    const char *name;
    unsigned bit;           // FXI_CMD_* of its options' rows
    int min_rest, max_rest; // arguments that are not options,
    bool needs_model;       // after the model, which -m or the first of them names
    const char *synopsis, *about;
    const char *note; // for help, after the options; NULL: none
    // `rest` holds the arguments that are not options, as many as the command takes. Returns the
    // program's exit status. NULL: help.
    int (*call)(const fxi_cli_options *o, const fxi_opt_rest *rest);
} fxi_cli_command;

// A spelling of former versions: the first words of a command line, and what to say about it.
typedef struct fxi_cli_moved {
    const char *word, *next, *now;
} fxi_cli_moved;

typedef struct fxi_cli_program {
    const char *name, *about;
    const fxi_cli_command *command; // [n_command]
    int n_command;
    const fxi_opt_table *options;
    const fxi_cli_moved *moved; // [n_moved]
    int n_moved;
} fxi_cli_program;

// Runs the command that the arguments name, and checks stdout at the end; `o` takes the values of
// options. Returns the program's exit status.
int fxi_cli_main(const fxi_cli_program *p, int argc, char **argv, fxi_cli_options *o);

// ---- commands.c --------------------------------------------------------------------------------

enum { // bits in the `commands` of an option's row
    FXI_CMD_SERVE = 1,
    FXI_CMD_RUN = 2,
    FXI_CMD_TOKENIZE = 4,
    FXI_CMD_INSPECT = 8,
    FXI_CMD_BENCH = 16,
    FXI_CMD_HELP = 32,
    FXI_CMD_CONVERT = 64,
    FXI_CMD_QUANTIZE = 128,
    FXI_CMD_TOP = 256,
    FXI_CMD_LAB = 512, // commands of flexinfer-lab that run a model; the next two bits are its own
    FXI_CMD_PULL = 4096,
    FXI_CMD_LIST = 8192,
    FXI_CMD_RM = 16384,
};

extern const fxi_cli_program fxi_cli_flexinfer;

// ---- options.c --------------------------------------------------------------------------------

struct fxi_cli_options { // texts are NULL where they are not given
    const char *config;
    fx_options engine;         // as the options say; fxi_cli_engine_options completes them
    fxi_server_options server; // and fxi_cli_server_options
    // serve
    const char *log_format, *log_level;
    bool check_config;
    const char *cors, *allowed_hosts, *isolate, *logprobs, *sampling_order, *socket_access;
    float drain_timeout_s, send_percent;
    // run
    const char *prompt, *prompt_file; // neither: chat
    const char *system;               // a chat's first message, or NULL
    int max_tok;
    fx_sampling sampling; // its seed, DRY and XTC; the rest is in presets
    const char *dry_breaker;
    bool ignore_eos;
    fx_presets presets; // serve, too
    // tokenize
    bool no_bos, decode;
    // convert, quantize
    const char *output, *type, *imatrix;
    bool allow_requantize;
    // bench
    int n_gen, n_repeat;
    fxi_opt_ints batch, prompts, contexts; // the last two: none given
    bool json, csv;
    const char *trace;
    // top
    const char *client_key_file, *ca_file;
    bool once;
};

extern const fxi_opt_table fxi_cli_table;
// The options before parsing: the defaults, which are zero but for a random seed.
fxi_cli_options fxi_cli_options_start(void);

// ---- models.c -----------------------------------------------------------------------------------

// Calls the command with the path of every model that is given by a name of the hub, or a URL;
// what is not here is fetched, but not with --check-config. Returns the exit status.
int fxi_cli_call(const fxi_cli_command *cmd, fxi_cli_options *o, fxi_opt_rest *rest);
// Prints each name of a fetched model, with `before` in front, that begins with `prefix`.
void fxi_cli_offer_names(const char *prefix, const char *before);

// ---- cmd_*.c, load.c ----------------------------------------------------------------------------

int fxi_cmd_serve(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_run(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_tokenize(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_inspect(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_convert(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_quantize(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_bench(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_top(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_pull(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_list(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_rm(const fxi_cli_options *o, const fxi_opt_rest *rest);

// cmd_serve.c: the server's options as given here; texts are borrowed, and names of hosts and
// origins point into *o.
fxi_server_options fxi_cli_server_options(const fxi_cli_options *o);
// Where spans go: the option, or what OpenTelemetry's own variables say; NULL: nowhere. *made,
// which the caller frees, holds the text where it had to be put together.
const char *fxi_cli_otlp_endpoint(const fxi_cli_options *o, fxi_buf *made);

// load.c: the engine's options as given here.
fx_options fxi_cli_engine_options(const fxi_cli_options *o);
// Opens the model that the options name, with a progress bar if it is large and stderr is a
// terminal; sets their on_progress. Errors: those of fx_engine_open.
fx_status fxi_cli_open_engine(fx_options opt, fx_engine **out, fx_error *err);
// The same for a model that generates texts. FX_EINVAL: it does not.
fx_status fxi_cli_open_generator(const fxi_cli_options *o, fx_engine **out, fx_error *err);
// Whether the model chats in lines, since neither its file nor an option has a template.
bool fxi_cli_lacks_template(const fxi_cli_options *o, const fx_model_info *m);
extern const char fxi_cli_no_template[]; // what to say then
// Where that engine keeps its swap file.
const char *fxi_cli_swap_dir(const fxi_cli_options *o);

// Appends the bytes of a file, "-" for stdin, to *text, which the caller frees whatever the
// outcome. Errors: FX_EIO, FX_ENOMEM.
fx_status fxi_cli_read_text(const char *path, fxi_buf *text, fx_error *err);

// --trace: opens the file before anything is measured; *out is NULL without a path. Error: FX_EIO.
fx_status fxi_cli_trace_open(const char *path, FILE **out, fx_error *err);
// Writes what the engine did last, as a Chrome trace, and closes the file; NULL is allowed. Without
// an engine nothing is written. Errors: FX_EIO, FX_ENOMEM.
fx_status fxi_cli_trace_write(const char *path, FILE *f, const fx_engine *eng, fx_error *err);

#endif
