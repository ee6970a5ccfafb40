// hf_family.c - the table of families and what they have in common, the names of their tensors, and
// what config.json may leave out.
#include "format/hf/hf_folder.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

// ---- common names ------------------------------------------------------------------------------

static const fxi_hf_name common_names[] = {
    {"embed_tokens", "token_embd", FXI_HF_SAME},
    {"norm", "output_norm", FXI_HF_SAME},
    {"lm_head", "output", FXI_HF_SAME},
    {"layers.#.input_layernorm", "blk.#.attn_norm", FXI_HF_SAME},
    {"layers.#.post_attention_layernorm", "blk.#.ffn_norm", FXI_HF_SAME},
    {"layers.#.self_attn.q_proj", "blk.#.attn_q", FXI_HF_SAME},
    {"layers.#.self_attn.k_proj", "blk.#.attn_k", FXI_HF_SAME},
    {"layers.#.self_attn.v_proj", "blk.#.attn_v", FXI_HF_SAME},
    {"layers.#.self_attn.o_proj", "blk.#.attn_output", FXI_HF_SAME},
    {"layers.#.self_attn.qkv_proj", "blk.#.attn_qkv", FXI_HF_SAME},
    {"layers.#.self_attn.q_norm", "blk.#.attn_q_norm", FXI_HF_SAME},
    {"layers.#.self_attn.k_norm", "blk.#.attn_k_norm", FXI_HF_SAME},
    {"layers.#.self_attn.rotary_emb.inv_freq", "", FXI_HF_SKIP},
    {"layers.#.mlp.gate_proj", "blk.#.ffn_gate", FXI_HF_SAME},
    {"layers.#.mlp.up_proj", "blk.#.ffn_up", FXI_HF_SAME},
    {"layers.#.mlp.down_proj", "blk.#.ffn_down", FXI_HF_SAME},
    {"layers.#.mlp.gate_up_proj", "blk.#.ffn_up", FXI_HF_SAME}, // gate rows, then up rows
    {"layers.#.mlp.gate", "blk.#.ffn_gate_inp", FXI_HF_SAME},
    {"layers.#.mlp.experts.@.gate_proj", "blk.#.ffn_gate_exps", FXI_HF_STACK},
    {"layers.#.mlp.experts.@.up_proj", "blk.#.ffn_up_exps", FXI_HF_STACK},
    {"layers.#.mlp.experts.@.down_proj", "blk.#.ffn_down_exps", FXI_HF_STACK},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_gate_exps.weight", FXI_HF_HALF_1},
    {"layers.#.mlp.experts.gate_up_proj", "blk.#.ffn_up_exps.weight", FXI_HF_HALF_2},
    {"layers.#.mlp.experts.down_proj", "blk.#.ffn_down_exps.weight", FXI_HF_SAME},
    {"layers.#.mlp.shared_expert.gate_proj", "blk.#.ffn_gate_shexp", FXI_HF_SAME},
    {"layers.#.mlp.shared_expert.up_proj", "blk.#.ffn_up_shexp", FXI_HF_SAME},
    {"layers.#.mlp.shared_expert.down_proj", "blk.#.ffn_down_shexp", FXI_HF_SAME},
    {"layers.#.mlp.shared_expert_gate", "blk.#.ffn_gate_inp_shexp", FXI_HF_FLAT},
    {"layers.#.block_sparse_moe.gate", "blk.#.ffn_gate_inp", FXI_HF_SAME},
    {"layers.#.block_sparse_moe.experts.@.w1", "blk.#.ffn_gate_exps", FXI_HF_STACK},
    {"layers.#.block_sparse_moe.experts.@.w3", "blk.#.ffn_up_exps", FXI_HF_STACK},
    {"layers.#.block_sparse_moe.experts.@.w2", "blk.#.ffn_down_exps", FXI_HF_STACK},
    {.from = NULL},
};

// ---- common keys -------------------------------------------------------------------------------

