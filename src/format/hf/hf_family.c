// hf_family.c - the table of families and what they have in common, and what config.json may leave
// out. The names of their tensors are in hf_names.h.
#include "format/hf/hf_names.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- common keys -------------------------------------------------------------------------------

const fxi_hf_key fxi_hf_common_keys[] = {
    {"vocab_size", "vocab_size", FXI_HF_U32},
    {"num_local_experts", "expert_count", FXI_HF_U32},
    {"num_experts", "expert_count", FXI_HF_U32},
    {"n_routed_experts", "expert_count", FXI_HF_U32},
    {"moe_num_experts", "expert_count", FXI_HF_U32},
    {"num_experts_per_tok", "expert_used_count", FXI_HF_U32},
    {"moe_topk", "expert_used_count", FXI_HF_U32},
    {"moe_k", "expert_used_count", FXI_HF_U32},
    {"n_group", "expert_group_count", FXI_HF_U32},
    {"topk_group", "expert_group_used_count", FXI_HF_U32},
    {"routed_scaling_factor", "expert_weights_scale", FXI_HF_F32},
    {"n_shared_experts", "expert_shared_count", FXI_HF_U32},
    {"num_shared_experts", "expert_shared_count", FXI_HF_U32},
    {"moe_num_shared_experts", "expert_shared_count", FXI_HF_U32},
    {"first_k_dense_replace", "leading_dense_block_count", FXI_HF_U32},
    {"moe_intermediate_size", "expert_feed_forward_length", FXI_HF_U32},
    {"shared_expert_intermediate_size", "expert_shared_feed_forward_length", FXI_HF_U32},
    {"norm_topk_prob", "expert_weights_norm", FXI_HF_BOOL},
    {.from = NULL},
};

const fxi_hf_neutral fxi_hf_common_neutral[] = {
    {"alibi", "false"},
    {"add_cross_attention", "false"},
    {"is_encoder_decoder", "false"},
    {"scale_attn_by_inverse_layer_idx", "false"},
    {"scale_attn_weights", "true"},
    {"clip_qkv", "null"},
    {.key = NULL},
};

// ---- keys of families --------------------------------------------------------------------------

static const fxi_hf_key gemma_keys[] = {
    {"attn_logit_softcapping", "attn_logit_softcapping", FXI_HF_F32},
    {"final_logit_softcapping", "final_logit_softcapping", FXI_HF_F32},
    {.from = NULL},
};

#define GRANITE_KEYS                                             \
    {"embedding_multiplier", "embedding_scale", FXI_HF_F32},     \
        {"residual_multiplier", "residual_scale", FXI_HF_F32},   \
        {"attention_multiplier", "attention.scale", FXI_HF_F32}, \
    {                                                            \
        "logits_scaling", "logit_scale", FXI_HF_F32              \
    }

static const fxi_hf_key granite_keys[] = {GRANITE_KEYS, {.from = NULL}};

static const fxi_hf_key granite_hybrid_keys[] = {
    {"mamba_d_conv", "ssm.conv_kernel", FXI_HF_U32},
    {"mamba_d_state", "ssm.state_size", FXI_HF_U32},
    {"mamba_n_groups", "ssm.group_count", FXI_HF_U32},
    {"mamba_n_heads", "ssm.time_step_rank", FXI_HF_U32},
    {"shared_intermediate_size", "expert_shared_feed_forward_length", FXI_HF_U32},
    GRANITE_KEYS,
    {.from = NULL},
};

static const fxi_hf_key delta_keys[] = {
    {"linear_conv_kernel_dim", "ssm.conv_kernel", FXI_HF_U32},
    {"linear_key_head_dim", "ssm.state_size", FXI_HF_U32},
    {"linear_num_key_heads", "ssm.group_count", FXI_HF_U32},
    {"linear_num_value_heads", "ssm.time_step_rank", FXI_HF_U32},
    {.from = NULL},
};

