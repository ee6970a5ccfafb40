// speculate_find.c - where drafts come from, in the order in which they are asked.
//
//   forced   what the grammar of the request forces next
//   prefix   what is recorded behind the same tokens, for the same tenant
//   prompt   what followed the last few tokens where they occurred before, in prompt or answer
#include "engine/speculate/speculate.h"

#include <string.h>

enum { MIDDLE_SAME = 5, LONG_SAME = 12, ASK_EVERY_TOK = 16 };

// ---- the text ----------------------------------------------------------------------------------

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

// ---- what is recorded --------------------------------------------------------------------------

static bool may_ask_tree(const fx_engine *eng, const fxi_seq *s)
{
    return eng->spec->sources & FXI_SPECULATE_PREFIX && s->group->domain &&
           !s->group->req.no_cache && fxi_kv_can(eng->kv, FXI_KV_CONTINUE);
}

// Whether the path read before has these tokens, too, and goes on.
static bool is_on_path(const fxi_seq *s)
{
    const fxi_draft *d = s->draft;
    const int n = s->n_tok - d->path_at;
    return d->n_path > n && n >= 0 &&
           memcmp(d->path, s->tok + d->path_at, (size_t)n * sizeof *d->path) == 0;
}

// The tree is asked for many tokens at once, and not again for some tokens where it has none: a
// look-up compares all tokens so far.
static int find_in_tree(const fx_engine *eng, fxi_seq *s, int most)
{
    fxi_draft *d = s->draft;
    if (!is_on_path(s)) {
        if (s->n_tok < d->ask_at) return 0;
        d->path_at = s->n_tok;
        d->n_path = fxi_kv_lookup_continuation(eng->kv, s->group->domain, s->tok, s->n_tok, d->path,
                                               FXI_PATH_TOK);
        d->ask_at = d->n_path ? 0 : s->n_tok + ASK_EVERY_TOK;
    }
    const int from = s->n_tok - d->path_at, left = d->n_path - from;
    const int n = left < most ? left : most;
    d->kind = FXI_DRAFT_PREFIX;
    if (n > 0) memcpy(d->tok, d->path + from, (size_t)n * sizeof *d->tok);
    return n;
}

// ---- in order ----------------------------------------------------------------------------------

int fxi_speculate_find(fx_engine *eng, fxi_seq *s, int most)
{
    const fxi_speculator *x = eng->spec;
    if (!s->draft) s->draft = fxi_draft_make();
    if (!s->draft) return 0;
    if (eng->drafter) return eng->drafter(eng->drafter_ud, s, s->draft->tok, most);
    const int n_forced = fxi_seq_forced(s, s->draft->tok, most);
    s->draft->kind = FXI_DRAFT_FORCED;
    if (n_forced > 0) return n_forced;
    const int n = may_ask_tree(eng, s) ? find_in_tree(eng, s, most) : 0;
    if (n > 0) return n;
    return x->sources & FXI_SPECULATE_PROMPT ? find_in_text(s, most) : 0;
}
