// gram_guide.c - places, and the automaton that begins again when it is full.
#include "grammar/guide/gram_guide.h"

#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/grow.h"
#include "base/text/utf8.h"
#include "grammar/mask/gram_mask.h"
#include "grammar/run/gram_auto.h"

enum { MAX_FORCED_BYTES = 96 };
#define NOT_ASKED  INT32_MIN // of forced
#define NOT_FORCED (-1)

struct fxi_guide {
    // constant
    fxi_gram form;
    const fxi_gram_tokens *tokens;
    fxi_guide_speller speller;
    fxi_guide_limits limits;
    // guarded by mu
    pthread_mutex_t mu;
    fxi_auto *a;           // NULL: out of memory when it began again
    fxi_gram_masks *masks; // NULL with it
    int32_t *forced;       // [n_forced] of a state: the token that must come next
    size_t n_forced, cap_forced;
    uint32_t epoch; // > 0: no place at the beginning has it
};

static fx_status begin_again(fxi_guide *g, fx_error *err)
{
    fxi_gram_masks_free(g->masks);
    fxi_auto_free(g->a);
    g->masks = NULL;
    g->n_forced = 0;
    g->epoch += g->epoch == UINT32_MAX ? 2 : 1;
    fx_status st = fxi_auto_make(&g->form, g->limits.max_set, &g->a, err);
    if (!st) st = fxi_gram_masks_make(g->tokens, g->a, g->limits.max_mask, &g->masks, err);
    if (!st) return FX_OK;
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
    const fx_status st = begin_again(g, err);
    if (st)
        fxi_guide_free(g);
    else
        *out = g;
    return st;
}

void fxi_guide_free(fxi_guide *g)
{
    if (!g) return;
    fxi_gram_masks_free(g->masks);
    fxi_auto_free(g->a);
    fxi_gram_free(&g->form);
    free(g->forced);
    pthread_mutex_destroy(&g->mu);
    free(g);
}

// ---- following a text ---------------------------------------------------------------------------

static fx_status step_token(fxi_guide *g, fxi_guide_place *at, int32_t tok, fx_error *err)
{
    const bool is_known = tok >= 0 && (size_t)tok < g->tokens->n_vocab;
    const fxi_str s = is_known ? fxi_gram_token_bytes(g->tokens, (uint32_t)tok) : (fxi_str){0};
    for (size_t i = 0; i < s.n && at->state != FXI_AUTO_DEAD; i++)
        FX_TRY(fxi_auto_step(g->a, at->state, (uint8_t)s.p[i], &at->state, err));
    return FX_OK;
}

static bool has_next(const fxi_auto *a, uint32_t state)
{
    const fxi_byte_set may = fxi_auto_bytes(a, state);
    return may.word[0] || may.word[1] || may.word[2] || may.word[3];
}

static fx_status follow_locked(fxi_guide *g, const int32_t *tok, size_t n_tok, fxi_guide_place *at,
                               fx_error *err)
{
    if (!g->a) FX_TRY(begin_again(g, err));
    if (at->epoch != g->epoch || at->n_tok > n_tok)
        *at = (fxi_guide_place){.epoch = g->epoch, .state = fxi_auto_start(g->a)};
    while (at->n_tok < n_tok) {
        FX_TRY(step_token(g, at, tok[at->n_tok], err));
        at->n_tok++;
    }
    at->may_end = fxi_auto_is_final(g->a, at->state);
    at->is_complete = at->may_end && !has_next(g->a, at->state);
    at->is_dead = at->state == FXI_AUTO_DEAD;
    return FX_OK;
}

static fx_status mask_locked(fxi_guide *g, const int32_t *tok, size_t n_tok, fxi_guide_place *at,
                             uint64_t *mask, fx_error *err)
{
    const uint64_t *found;
    FX_TRY(follow_locked(g, tok, n_tok, at, err));
    if (!mask) return FX_OK;
    FX_TRY(fxi_gram_masks_of(g->masks, at->state, &found, err));
    memcpy(mask, found, fxi_guide_n_word(g->tokens->n_vocab) * sizeof *mask);
    return FX_OK;
}

// A limit may have been reached by others: once more from the beginning, for this text alone. A
// place whose token was followed in part only is not used again.
fx_status fxi_guide_mask(fxi_guide *g, const int32_t *tok, size_t n_tok, fxi_guide_place *at,
                         uint64_t *mask, fx_error *err)
{
    pthread_mutex_lock(&g->mu);
    fx_status st = mask_locked(g, tok, n_tok, at, mask, err);
    if (st == FX_EINVAL) {
        st = begin_again(g, err);
        if (!st) st = mask_locked(g, tok, n_tok, at, mask, err);
    }
    if (st) *at = (fxi_guide_place){0};
    pthread_mutex_unlock(&g->mu);
    return st;
}

