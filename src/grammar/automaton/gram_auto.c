// gram_auto.c - the automaton: byte classes, the closure that makes a state, the table of moves;
// normalized states; characters beyond ASCII at once.
//
// The closure is a work list, not recursion, and each piece of work is done once (`seen`). The
// frame of a sequence's last node is not pushed, so right recursion takes no stack.
//
// A repeat whose body may be empty could make rounds without a byte. Giving it a minimum of 0
// changes nothing, and then the round from count k to k + 1 offers less than k did; so the frame
// that such a repeat pushes counts as done in this closure. Elsewhere, after a byte, it continues
// like any other.
#include "grammar/automaton/gram_auto.h"

#include <stdlib.h>

#include "base/system/grow.h"
#include "grammar/automaton/gram_stacks.h"

enum { MAX_CLOSURE_STEPS = 1 << 18, STEPS_PER_MOVE = 8, SPARE_ROUNDS = 2 };
#define RESUME UINT32_MAX // as a node: continue the stacks of a set

// Counts of frames in normalized states, in place of numbers. COUNT_FAR: the maximum is out of
// reach; the other bits count up to the minimum. COUNT_BELOW: the minimum is out of reach, too.
#define COUNT_FAR   ((uint32_t)1 << 31)
#define COUNT_BELOW UINT32_MAX

struct closure_work { // a node to be entered over a set, or a set to resume
    uint32_t node, rest;
};

struct closure_seen { // work that was done in this turn
    uint32_t node, rest, turn;
};

typedef struct closure { // its arrays are reused by the next one
    struct closure_work *work;
    fxi_gram_frame *top;       // [n_top] what waits for a byte
    struct closure_seen *seen; // [seen_mask + 1] a hash table
    size_t n_work, cap_work, n_top, cap_top, n_seen, seen_mask, n_step;
    size_t max_step; // 0: no limit but MAX_CLOSURE_STEPS
    uint32_t turn;
    bool has_empty; // a stack was used up
} closure;

struct fxi_auto {
    const fxi_gram *g;
    fxi_gram_stacks stacks;
    closure close;
    size_t n_work_done;                  // steps of all closures
    uint8_t class_of[256], byte_of[256]; // byte_of: the first byte of a class
    size_t n_class;
    uint32_t *row;  // [n_row] of a set: its row of `move`, or UNKNOWN
    uint32_t *move; // [n_move][n_class] states
    size_t n_row, cap_row, n_move, cap_move;
    uint32_t start;
};

// ---- classes ------------------------------------------------------------------------------------

// Splits every class into the bytes that are in the set and those that are not.
static void split_classes(fxi_auto *a, const fxi_byte_set *s)
{
    int renamed[2][256];
    size_t n = 0;
    memset(renamed, -1, sizeof renamed);
    for (int b = 0; b < 256; b++) {
        int *to = &renamed[fxi_byte_in(s, (uint8_t)b)][a->class_of[b]];
        if (*to < 0) *to = (int)n++;
        a->class_of[b] = (uint8_t)*to;
    }
    a->n_class = n;
}

static void find_classes(fxi_auto *a)
{
    const fxi_gram *g = a->g;
    fxi_byte_set spelled = {0};
    for (const fxi_gram_node *x = g->node; x < g->node + g->n_node; x++)
        for (uint32_t i = 0; x->kind == FXI_GRAM_TEXT && i < x->n; i++)
            fxi_byte_put(&spelled, (uint8_t)g->text.p[x->at + i]);
    a->n_class = 1;
    for (size_t i = 0; i < g->n_set; i++) split_classes(a, &g->set[i]);
    for (int b = 0; b < 256; b++) {
        fxi_byte_set one = {0};
        fxi_byte_put(&one, (uint8_t)b);
        if (fxi_byte_in(&spelled, (uint8_t)b)) split_classes(a, &one);
    }
    for (int b = 255; b >= 0; b--) a->byte_of[a->class_of[b]] = (uint8_t)b;
}

// ---- closure ------------------------------------------------------------------------------------
//
// Errors: FX_ENOMEM, FX_EINVAL (a limit of gram_stacks.h; too ambiguous), FX_ENOSPACE (more than
// max_step).

