// group.h - groups and sequences: the requests of an engine as data.
//
// A GROUP is one request. It runs SEQUENCES: its choices, emitted or not, or its beams. Sequence 0
// computes the prompt; the others are forked from it afterwards. A group is admitted, preempted and
// ended as a whole; fxi_lists_move (lists.c) changes its state:
//
//               collected            admitted                    last sequence ended
//   NEW (inbox) ---------> WAITING ------------> RUNNING ------------------------------> ENDED
//                           ^  ^                |  |   ^
//                           |  +-- recompute ---+  |   |  caches recorded and released; matched
//                           |                      |   |  later, and the rest computed again
//                           |        LEAVING <-----+   |  caches on their way to the swap
//                           |         |   ^            |
//                           |         v   |            |
//                        SWAPPED --> COMING -----------+  and back
//
// A WAITING group is JOINING, and not in line, while it waits for a prefix that another one
// computes. From LEAVING, SWAPPED and COMING a failure leads to WAITING, like recompute.
//
// A sequence is UNBORN until it is forked, LIVE while tokens are added to it, DONE when it has
// ended. In a running group, a LIVE sequence without a cache (`kv` NULL) waits to be matched.
//
// Ownership and threads: the submitting thread makes a group and hands it over through the inbox;
// from then on it belongs to the engine thread, which frees it after its last event.
#ifndef FXI_ENGINE_GROUP_H
#define FXI_ENGINE_GROUP_H

#include "base/fail.h"
#include "base/keyed/treap.h"
#include "engine/draft/draft.h"
#include "engine/grammar/answer_grammar.h"
#include "engine/group/text.h"
#include "engine/sampling/prob_log.h"
#include "engine/sampling/sampler.h"
#include "flexinfer/flexinfer.h"
#include "kv/kv.h"
#include "model/model.h"

#include <stdatomic.h>

typedef struct fxi_group fxi_group;

typedef enum fxi_seq_state { FXI_SEQ_UNBORN, FXI_SEQ_LIVE, FXI_SEQ_DONE } fxi_seq_state;

typedef struct fxi_seq {
    // Together, since a turn reads them of all sequences, which no cache of a core holds.
    fxi_group *group;
    int choice;
    fxi_seq_state state;
    fx_finish finish; // FX_FINISH_NONE until its end is decided; the turn acts on it
    int n_tok, cap_tok;
    int32_t *tok;     // [cap_tok] prompt, then answer
    fxi_kv_seq *kv;   // while LIVE in a group that runs or is swapped, or between
    int n_computed;   // tokens whose keys and values are in the cache; < n_tok while it runs
    int n_step;       // tokens of this sequence in the step being planned; 0: none
    int n_draft;      // of n_step: tokens of `draft`, behind the known ones
    int n_recorded;   // tokens of it that are known to be in the prefix cache
    fxi_draft *draft; // NULL: it has not drafted
    float *embd;      // [dim] of FX_TASK_EMBED: what its tokens' rows are pooled to
    bool is_filling;  // it still computes tokens that were known when it was matched
    bool is_late;     // it could not draw: what its grammar allows next was not known yet
    bool is_held;     // it sits out the step for that
    // the others
    fxi_treap_node fill_at; // eng->filling, while that and its group runs, unless no_cache
    int n_prompt_emitted;   // with prompt_logprobs: prompt tokens whose probabilities were emitted
    struct fxi_join {       // the sequence whose prefix it waits for
        uint64_t group_id;  // 0: it does not wait
        int choice, n_tok;
    } join;
    fxi_text text;
    fxi_match_state place; // of the answer in req.grammar
    double sum_logprob;    // of the answer, if choices are ranked by it
    double beam_sum;       // of a beam: sum of logprobs, after the rules
    fxi_prob_log prob;     // of the answer, if it is emitted later
    bool pools_all;        // the rows of all its tokens are needed, not only the last one's
    int n_pooled;          // tokens whose rows are in it
    int n_embd;            // numbers of it that are emitted, once it has ended
    uint64_t last_us;      // when its last token was drawn; 0: none yet
    int stop_token, stop_string;
    const char *error;      // with FX_FINISH_ERROR: a static line,
    fx_status error_status; // and FX_EINVAL if the request is at fault
} fxi_seq;

typedef enum fxi_group_state {
    FXI_NEW,
    FXI_WAITING,
    FXI_JOINING,
    FXI_LEAVING,
    FXI_SWAPPED,
    FXI_COMING,
    FXI_RUNNING,
    FXI_ENDED,
    FXI_N_STATE
} fxi_group_state;

