// kv.h - the port between the engine and a manager of KV memory.
//
// A manager keeps the caches of many sequences under one byte budget. For each sequence the engine
//
//   creates it, or matches it with the prefixes recorded so far  (fxi_kv_create, fxi_kv_match)
//   extends it before every forward pass that writes new tokens  (fxi_kv_extend)
//   truncates it where the pass computed more than is kept        (fxi_kv_truncate)
//   hands its addresses to the model                             (fxi_kv_get_views)
//   records what later sequences may share                       (fxi_kv_record)
//   releases it                                                  (fxi_kv_release)
//
// Callers use the inline functions below; each states the whole contract of its slot in the table
// fxi_kv_ops, which a manager fills. What a manager lacks, its capabilities say: the caller asks
// fxi_kv_can before a verb that is marked with a capability, whose slot is NULL otherwise.
//
// Thread: the engine thread, except fxi_kv_bytes_for and fxi_kv_cost, which any thread may call.
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
#include "flexinfer/counters.h"
#include "kernels/kv_view.h"

#include <limits.h>
#include <stdbool.h>
#include <stdint.h>

struct vt_vmm;

typedef struct fxi_kv fxi_kv;
typedef struct fxi_kv_seq fxi_kv_seq;
typedef struct fxi_kv_domain fxi_kv_domain; // sequences share prefixes within one domain only
typedef struct fxi_kv_snapshot fxi_kv_snapshot;

typedef struct fxi_kv_shape {
    fxi_kv_layout layout;  // what is stored for each token
    int ctx_tok;           // longest sequence
    int step_tok;          // most tokens that one extend adds; 0: ctx_tok
    int max_seq;           // sequences alive at once, swapped ones included
    int run_seq;           // of them, that run at once: each needs mappings; 0: all
    double run_share;      // of the mappings that the system allows the process; 0: all
    int block_tok;         // tokens that a unit of memory holds, at least; 0: the manager's choice
    int tile_tok;          // rows that the kernels read at once: no block holds fewer; 0: 1
    uint64_t budget_bytes; // physical memory
    const char *swap_dir;  // directory of the swap file; NULL: no swap
    uint64_t swap_bytes;   // size of the swap; 0: no swap
    struct vt_vmm *vmm;    // for tests: the memory to manage; closed by fxi_kv_close once open has
                           // succeeded. NULL: the host's
    int n_rank;            // devices that share every row out, each whole heads; 0: one has all
    struct vt_vmm *rank_vmm[FXI_MAX_RANK]; // [n_rank] instead of vmm, as vmm; NULL: the host's
    bool is_unguarded;  // for tests: memory that several sequences share can be written
    bool single_thread; // for tests: work ahead is done inside fxi_kv_step, on the caller's thread
} fxi_kv_shape;

static inline int fxi_kv_n_device(const fxi_kv_shape *shape)
{
    return shape->n_rank ? shape->n_rank : 1;
}

// The memory that the caller gives for device k; NULL: none. It is not the manager's to close.
static inline struct vt_vmm *fxi_kv_given_memory(const fxi_kv_shape *shape, int k)
{
    return shape->n_rank ? shape->rank_vmm[k] : shape->vmm;
}

// What each of them stores for a token: as much of every row as the others.
static inline fxi_kv_layout fxi_kv_part_of(const fxi_kv_shape *shape)
{
    fxi_kv_layout part = shape->layout;
    for (int g = 0; g < part.n_group; g++)
        part.group[g].row_bytes /= (size_t)fxi_kv_n_device(shape);
    return part;
}

// What is known about how long a sequence will be. Reservations follow it; it is never a limit.
typedef struct fxi_kv_expect {
    int begin_tok;  // tokens that it has to hold soon: its prompt
    int output_tok; // more that it will probably get; 0: unknown
    int most_tok;   // it never holds more than that; 0: unknown
} fxi_kv_expect;