static void begin_closure(fxi_auto *a)
{
    closure *c = &a->close;
    c->n_work = c->n_top = c->n_seen = c->n_step = 0;
    c->has_empty = false;
    a->n_work_done += STEPS_PER_MOVE;
    if (++c->turn) return;
    for (size_t i = 0; c->seen && i <= c->seen_mask; i++) c->seen[i].turn = 0;
    c->turn = 1;
}

static struct closure_seen *find_seen(const fxi_auto *a, uint32_t node, uint32_t rest)
{
    const closure *c = &a->close;
    size_t i = fxi_secret_mix(a->stacks.secret, node, (uint64_t)rest << 32) & c->seen_mask;
    while (c->seen[i].turn == c->turn && (c->seen[i].node != node || c->seen[i].rest != rest))
        i = (i + 1) & c->seen_mask;
    return &c->seen[i];
}

static bool widen_seen(fxi_auto *a)
{
    closure *c = &a->close;
    struct closure_seen *old = c->seen;
    const size_t n_old = old ? c->seen_mask + 1 : 0, n = old ? 2 * n_old : 256;
    struct closure_seen *seen = calloc(n, sizeof *seen);
    if (!seen) return false;
    c->seen = seen;
    c->seen_mask = n - 1;
    for (size_t i = 0; i < n_old; i++)
        if (old[i].turn == c->turn) *find_seen(a, old[i].node, old[i].rest) = old[i];
    free(old);
    return true;
}

// Marks this work as done. *is_new: it was not marked in this closure before.
static fx_status mark_seen(fxi_auto *a, uint32_t node, uint32_t rest, bool *is_new, fx_error *err)
{
    closure *c = &a->close;
    if ((!c->seen || 2 * c->n_seen > c->seen_mask) && !widen_seen(a)) return fxi_fail_memory(err);
    struct closure_seen *s = find_seen(a, node, rest);
    *is_new = s->turn != c->turn;
    if (*is_new) {
        *s = (struct closure_seen){node, rest, c->turn};
        c->n_seen++;
    }
    return FX_OK;
}

static fx_status queue_work(fxi_auto *a, uint32_t node, uint32_t rest, fx_error *err)
{
    closure *c = &a->close;
    bool is_new = false;
    if (node != RESUME && !a->g->node[node].productive) return FX_OK;
    FX_TRY(mark_seen(a, node, rest, &is_new, err));
    if (!is_new) return FX_OK;
    if (!fxi_grow(&c->work, sizeof *c->work, c->n_work, &c->cap_work)) return fxi_fail_memory(err);
    c->work[c->n_work++] = (struct closure_work){node, rest};
    return FX_OK;
}

// A place that waits for a byte.
static fx_status add_top(fxi_auto *a, fxi_gram_frame top, fx_error *err)
{
    closure *c = &a->close;
    if (!fxi_grow(&c->top, sizeof *c->top, c->n_top, &c->cap_top)) return fxi_fail_memory(err);
    c->top[c->n_top++] = top;
    return FX_OK;
}

// Enters the node at `at` of a sequence.
static fx_status enter_seq(fxi_auto *a, uint32_t node, uint32_t at, uint32_t rest, fx_error *err)
{
    const fxi_gram_node *x = &a->g->node[node];
    fxi_gram_frame f = {node, at + 1, rest};
    if (at + 1 < x->n) FX_TRY(fxi_gram_stacks_put(&a->stacks, &f, 1, false, &rest, err));
    return queue_work(a, a->g->kid[x->at + at], rest, err);
}

// The count after one more round. A repeat without a maximum in reach stops counting at its
// minimum.
static uint32_t next_count(const fxi_gram_node *x, uint32_t min, uint32_t count)
{
    if (count == COUNT_BELOW) return count;
    const uint32_t far = count & COUNT_FAR, next = (count ^ far) + 1;
    if (far || x->max == FXI_GRAM_NO_MAX) return far | (next > min ? min : next);
    return next;
}

// Continues a repeat that has made `count` rounds.
static fx_status enter_repeat(fxi_auto *a, uint32_t node, uint32_t count, uint32_t rest,
                              fx_error *err)
{
    const fxi_gram_node *x = &a->g->node[node], *body = &a->g->node[x->at];
    const uint32_t min = body->nullable ? 0 : x->min;
    const bool is_far = count & COUNT_FAR;
    const bool may_leave = count != COUNT_BELOW && (count & ~COUNT_FAR) >= min;
    fxi_gram_frame next = {node, next_count(x, min, count), rest};
    bool is_new;
    uint32_t round;
    if (may_leave) FX_TRY(queue_work(a, RESUME, rest, err));
    if ((!is_far && count >= x->max) || !body->productive) return FX_OK;
    FX_TRY(fxi_gram_stacks_put(&a->stacks, &next, 1, false, &round, err));
    if (body->nullable) FX_TRY(mark_seen(a, RESUME, round, &is_new, err));
    return queue_work(a, x->at, round, err);
}

