// pace.h - how many drafted tokens are worth computing.
//
// A row more in a step costs time; a token that was drafted and comes true saves a part of a step.
// Both are measured: what steps take (step_cost.h), and how often drafts come true, by their KIND,
// for each sequence, and over all of them for a sequence that has not drafted much yet. A draft's
// next token is added while its probability (that all before it come true, and it, too) times what
// a token takes without drafts is more than what its row takes.
//
// Two laws bound what drafting may lose.
//   ACCOUNT  What drafts have saved comes in, up to 4 steps, and what they have lost goes out: what
//            their step took beyond what it would take now without them. Nothing is drafted while
//            it is overdrawn. 1 % of the time of each step that had drafts to choose from fills it
//            up to one step again.
//   TRIES    Drafts that do not look worth it are tried, one row at a time. What a try has lost is
//            1 % of the time until the next one, and half as much with each that fails, down to
//            1/8 %.
// Steps without drafts are the measure of those with them. So one comes first where those that were
// measured do not tell, and after each with drafts; after 2, 4 and up to 32 of them while they save
// more than 3 %.
//
// Time comes from the caller, and nothing here changes a result. Pure data; one thread.
#ifndef FXI_ENGINE_PACE_H
#define FXI_ENGINE_PACE_H

#include "engine/draft/step_cost.h"

#include <stdbool.h>
#include <stdint.h>

// Where a draft comes from, and how much speaks for it.
typedef enum fxi_draft_kind {
    FXI_DRAFT_SHORT,  // the text's last 3 or 4 tokens occurred before
    FXI_DRAFT_MIDDLE, // its last 5 to 11
    FXI_DRAFT_LONG,   // 12 or more
    FXI_DRAFT_PREFIX, // recorded behind the same tokens
    FXI_DRAFT_MODEL,  // drawn by the draft model
    FXI_DRAFT_FORCED, // the request's grammar leaves no choice
    FXI_N_DRAFT_KIND
} fxi_draft_kind;

// Drafts so far, older ones counting less.
typedef struct fxi_pace_odds {
    double n_true, n_tried; // tokens that came true, and those of which all before did
} fxi_pace_odds;

// Of a sequence. All zero: it has drafted nothing.
typedef struct fxi_pace_seq {
    fxi_pace_odds odds[FXI_N_DRAFT_KIND];
} fxi_pace_seq;

// Of an engine. All zero: a new one.
typedef struct fxi_pace {
    fxi_step_cost cost;
    fxi_pace_odds odds[FXI_N_DRAFT_KIND];
    double account_us;
    double run_us, run_saved_us; // of the steps with drafts since the last one without
    double wait_us;              // time of steps until the next try
    int n_failed;                // tries, but for those that others have made up for
    bool is_open;                // the account has its first credit
    bool has_offers;             // this step has drafts to choose from
    bool is_try;                 // this step's draft is one
} fxi_pace;

// A step without drafts.
typedef struct fxi_pace_step {
    int n_row;     // tokens that it computes
    int n_decode;  // sequences that draw a token; as many as rows, unless prompts are computed
    double n_read; // tokens in the caches of the sequences that decode
} fxi_pace_step;

// A draft that a sequence could compute.
typedef struct fxi_pace_offer {
    fxi_pace_seq *seq;
    fxi_draft_kind kind;
    int n;         // tokens of it
    double n_read; // tokens in the sequence's cache
    // Of fxi_pace_choose:
    int n_taken;       // how many are to be computed
    double odds, next; // of a token if all before it come true, and of the next one with these
} fxi_pace_offer;

// The drafts of a step.
typedef struct fxi_pace_drafts {
    int n_tok, n_true; // tokens, and those that came true
    double n_read;     // tokens in the caches that their rows read
    double us;         // what it took to draft them
} fxi_pace_drafts;

// Sets n_taken of each offer, at most max_row of them together.
void fxi_pace_choose(fxi_pace *p, fxi_pace_offer *o, int n, const fxi_pace_step *step, int max_row);

// How long a draft of this kind is to be that has yet to be made, which takes cost_us per token; at
// most `most`. Its rows read n_read tokens each.
int fxi_pace_length(fxi_pace *p, const fxi_pace_offer *o, double cost_us,
                    const fxi_pace_step *step);

// A step with these drafts took us, without drafting them.
void fxi_pace_note_step(fxi_pace *p, const fxi_pace_step *step, double us,
                        const fxi_pace_drafts *drafts);

// A draft of which n_taken tokens were computed: the first n_true have come true.
void fxi_pace_note_draft(fxi_pace *p, fxi_pace_seq *s, fxi_draft_kind kind, int n_taken,
                         int n_true);

#endif
