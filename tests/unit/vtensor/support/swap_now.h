// swap_now.h - swaps a sequence and waits until it has arrived.
#ifndef VT_TEST_SWAP_NOW_H
#define VT_TEST_SWAP_NOW_H

#include "vtensor/vtensor.h"

static inline vt_status swap_out_now(vt_seq *s)
{
    vt_status st = vt_seq_swap_out(s);
    return st == VT_BUSY ? vt_seq_wait(s) : st;
}

static inline vt_status swap_in_now(vt_seq *s)
{
    vt_status st = vt_seq_swap_in(s);
    return st == VT_BUSY ? vt_seq_wait(s) : st;
}

#endif
