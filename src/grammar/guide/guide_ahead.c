// guide_ahead.c - what comes next, found out within a bound or by a thread that nobody waits for.
//
// That thread looks first at what was asked for, then at the near states (gram_near.h) that can be
// reached from the beginning, the nearest first; in those the spaces that models seldom write are
// left out. It does so until most of the room for masks is taken or enough was spent. It works in
// portions, and gives way after each to threads that wait for the guide.
#include <sched.h>

#include "base/system/grow.h"
#include "grammar/guide/guide_parts.h"

enum {
    FIRST_EPOCH = 1,
    PORTION = 4000,        // of work, as in gram_pay.h: 20 us
    PATIENCE = 512,        // steps of a move that is made within a bound
    SPELL_COST = 4000,     // of a text by the tokens of the vocabulary
    AHEAD_SPEND = 4000000, // on what nobody has asked for: 10 to 20 ms
};

// ---- what was asked for -------------------------------------------------------------------------

static bool is_asked(const fxi_guide *g, uint32_t state)
{
    for (size_t i = 0; i < g->n_asked; i++)
        if (g->asked[i] == state) return true;
    return false;
}

// When the list is full, the caller asks again later.
static void ask_for(fxi_guide *g, uint32_t state)
{
    g->n_left++;
    if (g->n_asked < FXI_GUIDE_MAX_ASKED) g->asked[g->n_asked++] = state;
}

static void drop_asked(fxi_guide *g, uint32_t state)
{
    for (size_t i = 0; i < g->n_asked; i++)
        if (g->asked[i] == state) g->asked[i] = g->asked[--g->n_asked];
}

// One byte alone can follow, so a token may be forced.
static bool may_spell(const fxi_guide *g, uint32_t state, bool may_force)
{
    return may_force && g->speller.first && fxi_auto_forced(g->a, state) >= 0;
}

// Finds the token that must come next or, if there is none, the mask; FX_ENOSPACE: `left` does not
// suffice.
static fx_status find_within(fxi_guide *g, uint32_t state, bool may_force, size_t *left,
                             fx_error *err)
{
    const uint64_t *mask;
    int32_t tok = FXI_NOT_FORCED;
    if (may_spell(g, state, may_force)) {
        if (*left < SPELL_COST && !fxi_guide_knows_forced(g, state)) return FX_ENOSPACE;
        FX_TRY(fxi_guide_forced_at(g, state, &tok, err));
        if (*left != FXI_GUIDE_NO_LIMIT) *left -= *left < SPELL_COST ? *left : SPELL_COST;
    }
    return tok >= 0 ? FX_OK : fxi_gram_masks_of(g->masks, state, left, &mask, err);
}

static bool is_found(fxi_guide *g, uint32_t state, bool may_force)
{
    int32_t tok = FXI_NOT_FORCED;
    if (g->lost == state) return true;
    if (may_spell(g, state, may_force)) {
        if (!fxi_guide_knows_forced(g, state)) return false;
        (void)fxi_guide_forced_at(g, state, &tok, NULL);
    }
    return tok >= 0 || fxi_gram_masks_find(g->masks, state);
}

// Errors other than that of the bound are told who draws.
static bool prepare_locked(fxi_guide *g, uint32_t state, bool may_force, size_t *left)
{
    if (state == FXI_AUTO_DEAD || is_found(g, state, may_force)) return true;
    if (is_asked(g, state)) return false;
    if (*left != FXI_GUIDE_NO_LIMIT) fxi_auto_set_patience(g->a, PATIENCE);
    const fx_status st = *left ? find_within(g, state, may_force, left, NULL) : FX_ENOSPACE;
    fxi_auto_set_patience(g->a, 0);
    if (st == FX_ENOSPACE) ask_for(g, state);
    return st != FX_ENOSPACE;
}

fx_status fxi_guide_prepare(fxi_guide *g, const int32_t *tok, size_t n_tok, fxi_guide_place *at,
                            bool may_force, size_t *left, bool *is_ready, fx_error *err)
{
    *is_ready = true;
    fxi_guide_lock(g);
    const fx_status st = fxi_guide_follow_locked(g, tok, n_tok, at, err);
    if (!st) *is_ready = prepare_locked(g, at->state, may_force, left);
    if (st) *at = (fxi_guide_place){0};
    fxi_guide_unlock(g);
    return st;
}

// ---- what is likely to be asked for -------------------------------------------------------------

static bool push_ahead(fxi_guide_ahead *q, uint32_t state)
{
    while (q->n_seen <= state) {
        if (!fxi_grow(&q->is_seen, 1, q->n_seen, &q->cap_seen)) return false;
        q->is_seen[q->n_seen++] = 0;
    }
    if (q->is_seen[state]) return true;
    if (!fxi_grow(&q->state, sizeof *q->state, q->n, &q->cap)) return false;
    q->is_seen[state] = 1;
    q->state[q->n++] = state;
    return true;
}

