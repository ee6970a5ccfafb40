// simulated_engine.c - see simulated_engine.h.

#include "simulated_engine.h"

#include "engine/iteration.h"
#include "figures.h"

static const fxi_geometry small = {"small", 2, 64, 1, 1, 32, 1e6, SIMULATED_MOST_TOK};

static uint64_t clock_of(void *ud)
{
    return ((simulated_engine *)ud)->clock_us;
}

void simulated_engine_open(simulated_engine *p, const char *manager, int max_seq, int step_tok,
                           uint64_t kv_bytes)
{
    fx_error err = {0};
    p->opt = fxi_replay_options_start();
    p->opt.engine.kv_manager = manager;
    p->opt.geometry = &small;
    p->opt.page_bytes = 4096;
    p->opt.engine.kv_block_tok = SIMULATED_CHUNK_TOK;
    p->opt.engine.max_seq = max_seq;
    p->opt.engine.step_tok = step_tok;
    p->opt.engine.kv_memory_bytes = kv_bytes;
    p->r = (fxi_replay){.opt = &p->opt};
    if (fxi_replay_open(&p->r, &err) != FX_OK) die("%s", err.text);
    p->r.model->before_pass = NULL;
    p->clock_us = 1000000;
    p->r.eng->journal.now_us = clock_of;
    p->r.eng->journal.now_ud = p;
}

static void note_event(void *ud, const fx_event *ev)
{
    ((simulated_engine *)ud)->n_ended += ev->last;
}

void simulated_engine_ask(simulated_engine *p, int n_prompt, int max_tok)
{
    fx_error err = {0};
    uint64_t id;
    fx_request q = fx_request_default();
    for (int i = 0; i < n_prompt; i++) p->tok[i] = 1 + i % 1000;
    p->tok[0] = 1 + p->n_made % 1000;
    p->tok[1] = 1 + p->n_made / 1000;
    p->n_made++;
    q.prompt = p->tok;
    q.n_prompt = (size_t)n_prompt;
    q.max_tok = max_tok;
    q.ignore_eos = true;
    q.on_event = note_event;
    q.ud = p;
    if (fx_submit(p->r.eng, &q, &id, &err) != FX_OK) die("%s", err.text);
}

void simulated_engine_close(simulated_engine *p)
{
    fxi_iteration_end_all(p->r.eng, FX_FINISH_ABORT);
    fxi_replay_close(&p->r);
}
