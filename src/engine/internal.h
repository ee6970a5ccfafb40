// internal.h - the engine's own types, and its functions grouped by the file that defines them.
//
// A GROUP is one request. It runs SEQUENCES: its choices, told or not, or its beams. Sequence 0
// computes the prompt; the others are forked from it when that is done. The group is what is
// admitted, preempted and ended, always as a whole:
//
//              fxi_admit (admit.c)              fxi_answer_end (answer.c)
//   WAITING -----------------------> RUNNING ------------------------> freed
//      ^  ^                            |  |
//      |  +------ recompute -----------+  |   caches recorded and released; matched, and the rest
//      |                                  |   computed again, to the same bits
//   SWAPPED <----- swap ----------------- +   caches in the swap (preempt.c)
//
// A sequence is UNBORN until it is forked, LIVE while tokens are added to it, DONE when it has
// ended. A live one of a running group without a cache (`kv` NULL) waits to be matched.
//
// Ownership and threads: everything here belongs to the engine thread, except what fx_engine marks
// as guarded by `mu`. A group is made by the submitting thread, handed over through the inbox, and
// freed by the engine thread after its last event.
#ifndef FXI_ENGINE_INTERNAL_H
#define FXI_ENGINE_INTERNAL_H

#include "base/buf.h"
#include "engine/prob_log.h"
#include "engine/sampler.h"
#include "flexinfer/flexinfer.h"
#include "format/chat.h"
#include "kv/kv.h"
#include "model/model.h"

#include <pthread.h>
#include <stdatomic.h>

typedef struct fxi_group fxi_group;

// Text on its way out: bytes are held back while they may be part of a character or of a stop
// string.
typedef struct fxi_text {
    fxi_decoder bytes; // to whole characters
    fxi_buf clean;     // valid UTF-8 not shown yet
    bool include_stop; // a stop string is shown too
    bool stopped;      // a stop string was found: clean ends before it, or behind it
    int stop_string;   // which one
} fxi_text;

typedef enum fxi_seq_state { FXI_SEQ_UNBORN, FXI_SEQ_LIVE, FXI_SEQ_DONE } fxi_seq_state;

typedef struct fxi_seq {
    fxi_group *group;
    int choice;
    fxi_seq_state state;
    int32_t *tok; // [cap_tok] prompt, then answer
    int n_tok, cap_tok;
    fxi_kv_seq *kv;        // while LIVE in a group that is RUNNING or SWAPPED
    int n_computed;        // tokens whose keys and values are in the cache, < n_tok while it runs
    int n_step;            // tokens of this sequence in the step being planned, 0: none
    int n_recorded;        // of its tokens, known to be in the prefix cache
    bool is_filling;       // computes tokens that were known when it was matched
    int n_prompt_told;     // prompt tokens whose probabilities have been told, with prompt_logprobs
    struct fxi_join {      // waits for a prefix that another sequence is computing
        uint64_t group_id; // 0: waits for nobody
        int choice, n_tok;
    } join;
    fxi_text text;
    double sum_logprob; // of the answer, where choices are ranked by it
    double beam_sum;    // of a beam: by the logits that the rules left
    fxi_prob_log prob;  // of the answer, where it is told later
    fx_finish finish;   // decided; acted upon at the step's end
    int stop_token, stop_string;
    const char *error; // with FX_FINISH_ERROR: a static line
} fxi_seq;

typedef enum fxi_group_state { FXI_WAITING, FXI_SWAPPED, FXI_RUNNING } fxi_group_state;

struct fxi_group {
    uint64_t id;
    fx_request req; // what it points to is memory of this group
    int32_t *end;   // [n_end] tokens that end an answer: no rule may draw them before min_tok
    int n_end;
    int max_tok;        // clamped
    int n_seq;          // sequences it runs at most
    fxi_decoder begins; // how the decoding of an answer begins; holds no bytes
    bool is_hidden;     // nothing is told before all have ended: n_best, beams
    int64_t order_ms;   // of arrival, less what its priority is worth: the least goes first
    fxi_group_state state;
    fxi_kv_domain *domain;  // of its tenant, from its first admission on; NULL with no_cache
    bool is_counted;        // has been admitted once, and
    int n_cached;           // so many of its prompt's tokens were found in the cache
    int again_tok;          // tokens it had when it began again for want of memory; 0: never
    uint64_t tried_at;      // eng->n_freed when it last found no room; 0: never
    struct fxi_beam *beam;  // beam.c; NULL: no beam search
    int n_left;             // choices that have not been told their end
    fxi_group *prev, *next; // in the waiting or running list
    atomic_bool cancelled;
    fxi_group *next_inbox;            // guarded by mu
    fxi_group *prev_live, *next_live; // guarded by mu
    fxi_seq seq[];                    // [n_seq]
};

