// avx2.c - the path for AVX2 with FMA and F16C: a vector of 16 lanes is two registers. Also holds
// the table for machines with AVX-VNNI, which differs in one function.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec256.h"

#include "kernels/cpu/body/body_act.h"
#include "kernels/cpu/body/body_ops.h"

#define TILE_TOK      6
#define TILE_PANELS   1
#define TILE_CASES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#include "kernels/cpu/body/body_tile.h"

#define SMALL_TOK      3
#define SMALL_PANELS   2
#define SMALL_CASES(X) X(1) X(2) X(3)
#define WIDE_TOK       6
#include "kernels/cpu/body/body_attention.h"
#include "kernels/cpu/body/body_linear.h"

#define RECUR_VECS 2
#define RECUR_ROWS 2
#include "kernels/cpu/body/body_recurrent.h"

#define PROBE_CHAINS 6
#include "kernels/cpu/float_loops.h"

#include "kernels/cpu/path_table.h"

PATH_TABLE(avx2, "avx2", fxi_avx2_linear_quant);
PATH_TABLE(avx2_vnni, "avx2-vnni", fxi_avx2_vnni_linear_quant);

const fxi_probe_loops fxi_probe_loops_avx2 = {probe_read, probe_fma, PROBE_CHAINS * 32.0, NULL};
const fxi_probe_loops fxi_probe_loops_avx2_vnni = {probe_read, probe_fma, PROBE_CHAINS * 32.0,
                                                   fxi_avx2_vnni_probe};
