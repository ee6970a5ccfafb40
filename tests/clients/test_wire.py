"""What goes over the wire wrong: smuggling shapes, garbage, wrong lengths, other origins, bodies of every bad kind.

Each case says which statuses are right and whether the connection must end, because nothing that follows can be
trusted. After each table another client gets the answer that it gets alone. The server is one with one I/O thread, so
that a case which holds it up is seen.
"""
import contextlib
import json
import socket
import threading
import unittest

import serving

ORDER = {"prompt": "Once upon a time", "max_tokens": 12, "temperature": 0}
BODY = json.dumps(ORDER).encode()
SECOND = b"GET /stats HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"  # what smuggling wants to slip in
WAIT_S = 60  # only a failing test waits so long


def post(*headers, body=BODY, path="/v1/completions", version="HTTP/1.1", host="127.0.0.1"):
    """A request with exactly these headers and a Host."""
    lines = [f"POST {path} {version}".encode()]
    if host:
        lines.append(b"Host: " + host.encode())
    lines += [one if isinstance(one, bytes) else one.encode() for one in headers]
    return b"\r\n".join(lines) + b"\r\n\r\n" + body


def chunked(body, size=7):
    parts = [body[i:i + size] for i in range(0, len(body), size)]
    return b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


JSON = "Content-Type: application/json"
LENGTH = f"Content-Length: {len(BODY)}"
CHUNKED = "Transfer-Encoding: chunked"

# ---- the tables: name, what is sent, the statuses that are right

