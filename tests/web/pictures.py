"""A client of /kv/stream, independent of the page's: the pictures it is sent, and what they come to."""
import http.client
import json
import socket


class Stream:
    """One connection; next() reads an event and applies it."""

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
        self.n_whole = self.n_change = self.n_bytes = 0
        self.state = None

    @property
    def number(self):
        return self.state["number"] if self.state else 0

    def event(self):
        """(type, data), or None at the end."""
        kind, data = "message", None
        while line := self.answer.readline():
            self.n_bytes += len(line)
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
        msg = json.loads(data)
        if kind == "picture":
            self.n_whole += 1
            self.state = whole(msg)
        elif kind == "change":
            self.n_change += 1
            change(self.state, msg)
        else:
            raise AssertionError(f"an event {kind!r}: {data}")
        return self.state

    def until(self, is_so):
        while not (self.state and is_so(self.state)):
            self.next()
        return self.state

    def close(self):
        self.answer.close()
        self.sock.close()


def whole(msg):
    state = {k: msg[k] for k in ("number", "at_us", "version", "manager", "groups")}
    state |= {"stats": {}, "chunks": {}, "spans": {}, "nodes": {}, "requests": {}}
    apply(state, msg)
    return state


def change(state, msg):
    assert msg["after"] == state["number"], (msg["after"], state["number"])
    assert msg["number"] > state["number"]
    for request, choice in msg["gone_spans"]:
        del state["spans"][request, choice]
    for node in msg["gone_nodes"]:
        del state["nodes"][node]
    for request in msg["gone_requests"]:
        del state["requests"][request]
    apply(state, msg)


def apply(state, msg):
    state["number"], state["at_us"] = msg["number"], msg["at_us"]
    state["stats"] |= msg["stats"]
    for first, n, kind, group in msg["chunks"]:
        for chunk in range(first, first + n):
            if kind:
                state["chunks"][chunk] = (kind, group)
            else:
                del state["chunks"][chunk]
    for span in msg["spans"]:
        key = span["request"], span["choice"]
        state["spans"][key] = state["spans"].get(key, {}) | span
    for node in msg["nodes"]:
        state["nodes"][node[0]] = node
    for request in msg["requests"]:
        state["requests"][request["id"]] = request


def bytes_in(state, *kinds):
    return sum(state["groups"][group]["chunk_bytes"] for kind, group in state["chunks"].values() if kind in kinds)


SPARE, OWNED, SHARED, CACHED, SWAPPED = range(1, 6)


def chunks_of(span):
    """Names of the chunks behind a span, in the order of its addresses."""
    return [first + i for _, _, first, n in span["segments"] for i in range(n)]
