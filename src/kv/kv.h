// kv.h - the port between the engine and a manager of KV memory.
//
// A manager keeps the caches of many sequences under one byte budget. For each sequence the engine
//
//   creates it, or matches it with the prefixes recorded so far  (fxi_kv_create, fxi_kv_match)
//   extends it before every forward pass that writes new tokens  (fxi_kv_extend)
//   hands its addresses to the model                             (fxi_kv_get_view)
//   records what later sequences may share                       (fxi_kv_record)
//   releases it                                                  (fxi_kv_release)
//
// Callers use the inline functions below; each states the whole contract of its slot in the table
// fxi_kv_ops, which a manager fills.
//
// Thread: the engine thread, except fxi_kv_bytes_for, which any thread may call.
//
// Errors: an operation that fails has changed nothing. Every fx_status here is one of
//   FX_OK
//   FX_ENOSPACE  the budget, the places for sequences or the swap are used up: a normal answer, the
//                engine preempts or waits
//   FX_EIO       the system refused memory or a mapping, or the swap file failed
//   FX_ENOMEM    no host memory
//   FX_EINVAL    more tokens than a sequence may have
#ifndef FXI_KV_H
#define FXI_KV_H

#include "base/fail.h"
#include "base/system/clock.h" // defines: fxi_now_ns
#include "kernels/kv_view.h"

#include <stdbool.h>
#include <stdint.h>

struct vt_vmm;

typedef struct fxi_kv fxi_kv;
typedef struct fxi_kv_seq fxi_kv_seq;
typedef struct fxi_kv_domain fxi_kv_domain; // sequences share prefixes within one domain only

typedef struct fxi_kv_shape {
    int n_layer;
    size_t row_bytes;      // one token in one plane: [n_kv_head][head_dim] of the cache's type
    int ctx_tok;           // longest sequence
    int max_seq;           // sequences alive at once, swapped ones included
    uint64_t budget_bytes; // physical memory
    const char *swap_dir;  // directory of the swap file; NULL: no swap
    uint64_t swap_bytes;   // size of the swap; 0: no swap
    struct vt_vmm *vmm;    // for tests: the memory to manage; owned by the manager once open has
                           // succeeded. NULL: the host's
    bool is_unguarded;     // for tests: memory that several sequences share can be written
    bool single_thread; // for tests: work ahead is done inside fxi_kv_step, on the caller's thread
} fxi_kv_shape;

// A snapshot of where the bytes of the budget are.
typedef struct fxi_kv_stats {
    uint64_t budget_bytes;
    uint64_t mapped_bytes;  // physical memory in use
    uint64_t held_bytes;    // part of it held by sequences, shared chunks counted once
    uint64_t cached_bytes;  // part of it held by recorded prefixes alone: evicted on demand
    uint64_t shared_bytes;  // part of it that several holders share
    uint64_t spare_bytes;   // part of it kept for the next sequence
    uint64_t slack_bytes;   // bytes of held chunks beyond the lengths of sequences
    uint64_t live_bytes;    // bytes that hold tokens of sequences, shared ones once per sequence
    uint64_t swapped_bytes; // in the swap
    uint64_t peak_mapped_bytes;
    uint64_t peak_live_bytes;
} fxi_kv_stats;

// Calls so far, how many did not return FX_OK, and the time they took.
typedef struct fxi_kv_calls {
    uint64_t n_call, n_failure, ns;
} fxi_kv_calls;

// Times in milliseconds by size, as in fx_histogram, whose shape this is.
enum { FXI_KV_N_AGE = 24 };
typedef struct fxi_kv_ages {
    uint64_t count[FXI_KV_N_AGE + 1];
    uint64_t sum_ms;
} fxi_kv_ages;

typedef struct fxi_kv_prefix_ages {
    fxi_kv_ages life, idle,
        reuse; // of recorded prefixes: to eviction, unused before it, to a match
} fxi_kv_prefix_ages;

typedef enum fxi_kv_op {
    FXI_KV_CREATE,
    FXI_KV_MATCH,
    FXI_KV_FORK,
    FXI_KV_EXTEND,
    FXI_KV_RECORD,
    FXI_KV_SWAP_OUT,
    FXI_KV_SWAP_IN,
    FXI_KV_TRIM,
    FXI_KV_N_OP
} fxi_kv_op;

