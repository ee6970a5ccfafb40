// gguf_open.c - opens one GGUF file: maps it and has it parsed.
#include <stdlib.h>

#include "format/gguf/gguf_impl.h"

typedef fx_status parse_fn(fxi_gguf *g, fx_error *err);

static fx_status parse_or_close(fxi_gguf *g, parse_fn *parse, fxi_gguf **out, fx_error *err)
{
    fx_status st = parse(g, err);
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
    return parse_or_close(g, fxi_gguf_parse_bytes, out, err);
}

static fx_status map_and_parse(const char *path, parse_fn *parse, fxi_gguf **out, fx_error *err)
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
    return parse_or_close(g, parse, out, err);
}

fx_status fxi_gguf_open_one(const char *path, fxi_gguf **out, fx_error *err)
{
    return map_and_parse(path, fxi_gguf_parse_bytes, out, err);
}

fx_status fxi_gguf_open_head(const char *path, fxi_gguf **out, fx_error *err)
{
    return map_and_parse(path, fxi_gguf_parse_head, out, err);
}
