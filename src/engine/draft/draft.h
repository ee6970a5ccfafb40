// draft.h - what a sequence may go on with: guesses of its next tokens, and what they come from.
//
// A draft changes no result. Its tokens are computed behind the last known one, in the same pass;
// the token drawn from each row is the one that would be drawn without it, and the row behind is of
// use only if that is the drafted token.
#ifndef FXI_ENGINE_DRAFT_H
#define FXI_ENGINE_DRAFT_H

#include "engine/draft/ngram.h"
#include "engine/draft/pace.h"
#include "flexinfer/flexinfer.h"

enum { FXI_PATH_TOK = 64 };

// Of a sequence; made when it drafts for the first time.
typedef struct fxi_draft {
    int32_t tok[FX_MAX_DRAFT];
    int n_true; // of the step that is being settled: tokens that have come true
    fxi_draft_kind kind;
    fxi_pace_seq pace;
    fxi_ngram index; // of prompt and answer
    // What is recorded behind its tokens: path[0] follows tokens [0, path_at).
    int32_t path[FXI_PATH_TOK];
    int path_at, n_path;
    int ask_at; // tokens that it has when the tree is asked again
} fxi_draft;

fxi_draft *fxi_draft_make(void);   // NULL: no memory
void fxi_draft_free(fxi_draft *d); // NULL is allowed

#endif
