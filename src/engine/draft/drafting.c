// drafting.c - drafted tokens in a pass: where they come from, and what is done with them after it.
//
// Sources, in the order in which they are asked:
//
//   forced   what the grammar of the request forces next
//   prefix   what is recorded after the same tokens, for the same tenant
//   prompt   what followed the last few tokens where they occurred before, in prompt or answer
//   model    what the draft model samples
#include "engine/draft/drafting.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define MODEL_WEIGHT 0.2  // of a new measurement of the draft model
#define READ_SHARE   0.01 // of a pass's time, for what it reads
#define MOST_CREDIT  50.0 // passes

enum { MIDDLE_SAME = 5, LONG_SAME = 12, ASK_EVERY_TOK = 16 };
enum { PROMISE_TOK = 64 }; // of an answer, in which what is read for has to pay

static const struct source_row {
    const char *name;
    unsigned sources;
} source_rows[] = {
    {"off", 0},
    {"prompt", FXI_DRAFT_FROM_PROMPT},
    {"prefix", FXI_DRAFT_FROM_PREFIX},
    {"auto", FXI_DRAFT_FROM_PROMPT | FXI_DRAFT_FROM_PREFIX},
};

bool fxi_drafting_sources(const char *name, unsigned *sources)
{
    *sources = 0;
    for (size_t i = 0; name && i < sizeof source_rows / sizeof *source_rows; i++)
        if (!strcmp(name, source_rows[i].name)) {
            *sources = source_rows[i].sources;
            return true;
        }
    return !name;
}

fxi_drafting *fxi_drafting_make(const fxi_drafting *fields, int max_seq)
{
    const size_t n = (size_t)max_seq;
    fxi_drafting *x =
        calloc(1, sizeof *x + n * (sizeof *x->offer + sizeof *x->wish + sizeof(fxi_seq *)));
    if (!x) return NULL;
    *x = *fields;
    x->offer = (fxi_draft_offer *)(x + 1);
    x->wish = (fxi_draft_wish *)(x->offer + n);
    x->seq = (fxi_seq **)(x->wish + n);
    return x;
}

void fxi_drafting_measure(fxi_drafting *x)
{
    if (!x->model) return;
    x->pace = fxi_draft_model_pace(x->model);
    x->model_us = x->pace.token_us;
}

void fxi_drafting_end_seq(fxi_seq *s)
{
    if (!s->draft) return;
    fxi_ngram_free(&s->draft->index);
    free(s->draft);
    s->draft = NULL;
}

// ---- sources -----------------------------------------------------------------------------------

static int find_in_text(fxi_seq *s, int most)
{
    fxi_draft *d = s->draft;
    int n_same;
    if (!fxi_ngram_grow(&d->index, s->tok, s->n_tok)) return 0;
    const int from = fxi_ngram_find(&d->index, s->tok, s->n_tok, &n_same);
    if (!from) return 0;
    d->kind = n_same >= LONG_SAME     ? FXI_DRAFT_LONG
              : n_same >= MIDDLE_SAME ? FXI_DRAFT_MIDDLE
                                      : FXI_DRAFT_SHORT;
    return fxi_ngram_read(s->tok, s->n_tok, from, d->tok, most);
}

// The tree is asked for many tokens at once, and not again for some tokens where it has none: a
// look-up compares all tokens so far.
static int find_in_tree(const fxi_drafting *x, fxi_seq *s, int most)
{
    fxi_draft *d = s->draft;
    fxi_kv *kv = x->memory->kv;
    const bool may_ask = x->sources & FXI_DRAFT_FROM_PREFIX && s->request->domain &&
                         !s->request->spec.no_cache && fxi_kv_can(kv, FXI_KV_CONTINUE);
    if (!may_ask) return 0;
    const int n_since = s->n_tok - d->path_at;
    const bool is_on_path =
        d->n_path > n_since && n_since >= 0 &&
        memcmp(d->path, s->tok + d->path_at, (size_t)n_since * sizeof *d->path) == 0;
    if (!is_on_path) {
        if (s->n_tok < d->ask_at) return 0;
        d->path_at = s->n_tok;
        d->n_path = fxi_kv_lookup_continuation(kv, s->request->domain, s->tok, s->n_tok, d->path,
                                               FXI_PATH_TOK);
        d->ask_at = d->n_path ? 0 : s->n_tok + ASK_EVERY_TOK;
    }
    const int from = s->n_tok - d->path_at, left = d->n_path - from;
    const int n = left < most ? left : most;
    d->kind = FXI_DRAFT_PREFIX;
    if (n > 0) memcpy(d->tok, d->path + from, (size_t)n * sizeof *d->tok);
    return n;
}

