// path_table.h - the last include of a path's .c file: the table of the functions that the bodies
// define.
#define PATH_TABLE(path, path_name, linear_quant_fn)  \
    const fxi_kernels fxi_kernels_##path = {          \
        .name = path_name,                            \
        .linear = {[FXI_F32] = linear_f32,            \
                   [FXI_F16] = linear_f16,            \
                   [FXI_BF16] = linear_bf16,          \
                   FXI_QUANT_TYPES(linear_quant_fn)}, \
        .quant_q8 = quant_q8,                         \
        .rms_norm = rms_norm,                         \
        .add = add_row,                               \
        .swiglu = swiglu,                             \
        .rope = rope,                                 \
        .store_kv = {[FXI_F32] = store_f32,           \
                     [FXI_F16] = store_f16,           \
                     [FXI_BF16] = store_bf16,         \
                     [FXI_Q8_0] = store_q8_0},        \
        .attention = attention_whole,                 \
        .attention_part = attention_part,             \
        .attention_merge = attention_merge,           \
    }
