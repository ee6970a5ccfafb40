// internal.h - the engine's own types, and its functions grouped by the file that defines them.
//
// A GROUP is one request; it has n_choice SEQUENCES that share the prompt's tokens. The life of a
// sequence:
//
//              admit (scheduler.c)            finish (request.c)
//   WAITING -------------------------> RUNNING -----------------> DONE
//      ^                                  |
//      +----------- preempt --------------+        cache released; prompt and answer are computed
//      again later,
//                 (scheduler.c)                    to the same bits
//
// Ownership and threads: everything here belongs to the engine thread, except what fx_engine marks
// as guarded by `mu`. A group is made by the submitting thread, handed over through the inbox, and
// freed by the engine thread after its last event.
#ifndef FXI_ENGINE_INTERNAL_H
#define FXI_ENGINE_INTERNAL_H

#include "base/buf.h"
#include "flexinfer/flexinfer.h"
#include "format/chat.h"
#include "kv/kv.h"
#include "model/model.h"

#include <pthread.h>
#include <stdatomic.h>

#define FXI_MAX_CHOICE 64

typedef struct fxi_group fxi_group;

typedef enum fxi_seq_state { FXI_SEQ_WAITING, FXI_SEQ_RUNNING, FXI_SEQ_DONE } fxi_seq_state;

// Text on its way out: bytes are held back while they may be part of a character or of a stop
// string.
typedef struct fxi_text {
    fxi_buf raw;      // bytes that do not end a UTF-8 character yet
    fxi_buf clean;    // valid UTF-8 not shown yet
    bool strip_space; // the next byte is the space that the tokenizer put in front of a text
    bool stopped;     // a stop string was found: clean ends before it
} fxi_text;

typedef struct fxi_seq {
    fxi_group *group;
    int choice;
    fxi_seq_state state;
    int32_t *tok; // [cap_tok] prompt, then answer
    int n_tok, cap_tok;
    int n_computed; // tokens whose keys and values are in the cache, < n_tok while running
    int n_step;     // tokens of this sequence in the step being planned, 0: none
    fxi_kv_seq *kv; // while RUNNING
    fxi_text text;
    fx_finish finish;            // decided; told at the step's end
    const char *error;           // with FX_FINISH_ERROR: a static line
    struct fxi_seq *prev, *next; // in the waiting or running list
} fxi_seq;

struct fxi_group {
    uint64_t id;
    fx_request req; // prompt and stop point into memory of this group
    int max_tok;    // clamped
    int n_left;     // choices not DONE
    atomic_bool cancelled;
    fxi_group *next_inbox;            // guarded by mu
    fxi_group *prev_live, *next_live; // guarded by mu
    fxi_seq seq[];                    // [req.n_choice]
};

// Sequences in order of arrival.
typedef struct fxi_seq_list {
    fxi_seq *head, *tail;
    int n;
} fxi_seq_list;

struct fx_engine {
    fx_options opt; // defaults filled in
    fx_model_info info;
    fxi_vocab *vocab;
    const fxi_chat_family *chat;

    // engine thread
    fxi_pool *pool;
    fxi_model *model;
    fxi_kv *kv;
    fxi_seq_list waiting, running;
    struct fxi_step *step;
    pthread_t thread;

    // guarded by mu
    pthread_mutex_t mu;
    pthread_cond_t wake;
    fxi_group *inbox_head, *inbox_tail;
    fxi_group *live; // every group not freed yet
    int n_queued;    // sequences in the inbox or waiting
    uint64_t next_id;
    bool closing;
    fx_stats stats;
};

// open.c: what a fx_engine is made of, without its thread
int fxi_usable_cores(void);
fx_status fxi_engine_load(fx_engine *eng, const fx_options *opt, fx_error *err);
void fxi_engine_unload(fx_engine *eng); // also of one that was loaded in part

// engine.c
void fxi_engine_forget(fx_engine *eng, fxi_group *g); // takes it off the live list and frees it
void fxi_publish_stats(fx_engine *eng);

// request.c: groups and sequences
fx_status fxi_group_make(const fx_engine *eng, const fx_request *req, fxi_group **out,
                         fx_error *err);
void fxi_group_free(fxi_group *g);
// Appends a sampled token, tells the callback, and notes in s->finish whether it was the last.
void fxi_seq_append(fx_engine *eng, fxi_seq *s, int32_t tok);
// Ends a sequence that is on no list and holds no cache: the last text and the reason are told; the
// group is freed with its last sequence.
void fxi_seq_finish(fx_engine *eng, fxi_seq *s, fx_finish why);
// Marks a sequence as failed; `error` is a static line.
void fxi_seq_fail(fxi_seq *s, const char *error);

// scheduler.c: which sequences compute how many tokens in the next step
void fxi_list_push_back(fxi_seq_list *l, fxi_seq *s);
void fxi_list_push_front(fxi_seq_list *l, fxi_seq *s);
void fxi_list_remove(fxi_seq_list *l, fxi_seq *s);
// Takes a sequence off the waiting list.
void fxi_leave_queue(fx_engine *eng, fxi_seq *s);
// Takes a running sequence out and releases its cache.
void fxi_retire(fx_engine *eng, fxi_seq *s);
// Sets n_step of every running sequence, with its cache extended to match; admits, preempts, and
// marks what failed in s->finish. Returns the sum of n_step.
int fxi_plan(fx_engine *eng);

// step.c: one forward pass and what follows from it
fx_status fxi_step_make(fx_engine *eng, fx_error *err);
void fxi_step_free(struct fxi_step *st);
// Computes what was planned, appends what was sampled, and ends the running sequences that are
// finished.
void fxi_step_run(fx_engine *eng, int n_tok);

// sampler.c
// Scratch of one thread that samples: n_vocab candidates.
typedef struct fxi_candidate {
    float logit;
    int32_t id;
} fxi_candidate;
// Draws from logits[n_vocab]: greedy, or temperature, then min_p, top_k, top_p. The random number
// belongs to (seed, choice, position). cand has n_vocab elements and is not read.
int32_t fxi_sample(const fx_sampling *p, const float *logits, int n_vocab, int choice, int position,
                   fxi_candidate *cand);

// text.c
// Adds bytes; *show is how many bytes of t->clean may be shown now. False when memory is short.
bool fxi_text_add(fxi_text *t, const char *bytes, size_t n, const char *const *stop, size_t n_stop,
                  size_t *show);
// The end: what was held back becomes showable; a cut-off character becomes U+FFFD.
bool fxi_text_end(fxi_text *t, size_t *show);
void fxi_text_free(fxi_text *t);

#endif
