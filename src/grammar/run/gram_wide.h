// gram_wide.h - characters beyond ASCII, all at once.
#ifndef FXI_GRAMMAR_WIDE_H
#define FXI_GRAMMAR_WIDE_H

#include "grammar/run/gram_auto.h"

// All characters beyond ASCII as sequences of bytes: by the first byte, what the second may be, and
// how many continuation bytes follow that.
typedef struct fxi_utf8_row {
    uint8_t first_lo, first_hi, second_lo, second_hi;
    uint8_t n_more;
} fxi_utf8_row;

enum { FXI_N_UTF8_ROW = 8 };
extern const fxi_utf8_row fxi_utf8_rows[FXI_N_UTF8_ROW];

// Whether every character beyond ASCII leads from this state where this byte of ASCII leads, by the
// look of the form: no move is made. False: it may be so nevertheless.
bool fxi_auto_goes_wide(const fxi_auto *a, uint32_t state, uint8_t ascii);

#endif