static const fxi_hf_key parallel_keys[] = {
    {"use_parallel_residual", "use_parallel_residual", FXI_HF_BOOL},
    {.from = NULL},
};

static const fxi_hf_key opt_keys[] = {
    {"do_layer_norm_before", "do_layer_norm_before", FXI_HF_BOOL},
    {.from = NULL},
};

static const fxi_hf_key cohere_keys[] = {
    {"logit_scale", "logit_scale", FXI_HF_F32},
    {.from = NULL},
};

static const fxi_hf_key gptoss_keys[] = {
    {"experts_per_token", "expert_used_count", FXI_HF_U32},
    {"intermediate_size", "expert_feed_forward_length", FXI_HF_U32},
    {.from = NULL},
};

static const fxi_hf_key deepseek_keys[] = {
    {"q_lora_rank", "attention.q_lora_rank", FXI_HF_U32},
    {"kv_lora_rank", "attention.kv_lora_rank", FXI_HF_U32},
    {.from = NULL},
};

static const fxi_hf_key lfm2_keys[] = {
    {"conv_L_cache", "shortconv.l_cache", FXI_HF_U32},
    {.from = NULL},
};

// ---- what families refuse ----------------------------------------------------------------------

static const fxi_hf_neutral opt_neutral[] = {{"_remove_final_layer_norm", "false"}, {.key = NULL}};
static const fxi_hf_neutral bert_neutral[] = {
    {"position_embedding_type", "absolute"}, {"is_decoder", "false"}, {.key = NULL}};
// hidden_act is what transformers writes; activation_function is what the published files have.
static const fxi_hf_neutral nomic_neutral[] = {{"activation_function", "swiglu"},
                                               {"hidden_act", "silu"},
                                               {"causal", "false"},
                                               {"prenorm", "false"},
                                               {"parallel_block", "false"},
                                               {"rotary_emb_interleaved", "false"},
                                               {"rotary_emb_scale_base", "null"},
                                               {"use_rms_norm", "false"},
                                               {.key = NULL}};
static const fxi_hf_neutral hunyuan_neutral[] = {
    {"use_cla", "false"}, {"use_qk_norm", "true"}, {.key = NULL}};
static const fxi_hf_neutral minimax_neutral[] = {{"qk_norm_type", "per_layer"}, {.key = NULL}};
static const fxi_hf_neutral bailing_neutral[] = {{"use_qk_norm", "true"},
                                                 {"norm_softmax", "false"},
                                                 {"norm_head", "false"},
                                                 {"score_function", "sigmoid"},
                                                 {.key = NULL}};
static const fxi_hf_neutral both_ways_neutral[] = {{"use_bidirectional_attention", "true"},
                                                   {.key = NULL}};
static const fxi_hf_neutral one_way_neutral[] = {{"use_bidirectional_attention", "false"},
                                                 {.key = NULL}};
static const fxi_hf_neutral deepseek_neutral[] = {{"rope_interleave", "true"}, {.key = NULL}};
static const fxi_hf_neutral falcon_neutral[] = {{"parallel_attn", "true"}, {.key = NULL}};
static const fxi_hf_neutral cohere_neutral[] = {{"use_qk_norm", "false"}, {.key = NULL}};
static const fxi_hf_neutral phi_neutral[] = {{"qk_layernorm", "false"}, {.key = NULL}};

// ---- families ----------------------------------------------------------------------------------

#define PAIRS "ForSequenceClassification"

#define BERT (FXI_HF_LAYER_NORM | FXI_HF_NO_ROPE | FXI_HF_ENCODER)

#define QWEN2_VL                                \
    .act = "silu", .window = FXI_HF_FROM_LAYER, \
    .defaults = "\"rope_theta\": 1000000, \"max_position_embeddings\": 32768"

#define BAILING                                                                                 \
    .flags = FXI_HF_SIGMOID, .act = "silu", .names = bailing_names, .neutral = bailing_neutral, \
    .defaults = EPS_1E6 ", \"norm_topk_prob\": true, \"head_dim\": 128"