const fxi_hf_key fxi_hf_common_keys[] = {
    {"vocab_size", "vocab_size", FXI_HF_U32},
    {"num_local_experts", "expert_count", FXI_HF_U32},
    {"num_experts", "expert_count", FXI_HF_U32},
    {"num_experts_per_tok", "expert_used_count", FXI_HF_U32},
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

// ---- names of families -------------------------------------------------------------------------

static const fxi_hf_name gemma_names[] = {
    {"layers.#.post_attention_layernorm", "blk.#.post_attention_norm", FXI_HF_SAME},
    {"layers.#.pre_feedforward_layernorm", "blk.#.ffn_norm", FXI_HF_SAME},
    {"layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm", FXI_HF_SAME},
    {.from = NULL},
};

static const fxi_hf_name olmo2_names[] = {
    {"layers.#.post_attention_layernorm", "blk.#.post_attention_norm", FXI_HF_SAME},
    {"layers.#.post_feedforward_layernorm", "blk.#.post_ffw_norm", FXI_HF_SAME},
    {.from = NULL},
};

static const fxi_hf_name stablelm_names[] = {
    {"layers.#.self_attn.q_layernorm.norms.@", "blk.#.attn_q_norm", FXI_HF_STACK},
    {"layers.#.self_attn.k_layernorm.norms.@", "blk.#.attn_k_norm", FXI_HF_STACK},
    {.from = NULL},
};

static const fxi_hf_name phi_names[] = {
    {"final_layernorm", "output_norm", FXI_HF_SAME},
    {"layers.#.self_attn.dense", "blk.#.attn_output", FXI_HF_SAME},
    {"layers.#.mlp.fc1", "blk.#.ffn_up", FXI_HF_SAME},
    {"layers.#.mlp.fc2", "blk.#.ffn_down", FXI_HF_SAME},
    {.from = NULL},
};

static const fxi_hf_name starcoder2_names[] = {
    {"layers.#.mlp.c_fc", "blk.#.ffn_up", FXI_HF_SAME},
    {"layers.#.mlp.c_proj", "blk.#.ffn_down", FXI_HF_SAME},
    {.from = NULL},
};

static const fxi_hf_name falcon_names[] = {
    {"word_embeddings", "token_embd", FXI_HF_SAME},
    {"ln_f", "output_norm", FXI_HF_SAME},
    {"h.#.self_attention.query_key_value", "blk.#.attn_qkv", FXI_HF_QKV},
    {"h.#.self_attention.dense", "blk.#.attn_output", FXI_HF_SAME},
    {"h.#.input_layernorm", "blk.#.attn_norm", FXI_HF_SAME},
    {"h.#.ln_attn", "blk.#.attn_norm_2", FXI_HF_SAME},
    {"h.#.ln_mlp", "blk.#.attn_norm", FXI_HF_SAME},
    {"h.#.mlp.dense_h_to_4h", "blk.#.ffn_up", FXI_HF_SAME},
    {"h.#.mlp.dense_4h_to_h", "blk.#.ffn_down", FXI_HF_SAME},
    {.from = NULL},
};

static const fxi_hf_name gpt2_names[] = {
    {"wte", "token_embd", FXI_HF_SAME},
    {"wpe", "position_embd", FXI_HF_SAME},
    {"ln_f", "output_norm", FXI_HF_SAME},
    {"h.#.ln_1", "blk.#.attn_norm", FXI_HF_SAME},
    {"h.#.ln_2", "blk.#.ffn_norm", FXI_HF_SAME},
    {"h.#.attn.c_attn", "blk.#.attn_qkv", FXI_HF_TRANSPOSE},
    {"h.#.attn.c_proj", "blk.#.attn_output", FXI_HF_TRANSPOSE},
    {"h.#.mlp.c_fc", "blk.#.ffn_up", FXI_HF_TRANSPOSE},
    {"h.#.mlp.c_proj", "blk.#.ffn_down", FXI_HF_TRANSPOSE},
    {"h.#.attn", "", FXI_HF_SKIP}, // masks
    {"h.#.attn.masked_bias", "", FXI_HF_SKIP},
    {.from = NULL},
};

static const fxi_hf_name gptneox_names[] = {
    {"embed_in", "token_embd", FXI_HF_SAME},
    {"embed_out", "output", FXI_HF_SAME},
    {"final_layer_norm", "output_norm", FXI_HF_SAME},
    {"layers.#.post_attention_layernorm", "blk.#.ffn_norm", FXI_HF_SAME},
    {"layers.#.attention.query_key_value", "blk.#.attn_qkv", FXI_HF_QKV},
    {"layers.#.attention.dense", "blk.#.attn_output", FXI_HF_SAME},
    {"layers.#.mlp.dense_h_to_4h", "blk.#.ffn_up", FXI_HF_SAME},
    {"layers.#.mlp.dense_4h_to_h", "blk.#.ffn_down", FXI_HF_SAME},
    {"layers.#.attention", "", FXI_HF_SKIP}, // masks
    {"layers.#.attention.masked_bias", "", FXI_HF_SKIP},
    {"layers.#.attention.rotary_emb.inv_freq", "", FXI_HF_SKIP},
    {.from = NULL},
};

static const fxi_hf_name opt_names[] = {
    {"embed_positions", "position_embd", FXI_HF_FROM_2},
    {"final_layer_norm", "output_norm", FXI_HF_SAME},
    {"layers.#.self_attn_layer_norm", "blk.#.attn_norm", FXI_HF_SAME},
    {"layers.#.final_layer_norm", "blk.#.ffn_norm", FXI_HF_SAME},
    {"layers.#.self_attn.out_proj", "blk.#.attn_output", FXI_HF_SAME},
    {"layers.#.fc1", "blk.#.ffn_up", FXI_HF_SAME},
    {"layers.#.fc2", "blk.#.ffn_down", FXI_HF_SAME},
    {"project_in", "project_in", FXI_HF_SAME},
    {"project_out", "project_out", FXI_HF_SAME},
    {.from = NULL},
};

// The pooler and the heads for masked words are of no use to an embedding; BERT's pooler is a part
// of its head for pairs of texts.
#define ENCODER_NAMES                                                                       \
    {"embeddings.word_embeddings", "token_embd", FXI_HF_SAME},                              \
        {"embeddings.token_type_embeddings", "token_types", FXI_HF_SAME},                   \
        {"embeddings.position_ids", "", FXI_HF_SKIP}, {"pooler.dense", "", FXI_HF_SKIP},    \
        {"cls.predictions", "", FXI_HF_SKIP}, {"cls.predictions.decoder", "", FXI_HF_SKIP}, \
        {"cls.predictions.transform.dense", "", FXI_HF_SKIP},                               \
        {"cls.predictions.transform.LayerNorm", "", FXI_HF_SKIP},                           \
        {"cls.predictions.transform.layer_norm", "", FXI_HF_SKIP},                          \
        {"cls.seq_relationship", "", FXI_HF_SKIP}, {"lm_head", "", FXI_HF_SKIP},            \
        {"lm_head.dense", "", FXI_HF_SKIP}, {"lm_head.layer_norm", "", FXI_HF_SKIP},        \
        {"lm_head.decoder", "", FXI_HF_SKIP},                                               \
    {                                                                                       \
        .from = NULL                                                                        \
    }

#define BERT_NAMES(how_positions)                                                              \
    {"embeddings.position_embeddings", "position_embd", how_positions},                        \
        {"embeddings.LayerNorm", "token_embd_norm", FXI_HF_SAME},                              \
        {"encoder.layer.#.attention.self.query", "blk.#.attn_q", FXI_HF_SAME},                 \
        {"encoder.layer.#.attention.self.key", "blk.#.attn_k", FXI_HF_SAME},                   \
        {"encoder.layer.#.attention.self.value", "blk.#.attn_v", FXI_HF_SAME},                 \
        {"encoder.layer.#.attention.output.dense", "blk.#.attn_output", FXI_HF_SAME},          \
        {"encoder.layer.#.attention.output.LayerNorm", "blk.#.attn_output_norm", FXI_HF_SAME}, \
        {"encoder.layer.#.intermediate.dense", "blk.#.ffn_up", FXI_HF_SAME},                   \
        {"encoder.layer.#.output.dense", "blk.#.ffn_down", FXI_HF_SAME},                       \
        {"encoder.layer.#.output.LayerNorm", "blk.#.layer_output_norm", FXI_HF_SAME},          \
        ENCODER_NAMES

static const fxi_hf_name bert_names[] = {BERT_NAMES(FXI_HF_SAME)};
static const fxi_hf_name roberta_names[] = {BERT_NAMES(FXI_HF_FROM_2)};
static const fxi_hf_name bert_pair_names[] = {{"pooler.dense", "cls", FXI_HF_SAME},
                                              {"classifier", "cls.output", FXI_HF_SAME},
                                              BERT_NAMES(FXI_HF_SAME)};
static const fxi_hf_name roberta_pair_names[] = {{"classifier.dense", "cls", FXI_HF_SAME},
                                                 {"classifier.out_proj", "cls.output", FXI_HF_SAME},
                                                 BERT_NAMES(FXI_HF_FROM_2)};

static const fxi_hf_name nomic_names[] = {
    {"emb_ln", "token_embd_norm", FXI_HF_SAME},
    {"encoder.layers.#.attn.Wqkv", "blk.#.attn_qkv", FXI_HF_SAME},
    {"encoder.layers.#.attn.out_proj", "blk.#.attn_output", FXI_HF_SAME},
    {"encoder.layers.#.norm1", "blk.#.attn_output_norm", FXI_HF_SAME},
    {"encoder.layers.#.mlp.fc12", "blk.#.ffn_gate", FXI_HF_SAME},
    {"encoder.layers.#.mlp.fc11", "blk.#.ffn_up", FXI_HF_SAME},
    {"encoder.layers.#.mlp.fc2", "blk.#.ffn_down", FXI_HF_SAME},
    {"encoder.layers.#.norm2", "blk.#.layer_output_norm", FXI_HF_SAME},
    ENCODER_NAMES,
};

static const fxi_hf_name jina3_names[] = {
    {"emb_ln", "token_embd_norm", FXI_HF_SAME},
    {"encoder.layers.#.mixer.Wqkv", "blk.#.attn_qkv", FXI_HF_SAME},
    {"encoder.layers.#.mixer.out_proj", "blk.#.attn_output", FXI_HF_SAME},
    {"encoder.layers.#.norm1", "blk.#.attn_output_norm", FXI_HF_SAME},
    {"encoder.layers.#.mlp.fc1", "blk.#.ffn_up", FXI_HF_SAME},
    {"encoder.layers.#.mlp.fc2", "blk.#.ffn_down", FXI_HF_SAME},
    {"encoder.layers.#.norm2", "blk.#.layer_output_norm", FXI_HF_SAME},
    ENCODER_NAMES,
};

static const fxi_hf_name modernbert_names[] = {
    {"embeddings.tok_embeddings", "token_embd", FXI_HF_SAME},
    {"embeddings.norm", "token_embd_norm", FXI_HF_SAME},
    {"layers.#.attn_norm", "blk.#.attn_norm", FXI_HF_SAME},
    {"layers.#.attn.Wqkv", "blk.#.attn_qkv", FXI_HF_SAME},
    {"layers.#.attn.Wo", "blk.#.attn_output", FXI_HF_SAME},
    {"layers.#.mlp_norm", "blk.#.ffn_norm", FXI_HF_SAME},
    {"layers.#.mlp.Wi", "blk.#.ffn_up", FXI_HF_SAME}, // gate rows, then up rows
    {"layers.#.mlp.Wo", "blk.#.ffn_down", FXI_HF_SAME},
    {"final_norm", "output_norm", FXI_HF_SAME},
    {"head.dense", "", FXI_HF_SKIP}, // for masked words
    {"head.norm", "", FXI_HF_SKIP},
    {"decoder", "", FXI_HF_SKIP},
    {.from = NULL},
};

static const fxi_hf_name granitemoe_names[] = {
    {"layers.#.block_sparse_moe.router.layer", "blk.#.ffn_gate_inp", FXI_HF_SAME},
    {"layers.#.block_sparse_moe.input_linear", "blk.#.ffn_gate_exps", FXI_HF_HALF_1},
    {"layers.#.block_sparse_moe.input_linear", "blk.#.ffn_up_exps", FXI_HF_HALF_2},
    {"layers.#.block_sparse_moe.output_linear", "blk.#.ffn_down_exps", FXI_HF_SAME},
    {.from = NULL},
};

#define EXPERTS "layers.#.mlp.experts."

static const fxi_hf_name gptoss_names[] = {
    {"layers.#.post_attention_layernorm", "blk.#.post_attention_norm", FXI_HF_SAME},
    {"layers.#.self_attn.sinks", "blk.#.attn_sinks.weight", FXI_HF_SAME},
    {"layers.#.mlp.router", "blk.#.ffn_gate_inp", FXI_HF_SAME},
    {EXPERTS "gate_up_proj_blocks", "blk.#.ffn_gate_exps.weight", FXI_HF_MX_EVEN},
    {EXPERTS "gate_up_proj_blocks", "blk.#.ffn_up_exps.weight", FXI_HF_MX_ODD},
    {EXPERTS "gate_up_proj_scales", "", FXI_HF_SKIP}, // read with the blocks
    {EXPERTS "gate_up_proj", "blk.#.ffn_gate_exps.weight", FXI_HF_TRANSPOSE_EVEN},
    {EXPERTS "gate_up_proj", "blk.#.ffn_up_exps.weight", FXI_HF_TRANSPOSE_ODD},
    {EXPERTS "gate_up_proj_bias", "blk.#.ffn_gate_exps.bias", FXI_HF_EVEN},
    {EXPERTS "gate_up_proj_bias", "blk.#.ffn_up_exps.bias", FXI_HF_ODD},
    {EXPERTS "down_proj_blocks", "blk.#.ffn_down_exps.weight", FXI_HF_MX},
    {EXPERTS "down_proj_scales", "", FXI_HF_SKIP},
    {EXPERTS "down_proj", "blk.#.ffn_down_exps.weight", FXI_HF_TRANSPOSE},
    {EXPERTS "down_proj_bias", "blk.#.ffn_down_exps.bias", FXI_HF_SAME},
    {.from = NULL},
};

// ---- keys of families --------------------------------------------------------------------------

static const fxi_hf_key gemma_keys[] = {
    {"attn_logit_softcapping", "attn_logit_softcapping", FXI_HF_F32},
    {"final_logit_softcapping", "final_logit_softcapping", FXI_HF_F32},
    {.from = NULL},
};

static const fxi_hf_key granite_keys[] = {
    {"embedding_multiplier", "embedding_scale", FXI_HF_F32},
    {"residual_multiplier", "residual_scale", FXI_HF_F32},
    {"attention_multiplier", "attention.scale", FXI_HF_F32},
    {"logits_scaling", "logit_scale", FXI_HF_F32},
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
static const fxi_hf_neutral both_ways_neutral[] = {{"use_bidirectional_attention", "true"},
                                                   {.key = NULL}};
static const fxi_hf_neutral one_way_neutral[] = {{"use_bidirectional_attention", "false"},
                                                 {.key = NULL}};
static const fxi_hf_neutral falcon_neutral[] = {{"parallel_attn", "true"}, {.key = NULL}};
static const fxi_hf_neutral cohere_neutral[] = {{"use_qk_norm", "false"}, {.key = NULL}};
static const fxi_hf_neutral phi_neutral[] = {{"qk_layernorm", "false"}, {.key = NULL}};

// ---- families ----------------------------------------------------------------------------------

#define PAIRS "ForSequenceClassification"

#define BERT (FXI_HF_LAYER_NORM | FXI_HF_NO_ROPE | FXI_HF_ENCODER)

#define EPS_1E6  "\"rms_norm_eps\": 1e-6"
#define EPS_1E12 "\"layer_norm_eps\": 1e-12"
#define TIED     "\"tie_word_embeddings\": true"
#define GEMMA                                                                      \
    EPS_1E6 ", " TIED ", \"num_attention_heads\": 8, \"num_key_value_heads\": 4, " \
            "\"head_dim\": 256, \"query_pre_attn_scalar\": 256, \"sliding_window\": 4096, "

// Where rotary embedding has halves in GGUF, too, and nothing else is special, a row has no flags.
static const fxi_hf_family families[] = {
    {"llama", "llama", .flags = FXI_HF_PAIRS, .act = "silu", .defaults = EPS_1E6},
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
    {"phi3", "phi3", .act = "silu", .window = FXI_HF_EVERY,
     .defaults = "\"max_position_embeddings\": 4096"},
    {"phi", "phi2", .flags = FXI_HF_LAYER_NORM, .act = "gelu_new", .names = phi_names,
     .neutral = phi_neutral, .defaults = "\"partial_rotary_factor\": 0.5"},
    {"gemma2", "gemma2", .flags = FXI_HF_PLUS_1, .window = FXI_HF_PATTERN, .names = gemma_names,
     .keys = gemma_keys,
     .defaults = GEMMA "\"attn_logit_softcapping\": 50, \"final_logit_softcapping\": 30, "
                       "\"max_position_embeddings\": 8192"},
    {"gemma3_text", "gemma-embedding", .task = "Gemma3TextModel",
     .flags = FXI_HF_PLUS_1 | FXI_HF_ENCODER | FXI_HF_DENSE, .window = FXI_HF_PATTERN,
     .names = gemma_names, .keys = gemma_keys, .neutral = both_ways_neutral,
     .defaults = GEMMA "\"vocab_size\": 262208, \"rope_theta\": 1000000, "
                       "\"max_position_embeddings\": 131072, "
                       "\"use_bidirectional_attention\": false"},
    {"gemma3_text", "gemma3", .flags = FXI_HF_PLUS_1, .window = FXI_HF_PATTERN,
     .names = gemma_names, .keys = gemma_keys, .neutral = one_way_neutral,
     .defaults = GEMMA "\"vocab_size\": 262208, \"rope_theta\": 1000000, "
                       "\"max_position_embeddings\": 131072"},
    {"smollm3", "smollm3", .flags = FXI_HF_PAIRS, .act = "silu", .window = FXI_HF_FROM_LAYER,
     .defaults = EPS_1E6 ", " TIED ", \"rope_theta\": 2000000, \"max_position_embeddings\": 32768"},
    {"olmo2", "olmo2", .act = "silu", .names = olmo2_names},
    {"olmo3", "olmo2", .act = "silu", .window = FXI_HF_PATTERN, .names = olmo2_names,
     .defaults = "\"rope_theta\": 500000, \"sliding_window\": 4096"},
    {"olmoe", "olmoe", .act = "silu",
     .defaults = "\"norm_topk_prob\": false, \"max_position_embeddings\": 4096"},
    {"granite", "granite", .flags = FXI_HF_PAIRS, .act = "silu", .keys = granite_keys,
     .defaults = EPS_1E6},
    {"granitemoe", "granitemoe", .flags = FXI_HF_PAIRS, .act = "silu", .names = granitemoe_names,
     .keys = granite_keys, .defaults = EPS_1E6},
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
     .window = FXI_HF_PATTERN, .names = modernbert_names,
     .defaults = "\"global_rope_theta\": 160000, \"local_rope_theta\": 10000, "
                 "\"local_attention\": 128, \"max_position_embeddings\": 8192"},
    {"gpt_oss", "gpt-oss", .window = FXI_HF_PATTERN, .names = gptoss_names, .keys = gptoss_keys,
     .defaults = "\"sliding_window\": 128"},
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
