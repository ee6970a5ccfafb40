"""Answers of the program, as they were recorded: a change that is to leave the API alone has left it alone.

tests/vectors/answers/recorded.json holds requests, each with the answer that the storyteller gave. The model's bits do
not depend on the machine, so neither do the answers; names, times and lengths of waiting are put aside. Where an answer
changes on purpose, record it anew and read the difference:

    FLEXINFER=build/release/bin/flexinfer build/venv/bin/python tests/server/test_recorded.py --record
"""

import itertools
import json
import os
import pathlib
import re
import sys
import urllib.error
import urllib.request

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from real_server import SOURCE, Server

RECORDED = SOURCE / "tests/vectors/answers/recorded.json"
ARGS = ["--max-seq", "8", "--ctx", "512", "--alias", "storyteller", "--kv-memory", "64M"]

# Values that differ from run to run.
UNSTEADY_KEYS = {"id", "created", "created_at", "response_id", "request_id", "item_id", "completed_at", "system_fingerprint",
                 "timings", "metrics", "uptime_s", "version", "call_id"}


def steady(value):
    """The value without what differs from run to run."""
    if isinstance(value, dict):
        return {key: "*" if key in UNSTEADY_KEYS and inner is not None else steady(inner)
                for key, inner in value.items()}
    return [steady(inner) for inner in value] if isinstance(value, list) else value


def by_choice(kinds):
    """The kinds of events, those of one choice together: how the events of several choices mix depends on time."""
    def choice(kind):
        choices = json.loads(kind).get("choices") if kind.startswith("{") else None
        return choices[0]["index"] if choices else None

    runs = itertools.groupby(kinds, lambda kind: choice(kind) is None)
    return [kind for is_other, run in runs for kind in (run if is_other else sorted(run, key=choice))]


def fold_events(text):
    """A stream as its kinds of events and its text: how many tokens an event holds depends on time."""
    kinds, words = [], {}
    for event in text.split("\n\n"):
        data = "\n".join(line[5:].strip() for line in event.split("\n") if line.startswith("data:"))
        if not data or data == "[DONE]":
            kinds += [data] if data else []
            continue
        value = steady(json.loads(data))
        fold_texts(value, words, "")
        kind = json.dumps(value, sort_keys=True)
        if kind not in kinds:
            kinds.append(kind)
    return {"events": by_choice(kinds), "texts": words}


def fold_texts(value, words, path):
    """Moves the pieces of text of an event to words, by the place where they stand."""
    if isinstance(value, list):
        for i, inner in enumerate(value):
            fold_texts(inner, words, f"{path}[{inner.get('index', i) if isinstance(inner, dict) else i}]")
    elif isinstance(value, dict):
        for key, inner in value.items():
            if key in ("content", "text", "delta", "partial_json") and isinstance(inner, str):
                words[f"{path}.{key}"] = words.get(f"{path}.{key}", "") + inner
                value[key] = "*"
            elif key in ("logprobs", "sequence_number", "token_ids"):
                value[key] = "*" if inner else inner
            else:
                fold_texts(inner, words, f"{path}.{key}")


def ask(url, request):
    body = request.get("body")
    data = None if body is None else (body if isinstance(body, str) else json.dumps(body)).encode()
    headers = {"Content-Type": "application/json", **request.get("headers", {})}
    call = urllib.request.Request(url + request["path"], data, headers, method=request["method"])
    try:
        answer = urllib.request.urlopen(call, timeout=120)
    except urllib.error.HTTPError as error:
        answer = error
    text, kind = answer.read().decode(), answer.headers.get("Content-Type", "")
    if "event-stream" in kind:
        content = fold_events(text)
    elif "json" in kind:
        content = steady(json.loads(text))
    else:
        content = re.sub(r"[0-9.e+-]+", "#", text) if len(text) < 2000 else len(text) > 0
    return {"status": answer.status, "type": kind, "content": content}


def read_recorded():
    return json.loads(RECORDED.read_text())


@pytest.fixture(scope="module")
def server():
    child = Server(*ARGS)
    yield child
    assert child.stop() == 0


def test_answers_are_as_they_were_recorded(server):
    entries = read_recorded()
    assert len(entries) > 100
    differ = []
    for entry in entries:
        answer = ask(server.url, entry["request"])
        if answer != entry["answer"]:
            differ.append(json.dumps({"request": entry["request"], "was": entry["answer"], "is": answer}, indent=1))
    assert not differ, "\n".join(differ)


def record(path):
    """Asks again what is recorded, or what the file `path` lists."""
    requests = json.loads(pathlib.Path(path).read_text()) if path else [e["request"] for e in read_recorded()]
    child = Server(*ARGS)
    entries = [{"request": request, "answer": ask(child.url, request)} for request in requests]
    child.stop()
    RECORDED.write_text("[\n" + ",\n".join(json.dumps(entry, sort_keys=True) for entry in entries) + "\n]\n")


if __name__ == "__main__" and sys.argv[1:2] == ["--record"]:
    record(sys.argv[2] if len(sys.argv) > 2 else None)
