// hf_names.h - the tables of hf_family.c that say what tensors of folders are called in GGUF: one
// of what most families share, and those of what families have of their own, which come first. Each
// ends with from = NULL.
#ifndef FXI_FORMAT_HF_NAMES_H
#define FXI_FORMAT_HF_NAMES_H

#include "format/hf/hf_folder.h"

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
    {"layers.#.mlp.shared_experts.gate_proj", "blk.#.ffn_gate_shexp", FXI_HF_SAME},
    {"layers.#.mlp.shared_experts.up_proj", "blk.#.ffn_up_shexp", FXI_HF_SAME},
    {"layers.#.mlp.shared_experts.down_proj", "blk.#.ffn_down_shexp", FXI_HF_SAME},
    {"layers.#.mlp.gate.e_score_correction_bias", "blk.#.exp_probs_b.bias", FXI_HF_SAME},
    {"layers.#.block_sparse_moe.gate", "blk.#.ffn_gate_inp", FXI_HF_SAME},
    {"layers.#.block_sparse_moe.experts.@.w1", "blk.#.ffn_gate_exps", FXI_HF_STACK},
    {"layers.#.block_sparse_moe.experts.@.w3", "blk.#.ffn_up_exps", FXI_HF_STACK},
    {"layers.#.block_sparse_moe.experts.@.w2", "blk.#.ffn_down_exps", FXI_HF_STACK},
    {.from = NULL},
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

static const fxi_hf_name glm4_names[] = {
    {"layers.#.post_self_attn_layernorm", "blk.#.post_attention_norm", FXI_HF_SAME},
    {"layers.#.post_mlp_layernorm", "blk.#.post_ffw_norm", FXI_HF_SAME},
    {.from = NULL},
};

// The norm before the feed-forward block is called after what comes before it.
static const fxi_hf_name middle_names[] = {
    {"layers.#.post_attention_layernorm", "blk.#.post_attention_norm", FXI_HF_SAME},
    {.from = NULL},
};

static const fxi_hf_name ernie_names[] = {
    {"layers.#.mlp.moe_statics.e_score_correction_bias", "blk.#.exp_probs_b.bias", FXI_HF_FLAT},
    {.from = NULL},
};

static const fxi_hf_name hunyuan_names[] = {
    {"layers.#.self_attn.query_layernorm", "blk.#.attn_q_norm", FXI_HF_SAME},
    {"layers.#.self_attn.key_layernorm", "blk.#.attn_k_norm", FXI_HF_SAME},
    {"layers.#.mlp.gate.wg", "blk.#.ffn_gate_inp", FXI_HF_SAME},
    {"layers.#.mlp.shared_mlp.gate_proj", "blk.#.ffn_gate_shexp", FXI_HF_SAME},
    {"layers.#.mlp.shared_mlp.up_proj", "blk.#.ffn_up_shexp", FXI_HF_SAME},
    {"layers.#.mlp.shared_mlp.down_proj", "blk.#.ffn_down_shexp", FXI_HF_SAME},
    {.from = NULL},
};

static const fxi_hf_name bailing_names[] = {
    {"word_embeddings", "token_embd", FXI_HF_SAME},
    {"layers.#.attention.query_key_value", "blk.#.attn_qkv", FXI_HF_SAME},
    {"layers.#.attention.dense", "blk.#.attn_output", FXI_HF_SAME},
    {"layers.#.attention.query_layernorm", "blk.#.attn_q_norm", FXI_HF_SAME},
    {"layers.#.attention.key_layernorm", "blk.#.attn_k_norm", FXI_HF_SAME},
    {"layers.#.mlp.gate.expert_bias", "blk.#.exp_probs_b.bias", FXI_HF_SAME},
    {.from = NULL},
};

static const fxi_hf_name exaonemoe_names[] = {
    {"layers.#.mlp.e_score_correction_bias", "blk.#.exp_probs_b.bias", FXI_HF_SAME},
    {.from = NULL},
};

