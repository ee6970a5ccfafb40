// path_table.h - the last include of a path's .c file: the table of the functions that the bodies
// define.
#define PATH_TABLE(path, path_name, linear_quant_fn)  \
    const fxi_kernels fxi_kernels_##path = {          \
        .name = path_name,                            \
        .linear = {[FXI_F32] = linear_f32,            \
                   [FXI_F16] = linear_f16,            \
                   [FXI_BF16] = linear_bf16,          \
                   FXI_QUANT_TYPES(linear_quant_fn)}, \
        .linear_group = SMALL_PANELS,                 \
        .quant_q8 = quant_q8,                         \
        .rms_norm = rms_norm,                         \
        .layer_norm = layer_norm,                     \
        .add = add_row,                               \
        .add_scaled = add_scaled,                     \
        .scale = scale_row,                           \
        .multiply = multiply_row,                     \
        .softcap = softcap_row,                       \
        .act = {[FXI_ACT_SILU] = act_silu,            \
                [FXI_ACT_GELU] = act_gelu,            \
                [FXI_ACT_GELU_ERF] = act_gelu_erf,    \
                [FXI_ACT_RELU] = act_relu,            \
                [FXI_ACT_SIGMOID] = act_sigmoid,      \
                [FXI_ACT_SOFTPLUS] = act_softplus,    \
                [FXI_ACT_RELU2] = act_relu2},         \
        .gate = {[FXI_ACT_SILU] = gate_silu,          \
                 [FXI_ACT_GELU] = gate_gelu,          \
                 [FXI_ACT_GELU_ERF] = gate_gelu_erf,  \
                 [FXI_ACT_RELU] = gate_relu,          \
                 [FXI_ACT_SIGMOID] = gate_sigmoid,    \
                 [FXI_ACT_SOFTPLUS] = gate_softplus,  \
                 [FXI_ACT_RELU2] = gate_relu2,        \
                 [FXI_ACT_CLAMPED] = gate_clamped},   \
        .rope = rope,                                 \
        .conv = conv_row,                             \
        .recur_update = recur_update,                 \
        .recur_read = recur_read,                     \
        .recur_state = recur_state,                   \
        .store_kv = {[FXI_F32] = store_f32,           \
                     [FXI_F16] = store_f16,           \
                     [FXI_BF16] = store_bf16,         \
                     [FXI_Q8_0] = store_q8_0},        \
        .attention = attention_whole,                 \
        .attention_part = attention_part,             \
        .attention_merge = attention_merge,           \
    }
