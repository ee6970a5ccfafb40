#!/usr/bin/env python3
"""The attention of gpu_attention_speed by PyTorch and, where it is installed, FlashInfer: rows of the same CSV.

    attention_torch.py [small] [prefill] [--device cuda|cpu]

PyTorch's scaled_dot_product_attention reads caches as they lie in a span, [positions][KV heads][128] of each sequence,
once by each of its ways that takes the case; FlashInfer reads pages of 16 positions, in any order. Before a way is
timed, what it computes is compared with attention spelled out, of one sequence and one KV head at a time; a way that is
wrong has a line instead of a row, and the program fails in the end. Where a package, or CUDA in PyTorch, is missing,
one line says so, and there are no rows. small: one small case. --device cpu: on the CPU, to see that this program
works; FlashInfer has nothing there.
"""
import argparse
import sys
import time

N_HEAD, HEAD_DIM, PAGE = 32, 128, 16
HEAD = "math,cache,memory,layers,batch,positions,new_tokens,kv_heads,us,gb_per_s,tflop_per_s,to_plain"


def say(*words):
    print("#", *words, flush=True)


def first_line(e):
    return str(e).splitlines()[0] if str(e) else type(e).__name__


def package(name):
    try:
        return __import__(name)
    except Exception as e:  # one that is there may fail to load, too
        say(f"no rows of {name}: {first_line(e)}")
        return None


def cases(small, prefill):
    if small:
        return [(2, 48, 8, 8 if prefill else 1)]
    return [(batch, n_pos, n_kv, 512 if prefill else 1) for batch in ((1, 4, 16) if prefill else (1, 4, 16, 64))
            for n_pos in (1024, 4096, 8192, 32768) for n_kv in (1, 4, 8, 32)]


class Bench:
    """Rows of one device; n_wrong counts the ways that computed something else."""

    def __init__(self, torch, device, rounds):
        self.torch, self.device, self.rounds, self.n_wrong = torch, device, rounds, 0
        self.type = torch.float16 if device == "cuda" else torch.float32

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

    def numbers(self, *shape):
        return self.torch.randn(*shape, device=self.device, dtype=self.type)

    def row(self, math, cache, case, run, want):
        """run() gives [batch][new tokens][heads][128]; want is what it should be."""
        far = (run().float() - want).abs().max().item()
        if not far < (5e-3 if self.type == self.torch.float16 else 1e-5):
            say(f"WRONG: {math} is {far:.2e} away in {case}")
            self.n_wrong += 1
            return
        batch, n_pos, n_kv, n_tok = case
        us = self.microseconds(run)
        size = batch * n_pos * n_kv * HEAD_DIM * 2 * 2
        flop = n_tok * (n_pos - (n_tok - 1) / 2) * batch * N_HEAD * HEAD_DIM * 4
        print(f"{math},{cache},plain,1,{batch},{n_pos},{n_tok},{n_kv},{us:.1f},{size / us * 1e-3:.1f},"
              f"{flop / us * 1e-6:.2f},", flush=True)


def attend_plainly(torch, q, k, v):
    """Attention in f32. q: [batch][new tokens][heads][128], the last of the positions; k, v: [batch][positions][KV
    heads][128]."""
    n_tok, n_pos, group = q.shape[1], k.shape[1], N_HEAD // k.shape[2]
    place = torch.arange(n_pos, device=q.device)
    hidden = place[None, :] > place[n_pos - n_tok:, None]
    out = torch.empty_like(q, dtype=torch.float32)
    for seq in range(q.shape[0]):
        for head in range(k.shape[2]):
            heads = slice(head * group, (head + 1) * group)
            score = torch.einsum("thd,pd->htp", q[seq, :, heads].float(), k[seq, :, head].float()) / HEAD_DIM**0.5
            share = torch.softmax(score.masked_fill(hidden, float("-inf")), dim=-1)
            out[seq, :, heads] = torch.einsum("htp,pd->thd", share, v[seq, :, head].float())
    return out


def torch_ways(device):
    from torch.nn.attention import SDPBackend
    if device == "cpu":
        return {"torch-math": SDPBackend.MATH, "torch-flash": SDPBackend.FLASH_ATTENTION}
    return {"torch-flash": SDPBackend.FLASH_ATTENTION, "torch-cudnn": SDPBackend.CUDNN_ATTENTION,
            "torch-efficient": SDPBackend.EFFICIENT_ATTENTION}