// Sequences whose memory is asked for; see fxi_kv_cost. Each may be released, and created again for
// what it has become and the rest of its output.
typedef struct fxi_kv_need {
    int n_seq;          // they begin with the same each.begin_tok tokens
    fxi_kv_expect each; // as they would be created
    int end_tok;        // how long each of them is to become
    int hit_tok;        // first tokens that others hold in memory and that they would share
    bool is_apart;      // they share nothing with each other
} fxi_kv_need;

// A snapshot of where the bytes of the budget are.
//     mapped = used + reserved + internal + external + cached + spare
//     held   = used + reserved + internal + external
typedef struct fxi_kv_stats {
    uint64_t budget_bytes;
    uint64_t usable_bytes;   // of them: what sequences can hold at most, once whole blocks are made
    uint64_t mapped_bytes;   // physical memory in use
    uint64_t used_bytes;     // holds tokens of sequences, shared ones once
    uint64_t reserved_bytes; // kept for tokens that sequences are expected to get
    uint64_t internal_bytes; // kept for sequences beyond that, and not expected to be used
    uint64_t external_bytes; // lost between sequences: the allocator's rounding
    uint64_t cached_bytes;   // held by recorded prefixes alone: evicted on demand
    uint64_t shared_bytes;   // of used and cached: what several sequences share, or some with the
                             // prefixes recorded
    uint64_t spare_bytes;    // free for the next sequences
    uint64_t held_bytes;     // by sequences
    uint64_t live_bytes;     // bytes that hold tokens of sequences, shared ones once per sequence
    uint64_t retired_bytes;  // part of mapped_bytes out of use since the device failed
    uint64_t n_mapping;      // runs mapped now; managers that map nothing have none
    uint64_t max_mapping;    // most of them at once
    uint64_t swapped_bytes;  // in the swap
    uint64_t returning_bytes; // still to go back to the system: fxi_kv_give_back, fxi_kv_aim_budget
    uint64_t n_evicted;       // blocks of recorded prefixes evicted so far
    uint64_t peak_mapped_bytes;
    uint64_t peak_live_bytes;
} fxi_kv_stats;

// What went to the swap and came back so far: successful copies, without what they waited for.
typedef struct fxi_kv_moved {
    uint64_t bytes, ns;
} fxi_kv_moved;

// Milliseconds of recorded prefixes: to eviction, unused before it, to a match.
typedef struct fxi_kv_prefix_ages {
    fx_histogram life, idle, reuse;
} fxi_kv_prefix_ages;

// How long a recorded prefix is worth keeping when memory is short.
typedef struct fxi_kv_keep {
    int priority;      // 0 .. 7; 0 never lowers a higher priority recorded before
    uint64_t until_ms; // the priority holds until then, by the clock of fxi_kv_step; 0: no limit
} fxi_kv_keep;

typedef enum fxi_kv_cap {
    FXI_KV_PREFIX = 1,   // domains, peek, match, record, whole_tok, forget_idle
    FXI_KV_EXACT = 2,    // prefixes are shared to the token; otherwise as far as whole blocks go
    FXI_KV_FORK = 4,     // fork
    FXI_KV_SWAP = 8,     // swap_out and swap_in, as far as swap_bytes go
    FXI_KV_ELASTIC = 16, // set_budget, trim: memory goes back to the system while it runs
    FXI_KV_WINDOWS = 32, // rows that a window has passed are freed; otherwise they stay
    FXI_KV_ZEROED = 64,  // rows that an extend adds read as zero, unless truncate has removed them;
                         // otherwise they hold anything
    FXI_KV_ASYNC_SWAP =
        128, // swapping runs in the background; otherwise the caller waits for the copies
    FXI_KV_CONTINUE = 256, // lookup_continuation
    FXI_KV_STATES = 512,   // layouts with groups of states
} fxi_kv_cap;

