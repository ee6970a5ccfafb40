// step.c - one forward pass over what the scheduler planned, and what follows from it.
//
//   running sequences with n_step > 0  ->  batch  ->  rows of logits
//     ->  n_computed advances, prefixes are recorded, choices whose prompt is done are forked
//     ->  draws: for each sequence at its end a token, or of a beam its likeliest continuations;
//         computed by all threads, each draw by itself
//     ->  tokens appended and told in the order of the groups; beams chosen; what has ended leaves
#include "engine/internal.h"

#include <stdlib.h>

#define PROMPT_ROWS 64 // rows of logits for prompts whose probabilities are told

// What is found out about one row of logits.
typedef struct draw {
    fxi_seq *s;
    int row;
    int position;               // of a prompt token whose probability is wanted; 0: draw a token
    int32_t tok;                // drawn, or of the prompt; -1: the rules leave none
    fx_token_prob prob;         // of it
    fx_logprob top[FX_MAX_TOP]; // where prob.top points
    fx_logprob next[2 * FX_MAX_BEAM]; // of a beam
    int n_next;
} draw;

typedef struct fxi_step {
    int32_t *token;       // [step_tok]
    fxi_batch_seq *batch; // [max_seq]
    fxi_seq **seq;        // [max_seq] whose run it is
    int *row;             // [max_seq] its first row of logits
    int n_seq;
    draw *draw; // [max_row]
    int n_draw;
    float *logits;                  // [max_row][n_vocab]
    fxi_sample_scratch *scratch;    // [n_thread]
    fxi_beam_input in[FX_MAX_BEAM]; // of the group whose beams are chosen
} fxi_step;

int fxi_step_prompt_rows(void)
{
    return PROMPT_ROWS;
}

// ---- memory ------------------------------------------------------------------------------------

static bool make_scratch(fxi_step *st, size_t n_thread, size_t n_vocab)
{
    st->scratch = calloc(n_thread, sizeof *st->scratch);
    for (size_t i = 0; st->scratch && i < n_thread; i++) {
        fxi_sample_scratch *s = &st->scratch[i];
        s->logit = malloc(n_vocab * sizeof *s->logit);
        s->cand = malloc(n_vocab * sizeof *s->cand);
        s->count = calloc(n_vocab, sizeof *s->count);
        if (!s->logit || !s->cand || !s->count) return false;
    }
    return st->scratch != NULL;
}

static void free_scratch(fxi_step *st, int n_thread)
{
    for (int i = 0; st->scratch && i < n_thread; i++) {
        free(st->scratch[i].logit);
        free(st->scratch[i].cand);
        free(st->scratch[i].count);
    }
    free(st->scratch);
}

fx_status fxi_step_make(fx_engine *eng, fx_error *err)
{
    const size_t n_seq = (size_t)eng->opt.max_seq, n_vocab = (size_t)eng->info.n_vocab;
    const size_t n_row = n_seq + PROMPT_ROWS;
    fxi_step *st = calloc(1, sizeof *st);
    eng->step = st;
    if (!st) return fxi_fail(err, FX_ENOMEM, "no memory for the engine");
    st->token = malloc((size_t)eng->opt.step_tok * sizeof *st->token);
    st->batch = malloc(n_seq * sizeof *st->batch);
    st->seq = malloc(n_seq * sizeof *st->seq);
    st->row = malloc(n_seq * sizeof *st->row);
    st->draw = malloc(n_row * sizeof *st->draw);
    st->logits = malloc(n_row * n_vocab * sizeof *st->logits);
    if (!st->token || !st->batch || !st->seq || !st->row || !st->draw || !st->logits ||
        !make_scratch(st, (size_t)eng->opt.n_thread, n_vocab))
        return fxi_fail(err, FX_ENOMEM, "no memory for the logits of %d sequences",
                        eng->opt.max_seq);
    return FX_OK;
}

void fxi_step_free(fx_engine *eng)
{
    fxi_step *st = eng->step;
    if (!st) return;
    free(st->token);
    free(st->batch);
    free(st->seq);
    free(st->row);
    free(st->draw);
    free(st->logits);
    free_scratch(st, eng->opt.n_thread);
    free(st);
}

// ---- the batch ---------------------------------------------------------------------------------

static bool reaches_end(const fxi_seq *s)
{
    return s->n_computed + s->n_step == s->n_tok;
}

static bool tells_prompt(const fxi_seq *s)
{
    return s->group->req.prompt_logprobs && s->n_prompt_told < (int)s->group->req.n_prompt;
}

static int n_logit(const fxi_seq *s)
{
    return tells_prompt(s) ? s->n_step : reaches_end(s);
}

static void put_tokens(fxi_step *st, fxi_batch *b, const fxi_seq *s)
{
    for (int i = 0; i < s->n_step; i++) st->token[b->n_tok++] = s->tok[s->n_computed + i];
}

