// seq.c - one sequence as data: its tokens, its text, its end.
#include "engine/engine.h"

#include <limits.h>
#include <stdlib.h>
#include <string.h>

int fxi_seq_n_generated(const fxi_seq *s)
{
    return s->n_tok ? s->n_tok - (int)s->group->req.n_prompt : 0;
}

bool fxi_seq_follow(fxi_seq *s, uint64_t *mask, const char **error)
{
    const fx_request *req = &s->group->req;
    const fx_status st =
        fxi_gram_matcher_mask(req->grammar->guide, s->tok + req->n_prompt,
                              (size_t)fxi_seq_n_generated(s), &s->place, mask, NULL);
    if (st == FX_OK) return true;
    *error = st == FX_ENOMEM
                 ? "no memory to follow the grammar"
                 : "the answer is nested too deeply, or its grammar is too ambiguous, to go on";
    return false;
}

fxi_sample_view fxi_seq_view(const fxi_seq *s)
{
    const fxi_group *g = s->group;
    return (fxi_sample_view){.rule = &g->req.sampling,
                             .tok = s->tok,
                             .n_prompt = (int)g->req.n_prompt,
                             .n_tok = s->n_tok,
                             .end = g->end,
                             .n_end = g->n_end};
}

// End-of-text tokens come first in g->end.
static void allow_ends(const fx_engine *eng, const fxi_group *g, uint64_t *allowed)
{
    for (int i = g->req.ignore_eos ? eng->n_end_tok : 0; i < g->n_end; i++)
        allowed[g->end[i] / 64] |= (uint64_t)1 << (g->end[i] % 64);
}

bool fxi_seq_allowed(const fx_engine *eng, fxi_seq *s, uint64_t *allowed, const char **error)
{
    if (!s->group->req.grammar) return true;
    if (!fxi_seq_follow(s, allowed, error)) return false;
    if (s->place.may_end) allow_ends(eng, s->group, allowed);
    return true;
}

// Nothing may revive a banned token, and beams are ranked by what they draw.
static bool may_force(const fx_request *req)
{
    const fx_sampling *r = &req->sampling;
    return req->grammar && !req->beam_width && !r->n_allow && !r->n_ban && !r->n_ban_run;
}

int fxi_seq_forced(fxi_seq *s, int32_t *out, int max_tok)
{
    size_t n = 0;
    const fx_request *req = &s->group->req;
    if (!may_force(req) || fxi_gram_matcher_forced(req->grammar->guide, s->tok + req->n_prompt,
                                                   (size_t)fxi_seq_n_generated(s), &s->place, out,
                                                   (size_t)max_tok, &n, NULL))
        return 0;
    return (int)n;
}

// A failure shows when it is followed.
bool fxi_seq_may_draw(fxi_seq *s, size_t *left)
{
    bool is_ready;
    const fx_request *req = &s->group->req;
    fx_grammar *g = req->grammar;
    if (!fxi_answer_worker_runs(g->worker)) return true;
    if (fxi_gram_matcher_prepare(g->guide, s->tok + req->n_prompt, (size_t)fxi_seq_n_generated(s),
                                 &s->place, may_force(req), left, &is_ready, NULL))
        return true;
    if (!is_ready) fxi_answer_worker_add(g->worker, g, true);
    return is_ready;
}

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

bool fxi_seq_reserve(fxi_seq *s, int n_tok)
{
    if (n_tok <= s->cap_tok) return true;
    int cap = n_tok + n_tok / 2 + 16;
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

bool fxi_seq_goes_before(const fxi_treap_node *a, const fxi_treap_node *b)
{
    const fxi_seq *x = FXI_TREAP_OF(a, fxi_seq, fill_at), *y = FXI_TREAP_OF(b, fxi_seq, fill_at);
    const uintptr_t in_x = (uintptr_t)x->group->domain, in_y = (uintptr_t)y->group->domain;
    const int n_tok = x->n_tok < y->n_tok ? x->n_tok : y->n_tok;
    int i = 0;
    if (in_x != in_y) return in_x < in_y;
    while (i < n_tok && x->tok[i] == y->tok[i]) i++;
    return i < n_tok ? x->tok[i] < y->tok[i] : x->n_tok < y->n_tok;
}

bool fxi_seq_waits_before(const fxi_treap_node *a, const fxi_treap_node *b)
{
    const fxi_wait *x = FXI_TREAP_OF(a, fxi_wait, at), *y = FXI_TREAP_OF(b, fxi_wait, at);
    if (x->group_id != y->group_id) return x->group_id < y->group_id;
    return x->choice != y->choice ? x->choice < y->choice : x->n_tok < y->n_tok;
}

void fxi_seq_let_go(fx_engine *eng, const fxi_seq *s, int n_tok)
{
    const fxi_wait key = {.group_id = s->group->id, .choice = s->choice};
    fxi_wait *w;
    if (!eng->joining.root) return;
    while ((w = FXI_TREAP_OF(fxi_treap_find(&eng->joining, &key.at), fxi_wait, at))) {
        if (w->group_id != key.group_id || w->choice != key.choice || w->n_tok > n_tok) return;
        fxi_treap_remove(&eng->joining, &w->at);
        *w = (fxi_wait){0};
        fxi_treap_add(&eng->joining, &w->at);
    }
}

// Nobody waits for one that does not compute known tokens any more.
void fxi_seq_list_filling(fx_engine *eng, fxi_seq *s)
{
    const bool is_listed = fxi_treap_has(&s->fill_at), runs = s->group->state == FXI_RUNNING;
    const bool must = s->is_filling && runs && !s->group->req.no_cache;
    if (must == is_listed) return;
    (must ? fxi_treap_add : fxi_treap_remove)(&eng->filling, &s->fill_at);
    if (!must) fxi_seq_let_go(eng, s, INT_MAX);
}

void fxi_seq_clear(fxi_seq *s)
{
    free(s->tok);
    fxi_text_free(&s->text);
    fxi_prob_log_free(&s->prob);
    fxi_draft_free(s->draft);
    free(s->embd);
    const fxi_group *g = s->group;
    *s = (fxi_seq){.group = s->group, .choice = s->choice, .stop_token = -1, .stop_string = -1};
    s->text.bytes = g->begins;
    s->text.include_stop = g->req.include_stop;
    s->text.show_control = g->req.show_control;
}
