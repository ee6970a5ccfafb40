// trace_read.h - what the readers of both formats share: a row while it is read.
#ifndef FXI_REPLAY_TRACE_READ_H
#define FXI_REPLAY_TRACE_READ_H

#include "base/text/str.h"
#include "replay/trace/trace.h"

typedef enum fxi_column {
    FXI_COLUMN_ARRIVAL,
    FXI_COLUMN_PROMPT,
    FXI_COLUMN_OUTPUT,
    FXI_COLUMN_HASHES,
    FXI_N_COLUMN // another column
} fxi_column;

typedef struct fxi_trace_reader {
    fxi_trace *t;
    const char *name; // of the trace
    int line;         // being read, from 1
    unsigned seen;    // columns of the row, a bit each
    fxi_trace_row row;
    fx_error *err;
} fxi_trace_reader;

// trace_row.c
fxi_column fxi_column_named(fxi_str name);
// Fails with FX_EFORMAT: "NAME:LINE: ..".
__attribute__((format(printf, 2, 3))) fx_status fxi_trace_fail(const fxi_trace_reader *r,
                                                               const char *fmt, ...);

// A row: begin, then each of its values, then end, which checks it and appends it to the trace.
void fxi_trace_row_begin(fxi_trace_reader *r);
fx_status fxi_trace_row_number(fxi_trace_reader *r, fxi_column c, double v);
fx_status fxi_trace_row_hash(fxi_trace_reader *r, uint64_t id);
fx_status fxi_trace_row_end(fxi_trace_reader *r);

// trace_csv.c, trace_json.c: the formats
fx_status fxi_trace_read_csv(fxi_trace_reader *r, const char *text, size_t n_bytes);
fx_status fxi_trace_read_json(fxi_trace_reader *r, const char *text, size_t n_bytes);

#endif