// What a JOINING group waits for: the first n_tok tokens of a sequence in the prefix cache.
typedef struct fxi_wait {
    fxi_treap_node at; // eng->joining
    uint64_t group_id; // of that sequence; 0: it need not wait any longer
    int choice, n_tok;
} fxi_wait;

// A number that requests came with (fx_request.client). clients.c
typedef struct fxi_client {
    uint64_t number;
    fxi_treap_node known_at; // guarded by mu, with:
    fxi_treap_node idle_at;  // where it has no group
    int n_group;             // of its groups, those that are not freed yet
    int n_queued;            // sequences of it in the inbox or waiting
    int64_t n_queued_tok;    // their prompt tokens, each prompt once
    // engine thread
    int n_collected; // groups out of the inbox
    uint64_t served; // what it has got, in parts of tokens of prompts
    int n_waiting;   // groups that wait
    fxi_treap line;  // those of them that are in eng->waiting, by priority and order
} fxi_client;

struct fxi_group {
    uint64_t id;
    fx_request req; // its pointers are to copies that the group owns
    int32_t *end;   // [n_end] tokens that end an answer: no rule may draw them before min_tok
    int n_end;
    fxi_stops stops;        // over req.stop
    int max_tok;            // clamped to the context
    fxi_decoder begins;     // decoder state where an answer begins; holds no bytes
    bool is_hidden;         // nothing is emitted before all sequences have ended: n_best, beams
    uint64_t submit_us;     // fx_submit,
    uint64_t admit_us;      // its first admission,
    uint64_t first_us;      // and its first token; 0: not yet
    int64_t order_ms;       // arrival minus the worth of its priority; the lowest goes first. Less
                            // once it has passed others of its priority (waiting.c)
    fxi_client *client;     // until it is posted, its own
    fxi_treap_node line_at; // in the line of its client,
    fxi_treap_node turn_at; // and among the first ones of the clients that wait with its priority,
    uint64_t turn_served;   // by this, its client's `served` or less
    fxi_kv_domain *domain;  // of its tenant, from its first admission on; NULL with no_cache
    bool is_counted;        // it has been admitted: n_cached is known
    int n_cached;           // prompt tokens found in the cache at the first admission
    int again_tok;          // tokens it had when it last restarted to free memory; 0: never
    int fork_fail_tok;      // tokens of its longest sequence when a fork last failed
    int n_fork_fail;        // forks that failed since it last grew
    int n_fork_fail_alone;  // part of them that failed while no other group ran
    int hit_tok;            // admit.c: tokens of it in the prefix cache, as looked up last
    uint64_t hit_until;     // and up to which turn that holds
    int n_passed;           // others of its client that were tried first, since more was cached
    uint64_t tried_at;      // eng->n_freed when it last found no room; 0: never
    uint64_t moving_since_us; // LEAVING, COMING
    int n_left;               // choices whose end has not been emitted
    fxi_treap_node list_at;
    fxi_wait wait;
    _Atomic uint64_t stopped; // choices that fx_stop_choice ends, as bits
    fxi_group *next_inbox;    // guarded by mu
    fxi_treap_node live_at;   // guarded by mu
    // Together, as in fxi_seq.
    fxi_group *prev, *next; // in the list that its state belongs to
    struct fxi_beam *beam;  // beam.h; NULL: no beam search
    fxi_group_state state;  // lists.c
    int n_seq;              // sequences: choices to compute, or beams
    bool is_whole;          // its prompt is computed in one step: a token sees all of them
    atomic_bool cancelled;
    fxi_seq seq[]; // [n_seq]
};

// Groups in the order in which they are served: by order_ms, ties by id.
typedef struct fxi_group_list {
    fxi_group *head, *tail;
    fxi_treap at;  // finds a new group's place
    int n_seq;     // of all its groups
    int n_grammar; // its groups whose answers follow one
} fxi_group_list;

// Whether a is served before b.
static inline bool fxi_group_goes_before(const fxi_group *a, const fxi_group *b)
{
    return a->order_ms < b->order_ms || (a->order_ms == b->order_ms && a->id < b->id);
}

// ---- request_check.c: any thread ---------------------------------------------------------------