#define EPS_1E6  "\"rms_norm_eps\": 1e-6"
#define EPS_1E12 "\"layer_norm_eps\": 1e-12"
#define TIED     "\"tie_word_embeddings\": true"
#define LATENT_SIZES                                                               \
    "\"kv_lora_rank\": 512, \"qk_nope_head_dim\": 128, \"qk_rope_head_dim\": 64, " \
    "\"v_head_dim\": 128"
#define DEEPSEEK3                                                                                 \
    EPS_1E6 ", " LATENT_SIZES ", \"n_group\": 8, \"topk_group\": 4, \"num_experts_per_tok\": 8, " \
            "\"norm_topk_prob\": true, \"routed_scaling_factor\": 2.5, "                          \
            "\"moe_intermediate_size\": 2048, \"max_position_embeddings\": 4096"
#define DEEPSEEK \
    .act = "silu", .names = deepseek_names, .keys = deepseek_keys, .neutral = deepseek_neutral
#define DELTA                                                                     \
    EPS_1E6 ", \"head_dim\": 256, \"partial_rotary_factor\": 0.25, "              \
            "\"max_position_embeddings\": 32768, \"linear_conv_kernel_dim\": 4, " \
            "\"linear_key_head_dim\": 128, \"linear_value_head_dim\": 128, "      \
            "\"linear_num_key_heads\": 16, \"linear_num_value_heads\": 32"
#define GEMMA                                                                      \
    EPS_1E6 ", " TIED ", \"num_attention_heads\": 8, \"num_key_value_heads\": 4, " \
            "\"head_dim\": 256, \"query_pre_attn_scalar\": 256, \"sliding_window\": 4096, "

