// ref.h - the plain C statement of every operation: the law of kernels.h word by word, never
// optimised. The other paths are tested against it, and machines that support none of them run it.
#ifndef FXI_KERNELS_REF_H
#define FXI_KERNELS_REF_H

#include "kernels/kernels.h"
#include "kernels/probe_loops.h"

// ref_linear.c
fxi_linear_fn fxi_ref_linear_f32, fxi_ref_linear_f16, fxi_ref_linear_bf16, fxi_ref_linear_quant;

// ref_ops.c
float fxi_ref_fold16(float lane[16]);       // the end of sum16: overwrites lane
float fxi_ref_sum16(const float *a, int n); // sum16 of a[i]
void fxi_ref_quant_q8(const float *x, int n, int8_t *q, float *d, int32_t *sum);
void fxi_ref_rms_norm(const float *x, const float *w, int n, float eps, float *y);
void fxi_ref_layer_norm(const float *x, const float *w, const float *b, int n, float eps, float *y);
void fxi_ref_add(float *y, const float *x, int n);
void fxi_ref_add_scaled(float *y, const float *x, float f, int n);
void fxi_ref_scale(float *x, float f, int n);
float fxi_ref_cap_score(float x, float cap); // softcap of one number
void fxi_ref_softcap(float *x, float cap, int n);
void fxi_ref_rope(float *x, int n_head, int head_dim, int n_pair, const float *cos,
                  const float *sin);
void fxi_ref_store_f32(const float *src, int n, void *dst);
void fxi_ref_store_f16(const float *src, int n, void *dst);
void fxi_ref_store_bf16(const float *src, int n, void *dst);
void fxi_ref_store_q8_0(const float *src, int n, void *dst);

// ref_act.c
fxi_act_fn fxi_ref_act_silu, fxi_ref_act_gelu, fxi_ref_act_gelu_erf, fxi_ref_act_relu;
fxi_gate_fn fxi_ref_gate_silu, fxi_ref_gate_gelu, fxi_ref_gate_gelu_erf, fxi_ref_gate_relu,
    fxi_ref_gate_clamped;

// ref_attention.c
void fxi_ref_attention(const fxi_attn *a);
void fxi_ref_attention_part(const fxi_attn *a, int segment0, int segment1, float *part);
void fxi_ref_attention_merge(const fxi_attn *a, const float *part);

extern const fxi_probe_loops fxi_probe_loops_ref; // ref_probe.c
extern const fxi_kernels fxi_kernels_ref;         // ref_table.c

#endif