// Groups in the order in which they are served: by order_ms, of equal ones by id.
typedef struct fxi_group_list {
    fxi_group *head, *tail;
    int n_seq; // of all groups in it
} fxi_group_list;

struct fx_engine {
    fx_options opt; // defaults filled in
    fx_model_info info;
    fxi_vocab *vocab;
    fxi_chat *chat;
    int32_t *end_tok; // [n_end_tok] the vocabulary's end-of-text tokens
    int n_end_tok;
    struct vt_vmm *vmm;           // tests: memory of the KV manager; NULL: the host's
    bool single_thread;           // tests: no thread of the KV manager's own
    uint64_t (*now_us)(void *ud); // the clock
    void *now_ud;

    // engine thread
    fxi_pool *pool;
    fxi_model *model;
    fxi_kv *kv;
    fxi_group_list waiting, running; // waiting holds swapped groups too
    int n_swapped;                   // sequences in the swap
    int ahead_tok;                   // room that is made ready ahead for each sequence; 0: none
    int headroom_tok;                // room promised to each running sequence at an admission
    uint64_t n_turn;
    uint64_t n_freed;        // grows whenever room for an admission may have come about
    double us_per_tok;       // measured, of prompt tokens; 0: not yet
    double swap_us_per_byte; // measured, one way
    uint64_t idle_since_us;  // 0: busy
    int n_idle_done;         // of what is done when idle (engine.c)
    struct fxi_step *step;
    struct fxi_reader *reader; // [max_seq] scratch of the scheduler
    pthread_t thread;

    _Atomic uint64_t budget_bytes; // of the KV manager, as it is to be; any thread

    // guarded by mu
    pthread_mutex_t mu;
    pthread_cond_t wake;
    fxi_group *inbox_head, *inbox_tail;
    fxi_group *live;      // every group not freed yet
    int n_queued;         // sequences in the inbox or waiting
    int64_t n_queued_tok; // prompt tokens of them, each prompt once
    bool has_new_budget;  // to be looked at
    uint64_t next_id;
    bool closing;
    fx_stats stats;
};

// open.c: what a fx_engine is made of, without its thread
int fxi_usable_cores(void);
fx_status fxi_engine_load(fx_engine *eng, const fx_options *opt, fx_error *err);
// The part of it behind model and vocabulary: end tokens, KV manager, scratch.
fx_status fxi_engine_fit(fx_engine *eng, fx_error *err);
void fxi_engine_unload(fx_engine *eng); // also of one that was loaded in part
// FX_EINVAL: less than the shortest sequence takes.
fx_status fxi_engine_check_budget(const fx_engine *eng, uint64_t bytes, fx_error *err);

// engine.c
// Gives a zeroed engine its clock, its lock and the settings that no option has.
fx_status fxi_engine_init(fx_engine *eng, fx_error *err);
uint64_t fxi_now_ms(const fx_engine *eng);
// One turn of the loop: collect the inbox, end what was cancelled, plan, compute, publish. Does
// what is due when idle if there is nothing else to do. False: there was nothing to compute.
bool fxi_engine_turn(fx_engine *eng);
void fxi_engine_end_all(fx_engine *eng, fx_finish why);
void fxi_engine_forget(fx_engine *eng, fxi_group *g); // takes it off the live list and frees it
// Adds to the counters of sequences and prompt tokens that wait: sign +1 or -1.
void fxi_count_queue(fx_engine *eng, const fxi_group *g, int sign);

// check.c: what a request must be
fx_status fxi_request_check(const fx_engine *eng, const fx_request *req, fx_error *err);
// KV memory of all sequences of a request at their full length.
uint64_t fxi_request_bytes(const fx_engine *eng, const fx_request *req, int max_tok);
int fxi_request_n_seq(const fx_request *req);

// group.c: groups and sequences as data
fx_status fxi_group_make(const fx_engine *eng, const fx_request *req, fxi_group **out,
                         fx_error *err);
void fxi_group_free(fxi_group *g);
void fxi_group_insert(fxi_group_list *l, fxi_group *g);
void fxi_group_remove(fxi_group_list *l, fxi_group *g);
// Decides the end of all sequences that have not ended.
void fxi_group_finish(fxi_group *g, fx_finish why);
// The same, for an error; `error` is a static line.
void fxi_group_fail(fxi_group *g, const char *error);
int fxi_group_n_live(const fxi_group *g);
bool fxi_seq_reserve(fxi_seq *s, int n_tok); // room for n_tok tokens; false: no memory
// Makes an empty `to` the same sequence as `from`, without its cache. False: no memory; `to` is to
// be cleared then.
bool fxi_seq_copy(fxi_seq *to, const fxi_seq *from);
void fxi_seq_clear(fxi_seq *s); // frees what it owns but its cache: UNBORN again
int fxi_seq_n_generated(const fxi_seq *s);

