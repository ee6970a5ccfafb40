"""Spans of requests as an OpenTelemetry collector gets them from the real program (OTLP over HTTP/JSON).

A collector of our own reads every body with OpenTelemetry's published protobuf definitions. Run by CTest through
run_pytest.sh, or by hand as test_openai.py.
"""

import base64
import http.server
import json
import os
import re
import ssl
import subprocess
import threading
import time
import urllib.error
import urllib.request
from pathlib import Path

import pytest
from google.protobuf import json_format
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest
from opentelemetry.proto.trace.v1.trace_pb2 import Span, Status

from real_server import MODEL, PROGRAM, Server

TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"
PARENT = "00f067aa0ba902b7"
SECRET = "Once upon a time there was a secret"


class Collector(http.server.ThreadingHTTPServer):
    """Keeps the spans it gets; `status` is what it answers with."""

    def __init__(self, port=0, tls=None):
        super().__init__(("127.0.0.1", port), Handler)
        if tls:
            self.socket = tls.wrap_socket(self.socket, server_side=True)
        self.spans, self.resources, self.bodies, self.status = [], [], [], 200
        self.arrived = threading.Condition()
        threading.Thread(target=self.serve_forever, args=(0.02,), daemon=True).start()  # so often it looks for its end
        self.url = f"http{'s' if tls else ''}://127.0.0.1:{self.server_address[1]}"

    def take(self, body):
        message = json_format.Parse(body, ExportTraceServiceRequest())  # unknown members are errors
        with self.arrived:
            self.bodies.append(body)
            for part in message.resource_spans:
                self.resources.append(values(part.resource.attributes))
                for scope in part.scope_spans:
                    self.spans += scope.spans
            self.arrived.notify_all()

    def wait(self, wanted, limit_s=60):
        with self.arrived:
            assert self.arrived.wait_for(lambda: wanted(self.spans), limit_s), self.spans
            return list(self.spans)

    def forget(self):
        with self.arrived:
            self.spans, self.resources, self.bodies = [], [], []


class Handler(http.server.BaseHTTPRequestHandler):
    def do_POST(self):
        self.server.authorization = self.headers["Authorization"]
        body = self.rfile.read(int(self.headers["Content-Length"]))
        assert self.headers["Content-Type"] == "application/json" and self.path == "/v1/traces", self.path
        if self.server.status == 200:
            self.server.take(body)
        self.send_response(self.server.status)
        self.send_header("Content-Length", "2")
        self.end_headers()
        self.wfile.write(b"{}")

    def log_message(self, *_):
        pass


def values(attributes):
    def plain(v):
        kind = v.WhichOneof("value")
        return [plain(x) for x in v.array_value.values] if kind == "array_value" else getattr(v, kind)
    return {a.key: plain(a.value) for a in attributes}


def hex_of(ident):
    """An id's digits. In OTLP's JSON they are hexadecimal; the generic parser of protobuf takes them for base64."""
    return base64.b64encode(ident).decode()


def post(server, path="/v1/completions", headers=None, **fields):
    body = json.dumps({"prompt": SECRET, "max_tokens": 6, "temperature": 0} | fields).encode()
    request = urllib.request.Request(server.url + path, body, {"Content-Type": "application/json", **(headers or {})})
    with urllib.request.urlopen(request, timeout=120) as r:
        return json.loads(r.read())


def roots(spans):
    return [s for s in spans if s.kind == Span.SPAN_KIND_SERVER]


def metric(server, name):
    with urllib.request.urlopen(server.url + "/metrics") as r:
        return sum(float(v) for v in re.findall(rf"^flexinfer_{name}(?:{{.*}})? (\S+)$", r.read().decode(), re.M))


@pytest.fixture
def collector():
    one = Collector()
    yield one
    one.shutdown()
    one.server_close()


@pytest.fixture
def server(collector):
    one = Server("--otlp-endpoint", collector.url + "/v1/traces")
    yield one
    assert one.stop() == 0, "\n".join(one.lines)


