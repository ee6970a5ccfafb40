// scheduler.c - who computes what in the next step (the request scheduler of vTensor's Algorithm 1,
// arXiv 2407.15309).
//
//   1. Every running sequence that decodes gets its one token.
//   2. Running sequences without a cache, then waiting groups, are matched with the prefix cache
//      and join, as places and memory allow (admit.c). Who has but one token to compute then, or
//      comes from the swap, decodes in this step too.
//   3. What is left of the step's token budget goes to those that read a prompt: half of it to the
//      group that goes first, so that it gets on whatever comes; the rest to those that need
//      least, so that a short prompt does not wait for a long one; what then remains to the first.
//      While others decode, no more than takes about step_ms.
//
// Whoever is scheduled has its cache extended first. If memory is short, idle prefixes go (the
// manager sees to that), then the group that goes last is preempted until it fits. The first group
// is never preempted for another, so that the engine always gets on: any single one fits the
// budget. Memory for the steps to come is made ready beside the forward pass (prepare).
//
// Which tokens share a step never changes a result (kernels.h, the law of order).
#include "engine/internal.h"

#include <stdlib.h>

#define MIN_BESIDE_TOK 64 // prompts get on by so much whatever it takes: a short one is not cut

// ---- growing -----------------------------------------------------------------------------------

// Frees memory at the cost of others: the group that goes last is preempted; where only one runs,
// the swapped one that goes last gives up what it shares. False: nobody is left.
static bool push_out(fx_engine *eng)
{
    fxi_group *last = eng->running.tail;
    if (last == eng->running.head) return fxi_forget_swapped(eng);
    fxi_preempt(eng, last, FXI_PREEMPT_CHEAPER);
    return true;
}

static fx_status extend(fx_engine *eng, fxi_seq *s, int n_step)
{
    return fxi_kv_extend(eng->kv, s->kv, s->n_computed + n_step);
}

// With nobody left to push out. What prefixes in use can do without, the manager may find only when
// those that go on from them are gone.
static fx_status extend_alone(fx_engine *eng, fxi_seq *s, int n_step)
{
    (void)fxi_kv_forget_idle(eng->kv);
    return extend(eng, s, n_step);
}

// A group that has computed what the prefix cache holds as well, as one does whose prompt's
// probabilities are told, keeps both in memory. It begins with an empty cache then, and is computed
// again. False: the budget is less than it needs, or it has not got on since that was tried last.
static bool start_again(fx_engine *eng, fxi_group *g)
{
    int n_tok = 0;
    for (int i = 0; i < g->n_seq; i++) n_tok += g->seq[i].n_tok + g->seq[i].n_prompt_told;
    const uint64_t need = fxi_request_bytes(eng, &g->req, g->max_tok);
    if (n_tok <= g->again_tok || need > eng->opt.kv_memory_bytes) return false;
    g->again_tok = n_tok;
    fxi_preempt(eng, g, FXI_RECOMPUTE);
    (void)fxi_kv_forget_idle(eng->kv);
    return true;
}

// Extends the cache for n_step more tokens, at the cost of groups that go later if it must be.
// False if the group of s itself was preempted, or has failed.
static bool grow(fx_engine *eng, fxi_seq *s, int n_step)
{
    fx_status st;
    while ((st = extend(eng, s, n_step)) == FX_ENOSPACE && push_out(eng))
        if (s->group->state != FXI_RUNNING) return false;
    if (st == FX_ENOSPACE) st = extend_alone(eng, s, n_step);
    if (st == FX_ENOSPACE && start_again(eng, s->group)) return false;
    if (st != FX_OK) {
        fxi_group_fail(s->group, st == FX_ENOSPACE
                                     ? "the request needs more KV memory than there is"
                                     : "the system has no memory for the KV cache");
        return false;
    }
    s->n_step = n_step;
    return true;
}

static bool is_running(const fxi_seq *s)
{
    return s->group->state == FXI_RUNNING && s->state == FXI_SEQ_LIVE && s->kv &&
           s->finish == FX_FINISH_NONE;
}

static int tok_left(const fxi_seq *s)
{
    return s->n_tok - s->n_computed;
}

// All live sequences of the group are one token from their next: beams go on together.
static bool is_level(const fxi_group *g)
{
    for (int i = 0; i < g->n_seq; i++)
        if (g->seq[i].state == FXI_SEQ_LIVE && (!g->seq[i].kv || tok_left(&g->seq[i]) != 1))
            return false;
    return true;
}

// ---- decodes -----------------------------------------------------------------------------------

static int decode_group(fx_engine *eng, fxi_group *g, int left)
{
    if (g->beam && (!is_level(g) || fxi_group_n_live(g) > left)) return left; // all or none
    for (int i = 0; i < g->n_seq && left > 0; i++) {
        fxi_seq *s = &g->seq[i];
        if (!is_running(s) || s->n_step || tok_left(s) != 1) continue;
        if (!grow(eng, s, 1)) break;
        left--;
    }
    return left;
}

static int plan_decodes(fx_engine *eng, int left)
{
    for (fxi_group *g = eng->running.head, *next; g && left > 0; g = next) {
        left = decode_group(eng, g, left);
        next = g->state == FXI_RUNNING ? g->next : NULL; // preempted: it was the last
    }
    return left;
}

// ---- prompts -----------------------------------------------------------------------------------

typedef struct fxi_reader {
    fxi_seq *s;
    int order;
    int need, give; // tokens
} fxi_reader;

