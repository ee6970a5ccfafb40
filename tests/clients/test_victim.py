"""While some clients misbehave, another client's requests never fail, and its answers are those it gets alone.

How long the victim waits is measured by bench_serve; here only the order of events counts.
"""
import contextlib
import http.client
import json
import resource
import socket
import subprocess
import tempfile
import time
import unittest

import abusers
import serving

ORDERS = [
    {"prompt": "Once upon a time", "max_tokens": 24, "temperature": 0},
    {"prompt": "The cat and the dog", "max_tokens": 16, "temperature": 1, "seed": 7, "n": 2},
    {"prompt": ["One day", "A bird"], "max_tokens": 12, "temperature": 0},
    {"prompt": "Tim went to the park with", "max_tokens": 24, "temperature": 1, "seed": 3, "stream": True},
]


class Victim(serving.TestCase):
    @classmethod
    def setUpClass(cls):
        server = serving.Server()
        cls.alone = [cls.ask(server, order) for order in ORDERS]
        serving.check_end(server)

    @staticmethod
    def ask(server, order):
        """What the client sees, but for ids and times; anything but 200 is a failure."""
        status, body = server.call("POST", "/v1/completions", order)
        assert status == 200, (status, body)
        if not order.get("stream"):
            return [choice["text"] for choice in json.loads(body)["choices"]]
        return "".join(event["choices"][0]["text"] for event in serving.events(body.decode()))

    def check_victim(self, server, n_pass):
        for _ in range(n_pass):
            for order, alone in zip(ORDERS, self.alone):
                self.assertEqual(self.ask(server, order), alone)

    def check_given_back(self, server, n_file):
        stats = server.wait_idle(n_file)
        self.assertEqual((stats["kv_live_bytes"], stats["kv_swapped_bytes"]), (0, 0))

    def beside(self, *kinds, n_pass=3):
        server = self.serve()
        self.check_victim(server, 1)
        n_file = server.n_file()
        with contextlib.ExitStack() as stack:
            all_kinds = [stack.enter_context(kind(server)) for kind in kinds]
            self.check_victim(server, n_pass)
        self.assertTrue(all(one.n_act for one in all_kinds))
        self.check_given_back(server, n_file)
        self.check_victim(server, 1)

    def test_beside_all_of_them(self):
        self.beside(*abusers.KINDS, n_pass=1)

    @unittest.skipUnless(serving.LONG, "with FX_TEST_LONG")
    def test_beside_each_of_them(self):
        for kind in abusers.KINDS:
            with self.subTest(kind.__name__):
                self.beside(kind, n_pass=1 if kind in (abusers.HugeBodies, abusers.ManyPrompts) else 3)

    # ---- fairness

    def test_goes_before_a_request_of_many_prompts(self):
        """A client of one short request at a time does not wait for the end of another's thousand prompts."""
        server = self.serve("--max-seq", 8)
        many = {"prompt": [f"{i} dogs" for i in range(1000)], "max_tokens": 16, "ignore_eos": True, "stream": True}
        with server.connect() as other:
            other.sendall(serving.request_bytes("/v1/completions", many, headers="Connection: close\r\n"))
            head = other.recv(1 << 16)
            self.assertTrue(head.startswith(b"HTTP/1.1 200 "), head)
            self.check_victim(server, 1)
            self.assertFalse(self.has_ended(other))

    def test_goes_before_a_flood_of_another_tenant(self):
        """With two places for sequences, a tenant whose hundred requests came first is served in turn with another, who
        has one at a time: most of the flood still waits when the other has all answers."""
        with tempfile.NamedTemporaryFile("w", prefix="flexinfer-keys-") as keys:
            keys.write("flood sk-flood\nvictim sk-victim\n")
            keys.flush()
            server = self.serve("--max-seq", 2, "--api-key-file", keys.name, key="sk-victim")
            flood = {"prompt": "A dog", "max_tokens": 120, "temperature": 1, "ignore_eos": True}
            with contextlib.ExitStack() as stack:
                for i in range(100):
                    one = stack.enter_context(server.connect())
                    one.sendall(serving.request_bytes("/v1/completions", flood | {"seed": i},
                                                      headers="Authorization: Bearer sk-flood\r\n"))
                self.wait_waiting(server, 90)
                self.check_victim(server, 1)
                self.assertGreater(server.stats()["n_waiting"], 50)
            server.wait_idle()

    @staticmethod
    def wait_waiting(server, n):
        end_s = time.monotonic() + 60
        while server.stats()["n_waiting"] < n:
            assert time.monotonic() < end_s
            time.sleep(0.005)

    @staticmethod
    def has_ended(connection):
        """Whether the whole stream can be read without waiting."""
        connection.setblocking(False)
        data = b""
        with contextlib.suppress(BlockingIOError):
            while piece := connection.recv(1 << 20):
                data += piece
            return True
        return b"[DONE]" in data

    # ---- what runs out

    def test_disk_full_for_swap(self):
        """The disk holds less than the swap file may: requests are computed again instead."""
        place = self.enterContext(tempfile.TemporaryDirectory(prefix="flexinfer-swap-"))
        small_disk = ["unshare", "--map-root-user", "--mount", "sh", "-c",
                      f'mount -t tmpfs -o size=128k none {place} && exec "$@"', "sh"]
        if subprocess.run([*small_disk, "true"], stderr=subprocess.DEVNULL, check=False).returncode:
            self.skipTest("no file systems can be mounted here")
        server = self.serve("--kv-memory", 2 << 20, "--swap", "64M", "--swap-dir", place, wrapper=small_disk)
        fields = {"prompt": "Once there was a boat", "max_tokens": 160, "temperature": 0, "ignore_eos": True}
        alone = server.complete(**fields)
        together = serving.in_threads(12, lambda _: server.complete(**fields, n=2))
        self.assertEqual(together, [alone * 2] * 12)
        stats = server.wait_idle()
        self.assertGreater(stats["n_preempt_recompute"], 0)
        self.assertEqual(stats["kv_swapped_bytes"], 0)
        self.check_victim(server, 1)

    def test_descriptors_run_out(self):
        """A client is served while others take all the connections there are: those that do no work make room, its own
        between two requests, too."""
        server = self.serve(limits=few_files)
        with contextlib.closing(http.client.HTTPConnection("127.0.0.1", server.port, timeout=120)) as mine:
            self.assertEqual(self.ask_on(mine, ORDERS[0]), self.alone[0])
            with contextlib.ExitStack() as stack:
                for _ in range(200):
                    self.open_one(server, stack)
                for _ in range(5):
                    self.assertEqual(self.ask_again(mine, ORDERS[0]), self.alone[0])
        self.check_after_flood(server)

    @staticmethod
    def open_one(server, stack):
        with contextlib.suppress(OSError):
            one = stack.enter_context(socket.create_connection(("127.0.0.1", server.port), timeout=1))
            one.sendall(b"GET /health HTTP/1.1\r\n")

    def check_after_flood(self, server):
        """The server may need a moment to see that they are gone."""
        for _ in range(100):
            with contextlib.suppress(OSError, http.client.HTTPException):
                if server.call("GET", "/health")[0] == 200:
                    return self.check_victim(server, 1)
            time.sleep(0.1)
        return self.fail("no connection comes in any more")

    @staticmethod
    def ask_on(connection, order):
        connection.request("POST", "/v1/completions", json.dumps(order), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        body = reply.read()
        assert reply.status == 200, (reply.status, body)
        return [choice["text"] for choice in json.loads(body)["choices"]]

    def ask_again(self, connection, order):
        """As clients do: a kept connection that was closed meanwhile is opened again."""
        try:
            return self.ask_on(connection, order)
        except (OSError, http.client.HTTPException):
            connection.close()
            return self.ask_on(connection, order)


def few_files():
    resource.setrlimit(resource.RLIMIT_NOFILE, (100, 100))


if __name__ == "__main__":
    unittest.main()
