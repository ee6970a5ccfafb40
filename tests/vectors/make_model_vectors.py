#!/usr/bin/env python3
"""make_model_vectors.py - tiny random models of every family, with what the reference computes for them.

Each case is a model of Hugging Face's `transformers` with random weights and an odd shape. Its weights are written
as GGUF the way llama.cpp's converter lays them out (models/NAME.gguf, matrices in F16), and PyTorch's logits in F32
and greedy tokens to models/models.json. tests/unit/model/test_families.c compares.

Needs torch, transformers, gguf and numpy (PyPI; tried with 2.15, 5.23, 0.19 and 2.x). Results are the same on every
run up to the last bits of PyTorch's sums.

    python3 make_model_vectors.py [--only NAME] [--folders DIR]

--folders also writes each model as a Hugging Face folder, DIR/NAME.
"""
import argparse
import json
import math
import os
import re

import gguf
import numpy as np
import torch
from safetensors.numpy import save_file
from transformers import (AutoModel, AutoModelForCausalLM, AutoModelForImageTextToText,
                          AutoModelForSequenceClassification, CONFIG_MAPPING)

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "models")
VOCAB = 48
YES_NO = [30, 14]  # a reranker's tokens
N_GREEDY = 12
MIN_GAP = 2e-3  # between the two largest logits of a greedy step, relative to the largest

# ---- cases -----------------------------------------------------------------------------------------------------

BASE = dict(vocab_size=VOCAB, hidden_size=30, num_hidden_layers=2, num_attention_heads=3, num_key_value_heads=1,
            intermediate_size=40, max_position_embeddings=512, pad_token_id=0, bos_token_id=1, eos_token_id=2,
            tie_word_embeddings=False, attn_implementation="eager")


def case(name, hf, arch, n_prompt=45, ctx=0, file=None, keys=None, **config):
    return dict(name=name, hf=hf, arch=arch, n_prompt=n_prompt, ctx=ctx, file=file or name, keys=keys or {},
                config={**BASE, **config})


def rope(kind, theta=10000.0, **more):
    return dict(rope_type=kind, rope_theta=theta, **more)


LLAMA3 = rope("llama3", 50000.0, factor=8.0, low_freq_factor=1.0, high_freq_factor=4.0,
              original_max_position_embeddings=64)
YARN = rope("yarn", 20000.0, factor=4.0, original_max_position_embeddings=64)
SHORT = [1.0, 1.1, 1.3, 1.7]
LONG = [1.2, 2.0, 3.5, 7.0]
LONGROPE = rope("longrope", 10000.0, short_factor=SHORT, long_factor=LONG, original_max_position_embeddings=64)
PHI3 = dict(hidden_size=32, num_attention_heads=2, num_key_value_heads=1, max_position_embeddings=256,
            original_max_position_embeddings=64, rope_parameters={**LONGROPE, "partial_rotary_factor": 0.5},
            partial_rotary_factor=0.5)
ENCODER = dict(hidden_size=24, num_attention_heads=3, num_key_value_heads=3, intermediate_size=28,
               max_position_embeddings=300, type_vocab_size=2)
GLM = dict(hidden_size=28, head_dim=8, num_attention_heads=4, num_key_value_heads=2, attention_bias=True,
           rope_parameters=rope("default", partial_rotary_factor=0.5), partial_rotary_factor=0.5)
NOAUX = dict(n_routed_experts=8, n_group=4, topk_group=2, num_experts_per_tok=3, moe_intermediate_size=16,
             n_shared_experts=2, first_k_dense_replace=1, norm_topk_prob=True, routed_scaling_factor=1.5)
MODERN_BERT = dict(hidden_size=24, num_attention_heads=3, num_key_value_heads=3, intermediate_size=28,
                   num_hidden_layers=5, pad_token_id=0, local_attention=20, max_position_embeddings=300,
                   attention_bias=True, cls_token_id=1, sep_token_id=2,
                   rope_parameters={"full_attention": rope("default", 3000.0), "sliding_attention": rope("default", 50.0)})
LFM2 = dict(rope_parameters=rope("default", 20000.0))
MOE = dict(num_experts=5, num_experts_per_tok=2, moe_intermediate_size=16)
LATENT = dict(num_hidden_layers=3, num_key_value_heads=3, kv_lora_rank=32, qk_rope_head_dim=6, qk_nope_head_dim=10,
              v_head_dim=12, q_lora_rank=None, first_k_dense_replace=1, n_routed_experts=5, n_shared_experts=2,
              num_experts_per_tok=2, moe_intermediate_size=16, n_group=1, topk_group=1)
LATENT_32 = {**LATENT, **dict(hidden_size=32, num_attention_heads=4, num_key_value_heads=4, intermediate_size=64,
                              kv_lora_rank=64, qk_rope_head_dim=32, qk_nope_head_dim=32, v_head_dim=32, q_lora_rank=32,
                              moe_intermediate_size=32)}
DEEPSEEK_YARN = rope("yarn", 10000.0, factor=8.0, original_max_position_embeddings=64, mscale=0.7, mscale_all_dim=0.7)

DELTA = dict(num_hidden_layers=3, full_attention_interval=2, linear_num_key_heads=2, linear_num_value_heads=4,
             linear_key_head_dim=10, linear_value_head_dim=6, linear_conv_kernel_dim=4)

GRANITE_HYBRID = dict(num_hidden_layers=3, layer_types=["linear_attention", "full_attention", "linear_attention"],
                      mamba_n_heads=6, mamba_d_head=10, mamba_d_state=12, mamba_expand=2, embedding_multiplier=6.0,
                      residual_multiplier=0.4, attention_multiplier=0.2, logits_scaling=2.5)

NEMOTRON_BLOCKS = ["linear_attention", "mlp", "full_attention", "linear_attention", "mlp", "full_attention", "mlp"]

