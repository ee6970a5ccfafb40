// draw.c - draws from the rows of logits of a step: tokens, next tokens of beams, probabilities of
// prompt tokens.
#include "engine/loop/loop.h"

static fxi_draw *add_draw(fxi_step *st, fxi_seq *s, int row)
{
    fxi_draw *d = &st->draw[st->n_draw];
    d->lists = &st->lists[st->n_draw++];
    d->s = s;
    d->row = row;
    d->position = 0;
    d->is_broken = false;
    d->tok = -1;
    d->error = NULL;
    d->has_prob = false;
    d->n_next = 0;
    return d;
}

void fxi_draw_add(fxi_step *st, fxi_seq *s, int row)
{
    (void)add_draw(st, s, row);
}

static void add_prompt_row(fxi_step *st, fxi_seq *s, int row, int position)
{
    fxi_draw *d = add_draw(st, s, row);
    d->position = position;
    d->tok = s->tok[position];
}

// The row of the token at `pos` has the probability of the token after it.
void fxi_draw_add_prompt(fxi_step *st, fxi_seq *s, int row, int first_pos)
{
    const int end = s->n_computed, n_prompt = (int)s->group->req.n_prompt;
    if (!fxi_seq_emits_prompt(s)) return;
    for (int pos = first_pos; pos < end; pos++, row++)
        if (pos + 1 >= s->n_prompt_emitted && pos + 1 < n_prompt)
            add_prompt_row(st, s, row, pos + 1);
    const int n_emitted = end < n_prompt ? end + 1 : n_prompt; // the first counts as emitted
    if (n_emitted > s->n_prompt_emitted) s->n_prompt_emitted = n_emitted; // less: computed again
}

// ---- running them ------------------------------------------------------------------------------

static bool wants_prob(const fxi_group *g)
{
    return g->req.logprobs || g->is_hidden;
}

bool fxi_draw_takes_best(const fxi_seq *s)
{
    const fxi_group *g = s->group;
    const fxi_sample_view v = fxi_seq_view(s);
    return !g->beam && !g->req.grammar && !wants_prob(g) && !fxi_seq_emits_prompt(s) &&
           fxi_sampler_is_greedy(&g->req.sampling) && fxi_rules_are_idle(&v);
}

// The logits that the draw was made of, but for what was cut. Greedy draws have no temperature.
static const float *processed_row(const fx_sampling *p, const float *ruled, int n_vocab,
                                  float *scaled)
{
    if (fxi_sampler_is_greedy(p) || p->temperature == 1) return ruled;
    for (int i = 0; i < n_vocab; i++) scaled[i] = ruled[i] / p->temperature;
    return scaled;
}

// What the grammar forces is not drawn; it has its probability all the same.
static bool take_forced(fxi_draw *d, const float *row, int n_vocab)
{
    const fxi_group *g = d->s->group;
    if (!fxi_seq_forced(d->s, &d->tok, 1)) return false;
    d->has_prob = wants_prob(g);
    if (d->has_prob)
        fxi_logprob_of(row, n_vocab, d->tok, g->req.logprobs ? g->req.n_top : 0, d->lists->top,
                       &d->prob);
    return true;
}

static void draw_token(fxi_draw *d, const float *row, const float *ruled, int n_vocab,
                       fxi_sample_scratch *scratch)
{
    const fx_request *req = &d->s->group->req;
    d->tok =
        fxi_sampler_draw(&req->sampling, ruled, n_vocab, d->s->choice, d->s->n_tok, scratch->cand);
    d->has_prob = wants_prob(d->s->group);
    if (!d->has_prob) return;
    if (req->processed_logprobs && !d->s->group->is_hidden)
        row = processed_row(&req->sampling, ruled, n_vocab, scratch->logit);
    fxi_logprob_of(row, n_vocab, d->tok, req->logprobs ? req->n_top : 0, d->lists->top, &d->prob);
}

static void run_draw(const fx_engine *eng, fxi_draw *d, fxi_sample_scratch *scratch)
{
    const fxi_group *g = d->s->group;
    const int n_vocab = eng->info.n_vocab;
    if (eng->step->has_best) {
        d->tok = eng->step->best[d->row];
        d->is_broken = d->tok < 0;
        return;
    }
    const float *row = eng->step->logits + (size_t)d->row * (size_t)n_vocab;
    d->is_broken = !fxi_logits_are_finite(row, n_vocab);
    if (d->is_broken) return;
    if (d->position) {
        fxi_logprob_of(row, n_vocab, d->tok, g->req.n_prompt_top, d->lists->top, &d->prob);
        return;
    }
    fxi_sample_view v = fxi_seq_view(d->s);
    if (take_forced(d, row, n_vocab)) return;
    if (g->req.grammar) v.allowed = scratch->allowed;
    if (!fxi_seq_allowed(eng, d->s, scratch->allowed, &d->error)) return;
    const float *ruled = fxi_rules_apply(&v, row, n_vocab, scratch);
    if (!ruled) return;
    if (g->beam)
        d->n_next = fxi_logprob_top(ruled, n_vocab, 2 * g->n_seq, d->lists->next);
    else
        draw_token(d, row, ruled, n_vocab, scratch);
}

typedef struct draw_job {
    const fx_engine *eng;
    atomic_int next;
} draw_job;

// One task per thread: each has its own scratch.
static void draw_task(void *arg, int task)
{
    draw_job *job = arg;
    fxi_step *st = job->eng->step;
    int i;
    while ((i = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) < st->n_draw)
        run_draw(job->eng, &st->draw[i], &st->scratch[task]);
}

void fxi_draw_run(fx_engine *eng)
{
    draw_job job = {.eng = eng};
    atomic_init(&job.next, 0);
    if (eng->step->n_draw) fxi_pool_run(eng->pool, draw_task, &job, eng->opt.n_thread);
}
