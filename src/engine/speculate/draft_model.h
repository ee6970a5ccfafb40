// draft_model.h - a small model of the same vocabulary that says what sequences may go on with.
//
// It has its own device, the host's cores (the engine's pool of threads), its own KV manager and a
// share of the budget that holds as many tokens as the engine's. A SLOT is its cache of one
// sequence. A cache that falls behind is brought up in the next run, and what it computed of a
// draft that did not come true is truncated.
//
// It draws as the answer is drawn, by all rules of the request, its grammar among them, and with
// the same temperature, cuts, seed, choice and position: where its logits are like those of the
// model, so is the token. A draft ends where a grammar takes too long to say what may come next.
//
// Engine thread.
#ifndef FXI_ENGINE_DRAFT_MODEL_H
#define FXI_ENGINE_DRAFT_MODEL_H

#include "engine/engine.h"

typedef struct fxi_draft_model fxi_draft_model;

// A sequence that a draft is wanted for.
typedef struct fxi_draft_wish {
    fxi_seq *s;
    int most;              // tokens wanted; s->draft->tok has room for them
    int n_tok;             // fxi_draft_model_run: how many there are
    fxi_match_state place; // of s and them in the grammar
} fxi_draft_wish;

// Loads eng->opt.draft_path into eng->draft_model, if there is one. Errors: FX_EIO, FX_EFORMAT,
// FX_ENOMEM, FX_EINVAL (it generates nothing, or its vocabulary is another one: the first token
// that differs is named).
fx_status fxi_draft_model_load(fx_engine *eng, fx_error *err);
// Checks the file without its weights. Pre: eng->vocab.
fx_status fxi_draft_model_check(fx_engine *eng, fx_error *err);
// Of a budget for both, the bytes that its caches get.
uint64_t fxi_draft_model_share(const fx_engine *eng, uint64_t budget_bytes);
// And the part of the process's mappings that its caches may take, which the model's leave to them;
// 0: there is none.
double fxi_draft_model_run_share(const fx_engine *eng);
// Opens its caches over so many bytes. Errors: FX_ENOSPACE, FX_ENOMEM, FX_EIO.
fx_status fxi_draft_model_open_kv(fx_engine *eng, uint64_t budget_bytes, fx_error *err);
void fxi_draft_model_close(fx_engine *eng);

// Drafts for n sequences together, at most max_seq of them. Returns the time that the drafts took,
// in us; what it took to read prompts is not in it. A sequence without memory, or whose cache is
// still behind, gets none.
double fxi_draft_model_run(fx_engine *eng, fxi_draft_wish *w, int n);
// The engine is idle: all caches end, and their memory goes back to the system bit by bit. Each
// settle does a part, as each run does; so many bytes are still to go.
void fxi_draft_model_forget(fx_engine *eng);
void fxi_draft_model_settle(fx_engine *eng);
uint64_t fxi_draft_model_returning(const fx_engine *eng);

#endif