CASES = [
    case("llama", "llama", "llama", num_key_value_heads=3, head_dim=6),
    case("llama-bias", "llama", "llama", attention_bias=True, mlp_bias=True, tie_word_embeddings=True),
    case("llama-linear", "llama", "llama", num_hidden_layers=1, rope_parameters=rope("linear", factor=3.0)),
    case("llama-dynamic", "llama", "llama", n_prompt=40, num_hidden_layers=1, max_position_embeddings=48,
         keys={"context_length": 192}, rope_parameters=rope("dynamic", factor=4.0)),
    case("llama-llama3", "llama", "llama", n_prompt=150, num_hidden_layers=1, rope_parameters=LLAMA3),
    case("llama-mean", "llama", "llama", num_hidden_layers=1, keys={"pooling_type": 1}),
    case("qwen2-both-ways", "qwen2", "qwen2", num_hidden_layers=1, tie_word_embeddings=True,
         keys={"pooling_type": 3, "attention.causal": False}),
    case("bert", "bert", "bert", n_prompt=300, **ENCODER, keys={"pooling_type": 2, "attention.causal": False}),
    case("bert-mean", "bert", "bert", n_prompt=33, **{**ENCODER, "max_position_embeddings": 64},
         keys={"pooling_type": 1, "attention.causal": False}),
    case("xlm-roberta", "xlm-roberta", "bert", n_prompt=47, **{**ENCODER, "max_position_embeddings": 66, "type_vocab_size": 1, "pad_token_id": 1},
         keys={"pooling_type": 1, "attention.causal": False}),
    case("bert-rank", "bert", "bert", n_prompt=120, **ENCODER, num_labels=1, keys={"pooling_type": 4, "attention.causal": False}),
    case("xlm-roberta-rank", "xlm-roberta", "bert", n_prompt=40, num_labels=1,
         **{**ENCODER, "max_position_embeddings": 66, "type_vocab_size": 1, "pad_token_id": 1},
         keys={"pooling_type": 4, "attention.causal": False}),
    case("nomic-bert", "nomic_bert", "nomic-bert", n_prompt=150, **ENCODER,
         rope_parameters=rope("default", 1000.0), keys={"pooling_type": 1, "attention.causal": False}),
    case("jina-v3", "jina_embeddings_v3", "jina-bert-v3", n_prompt=70,
         **{**ENCODER, "type_vocab_size": 1, "pad_token_id": 1}, rope_parameters=rope("default", 2000.0),
         keys={"pooling_type": 1, "attention.causal": False}),
    case("modern-bert", "modernbert", "modern-bert", n_prompt=180, **MODERN_BERT,
         keys={"pooling_type": 2, "attention.causal": False}),
    case("gemma-embedding", "gemma3_text", "gemma-embedding", n_prompt=120, head_dim=10, num_attention_heads=3,
         num_key_value_heads=1, num_hidden_layers=7, hidden_size=24, intermediate_size=32, sliding_window=16,
         query_pre_attn_scalar=14, use_bidirectional_attention=True,
         rope_parameters={"sliding_attention": rope("default", 1000.0), "full_attention": rope("default", 50000.0)}, keys={"pooling_type": 1, "attention.causal": False}),
    case("qwen3-embedding", "qwen3", "qwen3", num_hidden_layers=1, hidden_size=28, head_dim=6, num_attention_heads=4,
         num_key_value_heads=2, keys={"pooling_type": 3}),
    case("qwen3-reranker", "qwen3", "qwen3", num_hidden_layers=2, head_dim=6, keys={"pooling_type": 4}),
    case("llama-yarn", "llama", "llama", n_prompt=150, num_hidden_layers=1, rope_parameters=YARN),
    case("llama-long", "llama", "llama", n_prompt=700, max_position_embeddings=1024, num_hidden_layers=1),
    case("mistral-window", "mistral", "llama", sliding_window=9),
    case("mistral-wide-window", "mistral", "llama", n_prompt=620, num_hidden_layers=1,
         max_position_embeddings=1024, sliding_window=100),
    case("ministral3", "ministral3", "mistral3", n_prompt=150, head_dim=8, num_key_value_heads=3,
         rope_parameters=rope("yarn", 10000.0, factor=4.0, original_max_position_embeddings=64, mscale=1.0,
                              mscale_all_dim=1.0, llama_4_scaling_beta=0.1)),
    case("qwen2", "qwen2", "qwen2", tie_word_embeddings=True),
    case("qwen3", "qwen3", "qwen3", hidden_size=28, head_dim=6, num_attention_heads=4, num_key_value_heads=2),
    case("phi3-long", "phi3", "phi3", n_prompt=90, **PHI3),
    case("phi3-short", "phi3", "phi3", n_prompt=40, ctx=64, file="phi3-long", **PHI3),
    case("phi3-window", "phi3", "phi3", sliding_window=7),
    case("gemma2", "gemma2", "gemma2", hidden_size=28, head_dim=12, num_attention_heads=4, num_key_value_heads=2, sliding_window=8,
         num_hidden_layers=3, query_pre_attn_scalar=20, tie_word_embeddings=True, attn_logit_softcapping=3.0,
         final_logit_softcapping=0.6),
    case("gemma3", "gemma3_text", "gemma3", head_dim=10, num_attention_heads=3, num_key_value_heads=1,
         num_hidden_layers=7, hidden_size=24, intermediate_size=32, sliding_window=8, query_pre_attn_scalar=14,
         tie_word_embeddings=True, rope_parameters={"sliding_attention": rope("default", 1000.0),
                                                    "full_attention": rope("linear", 50000.0, factor=4.0)}),
    case("smollm3", "smollm3", "smollm3", num_hidden_layers=5, hidden_size=24, num_attention_heads=2,
         num_key_value_heads=1, intermediate_size=32, tie_word_embeddings=True),
    case("olmo2", "olmo2", "olmo2"),
    case("olmo3", "olmo3", "olmo2", n_prompt=100, num_hidden_layers=5, hidden_size=24, num_attention_heads=2,
         num_key_value_heads=1, intermediate_size=32, sliding_window=9, rope_parameters=YARN),
    case("granite", "granite", "granite", embedding_multiplier=6.0, residual_multiplier=0.4,
         attention_multiplier=0.2, logits_scaling=2.5),
    case("stablelm", "stablelm", "stablelm", num_key_value_heads=3, use_qkv_bias=True,
         rope_parameters=rope("default", partial_rotary_factor=0.4), partial_rotary_factor=0.4),
    case("stablelm-parallel", "stablelm", "stablelm", hidden_size=40, num_attention_heads=4, num_key_value_heads=2,
         use_parallel_residual=True, qk_layernorm=True, rope_parameters=rope("default", partial_rotary_factor=0.4),
         partial_rotary_factor=0.4),
    case("falcon-7b", "falcon", "falcon", new_decoder_architecture=False, multi_query=True, parallel_attn=True,
         bias=False, alibi=False, num_kv_heads=1, ffn_hidden_size=40),
    case("falcon-40b", "falcon", "falcon", new_decoder_architecture=True, hidden_size=32, num_attention_heads=4,
         num_kv_heads=2, bias=False, alibi=False, ffn_hidden_size=40),
    case("gpt2", "gpt2", "gpt2", n_embd=30, n_head=3, n_layer=2, n_positions=96, n_inner=40, num_key_value_heads=3,
         tie_word_embeddings=True),
    case("gptneox", "gpt_neox", "gptneox", num_key_value_heads=3, use_parallel_residual=True,
         rope_parameters=rope("default", partial_rotary_factor=0.2), rotary_pct=0.2),
    case("gptneox-serial", "gpt_neox", "gptneox", hidden_size=36, num_attention_heads=3, num_key_value_heads=3,
         use_parallel_residual=False, rope_parameters=rope("default", partial_rotary_factor=0.5), rotary_pct=0.5),
    case("opt", "opt", "opt", num_key_value_heads=3, ffn_dim=40, max_position_embeddings=80,
         word_embed_proj_dim=30, tie_word_embeddings=True),
    case("opt-post-norm", "opt", "opt", hidden_size=64, num_attention_heads=4, num_key_value_heads=4, ffn_dim=32,
         max_position_embeddings=80, word_embed_proj_dim=32, do_layer_norm_before=False, tie_word_embeddings=True),
    case("starcoder2", "starcoder2", "starcoder2", sliding_window=None, tie_word_embeddings=True),
    case("phi2", "phi", "phi2", num_key_value_heads=3, rope_parameters=rope("default", partial_rotary_factor=0.4),
         partial_rotary_factor=0.4),
    case("command-r", "cohere", "command-r", logit_scale=0.25, tie_word_embeddings=True),
    case("mixtral", "mixtral", "llama", num_local_experts=4, num_experts_per_tok=2, intermediate_size=24),
    case("qwen2moe", "qwen2_moe", "qwen2moe", **MOE, shared_expert_intermediate_size=24, num_hidden_layers=3,
         mlp_only_layers=[1], decoder_sparse_step=1),
    case("qwen3moe", "qwen3_moe", "qwen3moe", **MOE, head_dim=8, norm_topk_prob=True),
    case("qwen3next", "qwen3_next", "qwen3next", n_prompt=150, **MOE, **DELTA, head_dim=8, num_attention_heads=4,
         num_key_value_heads=2, shared_expert_intermediate_size=24, norm_topk_prob=True,
         rope_parameters=rope("default", partial_rotary_factor=0.5), partial_rotary_factor=0.5),
    case("qwen35", "qwen3_5_text", "qwen35", n_prompt=70, **DELTA, head_dim=8, num_attention_heads=4,
         num_key_value_heads=2, rope_parameters=rope("default", partial_rotary_factor=0.5), partial_rotary_factor=0.5),
    case("qwen35moe", "qwen3_5_moe_text", "qwen35moe", n_prompt=70, **MOE, **DELTA, head_dim=8, num_attention_heads=4,
         num_key_value_heads=2, shared_expert_intermediate_size=24,
         rope_parameters=rope("default", partial_rotary_factor=0.5), partial_rotary_factor=0.5),
    case("granitehybrid", "granitemoehybrid", "granitehybrid", n_prompt=150, **GRANITE_HYBRID, num_local_experts=4,
         num_experts_per_tok=2, intermediate_size=24, shared_intermediate_size=20, mamba_n_groups=2),
    case("granitehybrid-dense", "granitemoehybrid", "granitehybrid", n_prompt=70, **GRANITE_HYBRID,
         num_local_experts=0, shared_intermediate_size=40, mamba_n_groups=1, mamba_proj_bias=True,
         mamba_conv_bias=False, position_embedding_type="rope"),
    case("nemotron-h", "nemotron_h", "nemotron_h", n_prompt=150, layer_types=NEMOTRON_BLOCKS, head_dim=8,
         mamba_num_heads=6, mamba_head_dim=10, ssm_state_size=12, n_groups=3, time_step_min=1e-30),
    case("olmoe", "olmoe", "olmoe", num_experts=5, num_experts_per_tok=3, intermediate_size=16),
    case("granitemoe", "granitemoe", "granitemoe", num_local_experts=4, num_experts_per_tok=2, intermediate_size=24,
         embedding_multiplier=6.0, residual_multiplier=0.4, attention_multiplier=0.2, logits_scaling=2.5),
    case("gpt-oss", "gpt_oss", "gpt-oss", n_prompt=150, hidden_size=32, num_local_experts=5, num_experts_per_tok=2,
         num_attention_heads=4, head_dim=8, intermediate_size=32, sliding_window=9,
         rope_parameters=rope("yarn", 15000.0, factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False,
                              original_max_position_embeddings=64)),
    case("gpt-oss-mxfp4", "gpt_oss", "gpt-oss", hidden_size=32, num_local_experts=5, num_experts_per_tok=5,
         num_attention_heads=4, head_dim=8, intermediate_size=32, sliding_window=9,
         rope_parameters=rope("default", 15000.0)),
    case("lfm2", "lfm2", "lfm2", n_prompt=150, hidden_size=32, num_attention_heads=4, num_key_value_heads=2,
         num_hidden_layers=4, layer_types=["conv", "full_attention", "conv", "conv"], tie_word_embeddings=True,
         intermediate_size=48, block_multiple_of=4, **LFM2),
    case("lfm2-bias", "lfm2", "lfm2", num_hidden_layers=3, layer_types=["conv", "conv", "full_attention"],
         conv_bias=True, conv_L_cache=4, block_auto_adjust_ff_dim=False),
]
CASES += [
    case("gemma", "gemma", "gemma", head_dim=12, tie_word_embeddings=True),
    case("cohere2", "cohere2", "cohere2", n_prompt=60, num_hidden_layers=4, hidden_size=24, num_attention_heads=2,
         intermediate_size=32, sliding_window=9, logit_scale=0.25, tie_word_embeddings=True),
    case("granitemoe-shared", "granitemoeshared", "granitemoe", num_local_experts=4, num_experts_per_tok=2,
         intermediate_size=24, shared_intermediate_size=20, embedding_multiplier=6.0, residual_multiplier=0.4,
         attention_multiplier=0.2, logits_scaling=2.5),
    case("qwen25vl", "qwen2_5_vl", "qwen2vl", hidden_size=32, num_attention_heads=4, num_key_value_heads=2,
         rope_parameters=rope("default", 10000.0, mrope_section=[1, 2, 1])),
    case("qwen3vl", "qwen3_vl", "qwen3vl", hidden_size=32, num_attention_heads=4, num_key_value_heads=2, head_dim=8,
         rope_parameters=rope("default", 10000.0, mrope_section=[2, 1, 1])),
    case("qwen3vlmoe", "qwen3_vl_moe", "qwen3vlmoe", hidden_size=32, num_attention_heads=4, num_key_value_heads=2,
         head_dim=8, **MOE, rope_parameters=rope("default", 10000.0, mrope_section=[2, 1, 1])),
    case("internlm2", "llama", "internlm2", num_hidden_layers=1),  # LLaMA's layers under another name
    case("internlm3", "internlm3", "llama", head_dim=8, attention_bias=True, mlp_bias=True, num_hidden_layers=1),
    case("glm4", "glm4", "glm4", **GLM),
    case("glm-edge", "glm", "chatglm", **GLM),
    case("seed-oss", "seed_oss", "seed_oss", head_dim=8, attention_bias=True, attention_out_bias=True, mlp_bias=True),
    case("exaone4", "exaone4", "exaone4", n_prompt=150, num_hidden_layers=4, hidden_size=24, num_attention_heads=2,
         intermediate_size=32, sliding_window=9, rope_parameters=LLAMA3),
    case("exaone4-full", "exaone4", "exaone4", num_hidden_layers=1, sliding_window=None, layer_types=["full_attention"]),
    case("ernie4-5", "ernie4_5", "ernie4_5", head_dim=8, use_bias=True, tie_word_embeddings=True),
    case("ernie4-5-moe", "ernie4_5_moe", "ernie4_5-moe", num_hidden_layers=3, moe_intermediate_size=16, moe_k=2,
         moe_num_experts=6, moe_num_shared_experts=2, moe_layer_start_index=1, use_bias=False),
    case("hunyuan-dense", "hunyuan_v1_dense", "hunyuan-dense", head_dim=8,
         rope_parameters=rope("dynamic", alpha=50.0, factor=1.0)),
    case("hunyuan-moe", "hunyuan_v1_moe", "hunyuan-moe", head_dim=8, num_experts=5, moe_topk=2, intermediate_size=24),
    case("glm4moe", "glm4_moe", "glm4moe", **{**GLM, **NOAUX}, use_qk_norm=True, num_hidden_layers=3),
    case("glm4moe-air", "glm4_moe", "glm4moe", **{**GLM, **NOAUX, "n_group": 1, "topk_group": 1, "n_shared_experts": 1},
         num_hidden_layers=2),
    case("glm4moe-nextn", "glm4_moe", "glm4moe", **{**GLM, **NOAUX}),
    case("exaone-moe", "exaone_moe", "exaone-moe", n_prompt=60, num_hidden_layers=4, hidden_size=24, head_dim=12,
         num_attention_heads=2, intermediate_size=32, sliding_window=9, num_experts=8, num_experts_per_tok=3,
         moe_intermediate_size=16, num_shared_experts=2, n_group=4, topk_group=2, routed_scaling_factor=1.5,
         rope_parameters=rope("default")),
    case("dots1", "dots1", "dots1", head_dim=8, **NOAUX),
    case("bailingmoe2", "glm4_moe", "bailingmoe2", **{**GLM, **NOAUX, "attention_bias": False}, use_qk_norm=True,
         num_hidden_layers=3),  # the same layers under other names
    case("minimax-m2", "minimax_m2", "minimax-m2", head_dim=8, intermediate_size=24, num_local_experts=6,
         num_experts_per_tok=3, rope_parameters=rope("default", 50000.0, partial_rotary_factor=0.5),
         partial_rotary_factor=0.5),
    case("deepseek2-lite", "deepseek_v2", "deepseek2", n_prompt=150, **LATENT, rope_parameters=DEEPSEEK_YARN,
         topk_method="greedy", routed_scaling_factor=1.5),
    *(case(name, "deepseek_v2", "deepseek2", **LATENT_32, topk_method="greedy", attention_bias=True,
           rope_parameters=rope("yarn", 10000.0, factor=4.0, original_max_position_embeddings=64))
      for name in ("deepseek2-32", "deepseek2-joined")),
    case("deepseek2", "deepseek_v2", "deepseek2", **{**LATENT, **NOAUX, "q_lora_rank": 24, "norm_topk_prob": False},
         topk_method="group_limited_greedy"),
    case("deepseek3", "deepseek_v3", "deepseek2", n_prompt=150, **{**LATENT, **NOAUX, "q_lora_rank": 24},
         rope_parameters=rope("yarn", 10000.0, factor=8.0, original_max_position_embeddings=64, mscale=1.0,
                              mscale_all_dim=1.0)),
    case("glm4-lite", "glm4_moe_lite", "deepseek2", **{**LATENT, "q_lora_rank": 24}, norm_topk_prob=True,
         routed_scaling_factor=1.8),
]
MXFP4 = gguf.GGMLQuantizationType.MXFP4
ENCODERS = ("bert", "nomic-bert", "jina-bert-v3", "modern-bert", "gemma-embedding")  # they embed texts and have no logits
DELTAS = ("qwen3next", "qwen35", "qwen35moe")  # the gated delta rule, norms that hold their weight less 1


