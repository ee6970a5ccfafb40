// draft_model.c - see draft_model.h.
#include "engine/draft/draft_model.h"

#include "base/system/clock.h" // defines: fxi_thread_cpu_ns
#include "engine/sampling/sampler.h"
#include "format/gguf.h"
#include "format/vocab.h"
#include "model/device.h"

#include <stdlib.h>
#include <string.h>

enum { STALE_RUNS = 256 };                 // a slot that no run has used for so long is freed
enum { PACE_READ_TOK = 32, PACE_TOK = 4 }; // by which its pace is measured

typedef struct fxi_draft_slot {
    uint64_t request_id; // 0: it is free
    int choice;
    fxi_kv_seq *kv;
    int n_base; // tokens of the sequence in the cache; after them
    int n_tail; // tokens that were drafted:
    int32_t tail[FX_MAX_DRAFT];
    uint64_t used;   // the run that used it last
    bool is_reading; // it has begun, and is still behind
} fxi_draft_slot;

struct fxi_draft_model {
    fxi_draft_model_options opt;
    fxi_device *device;
    fxi_model *model;
    fxi_kv *kv;
    fxi_draft_slot *slot;  // [max_seq]
    int32_t *token;        // [step_tok]
    fxi_batch_seq *batch;  // [max_seq]
    fxi_draft_wish **wish; // [max_seq] of each element of the batch
    float *logits;
    fxi_sample_scratch scratch; // for the vocabulary of both
    uint64_t n_run;
};

uint64_t fxi_draft_clock_us(const fxi_draft_clock *c)
{
    const bool is_real = c->journal->now_us == fxi_monotonic_us;
    return c->is_on_host && is_real ? fxi_thread_cpu_ns() / 1000 : fxi_journal_us(c->journal);
}

// ---- loading -----------------------------------------------------------------------------------

// Length of a piece in a message: it does not end with a NUL.
static int shown_bytes(size_t n)
{
    return n < 40 ? (int)n : 40;
}

static fx_status compare_vocabs(const fxi_vocab *want, const fxi_vocab *v, fx_error *err)
{
    const int n = fxi_vocab_size(want);
    if (fxi_vocab_size(v) != n)
        return fxi_fail(err, FX_EINVAL, "draft model: its vocabulary has %d tokens, the model's %d",
                        fxi_vocab_size(v), n);
    for (int32_t id = 0; id < n; id++) {
        size_t n_a, n_b;
        const char *a = fxi_vocab_piece(want, id, &n_a), *b = fxi_vocab_piece(v, id, &n_b);
        if (n_a != n_b || memcmp(a, b, n_a) != 0)
            return fxi_fail(err, FX_EINVAL, "draft model: token %d is '%.*s', the model's '%.*s'",
                            (int)id, shown_bytes(n_b), b, shown_bytes(n_a), a);
    }
    return FX_OK;
}

static fx_status check_vocab(const fxi_gguf *g, const fxi_vocab *want, fx_error *err)
{
    fxi_vocab *v;
    FX_TRY(fxi_vocab_load(g, &v, err));
    const fx_status st = compare_vocabs(want, v, err);
    fxi_vocab_free(v);
    return st;
}

fx_status fxi_draft_model_check(const char *path, const fxi_vocab *vocab, fx_error *err)
{
    fxi_gguf *g;
    FX_TRY(fxi_model_file_open(path, &g, err));
    const fx_status st = check_vocab(g, vocab, err);
    fxi_gguf_close(g);
    return st;
}