// Where rotary embedding has halves in GGUF, too, and nothing else is special, a row has no flags.
static const fxi_hf_family families[] = {
    {"llama", "llama", .flags = FXI_HF_PAIRS, .act = "silu", .defaults = EPS_1E6},
    {"internlm3", "llama", .flags = FXI_HF_PAIRS, .act = "silu",
     .defaults = "\"head_dim\": 128, \"max_position_embeddings\": 32768"},
    {"mistral", "llama", .flags = FXI_HF_PAIRS, .act = "silu", .window = FXI_HF_EVERY,
     .defaults = EPS_1E6 ", \"num_key_value_heads\": 8, \"sliding_window\": 4096, "
                         "\"max_position_embeddings\": 131072"},
    {"ministral", "llama", .flags = FXI_HF_PAIRS, .act = "silu", .window = FXI_HF_EVERY,
     .defaults = EPS_1E6 ", \"num_key_value_heads\": 8, \"sliding_window\": 4096, "
                         "\"max_position_embeddings\": 131072"},
    {"mixtral", "llama", .flags = FXI_HF_PAIRS, .act = "silu", .window = FXI_HF_EVERY,
     .defaults = "\"num_key_value_heads\": 8, \"num_local_experts\": 8, "
                 "\"num_experts_per_tok\": 2, \"rope_theta\": 1000000, "
                 "\"max_position_embeddings\": 131072"},
    {"ministral3", "mistral3", .flags = FXI_HF_PAIRS, .act = "silu", .window = FXI_HF_EVERY,
     .defaults = "\"num_key_value_heads\": 8, \"head_dim\": 128"},
    {"qwen2", "qwen2", .act = "silu", .window = FXI_HF_FROM_LAYER,
     .defaults = EPS_1E6 ", \"max_position_embeddings\": 32768"},
    {"qwen3", "qwen3", .act = "silu", .window = FXI_HF_FROM_LAYER,
     .defaults = EPS_1E6 ", \"head_dim\": 128, \"max_position_embeddings\": 32768"},
    {"qwen2_moe", "qwen2moe", .act = "silu", .window = FXI_HF_FROM_LAYER,
     .defaults = EPS_1E6 ", \"norm_topk_prob\": false, \"max_position_embeddings\": 32768"},
    {"qwen3_moe", "qwen3moe", .act = "silu", .window = FXI_HF_FROM_LAYER,
     .defaults = EPS_1E6 ", \"norm_topk_prob\": false, \"max_position_embeddings\": 32768"},
    {"qwen2_vl", "qwen2vl", QWEN2_VL},
    {"qwen2_vl_text", "qwen2vl", QWEN2_VL},
    {"qwen2_5_vl", "qwen2vl", QWEN2_VL},
    {"qwen2_5_vl_text", "qwen2vl", QWEN2_VL},
    {"qwen3_vl_text", "qwen3vl", .act = "silu",
     .defaults = EPS_1E6 ", \"head_dim\": 128, \"rope_theta\": 5000000, "
                         "\"max_position_embeddings\": 128000"},
    {"qwen3_vl_moe_text", "qwen3vlmoe", .act = "silu",
     .defaults = EPS_1E6 ", \"norm_topk_prob\": true, \"rope_theta\": 5000000, "
                         "\"max_position_embeddings\": 128000"},
    {"qwen3_next", "qwen3next", .flags = FXI_HF_PLUS_1 | FXI_HF_STATES, .act = "silu",
     .names = qwen3_next_names, .keys = delta_keys, .defaults = DELTA ", \"norm_topk_prob\": true"},
    {"qwen3_5_text", "qwen35", .flags = FXI_HF_PLUS_1 | FXI_HF_STATES | FXI_HF_TILED, .act = "silu",
     .names = qwen3_5_names, .keys = delta_keys, .defaults = DELTA},
    {"qwen3_5_moe_text", "qwen35moe", .flags = FXI_HF_PLUS_1 | FXI_HF_STATES | FXI_HF_TILED,
     .act = "silu", .names = qwen3_5_names, .keys = delta_keys, .defaults = DELTA},
    {"phi3", "phi3", .act = "silu", .window = FXI_HF_EVERY,
     .defaults = "\"max_position_embeddings\": 4096"},
    {"phi", "phi2", .flags = FXI_HF_LAYER_NORM, .act = "gelu_new", .names = phi_names,
     .neutral = phi_neutral, .defaults = "\"partial_rotary_factor\": 0.5"},
    {"gemma", "gemma", .flags = FXI_HF_PLUS_1,
     .defaults = EPS_1E6 ", " TIED ", \"num_attention_heads\": 16, \"head_dim\": 256, "
                         "\"max_position_embeddings\": 8192"},
    {"gemma2", "gemma2", .flags = FXI_HF_PLUS_1, .window = FXI_HF_PATTERN, .window_every = 2,
     .names = gemma_names, .keys = gemma_keys,
     .defaults = GEMMA "\"attn_logit_softcapping\": 50, \"final_logit_softcapping\": 30, "
                       "\"max_position_embeddings\": 8192"},
    {"gemma3_text", "gemma-embedding", .task = "Gemma3TextModel",
     .flags = FXI_HF_PLUS_1 | FXI_HF_ENCODER | FXI_HF_DENSE, .window = FXI_HF_PATTERN,
     .window_every = 6, .names = gemma_names, .keys = gemma_keys, .neutral = both_ways_neutral,
     .defaults = GEMMA "\"vocab_size\": 262208, \"rope_theta\": 1000000, "
                       "\"max_position_embeddings\": 131072, "
                       "\"use_bidirectional_attention\": false"},
    {"gemma3_text", "gemma3", .flags = FXI_HF_PLUS_1, .window = FXI_HF_PATTERN, .window_every = 6,
     .names = gemma_names, .keys = gemma_keys, .neutral = one_way_neutral,
     .defaults = GEMMA "\"vocab_size\": 262208, \"rope_theta\": 1000000, "
                       "\"max_position_embeddings\": 131072"},
    {"smollm3", "smollm3", .flags = FXI_HF_PAIRS, .act = "silu", .window = FXI_HF_FROM_LAYER,
     .defaults = EPS_1E6 ", " TIED ", \"rope_theta\": 2000000, \"max_position_embeddings\": 32768"},
    {"glm", "chatglm", .act = "silu",
     .defaults = "\"partial_rotary_factor\": 0.5, \"head_dim\": 128, \"rms_norm_eps\": 1.5625e-7"},
    {"glm4", "glm4", .act = "silu", .names = glm4_names,
     .defaults = "\"partial_rotary_factor\": 0.5, \"head_dim\": 128, \"rms_norm_eps\": 1.5625e-7"},
    {"seed_oss", "seed_oss", .act = "silu", .names = middle_names,
     .defaults = EPS_1E6 ", \"head_dim\": 128"},
    {"exaone4", "exaone4", .act = "silu", .window = FXI_HF_PATTERN, .window_every = 4,
     .names = olmo2_names},
    {"ernie4_5", "ernie4_5", .act = "silu",
     .defaults = TIED ", \"head_dim\": 128, \"rope_theta\": 500000, "
                      "\"max_position_embeddings\": 131072"},
    {"ernie4_5_moe", "ernie4_5-moe", .act = "silu", .names = ernie_names,
     .defaults = TIED ", \"rope_theta\": 500000, \"max_position_embeddings\": 131072"},
    {"hunyuan_v1_dense", "hunyuan-dense", .act = "silu", .names = hunyuan_names,
     .neutral = hunyuan_neutral},
    {"hunyuan_v1_moe", "hunyuan-moe", .act = "silu", .names = hunyuan_names,
     .neutral = hunyuan_neutral},
    {"glm4_moe", "glm4moe", .flags = FXI_HF_SIGMOID, .act = "silu", .names = middle_names,
     .defaults = "\"partial_rotary_factor\": 0.5, \"norm_topk_prob\": true, "
                 "\"max_position_embeddings\": 131072"},
    {"dots1", "dots1", .flags = FXI_HF_SIGMOID, .act = "silu", .window = FXI_HF_FROM_LAYER,
     .defaults = EPS_1E6 ", \"norm_topk_prob\": false"},
    {"bailing_moe", "bailingmoe2", .task = "BailingMoeV2ForCausalLM", BAILING},
    {"bailing_moe_v2", "bailingmoe2", BAILING},
    {"exaone_moe", "exaone-moe", .flags = FXI_HF_SIGMOID, .act = "silu", .window = FXI_HF_PATTERN,
     .window_every = 4, .names = exaonemoe_names,
     .defaults = "\"norm_topk_prob\": true, \"routed_scaling_factor\": 2.5, "
                 "\"sliding_window\": 4096"},
    {"minimax_m2", "minimax-m2", .flags = FXI_HF_SIGMOID, .act = "silu", .names = minimax_names,
     .neutral = minimax_neutral,
     .defaults = EPS_1E6 ", \"head_dim\": 128, \"rope_theta\": 5000000, "
                         "\"max_position_embeddings\": 196608"},
    {"olmo2", "olmo2", .act = "silu", .names = olmo2_names},
    {"olmo3", "olmo2", .act = "silu", .window = FXI_HF_PATTERN, .window_every = 4,
     .names = olmo2_names, .defaults = "\"rope_theta\": 500000, \"sliding_window\": 4096"},
    {"olmoe", "olmoe", .act = "silu",
     .defaults = "\"norm_topk_prob\": false, \"max_position_embeddings\": 4096"},
    {"granite", "granite", .flags = FXI_HF_PAIRS, .act = "silu", .keys = granite_keys,
     .defaults = EPS_1E6},
    {"granitemoeshared", "granitemoe", .flags = FXI_HF_PAIRS, .act = "silu",
     .names = granitemoe_names, .keys = granite_keys, .defaults = EPS_1E6},
    {"granitemoe", "granitemoe", .flags = FXI_HF_PAIRS, .act = "silu", .names = granitemoe_names,
     .keys = granite_keys, .defaults = EPS_1E6},
    {"granitemoehybrid", "granitehybrid", .flags = FXI_HF_PAIRS | FXI_HF_STATES | FXI_HF_MAMBA,
     .act = "silu", .names = granite_hybrid_names, .keys = granite_hybrid_keys,
     .defaults = EPS_1E6 ", \"mamba_d_conv\": 4, \"mamba_expand\": 2, \"mamba_n_groups\": 1, "
                         "\"mamba_d_state\": 256, \"mamba_n_heads\": 128"},
    {"nemotron_h", "nemotron_h",
     .flags = FXI_HF_NO_ROPE | FXI_HF_STATES | FXI_HF_MAMBA | FXI_HF_SPLIT, .names = nemotron_names,
     .keys = nemotron_keys, .neutral = nemotron_neutral,
     .defaults = "\"head_dim\": 128, \"conv_kernel\": 4, \"ssm_state_size\": 128, "
                 "\"n_groups\": 8, \"mamba_num_heads\": 128, \"mamba_head_dim\": 64"},
    {"stablelm", "stablelm", .flags = FXI_HF_LAYER_NORM, .act = "silu", .names = stablelm_names,
     .keys = parallel_keys,
     .defaults = "\"partial_rotary_factor\": 0.25, \"max_position_embeddings\": 4096"},
    {"starcoder2", "starcoder2", .flags = FXI_HF_LAYER_NORM, .act = "gelu_pytorch_tanh",
     .window = FXI_HF_EVERY, .names = starcoder2_names,
     .defaults = TIED ", \"max_position_embeddings\": 4096"},
    {"falcon", "falcon", .flags = FXI_HF_LAYER_NORM | FXI_HF_FFN_4X, .names = falcon_names,
     .neutral = falcon_neutral, .defaults = TIED},
    {"gpt2", "gpt2", .flags = FXI_HF_LAYER_NORM | FXI_HF_NO_ROPE | FXI_HF_FFN_4X, .act = "gelu_new",
     .names = gpt2_names, .defaults = TIED ", \"n_positions\": 1024"},
    {"gpt_neox", "gptneox", .flags = FXI_HF_LAYER_NORM, .act = "gelu", .names = gptneox_names,
     .keys = parallel_keys, .defaults = "\"rotary_pct\": 0.25, \"use_parallel_residual\": true"},
    {"opt", "opt", .flags = FXI_HF_LAYER_NORM | FXI_HF_NO_ROPE, .act = "relu", .names = opt_names,
     .keys = opt_keys, .neutral = opt_neutral, .defaults = TIED},
    {"cohere2", "cohere2", .flags = FXI_HF_LAYER_NORM, .act = "silu", .window = FXI_HF_PATTERN,
     .window_every = 4, .keys = cohere_keys,
     .defaults = TIED ", \"logit_scale\": 0.0625, \"sliding_window\": 4096, "
                      "\"max_position_embeddings\": 8192"},
    {"cohere", "command-r", .flags = FXI_HF_LAYER_NORM, .act = "silu", .keys = cohere_keys,
     .neutral = cohere_neutral,
     .defaults = TIED ", \"logit_scale\": 0.0625, \"rope_theta\": 500000, "
                      "\"max_position_embeddings\": 8192"},
    {"bert", "bert", .task = PAIRS, .flags = BERT | FXI_HF_SCORES, .act = "gelu",
     .names = bert_pair_names, .neutral = bert_neutral,
     .defaults = EPS_1E12 ", \"max_position_embeddings\": 512"},
    {"roberta", "bert", .task = PAIRS, .flags = BERT | FXI_HF_SCORES | FXI_HF_FROM_POSITION_2,
     .act = "gelu", .names = roberta_pair_names, .neutral = bert_neutral,
     .defaults = EPS_1E12 ", \"max_position_embeddings\": 512"},
    {"xlm-roberta", "bert", .task = PAIRS, .flags = BERT | FXI_HF_SCORES | FXI_HF_FROM_POSITION_2,
     .act = "gelu", .names = roberta_pair_names, .neutral = bert_neutral,
     .defaults = EPS_1E12 ", \"max_position_embeddings\": 512"},
    {"bert", "bert", .flags = BERT, .act = "gelu", .names = bert_names, .neutral = bert_neutral,
     .defaults = EPS_1E12 ", \"max_position_embeddings\": 512"},
    {"roberta", "bert", .flags = BERT | FXI_HF_FROM_POSITION_2, .act = "gelu",
     .names = roberta_names, .neutral = bert_neutral,
     .defaults = EPS_1E12 ", \"max_position_embeddings\": 512"},
    {"xlm-roberta", "bert", .flags = BERT | FXI_HF_FROM_POSITION_2, .act = "gelu",
     .names = roberta_names, .neutral = bert_neutral,
     .defaults = EPS_1E12 ", \"max_position_embeddings\": 512"},
    {"nomic_bert", "nomic-bert", .flags = FXI_HF_LAYER_NORM | FXI_HF_ENCODER, .names = nomic_names,
     .neutral = nomic_neutral, .defaults = EPS_1E12 ", \"rotary_emb_base\": 1000"},
    {"jina_embeddings_v3", "jina-bert-v3", .flags = FXI_HF_LAYER_NORM | FXI_HF_ENCODER,
     .act = "gelu", .names = jina3_names,
     .defaults = "\"rope_theta\": 20000, \"max_position_embeddings\": 8194"},
    {"modernbert", "modern-bert", .flags = FXI_HF_LAYER_NORM | FXI_HF_ENCODER, .act = "gelu",
     .window = FXI_HF_PATTERN, .window_every = 3, .names = modernbert_names,
     .defaults = "\"global_rope_theta\": 160000, \"local_rope_theta\": 10000, "
                 "\"local_attention\": 128, \"max_position_embeddings\": 8192"},
    {"deepseek_v2", "deepseek2", .flags = FXI_HF_LATENT, DEEPSEEK,
     .defaults = EPS_1E6 ", " LATENT_SIZES ", \"moe_intermediate_size\": 1407"},
    {"deepseek_v3", "deepseek2", .flags = FXI_HF_LATENT | FXI_HF_SIGMOID, DEEPSEEK,
     .defaults = DEEPSEEK3},
    {"kimi_k2", "deepseek2", .flags = FXI_HF_LATENT | FXI_HF_SIGMOID, DEEPSEEK,
     .defaults = DEEPSEEK3},
    {"glm4_moe_lite", "deepseek2", .flags = FXI_HF_LATENT | FXI_HF_SIGMOID, DEEPSEEK,
     .defaults = "\"kv_lora_rank\": 512, \"qk_nope_head_dim\": 192, \"qk_rope_head_dim\": 64, "
                 "\"v_head_dim\": 256, \"num_experts_per_tok\": 4, \"norm_topk_prob\": true, "
                 "\"routed_scaling_factor\": 1.8, \"moe_intermediate_size\": 1536, "
                 "\"max_position_embeddings\": 202752"},
    {"gpt_oss", "gpt-oss", .window = FXI_HF_PATTERN, .window_every = 2, .names = gptoss_names,
     .keys = gptoss_keys, .defaults = "\"sliding_window\": 128"},
    {"lfm2", "lfm2", .flags = FXI_HF_CONV, .names = lfm2_names, .keys = lfm2_keys,
     .defaults = TIED ", \"num_key_value_heads\": 8, \"rope_theta\": 1000000, "
                      "\"max_position_embeddings\": 128000, \"conv_L_cache\": 3"},
};

