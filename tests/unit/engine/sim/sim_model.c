// sim_model.c - the forward pass of the simulator's model, which checks what it reads.
#include "unit/engine/sim/sim_model.h"

#include "vmm_fake.h"

#include <stdlib.h>
#include <string.h>

static void wrong(sim_model *m, const char *what)
{
    if (!m->wrong) m->wrong = what;
}

static size_t row_bytes(const sim_model *m)
{
    return m->model.shape.kv.group[0].row_bytes;
}

// A run of the batch, and its sequence.
typedef struct run {
    const fxi_batch_seq *b;
    const fxi_seq *s;
    const int32_t *tok; // [b->n_tok]
} run;

static char *row_at(const run *r, int plane, int pos)
{
    return fxi_kv_row(&r->b->views.group[0], plane, pos);
}

static bool is_view_of(const fxi_kv *kv, const fxi_seq *s, const fxi_batch_seq *b)
{
    const fxi_kv_view v = fxi_kv_get_views(kv, s->kv).group[0], *w = &b->views.group[0];
    return v.base == w->base && v.table == w->table;
}

static const fxi_seq *find_seq(const sim_model *m, const fxi_batch_seq *b)
{
    const fxi_kv *kv = m->eng->kv;
    for (const fxi_live_request *g = m->eng->sched.running.head; g; g = g->next)
        for (int i = 0; i < g->n_seq; i++)
            if (g->seq[i].kv && is_view_of(kv, &g->seq[i], b)) return &g->seq[i];
    return NULL;
}

// The run must match the tokens that the engine has for the sequence, and what is drafted for it.
static bool is_of(const run *r)
{
    const fxi_batch_seq *b = r->b;
    if (!r->s || r->s->n_computed != b->pos) return false;
    const int n_known = b->n_tok - r->s->n_draft;
    return n_known > 0 && b->pos + n_known <= r->s->n_tok &&
           (!r->s->n_draft || b->pos + n_known == r->s->n_tok) &&
           memcmp(r->tok, r->s->tok + b->pos, (size_t)n_known * sizeof *r->tok) == 0;
}

// The hashes after each token up to the end of the run, from the tokens of the sequence.
static void fill_states(sim_model *m, const run *r)
{
    sim_state st = sim_law_begin(&m->law);
    for (int pos = 0; pos < r->b->pos + r->b->n_tok; pos++) {
        const int i = pos - r->b->pos;
        sim_law_add(&m->law, &st, i < 0 ? r->s->tok[pos] : r->tok[i]);
        m->at[pos] = st;
    }
}

// ---- real memory -------------------------------------------------------------------------------

// All words of a row are the same hash, except for their index.
static uint64_t word_of(uint64_t hash, size_t i)
{
    return hash + i;
}

static void write_row(const sim_model *m, char *row, uint64_t hash)
{
    uint64_t *w = (uint64_t *)row;
    for (size_t i = 0; i < row_bytes(m) / sizeof *w; i++) w[i] = word_of(hash, i);
}

static bool is_zero_row(const sim_model *m, const char *row)
{
    const uint64_t *w = (const uint64_t *)row;
    uint64_t any = 0;
    for (size_t i = 0; i < row_bytes(m) / sizeof *w; i++) any |= w[i];
    return !any;
}

// Rows that were truncated hold anything, but for the first manager's.
static bool wipes(const sim_model *m)
{
    return fxi_kv_can(m->eng->kv, FXI_KV_ZEROED) &&
           (!m->eng->drafting || fxi_kv_can(m->eng->kv, FXI_KV_WINDOWS));
}

static void check_real(sim_model *m, const run *r)
{
    const fxi_batch_seq *b = r->b;
    for (int p = 0; p < m->law.n_plane; p++) {
        for (int pos = 0; pos < b->pos; pos++) {
            const uint64_t *w = (const uint64_t *)(row_at(r, p, pos));
            const size_t last = row_bytes(m) / sizeof *w - 1;
            if (!(w[0] == word_of(m->at[pos].h[p], 0) && w[last] == word_of(m->at[pos].h[p], last)))
                wrong(m, "a row before the run is not what was written there");
        }
        for (int pos = b->pos; pos < b->pos + b->n_tok; pos++)
            if (wipes(m) && !is_zero_row(m, row_at(r, p, pos))) wrong(m, "a new row is not zero");
    }
}