static fx_status enter_node(fxi_auto *a, uint32_t node, uint32_t rest, fx_error *err)
{
    const fxi_gram_node *x = &a->g->node[node];
    switch (x->kind) {
    case FXI_GRAM_TEXT:
        if (!x->n) return queue_work(a, RESUME, rest, err);
        return add_top(a, (fxi_gram_frame){node, 0, rest}, err);
    case FXI_GRAM_SET: return add_top(a, (fxi_gram_frame){node, 0, rest}, err);
    case FXI_GRAM_SEQ: return enter_seq(a, node, 0, rest, err);
    case FXI_GRAM_ALT:
        for (uint32_t i = 0; i < x->n; i++) FX_TRY(queue_work(a, a->g->kid[x->at + i], rest, err));
        return FX_OK;
    case FXI_GRAM_REPEAT: return enter_repeat(a, node, 0, rest, err);
    case FXI_GRAM_REF: return queue_work(a, a->g->rule[x->at].node, rest, err);
    default: return FX_OK;
    }
}

static fx_status resume_set(fxi_auto *a, uint32_t id, fx_error *err)
{
    const fxi_gram_stack_set set = a->stacks.set[id];
    a->close.has_empty = a->close.has_empty || set.has_empty;
    for (uint32_t i = 0; i < set.n; i++) {
        const fxi_gram_frame f = a->stacks.frame[set.first + i]; // the array may move
        const bool is_seq = a->g->node[f.node].kind == FXI_GRAM_SEQ;
        FX_TRY((is_seq ? enter_seq : enter_repeat)(a, f.node, f.at, f.rest, err));
    }
    return FX_OK;
}

// Works off the list. *out: the set of all stacks, their tops waiting for a byte.
static fx_status end_closure(fxi_auto *a, uint32_t *out, fx_error *err)
{
    closure *c = &a->close;
    while (c->n_work) {
        const struct closure_work w = c->work[--c->n_work];
        a->n_work_done++;
        if (++c->n_step > c->max_step && c->max_step)
            return fxi_fail(err, FX_ENOSPACE, "a move takes more than %zu steps", c->max_step);
        if (c->n_step > MAX_CLOSURE_STEPS)
            return fxi_fail(err, FX_EINVAL, "the grammar is too ambiguous to be followed");
        FX_TRY(w.node == RESUME ? resume_set(a, w.rest, err) : enter_node(a, w.node, w.rest, err));
    }
    return fxi_gram_stacks_put(&a->stacks, c->top, c->n_top, c->has_empty, out, err);
}

// ---- states and moves ---------------------------------------------------------------------------

fx_status fxi_auto_make(const fxi_gram *g, size_t max_set, fxi_auto **out, fx_error *err)
{
    fxi_auto *a = calloc(1, sizeof *a);
    *out = NULL;
    if (!a) return fxi_fail_memory(err);
    a->g = g;
    find_classes(a);
    fx_status st = fxi_gram_stacks_make(&a->stacks, max_set, err);
    begin_closure(a);
    if (!st) st = queue_work(a, g->root, FXI_STACKS_EMPTY, err);
    if (!st) st = end_closure(a, &a->start, err);
    if (st)
        fxi_auto_free(a);
    else
        *out = a;
    return st;
}

void fxi_auto_free(fxi_auto *a)
{
    if (!a) return;
    free(a->close.work);
    free(a->close.top);
    free(a->close.seen);
    fxi_gram_stacks_free(&a->stacks);
    free(a->row);
    free(a->move);
    free(a);
}

uint32_t fxi_auto_start(const fxi_auto *a)
{
    return a->start;
}

static fxi_byte_set bytes_of_top(const fxi_gram *g, const fxi_gram_frame *top)
{
    const fxi_gram_node *x = &g->node[top->node];
    if (x->kind == FXI_GRAM_SET) return g->set[x->at];
    fxi_byte_set one = {{0}};
    fxi_byte_put(&one, (uint8_t)g->text.p[x->at + top->at]);
    return one;
}

