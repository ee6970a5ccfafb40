// request.h - requests and their sequences as data: text, states, beams.
#ifndef FXI_ENGINE_REQUEST_H
#define FXI_ENGINE_REQUEST_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "base/fail.h"
#include "base/keyed/treap.h"
#include "base/text/buf.h"
#include "engine/grammar/grammars.h"
#include "engine/sampling/sampler.h"
#include "flexinfer/flexinfer.h"
#include "format/vocab.h"
#include "kv/kv.h"
#include "model/model.h"

// ---- text that may be shown ---------------------------------------------------------------------

// From the bytes of tokens to text that may be shown: whole characters, and no part of a stop
// string.
//
//   token bytes --(decoder)--> clean: whole characters --(no stop string may begin here)--> shown
//
// The caller shows the first `show` bytes of `clean` and drops them. The decoder holds the bytes of
// a character that is split between tokens; `clean` keeps a tail that may begin a stop string.

// A stop string, searched for with the algorithm of Knuth, Morris and Pratt (1977): a byte of text
// costs the same however long the string is.
typedef struct fxi_stop {
    const char *text; // the request's
    size_t n_bytes;   // > 0
    uint32_t *border; // [n_bytes + 1] the longest proper suffix of the first k bytes that is also
                      // their prefix
} fxi_stop;

typedef struct fxi_stops { // all zero: none; constant once made
    fxi_stop *stop;
    size_t n;
} fxi_stops;

// Advances *matched over bytes[0..n). True: the stop string ends in them.
bool fxi_stop_match(const fxi_stop *s, uint32_t *matched, const char *bytes, size_t n);
// text[n] are not empty, of less than 2 GiB each, and must outlive *out. False: no memory; free
// *out in either case.
bool fxi_stops_make(fxi_stops *out, const char *const *text, size_t n);
void fxi_stops_free(fxi_stops *s);

typedef struct fxi_text {
    fxi_decoder bytes; // joins bytes into whole characters
    fxi_buf clean;     // valid UTF-8 that is not shown yet
    bool include_stop; // the stop string is shown too
    bool stopped;      // a stop string was found: `clean` ends before it, or after it
    int stop_string;   // its index
    bool show_control; // control tokens are text, as they are spelled
    size_t n_char;     // characters that have gone into `clean`
    size_t token_at;   // the same before the token that was added last
    uint32_t *matched; // [n_stop] bytes at the end of the text that begin this stop string; NULL:
                       // none has been looked for
    size_t n_stop;
} fxi_text;

// The bytes that this token adds as the next one, for fxi_text_add.
const char *fxi_text_token(fxi_text *t, const fxi_vocab *v, int32_t id, size_t *n_bytes);

// Adds n bytes; *show is the number of bytes of t->clean that may be shown now. stops: the same in
// each call, or NULL while none counts. False: no memory.
bool fxi_text_add(fxi_text *t, const char *bytes, size_t n, const fxi_stops *stops, size_t *show);
// Ends the text: what was held back may be shown; an incomplete character becomes U+FFFD. False: no
// memory.
bool fxi_text_end(fxi_text *t, size_t *show);
// As if nothing had been added; what the decoder strips is for the caller to say.
void fxi_text_restart(fxi_text *t);
// Copies into an empty `to`. False: no memory.
bool fxi_text_copy(fxi_text *to, const fxi_text *from);
void fxi_text_free(fxi_text *t);

// ---- requests and sequences ---------------------------------------------------------------------

// A REQUEST is what a caller submitted, copied (`spec`), and how far the engine is with it. It runs
// SEQUENCES: its choices, emitted or not, or its beams. Sequence 0 computes the prompt; the others
// are forked from it afterwards. A request is admitted, preempted and ended as a whole;
// fxi_sched_move (sched.c) changes its state:
//
//               collected            admitted                    last sequence ended
//   NEW ---------------> WAITING ------------> RUNNING --------------------------> ENDED
//                         ^  ^                |  |   ^
//                         |  +-- recompute ---+  |   |  caches recorded and released; later they
//                         |                      |   |  are matched, and the rest computed again
//                         |  SWAPPING_OUT <------+   |  caches are being written to the swap
//                         |       |   ^              |
//                         |       v   |              |
//                      SWAPPED --> SWAPPING_IN ------+  and read back
//
// A WAITING request is JOINING, and not in line, while it waits for a prefix that another one
// computes. A failure in SWAPPING_OUT, SWAPPED or SWAPPING_IN leads to WAITING, like recompute.
//
// A sequence is UNBORN until it is forked, LIVE while tokens are added to it, and DONE when it has
// ended. In a running request, a LIVE sequence without a cache (`kv` NULL) waits to be matched.
//
// The submitting thread makes a request and hands it over through the mailbox; from then on it
// belongs to the engine thread, which frees it after its last event.

