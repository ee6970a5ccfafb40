// iteration.h - one iteration of the engine: the loop, the plan of a forward pass, the pass, its
// samples and what follows from them.
#ifndef FXI_ENGINE_ITERATION_H
#define FXI_ENGINE_ITERATION_H

#include "engine/engine.h"
#include "engine/sampling/sampler.h"

// ---- iteration.c -------------------------------------------------------------------------------

// One iteration. False: there were no requests.
bool fxi_iteration_run(fx_engine *eng);
// The first part of that: new requests wait from now on.
void fxi_iteration_collect(fx_engine *eng);
// After an iteration: nothing could be computed in it, and rows are being swapped, or a smaller
// budget waits for memory, or what grammars allow is being found out.
bool fxi_iteration_is_blocked(const fx_engine *eng);
// Ends every request, new ones included, with its events.
void fxi_iteration_end_all(fx_engine *eng, fx_finish why);
// Publishes the statistics. Returns the bytes that are being returned to the system.
uint64_t fxi_iteration_publish(fx_engine *eng);
// How long an idle engine waits for its next action, in ms; 0: none is left.
int fxi_idle_wait_ms(const fx_engine *eng);
// Before an iteration: collects new requests. How long the iteration should be delayed for
// companions of the requests that found the engine idle; 0: it is due. Call again after each
// arrival.
uint64_t fxi_batching_delay_us(fx_engine *eng);

// ---- plan.c ------------------------------------------------------------------------------------

// Decides which sequences compute how many tokens in the next pass (n_planned) and extends their
// caches for them. Returns the sum.
int fxi_plan_pass(fx_engine *eng);

// A prompt of the pass that is planned.
typedef struct fxi_prompt_share {
    fxi_seq *s;
    int order;
    int need, share; // tokens
} fxi_prompt_share;

// ---- admit.c -----------------------------------------------------------------------------------

// Admits waiting requests while there are places and memory. If no request runs and the first one
// cannot start, decides its failure. Whether there are more running requests now.
bool fxi_admit_waiting(fx_engine *eng);
// Matches the LIVE sequences of a running request that have no cache and wait for no prefix.
// Whether some have a cache now; the request then is fresh.
bool fxi_admit_match(fx_engine *eng, fxi_live_request *r);

// Rows of logits per pass in addition to one for each sequence: for prompt_logprobs and drafted
// tokens.
enum { FXI_SPARE_ROWS = 64 };

// ---- one forward pass ---------------------------------------------------------------------------

// What few samples have: those with logprobs, and those of beams.
typedef struct fxi_sample_lists {
    fx_logprob top[FX_MAX_TOP];       // what prob.top points to
    fx_logprob next[2 * FX_MAX_BEAM]; // of a beam: its likeliest next tokens by the rules
} fxi_sample_lists;

// One row of logits and what is sampled from it. All of them are read in each pass.
typedef struct fxi_sample {
    fxi_seq *s;
    int row;
    int position;       // of the prompt token whose probability is wanted; 0: sample a token
    bool is_broken;     // the row has a number that is not finite; nothing is sampled
    int32_t tok;        // the token sampled, or that of the prompt; -1: none
    const char *error;  // why: a static line; NULL: the rules leave none
    bool has_prob;      // `prob` is set
    fx_token_prob prob; // of tok
    fxi_sample_lists *lists;
    int n_next; // in lists->next
} fxi_sample;

// Memory that passes reuse, so that a pass allocates nothing.
typedef struct fxi_forward {
    int32_t *token;       // [step_tok]
    fxi_batch_seq *batch; // [max_seq]
    fxi_seq **seq;        // [max_seq] the sequence of each element of `batch`
    int *row;             // [max_seq] its first row of logits, or of `rows`
    int n_seq;
    fxi_sample *sample;      // [n_row]
    fxi_sample_lists *lists; // [n_row] of each
    int n_sample;
    float *logits;               // [n_row][n_vocab], memory of the device, as best and rows
    int32_t *best;               // [n_row] where logits are largest
    bool has_best;               // this pass has no logits, but that
    float *rows;                 // [step_tok][dim] of texts to be embedded; NULL: none can be
    fx_error error;              // of the last pass that failed
    fxi_sample_scratch *scratch; // [n_thread]
} fxi_forward;

// ---- forward.c ---------------------------------------------------------------------------------

fx_status fxi_forward_make(fx_engine *eng, fx_error *err); // eng->pass; FX_ENOMEM, the device's
void fxi_forward_free(fx_engine *eng);
int fxi_forward_n_row(const fx_engine *eng, const fxi_seq *s); // rows that s has in the batch
// Runs one forward pass over the planned tokens and applies its results: caches advance, tokens are
// appended and emitted, choices and beams forked, ends decided.
void fxi_forward_run(fx_engine *eng);

// ---- sample.c ----------------------------------------------------------------------------------

// Adds the sample of a token, or of the next tokens of a beam, from this row.
void fxi_sample_add(fxi_forward *p, fxi_seq *s, int row);
// Adds the probabilities of prompt tokens that are still to be emitted; the rows from `row` on are
// those of the tokens from first_pos to s->n_computed.
void fxi_sample_add_prompt(fxi_forward *p, fxi_seq *s, int row, int first_pos);
// Whether s takes the likeliest token, and nothing else of its row is wanted.
bool fxi_sample_takes_best(const fxi_seq *s);
void fxi_sample_run(fx_engine *eng); // computes all that were added, on all threads

// ---- commit.c ----------------------------------------------------------------------------------

// Applies all samples in order: tokens are appended and emitted, beams chosen. Returns the number
// of tokens generated; the beams of a request count as one.
int fxi_commit_samples(fx_engine *eng);
// Forks the choices of a request whose first sequence has computed the prompt. False: a fork
// failed; the request was preempted, or its failure is decided.
bool fxi_commit_fork_choices(fx_engine *eng, fxi_live_request *r);

// ---- output.c ----------------------------------------------------------------------------------

// Appends a sampled token, emits it unless output is deferred, and decides s->finish if it is the
// last one. prob may be NULL.
void fxi_output_add(const fx_engine *eng, fxi_seq *s, int32_t tok, const fx_token_prob *prob);
// Emits the probability of the prompt token at this position.
void fxi_output_prompt_prob(const fx_engine *eng, fxi_seq *s, int position,
                            const fx_token_prob *prob);
// Emits the end of a choice of a request whose output is not deferred.
void fxi_output_end(const fx_engine *eng, fxi_seq *s);
// Emits the best answers of a request with deferred output whose sequences are all DONE.
void fxi_output_deferred(const fx_engine *eng, fxi_live_request *r);

#endif
