// gguf_impl.h - a parsed GGUF file: gguf_open.c makes it, gguf_parse.c fills it.
#ifndef FXI_FORMAT_GGUF_IMPL_H
#define FXI_FORMAT_GGUF_IMPL_H

#include "base/system/regions.h"
#include "format/gguf/gguf_made.h"

struct fxi_gguf {
    char *name;
    const unsigned char *data; // what is parsed
    size_t size_bytes;         // the size of data
    uint64_t file_bytes;       // the size of all its files
    uint32_t version;
    uint64_t n_kv, n_tensor;
    fxi_gguf_kv *kv;         // [n_kv], in the file's order
    fxi_gguf_tensor *tensor; // [n_tensor], in the file's order
    // The names, ascending. Each is the first member of its fxi_gguf_kv or fxi_gguf_tensor.
    const fxi_str **kv_by_name, **tensor_by_name;
    // Where the bytes are; all that apply are freed by fxi_gguf_close.
    fxi_mapping map;        // the mapped file
    struct fxi_gguf **part; // [n_part] of a file in parts: they hold the tensors' bytes
    size_t n_part;
    fxi_gguf_maker maker; // with `head`: makes tensors
    fxi_buf head;         // the keys and tensors that it presents
    unsigned char *made;  // address space of the tensors that are made
    size_t made_bytes;
};

_Static_assert(offsetof(fxi_gguf_kv, key) == 0 && offsetof(fxi_gguf_tensor, name) == 0,
               "a name is its entry's address");

// Checks g->data as a whole and fills version, n_kv, n_tensor, kv, tensor and the sorted names;
// without data, the tensors' `data` stays NULL. Errors: FX_EFORMAT, FX_ENOMEM; fxi_gguf_close then
// frees what was allocated.
fx_status fxi_gguf_parse_bytes(fxi_gguf *g, bool with_data, fx_error *err);
// Sorts the names of the tensors; FX_EFORMAT if one appears twice.
fx_status fxi_gguf_index_tensors(fxi_gguf *g, fx_error *err);

#endif