# The end of the request is doubtful, or it is none: refused, and the connection ends. None: without a reply.
DOUBTFUL = [
    ("length and chunked", post(JSON, LENGTH, CHUNKED) + SECOND, {400}),
    ("chunked and length", post(JSON, CHUNKED, LENGTH, body=chunked(BODY)) + SECOND, {400}),
    ("two lengths that differ", post(JSON, LENGTH, "Content-Length: 3") + SECOND, {400}),
    ("two lengths alike", post(JSON, LENGTH, LENGTH) + SECOND, {400}),
    ("a list of lengths", post(JSON, f"Content-Length: {len(BODY)}, {len(BODY)}") + SECOND, {400}),
    ("a length below zero", post(JSON, "Content-Length: -1") + SECOND, {400, 413}),
    ("a length with a sign", post(JSON, f"Content-Length: +{len(BODY)}") + SECOND, {400}),
    ("a length in hexadecimal", post(JSON, f"Content-Length: 0x{len(BODY):x}") + SECOND, {400}),
    ("a length in words", post(JSON, "Content-Length: many") + SECOND, {400}),
    ("an empty length", post(JSON, "Content-Length:") + SECOND, {400}),
    ("a length of 2^64", post(JSON, "Content-Length: 18446744073709551616") + SECOND, {400, 413}),
    ("a length of 2^63", post(JSON, "Content-Length: 9223372036854775808") + SECOND, {400, 413}),
    ("a space before the colon of chunked", post(JSON, LENGTH, "Transfer-Encoding : chunked") + SECOND, {400}),
    ("a space before the colon of the length", post(JSON, f"Content-Length : {len(BODY)}") + SECOND, {400}),
    ("chunked twice", post(JSON, CHUNKED, CHUNKED, body=chunked(BODY)) + SECOND, {400}),
    ("gzip, then chunked", post(JSON, "Transfer-Encoding: gzip, chunked", body=chunked(BODY)) + SECOND, {400, 501}),
    ("chunked, then identity", post(JSON, "Transfer-Encoding: chunked, identity", body=chunked(BODY)) + SECOND,
     {400, 501}),
    ("an encoding nobody knows", post(JSON, "Transfer-Encoding: xchunked") + SECOND, {400, 501}),
    ("chunked in HTTP/1.0", post(JSON, CHUNKED, body=chunked(BODY), version="HTTP/1.0") + SECOND, {400}),
    ("a continued line after the length", post(JSON, "Content-Length: 3\r\n 0") + SECOND, {400}),
    ("a continued line before chunked", post(JSON, LENGTH, "X: a\r\n Transfer-Encoding: chunked") + SECOND,
     {200, 400}),
    ("a chunk size that is none", post(JSON, CHUNKED, body=b"zz\r\nab\r\n0\r\n\r\n") + SECOND, {400}),
    ("a chunk size below zero", post(JSON, CHUNKED, body=b"-2\r\nab\r\n0\r\n\r\n") + SECOND, {400}),
    ("a chunk size of 2^64", post(JSON, CHUNKED, body=b"10000000000000000\r\nab\r\n") + SECOND, {400, 413}),
    ("a chunk longer than its size", post(JSON, CHUNKED, body=b"2\r\nabcdef\r\n0\r\n\r\n") + SECOND, {400}),
    ("no Host", post(JSON, LENGTH, host=""), {400}),
    ("two Hosts", post(JSON, LENGTH, "Host: 127.0.0.1"), {400}),
    ("a NUL in the path", b"GET /health\0/stats HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {400, 404}),
    ("a header's name with a space", post(JSON, LENGTH, "X Y: 1"), {400}),
    ("a request line of one word", b"GET\r\n\r\n", {None, 400}),
    ("a method that is no word", b"G@T() / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {400}),
    ("another version", b"GET /health HTTP/9.9\r\nHost: 127.0.0.1\r\n\r\n", {400, 505}),
    ("the preface of HTTP/2", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", {400, 505}),
    ("a TLS hello", b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03" + bytes(range(256)) * 2 + b"\r\n\r\n", {None, 400}),
    ("bytes of no kind", b"\xff\xfe\0\1" * 200 + b"\r\n\r\n", {None, 400}),
    ("headers of 64 KiB", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\nX: " + b"a" * 65536 + b"\r\n\r\n", {431}),
    ("headers without end", b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n" + b"X: a\r\n" * 20000, {431}),
    ("a path of 64 KiB", b"GET /" + b"a" * 65536 + b" HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {414, 431}),
    ("a body of 4 GiB", post(JSON, "Content-Length: 4294967296", body=b""), {413}),
]

# The head says one thing only, and it is refused.
REFUSED = [
    ("a page of another origin", post(JSON, LENGTH, "Origin: https://example.org"), {403}),
    ("a page without an origin", post(JSON, LENGTH, "Origin: null"), {403}),
    ("another machine's page of the same port", post(JSON, LENGTH, "Origin: http://example.org:8080"), {403}),
    ("a name that was rebound", post(JSON, LENGTH, host="attacker.example"), {403, 421}),
    ("text/plain", post("Content-Type: text/plain", LENGTH), {415}),
    ("a form", post("Content-Type: application/x-www-form-urlencoded", LENGTH), {415}),
    ("a form in parts", post("Content-Type: multipart/form-data; boundary=x", LENGTH), {415}),
    ("no type", post(LENGTH), {415}),
    ("JSON in name only", post("Content-Type: application/jsonx", LENGTH), {415}),
    ("a compressed body", post(JSON, LENGTH, "Content-Encoding: gzip"), {415}),
    ("another path", post(JSON, LENGTH, path="/v2/completions"), {404}),
    ("a path that climbs", b"GET /../../etc/passwd HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {400, 404}),
    ("another method", b"DELETE /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {405}),
    ("a method nobody knows", b"BREW /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {405, 501}),
    ("TRACE", b"TRACE / HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {405, 501}),
    ("CONNECT", b"CONNECT example.org:443 HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n", {400, 403, 404, 405, 501}),
    ("an expectation nobody knows", post(JSON, LENGTH, "Expect: tea"), {200, 417}),
]

# Bodies that came as announced and are no request.
DEEP = 100_000
BODIES = [
    ("no body", b"", {400}),
    ("half an object", b'{"prompt":"a', {400}),
    ("two objects", b'{"prompt":"a"}{"prompt":"b"}', {400}),
    ("a list", b"[1]", {400}),
    ("a text", b'"prompt"', {400}),
    ("null", b"null", {400}),
    ("deep lists", b'{"prompt":' + b"[" * DEEP + b"]" * DEEP + b"}", {400}),
    ("deep objects", b'{"a":' * DEEP + b"1" + b"}" * DEEP, {400}),
    ("bytes that are no UTF-8", b'{"prompt":"\xff\xfe","max_tokens":1}', {400}),
    ("half a pair of surrogates", b'{"prompt":"\\ud800","max_tokens":1}', {400}),
    ("UTF-16", '{"prompt":"a"}'.encode("utf-16"), {400}),
    ("not a number", b'{"prompt":"a","temperature":NaN}', {400}),
    ("infinity", b'{"prompt":"a","temperature":1e999}', {400}),
    ("an integer of 400 digits", b'{"prompt":"a","max_tokens":1' + b"0" * 400 + b"}", {400}),
    ("a million members", b'{"prompt":"a",' + b",".join(b'"%d":1' % i for i in range(600_000)) + b"}", {400, 413}),
    ("a million prompts", b'{"prompt":[' + b",".join([b'"a"'] * 1_000_000) + b"]}", {400}),
    ("tokens outside the vocabulary", b'{"prompt":[1,2147483647,-1]}', {400}),
    ("more choices than run together", b'{"prompt":"a","n":1000000}', {400}),
    ("a text beyond the context", b'{"prompt":"' + b"word " * 200_000 + b'"}', {400}),
    ("9 MiB of stop string", b'{"prompt":"a","stop":"' + b"x" * (9 << 20) + b'"}', {413}),
]

# What only looks odd, and must be served.
SERVED = [
    ("chunks of seven bytes", post(JSON, CHUNKED, body=chunked(BODY))),
    ("chunks with extensions", post(JSON, CHUNKED, body=b"%x;a=b\r\n%s\r\n0\r\n\r\n" % (len(BODY), BODY))),
    ("chunks with a trailer", post(JSON, CHUNKED, body=b"%x\r\n%s\r\n0\r\nX-A: b\r\n\r\n" % (len(BODY), BODY))),
    ("the type with a charset", post("content-type: Application/JSON; charset=utf-8", LENGTH)),
    ("localhost by name", post(JSON, LENGTH, host="localhost")),
    ("HTTP/1.0 without a Host", post(JSON, LENGTH, host="", version="HTTP/1.0")),
    ("a query", post(JSON, LENGTH, path="/v1/completions?api-version=1")),
]


class Reply:
    def __init__(self, head, body):
        line, *rest = head.decode("latin-1").split("\r\n")
        self.status = int(line.split(" ")[1])
        self.headers = {k.lower(): v for k, v in (one.split(": ", 1) for one in rest if ": " in one)}
        self.body = body

    def texts(self):
        return [choice["text"] for choice in json.loads(self.body)["choices"]]


def take_reply(data):
    """(the first whole reply, what follows it); (None, data) if there is none."""
    head, mark, rest = data.partition(b"\r\n\r\n")
    if not mark or not head.startswith(b"HTTP/1.1 "):
        return None, data
    reply = Reply(head, rest)
    n = int(reply.headers.get("content-length", 0))
    reply.body = rest[:n]
    return (reply, rest[n:]) if len(rest) >= n else (None, data)


def replies_of(data):
    found = []
    reply, data = take_reply(data)
    while reply:
        found += [reply] if reply.status != 100 else []
        reply, data = take_reply(data)
    return found


def exchange(server, data, n_reply=None):
    """The replies to these bytes: the first n_reply, or all until the server ends the connection."""
    got = b""
    with server.connect() as one:
        one.settimeout(WAIT_S)
        sender = threading.Thread(target=send_all, args=(one, data))
        sender.start()
        with contextlib.suppress(ConnectionResetError):
            while len(replies_of(got)) != n_reply and (piece := one.recv(1 << 16)):
                got += piece
        with contextlib.suppress(OSError):
            one.shutdown(socket.SHUT_RDWR)
        sender.join()
    return replies_of(got)


def send_all(one, data):
    with contextlib.suppress(OSError):  # it may be closed before all is sent
        one.sendall(data)


class Wire(serving.SharedServer):
    @classmethod
    def setUpClass(cls):
        super().setUpClass()
        cls.alone = cls.server.complete(**ORDER)
        cls.n_file = cls.server.n_file()

    @classmethod
    def tearDownClass(cls):
        cls.server.wait_idle(cls.n_file + 1)

    def tearDown(self):
        self.assertEqual(self.server.complete(**ORDER), self.alone)

    def check_error(self, reply):
        error = json.loads(reply.body)["error"]
        self.assertLessEqual({"message", "type", "param", "code"}, set(error))
        self.assertTrue(error["message"])

    def test_doubtful_requests_end_the_connection(self):
        """No second request is taken from it: what was smuggled is not answered."""
        for name, data, right in DOUBTFUL:
            with self.subTest(name):
                replies = exchange(self.server, data)
                status, body = (replies[0].status, replies[0].body) if replies else (None, None)
                self.assertIn(status, right, body)
                self.assertFalse([one for one in replies if b"n_running" in one.body])

    def test_refused_requests_say_why(self):
        for name, data, right in REFUSED:
            with self.subTest(name):
                replies = exchange(self.server, data, 1)
                self.assertIn(replies[0].status, right, replies[0].body)
                if replies[0].status != 200:
                    self.check_error(replies[0])
                    self.assertNotIn("access-control-allow-origin", replies[0].headers)
                if replies[0].status == 405:
                    self.assertTrue(replies[0].headers["allow"])

    def test_bodies_that_are_no_request(self):
        for name, body, right in BODIES:
            with self.subTest(name):
                replies = exchange(self.server, post(JSON, f"Content-Length: {len(body)}", body=body), 1)
                self.assertEqual(len(replies), 1)
                self.assertIn(replies[0].status, right, replies[0].body)
                self.check_error(replies[0])

    def test_odd_requests_are_served(self):
        for name, data in SERVED:
            with self.subTest(name):
                replies = exchange(self.server, data, 1)
                self.assertEqual([one.status for one in replies], [200], [one.body for one in replies])
                self.assertEqual(replies[0].texts(), self.alone)

    def test_one_byte_at_a_time(self):
        with self.server.connect() as one:
            one.settimeout(WAIT_S)
            one.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            for byte in post(JSON, LENGTH, "Connection: close"):
                one.sendall(bytes([byte]))
            replies = replies_of(b"".join(iter(lambda: one.recv(1 << 16), b"")))
        self.assertEqual(replies[0].texts(), self.alone)

    def test_pipelined_requests_are_answered_in_turn(self):
        orders = [ORDER | {"max_tokens": n, "ignore_eos": True} for n in (9, 1, 5)]
        data = b"".join(serving.request_bytes("/v1/completions", one) for one in orders)
        health = b"GET /health HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n"
        replies = exchange(self.server, health + data + health, 5)
        self.assertEqual([one.status for one in replies], [200] * 5)
        n_tok = [json.loads(one.body)["usage"]["completion_tokens"] for one in replies[1:4]]
        self.assertEqual(n_tok, [9, 1, 5])

    def test_a_length_that_is_too_short(self):
        """The rest of the body is taken for a request, which it is not."""
        replies = exchange(self.server, post(JSON, f"Content-Length: {len(BODY) - 10}") + b"\r\n\r\n")
        self.assertEqual([one.status for one in replies][:2], [400, 400])

    def test_a_length_that_is_too_long(self):
        """The client leaves before its body has come: nothing is computed for it."""
        before = self.server.stats()["n_prompt_tok"]
        with self.server.connect() as one:
            one.sendall(post(JSON, f"Content-Length: {len(BODY) + 10}"))
        self.server.wait_idle(self.n_file + 1)
        self.assertEqual(self.server.stats()["n_prompt_tok"], before)

    def test_a_body_that_looks_like_a_request(self):
        replies = exchange(self.server, post(JSON, f"Content-Length: {len(SECOND)}", body=SECOND), 1)
        self.assertEqual([one.status for one in replies], [400])


class Deadlines(serving.SharedServer):
    """A request that trickles in is ended by its deadline, though something always arrives."""
    ARGS = "--header-timeout", 1, "--body-timeout", 1

    def check_ends(self, begin):
        with self.server.connect() as slow:
            slow.settimeout(0.1)
            slow.sendall(begin)
            for _ in range(10 * WAIT_S):
                data = self.trickle(slow)
                if data is not None:
                    return data
                self.assertEqual(self.server.call("GET", "/health")[0], 200)
        return self.fail("the connection stays open")

    @staticmethod
    def trickle(slow):
        """Sends one byte more. What comes back, None: nothing yet."""
        try:
            slow.sendall(b"a")
            return slow.recv(1000)
        except TimeoutError:
            return None
        except OSError:
            return b""

    def test_a_head_that_never_ends(self):
        self.check_408(self.check_ends(b"POST /v1/completions HTTP/1.1\r\nHost: 127.0.0.1\r\nX: "))

    def test_a_body_that_never_ends(self):
        self.check_408(self.check_ends(post(JSON, "Content-Length: 100000", body=b'{"prompt":"')))
        self.check_408(self.check_ends(post(JSON, CHUNKED, body=b'ffffff\r\n{"prompt":"')))

    def test_a_connection_that_says_nothing(self):
        with self.server.connect() as silent:
            silent.settimeout(WAIT_S)
            with contextlib.suppress(ConnectionResetError):
                self.check_408(silent.recv(1000))

    def check_408(self, data):
        """Closing without a word is right, too."""
        if data:
            self.assertIn(b" 408 ", data.split(b"\r\n")[0])


class Pages(serving.SharedServer):
    """What a page of an allowed origin may, and no other."""
    PAGE, OTHER = "https://page.example", "https://other.example"
    ARGS = "--cors", f"https://first.example,{PAGE}", "--allowed-host", "api.example"

    def ask(self, *headers, host="api.example", data=None):
        return exchange(self.server, data or post(JSON, LENGTH, *headers, host=host), 1)[0]

    def test_allowed(self):
        reply = self.ask(f"Origin: {self.PAGE}")
        self.assertEqual((reply.status, reply.headers["access-control-allow-origin"]), (200, self.PAGE))
        self.assertEqual(self.ask(host="127.0.0.1").status, 200)

    def test_not_allowed(self):
        for headers, host in (([f"Origin: {self.OTHER}"], "api.example"), ([], "other.example"),
                              ([f"Origin: {self.PAGE}.other.example"], "api.example"),
                              (["Origin: http://page.example"], "api.example")):
            reply = self.ask(*headers, host=host)
            self.assertIn(reply.status, {403, 421})
            self.assertNotIn("access-control-allow-origin", reply.headers)

    def test_preflight(self):
        for origin, right in ((self.PAGE, {200, 204}), (self.OTHER, {403})):
            reply = self.ask(data=(f"OPTIONS /v1/completions HTTP/1.1\r\nHost: api.example\r\nOrigin: {origin}\r\n"
                                   "Access-Control-Request-Method: POST\r\n\r\n").encode())
            self.assertIn(reply.status, right)


if __name__ == "__main__":
    unittest.main()