typedef struct fxi_live_request fxi_live_request;

typedef enum fxi_seq_state { FXI_SEQ_UNBORN, FXI_SEQ_LIVE, FXI_SEQ_DONE } fxi_seq_state;

typedef struct fxi_seq {
    // Together, since an iteration reads them of all sequences, which no cache of a core holds.
    fxi_live_request *request;
    int choice;
    fxi_seq_state state;
    fx_finish finish; // FX_FINISH_NONE until its end is decided; the iteration acts on it
    int n_tok, cap_tok;
    int32_t *tok;            // [cap_tok] prompt, then answer
    fxi_kv_seq *kv;          // while it is LIVE and its request runs, is swapped or is on its way
    int n_computed;          // tokens whose keys and values are in the cache; < n_tok while it runs
    int n_planned;           // tokens that it computes in the next forward pass; 0: none
    int n_draft;             // the last n_draft of them are tokens of `draft`
    int n_recorded;          // tokens of it that are known to be in the prefix cache
    struct fxi_draft *draft; // draft/drafting.h, which frees it; NULL: it has not drafted
    float *embd;             // [dim] of a text to be embedded or scored: what its rows become
    bool is_filling;         // it still computes tokens that were known when it was matched
    bool is_late;     // it could not be sampled: what its grammar allows next was not known yet
    bool is_deferred; // it sits out the forward pass for that reason
    // the others
    fxi_treap_node fill_at;  // sched.filling: while it is filling and its request runs, unless
                             // no_cache
    int n_prompt_emitted;    // with prompt_logprobs: prompt tokens whose probabilities were emitted
    struct fxi_join {        // the sequence whose prefix it waits for
        uint64_t request_id; // 0: it does not wait
        int choice, n_tok;
    } join;
    fxi_text text;
    fxi_match_state place;  // of the answer in the request's grammar
    double sum_logprob;     // of the answer, if choices are ranked by it
    double beam_sum;        // of a beam: sum of logprobs, after the rules
    fxi_prob_log prob;      // of the answer, if it is emitted later
    bool pools_all;         // the rows of all its tokens are needed, not only the last one's
    int n_pooled;           // tokens whose rows are pooled in embd
    int n_embd;             // numbers of embd that are emitted, once it has ended
    uint64_t last_us;       // when its last token was sampled; 0: none yet
    int stop_token;         // that ended it; -1: none did
    const char *error;      // with FX_FINISH_ERROR: a static line,
    fx_status error_status; // and FX_EINVAL if the request is at fault
} fxi_seq;

typedef enum fxi_request_state {
    FXI_NEW,
    FXI_WAITING,
    FXI_JOINING,
    FXI_SWAPPING_OUT,
    FXI_SWAPPED,
    FXI_SWAPPING_IN,
    FXI_RUNNING,
    FXI_ENDED,
    FXI_N_STATE
} fxi_request_state;

// What a JOINING request waits for: the first n_tok tokens of a sequence in the prefix cache.
typedef struct fxi_wait {
    fxi_treap_node at;   // sched.joining
    uint64_t request_id; // of that sequence; 0: it need not wait any longer
    int choice, n_tok;
} fxi_wait;

struct fxi_live_request {
    uint64_t id;
    fx_request spec;  // as submitted, but for the prompt; it points to copies, freed with it
    int32_t *end;     // [n_end] tokens that end an answer: no rule may choose them before min_tok
    int n_end, n_eot; // the first n_eot are the vocabulary's end-of-text tokens
    fxi_stops stops;  // over spec.stop
    fxi_stops thought_marks;       // of spec.thought: those that open it,
    size_t n_thought_open;         // so many, then those that close it
    const struct fxi_vocab *vocab; // the engine's
    int max_tok;                   // clamped to the context
    fxi_decoder begins;            // decoder state where an answer begins; holds no bytes
    bool defers_output; // nothing is emitted before all sequences have ended: n_best, beams
    uint64_t submit_us; // fx_submit,
    uint64_t admit_us;  // its first admission,
    uint64_t first_us;  // and its first token; 0: not yet
    int64_t order_ms;   // arrival minus the waiting time that its priority is worth; the lowest
                        // goes first. Lowered when it passes others (fxi_sched_pick)
    struct fxi_client *client; // sched/sched.h; its own until it is posted
    fxi_treap_node line_at;    // in the line of its client,
    fxi_treap_node turn_at; // and among the first ones of the clients that wait with its priority,
    uint64_t turn_served;   // by this: its client's `served` or less
    fxi_kv_domain *domain;  // of its tenant, from its first admission on; NULL with no_cache
    bool is_counted;        // it has been admitted: n_cached is known
    int n_cached;           // prompt tokens found in the cache at the first admission
    int again_tok;          // tokens it had when it last restarted to free memory; 0: never
    int fork_fail_tok;      // tokens of its longest sequence when a fork last failed
    int n_fork_fail;        // forks that failed since it last grew
    int n_fork_fail_alone;  // part of them that failed while no other request ran
    int hit_tok;            // admit.c: tokens of it in the prefix cache, as last looked up,
    uint64_t hit_until;     // which holds until this iteration
    int n_passed;           // others of its client that were tried first, since more was cached
    uint64_t tried_at;      // sched.n_freed when it last found no memory; 0: never
    uint64_t swap_since_us; // SWAPPING_OUT, SWAPPING_IN
    int n_left;             // choices whose end has not been emitted
    fxi_treap_node list_at;
    fxi_wait wait;
    _Atomic uint64_t stopped;      // choices that fx_stop_choice ends, as bits
    fxi_live_request *next_posted; // guarded by the mailbox's mu
    fxi_treap_node live_at;        // guarded by the mailbox's mu
    // Together, as in fxi_seq.
    fxi_live_request *prev, *next; // in the list that its state belongs to
    struct fxi_beam *beam;         // request.h; NULL: no beam search
    fxi_request_state state;       // sched.c
    int n_seq;                     // sequences: choices to compute, or beams
    bool is_whole;                 // its prompt is computed in one pass: a token sees all of them
    bool is_fresh;                 // it was admitted or matched for the pass that is being planned
    atomic_bool cancelled;
    fxi_seq seq[]; // [n_seq]
};