// What a manager implements. The inline functions of the same names say what each slot must do.
typedef struct fxi_kv_ops {
    const char *name; // as it is chosen by
    unsigned caps;
    size_t struct_bytes; // of the manager's own struct, which is made before open and freed after
                         // close; open gets it zero, but for ops, and leaves it empty on an error
    fx_status (*open)(fxi_kv *kv, const fxi_kv_shape *shape, fx_error *err);
    void (*close)(fxi_kv *kv);

    fx_status (*domain_open)(fxi_kv *kv, const char *key, size_t key_bytes, fxi_kv_domain **out);
    void (*domain_close)(fxi_kv *kv, fxi_kv_domain *d);
    int (*peek)(const fxi_kv *kv, const fxi_kv_domain *d, const int32_t *tok, int n_tok);
    int (*lookup_continuation)(const fxi_kv *kv, const fxi_kv_domain *d, const int32_t *tok,
                               int n_tok, int32_t *out, int max_n);

    fx_status (*seq_create)(fxi_kv *kv, const fxi_kv_expect *expect, fxi_kv_seq **out);
    fx_status (*seq_match)(fxi_kv *kv, fxi_kv_domain *d, const int32_t *tok, int n_tok,
                           const fxi_kv_expect *expect, fxi_kv_seq **out, int *n_hit);
    fx_status (*seq_fork)(fxi_kv *kv, fxi_kv_seq *s, int len_tok, fxi_kv_seq **out);
    fx_status (*seq_extend)(fxi_kv *kv, fxi_kv_seq *s, int len_tok);
    fx_status (*seq_extend_many)(fxi_kv *kv, fxi_kv_seq *const *s, const int *len_tok, int n,
                                 int *n_done); // NULL: one after the other
    fx_status (*seq_truncate)(fxi_kv *kv, fxi_kv_seq *s, int len_tok);
    void (*seq_prepare)(fxi_kv *kv, fxi_kv_seq *s, int len_tok, int deadline_step); // may be NULL
    fx_status (*seq_record)(fxi_kv *kv, fxi_kv_seq *s, fxi_kv_domain *d, const int32_t *tok,
                            int n_tok, const fxi_kv_keep *keep);
    int (*whole_tok)(const fxi_kv *kv, int n_tok);
    fx_status (*seq_swap_out)(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving);
    fx_status (*seq_swap_in)(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving);
    uint64_t (*swap_gain)(const fxi_kv *kv, const fxi_kv_seq *s, int n_recorded);
    void (*seq_release)(fxi_kv *kv, fxi_kv_seq *s);
    void (*seq_views)(const fxi_kv *kv, const fxi_kv_seq *s, fxi_kv_views *out);

    uint64_t (*bytes_for)(const fxi_kv *kv, int len_tok);
    uint64_t (*cost)(const fxi_kv *kv, const fxi_kv_need *need);
    uint64_t (*seq_growth)(const fxi_kv *kv, const fxi_kv_seq *s, int end_tok);
    uint64_t (*held)(const fxi_kv *kv);
    uint64_t (*mappings)(const fxi_kv *kv, const fxi_kv_seq *s); // NULL: there is no limit
    void (*step)(fxi_kv *kv, int ahead_tok, uint64_t now_ms);    // may be NULL
    void (*tick)(fxi_kv *kv, uint64_t now_ms);
    fx_status (*set_budget)(fxi_kv *kv, uint64_t budget_bytes);
    fx_status (*trim)(fxi_kv *kv, uint64_t keep_bytes);
    fx_status (*forget_idle)(fxi_kv *kv);
    fx_status (*aim_budget)(fxi_kv *kv, uint64_t budget_bytes);       // NULL: set_budget
    void (*give_back)(fxi_kv *kv, uint64_t keep_bytes, bool forgets); // NULL: trim, forget_idle
    void (*stats)(const fxi_kv *kv, fxi_kv_stats *out);
    void (*moved)(const fxi_kv *kv, fxi_kv_moved *out);
    void (*prefix_ages)(const fxi_kv *kv, fxi_kv_prefix_ages *out);
    void (*driver_calls)(const fxi_kv *kv, fx_op_stats out[FX_N_DRIVER_OP]);
    void (*collect)(fxi_kv *kv, fxi_kv_snapshot *to); // NULL: it shows no chunks
    fx_status (*check)(fxi_kv *kv, const char **what);
} fxi_kv_ops;

