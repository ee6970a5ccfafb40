// sim_draft.c - drafts of the simulator: what the reference goes on with, and now and then another
// token.
#include "unit/engine/sim/sim.h"

enum { FIRST_TEXT = 3 };

int sim_draft(void *ud, const fxi_seq *s, int32_t *tok, int most)
{
    static sim_answer a;
    sim *w = ud;
    const sim_ask k = sim_ask_make(&w->law, &s->request->spec, s->request->max_tok);
    const int n = sim_int(&w->draft_rng, 0, most);
    a.state = sim_law_begin(&w->law);
    a.n_tok = 0;
    for (int i = 0; i < s->n_tok; i++) {
        a.tok[a.n_tok++] = s->tok[i];
        sim_law_add(&w->law, &a.state, s->tok[i]);
    }
    for (int i = 0; i < n; i++) {
        int32_t next = sim_answer_next(&k, &a, s->choice);
        if (next < 0 || sim_one_in(&w->draft_rng, 6))
            next = sim_int(&w->draft_rng, FIRST_TEXT, SIM_N_VOCAB - 1);
        tok[i] = a.tok[a.n_tok++] = next;
        sim_law_add(&w->law, &a.state, next);
    }
    return n;
}
