"""The parser of Prometheus' own Python client reads /metrics of the real program.

Run by CTest through run_pytest.sh, or by hand as test_openai.py.
"""

import json
import urllib.error
import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from real_server import Server

PREFIX = "flexinfer_"


def read(server):
    with urllib.request.urlopen(server.url + "/metrics") as r:
        assert r.headers["Content-Type"].startswith("text/plain; version=0.0.4")
        return {f.name: f for f in text_string_to_metric_families(r.read().decode())}


def value(families, name, **labels):
    samples = [s for family in families.values() for s in family.samples]
    found = [s.value for s in samples if s.name == PREFIX + name and s.labels == labels]
    assert len(found) == 1, (name, labels, found)
    return found[0]


def complete(server, prompt, n_tok):
    body = json.dumps({"prompt": prompt, "max_tokens": n_tok, "ignore_eos": True, "temperature": 0})
    request = urllib.request.Request(server.url + "/v1/completions", body.encode(),
                                     {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as r:
        return json.load(r)["usage"]


def test_the_page_is_what_the_parser_expects():
    server = Server("--speculate", "off")  # steps are counted
    try:
        used = [complete(server, "Once upon a time there was a little robot", 7) for _ in range(2)]
        f = read(server)
        for family in f.values():
            assert family.documentation and family.type in ("counter", "gauge", "histogram"), family
            assert family.name.startswith(PREFIX)
            if family.type == "histogram":
                check_histogram(family)
        n_prompt = sum(u["prompt_tokens"] for u in used)
        n_cached = sum(u["prompt_tokens_details"]["cached_tokens"] for u in used)
        assert n_cached > 0
        assert value(f, "prompt_tokens_total") == n_prompt
        assert value(f, "prompt_tokens_computed_total") == n_prompt - n_cached
        assert value(f, "generation_tokens_total") == 14
        assert value(f, "prefix_cache_queries_total") == n_prompt
        assert value(f, "prefix_cache_hits_total") == n_cached
        assert value(f, "request_success_total", finished_reason="length") == 2
        assert value(f, "inter_token_latency_seconds_count") == 12
        assert value(f, "iterations_total") == value(f, "iteration_tokens_total_count") == 14
        assert value(f, "kv_mapped_bytes") > 0
        assert 0 <= value(f, "kv_mappings") < value(f, "kv_mappings_limit")  # idle spans are soon unmapped
        assert value(f, "kv_retired_bytes") == 0
        assert value(f, "kv_driver_calls_total", op="map") > 0
        assert value(f, "kv_driver_call_seconds_total", op="map") > 0
        assert value(f, "kv_block_reuse_gap_seconds_count") == 1
        assert value(f, "process_resident_bytes") > 1 << 20
    finally:
        server.child.kill()


def ask(server, method, path):
    request = urllib.request.Request(server.url + path, b"{}" if method == "POST" else None,
                                     {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request) as r:
            return r.status
    except urllib.error.HTTPError as e:
        return e.code


def test_no_series_is_there_twice():
    """Two methods of one path are one route."""
    server = Server()
    try:
        codes = {ask(server, method, "/admin/budget") for method in ("GET", "POST", "PUT")}
        ask(server, "GET", "/nowhere")
        samples = [(s.name, tuple(sorted(s.labels.items()))) for f in read(server).values() for s in f.samples]
        assert len(samples) == len(set(samples))
        requests = [s for s in read(server)["flexinfer_http_requests"].samples if s.labels["route"] == "/admin/budget"]
        assert {int(s.labels["code"]) for s in requests} <= codes and sum(s.value for s in requests) >= 2
        assert value(read(server), "http_requests_total", route="other", code="404") == 1
    finally:
        server.child.kill()


def check_histogram(family):
    """Buckets grow, the last one is +Inf and equals the count."""
    buckets = [s for s in family.samples if s.name.endswith("_bucket")]
    bounds = [float(s.labels["le"]) for s in buckets]
    counts = [s.value for s in buckets]
    assert bounds == sorted(bounds) and bounds[-1] == float("inf"), family.name
    assert counts == sorted(counts), family.name
    [count] = [s.value for s in family.samples if s.name.endswith("_count")]
    [total] = [s.value for s in family.samples if s.name.endswith("_sum")]
    assert counts[-1] == count and (total == 0 or count > 0), family.name
