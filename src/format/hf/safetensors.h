// safetensors.h - reads a safetensors file, mapped and never trusted.
//
//   u64 length of the header; the header, a JSON object:
//     {"NAME": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [from, to]}, ..}
//   the tensors' bytes; offsets count from here, and the tensors fill the rest without gaps
//
// Every entry is checked before it is used: type, shape, range, and that no two tensors overlap.
#ifndef FXI_FORMAT_SAFETENSORS_H
#define FXI_FORMAT_SAFETENSORS_H

#include <stdint.h>

#include "base/fail.h"
#include "base/system/mapping.h"
#include "base/text/str.h"

typedef enum fxi_st_type { // the types that weights are read from, and others
    FXI_ST_F32,
    FXI_ST_F16,
    FXI_ST_BF16,
    FXI_ST_F8_E4M3,
    FXI_ST_U8,
    FXI_ST_OTHER, // known, of a known size; no weights are read from it
} fxi_st_type;

#define FXI_ST_MAX_DIM 8

typedef struct fxi_st_tensor {
    const char *name; // first: tensors are sorted by it
    const char *file; // its file's path
    const char *type_name;
    fxi_st_type type;
    uint32_t elem_bytes;
    int n_dim;
    uint64_t dim[FXI_ST_MAX_DIM]; // slowest first, as in the file; 1 beyond n_dim
    uint64_t n_elem;
    const unsigned char *data; // at any alignment
    uint64_t size_bytes;
} fxi_st_tensor;

typedef struct fxi_safetensors { // all zero: closed
    char *path;
    fxi_mapping map;
    struct json_t *header; // owns the names
    fxi_st_tensor *tensor; // [n_tensor], by name, ascending
    size_t n_tensor;
} fxi_safetensors;

// Maps and checks a file; the caller closes *out, on errors too. Errors: FX_EIO, FX_EFORMAT,
// FX_ENOMEM; texts begin with the path.
fx_status fxi_safetensors_open(const char *path, fxi_safetensors *out, fx_error *err);
// The same over bytes that outlive *out.
fx_status fxi_safetensors_parse(const void *data, size_t n_bytes, const char *name,
                                fxi_safetensors *out, fx_error *err);
void fxi_safetensors_close(fxi_safetensors *s);

// Fails with FX_EFORMAT: "FILE: tensor 'NAME': ..".
__attribute__((format(printf, 3, 4))) fx_status fxi_st_fail(fx_error *err, const fxi_st_tensor *t,
                                                            const char *fmt, ...);

#endif