static const fxi_hf_name minimax_names[] = {
    {"layers.#.block_sparse_moe.e_score_correction_bias", "blk.#.exp_probs_b.bias", FXI_HF_SAME},
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

#define LATENT "layers.#.self_attn."

static const fxi_hf_name deepseek_names[] = {
    {LATENT "q_a_proj", "blk.#.attn_q_a", FXI_HF_SAME},
    {LATENT "q_a_layernorm", "blk.#.attn_q_a_norm", FXI_HF_SAME},
    {LATENT "q_b_proj", "blk.#.attn_q_b", FXI_HF_SAME},
    {LATENT "kv_a_proj_with_mqa", "blk.#.attn_kv_a_mqa", FXI_HF_SAME},
    {LATENT "kv_a_layernorm", "blk.#.attn_kv_a_norm", FXI_HF_SAME},
    {LATENT "kv_b_proj", "blk.#.attn_k_b", FXI_HF_LATENT_K},
    {LATENT "kv_b_proj", "blk.#.attn_v_b", FXI_HF_LATENT_V},
    {.from = NULL},
};

// Multi-token prediction (mtp) is not computed.
#define DELTA_NAMES                                                                  \
    {"layers.#.post_attention_layernorm", "blk.#.post_attention_norm", FXI_HF_SAME}, \
        {"layers.#.linear_attn.conv1d", "blk.#.ssm_conv1d", FXI_HF_CHANNELS},        \
        {"layers.#.linear_attn.A_log", "blk.#.ssm_a", FXI_HF_DECAY},                 \
        {"layers.#.linear_attn.dt_bias", "blk.#.ssm_dt.bias", FXI_HF_HEADS},         \
        {"layers.#.linear_attn.norm", "blk.#.ssm_norm", FXI_HF_SAME},                \
    {                                                                                \
        "layers.#.linear_attn.out_proj", "blk.#.ssm_out", FXI_HF_COLUMNS             \
    }

static const fxi_hf_name qwen3_next_names[] = {
    DELTA_NAMES,
    {"layers.#.linear_attn.in_proj_qkvz", "blk.#.attn_qkv", FXI_HF_GROUPED_QKV},
    {"layers.#.linear_attn.in_proj_qkvz", "blk.#.attn_gate", FXI_HF_GROUPED_Z},
    {"layers.#.linear_attn.in_proj_ba", "blk.#.ssm_ba", FXI_HF_SAME},
    {.from = NULL},
};

static const fxi_hf_name qwen3_5_names[] = {
    DELTA_NAMES,
    {"layers.#.linear_attn.in_proj_qkv", "blk.#.attn_qkv", FXI_HF_CHANNELS},
    {"layers.#.linear_attn.in_proj_z", "blk.#.attn_gate", FXI_HF_VALUES},
    {"layers.#.linear_attn.in_proj_b", "blk.#.ssm_beta", FXI_HF_HEADS},
    {"layers.#.linear_attn.in_proj_a", "blk.#.ssm_alpha", FXI_HF_HEADS},
    {.from = NULL},
};

#define GRANITEMOE_NAMES                                                                  \
    {"layers.#.block_sparse_moe.router.layer", "blk.#.ffn_gate_inp", FXI_HF_SAME},        \
        {"layers.#.block_sparse_moe.input_linear", "blk.#.ffn_gate_exps", FXI_HF_HALF_1}, \
        {"layers.#.block_sparse_moe.input_linear", "blk.#.ffn_up_exps", FXI_HF_HALF_2},   \
        {"layers.#.block_sparse_moe.output_linear", "blk.#.ffn_down_exps", FXI_HF_SAME},  \
        {"layers.#.shared_mlp.input_linear", "blk.#.ffn_gate_shexp", FXI_HF_HALF_1},      \
        {"layers.#.shared_mlp.input_linear", "blk.#.ffn_up_shexp", FXI_HF_HALF_2},        \
    {                                                                                     \
        "layers.#.shared_mlp.output_linear", "blk.#.ffn_down_shexp", FXI_HF_SAME          \
    }

static const fxi_hf_name granite_hybrid_names[] = {
    {"layers.#.mamba.in_proj", "blk.#.ssm_in", FXI_HF_SAME},
    {"layers.#.mamba.conv1d", "blk.#.ssm_conv1d", FXI_HF_CHANNELS},
    {"layers.#.mamba.A_log", "blk.#.ssm_a", FXI_HF_DECAY},
    {"layers.#.mamba.D", "blk.#.ssm_d", FXI_HF_SLICES},
    {"layers.#.mamba.dt_bias", "blk.#.ssm_dt.bias", FXI_HF_HEADS},
    {"layers.#.mamba.norm", "blk.#.ssm_norm", FXI_HF_SLICES},
    {"layers.#.mamba.out_proj", "blk.#.ssm_out", FXI_HF_SAME},
    GRANITEMOE_NAMES,
    {.from = NULL},
};

static const fxi_hf_name nemotron_names[] = {
    {"embeddings", "token_embd", FXI_HF_SAME},
    {"norm_f", "output_norm", FXI_HF_SAME},
    {"layers.#.norm", "blk.#.attn_norm", FXI_HF_SAME},
    {"layers.#.mixer.in_proj", "blk.#.ssm_in", FXI_HF_SAME},
    {"layers.#.mixer.conv1d", "blk.#.ssm_conv1d", FXI_HF_CHANNELS},
    {"layers.#.mixer.A_log", "blk.#.ssm_a", FXI_HF_DECAY},
    {"layers.#.mixer.D", "blk.#.ssm_d", FXI_HF_SLICES},
    {"layers.#.mixer.dt_bias", "blk.#.ssm_dt.bias", FXI_HF_HEADS},
    {"layers.#.mixer.norm", "blk.#.ssm_norm", FXI_HF_SLICES},
    {"layers.#.mixer.out_proj", "blk.#.ssm_out", FXI_HF_SAME},
    {"layers.#.mixer.q_proj", "blk.#.attn_q", FXI_HF_SAME},
    {"layers.#.mixer.k_proj", "blk.#.attn_k", FXI_HF_SAME},
    {"layers.#.mixer.v_proj", "blk.#.attn_v", FXI_HF_SAME},
    {"layers.#.mixer.o_proj", "blk.#.attn_output", FXI_HF_SAME},
    {"layers.#.mixer.up_proj", "blk.#.ffn_up", FXI_HF_SAME},
    {"layers.#.mixer.down_proj", "blk.#.ffn_down", FXI_HF_SAME},
    {.from = NULL},
};

static const fxi_hf_neutral nemotron_neutral[] = {
    {"mlp_hidden_act", "relu2"}, {"mamba_hidden_act", "silu"}, {.key = NULL}};

static const fxi_hf_key nemotron_keys[] = {{"conv_kernel", "ssm.conv_kernel", FXI_HF_U32},
                                           {"ssm_state_size", "ssm.state_size", FXI_HF_U32},
                                           {"n_groups", "ssm.group_count", FXI_HF_U32},
                                           {"mamba_num_heads", "ssm.time_step_rank", FXI_HF_U32},
                                           {.from = NULL}};

static const fxi_hf_name granitemoe_names[] = {GRANITEMOE_NAMES, {.from = NULL}};

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

static const fxi_hf_name lfm2_names[] = {
    {"embedding_norm", "token_embd_norm", FXI_HF_SAME},
    {"layers.#.operator_norm", "blk.#.attn_norm", FXI_HF_SAME},
    {"layers.#.ffn_norm", "blk.#.ffn_norm", FXI_HF_SAME},
    {"layers.#.feed_forward.w1", "blk.#.ffn_gate", FXI_HF_SAME},
    {"layers.#.feed_forward.w2", "blk.#.ffn_down", FXI_HF_SAME},
    {"layers.#.feed_forward.w3", "blk.#.ffn_up", FXI_HF_SAME},
    {"layers.#.self_attn.out_proj", "blk.#.attn_output", FXI_HF_SAME},
    {"layers.#.self_attn.q_layernorm", "blk.#.attn_q_norm", FXI_HF_SAME},
    {"layers.#.self_attn.k_layernorm", "blk.#.attn_k_norm", FXI_HF_SAME},
    {"layers.#.conv.conv", "blk.#.shortconv.conv", FXI_HF_SQUEEZE},
    {"layers.#.conv.in_proj", "blk.#.shortconv.in_proj", FXI_HF_SAME},
    {"layers.#.conv.out_proj", "blk.#.shortconv.out_proj", FXI_HF_SAME},
    {.from = NULL},
};

#endif
