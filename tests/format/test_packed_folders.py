"""Folders of GPTQ and AWQ: every weight is scale x (code - zero) exactly, in blocks of 4 or 5 bits, or F16 where groups
are mixed; folders that are not what they say are refused by name."""
import unittest

from model_folders import DIM, FFN, HEADS, RNG, llama_weights, read_gguf, run, scratch, to_pairs, write_folder

import gguf  # after model_folders, which skips all of this where it is missing
import numpy as np

TYPES = gguf.GGMLQuantizationType
AWQ_ORDER = [0, 2, 4, 6, 1, 3, 5, 7]  # of the outputs in a word, from its low bits on
KEPT = ("embed_tokens", "lm_head", "norm")


def words(codes, order=range(8)):
    """[.., 8 n] codes to [.., n] words of 32 bits."""
    eight = codes.reshape(*codes.shape[:-1], -1, 8).astype(np.uint32)
    return sum(eight[..., at] << np.uint32(4 * i) for i, at in enumerate(order)).astype(np.int32)


class Matrix:
    """Random codes [n_in][n_out] with a scale and a zero for each group of inputs and output."""

    def __init__(self, n_out, n_in, group, zero=None, order=None):
        size = n_in if group == -1 else group
        n_group = -(-n_in // size)
        self.groups = np.arange(n_in) // size if order is None else order % n_group
        self.codes = RNG.integers(0, 16, (n_in, n_out))
        self.zeros = RNG.integers(0, 16, (n_group, n_out)) if zero is None else np.full((n_group, n_out), zero)
        self.scales = RNG.uniform(0.5, 2, (n_group, n_out)).astype(np.float16)

    def weight(self, half):
        """[n_out][n_in]"""
        w = self.scales.astype(np.float32)[self.groups] * (self.codes - self.zeros[self.groups])
        return (w.astype(np.float16) if half else w).astype(np.float32).T

    def parts(self, form):
        """name to (safetensors type, array, shape)"""
        if form == "awq":
            arrays = {"qweight": words(self.codes, AWQ_ORDER), "qzeros": words(self.zeros, AWQ_ORDER)}
        else:
            less = form == "gptq"
            arrays = {"qweight": np.ascontiguousarray(words(self.codes.T).T), "qzeros": words((self.zeros - less) & 15),
                      "g_idx": self.groups.astype(np.int32)}
        arrays["scales"] = self.scales
        return {k: ("float16" if k == "scales" else "int32", v, v.shape) for k, v in arrays.items()}


def config_of(form, group):
    own = {"version": "gemm", "zero_point": True} if form == "awq" else {"checkpoint_format": form, "desc_act": False}
    return {"quant_method": form[:4].rstrip("_"), "bits": 4, "group_size": group, **own}


class PackedFolders(unittest.TestCase):
    def make(self, form, group, zero=None, mixed=False, **more):
        """(folder, matrices by name)"""
        tensors, matrices = {}, {}
        for name, w in llama_weights().items():
            if any(part in name for part in KEPT):
                tensors[name] = ("float32", w, w.shape)
                continue
            base = name.removesuffix("weight")
            order = RNG.permutation(w.shape[1]) if mixed else None
            matrices[name] = Matrix(*w.shape, group, zero, order)
            tensors |= {base + part: value for part, value in matrices[name].parts(form).items()}
        config = {**config_of(form, group), **more}
        return write_folder("packed", tensors, {"quantization_config": config}), tensors, matrices

    def check(self, kind, *args, **more):
        folder, _, matrices = self.make(*args, **more)
        run("convert", folder, "-o", scratch("packed.gguf"))
        _, got = read_gguf(scratch("packed.gguf"))
        self.assertEqual(len(got), 2 * 9 + 3)
        for name, matrix in matrices.items():
            layer, part = name.removeprefix("model.layers.").removesuffix(".weight").split(".", 1)
            to = {"q_proj": "attn_q", "k_proj": "attn_k", "v_proj": "attn_v", "o_proj": "attn_output",
                  "gate_proj": "ffn_gate", "up_proj": "ffn_up", "down_proj": "ffn_down"}[part.split(".")[1]]
            want = matrix.weight(kind == TYPES.F16)
            if to in ("attn_q", "attn_k"):
                want = to_pairs(want, HEADS if to == "attn_q" else 2)
            found, numbers = got[f"blk.{layer}.{to}.weight"]
            self.assertEqual(found, kind, name)
            np.testing.assert_array_equal(numbers, want, name)

    def test_gptq(self):
        self.check(TYPES.Q4_0, "gptq", 128, zero=8)
        self.check(TYPES.Q5_0, "gptq", 128)
        self.check(TYPES.Q5_0, "gptq_v2", 32)
        self.check(TYPES.Q4_0, "gptq_v2", -1, zero=8)

    def test_groups_that_are_no_blocks(self):
        self.check(TYPES.F16, "gptq", 128, mixed=True, desc_act=True)
        self.check(TYPES.F16, "gptq", 16)

    def test_awq(self):
        self.check(TYPES.Q5_0, "awq", 128)
        self.check(TYPES.Q4_0, "awq", 64, zero=8)

    def test_experts(self):
        """Stacked, all of the type that the widest one needs."""
        n, tensors, want = 3, {}, {}
        config = {"architectures": ["Qwen3MoeForCausalLM"], "model_type": "qwen3_moe", "num_experts": n, "head_dim": DIM // HEADS,
                  "num_experts_per_tok": 2, "moe_intermediate_size": FFN, "norm_topk_prob": True,
                  "quantization_config": config_of("gptq", 128)}
        for name, w in llama_weights().items():
            base = name.removesuffix("weight")
            if "mlp" not in name:
                tensors[name] = ("float32", w, w.shape)
                continue
            for i in range(n):
                matrix = Matrix(*w.shape, 128, 8 if i else None)
                expert = base.replace("mlp.", f"mlp.experts.{i}.")
                tensors |= {expert + part: value for part, value in matrix.parts("gptq").items()}
                want.setdefault(name, []).append(matrix.weight(False))
        for i in range(2):
            head = np.ones(DIM // HEADS, np.float32)
            router = RNG.standard_normal((n, DIM), np.float32)
            layer = f"model.layers.{i}."
            tensors |= {layer + "mlp.gate.weight": ("float32", router, router.shape),
                        layer + "self_attn.q_norm.weight": ("float32", head, head.shape),
                        layer + "self_attn.k_norm.weight": ("float32", head, head.shape)}
        run("convert", write_folder("experts", tensors, config), "-o", scratch("experts.gguf"))
        _, got = read_gguf(scratch("experts.gguf"))
        for i in range(2):
            for part in ("gate", "up", "down"):
                kind, numbers = got[f"blk.{i}.ffn_{part}_exps.weight"]
                self.assertEqual(kind, TYPES.Q5_0)
                np.testing.assert_array_equal(numbers, np.stack(want[f"model.layers.{i}.mlp.{part}_proj.weight"]))

    def refused(self, text, folder):
        with self.assertRaisesRegex(AssertionError, text):
            run("convert", folder, "-o", scratch("refused.gguf"))

    def test_what_is_refused(self):
        for text, more in (("bits: only 4 are supported", {"bits": 8}),
                           ("checkpoint_format: 'marlin' is not supported", {"checkpoint_format": "marlin"}),
                           ("group_size: neither -1 nor a number of inputs", {"group_size": 0}),
                           ("qzeros are not I32 of 16 x 32, or scales not F16 of 16 x 256", {"group_size": 32})):
            self.refused(text, self.make("gptq", 128, **more)[0])
        self.refused("version: 'gemv' is not supported", self.make("awq", 128, version="gemv")[0])
        quantization = {"quantization_config": config_of("gptq", 128)}
        base = "model.layers.1.mlp.down_proj."
        for text, change in (("input 3 is of group 9, of 4", {"g_idx": lambda v: np.where(np.arange(len(v)) == 3, 9, v)}),
                             ("is not a group for each of 512 inputs", {"g_idx": lambda v: v[1:]}),
                             ("or scales not F16 of 4 x 256", {"scales": lambda v: v[1:]}),
                             ("is not a matrix of I32", {"qweight": lambda v: v.reshape(-1)})):
            _, tensors, _ = self.make("gptq", 128)
            for part, fn in change.items():
                kind, array, _ = tensors[base + part]
                array = np.ascontiguousarray(fn(array), array.dtype)
                tensors[base + part] = (kind, array, array.shape)
            self.refused(text, write_folder("packed", tensors, quantization))
        _, tensors, _ = self.make("gptq", 128)
        whole = np.zeros((DIM, FFN), np.float32)
        self.refused("stands beside a weight of that name",
                     write_folder("packed", {**tensors, base + "weight": ("float32", whole, whole.shape)}, quantization))
        del tensors[base + "qweight"]
        self.refused("down_proj.g_idx': is not part of a model", write_folder("packed", tensors, quantization))


unittest.main()
