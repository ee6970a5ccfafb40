// paper_model.h - a model that computes nothing: a forward pass moves a clock by the time that the
// pass would take, and its logits name a token that follows from the token before and its position.
#ifndef FXI_REPLAY_PAPER_MODEL_H
#define FXI_REPLAY_PAPER_MODEL_H

#include "model/model_base.h"
#include "replay/paper/setting.h"

// Enough that prompts which have nothing to do with each other differ in their first tokens.
enum { FXI_PAPER_VOCAB = 1024 };

typedef struct fxi_paper_model {
    fxi_model model; // first: an fxi_model is cast to this
    fxi_geometry geometry;
    fxi_paper_device device;
    double clock_us;               // of the replay
    void (*before_pass)(void *ud); // called when a pass begins; may be NULL
    void *ud;
    int n_candidate;        // tokens of a row of logits that beams choose from; at least 1
    uint64_t n_pass, n_tok; // so far
    double pass_us;         // of the last pass
    int n_seq;              // of the pass that begins, or was last
} fxi_paper_model;

// Freed with fxi_model_free. NULL: no memory.
fxi_paper_model *fxi_paper_model_new(const fxi_geometry *g, const fxi_paper_device *d);

// Time of a pass, by the roofline: the longer of all reads and all operations, plus the device's
// own time. n_seen: pairs of a new token and a token that it attends to. kv_tok: cached tokens that
// are read. n_logit: rows of logits.
double fxi_pass_us(const fxi_geometry *g, const fxi_paper_device *d, int n_tok, double n_seen,
                   double kv_tok);

#endif
