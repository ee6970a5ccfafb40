// seq.c - one sequence as data: its tokens, its place in the grammar, its end, its embedding.
#include "engine/request/request.h"
#include "model/pooling.h"

#include <stdlib.h>
#include <string.h>

bool fxi_seq_reserve(fxi_seq *s, int n_tok)
{
    if (n_tok <= s->cap_tok) return true;
    const int cap = n_tok + n_tok / 2 + 16;
    int32_t *tok = realloc(s->tok, (size_t)cap * sizeof *tok);
    if (!tok) return false;
    s->tok = tok;
    s->cap_tok = cap;
    return true;
}

bool fxi_seq_copy(fxi_seq *to, const fxi_seq *from)
{
    if (!fxi_seq_reserve(to, from->n_tok + 1)) return false;
    memcpy(to->tok, from->tok, (size_t)from->n_tok * sizeof *to->tok);
    to->n_tok = from->n_tok;
    to->state = from->state;
    to->n_computed = from->n_computed;
    to->n_recorded = from->n_recorded;
    to->n_prompt_emitted = from->n_prompt_emitted;
    to->sum_logprob = from->sum_logprob;
    to->beam_sum = from->beam_sum;
    to->place = from->place;
    return fxi_prob_log_copy(&to->prob, &from->prob) && fxi_text_copy(&to->text, &from->text);
}

void fxi_seq_clear(fxi_seq *s)
{
    const fxi_live_request *r = s->request;
    free(s->tok);
    fxi_text_free(&s->text);
    fxi_prob_log_free(&s->prob);
    free(s->embd);
    *s = (fxi_seq){.request = s->request, .choice = s->choice, .stop_token = -1, .stop_string = -1};
    s->text.bytes = r->begins;
    s->text.include_stop = r->spec.include_stop;
    s->text.show_control = r->spec.show_control;
}

int fxi_seq_n_generated(const fxi_seq *s)
{
    return s->n_tok ? s->n_tok - (int)s->request->spec.n_prompt : 0;
}

// ---- ends --------------------------------------------------------------------------------------

void fxi_seq_fail(fxi_seq *s, const char *error)
{
    s->finish = FX_FINISH_ERROR;
    s->error = error;
    s->error_status = FX_EINTERNAL;
}

void fxi_seq_refuse(fxi_seq *s, const char *error)
{
    fxi_seq_fail(s, error);
    s->error_status = FX_EINVAL;
}

bool fxi_seq_ended_well(const fxi_seq *s)
{
    return s->finish == FX_FINISH_STOP || s->finish == FX_FINISH_LENGTH;
}

// ---- rules -------------------------------------------------------------------------------------

fxi_sample_view fxi_seq_view(const fxi_seq *s)
{
    const fxi_live_request *r = s->request;
    return (fxi_sample_view){.rule = &r->spec.sampling,
                             .tok = s->tok,
                             .n_prompt = (int)r->spec.n_prompt,
                             .n_tok = s->n_tok,
                             .end = r->end,
                             .n_end = r->n_end};
}

bool fxi_seq_follow(fxi_seq *s, uint64_t *mask, const char **error)
{
    const fx_request *spec = &s->request->spec;
    const fx_status st =
        fxi_gram_matcher_mask(spec->grammar->matcher, s->tok + spec->n_prompt,
                              (size_t)fxi_seq_n_generated(s), &s->place, mask, NULL);
    if (st == FX_OK) return true;
    *error = st == FX_ENOMEM
                 ? "no memory to follow the grammar"
                 : "the answer is nested too deeply, or its grammar is too ambiguous, to go on";
    return false;
}

bool fxi_seq_allowed(fxi_seq *s, uint64_t *allowed, const char **error)
{
    const fxi_live_request *r = s->request;
    if (!r->spec.grammar) return true;
    if (!fxi_seq_follow(s, allowed, error)) return false;
    for (int i = r->spec.ignore_eos ? r->n_eot : 0; s->place.may_end && i < r->n_end; i++)
        allowed[r->end[i] / 64] |= (uint64_t)1 << (r->end[i] % 64);
    return true;
}

// Nothing may revive a banned token, and beams are ranked by their probabilities.
static bool may_force(const fx_request *spec)
{
    const fx_sampling *rules = &spec->sampling;
    return spec->grammar && !spec->beam_width && !rules->n_allow && !rules->n_ban &&
           !rules->n_ban_run;
}

int fxi_seq_forced(fxi_seq *s, int32_t *out, int max_tok)
{
    size_t n = 0;
    const fx_request *spec = &s->request->spec;
    if (!may_force(spec) || fxi_gram_matcher_forced(spec->grammar->matcher, s->tok + spec->n_prompt,
                                                    (size_t)fxi_seq_n_generated(s), &s->place, out,
                                                    (size_t)max_tok, &n, NULL))
        return 0;
    return (int)n;
}

// A failure shows when the grammar is followed.
bool fxi_seq_is_ready(fxi_seq *s, size_t *left)
{
    bool is_ready;
    const fx_request *spec = &s->request->spec;
    fx_grammar *g = spec->grammar;
    if (!fxi_grammar_worker_runs(g->worker)) return true;
    if (fxi_gram_matcher_prepare(g->matcher, s->tok + spec->n_prompt,
                                 (size_t)fxi_seq_n_generated(s), &s->place, may_force(spec), left,
                                 &is_ready, NULL))
        return true;
    if (!is_ready) fxi_grammar_worker_add(g->worker, g, true);
    return is_ready;
}

// ---- embeddings --------------------------------------------------------------------------------

// A text may be computed in several passes, and again after a preemption: each row is added once,
// in order, so that the vector's bits depend on the text alone.
int fxi_embedding_n_row(const fxi_seq *s, const fxi_model_shape *shape)
{
    const int first = s->n_pooled > s->n_computed ? s->n_pooled : s->n_computed;
    const int end = s->n_computed + s->n_planned;
    return end > first ? fxi_pooling_rows(shape, end - first, end == s->n_tok) : 0;
}

void fxi_embedding_add(fxi_seq *s, const fxi_model_shape *shape, const float *rows, int n_row)
{
    fxi_pooling_add(shape, rows, n_row, s->n_computed, s->embd);
    if (s->n_computed > s->n_pooled) s->n_pooled = s->n_computed;
}

void fxi_embedding_end(fxi_seq *s, const fxi_model_shape *shape)
{
    const fx_request *spec = &s->request->spec;
    const bool is_unit =
        spec->norm == FX_NORM_MODEL ? shape->has_unit_length : spec->norm == FX_NORM_UNIT;
    s->n_embd = spec->n_dim ? spec->n_dim : shape->dim;
    if (fxi_pooling_finish(shape, s->n_tok, s->n_embd, is_unit, s->embd))
        s->finish = FX_FINISH_STOP;
    else
        fxi_seq_fail(s, "the model computed an embedding that is not made of finite numbers");
}
