// The path for AVX-512 F, BW, VL, DQ. The table of machines that also have VNNI is here too: it
// differs in one function.
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/vec512.h"

#include "kernels/cpu/body_ops.h"

#define TILE_TOK      12
#define TILE_PANELS   2
#define TILE_CASES(X) X(1) X(2) X(3) X(4) X(5) X(6) X(7) X(8) X(9) X(10) X(11) X(12)
#include "kernels/cpu/body_tile.h"

#define FEW_TOK      6
#define FEW_PANELS   4
#define FEW_CASES(X) X(1) X(2) X(3) X(4) X(5) X(6)
#include "kernels/cpu/body_attention.h"
#include "kernels/cpu/body_linear.h"

// Integer products without VNNI. VPMADDUBSW wants an unsigned and a signed side and saturates at 16
// bits: |w| <= 128 times the activation with w's sign, at most 127, in pairs: 2 x 128 x 127 fits.
typedef __m512i vq;

typedef struct vq_w {
    __m512i mag;
    __mmask64 negative;
} vq_w;

static inline vq vq_start(int32_t sum)
{
    (void)sum; // the weights are signed here
    return _mm512_setzero_si512();
}

static inline vq_w vq_load(const uint8_t *p)
{
    __m512i w = _mm512_xor_si512(_mm512_loadu_si512(p), _mm512_set1_epi8(-128));
    return (vq_w){_mm512_abs_epi8(w), _mm512_movepi8_mask(w)};
}

static inline vq vq_dot(vq acc, vq_w w, int32_t x)
{
    __m512i q = _mm512_set1_epi32(x);
    q = _mm512_mask_sub_epi8(q, w.negative, _mm512_setzero_si512(), q);
    __m512i pairs = _mm512_maddubs_epi16(w.mag, q);
    return _mm512_add_epi32(acc, _mm512_madd_epi16(pairs, _mm512_set1_epi16(1)));
}

static inline v16 vq_to_f32(vq acc)
{
    return _mm512_cvtepi32_ps(acc);
}

#define Q8_TOK    4
#define Q8_PANELS 2
#define Q8_CASES  Q8_CASE(1) Q8_CASE(2) Q8_CASE(3) Q8_CASE(4)
#include "kernels/cpu/body_q8.h"

#define PROBE_CHAINS 12
#include "kernels/cpu/body_probe.h"

#include "kernels/cpu/table.h"

PATH_TABLE(avx512, "avx512", q8_linear);
PATH_TABLE(avx512_vnni, "avx512-vnni", fxi_avx512_vnni_linear_q8_0);

const fxi_probe_loops fxi_probe_loops_avx512 = {probe_read, probe_fma, PROBE_CHAINS * 32.0, NULL,
                                                0};
const fxi_probe_loops fxi_probe_loops_avx512_vnni = {probe_read, probe_fma, PROBE_CHAINS * 32.0,
                                                     fxi_avx512_vnni_probe_int8, FXI_VNNI_PROBE_OP};
