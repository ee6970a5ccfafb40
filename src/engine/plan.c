// plan.c - which sequences compute what in the next forward pass: the request scheduler of
// vTensor's Algorithm 1 (arXiv 2407.15309).
//
//   1. Every running sequence that decodes gets its one token.
//   2. Running sequences without a cache, then waiting requests, are matched with the prefix cache
//      and join as places and memory allow (admit.c). Those that then have one token left to
//      compute, or come back from the swap, decode in this pass too.
//   3. The rest of the pass's token budget goes to prompts.
//   4. Sequences that decode get drafted tokens as well, where they are worth it (draft/).
//
// A sequence is planned only once its cache has been extended (kv_alloc.c). Memory for later passes
// is prefetched during this one.
//
// Which tokens share a pass never changes a result (kernels.h, the order of sums).
#include "engine/iteration.h"

#include <stdlib.h>

#define MIN_PROMPT_TOK 64 // prompt tokens that step_ms never cuts: short prompts stay whole

// ---- decodes -----------------------------------------------------------------------------------

// All LIVE sequences of the request have one token left to compute and none is deferred: beams are
// computed together.
static bool is_level(const fxi_live_request *r)
{
    for (int i = 0; i < r->n_seq; i++) {
        const fxi_seq *s = &r->seq[i];
        if (s->state == FXI_SEQ_LIVE && (!s->kv || s->is_deferred || fxi_seq_n_left(s) != 1))
            return false;
    }
    return true;
}

static bool decodes_now(const fxi_seq *s)
{
    return fxi_seq_may_compute(s) && !s->n_planned && !s->is_deferred && fxi_seq_n_left(s) == 1;
}

// Lists what decodes in a request and is not planned yet, after the *n that are listed; of beams
// all or none. False: the list, which holds `most`, has no room for the rest.
static bool list_request(fxi_live_request *r, fxi_seq **s, int *n, int most)
{
    const int n_before = *n;
    if (r->is_whole || (r->beam && !is_level(r))) return true;
    if (r->beam && fxi_request_n_live(r) > most - n_before) return false;
    for (int i = 0; i < r->n_seq; i++) {
        if (!decodes_now(&r->seq[i])) continue;
        if (*n == most) return false;
        s[(*n)++] = &r->seq[i];
    }
    if (r->beam && *n - n_before < fxi_request_n_live(r)) *n = n_before;
    return true;
}

// Those for which memory is at hand. *is_all: none was left out.
static int decode_at_hand(fx_engine *eng, int left, bool only_fresh, bool *is_all)
{
    fxi_seq *s[FXI_ALLOC_BATCH];
    fxi_live_request *r = eng->sched.running.head;
    *is_all = true;
    while (r && left > 0 && *is_all) {
        const int most = left < FXI_ALLOC_BATCH ? left : FXI_ALLOC_BATCH;
        int n = 0;
        while (r && ((only_fresh && !r->is_fresh) || list_request(r, s, &n, most))) r = r->next;
        // One call to the manager for many sequences. If it could extend only some of the beams of
        // a request, they wait for the others.
        int n_done = fxi_alloc_each(&eng->memory, s, NULL, n);
        while (n_done > 0 && n_done < n && s[n_done]->request->beam &&
               s[n_done - 1]->request == s[n_done]->request)
            s[--n_done]->n_planned = 0;
        left -= n_done;
        *is_all = n_done == n && (n || !r); // beams may be too many for any list
    }
    return left;
}

static int decode_request(fx_engine *eng, fxi_live_request *r, int left)
{
    const int left_before = left;
    if (r->is_whole) return left; // computed as prompts, so that none waits for ever
    if (r->beam && (!is_level(r) || fxi_request_n_live(r) > left)) return left; // all or none
    for (int i = 0; i < r->n_seq && left > 0; i++) {
        if (!decodes_now(&r->seq[i])) continue;
        if (fxi_alloc_tokens(&eng->memory, &r->seq[i], 1)) {
            left--;
            continue;
        }
        if (!r->beam) return left;
        for (int k = 0; k < r->n_seq; k++) r->seq[k].n_planned = 0; // beams wait together
        return left_before;
    }
    return left;
}