static fx_status load_weights(fxi_draft_model *m, const fxi_gguf *g, fx_error *err)
{
    const fxi_draft_model_options *o = &m->opt;
    FX_TRY(fxi_host_device_open(o->pool, NULL, &m->device, err));
    const fxi_model_options opt = {.pool = o->pool,
                                   .device = m->device,
                                   .ctx_tok = o->ctx_tok,
                                   .max_batch_tok = o->step_tok,
                                   .max_batch_logit = o->max_seq,
                                   .kv_type = o->kv_type};
    FX_TRY(fxi_model_load(g, &opt, &m->model, err));
    const fxi_model_shape *shape = &m->model->shape;
    if (fxi_vocab_size(o->vocab) > shape->n_vocab)
        return fxi_fail(err, FX_EFORMAT, "draft model: %d tokens, and %d rows of its embedding",
                        fxi_vocab_size(o->vocab), shape->n_vocab);
    if (!shape->generates || !shape->is_causal)
        return fxi_fail(err, FX_EINVAL, "draft model: it generates no text");
    void *logits;
    const size_t n = (size_t)shape->n_vocab, n_other = (size_t)o->shape->n_vocab;
    FX_TRY(
        m->device->ops->take_host(m->device, (size_t)o->max_seq * n * sizeof(float), &logits, err));
    m->logits = logits;
    if (fxi_sample_scratch_make(&m->scratch, n > n_other ? n : n_other, (size_t)o->ctx_tok))
        return FX_OK;
    return fxi_fail(err, FX_ENOMEM, "no memory for the draft model");
}

fx_status fxi_draft_model_load(const fxi_draft_model_options *opt, fxi_draft_model **out,
                               fx_error *err)
{
    const size_t n = (size_t)opt->max_seq;
    fxi_draft_model *m = calloc(1, sizeof *m);
    fxi_gguf *g = NULL;
    fx_status st = FX_OK;
    *out = NULL;
    if (!m) return fxi_fail(err, FX_ENOMEM, "no memory for the draft model");
    m->opt = *opt;
    m->slot = calloc(n, sizeof *m->slot);
    m->token = calloc((size_t)opt->step_tok, sizeof *m->token);
    m->batch = calloc(n, sizeof *m->batch);
    m->wish = calloc(n, sizeof(fxi_draft_wish *));
    if (!m->slot || !m->token || !m->batch || !m->wish)
        st = fxi_fail(err, FX_ENOMEM, "no memory for the draft model");
    if (st == FX_OK) st = fxi_model_file_open(m->opt.path, &g, err);
    if (st == FX_OK) st = check_vocab(g, m->opt.vocab, err);
    if (st == FX_OK) st = load_weights(m, g, err);
    fxi_gguf_close(g);
    m->opt.path = m->opt.kv_type = NULL; // the caller's
    if (st == FX_OK)
        *out = m;
    else
        fxi_draft_model_close(m);
    return st;
}

// Both caches hold the same number of tokens.
fx_status fxi_draft_model_open_kv(fxi_draft_model *m, uint64_t budget_bytes, uint64_t *own_bytes,
                                  double *own_share, fx_error *err)
{
    *own_bytes = 0;
    *own_share = 0;
    if (!m) return FX_OK;
    const fxi_kv_layout *own = &m->model->shape.kv, *others = &m->opt.shape->kv;
    const double tok_bytes = (double)fxi_kv_tok_bytes(own), n_plane = fxi_kv_n_plane(own);
    *own_bytes = (uint64_t)((double)budget_bytes * tok_bytes /
                            (tok_bytes + (double)fxi_kv_tok_bytes(others)));
    *own_share = n_plane / (n_plane + fxi_kv_n_plane(others));
    const fxi_kv_shape shape = {.layout = *own,
                                .ctx_tok = m->opt.ctx_tok,
                                .step_tok = m->opt.step_tok,
                                .max_seq = m->opt.max_seq,
                                .run_share = *own_share,
                                .tile_tok = m->opt.tile_tok,
                                .budget_bytes = *own_bytes,
                                .single_thread = m->opt.single_thread};
    return fxi_kv_open(NULL, &shape, &m->kv, err);
}

void fxi_draft_model_close(fxi_draft_model *m)
{
    if (!m) return;
    fxi_kv_close(m->kv);
    fxi_model_free(m->model);
    if (m->device) m->device->ops->close(m->device);
    free(m->slot);
    free(m->token);
    free(m->batch);
    free(m->wish);
    fxi_sample_scratch_free(&m->scratch);
    free(m);
}

// ---- slots -------------------------------------------------------------------------------------

static void free_slot(fxi_draft_model *m, fxi_draft_slot *slot)
{
    if (slot->kv) fxi_kv_release(m->kv, slot->kv);
    *slot = (fxi_draft_slot){0};
}