// Computes the rows of one token from those of the one before.
static sim_state compute_real(sim_model *m, const run *r, int pos)
{
    sim_state st = sim_law_begin(&m->law);
    for (int p = 0; pos > 0 && p < m->law.n_plane; p++)
        st.h[p] = *(const uint64_t *)row_at(r, p, pos - 1);
    sim_law_add(&m->law, &st, r->tok[pos - r->b->pos]);
    for (int p = 0; p < m->law.n_plane; p++) write_row(m, row_at(r, p, pos), st.h[p]);
    if (m->spoil_every && ++m->n_row % m->spoil_every == 0)
        write_row(m, row_at(r, 0, pos), ~st.h[0]);
    return st;
}

// ---- fake memory -------------------------------------------------------------------------------

// Neighbouring rows that lie one after the other: all of them, or those of a block; one where the
// planes of a token lie side by side.
static int n_together(const sim_model *m, const run *r, int pos, int end)
{
    const fxi_kv_view *v = &r->b->views.group[0];
    if (v->tok_stride_bytes != row_bytes(m)) return 1;
    const int block = 1 << v->block_shift, in_block = block - (pos & (block - 1));
    return v->table && in_block < end - pos ? in_block : end - pos;
}

// Of all planes before any is touched: the fake counts what lies between dirty bytes as dirty.
static void check_new_rows(sim_model *m, const run *r)
{
    const int begin = r->b->pos, end = begin + r->b->n_tok;
    for (int p = 0; p < m->law.n_plane && wipes(m); p++)
        for (int pos = begin, n; pos < end; pos += n) {
            n = n_together(m, r, pos, end);
            if (!vt_fake_is_zero(m->fake, (uintptr_t)row_at(r, p, pos), (size_t)n * row_bytes(m)))
                wrong(m, "a new row is not zero");
        }
}

static void check_fake(sim_model *m, const run *r)
{
    const int begin = r->b->pos, end = begin + r->b->n_tok;
    check_new_rows(m, r);
    for (int p = 0; p < m->law.n_plane; p++) {
        for (int pos = begin, n; pos < end; pos += n) {
            n = n_together(m, r, pos, end);
            vt_fake_touch(m->fake, (uintptr_t)row_at(r, p, pos), (size_t)n * row_bytes(m));
        }
        for (int pos = 0, n; pos < end; pos += n) {
            n = n_together(m, r, pos, end);
            vt_fake_run(m->fake, (uintptr_t)row_at(r, p, pos), (size_t)n * row_bytes(m));
        }
    }
}

// ---- the pass ----------------------------------------------------------------------------------

static float *compute_run(sim_model *m, const run *r, float *logits)
{
    const fxi_batch_seq *b = r->b;
    fill_states(m, r);
    (m->fake ? check_fake : check_real)(m, r);
    for (int i = 0; i < b->n_tok; i++) {
        sim_state st = m->fake ? m->at[b->pos + i] : compute_real(m, r, b->pos + i);
        if (i < b->n_tok - b->n_logit) continue;
        sim_law_logits(&m->law, &st, logits);
        logits += SIM_N_VOCAB;
    }
    return logits;
}

static fx_status forward(fxi_model *model, const fxi_batch *batch, float *logits, fx_error *err)
{
    (void)err;
    sim_model *m = (sim_model *)model;
    const int32_t *tok = batch->token;
    for (int i = 0; i < batch->n_seq; i++) {
        const fxi_batch_seq *b = &batch->seq[i];
        const run r = {b, find_seq(m, b), tok};
        if (is_of(&r)) {
            logits = compute_run(m, &r, logits);
        } else {
            wrong(m, "a run of the batch belongs to no sequence");
            memset(logits, 0, (size_t)b->n_logit * SIM_N_VOCAB * sizeof *logits);
            logits += b->n_logit * SIM_N_VOCAB;
        }
        tok += b->n_tok;
    }
    if (tok != batch->token + batch->n_tok)
        wrong(m, "the runs of the batch do not cover its tokens");
    *m->clock_us += m->us_per_tok * (uint64_t)batch->n_tok;
    if (m->beside) m->beside(m->ud);
    return FX_OK;
}

static void free_model(fxi_model *model)
{
    free(model);
}

static const fxi_model_ops sim_ops = {.free = free_model, .submit = forward};

sim_model *sim_model_make(int n_layer, size_t bytes)
{
    sim_model *m = calloc(1, sizeof *m);
    if (!m) return NULL;
    m->model.ops = &sim_ops;
    m->model.kv_type = FXI_F16;
    m->model.shape = (fxi_model_shape){.n_layer = n_layer,
                                       .n_kv_head = 1,
                                       .head_dim = (int)(bytes / sizeof(uint16_t)),
                                       .n_vocab = SIM_N_VOCAB,
                                       .kv = {1, {{.n_plane = 2 * n_layer, .row_bytes = bytes}}},
                                       .is_causal = true,
                                       .generates = true,
                                       .train_ctx_tok = SIM_MAX_CTX};
    return m;
}
