"""/v1/rerank and /v1/score on a cross-encoder's folder by the real program: the scores are those that transformers
computes (tests/vectors/models/pairs.json)."""

import json
import pathlib
import sys
import urllib.request

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).parent))
from real_server import SOURCE, Server

VECTORS = SOURCE / "tests" / "vectors"
PAIRS = json.loads((VECTORS / "models" / "pairs.json").read_text())["cases"]


def post(server, path, **body):
    request = urllib.request.Request(server.url + path, json.dumps(body).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as r:
        return json.load(r)


@pytest.mark.parametrize("folder", ["bert-rank", "xlm-roberta-rank"])
def test_scores_of_transformers(folder):
    server = Server("-m", str(VECTORS / "folders" / folder), "--kv-type", "f32")
    pairs = [p for p in PAIRS if p["folder"] == folder]
    got = post(server, "/v1/score", text_1=[p["text_1"] for p in pairs], text_2=[p["text_2"] for p in pairs])
    assert [d["score"] for d in got["data"]] == pytest.approx([p["score"] for p in pairs], abs=2e-6)
    assert got["usage"]["total_tokens"] == sum(len(p["ids"]) for p in pairs)

    query, documents = "the cat", [p["text_2"] for p in pairs]
    ranked = post(server, "/v1/rerank", query=query, documents=documents)["results"]
    alone = [post(server, "/v1/score", text_1=query, text_2=d)["data"][0]["score"] for d in documents]
    assert [r["relevance_score"] for r in ranked] == sorted(alone, reverse=True)
    assert all(r["relevance_score"] == alone[r["index"]] for r in ranked)
    assert all(r["document"] == {"text": documents[r["index"]]} for r in ranked)
    assert server.stop() == 0, "\n".join(server.lines)