static bool is_slot_of(const fxi_draft_slot *slot, const fxi_seq *s)
{
    return slot->request_id == s->request->id && slot->choice == s->choice;
}

// The slot of s, or the one used longest ago.
static fxi_draft_slot *slot_of(fxi_draft_model *m, const fxi_seq *s)
{
    fxi_draft_slot *oldest = &m->slot[0];
    for (int i = 0; i < m->opt.max_seq; i++) {
        fxi_draft_slot *slot = &m->slot[i];
        if (is_slot_of(slot, s)) return slot;
        if (slot->used < oldest->used) oldest = slot;
    }
    free_slot(m, oldest);
    oldest->request_id = s->request->id;
    oldest->choice = s->choice;
    return oldest;
}

// Frees the caches that were not used since this run. False: there were none.
static bool free_unused(fxi_draft_model *m, uint64_t older_than)
{
    bool any = false;
    for (int i = 0; i < m->opt.max_seq; i++) {
        if (!m->slot[i].kv || m->slot[i].used >= older_than) continue;
        free_slot(m, &m->slot[i]);
        any = true;
    }
    return any;
}

// Truncates its cache to what is still a part of s. False: s has no cache.
static bool fit_slot(fxi_draft_model *m, fxi_draft_slot *slot, const fxi_seq *s)
{
    int n = slot->n_base, i = 0;
    while (i < slot->n_tail && n < s->n_tok - 1 && s->tok[n] == slot->tail[i]) i++, n++;
    if (n > s->n_tok - 1) n = s->n_tok - 1; // the last one is computed for its logits
    const fxi_kv_expect expect = {.begin_tok = s->n_tok};
    if (!slot->kv && fxi_kv_create(m->kv, &expect, &slot->kv) != FX_OK) return false;
    if (fxi_kv_truncate(m->kv, slot->kv, n) != FX_OK) return false;
    slot->n_base = n;
    slot->n_tail = 0;
    return true;
}

// ---- a run -------------------------------------------------------------------------------------

static int cached_tok(const fxi_draft_slot *slot)
{
    return slot->n_base + slot->n_tail;
}

// A cache that lacks more than a draft and a token reads them before it drafts.
static bool is_far_behind(int n_lacking)
{
    return n_lacking > FX_MAX_DRAFT + 1;
}

int fxi_draft_model_behind(const fxi_draft_model *m, const fxi_seq *s)
{
    int n = s->n_tok;
    for (int i = 0; i < m->opt.max_seq; i++)
        if (is_slot_of(&m->slot[i], s)) n = s->n_tok - m->slot[i].n_base;
    return is_far_behind(n) ? n : 0;
}

// Adds n more tokens of a sequence and its draft to the batch. Memory for the whole draft comes
// with that for its last known token: a window then passes nothing that is still needed if none of
// it is accepted. False: there is no memory.
static bool batch_tokens(fxi_draft_model *m, fxi_batch *b, fxi_draft_wish *w, int n)
{
    const fxi_draft_slot *slot = w->slot;
    const int from = cached_tok(slot), end = from + n, known = w->s->n_tok;
    const int len_tok = end < known ? end : known + w->most - 1;
    fx_status st = fxi_kv_extend(m->kv, slot->kv, len_tok);
    if (st == FX_ENOSPACE && free_unused(m, m->n_run)) st = fxi_kv_extend(m->kv, slot->kv, len_tok);
    if (st != FX_OK) return false;
    for (int i = from; i < end; i++)
        m->token[b->n_tok++] = i < known ? w->s->tok[i] : w->tok[i - known];
    m->batch[b->n_seq] = (fxi_batch_seq){.views = fxi_kv_get_views(m->kv, slot->kv),
                                         .pos = from,
                                         .n_tok = n,
                                         .n_logit = end == known + w->n_tok};
    m->wish[b->n_seq++] = w;
    return true;
}

// Tokens of a sequence for this batch. A cache that is far behind reads as many as there is room
// for, and drafts in a later run; so one run reads no more than a step.
static int tokens_for(const fxi_draft_model *m, fxi_draft_wish *w, int left, int *n_read)
{
    int n = w->s->n_tok + w->n_tok - cached_tok(w->slot);
    const bool reads = is_far_behind(n), may_read = w->may_read || w->slot->is_reading;
    if (reads && (!may_read || left < m->opt.step_tok / 2)) {
        w->most = w->n_tok;
        return 0;
    }
    w->slot->is_reading = n > left;
    if (n > left) n = left;
    if (reads) *n_read += n;
    return n;
}

