// log_line.h - one line of the log, as text or as one JSON object.
//
//     2026-11-22T12:07:55.123Z info POST /v1/completions 200 request_id=req-1 total_s=0.021
//     {"time":"2026-11-22T12:07:55.123Z","level":"info","event":"request","method":"POST",..}
//
// Both forms have the same keys in the same order; in text, words come without their keys. A value
// that is not one word of printable ASCII is quoted as in JSON, so a line stays a line.
#ifndef FXI_SERVER_LOG_LINE_H
#define FXI_SERVER_LOG_LINE_H

#include "base/text/buf.h"

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
