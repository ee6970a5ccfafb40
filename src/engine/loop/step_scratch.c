// step_scratch.c - memory that steps reuse, so that a step allocates nothing.
#include "engine/loop/loop.h"
#include "model/device.h"

#include <stdlib.h>

#define SPARE_ROWS 64 // rows of logits per step beyond one for each sequence

int fxi_step_spare_rows(void)
{
    return SPARE_ROWS;
}

int fxi_step_max_row(const fx_engine *eng)
{
    return eng->opt.max_seq + SPARE_ROWS;
}

static bool make_samplers(fxi_step *st, size_t n_thread, size_t n_vocab)
{
    st->scratch = calloc(n_thread, sizeof *st->scratch);
    for (size_t i = 0; st->scratch && i < n_thread; i++) {
        fxi_sample_scratch *s = &st->scratch[i];
        s->logit = malloc(n_vocab * sizeof *s->logit);
        s->cand = malloc(n_vocab * sizeof *s->cand);
        s->count = calloc(n_vocab, sizeof *s->count);
        s->allowed = malloc(fxi_matcher_n_word(n_vocab) * sizeof *s->allowed);
        if (!s->logit || !s->cand || !s->count || !s->allowed) return false;
    }
    return st->scratch != NULL;
}

static void free_samplers(fxi_step *st, int n_thread)
{
    for (int i = 0; st->scratch && i < n_thread; i++) {
        free(st->scratch[i].logit);
        free(st->scratch[i].cand);
        free(st->scratch[i].count);
        free(st->scratch[i].allowed);
    }
    free(st->scratch);
}

// Where the device puts its results; freed with it.
static fx_status take_results(fx_engine *eng, size_t n_row, size_t n_logit, fx_error *err)
{
    fxi_device *d = eng->device;
    const size_t n_embd = (size_t)eng->opt.step_tok * (size_t)eng->info.n_embd;
    void *logits, *best, *rows = NULL;
    FX_TRY(d->ops->take_host(d, n_row * n_logit * sizeof(float), &logits, err));
    FX_TRY(d->ops->take_host(d, n_row * sizeof(int32_t), &best, err));
    if (n_embd) FX_TRY(d->ops->take_host(d, n_embd * sizeof(float), &rows, err));
    eng->step->logits = logits;
    eng->step->best = best;
    eng->step->rows = rows;
    return FX_OK;
}

fx_status fxi_step_make(fx_engine *eng, fx_error *err)
{
    const size_t n_seq = (size_t)eng->opt.max_seq;
    const size_t n_logit = eng->info.generates ? (size_t)eng->info.n_vocab : 1;
    const size_t n_row = n_seq + SPARE_ROWS;
    fxi_step *st = calloc(1, sizeof *st);
    eng->step = st;
    if (!st) return fxi_fail(err, FX_ENOMEM, "no memory for the engine");
    st->token = malloc((size_t)eng->opt.step_tok * sizeof *st->token);
    st->batch = malloc(n_seq * sizeof *st->batch);
    st->seq = malloc(n_seq * sizeof *st->seq);
    st->row = malloc(n_seq * sizeof *st->row);
    st->draw = malloc(n_row * sizeof *st->draw);
    st->lists = malloc(n_row * sizeof *st->lists);
    if (!st->token || !st->batch || !st->seq || !st->row || !st->draw || !st->lists ||
        !make_samplers(st, (size_t)eng->opt.n_thread, n_logit))
        return fxi_fail(err, FX_ENOMEM, "no memory for the logits of %d sequences",
                        eng->opt.max_seq);
    return take_results(eng, n_row, n_logit, err);
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
    free(st->lists);
    free_samplers(st, eng->opt.n_thread);
    free(st);
}
