"""dist/grafana/flexinfer.json asks for what /metrics of the real program serves, with labels that exist.

Where a Prometheus server is installed, it scrapes the program and evaluates every query. Run by CTest through
run_pytest.sh, or by hand as test_openai.py.
"""

import json
import os
import re
import shutil
import socket
import subprocess
import time
import urllib.parse
import urllib.request
from pathlib import Path

import pytest
from prometheus_client.parser import text_string_to_metric_families

from real_server import Server
from test_prometheus import complete

DASHBOARD = Path(os.environ["FLEXINFER_SOURCE"]) / "dist" / "grafana" / "flexinfer.json"
FROM_SCRAPING = {"instance", "job"}


def panels():
    return [p for p in json.loads(DASHBOARD.read_text())["panels"] if p["type"] != "row"]


def queries():
    return [target["expr"] for panel in panels() for target in panel["targets"]]


@pytest.fixture(scope="module")
def server():
    server = Server()
    for _ in range(2):
        complete(server, "Once upon a time there was a little robot", 7)
    yield server
    server.child.kill()


@pytest.fixture(scope="module")
def families(server):
    with urllib.request.urlopen(server.url + "/metrics") as r:
        return list(text_string_to_metric_families(r.read().decode()))


def samples_of(families):
    """Name of every sample to (type of its family, names of its labels)."""
    found = {}
    for family in families:
        for sample in family.samples:
            kind, labels = found.setdefault(sample.name, (family.type, set()))
            labels.update(sample.labels)
    return found


def test_panels_are_whole():
    ids = [p["id"] for p in json.loads(DASHBOARD.read_text())["panels"]]
    assert len(set(ids)) == len(ids) > 30
    for panel in panels():
        place = panel["gridPos"]
        assert panel["title"] and panel["targets"] and place["x"] + place["w"] <= 24, panel["title"]
        for target in panel["targets"]:
            legend = re.findall(r"{{(\w+)}}", target["legendFormat"])
            grouped = re.search(r" by \(([\w, ]+)\)", target["expr"])
            assert set(legend) <= set(grouped.group(1).split(", ") if grouped else {"version", "kernels"}), target


def test_queries_name_what_is_served(families):
    served = samples_of(families)
    for query in queries():
        names = re.findall(r"\bflexinfer_\w+", query)
        assert names, query
        labels = set(re.findall(r"(\w+)\s*[=!]~?\"", query))
        for group in re.findall(r" by \(([\w, ]+)\)", query):
            labels |= set(group.split(", "))
        for name in names:
            assert name in served, (name, query)
            kind, own = served[name]
            assert labels <= own | FROM_SCRAPING, (labels - own, query)
            is_rated = re.search(rf"(rate|increase)\({name}\b", query)
            assert bool(is_rated) == (kind != "gauge"), query


def test_every_metric_is_shown(families):
    """But for the few that say what the program is, that others contain, or that are old names of others."""
    text = "\n".join(queries())
    hidden = {"flexinfer_model_info", "flexinfer_requests", "flexinfer_num_prompt_tokens_waiting",
              "flexinfer_kv_ops", "flexinfer_kv_peak_mapped_bytes", "flexinfer_kv_peak_live_bytes",
              "flexinfer_process_start_time_seconds", "flexinfer_kv_stream_pictures",
              "flexinfer_kv_stream_picture_seconds"}
    shown = {f.name for f in families if re.search(rf"\b{f.name}(_total|_bucket|_sum|_count)?\b", text)}
    assert {f.name for f in families} - shown == hidden


@pytest.mark.skipif(not shutil.which("prometheus"), reason="no prometheus here")
def test_prometheus_evaluates_every_query(server, tmp_path):
    config = tmp_path / "prometheus.yml"
    config.write_text("global: {scrape_interval: 250ms, scrape_timeout: 250ms}\nscrape_configs:\n"
                      f"- {{job_name: flexinfer, static_configs: [{{targets: ['{server.url.split('//')[1]}']}}]}}\n")
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    with open(tmp_path / "log", "w", encoding="utf-8") as log:
        child = subprocess.Popen(["prometheus", f"--config.file={config}", f"--storage.tsdb.path={tmp_path}/data",
                                  f"--web.listen-address=127.0.0.1:{port}"], stdout=log, stderr=log)

    def ask(query):
        query = query.replace("$instance", ".*").replace("$__rate_interval", "1m")
        url = f"http://127.0.0.1:{port}/api/v1/query?" + urllib.parse.urlencode({"query": query})
        with urllib.request.urlopen(url, timeout=30) as r:
            return json.load(r)["data"]["result"]

    def until_answered(query):
        for _ in range(400):
            try:
                if ask(query):
                    return
            except OSError:
                assert child.poll() is None, (tmp_path / "log").read_text()
            time.sleep(0.1)
        raise AssertionError(query)

    try:
        until_answered('rate(flexinfer_generation_tokens_total[1m])')
        complete(server, "Once upon a time there was a little robot", 7)
        for query in queries():
            until_answered(query)
    finally:
        child.kill()
        child.wait()
