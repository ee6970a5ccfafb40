// gram_auto.c - states, their table of moves, and what may come next.
#include "grammar/run/gram_auto.h"

#include <stdlib.h>

#include "base/system/grow.h"
#include "grammar/run/gram_close.h"
#include "grammar/run/gram_near.h"

struct fxi_auto {
    const fxi_gram *form;
    fxi_gram_stacks stacks;
    fxi_gram_close close;
    uint8_t class_of[256], byte_of[256]; // byte_of: the first byte of a class
    size_t n_class;
    uint32_t *row;  // [n_row] of a set: where its row of `move` begins / n_class, or UNKNOWN
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
    const fxi_gram *g = a->form;
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

const uint8_t *fxi_auto_classes(const fxi_auto *a)
{
    return a->class_of;
}

size_t fxi_auto_n_work(const fxi_auto *a)
{
    return a->close.n_work_done;
}

void fxi_auto_set_patience(fxi_auto *a, size_t max_step)
{
    a->close.max_step = max_step;
}

size_t fxi_auto_n_set(const fxi_auto *a)
{
    return a->stacks.n_set;
}

size_t fxi_auto_n_bytes(const fxi_auto *a)
{
    return sizeof *a + fxi_gram_stacks_n_bytes(&a->stacks) + fxi_gram_close_n_bytes(&a->close) +
           a->cap_row * sizeof *a->row + a->cap_move * a->n_class * sizeof *a->move;
}

const fxi_gram *fxi_auto_form(const fxi_auto *a)
{
    return a->form;
}

const fxi_gram_stacks *fxi_auto_stacks(const fxi_auto *a)
{
    return &a->stacks;
}

// ---- states -------------------------------------------------------------------------------------

fx_status fxi_auto_make(const fxi_gram *form, size_t max_set, fxi_auto **out, fx_error *err)
{
    fxi_auto *a = calloc(1, sizeof *a);
    *out = NULL;
    if (!a) return fxi_fail(err, FX_ENOMEM, "out of memory");
    a->form = form;
    find_classes(a);
    fx_status st = fxi_gram_stacks_make(&a->stacks, max_set, err);
    a->close = (fxi_gram_close){.form = form, .stacks = &a->stacks};
    fxi_gram_close_begin(&a->close);
    if (!st) st = fxi_gram_close_enter(&a->close, form->root, FXI_STACKS_EMPTY, err);
    if (!st) st = fxi_gram_close_end(&a->close, &a->start, err);
    if (st)
        fxi_auto_free(a);
    else
        *out = a;
    return st;
}

void fxi_auto_free(fxi_auto *a)
{
    if (!a) return;
    fxi_gram_close_free(&a->close);
    fxi_gram_stacks_free(&a->stacks);
    free(a->row);
    free(a->move);
    free(a);
}

uint32_t fxi_auto_start(const fxi_auto *a)
{
    return a->start;
}

bool fxi_auto_is_final(const fxi_auto *a, uint32_t state)
{
    return a->stacks.set[state].has_empty;
}

static bool accepts_byte(const fxi_gram *g, const fxi_gram_frame *top, uint8_t byte)
{
    const fxi_gram_node *x = &g->node[top->node];
    if (x->kind == FXI_GRAM_SET) return fxi_byte_in(&g->set[x->at], byte);
    return (uint8_t)g->text.p[x->at + top->at] == byte;
}

// What a top becomes that has accepted its byte.
static fx_status pass_top(fxi_auto *a, const fxi_gram_frame *top, fx_error *err)
{
    const fxi_gram_node *x = &a->form->node[top->node];
    const fxi_gram_frame next = {top->node, top->at + 1, top->rest};
    if (x->kind == FXI_GRAM_TEXT && next.at < x->n) return fxi_gram_close_top(&a->close, next, err);
    return fxi_gram_close_resume(&a->close, top->rest, err);
}

static fx_status find_move(fxi_auto *a, uint32_t state, uint8_t byte, uint32_t *next, fx_error *err)
{
    const fxi_gram_stack_set set = a->stacks.set[state];
    fxi_gram_close_begin(&a->close);
    for (uint32_t i = 0; i < set.n; i++) {
        const fxi_gram_frame *top = &a->stacks.frame[set.first + i];
        if (accepts_byte(a->form, top, byte)) FX_TRY(pass_top(a, top, err));
    }
    return fxi_gram_close_end(&a->close, next, err);
}

// The row of a state, made if there is none. NULL: out of memory.
static uint32_t *moves_of(fxi_auto *a, uint32_t state)
{
    while (a->n_row <= state) {
        if (!fxi_grow(&a->row, sizeof *a->row, a->n_row, &a->cap_row)) return NULL;
        a->row[a->n_row++] = FXI_AUTO_UNKNOWN;
    }
    if (a->row[state] == FXI_AUTO_UNKNOWN) {
        const size_t row_bytes = a->n_class * sizeof *a->move;
        if (!fxi_grow(&a->move, row_bytes, a->n_move, &a->cap_move)) return NULL;
        memset(a->move + a->n_move * a->n_class, 0xff, row_bytes);
        a->row[state] = (uint32_t)a->n_move++;
    }
    return a->move + a->row[state] * a->n_class;
}

// The bytes that the same tops accept.
static fxi_byte_set bytes_like(const fxi_auto *a, uint32_t state, uint8_t byte)
{
    const fxi_gram *g = a->form;
    const fxi_gram_stack_set set = a->stacks.set[state];
    fxi_byte_set like;
    memset(&like, 0xff, sizeof like);
    for (uint32_t i = 0; i < set.n; i++) {
        const fxi_gram_frame *top = &a->stacks.frame[set.first + i];
        const fxi_gram_node *x = &g->node[top->node];
        const uint64_t other = accepts_byte(g, top, byte) ? 0 : UINT64_MAX;
        fxi_byte_set of = {{0}};
        if (x->kind == FXI_GRAM_SET)
            of = g->set[x->at];
        else
            fxi_byte_put(&of, (uint8_t)g->text.p[x->at + top->at]);
        for (int w = 0; w < 4; w++) like.word[w] &= of.word[w] ^ other;
    }
    return like;
}

// Bytes that the same tops accept lead to the same state: one search finds all of them.
static void spread_move(const fxi_auto *a, uint32_t state, uint8_t byte, uint32_t next,
                        uint32_t *moves)
{
    const fxi_byte_set like = bytes_like(a, state, byte);
    for (size_t c = 0; c < a->n_class; c++)
        if (fxi_byte_in(&like, a->byte_of[c])) moves[c] = next;
}

fx_status fxi_auto_step(fxi_auto *a, uint32_t state, uint8_t byte, uint32_t *next, fx_error *err)
{
    uint32_t *moves = moves_of(a, state);
    if (!moves) return fxi_fail(err, FX_ENOMEM, "out of memory");
    *next = moves[a->class_of[byte]];
    if (*next != FXI_AUTO_UNKNOWN) return FX_OK;
    FX_TRY(find_move(a, state, byte, next, err));
    spread_move(a, state, byte, *next, moves);
    return FX_OK;
}

const uint32_t *fxi_auto_moves(const fxi_auto *a, uint32_t state)
{
    if (state >= a->n_row || a->row[state] == FXI_AUTO_UNKNOWN) return NULL;
    return a->move + a->row[state] * a->n_class;
}

fx_status fxi_auto_near(fxi_auto *a, fxi_gram_near *near, uint32_t state, uint32_t *out,
                        fx_error *err)
{
    return fxi_gram_near_find(near, a->form, &a->stacks, state, out, err);
}

// ---- what may come next -------------------------------------------------------------------------

fxi_byte_set fxi_auto_bytes(const fxi_auto *a, uint32_t state)
{
    const fxi_gram *g = a->form;
    const fxi_gram_stack_set set = a->stacks.set[state];
    fxi_byte_set all = {0};
    for (uint32_t i = 0; i < set.n; i++) {
        const fxi_gram_frame *top = &a->stacks.frame[set.first + i];
        const fxi_gram_node *x = &g->node[top->node];
        if (x->kind == FXI_GRAM_TEXT)
            fxi_byte_put(&all, (uint8_t)g->text.p[x->at + top->at]);
        else
            for (int w = 0; w < 4; w++) all.word[w] |= g->set[x->at].word[w];
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
