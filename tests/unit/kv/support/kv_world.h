// kv_world.h - a KV manager beside a slow and obvious reference: for each sequence its tokens, from
// which the bytes of every row follow; and all prefixes that were recorded.
//
// A row holds a hash of the tokens up to its own and of its plane. So a row that is shared with the
// wrong sequence, copied, moved, swapped or wiped wrongly is found.
//
//   the manager -> fault backend -> host
//
// Of a cache that several devices share out, each has such a backend, and its part of each row.
#ifndef TESTS_KV_WORLD_H
#define TESTS_KV_WORLD_H

#include "kv/kv.h"
#include "lab/kv_reserve.h" // defines: fxi_lab_manager_name

#include "vmm_fault.h"

enum { KV_WORLD_MAX_SEQ = 8, KV_WORLD_CTX = 300, KV_WORLD_MAX_RECORD = 512, KV_WORLD_N_DOMAIN = 2 };

typedef struct kv_world_seq {
    fxi_kv_seq *kv; // NULL: there is none
    int32_t tok[KV_WORLD_CTX];
    int len_tok;
    int was_tok;    // its length before the last extend
    int dirty_tok;  // rows before it may have been truncated
    int shared_tok; // rows before it may be those of others, too
    bool is_out;    // in the swap, or on its way there or back
    bool is_moving; // on its way, as far as is known
} kv_world_seq;

typedef struct kv_world_record {
    int domain, n_tok;
    int32_t tok[KV_WORLD_CTX];
} kv_world_record;

typedef struct kv_world {
    fxi_kv *kv;
    vt_vmm *fault; // the manager's, or that of device kv_world_faulty_rank
    fxi_kv_layout layout;
    fxi_kv_domain *domain[KV_WORLD_N_DOMAIN]; // NULL without PREFIX
    kv_world_seq seq[KV_WORLD_MAX_SEQ];
    kv_world_record record[KV_WORLD_MAX_RECORD];
    int n_record;
    uint64_t now_ms; // of the last step
    bool is_lossy;   // what was recorded may have been evicted
    bool is_single;  // the manager has no thread
} kv_world;

// Planes of one kind; with `windows` others, of which a token reads the last 40 rows.
fxi_kv_shape kv_world_shape(uint64_t budget_bytes, bool windows);

// Adds planes of states; kv_world_open leaves them out for managers that keep none.
void kv_world_add_states(fxi_kv_shape *shape);

// Granularity of the memory of managers that are opened; 0, and at first: the host's.
extern size_t kv_world_page_bytes;

// Devices that share out the caches of managers that are opened; 0, and at first: one has all. The
// fault backend of one of them is the world's.
extern int kv_world_n_rank, kv_world_faulty_rank;

// fxi_kv_open for any manager of fxi_lab_manager_name.
fx_status kv_world_open_kv(const char *manager, const fxi_kv_shape *shape, fxi_kv **out,
                           fx_error *err);

bool kv_world_can(const char *manager, fxi_kv_cap cap);

// Opens the manager; errors end the test.
void kv_world_open(kv_world *w, const char *manager, const fxi_kv_shape *shape);
void kv_world_close(kv_world *w); // and nothing is left in the system

// The calls. What succeeds is done to the reference, too, and new rows are written. On an error the
// reference stays, so that kv_world_verify finds what the manager has changed.
fx_status kv_world_create(kv_world *w, int i, const fxi_kv_expect *expect);
fx_status kv_world_match(kv_world *w, int i, int domain, const int32_t *tok, int n_tok, int *n_hit);
fx_status kv_world_extend(kv_world *w, int i, int len_tok, const int32_t *tok); // tok: of all
// Sequence which[k] grows to len_tok[k] tokens, tok[k]; those before the first that fails have
// grown.
fx_status kv_world_extend_many(kv_world *w, const int *which, const int *len_tok,
                               const int32_t *const *tok, int n);
fx_status kv_world_truncate(kv_world *w, int i, int len_tok);
fx_status kv_world_fork(kv_world *w, int from, int to, int len_tok);
fx_status kv_world_record_seq(kv_world *w, int i, int domain, int n_tok);
void kv_world_step(kv_world *w, int ahead_tok, uint64_t now_ms);
// One call, after which the sequence may be on its way. On an error on the way it counts as out,
// until a swap_in has succeeded.
fx_status kv_world_swap_ask(kv_world *w, int i, bool out);
// Until it has arrived.
fx_status kv_world_swap_out(kv_world *w, int i);
fx_status kv_world_swap_in(kv_world *w, int i);
void kv_world_release(kv_world *w, int i);
fx_status kv_world_forget(kv_world *w);

// Length of the longest prefix ever recorded, and not forgotten since.
int kv_world_longest(const kv_world *w, int domain, const int32_t *tok, int n_tok);

// Every row of every sequence in memory; the sums of the statistics; fxi_kv_check; the snapshot
// (kv_look.h).
void kv_world_verify(kv_world *w);

#endif
