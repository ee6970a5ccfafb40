// prefix_cache.c - what sequences record in the prefix cache, and what they match.
//
//   while a prompt is computed   its whole chunks, as they fill: others wait for them (admit.c)
//   when it is done              all of it, token-exactly
//   at the end of the answer     prompt and answer: the next turn of a chat begins with them
//   at a preemption              all computed tokens: those that survive are not computed again
//
// Recording is best-effort: an error leaves the prefix unrecorded. A request with no_cache neither
// records nor matches; with a manager that keeps no prefixes, every request is one.
#include "engine/memory/kv_memory.h"

#include <string.h>

fx_record fxi_memory_event(int kind, const fxi_seq *s, int n_tok)
{
    return (fx_record){.kind = (uint8_t)kind,
                       .request = s->request->id,
                       .choice = (uint16_t)s->choice,
                       .n_tok = (uint32_t)n_tok,
                       .n = 1};
}

void fxi_memory_note_call(const fxi_memory *m, int kind, const fxi_seq *s, int n_tok, fx_status st)
{
    fxi_journal_note_call(m->journal, fxi_memory_event(kind, s, n_tok), m->kv->last_ns, st);
}

// ---- recording ---------------------------------------------------------------------------------

static fxi_kv_keep keep_of(const fxi_memory *m, const fx_request *spec)
{
    const uint64_t keep_ms = 1000ull * spec->keep_s;
    return (fxi_kv_keep){spec->keep_priority, keep_ms ? fxi_journal_ms(m->journal) + keep_ms : 0};
}

static fx_status record_tokens(fxi_memory *m, fxi_seq *s, int n_tok, fxi_kv_keep keep)
{
    const fx_status st = fxi_kv_record(m->kv, s->kv, s->request->domain, s->tok, n_tok, &keep);
    fxi_memory_note_call(m, FX_RECORD_record, s, n_tok, st);
    return st;
}

static void record_seq(fxi_memory *m, fxi_seq *s, int n_tok, fxi_kv_keep keep)
{
    if (s->request->spec.no_cache || n_tok <= s->n_recorded) return;
    if (record_tokens(m, s, n_tok, keep) != FX_OK) return;
    s->n_recorded = n_tok;
    fxi_sched_release_joined(m->sched, s, n_tok);
}

void fxi_cache_record_progress(fxi_memory *m, fxi_seq *s)
{
    if (!s->is_filling) return;
    const bool waits_for_beams = s->request->beam && fxi_request_n_live(s->request) > 1;
    s->is_filling = s->n_computed < s->n_tok - waits_for_beams;
    fxi_sched_list_filling(m->sched, s);
    if (s->request->spec.no_cache) return;
    const int n_tok = s->is_filling ? fxi_kv_whole_tok(m->kv, s->n_computed) : s->n_computed;
    record_seq(m, s, n_tok, keep_of(m, &s->request->spec));
}

void fxi_cache_record_all(fxi_memory *m, fxi_seq *s)
{
    if (s->kv) record_seq(m, s, s->n_computed, (fxi_kv_keep){0});
}

// keep_s counts from the release of the last sequence, so each release records the prompt again.
void fxi_cache_release(fxi_memory *m, fxi_seq *s)
{
    const fx_request *spec = &s->request->spec;
    const int n_prompt = (int)spec->n_prompt;
    if (!s->kv) return;
    if (spec->keep_priority && spec->keep_s && !spec->no_cache && s->n_computed >= n_prompt)
        (void)record_tokens(m, s, n_prompt, keep_of(m, spec));
    fxi_kv_release(m->kv, s->kv);
    fxi_journal_note(m->journal, fxi_memory_event(FX_RECORD_release, s, s->n_computed));
    s->kv = NULL;
    s->n_computed = s->n_planned = s->n_recorded = 0;
    s->is_filling = false;
    fxi_sched_list_filling(m->sched, s);
}

void fxi_cache_release_all(fxi_memory *m, fxi_live_request *r)
{
    for (int i = 0; i < r->n_seq; i++) fxi_cache_release(m, &r->seq[i]);
}

void fxi_cache_cut(fxi_memory *m, fxi_seq *s)
{
    if (s->kv && fxi_kv_truncate(m->kv, s->kv, s->n_computed) != FX_OK) fxi_cache_release(m, s);
}

// ---- matching ----------------------------------------------------------------------------------

fx_status fxi_cache_open_domain(fxi_memory *m, fxi_live_request *r)
{
    const char *key = r->spec.tenant;
    if (r->domain || r->spec.no_cache) return FX_OK;
    return fxi_kv_domain_open(m->kv, key, strlen(key), &r->domain);
}

int fxi_cache_max_hit(const fxi_seq *s)
{
    if (s->pools_all) return s->n_pooled;
    if (fxi_seq_emits_prompt(s)) return s->n_prompt_emitted ? s->n_prompt_emitted - 1 : 0;
    return s->n_tok - 1;
}

int fxi_cache_hit(const fxi_memory *m, const fxi_seq *s)
{
    if (s->request->spec.no_cache) return 0;
    return fxi_kv_peek(m->kv, s->request->domain, s->tok, fxi_cache_max_hit(s));
}

bool fxi_cache_forget_idle(fxi_memory *m)
{
    fxi_kv_stats st;
    (void)fxi_kv_give_back(m->kv, UINT64_MAX, true);
    fxi_kv_get_stats(m->kv, &st);
    return !st.returning_bytes;
}

fxi_kv_expect fxi_cache_expect(const fxi_seq *s)
{
    const fx_request *spec = &s->request->spec;
    const int n_prompt = (int)spec->n_prompt, most_tok = n_prompt + s->request->max_tok;
    const int expect_tok = n_prompt + spec->expect_tok;
    const int end_tok = expect_tok < most_tok ? expect_tok : most_tok;
    return (fxi_kv_expect){
        .begin_tok = s->n_tok,
        .output_tok = spec->expect_tok && end_tok > s->n_tok ? end_tok - s->n_tok : 0,
        .most_tok = most_tok,
    };
}

static fx_status match_first(fxi_memory *m, fxi_seq *s, int n_tok, int *n_hit)
{
    const fxi_kv_expect expect = fxi_cache_expect(s);
    const bool creates = s->request->spec.no_cache;
    fx_status st;
    *n_hit = 0;
    if (creates)
        st = fxi_kv_create(m->kv, &expect, &s->kv);
    else
        st = fxi_kv_match(m->kv, s->request->domain, s->tok, n_tok, &expect, &s->kv, n_hit);
    fxi_memory_note_call(m, creates ? FX_RECORD_create : FX_RECORD_match, s, *n_hit, st);
    return st;
}

// If there is no memory for a copy of the last rows, only whole chunks are shared, which needs
// none.
fx_status fxi_cache_match(fxi_memory *m, fxi_seq *s)
{
    int n_hit;
    fx_status st = match_first(m, s, fxi_cache_max_hit(s), &n_hit);
    if (st == FX_ENOSPACE && !s->request->spec.no_cache)
        st = match_first(m, s, fxi_kv_whole_tok(m->kv, fxi_cache_hit(m, s)), &n_hit);
    if (st != FX_OK) return st;
    s->n_computed = s->n_recorded = n_hit;
    s->is_filling = true;
    fxi_sched_list_filling(m->sched, s);
    return FX_OK;
}
