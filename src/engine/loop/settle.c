// settle.c - the results of a step, applied in the order of the groups: tokens are appended and
// emitted, beams are chosen.
#include "engine/loop/loop.h"
#include "engine/memory/room.h"

static const float *row_of(const fx_engine *eng, const fxi_draw *d)
{
    return eng->step->logits + (size_t)d->row * (size_t)eng->info.n_vocab;
}

// ---- beams -------------------------------------------------------------------------------------

// Makes the empty `to` the parent's continuation by one token, and decides its finish. False: no
// memory.
static bool extend_beam(fx_engine *eng, fxi_seq *to, const fxi_draw *parent, const fxi_beam_next *c)
{
    fxi_group *g = parent->s->group;
    fx_logprob top[FX_MAX_TOP];
    fx_token_prob prob;
    *to = (fxi_seq){.group = g, .stop_token = -1, .stop_string = -1, .choice = parent->s->choice};
    if (!fxi_seq_copy(to, parent->s)) return false;
    if (g->req.logprobs)
        fxi_logprob_of(row_of(eng, parent), eng->info.n_vocab, c->next.token, g->req.n_top, top,
                       &prob);
    fxi_output_add(eng, to, c->next.token, g->req.logprobs ? &prob : NULL);
    to->beam_sum = c->sum;
    return to->finish != FX_FINISH_ERROR;
}

// Fills b->next with the beams that go on, from the draws d[n_draw] of the group, one of each beam,
// by choice; keeps those that end as hypotheses. Returns how many go on, -1: no memory.
static int choose_beams(fx_engine *eng, fxi_group *g, const fxi_draw *d, int n_draw)
{
    fxi_beam *b = g->beam;
    for (int i = 0; i < n_draw; i++)
        fxi_beam_offer(b, i, d[i].s->beam_sum, d[i].lists->next, d[i].n_next);
    const int n_cand = fxi_beam_rank(b);
    int n = 0;
    for (int i = 0; i < n_cand && n < b->width; i++) {
        const fxi_beam_next *c = &b->cand[i];
        fxi_seq *s = &b->next[n];
        if (!extend_beam(eng, s, &d[c->parent], c)) {
            for (int k = 0; k <= n; k++) fxi_seq_clear(&b->next[k]);
            return -1;
        }
        if (s->finish == FX_FINISH_NONE)
            n++;
        else
            fxi_beam_keep(g, s, c->sum);
    }
    return n;
}

// error: why a beam could not go on; NULL: all that the rules allow has been found. It is emitted
// where hypotheses are missing.
static void end_search(fx_engine *eng, fxi_group *g, int n, const char *error)
{
    fxi_beam *b = g->beam;
    b->is_over = true;
    for (int k = 0; k < n; k++) fxi_seq_clear(&b->next[k]);
    fxi_cache_release_all(eng, g);
    if (error)
        fxi_group_fail(g, error);
    else
        fxi_group_refuse(g, FX_EINVAL, "the search has found fewer answers");
}

static const char *first_error(const fxi_draw *d, int n)
{
    int i = 0;
    while (i < n && !d[i].error) i++;
    return i < n ? d[i].error : NULL;
}

static void settle_beams(fx_engine *eng, fxi_group *g, const fxi_draw *d, int n_draw)
{
    const int n = choose_beams(eng, g, d, n_draw);
    const fxi_seq *best = &g->beam->next[0];
    if (n < 0)
        fxi_group_fail(g, "no memory for the beams");
    else if (n == 0 || fxi_beam_may_end(g, best->beam_sum, fxi_seq_n_generated(best)))
        end_search(eng, g, n, first_error(d, n_draw));
    else
        fxi_fork_beams(eng, g, n);
}

// ---- tokens ------------------------------------------------------------------------------------

static void settle_draw(fx_engine *eng, const fxi_draw *d)
{
    if (d->s->finish == FX_FINISH_ERROR) return; // another draw has ended its group
    if (d->position)
        fxi_output_prompt_prob(eng, d->s, d->position, &d->prob);
    else if (d->tok < 0 && d->error)
        fxi_seq_fail(d->s, d->error);
    else if (d->tok < 0)
        fxi_seq_refuse(d->s, "the request's rules leave no token to go on with");
    else
        fxi_output_add(eng, d->s, d->tok, d->has_prob ? &d->prob : NULL);
}

// Weights or a cache that are broken, or a model that overflows: no token of it means anything.
static bool any_broken(const fxi_draw *d, int n)
{
    for (int i = 0; i < n; i++)
        if (d[i].is_broken) return true;
    return false;
}

static int n_same_group(const fxi_draw *d, int n)
{
    int i = 1;
    while (i < n && d[i].s->group == d[0].s->group) i++;
    return i;
}

int fxi_settle_draws(fx_engine *eng)
{
    const fxi_step *st = eng->step;
    int n_drawn = 0;
    for (int i = 0, n; i < st->n_draw; i += n) {
        const fxi_draw *d = &st->draw[i];
        const bool is_beam = d->s->group->beam && !d->position;
        n = is_beam ? n_same_group(d, st->n_draw - i) : 1;
        n_drawn += !d->position;
        if (!d->position) fxi_clients_serve_tokens(eng, d->s->group->client, n);
        if (any_broken(d, n))
            fxi_group_fail(d->s->group, "the model computed logits that are not finite numbers");
        else if (is_beam)
            settle_beams(eng, d->s->group, d, n);
        else
            settle_draw(eng, d);
    }
    return n_drawn;
}
