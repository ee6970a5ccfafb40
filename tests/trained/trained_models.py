"""The trained models, a server on one of them, and requests to it: for the tests of this folder.

tools/fetch_model gets the models; tests of one that is not there are skipped. FLEXINFER names the program, a release
build: with sanitizers these tests take ten times as long.

    tools/fetch_model smollm2 minilm
    build/venv/bin/python -m pytest tests/trained
"""

import concurrent.futures
import contextlib
import json
import os
import pathlib
import sys
import urllib.request

import pytest

SOURCE = pathlib.Path(__file__).parents[2]
os.environ.setdefault("FLEXINFER", str(SOURCE / "build/release/bin/flexinfer"))
sys.path.insert(0, str(SOURCE / "tests/server"))
from real_server import Server

MODELS = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")) / "flexinfer/models"
SMOLLM2 = MODELS / "SmolLM2-135M-Instruct.Q4_1.gguf"
MINILM = MODELS / "all-MiniLM-L6-v2"
VECTORS = SOURCE / "tests/vectors/trained"
RECORDED = VECTORS / "recorded.json"
ARGS = ["--alias", "trained", "--kv-memory", "1G"]


def needs(model):
    if not model.exists():
        pytest.skip(f"{model} is not there; tools/fetch_model gets it")


@contextlib.contextmanager
def serving(*args, model=SMOLLM2):
    needs(model)
    server = Server(*ARGS, *args, model=model)
    try:
        yield server
    finally:
        status = server.stop()
    assert status == 0, "\n".join(server.lines)


def post(server, path, **body):
    """The answer to a request, the model and greedy decoding filled in."""
    data = json.dumps({"model": "trained", "temperature": 0, **body}).encode()
    with urllib.request.urlopen(urllib.request.Request(server.url + path, data, {"Content-Type": "application/json"}),
                                timeout=240) as answer:
        return json.load(answer)


def post_together(server, path, bodies):
    """The answers to requests that are all sent at once, in their order."""
    with concurrent.futures.ThreadPoolExecutor(len(bodies)) as threads:
        return list(threads.map(lambda body: post(server, path, **body), bodies))


def stats(server):
    with urllib.request.urlopen(server.url + "/stats", timeout=60) as answer:
        return json.load(answer)


def read_text(name):
    return (VECTORS / f"{name}.txt").read_text(encoding="utf-8")