// A manager's own struct begins with this one.
struct fxi_kv {
    const fxi_kv_ops *ops;
    fx_op_stats calls[FX_N_KV_OP]; // filled by the inline functions below
    uint64_t last_ns;              // the time of the last call counted there; of several, their sum
    uint64_t max_mapping; // most mappings that the system allows; 0: any number. Set by open
    struct vt_vmm *given[FXI_MAX_RANK]; // fxi_kv_given_memory, closed after the manager
};

// Counts calls of `op` that began at start_ns, the last of which has this status, and returns it.
static inline fx_status fxi_kv_count_many(fxi_kv *kv, fx_kv_op op, int n_call, uint64_t start_ns,
                                          fx_status st)
{
    fx_op_stats *c = &kv->calls[op];
    c->n_call += (uint64_t)n_call;
    c->n_failure += st != FX_OK;
    kv->last_ns = fxi_now_ns() - start_ns;
    c->ns += kv->last_ns;
    return st;
}

static inline fx_status fxi_kv_count(fxi_kv *kv, fx_kv_op op, uint64_t start_ns, fx_status st)
{
    return fxi_kv_count_many(kv, op, 1, start_ns, st);
}

// ---- life --------------------------------------------------------------------------------------

// Opens the manager of this name; NULL: the first one. Errors, with a line in *err: FX_EINVAL (no
// manager of this name, a shape it cannot manage, or states without STATES), FX_ENOSPACE (the
// budget holds no sequence), FX_ENOMEM, FX_EIO; then *out is NULL. (kv_registry.c)
fx_status fxi_kv_open(const char *manager, const fxi_kv_shape *shape, fxi_kv **out, fx_error *err);
// The same with a manager that need not be one of the list.
fx_status fxi_kv_open_with(const fxi_kv_ops *ops, const fxi_kv_shape *shape, fxi_kv **out,
                           fx_error *err);

// Releases all sequences and all memory. NULL is allowed.
void fxi_kv_close(fxi_kv *kv);

static inline bool fxi_kv_can(const fxi_kv *kv, fxi_kv_cap cap)
{
    return kv->ops->caps & (unsigned)cap;
}

// The i-th manager's name; NULL: there are no more. (kv_registry.c)
const char *fxi_kv_manager_name(int i);

// ---- domains: PREFIX ---------------------------------------------------------------------------

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

// CONTINUE. Writes to out up to max_n tokens that are recorded in the domain after exactly
// tok[0..n_tok), of several branches those of the one recorded last, and returns how many; 0: none
// are. A guess at what a sequence will become; whether their rows could be matched does not matter.
static inline int fxi_kv_lookup_continuation(const fxi_kv *kv, const fxi_kv_domain *d,
                                             const int32_t *tok, int n_tok, int32_t *out, int max_n)
{
    return kv->ops->lookup_continuation(kv, d, tok, n_tok, out, max_n);
}

// ---- sequences ---------------------------------------------------------------------------------

// A new, empty sequence.
static inline fx_status fxi_kv_create(fxi_kv *kv, const fxi_kv_expect *expect, fxi_kv_seq **out)
{
    const uint64_t start_ns = fxi_now_ns();
    return fxi_kv_count(kv, FX_KV_create, start_ns, kv->ops->seq_create(kv, expect, out));
}

// PREFIX. A new sequence that begins with the longest recorded prefix of tok[0..n_tok), *n_hit
// tokens long. Whole blocks are shared; EXACT: the rows of a last, partly matched one are copied.
// Where windows are freed, it is the longest of which the last window_tok - 1 rows are there.
static inline fx_status fxi_kv_match(fxi_kv *kv, fxi_kv_domain *d, const int32_t *tok, int n_tok,
                                     const fxi_kv_expect *expect, fxi_kv_seq **out, int *n_hit)
{
    const uint64_t start_ns = fxi_now_ns();
    return fxi_kv_count(kv, FX_KV_match, start_ns,
                        kv->ops->seq_match(kv, d, tok, n_tok, expect, out, n_hit));
}

