#!/usr/bin/env python3
"""Kernels of others on libvtensor's memory: PyTorch's attention and matrices over a sequence's cache, unchanged.

    others_torch.py LIBRARY [--device cuda|cpu]

LIBRARY is lease_span.so. Keys and values lie in the planes of a sequence; PyTorch gets their addresses and strides, and
nothing else. What its FlashAttention, its other ways and its cuBLAS compute there must equal (==) what they compute
over memory of PyTorch's own: for the sequence as it grows chunk by chunk, and for a fork, whose rows are the same
memory mapped a second time. Where PyTorch, or CUDA in it, is missing, one line says so.
"""
import argparse
import ctypes
import sys
import warnings

from attention_torch import HEAD_DIM, N_HEAD, first_line, package, say, torch_ways

N_KV, N_LAYER, LENGTHS = 8, 2, (1, 33, 512, 4096, 5000)
ROW = N_KV * HEAD_DIM


class Span:
    """A sequence of libvtensor, seen as tensors."""

    def __init__(self, torch, library, device):
        self.torch, self.device = torch, device
        self.type = torch.float16 if device == "cuda" else torch.float32
        self.size = self.type.itemsize
        self.lib = ctypes.CDLL(library)
        self.lib.span_open.restype = self.lib.span_plane.restype = ctypes.c_void_p
        self.lib.span_open.argtypes = [ctypes.c_int, ctypes.c_uint, ctypes.c_size_t, ctypes.c_uint]
        self.lib.span_plane.argtypes = [ctypes.c_void_p, ctypes.c_int, ctypes.c_uint]
        self.lib.span_stride.restype = ctypes.c_size_t
        for name in ("grow", "fork", "stride", "check", "close"):
            getattr(self.lib, f"span_{name}").argtypes = [ctypes.c_void_p] + [ctypes.c_uint] * (name in ("grow", "fork"))
        self.at = self.lib.span_open(0 if device == "cuda" else -1, 2 * N_LAYER, ROW * self.size, LENGTHS[-1])
        if not self.at:
            raise RuntimeError("libvtensor opens no cache here")

    def must(self, name, *args):
        status = getattr(self.lib, f"span_{name}")(self.at, *args)
        if status:
            raise RuntimeError(f"vt_seq_{name}: status {status}")

    def rows_of_torch(self, make):
        """As many rows in memory of PyTorch's own, at the distances that they have in the span."""
        apart = self.lib.span_stride(self.at) // (ROW * self.size)
        blocks = [make(LENGTHS[-1], apart, N_KV, HEAD_DIM) for _ in range(2 * N_LAYER // apart)]
        return [block[:, i] for block in blocks for i in range(apart)]

    def plane(self, plane, n_tok, of_fork=0):
        """[n_tok][KV heads][128] of a plane: no copy."""
        stride = self.lib.span_stride(self.at)
        address = self.lib.span_plane(self.at, of_fork, plane)
        if self.device == "cuda":
            view = {"data": (address, False), "typestr": "<f2", "version": 3, "shape": (n_tok, N_KV, HEAD_DIM),
                    "strides": (stride, HEAD_DIM * 2, 2)}
            return self.torch.as_tensor(type("Rows", (), {"__cuda_array_interface__": view})(), device="cuda")
        bytes_ = (ctypes.c_char * (stride * n_tok)).from_address(address)
        rows = self.torch.frombuffer(bytes_, dtype=self.type).view(n_tok, stride // self.size)
        return rows[:, :ROW].unflatten(1, (N_KV, HEAD_DIM))


def attend(torch, way, q, k, v):
    """q: [1][heads][1][128]; k, v: [positions][KV heads][128]. None: this way does not take it."""
    from torch.nn.attention import sdpa_kernel
    try:
        with sdpa_kernel(way):
            return torch.nn.functional.scaled_dot_product_attention(
                q, k.transpose(0, 1)[None], v.transpose(0, 1)[None], enable_gqa=True)
    except RuntimeError as e:
        say(f"{way} does not take it: {first_line(e)}")
        return None


def compare(what, got, want):
    if got is None or want is None:
        return 0
    if got.equal(want):
        return 1
    sys.exit(f"DIFFERENT: {what}: {(got - want).abs().max().item():.3e} away")


def check_rows(torch, span, own, n_tok, of_fork, q, weights, bias):
    """How many results were equal."""
    n, owner = 0, "fork" if of_fork else "sequence"
    for layer in range(N_LAYER):
        k, v = (span.plane(2 * layer + i, n_tok, of_fork) for i in (0, 1))
        mine = [own[2 * layer + i][:n_tok] for i in (0, 1)]
        for name, way in torch_ways(span.device).items():
            n += compare(f"{name}, {n_tok} rows of the {owner}", attend(torch, way, q, k, v), attend(torch, way, q, *mine))
        linear = torch.nn.functional.linear
        n += compare(f"a matrix over {n_tok} rows of the {owner}", linear(k.flatten(1), weights, bias),
                     linear(mine[0].flatten(1), weights, bias))
    return n


def run(torch, library, device):
    torch.manual_seed(1)
    warnings.filterwarnings("ignore", module="torch|__main__")  # of ways that do not take a case
    make = lambda *shape: torch.randn(*shape, device=device, dtype=torch.float16 if device == "cuda" else torch.float32)
    q, weights, bias = make(1, N_HEAD, 1, HEAD_DIM), make(1024, ROW), make(1024)  # q first: the context is there
    span = Span(torch, library, device)
    own = span.rows_of_torch(make)
    n_equal, before = 0, 0
    for n_tok in LENGTHS:
        span.must("grow", n_tok)
        for plane, rows in enumerate(own):
            span.plane(plane, n_tok)[before:n_tok] = rows[before:n_tok]
        n_equal += check_rows(torch, span, own, n_tok, 0, q, weights, bias)
        before = n_tok
    n_fork = LENGTHS[-2]
    span.must("fork", n_fork)
    n_equal += check_rows(torch, span, own, n_fork, 1, q, weights, bias)
    span.must("check")
    if device == "cuda":
        torch.cuda.synchronize()
    span.lib.span_close(span.at)
    print(f"{n_equal} results over libvtensor's memory equal those over PyTorch's own", flush=True)
    return 0 if n_equal else 1


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("library")
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    args = p.parse_args()
    torch = package("torch")
    if not torch:
        return 0
    if args.device == "cuda" and not torch.cuda.is_available():
        say("no results of torch: it finds no GPU")
        return 0
    return run(torch, args.library, args.device)


if __name__ == "__main__":
    sys.exit(main())
