"""Model files against the libraries that others read and write them with: gguf reads what convert and quantize write,
the program reads what gguf and safetensors write."""
import unittest

from model_folders import (DIM, FFN, HEADS, RNG, f8_numbers, finish, from_bf16, llama_weights, read_gguf, run, scratch,
                           to_bf16, to_pairs, write_folder)

import gguf  # after model_folders, which skips all of this where it is missing
import numpy as np


class ModelFiles(unittest.TestCase):
    def check(self, got, want, bound=0.0):
        error = np.sqrt(np.mean((got - want) ** 2) / np.mean(want ** 2))
        self.assertLessEqual(error, bound)

    def test_gguf_reads_what_convert_writes(self):
        weights = llama_weights()
        folder = write_folder("bf16", {k: ("bfloat16", to_bf16(v), v.shape) for k, v in weights.items()})
        run("convert", folder, "-o", scratch("bf16.gguf"))
        keys, tensors = read_gguf(scratch("bf16.gguf"))
        self.assertEqual(keys["general.architecture"], "llama")
        self.assertEqual(keys["llama.attention.head_count_kv"], 2)
        self.assertAlmostEqual(keys["llama.attention.layer_norm_rms_epsilon"], 1e-5)
        self.assertEqual(len(tensors), 2 * 9 + 3)
        q = from_bf16(to_bf16(weights["model.layers.1.self_attn.q_proj.weight"]))
        kind, got = tensors["blk.1.attn_q.weight"]
        self.assertEqual(kind, gguf.GGMLQuantizationType.BF16)
        np.testing.assert_array_equal(got, to_pairs(q, HEADS))
        kind, got = tensors["blk.0.attn_norm.weight"]
        self.assertEqual(kind, gguf.GGMLQuantizationType.F32)
        np.testing.assert_array_equal(got, from_bf16(to_bf16(weights["model.layers.0.input_layernorm.weight"])))

    def test_gguf_reads_what_quantize_writes(self):
        weights = llama_weights()
        folder = write_folder("f32", {k: ("float32", v, v.shape) for k, v in weights.items()})
        gate = weights["model.layers.1.mlp.gate_proj.weight"]
        types = gguf.GGMLQuantizationType
        for name, kind, bound in [("q8_0", types.Q8_0, 0.0056), ("q4_0", types.Q4_0, 0.0843), ("q6_k", types.Q6_K, 0.018),
                                  ("q4_k_m", types.Q4_K, 0.0741), ("q5_k_m", types.Q5_K, 0.0367),
                                  ("f16", types.F16, 0.00021), ("bf16", types.BF16, 0.0017)]:
            path = scratch(f"{name}.gguf")
            run("quantize", folder, path, name)
            keys, tensors = read_gguf(path)
            self.assertEqual(tensors["blk.1.ffn_gate.weight"][0], kind)
            self.check(tensors["blk.1.ffn_gate.weight"][1], gate, bound)
            self.assertEqual(keys["general.file_type"], gguf.LlamaFileType[f"MOSTLY_{name.upper()}"])
        self.assertEqual(read_gguf(scratch("q4_k_m.gguf"))[1]["output.weight"][0], types.Q6_K)

    def test_an_importance_matrix_of_gguf(self):
        weights = llama_weights()
        folder = write_folder("im", {k: ("float32", v, v.shape) for k, v in weights.items()})
        w = gguf.GGUFWriter(scratch("imatrix.gguf"), "")
        w.add_type("imatrix")
        matters = np.where(np.arange(DIM) % 16 == 0, 50.0, 0.5).astype(np.float32)
        w.add_tensor("blk.1.ffn_gate.weight.in_sum2", matters.reshape(1, DIM))
        w.add_tensor("blk.1.ffn_gate.weight.counts", np.array([[5.0]], np.float32))
        finish(w)
        gate, error = weights["model.layers.1.mlp.gate_proj.weight"], []
        for args in ([], ["--imatrix", scratch("imatrix.gguf")]):
            run("quantize", folder, scratch("im.gguf"), "q4_0", *args)
            got = read_gguf(scratch("im.gguf"))[1]["blk.1.ffn_gate.weight"][1]
            error.append(np.mean((got - gate)[:, ::16] ** 2))
        self.assertLess(error[1], 0.7 * error[0])

    def test_fp8_folders(self):
        weights = llama_weights()
        name = "model.layers.0.mlp.up_proj.weight"
        for scales in ([1, 1], [FFN, 1], [FFN // 128, DIM // 128]):
            codes = RNG.integers(0, 126, (FFN, DIM)).astype(np.uint8)
            scale = RNG.uniform(0.5, 2, scales).astype(np.float32)
            tensors = {k: ("float32", v, v.shape) for k, v in weights.items()}
            tensors[name] = ("float8_e4m3fn", codes, codes.shape)
            suffix = "_scale_inv" if scales[1] > 1 else "_scale"
            tensors[name + suffix] = ("float32", scale, scale.shape)
            folder = write_folder("fp8", tensors, {"quantization_config": {"quant_method": "fp8"}})
            run("convert", folder, "-o", scratch("fp8.gguf"))
            kind, got = read_gguf(scratch("fp8.gguf"))[1]["blk.0.ffn_up.weight"]
            whole = np.repeat(np.repeat(scale, FFN // scales[0], 0), DIM // scales[1], 1)
            self.assertEqual(kind, gguf.GGMLQuantizationType.BF16)
            np.testing.assert_array_equal(got, from_bf16(to_bf16(f8_numbers(codes) * whole)))

    def test_the_program_reads_what_gguf_writes(self):
        path, copy = scratch("theirs.gguf"), scratch("copy.gguf")
        w = gguf.GGUFWriter(path, "llama")
        w.add_block_count(2)
        w.add_context_length(64)
        w.add_array("some.strings", ["a", "b\u00e9"])
        w.add_key_value("some.u64", 2 ** 40, gguf.GGUFValueType.UINT64)
        x = RNG.standard_normal((64, DIM), np.float32)
        types = gguf.GGMLQuantizationType
        for kind in (types.Q8_0, types.Q4_0, types.Q5_1, types.BF16, types.F16):
            w.add_tensor(f"t.{kind.name}", gguf.quants.quantize(x, kind), raw_dtype=kind)
        finish(w)
        self.assertIn("t.Q5_1", run("inspect", path))
        run("convert", path, "-o", copy)
        (keys, tensors), (theirs, want) = read_gguf(copy), read_gguf(path)
        self.assertEqual({k: v for k, v in keys.items() if not k.startswith("GGUF")},
                         {k: v for k, v in theirs.items() if not k.startswith("GGUF")})
        for name, (kind, values) in want.items():
            self.assertEqual(tensors[name][0], kind)
            np.testing.assert_array_equal(tensors[name][1], values)

    def test_files_that_gguf_splits(self):
        path = scratch("split.gguf")
        w = gguf.GGUFWriter(path, "llama", split_max_tensors=2)
        w.add_block_count(2)
        tensors = {f"t{i}.weight": RNG.standard_normal((4, 32), np.float32) for i in range(5)}
        for name, value in tensors.items():
            w.add_tensor(name, value)
        finish(w)
        parts = sorted(scratch(".").glob("split-*.gguf"))
        self.assertEqual(len(parts), 3)
        for part in parts:
            run("convert", part, "-o", scratch("joined.gguf"))
            keys, got = read_gguf(scratch("joined.gguf"))
            self.assertNotIn("split.count", keys)
            self.assertEqual(keys["llama.block_count"], 2)
            for name, value in tensors.items():
                np.testing.assert_array_equal(got[name][1], value)


unittest.main()
