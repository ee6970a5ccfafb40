// step_cost.h - what a step takes in which sequences only decode.
//
//     time = slower * mean time of steps with so many rows
//            + read_us * (tokens that it reads - mean of those that these steps read)
//
// `Tokens read` are those in the caches of the sequences, once for each row that attends to them.
// They grow with every step and fall where an answer ends, so that steps of the same rows take
// twice as long or half. `slower` is what else happens to the machine. Steps without drafts tell
// it: those with drafts are compared to what a step would take now, not to what it once took.
//
// Pure data; one thread.
#ifndef FXI_ENGINE_STEP_COST_H
#define FXI_ENGINE_STEP_COST_H

#include <stdbool.h>

enum { FXI_COST_ROWS = 256 }; // steps with more rows are not measured

// Means of steps with so many rows; older ones count less.
typedef struct fxi_cost_mean {
    double n;      // steps in it, up to those that it forgets; 0: none
    double us;     // at the usual speed
    double raw_us; // at the speed that they had
    double n_read;
} fxi_cost_mean;

// Sums for a line; older ones count less.
typedef struct fxi_cost_fit {
    double n, x, y, xx, xy;
} fxi_cost_fit;

// All zero: nothing was measured.
typedef struct fxi_step_cost {
    fxi_cost_mean mean[FXI_COST_ROWS + 1]; // by rows
    fxi_cost_fit read;                     // more time by more tokens read than the mean
    fxi_cost_fit rows;                     // time by rows, but for reading
    double slower;                         // than usual: 1.1 is 10 %; 0: nothing was measured
    double prompt_us, prompt_rows;         // means of steps that compute prompts
    double plain_read;                     // tokens that the last step without drafts read
    int n_since;                           // steps with drafts since then
    int most_since;                        // that may be judged by it
} fxi_step_cost;

// What a step takes now; 0: nothing was measured that tells.
double fxi_cost_of(const fxi_step_cost *c, int n_row, double n_read);

// What n_more rows take at least: half of what a line through all steps says. Of two means one may
// be off by more than a row takes.
double fxi_cost_least(const fxi_step_cost *c, int n_more);

// What each row takes in a step that computes prompts; 0: none was measured.
double fxi_cost_prompt_row(const fxi_step_cost *c);

// Whether fxi_cost_of is good enough to judge drafts by: steps of about as many rows were measured,
// and lately one without drafts that read about as much.
bool fxi_cost_is_sure(const fxi_step_cost *c, int n_row, double n_read);

// Rows on top of n_row that may be computed: 8 more than twice as many as were before.
int fxi_cost_most_more(const fxi_step_cost *c, int n_row);

// Of the steps with drafts since the last one without: twice as many of them may be judged by one
// from now on, up to 32, or only a quarter.
void fxi_cost_trust(fxi_step_cost *c, bool more);

// A step took us. It counts as at most twice what was expected.
void fxi_cost_note(fxi_step_cost *c, int n_row, double n_read, double us, bool has_drafts);
double fxi_cost_without_hitch(const fxi_step_cost *c, int n_row, double n_read, double us);

// A step that computes prompts took us.
void fxi_cost_note_prompt(fxi_step_cost *c, int n_row, double us);

#endif