// What an engine serves requests with. Constant once it is open, except for the budget.
typedef struct fxi_service {
    const fx_model_info *info;
    const fxi_model_shape *shape;
    const struct fxi_vocab *vocab;
    int32_t *end_tok; // [n_end_tok] owned; the vocabulary's end-of-text tokens
    int n_end_tok;
    int max_seq; // sequences that run together
    fxi_kv *kv;
    const fxi_grammars *grammars;
    _Atomic uint64_t budget_bytes; // KV memory as requested last
} fxi_service;

// ---- request_check.c: what a submitted request needs. Any thread -------------------------------

// Refuses a request that could never be served. Errors: FX_EINVAL, FX_ECONTEXT, FX_ENOSPACE, as in
// fx_submit.
fx_status fxi_request_check(const fxi_service *sv, const fx_request *spec, fx_error *err);
// The request without the fields that its task does not read.
fx_request fxi_request_clean(const fx_request *spec);
int fxi_request_n_seq(const fx_request *spec);
// The most sequences of it that have caches at once, of prompt + max_tok tokens each: all of them.
// But choices of a manager that cannot fork share nothing, so only as many as the budget holds, at
// least 1, and the others are computed after them.
int fxi_request_at_once(const fxi_service *sv, const fx_request *spec, int max_tok);
// KV memory without which it cannot be served, at prompt + max_tok tokens for each sequence.
uint64_t fxi_request_bytes(const fxi_service *sv, const fx_request *spec, int max_tok);
// KV memory of one sequence of n_tok tokens, alone.
uint64_t fxi_request_alone_bytes(const fxi_service *sv, int n_tok);
// The longest sequence, up to the context, that a budget holds when it is alone.
int fxi_request_longest_tok(const fxi_service *sv, uint64_t budget_bytes);

// ---- request.c ---------------------------------------------------------------------------------

// Copies a checked request that arrived at now_us, without a client. Error: FX_ENOMEM.
fx_status fxi_request_make(const fxi_service *sv, const fx_request *spec, uint64_t now_us,
                           fxi_live_request **out, fx_error *err);
void fxi_request_free(fxi_live_request *r);
int fxi_ids_compare(const void *a, const void *b); // of int32_t, as its sets of tokens are sorted
// Decides the end of every sequence whose end is not decided yet.
void fxi_request_finish(fxi_live_request *r, fx_finish why);
// The same with FX_FINISH_ERROR; `error` is a static line. FX_EINVAL: the request itself is at
// fault; FX_ENOSPACE: the budget has become too small for it; otherwise FX_EINTERNAL.
void fxi_request_fail(fxi_live_request *r, fx_status status, const char *error);
void fxi_request_finish_cancelled(
    fxi_live_request *r); // with FX_FINISH_CANCEL, if it was cancelled
int fxi_request_n_live(const fxi_live_request *r);
bool fxi_request_is_done(const fxi_live_request *r); // all sequences are DONE
bool fxi_request_is_decided(
    const fxi_live_request *r); // the end of one that is not DONE is decided

// ---- seq.c -------------------------------------------------------------------------------------