// What the manager asked of the memory below it.
typedef enum fxi_kv_driver_op {
    FXI_KV_DRV_RESERVE,
    FXI_KV_DRV_UNRESERVE,
    FXI_KV_DRV_CREATE,
    FXI_KV_DRV_DESTROY,
    FXI_KV_DRV_MAP,
    FXI_KV_DRV_PROTECT,
    FXI_KV_DRV_UNMAP,
    FXI_KV_DRV_ZERO,
    FXI_KV_DRV_FETCH,
    FXI_KV_DRV_STORE,
    FXI_KV_DRV_SWAP_WRITE,
    FXI_KV_DRV_SWAP_READ,
    FXI_KV_N_DRIVER_OP
} fxi_kv_driver_op;

// How long a recorded prefix is worth keeping when memory is short.
typedef struct fxi_kv_keep {
    int priority;      // 0 .. 7; 0 never lowers a higher priority recorded before
    uint64_t until_ms; // the priority holds until then, by the clock of fxi_kv_step; 0: no limit
} fxi_kv_keep;

enum {               // capabilities
    FXI_KV_SWAP = 1, // swap_out and swap_in work, as far as swap_bytes go
};

// What a manager implements. The inline functions of the same names say what each slot must do.
typedef struct fxi_kv_ops {
    const char *name; // "vtensor"
    unsigned caps;
    fx_status (*open)(const fxi_kv_shape *shape, fxi_kv **out, fx_error *err);
    void (*close)(fxi_kv *kv);

    fx_status (*domain_open)(fxi_kv *kv, const char *key, size_t key_bytes, fxi_kv_domain **out);
    void (*domain_close)(fxi_kv *kv, fxi_kv_domain *d);
    int (*peek)(const fxi_kv *kv, const fxi_kv_domain *d, const int32_t *tok, int n_tok);

    fx_status (*seq_create)(fxi_kv *kv, int expect_tok, fxi_kv_seq **out);
    fx_status (*seq_match)(fxi_kv *kv, fxi_kv_domain *d, const int32_t *tok, int n_tok,
                           int expect_tok, fxi_kv_seq **out, int *n_hit);
    fx_status (*seq_fork)(fxi_kv *kv, fxi_kv_seq *s, int len_tok, fxi_kv_seq **out);
    fx_status (*seq_extend)(fxi_kv *kv, fxi_kv_seq *s, int len_tok);
    void (*seq_prepare)(fxi_kv *kv, fxi_kv_seq *s, int len_tok, int deadline_step);
    fx_status (*seq_record)(fxi_kv *kv, fxi_kv_seq *s, fxi_kv_domain *d, const int32_t *tok,
                            int n_tok, const fxi_kv_keep *keep);
    int (*whole_tok)(const fxi_kv *kv, int n_tok);
    fx_status (*seq_swap_out)(fxi_kv *kv, fxi_kv_seq *s);
    fx_status (*seq_swap_in)(fxi_kv *kv, fxi_kv_seq *s);
    void (*seq_release)(fxi_kv *kv, fxi_kv_seq *s);
    fxi_kv_view (*seq_view)(const fxi_kv *kv, const fxi_kv_seq *s);

    uint64_t (*bytes_for)(const fxi_kv *kv, int len_tok);
    void (*step)(fxi_kv *kv, int ahead_tok, uint64_t now_ms);
    void (*tick)(fxi_kv *kv, uint64_t now_ms);
    fx_status (*set_budget)(fxi_kv *kv, uint64_t budget_bytes);
    fx_status (*trim)(fxi_kv *kv, uint64_t keep_bytes);
    fx_status (*forget_idle)(fxi_kv *kv);
    void (*stats)(const fxi_kv *kv, fxi_kv_stats *out);
    void (*prefix_ages)(const fxi_kv *kv, fxi_kv_prefix_ages *out);
    void (*driver_calls)(const fxi_kv *kv, fxi_kv_calls out[FXI_KV_N_DRIVER_OP]);
    fx_status (*check)(fxi_kv *kv, const char **what);
} fxi_kv_ops;

// A manager's own struct begins with this one.
struct fxi_kv {
    const fxi_kv_ops *ops;
    fxi_kv_calls calls[FXI_KV_N_OP]; // filled by the inline functions below
};