// Tokens that a sequence could compute in one step. Beams stop one short of their ends until all of
// them are there; a prompt whose probabilities are told needs a row of logits for each token.
static int could_compute(const fxi_seq *s, int *rows)
{
    const fxi_group *g = s->group;
    int n = tok_left(s);
    if (g->beam && fxi_group_n_live(g) > 1) n--;
    if (g->req.prompt_logprobs && s->n_prompt_told < (int)g->req.n_prompt) {
        n = n < *rows ? n : *rows;
        *rows -= n;
    }
    return n;
}

size_t fxi_reader_bytes(void)
{
    return sizeof(fxi_reader);
}

static int list_readers(fx_engine *eng, fxi_reader *r)
{
    int n = 0, rows = fxi_step_prompt_rows();
    for (fxi_group *g = eng->running.head; g; g = g->next)
        for (int i = 0; i < g->n_seq; i++) {
            fxi_seq *s = &g->seq[i];
            if (!is_running(s) || s->n_step || !s->is_filling) continue;
            int need = could_compute(s, &rows);
            if (need > 0) r[n] = (fxi_reader){s, n, need, 0}, n++;
        }
    return n;
}

static int by_need(const void *a, const void *b)
{
    const fxi_reader *x = a, *y = b;
    return x->need != y->need ? (x->need > y->need) - (x->need < y->need)
                              : (x->order > y->order) - (x->order < y->order);
}

static int by_order(const void *a, const void *b)
{
    const fxi_reader *x = a, *y = b;
    return (x->order > y->order) - (x->order < y->order);
}

static int give(fxi_reader *r, int most, int left)
{
    int n = r->need - r->give;
    if (n > most) n = most;
    if (n > left) n = left;
    r->give += n;
    return left - n;
}

static void share_out(fxi_reader *r, int n, int left)
{
    left = give(&r[0], (left + 1) / 2, left);
    qsort(r, (size_t)n, sizeof *r, by_need);
    for (int i = 0; i < n; i++)
        if (r[i].order) left = give(&r[i], left, left);
    qsort(r, (size_t)n, sizeof *r, by_order);
    (void)give(&r[0], left, left);
}

static void plan_prompts(fx_engine *eng, int left)
{
    fxi_reader *r = eng->reader;
    const int n = list_readers(eng, r);
    if (!n || left <= 0) return;
    share_out(r, n, left);
    for (int i = 0; i < n; i++) {
        fxi_seq *s = r[i].s;
        if (r[i].give && is_running(s)) (void)grow(eng, s, r[i].give); // else preempted by now
    }
}

// ---- the step ----------------------------------------------------------------------------------

static int planned(const fx_engine *eng)
{
    int n_tok = 0;
    for (const fxi_group *g = eng->running.head; g; g = g->next)
        for (int i = 0; i < g->n_seq; i++) n_tok += g->seq[i].n_step;
    return n_tok;
}

// What a prompt will need in the next step, and room for those that decode.
static void prepare(fx_engine *eng)
{
    if (!eng->ahead_tok) return;
    for (fxi_group *g = eng->running.head; g; g = g->next)
        for (int i = 0; i < g->n_seq; i++) {
            fxi_seq *s = &g->seq[i];
            if (!is_running(s) || !s->is_filling || tok_left(s) <= s->n_step) continue;
            int end = s->n_computed + 2 * s->n_step;
            fxi_kv_prepare(eng->kv, s->kv, end < s->n_tok ? end : s->n_tok, 1);
        }
}

// Nothing could be planned although someone runs: everyone waits for memory that the others hold.
// False: the only group that runs cannot get on, and has been marked as failed.
static bool make_way(fx_engine *eng)
{
    fxi_group *last = eng->running.tail;
    if (last != eng->running.head) {
        fxi_preempt(eng, last, FXI_RECOMPUTE);
        return true;
    }
    if (fxi_forget_swapped(eng) || start_again(eng, last)) return true;
    fxi_group_fail(last, "the request needs more KV memory than there is");
    return false;
}

static bool has_failed(const fx_engine *eng)
{
    for (const fxi_group *g = eng->running.head; g; g = g->next)
        for (int i = 0; i < g->n_seq; i++)
            if (g->seq[i].state != FXI_SEQ_DONE && g->seq[i].finish != FX_FINISH_NONE) return true;
    return false;
}

// What prompts may take of a step in which others decode: about as much as fits into step_ms, at the
// rate measured, so that their next tokens do not wait for longer.
static int beside_decodes(const fx_engine *eng, int left)
{
    if (left == eng->opt.step_tok || eng->us_per_tok <= 0) return left;
    const double fit = 1000.0 * eng->opt.step_ms / eng->us_per_tok;
    if (fit >= left) return left;
    return fit > MIN_BESIDE_TOK ? (int)fit : left < MIN_BESIDE_TOK ? left : MIN_BESIDE_TOK;
}

static int plan_once(fx_engine *eng, bool may_admit)
{
    for (fxi_group *g = eng->running.head; g; g = g->next)
        for (int i = 0; i < g->n_seq; i++) g->seq[i].n_step = 0;
    int left = plan_decodes(eng, eng->opt.step_tok);
    fxi_match_running(eng);
    if (left > 0 && may_admit) fxi_admit(eng);
    fxi_match_running(eng);         // the other sequences of those that have joined
    left = plan_decodes(eng, left); // of those that have just come back
    plan_prompts(eng, beside_decodes(eng, left));
    return planned(eng);
}

int fxi_plan(fx_engine *eng)
{
    int n_tok = plan_once(eng, true);
    while (!n_tok && eng->running.head && !has_failed(eng) && make_way(eng))
        n_tok = plan_once(eng, false);
    prepare(eng);
    fxi_kv_step(eng->kv, eng->ahead_tok, fxi_now_ms(eng));
    return n_tok;
}
