// avx512.c - the path for AVX-512 F, BW, VL, DQ. Also holds the table for machines with VNNI, which
// differs in one function.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec512.h"

#include "kernels/cpu/body/body_act.h"
#include "kernels/cpu/body/body_ops.h"

#define TILE_TOK      12
#define TILE_PANELS   2
#define TILE_CASES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#include "kernels/cpu/body/body_tile.h"

#define SMALL_TOK      6
#define SMALL_PANELS   4
#define SMALL_CASES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#define WIDE_TOK       256
#include "kernels/cpu/body/body_attention.h"
#include "kernels/cpu/body/body_linear.h"

#define RECUR_VECS 4
#define RECUR_ROWS 4
#include "kernels/cpu/body/body_recurrent.h"

#define PROBE_CHAINS 12
#include "kernels/cpu/float_loops.h"

#include "kernels/cpu/path_table.h"

PATH_TABLE(avx512, "avx512", fxi_avx512_linear_quant);
PATH_TABLE(avx512_vnni, "avx512-vnni", fxi_avx512_vnni_linear_quant);

const fxi_probe_loops fxi_probe_loops_avx512 = {probe_read, probe_fma, PROBE_CHAINS * 32.0, NULL};
const fxi_probe_loops fxi_probe_loops_avx512_vnni = {probe_read, probe_fma, PROBE_CHAINS * 32.0,
                                                     fxi_avx512_vnni_probe};
