// forward.c - one forward pass over the planned tokens, and its results.
//
//   batch     running sequences with planned tokens, one run of tokens each
//   forward   batch -> rows of logits                                          (model)
//             if it fails, the requests of the batch end with an error
//   advance   n_computed grows, prefixes are recorded, choices whose prompt is done are forked
//                                                                (prefix_cache.c, commit.c)
//   sample    a token for each sequence at its end, the likeliest next tokens for each beam, on all
//             threads, one sample each                                         (sample.c)
//             rows of texts to be embedded are pooled
//   commit    tokens appended and emitted in the order of the requests, beams chosen  (commit.c)
//             where a token is the one that was drafted, sample and commit continue with the next
//             row of its sequence; rejected drafts are truncated               (drafting.c)
#include "engine/iteration.h"

#include "model/device.h"
#include "model/pooling.h"

#include <stdlib.h>

// ---- memory ------------------------------------------------------------------------------------

// Where the device puts its results; freed with it.
static fx_status take_results(fx_engine *eng, size_t n_row, size_t n_logit, fx_error *err)
{
    fxi_device *d = eng->device;
    const fxi_model_shape *s = &eng->model->shape;
    const size_t dim = s->pooling == FXI_POOL_NONE ? 0 : (size_t)s->dim;
    const size_t n_embd = (size_t)eng->opt.step_tok * dim;
    void *logits, *best, *rows = NULL;
    FX_TRY(d->ops->take_host(d, n_row * n_logit * sizeof(float), &logits, err));
    FX_TRY(d->ops->take_host(d, n_row * sizeof(int32_t), &best, err));
    if (n_embd) FX_TRY(d->ops->take_host(d, n_embd * sizeof(float), &rows, err));
    eng->pass->logits = logits;
    eng->pass->best = best;
    eng->pass->rows = rows;
    return FX_OK;
}

fx_status fxi_forward_make(fx_engine *eng, fx_error *err)
{
    const size_t n_seq = (size_t)eng->opt.max_seq, n_row = n_seq + FXI_SPARE_ROWS;
    const size_t n_logit = eng->info.generates ? (size_t)eng->info.n_vocab : 1;
    fxi_forward *p = eng->pass = calloc(1, sizeof *p);
    if (!p) return fxi_fail(err, FX_ENOMEM, "no memory for the engine");
    p->token = malloc((size_t)eng->opt.step_tok * sizeof *p->token);
    p->batch = malloc(n_seq * sizeof *p->batch);
    p->seq = malloc(n_seq * sizeof *p->seq);
    p->row = malloc(n_seq * sizeof *p->row);
    p->sample = malloc(n_row * sizeof *p->sample);
    p->lists = malloc(n_row * sizeof *p->lists);
    p->scratch = calloc((size_t)eng->opt.n_thread, sizeof *p->scratch);
    bool ok = p->token && p->batch && p->seq && p->row && p->sample && p->lists && p->scratch;
    for (int i = 0; ok && i < eng->opt.n_thread; i++)
        ok = fxi_sample_scratch_make(&p->scratch[i], n_logit, (size_t)eng->info.ctx_tok);
    if (!ok)
        return fxi_fail(err, FX_ENOMEM, "no memory for the logits of %d sequences",
                        eng->opt.max_seq);
    return take_results(eng, n_row, n_logit, err);
}

void fxi_forward_free(fx_engine *eng)
{
    fxi_forward *p = eng->pass;
    if (!p) return;
    for (int i = 0; p->scratch && i < eng->opt.n_thread; i++)
        fxi_sample_scratch_free(&p->scratch[i]);
    free(p->scratch);
    free(p->token);
    free(p->batch);
    free(p->seq);
    free(p->row);
    free(p->sample);
    free(p->lists);
    free(p);
}

// ---- embeddings --------------------------------------------------------------------------------

// Rows of s that the pass being planned is to return: of its last tokens. A text may be computed in
// several passes, and again after a preemption: each row is added once, in order, so that the
// vector's bits depend on the text alone.
static int embedding_rows(const fxi_seq *s, const fxi_model_shape *shape)
{
    const int first = s->n_pooled > s->n_computed ? s->n_pooled : s->n_computed;
    const int end = s->n_computed + s->n_planned;
    return end > first ? fxi_pooling_rows(shape, end - first, end == s->n_tok) : 0;
}

static void end_embedding(fxi_seq *s, const fxi_model_shape *shape)
{
    const fx_request *spec = &s->request->spec;
    const bool is_score = spec->task == FX_TASK_SCORE;
    const bool is_unit =
        spec->norm == FX_NORM_MODEL ? shape->has_unit_length : spec->norm == FX_NORM_UNIT;
    s->n_embd = is_score ? 1 : spec->n_dim ? spec->n_dim : shape->dim;
    if (is_score ? fxi_pooling_score(shape, s->embd)
                 : fxi_pooling_finish(shape, s->n_tok, s->n_embd, is_unit, s->embd))
        s->finish = FX_FINISH_STOP;
    else
        fxi_seq_fail(s, FX_EINTERNAL,
                     "the model computed an embedding that is not made of finite numbers");
}

