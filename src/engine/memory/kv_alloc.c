// kv_alloc.c - KV memory for sequences that grow.
//
// If memory is short, the manager evicts idle prefixes. Then the requests served last are
// preempted, one by one, until the extension fits; while one is being swapped out, the sequence
// waits for what that frees, and the others continue. The request served first is never preempted
// for another one, so that the engine always makes progress: any single request fits the budget.
#include "engine/memory/kv_memory.h"

static const char no_kv_memory[] = "the request needs more KV memory than there is";
static const char no_system_memory[] = "the system has no memory for the KV cache";

static fx_status extend_cache(fxi_memory *m, fxi_seq *s, int n_tok)
{
    const int end = s->n_computed + n_tok;
    const fx_status st = fxi_kv_extend(m->kv, s->kv, end);
    fxi_memory_note_call(m, FX_RECORD_extend, s, end, st);
    return st;
}

// A request may hold a second copy of tokens that the prefix cache has too, as with
// prompt_logprobs. It then starts again once the prefix cache is empty. False: the budget is less
// than it needs, or it has made no progress since it last started again.
static bool start_again(fxi_memory *m, fxi_live_request *r)
{
    int n_tok = 0;
    for (int i = 0; i < r->n_seq; i++) n_tok += r->seq[i].n_tok + r->seq[i].n_prompt_emitted;
    const uint64_t need = fxi_request_bytes(m->service, &r->spec, r->max_tok);
    if (n_tok <= r->again_tok || need > m->effective_bytes) return false;
    r->again_tok = n_tok;
    fxi_preempt_request(m, r, FXI_RECOMPUTE);
    m->is_forgetting = !fxi_cache_forget_idle(m);
    return true;
}

bool fxi_alloc_tokens(fxi_memory *m, fxi_seq *s, int n_tok)
{
    fx_status st;
    while ((st = extend_cache(m, s, n_tok)) == FX_ENOSPACE && fxi_preempt_free(m, false))
        if (s->request->state != FXI_RUNNING) return false;
    if (st == FX_ENOSPACE) {
        if (m->sched->n_swapping_out) return false;
        // The manager may be unable to shorten a prefix in use until the longer prefixes that
        // extend it are gone.
        if (fxi_cache_forget_idle(m)) st = extend_cache(m, s, n_tok);
    }
    if (st == FX_OK) {
        s->n_planned = n_tok;
        return true;
    }
    if (st != FX_ENOSPACE)
        fxi_request_fail(s->request, FX_EINTERNAL, no_system_memory);
    else if (!start_again(m, s->request))
        fxi_request_fail(s->request, st, no_kv_memory);
    return false;
}

// ---- many at once ------------------------------------------------------------------------------

static int extend_many(fxi_memory *m, fxi_seq *const *s, const int *end, int n, fx_status *st)
{
    fxi_kv_seq *kv[FXI_ALLOC_BATCH];
    int n_done;
    for (int i = 0; i < n; i++) kv[i] = s[i]->kv;
    *st = fxi_kv_extend_many(m->kv, kv, end, n, &n_done);
    return n_done;
}

// One event for all of them.
static void note_many(const fxi_memory *m, int n_done, fx_status st)
{
    const fx_record ev = {
        .kind = FX_RECORD_extend, .n_tok = (uint32_t)n_done, .n = (uint32_t)n_done};
    fxi_journal_note_call(m->journal, ev, m->kv->last_ns, st);
}

// One event for each that has succeeded, the first with the time of all.
static void note_each(const fxi_memory *m, fxi_seq *const *s, const int *end, int n)
{
    if (n) fxi_memory_note_call(m, FX_RECORD_extend, s[0], end[0], FX_OK);
    for (int i = 1; i < n; i++)
        fxi_journal_note(m->journal, fxi_memory_event(FX_RECORD_extend, s[i], end[i]));
}

// Where it failed, the caller tries again with fxi_alloc_tokens.
int fxi_alloc_each(fxi_memory *m, fxi_seq *const *s, const int *n_tok, int n)
{
    int end[FXI_ALLOC_BATCH];
    fx_status st;
    if (n <= 0) return 0;
    for (int i = 0; i < n; i++) end[i] = s[i]->n_computed + (n_tok ? n_tok[i] : 1);
    const int n_done = extend_many(m, s, end, n, &st);
    if (n_tok)
        note_each(m, s, end, n_done);
    else
        note_many(m, n_done, st);
    for (int i = 0; i < n_done; i++) s[i]->n_planned = end[i] - s[i]->n_computed;
    return n_done;
}

int fxi_alloc_drafts(fxi_memory *m, fxi_seq *const *s, const int *n_more, int n)
{
    int end[FXI_ALLOC_BATCH];
    fx_status st;
    if (n <= 0) return 0;
    for (int i = 0; i < n; i++) end[i] = s[i]->n_computed + s[i]->n_planned + n_more[i];
    const int n_done = extend_many(m, s, end, n, &st);
    note_many(m, n_done, st);
    if (st == FX_OK || st == FX_ENOSPACE) return n_done;
    // An extension that fails leaves the sequence as it was, unless the device has lost its memory.
    fxi_seq *last = s[n_done];
    if (fxi_kv_extend(m->kv, last->kv, last->n_computed + last->n_planned) != FX_OK) {
        last->n_planned = 0;
        fxi_request_fail(last->request, FX_EINTERNAL, no_system_memory);
    }
    return n_done;
}

bool fxi_alloc_unblock(fxi_memory *m)
{
    fxi_live_request *last = m->sched->running.tail;
    if (m->sched->n_swapping_out) return fxi_preempt_drop_late(m);
    if (m->sched->n_swapping_in) return fxi_preempt_last(m, false);
    if (last != m->sched->running.head) {
        fxi_preempt_request(m, last, FXI_RECOMPUTE);
        return true;
    }
    if (fxi_preempt_drop_swapped(m) || start_again(m, last)) return true;
    fxi_request_fail(last, FX_ENOSPACE, no_kv_memory);
    return false;
}
