// answer_grammar.h - the grammars of requests: compiled from parts, then followed by the answers
// that are generated.
#ifndef FXI_ENGINE_ANSWER_GRAMMAR_H
#define FXI_ENGINE_ANSWER_GRAMMAR_H

#include <pthread.h>
#include <stdatomic.h>

#include "base/text/buf.h"
#include "flexinfer/flexinfer.h"
#include "grammar/guide/gram_guide.h"
#include "grammar/mask/gram_tokens.h"

struct fxi_vocab;

struct fx_grammar {
    atomic_int n_ref;
    const fx_engine *eng;
    fxi_guide *guide; // with a lock of its own
    fxi_buf key;      // what it was compiled from
};

enum { FXI_ANSWER_KEPT = 16 };

// What the grammars of an engine share: the vocabulary by its bytes, made for the first of them,
// and the grammars that were asked for last.
typedef struct fxi_answer_vocab {
    pthread_mutex_t mu; // guards all but tokens, which are constant once has_tokens is set
    fx_grammar *kept[FXI_ANSWER_KEPT]; // [n_kept] the latest first
    size_t n_kept;
    bool has_tokens;
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

// answer_parts.c: adds a part to a form. Errors: as fx_grammar_compile.
fx_status fxi_answer_part(fxi_gram *g, const struct fxi_vocab *vocab, const fx_part *root,
                          uint32_t *node, fx_error *err);

#endif