def ranks(c):
    return c["keys"].get("pooling_type") == 4


# ---- the model -------------------------------------------------------------------------------------------------


def is_norm(name):
    return "norm" in name.lower() or re.search(r"\bln_", name) is not None


def less_1(family, name):
    """Whether a norm holds its weight less 1."""
    return family.startswith(("gemma", "qwen3_next", "qwen3_5")) and not name.endswith("linear_attn.norm.weight")


def randomise(model, config):
    """Weights large enough that no logit is near another, and none of them neutral."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if is_norm(name):
                middle = 0.0 if name.endswith("bias") or less_1(config.model_type, name) else 1.0
                p.copy_(middle + 0.3 * torch.randn_like(p))
            elif p.dim() == 1 or "sinks" in name or "bias" in name:
                p.copy_(0.3 * torch.randn_like(p))
            elif "embed" in name or name.endswith(("wte.weight", "wpe.weight")):
                # Tied, they must not outweigh the layers: the likeliest token would always be the last one.
                std = 0.04 if config.model_type.startswith("gemma") else 0.3 if config.tie_word_embeddings else 1.0
                p.copy_((std * torch.randn_like(p)).half().float())
            else:
                fan_in = p.shape[-2] if config.model_type in ("gpt2",) or p.dim() == 3 else p.shape[-1]
                gain = 4.0 if name.startswith("lm_head") else 1.6
                p.copy_((gain / math.sqrt(fan_in) * torch.randn_like(p)).half().float())
        for name, b in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                b.copy_(0.3 * torch.randn_like(b))


def to_mxfp4(w):
    return gguf.quants.quantize(np.ascontiguousarray(w, np.float32), MXFP4)


def round_experts(model):
    """Experts' matrices as MXFP4 holds them, in rows of their inputs."""
    with torch.no_grad():
        for name, p in model.named_parameters():
            if name.endswith(("experts.gate_up_proj", "experts.down_proj")):
                w = gguf.quants.dequantize(to_mxfp4(p.numpy().swapaxes(1, 2)), MXFP4)
                p.copy_(torch.from_numpy(np.ascontiguousarray(w.swapaxes(1, 2))))