// Refuses a request that could never be served. Errors: FX_EINVAL, FX_ECONTEXT, FX_ENOSPACE, as in
// fx_submit.
fx_status fxi_request_check(const fx_engine *eng, const fx_request *req, fx_error *err);
// The request without the fields that its task does not read.
fx_request fxi_request_clean(const fx_request *req);
int fxi_request_n_seq(const fx_request *req);
// Most sequences of it that have caches together, at prompt + max_tok tokens each: all, but choices
// of a manager without forks, which share nothing, only as many as the budget holds; at least 1.
// The others are computed after them. From any thread.
int fxi_request_at_once(const fx_engine *eng, const fx_request *req, int max_tok);
// KV memory without which it cannot be served, at prompt + max_tok tokens for each sequence.
uint64_t fxi_request_bytes(const fx_engine *eng, const fx_request *req, int max_tok);
// Of one sequence of n_tok tokens, alone. From any thread.
uint64_t fxi_request_alone_bytes(const fx_engine *eng, int n_tok);
// The longest sequence, up to the context, that a budget holds when it is alone. From any thread.
int fxi_request_longest_tok(const fx_engine *eng, uint64_t budget_bytes);
// Its max_tok, clamped to the context; if it has none, the largest that the budget holds.
int fxi_request_max_tok(const fx_engine *eng, const fx_request *req);

// ---- hold.c: engine thread ---------------------------------------------------------------------

void fxi_hold_begin(fx_engine *eng);   // before a step is planned
void fxi_hold_running(fx_engine *eng); // decides which running sequences sit it out: is_held
// Whether s, all of whose tokens are computed, cannot draw the next one: s->is_late.
bool fxi_hold_draw(fx_engine *eng, fxi_seq *s);

// ---- seq.c -------------------------------------------------------------------------------------

bool fxi_seq_goes_before(const fxi_treap_node *a, const fxi_treap_node *b); // of eng->filling
bool fxi_seq_reserve(fxi_seq *s, int n_tok); // room for n_tok tokens; false: no memory
// Makes an empty `to` the same sequence as `from`, without its cache. False: no memory; then `to`
// must be cleared.
bool fxi_seq_copy(fxi_seq *to, const fxi_seq *from);
// Call when s->is_filling or the state of its group has changed.
void fxi_seq_list_filling(fx_engine *eng, fxi_seq *s);
bool fxi_seq_waits_before(const fxi_treap_node *a, const fxi_treap_node *b); // of eng->joining
// The groups that wait for the first n_tok tokens of s, or for fewer, need not wait any longer.
void fxi_seq_let_go(fx_engine *eng, const fxi_seq *s, int n_tok);
void fxi_seq_clear(fxi_seq *s); // frees what it owns, except its cache; it is UNBORN again
int fxi_seq_n_generated(const fxi_seq *s);
// Follows the grammar of its request up to its last token: s->place. mask: NULL, or what may come
// next, see fxi_gram_matcher_mask. False: it cannot be followed any further, *error says why, a
// static line.
bool fxi_seq_follow(fxi_seq *s, uint64_t *mask, const char **error);
// Whether what comes next in the grammar is known, or was found out at the expense of *left
// (fxi_gram_matcher_prepare). If not, the grammar's worker finds it out.
bool fxi_seq_may_draw(fxi_seq *s, size_t *left);
// What a draw behind its last token is to see of it, but for what its grammar allows.
fxi_sample_view fxi_seq_view(const fxi_seq *s);
// What its grammar, if it has one, allows next, ends of the answer among them: allowed[n_vocab / 64
// + 1]. False: as in fxi_seq_follow.
bool fxi_seq_allowed(const fx_engine *eng, fxi_seq *s, uint64_t *allowed, const char **error);
// The tokens that the grammar forces next, up to max_tok; 0: there is a choice, or the request's
// other rules may forbid them. Failures show when it is followed.
int fxi_seq_forced(fxi_seq *s, int32_t *out, int max_tok);
// Decide its end; `error` is a static line. Refuse: the request itself is at fault.
void fxi_seq_fail(fxi_seq *s, const char *error);
void fxi_seq_refuse(fxi_seq *s, const char *error);
bool fxi_seq_ended_well(const fxi_seq *s);

// Its group runs, it is LIVE and has a cache, and its end is not decided.
static inline bool fxi_seq_may_compute(const fxi_seq *s)
{
    return s->group->state == FXI_RUNNING && s->state == FXI_SEQ_LIVE && s->kv &&
           s->finish == FX_FINISH_NONE;
}

// Known tokens that are not computed yet.
static inline int fxi_seq_n_left(const fxi_seq *s)
{
    return s->n_tok - s->n_computed;
}

static inline bool fxi_group_embeds(const fxi_group *g)
{
    return g->req.task == FX_TASK_EMBED;
}

