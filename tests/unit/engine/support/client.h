// client.h - a test's side of a request: submits it, collects the events of all choices, waits for
// the last one.
#ifndef TESTS_ENGINE_CLIENT_H
#define TESTS_ENGINE_CLIENT_H

#include "base/text/buf.h"
#include "flexinfer/flexinfer.h"

#include <pthread.h>

#define CLIENT_MAX_CHOICE 32
#define CLIENT_MAX_TOK    1024

typedef struct client_choice {
    int32_t tok[CLIENT_MAX_TOK];
    fx_token_prob prob[CLIENT_MAX_TOK]; // where requested, without `top`
    fx_logprob top[CLIENT_MAX_TOK];     // the first element of `top`, if there is one
    int n_tok;
    fxi_buf text;
    fx_finish finish; // FX_FINISH_NONE until it ended
    int n_prompt, n_cached, n_generated;
    int stop_token, stop_string;
    double score;
    char error[128];
    fx_status error_status;
} client_choice;

typedef struct client {
    fx_engine *eng;
    fx_request req; // the caller changes it before client_submit
    uint64_t id;
    client_choice choice[CLIENT_MAX_CHOICE];
    fx_token_prob prompt_prob[CLIENT_MAX_TOK]; // by position, where requested
    int n_prompt_prob;
    int n_event_after_last; // must stay 0
    bool last;              // guarded by mu, like the choices
    pthread_mutex_t mu;
    pthread_cond_t cond;
} client;

void client_init(client *c, fx_engine *eng, const int32_t *prompt, size_t n_prompt, int max_tok);
fx_status client_submit(client *c, fx_error *err);
// Without an engine thread: runs iterations until the last event.
void client_run(client *c);
// Submits it, runs it, and returns choice 0; fails the test where it is refused.
const client_choice *client_answer(client *c);
void client_wait(client *c);               // until the last event
void client_wait_tokens(client *c, int n); // until choice 0 has n tokens or ended
void client_free(client *c);

#endif