// FORK. A new sequence that begins with the first len_tok tokens of s and shares their memory.
// FX_EINVAL: a window has passed rows that it needs.
static inline fx_status fxi_kv_fork(fxi_kv *kv, fxi_kv_seq *s, int len_tok, fxi_kv_seq **out)
{
    const uint64_t start_ns = fxi_now_ns();
    return fxi_kv_count(kv, FX_KV_fork, start_ns, kv->ops->seq_fork(kv, s, len_tok, out));
}

// Backs tokens [0, len_tok) with memory that s alone may write beyond its current length; rows that
// were written stay. Never shrinks. WINDOWS: rows that no token from the old length on reads are
// freed.
static inline fx_status fxi_kv_extend(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    const uint64_t start_ns = fxi_now_ns();
    return fxi_kv_count(kv, FX_KV_extend, start_ns, kv->ops->seq_extend(kv, s, len_tok));
}

// Extends n sequences, s[i] to len_tok[i], in this order; the first *n_done of them have succeeded.
// Stops at the first error and returns it.
static inline fx_status fxi_kv_extend_many(fxi_kv *kv, fxi_kv_seq *const *s, const int *len_tok,
                                           int n, int *n_done)
{
    if (kv->ops->seq_extend_many) {
        const uint64_t start_ns = fxi_now_ns();
        const fx_status st = kv->ops->seq_extend_many(kv, s, len_tok, n, n_done);
        return fxi_kv_count_many(kv, FX_KV_extend, *n_done + (st != FX_OK), start_ns, st);
    }
    uint64_t sum_ns = 0;
    fx_status st = FX_OK;
    for (*n_done = 0; *n_done < n; ++*n_done) {
        st = fxi_kv_extend(kv, s[*n_done], len_tok[*n_done]);
        sum_ns += kv->last_ns;
        if (st != FX_OK) break;
    }
    kv->last_ns = sum_ns;
    return st;
}

// Removes the tokens from len_tok on; the rows before it stay where they are, and nothing
// is copied. Blocks that hold no other tokens are free for others. A len_tok of at least the length
// changes nothing. What others share stays theirs, and the next extend copies a block that it cuts.
// FX_EINVAL: s is swapped out, or a window has passed rows that len_tok needs,
// which it never has where len_tok is at least the length before the last extend.
static inline fx_status fxi_kv_truncate(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    const uint64_t start_ns = fxi_now_ns();
    return fxi_kv_count(kv, FX_KV_truncate, start_ns, kv->ops->seq_truncate(kv, s, len_tok));
}

// Hint: s will be extended to len_tok within deadline_step steps; memory is made ready off the
// caller's thread.
static inline void fxi_kv_prepare(fxi_kv *kv, fxi_kv_seq *s, int len_tok, int deadline_step)
{
    if (kv->ops->seq_prepare) kv->ops->seq_prepare(kv, s, len_tok, deadline_step);
}

// PREFIX. Lets later sequences of the domain match the first n_tok tokens of s, whose ids are
// tok[0..n_tok). s keeps the same rows, but get its views again. FX_EINVAL: s is
// swapped out; or the manager has recorded it in another domain, and can do so once only.
static inline fx_status fxi_kv_record(fxi_kv *kv, fxi_kv_seq *s, fxi_kv_domain *d,
                                      const int32_t *tok, int n_tok, const fxi_kv_keep *keep)
{
    const uint64_t start_ns = fxi_now_ns();
    return fxi_kv_count(kv, FX_KV_record, start_ns,
                        kv->ops->seq_record(kv, s, d, tok, n_tok, keep));
}

// PREFIX. The largest part of n_tok tokens that ends where blocks end in every plane: it can be
// recorded without a copy once s grows.
static inline int fxi_kv_whole_tok(const fxi_kv *kv, int n_tok)
{
    return kv->ops->whole_tok(kv, n_tok);
}

// SWAP. Writes the memory that s alone holds to the swap and frees it. Returns at once; *is_moving:
// s is on its way. Then fxi_kv_step continues it, memory is freed bit by bit, and this call,
// again, says how far it is, or how it ended. On an error s is as before; if others have taken what
// it gave up on its way, it stays out, and fxi_kv_swap_in brings it back. Until it is back, s may
// only be swapped in, swapped out, which also frees what is no longer shared, and released.
static inline fx_status fxi_kv_swap_out(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving)
{
    const uint64_t start_ns = fxi_now_ns();
    return fxi_kv_count(kv, FX_KV_swap_out, start_ns, kv->ops->seq_swap_out(kv, s, is_moving));
}

