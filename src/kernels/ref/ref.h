// ref.h - the plain C statement of every operation: the order of kernels.h word by word, never
// optimised. The other paths are tested against it, and machines that support none of them run it.
#ifndef FXI_KERNELS_REF_H
#define FXI_KERNELS_REF_H

#include "kernels/kernels.h"
#include "kernels/probe.h"

extern const fxi_probe_loops fxi_probe_loops_ref;
extern const fxi_kernels fxi_kernels_ref;

#endif
