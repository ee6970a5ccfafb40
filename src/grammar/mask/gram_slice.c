// gram_slice.c - one character of a slice: all of them lead to one state, to none, or it depends.
//
// Bytes of one class are looked at once. Characters beyond ASCII are all sequences of UTF-8.
#include "grammar/mask/gram_slice.h"

#include <stdlib.h>

#include "base/system/grow.h"
#include "grammar/run/gram_wide.h"

#define NOT_KNOWN UINT32_MAX       // yet
#define DEPENDS   (UINT32_MAX - 1) // on the character

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
    for (size_t i = 0; i < FXI_N_UTF8_ROW; i++) {
        const fxi_utf8_row *r = &fxi_utf8_rows[i];
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

// Any character that may stand in a string as it is. Where those of ASCII lead to one state, the
// others mostly do so by the look of the form.
static fx_status find_any_char(fxi_auto *a, uint32_t state, uint32_t *out, fx_error *err)
{
    common_state c = {NOT_KNOWN};
    FX_TRY(step_ascii(a, FXI_SLICE_CHARS_ALL, state, &c, err));
    if (c.state == DEPENDS || c.state == FXI_AUTO_DEAD || !fxi_auto_goes_wide(a, state, 'a'))
        FX_TRY(step_others(a, state, &c, err));
    *out = c.state;
    return FX_OK;
}

// One slice has the characters of all others: what they lead to in common, those do, too.
static fx_status find_common(fxi_slice_moves *m, size_t slice, uint32_t state, fx_error *err)
{
    uint32_t *move = &m->move[state * FXI_SLICE_REST];
    common_state c = {NOT_KNOWN};
    if (move[FXI_SLICE_CHARS_ALL] == NOT_KNOWN)
        FX_TRY(find_any_char(m->a, state, &move[FXI_SLICE_CHARS_ALL], err));
    if (slice == FXI_SLICE_CHARS_ALL || move[FXI_SLICE_CHARS_ALL] != DEPENDS) {
        move[slice] = move[FXI_SLICE_CHARS_ALL];
        return FX_OK;
    }
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

fx_status fxi_slice_find_run(fxi_slice_moves *m, fxi_mask_pay_book *pay, size_t slice,
                             uint32_t state, fxi_slice_run *out, fx_error *err)
{
    *out = (fxi_slice_run){.state = {state}};
    while (out->n < FXI_SLICE_CHARS) {
        FX_TRY(fxi_mask_pay(pay, 2, err));
        if (!reach_slices(m, state)) return fxi_fail(err, FX_ENOMEM, "out of memory");
        const uint32_t *next = &m->move[state * FXI_SLICE_REST + slice];
        if (*next == NOT_KNOWN) FX_TRY(find_common(m, slice, state, err));
        if (*next == FXI_AUTO_DEAD) return FX_OK;
        if (*next == DEPENDS) {
            out->n = -1;
            return FX_OK;
        }
        out->loops = out->loops || (!out->n && *next == state);
        state = out->state[++out->n] = *next;
    }
    return FX_OK;
}
