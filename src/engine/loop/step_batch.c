// step_batch.c - the batch of a step: the planned tokens of all running sequences, one run each.
//
// A sequence has a row of logits for its last known token, one for each drafted token behind it,
// and with prompt_logprobs one for each token while its prompt is computed. Texts to be embedded
// have rows of the last norm instead; they come last.
#include "engine/loop/loop.h"
#include "model/device.h"

int fxi_step_n_row(const fx_engine *eng, const fxi_seq *s)
{
    if (s->embd) return fxi_embedding_n_row(s, fxi_model_get_shape(eng->model));
    if (s->n_draft) return 1 + s->n_draft;
    return fxi_seq_emits_prompt(s) ? s->n_step : s->n_computed + s->n_step == s->n_tok;
}

static void put_tokens(fxi_step *st, fxi_batch *b, const fxi_seq *s)
{
    const int n_known = s->n_step - s->n_draft;
    for (int i = 0; i < n_known; i++) st->token[b->n_tok++] = s->tok[s->n_computed + i];
    for (int i = 0; i < s->n_draft; i++) st->token[b->n_tok++] = s->draft->tok[i];
}

static void put_seq(const fx_engine *eng, fxi_batch *b, fxi_seq *s, int *n_row)
{
    fxi_step *st = eng->step;
    fxi_batch_seq *to = &st->batch[b->n_seq];
    put_tokens(st, b, s);
    fxi_kv_put_views(eng->kv, s->kv, &to->views);
    to->pos = s->n_computed;
    to->n_tok = s->n_step;
    to->n_logit = fxi_step_n_row(eng, s);
    to->embeds = s->embd != NULL;
    st->seq[b->n_seq] = s;
    st->row[b->n_seq++] = *n_row;
    *n_row += to->n_logit;
}

// Puts what embeds, or what does not. Whether there is any of the other kind.
static bool put_task(const fx_engine *eng, fxi_batch *b, bool embeds)
{
    bool others = false;
    int n_row = 0;
    for (fxi_group *g = eng->running.head; g; g = g->next) {
        const bool is_other = fxi_group_embeds(g) != embeds;
        others |= is_other;
        for (int i = 0; i < g->n_seq && !is_other; i++)
            if (g->seq[i].n_step) put_seq(eng, b, &g->seq[i], &n_row);
    }
    return others;
}

// Whether all that is wanted of this step's logits is where they are largest.
static bool wants_best(const fx_engine *eng)
{
    const fxi_step *st = eng->step;
    for (int i = 0; i < st->n_seq; i++)
        if (!st->seq[i]->embd && st->batch[i].n_logit && !fxi_draw_takes_best(st->seq[i]))
            return false;
    return eng->device->prefers_best;
}

fxi_batch fxi_step_batch(fx_engine *eng)
{
    fxi_batch b = {.token = eng->step->token, .seq = eng->step->batch, .rows = eng->step->rows};
    if (put_task(eng, &b, false)) (void)put_task(eng, &b, true);
    eng->step->n_seq = b.n_seq;
    eng->step->has_best = wants_best(eng);
    if (eng->step->has_best) b.best = eng->step->best;
    return b;
}

int fxi_step_n_prompt(const fxi_step *st)
{
    int n = 0;
    for (int i = 0; i < st->n_seq; i++) {
        const fxi_seq *s = st->seq[i];
        int left = (int)s->group->req.n_prompt - s->n_computed;
        n += left <= 0 ? 0 : left < s->n_step ? left : s->n_step;
    }
    return n;
}
