// client.c - collects the events of one request.
#include "unit/engine/support/client.h"

#include "unit/cmocka_all.h"

#include "engine/iteration.h"
#include "engine/memory/kv_memory.h"

#include <string.h>

static void take_token(client_choice *ch, const fx_event *ev)
{
    if (ch->n_tok == CLIENT_MAX_TOK) return;
    if (ev->prob) {
        ch->prob[ch->n_tok] = *ev->prob;
        if (ev->prob->n_top) ch->top[ch->n_tok] = ev->prob->top[0];
    }
    ch->tok[ch->n_tok++] = ev->token;
}

static void on_event(void *ud, const fx_event *ev)
{
    client *c = ud;
    client_choice *ch = &c->choice[ev->choice];
    pthread_mutex_lock(&c->mu);
    if (c->last || ch->finish != FX_FINISH_NONE) c->n_event_after_last++;
    if (ev->token >= 0 && ev->position < ev->n_prompt) {
        if (ev->position != c->n_prompt_prob + 1) c->n_event_after_last++; // out of order
        c->n_prompt_prob++;
        if (ev->position < CLIENT_MAX_TOK) c->prompt_prob[ev->position] = *ev->prob;
    } else if (ev->token >= 0)
        take_token(ch, ev);
    fxi_buf_add(&ch->text, ev->text, ev->text_bytes);
    if (ev->finish != FX_FINISH_NONE) {
        ch->finish = ev->finish;
        ch->stop_token = ev->stop_token;
        ch->stop_string = ev->stop_string;
        ch->score = ev->score;
        if (ev->error) strncpy(ch->error, ev->error, sizeof ch->error - 1);
        ch->error_status = ev->error_status;
    }
    ch->n_prompt = ev->n_prompt;
    ch->n_cached = ev->n_cached;
    ch->n_generated = ev->n_generated;
    c->last = ev->last;
    pthread_cond_broadcast(&c->cond);
    pthread_mutex_unlock(&c->mu);
}

void client_init(client *c, fx_engine *eng, const int32_t *prompt, size_t n_prompt, int max_tok)
{
    memset(c, 0, sizeof *c);
    c->eng = eng;
    c->req = fx_request_default();
    c->req.prompt = prompt;
    c->req.n_prompt = n_prompt;
    c->req.max_tok = max_tok;
    c->req.sampling.temperature = 0;
    c->req.ignore_eos = true;
    c->req.on_event = on_event;
    c->req.ud = c;
    pthread_mutex_init(&c->mu, NULL);
    pthread_cond_init(&c->cond, NULL);
}

fx_status client_submit(client *c, fx_error *err)
{
    return fx_submit(c->eng, &c->req, &c->id, err);
}

void client_run(client *c)
{
    while (!c->last) (void)fxi_iteration_run(c->eng);
}

const client_choice *client_answer(client *c)
{
    fx_error err = {0};
    if (client_submit(c, &err) != FX_OK) fail_msg("%s", err.text);
    client_run(c);
    assert_int_equal(c->n_event_after_last, 0);
    return &c->choice[0];
}

void client_wait(client *c)
{
    pthread_mutex_lock(&c->mu);
    while (!c->last) pthread_cond_wait(&c->cond, &c->mu);
    pthread_mutex_unlock(&c->mu);
}

void client_wait_tokens(client *c, int n)
{
    pthread_mutex_lock(&c->mu);
    while (!c->last && c->choice[0].n_tok < n) pthread_cond_wait(&c->cond, &c->mu);
    pthread_mutex_unlock(&c->mu);
}

void client_free(client *c)
{
    for (int i = 0; i < CLIENT_MAX_CHOICE; i++) fxi_buf_free(&c->choice[i].text);
    pthread_mutex_destroy(&c->mu);
    pthread_cond_destroy(&c->cond);
}
