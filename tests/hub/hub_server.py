"""A hub for tests: the interface of Hugging Face's as pull and the Python client use it, a storage host on another port
to which large files are redirected, and the faults that a test asks for.

    with Hub() as hub:
        hub.add("org/repo", {"a.gguf": data})
        ... environment hub.env(cache) ...
        hub.log    what was asked: Request(host, method, path, headers)

A Proxy stands in the way to it, where a test names it.
"""
import base64
import collections
import contextlib
import functools
import hashlib
import http.server
import json
import select
import socket
import ssl
import threading
import urllib.parse

LFS_FROM = 1000  # bytes

Request = collections.namedtuple("Request", "host method path headers")


@functools.lru_cache
def sha256(data):
    return hashlib.sha256(data).hexdigest()


@functools.lru_cache
def git_sha1(data):
    return hashlib.sha1(b"blob %d\0" % len(data) + data).hexdigest()


class Handler(http.server.BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def log_message(self, *args):
        pass

    def do_HEAD(self):
        self.answer()

    def do_GET(self):
        self.answer()

    def answer(self):
        hub, host = self.server.hub, self.server.role
        if self.path.startswith("http://"):  # asked as a proxy
            host, self.path = "proxy", "/" + self.path.split("/", 3)[3]
        with hub.mutex:
            hub.log.append(Request(host, self.command, self.path, dict(self.headers)))
        with contextlib.suppress(BrokenPipeError, ConnectionResetError):
            (hub.answer_storage if self.server.role == "storage" else hub.answer_hub)(self)

    def send(self, status, body=b"", n_body=None, **fields):
        """Fields have _ for each -; n_body: a length to state that is not the body's."""
        self.send_response(status)
        for name, value in fields.items():
            self.send_header(name.replace("_", "-"), str(value))
        self.send_header("Content-Length", str(len(body) if n_body is None else n_body))
        self.end_headers()
        if self.command != "HEAD":
            self.wfile.write(body)
        if n_body is not None:
            self.close_connection = True

    def send_json(self, value):
        self.send(200, json.dumps(value).encode(), Content_Type="application/json")


class ProxyHandler(http.server.BaseHTTPRequestHandler):
    """Only CONNECT: bytes go to and fro until one side has closed."""

    def log_message(self, *args):
        pass

    def do_CONNECT(self):
        proxy = self.server.proxy
        proxy.log.append(Request("proxy", self.command, self.path, dict(self.headers)))
        wanted = proxy.login and "Basic " + base64.b64encode(proxy.login.encode()).decode()
        if proxy.refuses or wanted and self.headers["Proxy-Authorization"] != wanted:
            self.send_error(proxy.refuses or 407)
            return
        host, port = self.path.rsplit(":", 1)
        with socket.create_connection((host, int(port))) as far:
            self.send_response(200)
            self.send_header("ETag", '"the proxy\'s"')
            self.end_headers()
            self.close_connection = True
            with contextlib.suppress(ConnectionError):
                self.carry(self.connection, far)

    @staticmethod
    def carry(near, far):
        other = {near: far, far: near}
        while True:
            for ready in select.select(list(other), [], [])[0]:
                data = ready.recv(65536)
                if not data:
                    return
                other[ready].sendall(data)


class Server(http.server.ThreadingHTTPServer):
    daemon_threads = True
    request_queue_size = 64


class Proxy:
    """A proxy for https; login: "NAME:PASSWORD" that it asks for; refuses: with this status."""

    def __init__(self, login=None, refuses=None):
        self.log, self.login, self.refuses = [], login, refuses
        self.server = Server(("127.0.0.1", 0), ProxyHandler)
        self.server.proxy = self
        self.address = f"127.0.0.1:{self.server.server_port}"
        threading.Thread(target=self.server.serve_forever, args=(0.02,), daemon=True).start()

    def close(self):
        self.server.shutdown()
        self.server.server_close()


class Hub:
    def __init__(self, tls=None):
        """tls: (certificate, key), for the hub and its storage."""
        self.mutex = threading.Lock()
        self.log, self.repos, self.blobs = [], {}, {}
        self.token = None         # what every request to the hub must bring
        self.states_blobs = True  # in the list of files
        self.plain = {}           # path: bytes, of the storage's host, which knows nothing of repositories
        self.fail_hub = self.fail_storage = None  # a function of the handler; True: it has answered
        self.alter = lambda listing: listing
        self.servers = [self.open_server(role, tls) for role in ("hub", "storage")]
        self.url, self.storage = (f"http{'s' if tls else ''}://127.0.0.1:{s.server_port}" for s in self.servers)

    def open_server(self, role, tls):
        server = Server(("127.0.0.1", 0), Handler)
        server.hub, server.role = self, role
        if tls:
            context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
            context.load_cert_chain(*tls)
            server.socket = context.wrap_socket(server.socket, server_side=True)
        threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True).start()
        return server

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.close()

    def close(self):
        for server in self.servers:
            server.shutdown()
            server.server_close()

    def env(self, cache, **more):
        names = ("HF_ENDPOINT", "HF_TOKEN", "HF_HUB_OFFLINE", "http_proxy", "https_proxy", "HTTPS_PROXY", "all_proxy",
                 "ALL_PROXY", "no_proxy", "NO_PROXY", "SSL_CERT_FILE")
        return {**dict.fromkeys(names, ""), "HF_ENDPOINT": self.url, "HF_HOME": str(cache), "HF_HUB_CACHE": str(cache / "hub"),
                "XDG_CACHE_HOME": str(cache), "HOME": str(cache), **more}

    def add(self, repo, files, rev="main"):
        """A commit of these files, which the revision then names. Returns it."""
        commit = hashlib.sha1(repr((repo, sorted((n, sha256(d)) for n, d in files.items()))).encode()).hexdigest()
        revs = self.repos.setdefault(repo, {})
        revs[rev] = revs[commit] = (commit, files)
        self.blobs.update({sha256(data): data for data in files.values()})
        return commit

    def asked(self, host, text=""):
        with self.mutex:
            return [r for r in self.log if r.host == host and text in r.path]

    def storage_bytes(self):
        """Bytes of all ranges that the storage was asked for."""
        total = 0
        for request in self.asked("storage"):
            first, last = request.headers["Range"].split("=")[1].split("-")
            total += int(last) - int(first) + 1
        return total

    # ---- the hub ----

    def answer_hub(self, h):
        path, _, query = h.path.partition("?")
        if self.fail_hub and self.fail_hub(h):
            return
        if self.token and h.headers["Authorization"] != f"Bearer {self.token}":
            h.send(401, b"{}", X_Error_Code="RepoNotFound")
        elif path.startswith("/api/models/"):
            self.answer_api(h, path.removeprefix("/api/models/"), query)
        else:
            self.answer_file(h, path)

    def answer_api(self, h, path, query):
        owner, name, *verb = path.split("/")
        revs = self.repos.get(f"{owner}/{name}")
        verb, rev = (verb + ["revision", "main"])[:2] if len(verb) < 2 else (verb[0], urllib.parse.unquote(verb[1]))
        if revs is None:
            h.send(404, b"{}", X_Error_Code="RepoNotFound")
        elif rev not in revs:
            h.send(404, b"{}", X_Error_Code="RevisionNotFound")
        elif verb == "tree":
            h.send_json([self.tree_entry(*file) for file in revs[rev][1].items()])
        else:
            commit, files = revs[rev]
            with_blobs = "blobs=true" in query and self.states_blobs
            siblings = [self.sibling(*file) if with_blobs else {"rfilename": file[0]} for file in files.items()]
            h.send_json(self.alter({"id": f"{owner}/{name}", "sha": commit, "siblings": siblings}))

    @staticmethod
    def sibling(name, data):
        lfs = {"lfs": {"sha256": sha256(data), "size": len(data), "pointerSize": 130}} if len(data) >= LFS_FROM else {}
        return {"rfilename": name, "size": len(data), "blobId": git_sha1(data), **lfs}

    @staticmethod
    def tree_entry(name, data):
        lfs = {"lfs": {"oid": sha256(data), "size": len(data), "pointerSize": 130}} if len(data) >= LFS_FROM else {}
        return {"type": "file", "path": name, "size": len(data), "oid": git_sha1(data), **lfs}

    def answer_file(self, h, path):
        owner, name, verb, rev, file = (urllib.parse.unquote(s) for s in (path[1:].split("/", 4) + [""] * 5)[:5])
        commit, files = self.repos.get(f"{owner}/{name}", {}).get(rev, ("", {}))
        if verb != "resolve" or file not in files:
            h.send(404, X_Error_Code="EntryNotFound", **({"X_Repo_Commit": commit} if commit else {}))
            return
        data = files[file]
        if len(data) < LFS_FROM:
            self.send_range(h, data, X_Repo_Commit=commit, ETag=f'"{git_sha1(data)}"')
        else:
            h.send(302, Location=f"{self.storage}/{sha256(data)}?signature=x", X_Repo_Commit=commit,
                   X_Linked_Size=len(data), X_Linked_ETag=f'"{sha256(data)}"', ETag='W/"other"')

    # ---- the storage ----

    def answer_storage(self, h):
        if self.fail_storage and self.fail_storage(h):
            return
        path = h.path.partition("?")[0]
        data = self.blobs.get(path[1:], self.plain.get(path))
        if data is None:
            h.send(404)
        else:
            self.send_range(h, data, ETag='"storage-tag"')

    @staticmethod
    def send_range(h, data, **fields):
        first, last = range_of(h, data)
        if first is None:
            h.send(200, data, **fields)
        else:
            h.send(206, data[first:last + 1], Content_Range=f"bytes {first}-{last}/{len(data)}", **fields)


def range_of(h, data):
    """First and last byte that are asked for; None: the whole."""
    if "Range" not in h.headers:
        return None, None
    first, last = h.headers["Range"].removeprefix("bytes=").split("-")
    return int(first), min(int(last), len(data) - 1)
