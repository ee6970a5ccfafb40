// speculate.h - speculative decoding: sequences that decode compute drafted tokens behind their
// last one (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318), and keep those that
// come true.
//
// Where these papers accept a draft with a probability, here nothing is left to chance: a draw
// depends on (seed, choice, position) and the logits, and logits on the tokens before and nothing
// else. So each row's token is the one that is drawn without drafts, and a draft is right if it is
// that token. An answer is the same to the last bit.
//
//   plan    the last part of a plan: drafts are found, the pace chooses how many of their tokens
//           are worth a row, caches grow for them where memory is at hand; nothing is preempted
//   step    a row of logits for each of them; rounds of draws (loop/step.c)
//   settle  the rows behind the first wrong token are truncated
//
// Engine thread.
#ifndef FXI_ENGINE_SPECULATE_H
#define FXI_ENGINE_SPECULATE_H

#include "engine/draft/draft.h"
#include "engine/engine.h"
#include "engine/speculate/draft_model.h"

// Where drafts come from.
enum { FXI_SPECULATE_PROMPT = 1, FXI_SPECULATE_PREFIX = 2 };

// What an engine that speculates has; NULL where it does not.
typedef struct fxi_speculator {
    unsigned sources;
    int most_tok; // in a draft
    fxi_pace pace;
    int n_offer;
    fxi_pace_offer *offer; // [max_seq]
    fxi_seq **seq;         // [max_seq] the sequence of each offer
    fxi_pace_step step;    // the planned one
    int n_wish;
    fxi_draft_wish *wish; // [max_seq] sequences that the draft model is asked for
    double model_us;      // what it takes for a token, measured; 0: not yet
    double draft_us;      // what its drafts took
} fxi_speculator;

// speculate_open.c
// Whether `name` is one of those that fx_options.speculate takes; *sources: what it means.
bool fxi_speculate_sources(const char *name, unsigned *sources);
// eng->spec, if the options ask for it and the KV manager can truncate. Errors: FX_ENOMEM.
fx_status fxi_speculate_open(fx_engine *eng, fx_error *err);
void fxi_speculate_close(fx_engine *eng);
// The clock by which passes are measured for the pace. Where the host computes it is what the
// engine's thread has done: on a machine that others use, too, a pass that had to wait for a core
// tells nothing of what its rows take.
uint64_t fxi_speculate_clock_us(const fx_engine *eng);

// speculate_find.c: finds a draft for a sequence that decodes, of at most `most` tokens; fills
// s->draft. Returns how many tokens it has; 0: there is none.
int fxi_speculate_find(fx_engine *eng, fxi_seq *s, int most);

// speculate_plan.c
// The last part of a plan of n_tok tokens: sequences get drafted tokens (n_step, n_draft), at most
// max_row together.
void fxi_speculate_plan(fx_engine *eng, int n_tok, int max_row);
// Whether the token that s has just drawn is the i-th of its draft, and it goes on behind it.
bool fxi_speculate_came_true(const fxi_seq *s, int i);
// After the draws of a step whose pass took us, by fxi_speculate_clock_us: truncates caches, counts
// what came true.
void fxi_speculate_settle(fx_engine *eng, uint64_t us);

#endif
