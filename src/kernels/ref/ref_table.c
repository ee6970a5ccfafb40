// ref_table.c - the table of the reference path.
#include "kernels/ref/ref.h"

const fxi_kernels fxi_kernels_ref = {
    .name = "ref",
    .linear = {[FXI_F32] = fxi_ref_linear_f32,
               [FXI_F16] = fxi_ref_linear_f16,
               [FXI_BF16] = fxi_ref_linear_bf16,
               FXI_QUANT_TYPES(fxi_ref_linear_quant)},
    .quant_q8 = fxi_ref_quant_q8,
    .rms_norm = fxi_ref_rms_norm,
    .add = fxi_ref_add,
    .swiglu = fxi_ref_swiglu,
    .rope = fxi_ref_rope,
    .store_kv = {[FXI_F32] = fxi_ref_store_f32,
                 [FXI_F16] = fxi_ref_store_f16,
                 [FXI_BF16] = fxi_ref_store_bf16,
                 [FXI_Q8_0] = fxi_ref_store_q8_0},
    .attention = fxi_ref_attention,
    .attention_part = fxi_ref_attention_part,
    .attention_merge = fxi_ref_attention_merge,
};
