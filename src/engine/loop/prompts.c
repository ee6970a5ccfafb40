// prompts.c - distributes a step's tokens over the prompts that are being computed.
//
// Half of them go to the group that is served first, so that it makes progress in every step. The
// other half goes to the prompts that need least, so that a short one does not wait for a long one;
// the remainder to the first group again.
#include "engine/loop/loop.h"
#include "engine/memory/room.h"

#include <stdlib.h>

// A sequence that computes its prompt.
typedef struct fxi_reader {
    fxi_seq *s;
    int order;
    int need, share; // tokens
} fxi_reader;

// Tokens that a sequence can compute in one step. Beams stop one token short of their ends until
// all have got that far, and so does one whose grammar is not ready for a draw. A prompt whose
// probabilities are emitted needs a row of logits for each token.
static int can_compute(const fxi_seq *s, int *rows)
{
    const fxi_group *g = s->group;
    int n = fxi_seq_n_left(s);
    if (s->is_held && g->is_whole) return 0;
    if (s->is_held || (g->beam && fxi_group_n_live(g) > 1)) n--;
    if (fxi_seq_emits_prompt(s)) {
        n = n < *rows ? n : *rows;
        *rows -= n;
    }
    return n;
}

size_t fxi_prompts_scratch_bytes(void)
{
    return sizeof(fxi_reader);
}

static int list_readers(fx_engine *eng, fxi_reader *r)
{
    int n = 0, rows = fxi_step_spare_rows();
    for (fxi_group *g = eng->running.head; g; g = g->next)
        for (int i = 0; i < g->n_seq; i++) {
            fxi_seq *s = &g->seq[i];
            if (!fxi_seq_may_compute(s) || s->n_step || !s->is_filling) continue;
            int need = can_compute(s, &rows);
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

// Raises the share of one reader by up to `most` of the `left` tokens; returns how many remain.
// Whole texts get all or nothing; they fit a step (embd_tok).
static int add_share(fxi_reader *r, int most, int left)
{
    int n = r->need - r->share;
    if (r->s->group->is_whole) most = n <= left ? n : 0;
    if (n > most) n = most;
    if (n > left) n = left;
    r->share += n;
    return left - n;
}

// All that each needs, if that is not too much for a step.
static bool give_all(fxi_reader *r, int n, int left)
{
    int64_t sum = 0;
    for (int i = 0; i < n; i++) sum += r[i].share = r[i].need;
    return sum <= left;
}

static void share_out(fxi_reader *r, int n, int left)
{
    if (give_all(r, n, left)) return;
    for (int i = 0; i < n; i++) r[i].share = 0;
    left = add_share(&r[0], (left + 1) / 2, left);
    qsort(r, (size_t)n, sizeof *r, by_need);
    for (int i = 0; i < n; i++)
        if (r[i].order) left = add_share(&r[i], left, left);
    qsort(r, (size_t)n, sizeof *r, by_order);
    (void)add_share(&r[0], left, left);
}

// Those with a share from r[*i] on, as many as go into one call.
static int list_some(const fxi_reader *r, int n, int *i, fxi_seq **s, int *n_step)
{
    int k = 0;
    for (; *i < n && k < FXI_ROOM_AT_ONCE; ++*i) {
        if (!r[*i].share || !fxi_seq_may_compute(r[*i].s)) continue;
        s[k] = r[*i].s;
        n_step[k++] = r[*i].share;
    }
    return k;
}

static void grow_readers(fx_engine *eng, const fxi_reader *r, int n)
{
    fxi_seq *s[FXI_ROOM_AT_ONCE];
    int n_step[FXI_ROOM_AT_ONCE];
    for (int i = 0, k; (k = list_some(r, n, &i, s, n_step)) > 0;)
        for (int done = fxi_room_grow_each(eng, s, n_step, k); done < k; done++)
            if (fxi_seq_may_compute(s[done])) (void)fxi_room_grow(eng, s[done], n_step[done]);
}

void fxi_prompts_plan(fx_engine *eng, int left)
{
    fxi_reader *r = eng->reader;
    const int n = eng->n_reader = list_readers(eng, r);
    if (!n || left <= 0) return;
    share_out(r, n, left);
    grow_readers(eng, r, n);
}

void fxi_prompts_prepare(fx_engine *eng)
{
    const fxi_reader *r = eng->reader;
    for (int i = 0; i < eng->n_reader; i++) {
        fxi_seq *s = r[i].s;
        if (!fxi_seq_may_compute(s) || fxi_seq_n_left(s) <= s->n_step) continue;
        const int end = s->n_computed + 2 * s->n_step;
        fxi_kv_prepare(eng->kv, s->kv, end < s->n_tok ? end : s->n_tok, 1);
    }
}
