// trace.h - traces of requests: when each came, how long its prompt and its answer were, and which
// blocks of its prompt others had as well.
//
// Two formats, told apart by the first character:
//   CSV    a line that names the columns, then a line for each request
//   JSONL  an object for each request, one a line
//
// Columns, by any of their names; others are ignored:
//   arrival_ms, timestamp             milliseconds from any start; optional, and then in all rows
//   prompt_tokens, input_length       at least 1
//   output_tokens, output_length      at least 0
//   hash_ids                          one id for each FXI_TRACE_BLOCK_TOK tokens of the prompt, the
//                                     last of which may be partly filled; in CSV separated by
//                                     spaces. Equal ids from the start on mean an equal prefix
// These are the columns of Mooncake's traces (arXiv 2407.00079); other public traces have some.
#ifndef FXI_LAB_TRACE_H
#define FXI_LAB_TRACE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"

enum { FXI_TRACE_BLOCK_TOK = 512, FXI_TRACE_MAX_TOK = 1 << 24 };

typedef struct fxi_trace_row {
    double arrival_ms;
    int n_prompt, n_output; // tokens
    size_t hash, n_hash;    // its ids are hash[hash .. hash + n_hash) of the trace; n_hash 0: none
} fxi_trace_row;

typedef struct fxi_trace { // all zero: empty
    fxi_trace_row *row;    // [n_row] by arrival
    size_t n_row, cap_row;
    uint64_t *hash; // [n_hash]
    size_t n_hash, cap_hash;
    bool has_arrivals;
} fxi_trace;

// The caller frees *out, on errors too. Errors: FX_EIO, FX_EFORMAT (with the line), FX_ENOMEM.
fx_status fxi_trace_open(const char *path, fxi_trace *out, fx_error *err);
// The same from text; `name` begins error texts.
fx_status fxi_trace_read(const char *text, size_t n_bytes, const char *name, fxi_trace *out,
                         fx_error *err);
void fxi_trace_free(fxi_trace *t); // empty again

#endif