// Whether probabilities of its prompt are still to be emitted.
static inline bool fxi_seq_emits_prompt(const fxi_seq *s)
{
    return s->group->req.prompt_logprobs && s->n_prompt_emitted < (int)s->group->req.n_prompt;
}

// ---- group.c -----------------------------------------------------------------------------------

// Copies a checked request that arrived at now_ms. Error: FX_ENOMEM.
fx_status fxi_group_make(const fx_engine *eng, const fx_request *req, uint64_t now_ms,
                         fxi_group **out, fx_error *err);
void fxi_group_free(fxi_group *g);
// Decides the end of every sequence whose end is not decided yet.
void fxi_group_finish(fxi_group *g, fx_finish why);
// With FX_FINISH_ERROR; `error` is a static line. Refuse: FX_EINVAL, the request itself is at
// fault; FX_ENOSPACE, the budget has become too small for it.
void fxi_group_fail(fxi_group *g, const char *error);
void fxi_group_refuse(fxi_group *g, fx_status status, const char *error);
void fxi_group_finish_cancelled(fxi_group *g); // with FX_FINISH_CANCEL, if it was cancelled
int fxi_group_n_live(const fxi_group *g);
bool fxi_group_is_done(const fxi_group *g); // all sequences are DONE

// ---- embedding.c -------------------------------------------------------------------------------

// Rows of s that are needed of the step being planned: of its last tokens.
int fxi_embedding_n_row(const fxi_seq *s, const fxi_model_shape *shape);
// Pools these rows, once s->n_computed has grown by the step.
void fxi_embedding_add(fxi_seq *s, const fxi_model_shape *shape, const float *rows, int n_row);
// All tokens are pooled: completes the vector and decides the end of s.
void fxi_embedding_end(fxi_seq *s, const fxi_model_shape *shape);

// ---- lists.c -----------------------------------------------------------------------------------

void fxi_lists_init(fx_engine *eng, uint64_t seed); // the empty lists of a zeroed engine
// Changes the state of a group, and with it its list and every counter of the engine that depends
// on states: n_swapped, and under the lock n_queued and n_queued_tok.
void fxi_lists_move(fx_engine *eng, fxi_group *g, fxi_group_state to);
// Counts a NEW group as queued; the caller holds the lock. From any thread.
void fxi_lists_queue_locked(fx_engine *eng, const fxi_group *g);
// A JOINING group that need not wait any longer; NULL: there is none.
fxi_group *fxi_lists_let_go(const fx_engine *eng);
// The group with this id that is not freed yet; NULL: there is none. The caller holds the lock.
fxi_group *fxi_lists_find_locked(const fx_engine *eng, uint64_t id);
// Moves g, which is in line, right in front of `before`, which is, too.
void fxi_lists_advance(fx_engine *eng, fxi_group *g, const fxi_group *before);

// ---- clients.c: ..._locked: the caller holds the lock ------------------------------------------

void fxi_clients_init(fx_engine *eng, uint64_t seed);                       // of a zeroed engine
fxi_client *fxi_clients_make(uint64_t number, uint64_t seed);               // NULL: no memory
fxi_client *fxi_clients_find_locked(const fx_engine *eng, uint64_t number); // NULL: it is not known
void fxi_clients_enter_locked(fx_engine *eng, fxi_group *g); // a NEW group; from any thread
void fxi_clients_leave_locked(fx_engine *eng, fxi_group *g); // g is about to be freed
void fxi_clients_collect(fx_engine *eng, fxi_group *g);      // g is out of the inbox
void fxi_clients_free(fx_engine *eng);                       // all; no group is left

void fxi_clients_serve_prompt(fx_engine *eng, fxi_client *c, int n_tok); // tokens to be computed
void fxi_clients_serve_tokens(fx_engine *eng, fxi_client *c, int n_tok); // generated

void fxi_clients_line_up(fx_engine *eng, fxi_group *g);  // g gets into eng->waiting
void fxi_clients_step_out(fx_engine *eng, fxi_group *g); // g leaves it
fxi_group *fxi_clients_behind(const fxi_group *g);       // in line, of one client and priority
// The first one in line of the least served client of those that wait with this priority. NULL:
// nobody does.
fxi_group *fxi_clients_least(fx_engine *eng, int priority);

// ---- waiting.c ---------------------------------------------------------------------------------

// Whose turn it is: the first group in line of the client that is to be served next. NULL: nobody
// is in line.
fxi_group *fxi_waiting_first(fx_engine *eng);
// g, of the client whose turn it is, is tried next: it passes those before it, and keeps the place.
void fxi_waiting_pick(fx_engine *eng, fxi_group *g);

#endif
