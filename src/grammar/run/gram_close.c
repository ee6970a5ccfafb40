// gram_close.c - the closure, by a list of work and no recursion.
//
// Work is done once per closure (`seen`). The frame of a sequence's last node is not pushed, so
// right recursion takes no stack.
//
// A repeat whose node may be empty could go round without a byte. It loses nothing by a minimum of
// 0, and then going round from count k to k + 1 offers less than k did; so the frame that such a
// repeat pushes counts as done in this closure. Elsewhere, after a byte, it goes on as others do.
#include "grammar/run/gram_close.h"

#include <stdlib.h>

#include "base/system/grow.h"
#include "grammar/run/gram_near.h"

enum { MAX_CLOSE_STEPS = 1 << 18 };
#define RESUME UINT32_MAX // instead of a node

static fx_status fail_memory(fx_error *err)
{
    return fxi_fail(err, FX_ENOMEM, "out of memory");
}

void fxi_gram_close_free(fxi_gram_close *c)
{
    free(c->work);
    free(c->top);
    free(c->seen);
    *c = (fxi_gram_close){0};
}

size_t fxi_gram_close_n_bytes(const fxi_gram_close *c)
{
    return c->cap_work * sizeof *c->work + c->cap_top * sizeof *c->top +
           (c->seen ? (c->seen_mask + 1) * sizeof *c->seen : 0);
}

void fxi_gram_close_begin(fxi_gram_close *c)
{
    c->n_work = c->n_top = c->n_seen = c->n_step = 0;
    c->n_work_done += 8; // what each takes besides
    c->has_empty = false;
    if (++c->turn) return;
    for (size_t i = 0; c->seen && i <= c->seen_mask; i++) c->seen[i].turn = 0;
    c->turn = 1;
}

// ---- what was done ------------------------------------------------------------------------------

static struct fxi_gram_seen *find_seen(const fxi_gram_close *c, uint32_t node, uint32_t rest)
{
    size_t i = fxi_secret_mix(c->stacks->secret, node, (uint64_t)rest << 32) & c->seen_mask;
    while (c->seen[i].turn == c->turn && (c->seen[i].node != node || c->seen[i].rest != rest))
        i = (i + 1) & c->seen_mask;
    return &c->seen[i];
}

static bool widen_seen(fxi_gram_close *c)
{
    struct fxi_gram_seen *old = c->seen;
    const size_t n_old = old ? c->seen_mask + 1 : 0, n = old ? 2 * n_old : 256;
    struct fxi_gram_seen *seen = calloc(n, sizeof *seen);
    if (!seen) return false;
    c->seen = seen;
    c->seen_mask = n - 1;
    for (size_t i = 0; i < n_old; i++)
        if (old[i].turn == c->turn) *find_seen(c, old[i].node, old[i].rest) = old[i];
    free(old);
    return true;
}

// Sets *is_new unless this work was marked in this closure; marks it.
static fx_status mark_seen(fxi_gram_close *c, uint32_t node, uint32_t rest, bool *is_new,
                           fx_error *err)
{
    if ((!c->seen || 2 * c->n_seen > c->seen_mask) && !widen_seen(c)) return fail_memory(err);
    struct fxi_gram_seen *s = find_seen(c, node, rest);
    *is_new = s->turn != c->turn;
    if (*is_new) {
        *s = (struct fxi_gram_seen){node, rest, c->turn};
        c->n_seen++;
    }
    return FX_OK;
}

// ---- work ---------------------------------------------------------------------------------------

static fx_status queue_work(fxi_gram_close *c, uint32_t node, uint32_t rest, fx_error *err)
{
    bool is_new = false;
    if (node != RESUME && !c->form->node[node].productive) return FX_OK;
    FX_TRY(mark_seen(c, node, rest, &is_new, err));
    if (!is_new) return FX_OK;
    if (!fxi_grow(&c->work, sizeof *c->work, c->n_work, &c->cap_work)) return fail_memory(err);
    c->work[c->n_work++] = (struct fxi_gram_work){node, rest};
    return FX_OK;
}

fx_status fxi_gram_close_enter(fxi_gram_close *c, uint32_t node, uint32_t rest, fx_error *err)
{
    return queue_work(c, node, rest, err);
}

fx_status fxi_gram_close_resume(fxi_gram_close *c, uint32_t rest, fx_error *err)
{
    return queue_work(c, RESUME, rest, err);
}

fx_status fxi_gram_close_top(fxi_gram_close *c, fxi_gram_frame top, fx_error *err)
{
    if (!fxi_grow(&c->top, sizeof *c->top, c->n_top, &c->cap_top)) return fail_memory(err);
    c->top[c->n_top++] = top;
    return FX_OK;
}

