"""Clients that a server must bear, as threads: each kind runs until it is stopped.

What they send may be refused and their connections closed; that is the server's right. They note how often they acted.
"""
import json
import socket
import threading
import time

import serving


class Abuser(threading.Thread):
    def __init__(self, server):
        super().__init__(daemon=True)
        self.server = server
        self.over = threading.Event()
        self.acted = threading.Event()  # it has done harm at least once
        self.n_act = 0
        self.error = None

    def run(self):
        while not self.over.is_set():
            try:
                self.act()
            except OSError:
                time.sleep(0.01)  # refused, reset, or timed out
            except Exception as error:  # a fault of the test: told when it ends
                self.error = error
                return

    def note(self):
        self.n_act += 1
        self.acted.set()

    def connect(self):
        return socket.create_connection(("127.0.0.1", self.server.port), timeout=5)

    def act(self):
        raise NotImplementedError

    def __enter__(self):
        self.start()
        assert self.acted.wait(60), f"{type(self).__name__} never got to act: {self.error}"
        return self

    def __exit__(self, *_):
        self.over.set()
        self.join(60)
        assert not self.error, self.error


class Trickle(Abuser):
    """Connections whose request never ends, a byte at a time."""
    n_connection = 64
    begin = b""

    def act(self):
        held = []
        try:
            for _ in range(self.n_connection):
                held.append(self.connect())
                held[-1].sendall(self.begin)
            self.note()
            while not self.over.wait(0.02):
                for one in held:
                    one.send(b"a")
        finally:
            for one in held:
                one.close()


class SlowHeads(Trickle):
    begin = b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX-A: "


class HalfBodies(Trickle):
    begin = (b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
             b"Content-Length: 4000000\r\n\r\n{\"prompt\":\"")


class Garbage(Abuser):
    lines = (b"\x16\x03\x01\x02\x01\xfc\x03\x03", b"GET\r\n\r\n", b"POST / HTTP/9.9\r\n\r\n", b"\xff\xfe\0\0" * 500,
             b"GET / HTTP/1.1\r\nContent-Length: -1\r\n\r\n", b"\r\n" * 100,
             b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n")

    def act(self):
        with self.connect() as one:
            one.sendall(self.lines[self.n_act % len(self.lines)])
            one.settimeout(0.01)
            self.note()
            try:
                one.recv(1000)
            except TimeoutError:
                pass


class HugeBodies(Abuser):
    """A body of nearly the largest size, valid JSON, with what takes the most work: a stop string, many messages."""

    def __init__(self, server):
        super().__init__(server)
        stop = json.dumps({"prompt": "a", "max_tokens": 1, "stop": "x" * 8_000_000})
        chat = json.dumps({"max_tokens": 1, "messages": [{"role": "user", "content": "a"}] * 120_000})
        self.requests = [self.request("/v1/completions", stop), self.request("/v1/chat/completions", chat)]

    @staticmethod
    def request(path, body):
        return serving.request_bytes(path, json.loads(body), headers="Connection: close\r\n")

    def act(self):
        with self.connect() as one:
            one.settimeout(60)
            self.note()
            one.sendall(self.requests[self.n_act % 2])
            one.recv(1000)


class SlowReaders(Abuser):
    """Streams of many choices, none of which is read."""

    def act(self):
        fields = {"prompt": "a", "n": 8, "max_tokens": 400, "ignore_eos": True, "stream": True}
        held = []
        for _ in range(4):
            held.append(self.connect())
            held[-1].setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, 2048)
            held[-1].sendall(serving.request_bytes("/v1/completions", fields))
        self.note()
        self.over.wait(1)
        for one in held:
            one.close()


class HangUps(Abuser):
    """Requests that are left at once, by a reset."""

    def act(self):
        with self.connect() as one:
            one.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
            one.sendall(serving.request_bytes("/v1/completions", {"prompt": "a b c", "max_tokens": 400, "n": 4,
                                                                  "ignore_eos": True}))
            self.note()
            time.sleep(0.005 * (self.n_act % 3))


class ManyPrompts(Abuser):
    """One request of many prompts after the other; its client waits for the answer."""
    fields = {"prompt": ["a"] + [f"a dog {i}" for i in range(199)], "max_tokens": 16, "ignore_eos": True}

    def act(self):
        with self.connect() as one:
            one.sendall(serving.request_bytes("/v1/completions", self.fields))
            self.note()
            while not self.over.is_set():
                try:
                    if not one.recv(1 << 16):
                        return
                except TimeoutError:
                    pass


KINDS = (SlowHeads, HalfBodies, Garbage, HugeBodies, SlowReaders, HangUps, ManyPrompts)
