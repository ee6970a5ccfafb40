// sample.c - samples from the rows of logits of a pass: tokens, next tokens of beams, probabilities
// of prompt tokens.
#include "engine/iteration.h"

static void append_sample(fxi_forward *p, fxi_seq *s, int row, int position, int32_t tok)
{
    const int i = p->n_sample++;
    p->sample[i] =
        (fxi_sample){.s = s, .row = row, .position = position, .tok = tok, .lists = &p->lists[i]};
}

void fxi_sample_add(fxi_forward *p, fxi_seq *s, int row)
{
    append_sample(p, s, row, 0, -1);
}

// The row of the token at `pos` has the probability of the token after it.
void fxi_sample_add_prompt(fxi_forward *p, fxi_seq *s, int row, int first_pos)
{
    const int end = s->n_computed, n_prompt = (int)s->request->spec.n_prompt;
    if (!fxi_seq_emits_prompt(s)) return;
    for (int pos = first_pos; pos < end; pos++, row++)
        if (pos + 1 >= s->n_prompt_emitted && pos + 1 < n_prompt)
            append_sample(p, s, row, pos + 1, s->tok[pos + 1]);
    const int n_emitted = end < n_prompt ? end + 1 : n_prompt; // the first counts as emitted
    if (n_emitted > s->n_prompt_emitted) s->n_prompt_emitted = n_emitted; // less: computed again
}

// ---- running them ------------------------------------------------------------------------------

static bool wants_prob(const fxi_live_request *r)
{
    return r->spec.logprobs || r->defers_output;
}

bool fxi_sample_takes_best(const fxi_seq *s)
{
    const fxi_live_request *r = s->request;
    const fxi_sample_view v = fxi_seq_view(s);
    return !r->beam && !r->spec.grammar && !r->spec.thought && !wants_prob(r) &&
           !fxi_seq_emits_prompt(s) && fxi_sampler_is_greedy(&r->spec.sampling) &&
           fxi_rules_are_idle(&v);
}

static void set_prob(fxi_sample *x, const float *row, int n_vocab)
{
    const fx_request *spec = &x->s->request->spec;
    fxi_logprob_of(row, n_vocab, x->tok, spec->logprobs ? spec->n_top : 0, x->lists->top, &x->prob);
}

static void sample_token(fxi_sample *x, const float *row, const float *ruled, int n_vocab,
                         fxi_sample_scratch *scratch)
{
    const fxi_live_request *r = x->s->request;
    const fx_sampling *rule = &r->spec.sampling;
    x->tok = fxi_sampler_draw(rule, ruled, n_vocab, x->s->choice, x->s->n_tok, scratch->cand);
    x->has_prob = wants_prob(r);
    if (!x->has_prob) return;
    if (r->spec.processed_logprobs && !r->defers_output) {
        // The logits that were sampled from, before cuts. Greedy samples have no temperature.
        const bool is_scaled = !fxi_sampler_is_greedy(rule) && rule->temperature != 1;
        row = is_scaled ? scratch->logit : ruled;
        for (int i = 0; is_scaled && i < n_vocab; i++)
            scratch->logit[i] = ruled[i] / rule->temperature;
    }
    set_prob(x, row, n_vocab);
}

static void run_sample(const fxi_forward *p, fxi_sample *x, int n_vocab,
                       fxi_sample_scratch *scratch)
{
    const fxi_live_request *r = x->s->request;
    if (p->has_best) {
        x->tok = p->best[x->row];
        x->is_broken = x->tok < 0;
        return;
    }
    const float *row = p->logits + (size_t)x->row * (size_t)n_vocab;
    x->is_broken = !fxi_logits_are_finite(row, n_vocab);
    if (x->is_broken) return;
    if (x->position) {
        fxi_logprob_of(row, n_vocab, x->tok, r->spec.n_prompt_top, x->lists->top, &x->prob);
        return;
    }
    fxi_sample_view v = fxi_seq_view(x->s);
    if (fxi_seq_forced(x->s, &x->tok, 1)) { // not sampled, but it has its probability
        x->has_prob = wants_prob(r);
        if (x->has_prob) set_prob(x, row, n_vocab);
        return;
    }
    if (r->spec.grammar) v.allowed = scratch->allowed;
    if (!fxi_seq_allowed(x->s, scratch->allowed, &x->error)) return;
    const float *ruled = fxi_rules_apply(&v, row, n_vocab, scratch);
    if (!ruled) return;
    if (r->beam)
        x->n_next = fxi_logprob_top(ruled, n_vocab, 2 * r->n_seq, x->lists->next);
    else
        sample_token(x, row, ruled, n_vocab, scratch);
}

typedef struct sample_job {
    const fx_engine *eng;
    atomic_int next;
} sample_job;

// One task per thread: each has its own scratch.
static void sample_task(void *arg, int task)
{
    sample_job *job = arg;
    fxi_forward *p = job->eng->pass;
    const int n_vocab = job->eng->info.n_vocab;
    int i;
    while ((i = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) < p->n_sample)
        run_sample(p, &p->sample[i], n_vocab, &p->scratch[task]);
}

void fxi_sample_run(fx_engine *eng)
{
    sample_job job = {.eng = eng};
    atomic_init(&job.next, 0);
    if (eng->pass->n_sample) fxi_pool_run(eng->pool, sample_task, &job, eng->opt.n_thread);
}