static void put_seq(const fx_engine *eng, fxi_batch *b, fxi_seq *s, int *n_row)
{
    fxi_step *st = eng->step;
    put_tokens(st, b, s);
    st->batch[b->n_seq] = (fxi_batch_seq){
        .view = fxi_kv_get_view(eng->kv, s->kv),
        .pos = s->n_computed,
        .n_tok = s->n_step,
        .n_logit = n_logit(s),
    };
    st->seq[b->n_seq] = s;
    st->row[b->n_seq++] = *n_row;
    *n_row += n_logit(s);
}

static fxi_batch build(fx_engine *eng)
{
    fxi_batch b = {.token = eng->step->token, .seq = eng->step->batch};
    int n_row = 0;
    for (fxi_group *g = eng->running.head; g; g = g->next)
        for (int i = 0; i < g->n_seq; i++)
            if (g->seq[i].n_step) put_seq(eng, &b, &g->seq[i], &n_row);
    eng->step->n_seq = b.n_seq;
    return b;
}

// ---- draws -------------------------------------------------------------------------------------

static void add_draw(fxi_step *st, fxi_seq *s, int row, int position)
{
    draw *d = &st->draw[st->n_draw++];
    d->s = s;
    d->row = row;
    d->position = position;
    d->tok = position ? s->tok[position] : -1;
    d->n_next = 0;
}

// The row of the token at `pos` says how likely the one behind it was.
static void add_prompt_draws(fxi_step *st, fxi_seq *s, int row, int first_pos)
{
    const int end = s->n_computed, n_prompt = (int)s->group->req.n_prompt;
    if (!tells_prompt(s)) return;
    for (int pos = first_pos; pos < end; pos++, row++)
        if (pos + 1 >= s->n_prompt_told && pos + 1 < n_prompt) add_draw(st, s, row, pos + 1);
    const int n_told = end < n_prompt ? end + 1 : n_prompt;   // the first counts as told
    if (n_told > s->n_prompt_told) s->n_prompt_told = n_told; // less: computed again
}

// Another choice, with the prompt that the first has computed.
static bool be_born(fx_engine *eng, fxi_seq *s, fxi_seq *first)
{
    const int n = (int)s->group->req.n_prompt;
    if (!fxi_seq_reserve(s, n + 1) || fxi_kv_fork(eng->kv, first->kv, n, &s->kv) != FX_OK)
        return false;
    for (int i = 0; i < n; i++) s->tok[i] = first->tok[i];
    s->n_tok = s->n_computed = n;
    s->n_recorded = first->n_recorded;
    s->n_prompt_told = first->n_prompt_told;
    s->state = FXI_SEQ_LIVE;
    return true;
}

// All choices draw from the first one's row. If a fork fails the group is preempted: those that were
// born are not, and the prompt's end is computed again.
static void bear_choices(fx_engine *eng, fxi_group *g, int row)
{
    fxi_step *st = eng->step;
    const int n_draw = st->n_draw;
    for (int i = 1; i < g->n_seq; i++) {
        if (be_born(eng, &g->seq[i], &g->seq[0])) {
            add_draw(st, &g->seq[i], row, 0);
            continue;
        }
        st->n_draw = n_draw - 1; // the first one's too
        fxi_preempt(eng, g, FXI_RECOMPUTE);
        for (int k = 1; k < g->n_seq; k++) fxi_seq_clear(&g->seq[k]);
        return;
    }
}

static bool is_first_end(const fxi_group *g, const fxi_seq *s)
{
    return !g->beam && g->n_seq > 1 && s == &g->seq[0] && g->seq[1].state == FXI_SEQ_UNBORN;
}

static void advance(fx_engine *eng, int i)
{
    fxi_step *st = eng->step;
    fxi_seq *s = st->seq[i];
    const int first_pos = s->n_computed, n_row = n_logit(s);
    const int row = st->row[i];
    s->n_computed += s->n_step;
    s->n_step = 0;
    if (s->finish != FX_FINISH_NONE) return; // cancelled meanwhile
    const bool at_end = s->n_computed == s->n_tok;
    add_prompt_draws(st, s, row, first_pos);
    fxi_record_progress(eng, s);
    if (at_end && !s->group->max_tok) fxi_group_finish(s->group, FX_FINISH_LENGTH);
    if (!at_end || !s->group->max_tok) return;
    add_draw(st, s, row + n_row - 1, 0);
    if (is_first_end(s->group, s)) bear_choices(eng, s->group, row + n_row - 1);
}

// ---- sampling ----------------------------------------------------------------------------------

static fxi_sample_view view_of(const fxi_seq *s)
{
    const fxi_group *g = s->group;
    return (fxi_sample_view){&g->req.sampling, s->tok, (int)g->req.n_prompt,
                             s->n_tok,         g->end, g->n_end};
}

static bool wants_prob(const fxi_group *g)
{
    return g->req.logprobs || g->is_hidden;
}

