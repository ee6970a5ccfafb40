"""NVIDIA's benchmark client aiperf completes a run over chats and over completions, and counts what the server counts.

It also reads /metrics before, during and after the run.
"""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import serving

pytest.importorskip("aiperf")
tokenizers = pytest.importorskip("tokenizers")

N_REQUEST, N_TOKEN = 40, 16
PROMPTS = ["Tell me of a cat.", "Tell me of a dog and a bird.", "Who went to the park?"]


server = serving.fixture()


@pytest.fixture(scope="module")
def place(tmp_path_factory):
    """The prompts, and a tokenizer that it wants to have; tokens are counted by the server."""
    folder = tmp_path_factory.mktemp("aiperf")
    (folder / "prompts.jsonl").write_text("".join(json.dumps({"text": one}) + "\n" for one in PROMPTS), encoding="ascii")
    words = sorted({word for one in PROMPTS for word in one.split()})
    vocab = {word: i for i, word in enumerate(["<unk>", "</s>", *words])}
    one = tokenizers.Tokenizer(tokenizers.models.WordLevel(vocab, unk_token="<unk>"))
    one.pre_tokenizer = tokenizers.pre_tokenizers.WhitespaceSplit()
    revision = "0" * 40
    snapshot = folder / "hub/models--test--words/snapshots" / revision  # as Hugging Face's library keeps one
    snapshot.mkdir(parents=True)
    one.save(str(snapshot / "tokenizer.json"))
    (snapshot / "tokenizer_config.json").write_text(json.dumps(
        {"tokenizer_class": "PreTrainedTokenizerFast", "unk_token": "<unk>", "eos_token": "</s>"}), encoding="ascii")
    (snapshot / "config.json").write_text('{"model_type": "llama"}', encoding="ascii")
    refs = folder / "hub/models--test--words/refs"
    refs.mkdir()
    (refs / "main").write_text(revision, encoding="ascii")
    return folder


@pytest.mark.parametrize("kind, streaming", [("chat", True), ("completions", True), ("chat", False)])
def test_aiperf(server, place, kind, streaming):
    out = place / f"{kind}-{streaming}"
    done = subprocess.run(
        [Path(sys.executable).parent / "aiperf", "profile", "--model", server.model, "--url", server.url,
         "--endpoint-type", kind, *(["--streaming"] if streaming else []), "--concurrency", "8",
         "--request-count", str(N_REQUEST), "--input-file", place / "prompts.jsonl",
         "--custom-dataset-type", "single_turn", "--tokenizer", "test/words", "--use-server-token-count",
         "--ui", "none", "--artifact-dir", out, "--extra-inputs", f"max_tokens:{N_TOKEN}",
         "--extra-inputs", "ignore_eos:true"],
        env=os.environ | {"HF_HUB_OFFLINE": "1", "HF_HOME": str(place), "HOME": str(place)}, cwd=place,
        capture_output=True, text=True, timeout=400)
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-2000:]
    found = json.loads((out / "profile_export_aiperf.json").read_text(encoding="utf-8"))
    assert found["request_count"]["avg"] == N_REQUEST
    assert not found.get("error_request_count")
    assert found["output_sequence_length"]["min"] == found["output_sequence_length"]["max"] == N_TOKEN
    assert found["request_latency"]["p99"] > 0
    if streaming:
        assert 0 < found["time_to_first_token"]["p50"] <= found["request_latency"]["max"]
