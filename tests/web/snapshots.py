"""A client of /kv/stream and /kv/snapshot, independent of the page's."""
import http.client
import json
import socket


class Stream:
    """One connection; next() reads an event."""

    def __init__(self, port, key=None, receive_bytes=None):
        self.sock = socket.socket()
        if receive_bytes:
            self.sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
        self.sock.settimeout(120)
        self.sock.connect(("127.0.0.1", port))
        key_line = f"Authorization: Bearer {key}\r\n" if key else ""
        self.sock.sendall(f"GET /kv/stream HTTP/1.1\r\nHost: localhost\r\n{key_line}\r\n".encode())
        self.answer = http.client.HTTPResponse(self.sock)
        self.answer.begin()
        self.n_read = 0
        self.state = None

    @property
    def number(self):
        return self.state["number"] if self.state else 0

    def event(self):
        """(type, data), or None at the end."""
        kind, data = "message", None
        while line := self.answer.readline():
            line = line.decode().rstrip("\n")
            if line.startswith("event: "):
                kind = line[7:]
            elif line.startswith("data: "):
                data = line[6:]
            elif not line and data is not None:
                return kind, data
        return None

    def next(self):
        kind, data = self.event()
        if kind != "snapshot":
            raise AssertionError(f"an event {kind!r}: {data}")
        self.n_read += 1
        self.state = parse(data)
        return self.state

    def until(self, is_so):
        while not (self.state and is_so(self.state)):
            self.next()
        return self.state

    def close(self):
        self.answer.close()
        self.sock.close()


def parse(text):
    """The snapshot, with its lists by key. They are sorted by it, and the counts are theirs where none is cut."""
    msg = json.loads(text)
    state = {k: msg[k] for k in ("number", "at_us", "version", "manager", "groups", "stats", "counts")}
    state["chunks"] = {first + i: (kind, group) for first, n, kind, group in msg["chunks"] for i in range(n)}
    state["spans"] = {(span["request"], span["choice"]): span for span in msg["spans"]}
    state["nodes"] = {node[0]: node for node in msg["nodes"]}
    state["requests"] = {request["id"]: request for request in msg["requests"]}
    for name in ("chunks", "spans", "nodes", "requests"):
        assert list(state[name]) == sorted(state[name]), name
    counts = [sum(kind == k for kind, _ in state["chunks"].values()) for k in range(6)]
    assert msg["counts"]["chunks"] == counts, (msg["counts"], counts)
    for name in ("spans", "nodes", "requests"):
        assert msg["counts"][name] == len(state[name]), name
    return state


def bytes_in(state, *kinds):
    return sum(state["groups"][group]["chunk_bytes"] for kind, group in state["chunks"].values() if kind in kinds)


SPARE, OWNED, SHARED, CACHED, SWAPPED = range(1, 6)


def chunks_of(span):
    """Names of the chunks of a span, in the order of its addresses."""
    return [first + i for _, _, first, n in span["segments"] for i in range(n)]
