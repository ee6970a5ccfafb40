// kv.h - what the engine asks of a manager of KV memory, whichever it is.
//
// A manager holds the cache of many sequences under one byte budget. The engine creates a sequence,
// extends it before each forward pass that writes new tokens, hands its view (plain addresses) to
// the model, and releases it. All calls come from the engine thread. Every operation is all or
// nothing: after an error the sequence is as before.
//
// Errors everywhere: FX_ENOSPACE (the budget is used up: the scheduler preempts or waits), FX_EIO
// (the system failed), FX_ENOMEM, FX_EINVAL (more tokens than a sequence may have).
#ifndef FXI_KV_H
#define FXI_KV_H

#include "base/error.h"
#include "kernels/kv_view.h"

#include <stdint.h>

typedef struct fxi_kv fxi_kv;
typedef struct fxi_kv_seq fxi_kv_seq;

typedef struct fxi_kv_shape {
    int n_layer;
    size_t row_bytes;      // of one token in one plane: [n_kv_head, head_dim] of the cache's type
    int ctx_tok;           // longest sequence
    int max_seq;           // sequences alive at once
    uint64_t budget_bytes; // physical memory
} fxi_kv_shape;

// Where the bytes of the budget are, as one moment's picture.
typedef struct fxi_kv_stats {
    uint64_t budget_bytes;
    uint64_t mapped_bytes; // physical memory in use
    uint64_t live_bytes;   // of it, bytes that hold tokens
    uint64_t peak_mapped_bytes;
    uint64_t peak_live_bytes;
} fxi_kv_stats;

enum {                     // capabilities
    FXI_KV_CONTIGUOUS = 1, // a sequence is one run of addresses: views need no table
    FXI_KV_ELASTIC = 2,    // memory follows the load and goes back to the system
};

typedef struct fxi_kv_ops {
    const char *name; // "vtensor"
    unsigned caps;
    fx_status (*open)(const fxi_kv_shape *shape, fxi_kv **out, fx_error *err);
    void (*close)(fxi_kv *kv); // releases all sequences
    fx_status (*seq_create)(fxi_kv *kv, fxi_kv_seq **out, fx_error *err);
    // Backs tokens [0, len_tok); what was written stays.
    fx_status (*seq_extend)(fxi_kv *kv, fxi_kv_seq *s, int len_tok, fx_error *err);
    void (*seq_release)(fxi_kv *kv, fxi_kv_seq *s);
    // Valid until the next extend or release of this sequence.
    fxi_kv_view (*seq_view)(const fxi_kv *kv, const fxi_kv_seq *s);
    // Physical bytes that a sequence of len_tok tokens takes, alone.
    uint64_t (*bytes_for)(const fxi_kv *kv, int len_tok);
    // Gives idle memory back to the system (FXI_KV_ELASTIC).
    fx_status (*trim)(fxi_kv *kv, uint64_t keep_bytes, fx_error *err);
    void (*stats)(const fxi_kv *kv, fxi_kv_stats *out);
} fxi_kv_ops;

// A manager begins with its table; what follows is its own.
struct fxi_kv {
    const fxi_kv_ops *ops;
};

// By name; NULL if unknown.
const fxi_kv_ops *fxi_kv_find(const char *name);

#endif
