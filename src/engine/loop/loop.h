// loop.h - what happens in one turn of the engine, by file.
#ifndef FXI_ENGINE_LOOP_H
#define FXI_ENGINE_LOOP_H

#include "engine/engine.h"
#include "engine/group/beam.h"
#include "engine/sampling/sampler.h"

// ---- turn.c ------------------------------------------------------------------------------------

// One turn: collect the inbox, go on with swapping, end cancelled groups, plan, compute one step,
// end finished groups, publish the statistics. Without groups it takes the idle actions that are
// due. False: there were no groups.
bool fxi_turn_run(fx_engine *eng);
// The first part of that: what is in the inbox waits from now on.
void fxi_turn_collect(fx_engine *eng);
// After a turn: nothing could be computed in it, and rows are on their way to the swap or back, or
// a smaller budget waits for memory, or what grammars allow is being found out.
bool fxi_turn_is_blocked(const fx_engine *eng);
// Ends every group, including those in the inbox, with its events.
void fxi_turn_end_all(fx_engine *eng, fx_finish why);

// ---- idle.c ------------------------------------------------------------------------------------

void fxi_idle_act(fx_engine *eng);          // takes the actions that are due
void fxi_idle_clear(fx_engine *eng);        // what fx_clear_cache asks for
int fxi_idle_wait_ms(const fx_engine *eng); // to the next one; 0: none is left
// After a turn: so much memory is still on its way back to the system.
void fxi_idle_note_returning(fx_engine *eng, uint64_t bytes);

// ---- inbox.c: and fx_submit, fx_cancel, fx_clear_cache, fx_set_kv_memory, fx_engine_stats ------

fxi_group *fxi_inbox_take(fx_engine *eng);           // the new groups, by next_inbox; NULL: none
void fxi_inbox_forget(fx_engine *eng, fxi_group *g); // frees it; fx_cancel no longer finds it
void fxi_inbox_wait(fx_engine *eng, int max_ms);     // for work, at most so long; 0: no limit
// For more groups, while none has been computed yet. False: do not wait any longer, since one was
// cancelled or the engine closes.
bool fxi_inbox_wait_others(fx_engine *eng, uint64_t max_us);
bool fxi_inbox_is_closing(fx_engine *eng);
void fxi_inbox_close(fx_engine *eng);      // from any thread: fx_submit refuses from now on
bool fxi_inbox_take_clear(fx_engine *eng); // whether fx_clear_cache has been called
// What fx_engine_stats returns. Returns the bytes that are on their way back to the system.
uint64_t fxi_inbox_publish(fx_engine *eng);
// A forward pass over n_tok tokens, n_prompt_tok of them of prompts, after which n_generated_tok
// were drawn.
void fxi_inbox_count_step(fx_engine *eng, int n_tok, int n_prompt_tok, int n_generated_tok);
void fxi_inbox_count_failure(fx_engine *eng, bool device_is_lost); // of a forward pass
// A prompt of n_tok tokens was looked up in the prefix cache, which had n_cached_tok of them.
void fxi_inbox_count_lookup(fx_engine *eng, int n_tok, int n_cached_tok);

// ---- plan.c, prompts.c, admit.c, join.c --------------------------------------------------------

// Decides which sequences compute how many tokens in the next step (n_step) and extends their
// caches for them. Returns the sum.
int fxi_plan_step(fx_engine *eng);

// Distributes `left` tokens of the step over the prompts that are being computed.
void fxi_prompts_plan(fx_engine *eng, int left);
// Prefetches the memory that they will need in the next step, during this forward pass. The manager
// does the same for sequences that decode (ahead_tok).
void fxi_prompts_prepare(fx_engine *eng);
size_t fxi_prompts_scratch_bytes(void); // of one element of eng->reader

// Admits waiting groups while there are places and memory. If no group runs and the first one
// cannot start, decides its failure. Whether there are more running groups now.
bool fxi_admit_waiting(fx_engine *eng);

// Whether s waits for a prefix that another sequence is computing.
bool fxi_join_waits(fx_engine *eng, fxi_seq *s);
// Matches the LIVE sequences of running groups that have no cache and wait for no prefix. Whether
// some have a cache now.
bool fxi_join_match_running(fx_engine *eng);

// ---- step.c, step_scratch.c, step_batch.c, draw.c ----------------------------------------------

// What few draws have: those of logprobs, and of beams.
typedef struct fxi_draw_lists {
    fx_logprob top[FX_MAX_TOP];       // what prob.top points to
    fx_logprob next[2 * FX_MAX_BEAM]; // of a beam: its likeliest next tokens by the rules
} fxi_draw_lists;