// SWAP. Reads it back, bit for bit, in the same way. Turns a sequence on its way to the swap round,
// as fxi_kv_swap_out does with one that comes back. No effect on a sequence that is in memory.
static inline fx_status fxi_kv_swap_in(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving)
{
    const uint64_t start_ns = fxi_now_ns();
    return fxi_kv_count(kv, FX_KV_swap_in, start_ns, kv->ops->seq_swap_in(kv, s, is_moving));
}

// SWAP. Bytes that come free if s, which is in memory, is swapped out now: some managers leave
// there what is recorded, the first n_recorded tokens.
static inline uint64_t fxi_kv_swap_gain(const fxi_kv *kv, const fxi_kv_seq *s, int n_recorded)
{
    return kv->ops->swap_gain(kv, s, n_recorded);
}

// Ends the sequence, swapped out or not.
static inline void fxi_kv_release(fxi_kv *kv, fxi_kv_seq *s)
{
    kv->ops->seq_release(kv, s);
}

// Where the rows of s are, group by group; valid until s is extended, swapped out or released. Of
// *out only the groups and devices that there are is written.
static inline void fxi_kv_put_views(const fxi_kv *kv, const fxi_kv_seq *s, fxi_kv_views *out)
{
    kv->ops->seq_views(kv, s, out);
}

// The same; the others are zero.
static inline fxi_kv_views fxi_kv_get_views(const fxi_kv *kv, const fxi_kv_seq *s)
{
    fxi_kv_views v = {0};
    fxi_kv_put_views(kv, s, &v);
    return v;
}

// ---- memory ------------------------------------------------------------------------------------

// Physical bytes that a sequence of len_tok tokens holds when it shares nothing and was created for
// no more. From any thread.
static inline uint64_t fxi_kv_bytes_for(const fxi_kv *kv, int len_tok)
{
    return kv->ops->bytes_for(kv, len_tok);
}

// Most bytes that the sequences hold at once while they grow to end_tok, beyond what they share
// with others: the sum of what is held and what is asked for must fit into usable_bytes. From any
// thread.
static inline uint64_t fxi_kv_cost(const fxi_kv *kv, const fxi_kv_need *need)
{
    return kv->ops->cost(kv, need);
}

// Most bytes that s, which is in memory, takes beyond what it holds until it has end_tok tokens.
static inline uint64_t fxi_kv_growth(const fxi_kv *kv, const fxi_kv_seq *s, int end_tok)
{
    return kv->ops->seq_growth(kv, s, end_tok);
}

// Bytes that sequences hold now: held_bytes of the statistics, at once.
static inline uint64_t fxi_kv_held_bytes(const fxi_kv *kv)
{
    return kv->ops->held(kv);
}

// Mappings of memory that s may soon need, those that it has among them; NULL: a new sequence, from
// any thread. Where the sum over all sequences in memory is at most kv->max_mapping, none of them
// fails for want of one. 0: there is no limit.
static inline uint64_t fxi_kv_mappings(const fxi_kv *kv, const fxi_kv_seq *s)
{
    return kv->max_mapping ? kv->ops->mappings(kv, s) : 0;
}

// New sequences that the limit suffices for; INT_MAX: any number.
static inline int fxi_kv_max_mapped(const fxi_kv *kv)
{
    const uint64_t each = fxi_kv_mappings(kv, NULL), n = each ? kv->max_mapping / each : INT_MAX;
    return n < INT_MAX ? (int)n : INT_MAX;
}

// Call once per step, before the forward pass: in parallel with that pass, memory is made ready for
// sequences with room for fewer than ahead_tok more tokens. now_ms never decreases.
static inline void fxi_kv_step(fxi_kv *kv, int ahead_tok, uint64_t now_ms)
{
    if (kv->ops->step) kv->ops->step(kv, ahead_tok, now_ms);
}

