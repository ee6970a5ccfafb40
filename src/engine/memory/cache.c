// cache.c - the prefix cache: what sequences record for later ones, and what they match.
//
//   while a prompt is computed   its whole chunks, as they fill: others wait for them (join.c)
//   when it is done              all of it, token-exactly
//   at the end of the answer     prompt and answer: the next turn of a chat begins with them
//   at a preemption              all computed tokens: those that survive are not computed again
//
// Recording is best-effort: an error leaves the prefix unrecorded. A request with no_cache neither
// records nor matches; with a manager that keeps no prefixes, every request is one.
#include "engine/memory/room.h"

#include <string.h>

static fxi_kv_keep keep_of(const fx_engine *eng, const fxi_group *g)
{
    uint64_t until = g->req.keep_s ? fxi_now_ms(eng) + 1000ull * g->req.keep_s : 0;
    return (fxi_kv_keep){g->req.keep_priority, until};
}

static fx_status record_tokens(fx_engine *eng, fxi_seq *s, int n_tok, fxi_kv_keep keep)
{
    const fx_status st = fxi_kv_record(eng->kv, s->kv, s->group->domain, s->tok, n_tok, &keep);
    fxi_engine_note_call(eng, fxi_engine_seq_event(FX_RECORD_record, s, n_tok), st);
    return st;
}

static void record_seq(fx_engine *eng, fxi_seq *s, int n_tok, fxi_kv_keep keep)
{
    if (s->group->req.no_cache || n_tok <= s->n_recorded) return;
    if (record_tokens(eng, s, n_tok, keep) != FX_OK) return;
    s->n_recorded = n_tok;
    fxi_seq_let_go(eng, s, n_tok);
}

void fxi_cache_record_progress(fx_engine *eng, fxi_seq *s)
{
    if (!s->is_filling) return;
    const bool waits_at_end =
        s->group->beam && fxi_group_n_live(s->group) > 1; // for the other beams
    s->is_filling = s->n_computed < s->n_tok - waits_at_end;
    fxi_seq_list_filling(eng, s);
    int n_tok = s->n_computed;
    if (s->group->req.no_cache) return;
    if (s->is_filling) n_tok = fxi_kv_whole_tok(eng->kv, n_tok);
    record_seq(eng, s, n_tok, keep_of(eng, s->group));
}

void fxi_cache_record_all(fx_engine *eng, fxi_seq *s)
{
    if (s->kv) record_seq(eng, s, s->n_computed, (fxi_kv_keep){0});
}

// keep_s counts from the release of the last sequence, so each release records the prompt again.
static void keep_prompt(fx_engine *eng, fxi_seq *s)
{
    fxi_group *g = s->group;
    const int n_prompt = (int)g->req.n_prompt;
    if (!g->req.keep_priority || !g->req.keep_s || g->req.no_cache) return;
    if (s->n_computed >= n_prompt) (void)record_tokens(eng, s, n_prompt, keep_of(eng, g));
}

void fxi_cache_release(fx_engine *eng, fxi_seq *s)
{
    if (!s->kv) return;
    keep_prompt(eng, s);
    fxi_kv_release(eng->kv, s->kv);
    fxi_engine_note(eng, fxi_engine_seq_event(FX_RECORD_release, s, s->n_computed));
    s->kv = NULL;
    s->n_computed = s->n_step = s->n_recorded = 0;
    s->is_filling = false;
    fxi_seq_list_filling(eng, s);
}

void fxi_cache_cut(fx_engine *eng, fxi_seq *s)
{
    if (s->kv && fxi_kv_truncate(eng->kv, s->kv, s->n_computed) != FX_OK) fxi_cache_release(eng, s);
}

void fxi_cache_release_all(fx_engine *eng, fxi_group *g)
{
    for (int i = 0; i < g->n_seq; i++) fxi_cache_release(eng, &g->seq[i]);
}

// ---- matching ----------------------------------------------------------------------------------

fx_status fxi_cache_open_domain(fx_engine *eng, fxi_group *g)
{
    const char *key = g->req.tenant;
    if (g->domain || g->req.no_cache) return FX_OK;
    return fxi_kv_domain_open(eng->kv, key, strlen(key), &g->domain);
}

void fxi_cache_close_domain(fx_engine *eng, fxi_group *g)
{
    if (g->domain) fxi_kv_domain_close(eng->kv, g->domain);
    g->domain = NULL;
}

int fxi_cache_max_hit(const fxi_seq *s)
{
    if (s->pools_all) return s->n_pooled;
    if (fxi_seq_emits_prompt(s)) return s->n_prompt_emitted ? s->n_prompt_emitted - 1 : 0;
    return s->n_tok - 1;
}

int fxi_cache_hit(const fx_engine *eng, const fxi_seq *s)
{
    if (s->group->req.no_cache) return 0;
    return fxi_kv_peek(eng->kv, s->group->domain, s->tok, fxi_cache_max_hit(s));
}

bool fxi_cache_forget_idle(fx_engine *eng)
{
    fxi_kv_stats st;
    (void)fxi_kv_give_back(eng->kv, UINT64_MAX, true);
    fxi_kv_get_stats(eng->kv, &st);
    return !st.returning_bytes;
}

fxi_kv_expect fxi_cache_expect(const fxi_seq *s)
{
    const fxi_group *g = s->group;
    const int most_tok = (int)g->req.n_prompt + g->max_tok;
    const int expect_tok = (int)g->req.n_prompt + g->req.expect_tok;
    const int end_tok = expect_tok < most_tok ? expect_tok : most_tok;
    return (fxi_kv_expect){
        .begin_tok = s->n_tok,
        .output_tok = g->req.expect_tok && end_tok > s->n_tok ? end_tok - s->n_tok : 0,
        .most_tok = most_tok,
    };
}

static fx_status match_first(fx_engine *eng, fxi_seq *s, int n_tok, int *n_hit)
{
    const fxi_kv_expect expect = fxi_cache_expect(s);
    const bool creates = s->group->req.no_cache;
    fx_status st;
    *n_hit = 0;
    if (creates)
        st = fxi_kv_create(eng->kv, &expect, &s->kv);
    else
        st = fxi_kv_match(eng->kv, s->group->domain, s->tok, n_tok, &expect, &s->kv, n_hit);
    fxi_engine_note_call(
        eng, fxi_engine_seq_event(creates ? FX_RECORD_create : FX_RECORD_match, s, *n_hit), st);
    return st;
}

// If there is no room for a copy of the last rows, only whole chunks are shared, which needs no
// memory.
fx_status fxi_cache_match(fx_engine *eng, fxi_seq *s)
{
    int n_hit;
    fx_status st = match_first(eng, s, fxi_cache_max_hit(s), &n_hit);
    if (st == FX_ENOSPACE && !s->group->req.no_cache)
        st = match_first(eng, s, fxi_kv_whole_tok(eng->kv, fxi_cache_hit(eng, s)), &n_hit);
    if (st != FX_OK) return st;
    s->n_computed = s->n_recorded = n_hit;
    s->is_filling = true;
    fxi_seq_list_filling(eng, s);
    return FX_OK;
}
