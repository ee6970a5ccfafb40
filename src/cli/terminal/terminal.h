// terminal.h - the user's side of a command: messages, signals, text as it arrives.
//
// Results go to stdout, everything else to stderr; a failure is exactly one line there.
#ifndef FXI_CLI_TERMINAL_H
#define FXI_CLI_TERMINAL_H

#include <stdbool.h>
#include <stdint.h>

// What a command returns, and the program's exit status: 0, one of these, or FXI_EXIT_SIGNAL plus
// the number of the signal that ended it.
enum { FXI_EXIT_FAILURE = 1, FXI_EXIT_USAGE = 2, FXI_EXIT_SIGNAL = 128 };

// ---- lines -------------------------------------------------------------------------------------

// Opens those of stdin, stdout and stderr that the caller has closed, so that no file or connection
// of ours takes their place and gets what is written there: there is nothing to read, a write to
// stdout fails, one to stderr is lost. `program` begins every error line; it must be a constant.
// False: it cannot.
bool fxi_console_open(const char *program);
// Prints "PROGRAM: ..." as one line on stderr. Returns FXI_EXIT_FAILURE.
__attribute__((format(printf, 1, 2))) int fxi_cli_fail(const char *fmt, ...);

#define FXI_SIZE_TEXT_BYTES 32
// "1.5 GiB"; returns text.
const char *fxi_cli_size(uint64_t bytes, char text[FXI_SIZE_TEXT_BYTES]);
// "1.1 B", "260 K": powers of 1000, for counts; returns text.
const char *fxi_cli_count(uint64_t n, char text[FXI_SIZE_TEXT_BYTES]);

// ---- progress: a bar on stderr, if that is a terminal and the work takes a while ----------------

typedef struct fxi_progress {
    const char *what; // "loading"
    int shown;        // percentage on the screen; -1: none
    bool visible;
    // Of a transfer, once drawn: the last moment that counted, what was done then, and bytes/s
    double last_s, rate;
    uint64_t last_bytes;
} fxi_progress;

fxi_progress fxi_progress_begin(const char *what);
void fxi_progress_draw(fxi_progress *p, uint64_t done_bytes, uint64_t total_bytes);
// The same of a transfer, with its rate and the time left. now_s: of any clock.
void fxi_progress_draw_rate(fxi_progress *p, const char *what, uint64_t done_bytes,
                            uint64_t total_bytes, double now_s);
void fxi_progress_end(fxi_progress *p); // removes the bar

// ---- signals: with the program's name the only state of the process that is not in a struct -----

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
int fxi_signals_fd(void);            // can be read when fxi_signals_wait would return

#endif
