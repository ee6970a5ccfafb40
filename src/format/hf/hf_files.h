// hf_files.h - the files of a Hugging Face folder: JSON objects, and the safetensors files as one
// (model.safetensors alone, or those that model.safetensors.index.json lists).
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

#include <stdbool.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/system/regions.h"
#include "base/text/str.h"
#include "format/members.h"

// ---- one safetensors file -----------------------------------------------------------------------

typedef enum fxi_st_type { // the types that weights are read from, and others
    FXI_ST_F32,
    FXI_ST_F16,
    FXI_ST_BF16,
    FXI_ST_F8_E4M3,
    FXI_ST_U8,
    FXI_ST_I32,
    FXI_ST_PACKED, // 4 bits; of no file: several tensors make it (hf_packed.h)
    FXI_ST_OTHER,  // known, of a known size; no weights are read from it
} fxi_st_type;

#define FXI_ST_MAX_DIM 8

typedef struct fxi_st_tensor {
    const char *name;
    const char *file; // its file's path
    const char *type_name;
    fxi_st_type type;
    uint32_t elem_bytes;
    int n_dim;
    uint64_t dim[FXI_ST_MAX_DIM]; // slowest first, as in the file; 1 beyond n_dim
    uint64_t n_elem;
    const unsigned char *data; // at any alignment
    uint64_t size_bytes;
    const struct fxi_packed *packed; // of FXI_ST_PACKED; NULL: of others
} fxi_st_tensor;

typedef struct fxi_safetensors { // all zero: closed
    char *path;
    fxi_mapping map;
    fxi_json_doc header;   // owns the names
    fxi_st_tensor *tensor; // [n_tensor], in the order of their data
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
    char *path; // the file's path; NULL: closed
    fxi_json_doc doc;
    fxi_members all; // of doc; empty for an optional file that is absent
} fxi_config;

typedef enum fxi_config_kind { FXI_CONFIG_MUST, FXI_CONFIG_MAY, FXI_CONFIG_LIST } fxi_config_kind;

// Reads FOLDER/NAME, an object that must or may be there, or an array that may; the caller closes
// *out, on errors too. Numbers are read as real ones. Errors: FX_EIO, FX_EFORMAT, FX_ENOMEM.
fx_status fxi_config_open(const char *folder, const char *name, fxi_config_kind kind,
                          fxi_config *out, fx_error *err);
void fxi_config_close(fxi_config *c);

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

void fxi_hf_files_sort(fxi_hf_files *f); // the list of tensors, by name

bool fxi_hf_has_file(const char *folder, const char *name);
const fxi_st_tensor *fxi_hf_files_find(const fxi_hf_files *f, const char *name); // NULL: none

// The names of the files that an index lists, each once, ascending; they are those of its document,
// the caller frees the list, on errors too. Errors: FX_EFORMAT (not an index, or a name that is no
// plain file name), FX_ENOMEM.
fx_status fxi_hf_index_names(const fxi_members *index, const char ***name, size_t *n,
                             fx_error *err);

#endif