// ---- the batch ---------------------------------------------------------------------------------

// A sequence has a row of logits for its last known token, one for each drafted token after it, and
// with prompt_logprobs one for each token while its prompt is computed. Texts to be embedded have
// rows of the last norm instead; they come last.
int fxi_forward_n_row(const fx_engine *eng, const fxi_seq *s)
{
    if (s->embd) return embedding_rows(s, &eng->model->shape);
    if (s->n_draft) return 1 + s->n_draft;
    return fxi_seq_emits_prompt(s) ? s->n_planned : s->n_computed + s->n_planned == s->n_tok;
}

static void put_seq(const fx_engine *eng, fxi_batch *b, fxi_seq *s, int *n_row)
{
    fxi_forward *p = eng->pass;
    fxi_batch_seq *to = &p->batch[b->n_seq];
    const int n_known = s->n_planned - s->n_draft;
    for (int i = 0; i < n_known; i++) p->token[b->n_tok++] = s->tok[s->n_computed + i];
    for (int i = 0; i < s->n_draft; i++) p->token[b->n_tok++] = s->draft->tok[i];
    fxi_kv_put_views(eng->kv, s->kv, &to->views);
    to->pos = s->n_computed;
    to->n_tok = s->n_planned;
    to->n_logit = fxi_forward_n_row(eng, s);
    to->embeds = s->embd != NULL;
    to->n_first = s->request->spec.n_first;
    p->seq[b->n_seq] = s;
    p->row[b->n_seq++] = *n_row;
    *n_row += to->n_logit;
}

// Puts what embeds, or what does not. Whether there is any of the other kind.
static bool put_task(const fx_engine *eng, fxi_batch *b, bool embeds)
{
    bool others = false;
    int n_row = 0;
    for (fxi_live_request *r = eng->sched.running.head; r; r = r->next) {
        const bool is_other = fxi_request_embeds(r) != embeds;
        others |= is_other;
        for (int i = 0; i < r->n_seq && !is_other; i++)
            if (r->seq[i].n_planned) put_seq(eng, b, &r->seq[i], &n_row);
    }
    return others;
}

// Whether all that is wanted of this pass's logits is where they are largest.
static bool wants_best(const fx_engine *eng)
{
    const fxi_forward *p = eng->pass;
    for (int i = 0; i < p->n_seq; i++)
        if (!p->seq[i]->embd && p->batch[i].n_logit && !fxi_sample_takes_best(p->seq[i]))
            return false;
    return eng->device->prefers_best;
}

// Tokens of the batch that belong to prompts.
static int count_prompt_tok(const fxi_forward *p)
{
    int n = 0;
    for (int i = 0; i < p->n_seq; i++) {
        const fxi_seq *s = p->seq[i];
        const int left = (int)s->request->spec.n_prompt - s->n_computed;
        n += left <= 0 ? 0 : left < s->n_planned ? left : s->n_planned;
    }
    return n;
}

// ---- results -----------------------------------------------------------------------------------

// All known tokens of s are computed; `row` has the logits of the last one, from which all choices
// are sampled.
static void reach_end(fx_engine *eng, fxi_seq *s, int row)
{
    fxi_live_request *r = s->request;
    const bool is_unforked = !r->beam && r->n_seq > 1 && r->seq[1].state == FXI_SEQ_UNBORN;
    if (s->embd) {
        end_embedding(s, &eng->model->shape);
    } else if (!r->max_tok) {
        fxi_request_finish(r, FX_FINISH_LENGTH);
    } else if (!is_unforked) {
        fxi_sample_add(eng->pass, s, row);
    } else if (fxi_commit_fork_choices(eng, r)) {
        for (int i = 0; i < r->n_seq; i++) fxi_sample_add(eng->pass, &r->seq[i], row);
    }
}

