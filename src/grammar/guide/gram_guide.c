// gram_guide.c - places, and the automaton that begins again when it is full.
#include <stdlib.h>
#include <string.h>

#include "grammar/guide/guide_parts.h"

void fxi_guide_lock(fxi_guide *g)
{
    atomic_fetch_add(&g->n_wait, 1);
    pthread_mutex_lock(&g->mu);
    atomic_fetch_sub(&g->n_wait, 1);
}

static size_t bytes_of_guide(const fxi_guide *g)
{
    size_t n = sizeof *g + fxi_gram_n_bytes(&g->form) + g->cap_forced * sizeof *g->forced +
               g->ahead.cap * sizeof *g->ahead.state + g->ahead.cap_seen +
               fxi_mask_walk_n_bytes(g->tokens);
    if (g->a) n += fxi_auto_n_bytes(g->a) + fxi_gram_masks_n_bytes(g->masks);
    return n;
}

static void bill_bytes(fxi_guide *g, size_t n)
{
    fxi_guide_pool *pool = g->limits.pool;
    if (pool) atomic_fetch_add(&pool->used_bytes, n - g->n_billed);
    g->n_billed = n;
}

void fxi_guide_unlock(fxi_guide *g)
{
    bill_bytes(g, bytes_of_guide(g));
    pthread_mutex_unlock(&g->mu);
}

// Whether it holds more than it may. A text that alone takes most of that would have it begin
// again for each token.
static bool is_too_large(const fxi_guide *g)
{
    const fxi_guide_pool *pool = g->limits.pool;
    return (g->limits.max_bytes && g->n_billed > g->limits.max_bytes &&
            g->n_billed > 2 * g->path_bytes) ||
           (pool && g->n_billed > FXI_GUIDE_LEAST_BYTES &&
            atomic_load(&pool->used_bytes) > atomic_load(&pool->limit_bytes));
}

fx_status fxi_guide_begin_again(fxi_guide *g, fx_error *err)
{
    fxi_gram_masks_free(g->masks);
    fxi_auto_free(g->a);
    g->masks = NULL;
    free(g->forced);
    g->forced = NULL;
    g->n_forced = g->cap_forced = 0;
    g->n_asked = 0;
    g->lost = FXI_AUTO_DEAD;
    free(g->ahead.state);
    free(g->ahead.is_seen);
    g->ahead = (fxi_guide_ahead){0};
    g->epoch += g->epoch == UINT32_MAX ? 2 : 1;
    fx_status st = fxi_auto_make(&g->form, g->limits.max_set, &g->a, err);
    if (!st) st = fxi_gram_masks_make(g->tokens, g->a, g->limits.max_mask, &g->masks, err);
    if (!st) {
        bill_bytes(g, bytes_of_guide(g));
        g->least_bytes = g->path_bytes = g->n_billed;
        return FX_OK;
    }
    fxi_auto_free(g->a);
    g->a = NULL;
    return st;
}

fx_status fxi_guide_make(fxi_gram *form, const fxi_gram_tokens *tokens, fxi_guide_speller speller,
                         fxi_guide_limits limits, fxi_guide **out, fx_error *err)
{
    fxi_guide *g = calloc(1, sizeof *g);
    *out = NULL;
    if (!g || pthread_mutex_init(&g->mu, NULL)) {
        fxi_gram_free(form);
        free(g);
        return fxi_fail(err, FX_ENOMEM, "out of memory");
    }
    g->form = *form;
    *form = (fxi_gram){0};
    g->tokens = tokens;
    g->speller = speller;
    g->limits = limits;
    const bool has_walk = fxi_mask_walk_make(&g->walk, tokens);
    if (!has_walk) {
        fxi_guide_free(g);
        return fxi_fail(err, FX_ENOMEM, "out of memory");
    }
    const fx_status st = fxi_guide_begin_again(g, err);
    if (st)
        fxi_guide_free(g);
    else
        *out = g;
    return st;
}

void fxi_guide_free(fxi_guide *g)
{
    if (!g) return;
    bill_bytes(g, 0);
    fxi_gram_masks_free(g->masks);
    fxi_auto_free(g->a);
    fxi_gram_free(&g->form);
    fxi_mask_walk_free(&g->walk);
    free(g->ahead.state);
    free(g->ahead.is_seen);
    free(g->forced);
    pthread_mutex_destroy(&g->mu);
    free(g);
}

