// log.h - lines to a file descriptor that hold nobody up.
//
//   any thread --fxi_log_add--> ring of bytes --> one writer thread --> the descriptor
//
// A terminal that is stopped, or a pipe that nobody reads, blocks whoever writes to it. Here that
// is the writer thread alone. While it waits, the ring fills; lines that find no room are dropped
// and counted, and once lines can be written again, one of them tells how many are missing.
#ifndef FXI_SERVER_LOG_H
#define FXI_SERVER_LOG_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/text/buf.h"
#include "flexinfer/error.h"

typedef struct fxi_log fxi_log;

// Starts the writer thread. fd stays the caller's and open until fxi_log_close. ring_bytes: room
// for lines that wait; 0: 256 KiB. is_json: the line that tells of dropped ones is a JSON object.
// Errors: FX_ENOMEM, FX_EIO, FX_EINTERNAL (no thread).
fx_status fxi_log_open(int fd, size_t ring_bytes, bool is_json, fxi_log **out, fx_error *err);

// Adds a line, given without its newline. Any thread; takes no longer than a copy.
void fxi_log_add(fxi_log *log, const char *line);
uint64_t fxi_log_n_dropped(fxi_log *log); // lines dropped so far; any thread

// Waits at most wait_s for the lines to be written, then ends the thread. What has not been written
// by then is lost. No other thread may use the log any more. log may be NULL.
void fxi_log_close(fxi_log *log, double wait_s);

// ---- lines --------------------------------------------------------------------------------------

// A line is text or one JSON object.
//
//     2026-11-22T12:07:55.123Z info POST /v1/completions 200 request_id=req-1 total_s=0.021
//     {"time":"2026-11-22T12:07:55.123Z","level":"info","event":"request","method":"POST",..}
//
// Both forms have the same keys in the same order; in text, words come without their keys. A value
// that is not one word of printable ASCII is quoted as in JSON, so a line stays a line.

typedef enum fxi_level {
    FXI_LEVEL_DEBUG,
    FXI_LEVEL_INFO,
    FXI_LEVEL_WARN,
    FXI_LEVEL_ERROR,
    FXI_N_LEVEL
} fxi_level;

// "debug", "info", "warn", "error", in any case; -1 for any other name.
int fxi_level_named(const char *name);

typedef struct fxi_line {
    fxi_buf b;
    bool is_json;
    bool ok; // false: out of memory
} fxi_line;

// Begins with the time of day, the level and, in JSON, the event.
fxi_line fxi_line_begin(bool is_json, fxi_level level, const char *event);
void fxi_line_word(fxi_line *l, const char *key, const char *value); // in text without its key
void fxi_line_str(fxi_line *l, const char *key, const char *value);
void fxi_line_text(fxi_line *l, const char *key, const char *value, size_t n_bytes);
void fxi_line_int(fxi_line *l, const char *key, long long value);
void fxi_line_seconds(fxi_line *l, const char *key, double value); // to the millisecond
// The finished line, which fxi_line_free frees; NULL: out of memory.
const char *fxi_line_end(fxi_line *l);
void fxi_line_free(fxi_line *l);

#endif
