// hf_files.h - the safetensors files of a folder as one: model.safetensors alone, or those that
// model.safetensors.index.json lists.
#ifndef FXI_FORMAT_HF_FILES_H
#define FXI_FORMAT_HF_FILES_H

#include "format/hf/read/hf_config.h"
#include "format/hf/read/safetensors.h"

typedef struct fxi_hf_files { // all zero: closed
    fxi_safetensors *file;    // [n_file]
    size_t n_file;
    const fxi_st_tensor **tensor; // [n_tensor] of all files, by name, ascending
    size_t n_tensor;
    uint64_t size_bytes; // of the files
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