// Returns how many of the `left` tokens remain.
static int plan_decodes(fx_engine *eng, int left, bool only_fresh)
{
    bool is_all = false;
    if (left > 0) left = decode_at_hand(eng, left, only_fresh, &is_all);
    for (fxi_live_request *r = is_all ? NULL : eng->sched.running.head, *next; r && left > 0;
         r = next) {
        if (!only_fresh || r->is_fresh) left = decode_request(eng, r, left);
        next = r->state == FXI_RUNNING ? r->next : NULL; // preempted: it was the last
    }
    return left;
}

// Requests that were admitted or matched for this pass may decode in it, since they come back.
static int plan_fresh(fx_engine *eng, int left)
{
    for (fxi_live_request *r = eng->sched.running.head; r; r = r->next) {
        if (!r->is_fresh) continue;
        fxi_admit_match(eng, r); // the other sequences of one that was admitted
        if (r->spec.grammar) fxi_defer_unready(&eng->sched, r);
    }
    return plan_decodes(eng, left, true);
}

// ---- prompts -----------------------------------------------------------------------------------
//
// Half of the tokens go to the request that is served first, so that it makes progress in every
// pass. The other half goes to the prompts that need least, so that a short one does not wait for a
// long one; the remainder to the first request again.

// Tokens that a sequence can compute in one pass. Beams stop one token short of their ends until
// all have got that far, and so does one whose grammar is not ready for a sample. A prompt whose
// probabilities are emitted needs a row of logits for each token.
static int can_compute(const fxi_seq *s, int *rows)
{
    const fxi_live_request *r = s->request;
    int n = fxi_seq_n_left(s);
    if (s->is_deferred && r->is_whole) return 0;
    if (s->is_deferred || (r->beam && fxi_request_n_live(r) > 1)) n--;
    if (fxi_seq_emits_prompt(s)) {
        n = n < *rows ? n : *rows;
        *rows -= n;
    }
    return n;
}

static int list_prompts(fx_engine *eng, fxi_prompt_share *p)
{
    int n = 0, rows = FXI_SPARE_ROWS;
    for (fxi_live_request *r = eng->sched.running.head; r; r = r->next)
        for (int i = 0; i < r->n_seq; i++) {
            fxi_seq *s = &r->seq[i];
            if (!fxi_seq_may_compute(s) || s->n_planned || !s->is_filling) continue;
            const int need = can_compute(s, &rows);
            if (need <= 0) continue;
            p[n] = (fxi_prompt_share){s, n, need, 0};
            n++;
        }
    return n;
}

static int by_order(const void *a, const void *b)
{
    const fxi_prompt_share *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

static int by_need(const void *a, const void *b)
{
    const fxi_prompt_share *x = a, *y = b;
    return x->need != y->need ? (x->need > y->need) - (x->need < y->need) : by_order(a, b);
}

// Raises the share of a prompt by up to `most` of the `left` tokens; returns how many remain. Whole
// texts get all or nothing; they fit a pass (embd_tok).
static int add_share(fxi_prompt_share *p, int most, int left)
{
    int n = p->need - p->share;
    if (p->s->request->is_whole) most = n <= left ? n : 0;
    if (n > most) n = most;
    if (n > left) n = left;
    p->share += n;
    return left - n;
}

static void share_out(fxi_prompt_share *p, int n, int left)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++) sum += p[i].share = p[i].need;
    if (sum <= left) return;
    for (int i = 0; i < n; i++) p[i].share = 0;
    left = add_share(&p[0], (left + 1) / 2, left);
    qsort(p, (size_t)n, sizeof *p, by_need);
    for (int i = 0; i < n; i++)
        if (p[i].order) left = add_share(&p[i], left, left);
    qsort(p, (size_t)n, sizeof *p, by_order);
    (void)add_share(&p[0], left, left);
}

static void extend_prompts(fx_engine *eng, const fxi_prompt_share *p, int n)
{
    fxi_seq *s[FXI_ALLOC_BATCH];
    int n_tok[FXI_ALLOC_BATCH];
    for (int i = 0; i < n;) {
        int k = 0;
        for (; i < n && k < FXI_ALLOC_BATCH; i++) {
            if (!p[i].share || !fxi_seq_may_compute(p[i].s)) continue;
            s[k] = p[i].s;
            n_tok[k++] = p[i].share;
        }
        for (int done = fxi_alloc_each(&eng->memory, s, n_tok, k); done < k; done++)
            if (fxi_seq_may_compute(s[done]))
                (void)fxi_alloc_tokens(&eng->memory, s[done], n_tok[done]);
    }
}

