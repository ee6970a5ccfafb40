"""Shared by the tests with clients: a running server, what it holds, and a plain client that may misbehave.

CTest runs the tests. By hand: FLEXINFER=build/asan/bin/flexinfer PYTHONPATH=tests/clients/support
python3 tests/clients/test_load.py
"""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import threading
import time
import unittest
from pathlib import Path

SOURCE = Path(os.environ.get("FLEXINFER_SOURCE", Path(__file__).resolve().parents[3]))
PROGRAM = os.environ.get("FLEXINFER", str(SOURCE / "build/debug/bin/flexinfer"))
MODEL = os.environ.get("FLEXINFER_MODEL", str(SOURCE / "models/storyteller.gguf"))
LONG = "FX_TEST_LONG" in os.environ  # sweeps at full length, not samples of them
START_S = 120  # a debug build with sanitizers on a busy machine
# The allocator of a sanitizer keeps freed memory for a while on purpose; here it may keep little.
SANITIZER = "quarantine_size_mb=8:thread_local_quarantine_size_kb=64"


class Server:
    """One `flexinfer serve`, its log kept line by line."""

    def __init__(self, *args, env=None, limits=None, wrapper=(), key=None):
        self.lines, self.key = [], key
        asan = ":".join(filter(None, (os.environ.get("ASAN_OPTIONS"), SANITIZER)))
        env = {k: v for k, v in os.environ.items() if not k.startswith("FLEXINFER_")} | {"ASAN_OPTIONS": asan} | (env or {})
        self.child = subprocess.Popen([*wrapper, PROGRAM, "serve", "-m", MODEL, "--port", "0", *map(str, args)], env=env,
                                      stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True, preexec_fn=limits)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.url = self.wait_line(r"listening on (http://\S+)", START_S).group(1)
        self.port = int(self.url.rsplit(":", 1)[1])

    def _read(self):
        for line in self.child.stderr:
            self.lines.append(line.rstrip("\n"))

    def wait_line(self, pattern, limit_s=60):
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s:
            for line in list(self.lines):
                if found := re.search(pattern, line):
                    return found
            if self.child.poll() is not None and not self.reader.is_alive():
                break
            time.sleep(0.01)
        raise AssertionError(f"no line like {pattern!r} in:\n" + "\n".join(self.lines[-40:]))

    def stop(self):
        """Ends it and returns its status."""
        if self.child.poll() is None:
            self.child.send_signal(signal.SIGTERM)
        try:
            self.child.wait(60)
        except subprocess.TimeoutExpired:
            self.child.kill()
            raise
        self.reader.join(10)
        self.child.stderr.close()
        return self.child.returncode

    @property
    def model(self):
        return json.loads(self.call("GET", "/v1/models")[1])["data"][0]["id"]

    # ---- what it holds

    def stats(self):
        return json.loads(self.call("GET", "/stats")[1])

    def n_file(self):
        return len(os.listdir(f"/proc/{self.child.pid}/fd"))

    def resident_bytes(self):
        with open(f"/proc/{self.child.pid}/statm", encoding="ascii") as f:
            return int(f.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

    def files(self):
        """What its descriptors point to."""
        place = Path(f"/proc/{self.child.pid}/fd")
        return sorted(os.readlink(place / one) for one in os.listdir(place))

    def wait_idle(self, n_file=None, limit_s=120):
        """Returns the stats once nothing runs or waits and, if n_file is given, no more files than that are open."""
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s:
            stats = self.stats()
            if not stats["n_running"] and not stats["n_waiting"] and (n_file is None or self.n_file() <= n_file):
                return stats
            time.sleep(0.02)
        raise AssertionError(f"not idle: {stats}, {n_file} files were open, now {self.files()}")

    # ---- requests

    def call(self, method, path, fields=None, timeout=120):
        """(status, body)"""
        connection = http.client.HTTPConnection("127.0.0.1", self.port, timeout=timeout)
        try:
            body = None if fields is None else json.dumps(fields)
            headers = {"Content-Type": "application/json"} if body else {}
            headers |= {"Authorization": f"Bearer {self.key}"} if self.key else {}
            connection.request(method, path, body, headers)
            reply = connection.getresponse()
            return reply.status, reply.read()
        finally:
            connection.close()

    def complete(self, **fields):
        """The texts of the choices; the request must succeed."""
        status, body = self.call("POST", "/v1/completions", fields)
        assert status == 200, (status, body)
        return [choice["text"] for choice in json.loads(body)["choices"]]

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.port), timeout=120)


def request_bytes(path, fields=None, method="POST", headers=""):
    """A request as it goes over the wire."""
    body = b"" if fields is None else json.dumps(fields).encode()
    head = f"{method} {path} HTTP/1.1\r\nHost: 127.0.0.1\r\n{headers}"
    if body:
        head += f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n"
    return (head + "\r\n").encode() + body


def events(text):
    """The JSON objects of a stream of server-sent events, without [DONE]."""
    found = [line[6:] for line in text.split("\n") if line.startswith("data: ")]
    return [json.loads(data) for data in found if data != "[DONE]"]


def in_threads(n, work):
    """What work(0) .. work(n - 1) return, each called in a thread of its own."""
    results = [None] * n

    def run(i):
        results[i] = work(i)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(n)]
    for one in threads:
        one.start()
    for one in threads:
        one.join(300)
    return results


# ---- the form of every test: each server must end with status 0

def check_end(server):
    assert server.stop() == 0, "\n".join(server.lines[-40:])


class TestCase(unittest.TestCase):
    def serve(self, *args, **how):
        server = Server(*args, **how)
        self.addCleanup(check_end, server)
        return server


class SharedServer(unittest.TestCase):
    """All tests of a class over one server."""
    ARGS = ()

    @classmethod
    def setUpClass(cls):
        cls.server = Server(*cls.ARGS)
        cls.addClassCleanup(check_end, cls.server)


def fixture(*args):
    """For pytest: one server for a file's tests."""
    import pytest  # not there in tests that need the standard library alone

    @pytest.fixture(scope="module")
    def server():
        one = Server(*args)
        yield one
        check_end(one)

    return server