static fx_status push_frame(fxi_gram_close *c, fxi_gram_frame f, uint32_t *out, fx_error *err)
{
    return fxi_gram_stacks_put(c->stacks, &f, 1, false, out, err);
}

// Enters the node at `at` of a sequence.
static fx_status enter_seq(fxi_gram_close *c, uint32_t node, uint32_t at, uint32_t rest,
                           fx_error *err)
{
    const fxi_gram_node *x = &c->form->node[node];
    if (at + 1 < x->n) FX_TRY(push_frame(c, (fxi_gram_frame){node, at + 1, rest}, &rest, err));
    return queue_work(c, c->form->kid[x->at + at], rest, err);
}

// The count behind one more round; beyond its minimum, a repeat without a maximum in reach counts
// no more.
static uint32_t next_count(const fxi_gram_node *x, uint32_t min, uint32_t count)
{
    if (count == FXI_NEAR_LESS) return count;
    const uint32_t far = count & FXI_NEAR_FAR, next = (count ^ far) + 1;
    if (far || x->max == FXI_GRAM_NO_MAX) return far | (next > min ? min : next);
    return next;
}

// Goes on with a repeat that was gone round `count` times.
static fx_status enter_repeat(fxi_gram_close *c, uint32_t node, uint32_t count, uint32_t rest,
                              fx_error *err)
{
    const fxi_gram_node *x = &c->form->node[node], *body = &c->form->node[x->at];
    const uint32_t min = body->nullable ? 0 : x->min;
    const bool is_far = count & FXI_NEAR_FAR;
    const bool may_leave = count != FXI_NEAR_LESS && (count & ~FXI_NEAR_FAR) >= min;
    const fxi_gram_frame next = {node, next_count(x, min, count), rest};
    bool is_new;
    uint32_t round;
    if (may_leave) FX_TRY(queue_work(c, RESUME, rest, err));
    if ((!is_far && count >= x->max) || !body->productive) return FX_OK;
    FX_TRY(push_frame(c, next, &round, err));
    if (body->nullable) FX_TRY(mark_seen(c, RESUME, round, &is_new, err));
    return queue_work(c, x->at, round, err);
}

static fx_status enter_alt(fxi_gram_close *c, const fxi_gram_node *x, uint32_t rest, fx_error *err)
{
    for (uint32_t i = 0; i < x->n; i++) FX_TRY(queue_work(c, c->form->kid[x->at + i], rest, err));
    return FX_OK;
}

static fx_status enter_node(fxi_gram_close *c, uint32_t node, uint32_t rest, fx_error *err)
{
    const fxi_gram_node *x = &c->form->node[node];
    switch (x->kind) {
    case FXI_GRAM_TEXT:
        if (!x->n) return queue_work(c, RESUME, rest, err);
        return fxi_gram_close_top(c, (fxi_gram_frame){node, 0, rest}, err);
    case FXI_GRAM_SET: return fxi_gram_close_top(c, (fxi_gram_frame){node, 0, rest}, err);
    case FXI_GRAM_SEQ: return enter_seq(c, node, 0, rest, err);
    case FXI_GRAM_ALT: return enter_alt(c, x, rest, err);
    case FXI_GRAM_REPEAT: return enter_repeat(c, node, 0, rest, err);
    case FXI_GRAM_REF: return queue_work(c, c->form->rule[x->at].node, rest, err);
    default: return FX_OK;
    }
}

static fx_status resume_set(fxi_gram_close *c, uint32_t id, fx_error *err)
{
    const fxi_gram_stack_set set = c->stacks->set[id];
    c->has_empty = c->has_empty || set.has_empty;
    for (uint32_t i = 0; i < set.n; i++) {
        const fxi_gram_frame f = c->stacks->frame[set.first + i]; // the array may move
        if (c->form->node[f.node].kind == FXI_GRAM_SEQ)
            FX_TRY(enter_seq(c, f.node, f.at, f.rest, err));
        else
            FX_TRY(enter_repeat(c, f.node, f.at, f.rest, err));
    }
    return FX_OK;
}

fx_status fxi_gram_close_end(fxi_gram_close *c, uint32_t *out, fx_error *err)
{
    while (c->n_work) {
        const struct fxi_gram_work w = c->work[--c->n_work];
        c->n_work_done++;
        if (++c->n_step > c->max_step && c->max_step)
            return fxi_fail(err, FX_ENOSPACE, "a move takes more than %zu steps", c->max_step);
        if (c->n_step > MAX_CLOSE_STEPS)
            return fxi_fail(err, FX_EINVAL, "the grammar is too ambiguous to be followed");
        FX_TRY(w.node == RESUME ? resume_set(c, w.rest, err) : enter_node(c, w.node, w.rest, err));
    }
    return fxi_gram_stacks_put(c->stacks, c->top, c->n_top, c->has_empty, out, err);
}
