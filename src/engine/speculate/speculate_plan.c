// speculate_plan.c - drafted tokens in a step, and what is done with them after it.
#include "engine/speculate/speculate.h"

#include "engine/memory/room.h"

#define MODEL_WEIGHT 0.2 // of a new measurement of the draft model

// ---- plan --------------------------------------------------------------------------------------

// A sequence that computes its last known token in this step and goes on by itself.
static bool may_draft(const fxi_seq *s)
{
    const fxi_group *g = s->group;
    return s->n_step == 1 && !s->is_filling && !g->beam && !g->is_whole && !s->embd &&
           !g->req.no_speculate && fxi_seq_may_compute(s) && fxi_seq_n_left(s) == 1;
}

static bool draws_now(const fxi_seq *s)
{
    return s->n_step && s->n_computed + s->n_step == s->n_tok && !s->embd;
}

// Drafts end one token before the answer does: its last one is drawn, never computed.
static int longest_draft(const fxi_speculator *x, const fxi_seq *s)
{
    const int left = (int)s->group->req.n_prompt + s->group->max_tok - s->n_tok - 1;
    return left < x->most_tok ? left : x->most_tok;
}

static fxi_pace_offer offer_of(const fxi_seq *s, fxi_draft_kind kind, int n)
{
    return (fxi_pace_offer){.seq = &s->draft->pace, .kind = kind, .n = n, .n_read = s->n_tok};
}

static void add_offer(fxi_speculator *x, fxi_seq *s, int n)
{
    x->seq[x->n_offer] = s;
    x->offer[x->n_offer++] = offer_of(s, s->draft->kind, n);
}

static void offer_draft(fx_engine *eng, fxi_seq *s)
{
    fxi_speculator *x = eng->spec;
    const int most = longest_draft(x, s);
    const int n = most > 0 ? fxi_speculate_find(eng, s, most) : 0;
    if (n > 0)
        add_offer(x, s, n);
    else if (most > 0 && s->draft && eng->draft_model && !eng->drafter)
        x->wish[x->n_wish++] = (fxi_draft_wish){.s = s, .most = most};
}

// The draft model is asked where it is likely to pay.
static void keep_wishes(fxi_speculator *x)
{
    int n = 0;
    for (int i = 0; i < x->n_wish; i++) {
        fxi_draft_wish w = x->wish[i];
        const fxi_pace_offer o = offer_of(w.s, FXI_DRAFT_MODEL, w.most);
        w.most = fxi_pace_length(&x->pace, &o, x->model_us, &x->step);
        if (w.most) x->wish[n++] = w;
    }
    x->n_wish = n;
}

static void offer_model_drafts(fx_engine *eng)
{
    fxi_speculator *x = eng->spec;
    int n_tok = 0;
    if (!eng->is_unpaced) keep_wishes(x);
    if (!x->n_wish) return;
    x->draft_us = fxi_draft_model_run(eng, x->wish, x->n_wish);
    for (int i = 0; i < x->n_wish; i++) {
        const fxi_draft_wish *w = &x->wish[i];
        w->s->draft->kind = FXI_DRAFT_MODEL;
        if (w->n_tok) add_offer(x, w->s, w->n_tok);
        n_tok += w->n_tok;
    }
    if (!n_tok) return;
    const double us = x->draft_us / n_tok;
    x->model_us += (x->model_us > 0 ? MODEL_WEIGHT : 1) * (us - x->model_us);
}

static void add_decode(fxi_pace_step *step, const fxi_seq *s)
{
    step->n_decode++;
    step->n_read += s->n_tok;
}

static void collect_offers(fx_engine *eng, bool may_add)
{
    fxi_speculator *x = eng->spec;
    x->n_offer = x->n_wish = 0;
    for (fxi_group *g = eng->running.head; g; g = g->next)
        for (int i = 0; i < g->n_seq; i++) {
            if (draws_now(&g->seq[i])) add_decode(&x->step, &g->seq[i]);
            if (may_add && may_draft(&g->seq[i])) offer_draft(eng, &g->seq[i]);
        }
    offer_model_drafts(eng);
}

