// sim_verdict.c - checks answers that are emitted at the end of a request: n_best and beam search.
// The reference computes all of them; the best must be emitted, in order. If the request was cut
// short, each must at least have been in progress.
#include "unit/engine/sim/sim_request.h"

#include <stdlib.h>
#include <string.h>

static bool ended_well(fx_finish f)
{
    return f == FX_FINISH_STOP || f == FX_FINISH_LENGTH;
}

static bool begins_with(const sim_answer *a, const sim_answer *begin)
{
    return begin->n_tok <= a->n_tok &&
           memcmp(a->tok, begin->tok, (size_t)begin->n_tok * sizeof *a->tok) == 0;
}

static bool same(const sim_answer *a, const sim_answer *b)
{
    return a->n_tok == b->n_tok && begins_with(a, b);
}

static bool all_ended_well(const sim_request *r)
{
    for (int i = 0; i < r->req.n_choice; i++)
        if (!ended_well(r->choice[i].finish)) return false;
    return true;
}

// ---- the best of n -----------------------------------------------------------------------------

static double mean(const sim_ask *k, const sim_answer *a)
{
    const int n = sim_answer_len(k, a);
    return n ? a->sum_logprob / n : 0;
}

static bool is_better(const sim_ask *k, const sim_answer *a, const sim_answer *b)
{
    if (ended_well(a->finish) != ended_well(b->finish)) return ended_well(a->finish);
    return mean(k, a) > mean(k, b);
}

// Cut short: each answer is the beginning of some choice, or all of one that has ended.
static const char *check_part(const sim_request *r, const sim_answer *a)
{
    for (int i = 0; i < r->req.n_choice; i++) {
        const sim_choice *c = &r->choice[i];
        bool found = false;
        for (int k = 0; k < r->ask.n_seq; k++)
            found |= ended_well(c->finish) ? same(&a[k], &c->a) : begins_with(&a[k], &c->a);
        if (!found) return "an answer cut short is no beginning of a choice";
    }
    return NULL;
}

static const char *check_best(const sim_request *r, const sim_answer *a)
{
    for (int i = 0; i < r->req.n_choice; i++) {
        const sim_choice *c = &r->choice[i];
        if (c->finish != a[i].finish || !same(&c->a, &a[i]))
            return "the answer emitted is not the best one";
        if (ended_well(c->finish) && c->score != mean(&r->ask, &a[i]))
            return "the score is not the mean logprob";
    }
    return NULL;
}

static const char *check_n_best(const sim_request *r)
{
    sim_answer *a = calloc((size_t)r->ask.n_seq, sizeof *a);
    if (!a) return "no memory for the test";
    bool own_error = false;
    for (int i = 0; i < r->ask.n_seq; i++) {
        sim_answer_all(&r->ask, &a[i], i);
        own_error |= a[i].finish == FX_FINISH_ERROR;
    }
    for (int i = 1; i < r->ask.n_seq; i++)
        for (int j = i; j > 0 && is_better(&r->ask, &a[j], &a[j - 1]); j--) {
            sim_answer x = a[j];
            a[j] = a[j - 1];
            a[j - 1] = x;
        }
    const bool may_break_off = r->may.error || r->may.cancel || r->may.abort;
    const char *what = all_ended_well(r) || own_error ? check_best(r, a) : "a choice failed";
    if (what && may_break_off) what = check_part(r, a);
    free(a);
    return what;
}

// ---- beams -------------------------------------------------------------------------------------

static const char *check_hypotheses(const sim_request *r, const sim_beams *b)
{
    for (int i = 0; i < r->req.n_choice; i++) {
        const sim_choice *c = &r->choice[i];
        if (i >= b->n_done) {
            if (c->finish != FX_FINISH_ERROR) return "more answers than the search has found";
        } else if (!same(&c->a, &b->done[i]) || c->finish != b->done[i].finish) {
            return "the answer emitted is not the best hypothesis";
        } else if (c->score != b->score[i]) {
            return "the score of a hypothesis is wrong";
        }
    }
    return NULL;
}

static bool is_live(const sim_beams *b, const sim_answer *a)
{
    for (int i = 0; i < b->n_live; i++)
        if (same(&b->live[i], a)) return true;
    return false;
}

// Cut short: each answer was a beam at its length.
static const char *check_beam_parts(const sim_request *r, sim_beams *b)
{
    for (int n = 0; !b->is_over; n++) {
        for (int i = 0; i < r->req.n_choice; i++)
            if (sim_answer_len(&r->ask, &r->choice[i].a) == n && !is_live(b, &r->choice[i].a))
                return "an answer of a search cut short was no beam";
        sim_beams_step(&r->ask, b);
    }
    return NULL;
}

static const char *check_beams(const sim_request *r)
{
    sim_beams *b = calloc(1, sizeof *b);
    if (!b) return "no memory for the test";
    sim_beams_begin(&r->ask, b);
    const bool broken_off = !ended_well(r->choice[0].finish);
    const char *what = NULL;
    if (r->ask.max_tok && broken_off && (r->may.error || r->may.cancel || r->may.abort)) {
        what = check_beam_parts(r, b);
    } else if (r->ask.max_tok) {
        while (!b->is_over) sim_beams_step(&r->ask, b);
        what = check_hypotheses(r, b);
    }
    free(b);
    return what;
}

const char *sim_verdict(const sim_request *r)
{
    return r->req.beam_width ? check_beams(r) : check_n_best(r);
}
