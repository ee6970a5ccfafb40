#!/usr/bin/env python3
"""Trains the storyteller on stories of our own making: corpus, vocabulary, model, in this order.

Every file goes to --out: vocab.json (made once), corpus-SEED.npz (made once), checkpoint.pt (rewritten regularly).
A row of a batch is mostly one document, so that attention looks at one story and learns early to repeat its names; some
rows hold several documents, up to the whole context.  Rows of about the same length share a batch.
The run begins with lessons: pieces of 24 tokens in which a name comes twice.  Over such a short distance attention soon
learns to repeat a name, and keeps the skill for whole stories; with stories alone that takes many times as long.
The learning rate follows a warm-up and a cosine, driven by the share of --minutes that has passed, so that the run
ends on time on any machine.  Seeds are fixed; with --steps instead of --minutes a run can be repeated exactly.
"""

import argparse
import itertools
import json
import math
import os
import random
import time

import numpy
import torch
from torch.nn import functional as F

import lexicon
import stories
import vocab as vocabulary
from model import Config, Llama, parameter_count

VOCAB_TEXTS = 8000
WARM_UP = 0.02
PEAK_RATE, FINAL_RATE = 2e-3, 5e-5
SAVE_EVERY_S, SHOW_EVERY = 120, 50
HELD_OUT_SEED = 999
CROWDED_SHARE = 0.1  # of the rows, those with several documents
SORTED_BATCHES = 40  # batches that are sorted by length together
IGNORED = -100  # a target that is padding
LESSON_TOKENS, LESSON_ROWS, LESSON_DOCUMENTS = 24, 64, 20000
LESSONS_ONLY, LESSONS_END, LESSON_EVERY = 0.1, 0.3, 8  # shares of the run; between them, each 8th batch


def make_vocab(path, seed, size):
    if not os.path.exists(path):
        docs = stories.documents(VOCAB_TEXTS, seed)
        texts = (text for doc in docs for text in _texts(doc))
        vocabulary.save(vocabulary.train(texts, size), path)
    return vocabulary.load(path)


def _texts(doc):
    return [doc["text"]] if "text" in doc else [text for _, text in doc["chat"]]


def make_corpus(path, vocab, count, seed):
    """Every document's ids, as a list of arrays; on disk one after another, with their lengths."""
    if not os.path.exists(path):
        docs = [vocab.encode_document(doc) for doc in stories.documents(count, seed)]
        ids = numpy.array([token for doc in docs for token in doc], dtype=numpy.int16)
        numpy.savez(path, ids=ids, lengths=[len(doc) for doc in docs])
    stored = numpy.load(path)
    return numpy.split(stored["ids"], numpy.cumsum(stored["lengths"])[:-1])


def rows_of(corpus, length, rng):
    """Rows of at most `length` ids in random order: mostly one document, now and then as many as fit."""
    docs = rng.sample(corpus, len(corpus))
    while docs:
        row = [docs.pop()]
        if rng.random() < CROWDED_SHARE:
            while docs and sum(map(len, row)) < length:
                row.append(docs.pop())
        yield numpy.concatenate(row)[:length]


def batches(corpus, size, length, seed):
    """Endless batches (inputs, targets) of rows that are about equally long."""
    rng = random.Random(seed)
    while True:
        rows = list(rows_of(corpus, length, rng))
        groups = (
            sorted(rows[at : at + size * SORTED_BATCHES], key=len)
            for at in range(0, len(rows), size * SORTED_BATCHES)
        )
        for group in groups:
            parts = [group[at : at + size] for at in range(0, len(group), size)]
            yield from map(batch_of, rng.sample(parts, len(parts)))


def name_lessons(corpus, vocab, rng):
    """Short pieces of documents in which a name is soon repeated."""
    names = {vocab.id_of[f"{vocabulary.BLANK}{name}"] for name in lexicon.HE_NAMES + lexicon.SHE_NAMES}
    lessons = []
    for doc in corpus:
        places = [at for at, token in enumerate(doc.tolist()) if token in names]
        for at, after in zip(places, places[1:]):
            if doc[at] == doc[after] and after - at < LESSON_TOKENS - 4:
                begin = max(0, at - rng.randrange(4))
                lessons.append(doc[begin : begin + LESSON_TOKENS])
    return lessons


def is_lesson(step, progress):
    return progress < LESSONS_ONLY or (progress < LESSONS_END and step % LESSON_EVERY == 0)


def batch_of(rows):
    """Rows padded at the end; padding is not a target."""
    width = max(map(len, rows))
    ids = torch.zeros(len(rows), width, dtype=torch.long)
    targets = torch.full((len(rows), width), IGNORED)
    for at, row in enumerate(rows):
        row = torch.from_numpy(row).long()
        ids[at, : len(row)] = row
        targets[at, : len(row)] = row
    return ids[:, :-1], targets[:, 1:]


def loss_of(model, inputs, targets):
    return F.cross_entropy(model(inputs).flatten(0, 1), targets.flatten(), ignore_index=IGNORED)


def has_bf16_units():
    """Whether this processor multiplies bf16 matrices fast (AMX); elsewhere fp32 is the better choice."""
    with open("/proc/cpuinfo", encoding="ascii") as file:
        return "amx_bf16" in file.read()


def rate_at(progress):
    if progress < WARM_UP:
        return PEAK_RATE * progress / WARM_UP
    fall = 0.5 * (1 + math.cos(math.pi * min(1.0, (progress - WARM_UP) / (1 - WARM_UP))))
    return FINAL_RATE + (PEAK_RATE - FINAL_RATE) * fall