def torch_rows(bench, case, q, kv, want):
    """A row for each way of PyTorch's. The new tokens are the last positions, and see what is before them."""
    from torch.nn.attention import sdpa_kernel
    from torch.nn.attention.bias import causal_lower_right
    _, n_pos, n_kv, n_tok = case
    k, v = kv.transpose(2, 3)
    mask = causal_lower_right(n_tok, n_pos) if n_tok > 1 else None
    attend = bench.torch.nn.functional.scaled_dot_product_attention

    def run():
        return attend(q.transpose(1, 2), k, v, attn_mask=mask, enable_gqa=n_kv < N_HEAD).transpose(1, 2)

    for name, way in torch_ways(bench.device).items():
        try:
            with sdpa_kernel(way):
                bench.row(name, "dense", case, run, want)
        except RuntimeError as e:
            say(f"{name} does not take {case}: {first_line(e)}")


def page_cache(torch, kv):
    """The same keys and values in pages, [page][2][16][KV heads][128], and the pages of each sequence, in any order."""
    _, batch, n_pos, n_kv, _ = kv.shape
    pages = kv.reshape(2, batch * n_pos // PAGE, PAGE, n_kv, HEAD_DIM).transpose(0, 1)
    at = torch.randperm(pages.shape[0], device=kv.device)
    cache = torch.empty_like(pages, memory_format=torch.contiguous_format)
    cache[at] = pages
    return cache, at.to(torch.int32)


def flashinfer_row(bench, flashinfer, case, q, kv, want):
    torch = bench.torch
    batch, n_pos, n_kv, n_tok = case
    cache, indices = page_cache(torch, kv)
    room = torch.empty(256 << 20, dtype=torch.uint8, device=bench.device)
    steps = torch.arange(batch + 1, dtype=torch.int32, device=bench.device)
    last = torch.full((batch,), PAGE, dtype=torch.int32, device=bench.device)
    pages = (steps * (n_pos // PAGE), indices, last, N_HEAD, n_kv, HEAD_DIM, PAGE)
    if n_tok > 1:
        way = flashinfer.BatchPrefillWithPagedKVCacheWrapper(room, "NHD")
        way.plan(steps * n_tok, *pages, causal=True, q_data_type=bench.type)
    else:
        way = flashinfer.BatchDecodeWithPagedKVCacheWrapper(room, "NHD")
        way.plan(*pages, q_data_type=bench.type)
    rows = q.reshape(batch * n_tok, N_HEAD, HEAD_DIM)
    bench.row("flashinfer", "paged-16", case, lambda: way.run(rows, cache).view_as(q), want)


def case_rows(bench, flashinfer, case):
    batch, n_pos, n_kv, n_tok = case
    q = bench.numbers(batch, n_tok, N_HEAD, HEAD_DIM)
    kv = bench.numbers(2, batch, n_pos, n_kv, HEAD_DIM)
    want = attend_plainly(bench.torch, q, *kv)
    torch_rows(bench, case, q, kv, want)
    if flashinfer:
        flashinfer_row(bench, flashinfer, case, q, kv, want)


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    p.add_argument("words", nargs="*", choices=["small", "prefill"])
    p.add_argument("--device", choices=["cuda", "cpu"], default="cuda")
    args = p.parse_args()
    small, prefill = "small" in args.words, "prefill" in args.words
    torch = package("torch")
    if not torch:
        return 0
    if args.device == "cuda" and not torch.cuda.is_available():
        say("no rows of torch: it finds no GPU")
        return 0
    torch.manual_seed(1)
    flashinfer = package("flashinfer") if args.device == "cuda" else None
    bench = Bench(torch, args.device, 2 if small else 20)
    print(HEAD)
    for case in cases(small, prefill):
        try:
            case_rows(bench, flashinfer, case)
        except Exception as e:  # such as no memory for the largest
            say(f"{case}: {type(e).__name__}: {first_line(e)}")
            if args.device == "cuda":
                torch.cuda.empty_cache()
    return 1 if bench.n_wrong else 0


if __name__ == "__main__":
    sys.exit(main())
