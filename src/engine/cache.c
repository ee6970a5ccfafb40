// cache.c - what sequences leave behind for those that come later.
//
//   while a prompt is read    its whole chunks, as they are filled: others wait for them and share
//   when it has been read     all of it, to the token
//   at the answer's end       prompt and answer: the next turn of a chat begins with them
//   when it is preempted      everything computed: what of it survives need not be computed again
//
// Recording is an extra: what fails is not recorded. A request with no_cache records nothing.
#include "engine/internal.h"

static fxi_kv_keep keep_of(const fx_engine *eng, const fxi_group *g)
{
    uint64_t until = g->req.keep_s ? fxi_now_ms(eng) + 1000ull * g->req.keep_s : 0;
    return (fxi_kv_keep){g->req.keep_priority, until};
}

static void record(fx_engine *eng, fxi_seq *s, int n_tok, fxi_kv_keep keep)
{
    fxi_group *g = s->group;
    if (g->req.no_cache || n_tok <= s->n_recorded) return;
    if (fxi_kv_record(eng->kv, s->kv, g->domain, s->tok, n_tok, &keep) == FX_OK)
        s->n_recorded = n_tok;
}

void fxi_record_progress(fx_engine *eng, fxi_seq *s)
{
    if (!s->is_filling) return;
    const bool waits_at_end = s->group->beam && fxi_group_n_live(s->group) > 1; // for other beams
    s->is_filling = s->n_computed < s->n_tok - waits_at_end;
    int n_tok = s->n_computed;
    if (s->is_filling) n_tok = fxi_kv_whole_tok(eng->kv, n_tok);
    record(eng, s, n_tok, keep_of(eng, s->group));
}

void fxi_record_all(fx_engine *eng, fxi_seq *s)
{
    if (s->kv) record(eng, s, s->n_computed, (fxi_kv_keep){0});
}

// The time for which its prompt is kept begins when the last of its sequences lets go of it.
static void keep_prompt(fx_engine *eng, fxi_seq *s)
{
    fxi_group *g = s->group;
    const int n_prompt = (int)g->req.n_prompt;
    if (!g->req.keep_priority || !g->req.keep_s || g->req.no_cache) return;
    const fxi_kv_keep keep = keep_of(eng, g);
    if (s->n_computed >= n_prompt)
        (void)fxi_kv_record(eng->kv, s->kv, g->domain, s->tok, n_prompt, &keep);
}

void fxi_release(fx_engine *eng, fxi_seq *s)
{
    if (!s->kv) return;
    keep_prompt(eng, s);
    fxi_kv_release(eng->kv, s->kv);
    s->kv = NULL;
    s->n_computed = s->n_step = s->n_recorded = 0;
    s->is_filling = false;
}