static bool accepts_byte(const fxi_gram *g, const fxi_gram_frame *top, uint8_t byte)
{
    const fxi_gram_node *x = &g->node[top->node];
    if (x->kind == FXI_GRAM_SET) return fxi_byte_in(&g->set[x->at], byte);
    return (uint8_t)g->text.p[x->at + top->at] == byte;
}

static fx_status find_move(fxi_auto *a, uint32_t state, uint8_t byte, uint32_t *next, fx_error *err)
{
    const fxi_gram_stack_set set = a->stacks.set[state];
    begin_closure(a);
    for (uint32_t i = 0; i < set.n; i++) {
        const fxi_gram_frame top = a->stacks.frame[set.first + i];
        const fxi_gram_node *x = &a->g->node[top.node];
        if (!accepts_byte(a->g, &top, byte)) continue;
        if (x->kind == FXI_GRAM_TEXT && top.at + 1 < x->n)
            FX_TRY(add_top(a, (fxi_gram_frame){top.node, top.at + 1, top.rest}, err));
        else
            FX_TRY(queue_work(a, RESUME, top.rest, err));
    }
    return end_closure(a, next, err);
}

// Finds or makes the row of a state. NULL: out of memory.
static uint32_t *moves_of(fxi_auto *a, uint32_t state)
{
    if (!fxi_grow_to(&a->row, sizeof *a->row, state, 0xff, &a->n_row, &a->cap_row)) return NULL;
    if (a->row[state] == FXI_AUTO_UNKNOWN) {
        const size_t row_bytes = a->n_class * sizeof *a->move;
        if (!fxi_grow(&a->move, row_bytes, a->n_move, &a->cap_move)) return NULL;
        memset(a->move + a->n_move * a->n_class, 0xff, row_bytes);
        a->row[state] = (uint32_t)a->n_move++;
    }
    return a->move + a->row[state] * a->n_class;
}

// The bytes that the same tops accept as this one.
static fxi_byte_set bytes_like(const fxi_auto *a, uint32_t state, uint8_t byte)
{
    const fxi_gram_stack_set set = a->stacks.set[state];
    fxi_byte_set like;
    memset(&like, 0xff, sizeof like);
    for (uint32_t i = 0; i < set.n; i++) {
        const fxi_byte_set of = bytes_of_top(a->g, &a->stacks.frame[set.first + i]);
        const uint64_t other = fxi_byte_in(&of, byte) ? 0 : UINT64_MAX;
        for (int w = 0; w < 4; w++) like.word[w] &= of.word[w] ^ other;
    }
    return like;
}

fx_status fxi_auto_step(fxi_auto *a, uint32_t state, uint8_t byte, uint32_t *next, fx_error *err)
{
    uint32_t *moves = moves_of(a, state);
    if (!moves) return fxi_fail_memory(err);
    *next = moves[a->class_of[byte]];
    if (*next != FXI_AUTO_UNKNOWN) return FX_OK;
    FX_TRY(find_move(a, state, byte, next, err));
    const fxi_byte_set like = bytes_like(a, state, byte); // they lead to the same state
    for (size_t c = 0; c < a->n_class; c++)
        if (fxi_byte_in(&like, a->byte_of[c])) moves[c] = *next;
    return FX_OK;
}

const uint32_t *fxi_auto_moves(const fxi_auto *a, uint32_t state)
{
    if (state >= a->n_row || a->row[state] == FXI_AUTO_UNKNOWN) return NULL;
    return a->move + a->row[state] * a->n_class;
}

// ---- what may come next -------------------------------------------------------------------------

bool fxi_auto_is_final(const fxi_auto *a, uint32_t state)
{
    return a->stacks.set[state].has_empty;
}

fxi_byte_set fxi_auto_bytes(const fxi_auto *a, uint32_t state)
{
    const fxi_gram_stack_set set = a->stacks.set[state];
    fxi_byte_set all = {{0}};
    for (uint32_t i = 0; i < set.n; i++) {
        const fxi_byte_set of = bytes_of_top(a->g, &a->stacks.frame[set.first + i]);
        for (int w = 0; w < 4; w++) all.word[w] |= of.word[w];
    }
    return all;
}

