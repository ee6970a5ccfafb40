// sim_ref.h - the expected answer of a request, computed in the simplest way: from the tokens
// alone, one sequence at a time, without forks and managed memory. It uses the engine's functions
// on a row of logits only (rules, draw, logprobs), which have references of their own.
#ifndef TESTS_ENGINE_SIM_REF_H
#define TESTS_ENGINE_SIM_REF_H

#include "engine/sampling/sampler.h"
#include "unit/engine/sim/sim_law.h"

enum { SIM_MAX_SEQ = 8 }; // choices, or beams, of a request

// The part of a request that the reference needs. Token 3 + b is the text of byte b.
typedef struct sim_ask {
    const sim_law *law;
    const fx_request *req;
    int max_tok; // clamped
    int n_seq;
    int32_t end[4]; // end-of-text and stop tokens
    int n_end;
} sim_ask;

sim_ask sim_ask_make(const sim_law *law, const fx_request *req, int max_tok);

typedef struct sim_answer {
    int32_t tok[SIM_MAX_CTX + 1]; // prompt, then answer
    int n_tok;
    sim_state state;
    char text[SIM_MAX_CTX];
    int n_text;
    int stop_from; // offset in the text where a stop string may begin; -1: none yet
    fx_finish finish;
    int stop_token, stop_string;
    double sum_logprob; // by the model's logits
    double beam_sum;    // by the logits that the rules left
} sim_answer;

void sim_answer_begin(const sim_ask *k, sim_answer *a);    // the prompt
int sim_answer_len(const sim_ask *k, const sim_answer *a); // tokens of the answer

// The next token; -1: the rules leave none.
int32_t sim_answer_next(const sim_ask *k, const sim_answer *a, int choice);
void sim_answer_add(const sim_ask *k, sim_answer *a, int32_t tok);
void sim_answer_all(const sim_ask *k, sim_answer *a, int choice); // the whole answer

// Probability of tok as the next token; *out points to top[FX_MAX_TOP].
void sim_answer_prob(const sim_ask *k, const sim_answer *a, int32_t tok, int n_top, fx_logprob *top,
                     fx_token_prob *out);

// ---- beam search -------------------------------------------------------------------------------

typedef struct sim_beams {
    sim_answer live[SIM_MAX_SEQ], done[SIM_MAX_SEQ];
    double score[SIM_MAX_SEQ]; // of done, descending
    int n_live, n_done;
    bool is_over;
    sim_answer next[SIM_MAX_SEQ]; // scratch of a step
} sim_beams;

void sim_beams_begin(const sim_ask *k, sim_beams *b);
void sim_beams_step(const sim_ask *k, sim_beams *b); // one token of each beam

#endif
