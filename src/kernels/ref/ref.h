// ref.h - the plain C statement of every operation: the order of kernels.h word by word, never
// optimised. The other paths are tested against it, and machines that support none of them run it.
#ifndef FXI_KERNELS_REF_H
#define FXI_KERNELS_REF_H

#include "kernels/kernels.h"
#include "kernels/probe.h"

extern const fxi_probe_loops fxi_probe_loops_ref;
extern const fxi_kernels fxi_kernels_ref;

// sum16 of the products a[i] * b[i].
float fxi_ref_sum_products(const float *a, const float *b, int n);

// ref_recurrent.c: members of the table.
void fxi_ref_recur_update(const fxi_recur *r);
void fxi_ref_recur_read(const fxi_recur *r);
void fxi_ref_recur_state(const fxi_recur *r, float *next);

#endif
