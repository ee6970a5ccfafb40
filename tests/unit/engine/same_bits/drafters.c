// drafters.c - see drafters.h.
#include "unit/engine/same_bits/drafters.h"

#include <string.h>

static int draw_below(drafter *d, int n)
{
    d->rng = d->rng * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return (int)((d->rng >> 33) % (uint64_t)n);
}

// The choice that s is, so far; which of them is not known where only the best are emitted.
static const bits_choice *choice_of(const drafter *d, const fxi_seq *s)
{
    const int n_gen = fxi_seq_n_generated(s);
    if (!d->want || (int)s->request->spec.n_prompt != d->n_prompt ||
        memcmp(s->tok, d->prompt, (size_t)d->n_prompt * sizeof *s->tok) != 0)
        return NULL;
    for (int i = 0; i < d->want->n_choice; i++) {
        const bits_choice *c = &d->want->choice[i];
        int n = 0;
        while (n < n_gen && n < c->n_tok && c->tok[n].tok == s->tok[d->n_prompt + n]) n++;
        if (n == n_gen) return c;
    }
    return NULL;
}

static int guess_random(drafter *d, int32_t *tok, int n)
{
    for (int i = 0; i < n; i++) tok[i] = draw_below(d, d->n_vocab);
    return n;
}

// Behind the end of what is known, and at one place of two drafts in three, anything.
static int guess_answer(drafter *d, const fxi_seq *s, const bits_choice *c, int32_t *tok, int n)
{
    const int from = fxi_seq_n_generated(s),
              wrong = d->kind == WRONG ? 0 : draw_below(d, 3 * n / 2);
    for (int i = 0; i < n; i++) {
        tok[i] = from + i < c->n_tok ? c->tok[from + i].tok : draw_below(d, d->n_vocab);
        if (i == wrong) tok[i] = (tok[i] + 1) % d->n_vocab;
    }
    return n;
}

int drafter_guess(void *ud, const fxi_seq *s, int32_t *tok, int most)
{
    drafter *d = ud;
    if (d->kind == NO_DRAFTS) return 0;
    const int n = d->kind == ORACLE ? most : 1 + draw_below(d, most);
    const bits_choice *c = d->kind == RANDOM ? NULL : choice_of(d, s);
    return c ? guess_answer(d, s, c, tok, n) : guess_random(d, tok, n);
}
