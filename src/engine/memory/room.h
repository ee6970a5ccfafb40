// room.h - the caches of sequences: room to grow, the budget, preemption, the prefix cache.
#ifndef FXI_ENGINE_ROOM_H
#define FXI_ENGINE_ROOM_H

#include "engine/engine.h"

// ---- room.c -------------------------------------------------------------------------------------

enum { FXI_ROOM_AT_ONCE = 64 };

// Extends the cache of s for n_step more tokens and sets s->n_step. If memory is short, the manager
// evicts idle prefixes, then the groups served last are preempted. False: the group of s itself was
// preempted, or its failure is decided, or the memory is on its way (s waits for a later step).
bool fxi_room_grow(fx_engine *eng, fxi_seq *s, int n_step);
// The same for one more token of each of n sequences, in order, as far as memory is at hand:
// nothing is preempted. Returns how many have it. n <= FXI_ROOM_AT_ONCE.
int fxi_room_grow_many(fx_engine *eng, fxi_seq *const *s, int n);
// The same for n_step[i] more tokens.
int fxi_room_grow_each(fx_engine *eng, fxi_seq *const *s, const int *n_step, int n);
// Extends the caches of n planned sequences by n_more[i] tokens that may turn out to be of no use:
// as far as memory is at hand, and nothing is preempted. Returns how many were extended, the first
// ones; n_step stays. If a cache is lost on the way, the failure of its group is decided, and none
// of the group's sequences is planned any more: n_step is 0. n <= FXI_ROOM_AT_ONCE.
int fxi_room_try_many(fx_engine *eng, fxi_seq *const *s, const int *n_more, int n);
// Call when no token could be planned although groups run, because each waits for memory that the
// others hold. Preempts one. False: memory is on its way, or the only running group cannot go on;
// its failure is decided.
bool fxi_room_unblock(fx_engine *eng);

// ---- budget.c ----------------------------------------------------------------------------------

int fxi_budget_least_tok(const fx_engine *eng);        // tokens that any budget must hold
uint64_t fxi_budget_least_bytes(const fx_engine *eng); // and the memory that they need
// FX_EINVAL: `bytes` hold fewer, or are more than the machine has, or the manager cannot change its
// budget. From any thread.
fx_status fxi_budget_check(const fx_engine *eng, uint64_t bytes, fx_error *err);
// FX_EINVAL: more than the machine has. From any thread.
fx_status fxi_budget_check_machine(const fx_engine *eng, uint64_t bytes, fx_error *err);
// What is to be in effect: the budget requested, or what the system leaves for it.
uint64_t fxi_budget_wanted(const fx_engine *eng);
// Puts that into effect, preempting groups if necessary. If that is not possible yet, the next turn
// tries again; if only because memory is on its way, eng->budget_waits.
void fxi_budget_apply(fx_engine *eng);

// ---- limit.c -----------------------------------------------------------------------------------

// Call once in a turn. Looks, some times a second at most, at what the memory cgroups leave.
void fxi_limit_look(fx_engine *eng);
// After how long an idle engine is to look again, in ms; 0: never.
int fxi_limit_wait_ms(const fx_engine *eng);

// ---- preempt.c ---------------------------------------------------------------------------------

typedef enum fxi_preempt_how { FXI_PREEMPT_CHEAPER, FXI_RECOMPUTE, FXI_SWAP } fxi_preempt_how;

// Takes a group that runs, or is coming, out of memory and back to the waiting list. Its memory is
// free at once, or while it is LEAVING.
void fxi_preempt_group(fx_engine *eng, fxi_group *g, fxi_preempt_how how);
// The same with the group that is served last. If it is the only one and may not be taken, the
// swapped group served last loses what it shares. False: there is none.
bool fxi_preempt_last(fx_engine *eng, bool may_be_only);
// Begins to bring a swapped group's caches back: it is COMING, or RUNNING already. On FX_ENOSPACE
// while other groups run it stays in the swap. On any other error, or if no group runs, it loses
// its caches and is WAITING.
void fxi_preempt_swap_in(fx_engine *eng, fxi_group *g);
// Call once in a turn: groups on their way go on, and those that have arrived are SWAPPED or
// RUNNING; after a failure as above.
void fxi_preempt_go_on(fx_engine *eng);
// Call when memory is short. Of the groups that have been leaving for longer than their tokens take
// to compute, the one served last loses its caches. False: there is none.
bool fxi_preempt_drop_late(fx_engine *eng);
// The swapped group served last loses its caches, which frees what they shared in memory. False: no
// group is swapped.
bool fxi_preempt_drop_swapped(fx_engine *eng);
uint64_t fxi_preempt_bytes(const fx_engine *eng, const fxi_group *g); // of its caches, in the swap
// Updates the measured rate of prompts with the time of a step.
void fxi_preempt_measure(fx_engine *eng, int n_prompt_tok, int n_tok, uint64_t us);

// ---- cache.c -----------------------------------------------------------------------------------

fx_status fxi_cache_open_domain(fx_engine *eng, fxi_group *g); // no effect with no_cache
void fxi_cache_close_domain(fx_engine *eng, fxi_group *g);
// Tokens of s that are in the prefix cache and may come from there.
int fxi_cache_hit(const fx_engine *eng, const fxi_seq *s);
// The most that may come from there: the last token is computed for its logits, a prompt from where
// its probabilities are still to be emitted, and a text from where its rows are still to be pooled.
int fxi_cache_max_hit(const fxi_seq *s);
// Gives s a cache that begins with its longest recorded prefix. On error it has none.
fx_status fxi_cache_match(fx_engine *eng, fxi_seq *s);
// Every recorded prefix that no sequence uses; their memory is spare. False: the steps go on with
// it, while eng->returning_bytes is not 0.
bool fxi_cache_forget_idle(fx_engine *eng);
// What is known about the length of s.
fxi_kv_expect fxi_cache_expect(const fxi_seq *s);
// Call after a step that computed tokens of s: records its prompt as far as it is computed.
void fxi_cache_record_progress(fx_engine *eng, fxi_seq *s);
void fxi_cache_record_all(fx_engine *eng, fxi_seq *s); // all computed tokens
// Removes rows behind those that are computed. Whatever fails, s is computed again.
void fxi_cache_cut(fx_engine *eng, fxi_seq *s);
void fxi_cache_release(fx_engine *eng, fxi_seq *s);       // no effect if it has no cache
void fxi_cache_release_all(fx_engine *eng, fxi_group *g); // of all its sequences

#endif
