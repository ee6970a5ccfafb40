// terminal.h - the user's side of a command: messages, signals, text as it arrives.
//
// Results go to stdout, everything else to stderr; a failure is exactly one line there.
#ifndef FXI_CLI_TERMINAL_H
#define FXI_CLI_TERMINAL_H

#include "cli/cli.h"

// ---- console.c --------------------------------------------------------------------------------

// Opens those of stdin, stdout and stderr that the caller has closed, so that no file or connection
// of ours takes their place and gets what is written there: there is nothing to read, a write to
// stdout fails, one to stderr is lost. False: it cannot.
bool fxi_console_open(void);
// Prints "flexinfer: ..." as one line on stderr. Returns FXI_EXIT_FAILURE.
__attribute__((format(printf, 1, 2))) int fxi_cli_fail(const char *fmt, ...);

#define FXI_SIZE_TEXT_BYTES 32
// "1.5 GiB"; returns text.
const char *fxi_cli_size(uint64_t bytes, char text[FXI_SIZE_TEXT_BYTES]);
// "1.1 B", "260 K": powers of 1000, for counts; returns text.
const char *fxi_cli_count(uint64_t n, char text[FXI_SIZE_TEXT_BYTES]);

// ---- progress.c: a bar on stderr, if that is a terminal and the work takes a while --------------

typedef struct fxi_progress {
    const char *what; // "loading"
    int shown;        // percentage on the screen; -1: none
    bool visible;
} fxi_progress;

fxi_progress fxi_progress_begin(const char *what);
void fxi_progress_draw(fxi_progress *p, uint64_t done_bytes, uint64_t total_bytes);
void fxi_progress_end(fxi_progress *p); // removes the bar

// ---- signals.c: the only state of the process that is not in a struct --------------------------

// Makes SIGINT and SIGTERM set a flag instead of ending the process. False: out of descriptors.
bool fxi_signals_catch(void);
int fxi_signals_stop(void);         // the signal that came since the last fxi_signals_clear, or 0
void fxi_signals_clear(void);       // forgets it
void fxi_signals_stop_on_hup(void); // SIGHUP, too, unless it is ignored (nohup)
void fxi_signals_catch_hup(void);   // makes SIGHUP set a flag of its own
bool fxi_signals_take_hup(void);    // whether it came since the last call
void fxi_signals_let_kill(void);    // lets the next signal end the process
// Sleeps until a signal or fxi_signals_wake, even one that came before the call.
void fxi_signals_wait(void);
bool fxi_signals_wait_input(int fd); // sleeps until fd can be read; false: a signal came first
void fxi_signals_wake(void);         // from any thread

// ---- notify.c -----------------------------------------------------------------------------------

// Tells a service manager that waits for it: "READY=1", "STOPPING=1". Without one it does nothing.
void fxi_notify_manager(const char *state);
bool fxi_manager_waits(void); // there is one

// ---- completion.c: one request ----------------------------------------------------------------

typedef struct fxi_completion {
    fxi_buf text;
    fx_finish finish;
    int n_prompt, n_generated;
    double first_s, total_s; // from submit to the first token, and to the end
} fxi_completion;

// The request that the sampling options describe.
fx_request fxi_completion_request(const fxi_cli_options *o);
// Runs a request (this sets its callback fields), writes its text to stdout as it arrives and
// collects it in *out, whose text the caller frees. A signal cancels the request. Errors: those of
// fx_submit; FX_EIO (stdout); FX_EINTERNAL (the request failed); FX_ENOMEM.
fx_status fxi_completion_run(fx_engine *eng, fx_request *req, fxi_completion *out, fx_error *err);
// Prints one line of figures on stderr.
void fxi_completion_print(const fx_engine *eng, const fxi_completion *c);

// ---- conversation.c ---------------------------------------------------------------------------

// Runs a chat on stdin and stdout until it ends. Returns the command's exit status.
int fxi_conversation_run(fx_engine *eng, const fxi_cli_options *o);

#endif