// Finds a draft of at most `most` tokens for s. Returns how many it has; 0: there is none.
static int find_draft(fxi_drafting *x, fxi_seq *s, int most)
{
    if (!s->draft) s->draft = calloc(1, sizeof *s->draft);
    if (!s->draft) return 0;
    if (x->hooks->drafter) return x->hooks->drafter(x->hooks->ud, s, s->draft->tok, most);
    int n = fxi_seq_forced(s, s->draft->tok, most);
    s->draft->kind = FXI_DRAFT_FORCED;
    if (n <= 0) n = find_in_tree(x, s, most);
    if (n <= 0 && x->sources & FXI_DRAFT_FROM_PROMPT) n = find_in_text(s, most);
    return n;
}

// ---- plan --------------------------------------------------------------------------------------

static fxi_draft_offer offer_of(fxi_seq *s, int n)
{
    return (fxi_draft_offer){.seq = &s->draft->odds, .kind = s->draft->kind, .n = n};
}

static void add_offer(fxi_drafting *x, fxi_seq *s, int n)
{
    x->seq[x->n_offer] = s;
    x->offer[x->n_offer++] = offer_of(s, n);
}

// Drafts end one token before the answer does: its last one is sampled, never computed.
static int tokens_left(const fxi_seq *s)
{
    return (int)s->request->spec.n_prompt + s->request->max_tok - s->n_tok - 1;
}

static void offer_draft(fxi_drafting *x, fxi_seq *s)
{
    const int left = tokens_left(s), most = left < x->most_tok ? left : x->most_tok;
    if (most <= 0) return;
    const int n = find_draft(x, s, most);
    if (n > 0)
        add_offer(x, s, n);
    else if (s->draft && x->model && !x->hooks->drafter)
        x->wish[x->n_wish++] = (fxi_draft_wish){.s = s, .most = most, .tok = s->draft->tok};
}

// Chooses how many tokens a sequence wishes, and whether the model may read for them: while the
// credit for that is not overdrawn, as far as it and what the drafts promise to save by the next
// tokens of the answer cover it. *credit_us: what is left.
static void choose_wish(fxi_drafting *x, fxi_draft_wish *w, double *credit_us)
{
    fxi_draft_offer o = offer_of(w->s, w->most);
    const double saves_us = fxi_draft_choose(&x->control, &o, 1, &x->pass, o.n, x->model_us);
    const int left = tokens_left(w->s), n_tok = left < PROMISE_TOK ? left : PROMISE_TOK;
    const double promised_us = saves_us * n_tok / (1 + o.n_proposed);
    w->most = o.n_proposed;
    if (!w->most) return;
    const double needs_us = x->pace.read_us * fxi_draft_model_behind(x->model, w->s);
    w->may_read = *credit_us >= 0 && needs_us <= *credit_us + promised_us;
    if (w->may_read) *credit_us -= needs_us;
}

// The draft model is asked where it is likely to pay: never one that is too slow at its best. What
// it reads before, the prompt of a sequence or what others drafted meanwhile, is beyond that: it
// has a credit of its own, of what its drafts have saved and 1 % of the time.
static void offer_model_drafts(fxi_drafting *x)
{
    const bool takes_all = x->hooks->takes_all;
    const bool may_pay = fxi_draft_may_pay(&x->control, &x->pass, x->pace.token_us);
    double credit_us = x->model_credit_us;
    int n = 0, n_tok = 0;
    for (int i = 0; i < x->n_wish && (takes_all || may_pay); i++) {
        fxi_draft_wish w = x->wish[i];
        w.s->draft->kind = FXI_DRAFT_MODEL;
        w.may_read = takes_all;
        if (!takes_all) choose_wish(x, &w, &credit_us);
        if (w.most) x->wish[n++] = w;
    }
    if (!n) return;
    x->draft_us = fxi_draft_model_run(x->model, x->wish, n, &x->read_us);
    for (int i = 0; i < n; i++) {
        const fxi_draft_wish *w = &x->wish[i];
        if (w->n_tok) add_offer(x, w->s, w->n_tok);
        n_tok += w->n_tok;
    }
    if (!n_tok) return;
    const double us = x->draft_us / n_tok;
    x->model_us += (x->model_us > 0 ? MODEL_WEIGHT : 1) * (us - x->model_us);
}

static void collect_offers(fxi_drafting *x, bool may_add)
{
    x->n_offer = x->n_wish = 0;
    for (fxi_live_request *r = x->memory->sched->running.head; r; r = r->next)
        for (int i = 0; i < r->n_seq; i++) {
            fxi_seq *s = &r->seq[i];
            if (s->n_planned && s->n_computed + s->n_planned == s->n_tok && !s->embd) {
                x->pass.n_decode++;
                x->pass.n_read += s->n_tok;
            }
            // It computes its last known token in this pass, and continues by itself.
            if (may_add && s->n_planned == 1 && !s->is_filling && !r->beam && !r->is_whole &&
                !s->embd && !r->spec.no_speculate && fxi_seq_may_compute(s) &&
                fxi_seq_n_left(s) == 1)
                offer_draft(x, s);
        }
    offer_model_drafts(x);
}