@pytest.fixture(scope="module")
def shared():
    """A server and its collector for tests that wait for all of their spans."""
    collector = Collector()
    one = Server("--otlp-endpoint", collector.url + "/v1/traces")
    yield one, collector
    assert one.stop() == 0, "\n".join(one.lines)
    collector.shutdown()
    collector.server_close()


def test_a_request_in_its_callers_trace(shared):
    server, collector = shared
    collector.forget()
    answer = post(server, headers={"traceparent": f"00-{TRACE}-{PARENT}-01", "tracestate": "a=1"})
    spans = collector.wait(roots)
    root, = roots(spans)
    assert hex_of(root.trace_id) == TRACE and hex_of(root.parent_span_id) == PARENT and root.trace_state == "a=1"
    told = values(root.attributes)
    usage = answer["usage"]
    assert told["gen_ai.operation.name"] == "text_completion"
    assert told["gen_ai.usage.input_tokens"] == usage["prompt_tokens"]
    assert told["gen_ai.usage.output_tokens"] == usage["completion_tokens"]
    assert told["gen_ai.response.id"] == answer["id"] and told["gen_ai.response.model"] == answer["model"]
    assert told["gen_ai.response.finish_reasons"] == ["length"]
    assert told["http.response.status_code"] == 200 and root.status.code == Status.STATUS_CODE_UNSET
    assert 0 < told["flexinfer.time_to_first_token"] < 60
    event, = root.events
    assert event.name == "first_token" and root.start_time_unix_nano <= event.time_unix_nano <= root.end_time_unix_nano
    children = {s.name: s for s in spans if s.parent_span_id == root.span_id}
    assert set(children) == {"queue", "prefill", "decode"}
    order = [children[name] for name in ("queue", "prefill", "decode")]
    for before, after in zip(order, order[1:]):
        assert before.end_time_unix_nano == after.start_time_unix_nano
    assert root.start_time_unix_nano <= order[0].start_time_unix_nano
    assert order[-1].end_time_unix_nano <= root.end_time_unix_nano + 1000
    assert abs(root.end_time_unix_nano / 1e9 - time.time()) < 60
    assert all(s.trace_id == root.trace_id for s in spans)
    assert collector.resources[0]["service.name"] == "flexinfer"


def test_what_is_told_and_what_is_not(shared):
    server, collector = shared
    collector.forget()
    post(server, n=2, seed=1, temperature=1.0)
    post(server, "/v1/chat/completions", messages=[{"role": "user", "content": SECRET}], prompt=None)
    with pytest.raises(urllib.error.HTTPError):
        post(server, temperature=-1)
    with pytest.raises(urllib.error.HTTPError):
        post(server, headers={"traceparent": f"00-{TRACE}-{PARENT}-00"}, temperature=-2)  # not sampled
    post(server, "/tokenize", headers={"traceparent": "nonsense"})
    spans = collector.wait(lambda all_: len(roots(all_)) >= 4)
    by_name = {s.name: values(s.attributes) for s in roots(spans)}
    assert len(roots(spans)) == 4, [s.name for s in spans]
    assert len({s.trace_id for s in roots(spans)}) == 4
    assert by_name["POST /v1/completions"]["http.response.status_code"] == 400
    assert by_name["POST /v1/completions"]["error.type"]
    assert "gen_ai.operation.name" not in by_name["POST /tokenize"]
    chat, = [told for name, told in by_name.items() if name.startswith("chat ")]
    assert chat["gen_ai.usage.output_tokens"] == 6
    many, = [told for name, told in by_name.items() if name.startswith("text_completion ")]
    assert many["gen_ai.request.choice.count"] == 2
    assert not any(SECRET.encode() in body or b"secret" in body for body in collector.bodies)


