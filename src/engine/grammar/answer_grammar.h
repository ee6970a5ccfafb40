// answer_grammar.h - the grammars of requests: compiled from parts, then followed by the answers
// that are generated.
#ifndef FXI_ENGINE_ANSWER_GRAMMAR_H
#define FXI_ENGINE_ANSWER_GRAMMAR_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/text/buf.h"
#include "flexinfer/flexinfer.h"
#include "grammar/matcher/gram_matcher.h"
#include "grammar/matcher/gram_tokens.h"

struct fxi_vocab;

struct fx_grammar {
    atomic_int n_ref;
    const fx_engine *eng;
    fxi_gram_matcher *guide; // with a lock of its own
    struct fxi_answer_worker *worker;
    fxi_buf key;                  // what it was compiled from
    struct fx_grammar *next_work; // guarded by the worker's mu
    bool is_queued;               // the same
};

enum { FXI_ANSWER_KEPT = 16 };

// The thread that finds out what may come next where that takes long, or before it is asked for:
// fxi_gram_matcher_work, one thing of each grammar in turn.
typedef struct fxi_answer_worker {
    pthread_mutex_t mu; // guards the rest
    pthread_cond_t wake;
    fx_grammar *first, *last; // grammars with work, a reference each
    pthread_t thread;
    atomic_bool has_thread; // read without mu
    bool is_ending;
    bool is_paused; // for tests
} fxi_answer_worker;

// What the grammars of an engine share: the vocabulary by its bytes, made for the first of them,
// and the grammars that were asked for last.
typedef struct fxi_answer_vocab {
    pthread_mutex_t mu; // guards all but tokens, which are constant once has_tokens is set
    fx_grammar *kept[FXI_ANSWER_KEPT]; // [n_kept] the latest first
    size_t n_kept;
    bool has_tokens;
    fxi_answer_worker worker;
    fxi_matcher_pool pool;  // what the grammars hold, without lock
    fxi_gram_tokens tokens; // a control token is FXI_CONTROL_MARK, its piece and the mark again
} fxi_answer_vocab;

// A byte of no UTF-8 text: control tokens have no bytes of their own.
#define FXI_CONTROL_MARK "\xFF"

bool fxi_answer_vocab_init(fxi_answer_vocab *v); // false: no memory
void fxi_answer_vocab_free(fxi_answer_vocab *v);

// answer_keep.c: what tells a grammar from others. False: it has no key, and is not kept.
bool fxi_answer_key(const fx_part *root, fxi_buf *key);
fx_grammar *fxi_answer_find(fxi_answer_vocab *v, const fxi_buf *key); // a reference; NULL: none
void fxi_answer_keep(fxi_answer_vocab *v, fx_grammar *g); // the one asked for first makes way
void fxi_answer_forget(fxi_answer_vocab *v);              // all; before the vocabulary is freed
// The reference to the one that was asked for first, which is forgotten; NULL: none is kept.
fx_grammar *fxi_answer_take_oldest(fxi_answer_vocab *v);

// answer_worker.c. Until it is started no grammar has a worker, and all is found where it is
// needed. A thread that does not start changes nothing.
bool fxi_answer_worker_init(fxi_answer_worker *w); // false: no memory
void fxi_answer_worker_start(fxi_answer_worker *w);
void fxi_answer_worker_stop(
    fxi_answer_worker *w); // before the vocabulary is freed; again: no effect
void fxi_answer_worker_free(fxi_answer_worker *w);
bool fxi_answer_worker_runs(fxi_answer_worker *w);
// There is work in g. is_urgent: somebody waits for it. Any thread.
void fxi_answer_worker_add(fxi_answer_worker *w, fx_grammar *g, bool is_urgent);
// Leaves all work undone, until it is added again.
void fxi_answer_worker_forget(fxi_answer_worker *w);
void fxi_answer_worker_pause(fxi_answer_worker *w, bool is_paused); // for tests

// answer_parts.c: adds a part to a form. Errors: as fx_grammar_compile.
fx_status fxi_answer_part(fxi_gram *g, const struct fxi_vocab *vocab, const fx_part *root,
                          uint32_t *node, fx_error *err);

#endif