// ---- following a text ---------------------------------------------------------------------------

fx_status fxi_guide_step_token(fxi_guide *g, fxi_guide_place *at, int32_t tok, fx_error *err)
{
    const bool is_known = tok >= 0 && (size_t)tok < g->tokens->n_vocab;
    const fxi_str s = is_known ? fxi_gram_token_bytes(g->tokens, (uint32_t)tok) : (fxi_str){0};
    for (size_t i = 0; i < s.n && at->state != FXI_AUTO_DEAD; i++)
        FX_TRY(fxi_auto_step(g->a, at->state, (uint8_t)s.p[i], &at->state, err));
    return FX_OK;
}

bool fxi_guide_has_next(const fxi_auto *a, uint32_t state)
{
    const fxi_byte_set may = fxi_auto_bytes(a, state);
    return may.word[0] || may.word[1] || may.word[2] || may.word[3];
}

static void note_path(fxi_guide *g, size_t more_bytes)
{
    if (g->least_bytes + more_bytes > g->path_bytes) g->path_bytes = g->least_bytes + more_bytes;
}

fx_status fxi_guide_follow_locked(fxi_guide *g, const int32_t *tok, size_t n_tok,
                                  fxi_guide_place *at, fx_error *err)
{
    if (!g->a || is_too_large(g)) FX_TRY(fxi_guide_begin_again(g, err));
    const bool is_new = at->epoch != g->epoch || at->n_tok > n_tok;
    const size_t before = is_new ? bytes_of_guide(g) : 0;
    if (is_new) *at = (fxi_guide_place){.epoch = g->epoch, .state = fxi_auto_start(g->a)};
    while (at->n_tok < n_tok) {
        FX_TRY(fxi_guide_step_token(g, at, tok[at->n_tok], err));
        at->n_tok++;
    }
    if (is_new) note_path(g, bytes_of_guide(g) - before);
    at->may_end = fxi_auto_is_final(g->a, at->state);
    at->is_complete = at->may_end && !fxi_guide_has_next(g->a, at->state);
    at->is_dead = at->state == FXI_AUTO_DEAD;
    return FX_OK;
}

static fx_status mask_locked(fxi_guide *g, const int32_t *tok, size_t n_tok, fxi_guide_place *at,
                             uint64_t *mask, fx_error *err)
{
    const uint64_t *found;
    size_t left = FXI_PAY_NO_LIMIT;
    FX_TRY(fxi_guide_follow_locked(g, tok, n_tok, at, err));
    if (!mask) return FX_OK;
    FX_TRY(fxi_gram_masks_of(g->masks, at->state, &left, &found, err));
    memcpy(mask, found, fxi_guide_n_word(g->tokens->n_vocab) * sizeof *mask);
    return FX_OK;
}

// A limit may have been reached by others: once more from the beginning, for this text alone. A
// place whose token was followed in part only is not used again.
fx_status fxi_guide_mask(fxi_guide *g, const int32_t *tok, size_t n_tok, fxi_guide_place *at,
                         uint64_t *mask, fx_error *err)
{
    fxi_guide_lock(g);
    fx_status st = mask_locked(g, tok, n_tok, at, mask, err);
    if (st == FX_EINVAL) {
        st = fxi_guide_begin_again(g, err);
        if (!st) st = mask_locked(g, tok, n_tok, at, mask, err);
    }
    if (st) *at = (fxi_guide_place){0};
    fxi_guide_unlock(g);
    return st;
}

// ---- figures ------------------------------------------------------------------------------------

fxi_guide_stats fxi_guide_read(fxi_guide *g)
{
    fxi_guide_stats s = {0};
    fxi_guide_lock(g);
    if (g->a) {
        s.n_set = fxi_auto_n_set(g->a);
        s.n_mask_made = fxi_gram_masks_n_made(g->masks);
    }
    s.n_restart = g->epoch - 1;
    s.n_left = g->n_left;
    s.n_bytes = bytes_of_guide(g);
    fxi_guide_unlock(g);
    return s;
}
