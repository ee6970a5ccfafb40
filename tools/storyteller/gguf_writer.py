"""Writes GGUF files, version 3, little endian.

    magic, version, tensor count, key count | keys | tensor infos | padding to 32 | tensor data, each padded to 32

A tensor is stored as F32, F16, BF16 or Q8_0.  store() rounds an fp32 array to a type's bytes, and load() gives back the
fp32 values that those bytes stand for: this is what a reader of the file computes with.
"""

import struct

import numpy

ALIGNMENT = 32
Q8_BLOCK = 32
F32, F16, Q8_0, BF16 = 0, 1, 8, 30  # ggml tensor types
FILE_TYPE = {F32: 0, F16: 1, Q8_0: 7, BF16: 32}  # general.file_type
TYPES = {"f32": F32, "f16": F16, "bf16": BF16, "q8_0": Q8_0}

_U32, _I32, _FLOAT, _BOOL, _STRING, _ARRAY = 4, 5, 6, 7, 8, 9  # value types of keys
_PACK = {_U32: "<I", _I32: "<i", _FLOAT: "<f", _BOOL: "<?"}


class U32(int):
    """An integer that is stored as u32 (a plain int is stored as i32)."""


def store(array, kind):
    """Bytes of an fp32 array in a tensor type."""
    array = numpy.ascontiguousarray(array, dtype=numpy.float32)
    if kind == F32:
        return array.tobytes()
    if kind == F16:
        return array.astype(numpy.float16).tobytes()
    if kind == BF16:
        return _round_to_bf16(array).tobytes()
    return _quantize_q8(array)


def load(data, kind, shape):
    """The fp32 array that stored bytes stand for."""
    if kind == F32:
        array = numpy.frombuffer(data, numpy.float32)
    elif kind == F16:
        array = numpy.frombuffer(data, numpy.float16).astype(numpy.float32)
    elif kind == BF16:
        array = (numpy.frombuffer(data, numpy.uint16).astype(numpy.uint32) << 16).view(numpy.float32)
    else:
        blocks = numpy.frombuffer(data, _Q8_TYPE)
        array = blocks["q"].astype(numpy.float32) * blocks["d"].astype(numpy.float32)
    return array.reshape(shape)


_Q8_TYPE = numpy.dtype([("d", "<f2", (1,)), ("q", "i1", (Q8_BLOCK,))])


def _round_to_bf16(array):
    """Round to nearest, ties to even."""
    bits = array.view(numpy.uint32)
    return ((bits + 0x7FFF + ((bits >> 16) & 1)) >> 16).astype(numpy.uint16)


def _quantize_q8(array):
    """Blocks of 32 along a row: the scale max|x| / 127 as fp16, then x / scale, rounded half away from zero."""
    assert array.shape[-1] % Q8_BLOCK == 0
    rows = array.reshape(-1, Q8_BLOCK)
    scale = numpy.abs(rows).max(axis=1, keepdims=True) / numpy.float32(127)
    inverse = numpy.divide(1, scale, out=numpy.zeros_like(scale), where=scale > 0)
    scaled = rows * inverse
    blocks = numpy.zeros(len(rows), _Q8_TYPE)
    blocks["d"] = scale
    blocks["q"] = numpy.trunc(scaled + numpy.copysign(numpy.float32(0.5), scaled))
    return blocks.tobytes()


def write(path, keys, tensors):
    """keys: {name: bool, int, U32, float, str or list}; tensors: {name: (type, shape, bytes)}, shape as in numpy."""
    head = struct.pack("<4sIQQ", b"GGUF", 3, len(tensors), len(keys))
    head += b"".join(_string(name) + _value(value) for name, value in keys.items())
    offset = 0
    for name, (kind, shape, data) in tensors.items():
        head += _tensor_info(name, kind, shape, offset)
        offset += len(_padded(data))
    with open(path, "wb") as file:
        file.write(_padded(head))
        for _, _, data in tensors.values():
            file.write(_padded(data))


def _padded(data):
    return data + bytes(-len(data) % ALIGNMENT)


def _string(text):
    data = text.encode()
    return struct.pack("<Q", len(data)) + data


def _tensor_info(name, kind, shape, offset):
    """GGUF names the fastest dimension first, numpy the slowest."""
    return _string(name) + struct.pack(f"<I{len(shape)}QIQ", len(shape), *reversed(shape), kind, offset)


def _value_type(value):
    for python_type, value_type in (
        (bool, _BOOL),
        (U32, _U32),
        (int, _I32),
        (float, _FLOAT),
        (str, _STRING),
        (list, _ARRAY),
    ):
        if isinstance(value, python_type):
            return value_type
    raise TypeError(f"no GGUF type for {value!r}")


def _value(value):
    return struct.pack("<I", _value_type(value)) + _bare(value)


def _bare(value):
    kind = _value_type(value)
    if kind == _STRING:
        return _string(value)
    if kind == _ARRAY:
        return struct.pack("<IQ", _value_type(value[0]), len(value)) + b"".join(_bare(item) for item in value)
    return struct.pack(_PACK[kind], value)
