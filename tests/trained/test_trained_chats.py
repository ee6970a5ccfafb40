"""Chats with trained weights: templates as the model's own, answers as recorded, prefixes found, long texts read.

Greedy answers depend on nothing but the weights, so they were recorded. Where they change on purpose, record them anew
and read the difference:

    build/venv/bin/python tests/trained/test_trained_chats.py --record
"""

import json
import sys

import pytest

from trained_models import RECORDED, VECTORS, post, read_text, serving

# Each turn is what the user says; the answers before it are the model's.
CHATS = {
    "plain": ["Hi, my name is Ada. What is the capital of Italy?", "And of Spain?", "Which of the two lies further north?",
              "What food is each of them known for?", "Write one sentence that names both cities.",
              "Now say it in French.", "What was my name?", "Thank you, goodbye."],
    "system": ["List three fruits.", "Which of them is yellow?", "Write a rhyme about it.", "Make it shorter.",
               "How many letters does 'banana' have?", "Spell it backwards.", "Is a tomato a fruit?", "Why?"],
}
SYSTEM = {"system": "You are a terse assistant. Answer in at most ten words."}
ANSWER_TOK = 40

NEEDLE_TOK = 6000
NEEDLE = "\n\nThe password of the lighthouse keeper is 'purple heron 41'.\n\n"
QUESTION = "\n\nQ: What is the password of the lighthouse keeper?\nA: The password of the lighthouse keeper is '"


def talk(server, name):
    """[[answer, tokens of the prompt, of them cached]] of each turn."""
    messages = [{"role": "system", "content": SYSTEM[name]}] if name in SYSTEM else []
    turns = []
    for said in CHATS[name]:
        messages.append({"role": "user", "content": said})
        answer = post(server, "/v1/chat/completions", messages=messages, max_tokens=ANSWER_TOK)
        messages.append({"role": "assistant", "content": answer["choices"][0]["message"]["content"]})
        usage = answer["usage"]
        turns.append([messages[-1]["content"], usage["prompt_tokens"], usage["prompt_tokens_details"]["cached_tokens"]])
    return turns


def needle_prompt(server):
    """The manual's first NEEDLE_TOK tokens with the needle after a third of them, and the question."""
    def ids(text):
        return post(server, "/tokenize", prompt=text)["tokens"]

    manual = ids(read_text("manual"))[:NEEDLE_TOK]
    third = len(manual) // 3
    return manual[:third] + ids(NEEDLE) + manual[third:] + ids(QUESTION)


def find_needle(server, prompt):
    answer = post(server, "/v1/completions", prompt=prompt, max_tokens=12, logprobs=1)
    choice = answer["choices"][0]
    return [choice["text"], choice["logprobs"]["token_logprobs"]], answer["usage"]["prompt_tokens_details"]["cached_tokens"]


@pytest.fixture(scope="module")
def server():
    with serving() as child:
        yield child


@pytest.fixture(scope="module")
def recorded():
    return json.loads(RECORDED.read_text(encoding="utf-8"))


def test_template_is_the_models_own(server):
    entries = json.loads((VECTORS / "templates.json").read_text(encoding="utf-8"))
    assert len(entries) > 3
    for entry in entries:
        assert post(server, "/apply-template", messages=entry["messages"])["prompt"] == entry["prompt"]


@pytest.mark.parametrize("name", CHATS)
def test_chat_of_eight_turns(server, recorded, name):
    turns = talk(server, name)
    assert turns == recorded[name]
    for (_, n_before, _), (_, n_prompt, n_cached) in zip(turns, turns[1:]):
        assert n_before <= n_cached < n_prompt, "the prompt of the turn before is found"


def test_needle_in_a_long_text(server, recorded):
    prompt = needle_prompt(server)
    answer, n_cached = find_needle(server, prompt)
    assert len(prompt) > NEEDLE_TOK and n_cached == 0
    assert "purple heron 41" in answer[0]
    assert answer == recorded["needle"], "which was computed in other chunks, with another manager"
    again, n_cached = find_needle(server, prompt)
    assert again == answer and n_cached > NEEDLE_TOK, "with the prompt from the cache"


def record():
    with serving() as child:
        entries = {name: talk(child, name) for name in CHATS}
    with serving("--step-tokens", "96", "--kv", "paged", "--threads", "1") as child:
        entries["needle"] = find_needle(child, needle_prompt(child))[0]
    RECORDED.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")


if __name__ == "__main__" and sys.argv[1:] == ["--record"]:
    record()
