// bits.h - the events of a request and the rows it leaves in the cache, kept to compare bit for
// bit.
//
// The law: the keys and values of a token depend on the tokens up to it and on nothing else,
// neither on what shares its step, nor on the sequence that computed it, nor on what has happened
// to the cache since. So a LEDGER keeps the rows of each token, under the tokens up to it, as first
// seen; every cache seen later, of any sequence, must hold the same bytes.
#ifndef TESTS_ENGINE_BITS_H
#define TESTS_ENGINE_BITS_H

#include "engine/iteration.h"
#include "engine/memory/kv_memory.h"

enum { BITS_TOP = 5, BITS_MAX_CHOICE = 8, BITS_MAX_GEN = 64, BITS_MAX_PROMPT = 700 };

// One token as emitted: four-byte fields only, zero where not emitted.
typedef struct bits_tok {
    int32_t tok;
    float logprob;
    int32_t rank, n_top;
    fx_logprob top[BITS_TOP];
} bits_tok;

typedef struct bits_choice {
    bits_tok tok[BITS_MAX_GEN];
    int n_tok;
    fx_finish finish;
    double score;
    char error[80];
} bits_choice;

typedef struct bits_answer {
    bits_tok prompt[BITS_MAX_PROMPT]; // by position, where requested
    int n_prompt_emitted;
    bits_choice choice[BITS_MAX_CHOICE];
    int n_choice, n_cached;
    bool last; // the last event has come
} bits_answer;

// A greedy request whose events go to *out, which is emptied. The caller changes and submits it.
fx_request bits_request(const int32_t *prompt, int n_prompt, int max_tok, bits_answer *out);
uint64_t bits_submit(fx_engine *eng, const fx_request *req); // fails the test if it is refused
// Runs iterations until the last event.
void bits_finish(fx_engine *eng, const bits_answer *a);
// Submits and finishes it.
void bits_ask(fx_engine *eng, const fx_request *req, const bits_answer *a);
// NULL: it has ended.
fxi_live_request *bits_live_request(const fx_engine *eng, uint64_t id);

// Compares floats by their bits. On a difference `what` names the token, the choice and the values.
bool bits_same_tok(const bits_tok *a, const bits_tok *b, char what[128]);
bool bits_same_choice(const bits_choice *a, const bits_choice *b, char what[128]);
bool bits_same_answer(const bits_answer *a, const bits_answer *b, char what[128]);

typedef struct bits_ledger bits_ledger;

// The first difference to the ledger: the first such token in the first such layer.
typedef struct bits_diff {
    int position, layer;
    bool in_values; // else in the keys
} bits_diff;

bits_ledger *bits_ledger_make(const fx_engine *eng);
void bits_ledger_free(bits_ledger *l);
// Compares the rows of tokens [first, n_computed) of s, and adds those that the ledger does not
// have yet. False: *diff says where they differ.
bool bits_ledger_check(bits_ledger *l, fx_engine *eng, const fxi_seq *s, int first,
                       bits_diff *diff);

#endif
