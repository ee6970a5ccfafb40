// cli.h - what the files of this room share.
//
// One command is one file with one entry function. All options of all commands are fields of one
// struct, filled from one table (options.c). A command returns the exit status: 0, 1 for a failure,
// 2 for wrong usage, 130 when it was interrupted. What was asked for goes to stdout, everything
// else to stderr; a failure is exactly one line there.
#ifndef FXI_CLI_H
#define FXI_CLI_H

#include <stdbool.h>
#include <stdint.h>

#include "base/opt.h"
#include "flexinfer/flexinfer.h"

enum { // bits in the `commands` of an option's row
    FXI_CMD_SERVE = 1,
    FXI_CMD_RUN = 2,
    FXI_CMD_TOKENIZE = 4,
    FXI_CMD_INSPECT = 8,
    FXI_CMD_BENCH = 16,
    FXI_CMD_HELP = 32,
};

enum { FXI_EXIT_FAILURE = 1, FXI_EXIT_USAGE = 2, FXI_EXIT_SIGNAL = 128 /* plus its number */ };

typedef struct fxi_cli_options {
    const char *model;                     // NULL: not given
    const char *tokenizer, *tokenizer_pre; // NULL: not given
    const char *chat_template;             // NULL: not given
    int n_thread, ctx_tok, step_tok, step_ms;
    uint64_t kv_memory_bytes; // 0: not given
    const char *kv_type;
    const char *swap_dir; // NULL: not given, see fxi_cli_swap_dir
    uint64_t swap_bytes;
    // serve
    const char *host;
    int port, max_seq, max_queue;
    uint64_t max_queue_tok;
    // run
    const char *prompt; // NULL: chat
    int max_tok;
    fx_sampling sampling;
    bool ignore_eos;
    // tokenize
    bool no_bos, decode;
    // bench
    int n_gen, n_repeat;
    fxi_opt_ints batch, prompts, contexts; // the last two: none given
    bool json, csv;
} fxi_cli_options;

// options.c
extern const fxi_opt_table fxi_cli_table;
fxi_cli_options fxi_cli_options_start(void); // before parsing: zero, and a seed of its own

// cmd_*.c: `rest` holds the arguments that are no options, as many as the command takes
int fxi_cmd_serve(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_run(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_tokenize(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_inspect(const fxi_cli_options *o, const fxi_opt_rest *rest);
int fxi_cmd_bench(const fxi_cli_options *o, const fxi_opt_rest *rest);

// chat.c
int fxi_cli_chat(fx_engine *eng, const fxi_cli_options *o);

// load.c: opens the model named by the options, behind a progress bar where that helps
fx_status fxi_cli_open(const fxi_cli_options *o, fx_engine **out, fx_error *err);
// Where the engine that it opens has its swap file.
const char *fxi_cli_swap_dir(const fxi_cli_options *o);

// console.c
__attribute__((format(printf, 1, 2))) int fxi_cli_fail(const char *fmt,
                                                       ...); // returns FXI_EXIT_FAILURE

#define FXI_SIZE_TEXT_BYTES 32
// "1.5 GiB"; returns text.
const char *fxi_cli_size(uint64_t bytes, char text[FXI_SIZE_TEXT_BYTES]);
// "1.1 B", "260 K": powers of 1000, for counts; returns text.
const char *fxi_cli_count(uint64_t n, char text[FXI_SIZE_TEXT_BYTES]);

// signals.c: the only state of the process that is not in a struct
bool fxi_signals_catch(
    void); // from here on SIGINT and SIGTERM ask for a stop; false: out of descriptors
int fxi_signals_stop(void);      // the signal that came since the last fxi_signals_clear, or 0
void fxi_signals_clear(void);    // forgets it
void fxi_signals_let_kill(void); // the next one kills
void fxi_signals_wait(
    void); // sleeps until a signal or fxi_signals_wake, whichever came or comes first
bool fxi_signals_wait_input(int fd); // sleeps until fd can be read; false: a signal came first
void fxi_signals_wake(void);         // from any thread

// answer.c
typedef struct fxi_answer {
    fxi_buf text;
    fx_finish finish;
    int n_prompt, n_generated;
    double first_s, total_s; // from submit to the first token, and to the end
} fxi_answer;

// Runs a request (its callback fields are set here), writes its text to stdout as it arrives and
// collects it in *out, whose text the caller frees. A signal cancels the request. Errors: those of
// fx_submit; FX_EIO (stdout).
fx_status fxi_cli_answer(fx_engine *eng, fx_request *req, fxi_answer *out, fx_error *err);
// One line of figures on stderr.
void fxi_cli_figures(const fx_engine *eng, const fxi_answer *a);
// The request that the sampling options describe.
fx_request fxi_cli_request(const fxi_cli_options *o);

#endif
