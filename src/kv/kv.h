// kv.h - what the engine asks of a manager of KV memory, whichever it is.
//
// A manager holds the cache of many sequences under one byte budget. The engine matches a sequence
// with the prefixes recorded so far, extends it before each forward pass that writes new tokens,
// hands its view (plain addresses) to the model, records what later ones may share, and releases
// it. All calls come from the engine thread. Every operation is all or nothing: after an error the
// sequence is as before.
//
// Errors everywhere: FX_ENOSPACE (the budget is used up: the scheduler preempts or waits), FX_EIO
// (the system failed), FX_ENOMEM, FX_EINVAL (more tokens than a sequence may have).
#ifndef FXI_KV_H
#define FXI_KV_H

#include "base/error.h"
#include "kernels/kv_view.h"

#include <stdbool.h>
#include <stdint.h>

struct vt_vmm;

typedef struct fxi_kv fxi_kv;
typedef struct fxi_kv_seq fxi_kv_seq;
typedef struct fxi_kv_domain fxi_kv_domain; // within which prefixes are shared

typedef struct fxi_kv_shape {
    int n_layer;
    size_t row_bytes;      // of one token in one plane: [n_kv_head, head_dim] of the cache's type
    int ctx_tok;           // longest sequence
    int max_seq;           // sequences alive at once, swapped ones included
    uint64_t budget_bytes; // physical memory
    const char *swap_dir;  // where swapped sequences go; NULL: nowhere
    uint64_t swap_bytes;   // room there, 0: no swap
    struct vt_vmm *vmm;    // memory to manage, the manager's from a successful open on; NULL: the
                           // host's
    bool single_thread;    // work ahead is done inside of step, on the caller's thread
} fxi_kv_shape;

// Where the bytes of the budget are, as one moment's picture.
typedef struct fxi_kv_stats {
    uint64_t budget_bytes;
    uint64_t mapped_bytes;  // physical memory in use
    uint64_t held_bytes;    // of it, held by sequences, shared chunks once
    uint64_t cached_bytes;  // of it, held by recorded prefixes alone: given up when memory is short
    uint64_t live_bytes;    // bytes that hold tokens of sequences, shared ones once for each
    uint64_t swapped_bytes; // in the swap
    uint64_t peak_mapped_bytes;
    uint64_t peak_live_bytes;
} fxi_kv_stats;

// What a recorded prefix is worth when memory is short.
typedef struct fxi_kv_keep {
    int priority;      // 0 .. 7; 0: what is worth more already stays so
    uint64_t until_ms; // by the clock of step; 0: as long as it lasts
} fxi_kv_keep;

enum {                     // capabilities
    FXI_KV_CONTIGUOUS = 1, // a sequence is one run of addresses: views need no table
    FXI_KV_ELASTIC = 2,    // memory follows the load and goes back to the system
    FXI_KV_PREFIX = 4,     // match finds what was recorded
    FXI_KV_FORK = 8,       // fork shares memory
    FXI_KV_SWAP = 16,      // swap_out works, where there is room
};

typedef struct fxi_kv_ops {
    const char *name; // "vtensor"
    unsigned caps;
    fx_status (*open)(const fxi_kv_shape *shape, fxi_kv **out, fx_error *err);
    void (*close)(fxi_kv *kv); // releases all sequences

    // The domain with this key; each open is to be closed. What is recorded in it stays.
    fx_status (*domain_open)(fxi_kv *kv, const char *key, size_t key_bytes, fxi_kv_domain **out,
                             fx_error *err);
    void (*domain_close)(fxi_kv *kv, fxi_kv_domain *d);
    // How many of the first n_tok tokens are recorded.
    int (*peek)(const fxi_kv *kv, const fxi_kv_domain *d, const int32_t *tok, int n_tok);

    // A new, empty sequence; it is likely to grow to expect_tok.
    fx_status (*seq_create)(fxi_kv *kv, int expect_tok, fxi_kv_seq **out, fx_error *err);
    // A new sequence that begins with the longest recorded prefix of tok[0..n_tok): *n_hit tokens.
    fx_status (*seq_match)(fxi_kv *kv, fxi_kv_domain *d, const int32_t *tok, int n_tok,
                           int expect_tok, fxi_kv_seq **out, int *n_hit, fx_error *err);
    // A new sequence that begins with the first len_tok tokens of s.
    fx_status (*seq_fork)(fxi_kv *kv, fxi_kv_seq *s, int len_tok, fxi_kv_seq **out, fx_error *err);
    // Backs tokens [0, len_tok); what was written stays.
    fx_status (*seq_extend)(fxi_kv *kv, fxi_kv_seq *s, int len_tok, fx_error *err);
    // Has memory for tokens [0, len_tok) made ready beside the caller. A hint: there is no answer.
    void (*seq_prepare)(fxi_kv *kv, fxi_kv_seq *s, int len_tok, int deadline_step);
    // Lets later sequences of the domain match the first n_tok tokens of s, which are tok.
    fx_status (*seq_record)(fxi_kv *kv, fxi_kv_seq *s, fxi_kv_domain *d, const int32_t *tok,
                            int n_tok, const fxi_kv_keep *keep, fx_error *err);
    // The most of the first n_tok tokens that can be recorded without a copy when s grows.
    int (*whole_tok)(const fxi_kv *kv, int n_tok);
    // Moves what only s holds out of memory, and back. Between, s may only be released.
    fx_status (*seq_swap_out)(fxi_kv *kv, fxi_kv_seq *s, fx_error *err);
    fx_status (*seq_swap_in)(fxi_kv *kv, fxi_kv_seq *s, fx_error *err);
    void (*seq_release)(fxi_kv *kv, fxi_kv_seq *s);
    // Valid until the next extend or release of this sequence.
    fxi_kv_view (*seq_view)(const fxi_kv *kv, const fxi_kv_seq *s);

    // Physical bytes that a sequence of len_tok tokens takes, alone.
    uint64_t (*bytes_for)(const fxi_kv *kv, int len_tok);
    // Once per step, before the forward pass: memory is made ready beside it for sequences that
    // have less than ahead_tok tokens of room left. now_ms never goes back.
    void (*step)(fxi_kv *kv, int ahead_tok, uint64_t now_ms);
    // FX_ENOSPACE: sequences hold more than that; nothing has changed.
    fx_status (*set_budget)(fxi_kv *kv, uint64_t budget_bytes, fx_error *err);
    // Gives idle memory back to the system (FXI_KV_ELASTIC): spare memory beyond keep_bytes.
    fx_status (*trim)(fxi_kv *kv, uint64_t keep_bytes, fx_error *err);
    // Drops recorded prefixes that nobody uses, and gives their memory back.
    fx_status (*forget_idle)(fxi_kv *kv, fx_error *err);
    void (*stats)(const fxi_kv *kv, fxi_kv_stats *out);
    // Proves the manager's invariants; the first broken one in *what. For tests.
    fx_status (*check)(fxi_kv *kv, const char **what);
} fxi_kv_ops;

// A manager begins with its table; what follows is its own.
struct fxi_kv {
    const fxi_kv_ops *ops;
};

// By name; NULL if unknown.
const fxi_kv_ops *fxi_kv_find(const char *name);

#endif
