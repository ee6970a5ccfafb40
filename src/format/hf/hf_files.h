// hf_files.h - the files of a Hugging Face folder: JSON objects and their members by name, and the
// safetensors files as one (model.safetensors alone, or those that model.safetensors.index.json
// lists).
//
// The typed readers leave *out untouched where the member is absent or null and `must` is not set.
// A wrong type or range is FX_EFORMAT, and names the file and the member.
//
// A safetensors file is mapped and never trusted:
//
//   u64 length of the header; the header, a JSON object:
//     {"NAME": {"dtype": "BF16", "shape": [2, 3], "data_offsets": [from, to]}, ..}
//   the tensors' bytes; offsets count from here, and the tensors fill the rest without gaps
//
// Every entry is checked before it is used: type, shape, range, and that no two tensors overlap.
#ifndef FXI_FORMAT_HF_FILES_H
#define FXI_FORMAT_HF_FILES_H

#include "base/json/json.h"
#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/system/regions.h"
#include "base/text/str.h"

// ---- one safetensors file -----------------------------------------------------------------------

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
    fxi_json_doc header;   // owns the names
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

// ---- JSON files, and all safetensors files as one -----------------------------------------------

typedef struct fxi_config {
    char *path;           // the file's path; NULL: closed
    const fxi_json *root; // of doc: an object; empty for an optional file that is absent
    fxi_json_doc doc;
    const fxi_json *presets; // members that count where root has none; NULL: none
    const char *part;        // "rope_scaling." in the part of that name, otherwise ""
    bool may_be_list;        // the file may hold an array instead
    fx_error *err;           // gets the errors of the functions below
} fxi_config;

// Reads FOLDER/NAME; the caller closes *out, on errors too. Numbers are read as real ones. Errors:
// FX_EIO, FX_EFORMAT, FX_ENOMEM.
fx_status fxi_config_open(const char *folder, const char *name, bool must, fxi_config *out,
                          fx_error *err);
// The same for a file that holds an array, and may be absent.
fx_status fxi_config_open_list(const char *folder, const char *name, fxi_config *out,
                               fx_error *err);
// The same from text; `name` begins error texts.
fx_status fxi_config_parse(const char *text, size_t n, const char *name, fxi_config *out,
                           fx_error *err);
void fxi_config_close(fxi_config *c);

// The member that is an object, as a config that lives as long as c and is not closed; its root is
// NULL if there is none. `part` is "NAME.".
fxi_config fxi_config_part(const fxi_config *c, const char *name, const char *part);

const fxi_json *fxi_config_get(const fxi_config *c, const char *key); // NULL: absent or null
fx_status fxi_config_u32(const fxi_config *c, const char *key, bool must, uint32_t *out);
fx_status fxi_config_f64(const fxi_config *c, const char *key, bool must, double *out);
fx_status fxi_config_bool(const fxi_config *c, const char *key, bool *out);
fx_status fxi_config_str(const fxi_config *c, const char *key, bool must, const char **out);
// FX_EFORMAT: "FILE: KEY: ...".
__attribute__((format(printf, 3, 4))) fx_status fxi_config_fail(const fxi_config *c,
                                                                const char *key, const char *fmt,
                                                                ...);

typedef struct fxi_hf_files { // all zero: closed
    fxi_safetensors *file;    // [n_file]
    size_t n_file;
    const fxi_st_tensor **tensor; // [n_tensor] of all files, by name, ascending
    size_t n_tensor;
    uint64_t size_bytes; // the size of all files
} fxi_hf_files;

// Opens them; the caller closes *out, on errors too. Errors: FX_EIO, FX_EFORMAT (a file that is
// missing or broken, a tensor that two files have or that is not where the index says), FX_ENOMEM.
fx_status fxi_hf_files_open(const char *folder, fxi_hf_files *out, fx_error *err);
void fxi_hf_files_close(fxi_hf_files *f);

const fxi_st_tensor *fxi_hf_files_find(const fxi_hf_files *f, const char *name); // NULL: none

// The names of the files that an index lists, each once, ascending: calls fn for each. Errors:
// FX_EFORMAT (not an index, or a name that is no plain file name), those of fn.
typedef fx_status fxi_hf_file_fn(void *ud, const char *name, fx_error *err);
fx_status fxi_hf_index_each(const fxi_config *index, fxi_hf_file_fn *fn, void *ud, fx_error *err);

#endif