def test_preemptions(collector):
    """Memory for one long answer and a half: some of four wait without their caches, and their spans say how long."""
    server = Server("--otlp-endpoint", collector.url + "/v1/traces", "--kv-memory", "1700K")
    threads = [threading.Thread(target=post, args=(server,), kwargs={"max_tokens": 400, "ignore_eos": True,
                                                                     "prompt": f"{i} {SECRET}"}) for i in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    spans = collector.wait(lambda all_: len(roots(all_)) == 4)
    preempted = [s for s in spans if s.name == "preempted"]
    assert len(preempted) == metric(server, "num_preemptions_total") > 0
    by_id = {s.span_id: s for s in roots(spans)}
    for s in preempted:
        told, parent = values(s.attributes), by_id[s.parent_span_id]
        assert told["flexinfer.preemption.mode"] == "recompute" and told["flexinfer.preemption.tokens"] > 0
        assert parent.start_time_unix_nano < s.start_time_unix_nano < s.end_time_unix_nano < parent.end_time_unix_nano
    server.stop()


def test_a_collector_that_comes_back(server, collector):
    collector.status = 503
    post(server)
    server.wait_line("warning: the collector of spans")
    collector.status = 200
    collector.wait(roots)
    server.wait_line("accepts them again")
    assert metric(server, "spans_sent_total") == 1 and metric(server, "spans_dropped_total") == 0


def test_a_collector_that_is_not_there():
    gone = Collector()
    gone.shutdown()
    gone.server_close()
    server = Server("--otlp-endpoint", gone.url + "/v1/traces")
    for _ in range(20):
        post(server, max_tokens=1)
    server.wait_line("warning: the collector of spans .*Connection refused")
    assert sum("collector of spans" in line for line in server.lines) == 1
    before = time.monotonic()
    assert server.stop() == 0
    assert time.monotonic() - before < 30


def test_the_standard_variables(collector, monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", collector.url)
    monkeypatch.setenv("OTEL_SERVICE_NAME", "stories")
    monkeypatch.setenv("OTEL_RESOURCE_ATTRIBUTES", "deployment.environment.name=a%20test")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_HEADERS", "Authorization=Bearer%20x,Content-Length=7")
    server = Server()
    post(server)
    collector.wait(roots)
    assert collector.resources[0]["service.name"] == "stories"
    assert collector.resources[0]["deployment.environment.name"] == "a test"
    assert collector.authorization == "Bearer x"
    server.stop()
    monkeypatch.setenv("OTEL_SDK_DISABLED", "true")
    server = Server()
    post(server)
    server.stop()
    assert len(roots(collector.spans)) == 1


def test_bad_endpoints_are_refused(monkeypatch):
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", "/no/such/file")
    for url, text in [("ftp://a/v1/traces", "is not a URL like"), ("a:4318", "is not a URL like"),
                      ("https://a/v1/traces", "/no/such/file: ")]:
        done = subprocess.run([PROGRAM, "serve", "-m", MODEL, "--port", "0", "--otlp-endpoint", url], timeout=120,
                              capture_output=True, text=True, check=False, env=os.environ)
        assert done.returncode == 1 and text in done.stderr and done.stderr.count("\n") == 1, done.stderr


def test_a_collector_behind_https(monkeypatch):
    """One whose certificate is from an authority that a file names is believed; otherwise nothing is sent."""
    folder = Path(os.environ["FLEXINFER_SOURCE"]) / "tests" / "vectors" / "tls"
    tls = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    tls.load_cert_chain(folder / "localhost-cert.pem", folder / "localhost-key.pem")
    collector = Collector(tls=tls)
    try:
        monkeypatch.setenv("OTEL_EXPORTER_OTLP_CERTIFICATE", str(folder / "localhost-cert.pem"))
        one = Server("--otlp-endpoint", collector.url + "/v1/traces")
        post(one)
        assert len(roots(collector.wait(roots))) == 1
        assert one.stop() == 0
        monkeypatch.delenv("OTEL_EXPORTER_OTLP_CERTIFICATE")
        other = Server("--otlp-endpoint", collector.url + "/v1/traces")
        post(other)
        for _ in range(600):
            if any("is not trusted" in line for line in other.lines):
                break
            time.sleep(0.1)
        assert other.stop() == 0
        assert any("is not trusted" in line for line in other.lines), other.lines
        assert len(roots(collector.spans)) == 1
    finally:
        collector.shutdown()
        collector.server_close()
