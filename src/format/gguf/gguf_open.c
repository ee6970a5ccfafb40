// gguf_open.c - opens one GGUF file: maps it and has it parsed.
#include <stdlib.h>

#include "format/gguf/gguf_impl.h"

static fx_status parse_or_close(fxi_gguf *g, fxi_gguf **out, fx_error *err)
{
    fx_status st = fxi_gguf_parse_bytes(g, err);
    if (st == FX_OK)
        *out = g;
    else
        fxi_gguf_close(g);
    return st;
}

fx_status fxi_gguf_parse(const void *data, size_t size_bytes, const char *name, fxi_gguf **out,
                         fx_error *err)
{
    fxi_gguf *g;
    FX_TRY(fxi_gguf_new(name, &g, err));
    g->data = data;
    g->size_bytes = g->file_bytes = size_bytes;
    return parse_or_close(g, out, err);
}

fx_status fxi_gguf_open_one(const char *path, fxi_gguf **out, fx_error *err)
{
    fxi_gguf *g;
    FX_TRY(fxi_gguf_new(path, &g, err));
    fx_status st = fxi_mapping_open(path, &g->map, err);
    if (st != FX_OK) {
        fxi_gguf_close(g);
        return st;
    }
    g->data = g->map.data;
    g->size_bytes = g->file_bytes = g->map.size_bytes;
    return parse_or_close(g, out, err);
}
