// gguf_made.h - models of other formats as an fxi_gguf: a reader presents its keys and tensors as
// the head of a GGUF file, and says where each tensor's bytes lie or makes them on demand.
//
// A tensor that is made has addresses without memory. fxi_gguf_fetch backs the pages of a range and
// has the maker fill them in, fxi_gguf_drop takes the pages away: a model of any size is read in
// the memory of a few megabytes.
#ifndef FXI_FORMAT_GGUF_MADE_H
#define FXI_FORMAT_GGUF_MADE_H

#include "base/text/buf.h"
#include "format/gguf.h"

typedef struct fxi_gguf_maker {
    void *ud;
    uint64_t file_bytes; // the size of all its files
    // The bytes of tensor i; NULL: it is made.
    const void *(*place)(void *ud, uint64_t i);
    // Writes rows [row, row + n_row) of tensor i, runs of ne[0] numbers, to dst. Several threads at
    // once.
    void (*make)(void *ud, uint64_t i, uint64_t row, uint64_t n_row, void *dst);
    void (*made)(void *ud, uint64_t i); // after the calls of make; NULL: nothing to do
    void (*drop)(void *ud, const void *p, size_t n_bytes); // as fxi_gguf_drop, of placed tensors
    bool (*reads)(void *ud, const char *path); // as fxi_gguf_reads; NULL: there is no file
    void (*close)(void *ud);                   // frees ud
} fxi_gguf_maker;

// An fxi_gguf over a head: the bytes of a GGUF file up to its last tensor's entry (fxi_gguf_writer_
// take_head). Takes over *head and the maker, on errors too. `name` begins error texts. Errors:
// FX_EFORMAT, FX_ENOMEM.
fx_status fxi_gguf_present(const char *name, fxi_buf *head, const fxi_gguf_maker *maker,
                           fxi_gguf **out, fx_error *err);

#endif