static bool is_rare_space(uint8_t b)
{
    return b == '\n' || b == '\t' || b == '\r';
}

// Bytes of one class lead to the same state.
static fx_status push_next(fxi_guide *g, uint32_t state, fx_error *err)
{
    const fxi_byte_set may = fxi_auto_bytes(g->a, state);
    const uint8_t *class_of = fxi_auto_classes(g->a);
    fxi_byte_set seen = {{0}};
    for (int b = 0; b < 256; b++) {
        uint32_t next;
        if (!fxi_byte_in(&may, (uint8_t)b) || fxi_byte_in(&seen, class_of[b])) continue;
        fxi_byte_put(&seen, class_of[b]);
        if (is_rare_space((uint8_t)b)) continue;
        FX_TRY(fxi_auto_step(g->a, state, (uint8_t)b, &next, err));
        FX_TRY(fxi_gram_masks_near(g->masks, next, &next, err));
        if (!push_ahead(&g->ahead, next)) return fxi_fail(err, FX_ENOMEM, "out of memory");
    }
    return FX_OK;
}

// A grammar that had to begin again has no room for what nobody asks for.
static bool may_look_ahead(const fxi_guide *g)
{
    const fxi_guide_pool *pool = g->limits.pool;
    if (pool && atomic_load(&pool->used_bytes) > atomic_load(&pool->limit_bytes) / 4 * 3)
        return false;
    return g->epoch == FIRST_EPOCH && g->ahead.spent < AHEAD_SPEND &&
           4 * fxi_gram_masks_n_kept(g->masks) < 3 * g->limits.max_mask &&
           2 * fxi_auto_n_set(g->a) < g->limits.max_set;
}

// ---- the work -----------------------------------------------------------------------------------

// Between two portions. False: the guide has begun again.
static bool give_way(void *ud, size_t *left)
{
    fxi_guide *g = ud;
    const uint32_t epoch = g->epoch;
    *left = PORTION;
    if (!atomic_load(&g->n_wait)) return true;
    pthread_mutex_unlock(&g->mu);
    while (atomic_load(&g->n_wait)) sched_yield();
    pthread_mutex_lock(&g->mu);
    return g->epoch == epoch && g->a;
}

static fx_status work_on(fxi_guide *g, uint32_t state)
{
    fxi_mask_walk *w = &g->walk;
    int32_t tok = FXI_NOT_FORCED;
    if (g->speller.first && fxi_auto_forced(g->a, state) >= 0)
        FX_TRY(fxi_guide_forced_at(g, state, &tok, NULL));
    if (tok >= 0 && !is_asked(g, state)) return FX_OK;
    FX_TRY(fxi_gram_masks_near(g->masks, state, &state, NULL));
    if (fxi_gram_masks_find(g->masks, state)) return FX_OK;
    w->moves = fxi_gram_masks_moves(g->masks);
    w->pay.pause = give_way;
    w->pay.ud = g;
    fxi_mask_pay_open(&w->pay, g->a, PORTION);
    FX_TRY(fxi_mask_walk_run(w, state, NULL));
    return fxi_gram_masks_keep(g->masks, state, w->mask, NULL);
}

// FX_ENOSPACE: the guide has begun again meanwhile.
static void work_on_asked(fxi_guide *g)
{
    const uint32_t state = g->asked[0], epoch = g->epoch;
    const fx_status st = work_on(g, state);
    if (g->epoch != epoch) return;
    drop_asked(g, state);
    if (st) g->lost = state;
}

static void work_ahead(fxi_guide *g)
{
    fxi_guide_ahead *q = &g->ahead;
    const uint32_t epoch = g->epoch;
    const size_t before = fxi_auto_n_work(g->a);
    if (!q->n) (void)push_ahead(q, fxi_auto_start(g->a));
    fx_status st = q->at < q->n ? work_on(g, q->state[q->at]) : FX_ENOMEM;
    if (g->epoch != epoch) return;
    if (!st) st = push_next(g, q->state[q->at++], NULL);
    q->spent += g->tokens->n_word + 10 * (fxi_auto_n_work(g->a) - before);
    if (st) q->spent = AHEAD_SPEND;
}

bool fxi_guide_work(fxi_guide *g)
{
    bool is_done = true;
    pthread_mutex_lock(&g->mu);
    if (g->a && !g->is_working) {
        g->is_working = true;
        is_done = false;
        if (g->n_asked)
            work_on_asked(g);
        else if (may_look_ahead(g))
            work_ahead(g);
        else
            is_done = true;
        g->is_working = false;
    }
    fxi_guide_unlock(g);
    return !is_done;
}