bool fxi_seq_reserve(fxi_seq *s, int n_tok); // memory for n_tok tokens; false: none
// Makes an empty `to` the same sequence as `from`, without its cache. False: no memory; then `to`
// must be cleared.
bool fxi_seq_copy(fxi_seq *to, const fxi_seq *from);
// Frees what it owns, except its cache and its draft; it is UNBORN again.
void fxi_seq_clear(fxi_seq *s);
int fxi_seq_n_generated(const fxi_seq *s);
// Follows the grammar of its request up to its last token: s->place. mask: NULL, or what may come
// next, see fxi_gram_matcher_mask. False: it cannot be followed any further, *error says why, a
// static line.
bool fxi_seq_follow(fxi_seq *s, uint64_t *mask, const char **error);
// What the rules see of it, except for what its grammar allows.
fxi_sample_view fxi_seq_view(const fxi_seq *s);
// What its grammar, if it has one, allows next, ends of the answer among them: allowed[n_vocab / 64
// + 1]. False: as in fxi_seq_follow.
bool fxi_seq_allowed(fxi_seq *s, uint64_t *allowed, const char **error);
void fxi_seq_fail(fxi_seq *s, fx_status status, const char *error); // as fxi_request_fail
bool fxi_seq_ended_well(const fxi_seq *s);

// ---- forced.c ----------------------------------------------------------------------------------

// Prepares spec.thought, if there is one. False: no memory.
bool fxi_thought_make(fxi_live_request *r, const fxi_vocab *vocab);
// The tokens that must come next, up to max_tok, as reasoning has used up its budget, or the
// grammar has no other. 0: there is a choice, or the request's other rules may forbid what the
// grammar forces. Failures show when it is followed.
int fxi_seq_forced(fxi_seq *s, int32_t *out, int max_tok);
// Whether what comes next in the grammar is known, or was found out at the expense of *left
// (fxi_gram_matcher_prepare). If not, the grammar's worker finds it out.
bool fxi_seq_is_ready(fxi_seq *s, size_t *left);

// ---- seq.c, inline -----------------------------------------------------------------------------

// Its request runs, it is LIVE and has a cache, and its end is not decided.
static inline bool fxi_seq_may_compute(const fxi_seq *s)
{
    return s->request->state == FXI_RUNNING && s->state == FXI_SEQ_LIVE && s->kv &&
           s->finish == FX_FINISH_NONE;
}

// Known tokens that are not computed yet.
static inline int fxi_seq_n_left(const fxi_seq *s)
{
    return s->n_tok - s->n_computed;
}

static inline fxi_seq *fxi_request_first_live(fxi_live_request *r) // Pre: one is LIVE
{
    int i = 0;
    while (r->seq[i].state != FXI_SEQ_LIVE) i++;
    return &r->seq[i];
}

static inline bool fxi_request_embeds(const fxi_live_request *r)
{
    return r->spec.task != FX_TASK_GENERATE;
}

// Whether probabilities of its prompt are still to be emitted.
static inline bool fxi_seq_emits_prompt(const fxi_seq *s)
{
    return s->request->spec.prompt_logprobs && s->n_prompt_emitted < (int)s->request->spec.n_prompt;
}

// Whether a is served before b.
static inline bool fxi_request_goes_before(const fxi_live_request *a, const fxi_live_request *b)
{
    return a->order_ms < b->order_ms || (a->order_ms == b->order_ms && a->id < b->id);
}

// ---- beam search --------------------------------------------------------------------------------

// Beam search (commit.c): candidates in, the best (parent, token) pairs out.
//
//   candidates   the 2 x width likeliest next tokens of each beam; among all of them the 2 x width
//                with the largest sum of logprobs, ties to the lower beam, then the likelier token
//   in order     a candidate that ends the answer becomes a hypothesis; any other becomes a beam,
//                until there are `width` (commit.c makes the sequences and gives them caches)
//   score        sum of logprobs / tokens^length_penalty, over the tokens of the answer, the one
//                that ends it included
//   the end      when fx_early_stop allows it, or no beam is left
//
// Logprobs are those of the logits after the rules up to the penalties: a banned token is in no
// beam, and where no rule applies they are the model's own.

// An answer without a cache.
typedef struct fxi_hypothesis {
    fxi_seq s;
    double score;
} fxi_hypothesis;

// A beam and a token that continues it.
typedef struct fxi_beam_next {
    int parent; // index of the beam
    fx_logprob next;
    double sum; // of logprobs, this token included
} fxi_beam_next;

typedef struct fxi_beam {
    int width;
    fxi_hypothesis *done; // [width] descending score
    int n_done;
    fxi_beam_next *cand; // [width][2 width]
    fxi_seq *next;       // [width] the new beams, while they are chosen
    bool is_over;
} fxi_beam;

bool fxi_beam_make(fxi_live_request *r); // r->beam, of req.beam_width; false: no memory
void fxi_beam_free(fxi_beam *b);         // NULL is allowed

#endif