int fxi_auto_forced(const fxi_auto *a, uint32_t state)
{
    const fxi_byte_set all = fxi_auto_bytes(a, state);
    int forced = -1;
    if (fxi_auto_is_final(a, state)) return -1;
    for (int w = 0; w < 4; w++) {
        const uint64_t word = all.word[w];
        if (!word) continue;
        if (forced >= 0 || (word & (word - 1))) return -1;
        forced = 64 * w + __builtin_ctzll(word);
    }
    return forced;
}

fx_status fxi_auto_forced_text(fxi_auto *a, uint32_t *state, size_t max_bytes, fxi_buf *out,
                               fx_error *err)
{
    int forced;
    for (size_t n = 0; n < max_bytes && (forced = fxi_auto_forced(a, *state)) >= 0; n++) {
        const char byte = (char)forced;
        uint32_t next;
        FX_TRY(fxi_auto_step(a, *state, (uint8_t)forced, &next, err));
        if (!fxi_buf_add(out, &byte, 1)) return fxi_fail_memory(err);
        *state = next;
    }
    return FX_OK;
}

// ---- figures ------------------------------------------------------------------------------------

const uint8_t *fxi_auto_classes(const fxi_auto *a)
{
    return a->class_of;
}

size_t fxi_auto_n_work(const fxi_auto *a)
{
    return a->n_work_done;
}

void fxi_auto_limit_steps(fxi_auto *a, size_t max_step)
{
    a->close.max_step = max_step;
}

size_t fxi_auto_n_set(const fxi_auto *a)
{
    return a->stacks.n_set;
}

size_t fxi_auto_n_bytes(const fxi_auto *a)
{
    const closure *c = &a->close;
    return sizeof *a + fxi_gram_stacks_n_bytes(&a->stacks) + c->cap_work * sizeof *c->work +
           c->cap_top * sizeof *c->top + (c->seen ? (c->seen_mask + 1) * sizeof *c->seen : 0) +
           a->cap_row * sizeof *a->row + a->cap_move * a->n_class * sizeof *a->move;
}

// ---- normalized states --------------------------------------------------------------------------

void fxi_auto_normals_free(fxi_auto_normals *m)
{
    free(m->of);
    m->of = NULL;
    m->n = m->cap = 0;
}

static uint32_t normal_count(const fxi_gram *g, const fxi_gram_node *x, uint32_t count,
                             uint32_t reach)
{
    const uint32_t min = g->node[x->at].nullable ? 0 : x->min, far = reach + SPARE_ROUNDS;
    if (count & COUNT_FAR) return count;
    if (count < min && min - count > far) return COUNT_BELOW;
    if (x->max == FXI_GRAM_NO_MAX || x->max < count || x->max - count <= far) return count;
    return COUNT_FAR | (count < min ? count : min);
}

// The sets below are normalized.
static fx_status normalize_set(fxi_auto *a, fxi_auto_normals *m, uint32_t set, uint32_t *out,
                               fx_error *err)
{
    const fxi_gram_stack_set x = a->stacks.set[set];
    fxi_gram_frame *frame = calloc(x.n, sizeof *frame);
    bool differs = false;
    fx_status st = FX_OK;
    if (!frame) return fxi_fail_memory(err);
    for (uint32_t i = 0; i < x.n; i++) {
        const fxi_gram_frame *old = &a->stacks.frame[x.first + i];
        const fxi_gram_node *node = &a->g->node[old->node];
        frame[i] = (fxi_gram_frame){old->node, old->at, m->of[old->rest]};
        if (node->kind == FXI_GRAM_REPEAT)
            frame[i].at = normal_count(a->g, node, old->at, m->reach);
        differs = differs || frame[i].rest != old->rest || frame[i].at != old->at;
    }
    *out = set;
    if (differs) st = fxi_gram_stacks_put(&a->stacks, frame, x.n, x.has_empty, out, err);
    free(frame);
    if (st) return st;
    const uint32_t last = *out > set ? *out : set;
    if (!fxi_grow_to(&m->of, sizeof *m->of, last, 0, &m->n, &m->cap)) return fxi_fail_memory(err);
    m->of[set] = m->of[*out] = *out;
    return FX_OK;
}

