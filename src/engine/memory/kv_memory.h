// kv_memory.h - the caches of sequences: memory to grow, the budget, preemption, the prefix cache.
//
// Engine thread, except where it says otherwise.
#ifndef FXI_ENGINE_KV_MEMORY_H
#define FXI_ENGINE_KV_MEMORY_H

#include "engine/record/record.h"
#include "engine/sched/sched.h"

typedef struct fxi_memory {
    fxi_kv *kv;
    fxi_sched *sched;
    const fxi_journal *journal;
    fxi_statistics *stats;
    const fxi_service *service; // budget_bytes: as requested last
    uint64_t swap_bytes;        // limit of the swap
    // budget.c
    uint64_t effective_bytes; // the budget in effect
    bool budget_waits;        // a smaller one waits for memory on its way: nothing is admitted
    bool budget_follows;      // it is in effect, and memory beyond it is still being returned
    bool is_forgetting;       // kv_alloc.c: a request starts again once all prefixes are forgotten
    uint64_t returning_bytes; // being returned to the system, after the last iteration
    bool is_foreign;          // for tests: it is not the machine's memory
    bool is_in_cgroup;        // memory of the host, in a cache whose budget can change
    const char *root;         // for tests: a folder with the system's files; "": "/"
    uint64_t limit_bytes;     // the most that memory cgroups leave for it
    uint64_t limit_look_ms;   // when that was looked up
    bool limit_is_near;       // half of the reserve is gone: memory is returned at once
    // preempt.c
    double us_per_tok;       // measured time of a prompt token; 0: not yet
    double swap_us_per_byte; // measured, of the copies, one way
    fxi_kv_moved measured;   // the copies that swap_us_per_byte has seen
    double copy_share;       // share of the passes' time that a copy takes from running sequences
} fxi_memory;

// An event of the cache of s, with n_tok tokens.
fx_record fxi_memory_event(int kind, const fxi_seq *s, int n_tok);
// Notes it as a call of the KV manager, which has just returned st.
void fxi_memory_note_call(const fxi_memory *m, int kind, const fxi_seq *s, int n_tok, fx_status st);

// ---- kv_alloc.c --------------------------------------------------------------------------------

enum { FXI_ALLOC_BATCH = 64 };

// Extends the cache of s for n_tok more tokens and sets s->n_planned. If memory is short, the
// manager evicts idle prefixes, then the requests served last are preempted. False: the request of
// s itself was preempted, or its failure is decided, or the memory is on its way (s waits for a
// later pass).
bool fxi_alloc_tokens(fxi_memory *m, fxi_seq *s, int n_tok);
// The same for n_tok[i] more tokens of each of n sequences, in order, as far as memory is at hand:
// nothing is preempted. n_tok NULL: one more of each. Returns how many have it. n <=
// FXI_ALLOC_BATCH.
int fxi_alloc_each(fxi_memory *m, fxi_seq *const *s, const int *n_tok, int n);
// Extends the caches of n planned sequences by n_more[i] drafted tokens, as far as memory is at
// hand; nothing is preempted. Returns how many were extended, the first ones; n_planned stays. If a
// cache is lost on the way, the failure of its request is decided, and none of the request's
// sequences is planned any more: n_planned is 0. n <= FXI_ALLOC_BATCH.
int fxi_alloc_drafts(fxi_memory *m, fxi_seq *const *s, const int *n_more, int n);
// Call when no token could be planned although requests run, because each waits for memory that the
// others hold. Preempts one. False: memory is on its way, or the only running request cannot
// continue; its failure is decided.
bool fxi_alloc_unblock(fxi_memory *m);

// ---- budget.c ----------------------------------------------------------------------------------

int fxi_budget_least_tok(const fxi_service *sv);        // tokens that any budget must hold
uint64_t fxi_budget_least_bytes(const fxi_service *sv); // and the memory that they need
// FX_EINVAL: `bytes` hold fewer, or are more than the machine has, or the manager cannot change its
// budget. From any thread.
fx_status fxi_budget_check(const fxi_memory *m, uint64_t bytes, fx_error *err);
// FX_EINVAL: more than the machine has. From any thread.
fx_status fxi_budget_check_machine(const fxi_memory *m, uint64_t bytes, fx_error *err);
// The budget that should be in effect: the one requested, or what the system leaves for it.
uint64_t fxi_budget_wanted(const fxi_memory *m);
// Puts that into effect, preempting requests if necessary. If that is not possible yet, the next
// iteration tries again; if only because memory is on its way, m->budget_waits.
void fxi_budget_apply(fxi_memory *m);
// Call once in an iteration. Looks, a few times a second at most, at what the memory cgroups leave.
void fxi_limit_look(fxi_memory *m);
// After how long an idle engine should look again, in ms; 0: never.
int fxi_limit_wait_ms(const fxi_memory *m);

