"""flexinfer top: its screen in tmux and as text, compared with what the server says of itself, sizes, keys, lost servers."""
import json
import os
import re
import shutil
import signal
import socket
import subprocess
import threading
import time
import unittest

import cli

TLS = cli.PROJECT / "tests" / "vectors" / "tls"
LIMIT_S = 90  # on a busy machine, with sanitizers
UNITS = ["B", "KiB", "MiB", "GiB", "TiB"]


def free_port():
    with socket.socket() as s:
        s.bind(("127.0.0.1", 0))
        return s.getsockname()[1]


def size_text(n_bytes):
    """A size as the program writes it."""
    value, unit = float(n_bytes), 0
    while value >= 1024 and unit + 1 < len(UNITS):
        value, unit = value / 1024, unit + 1
    return (f"{value:.0f} " if unit == 0 or value >= 99.95 else f"{value:.1f} ") + UNITS[unit]


class Server(cli.Server):
    """Its log is read to the end by a thread."""

    def __init__(self, *options, **how):
        super().__init__("--kv-memory", "64M", *options, model=cli.STORYTELLER, **how)
        self.reader = threading.Thread(target=self.process.stderr.read, daemon=True)
        self.reader.start()

    def stats(self):
        return json.loads(self.call("/stats")[1])

    def complete(self, **fields):
        return self.post("/v1/completions", **{"prompt": "Once upon a time", "max_tokens": 8, "temperature": 0, **fields})

    def chunk_bytes(self):
        """Of a snapshot: the size of a chunk, and all states."""
        snapshot = json.loads(self.call("/kv/snapshot")[1])
        return snapshot["groups"][0]["chunk_bytes"], snapshot["chunks"]

    def end(self):
        self.process.kill()
        self.process.wait()
        self.reader.join()
        self.process.stderr.close()
        self.process.stdout.close()


class Busy:
    """A client that asks for one answer of two choices after the other."""

    def __init__(self, server):
        self.server, self.stop = server, False
        self.thread = threading.Thread(target=self.run)

    def run(self):
        while not self.stop:
            self.server.complete(max_tokens=450, n=2, ignore_eos=True)

    def __enter__(self):
        self.thread.start()

    def __exit__(self, *_):
        self.stop = True
        self.thread.join()


class Pane:
    """A program in a tmux of our own."""

    def __init__(self, command, columns=110, rows=24, **env):
        self.tmux = ["tmux", "-S", str(cli.scratch(f"tmux{time.monotonic_ns()}")), "-f", "/dev/null"]
        words = " ".join(f"{k}={v}" for k, v in {"TERM": "screen-256color", "LANG": "C.UTF-8", **env}.items())
        self.call("new-session", "-d", "-x", columns, "-y", rows, f"env {words} {command}; echo status=$?; sleep 999")

    def call(self, *args):
        return subprocess.run([*self.tmux, *map(str, args)], env=cli.clean_env(), check=True, timeout=60,
                              stdout=subprocess.PIPE, text=True).stdout

    def screen(self, *how):
        return self.call("capture-pane", "-p", *how)

    def keys(self, *keys):
        self.call("send-keys", *keys)

    def wait(self, pattern, *how):
        """The screen once it has this pattern."""
        end_s = time.monotonic() + LIMIT_S
        while time.monotonic() < end_s:
            text = self.screen(*how)
            if re.search(pattern, text, re.M):
                return text
            time.sleep(0.05)
        raise AssertionError(f"{pattern!r} never came:\n{text}")

    def end(self):
        subprocess.run([*self.tmux, "kill-server"], check=False, stderr=subprocess.DEVNULL)


def figures_of(screen):
    """{"running": 2, "mapped": "1.0 MiB", "owned": 7, ..} of the lines above the list."""
    found = {}
    for number, word in re.findall(r"(\d+) (running|waiting|requests|spare|owned|shared|cached|swapped)\b", screen):
        found.setdefault(word, int(number))
    chunks = re.search(r"^chunks.*$", screen, re.M).group(0)
    for number, word in re.findall(r"(\d+) (\w+)", chunks):
        found["chunks " + word] = int(number)
    for size, word in re.findall(r"([\d.]+ [KMGT]?i?B) (mapped|live|shared|cached|budget)", screen):
        found["bytes " + word] = size
    return found


