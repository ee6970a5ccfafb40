// mathf.h - e^x, tanh, erf, softplus as fixed sequences of operations, so that every path can
// repeat them bit by bit. P is a polynomial, evaluated from its highest coefficient on in fused
// steps.
//
// expf
//   x is clamped to [-104, 89]: e^-104 rounds to 0, e^89 to inf
//   n = round to nearest even of x * log2(e)
//   r = x - n * ln 2, in two fused steps with ln 2 = HI + LO
//   e^r = 1 + (r + r^2 * P(r)), P of degree 5 (coefficients of the Cephes library), in fused steps
//   e^x = e^r * 2^n: exact, or rounded once if the result is subnormal
// Within 2 units in the last place of e^x; e^0 = 1, e^-inf = 0, NaN stays NaN.
//
// tanhf
//   |x| < 0.625: fma(P(z) * z, x, x) with z = x * x, P of degree 4 (coefficients of Cephes)
//   otherwise 1 - 2 / (expf(|x| + |x|) + 1), with the sign of x
// Within 2 units in the last place; tanhf(-0) is +0.
//
// erff
//   |x| < 1: fma(P(x * x), x, x), P of degree 6, fitted to erf(x) / x - 1 (relative error 2e-9)
//   otherwise 1 - expf(P(t - 2.5)), t = |x|, at most 4, with the sign of x; P of degree 6, fitted
//   to the logarithm of 1 - erf
// Within 2 units in the last place.
//
// softplusf, the logarithm of 1 + e^x
//   e = expf(-|x|), s = e / (e + 2), z = s * s, t = s + s: log(1 + e) is fma(P(z) * z, t, t), P of
//   degree 4, fitted to (atanh(s) / s - 1) / z (error 1e-9); added to x if that is above 0, to +0
//   otherwise
// Within 3 units in the last place.
#ifndef FXI_KERNELS_MATHF_H
#define FXI_KERNELS_MATHF_H

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

// Coefficients from the highest power down.
#define FXI_TANH_SMALL 0.625f
#define FXI_TANH_P \
    -5.70498872745e-3f, 2.06390887954e-2f, -5.37397155531e-2f, 1.33314422036e-1f, -3.33332819422e-1f
#define FXI_ERF_SMALL 1.0f
#define FXI_ERF_SMALL_P                                                                         \
    7.8891195335e-5f, -8.0208412808e-4f, 5.1895353395e-3f, -2.6854444592e-2f, 1.1283600176e-1f, \
        -3.7612627136e-1f, 1.2837916591e-1f
#define FXI_ERF_MOST   4.0f
#define FXI_ERF_MIDDLE 2.5f
#define FXI_ERF_LARGE_P                                                                          \
    1.8557477991e-4f, -1.5599298316e-4f, 2.4577993020e-3f, -1.0717754700e-2f, -9.4388537070e-1f, \
        -5.3526939700e+0f, -7.8068178029e+0f
#define FXI_SOFTPLUS_P \
    1.1612164974e-1f, 1.0853287578e-1f, 1.4296178520e-1f, 1.9999852777e-1f, 3.3333334327e-1f

float fxi_expf(float x);
float fxi_tanhf(float x);
float fxi_erff(float x);
float fxi_softplusf(float x);

#endif