// ---- preempt.c ---------------------------------------------------------------------------------

typedef enum fxi_preempt_how { FXI_PREEMPT_CHEAPER, FXI_RECOMPUTE, FXI_SWAP } fxi_preempt_how;

// Takes a request that is RUNNING or SWAPPING_IN out of memory and back to the waiting list. Its
// memory is free at once, or while it is SWAPPING_OUT.
void fxi_preempt_request(fxi_memory *m, fxi_live_request *r, fxi_preempt_how how);
// The same with the request that is served last. If it is the only one and may not be taken, the
// swapped request served last loses what it shares. False: there is none.
bool fxi_preempt_last(fxi_memory *m, bool may_be_only);
// Begins, or continues, to read a swapped request's caches back: it is SWAPPING_IN, or RUNNING
// already. On FX_ENOSPACE while other requests run it stays in the swap. On any other error, or if
// no request runs, it loses its caches and is WAITING.
void fxi_preempt_swap_in(fxi_memory *m, fxi_live_request *r);
// Call once in an iteration: swaps continue, and requests that have arrived are SWAPPED or RUNNING;
// after a failure as above.
void fxi_preempt_continue(fxi_memory *m);
// Call when memory is short. Of the requests that have been SWAPPING_OUT for longer than their
// tokens take to compute, the one served last loses its caches. False: there is none.
bool fxi_preempt_drop_late(fxi_memory *m);
// The swapped request served last loses its caches, which frees what they shared in memory. False:
// no request is swapped.
bool fxi_preempt_drop_swapped(fxi_memory *m);
// Call when memory is short: drops a late request, or else preempts the last one, unless another is
// SWAPPING_OUT, since what that frees may suffice. False: nothing was freed.
bool fxi_preempt_free(fxi_memory *m, bool may_be_only);
uint64_t fxi_preempt_bytes(const fxi_memory *m,
                           const fxi_live_request *r); // of its caches, in the swap
// Updates the measured rate of prompts with the time of a pass.
void fxi_preempt_measure(fxi_memory *m, int n_prompt_tok, int n_tok, uint64_t us);

// ---- prefix_cache.c ----------------------------------------------------------------------------

// Of its tenant, until the request ends; no effect with no_cache.
fx_status fxi_cache_open_domain(fxi_memory *m, fxi_live_request *r);
// Tokens of s that are in the prefix cache and may come from there.
int fxi_cache_hit(const fxi_memory *m, const fxi_seq *s);
// The most that may come from there: the last token is computed for its logits, a prompt from where
// its probabilities are still to be emitted, and a text from where its rows are still to be pooled.
int fxi_cache_max_hit(const fxi_seq *s);
// Gives s a cache that begins with its longest recorded prefix. On error it has none.
fx_status fxi_cache_match(fxi_memory *m, fxi_seq *s);
// Forgets every recorded prefix that no sequence uses; their memory is spare. False: later
// iterations continue with it, while m->returning_bytes is not 0.
bool fxi_cache_forget_idle(fxi_memory *m);
fxi_kv_expect fxi_cache_expect(const fxi_seq *s); // what is known about its length
// Call after a pass that computed tokens of s: records its prompt as far as it is computed.
void fxi_cache_record_progress(fxi_memory *m, fxi_seq *s);
void fxi_cache_record_all(fxi_memory *m, fxi_seq *s); // all computed tokens
// Removes rows after those that are computed. If that fails, s is computed again.
void fxi_cache_cut(fxi_memory *m, fxi_seq *s);
void fxi_cache_release(fxi_memory *m, fxi_seq *s);              // no effect if it has no cache
void fxi_cache_release_all(fxi_memory *m, fxi_live_request *r); // of all its sequences

#endif
