// gguf.c - what a parsed file holds: its keys and tensors, by position and by name.
#include "format/gguf.h"

#include <stdlib.h>
#include <string.h>

#include "format/gguf/gguf_impl.h"

const char *fxi_gguf_name(const fxi_gguf *g)
{
    return g->name;
}

uint32_t fxi_gguf_version(const fxi_gguf *g)
{
    return g->version;
}

uint64_t fxi_gguf_size(const fxi_gguf *g)
{
    return g->file_bytes;
}

bool fxi_gguf_reads(const fxi_gguf *g, const char *path)
{
    for (size_t i = 0; i < g->n_part; i++)
        if (fxi_gguf_reads(g->part[i], path)) return true;
    return fxi_mapping_is_of(&g->map, path) ||
           (g->maker.reads && g->maker.reads(g->maker.ud, path));
}

uint64_t fxi_gguf_n_kv(const fxi_gguf *g)
{
    return g->n_kv;
}

uint64_t fxi_gguf_n_tensor(const fxi_gguf *g)
{
    return g->n_tensor;
}

const fxi_gguf_kv *fxi_gguf_kv_at(const fxi_gguf *g, uint64_t i)
{
    return &g->kv[i];
}

const fxi_gguf_tensor *fxi_gguf_tensor_at(const fxi_gguf *g, uint64_t i)
{
    return &g->tensor[i];
}

int fxi_gguf_compare_names(const void *a, const void *b)
{
    return fxi_str_compare(**(const fxi_str *const *)a, **(const fxi_str *const *)b);
}

static const void *find_name(const fxi_str **by_name, size_t n, const char *name)
{
    fxi_str want = {name, strlen(name)};
    const fxi_str *key = &want;
    const fxi_str **hit =
        n ? bsearch(&key, by_name, n, sizeof *by_name, fxi_gguf_compare_names) : NULL;
    return hit ? *hit : NULL;
}

const fxi_gguf_kv *fxi_gguf_find(const fxi_gguf *g, const char *key)
{
    return find_name(g->kv_by_name, g->n_kv, key);
}

const fxi_gguf_tensor *fxi_gguf_find_tensor(const fxi_gguf *g, const char *name)
{
    return find_name(g->tensor_by_name, g->n_tensor, name);
}