static void find_out(const fx_engine *eng, draw *d, fxi_sample_scratch *scratch)
{
    const fx_request *req = &d->s->group->req;
    const int n_vocab = eng->info.n_vocab;
    const float *row = eng->step->logits + (size_t)d->row * (size_t)n_vocab;
    if (d->position) {
        fxi_logprob_of(row, n_vocab, d->tok, req->n_prompt_top, d->top, &d->prob);
        return;
    }
    fxi_sample_view v = view_of(d->s);
    const float *ruled = fxi_rules_apply(&v, row, n_vocab, scratch);
    if (!ruled) return;
    if (d->s->group->beam) {
        d->n_next = fxi_logprob_top(ruled, n_vocab, 2 * d->s->group->n_seq, d->next);
        return;
    }
    d->tok = fxi_sample(&req->sampling, ruled, n_vocab, d->s->choice, d->s->n_tok, scratch->cand);
    if (wants_prob(d->s->group))
        fxi_logprob_of(row, n_vocab, d->tok, req->logprobs ? req->n_top : 0, d->top, &d->prob);
}

typedef struct draw_job {
    const fx_engine *eng;
    atomic_int next;
} draw_job;

// One task per thread, so that each has scratch of its own.
static void draw_task(void *arg, int task)
{
    draw_job *job = arg;
    fxi_step *st = job->eng->step;
    int i;
    while ((i = atomic_fetch_add_explicit(&job->next, 1, memory_order_relaxed)) < st->n_draw)
        find_out(job->eng, &st->draw[i], &st->scratch[task]);
}

static void draw_all(fx_engine *eng)
{
    draw_job job = {.eng = eng};
    atomic_init(&job.next, 0);
    if (eng->step->n_draw) fxi_pool_run(eng->pool, draw_task, &job, eng->opt.n_thread);
}

// ---- afterwards --------------------------------------------------------------------------------

// The beams of a group, from draw i on; returns how many.
static int choose_beams(fx_engine *eng, int i)
{
    fxi_step *st = eng->step;
    fxi_group *g = st->draw[i].s->group;
    int n = 0;
    for (; i + n < st->n_draw && st->draw[i + n].s->group == g; n++) {
        const draw *d = &st->draw[i + n];
        const float *row = st->logits + (size_t)d->row * (size_t)eng->info.n_vocab;
        st->in[n] = (fxi_beam_input){d->s, row, d->next, d->n_next};
    }
    fxi_beam_advance(eng, g, st->in, n);
    return n;
}

static void append(fx_engine *eng, draw *d)
{
    const fxi_group *g = d->s->group;
    if (d->position) {
        fxi_answer_prompt_prob(d->s, d->position, &d->prob);
    } else if (d->tok < 0) {
        d->s->finish = FX_FINISH_ERROR;
        d->s->error = "the request's rules leave no token to go on with";
    } else {
        fxi_answer_add(eng, d->s, d->tok, wants_prob(g) ? &d->prob : NULL);
    }
}

static int append_all(fx_engine *eng)
{
    fxi_step *st = eng->step;
    int n_generated = 0;
    for (int i = 0; i < st->n_draw;) {
        draw *d = &st->draw[i];
        if (!d->position) n_generated++;
        if (d->s->group->beam && !d->position) {
            i += choose_beams(eng, i);
        } else {
            append(eng, d);
            i++;
        }
    }
    return n_generated;
}

static void end_finished(fx_engine *eng)
{
    for (fxi_group *g = eng->running.head, *next; g; g = next) {
        next = g->next;
        (void)fxi_answer_end(eng, g);
    }
}

// Of the tokens planned, those that belong to prompts.
static int n_prompt_tok(const fxi_step *st)
{
    int n = 0;
    for (int i = 0; i < st->n_seq; i++) {
        const fxi_seq *s = st->seq[i];
        int left = (int)s->group->req.n_prompt - s->n_computed;
        n += left <= 0 ? 0 : left < s->n_step ? left : s->n_step;
    }
    return n;
}

static void count(fx_engine *eng, int n_prompt, int n_generated)
{
    pthread_mutex_lock(&eng->mu);
    eng->stats.n_step++;
    eng->stats.n_prompt_tok += (uint64_t)n_prompt;
    eng->stats.n_generated_tok += (uint64_t)n_generated;
    pthread_mutex_unlock(&eng->mu);
}

// Who was cancelled while the model computed is told no more tokens and ends with this step.
static void mark_cancelled(fx_engine *eng)
{
    for (fxi_group *g = eng->running.head; g; g = g->next)
        if (atomic_load(&g->cancelled)) fxi_group_finish(g, FX_FINISH_CANCEL);
}

static void compute(fx_engine *eng, int n_tok)
{
    fxi_step *st = eng->step;
    const fxi_batch b = build(eng);
    const uint64_t start_us = eng->now_us(eng->now_ud);
    fxi_model_forward(eng->model, &b, st->logits);
    const int n_prompt = n_prompt_tok(st);
    fxi_measure_prompt(eng, n_prompt, n_tok, eng->now_us(eng->now_ud) - start_us);
    mark_cancelled(eng);
    st->n_draw = 0;
    for (int i = 0; i < st->n_seq; i++) advance(eng, i);
    draw_all(eng);
    count(eng, n_prompt, append_all(eng));
}

void fxi_step_run(fx_engine *eng, int n_tok)
{
    if (n_tok) compute(eng, n_tok);
    end_finished(eng);
}