static void advance_seq(fx_engine *eng, int i)
{
    fxi_forward *p = eng->pass;
    const fxi_model_shape *shape = &eng->model->shape;
    fxi_seq *s = p->seq[i];
    const int first_pos = s->n_computed, row = p->row[i];
    const int n_row = p->batch[i].n_logit - s->n_draft;
    s->n_computed += p->batch[i].n_tok - s->n_draft; // n_planned of cancelled ones is 0
    s->n_planned = 0;
    if (s->finish != FX_FINISH_NONE) return; // cancelled while the model computed
    const bool at_end = s->n_computed == s->n_tok;
    const bool is_late = at_end && fxi_defer_sample(&eng->sched, s);
    s->n_computed -= is_late; // it computes its last token again
    if (s->embd) {
        const float *rows = p->rows + (size_t)row * (size_t)shape->dim;
        fxi_pooling_add(shape, rows, n_row, s->n_computed, s->embd);
        if (s->n_computed > s->n_pooled) s->n_pooled = s->n_computed;
    } else {
        fxi_sample_add_prompt(p, s, row, first_pos);
    }
    fxi_cache_record_progress(&eng->memory, s);
    if (is_late)
        fxi_cache_cut(&eng->memory, s);
    else if (at_end)
        reach_end(eng, s, row + n_row - 1);
}

// Adds the samples from the rows after those whose token was accepted, the k-th of its draft.
static void sample_after_drafts(fx_engine *eng, int k)
{
    fxi_forward *p = eng->pass;
    p->n_sample = 0;
    for (int i = 0; i < p->n_seq; i++) {
        fxi_seq *s = p->seq[i];
        if (!fxi_drafting_is_accepted(s, k) || fxi_defer_sample(&eng->sched, s)) continue;
        s->draft->n_accepted++;
        s->n_computed++;
        fxi_sample_add(p, s, p->row[i] + k + 1);
    }
}

// A request that was cancelled while the model computed gets no more tokens and ends with this
// pass.
static void mark_cancelled(fx_engine *eng)
{
    if (!atomic_load(&eng->mailbox.some_cancelled)) return;
    for (fxi_live_request *r = eng->sched.running.head; r; r = r->next)
        fxi_request_finish_cancelled(r);
}

// What the pass wrote is undefined, and not used.
static void fail_batch(fx_engine *eng)
{
    fxi_forward *p = eng->pass;
    const fxi_device *d = eng->device;
    (void)fxi_fail_in(&p->error, "the device that computes the model failed");
    for (int i = 0; i < p->n_seq; i++)
        fxi_request_fail(p->seq[i]->request, FX_EINTERNAL, p->error.text);
    fxi_stats_count_failure(&eng->stats, d->ops->is_lost && d->ops->is_lost(d));
    mark_cancelled(eng);
}

static void record_pass(const fx_engine *eng, int kind, int n_tok, int n_seq, fx_status st)
{
    fxi_journal_note(&eng->journal, (fx_record){.kind = (uint8_t)kind,
                                                .n_tok = (uint32_t)n_tok,
                                                .n = (uint32_t)n_seq,
                                                .status = (uint8_t)st});
}

void fxi_forward_run(fx_engine *eng)
{
    fxi_forward *p = eng->pass;
    fxi_drafting *x = eng->drafting;
    fxi_batch batch = {.token = p->token, .seq = p->batch, .rows = p->rows};
    if (put_task(eng, &batch, false)) (void)put_task(eng, &batch, true);
    p->n_seq = batch.n_seq;
    p->has_best = wants_best(eng);
    if (p->has_best) batch.best = p->best;
    const int n_prompt_tok = count_prompt_tok(p);
    if (!batch.n_tok) return; // the requests have failed
    const uint64_t start_us = fxi_now_us(eng), draft_us = x ? fxi_draft_clock_us(&x->clock) : 0;
    record_pass(eng, FX_RECORD_step_begin, batch.n_tok, p->n_seq, FX_OK);
    fx_status st = fxi_model_submit(eng->model, &batch, p->has_best ? NULL : p->logits, &p->error);
    if (st == FX_OK) st = fxi_model_wait(eng->model, &p->error);
    if (st != FX_OK) {
        fail_batch(eng);
        record_pass(eng, FX_RECORD_step_end, 0, 0, st);
        return;
    }
    const uint64_t pass_us = x ? fxi_draft_clock_us(&x->clock) - draft_us : 0;
    fxi_preempt_measure(&eng->memory, n_prompt_tok, batch.n_tok, fxi_now_us(eng) - start_us);
    mark_cancelled(eng);
    p->n_sample = 0;
    for (int i = 0; i < p->n_seq; i++) advance_seq(eng, i);
    // In rounds, one token of each sequence in each: what a sample depends on, the rules and the
    // end of an answer, is as it would be in a pass of its own.
    int n_generated_tok = 0;
    for (int k = 0; p->n_sample; k++) {
        fxi_sample_run(eng);
        n_generated_tok += fxi_commit_samples(eng);
        sample_after_drafts(eng, k);
    }
    if (x) fxi_drafting_commit(x, pass_us);
    fxi_stats_count_pass(&eng->stats, batch.n_tok, n_prompt_tok, n_generated_tok);
    record_pass(eng, FX_RECORD_step_end, n_generated_tok, 0, FX_OK);
}
