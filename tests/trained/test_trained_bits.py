"""The same bits on trained weights: tokens and logprobs of answers, compared with == over all that must not matter.

Requests are asked one after the other, by a server that keeps no prefix, drafts nothing and has one thread. Then they
are asked all at once, of servers that differ in one thing each: KV manager, threads, chunks of prompts, speculation, a
budget that makes them preempt each other, kept prefixes.
"""

import os
import pathlib
import subprocess
import tempfile

import pytest

from trained_models import SMOLLM2, needs, post, post_together, read_text, serving, stats

LONG_TOK, SHORT_TOK = 120, 16  # of answers to the questions alone, and after a text
QUESTIONS = ["Tell me about the moon.", "Write a list of five animals.", "Repeat after me: one two three one two three one",
             "What is a lighthouse?", "Summarize the text above."]
PREFIX_CHARS = 1500  # of a text that some questions follow: they share it

MANAGERS = ["vtensor", "vattention", "vattention-mega", "vattention-start", "paged"]
WAYS = {
    **{f"manager {name}": ["--kv", name] for name in MANAGERS},
    "three threads": ["--threads", "3"],
    "chunks of 17": ["--step-tokens", "17"],
    "no drafts": ["--speculate", "off"],
}
TIGHT_BUDGET = "6M"  # an answer and a half


def requests():
    prefix = read_text("manual")[:PREFIX_CHARS] + "\n\n"
    texts = [(question, LONG_TOK) for question in QUESTIONS]
    texts += [(prefix + question, SHORT_TOK) for question in QUESTIONS[2:]]
    return [{"messages": [{"role": "user", "content": text}], "max_tokens": n_tok, "logprobs": True, "top_logprobs": 3,
             "ignore_eos": True} for text, n_tok in texts]


def bits(answer):
    return [(entry["token"], entry["logprob"], [top["logprob"] for top in entry["top_logprobs"]])
            for entry in answer["choices"][0]["logprobs"]["content"]]


def ask_together(server, n=None):
    """The bits of the answers to the first n requests, or to all."""
    return [bits(answer) for answer in post_together(server, "/v1/chat/completions", requests()[:n])]


@pytest.fixture(scope="module")
def alone():
    with serving("--threads", "1", "--speculate", "off") as server:
        answers = [bits(post(server, "/v1/chat/completions", **request, cache_prompt=False)) for request in requests()]
    assert [len(answer) for answer in answers] == [request["max_tokens"] for request in requests()]
    return answers


@pytest.mark.parametrize("way", WAYS)
def test_together(alone, way):
    with serving(*WAYS[way]) as server:
        assert ask_together(server) == alone
        if way == "manager vtensor":
            assert ask_together(server) == alone, "again, with every prompt in the cache and drafts from recorded answers"
            assert stats(server)["n_draft_tok"] > 0


@pytest.mark.parametrize("manager", MANAGERS)
def test_preempted(alone, manager):
    with serving("--kv", manager, "--kv-memory", TIGHT_BUDGET, "--ctx", "512") as server:
        assert ask_together(server, len(QUESTIONS)) == alone[:len(QUESTIONS)]
        assert stats(server)["n_preempt_recompute"] > 0


@pytest.fixture(scope="module")
def rounded():
    """The model in another type."""
    needs(SMOLLM2)
    with tempfile.TemporaryDirectory() as folder:
        def make(kind):
            path = pathlib.Path(folder, f"{kind}.gguf")
            if not path.exists():
                subprocess.run([os.environ["FLEXINFER"], "quantize", SMOLLM2, path, kind, "--allow-requantize"], check=True)
            return path
        yield make


# One draft model is much faster than what it drafts for; one is as fast, and left alone once the engine knows. Whether
# it is asked is a matter of time; the bits are not.
@pytest.mark.parametrize("main", ["f32", "q4_1"])
def test_a_draft_model(rounded, main):
    model = SMOLLM2 if main == "q4_1" else rounded(main)
    asked = [{**request, "max_tokens": 40} for request in requests()[:3]]
    with serving("--speculate", "off", model=model) as server:
        plain = [bits(answer) for answer in post_together(server, "/v1/chat/completions", asked)]
    with serving("--speculate", "off", "--draft", rounded("q4_0"), model=model) as server:
        one = [bits(post(server, "/v1/chat/completions", **request, cache_prompt=False)) for request in asked]
        together = [bits(answer) for answer in post_together(server, "/v1/chat/completions", asked)]
        assert one == plain and together == plain
        told = stats(server)
        assert told["n_draft_tok"] >= told["n_accepted_tok"]
        assert told["n_draft_tok"] or not told["draft_saved_us"]