const fxi_hf_family *fxi_hf_family_find(fxi_str model_type, fxi_str architecture)
{
    for (size_t i = 0; i < sizeof families / sizeof *families; i++) {
        const fxi_hf_family *f = &families[i];
        if (fxi_str_is(model_type, f->model_type) &&
            (!f->task || fxi_str_ends_in(architecture, f->task)))
            return f;
    }
    return NULL;
}

void fxi_hf_family_list(char *out, size_t size_bytes)
{
    size_t n = 0;
    for (size_t i = 0; i < sizeof families / sizeof *families && n < size_bytes - 32; i++)
        if (!families[i].task)
            n += (size_t)snprintf(out + n, size_bytes - n, i ? ", %s" : "%s",
                                  families[i].model_type);
}

// ---- names of tensors: from those of a Hugging Face model to those of GGUF ----------------------

// A number of up to 6 digits at *at, which moves past it.
static bool take_index(const char **at, uint32_t *out)
{
    const size_t n = strspn(*at, "0123456789");
    if (!n || n > 6) return false;
    *out = (uint32_t)strtoul(*at, NULL, 10);
    *at += n;
    return true;
}

// Whether name [n] fits the pattern.
static bool fits_pattern(const char *pattern, const char *name, size_t n, fxi_hf_match *m)
{
    const char *at = name;
    for (; *pattern; pattern++) {
        if (*pattern == '#') {
            if (!take_index(&at, &m->layer)) return false;
        } else if (*pattern == '@') {
            if (!take_index(&at, &m->index)) return false;
        } else if (*at++ != *pattern) {
            return false;
        }
    }
    return at == name + n;
}

