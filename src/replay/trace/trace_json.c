// trace_json.c - traces as JSONL: an object for each request, one a line.
#include "replay/trace/trace_read.h"

#include <jansson.h>
#include <string.h>

static fx_status read_hash_ids(fxi_trace_reader *r, const json_t *ids)
{
    const json_t *id;
    size_t i;
    if (!json_is_array(ids)) return fxi_trace_fail(r, "hash_ids is not an array");
    json_array_foreach(ids, i, id)
    {
        if (!json_is_integer(id) || json_integer_value(id) < 0)
            return fxi_trace_fail(r, "hash id %zu is not a number", i);
        FX_TRY(fxi_trace_row_hash(r, (uint64_t)json_integer_value(id)));
    }
    return FX_OK;
}

static fx_status read_member(fxi_trace_reader *r, const char *name, const json_t *v)
{
    const fxi_column c = fxi_column_named(fxi_str_of(name));
    if (c == FXI_N_COLUMN) return FX_OK;
    if (c == FXI_COLUMN_HASHES) return read_hash_ids(r, v);
    if (!json_is_number(v)) return fxi_trace_fail(r, "%s is not a number", name);
    return fxi_trace_row_number(r, c, json_number_value(v));
}

static fx_status read_object(fxi_trace_reader *r, json_t *object)
{
    const char *name;
    json_t *v;
    fxi_trace_row_begin(r);
    json_object_foreach(object, name, v) FX_TRY(read_member(r, name, v));
    return fxi_trace_row_end(r);
}

fx_status fxi_trace_read_json(fxi_trace_reader *r, const char *text, size_t n_bytes)
{
    fxi_str line;
    for (fxi_str rest = {text, n_bytes}; fxi_str_next_line(&rest, &line);) {
        json_error_t e;
        r->line++;
        if (line.n == 0) continue;
        json_t *object = json_loadb(line.p, line.n, JSON_REJECT_DUPLICATES, &e);
        if (!json_is_object(object)) {
            json_decref(object);
            return fxi_trace_fail(r, "not a JSON object");
        }
        fx_status st = read_object(r, object);
        json_decref(object);
        FX_TRY(st);
    }
    return FX_OK;
}