// Counts a call of `op` that began at start_ns, and returns its status.
static inline fx_status fxi_kv_count(fxi_kv *kv, fxi_kv_op op, uint64_t start_ns, fx_status st)
{
    fxi_kv_calls *c = &kv->calls[op];
    c->n_call++;
    c->n_failure += st != FX_OK;
    c->ns += fxi_now_ns() - start_ns;
    return st;
}

// ---- life --------------------------------------------------------------------------------------

// Opens the manager of this name. Errors, with a line in *err: FX_EINVAL (no manager of this name,
// or a shape it cannot manage), FX_ENOSPACE (the budget holds no sequence), FX_ENOMEM, FX_EIO; then
// *out is NULL. (kv_registry.c)
fx_status fxi_kv_open(const char *manager, const fxi_kv_shape *shape, fxi_kv **out, fx_error *err);

// Releases all sequences and all memory. NULL is allowed.
static inline void fxi_kv_close(fxi_kv *kv)
{
    if (kv) kv->ops->close(kv);
}

static inline bool fxi_kv_can_swap(const fxi_kv *kv)
{
    return kv->ops->caps & FXI_KV_SWAP;
}

// ---- domains -----------------------------------------------------------------------------------

// The domain with this key, created if it does not exist. Every open needs its own close.
static inline fx_status fxi_kv_domain_open(fxi_kv *kv, const char *key, size_t key_bytes,
                                           fxi_kv_domain **out)
{
    return kv->ops->domain_open(kv, key, key_bytes, out);
}

// What is recorded in the domain stays.
static inline void fxi_kv_domain_close(fxi_kv *kv, fxi_kv_domain *d)
{
    kv->ops->domain_close(kv, d);
}

// Length of the longest recorded prefix of tok[0..n_tok), in tokens.
static inline int fxi_kv_peek(const fxi_kv *kv, const fxi_kv_domain *d, const int32_t *tok,
                              int n_tok)
{
    return kv->ops->peek(kv, d, tok, n_tok);
}

// ---- sequences ---------------------------------------------------------------------------------

// A new, empty sequence. expect_tok is a hint: the length that it will probably reach.
static inline fx_status fxi_kv_create(fxi_kv *kv, int expect_tok, fxi_kv_seq **out)
{
    const uint64_t start_ns = fxi_now_ns();
    return fxi_kv_count(kv, FXI_KV_CREATE, start_ns, kv->ops->seq_create(kv, expect_tok, out));
}

// A new sequence that begins with the longest recorded prefix of tok[0..n_tok), *n_hit tokens long.
// Whole chunks are shared; the rows of a last, partly matched chunk are copied.
static inline fx_status fxi_kv_match(fxi_kv *kv, fxi_kv_domain *d, const int32_t *tok, int n_tok,
                                     int expect_tok, fxi_kv_seq **out, int *n_hit)
{
    const uint64_t start_ns = fxi_now_ns();
    return fxi_kv_count(kv, FXI_KV_MATCH, start_ns,
                        kv->ops->seq_match(kv, d, tok, n_tok, expect_tok, out, n_hit));
}

// A new sequence that begins with the first len_tok tokens of s and shares their memory.
static inline fx_status fxi_kv_fork(fxi_kv *kv, fxi_kv_seq *s, int len_tok, fxi_kv_seq **out)
{
    const uint64_t start_ns = fxi_now_ns();
    return fxi_kv_count(kv, FXI_KV_FORK, start_ns, kv->ops->seq_fork(kv, s, len_tok, out));
}

// Backs tokens [0, len_tok) with memory that s alone may write beyond its current length; rows that
// were written stay. Never shrinks.
static inline fx_status fxi_kv_extend(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    const uint64_t start_ns = fxi_now_ns();
    return fxi_kv_count(kv, FXI_KV_EXTEND, start_ns, kv->ops->seq_extend(kv, s, len_tok));
}

// Hint: s will be extended to len_tok within deadline_step steps; memory is made ready off the
// caller's thread.
static inline void fxi_kv_prepare(fxi_kv *kv, fxi_kv_seq *s, int len_tok, int deadline_step)
{
    kv->ops->seq_prepare(kv, s, len_tok, deadline_step);
}

