// quantize.h - writes a model as a GGUF file, its tensors converted to other types: what `flexinfer
// convert` and `flexinfer quantize` do.
//
// A model of any size goes through in bounded memory: some megabytes of rows at a time, converted
// by the threads of a pool. The result does not depend on their number. The file appears whole or
// not at all.
#ifndef FXI_FORMAT_QUANTIZE_H
#define FXI_FORMAT_QUANTIZE_H

#include "base/system/pool.h"
#include "format/gguf.h"

// ---- quantize/mixture.c: what types a file has --------------------------------------------------

// A mixture of types by name: "F16", "Q4_K_M". NULL: unknown.
typedef struct fxi_mixture fxi_mixture;
const fxi_mixture *fxi_mixture_find(const char *name); // in upper or lower case
const char *fxi_mixture_names(void);                   // all of them, for errors; static
// The name of the mixture that a file says it holds (general.file_type), "Q4_K_M"; static. NULL: it
// does not say, or has a number that is not known.
const char *fxi_file_type_name(const fxi_gguf *g);

// ---- quantize/imatrix.c: importance matrices ----------------------------------------------------

// How much each column of each weight matters: means of the squared inputs, collected by
// llama.cpp's llama-imatrix. Both of its forms are read, GGUF and the older one.
typedef struct fxi_imatrix fxi_imatrix;
// Errors: FX_EIO, FX_EFORMAT, FX_ENOMEM.
fx_status fxi_imatrix_open(const char *path, fxi_imatrix **out, fx_error *err);
fx_status fxi_imatrix_parse(const void *data, size_t n_bytes, const char *name, fxi_imatrix **out,
                            fx_error *err); // from memory, which must outlive the call only
void fxi_imatrix_free(fxi_imatrix *m);      // NULL is allowed
size_t fxi_imatrix_n_entry(const fxi_imatrix *m);
// The values of a tensor, [*n_slice][n_col], *n_slice = 1 or the number of experts. NULL: none.
const float *fxi_imatrix_find(const fxi_imatrix *m, fxi_str tensor, size_t n_col, size_t *n_slice);

// ---- rewriting a file -------------------------------------------------------------------------

typedef struct fxi_rewrite {
    const fxi_mixture *mixture; // NULL: every tensor keeps its type
    const fxi_imatrix *imatrix; // NULL: all columns matter alike
    const char *imatrix_name;   // recorded in the file
    bool allow_requantize;      // weights in blocks, Q8_0 apart, become other blocks
    fxi_pool *pool;
    // May be NULL; false: stop.
    bool (*on_progress)(void *ud, uint64_t done_bytes, uint64_t total_bytes);
    void *progress_ud;
} fxi_rewrite;

typedef struct fxi_rewritten {
    uint64_t in_bytes, out_bytes; // sizes of the tensors
    char rounded_from[32]; // with a mixture: what the weights were rounded to before; "": nothing
    char origin[128];      // where the file says that its original is; "": it does not
} fxi_rewritten;

// Errors: FX_EINVAL (path names a file that g reads), FX_EIO, FX_ENOMEM, FX_EFORMAT (a tensor holds
// a number that is not finite or does not fit its new type; the weights were rounded before, and
// allow_requantize is not set), FX_ECLOSED (stopped).
fx_status fxi_rewrite_model(const fxi_gguf *g, const char *path, const fxi_rewrite *how,
                            fxi_rewritten *out, fx_error *err);

#endif
