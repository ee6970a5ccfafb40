// company.c - the requests, and their answers from an engine that serves nobody else.
#include "unit/engine/support/company.h"

#include "unit/cmocka_all.h"

#include <string.h>

int32_t alone[N_REQUEST][N_GEN];

prompt make_prompt(int i)
{
    prompt p = {.n = (size_t)(1 + (i * 29) % (MAX_PROMPT - 1))};
    for (size_t t = 0; t < p.n; t++)
        p.tok[t] = t ? (int32_t)(3 + (t * t * 7 + t * 13 + (size_t)i * 57) % 310) : 1;
    return p;
}

fx_engine *open_engine(fx_options opt)
{
    fx_engine *eng;
    fx_error err = {0};
    opt.model_path = MODEL;
    if (fx_engine_open(&opt, &eng, &err) != FX_OK) fail_msg("%s", err.text);
    return eng;
}

void start_client(client *c, fx_engine *eng, prompt *p, int i)
{
    fx_error err = {0};
    *p = make_prompt(i);
    client_init(c, eng, p->tok, p->n, N_GEN);
    if (i % 2)
        c->req.sampling =
            (fx_sampling){.temperature = 1, .top_p = 0.95f, .top_k = 50, .seed = (uint64_t)i};
    if (client_submit(c, &err) != FX_OK) fail_msg("%s", err.text);
}

int run_alone(void **state)
{
    (void)state;
    fx_engine *eng = open_engine((fx_options){.n_thread = 1, .max_seq = 1});
    for (int i = 0; i < N_REQUEST; i++) {
        client c;
        prompt p;
        start_client(&c, eng, &p, i);
        client_wait(&c);
        assert_int_equal(c.choice[0].n_tok, N_GEN);
        memcpy(alone[i], c.choice[0].tok, sizeof alone[i]);
        client_free(&c);
    }
    fx_engine_close(eng);
    return 0;
}
