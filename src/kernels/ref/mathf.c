// mathf.c - see mathf.h; mathf_text.h has the text.
#include "kernels/ref/mathf.h"

#define FXI_MATH_FN static inline
#include "kernels/ref/mathf_text.h"

float fxi_expf(float x)
{
    return mathf_exp(x);
}

float fxi_tanhf(float x)
{
    return mathf_tanh(x);
}

float fxi_erff(float x)
{
    return mathf_erf(x);
}

float fxi_softplusf(float x)
{
    return mathf_softplus(x);
}
