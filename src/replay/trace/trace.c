// trace.c - a trace from a file: the rows of either format, sorted by arrival.
#include "base/system/mapping.h"
#include "replay/trace/trace_read.h"

#include <stdlib.h>

// Rows that arrive together stay in the order of the file.
static int by_arrival(const void *a, const void *b)
{
    const fxi_trace_row *x = a, *y = b;
    if (x->arrival_ms != y->arrival_ms) return x->arrival_ms < y->arrival_ms ? -1 : 1;
    return x->hash != y->hash ? (x->hash < y->hash ? -1 : 1) : 0;
}

static bool is_sorted(const fxi_trace *t)
{
    for (size_t i = 1; i < t->n_row; i++)
        if (t->row[i].arrival_ms < t->row[i - 1].arrival_ms) return false;
    return true;
}

fx_status fxi_trace_read(const char *text, size_t n_bytes, const char *name, fxi_trace *out,
                         fx_error *err)
{
    *out = (fxi_trace){0};
    fxi_trace_reader r = {.t = out, .name = name, .err = err};
    const bool is_json = n_bytes > 0 && text[0] == '{';
    FX_TRY((is_json ? fxi_trace_read_json : fxi_trace_read_csv)(&r, text, n_bytes));
    if (out->n_row == 0) return fxi_fail(err, FX_EFORMAT, "%s: no requests", name);
    if (!is_sorted(out)) qsort(out->row, out->n_row, sizeof *out->row, by_arrival);
    return FX_OK;
}

fx_status fxi_trace_open(const char *path, fxi_trace *out, fx_error *err)
{
    fxi_mapping m = {0};
    *out = (fxi_trace){0};
    FX_TRY(fxi_mapping_open(path, &m, err));
    fx_status st = fxi_trace_read((const char *)m.data, m.size_bytes, path, out, err);
    fxi_mapping_close(&m);
    return st;
}

void fxi_trace_free(fxi_trace *t)
{
    free(t->row);
    free(t->hash);
    *t = (fxi_trace){0};
}