static void drop_slot(fxi_draft_model *m, fxi_draft_wish *w)
{
    free_slot(m, w->slot);
    w->slot = NULL;
}

// The next tokens of all that want some more; *n_read: those that are read.
static fxi_batch next_batch(fxi_draft_model *m, fxi_draft_wish *w, int n, int *n_read)
{
    fxi_batch b = {.token = m->token, .seq = m->batch};
    *n_read = 0;
    for (int i = 0; i < n; i++) {
        if (!w[i].slot || w[i].n_tok >= w[i].most) continue;
        const int more = tokens_for(m, &w[i], m->opt.step_tok - b.n_tok, n_read);
        if (more && !batch_tokens(m, &b, &w[i], more)) drop_slot(m, &w[i]);
    }
    return b;
}

// The token that would be sampled from this row, if the draft so far were accepted; -1: none, or it
// is unknown, or takes too long.
static int32_t sample_next(fxi_draft_model *m, fxi_draft_wish *w, const float *row)
{
    fxi_seq s = *w->s; // with its tokens, and the drafted ones after them
    int32_t tok;
    const char *error;
    s.n_tok += w->n_tok;
    s.place = w->place;
    // What the iteration may spend on grammars is for its samples first: a draft gets half of what
    // is left.
    const size_t own = *m->opt.mask_left / 2;
    size_t left = own;
    const bool may = !s.request->spec.grammar || fxi_seq_is_ready(&s, &left);
    *m->opt.mask_left -= own - left;
    if (!may) return -1;
    const bool is_forced = fxi_seq_forced(&s, &tok, 1) > 0;
    fxi_sample_view v = fxi_seq_view(&s);
    if (s.request->spec.grammar) v.allowed = m->scratch.allowed;
    const bool is_known = is_forced || fxi_seq_allowed(&s, m->scratch.allowed, &error);
    w->place = s.place;
    if (is_forced || !is_known) return is_forced ? tok : -1;
    const int n = fxi_vocab_size(m->opt.vocab);
    const float *ruled = fxi_rules_apply(&v, row, n, &m->scratch);
    return ruled ? fxi_sampler_draw(v.rule, ruled, n, s.choice, s.n_tok, m->scratch.cand) : -1;
}

// A row's token is the draft's next; a cache that is still behind has none, and waits.
static void apply_rows(fxi_draft_model *m, const fxi_batch *b)
{
    const float *row = m->logits;
    for (int k = 0; k < b->n_seq; k++) {
        fxi_draft_wish *w = m->wish[k];
        fxi_draft_slot *slot = w->slot;
        for (int t = 0; t < m->batch[k].n_tok; t++) {
            const int at = cached_tok(slot);
            if (at < w->s->n_tok)
                slot->n_base++;
            else
                slot->tail[slot->n_tail++] = w->tok[at - w->s->n_tok];
        }
        const int32_t tok = m->batch[k].n_logit ? sample_next(m, w, row) : -1;
        if (m->batch[k].n_logit) row += m->model->shape.n_vocab;
        if (tok < 0) {
            w->most = w->n_tok;
            continue;
        }
        w->s->tok[w->s->n_tok + w->n_tok] = tok;
        w->tok[w->n_tok++] = tok;
    }
}

static void begin_run(fxi_draft_model *m, fxi_draft_wish *w, int n)
{
    m->n_run++;
    fxi_draft_model_step(m);
    if (m->n_run > STALE_RUNS) (void)free_unused(m, m->n_run - STALE_RUNS);
    for (int i = 0; i < n; i++) {
        w[i].place = w[i].s->place;
        w[i].slot = slot_of(m, w[i].s);
        w[i].slot->used = m->n_run;
    }
    for (int i = 0; i < n; i++) {
        const int room = w[i].s->n_tok + FX_MAX_DRAFT;
        if (!fxi_seq_reserve(w[i].s, room) || !fit_slot(m, w[i].slot, w[i].s)) drop_slot(m, &w[i]);
    }
}

