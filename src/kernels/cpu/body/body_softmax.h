// body_softmax.h - the softmax of attention: a row of scores of one segment becomes weights.
// Written once for every vector unit (cpu.h).
// Needs: body_act.h.
#ifndef FXI_KERNELS_BODY_SOFTMAX_H
#define FXI_KERNELS_BODY_SOFTMAX_H

#include <math.h>

#include "kernels/cpu/body/body_act.h"

// Positions of a segment: from .. end - 1.
typedef struct attn_range {
    int from, end;
} attn_range;

enum { PART_M, PART_L, PART_ACC = FXI_ATTN_PART_ACC };

// The multiple of 16 below or at i >= 0.
static int whole_16(int i)
{
    return i & ~15;
}

// Not inlined, so that attention without a cap stays small.
static __attribute__((noinline)) void row_cap(float *s, attn_range row, float cap)
{
    const int from = whole_16(row.from);
    softcap_row(s + from, cap, row.end - from);
}

// Stores the largest of the scores of `row` in its partial result. Sets those around them,
// up to whole vectors, to -inf.
static void row_max(float *s, attn_range row, float *part)
{
    const v16 low = v16_set1(-INFINITY);
    const int from = row.from, end = row.end;
    float *first = s + whole_16(from), *last = s + whole_16(end);
    v16 max = low;
    if (end & 15) v16_store(last, v16_first(end & 15, v16_load(last), low));
    if (from & 15) v16_store(first, v16_first(from & 15, low, v16_load(first)));
    for (int i = whole_16(from); i < end; i += 16) max = v16_max(max, v16_load(s + i));
    part[PART_M] = v16_max_lane(max);
}

// Turns the scores of `row` into weights and stores their sum in the partial result; the
// range's other weights are 0.
static void row_weights(float *s, attn_range row, attn_range all, float *part)
{
    const v16 max = v16_set1(part[PART_M]);
    v16 sum = v16_zero();
    int i = whole_16(all.from);
    for (; i < whole_16(row.from); i += 16) v16_store(s + i, v16_zero());
    for (; i < row.end; i += 16) {
        v16 p = v16_exp(v16_sub(v16_load(s + i), max));
        v16_store(s + i, p);
        sum = v16_add(sum, p);
    }
    for (; i < all.end; i += 16) v16_store(s + i, v16_zero());
    part[PART_L] = v16_fold(sum);
}

#endif
