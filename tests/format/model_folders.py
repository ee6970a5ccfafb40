"""What the tests of model files share: folders and GGUF files of a small Llama, and the program that reads them."""
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import gguf
    import numpy as np
    from safetensors import TensorSpec, serialize
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

PROGRAM = os.environ["FLEXINFER"]
SCRATCH = tempfile.TemporaryDirectory(prefix="flexinfer-files-")
RNG = np.random.default_rng(5)


def scratch(name):
    return Path(SCRATCH.name) / name


def run(*args):
    done = subprocess.run([PROGRAM, *map(str, args)], capture_output=True, text=True, timeout=120)
    if done.returncode:
        raise AssertionError(f"{args}: {done.stderr}")
    return done.stdout


def f8_numbers(codes):
    """E4M3 codes as numbers."""
    exp, mant = (codes >> 3) & 15, codes & 7
    value = np.where(exp > 0, (8 + mant) * 2.0 ** (exp - 10.0), mant * 2.0 ** -9)
    return np.where(codes & 128, -value, value).astype(np.float32)


def to_bf16(x):
    """Rounded to nearest, ties to even."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32).astype(np.uint64)
    return ((bits + 0x7fff + ((bits >> 16) & 1)) >> 16).astype(np.uint16)


def from_bf16(bits):
    return (bits.astype(np.uint32) << 16).view(np.float32)


def read_gguf(path):
    reader = gguf.GGUFReader(path)
    tensors = {}
    for t in reader.tensors:
        shape = [int(n) for n in t.shape[::-1]]
        tensors[t.name] = (t.tensor_type, gguf.quants.dequantize(t.data, t.tensor_type).reshape(shape))
    return {f.name: f.contents() for f in reader.fields.values()}, tensors


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


DIM, FFN, VOCAB, HEADS = 256, 512, 128, 4
CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": DIM, "intermediate_size": FFN,
          "num_hidden_layers": 2, "num_attention_heads": HEADS, "num_key_value_heads": 2, "vocab_size": VOCAB,
          "max_position_embeddings": 64, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False}


def llama_weights():
    out = {"model.embed_tokens.weight": (VOCAB, DIM), "lm_head.weight": (VOCAB, DIM), "model.norm.weight": (DIM,)}
    for i in range(2):
        p = f"model.layers.{i}."
        out |= {p + "self_attn.q_proj.weight": (DIM, DIM), p + "self_attn.k_proj.weight": (DIM // 2, DIM),
                p + "self_attn.v_proj.weight": (DIM // 2, DIM), p + "self_attn.o_proj.weight": (DIM, DIM),
                p + "mlp.gate_proj.weight": (FFN, DIM), p + "mlp.up_proj.weight": (FFN, DIM),
                p + "mlp.down_proj.weight": (DIM, FFN), p + "input_layernorm.weight": (DIM,),
                p + "post_attention_layernorm.weight": (DIM,)}
    return {name: RNG.standard_normal(shape, np.float32) for name, shape in out.items()}


def write_folder(name, tensors, config=None):
    """tensors: name to (safetensors type, array of its bytes, shape)."""
    folder = scratch(name)
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(json.dumps({**CONFIG, **(config or {})}))
    data = {k: TensorSpec(dtype=kind, shape=list(shape), data_ptr=raw.ctypes.data, data_len=raw.nbytes)
            for k, (kind, raw, shape) in tensors.items()}
    (folder / "model.safetensors").write_bytes(bytes(serialize(data)))
    return folder


def to_pairs(w, n_head):
    return w.reshape(n_head, 2, w.shape[0] // n_head // 2, *w.shape[1:]).swapaxes(1, 2).reshape(w.shape)