static const char *suffix_of(const char *name)
{
    static const char *const known[] = {".weight", ".bias"};
    const size_t n = strlen(name);
    for (size_t i = 0; i < sizeof known / sizeof *known; i++)
        if (fxi_str_ends_in((fxi_str){name, n}, known[i])) return name + n - strlen(known[i]);
    return name + n;
}

// The row's GGUF name, with the layer and the suffix put in.
static void put_target(const char *to, const char *suffix, fxi_hf_match *m)
{
    const char *mark = strchr(to, '#');
    if (*suffix_of(to)) suffix = "";
    if (mark)
        snprintf(m->to, sizeof m->to, "%.*s%u%s%s", (int)(mark - to), to, m->layer, mark + 1,
                 suffix);
    else
        snprintf(m->to, sizeof m->to, "%s%s", to, suffix);
}

static int match_rows(const fxi_hf_name *row, const char *name, fxi_hf_match *out)
{
    const char *suffix = suffix_of(name);
    int n = 0;
    for (; row && row->from && n < FXI_HF_MAX_MATCH; row++) {
        fxi_hf_match m = {.how = row->how};
        if (!fits_pattern(row->from, name, (size_t)(suffix - name), &m)) continue;
        put_target(row->to, suffix, &m);
        out[n++] = m;
    }
    return n;
}