# The smallest part that sees pictures, of models that have one.
VISION = {"qwen2_5_vl": dict(depth=1, hidden_size=16, num_heads=2, intermediate_size=8, out_hidden_size=32,
                             fullatt_block_indexes=[0]),
          "qwen3_vl": dict(depth=1, hidden_size=16, num_heads=2, intermediate_size=8, out_hidden_size=32,
                           num_position_embeddings=4, deepstack_visual_indexes=[0])}
VISION["qwen3_vl_moe"] = VISION["qwen3_vl"]


def make_model(c, seed):
    torch.manual_seed(seed)
    if c["hf"] in VISION:
        config = CONFIG_MAPPING[c["hf"]](text_config=c["config"], vision_config=VISION[c["hf"]], tie_word_embeddings=False)
    else:
        config = CONFIG_MAPPING[c["hf"]](**c["config"])
    auto = (AutoModelForSequenceClassification if ranks(c) and c["arch"] in ENCODERS else AutoModel if c["arch"] in ENCODERS
            else AutoModelForImageTextToText if c["hf"] in VISION else AutoModelForCausalLM)
    model = auto.from_config(config, dtype=torch.float32, attn_implementation="eager",
                             experts_implementation="eager").eval()
    randomise(model, config)
    if c["name"].endswith("mxfp4"):
        round_experts(model)
    model.tie_weights()
    return model, config.get_text_config()


def dense_layers(c, config):
    """What Sentence Transformers puts after the pooling of some models."""
    if c["arch"] != "gemma-embedding":
        return {}
    rng, dim = np.random.default_rng(7), config.hidden_size
    return {f"dense_{i}": rng.normal(0, 0.3, shape).astype(np.float16).astype(np.float32)
            for i, shape in ((2, (2 * dim, dim)), (3, (dim, 2 * dim)))}


def embedding(c, model, prompt):
    """What the rows of the prompt are pooled to, divided by its length."""
    n = len(prompt)
    both = {"attention_mask": torch.zeros(1, 1, n, n)} if c["name"].endswith("both-ways") else {}
    with torch.no_grad():
        rows = getattr(model, "model", model)(torch.tensor([prompt]), **both).last_hidden_state[0]
    v = {1: rows.mean(0), 2: rows[0], 3: rows[-1]}[c["keys"]["pooling_type"]]
    for w in dense_layers(c, model.config).values():
        v = torch.from_numpy(w) @ v
    return numbers(v / v.norm())


