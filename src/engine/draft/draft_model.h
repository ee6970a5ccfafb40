// draft_model.h - a small model of the same vocabulary that drafts how sequences may continue.
//
// It has its own device, the host's cores (the engine's pool of threads), its own KV manager and a
// share of the budget that holds as many tokens as the engine's. A SLOT is its cache of one
// sequence. A cache that falls behind is brought up in the next run, and what it computed of a
// draft that was not accepted is truncated.
//
// It samples as the answer is sampled, by all rules of the request, its grammar among them, and
// with the same temperature, cuts, seed, choice and position: where its logits are like those of
// the model, so is the token. A draft ends where a grammar takes too long to tell what may follow.
//
// Engine thread.
#ifndef FXI_ENGINE_DRAFT_MODEL_H
#define FXI_ENGINE_DRAFT_MODEL_H

#include "engine/record/record.h"
#include "engine/request/request.h"

typedef struct fxi_draft_model fxi_draft_model;

// The clock by which passes are measured. Where the host computes, it is the CPU time of the
// engine's thread: on a machine that others use, too, a pass that had to wait for a core says
// nothing about what its rows take.
typedef struct fxi_draft_clock {
    const fxi_journal *journal;
    bool is_on_host;
} fxi_draft_clock;

uint64_t fxi_draft_clock_us(const fxi_draft_clock *c);

typedef struct fxi_draft_model_options {
    const char *path;
    struct fxi_pool *pool;
    const fxi_vocab *vocab;       // of the model
    const fxi_model_shape *shape; // the same
    const char *kv_type;
    int ctx_tok, max_seq, step_tok;
    int tile_tok;       // of the KV manager
    bool single_thread; // the same
    fxi_draft_clock clock;
    size_t *mask_left; // what the iteration may still spend on grammars
} fxi_draft_model_options;

// A sequence that a draft is wanted for.
typedef struct fxi_draft_wish {
    fxi_seq *s;
    int most;      // tokens wanted
    bool may_read; // if its cache is far behind, what it lacks; otherwise it gets no draft
    int32_t *tok;  // [most] the draft
    // Of fxi_draft_model_run:
    int n_tok;                   // how many there are
    fxi_match_state place;       // of s and them in the grammar
    struct fxi_draft_slot *slot; // NULL: there is no memory for its cache
} fxi_draft_wish;

// Errors: FX_EIO, FX_EFORMAT, FX_ENOMEM, FX_EINVAL (it generates nothing, or its vocabulary is
// another one: the first token that differs is named).
fx_status fxi_draft_model_load(const fxi_draft_model_options *opt, fxi_draft_model **out,
                               fx_error *err);
// Checks the file without its weights.
fx_status fxi_draft_model_check(const char *path, const fxi_vocab *vocab, fx_error *err);
// Opens its caches over a share of the budget for both models, *own_bytes. *own_share: of the
// process's mappings, which the model's caches leave to them. m NULL: both are 0. Errors:
// FX_ENOSPACE, FX_ENOMEM, FX_EIO.
fx_status fxi_draft_model_open_kv(fxi_draft_model *m, uint64_t budget_bytes, uint64_t *own_bytes,
                                  double *own_share, fx_error *err);
void fxi_draft_model_close(fxi_draft_model *m); // NULL is allowed

// What its passes take, in us, of one sequence with a short cache.
typedef struct fxi_draft_pace {
    double token_us; // a token that it drafts; 0: unknown
    double read_us;  // each token that it reads before
} fxi_draft_pace;

// Measures that by some passes of its own; all 0 where it has no memory for them.
fxi_draft_pace fxi_draft_model_pace(fxi_draft_model *m);
// How many tokens it would read before a draft for s; 0: it is not far behind.
int fxi_draft_model_behind(const fxi_draft_model *m, const fxi_seq *s);
// Drafts for n sequences together, at most max_seq of them. Returns the time that the drafts took,
// in us; *read_us gets the time of reading. A sequence without memory, or whose cache is still
// behind, gets none.
double fxi_draft_model_run(fxi_draft_model *m, fxi_draft_wish *w, int n, double *read_us);
// The engine is idle: all caches end, and their memory is returned to the system bit by bit. Each
// fxi_draft_model_step does a part, as each run does; so many bytes are still to be returned. m
// NULL: no effect.
void fxi_draft_model_forget(fxi_draft_model *m);
void fxi_draft_model_step(fxi_draft_model *m);
uint64_t fxi_draft_model_returning(const fxi_draft_model *m);

#endif