// scheduler.c: which sequences compute how many tokens in the next step. Returns the sum of n_step.
size_t fxi_reader_bytes(void); // of one element of eng->reader
int fxi_plan(fx_engine *eng);

// admit.c: who may run, and with which part of its tokens in the cache already
void fxi_admit(fx_engine *eng);
// Matches the live sequences of running groups that have no cache.
void fxi_match_running(fx_engine *eng);

// preempt.c
typedef enum fxi_preempt_how { FXI_PREEMPT_CHEAPER, FXI_RECOMPUTE, FXI_SWAP } fxi_preempt_how;
// Takes a running group out of memory, back to the waiting ones.
void fxi_preempt(fx_engine *eng, fxi_group *g, fxi_preempt_how how);
// Releases the caches of its sequences; they are to be matched again. n_step becomes 0.
void fxi_drop_caches(fx_engine *eng, fxi_group *g);
// Brings a swapped group's caches back. FX_ENOSPACE: it stays swapped out. After any other error it
// has no caches and waits.
fx_status fxi_swap_in(fx_engine *eng, fxi_group *g);
// The swapped group that goes last loses its caches: what they shared stayed in memory. False:
// there is none.
bool fxi_forget_swapped(fx_engine *eng);
uint64_t fxi_swapped_need(const fx_engine *eng, const fxi_group *g);
// Brings the KV manager to the budget that was asked for.
void fxi_apply_budget(fx_engine *eng);
void fxi_measure_prompt(fx_engine *eng, int n_prompt_tok, int n_tok, uint64_t us);

// cache.c: what is recorded for later sequences
void fxi_record_progress(fx_engine *eng, fxi_seq *s); // after a step that computed tokens of s
void fxi_record_all(fx_engine *eng, fxi_seq *s);      // its answer is complete, or it is preempted
void fxi_release(fx_engine *eng, fxi_seq *s);         // lets go of its cache, if it has one

// step.c: one forward pass and what follows from it
fx_status fxi_step_make(fx_engine *eng, fx_error *err);
void fxi_step_free(fx_engine *eng);
int fxi_step_prompt_rows(void); // rows of logits in a step that prompts may have
// Computes what was planned, appends what was sampled, and ends what is finished.
void fxi_step_run(fx_engine *eng, int n_tok);

// beam.c: beam search
bool fxi_beam_make(fxi_group *g); // false: no memory
void fxi_beam_free(struct fxi_beam *b);
// What a step has found out about one beam.
typedef struct fxi_beam_input {
    fxi_seq *s;
    const float *logits;    // [n_vocab]
    const fx_logprob *next; // [n_next] its likeliest continuations by the rules
    int n_next;
} fxi_beam_input;
// Chooses the beams that go on, [n] inputs in the order of choices; finished hypotheses are kept.
// Marks all sequences as ended when the search is over.
void fxi_beam_advance(fx_engine *eng, fxi_group *g, const fxi_beam_input *in, int n);
// The i-th best hypothesis, NULL: there are fewer.
fxi_seq *fxi_beam_best(const fxi_group *g, int i, double *score);

// answer.c: what the callbacks are told
// Appends a sampled token and notes in s->finish whether it was the last; prob may be NULL.
void fxi_answer_add(fx_engine *eng, fxi_seq *s, int32_t tok, const fx_token_prob *prob);
void fxi_answer_prompt_prob(fxi_seq *s, int position, const fx_token_prob *prob);
// Ends the sequences whose finish is decided; the group, if it was the last of them: then it is
// freed, and true returned.
bool fxi_answer_end(fx_engine *eng, fxi_group *g);
bool fxi_ends_answer(const fxi_group *g,
                     int32_t tok); // an end-of-text or stop token of the request

// text.c
// Adds bytes; *show is how many bytes of t->clean may be shown now. False when memory is short.
bool fxi_text_add(fxi_text *t, const char *bytes, size_t n, const char *const *stop, size_t n_stop,
                  size_t *show);
// The end: what was held back becomes showable; a cut-off character becomes U+FFFD.
bool fxi_text_end(fxi_text *t, size_t *show);
bool fxi_text_copy(fxi_text *to, const fxi_text *from); // to is empty; false when memory is short
void fxi_text_free(fxi_text *t);

#endif
