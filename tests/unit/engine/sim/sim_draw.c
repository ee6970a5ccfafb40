// sim_draw.c - random requests: prompts that share beginnings, repeat, or continue an earlier
// answer; and every field of a request that the scheduler, the cache or the answers depend on.
#include "unit/engine/sim/sim_request.h"

#include <string.h>

enum { FIRST_TEXT = 3 }; // tokens before are control tokens

static int32_t any_text(sim_rng *rng)
{
    return sim_int(rng, FIRST_TEXT, SIM_N_VOCAB - 1);
}

void sim_library_fill(sim_library *l, sim_rng *rng)
{
    l->n_past = 0;
    for (int k = 0; k < SIM_N_BASE; k++)
        for (int i = 0; i < SIM_MAX_CTX; i++) l->base[k][i] = any_text(rng);
    // two that differ late
    memcpy(l->base[1], l->base[0], sizeof l->base[0] / 4);
}

void sim_library_add(sim_library *l, const sim_answer *a, int n_prompt)
{
    sim_past *p = &l->past[l->n_past++ % SIM_N_PAST];
    p->n_prompt = n_prompt;
    p->n_tok = a->n_tok < SIM_MAX_CTX ? a->n_tok : SIM_MAX_CTX;
    memcpy(p->tok, a->tok, (size_t)p->n_tok * sizeof *p->tok);
}

// ---- prompts -----------------------------------------------------------------------------------

static int any_len(const sim_taste *t, sim_rng *rng)
{
    if (sim_one_in(rng, t->long_prompts ? 3 : 12)) return sim_int(rng, t->ctx_tok / 2, t->ctx_tok);
    if (sim_one_in(rng, 6)) return sim_int(rng, 1, 3);
    if (t->long_answers && !sim_one_in(rng, 3)) // so that memory runs out later
        return sim_int(rng, 1, t->ctx_tok / 6);
    return sim_int(rng, 1, t->ctx_tok / 2);
}

static void add_tail(sim_request *r, int n_tok, sim_rng *rng)
{
    while ((int)r->req.n_prompt < n_tok) r->prompt[r->req.n_prompt++] = any_text(rng);
}

static void add_front(sim_request *r, const int32_t *tok, int n_tok)
{
    memcpy(r->prompt, tok, (size_t)n_tok * sizeof *tok);
    r->req.n_prompt = (size_t)n_tok;
}

static void draw_prompt(sim_request *r, const sim_taste *t, const sim_library *l, sim_rng *rng)
{
    const int n_past = l->n_past < SIM_N_PAST ? l->n_past : SIM_N_PAST;
    const sim_past *p = n_past ? &l->past[sim_int(rng, 0, n_past - 1)] : NULL;
    const int n_tok = any_len(t, rng), how = sim_int(rng, 0, 9);
    if (how >= 8 && p) { // the next turn of a chat
        add_front(r, p->tok, p->n_tok);
        add_tail(r, p->n_tok + sim_int(rng, 1, 12), rng);
    } else if (how >= 6 && p) { // again
        add_front(r, p->tok, p->n_prompt);
    } else if (how >= 2) {
        add_front(r, l->base[sim_int(rng, 0, SIM_N_BASE - 1)], sim_int(rng, 0, n_tok));
        add_tail(r, n_tok, rng);
    } else {
        add_tail(r, n_tok, rng);
    }
    if (!r->req.n_prompt) add_tail(r, 1, rng);
    if ((int)r->req.n_prompt > t->ctx_tok) r->req.n_prompt = (size_t)t->ctx_tok; // refused
}

// ---- the other fields --------------------------------------------------------------------------

static void draw_choices(sim_request *r, const sim_taste *t, sim_rng *rng)
{
    fx_request *q = &r->req;
    const int how = sim_int(rng, 0, 11), wish = sim_one_in(rng, 3) ? SIM_MAX_SEQ : 3;
    const int most = t->max_seq < wish ? t->max_seq : wish;
    if (how == 0) q->n_choice = sim_int(rng, 1, SIM_MAX_SEQ - 2); // refused if too many
    if (how == 1 || how == 2) q->n_choice = sim_int(rng, 1, most);
    if (how == 3 && most > 1) {
        q->n_best = sim_int(rng, 2, most);
        q->n_choice = sim_int(rng, 1, q->n_best);
    }
    if (how < 4 || how > 5 || most < 2) return;
    q->beam_width = sim_int(rng, 2, most);
    q->n_choice = sim_int(rng, 1, q->beam_width);
    q->length_penalty = sim_float(rng, 0, 2);
    q->early_stop = (fx_early_stop)sim_int(rng, 0, 2);
}