class Top(cli.TestCase):
    def serve(self, *options, **how):
        server = Server(*options, **how)
        self.addCleanup(server.end)
        return server

    def top(self, *args, **how):
        pane = Pane(" ".join(map(str, (cli.PROGRAM, "top", *args))), **how)
        self.addCleanup(pane.end)
        return pane

    def compare(self, screen, server):
        told, stats = figures_of(screen), server.stats()
        self.assertEqual((told["running"], told["waiting"]), (stats["n_running"], stats["n_waiting"]))
        for word in ("mapped", "live", "shared", "cached", "budget"):
            self.assertEqual(told["bytes " + word], size_text(stats[f"kv_{word}_bytes"]), word)
        one, runs = server.chunk_bytes()
        n_chunk = sum(n for _, n, state, _ in runs if state)
        self.assertEqual(sum(n for word, n in told.items() if word.startswith("chunks ")), n_chunk, screen)
        self.assertEqual(n_chunk * one, stats["kv_mapped_bytes"])

    def check_figures(self, look, server):
        """look() gives a screen, which says what the server does once that is idle: after an answer's last event its
        sequence is still there for a moment."""
        end_s = time.monotonic() + LIMIT_S
        while True:
            screen = look()
            try:
                self.compare(screen, server)
                return screen
            except AssertionError:
                if time.monotonic() > end_s:
                    raise
                time.sleep(0.05)

    def test_once(self):
        server = self.serve()
        server.complete(max_tokens=40)
        screen = self.check_figures(lambda: self.ok("top", server.url, "--once").stdout.decode(), server)
        self.assertTrue(screen.startswith(f"flexinfer 0.1.0  {server.url}  vtensor"), screen)
        self.assertNotIn("\033", screen)
        first = re.search(r"first token (\S+) s", screen).group(1)
        metrics = dict(re.findall(r"^flexinfer_time_to_first_token_seconds_(sum|count) (\S+)$",
                                  server.call("/metrics")[1], re.M))
        self.assertAlmostEqual(float(first), float(metrics["sum"]) / float(metrics["count"]), delta=0.0006)
        with Busy(server):
            end_s = time.monotonic() + LIMIT_S
            while "2 running" not in screen and time.monotonic() < end_s:
                screen = self.ok("top", server.url, "--once", env={"COLUMNS": "90"}).stdout.decode()
        self.assertRegex(screen, r"(?m)^\d+\.0 +running +\d+ +\d+ +\d+ +450 .* [oS.]+$")
        self.assertRegex(screen, r"(?m)^\d+\.1 +[oS.]+$")
        self.assertLessEqual(max(map(len, screen.splitlines())), 90)

    def test_on_a_terminal(self):
        server = self.serve()
        pane = self.top(server.url)
        pane.wait(r"live$")
        with Busy(server):
            screen = pane.wait(r"^\d+\.0 +running ")
            self.assertRegex(screen, r"(?m)^\d+\.1 +[oS.]+$")
            self.assertEqual(figures_of(pane.wait(r"  2 running"))["running"], 2)
            pane.wait(r"^tokens/s +[1-9]")
            self.check_sizes(pane)
            self.check_keys(pane)
        pane.call("resize-window", "-x", 110, "-y", 24)  # has room for every figure, whatever its length
        pane.wait(r"  0 running  0 waiting")
        self.check_figures(pane.screen, server)
        pane.keys("q")
        pane.wait(r"^status=0$")

    def check_sizes(self, pane):
        for columns, rows in ((60, 10), (132, 40), (30, 5), (80, 24)):
            pane.call("resize-window", "-x", columns, "-y", rows)
            screen = pane.wait(rf"\Aflexinfer 0.1.0.*\n(?:.*\n){{{rows - 2}}}q quit.*\n*\Z")
            self.assertLessEqual(max(map(len, screen.split("\n"))), columns)

    def check_keys(self, pane):
        for name in ("age", "output", "rate", "prompt", "state", "id"):
            pane.keys("s")
            pane.wait(rf"sort: {name} ")
        pane.keys("r")
        pane.wait(r"\(reversed\)")
        pane.keys("r", "?")
        pane.wait(r"S shared +other sequences")
        pane.keys("?", "p")
        before = pane.wait(r"PAUSED$")
        time.sleep(1)
        self.assertEqual(re.findall(r"^\d+\..*", pane.screen(), re.M), re.findall(r"^\d+\..*", before, re.M))
        pane.keys("p")
        pane.wait(r"live$")

    def test_a_server_that_goes_and_comes(self):
        port = free_port()
        server = self.serve(port=port)
        server.complete(max_tokens=40)
        pane = self.top(server.url)
        pane.wait(r"live\n(?:.*\n)+chunks .*[1-9]\d* (cached|shared)  ")
        server.end()
        pane.wait(r"NO CONNECTION$")
        pane.wait(r"^no connection: Connection refused; trying again")
        server = self.serve(port=port)
        pane.wait(r"live\n(?:.*\n)+chunks .* 0 shared  c 0 cached")
        server.complete(max_tokens=40)
        pane.wait(r"[1-9]\d* (cached|shared)  ")
        os.kill(int(pane.call("display-message", "-p", "#{pane_pid}")), 0)  # it is there still
        pane.keys("q")
        pane.wait(r"^status=0$")

    def test_without_colours(self):
        """Letters say what colours say; NO_COLOR and a terminal without colours have none."""
        server = self.serve()
        server.complete(max_tokens=40)
        color = r"\033\[[\d;]*(3[0-7]|38;5;\d+)m"
        self.assertRegex(self.top(server.url).wait(r"c \d+ cached|S.* \d+ shared", "-e"), color)
        for env in ({"NO_COLOR": "1"}, {"TERM": "vt100"}):
            pane = self.top(server.url, **env)
            pane.wait(r"^chunks +\. \d+ spare  o \d+ owned  S \d+ shared  c \d+ cached  ~ 0 swapped")
            self.assertNotRegex(pane.screen("-e"), color, env)

    def test_ascii(self):
        """Without UTF-8 the graph is drawn in ASCII."""
        server = self.serve()
        server.complete(max_tokens=40)
        pane = self.top(server.url, LANG="C", LC_ALL="C")
        pane.wait(r"^mapped +[_.:=+*#-]+")

    def test_keys_of_the_server(self):
        keys = cli.scratch("keys")
        keys.write_text("# comment\nann sk-ann\nroot sk-root admin\n")
        keys.chmod(0o600)
        server = self.serve("--api-key-file", keys)
        self.fails(1, "status 401: an API key is needed", "top", server.url, "--once")
        alone = cli.scratch("key")
        alone.write_text("sk-ann\n")
        self.fails(1, "status 403: this path needs an admin's API key", "top", server.url, "--once", "--api-key-file",
                   alone)
        self.ok("top", server.url.removeprefix("http://"), "--once", "--api-key-file", keys)
        alone.write_text("sk-root\n")
        self.ok("top", server.url, "--once", "--api-key-file", alone)
        pane = self.top(server.url)
        pane.wait(r"^no connection: status 401")

    def test_a_server_behind_https(self):
        """Believed if its certificate is from an authority that is named, and the host's; otherwise one line says why."""
        cert, key = TLS / "localhost-cert.pem", TLS / "localhost-key.pem"
        server = self.serve("--tls-cert", cert, "--tls-key", key)
        self.assertTrue(server.url.startswith("https://"), server.url)
        screen = self.ok("top", server.url, "--once", "--ca-file", cert).stdout.decode()
        self.assertIn(server.url + "  vtensor", screen)
        self.fails(1, "is not trusted", "top", server.url, "--once")
        self.fails(1, "no such file", "top", server.url, "--once", "--ca-file", "no such file")

    def test_a_server_at_a_unix_socket(self):
        name = f"unix:{cli.scratch('top.sock')}"
        server = self.serve("--host", name)
        self.assertEqual(server.url, name)
        screen = self.ok("top", name, "--once").stdout.decode()
        self.assertIn(name + "  vtensor", screen)
        self.assertIn("0 running", screen)
        server.end()
        self.fails(1, f"{name}: Connection refused", "top", name, "--once")
        self.fails(1, f"{name}x: No such file or directory", "top", name + "x", "--once")
        self.fails(1, "unix: needs a file's name", "top", "unix:", "--once")

    def test_errors(self):
        url = f"http://127.0.0.1:{free_port()}"
        self.fails(1, f"{url}: Connection refused", "top", url, "--once")
        self.fails(1, f"{url}: Connection refused", "top", url.removeprefix("http://"), "--once")
        self.fails(1, "is not a URL like", "top", "ftp://h:80", "--once")
        self.fails(1, "there is no terminal: --once prints one screen", "top", url)
        self.fails(1, "No such file", "top", url, "--once", "--api-key-file", "/nowhere")
        empty = cli.scratch("empty")
        empty.write_text("# none\n")
        self.fails(1, "it holds no key", "top", url, "--once", "--api-key-file", empty)
        pane = self.top(url, TERM="nonsense")
        pane.wait(r"flexinfer: the terminal 'nonsense' is not known")
        pane.wait(r"^status=1$")

    def test_a_server_that_speaks_something_else(self):
        with socket.socket() as s:
            s.bind(("127.0.0.1", 0))
            s.listen(4)

            def answer():
                while True:
                    try:
                        connection, _ = s.accept()
                    except OSError:
                        return
                    connection.sendall(b"SSH-2.0-OpenSSH_9\r\n\r\n")
                    connection.close()
            threading.Thread(target=answer, daemon=True).start()
            self.fails(1, "it does not answer in HTTP", "top", f"http://127.0.0.1:{s.getsockname()[1]}", "--once")
            s.shutdown(socket.SHUT_RDWR)

    def test_signals_give_the_terminal_back(self):
        pane = self.top(f"http://127.0.0.1:{free_port()}")
        pane.wait(r"^no connection")
        child = subprocess.run(["pgrep", "-P", pane.call("display-message", "-p", "#{pane_pid}").strip()],
                               stdout=subprocess.PIPE, check=True, text=True).stdout.split()[0]
        os.kill(int(child), signal.SIGTERM)
        pane.wait(r"^status=0$")


if __name__ == "__main__":
    if not shutil.which("tmux"):
        cli.skip("tmux is not installed")
    if b"built without ncurses" in cli.run("top", "http://127.0.0.1:1", env={"TERM": "vt100"}).stderr:
        cli.skip("this build has no ncurses")
    cli.main()
