// hold.c - sequences that wait for what their grammar allows next.
//
// Finding it out takes the engine's thread a bounded time in each step, for all sequences together.
// What takes longer a worker finds out (answer_worker.c) while the step's pass runs, and the others
// go on. A sequence whose grammar is not ready when its row has been computed is late: it draws
// nothing, its last token is computed again, and until the grammar is ready it sits out steps.
// Where rows cannot be computed again it sits out from the beginning. When a token is drawn does
// not change which one it is.
#include "engine/engine.h"
#include "engine/group/group.h"

void fxi_hold_begin(fx_engine *eng)
{
    eng->mask_left = eng->mask_spend;
}

// Beams draw together, and a whole prompt is not computed in two steps.
static bool may_be_late(const fxi_group *g)
{
    return !g->beam && !g->is_whole;
}

static bool is_ready(fx_engine *eng, fxi_seq *s)
{
    return !s->group->req.grammar || fxi_seq_may_draw(s, &eng->mask_left);
}

void fxi_hold_running(fx_engine *eng)
{
    int n = 0;
    for (fxi_group *g = eng->running.n_grammar ? eng->running.head : NULL; g; g = g->next)
        for (int i = 0; g->req.grammar && i < g->n_seq; i++) {
            fxi_seq *s = &g->seq[i];
            if (!fxi_seq_may_compute(s)) continue;
            s->is_held = !is_ready(eng, s) && (s->is_late || !may_be_late(g));
            n += s->is_held;
        }
    atomic_store(&eng->n_held, n);
}

bool fxi_hold_draw(fx_engine *eng, fxi_seq *s)
{
    s->is_late = may_be_late(s->group) && !is_ready(eng, s);
    return s->is_late;
}
