// gguf_write.h - writes GGUF version 3.
//
// Write the keys, declare the tensors, call fxi_gguf_begin_data, then write each tensor's bytes in
// the order declared. The first failure is kept and returned by finish; calls after it do nothing.
// One thread at a time.
#ifndef FXI_FORMAT_GGUF_WRITE_H
#define FXI_FORMAT_GGUF_WRITE_H

#include "base/text/buf.h"
#include "format/gguf.h"

typedef struct fxi_gguf_writer fxi_gguf_writer;

// The file appears at `path` when the writer finishes, and replaces one that is there; until then
// there is a file PATH.part-PID. Errors: FX_EIO, FX_ENOMEM.
fx_status fxi_gguf_writer_open(const char *path, fxi_gguf_writer **out, fx_error *err);
// Writes keys and declarations of tensors to memory, for fxi_gguf_writer_take_head. `name` begins
// error texts. Errors: FX_ENOMEM.
fx_status fxi_gguf_writer_open_memory(const char *name, fxi_gguf_writer **out, fx_error *err);

void fxi_gguf_write_u32(fxi_gguf_writer *w, const char *key, uint32_t v);
void fxi_gguf_write_f32(fxi_gguf_writer *w, const char *key, float v);
void fxi_gguf_write_bool(fxi_gguf_writer *w, const char *key, bool v);
// An array of n strings: each follows by fxi_gguf_put_str.
void fxi_gguf_begin_strs(fxi_gguf_writer *w, const char *key, size_t n);
void fxi_gguf_put_str(fxi_gguf_writer *w, fxi_str s);
void fxi_gguf_write_text(fxi_gguf_writer *w, const char *key, fxi_str v); // not NUL-terminated
// An array of numbers or bools.
void fxi_gguf_write_array(fxi_gguf_writer *w, const char *key, fxi_gguf_type elem_type,
                          const void *v, size_t n);
static inline void fxi_gguf_write_str(fxi_gguf_writer *w, const char *key, const char *v)
{
    fxi_gguf_write_text(w, key, fxi_str_of(v));
}
// A key of another file as it is.
void fxi_gguf_write_kv(fxi_gguf_writer *w, const fxi_gguf_kv *kv);

// ne: fastest dimension first.
void fxi_gguf_declare_tensor(fxi_gguf_writer *w, const char *name, fxi_dtype type, uint32_t n_dim,
                             const uint64_t *ne);
void fxi_gguf_begin_data(fxi_gguf_writer *w);
// Bytes of the next tensor, in one or several calls; padding between tensors is added. data NULL:
// bytes that are 0, as a hole in the file, which takes no room on the disk.
void fxi_gguf_write_data(fxi_gguf_writer *w, const void *data, size_t n_bytes);

// FX_OK while nothing has failed: lets a caller with much data left stop early.
fx_status fxi_gguf_writer_status(const fxi_gguf_writer *w);

// Closes the file and frees w. FX_OK only if every byte was written and every declared tensor is
// complete and on the disk; otherwise no file remains.
fx_status fxi_gguf_writer_finish(fxi_gguf_writer *w, fx_error *err);

// Instead of finish: removes the unfinished file, frees w. *err, if something failed before, says
// what.
void fxi_gguf_writer_abandon(fxi_gguf_writer *w, fx_error *err);

// For a writer to memory, instead of finish: *out gets what was written up to the last declaration,
// w is freed. Pre: *out is empty; no data was written.
fx_status fxi_gguf_writer_take_head(fxi_gguf_writer *w, fxi_buf *out, fx_error *err);

#endif
