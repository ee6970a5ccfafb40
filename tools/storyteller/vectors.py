#!/usr/bin/env python3
"""Makes the test vectors: logits of PyTorch's fp32 forward pass over the weights exactly as a GGUF file stores them.

Keys and values are rounded to fp16 on their way into attention, as the engine's cache keeps them.

vectors.py tiny tests/vectors/logits                                   # tiny-*.gguf (random weights) and tiny-*.json
vectors.py storyteller build/storyteller models/storyteller.gguf tests/vectors/logits
"""

import argparse
import json
import random

import torch

import gguf_writer as gguf
import vocab as vocabulary
from export import export, load_checkpoint
from model import Config, Llama

TINY = Config(
    dim=64,
    layers=2,
    heads=4,
    kv_heads=2,
    ffn=160,
    vocab=320,
    context=256,
    rope_base=50000.0,
    rope_factor=2.0,
    tied=False,
    half_cache=True,
)
TINY_PIECES = [vocabulary.BLANK] + list("etaoinshrdlcumwfgypbvkxjqz.,'!?\"-") + """he in th er an re on at en nd
 st or te es is it ar ▁t ▁a ▁the ▁s ▁w ▁o ▁b the ▁and""".split()
OPENING = "Once upon a time"
GREEDY_TOKENS = 100
LONGEST = 130  # tokens of the longest case


def tiny_model(seed=7):
    """Random weights, large enough that the logits spread like a trained model's."""
    model = Llama(TINY)
    generator = torch.Generator().manual_seed(seed)
    for weight in model.parameters():
        if weight.dim() == 2:
            weight.data.normal_(0, 1.4 * weight.shape[1] ** -0.5, generator=generator)
        else:
            weight.data.uniform_(0.7, 1.5, generator=generator)
    model.token_embd.weight.data.normal_(0, 1, generator=generator)
    model.output.weight.data.normal_(0, 2.5 * TINY.dim**-0.5, generator=generator)
    return model


def tiny_vocab():
    return vocabulary.Vocab(TINY_PIECES, [-float(rank) for rank in range(len(TINY_PIECES))])


@torch.no_grad()
def logits_of(model, tokens):
    return model(torch.tensor([tokens]))[0]


def case(model, tokens, positions):
    logits = logits_of(model, tokens)
    rows = [[float(f"{value:.9g}") for value in logits[p].tolist()] for p in positions]
    return {"tokens": tokens, "positions": positions, "logits": rows, "argmax": logits.argmax(-1)[positions].tolist()}


def spread(length, count):
    """`count` positions from the first to the last."""
    if count >= length:
        return list(range(length))
    return sorted({round(i * (length - 1) / (count - 1)) for i in range(count)})


def random_tokens(length, vocab_size, seed):
    rng = random.Random(seed)
    return [vocabulary.BOS] + [rng.randrange(vocabulary.FIRST_BYTE, vocab_size) for _ in range(length - 1)]


def write_json(path, content):
    with open(path, "w", encoding="ascii") as file:
        json.dump(content, file, separators=(",", ":"))
        file.write("\n")


def make_tiny(folder):
    for name, kind in gguf.TYPES.items():
        file = f"tiny-{name}.gguf"
        model = export(tiny_model(), tiny_vocab(), f"{folder}/{file}", f"tiny-{name}", kind)
        cases = [
            case(model, random_tokens(length, TINY.vocab, length), spread(length, count))
            for length, count in ((1, 1), (7, 7), (40, 12))
        ]
        write_json(f"{folder}/tiny-{name}.json", {"model": file, "cases": cases})


def greedy(model, tokens, count):
    """Greedy continuation, and the smallest distance between the two best logits along it."""
    tokens, margins = list(tokens), []
    for _ in range(count):
        best = logits_of(model, tokens)[-1].topk(2)
        margins.append((best.values[0] - best.values[1]).item())
        tokens.append(best.indices[0].item())
    return tokens[-count:], min(margins)


def make_storyteller(folder, gguf_path, output):
    trained, vocab, _ = load_checkpoint(folder)
    model = export(trained, vocab, gguf_path, "storyteller", gguf.F16)
    model.config.half_cache = True
    prompt = [vocabulary.BOS] + vocab.encode(OPENING, True)
    story = prompt + greedy(model, prompt, LONGEST)[0]
    cases = [case(model, story[:length], spread(length, count)) for length, count in ((1, 1), (12, 4), (LONGEST, 5))]
    content = {"model": gguf_path.rsplit("/", 1)[-1], "cases": cases, "greedy": greedy_case(model, prompt)}
    write_json(f"{output}/storyteller.json", content)


def greedy_case(model, prompt):
    tokens, margin = greedy(model, prompt, GREEDY_TOKENS)
    return {"prompt_tokens": prompt, "tokens": tokens, "min_margin": margin}


def main():
    parser = argparse.ArgumentParser(description="make test vectors")
    commands = parser.add_subparsers(dest="command", required=True)
    tiny = commands.add_parser("tiny")
    tiny.add_argument("output")
    story = commands.add_parser("storyteller")
    story.add_argument("folder", help="where train.py wrote checkpoint.pt and vocab.json")
    story.add_argument("model", help="the GGUF file, written anew from the checkpoint")
    story.add_argument("output")
    options = parser.parse_args()
    if options.command == "tiny":
        make_tiny(options.output)
    else:
        make_storyteller(options.folder, options.model, options.output)


if __name__ == "__main__":
    main()