// Keeps the offers with proposed tokens, as far as memory is at hand. Returns how many tokens those
// have.
static int grow_caches(fxi_drafting *x)
{
    int n_more[FXI_ALLOC_BATCH], n = 0, n_tok = 0;
    for (int i = 0; i < x->n_offer && n < FXI_ALLOC_BATCH; i++) {
        if (!x->offer[i].n_proposed) continue;
        x->seq[n] = x->seq[i];
        n_more[n++] = x->offer[i].n_proposed;
    }
    n = fxi_alloc_drafts(x->memory, x->seq, n_more, n);
    x->n_offer = 0;
    for (int i = 0; i < n; i++) {
        fxi_seq *s = x->seq[i];
        if (!s->n_planned) continue; // its request has failed with a later one
        x->seq[x->n_offer++] = s;
        s->n_draft = n_more[i];
        s->n_planned += s->n_draft;
        s->draft->n_accepted = 0;
        n_tok += s->n_draft;
    }
    return n_tok;
}

int fxi_drafting_plan(fxi_drafting *x, int n_tok, int max_row)
{
    x->pass = (fxi_draft_pass){.n_row = n_tok};
    x->draft_us = x->read_us = 0; // except for a model, drafts cost next to nothing
    if (max_row > x->step_tok - n_tok) max_row = x->step_tok - n_tok;
    collect_offers(x, max_row > 0);
    if (x->hooks->drafter || x->hooks->takes_all) {
        // For tests: all that was drafted is computed.
        for (int i = 0; i < x->n_offer; i++) {
            fxi_draft_offer *o = &x->offer[i];
            o->n_proposed = o->n < max_row ? o->n : max_row;
            max_row -= o->n_proposed;
        }
    } else {
        fxi_draft_choose(&x->control, x->offer, x->n_offer, &x->pass, max_row, 0);
    }
    return grow_caches(x);
}

// ---- after the pass ----------------------------------------------------------------------------

bool fxi_drafting_is_accepted(const fxi_seq *s, int i)
{
    return i < s->n_draft && s->draft->n_accepted == i && s->finish == FX_FINISH_NONE &&
           !s->is_late && s->n_tok == s->n_computed + 1 &&
           s->tok[s->n_tok - 1] == s->draft->tok[i] &&
           !atomic_load_explicit(&s->request->cancelled, memory_order_relaxed);
}

void fxi_drafting_commit(fxi_drafting *x, uint64_t us)
{
    fxi_draft_result all = {.us = x->draft_us};
    int n_accepted[FXI_ALLOC_BATCH], n_model_tok = 0;
    for (int i = 0; i < x->n_offer; i++) {
        fxi_seq *s = x->seq[i];
        fxi_draft *d = s->draft;
        n_accepted[i] = d->n_accepted;
        if (d->n_accepted < s->n_draft) fxi_cache_cut(x->memory, s);
        const int n_judged = s->finish == FX_FINISH_NONE ? s->n_draft : d->n_accepted;
        fxi_draft_note(&x->control, &d->odds, d->kind, n_judged, d->n_accepted);
        n_model_tok += d->kind == FXI_DRAFT_MODEL ? s->n_draft : 0;
        all.n_tok += s->n_draft;
        all.n_accepted += d->n_accepted;
        s->n_draft = 0;
    }
    if (all.n_tok) {
        fxi_stats_count_drafts(x->memory->stats, n_accepted, x->n_offer, all.n_tok);
        fxi_journal_note(x->memory->journal, (fx_record){.kind = FX_RECORD_draft,
                                                         .n_tok = (uint32_t)all.n_tok,
                                                         .n = (uint32_t)all.n_accepted});
    }
    const double noted_us = fxi_draft_note_pass(&x->control, &x->pass, (double)us, &all);
    const double saved_us = noted_us - x->read_us;
    const double by_model_us = n_model_tok ? fmax(noted_us, 0) * n_model_tok / all.n_tok : 0;
    x->model_credit_us += by_model_us + READ_SHARE * (double)us - x->read_us;
    x->model_credit_us = fmin(x->model_credit_us, MOST_CREDIT * (double)us);
    fxi_statistics *stats = x->memory->stats;
    if (saved_us != 0)
        fxi_stats_add(stats, saved_us > 0 ? &stats->now.draft_saved_us : &stats->now.draft_lost_us,
                      (uint64_t)fabs(saved_us));
}
