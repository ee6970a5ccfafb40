// trace_row.c - a row of a trace from its columns, of either format.
#include "base/system/grow.h"
#include "base/text/utf8.h" // defines: fxi_utf8_vprint
#include "replay/trace/trace_read.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

enum { MAX_ROW = 1 << 24, MAX_HASH = 1 << 28 };

static const struct column_name {
    const char *name;
    fxi_column column;
} column_names[] = {
    {"arrival_ms", FXI_COLUMN_ARRIVAL},   {"timestamp", FXI_COLUMN_ARRIVAL},
    {"prompt_tokens", FXI_COLUMN_PROMPT}, {"input_length", FXI_COLUMN_PROMPT},
    {"output_tokens", FXI_COLUMN_OUTPUT}, {"output_length", FXI_COLUMN_OUTPUT},
    {"hash_ids", FXI_COLUMN_HASHES},
};

fxi_column fxi_column_named(fxi_str name)
{
    for (size_t i = 0; i < sizeof column_names / sizeof *column_names; i++)
        if (fxi_str_is(name, column_names[i].name)) return column_names[i].column;
    return FXI_N_COLUMN;
}

fx_status fxi_trace_fail(const fxi_trace_reader *r, const char *fmt, ...)
{
    char what[200];
    va_list ap;
    va_start(ap, fmt);
    fxi_utf8_vprint(what, sizeof what, fmt, ap);
    va_end(ap);
    return fxi_fail(r->err, FX_EFORMAT, "%s:%d: %s", r->name, r->line, what);
}

// ---- rows --------------------------------------------------------------------------------------

static fx_status no_memory(const fxi_trace_reader *r)
{
    return fxi_fail(r->err, FX_ENOMEM, "%s: no memory for the trace", r->name);
}

void fxi_trace_row_begin(fxi_trace_reader *r)
{
    r->seen = 0;
    r->row = (fxi_trace_row){.hash = r->t->n_hash};
}

static fx_status set_count(const fxi_trace_reader *r, const char *what, int least, double v,
                           int *out)
{
    if (!(v >= least && v <= FXI_TRACE_MAX_TOK) || v != floor(v))
        return fxi_trace_fail(r, "%s: %g is not a number of tokens from %d to %d", what, v, least,
                              FXI_TRACE_MAX_TOK);
    *out = (int)v;
    return FX_OK;
}

fx_status fxi_trace_row_number(fxi_trace_reader *r, fxi_column c, double v)
{
    if (c < FXI_N_COLUMN) r->seen |= 1u << c;
    if (c == FXI_COLUMN_PROMPT) return set_count(r, "prompt", 1, v, &r->row.n_prompt);
    if (c == FXI_COLUMN_OUTPUT) return set_count(r, "output", 0, v, &r->row.n_output);
    if (c != FXI_COLUMN_ARRIVAL) return FX_OK;
    if (!(v >= 0 && v <= 1e15)) return fxi_trace_fail(r, "arrival: %g is not a time in ms", v);
    r->row.arrival_ms = v;
    return FX_OK;
}

fx_status fxi_trace_row_hash(fxi_trace_reader *r, uint64_t id)
{
    fxi_trace *t = r->t;
    if (t->n_hash == MAX_HASH) return fxi_trace_fail(r, "more than %d hash ids", MAX_HASH);
    if (!fxi_grow(&t->hash, sizeof *t->hash, t->n_hash, &t->cap_hash)) return no_memory(r);
    t->hash[t->n_hash++] = id;
    return FX_OK;
}

static fx_status check_row(fxi_trace_reader *r)
{
    const fxi_trace *t = r->t;
    const bool arrives = r->seen & 1u << FXI_COLUMN_ARRIVAL;
    if (!(r->seen & 1u << FXI_COLUMN_PROMPT)) return fxi_trace_fail(r, "no prompt_tokens");
    if (!(r->seen & 1u << FXI_COLUMN_OUTPUT)) return fxi_trace_fail(r, "no output_tokens");
    if (t->n_row > 0 && arrives != t->has_arrivals)
        return fxi_trace_fail(r, "%s arrival, unlike the rows before", arrives ? "an" : "no");
    const size_t want = ((size_t)r->row.n_prompt + FXI_TRACE_BLOCK_TOK - 1) / FXI_TRACE_BLOCK_TOK;
    r->row.n_hash = t->n_hash - r->row.hash;
    if (r->row.n_hash > 0 && r->row.n_hash != want)
        return fxi_trace_fail(r, "%zu hash ids for %d prompt tokens, expected %zu", r->row.n_hash,
                              r->row.n_prompt, want);
    return FX_OK;
}

fx_status fxi_trace_row_end(fxi_trace_reader *r)
{
    fxi_trace *t = r->t;
    FX_TRY(check_row(r));
    if (t->n_row == MAX_ROW) return fxi_trace_fail(r, "more than %d rows", MAX_ROW);
    if (!fxi_grow(&t->row, sizeof *t->row, t->n_row, &t->cap_row)) return no_memory(r);
    t->has_arrivals = r->seen & 1u << FXI_COLUMN_ARRIVAL;
    t->row[t->n_row++] = r->row;
    return FX_OK;
}
