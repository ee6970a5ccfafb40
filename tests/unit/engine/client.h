// client.h - a test's end of a request: submits, collects the events of all choices, waits for the
// last.
#ifndef TESTS_ENGINE_CLIENT_H
#define TESTS_ENGINE_CLIENT_H

#include "base/buf.h"
#include "flexinfer/flexinfer.h"

#include <pthread.h>

#define CLIENT_MAX_CHOICE 4
#define CLIENT_MAX_TOK    512

typedef struct client_choice {
    int32_t tok[CLIENT_MAX_TOK];
    int n_tok;
    fxi_buf text;
    fx_finish finish; // FX_FINISH_NONE until it ended
    int n_prompt, n_generated;
} client_choice;

typedef struct client {
    fx_engine *eng;
    fx_request req; // to be filled in before client_submit
    uint64_t id;
    client_choice choice[CLIENT_MAX_CHOICE];
    int n_event_after_last; // must stay 0
    bool last;              // guarded by mu, like the choices
    pthread_mutex_t mu;
    pthread_cond_t cond;
} client;

void client_init(client *c, fx_engine *eng, const int32_t *prompt, size_t n_prompt, int max_tok);
fx_status client_submit(client *c, fx_error *err);
void client_wait(client *c);               // until the last event
void client_wait_tokens(client *c, int n); // until choice 0 has n tokens or ended
void client_free(client *c);

#endif
