// expf.h - e^x as a fixed sequence of operations, so that every path can repeat it bit by bit.
//
//   x is clamped to [-104, 89]: e^-104 rounds to 0, e^89 to inf
//   n = round to nearest even of x * log2(e)
//   r = x - n * ln 2, in two fused steps with ln 2 = HI + LO
//   e^r = 1 + (r + r^2 * P(r)), P of degree 5 (coefficients of the Cephes library), in fused steps
//   e^x = e^r * 2^n: exact, or rounded once if the result is subnormal
//
// Within 2 units in the last place of e^x; e^0 = 1, e^-inf = 0, NaN stays NaN.
#ifndef FXI_KERNELS_EXPF_H
#define FXI_KERNELS_EXPF_H

#define FXI_EXP_LO_X (-104.0f)
#define FXI_EXP_HI_X 89.0f
#define FXI_LOG2E    1.44269504088896341f
#define FXI_LN2_HI   0.693359375f
#define FXI_LN2_LO   -2.12194440e-4f
#define FXI_EXP_P5   1.9875691500e-4f
#define FXI_EXP_P4   1.3981999507e-3f
#define FXI_EXP_P3   8.3334519073e-3f
#define FXI_EXP_P2   4.1665795894e-2f
#define FXI_EXP_P1   1.6666665459e-1f
#define FXI_EXP_P0   5.0000001201e-1f

float fxi_expf(float x);

#endif
