// cpu.h - the paths for x86 vector units. The .c files of a path are compiled with its -m flags and
// without sanitizers (CMakeLists.txt); dispatch.c checks the CPU before it uses a path. What the
// paths share is written once, in body/, against a small vocabulary of 16-lane vectors (v16_*, and
// vq_* for the integer products) that vec512.h, vec256.h and the .c files implement for an
// instruction set. The law of order is stated in 16 lanes, so the same body gives the same bits in
// each path.
#ifndef FXI_KERNELS_CPU_H
#define FXI_KERNELS_CPU_H

#include "kernels/kernels.h"
#include "kernels/probe.h"

extern const fxi_kernels fxi_kernels_avx2; // AVX2, FMA, F16C
extern const fxi_kernels fxi_kernels_avx2_vnni;
extern const fxi_kernels fxi_kernels_avx512; // AVX-512 F, BW, VL, DQ
extern const fxi_kernels fxi_kernels_avx512_vnni;

extern const fxi_probe_loops fxi_probe_loops_avx2, fxi_probe_loops_avx2_vnni,
    fxi_probe_loops_avx512, fxi_probe_loops_avx512_vnni;

// Intel's cores read memory in another way than AMD's: see docs/design/kernels.md.
#ifdef FXI_X86
static inline bool fxi_cpu_is_intel(void)
{
    return __builtin_cpu_is("intel");
}
#endif

// Layers with weights of block types. AVX-VNNI replaces those of the AVX2 path, AVX-512 VNNI those
// of the AVX-512 path.
fxi_linear_fn fxi_avx2_linear_quant, fxi_avx2_vnni_linear_quant;
fxi_linear_fn fxi_avx512_linear_quant, fxi_avx512_vnni_linear_quant;

extern const fxi_probe_int8 fxi_avx2_vnni_probe[FXI_PROBE_N_RUN];
extern const fxi_probe_int8 fxi_avx512_vnni_probe[FXI_PROBE_N_RUN];

#endif
