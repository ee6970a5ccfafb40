#!/usr/bin/env python3
"""make_folder_vectors.py - the models of make_model_vectors.py as small Hugging Face folders, folders/NAME.

    python3 make_model_vectors.py --folders DIR
    python3 make_folder_vectors.py DIR

Matrices become F16, which holds them exactly; some folders are sharded, with an index. A model that is published in
another form than the one in which `transformers` saves it has a folder for each: NAME, and NAME@transformers. Needs
numpy and safetensors (PyPI; tried with 2.4 and 0.8).
"""
import json
import os
import shutil
import sys

import numpy as np
from safetensors import safe_open
from safetensors.numpy import save_file

HERE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "folders")
SHARDED = {"llama-bias": 3, "qwen3moe": 2, "gpt2": 2}
# The weights of phi3-long and of deepseek2-32; without what it is made for.
SKIPPED = {"phi3-short", "deepseek2-joined", "glm4moe-nextn"}


def nomic_config(c):
    """config.json as nomic-embed-text has it: GPT-2's names, and switches for parts that the model has not."""
    return {"activation_function": "swiglu", "architectures": ["NomicBertModel"], "attn_pdrop": 0.0, "bos_token_id": None,
            "causal": False, "dense_seq_output": True, "embd_pdrop": 0.0, "eos_token_id": None, "fused_bias_fc": True,
            "initializer_range": 0.02, "layer_norm_epsilon": c["layer_norm_eps"],
            "max_trained_positions": c["max_position_embeddings"], "mlp_fc1_bias": False, "mlp_fc2_bias": False,
            "model_type": "nomic_bert", "n_embd": c["hidden_size"], "n_head": c["num_attention_heads"],
            "n_inner": c["intermediate_size"], "n_layer": c["num_hidden_layers"],
            "n_positions": 4 * c["max_position_embeddings"], "pad_vocab_size_multiple": 64, "parallel_block": False,
            "parallel_block_tied_norm": False, "prenorm": False, "qkv_proj_bias": False,
            "rotary_emb_base": c["rope_parameters"]["rope_theta"], "rotary_emb_fraction": 1.0,
            "rotary_emb_interleaved": False, "rotary_emb_scale_base": None, "rotary_scaling_factor": None,
            "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True, "type_vocab_size": c["type_vocab_size"],
            "use_cache": True, "use_flash_attn": True, "use_rms_norm": False, "use_xentropy": True,
            "vocab_size": c["vocab_size"]}


def nemotron_config(c):
    """A letter for each block, in place of a list, and Infinity as Python's json writes it."""
    letters = {"linear_attention": "M", "full_attention": "*", "mlp": "-"}
    blocks = c.pop("layers_block_type")
    return {**c, "hybrid_override_pattern": "".join(letters[b] for b in blocks), "num_hidden_layers": len(blocks),
            "time_step_limit": [0.0, float("inf")]}


def granite_config(c):
    names = {"linear_attention": "mamba", "full_attention": "attention"}
    return {**c, "layer_types": [names[t] for t in c["layer_types"]], "position_embedding_type": "nope"}


def hunyuan_config(c):
    """A number for each layer, as Hunyuan-A13B has it."""
    n = c["num_hidden_layers"]
    return {**c, "moe_intermediate_size": [c["intermediate_size"]] * n, "moe_topk": [c["moe_topk"]] * n, "use_cla": False}


PUBLISHED = {"nomic-bert": nomic_config, "hunyuan-moe": hunyuan_config, "nemotron-h": nemotron_config,
             "granitehybrid": granite_config}


def bailing_config(c):
    return {**c, "model_type": "bailing_moe", "architectures": ["BailingMoeV2ForCausalLM"], "score_function": "sigmoid"}


def bailing_tensors(tensors):
    """The names of Ling 2.0, with a layer's queries, keys and values in one tensor."""
    def rename(k):
        for old, new in (("embed_tokens", "word_embeddings"), ("self_attn.o_proj", "attention.dense"),
                         ("self_attn.q_norm", "attention.query_layernorm"), ("self_attn.k_norm", "attention.key_layernorm"),
                         ("e_score_correction_bias", "expert_bias")):
            k = k.replace(old, new)
        return k
    out = {rename(k): t for k, t in tensors.items()}
    for k in [k for k in out if k.endswith("self_attn.q_proj.weight")]:
        parts = [out.pop(k.replace("q_proj", f"{x}_proj")) for x in "qkv"]
        out[k.replace("self_attn.q_proj", "attention.query_key_value")] = np.concatenate(parts)
    return out


# Published under other names than those of the module that made the vectors.
REWRITTEN = {"bailingmoe2": (bailing_config, bailing_tensors)}
# A tensor of a layer that only drafts, which published folders have and transformers drops.
DRAFTS = {"glm4moe": "model.layers.3.eh_proj.weight"}


def small(t):
    half = t.astype(np.float16)
    return half if t.ndim >= 2 and np.array_equal(half.astype(np.float32), t) else t


def write_shards(tensors, n, folder):
    names = sorted(tensors)
    where = {}
    for i in range(n):
        file = f"model-{i + 1:05}-of-{n:05}.safetensors"
        part = names[i::n]
        save_file({k: tensors[k] for k in part}, os.path.join(folder, file), {"format": "pt"})
        where.update({k: file for k in part})
    size = sum(t.nbytes for t in tensors.values())
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as f:
        json.dump({"metadata": {"total_size": size}, "weight_map": where}, f, indent=1)
        f.write("\n")


def write_config(name, change):
    path = os.path.join(HERE, name, "config.json")
    with open(path) as f:
        config = change(json.load(f))
    with open(path, "w") as f:
        json.dump(config, f, indent=2)
        f.write("\n")


def publish(name):
    other = os.path.join(HERE, f"{name}@transformers")
    shutil.rmtree(other, ignore_errors=True)
    shutil.copytree(os.path.join(HERE, name), other)
    write_config(name, PUBLISHED[name])


def pack(source, name):
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with safe_open(os.path.join(source, name, "model.safetensors"), "np") as f:
        tensors = {k: small(f.get_tensor(k)) for k in f.keys()}
    if name in REWRITTEN:
        tensors = REWRITTEN[name][1](tensors)
    if name in DRAFTS:
        tensors[DRAFTS[name]] = np.ones((4, 4), np.float16)
    if name in SHARDED:
        write_shards(tensors, SHARDED[name], folder)
    else:
        save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    shutil.copy(os.path.join(source, name, "config.json"), folder)
    if os.path.exists(os.path.join(source, name, "modules.json")):
        shutil.copy(os.path.join(source, name, "modules.json"), folder)
        shutil.copytree(os.path.join(source, name, "1_Pooling"), os.path.join(folder, "1_Pooling"))
    for dense in ("2_Dense", "3_Dense"):
        if os.path.exists(os.path.join(source, name, dense)):
            shutil.copytree(os.path.join(source, name, dense), os.path.join(folder, dense))
    if name in PUBLISHED:
        publish(name)
    if name in REWRITTEN:
        write_config(name, REWRITTEN[name][0])


for case in sorted(set(os.listdir(sys.argv[1])) - SKIPPED):
    pack(sys.argv[1], case)