def reference(model, prompt):
    """Logits within and after the prompt, greedy tokens after it, and the logits after the last of these."""
    with torch.no_grad():
        out = model(torch.tensor([prompt]), use_cache=True)
        at = sorted({len(prompt) // 3, len(prompt) - 1})
        checks = [(i, out.logits[0, i]) for i in at]
        greedy, row, cache = [], out.logits[0, -1], out.past_key_values
        for _ in range(N_GREEDY):
            top = torch.topk(row, 2).values
            if float(top[0] - top[1]) < MIN_GAP * float(row.abs().max()):
                return None
            greedy.append(int(row.argmax()))
            out = model(torch.tensor([[greedy[-1]]]), past_key_values=cache, use_cache=True)
            row, cache = out.logits[0, -1], out.past_key_values
    return checks, greedy, row


# ---- tensors under GGUF's names --------------------------------------------------------------------------------

TOP = {"embed_tokens": "token_embd", "norm": "output_norm", "lm_head": "output", "transformer.word_embeddings":
       "token_embd", "transformer.ln_f": "output_norm", "transformer.wte": "token_embd", "transformer.wpe":
       "position_embd", "embed_in": "token_embd", "final_layer_norm": "output_norm", "embed_out": "output",
       "decoder.embed_tokens": "token_embd", "decoder.embed_positions": "position_embd",
       "decoder.final_layer_norm": "output_norm", "final_layernorm": "output_norm",
       "decoder.project_in": "project_in", "decoder.project_out": "project_out"}
LAYER = {
    "self_attn.q_proj": "attn_q", "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v",
    "self_attn.o_proj": "attn_output", "self_attn.out_proj": "attn_output", "self_attn.dense": "attn_output",
    "self_attn.qkv_proj": "attn_qkv", "self_attention.query_key_value": "attn_qkv",
    "attention.query_key_value": "attn_qkv", "attn.c_attn": "attn_qkv", "self_attention.dense": "attn_output",
    "attention.dense": "attn_output", "attn.c_proj": "attn_output", "self_attn.sinks": "attn_sinks",
    "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm",
    "mlp.gate_proj": "ffn_gate", "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down", "mlp.gate_up_proj": "ffn_up",
    "mlp.dense_h_to_4h": "ffn_up", "mlp.dense_4h_to_h": "ffn_down", "mlp.c_fc": "ffn_up", "mlp.c_proj": "ffn_down",
    "mlp.fc1": "ffn_up", "mlp.fc2": "ffn_down", "fc1": "ffn_up", "fc2": "ffn_down",
    "mlp.gate": "ffn_gate_inp", "mlp.router": "ffn_gate_inp", "block_sparse_moe.router": "ffn_gate_inp",
    "self_attn.q_a_proj": "attn_q_a", "self_attn.q_a_layernorm": "attn_q_a_norm", "self_attn.q_b_proj": "attn_q_b",
    "self_attn.kv_a_proj_with_mqa": "attn_kv_a_mqa", "self_attn.kv_a_layernorm": "attn_kv_a_norm",
    "self_attn.kv_b_proj": "attn_kv_b", "mlp.shared_expert.gate_proj": "ffn_gate_shexp", "mlp.shared_expert.up_proj": "ffn_up_shexp",
    "mlp.shared_expert.down_proj": "ffn_down_shexp", "mlp.shared_expert_gate": "ffn_gate_inp_shexp",
    "self_attn.query_layernorm": "attn_q_norm", "self_attn.key_layernorm": "attn_k_norm",
    "mlp.gate.wg": "ffn_gate_inp", "mlp.gate.e_score_correction_bias": "exp_probs_b",
    "mlp.e_score_correction_bias": "exp_probs_b", "mlp.gate.moe_statics.e_score_correction_bias": "exp_probs_b",
    **{f"mlp.{m}.{x}_proj": f"ffn_{x}_shexp" for m in ("shared_experts", "shared_mlp") for x in ("gate", "up", "down")},
    "input_layernorm": "attn_norm", "ln_1": "attn_norm", "self_attn_layer_norm": "attn_norm", "ln_2": "ffn_norm",
    "post_attention_layernorm": "ffn_norm", "final_layer_norm": "ffn_norm", "ln_attn": "attn_norm_2",
    "ln_mlp": "attn_norm",
}
POST = {  # families whose names of norms mean something else
    "gemma2": {"post_attention_layernorm": "post_attention_norm", "pre_feedforward_layernorm": "ffn_norm",
               "post_feedforward_layernorm": "post_ffw_norm"},
    "olmo2": {"post_attention_layernorm": "post_attention_norm", "post_feedforward_layernorm": "post_ffw_norm"},
    "gpt-oss": {"post_attention_layernorm": "post_attention_norm"},
}
POST["gemma3"] = POST["gemma-embedding"] = POST["gemma2"]
POST["glm4"] = {"post_self_attn_layernorm": "post_attention_norm", "post_mlp_layernorm": "post_ffw_norm"}
POST["exaone4"] = POST["olmo2"]
POST["seed_oss"] = POST["glm4moe"] = POST["gpt-oss"]
POST["nemotron_h"] = {"norm": "attn_norm", **{f"mixer.{x}_proj": f"attn_{x}" for x in "qkv"},
                      "mixer.o_proj": "attn_output", "mixer.up_proj": "ffn_up", "mixer.down_proj": "ffn_down"}
POST["qwen3next"] = POST["qwen35"] = POST["qwen35moe"] = POST["gpt-oss"]
TOP.update({"pooler.dense": "cls", "classifier.dense": "cls", "classifier": "cls.output",
            "classifier.out_proj": "cls.output"})
TOP.update({"embeddings.word_embeddings": "token_embd", "embeddings.position_embeddings": "position_embd",
            "embeddings.token_type_embeddings": "token_types", "embeddings.LayerNorm": "token_embd_norm"})
POST["bert"] = {"attention.self.query": "attn_q", "attention.self.key": "attn_k", "attention.self.value": "attn_v",
                "attention.output.dense": "attn_output", "attention.output.LayerNorm": "attn_output_norm",
                "intermediate.dense": "ffn_up", "output.dense": "ffn_down", "output.LayerNorm": "layer_output_norm"}
POST["jina-bert-v3"] = {"post_attention_layernorm": "attn_output_norm", "post_mlp_layernorm": "layer_output_norm"}
POST["modern-bert"] = {"attn.Wqkv": "attn_qkv", "attn.Wo": "attn_output", "attn_norm": "attn_norm", "mlp_norm": "ffn_norm",
                       "mlp.Wi": "ffn_up", "mlp.Wo": "ffn_down"}
TOP.update({"embeddings.tok_embeddings": "token_embd", "embeddings.norm": "token_embd_norm", "final_norm": "output_norm"})
POST["nomic-bert"] = {"post_attention_layernorm": "attn_output_norm", "post_mlp_layernorm": "layer_output_norm"}
TOP.update({"embeddings": "token_embd", "norm_f": "output_norm"})
TOP["embedding_norm"] = "token_embd_norm"
POST["lfm2"] = {"operator_norm": "attn_norm", "feed_forward.w1": "ffn_gate", "feed_forward.w2": "ffn_down",
                "feed_forward.w3": "ffn_up", "self_attn.q_layernorm": "attn_q_norm",
                "self_attn.k_layernorm": "attn_k_norm", "conv.conv": "shortconv.conv",
                "conv.in_proj": "shortconv.in_proj", "conv.out_proj": "shortconv.out_proj"}
PAIRS = {"llama", "internlm2", "mistral3", "smollm3", "granite", "granitemoe", "granitehybrid"}  # q and k rows are stored as pairs


def to_pairs(w, n_head):
    """Rows i and i + half of each head side by side."""
    return w.reshape(n_head, 2, w.shape[0] // n_head // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)


def groups_to_rows(w, group):
    """[kv head][group queries, key, value] to queries, keys, values."""
    q, k, v = w[:, :group], w[:, group:group + 1], w[:, group + 1:]
    return np.concatenate([x.reshape(-1, *w.shape[3:]) for x in (q, k, v)])


def heads_of(config, name):
    n = getattr(config, "num_attention_heads", None) or config.n_head
    kv = getattr(config, "num_key_value_heads", None) or n
    return n if name == "attn_q" else kv


def rename(c, key):
    """(layer or None, GGUF name, kind) of a tensor."""
    key = re.sub(r"^(model\.language_model|model|backbone|gpt_neox|bert|roberta)\.", "", key)
    m = re.match(r"(?:transformer\.h|decoder\.layers|encoder\.layer|layers)\.(\d+)\.(.*)$", key)
    rest = m.group(2) if m else key
    base, kind = re.match(r"(.*?)(?:\.(weight|bias))?$", rest).groups()
    table = {**LAYER, **POST.get(c["arch"], {})} if m else TOP
    name = table.get(base, base)
    return (int(m.group(1)) if m else None), name, kind or ("bias" if name == "exp_probs_b" else "weight")


def fix_attention(c, config, name, w):
    arch = c["arch"]
    if arch == "gpt2" and w.ndim == 2 and name != "position_embd" and name != "token_embd":
        w = w.T
    if arch in PAIRS and name in ("attn_q", "attn_k"):
        w = to_pairs(w, heads_of(config, name))
    if arch == "gptneox" and name == "attn_qkv":
        n = config.num_attention_heads
        w = groups_to_rows(w.reshape(n, 3, w.shape[0] // n // 3, *w.shape[1:]), 1)
    if c["name"] == "falcon-40b" and name == "attn_qkv":
        kv, group = config.num_kv_heads, config.num_attention_heads // config.num_kv_heads
        w = groups_to_rows(w.reshape(kv, group + 2, -1, *w.shape[1:]), group)
    return w


def experts(c, layer, name, w, out):
    """Slices of gate, up and down, [expert][n_out][n_in]."""
    base = name.rsplit(".", 1)[1]
    oss = c["arch"] == "gpt-oss"
    if base in ("gate_up_proj", "gate_up_proj_bias"):
        if oss:
            w = w.swapaxes(1, 2) if w.ndim == 3 else w
            gate, up = w[:, 0::2], w[:, 1::2]
        else:
            gate, up = np.split(w, 2, axis=1)
        kind = "bias" if base.endswith("bias") else "weight"
        out[f"blk.{layer}.ffn_gate_exps.{kind}"] = gate
        out[f"blk.{layer}.ffn_up_exps.{kind}"] = up
    elif base == "down_proj":
        out[f"blk.{layer}.ffn_down_exps.weight"] = w.swapaxes(1, 2) if oss else w
    else:
        out[f"blk.{layer}.ffn_down_exps.bias"] = w


def split_latent(out, config):
    """A head's rows for keys, transposed, and those for values, as today's files have them."""
    for i in range(config.num_hidden_layers):
        w = out.pop(f"blk.{i}.attn_kv_b.weight")
        heads = w.reshape(config.num_attention_heads, config.qk_nope_head_dim + config.v_head_dim, config.kv_lora_rank)
        out[f"blk.{i}.attn_k_b.weight"] = heads[:, :config.qk_nope_head_dim].swapaxes(1, 2)
        out[f"blk.{i}.attn_v_b.weight"] = heads[:, config.qk_nope_head_dim:]


def mamba(config, layer, part, w, out):
    """A layer of Mamba-2: A and D are columns, the norm has a row for each group."""
    name = {"in_proj": "ssm_in", "conv1d": "ssm_conv1d", "dt_bias": "ssm_dt.bias", "A_log": "ssm_a", "D": "ssm_d",
            "norm": "ssm_norm", "out_proj": "ssm_out"}
    base, kind = re.match(r"(.*?)(\.weight|\.bias)?$", part).groups()
    if base in ("A_log", "D"):
        w = (-np.exp(w) if base == "A_log" else w).reshape(-1, 1)
    if base == "norm":
        w = w.reshape(first(config, "mamba_n_groups", "n_groups"), -1)
    out[f"blk.{layer}.{name[base]}{kind or ''}"] = w.squeeze() if base == "conv1d" else w


def shared_mlp(config, layer, key, w, out):
    end = "_shexp.weight" if config.num_local_experts else ".weight"
    names = ["down"] if "output_linear" in key else ["gate", "up"]
    for name, part in zip(names, np.split(w, len(names))):
        out[f"blk.{layer}.ffn_{name}{end}"] = part


def tile_values(config, part, w):
    """Heads of values in GGUF's order: the first ones of all groups of keys, the second ones, .."""
    n_key, per = config.linear_num_key_heads, config.linear_num_value_heads // config.linear_num_key_heads
    before = 2 * n_key * config.linear_key_head_dim if part in ("in_proj_qkv.weight", "conv1d.weight") else 0

    def tile(x):
        return x.reshape(n_key, per, -1, *x.shape[1:]).swapaxes(0, 1).reshape(x.shape)
    if part == "norm.weight":
        return w
    return tile(w.T).T if part == "out_proj.weight" else np.concatenate([w[:before], tile(w[before:])])


def delta_rule(config, layer, key, w, out):
    """A layer of the gated delta rule. Rows of projections lie key head after key head."""
    n_key, part = config.linear_num_key_heads, key.split("linear_attn.")[1]
    if part == "in_proj_qkvz.weight":
        key_dim, value_dim = config.linear_key_head_dim, config.linear_value_head_dim
        values = config.linear_num_value_heads // n_key * value_dim
        rows = np.split(w.reshape(n_key, -1, w.shape[-1]), np.cumsum([key_dim, key_dim, values]), axis=1)
        q, k, v, z = (x.reshape(-1, w.shape[-1]) for x in rows)
        out[f"blk.{layer}.attn_qkv.weight"] = np.concatenate([q, k, v])
        out[f"blk.{layer}.attn_gate.weight"] = z
        return
    if "qkvz" not in part and config.model_type != "qwen3_next":
        w = tile_values(config, part, w.squeeze())
    name = {"in_proj_qkv.weight": "attn_qkv.weight", "in_proj_z.weight": "attn_gate.weight",
            "in_proj_a.weight": "ssm_alpha.weight", "in_proj_b.weight": "ssm_beta.weight",
            "in_proj_ba.weight": "ssm_ba.weight", "conv1d.weight": "ssm_conv1d.weight", "A_log": "ssm_a",
            "dt_bias": "ssm_dt.bias", "norm.weight": "ssm_norm.weight", "out_proj.weight": "ssm_out.weight"}[part]
    out[f"blk.{layer}.{name}"] = -np.exp(w) if part == "A_log" else w.squeeze()


def fuse_qkv(out, n_layer):
    """One tensor of a layer's queries, keys and values, as published models have it and transformers does not."""
    for i in range(n_layer):
        for kind in ("weight", "bias"):
            if f"blk.{i}.attn_q.{kind}" in out:
                out[f"blk.{i}.attn_qkv.{kind}"] = np.concatenate([out.pop(f"blk.{i}.attn_{x}.{kind}") for x in "qkv"])


def tensors(c, model, config):
    out, stacked = {}, {}
    for key, t in model.state_dict().items():
        w = t.float().numpy()
        if ".visual." in key:
            continue
        layer, name, kind = rename(c, key)
        if key == "lm_head.weight" and config.tie_word_embeddings or key.startswith("pooler."):
            continue
        if ".experts." in key:
            experts(c, layer, key, w, out)
            continue
        stack = re.search(r"(q|k)_layernorm\.norms\.(\d+)", key)
        if stack:
            stacked.setdefault(f"blk.{layer}.attn_{stack.group(1)}_norm.weight", []).append(w)
            continue
        if c["arch"] == "command-r" and name in ("attn_q_norm", "attn_k_norm"):
            raise ValueError("not made")
        if c["hf"] in ("opt", "xlm-roberta") and name == "position_embd":
            w = w[2:]
        w = fix_attention(c, config, name, w)
        if "norm" in name and less_1(c["hf"], key):
            w = w + 1
        mixer = re.search(r"\.(?:mamba|mixer)\.(in_proj|conv1d|dt_bias|A_log|D|norm|out_proj)(.*)", key)
        if mixer:
            mamba(config, layer, mixer.group(1) + mixer.group(2), w, out)
            continue
        if re.search(r"\.shared_mlp\.(in|out)put_linear", key):
            shared_mlp(config, layer, key, w, out)
            continue
        if "linear_attn" in key:
            delta_rule(config, layer, key, w, out)
            continue
        if name in ("ffn_gate_inp_shexp", "exp_probs_b"):
            w = w.reshape(-1)
        if name == "shortconv.conv" and kind == "weight":
            w = w.reshape(w.shape[0], -1)
        out[(f"blk.{layer}." if layer is not None else "") + f"{name}.{kind}"] = w
    out.update({k: np.stack(v) for k, v in stacked.items()})
    if c["arch"] == "deepseek2" and not c["name"].endswith("-joined"):
        split_latent(out, config)
    if ranks(c) and c["arch"] not in ENCODERS:
        out["cls.output.weight"] = out.pop("output.weight")[YES_NO]
    if c["arch"] in ("nomic-bert", "jina-bert-v3", "bailingmoe2"):
        fuse_qkv(out, config.num_hidden_layers)
    return out


# ---- metadata --------------------------------------------------------------------------------------------------


def llama3_factors(config, p):
    dim = config.hidden_size // config.num_attention_heads
    freq = 1.0 / p["rope_theta"] ** (np.arange(0, dim, 2) / dim)
    low = p["original_max_position_embeddings"] / p["low_freq_factor"]
    high = p["original_max_position_embeddings"] / p["high_freq_factor"]
    out = []
    for f in freq:
        wave = 2 * math.pi / f
        smooth = (p["original_max_position_embeddings"] / wave - p["low_freq_factor"]) / \
            (p["high_freq_factor"] - p["low_freq_factor"])
        out.append(1.0 if wave < high else p["factor"] if wave > low else
                   1 / ((1 - smooth) / p["factor"] + smooth))
    return np.array(out, np.float32)


def rope_keys(c, config, keys, extra):
    p = dict(getattr(config, "rope_parameters", None) or {})
    if "full_attention" in p:
        sliding, p = dict(p["sliding_attention"]), dict(p["full_attention"])
        if c["arch"] in ("gemma3", "gemma-embedding", "modern-bert"):
            keys["rope.freq_base_swa"] = float(sliding["rope_theta"])
    if p.get("alpha"):
        head = config.head_dim
        keys["rope.freq_base"] = float(p["rope_theta"] * p["alpha"] ** (head / (head - 2)))
        return
    if not p or c["arch"] in ("gpt2", "opt", "bert"):
        return
    keys["rope.freq_base"] = float(p.get("rope_theta", 10000.0))
    if p.get("mrope_section"):
        keys["rope.dimension_sections"] = p["mrope_section"] + [0]
    kind = p.get("rope_type", "default")
    if kind == "llama3":
        extra["rope_freqs.weight"] = llama3_factors(config, p)
    elif kind == "longrope":
        extra["rope_factors_long.weight"] = np.array(LONG, np.float32)
        extra["rope_factors_short.weight"] = np.array(SHORT, np.float32)
        keys["rope.scaling.original_context_length"] = p["original_max_position_embeddings"]
        scale = config.max_position_embeddings / p["original_max_position_embeddings"]
        keys["rope.scaling.attn_factor"] = math.sqrt(
            1 + math.log(scale) / math.log(p["original_max_position_embeddings"]))
    elif kind != "default":
        keys["rope.scaling.type"] = kind
        keys["rope.scaling.factor"] = float(p["factor"])
    if kind == "yarn":
        keys["rope.scaling.original_context_length"] = p["original_max_position_embeddings"]
        if p.get("mscale_all_dim"):
            keys["rope.scaling.yarn_log_multiplier"] = p["mscale_all_dim"] * (0.1 if c["arch"] == "deepseek2" else 1.0)
    if kind == "dynamic":
        keys["rope.scaling.original_context_length"] = config.max_position_embeddings
    if p.get("llama_4_scaling_beta"):
        keys["attention.temperature_scale"] = p["llama_4_scaling_beta"]
        keys["attention.temperature_length"] = p["original_max_position_embeddings"]


def first(config, *names, default=None):
    for n in names:
        if getattr(config, n, None) is not None:
            return getattr(config, n)
    return default


def shape_keys(c, config):
    n_head, dim = first(config, "num_attention_heads", "n_head"), first(config, "hidden_size", "n_embd")
    kv = first(config, "num_kv_heads", "num_key_value_heads", default=n_head)
    head = first(config, "head_dim", default=dim // n_head)
    if c["name"] == "falcon-7b":
        kv = 1
    keys = {"block_count": first(config, "num_hidden_layers", "n_layer"), "embedding_length": dim,
            "feed_forward_length": first(config, "ffn_dim", "ffn_hidden_size", "n_inner", "intermediate_size"),
            "context_length": first(config, "n_positions", "max_position_embeddings"),
            "attention.head_count": n_head, "attention.head_count_kv": kv}
    if head != dim // n_head:
        keys["attention.key_length"] = keys["attention.value_length"] = head
    rot = c["config"].get("partial_rotary_factor", c["config"].get("rotary_pct"))
    if rot:
        keys["rope.dimension_count"] = int(head * rot)
    own_name = {"lfm2": ["norm_eps"], "nemotron_h": ["layer_norm_epsilon"]}
    rms = first(config, "rms_norm_eps", *own_name.get(c["arch"], []))
    if rms is not None:
        keys["attention.layer_norm_rms_epsilon"] = float(rms)
    else:
        keys["attention.layer_norm_epsilon"] = float(
            first(config, "layer_norm_epsilon", "layer_norm_eps", "norm_epsilon", "norm_eps", default=1e-5))
    return keys


def latent_keys(c, config):
    head, value = config.qk_nope_head_dim + config.qk_rope_head_dim, config.v_head_dim
    keys = {"attention.kv_lora_rank": config.kv_lora_rank, "rope.dimension_count": config.qk_rope_head_dim,
            "leading_dense_block_count": c["config"]["first_k_dense_replace"],
            "expert_shared_count": config.n_shared_experts, "expert_weights_scale": float(config.routed_scaling_factor),
            "expert_weights_norm": config.norm_topk_prob, "expert_group_count": config.n_group,
            "expert_group_used_count": config.topk_group}
    if c["hf"] != "deepseek_v2":
        keys["expert_gating_func"] = int(gguf.ExpertGatingFuncType.SIGMOID)
    if config.q_lora_rank:
        keys["attention.q_lora_rank"] = config.q_lora_rank
    if c["name"].endswith("-joined"):
        return {**keys, "attention.key_length": head, "attention.value_length": value}
    return {**keys, "attention.head_count_kv": 1, "attention.key_length": config.kv_lora_rank + config.qk_rope_head_dim,
            "attention.value_length": config.kv_lora_rank, "attention.key_length_mla": head,
            "attention.value_length_mla": value}


def family_keys(c, config):
    keys = latent_keys(c, config) if c["arch"] == "deepseek2" else {}
    window = getattr(config, "sliding_window", None)
    if window and c["config"].get("sliding_window"):
        keys["attention.sliding_window"] = window
    if c["arch"] == "modern-bert":
        keys["attention.sliding_window"] = config.local_attention
    if c["arch"] == "gemma-embedding":  # transformers halves what the file says
        keys["attention.sliding_window"] = c["config"]["sliding_window"]
    if c["arch"].startswith("gemma") and c["arch"] != "gemma":
        keys["attention.scale"] = config.query_pre_attn_scalar ** -0.5
    if c["arch"] == "gemma2":
        keys["attn_logit_softcapping"] = config.attn_logit_softcapping
        keys["final_logit_softcapping"] = config.final_logit_softcapping
    if c["arch"].startswith("granite"):
        keys.update({"embedding_scale": config.embedding_multiplier, "residual_scale": config.residual_multiplier,
                     "attention.scale": config.attention_multiplier, "logit_scale": config.logits_scaling})
    if c["hf"] == "xlm-roberta":
        keys["context_length"] = config.max_position_embeddings - 2
    if c["name"] == "opt-post-norm":
        keys["do_layer_norm_before"] = False
    if c["name"] == "bert-mean":
        keys["pooling_normalize"] = True
    if c["arch"] in ("command-r", "cohere2"):
        keys["logit_scale"] = config.logit_scale
    if c["arch"] in ("gptneox", "stablelm"):
        keys["use_parallel_residual"] = config.use_parallel_residual
    n_expert = c["arch"] != "nemotron_h" and first(config, "num_local_experts", "num_experts", "n_routed_experts")
    if n_expert:
        keys["expert_count"], keys["expert_used_count"] = n_expert, config.num_experts_per_tok
        width = first(config, "moe_intermediate_size", "intermediate_size")
        if c["arch"] != "llama":
            keys["expert_feed_forward_length"] = width
    if c["arch"] in ("glm4moe", "dots1", "bailingmoe2", "exaone-moe", "minimax-m2"):
        keys["expert_gating_func"] = int(gguf.ExpertGatingFuncType.SIGMOID)
    if c["arch"] in ("glm4moe", "dots1", "bailingmoe2", "exaone-moe"):
        keys.update({"expert_group_count": config.n_group, "expert_group_used_count": config.topk_group,
                     "expert_weights_scale": config.routed_scaling_factor, "expert_weights_norm": config.norm_topk_prob,
                     "expert_shared_count": first(config, "n_shared_experts", "num_shared_experts"),
                     "leading_dense_block_count": config.first_k_dense_replace})
    if c["arch"] == "lfm2":
        keys["attention.head_count_kv"] = [config.num_key_value_heads * (t != "conv") for t in config.layer_types]
        keys["shortconv.l_cache"] = config.conv_L_cache
    if c["arch"] == "nemotron_h":
        blocks = config.layer_types
        keys.update({"ssm.conv_kernel": config.conv_kernel, "ssm.state_size": config.ssm_state_size,
                     "ssm.group_count": config.n_groups, "ssm.time_step_rank": config.mamba_num_heads,
                     "ssm.inner_size": config.mamba_num_heads * config.mamba_head_dim,
                     "attention.head_count_kv": [config.num_key_value_heads * (t == "full_attention") for t in blocks],
                     "feed_forward_length": [config.intermediate_size * (t == "mlp") for t in blocks]})
    if c["arch"] == "granitehybrid":
        keys.update({"ssm.conv_kernel": config.mamba_d_conv, "ssm.state_size": config.mamba_d_state,
                     "ssm.group_count": config.mamba_n_groups, "ssm.time_step_rank": config.mamba_n_heads,
                     "ssm.inner_size": config.mamba_n_heads * config.mamba_d_head,
                     "rope.scaling.finetuned": config.position_embedding_type == "rope",
                     "attention.head_count_kv": [config.num_key_value_heads if t == "full_attention" else 0
                                                 for t in config.layer_types]})
        if not config.num_local_experts:
            keys["feed_forward_length"] = config.shared_intermediate_size
    if c["arch"] in DELTAS:
        keys.update({"ssm.conv_kernel": config.linear_conv_kernel_dim, "ssm.state_size": config.linear_key_head_dim,
                     "ssm.group_count": config.linear_num_key_heads, "ssm.time_step_rank": config.linear_num_value_heads,
                     "ssm.inner_size": config.linear_num_value_heads * config.linear_value_head_dim,
                     "full_attention_interval": c["config"]["full_attention_interval"]})
    if c["arch"] in ("qwen2moe", "qwen3next", "qwen35moe"):
        keys["expert_shared_feed_forward_length"] = config.shared_expert_intermediate_size
    return keys


def write_gguf(c, model, config, path):
    w = gguf.GGUFWriter(path, c["arch"])
    extra = {}
    keys = {**shape_keys(c, config), **family_keys(c, config)}
    if c["arch"] == "lfm2":  # the width in the configuration is adjusted
        keys["feed_forward_length"] = model.model.layers[0].feed_forward.w1.out_features
    rope_keys(c, config, keys, extra)
    if c["name"] == "glm4moe-nextn":  # a layer that only drafts, as published files have it
        extra[f"blk.{keys['block_count']}.nextn.eh_proj.weight"] = np.ones((4, 4), np.float32)
        keys.update({"nextn_predict_layers": 1, "block_count": keys["block_count"] + 1})
    keys.update(c["keys"])
    for k, v in keys.items():
        name = f"{c['arch']}.{k}"
        if isinstance(v, bool):
            w.add_bool(name, v)
        elif isinstance(v, list):
            w.add_array(name, v)
        elif isinstance(v, str):
            w.add_string(name, v)
        elif isinstance(v, float):
            w.add_float32(name, v)
        elif isinstance(v, list):
            w.add_array(name, v)
        else:
            w.add_uint32(name, v)
    words = ["<unk>", "<s>", "</s>"] + [chr(ord("0") + i) for i in range(VOCAB - 3)]
    w.add_tokenizer_model("llama")
    w.add_token_list(words)
    w.add_token_scores([-float(i) for i in range(VOCAB)])
    w.add_token_types([2, 3, 3] + [1] * (VOCAB - 3))
    if ranks(c) and c["arch"] not in ENCODERS:
        w.add_string("tokenizer.chat_template.rerank", "<s>Q{query}</s>D{document}:<s>{0}\n\n")
    extra.update({f"{k}.weight": v for k, v in dense_layers(c, config).items()})
    for k, v in {**tensors(c, model, config), **extra}.items():
        if c["name"].endswith("mxfp4") and "_exps.weight" in k:
            w.add_tensor(k, to_mxfp4(v), raw_dtype=MXFP4)
            continue
        wide = v.ndim == 1 or k.endswith((".bias", "ssm_a", "ssm_d")) or "norm" in k or "conv1d" in k or \
            "shortconv.conv" in k
        w.add_tensor(k, np.ascontiguousarray(v, np.float32 if wide else np.float16))
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.write_tensors_to_file()
    w.close()


# ---- all -------------------------------------------------------------------------------------------------------


def numbers(row):
    return [float(f"{x:.6g}") for x in row.tolist()]


def embeds_only(c):
    return c["arch"] in ENCODERS or not c["keys"].get("attention.causal", True)


def write_dense(folder, layers):
    for i, w in enumerate(layers.values(), 2):
        os.makedirs(os.path.join(folder, f"{i}_Dense"), exist_ok=True)
        save_file({"linear.weight": w}, os.path.join(folder, f"{i}_Dense", "model.safetensors"))
        with open(os.path.join(folder, f"{i}_Dense", "config.json"), "w") as f:
            json.dump({"in_features": w.shape[1], "out_features": w.shape[0], "bias": False,
                       "activation_function": "torch.nn.modules.linear.Identity"}, f, indent=1)
            f.write("\n")


def write_modules(folder, c, config):
    """How Sentence Transformers says what is done with a model's rows."""
    keys, layers = c["keys"], dense_layers(c, config)
    write_dense(folder, layers)
    kinds = ["Transformer", "Pooling", *["Dense"] * len(layers), "Normalize"]
    modules = [dict(idx=i, name=str(i), path=f"{i}_{k}" if i else "", type=f"sentence_transformers.models.{k}")
               for i, k in enumerate(kinds)]
    os.makedirs(os.path.join(folder, "1_Pooling"), exist_ok=True)
    with open(os.path.join(folder, "modules.json"), "w") as f:
        json.dump(modules, f, indent=1)
        f.write("\n")
    with open(os.path.join(folder, "1_Pooling", "config.json"), "w") as f:
        json.dump({"pooling_mode_mean_tokens": keys["pooling_type"] == 1,
                   "pooling_mode_cls_token": keys["pooling_type"] == 2}, f, indent=1)
        f.write("\n")


def score_logit(c, model, config, prompt, n_first):
    with torch.no_grad():
        if c["arch"] not in ENCODERS:  # of "yes", less that of "no"
            logits = model(torch.tensor([prompt])).logits[0, -1]
            return logits[YES_NO[0]] - logits[YES_NO[1]]
        types = [[int(i >= n_first and config.type_vocab_size > 1) for i in range(len(prompt))]]
        return model(torch.tensor([prompt]), token_type_ids=torch.tensor(types)).logits[0, 0]


def make_score(c, model, config, prompt, folders):
    write_gguf(c, model, config, os.path.join(HERE, c["file"] + ".gguf"))
    if folders and c["arch"] in ENCODERS:
        model.save_pretrained(os.path.join(folders, c["name"]))
    n_first = len(prompt) // 3
    logit = score_logit(c, model, config, prompt, n_first)
    print(f"{c['name']}: a score of {float(logit):.3f}")
    return {"score": float(torch.sigmoid(logit.double())), "n_first": n_first, "name": c["name"], "file": c["file"] + ".gguf",
            "ctx": c["ctx"], "prompt": prompt}


def make_embedding(c, model, config, prompt, folders):
    write_gguf(c, model, config, os.path.join(HERE, c["file"] + ".gguf"))
    if folders and c["arch"] in ENCODERS:
        folder = os.path.join(folders, c["name"])
        model.save_pretrained(folder)
        write_modules(folder, c, config)
        if c["arch"] == "gemma-embedding":  # transformers halves what a file says, and saves that
            with open(os.path.join(folder, "config.json")) as f:
                saved = json.load(f)
            saved["sliding_window"] = c["config"]["sliding_window"]
            with open(os.path.join(folder, "config.json"), "w") as f:
                json.dump(saved, f, indent=2)
                f.write("\n")
    print(f"{c['name']}: an embedding")
    return {"embedding": embedding(c, model, prompt), "name": c["name"], "file": c["file"] + ".gguf", "ctx": c["ctx"],
            "prompt": prompt}


def make_case(c, folders):
    for seed in range(100):  # until no greedy step is near a tie
        model, config = make_model(c, seed)
        torch.manual_seed(1000 + seed)
        prompt = torch.randint(3, VOCAB, (c["n_prompt"],)).tolist()
        if ranks(c):
            return make_score(c, model, config, prompt, folders)
        if embeds_only(c):
            return make_embedding(c, model, config, prompt, folders)
        ref = reference(model, prompt)
        if ref and (c["file"] == c["name"] or seed == 0):
            break
    checks, greedy, last = ref
    if c["file"] == c["name"]:
        write_gguf(c, model, config, os.path.join(HERE, c["file"] + ".gguf"))
    if folders:
        model.save_pretrained(os.path.join(folders, c["name"]))
    print(f"{c['name']}: seed {seed}, logits to {float(last.abs().max()):.2f}, {len(set(greedy))} greedy tokens")
    rounds = {"bound": 0.06} if c["name"].endswith("mxfp4") else {}
    more = {"embedding": embedding(c, model, prompt)} if "pooling_type" in c["keys"] else {}
    return {**more, **rounds, "name": c["name"], "file": c["file"] + ".gguf", "ctx": c["ctx"], "prompt": prompt, "greedy": greedy,
            "at": [i for i, _ in checks], "logits": [numbers(r) for _, r in checks], "last": numbers(last)}


def main():
    ap = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    ap.add_argument("--only")
    ap.add_argument("--folders")
    a = ap.parse_args()
    path = os.path.join(HERE, "models.json")
    old = {m["name"]: m for m in json.load(open(path))["cases"]} if os.path.exists(path) else {}
    for c in CASES:
        if not a.only or a.only in c["name"]:
            old[c["name"]] = make_case(c, a.folders)
    with open(path, "w") as f:
        f.write('{"cases": [\n' + ",\n".join(json.dumps(old[c["name"]]) for c in CASES if c["name"] in old) + "\n]}\n")


if __name__ == "__main__":
    main()
