#!/usr/bin/env python3
"""Makes the test vectors of GGUF's block types, with the PyPI packages `gguf` (gguf-py) and `numpy`:

    python3 -m venv build/gguf && build/gguf/bin/pip install gguf numpy
    build/gguf/bin/python tests/vectors/make_quant_vectors.py tests/vectors/quant

quant_TYPE.bin       blocks of random bytes with finite scales, followed by the float32 numbers that gguf-py reads
                     from them
quant_input.bin      float32 numbers: half normal, half uniform
quant_TYPE_made.bin  the blocks that gguf-py makes from those numbers, for the types that it can make
"""

import sys
from pathlib import Path

import numpy as np
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType, quants

SEED = 20240
NUMBERS = 4096  # in quant_TYPE.bin
INPUTS = 8192

# Where a type's f16 numbers lie in its block.
F16_AT = {
    "Q4_0": [0],
    "Q4_1": [0, 2],
    "Q5_0": [0],
    "Q5_1": [0, 2],
    "Q8_0": [0],
    "Q2_K": [80, 82],
    "Q3_K": [108],
    "Q4_K": [0, 2],
    "Q5_K": [0, 2],
    "Q6_K": [208],
}
MADE = ["Q4_0", "Q4_1", "Q5_0", "Q5_1", "Q8_0"]

# Types with tables of values, drawn from a stream of their own. MXFP4 has no f16, and any byte is a finite scale.
TABLE_F16_AT = {"IQ4_NL": [0], "IQ4_XS": [0], "MXFP4": []}
TABLE_MADE = ["MXFP4"]


def finite_f16(rng, count):
    """Any f16 but inf and NaN, subnormal numbers and zeros among them."""
    bits = rng.integers(0, 1 << 16, count, dtype=np.uint16)
    bits[(bits & 0x7C00) == 0x7C00] &= 0xBFFF
    bits[::7] &= 0x83FF
    return bits


def random_blocks(rng, name):
    elems, size = GGML_QUANT_SIZES[GGMLQuantizationType[name]]
    blocks = rng.integers(0, 256, (NUMBERS // elems, size), dtype=np.uint8)
    for at in (F16_AT | TABLE_F16_AT)[name]:
        blocks[:, at : at + 2] = finite_f16(rng, len(blocks)).view(np.uint8).reshape(-1, 2)
    return blocks


def write_numbers(folder, rng, name):
    blocks = random_blocks(rng, name)
    with np.errstate(over="ignore"):
        numbers = quants.dequantize(blocks.reshape(-1), GGMLQuantizationType[name]).astype(np.float32)
    assert numbers.size == NUMBERS and not np.isnan(numbers).any()
    (folder / f"quant_{name.lower()}.bin").write_bytes(blocks.tobytes() + numbers.tobytes())


def main():
    folder = Path(sys.argv[1])
    rng = np.random.default_rng(SEED)
    for name in F16_AT:
        write_numbers(folder, rng, name)
    half = INPUTS // 2
    inputs = np.concatenate([rng.standard_normal(half), rng.uniform(-1, 1, half)]).astype(np.float32)
    (folder / "quant_input.bin").write_bytes(inputs.tobytes())
    rng = np.random.default_rng(SEED + 1)
    for name in TABLE_F16_AT:
        write_numbers(folder, rng, name)
    for name in MADE + TABLE_MADE:
        made = quants.quantize(inputs, GGMLQuantizationType[name])
        (folder / f"quant_{name.lower()}_made.bin").write_bytes(made.tobytes())


if __name__ == "__main__":
    main()