int fxi_hf_match_name(const fxi_hf_family *family, const char *name,
                      fxi_hf_match out[FXI_HF_MAX_MATCH])
{
    // What names may begin with, in this order.
    static const char *const prefixes[] = {"model.language_model.",
                                           "language_model.model.",
                                           "language_model.",
                                           "model.decoder.",
                                           "decoder.",
                                           "transformer.",
                                           "gpt_neox.",
                                           "backbone.",
                                           "bert.",
                                           "roberta.",
                                           "model.",
                                           ""};
    int n = 0;
    for (size_t i = 0; !n && i < sizeof prefixes / sizeof *prefixes; i++) {
        const size_t k = strlen(prefixes[i]);
        if (strncmp(name, prefixes[i], k)) continue;
        n = match_rows(family->names, name + k, out);
        if (!n) n = match_rows(common_names, name + k, out);
    }
    return n;
}

fx_status fxi_hf_add_defaults(fxi_folder *f)
{
    char text[512];
    const fxi_json_rules rules = {.reals = true};
    const int n =
        snprintf(text, sizeof text, "{%s}", f->family->defaults ? f->family->defaults : "");
    if (fxi_json_parse(&f->defaults, (fxi_str){text, (size_t)n}, &rules, NULL) != FX_OK)
        return fxi_fail_memory(f->err);
    f->config.presets = f->defaults.root;
    return FX_OK;
}