// For tests: all that was drafted is computed.
static void take_offers(fxi_speculator *x, int max_row)
{
    for (int i = 0; i < x->n_offer; i++) {
        fxi_pace_offer *o = &x->offer[i];
        o->n_taken = o->n < max_row ? o->n : max_row;
        max_row -= o->n_taken;
    }
}

// Keeps those of the offers that were taken, as far as memory is at hand.
static void grow_caches(fx_engine *eng)
{
    fxi_speculator *x = eng->spec;
    int n_more[FXI_ROOM_AT_ONCE], n = 0;
    for (int i = 0; i < x->n_offer && n < FXI_ROOM_AT_ONCE; i++) {
        if (!x->offer[i].n_taken) continue;
        x->seq[n] = x->seq[i];
        n_more[n++] = x->offer[i].n_taken;
    }
    n = fxi_room_try_many(eng, x->seq, n_more, n);
    x->n_offer = 0;
    for (int i = 0; i < n; i++) {
        fxi_seq *s = x->seq[i];
        if (!s->n_step) continue; // its group has failed with a later one
        x->seq[x->n_offer++] = s;
        s->n_draft = n_more[i];
        s->n_step += s->n_draft;
        s->draft->n_true = 0;
    }
}

void fxi_speculate_plan(fx_engine *eng, int n_tok, int max_row)
{
    fxi_speculator *x = eng->spec;
    if (!x) return;
    x->step = (fxi_pace_step){.n_row = n_tok};
    x->n_offer = 0;
    if (max_row > eng->opt.step_tok - n_tok) max_row = eng->opt.step_tok - n_tok;
    x->draft_us = 0; // but for a model, drafts cost next to nothing
    collect_offers(eng, max_row > 0);
    if (eng->drafter || eng->is_unpaced)
        take_offers(x, max_row);
    else
        fxi_pace_choose(&x->pace, x->offer, x->n_offer, &x->step, max_row);
    grow_caches(eng);
}

// ---- after the pass ----------------------------------------------------------------------------

bool fxi_speculate_came_true(const fxi_seq *s, int i)
{
    return i < s->n_draft && s->draft->n_true == i && s->finish == FX_FINISH_NONE && !s->is_late &&
           s->n_tok == s->n_computed + 1 && s->tok[s->n_tok - 1] == s->draft->tok[i] &&
           !atomic_load_explicit(&s->group->cancelled, memory_order_relaxed);
}

static void count_drafts(fx_engine *eng, int n_draft, int n_tok, int n_true)
{
    const fxi_speculator *x = eng->spec;
    pthread_mutex_lock(&eng->mu);
    eng->stats.n_draft += (uint64_t)n_draft;
    eng->stats.n_draft_tok += (uint64_t)n_tok;
    eng->stats.n_accepted_tok += (uint64_t)n_true;
    for (int i = 0; i < x->n_offer; i++)
        for (int k = 0; k < x->seq[i]->draft->n_true; k++) eng->details.accepted_at[k]++;
    pthread_mutex_unlock(&eng->mu);
}

void fxi_speculate_settle(fx_engine *eng, uint64_t us)
{
    fxi_speculator *x = eng->spec;
    if (!x) return;
    fxi_pace_drafts all = {.us = x->draft_us};
    for (int i = 0; i < x->n_offer; i++) {
        fxi_seq *s = x->seq[i];
        fxi_draft *d = s->draft;
        if (d->n_true < s->n_draft) fxi_cache_cut(eng, s);
        const int n_judged = s->finish == FX_FINISH_NONE ? s->n_draft : d->n_true;
        fxi_pace_note_draft(&x->pace, &d->pace, d->kind, n_judged, d->n_true);
        all.n_tok += s->n_draft;
        all.n_true += d->n_true;
        all.n_read += (double)s->n_draft * s->n_tok;
        s->n_draft = 0;
    }
    if (all.n_tok) {
        count_drafts(eng, x->n_offer, all.n_tok, all.n_true);
        fxi_engine_note(eng, (fx_record){.kind = FX_RECORD_draft,
                                         .n_tok = (uint32_t)all.n_tok,
                                         .n = (uint32_t)all.n_true});
    }
    fxi_pace_note_step(&x->pace, &x->step, (double)us, &all);
}