// One row of logits and what is drawn from it. All of them are looked at in each step.
typedef struct fxi_draw {
    fxi_seq *s;
    int row;
    int position;       // of the prompt token whose probability is wanted; 0: draw a token
    bool is_broken;     // the row has a number that is not finite; nothing is drawn
    int32_t tok;        // the token drawn, or that of the prompt; -1: none
    const char *error;  // why: a static line; NULL: the rules leave none
    bool has_prob;      // `prob` is set
    fx_token_prob prob; // of tok
    fxi_draw_lists *lists;
    int n_next; // in lists->next
} fxi_draw;

// Scratch of one step.
typedef struct fxi_step {
    int32_t *token;       // [step_tok]
    fxi_batch_seq *batch; // [max_seq]
    fxi_seq **seq;        // [max_seq] the sequence of each element of `batch`
    int *row;             // [max_seq] its first row of logits, or of `rows`
    int n_seq;
    fxi_draw *draw;        // [n_row]
    fxi_draw_lists *lists; // [n_row] of each
    int n_draw;
    float *logits;               // [n_row][n_vocab], memory of the device, as best and rows
    int32_t *best;               // [n_row] where logits are largest
    bool has_best;               // of this step there are no logits, but that
    float *rows;                 // [step_tok][dim] of texts to be embedded; NULL: none can be
    fx_error error;              // of the last pass that failed
    fxi_sample_scratch *scratch; // [n_thread]
} fxi_step;

fx_status fxi_step_make(fx_engine *eng,
                        fx_error *err); // eng->step; errors: FX_ENOMEM, the device's
void fxi_step_free(fx_engine *eng);
int fxi_step_spare_rows(void); // rows of logits per step beyond one for each sequence: for
                               // prompt_logprobs and drafted tokens
int fxi_step_max_row(const fx_engine *eng); // rows of logits per step

// Runs one forward pass over the n_tok tokens planned and applies its results: caches advance,
// tokens are appended and emitted, choices and beams forked, ends decided.
void fxi_step_run(fx_engine *eng, int n_tok);

fxi_batch fxi_step_batch(fx_engine *eng); // the planned tokens; fills step->seq and ->row
int fxi_step_n_row(const fx_engine *eng, const fxi_seq *s); // rows that s has in the batch
int fxi_step_n_prompt(const fxi_step *st); // tokens of the batch that belong to prompts

// Adds the draw of a token, or of the next tokens of a beam, from this row.
void fxi_draw_add(fxi_step *st, fxi_seq *s, int row);
// Adds the probabilities of prompt tokens that are still to be emitted; the rows from `row` on are
// those of the tokens from first_pos to s->n_computed.
void fxi_draw_add_prompt(fxi_step *st, fxi_seq *s, int row, int first_pos);
// Whether s takes the likeliest token, and nothing else of its row is wanted.
bool fxi_draw_takes_best(const fxi_seq *s);
void fxi_draw_run(fx_engine *eng); // computes all that were added, on all threads

// ---- settle.c, fork.c --------------------------------------------------------------------------

// Applies all draws in order: tokens are appended and emitted, beams chosen. Returns the number of
// tokens generated; the beams of a group count as one.
int fxi_settle_draws(fx_engine *eng);

// Forks the choices of a group whose first sequence has computed the prompt. False: a fork failed;
// the group was preempted, or its failure is decided.
bool fxi_fork_choices(fx_engine *eng, fxi_group *g);
// Makes the n sequences in g->beam->next the beams of the group, each with the cache of its parent
// (its index in g->seq is in `choice`) or a fork of it. If a fork fails: as above.
void fxi_fork_beams(fx_engine *eng, fxi_group *g, int n);

// ---- output.c ----------------------------------------------------------------------------------

// Appends a drawn token, emits it unless the group is hidden, and decides s->finish if it is the
// last one. prob may be NULL.
void fxi_output_add(const fx_engine *eng, fxi_seq *s, int32_t tok, const fx_token_prob *prob);
void fxi_output_prompt_prob(const fx_engine *eng, fxi_seq *s, int position,
                            const fx_token_prob *prob);
void fxi_output_end(const fx_engine *eng,
                    fxi_seq *s); // emits the end of a choice of a group that is not hidden
// Emits the best answers of a hidden group whose sequences are all DONE.
void fxi_output_hidden(const fx_engine *eng, fxi_group *g);

#endif
