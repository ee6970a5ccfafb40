// ref.h - the plain C statement of every operation: the order of kernels.h word by word, never
// optimised. The other paths are tested against it, and machines that support none of them run it.
#ifndef FXI_KERNELS_REF_H
#define FXI_KERNELS_REF_H

#include <math.h>

#include "kernels/kernels.h"
#include "kernels/probe.h"

extern const fxi_probe_loops fxi_probe_loops_ref;
extern const fxi_kernels fxi_kernels_ref;

// The end of sum16: overwrites lane.
static inline float fxi_ref_fold16(float lane[16])
{
    for (int half = 8; half; half /= 2)
        for (int j = 0; j < half; j++) lane[j] += lane[j + half];
    return lane[0];
}

// sum16 of the products a[i] * b[i].
static inline float fxi_ref_sum_products(const float *a, const float *b, int n)
{
    float lane[16] = {0};
    for (int i = 0; i < n; i++) lane[i % 16] = fmaf(a[i], b[i], lane[i % 16]);
    return fxi_ref_fold16(lane);
}

// ref_recurrent.c: members of the table.
void fxi_ref_recur_update(const fxi_recur *r);
void fxi_ref_recur_read(const fxi_recur *r);
void fxi_ref_recur_state(const fxi_recur *r, float *next);

#endif
