// gguf_impl.h - a parsed GGUF file; calls go from gguf_open.c to gguf_parse.c, gguf_read.c, gguf.c.
#ifndef FXI_FORMAT_GGUF_IMPL_H
#define FXI_FORMAT_GGUF_IMPL_H

#include "format/gguf.h"

struct fxi_gguf {
    char *name;
    const unsigned char *data;
    size_t size_bytes;
    bool mapped; // data is ours to unmap
    uint32_t version;
    uint64_t n_kv, n_tensor;
    fxi_gguf_kv *kv;         // [n_kv], in the file's order
    fxi_gguf_tensor *tensor; // [n_tensor], in the file's order
    // The names, ascending. Each is the first member of its fxi_gguf_kv or fxi_gguf_tensor.
    const fxi_str **kv_by_name, **tensor_by_name;
};

_Static_assert(offsetof(fxi_gguf_kv, key) == 0 && offsetof(fxi_gguf_tensor, name) == 0,
               "a name is its entry's address");

// gguf_parse.c
// Checks g->data as a whole and fills version, n_kv, n_tensor, kv, tensor and the sorted names.
// Errors: FX_EFORMAT, FX_ENOMEM; fxi_gguf_close then frees what was allocated.
fx_status fxi_gguf_parse_bytes(fxi_gguf *g, fx_error *err);

// gguf.c
// The order of kv_by_name and tensor_by_name: for qsort and bsearch, over `const fxi_str *`.
int fxi_gguf_compare_names(const void *a, const void *b);

#endif
