#!/usr/bin/env python3
"""llama_quality.py TEXT BASE MODEL... - the figures of bench_quality, computed by llama.cpp.

Windows, scored tokens and columns are those of bench_quality.c: MODEL may be FILE@TYPE for a KV cache of that type. The
base's cache is f32, the others' f16. Needs llama-cpp-python (PyPI; tried with 0.3.36) and NumPy.
"""
import os
import sys

import numpy as np
from llama_cpp import Llama

WINDOW_TOK, SCORED_TOK = 512, 256
KV_TYPES = {"f32": 0, "f16": 1, "q8_0": 8, "bf16": 30}  # ggml's numbers


def open_model(name, kv_type):
    path, _, of_name = name.partition("@")
    kv = KV_TYPES[of_name or kv_type]
    return Llama(path, n_ctx=WINDOW_TOK, n_batch=WINDOW_TOK, n_ubatch=WINDOW_TOK, logits_all=True, type_k=kv, type_v=kv,
                 flash_attn=kv == KV_TYPES["q8_0"], verbose=False)


def logprobs(model, tokens):
    """[SCORED_TOK - 1][vocabulary] after the tokens of the window's second half, but the last."""
    model.reset()
    model.eval(tokens)
    logits = model.scores[WINDOW_TOK - SCORED_TOK:WINDOW_TOK - 1]
    logits = logits - logits.max(1, keepdims=True)
    return logits - np.log(np.exp(logits).sum(1, keepdims=True, dtype=np.float64)).astype(np.float32)


def error_of(values):
    return values.std(ddof=1) / len(values) ** 0.5


def main():
    text, *names = sys.argv[1:]
    models = [open_model(name, "f32" if i == 0 else "f16") for i, name in enumerate(names)]
    with open(text, "rb") as file:
        tokens = models[0].tokenize(file.read(), add_bos=False)
    losses, divergences, same = ([[] for _ in models] for _ in range(3))
    for at in range(0, len(tokens) - WINDOW_TOK + 1, WINDOW_TOK):
        window = tokens[at:at + WINDOW_TOK]
        following = window[WINDOW_TOK - SCORED_TOK + 1:]
        base = None
        for m, model in enumerate(models):
            row = logprobs(model, window)
            base = row if base is None else base
            losses[m].append(-row[np.arange(len(row)), following].astype(np.float64))
            divergences[m].append((np.exp(base) * (base - row)).sum(1, dtype=np.float64).clip(0))
            same[m].append(base.argmax(1) == row.argmax(1))
    print("model,tokens,bytes,perplexity,perplexity_se,ratio,ratio_se,kl_mean,kl_se,kl_p99,kl_worst,same_likeliest")
    for m, name in enumerate(names):
        loss, kl = np.concatenate(losses[m]), np.concatenate(divergences[m])
        excess, perplexity = loss - np.concatenate(losses[0]), np.exp(loss.mean())
        ratio = np.exp(excess.mean())
        figures = [perplexity, perplexity * error_of(loss), ratio, ratio * error_of(excess), kl.mean(), error_of(kl),
                   np.quantile(kl, 0.99), kl.max(), np.concatenate(same[m]).mean()]
        print(f"{name},{len(loss)},{os.path.getsize(name.partition('@')[0])}," + ",".join(f"{f:.6f}" for f in figures))


if __name__ == "__main__":
    main()