// Recursive: a stack is no deeper than FXI_STACKS_MAX_DEPTH.
fx_status fxi_auto_normalize(fxi_auto *a, fxi_auto_normals *m, uint32_t set, uint32_t *out,
                             fx_error *err)
{
    *out = set <= FXI_STACKS_EMPTY ? set : fxi_auto_normal_known(m, set);
    const uint32_t last = set > FXI_STACKS_EMPTY ? set : FXI_STACKS_EMPTY;
    if (!fxi_grow_to(&m->of, sizeof *m->of, last, 0, &m->n, &m->cap)) return fxi_fail_memory(err);
    m->of[FXI_STACKS_EMPTY] = FXI_STACKS_EMPTY;
    if (*out || set == FXI_STACKS_NONE) return FX_OK;
    const fxi_gram_stack_set x = a->stacks.set[set];
    for (uint32_t i = 0; i < x.n; i++) {
        uint32_t rest;
        FX_TRY(fxi_auto_normalize(a, m, a->stacks.frame[x.first + i].rest, &rest, err));
    }
    return normalize_set(a, m, set, out, err);
}

// ---- characters beyond ASCII --------------------------------------------------------------------
//
// A set of characters is written as a choice of sequences of byte sets. If the multi-byte sequences
// and the ASCII byte leave the same stacks, they lead to the same state.

const fxi_utf8_row fxi_utf8_rows[FXI_N_UTF8_ROW] = {
    {0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1}, {0xE1, 0xEC, 0x80, 0xBF, 1},
    {0xED, 0xED, 0x80, 0x9F, 1}, {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
    {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2}};

static int count_accepted(const fxi_gram *g, uint32_t node, unsigned lo, unsigned hi)
{
    const fxi_gram_node *x = &g->node[node];
    int n = 0;
    for (unsigned b = lo; x->kind == FXI_GRAM_SET && b <= hi; b++)
        n += fxi_byte_in(&g->set[x->at], (uint8_t)b);
    return n;
}

static bool accepts_all(const fxi_gram *g, uint32_t node, unsigned lo, unsigned hi)
{
    return count_accepted(g, node, lo, hi) == (int)(hi - lo + 1);
}

// The only top that accepts any of these bytes, if it is a set and accepts all of them; else NULL.
static const fxi_gram_frame *only_top(const fxi_auto *a, uint32_t state, unsigned lo, unsigned hi)
{
    const fxi_gram *g = a->g;
    const fxi_gram_stacks *stacks = &a->stacks;
    const fxi_gram_stack_set set = stacks->set[state];
    const fxi_gram_frame *only = NULL;
    for (uint32_t i = 0; i < set.n; i++) {
        const fxi_gram_frame *top = &stacks->frame[set.first + i];
        const fxi_gram_node *x = &g->node[top->node];
        const uint8_t spelled = x->kind == FXI_GRAM_TEXT ? (uint8_t)g->text.p[x->at + top->at] : 0;
        if (x->kind == FXI_GRAM_TEXT && spelled >= lo && spelled <= hi) return NULL;
        if (!count_accepted(g, top->node, lo, hi)) continue;
        if (only || !accepts_all(g, top->node, lo, hi)) return NULL;
        only = top;
    }
    return only;
}

// Whether all characters of a row are one sequence of byte sets that leaves the stacks `rest`.
static bool row_leaves(const fxi_auto *a, uint32_t state, const fxi_utf8_row *r, uint32_t rest)
{
    const fxi_gram *g = a->g;
    const fxi_gram_stacks *stacks = &a->stacks;
    const fxi_gram_frame *top = only_top(a, state, r->first_lo, r->first_hi);
    if (!top || stacks->set[top->rest].n != 1 || stacks->set[top->rest].has_empty) return false;
    const fxi_gram_frame *next = &stacks->frame[stacks->set[top->rest].first];
    const fxi_gram_node *seq = &g->node[next->node];
    if (seq->kind != FXI_GRAM_SEQ || next->at != 1 || next->rest != rest ||
        seq->n != 2u + r->n_more ||
        !accepts_all(g, g->kid[seq->at + 1], r->second_lo, r->second_hi))
        return false;
    for (uint32_t i = 2; i < seq->n; i++)
        if (!accepts_all(g, g->kid[seq->at + i], 0x80, 0xBF)) return false;
    return true;
}

bool fxi_auto_wide_like_ascii(const fxi_auto *a, uint32_t state, uint8_t ascii)
{
    const fxi_gram_frame *top = only_top(a, state, ascii, ascii);
    size_t i = 0;
    while (top && i < FXI_N_UTF8_ROW && row_leaves(a, state, &fxi_utf8_rows[i], top->rest)) i++;
    return i == FXI_N_UTF8_ROW;
}
