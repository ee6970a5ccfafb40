// guide_forced.c - tokens that must come next: the one text that can follow, spelled as the
// vocabulary spells it, and kept by state.
#include <string.h>

#include "base/system/grow.h"
#include "base/text/utf8.h"
#include "grammar/guide/guide_parts.h"

enum { MAX_FORCED_BYTES = 96 };
#define NOT_ASKED INT32_MIN // of forced

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

// The token that spells the beginning of this text; FXI_NOT_FORCED: none must.
static int32_t spell_first(const fxi_guide *g, fxi_str s, bool is_whole)
{
    int32_t tok;
    size_t n_tok;
    const fxi_str text = cut_forced(g, s, &is_whole);
    if (!text.n || !g->speller.first(g->speller.ud, text, &tok, &n_tok)) return FXI_NOT_FORCED;
    if (tok < 0 || (size_t)tok >= g->tokens->n_vocab || (n_tok < 2 && !is_whole))
        return FXI_NOT_FORCED;
    const fxi_str bytes = fxi_gram_token_bytes(g->tokens, (uint32_t)tok);
    return bytes.n && bytes.n <= text.n && !memcmp(bytes.p, text.p, bytes.n) ? tok : FXI_NOT_FORCED;
}

static fx_status find_forced(fxi_guide *g, uint32_t state, int32_t *tok, fx_error *err)
{
    fxi_buf text = {0};
    uint32_t at = state;
    *tok = FXI_NOT_FORCED;
    fx_status st = fxi_gram_forced_text(g->a, &at, MAX_FORCED_BYTES, &text, err);
    const bool ends = !st && fxi_auto_is_final(g->a, at) && !fxi_guide_has_next(g->a, at);
    if (!st && text.n) *tok = spell_first(g, (fxi_str){text.p, text.n}, ends);
    fxi_buf_free(&text);
    return st;
}

bool fxi_guide_knows_forced(const fxi_guide *g, uint32_t state)
{
    return state < g->n_forced && g->forced[state] != NOT_ASKED;
}

fx_status fxi_guide_forced_at(fxi_guide *g, uint32_t state, int32_t *tok, fx_error *err)
{
    while (g->n_forced <= state) {
        if (!fxi_grow(&g->forced, sizeof *g->forced, g->n_forced, &g->cap_forced))
            return fxi_fail(err, FX_ENOMEM, "out of memory");
        g->forced[g->n_forced++] = NOT_ASKED;
    }
    *tok = g->forced[state];
    if (*tok != NOT_ASKED) return FX_OK;
    FX_TRY(find_forced(g, state, tok, err));
    g->forced[state] = *tok;
    return FX_OK;
}

static fx_status forced_locked(fxi_guide *g, const int32_t *tok, size_t n_tok, fxi_guide_place *at,
                               int32_t *out, size_t max_tok, size_t *n, fx_error *err)
{
    *n = 0;
    FX_TRY(fxi_guide_follow_locked(g, tok, n_tok, at, err));
    for (fxi_guide_place ahead = *at; *n < max_tok; ++*n) {
        FX_TRY(fxi_guide_forced_at(g, ahead.state, &out[*n], err));
        if (out[*n] < 0) break;
        FX_TRY(fxi_guide_step_token(g, &ahead, out[*n], err));
    }
    return FX_OK;
}

fx_status fxi_guide_forced(fxi_guide *g, const int32_t *tok, size_t n_tok, fxi_guide_place *at,
                           int32_t *out, size_t max_tok, size_t *n, fx_error *err)
{
    *n = 0;
    if (!g->speller.first) return FX_OK;
    fxi_guide_lock(g);
    fx_status st = forced_locked(g, tok, n_tok, at, out, max_tok, n, err);
    if (st == FX_EINVAL) {
        st = fxi_guide_begin_again(g, err);
        if (!st) st = forced_locked(g, tok, n_tok, at, out, max_tok, n, err);
    }
    if (st) *at = (fxi_guide_place){0};
    pthread_mutex_unlock(&g->mu);
    return st;
}
