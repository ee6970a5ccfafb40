// gram_slice.c - one character of a slice: all of them lead to one state, to none, or it depends.
//
// Bytes of one class are looked at once. Characters beyond ASCII are all sequences of UTF-8.
#include "grammar/mask/gram_slice.h"

#include <stdlib.h>

#include "base/system/grow.h"
#include "grammar/mask/gram_tokens.h"

enum { ALL_CHARS = FXI_SLICE_REST - 1 }; // the slice with those beyond ASCII
#define NOT_KNOWN UINT32_MAX             // yet
#define DEPENDS   (UINT32_MAX - 1)       // on the character

// The state that all characters so far lead to.
typedef struct common_state {
    uint32_t state; // NOT_KNOWN: no character was looked at
} common_state;

static void note_state(common_state *c, uint32_t state)
{
    if (c->state == NOT_KNOWN)
        c->state = state;
    else if (c->state != state)
        c->state = DEPENDS;
}

static fx_status step_ascii(fxi_auto *a, size_t slice, uint32_t state, common_state *c,
                            fx_error *err)
{
    const uint8_t *class_of = fxi_auto_classes(a);
    fxi_byte_set seen = {{0}};
    for (int b = 0; b < 0x80 && c->state != DEPENDS; b++) {
        uint32_t next;
        if (!fxi_slice_has(slice, (uint8_t)b) || fxi_byte_in(&seen, class_of[b])) continue;
        fxi_byte_put(&seen, class_of[b]);
        FX_TRY(fxi_auto_step(a, state, (uint8_t)b, &next, err));
        note_state(c, next);
    }
    return FX_OK;
}

// Sequences of UTF-8 by their first byte: what the second may be, and how many follow that.
static const struct utf8_row {
    uint8_t first_lo, first_hi, second_lo, second_hi;
    int n_more;
} utf8_rows[] = {{0xC2, 0xDF, 0x80, 0xBF, 0}, {0xE0, 0xE0, 0xA0, 0xBF, 1},
                 {0xE1, 0xEC, 0x80, 0xBF, 1}, {0xED, 0xED, 0x80, 0x9F, 1},
                 {0xEE, 0xEF, 0x80, 0xBF, 1}, {0xF0, 0xF0, 0x90, 0xBF, 2},
                 {0xF1, 0xF3, 0x80, 0xBF, 2}, {0xF4, 0xF4, 0x80, 0x8F, 2}};

// The bytes lo..hi, then n_more continuation bytes.
static fx_status step_bytes(fxi_auto *a, uint32_t state, uint8_t lo, uint8_t hi, int n_more,
                            common_state *c, fx_error *err)
{
    const uint8_t *class_of = fxi_auto_classes(a);
    fxi_byte_set seen = {{0}};
    for (int b = lo; b <= hi && c->state != DEPENDS; b++) {
        uint32_t next;
        if (fxi_byte_in(&seen, class_of[b])) continue;
        fxi_byte_put(&seen, class_of[b]);
        FX_TRY(fxi_auto_step(a, state, (uint8_t)b, &next, err));
        if (next == FXI_AUTO_DEAD || !n_more)
            note_state(c, next);
        else
            FX_TRY(step_bytes(a, next, 0x80, 0xBF, n_more - 1, c, err));
    }
    return FX_OK;
}

static fx_status step_others(fxi_auto *a, uint32_t state, common_state *c, fx_error *err)
{
    const uint8_t *class_of = fxi_auto_classes(a);
    for (size_t i = 0; i < sizeof utf8_rows / sizeof *utf8_rows; i++) {
        const struct utf8_row *r = &utf8_rows[i];
        fxi_byte_set seen = {{0}};
        for (int b = r->first_lo; b <= r->first_hi && c->state != DEPENDS; b++) {
            uint32_t next;
            if (fxi_byte_in(&seen, class_of[b])) continue;
            fxi_byte_put(&seen, class_of[b]);
            FX_TRY(fxi_auto_step(a, state, (uint8_t)b, &next, err));
            if (next == FXI_AUTO_DEAD)
                note_state(c, next);
            else
                FX_TRY(step_bytes(a, next, r->second_lo, r->second_hi, r->n_more, c, err));
        }
    }
    return FX_OK;
}

// The last slice has the characters of all others: what they lead to in common, those do, too.
static fx_status find_common(fxi_slice_moves *m, size_t slice, uint32_t state, fx_error *err)
{
    uint32_t *move = &m->move[state * FXI_SLICE_REST];
    common_state c = {NOT_KNOWN};
    if (move[ALL_CHARS] == NOT_KNOWN) {
        FX_TRY(step_ascii(m->a, ALL_CHARS, state, &c, err));
        FX_TRY(step_others(m->a, state, &c, err));
        move[ALL_CHARS] = c.state;
    }
    if (slice == ALL_CHARS || move[ALL_CHARS] != DEPENDS) {
        move[slice] = move[ALL_CHARS];
        return FX_OK;
    }
    c.state = NOT_KNOWN;
    FX_TRY(step_ascii(m->a, slice, state, &c, err));
    move[slice] = c.state;
    return FX_OK;
}

static bool reach_slices(fxi_slice_moves *m, uint32_t state)
{
    while (m->n_state <= state) {
        if (!fxi_grow(&m->move, FXI_SLICE_REST * sizeof *m->move, m->n_state, &m->cap))
            return false;
        for (size_t i = 0; i < FXI_SLICE_REST; i++)
            m->move[m->n_state * FXI_SLICE_REST + i] = NOT_KNOWN;
        m->n_state++;
    }
    return true;
}

void fxi_slice_moves_free(fxi_slice_moves *m)
{
    free(m->move);
    *m = (fxi_slice_moves){0};
}

fx_status fxi_slice_run(fxi_slice_moves *m, size_t slice, uint32_t state, int *out, fx_error *err)
{
    for (*out = 0; *out < FXI_SLICE_CHARS; ++*out) {
        if (!reach_slices(m, state)) return fxi_fail(err, FX_ENOMEM, "out of memory");
        uint32_t *next = &m->move[state * FXI_SLICE_REST + slice];
        if (*next == NOT_KNOWN) FX_TRY(find_common(m, slice, state, err));
        if (*next == FXI_AUTO_DEAD) return FX_OK;
        if (*next == DEPENDS) {
            *out = -1;
            return FX_OK;
        }
        if (*next == state) *out = FXI_SLICE_CHARS - 1;
        state = *next;
    }
    return FX_OK;
}
