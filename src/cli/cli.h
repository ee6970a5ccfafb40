// cli.h - the tables of the program: its commands, and the options of all commands.
//
// One command is one file in command/ with one entry function. All options of all commands are
// fields of one struct, filled from one table. The program's help and its manual page are printed
// from these tables.
//
//   main.c -> command/ -> bench/ -> terminal/ -> options.c, command_table.c
//   manual/ (a program of its own)            -> options.c, command_table.c
#ifndef FXI_CLI_H
#define FXI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/option/opt.h"
#include "flexinfer/flexinfer.h"

// ---- command_table.c --------------------------------------------------------------------------

enum { // bits in the `commands` of an option's row
    FXI_CMD_SERVE = 1,
    FXI_CMD_RUN = 2,
    FXI_CMD_TOKENIZE = 4,
    FXI_CMD_INSPECT = 8,
    FXI_CMD_BENCH = 16,
    FXI_CMD_HELP = 32,
    FXI_CMD_CONVERT = 64,
    FXI_CMD_QUANTIZE = 128,
    FXI_CMD_REPLAY = 256,
    FXI_CMD_FIGURES = 512,
    FXI_CMD_SERVE_TRACE = 1024,
    FXI_CMD_TOP = 2048,
};

typedef struct fxi_cli_command {
    const char *name;       // one word, or two with a space between
    unsigned bit;           // FXI_CMD_*
    int min_rest, max_rest; // arguments that are not options
    bool needs_model;
    const char *synopsis, *about;
    const char *note; // for help, after the options; NULL: none
} fxi_cli_command;

enum { FXI_N_COMMAND = 12 };
extern const fxi_cli_command fxi_cli_commands[FXI_N_COMMAND];

// What a command returns, and the program's exit status: 0, one of these, or
// FXI_EXIT_SIGNAL plus the number of the signal that ended it.
enum { FXI_EXIT_FAILURE = 1, FXI_EXIT_USAGE = 2, FXI_EXIT_SIGNAL = 128 };

// ---- options.c --------------------------------------------------------------------------------

typedef struct fxi_cli_options {
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
    // bench replay, bench serve
    const char *managers, *geometry, *device;
    const char *calibration, *timeline; // NULL: not given
    float rate_per_s, speed, shrink, sample_s;
    int n_choice, beam_width, prefix_tok, max_row;
    bool no_prefixes;
    uint64_t page_bytes;
} fxi_cli_options;

extern const fxi_opt_table fxi_cli_table;
// The options before parsing: all zero but a random seed.
fxi_cli_options fxi_cli_options_start(void);

#endif