fx_status fxi_guide_follow(fxi_guide *g, const int32_t *tok, size_t n_tok, fxi_guide_place *at,
                           fx_error *err)
{
    return fxi_guide_mask(g, tok, n_tok, at, NULL, err);
}

// ---- forced text --------------------------------------------------------------------------------

// How a forced text is cut before it is spelled: a control token stands for itself and ends the
// text in front of it; a character that is not complete is left out. *is_whole: nothing behind the
// text merges with it.
static fxi_str cut_forced(const fxi_guide *g, fxi_str s, bool *is_whole)
{
    const char *mark = s.n ? memchr(s.p, g->speller.mark, s.n) : NULL;
    if (mark) *is_whole = true;
    if (mark) s.n = (size_t)(mark - s.p);
    const size_t n = fxi_utf8_check(s.p, s.n);
    if (n < s.n) *is_whole = false;
    return (fxi_str){s.p, n};
}

// The token that spells the beginning of this text; NOT_FORCED: none must.
static int32_t spell_first(const fxi_guide *g, fxi_str s, bool is_whole)
{
    int32_t tok;
    size_t n_tok;
    const fxi_str text = cut_forced(g, s, &is_whole);
    if (!text.n || !g->speller.first(g->speller.ud, text, &tok, &n_tok)) return NOT_FORCED;
    if (tok < 0 || (size_t)tok >= g->tokens->n_vocab || (n_tok < 2 && !is_whole)) return NOT_FORCED;
    const fxi_str bytes = fxi_gram_token_bytes(g->tokens, (uint32_t)tok);
    return bytes.n && bytes.n <= text.n && !memcmp(bytes.p, text.p, bytes.n) ? tok : NOT_FORCED;
}

static fx_status find_forced(fxi_guide *g, uint32_t state, int32_t *tok, fx_error *err)
{
    fxi_buf text = {0};
    uint32_t at = state;
    *tok = NOT_FORCED;
    fx_status st = fxi_gram_forced_text(g->a, &at, MAX_FORCED_BYTES, &text, err);
    const bool ends = !st && fxi_auto_is_final(g->a, at) && !has_next(g->a, at);
    if (!st && text.n) *tok = spell_first(g, (fxi_str){text.p, text.n}, ends);
    fxi_buf_free(&text);
    return st;
}

static fx_status forced_at(fxi_guide *g, uint32_t state, int32_t *tok, fx_error *err)
{
    while (g->n_forced <= state) {
        if (!fxi_grow(&g->forced, sizeof *g->forced, g->n_forced, &g->cap_forced))
            return fxi_fail(err, FX_ENOMEM, "out of memory");
        g->forced[g->n_forced++] = NOT_ASKED;
    }
    if (g->forced[state] == NOT_ASKED) FX_TRY(find_forced(g, state, &g->forced[state], err));
    *tok = g->forced[state];
    return FX_OK;
}

static fx_status forced_locked(fxi_guide *g, const int32_t *tok, size_t n_tok, fxi_guide_place *at,
                               int32_t *out, size_t max_tok, size_t *n, fx_error *err)
{
    *n = 0;
    FX_TRY(follow_locked(g, tok, n_tok, at, err));
    for (fxi_guide_place ahead = *at; *n < max_tok; ++*n) {
        FX_TRY(forced_at(g, ahead.state, &out[*n], err));
        if (out[*n] < 0) break;
        FX_TRY(step_token(g, &ahead, out[*n], err));
    }
    return FX_OK;
}

fx_status fxi_guide_forced(fxi_guide *g, const int32_t *tok, size_t n_tok, fxi_guide_place *at,
                           int32_t *out, size_t max_tok, size_t *n, fx_error *err)
{
    *n = 0;
    if (!g->speller.first) return FX_OK;
    pthread_mutex_lock(&g->mu);
    fx_status st = forced_locked(g, tok, n_tok, at, out, max_tok, n, err);
    if (st == FX_EINVAL) {
        st = begin_again(g, err);
        if (!st) st = forced_locked(g, tok, n_tok, at, out, max_tok, n, err);
    }
    if (st) *at = (fxi_guide_place){0};
    pthread_mutex_unlock(&g->mu);
    return st;
}

fxi_guide_stats fxi_guide_read(fxi_guide *g)
{
    fxi_guide_stats s = {0};
    pthread_mutex_lock(&g->mu);
    if (g->a) {
        s.n_set = fxi_auto_n_set(g->a);
        s.n_mask_made = fxi_gram_masks_n_made(g->masks);
    }
    s.n_restart = g->epoch - 1;
    pthread_mutex_unlock(&g->mu);
    return s;
}
