// families.c - the table of architectures. A family of known parts is one row here; one with a new
// part needs a block for it as well.
#include "model/load/loading.h"

#include <stdio.h>
#include <string.h>

// Norms before each branch, and after each.
#define PRE  .attn_in = "attn_norm", .ffn_in = "ffn_norm"
#define POST .attn_out = "post_attention_norm", .ffn_out = "post_ffw_norm"

#define ENCODER (FXI_POST_NORM | FXI_EMBD_NORM | FXI_TOKEN_TYPES | FXI_READS_ALL)

static const fxi_family families[] = {
    {"llama", .rope = FXI_ROPE_PAIRS, .flags = FXI_GATED | FXI_SUMS_TO_1, PRE},
    {"mistral3", .rope = FXI_ROPE_PAIRS, .flags = FXI_GATED | FXI_SUMS_TO_1, PRE},
    {"qwen2", .rope = FXI_ROPE_HALVES, .flags = FXI_GATED, PRE},
    {"qwen3", .rope = FXI_ROPE_HALVES, .flags = FXI_GATED, PRE, .qk_norm = FXI_QK_HEAD},
    {"phi3", .rope = FXI_ROPE_HALVES, .flags = FXI_GATED, PRE},
    {"smollm3", .rope = FXI_ROPE_PAIRS, .flags = FXI_GATED, PRE, .no_rope_every = 4},
    {"granite", .rope = FXI_ROPE_PAIRS, .flags = FXI_GATED | FXI_LOGIT_DIVIDED, PRE},
    {"olmo2", .rope = FXI_ROPE_HALVES, .flags = FXI_GATED | FXI_PLAIN_WINDOWS, POST,
     .qk_norm = FXI_QK_ROW, .window_every = 4},
    {"gemma2", .rope = FXI_ROPE_HALVES, .act = FXI_ACT_GELU, .flags = FXI_GATED | FXI_EMBD_SQRT_DIM,
     PRE, POST, .window_every = 2, .square_layers = 46},
    {"gemma3", .rope = FXI_ROPE_HALVES, .act = FXI_ACT_GELU,
     .flags = FXI_GATED | FXI_EMBD_SQRT_DIM | FXI_PLAIN_WINDOWS, PRE, POST, .qk_norm = FXI_QK_HEAD,
     .window_every = 6, .window_base = 10000, .square_layers = 62},

    // With experts in some or all layers.
    {"qwen2moe", .rope = FXI_ROPE_HALVES, .flags = FXI_GATED, PRE},
    {"qwen3moe", .rope = FXI_ROPE_HALVES, .flags = FXI_GATED | FXI_SUMS_TO_1, PRE,
     .qk_norm = FXI_QK_HEAD},
    {"olmoe", .rope = FXI_ROPE_HALVES, .flags = FXI_GATED, PRE, .qk_norm = FXI_QK_ROW},
    {"granitemoe", .rope = FXI_ROPE_PAIRS, .flags = FXI_GATED | FXI_LOGIT_DIVIDED | FXI_SUMS_TO_1,
     PRE},
    {"gpt-oss", .rope = FXI_ROPE_HALVES, .act = FXI_ACT_CLAMPED,
     .flags = FXI_GATED | FXI_SINKS | FXI_SUMS_TO_1 | FXI_ROUGH_YARN, .attn_in = "attn_norm",
     .ffn_in = "post_attention_norm", .window_every = 2},

    // With layer norms.
    {"gpt2", FXI_NORM_LAYER, .act = FXI_ACT_GELU, .flags = FXI_LEARNED_POSITIONS, PRE},
    {"opt", FXI_NORM_LAYER, .act = FXI_ACT_RELU, .flags = FXI_LEARNED_POSITIONS | FXI_SMALL_OPT,
     PRE},
    {"gptneox", FXI_NORM_LAYER, .rope = FXI_ROPE_HALVES, .act = FXI_ACT_GELU_ERF, PRE},
    {"starcoder2", FXI_NORM_LAYER, .rope = FXI_ROPE_HALVES, .act = FXI_ACT_GELU, PRE},
    {"stablelm", FXI_NORM_LAYER, .rope = FXI_ROPE_HALVES, .flags = FXI_GATED, PRE,
     .qk_norm = FXI_QK_MAYBE},
    {"phi2", FXI_NORM_LAYER, .rope = FXI_ROPE_HALVES, .act = FXI_ACT_GELU, .flags = FXI_PARALLEL,
     PRE},
    {"command-r", FXI_NORM_LAYER, .rope = FXI_ROPE_PAIRS, .flags = FXI_GATED | FXI_PARALLEL, PRE,
     .qk_norm = FXI_QK_MAYBE},
    {"falcon", FXI_NORM_LAYER, .rope = FXI_ROPE_HALVES, .act = FXI_ACT_GELU_ERF,
     .flags = FXI_PARALLEL, .attn_in = "attn_norm_2", .ffn_in = "attn_norm"},

    // Those that embed texts and generate none.
    {"bert", FXI_NORM_LAYER, .attn_out = "attn_output_norm", .ffn_out = "layer_output_norm",
     .act = FXI_ACT_GELU_ERF, .flags = ENCODER | FXI_LEARNED_POSITIONS},
    {"nomic-bert", FXI_NORM_LAYER, .attn_out = "attn_output_norm", .ffn_out = "layer_output_norm",
     .rope = FXI_ROPE_HALVES, .flags = ENCODER | FXI_GATED},
    {"jina-bert-v3", FXI_NORM_LAYER, .attn_out = "attn_output_norm", .ffn_out = "layer_output_norm",
     .rope = FXI_ROPE_HALVES, .act = FXI_ACT_GELU_ERF, .flags = ENCODER},
    {"gemma-embedding", .rope = FXI_ROPE_HALVES, .act = FXI_ACT_GELU,
     .flags = FXI_GATED | FXI_EMBD_SQRT_DIM | FXI_PLAIN_WINDOWS | FXI_READS_ALL | FXI_DENSE, PRE,
     POST, .qk_norm = FXI_QK_HEAD, .window_every = 6, .window_base = 10000},
    {"modern-bert", FXI_NORM_LAYER, PRE, .rope = FXI_ROPE_HALVES, .act = FXI_ACT_GELU_ERF,
     .flags = FXI_GATED | FXI_EMBD_NORM | FXI_READS_ALL | FXI_FULL_FIRST | FXI_PLAIN_WINDOWS,
     .window_every = 3},
};

const fxi_family *fxi_family_find(fxi_str name)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++)
        if (fxi_str_is(name, families[i].name)) return &families[i];
    return NULL;
}

void fxi_family_list(char *out, size_t size_bytes)
{
    *out = 0;
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const size_t n = strlen(out);
        snprintf(out + n, size_bytes - n, "%s%s", i ? ", " : "", families[i].name);
    }
}
