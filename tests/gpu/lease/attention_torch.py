#!/usr/bin/env python3
"""The attention of gpu_attention_speed by PyTorch and, where it is installed, FlashInfer: rows of the same CSV.

    attention_torch.py [small] [prefill]

PyTorch's scaled_dot_product_attention reads caches as they lie in a span, [positions][KV heads][128] of each sequence,
once by each of its ways that takes the case; FlashInfer reads pages of 16 positions. Where a package, or CUDA in
PyTorch, is missing, one line says so, and there are no rows. small: on the CPU where there is no GPU.
"""
import sys
import time

N_HEAD, HEAD_DIM = 32, 128
HEAD = "math,cache,batch,positions,new_tokens,kv_heads,us,gb_per_s,tflop_per_s"


def say(*words):
    print("#", *words, flush=True)


def package(name):
    try:
        return __import__(name)
    except Exception as e:  # one that is there may fail to load, too
        say(f"no rows of {name}: {str(e).splitlines()[0] if str(e) else type(e).__name__}")
        return None


def cases(small, prefill):
    if small:
        return [(1, 512, 8, 8 if prefill else 1)]
    return [(batch, n_pos, n_kv, 512 if prefill else 1) for batch in ((1, 4, 16) if prefill else (1, 4, 16, 64))
            for n_pos in (1024, 4096, 8192, 32768) for n_kv in (1, 4, 8, 32)]


class Clock:
    def __init__(self, torch, device, rounds):
        self.torch, self.device, self.rounds = torch, device, rounds

    def wait(self):
        if self.device == "cuda":
            self.torch.cuda.synchronize()

    def microseconds(self, run):
        for _ in range(2):
            run()
        self.wait()
        begin = time.perf_counter()
        for _ in range(self.rounds):
            run()
        self.wait()
        return (time.perf_counter() - begin) / self.rounds * 1e6


def print_row(math, cache, case, us):
    batch, n_pos, n_kv, n_tok = case
    size = batch * n_pos * n_kv * HEAD_DIM * 2 * 2
    flop = n_tok * (n_pos - (n_tok - 1) / 2) * batch * N_HEAD * HEAD_DIM * 4
    print(f"{math},{cache},{batch},{n_pos},{n_tok},{n_kv},{us:.1f},{size / us * 1e-3:.1f},{flop / us * 1e-6:.2f}",
          flush=True)


def new_numbers(torch, device, *shape):
    return torch.randn(*shape, device=device, dtype=torch.float16 if device == "cuda" else torch.float32)


def torch_rows(torch, device, case, clock):
    """A row for each way of PyTorch's. The new tokens are the last positions, and see what is before them."""
    from torch.nn.attention import SDPBackend, sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right
    batch, n_pos, n_kv, n_tok = case
    ways = {"torch-flash": SDPBackend.FLASH_ATTENTION, "torch-cudnn": SDPBackend.CUDNN_ATTENTION,
            "torch-efficient": SDPBackend.EFFICIENT_ATTENTION}
    if device == "cpu":
        ways = {"torch-math": SDPBackend.MATH}
    q = new_numbers(torch, device, batch, N_HEAD, n_tok, HEAD_DIM)
    k, v = new_numbers(torch, device, 2, batch, n_pos, n_kv, HEAD_DIM).transpose(2, 3)
    mask = causal_lower_right(n_tok, n_pos) if n_tok > 1 else None
    attend = torch.nn.functional.scaled_dot_product_attention
    for name, way in ways.items():
        try:
            with sdpa_kernel(way):
                us = clock.microseconds(lambda: attend(q, k, v, attn_mask=mask, enable_gqa=n_kv < N_HEAD))
        except RuntimeError as e:
            say(f"{name} does not take {case}: {str(e).splitlines()[0]}")
            continue
        print_row(name, "contiguous", case, us)


def flashinfer_row(torch, flashinfer, case, clock):
    batch, n_pos, n_kv, n_tok = case
    page, n_page = 16, batch * n_pos // 16
    kv = new_numbers(torch, "cuda", n_page, 2, page, n_kv, HEAD_DIM)
    q = new_numbers(torch, "cuda", batch * n_tok, N_HEAD, HEAD_DIM)
    room = torch.empty(256 << 20, dtype=torch.uint8, device="cuda")
    steps = torch.arange(batch + 1, dtype=torch.int32, device="cuda")
    indices = torch.randperm(n_page, device="cuda").to(torch.int32)
    last = torch.full((batch,), page, dtype=torch.int32, device="cuda")
    pages = (steps * (n_pos // page), indices, last, N_HEAD, n_kv, HEAD_DIM, page)
    if n_tok > 1:
        way = flashinfer.BatchPrefillWithPagedKVCacheWrapper(room, "NHD")
        way.plan(steps * n_tok, *pages, causal=True, q_data_type=torch.float16)
    else:
        way = flashinfer.BatchDecodeWithPagedKVCacheWrapper(room, "NHD")
        way.plan(*pages, q_data_type=torch.float16)
    print_row("flashinfer", "paged-16", case, clock.microseconds(lambda: way.run(q, kv)))


def main():
    small, prefill = "small" in sys.argv[1:], "prefill" in sys.argv[1:]
    torch = package("torch")
    if not torch:
        return
    device = "cuda" if torch.cuda.is_available() else "cpu"
    if device == "cpu" and not small:
        say("no rows of torch: it finds no GPU")
        return
    flashinfer = package("flashinfer") if device == "cuda" else None
    clock = Clock(torch, device, 2 if small else 20)
    print(HEAD)
    for case in cases(small, prefill):
        try:
            torch_rows(torch, device, case, clock)
            if flashinfer:
                flashinfer_row(torch, flashinfer, case, clock)
        except Exception as e:  # such as no memory for the largest
            say(f"{case}: {type(e).__name__}: {str(e).splitlines()[0] if str(e) else ''}")
            if device == "cuda":
                torch.cuda.empty_cache()


if __name__ == "__main__":
    main()
