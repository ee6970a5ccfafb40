#!/usr/bin/env python3
"""make_folder_vectors.py - the models of make_model_vectors.py as small Hugging Face folders, folders/NAME.

    python3 make_model_vectors.py --folders DIR
    python3 make_folder_vectors.py DIR

Matrices become F16, which holds them exactly; some folders are sharded, with an index. Needs numpy and safetensors
(PyPI; tried with 2.4 and 0.8).
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
SKIPPED = {"phi3-short"}  # the weights of phi3-long


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


def pack(source, name):
    folder = os.path.join(HERE, name)
    shutil.rmtree(folder, ignore_errors=True)
    os.makedirs(folder)
    with safe_open(os.path.join(source, name, "model.safetensors"), "np") as f:
        tensors = {k: small(f.get_tensor(k)) for k in f.keys()}
    if name in SHARDED:
        write_shards(tensors, SHARDED[name], folder)
    else:
        save_file(tensors, os.path.join(folder, "model.safetensors"), {"format": "pt"})
    shutil.copy(os.path.join(source, name, "config.json"), folder)
    if os.path.exists(os.path.join(source, name, "modules.json")):
        shutil.copy(os.path.join(source, name, "modules.json"), folder)
        shutil.copytree(os.path.join(source, name, "1_Pooling"), os.path.join(folder, "1_Pooling"))


for case in sorted(set(os.listdir(sys.argv[1])) - SKIPPED):
    pack(sys.argv[1], case)
