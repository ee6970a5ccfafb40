// cli.h - the tables of a program: its commands, and the options of all commands.
//
// One command is one file, cmd_*.c, with one entry function. All options of all commands are fields
// of one struct, filled from one table. Help, the manual page and the completions of shells are
// made from these tables. flexinfer-lab (lab/) is a second program with tables of its own.
#ifndef FXI_CLI_H
#define FXI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/option/opt.h"
#include "flexinfer/flexinfer.h"

// ---- program.c ---------------------------------------------------------------------------------

typedef struct fxi_cli_options fxi_cli_options;

typedef struct fxi_cli_command {
    const char *name;
    unsigned bit;           // FXI_CMD_* of its options' rows
    int min_rest, max_rest; // arguments that are not options
    bool needs_model;
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
    FXI_CMD_LAB = 512, // commands of flexinfer-lab that run a model; the next bits are its own
};

extern const fxi_cli_program fxi_cli_flexinfer;

// ---- options.c --------------------------------------------------------------------------------

struct fxi_cli_options {
    const char *config;                    // NULL: not given
    const char *model;                     // NULL: not given
    const char *tokenizer, *tokenizer_pre; // NULL: not given
    const char *chat_template;             // NULL: not given
    const char *pooling;                   // NULL: not given
    const char *compute_device, *gpu_math; // NULL: not given
    int n_thread, ctx_tok, step_tok, step_ms;
    const char *speculate, *draft; // draft NULL: not given
    int draft_tok;
    uint64_t kv_memory_bytes; // 0: not given
    const char *kv_manager;   // NULL: not given
    int kv_block_tok;
    const char *kv_type;
    const char *swap_dir; // NULL: not given, see fxi_cli_swap_dir
    uint64_t swap_bytes;
    // serve
    const char *host;
    int port, max_seq, max_queue;
    const char *log_format, *log_level;
    bool log_prompts, check_config;
    uint64_t max_queue_tok, max_queue_bytes;
    int n_worker;
    const char *alias, *key_file, *cors, *allowed_hosts; // NULL: not given
    int cache_idle_s, prefix_pass, max_logprobs;
    const char *logprobs, *sampling_order;
    const char *tool_parser, *reasoning_parser;
    bool refuse_excess;
    const char *tls_cert, *tls_key; // NULL: not given
    const char *otlp_endpoint;      // NULL: not given
    const char *isolate;
    bool allow_priority, open_metrics;
    int max_conn, max_per_address, idle_timeout_s;
    float header_timeout_s, body_timeout_s, read_timeout_s, drain_timeout_s, send_percent;
    uint64_t max_body_bytes;
    // run
    const char *prompt; // NULL: chat
    int max_tok;
    fx_sampling sampling;
    bool ignore_eos;
    // tokenize
    bool no_bos, decode;
    // convert, quantize
    const char *output, *type, *imatrix; // NULL: not given
    // bench
    int n_gen, n_repeat;
    fxi_opt_ints batch, prompts, contexts; // the last two: none given
    bool json, csv;
    const char *trace; // NULL: not given
    int n_record;      // 0: none are kept
    // top
    const char *client_key_file; // NULL: not given
    const char *ca_file;         // the same
    bool once;
};

extern const fxi_opt_table fxi_cli_table;
// The options before parsing: all zero but a random seed.
fxi_cli_options fxi_cli_options_start(void);

#endif
