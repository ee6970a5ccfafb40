#!/usr/bin/env python3
"""Lets a checkpoint tell stories, to judge it by eye before it is exported.

sample.py build/storyteller                          # the empty prompt, an opening, and some requests
sample.py build/storyteller --ask "Tell me a story about an owl named Pip."
sample.py build/storyteller --judge 40               # counts stories that end, and names that change
"""

import argparse
import random
import re

import torch

import stories
import vocab as vocabulary
from export import load_checkpoint

OPENINGS = ["", "Once upon a time", "One cold morning, a little robot"]
REQUESTS = [
    "Tell me a story about a fox named Pip who loses a kite.",
    "Tell me a story.",
    "Hello!",
    "Write a short story set at the harbour.",
    "tell me a story about a dragon who is afraid of the dark",
    "Could you tell me a story about a girl named Zindy and a bear named Mop?",
    "Who are you?",
]
LIMIT = 400  # tokens of one answer
JUDGE_SEED = 999


@torch.no_grad()
def generate(model, tokens, temperature, generator, stops):
    """Returns (new tokens, whether a stop token ended them)."""
    start = len(tokens)
    tokens = list(tokens)
    while len(tokens) < min(start + LIMIT, model.config.context):
        logits = model(torch.tensor([tokens]))[0, -1]
        token = torch.multinomial((logits / temperature).softmax(-1), 1, generator=generator).item()
        if token in stops:
            return tokens[start:], True
        tokens.append(token)
    return tokens[start:], False


class Teller:
    def __init__(self, folder, temperature, seed):
        self.model, self.vocab, self.facts = load_checkpoint(folder)
        self.temperature = temperature
        self.generator = torch.Generator().manual_seed(seed)
        self.stops = {vocabulary.EOS, self.vocab.id_of[vocabulary.IM_END]}

    def _generate(self, prompt):
        tokens, ended = generate(self.model, prompt, self.temperature, self.generator, self.stops)
        return self.vocab.decode(tokens), ended

    def go_on(self, text):
        rest, ended = self._generate([vocabulary.BOS] + self.vocab.encode(text, True))
        return (text + (" " if text and rest[:1].isalnum() else "") + rest), ended

    def answer(self, request):
        prompt = self.vocab.encode_chat([("user", request)]) + self.vocab.encode("\n", False)
        return self._generate(prompt + self.vocab.chat_head("assistant"))


def names_of(text):
    """Capitalised words inside sentences: in these stories they are the characters' names."""
    return set(re.findall(r"(?<=[a-z,] )[A-Z][a-z]+", text)) - {"I"}


def judge(teller, count):
    """Stories to requests: how many end, keep to two names, and use the name that was asked for."""
    rng = random.Random(JUDGE_SEED)
    ended = few_names = right_name = 0
    for _ in range(count):
        name = stories.Cast(rng).slots["h"]
        text, end = teller.answer(f"Tell me a story about a {name.kind} named {name}.")
        ended += end
        few_names += len(names_of(text)) <= 2
        right_name += str(name) in text and name.kind in text
    print(
        f"of {count} stories {ended} end, {few_names} have at most two names, {right_name} are about the one"
        " asked for"
    )


def main():
    parser = argparse.ArgumentParser(description="let a checkpoint tell stories")
    parser.add_argument("folder")
    parser.add_argument("--ask", action="append", help="a request; may be given several times")
    parser.add_argument("--temperature", type=float, default=0.8)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--judge", type=int, metavar="N", help="count instead of showing")
    options = parser.parse_args()
    torch.set_num_threads(1)
    teller = Teller(options.folder, options.temperature, options.seed)
    print(teller.facts)
    if options.judge:
        return judge(teller, options.judge)
    for opening in [] if options.ask else OPENINGS:
        text, ended = teller.go_on(opening)
        print(f"\n=== {opening!r}\n{text}\n[{'end' if ended else 'no end'}]")
    for request in options.ask or REQUESTS:
        text, ended = teller.answer(request)
        print(f"\n=== {request}\n{text}\n[{'end' if ended else 'no end'}]")


if __name__ == "__main__":
    main()
