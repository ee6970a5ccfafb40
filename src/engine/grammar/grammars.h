// grammars.h - the grammars of requests: compiled from parts, kept, and followed by the answers
// that are generated.
#ifndef FXI_ENGINE_GRAMMARS_H
#define FXI_ENGINE_GRAMMARS_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/text/buf.h"
#include "flexinfer/flexinfer.h"
#include "grammar/matcher/gram_matcher.h"
#include "grammar/matcher/gram_tokens.h"

struct fxi_vocab;

struct fx_grammar {
    atomic_int n_ref;
    struct fxi_grammars *home;
    fxi_gram_matcher *matcher;    // with a lock of its own
    fxi_buf key;                  // what it was compiled from
    struct fx_grammar *next_work; // guarded by the worker's mu
    bool is_queued;               // the same
};

enum { FXI_GRAMMARS_KEPT = 16 };

// The thread that finds out what may come next where that takes long, or before it is asked for:
// fxi_gram_matcher_work, one step for each grammar in turn. It starts with the first grammar.
typedef struct fxi_grammar_worker {
    void (*on_progress)(void *ud); // called after each step; NULL: not needed
    void *ud;
    pthread_mutex_t mu; // guards the rest
    pthread_cond_t wake;
    fx_grammar *first; // of those with work, a reference each
    pthread_t thread;
    atomic_bool has_thread; // read without mu
    bool is_ending;
    bool is_paused; // for tests
} fxi_grammar_worker;

// What the grammars of an engine share: the vocabulary by its bytes, made for the first of them,
// and the grammars that were asked for last.
typedef struct fxi_grammars {
    const struct fxi_vocab *vocab; // constant once the engine is open,
    int n_vocab;                   // with the rows of the model's embedding
    pthread_mutex_t mu; // guards the rest but tokens, which are constant once has_tokens is set
    fx_grammar *kept[FXI_GRAMMARS_KEPT]; // [n_kept] the latest first
    size_t n_kept;
    bool has_tokens;
    fxi_grammar_worker worker;
    fxi_matcher_pool pool;  // what the grammars hold; atomics
    fxi_gram_tokens tokens; // a control token is FXI_CONTROL_MARK, its piece and the mark again
} fxi_grammars;

// A byte of no UTF-8 text: control tokens have no bytes of their own.
#define FXI_CONTROL_MARK "\xFF"

bool fxi_grammars_init(fxi_grammars *v); // false: no memory
void fxi_grammars_free(fxi_grammars *v);
// As fx_grammar_compile.
fx_status fxi_grammars_compile(fxi_grammars *v, const fx_part *root, fx_grammar **out,
                               fx_error *err);
void fxi_grammars_forget(fxi_grammars *v); // all that are kept; before the vocabulary is freed

// The worker. Until it is started no grammar has one, and all is found where it is needed. A thread
// that does not start changes nothing.
void fxi_grammar_worker_stop(fxi_grammar_worker *w); // before the vocabulary is freed; idempotent
// Queues g, which has work. is_urgent: a sequence waits for it. Any thread.
void fxi_grammar_worker_add(fxi_grammar_worker *w, fx_grammar *g, bool is_urgent);

// grammar_parts.c: adds a part to a grammar. Errors: as fx_grammar_compile.
fx_status fxi_grammar_part(fxi_gram *g, const struct fxi_vocab *vocab, const fx_part *root,
                           uint32_t *node, fx_error *err);

#endif
