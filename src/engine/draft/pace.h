// pace.h - how many drafted tokens are worth computing.
//
// A row more in a step costs time; a token that was drafted and comes true saves a part of a step.
// Both are measured. What a step takes is kept by its number of rows; how often drafts come true by
// their KIND, for each sequence, and over all of them for a sequence that has not drafted much yet.
// A draft's next token is added while its probability (that all before it come true, and it, too)
// times what a token takes without drafts is more than what its row takes.
//
// An ACCOUNT bounds what drafting may lose. What drafts have saved comes in, up to a limit, and
// their rows' time goes out; 1 % of the time of each step comes in besides. Nothing is
// drafted while it is overdrawn, and drafts that do not look worth it are tried, a row at a time,
// when the account can pay for them. So over any time drafting costs at most that share, and what
// it has saved before (3 steps at most).
//
// Time comes from the caller, and nothing here changes a result. Pure data; one thread.
#ifndef FXI_ENGINE_PACE_H
#define FXI_ENGINE_PACE_H

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

enum { FXI_PACE_ROWS = 128 }; // steps with more rows are not told apart

// Drafts so far, older ones counting less.
typedef struct fxi_pace_odds {
    double n_true, n_tried; // tokens that came true, and those of which all before did
} fxi_pace_odds;

// Of a sequence. All zero: it has drafted nothing.
typedef struct fxi_pace_seq {
    fxi_pace_odds odds[FXI_N_DRAFT_KIND];
} fxi_pace_seq;

// Sums for a line through what steps took, by their rows; older ones count less.
typedef struct fxi_pace_fit {
    double n, x, y, xx, xy;
} fxi_pace_fit;

// Of an engine.
typedef struct fxi_pace {
    double step_us[FXI_PACE_ROWS + 1]; // by rows; 0: none was measured
    double n_step[FXI_PACE_ROWS + 1];  // measurements in it, up to those that it forgets
    fxi_pace_fit fit;
    double row_us; // of a row in a large step; 0: not measured
    fxi_pace_odds odds[FXI_N_DRAFT_KIND];
    double account_us;
    bool is_open; // the account has its first credit
} fxi_pace;

// A draft that a sequence could compute.
typedef struct fxi_pace_offer {
    fxi_pace_seq *seq;
    fxi_draft_kind kind;
    int n;       // tokens of it
    int n_taken; // fxi_pace_choose: how many are to be computed
} fxi_pace_offer;

// What a step of so many rows takes, by what was measured of its like; 0: nothing was.
double fxi_pace_step_us(const fxi_pace *p, int n_row);

// Sets n_taken of each offer, at most max_row of them together. The step has n_row rows without
// them, of which n_decode draw a token.
void fxi_pace_choose(fxi_pace *p, fxi_pace_offer *o, int n, int n_row, int n_decode, int max_row);

// How long a draft of this kind is to be that has yet to be made, which takes cost_us per token; at
// most `most`. The step is as in fxi_pace_choose.
int fxi_pace_length(const fxi_pace *p, const fxi_pace_seq *s, fxi_draft_kind kind, double cost_us,
                    int n_row, int n_decode, int most);

// A step of n_row rows in all took us. Of them n_draft were drafted, which took draft_us before,
// and n_true of them came true; n_decode sequences drew at least one token.
void fxi_pace_note_step(fxi_pace *p, int n_row, double us, int n_decode, int n_draft, int n_true,
                        double draft_us);

// A draft of which n_taken tokens were computed: the first n_true have come true.
void fxi_pace_note_draft(fxi_pace *p, fxi_pace_seq *s, fxi_draft_kind kind, int n_taken,
                         int n_true);

#endif
