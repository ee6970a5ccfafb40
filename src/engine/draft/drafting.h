// drafting.h - speculative decoding: sequences that decode compute drafted tokens after their last
// one (Leviathan et al., arXiv 2211.17192; Chen et al., arXiv 2302.01318), and keep those that are
// accepted.
//
// These papers accept a draft with a probability; here a draft is accepted if it is the token that
// is sampled anyway. A sample depends on (seed, choice, position) and the logits, and the logits on
// the tokens before and nothing else. So each row gives the token that it would give without
// drafts, and the row after it is of use only if that was the drafted token. An answer is the same
// to the last bit.
//
//   plan     the last part of a plan: drafts are found, the controller chooses how many of their
//            tokens are worth a row, caches grow for them where memory is at hand; nothing is
//            preempted
//   pass     a row of logits for each of them; rounds of samples (forward.c)
//   commit   the rows after the first wrong token are truncated
//
// Engine thread.
#ifndef FXI_ENGINE_DRAFTING_H
#define FXI_ENGINE_DRAFTING_H

#include "engine/draft/draft_control.h"
#include "engine/draft/draft_model.h"
#include "engine/draft/ngram.h"
#include "engine/memory/kv_memory.h"

enum { FXI_PATH_TOK = 64 };

// Where drafts come from, besides grammars and a draft model.
enum { FXI_DRAFT_FROM_PROMPT = 1, FXI_DRAFT_FROM_PREFIX = 2 };

// What a sequence drafts; made when it does so for the first time.
typedef struct fxi_draft {
    int32_t tok[FX_MAX_DRAFT];
    int n_accepted; // of the pass that is being committed
    fxi_draft_kind kind;
    fxi_draft_odds odds;
    fxi_ngram index; // of prompt and answer
    // What is recorded after its tokens: path[0] follows tokens [0, path_at).
    int32_t path[FXI_PATH_TOK];
    int path_at, n_path;
    int ask_at; // tokens that it has when the prefix tree is asked again
} fxi_draft;

// For tests.
typedef struct fxi_draft_hooks {
    // Drafts come from here alone, and all are computed. Writes up to `most` tokens for s and
    // returns how many. NULL: the usual sources.
    int (*drafter)(void *ud, const fxi_seq *s, int32_t *tok, int most);
    void *ud;
    bool takes_all; // all that can be drafted is computed, whatever it costs
} fxi_draft_hooks;

typedef struct fxi_drafting {
    fxi_memory *memory;
    const fxi_draft_hooks *hooks;
    fxi_draft_model *model; // NULL: there is none
    fxi_draft_clock clock;
    unsigned sources; // FXI_DRAFT_FROM_*
    int most_tok;     // in a draft
    int step_tok;     // in a pass
    fxi_draft_control control;
    fxi_draft_pass pass; // the planned one
    int n_offer;
    fxi_draft_offer *offer; // [max_seq] in the same memory, as seq and wish
    fxi_seq **seq;          // [max_seq] the sequence of each offer
    int n_wish;
    fxi_draft_wish *wish;   // [max_seq] sequences that the draft model is asked for
    fxi_draft_pace pace;    // of the model as it was opened; all 0: unknown
    double model_us;        // measured time of a token that it drafts; 0: not yet
    double draft_us;        // time that its drafts for this pass took,
    double read_us;         // and time that it read for before
    double model_credit_us; // what it has to read for, below 0: nothing
} fxi_drafting;

// Whether `name` is one of those that fx_options.speculate takes; *sources: what it means.
bool fxi_drafting_sources(const char *name, unsigned *sources);
// A drafter for max_seq sequences, for free(); `fields` has those up to step_tok. NULL: no memory.
fxi_drafting *fxi_drafting_make(const fxi_drafting *fields, int max_seq);
// Measures the draft model's pace, before requests come. Without it the first drafts tell.
void fxi_drafting_measure(fxi_drafting *x);
void fxi_drafting_end_seq(fxi_seq *s); // frees its draft

// The last part of a plan of n_tok tokens: sequences get drafted tokens (n_planned, n_draft), at
// most max_row together. Returns how many.
int fxi_drafting_plan(fxi_drafting *x, int n_tok, int max_row);
// Whether the token that s has just got is the i-th of its draft, and it continues after it.
bool fxi_drafting_is_accepted(const fxi_seq *s, int i);
// After the samples of a pass that took us, by x->clock: truncates caches, counts what was
// accepted.
void fxi_drafting_commit(fxi_drafting *x, uint64_t us);

#endif
