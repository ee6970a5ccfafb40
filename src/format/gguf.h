// gguf.h - reads a GGUF file (versions 2 and 3, little endian), mapped and never trusted.
//
// Every count, offset, length and type in the file is checked before it is used, with arithmetic
// that cannot overflow; the error for a broken file is one line that says what is wrong and where.
// Nothing is copied: strings and tensors point into the mapping and live as long as the fxi_gguf.
// Immutable after open: any thread may read. Files in parts (NAME-00001-of-00003.gguf) appear as
// one; so do models of other formats, some of whose tensors are computed when they are fetched.
#ifndef FXI_FORMAT_GGUF_H
#define FXI_FORMAT_GGUF_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/number/dtype.h"
#include "base/system/pool.h"
#include "base/text/str.h"

typedef struct fxi_gguf fxi_gguf;

typedef enum fxi_gguf_type { // the format's numbers
    FXI_GGUF_U8,
    FXI_GGUF_I8,
    FXI_GGUF_U16,
    FXI_GGUF_I16,
    FXI_GGUF_U32,
    FXI_GGUF_I32,
    FXI_GGUF_F32,
    FXI_GGUF_BOOL,
    FXI_GGUF_STR,
    FXI_GGUF_ARRAY,
    FXI_GGUF_U64,
    FXI_GGUF_I64,
    FXI_GGUF_F64,
    FXI_GGUF_N_TYPE
} fxi_gguf_type;

typedef struct fxi_gguf_kv {
    fxi_str key;
    fxi_gguf_type type;         // the value's type
    fxi_gguf_type elem_type;    // an array's element type (never an array); otherwise `type`
    uint64_t n_elem;            // an array's length; otherwise 1
    const unsigned char *value; // in the file: scalar, string's length, or first element
} fxi_gguf_kv;

// Bytes of one value; 0 for strings and arrays, whose sizes vary.
size_t fxi_gguf_type_bytes(fxi_gguf_type type);

size_t fxi_gguf_value_bytes(const fxi_gguf_kv *kv); // from kv->value on

#define FXI_GGUF_MAX_DIM 4

typedef struct fxi_gguf_tensor {
    fxi_str name;
    const fxi_dtype_info *type;
    uint32_t n_dim;
    uint64_t ne[FXI_GGUF_MAX_DIM]; // size of each dimension, fastest first; 1 beyond n_dim
    uint64_t offset;               // from the start of the tensor data
    uint64_t size_bytes;
    const void *data; // see fxi_gguf_fetch
} fxi_gguf_tensor;

// Maps and parses a file; the caller closes *out. The path of any part opens all parts. Errors:
// FX_EIO, FX_EFORMAT, FX_ENOMEM; texts begin with the path, or with "part 2 of 3: ". The file must
// not be truncated while it is open: reading a page past its end kills the process.
fx_status fxi_gguf_open(const char *path, fxi_gguf **out, fx_error *err);
// The same over bytes in memory, which must outlive it; `name` begins error texts.
fx_status fxi_gguf_parse(const void *data, size_t size_bytes, const char *name, fxi_gguf **out,
                         fx_error *err);
// The keys and tensors of a file whose data may be missing, in whole or in part: it can be looked
// at, but its tensors have no `data`. Otherwise as fxi_gguf_open, for one file.
fx_status fxi_gguf_open_head(const char *path, fxi_gguf **out, fx_error *err);
// A model, whatever it is stored as: a GGUF file, or a Hugging Face folder (or a file in one:
// config.json, a .safetensors file). A folder appears with config.json's members under GGUF's keys,
// the tensors of its safetensors files under GGUF's names, the tokenizer's files as tokenizer.*
// keys: `flexinfer convert` writes a file with the same contents. Errors: FX_EIO, FX_EFORMAT,
// FX_ENOMEM; texts name the file in the folder and the member or tensor.
fx_status fxi_model_file_open(const char *path, fxi_gguf **out, fx_error *err);
fx_status fxi_hf_open(const char *folder, fxi_gguf **out, fx_error *err); // a folder
void fxi_gguf_close(fxi_gguf *g);                                         // NULL is allowed
// Before bytes [from, from + n_bytes) of a tensor are read: makes those of a computed tensor;
// nothing to do for others. pool: threads to do it with; NULL: the caller alone. One call at a
// time. Pre: within the tensor. Errors: FX_ENOMEM.
fx_status fxi_gguf_fetch(const fxi_gguf *g, const fxi_gguf_tensor *t, uint64_t from,
                         uint64_t n_bytes, fxi_pool *pool, fx_error *err);
// Drops n_bytes at p, part of a tensor, from the process's resident memory: they are not needed
// soon. They may be fetched and read again later. Other threads may read meanwhile.
void fxi_gguf_drop(const fxi_gguf *g, const void *p, size_t n_bytes);

const char *fxi_gguf_name(const fxi_gguf *g); // as given to open or parse
uint32_t fxi_gguf_version(const fxi_gguf *g);
uint64_t fxi_gguf_size(const fxi_gguf *g); // bytes of the file, or of all files
// Whether path names, in whatever way, a file that the tensors are read from: the model's own, one
// of its parts, one of a folder's.
bool fxi_gguf_reads(const fxi_gguf *g, const char *path);
uint64_t fxi_gguf_n_kv(const fxi_gguf *g);
uint64_t fxi_gguf_n_tensor(const fxi_gguf *g);
// Pre: i < n_kv, i < n_tensor.
const fxi_gguf_kv *fxi_gguf_kv_at(const fxi_gguf *g, uint64_t i);
const fxi_gguf_tensor *fxi_gguf_tensor_at(const fxi_gguf *g, uint64_t i);
const fxi_gguf_kv *fxi_gguf_find(const fxi_gguf *g, const char *key);             // NULL if absent
const fxi_gguf_tensor *fxi_gguf_find_tensor(const fxi_gguf *g, const char *name); // NULL if absent

// Typed readers. Any integer type is accepted if the value fits; a wrong type or range is
// FX_EFORMAT and names the key. An absent key leaves *out untouched and returns FX_OK or, if
// `must`, FX_EFORMAT "missing key ...".
fx_status fxi_gguf_u32(const fxi_gguf *g, const char *key, bool must, uint32_t *out, fx_error *err);
fx_status fxi_gguf_bool(const fxi_gguf *g, const char *key, bool must, bool *out, fx_error *err);
fx_status fxi_gguf_str(const fxi_gguf *g, const char *key, bool must, fxi_str *out, fx_error *err);
// An array of the given element type; *out is NULL if absent and not `must`.
fx_status fxi_gguf_array(const fxi_gguf *g, const char *key, bool must, fxi_gguf_type elem_type,
                         const fxi_gguf_kv **out, fx_error *err);
// Element i of an array of numbers, or a scalar with i = 0. Pre: i < n_elem; any integer type for
// int_at, f32 or f64 for float_at.
int64_t fxi_gguf_int_at(const fxi_gguf_kv *kv, uint64_t i);
double fxi_gguf_float_at(const fxi_gguf_kv *kv, uint64_t i);
// Walks an array of strings in order: *cursor starts at kv->value and moves past the string
// returned. Pre: a string is left.
fxi_str fxi_gguf_next_str(const unsigned char **cursor);

#endif