// The cap on prompt tokens in this pass. While sequences decode, it is about what fits into step_ms
// at the measured rate, so that their next tokens are not delayed for longer.
static int limit_prompts(const fx_engine *eng, int left)
{
    if (left == eng->opt.step_tok || eng->memory.us_per_tok <= 0) return left;
    const double fit = 1000.0 * eng->opt.step_ms / eng->memory.us_per_tok;
    if (fit >= left) return left;
    return fit > MIN_PROMPT_TOK ? (int)fit : left < MIN_PROMPT_TOK ? left : MIN_PROMPT_TOK;
}

// Prefetches the memory that prompts will need in the next pass, during this one. The manager does
// the same for sequences that decode (ahead_tok).
static void prefetch_prompts(fx_engine *eng)
{
    for (int i = 0; i < eng->n_prompt; i++) {
        fxi_seq *s = eng->prompt[i].s;
        if (!fxi_seq_may_compute(s) || fxi_seq_n_left(s) <= s->n_planned) continue;
        const int end = s->n_computed + 2 * s->n_planned;
        fxi_kv_prepare(eng->kv, s->kv, end < s->n_tok ? end : s->n_tok, 1);
    }
}

// ---- the pass ----------------------------------------------------------------------------------

// Counts planned tokens and the rows of logits that they need, and deferred sequences.
static int count_planned(fx_engine *eng, int *n_row)
{
    int n_tok = 0, n_deferred = 0;
    *n_row = 0;
    for (const fxi_live_request *r = eng->sched.running.head; r; r = r->next)
        for (int i = 0; i < r->n_seq; i++) {
            const fxi_seq *s = &r->seq[i];
            n_tok += s->n_planned;
            if (s->n_planned && !s->embd) *n_row += fxi_forward_n_row(eng, s);
            n_deferred += s->is_deferred && fxi_seq_may_compute(s);
        }
    atomic_store(&eng->sched.n_deferred, n_deferred);
    return n_tok;
}

static int plan_once(fx_engine *eng, bool may_admit)
{
    for (fxi_live_request *r = eng->sched.running.head; r; r = r->next) {
        r->is_fresh = false;
        for (int i = 0; i < r->n_seq; i++) r->seq[i].n_planned = r->seq[i].n_draft = 0;
        if (r->spec.grammar) fxi_defer_unready(&eng->sched, r);
    }
    int left = plan_decodes(eng, eng->opt.step_tok, false), n_row;
    bool some = false;
    for (fxi_live_request *r = eng->sched.running.head; r; r = r->next)
        some |= fxi_admit_match(eng, r);
    if (left > 0 && may_admit) some |= fxi_admit_waiting(eng);
    if (some) left = plan_fresh(eng, left);
    left = limit_prompts(eng, left);
    eng->n_prompt = list_prompts(eng, eng->prompt);
    if (eng->n_prompt && left > 0) {
        share_out(eng->prompt, eng->n_prompt, left);
        extend_prompts(eng, eng->prompt, eng->n_prompt);
    }
    const int n_tok = count_planned(eng, &n_row);
    const int max_row = eng->opt.max_seq + FXI_SPARE_ROWS - n_row;
    return n_tok + (eng->drafting ? fxi_drafting_plan(eng->drafting, n_tok, max_row) : 0);
}

static bool has_failed(const fxi_sched *d)
{
    const fxi_live_request *r = d->running.head;
    while (r && !fxi_request_is_decided(r)) r = r->next;
    return r != NULL;
}

int fxi_plan_pass(fx_engine *eng)
{
    fxi_sched *d = &eng->sched;
    d->mask_left = d->mask_spend;
    int n_tok = plan_once(eng, true);
    while (!n_tok && !d->n_deferred && d->running.head && !has_failed(d) &&
           fxi_alloc_unblock(&eng->memory))
        n_tok = plan_once(eng, false);
    if (eng->hooks.ahead_tok) prefetch_prompts(eng);
    fxi_kv_step(eng->kv, eng->hooks.ahead_tok, fxi_journal_ms(&eng->journal));
    return n_tok;
}
