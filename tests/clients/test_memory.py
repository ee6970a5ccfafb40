"""Clients that want the server's memory: what it holds stays within its bound, others are served, and what idles goes
back; with little address space it refuses requests, and does not end.
"""
import contextlib
import http.client
import json
import os
import resource
import subprocess
import time
import unittest

import serving

ORDER = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
MIB = 1 << 20
QUEUE_BYTES = 96 * MIB
# What a build with sanitizers needs besides: shadow memory, and freed blocks that it keeps.
ROOM = (4 if os.environ.get("FLEXINFER_SANITIZED") else 1) * 64 * MIB


def half_body(n_byte):
    """A request whose body has been sent but for its last byte."""
    body = b'{"prompt":"' + b"a" * (n_byte - 11)
    head = ("POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
            f"Content-Length: {len(body) + 1}\r\n\r\n")
    return head.encode() + body


class Memory(serving.TestCase):
    def check_shrinks(self, server, start):
        """What idles goes back within a few seconds."""
        for _ in range(600):
            if server.resident_bytes() < start + ROOM:
                return
            server.call("GET", "/health")
            time.sleep(0.05)
        self.fail(f"{server.resident_bytes() >> 20} MiB are resident, {start >> 20} at the start")

    def test_bodies_of_8_mb(self):
        """Twenty at a time, 320 MB in all (1.6 GB with FX_TEST_LONG), with a stop string longer than any may be: each is told so, or to come again."""
        server = self.serve("--max-queue-bytes", QUEUE_BYTES)
        alone, start = server.complete(**ORDER), server.resident_bytes()
        body = json.dumps({"prompt": "a", "max_tokens": 1, "stop": "x" * 8_000_000})
        statuses, peak = [], [0]

        def ask(_):
            for _ in range(10 if serving.LONG else 2):
                with contextlib.suppress(OSError, http.client.HTTPException):
                    statuses.append(server.call("POST", "/v1/completions", json.loads(body))[0])
                peak[0] = max(peak[0], server.resident_bytes())

        serving.in_threads(20, ask)
        self.assertIn(400, statuses)
        self.assertLessEqual(set(statuses), {400, 429, 503})
        self.assertLess(peak[0], start + QUEUE_BYTES + 2 * ROOM)
        self.assertEqual(server.complete(**ORDER), alone)
        self.check_shrinks(server, start)

    def test_half_bodies(self):
        """Bodies that lack their last byte, 320 MB in all (1.2 GB with FX_TEST_LONG): those that are held are within the bound."""
        server = self.serve("--max-queue-bytes", QUEUE_BYTES)
        alone, start = server.complete(**ORDER), server.resident_bytes()
        request = half_body(8_000_000)
        with contextlib.ExitStack() as stack:
            for _ in range(150 if serving.LONG else 40):
                one = stack.enter_context(server.connect())
                one.settimeout(2)
                with contextlib.suppress(OSError):
                    one.sendall(request)
            self.assertLess(server.resident_bytes(), start + QUEUE_BYTES + ROOM)
            self.assertEqual(server.call("GET", "/health")[0], 200)
        self.check_shrinks(server, start)
        self.assertEqual(server.complete(**ORDER), alone)

    @unittest.skipIf(os.environ.get("FLEXINFER_SANITIZED"), "sanitizers need all the address space there is")
    def test_little_address_space(self):
        """Allocations fail: requests end in an error or are served, and the server keeps running."""
        probe = self.serve("--kv-memory", "16M", "--max-queue-bytes", "2G")
        with open(f"/proc/{probe.child.pid}/statm", encoding="ascii") as f:
            used = int(f.read().split()[0]) * resource.getpagesize()
        alone = probe.complete(**ORDER)
        for more in (24 * MIB, 48 * MIB, 96 * MIB) if serving.LONG else (48 * MIB,):
            server = self.serve("--kv-memory", "16M", "--max-queue-bytes", "2G")
            subprocess.run(["prlimit", f"--as={used + more}", f"--pid={server.child.pid}"], check=True)
            statuses = []
            fields = [{"prompt": "a", "max_tokens": 1, "stop": "x" * 7_000_000},
                      {"prompt": ["a b c"] * 1000, "max_tokens": 1},
                      {"prompt": "a", "max_tokens": 1, "logit_bias": {str(i): 1 for i in range(500)}}]

            def ask(i):
                for k in range(4):
                    with contextlib.suppress(OSError, http.client.HTTPException):  # closed without a reply
                        statuses.append(server.call("POST", "/v1/completions", fields[(i + k) % 3])[0])

            serving.in_threads(12, ask)
            self.assertLessEqual(set(statuses), {200, 429, 500, 503}, set(statuses))
            self.assertEqual(server.complete(**ORDER), alone)


if __name__ == "__main__":
    unittest.main()
