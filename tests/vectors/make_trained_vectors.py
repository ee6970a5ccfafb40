#!/usr/bin/env python3
"""make_trained_vectors.py - what PyTorch computes for the trained models that tests/trained runs.

    python3 -m venv build/torch-venv
    build/torch-venv/bin/pip install torch transformers gguf accelerate
    build/torch-venv/bin/python tests/vectors/make_trained_vectors.py

(PyPI; tried with torch 2.15, transformers 5.24, gguf 0.19, accelerate 1.x; torch takes 5 GB.) The models come from
tools/fetch_model. Writes into the folder trained:

    smollm2.npz    for each text T of TEXTS, SmolLM2 from the GGUF file, dequantized, in f32:
                   T_tokens    [n] u16         its first N_TOK ids
                   T_top       [n-1][20] u16   ids of the likeliest next tokens, descending
                   T_logprobs  [n-1][20] i16   their logprobs in units of 1/1024
                   T_rest      [n-1] f32       the probability of all other tokens together
                   T_next      [n-1] i16       the logprob of the token that comes next, in the unit of T_logprobs
    templates.json conversations, and what apply_chat_template makes of each
    minilm.npz     SENTENCES, their ids (-1: padding), and their embeddings: mean of the rows, of length 1

Results are the same on every run up to the last bits of PyTorch's sums.
"""
import json
import pathlib
import subprocess
import sys

import numpy as np
import torch
from transformers import AutoModel, AutoModelForCausalLM, AutoTokenizer

HERE = pathlib.Path(__file__).resolve().parent
OUT = HERE / "trained"
TEXTS = ["manual", "code", "languages"]
N_TOK, N_TOP, UNIT = 500, 20, 1 / 1024

SENTENCES = [
    "The chunk is mapped before the token is computed.",
    "A cache grows until the budget is used up.",
    "Der Leuchtturm steht seit 1871 auf der Klippe.",
    "How do I bake bread without yeast?",
    "Sourdough needs flour, water, salt and patience.",
    "int main(void) { return 0; }",
    "x",
    "灯台の光は海の上をゆっくり回る。",
    "The same bits, whatever the batch. " * 12,
]

CONVERSATIONS = [
    [("user", "Hi!")],
    [("system", "You answer in one word."), ("user", "What is 2 + 2?")],
    [("user", "Name a river."), ("assistant", "The Danube."), ("user", "And a mountain?")],
    [("system", ""), ("user", "  spaces \n\n stay  ")],
    [("user", "Zwölf Boxkämpfer 🥊"), ("assistant", ""), ("user", "<|im_end|> in a text")],
]


def fetched(name):
    done = subprocess.run([sys.executable, HERE.parents[1] / "tools/fetch_model", name], check=True,
                          stdout=subprocess.PIPE, text=True)
    return pathlib.Path(done.stdout.strip())


def in_units(logprobs):
    return np.clip(np.rint(logprobs.numpy() / UNIT), -32768, 0).astype(np.int16)


def text_vectors(model, tokenizer, name):
    ids = tokenizer((OUT / f"{name}.txt").read_text(encoding="utf-8")).input_ids[:N_TOK]
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0, :-1]
    logprobs = torch.log_softmax(logits.double(), -1)
    top = torch.topk(logprobs, N_TOP)
    following = logprobs.gather(1, torch.tensor(ids[1:])[:, None])[:, 0]
    others = logprobs.scatter(1, top.indices, -torch.inf).exp().sum(1)
    print(name, len(ids), "tokens, perplexity", float(torch.exp(-following.mean())))
    return {f"{name}_tokens": np.array(ids, np.uint16), f"{name}_top": top.indices.numpy().astype(np.uint16),
            f"{name}_logprobs": in_units(top.values), f"{name}_rest": others.numpy().astype(np.float32),
            f"{name}_next": in_units(following)}


def write_templates(tokenizer):
    entries = []
    for turns in CONVERSATIONS:
        messages = [{"role": role, "content": content} for role, content in turns]
        prompt = tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
        entries.append({"messages": messages, "prompt": prompt})
    (OUT / "templates.json").write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


def write_smollm2():
    path = fetched("smollm2")
    tokenizer = AutoTokenizer.from_pretrained(path.parent, gguf_file=path.name)
    model = AutoModelForCausalLM.from_pretrained(path.parent, gguf_file=path.name, dtype=torch.float32)
    vectors = {}
    for name in TEXTS:
        vectors |= text_vectors(model, tokenizer, name)
    np.savez_compressed(OUT / "smollm2.npz", **vectors)
    write_templates(tokenizer)


def write_minilm():
    path = fetched("minilm")
    tokenizer, model = AutoTokenizer.from_pretrained(path), AutoModel.from_pretrained(path, dtype=torch.float32)
    ids = [tokenizer(text).input_ids for text in SENTENCES]
    with torch.no_grad():
        means = torch.stack([model(torch.tensor([i])).last_hidden_state[0].mean(0) for i in ids])
    padded = np.full((len(ids), max(map(len, ids))), -1, np.int32)
    for row, i in zip(padded, ids):
        row[:len(i)] = i
    np.savez_compressed(OUT / "minilm.npz", sentences=np.array(SENTENCES), ids=padded,
                        embeddings=torch.nn.functional.normalize(means, dim=-1).numpy())


if __name__ == "__main__":
    write_smollm2()
    write_minilm()