def make_optimizer(model):
    matrices = [weight for weight in model.parameters() if weight.dim() == 2]
    vectors = [weight for weight in model.parameters() if weight.dim() == 1]
    groups = [{"params": matrices, "weight_decay": 0.05}, {"params": vectors, "weight_decay": 0.0}]
    return torch.optim.AdamW(groups, lr=PEAK_RATE, betas=(0.9, 0.95))


@torch.no_grad()
def held_out_loss(model, vocab):
    """Mean loss per token of documents that were not trained on."""
    longest = model.config.context + 1
    docs = [numpy.array(vocab.encode_document(doc)[:longest]) for doc in stories.documents(400, HELD_OUT_SEED)]
    total = sum(loss_of(model, *batch_of([doc])).item() * (len(doc) - 1) for doc in docs)
    return total / sum(len(doc) - 1 for doc in docs)


class Run:
    """A training run: model, optimizer, and how far it has come.  It can be saved and resumed."""

    def __init__(self, model):
        self.model, self.optimizer = model, make_optimizer(model)
        self.steps, self.tokens, self.minutes, self.loss = 0, 0, 0.0, None

    def facts(self):
        return {"steps": self.steps, "tokens": self.tokens, "minutes": self.minutes, "loss": self.loss}

    def save(self, path, **more):
        content = {
            "weights": self.model.state_dict(),
            "config": vars(self.model.config),
            "facts": self.facts() | more,
        }
        torch.save(content | {"optimizer": self.optimizer.state_dict()}, path + ".new")
        os.replace(path + ".new", path)

    def resume(self, path):
        content = torch.load(path)
        self.model.load_state_dict(content["weights"])
        self.optimizer.load_state_dict(content["optimizer"])
        facts = content["facts"]
        self.steps, self.tokens, self.minutes, self.loss = (facts[x] for x in ("steps", "tokens", "minutes", "loss"))

    def step(self, inputs, targets, rate, precision):
        for group in self.optimizer.param_groups:
            group["lr"] = rate
        with torch.autocast("cpu", dtype=torch.bfloat16, enabled=precision == "bf16"):
            loss = loss_of(self.model, inputs, targets)
        self.optimizer.zero_grad()
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.optimizer.step()
        self.steps, self.tokens = self.steps + 1, self.tokens + (targets != IGNORED).sum().item()
        self.loss = loss.item() if self.loss is None else 0.95 * self.loss + 0.05 * loss.item()

    def show(self, progress):
        rate = self.tokens / self.minutes / 60
        print(
            f"step {self.steps}  {self.minutes:5.1f} min  {progress:4.0%}  loss {self.loss:.3f}  {rate:.0f} tokens/s",
            flush=True,
        )


def train(run, corpus, lessons, options, checkpoint):
    rng = random.Random(options.seed)
    begin, saved = time.time() - 60 * run.minutes, time.time()
    for inputs, targets in itertools.islice(
        batches(corpus, options.batch, run.model.config.context + 1, options.seed), run.steps, None
    ):
        run.minutes = (time.time() - begin) / 60
        progress = run.steps / options.steps if options.steps else run.minutes / options.minutes
        if progress >= 1:
            break
        if is_lesson(run.steps, progress):
            inputs, targets = batch_of(rng.sample(lessons, LESSON_ROWS))
        run.step(inputs, targets, rate_at(progress), options.precision)
        if run.steps % SHOW_EVERY == 0:
            run.show(progress)
        if time.time() - saved > SAVE_EVERY_S:
            saved = time.time()
            run.save(checkpoint)


def parse_options():
    parser = argparse.ArgumentParser(description="train the storyteller")
    parser.add_argument("--out", default="build/storyteller")
    parser.add_argument("--minutes", type=float, default=32, help="time budget (default 32)")
    parser.add_argument("--steps", type=int, default=0, help="train for so many steps, however long it takes")
    parser.add_argument(
        "--resume",
        action="store_true",
        help="go on from the checkpoint in --out; --minutes and --steps count the whole run",
    )
    parser.add_argument("--documents", type=int, default=70000)
    parser.add_argument("--batch", type=int, default=8, help="rows (mostly documents) per step")
    parser.add_argument(
        "--precision",
        choices=["fp32", "bf16"],
        default="bf16" if has_bf16_units() else "fp32",
        help="of the products in training; weights and sums stay fp32 (default: what this processor does best)",
    )
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--seed", type=int, default=1)
    return parser.parse_args()


def main():
    options = parse_options()
    torch.set_num_threads(options.threads)
    torch.manual_seed(options.seed)
    os.makedirs(options.out, exist_ok=True)
    config = Config()
    vocab = make_vocab(f"{options.out}/vocab.json", options.seed, config.vocab)
    corpus = make_corpus(f"{options.out}/corpus-{options.seed}.npz", vocab, options.documents, options.seed)
    model = Llama(config)
    model.init_weights(torch.Generator().manual_seed(options.seed))
    print(f"{parameter_count(model)} parameters, {sum(map(len, corpus))} tokens of stories", flush=True)
    run, checkpoint = Run(model), f"{options.out}/checkpoint.pt"
    if options.resume:
        run.resume(checkpoint)
    lessons = name_lessons(corpus[:LESSON_DOCUMENTS], vocab, random.Random(options.seed))
    train(run, corpus, lessons, options, checkpoint)
    run.save(checkpoint, held_out_loss=held_out_loss(model, vocab))
    print(json.dumps(torch.load(checkpoint)["facts"]))


if __name__ == "__main__":
    main()