// Sets the clock of fxi_kv_step between steps: before the matches of an iteration.
static inline void fxi_kv_tick(fxi_kv *kv, uint64_t now_ms)
{
    if (kv->ops->tick) kv->ops->tick(kv, now_ms);
}

// ELASTIC. FX_ENOSPACE: sequences hold more than that.
static inline fx_status fxi_kv_set_budget(fxi_kv *kv, uint64_t budget_bytes)
{
    return kv->ops->set_budget(kv, budget_bytes);
}

// ELASTIC. Returns spare memory beyond keep_bytes to the system.
static inline fx_status fxi_kv_trim(fxi_kv *kv, uint64_t keep_bytes)
{
    const uint64_t start_ns = fxi_now_ns();
    return fxi_kv_count(kv, FX_KV_trim, start_ns, kv->ops->trim(kv, keep_bytes));
}

// PREFIX. Evicts every recorded prefix that no sequence uses.
static inline fx_status fxi_kv_forget_idle(fxi_kv *kv)
{
    return kv->ops->forget_idle(kv);
}

// The same three for a caller that must not be kept: each call does a small part, whatever the
// amount, and each fxi_kv_step another, until returning_bytes is 0. A manager that cannot do it in
// parts does all of it at once.

// ELASTIC. The budget holds at once for what is asked of the manager; memory beyond it follows.
// FX_ENOSPACE: sequences hold more than that, and the budget stays; where it was set before, a
// match has put to use what was to go.
static inline fx_status fxi_kv_aim_budget(fxi_kv *kv, uint64_t budget_bytes)
{
    return (kv->ops->aim_budget ? kv->ops->aim_budget : kv->ops->set_budget)(kv, budget_bytes);
}

// Recorded prefixes that no sequence uses, if it forgets, and spare memory beyond keep_bytes. No
// effect where the manager has neither. Errors are those of what it did at once.
static inline fx_status fxi_kv_give_back(fxi_kv *kv, uint64_t keep_bytes, bool forgets)
{
    const uint64_t start_ns = fxi_now_ns();
    fx_status st = FX_OK;
    if (kv->ops->give_back) {
        kv->ops->give_back(kv, keep_bytes, forgets);
    } else {
        if (forgets && fxi_kv_can(kv, FXI_KV_PREFIX)) st = fxi_kv_forget_idle(kv);
        if (st == FX_OK && fxi_kv_can(kv, FXI_KV_ELASTIC)) st = kv->ops->trim(kv, keep_bytes);
    }
    return fxi_kv_count(kv, FX_KV_trim, start_ns, st);
}

static inline void fxi_kv_get_stats(const fxi_kv *kv, fxi_kv_stats *out)
{
    kv->ops->stats(kv, out);
}

static inline void fxi_kv_get_prefix_ages(const fxi_kv *kv, fxi_kv_prefix_ages *out)
{
    *out = (fxi_kv_prefix_ages){0};
    if (kv->ops->prefix_ages) kv->ops->prefix_ages(kv, out);
}

// Fills *to with where everything is now (kv_snapshot.h). All sequences of to->seq are alive.
static inline void fxi_kv_collect(fxi_kv *kv, fxi_kv_snapshot *to)
{
    if (kv->ops->collect) kv->ops->collect(kv, to);
}

// SWAP.
static inline fxi_kv_moved fxi_kv_get_moved(const fxi_kv *kv)
{
    fxi_kv_moved m = {0};
    kv->ops->moved(kv, &m);
    return m;
}

// Calls of the memory below, those of the manager's own thread too.
static inline void fxi_kv_driver_calls(const fxi_kv *kv, fx_op_stats out[FX_N_DRIVER_OP])
{
    for (int i = 0; i < FX_N_DRIVER_OP; i++) out[i] = (fx_op_stats){0};
    if (kv->ops->driver_calls) kv->ops->driver_calls(kv, out);
}

// For tests: proves the manager's invariants. On failure *what is the first one that is broken.
static inline fx_status fxi_kv_check(fxi_kv *kv, const char **what)
{
    return kv->ops->check(kv, what);
}

#endif
