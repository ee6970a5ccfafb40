// trace_csv.c - traces as CSV: a line of column names, then a line for each request. Fields may
// stand in double quotes; no field holds a quote or a line's end.
#include "replay/trace/trace_read.h"

#include <stdlib.h>
#include <string.h>

enum { MAX_FIELD = 64, NUMBER_BYTES = 40 };

// The next field of line[*at .. n); false: there are no more.
static bool next_field(fxi_str line, size_t *at, fxi_str *field)
{
    if (*at > line.n) return false;
    const char *p = line.p + *at, *end = memchr(p, ',', line.n - *at);
    *field = (fxi_str){p, end ? (size_t)(end - p) : line.n - *at};
    *at += field->n + 1;
    while (field->n > 0 && field->p[0] == ' ') field->p++, field->n--;
    while (field->n > 0 && field->p[field->n - 1] == ' ') field->n--;
    if (field->n >= 2 && field->p[0] == '"' && field->p[field->n - 1] == '"')
        *field = (fxi_str){field->p + 1, field->n - 2};
    return true;
}

static fx_status parse_double(const fxi_trace_reader *r, fxi_str s, double *v)
{
    char text[NUMBER_BYTES], *end;
    if (s.n == 0 || s.n >= sizeof text || !strchr("0123456789.", s.p[0]))
        return fxi_trace_fail(r, "a number is expected");
    memcpy(text, s.p, s.n);
    text[s.n] = 0;
    *v = strtod(text, &end);
    return end == text + s.n ? FX_OK : fxi_trace_fail(r, "'%s' is not a number", text);
}

static fx_status read_hashes(fxi_trace_reader *r, fxi_str field)
{
    for (size_t i = 0, n; i < field.n; i += n + 1) {
        uint64_t id = 0;
        for (n = 0; i + n < field.n && field.p[i + n] != ' '; n++) {
            const unsigned digit = (unsigned char)field.p[i + n] - (unsigned)'0';
            if (digit > 9 || __builtin_mul_overflow(id, 10, &id) ||
                __builtin_add_overflow(id, digit, &id))
                return fxi_trace_fail(r, "a hash id is not a number below 2^64");
        }
        if (n > 0) FX_TRY(fxi_trace_row_hash(r, id));
    }
    return FX_OK;
}

static fx_status read_field(fxi_trace_reader *r, fxi_column c, fxi_str field)
{
    double v = 0;
    if (c == FXI_N_COLUMN) return FX_OK;
    if (c == FXI_COLUMN_HASHES) return read_hashes(r, field);
    FX_TRY(parse_double(r, field, &v));
    return fxi_trace_row_number(r, c, v);
}

static fx_status read_row(fxi_trace_reader *r, fxi_str line, const fxi_column *column, int n_column)
{
    fxi_str field;
    size_t at = 0;
    int n = 0;
    fxi_trace_row_begin(r);
    while (next_field(line, &at, &field)) {
        if (n == n_column) return fxi_trace_fail(r, "more than %d fields", n_column);
        FX_TRY(read_field(r, column[n++], field));
    }
    return fxi_trace_row_end(r);
}

static fx_status read_names(fxi_trace_reader *r, fxi_str line, fxi_column column[MAX_FIELD], int *n)
{
    fxi_str field;
    unsigned seen = 0;
    size_t at = 0;
    for (*n = 0; next_field(line, &at, &field); (*n)++) {
        if (*n == MAX_FIELD) return fxi_trace_fail(r, "more than %d columns", MAX_FIELD);
        const fxi_column c = column[*n] = fxi_column_named(field);
        if (c < FXI_N_COLUMN && seen & 1u << c) return fxi_trace_fail(r, "a column comes twice");
        if (c < FXI_N_COLUMN) seen |= 1u << c;
    }
    return FX_OK;
}

fx_status fxi_trace_read_csv(fxi_trace_reader *r, const char *text, size_t n_bytes)
{
    fxi_column column[MAX_FIELD];
    int n_column = 0;
    fxi_str line;
    for (fxi_str rest = {text, n_bytes}; fxi_str_next_line(&rest, &line);) {
        r->line++;
        if (r->line == 1)
            FX_TRY(read_names(r, line, column, &n_column));
        else if (line.n > 0)
            FX_TRY(read_row(r, line, column, n_column));
    }
    return FX_OK;
}