// Lets later sequences of the domain match the first n_tok tokens of s, whose ids are
// tok[0..n_tok). s stays as it is.
static inline fx_status fxi_kv_record(fxi_kv *kv, fxi_kv_seq *s, fxi_kv_domain *d,
                                      const int32_t *tok, int n_tok, const fxi_kv_keep *keep)
{
    const uint64_t start_ns = fxi_now_ns();
    return fxi_kv_count(kv, FXI_KV_RECORD, start_ns,
                        kv->ops->seq_record(kv, s, d, tok, n_tok, keep));
}

// The largest part of n_tok tokens that ends where chunks end in every plane: it can be recorded
// without a copy once s grows.
static inline int fxi_kv_whole_tok(const fxi_kv *kv, int n_tok)
{
    return kv->ops->whole_tok(kv, n_tok);
}

// Writes the memory that s alone holds to the swap and frees it. Until fxi_kv_swap_in, s may only
// be swapped out again, which also frees what is no longer shared, and released.
static inline fx_status fxi_kv_swap_out(fxi_kv *kv, fxi_kv_seq *s)
{
    const uint64_t start_ns = fxi_now_ns();
    return fxi_kv_count(kv, FXI_KV_SWAP_OUT, start_ns, kv->ops->seq_swap_out(kv, s));
}

// Reads it back, bit for bit. No effect on a sequence that is in memory.
static inline fx_status fxi_kv_swap_in(fxi_kv *kv, fxi_kv_seq *s)
{
    const uint64_t start_ns = fxi_now_ns();
    return fxi_kv_count(kv, FXI_KV_SWAP_IN, start_ns, kv->ops->seq_swap_in(kv, s));
}

// Ends the sequence, swapped out or not.
static inline void fxi_kv_release(fxi_kv *kv, fxi_kv_seq *s)
{
    kv->ops->seq_release(kv, s);
}

// Where the rows of s are; valid until s is extended, swapped out or released.
static inline fxi_kv_view fxi_kv_get_view(const fxi_kv *kv, const fxi_kv_seq *s)
{
    return kv->ops->seq_view(kv, s);
}

// ---- memory ------------------------------------------------------------------------------------

// Physical bytes that a sequence of len_tok tokens takes when it shares nothing. From any thread.
static inline uint64_t fxi_kv_bytes_for(const fxi_kv *kv, int len_tok)
{
    return kv->ops->bytes_for(kv, len_tok);
}

// Call once per step, before the forward pass: in parallel with that pass, memory is made ready for
// sequences with room for fewer than ahead_tok more tokens. now_ms never decreases.
static inline void fxi_kv_step(fxi_kv *kv, int ahead_tok, uint64_t now_ms)
{
    kv->ops->step(kv, ahead_tok, now_ms);
}

// Sets the clock of fxi_kv_step between steps: before a turn's matches.
static inline void fxi_kv_tick(fxi_kv *kv, uint64_t now_ms)
{
    kv->ops->tick(kv, now_ms);
}

// FX_ENOSPACE: sequences hold more than that.
static inline fx_status fxi_kv_set_budget(fxi_kv *kv, uint64_t budget_bytes)
{
    return kv->ops->set_budget(kv, budget_bytes);
}

// Returns spare memory beyond keep_bytes to the system.
static inline fx_status fxi_kv_trim(fxi_kv *kv, uint64_t keep_bytes)
{
    const uint64_t start_ns = fxi_now_ns();
    return fxi_kv_count(kv, FXI_KV_TRIM, start_ns, kv->ops->trim(kv, keep_bytes));
}

// Evicts every recorded prefix that no sequence uses.
static inline fx_status fxi_kv_forget_idle(fxi_kv *kv)
{
    return kv->ops->forget_idle(kv);
}

static inline void fxi_kv_get_stats(const fxi_kv *kv, fxi_kv_stats *out)
{
    kv->ops->stats(kv, out);
}

static inline void fxi_kv_get_prefix_ages(const fxi_kv *kv, fxi_kv_prefix_ages *out)
{
    kv->ops->prefix_ages(kv, out);
}

// Calls of the memory below, those of the manager's own thread too.
static inline void fxi_kv_driver_calls(const fxi_kv *kv, fxi_kv_calls out[FXI_KV_N_DRIVER_OP])
{
    kv->ops->driver_calls(kv, out);
}

// For tests: proves the manager's invariants. On failure *what is the first one that is broken.
static inline fx_status fxi_kv_check(fxi_kv *kv, const char **what)
{
    return kv->ops->check(kv, what);
}

#endif