static void draw_rules(sim_request *r, sim_rng *rng)
{
    fx_sampling *s = &r->req.sampling;
    if (sim_one_in(rng, 4)) s->ban = r->ban, s->n_ban = 1, r->ban[0] = any_text(rng);
    if (sim_one_in(rng, 4))
        s->bias = r->bias, s->n_bias = 1, r->bias[0] = (fx_bias){any_text(rng), 2};
    if (sim_one_in(rng, 3)) s->repetition_penalty = sim_float(rng, 0.8f, 1.5f);
    if (sim_one_in(rng, 3)) s->presence_penalty = sim_float(rng, -1, 1);
    if (sim_one_in(rng, 3)) s->frequency_penalty = sim_float(rng, -1, 1);
    if (!sim_one_in(rng, 6)) return;
    s->allow = r->allow; // sometimes so few that min_tok leaves none
    s->n_allow = (size_t)(sim_one_in(rng, 4) ? 1 : sim_int(rng, 2, 24));
    for (size_t i = 0; i < s->n_allow; i++) r->allow[i] = sim_int(rng, 2, SIM_N_VOCAB - 1);
}

static void draw_sampling(sim_request *r, sim_rng *rng)
{
    fx_sampling *s = &r->req.sampling;
    s->temperature = sim_one_in(rng, 2) ? 0 : sim_float(rng, 0.5f, 3);
    s->seed = sim_u64(rng) % 1000;
    if (sim_one_in(rng, 4)) s->top_k = sim_int(rng, 1, 20);
    if (sim_one_in(rng, 4)) s->top_p = sim_float(rng, 0.3f, 1);
    if (sim_one_in(rng, 8)) s->min_p = sim_float(rng, 0, 0.2f);
    if (sim_one_in(rng, 8)) s->typical_p = sim_float(rng, 0.3f, 1);
    if (sim_one_in(rng, 8)) s->dry_multiplier = sim_float(rng, 0, 2);
    s->n_dry_breaker = 0; // tokens have no texts here
    if (sim_one_in(rng, 8)) s->xtc_probability = sim_float(rng, 0, 1);
    if (sim_one_in(rng, 3)) draw_rules(r, rng);
}

static void draw_stops(sim_request *r, sim_rng *rng)
{
    fx_request *q = &r->req;
    q->ignore_eos = sim_one_in(rng, 3);
    q->include_stop = sim_one_in(rng, 2);
    if (sim_one_in(rng, 4)) {
        q->stop_token = r->stop_token;
        q->n_stop_token = (size_t)sim_int(rng, 1, 2);
        for (int i = 0; i < 2; i++) r->stop_token[i] = any_text(rng);
    }
    if (!sim_one_in(rng, 5)) return;
    q->stop = r->stop;
    q->n_stop = 1;
    r->stop[0] = r->stop_text;
    for (int i = sim_int(rng, 0, 1); i >= 0; i--) r->stop_text[i] = (char)sim_int(rng, 1, 40);
}

static void draw_service(sim_request *r, const sim_taste *t, sim_rng *rng)
{
    static const char *const tenants[] = {NULL, "a", "b"};
    fx_request *q = &r->req;
    q->tenant = tenants[sim_int(rng, 0, t->n_tenant - 1)];
    q->no_cache = sim_one_in(rng, 5);
    q->client = (uint64_t)sim_int(rng, 0, t->n_tenant);
    if (sim_one_in(rng, 4)) q->priority = sim_int(rng, -20, 20);
    if (sim_one_in(rng, 6)) q->keep_priority = sim_int(rng, 0, 7);
    if (sim_one_in(rng, 6)) q->keep_s = (uint32_t)sim_int(rng, 0, 30);
}

void sim_request_draw(sim_request *r, const sim_taste *t, const sim_library *l, sim_rng *rng)
{
    memset(r, 0, sizeof *r);
    r->req = fx_request_default();
    r->req.prompt = r->prompt;
    draw_prompt(r, t, l, rng);
    const int how = sim_int(rng, 0, 19);
    r->req.max_tok = how < 3 ? -1 : how == 3 ? 0 : sim_int(rng, 1, 24); // -1: all that fits
    if (how > (t->long_answers ? 4 : 15)) r->req.max_tok = sim_int(rng, 1, t->ctx_tok);
    if (sim_one_in(rng, 8)) r->req.sampling.min_tok = sim_int(rng, 1, 20);
    draw_choices(r, t, rng);
    draw_sampling(r, rng);
    draw_stops(r, rng);
    fx_request *q = &r->req;
    q->logprobs = sim_one_in(rng, 4);
    if (q->logprobs) q->n_top = sim_int(rng, 0, 5);
    q->prompt_logprobs = sim_one_in(rng, 5);
    if (q->prompt_logprobs) q->n_prompt_top = sim_int(rng, 0, 3);
    draw_service(r, t, rng);
}