double fxi_draft_model_run(fxi_draft_model *m, fxi_draft_wish *w, int n, double *read_us)
{
    double sum_us = 0;
    int n_read;
    *read_us = 0;
    begin_run(m, w, n);
    for (fxi_batch b; (b = next_batch(m, w, n, &n_read)).n_seq > 0;) {
        const uint64_t start_us = fxi_draft_clock_us(&m->opt.clock);
        if (fxi_model_forward(m->model, &b, m->logits, NULL) != FX_OK) {
            for (int i = 0; i < n; i++) w[i].n_tok = 0;
            (void)free_unused(m, m->n_run + 1); // what the caches hold is undefined
            return sum_us;
        }
        apply_rows(m, &b);
        const double us = (double)(fxi_draft_clock_us(&m->opt.clock) - start_us);
        sum_us += us * (b.n_tok - n_read) / b.n_tok;
        *read_us += us * n_read / b.n_tok;
    }
    return sum_us;
}

// ---- its pace ----------------------------------------------------------------------------------

// What a pass over the tokens [from, from + n) of a sequence takes, in us; below 0: it failed.
static double time_pass(fxi_draft_model *m, fxi_kv_seq *kv, int from, int n)
{
    if (fxi_kv_extend(m->kv, kv, from + n) != FX_OK) return -1;
    m->batch[0] = (fxi_batch_seq){
        .views = fxi_kv_get_views(m->kv, kv), .pos = from, .n_tok = n, .n_logit = 1};
    const fxi_batch b = {.token = m->token, .n_tok = n, .seq = m->batch, .n_seq = 1};
    const uint64_t start_us = fxi_draft_clock_us(&m->opt.clock);
    if (fxi_model_forward(m->model, &b, m->logits, NULL) != FX_OK) return -1;
    return (double)(fxi_draft_clock_us(&m->opt.clock) - start_us);
}

// The first pass meets memory that nobody has touched yet. Of tokens, the fastest counts.
static fxi_draft_pace measure_pace(fxi_draft_model *m, fxi_kv_seq *kv, int n_read)
{
    const double first_us = time_pass(m, kv, 0, n_read);
    const double read_us = first_us < 0 ? -1 : time_pass(m, kv, n_read, n_read);
    double token_us = read_us;
    for (int i = 0; token_us >= 0 && i < PACE_TOK; i++) {
        const double us = time_pass(m, kv, 2 * n_read + i, 1);
        if (us < token_us) token_us = us;
    }
    return token_us > 0 ? (fxi_draft_pace){token_us, read_us / n_read} : (fxi_draft_pace){0};
}

fxi_draft_pace fxi_draft_model_pace(fxi_draft_model *m)
{
    const int room = (m->opt.ctx_tok - PACE_TOK) / 2, step = m->opt.step_tok;
    const int most = room < step ? room : step,
              n_read = most < PACE_READ_TOK ? most : PACE_READ_TOK;
    const fxi_kv_expect expect = {.begin_tok = 2 * PACE_READ_TOK};
    fxi_draft_pace pace = {0};
    fxi_kv_seq *kv;
    if (n_read < 1 || fxi_kv_create(m->kv, &expect, &kv) != FX_OK) return pace;
    memset(m->token, 0, (size_t)n_read * sizeof *m->token);
    pace = measure_pace(m, kv, n_read);
    fxi_kv_release(m->kv, kv);
    fxi_draft_model_forget(m);
    return pace;
}

// ---- an idle engine ----------------------------------------------------------------------------

void fxi_draft_model_forget(fxi_draft_model *m)
{
    if (!m) return;
    (void)free_unused(m, UINT64_MAX);
    (void)fxi_kv_give_back(m->kv, 0, false);
}

void fxi_draft_model_step(fxi_draft_model *m)
{
    if (m) fxi_kv_step(m->kv, 0, fxi_journal_ms(m->opt.clock.journal));
}

uint64_t fxi_draft_model_returning(const fxi_draft_model *m)
{
    fxi_kv_stats st = {0};
    if (m) fxi_kv_get_stats(m->kv, &st);
    return st.returning_bytes;
}
