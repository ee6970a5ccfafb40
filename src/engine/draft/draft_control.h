// draft_control.h - how many drafted tokens are worth computing.
//
// One more row in a forward pass costs time; a drafted token that is accepted saves part of a pass.
// Both are measured: how long passes take, by their rows, and how often drafts are accepted, by
// their KIND, for each sequence, and over all of them for a sequence that has not drafted much yet.
// A draft's next token is added while its probability (that all before it are accepted, and it too)
// times what a token takes without drafts is more than what its row takes.
//
// Two rules bound what drafting may lose.
//   ACCOUNT  What drafts have saved comes in, up to 3 passes, and what they have lost goes out: the
//            time of their pass beyond what it would have taken without them. Nothing is drafted
//            while it is overdrawn. 1 % of the time of each pass that had drafts to choose from
//            fills it up to one pass again.
//   TRIES    Drafts that do not look worth it are tried, one row at a time. What a try has lost is
//            1 % of the time until the next one, and half as much with each that fails, down to
//            1/8 %.
// Passes without drafts are the measure of those with them. So one comes first where those that
// were measured do not tell, and one after every 8 with drafts.
//
// Time comes from the caller, and nothing here changes a result. Pure data; one thread.
#ifndef FXI_ENGINE_DRAFT_CONTROL_H
#define FXI_ENGINE_DRAFT_CONTROL_H

#include <stdbool.h>

// Where a draft comes from, and how much speaks for it.
typedef enum fxi_draft_kind {
    FXI_DRAFT_SHORT,  // the text's last 3 or 4 tokens occurred before
    FXI_DRAFT_MIDDLE, // its last 5 to 11
    FXI_DRAFT_LONG,   // 12 or more
    FXI_DRAFT_PREFIX, // recorded after the same tokens
    FXI_DRAFT_MODEL,  // sampled by the draft model
    FXI_DRAFT_FORCED, // the request's grammar leaves no choice
    FXI_N_DRAFT_KIND
} fxi_draft_kind;

// Drafts so far, by kind; older ones count less.
typedef struct fxi_draft_odds { // all zero: nothing was drafted
    double n_accepted[FXI_N_DRAFT_KIND];
    double n_tried[FXI_N_DRAFT_KIND]; // tokens before which all were accepted
} fxi_draft_odds;

enum { FXI_PASS_ROWS = 256 }; // passes with more rows are not measured

// Of an engine. All zero: a new one.
typedef struct fxi_draft_control {
    fxi_draft_odds odds;
    // What a pass takes in which sequences only decode: scale times the mean of those with as many
    // rows. The scale follows the passes without drafts: the machine's speed, and what caches that
    // grow take to read.
    struct fxi_pass_mean {
        double n; // passes in it, up to those that it forgets; 0: none
        double us;
    } mean[FXI_PASS_ROWS + 1];     // by rows
    double scale;                  // 0: nothing was measured
    double prompt_us, prompt_rows; // means of passes that compute prompts
    double plain_read;             // tokens that the last pass without drafts read from caches,
    double reach;                  // and times how many it says what passes take
    int n_since;                   // passes with drafts since then
    // what drafts may lose
    double account_us;
    double wait_us;  // time of passes until the next try
    int n_failed;    // tries, except for those that others have made up for
    bool is_open;    // the account has its first credit
    bool has_offers; // this pass has drafts to choose from
    bool is_try;     // this pass's draft is one
} fxi_draft_control;

// A pass without drafts.
typedef struct fxi_draft_pass {
    int n_row;     // tokens that it computes
    int n_decode;  // sequences that are sampled; as many as rows, unless prompts are computed
    double n_read; // tokens in the caches of the sequences that decode
} fxi_draft_pass;

// A draft that a sequence could compute.
typedef struct fxi_draft_offer {
    fxi_draft_odds *seq; // of the sequence
    fxi_draft_kind kind;
    int n; // tokens of it
    // Of fxi_draft_choose:
    int n_proposed;    // how many are to be computed
    double odds, next; // of a token if all before it are accepted; of the next one with these
} fxi_draft_offer;

// The drafts of a pass.
typedef struct fxi_draft_result {
    int n_tok, n_accepted;
    double us; // time that drafting took
} fxi_draft_result;

// Whether drafts whose tokens take cost_us each could be worth it if all of them were accepted;
// true while it is unknown.
bool fxi_draft_may_pay(const fxi_draft_control *c, const fxi_draft_pass *pass, double cost_us);
// Sets n_proposed of each offer, at most max_row of them together. cost_us: what each of their
// tokens takes where the drafts have yet to be made. Returns what they are expected to save, in us;
// 0: there are none, or one that does not look worth it is tried.
double fxi_draft_choose(fxi_draft_control *c, fxi_draft_offer *o, int n, const fxi_draft_pass *pass,
                        int max_row, double cost_us);
// A pass with these drafts took us, without the time for drafting them. Returns the time that the
// drafts saved, as the account has it: against passes without drafts for the same tokens; less than
// 0: they cost more than they saved. 0 without drafts, and while nothing was measured.
double fxi_draft_note_pass(fxi_draft_control *c, const fxi_draft_pass *pass, double us,
                           const fxi_draft_result *drafts);
// A draft of which n_proposed tokens were computed: the first n_accepted are accepted.
void fxi_draft_note(fxi_draft_control *c, fxi_draft_odds *seq, fxi_draft_kind kind, int n_proposed,
                    int n_accepted);

#endif
