// step.c - one forward pass over the planned tokens, and its results.
//
//   build      running sequences with n_step > 0 -> batch                       (step_batch.c)
//   forward    batch -> rows of logits                                          (model)
//              if it fails, the groups of the batch end with an error
//   advance    n_computed grows, prefixes are recorded, choices whose prompt is done are forked
//                                                                               (cache.c, fork.c)
//   draw       a token for each sequence at its end, the likeliest next tokens for each beam, on
//              all threads, one draw each                                       (draw.c)
//              rows of texts to be embedded are pooled                          (embedding.c)
//   settle     tokens appended and emitted in the order of the groups, beams chosen  (settle.c)
//              where a token is the one that was drafted, draw and settle go on with the next row
//              of its sequence; what was drafted in vain is truncated       (speculate/)
#include "engine/loop/loop.h"
#include "engine/memory/room.h"
#include "engine/speculate/speculate.h"
#include "model/device.h"

// All choices draw from the row of the first one.
static void draw_choices(fx_engine *eng, fxi_group *g, int row)
{
    for (int i = 0; i < g->n_seq; i++) fxi_draw_add(eng->step, &g->seq[i], row);
}

static bool has_unborn_choices(const fxi_group *g)
{
    return !g->beam && g->n_seq > 1 && g->seq[1].state == FXI_SEQ_UNBORN;
}

// All known tokens of s are computed; `row` has the logits of the last one.
static void reach_end(fx_engine *eng, fxi_seq *s, int row)
{
    fxi_group *g = s->group;
    if (s->embd)
        fxi_embedding_end(s, fxi_model_get_shape(eng->model));
    else if (!g->max_tok)
        fxi_group_finish(g, FX_FINISH_LENGTH);
    else if (!has_unborn_choices(g))
        fxi_draw_add(eng->step, s, row);
    else if (fxi_fork_choices(eng, g))
        draw_choices(eng, g, row);
}

static void pool_rows(fx_engine *eng, fxi_seq *s, int row, int n_row)
{
    const fxi_model_shape *shape = fxi_model_get_shape(eng->model);
    fxi_embedding_add(s, shape, eng->step->rows + (size_t)row * (size_t)shape->dim, n_row);
}

static void advance_seq(fx_engine *eng, int i)
{
    fxi_step *st = eng->step;
    fxi_seq *s = st->seq[i];
    const int first_pos = s->n_computed, row = st->row[i];
    const int n_row = st->batch[i].n_logit - s->n_draft;
    s->n_computed += st->batch[i].n_tok - s->n_draft; // n_step of cancelled ones is 0
    s->n_step = 0;
    if (s->finish != FX_FINISH_NONE) return; // cancelled while the model computed
    const bool at_end = s->n_computed == s->n_tok;
    const bool is_late = at_end && fxi_hold_draw(eng, s);
    s->n_computed -= is_late; // it computes its last token again
    if (s->embd)
        pool_rows(eng, s, row, n_row);
    else
        fxi_draw_add_prompt(st, s, row, first_pos);
    fxi_cache_record_progress(eng, s);
    if (is_late)
        fxi_cache_cut(eng, s);
    else if (at_end)
        reach_end(eng, s, row + n_row - 1);
}

// Adds the draws from the rows behind those whose token has come true, the k-th of its draft.
static void go_on_drafted(fx_engine *eng, int k)
{
    fxi_step *st = eng->step;
    st->n_draw = 0;
    for (int i = 0; i < st->n_seq; i++) {
        fxi_seq *s = st->seq[i];
        if (!fxi_speculate_came_true(s, k) || fxi_hold_draw(eng, s)) continue;
        s->draft->n_true++;
        s->n_computed++;
        fxi_draw_add(st, s, st->row[i] + k + 1);
    }
}

// Draws and settles in rounds, one token of each sequence in each: what a draw depends on, the
// rules and the end of an answer, is as it would be in a step of its own. Returns the number of
// tokens generated.
static int draw_rounds(fx_engine *eng)
{
    int n_tok = 0;
    for (int k = 0; eng->step->n_draw; k++) {
        fxi_draw_run(eng);
        n_tok += fxi_settle_draws(eng);
        go_on_drafted(eng, k);
    }
    return n_tok;
}

// A group that was cancelled while the model computed gets no more tokens and ends with this step.
static void mark_cancelled(fx_engine *eng)
{
    if (!atomic_load(&eng->some_cancelled)) return;
    for (fxi_group *g = eng->running.head; g; g = g->next) fxi_group_finish_cancelled(g);
}

// Whatever the pass wrote is undefined: nothing of it is used.
static void fail_batch(fx_engine *eng)
{
    fxi_step *st = eng->step;
    const fxi_device *d = eng->device;
    (void)fxi_fail_in(&st->error, "the device that computes the model failed");
    for (int i = 0; i < st->n_seq; i++) fxi_group_fail(st->seq[i]->group, st->error.text);
    fxi_inbox_count_failure(eng, d->ops->is_lost && d->ops->is_lost(d));
    mark_cancelled(eng);
}

static fx_status compute_batch(fx_engine *eng, const fxi_batch *batch)
{
    fxi_step *st = eng->step;
    float *logits = st->has_best ? NULL : st->logits;
    FX_TRY(fxi_model_submit(eng->model, batch, logits, &st->error));
    return fxi_model_wait(eng->model, &st->error);
}

static void note_step(const fx_engine *eng, int kind, int n_tok, int n_seq, fx_status st)
{
    fxi_engine_note(eng, (fx_record){.kind = (uint8_t)kind,
                                     .n_tok = (uint32_t)n_tok,
                                     .n = (uint32_t)n_seq,
                                     .status = (uint8_t)st});
}

void fxi_step_run(fx_engine *eng, int n_tok)
{
    fxi_step *st = eng->step;
    const fxi_batch batch = fxi_step_batch(eng);
    const int n_prompt_tok = fxi_step_n_prompt(st);
    const uint64_t start_us = fxi_now_us(eng), from_us = fxi_speculate_clock_us(eng);
    note_step(eng, FX_RECORD_step_begin, n_tok, st->n_seq, FX_OK);
    const fx_status passed = compute_batch(eng, &batch);
    if (passed != FX_OK) {
        fail_batch(eng);
        note_step(eng, FX_RECORD_step_end, 0, 0, passed);
        return;
    }
    const uint64_t pass_us = fxi_speculate_clock_us(eng) - from_us;
    fxi_preempt_measure(eng, n_prompt_tok, n_tok, fxi_now_us(eng) - start_us);
    mark_cancelled(eng);
    st->n_draw = 0;
    for (int i = 0; i < st->n_seq; i++) advance_seq(eng, i);
    const int n_generated_tok = draw_rounds(eng);
    fxi_speculate_settle(eng, pass_us);
    fxi_inbox_count_step(eng, n_tok, n_prompt_tok, n_generated_tok);
    note_step(eng, FX_RECORD_step_end, n_generated_tok, 0, FX_OK);
}
