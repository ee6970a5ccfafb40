// speculate_find.c - where drafts come from, in the order in which they are asked.
//
//   prefix   what is recorded behind the same tokens, for the same tenant
//   prompt   what followed the last few tokens where they occurred before, in prompt or answer
#include "engine/speculate/speculate.h"

#include <string.h>

enum { MIDDLE_SAME = 5, LONG_SAME = 12 };

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

int fxi_speculate_find(fx_engine *eng, fxi_seq *s, int most)
{
    const fxi_speculator *x = eng->spec;
    if (!s->draft) s->draft = fxi_draft_make();
    if (!s->draft) return 0;
    if (eng->drafter) return eng->drafter(eng->drafter_ud, s, s->draft->tok, most);
    return x->sources & FXI_SPECULATE_PROMPT ? find_in_text(s, most) : 0;
}
