"""Shared by the tests of the command line: running the program, making models, the form of an error.

CTest runs them. By hand: PYTHONPATH=tests/cli/support FLEXINFER_BIN=build/asan/bin python3 tests/cli/test_run.py
"""
import collections
import csv
import io
import json
import os
import re
import signal
import struct
import subprocess
import sys
import tempfile
import time
import unittest
import urllib.error
import urllib.request
from pathlib import Path

BIN = Path(os.environ["FLEXINFER_BIN"])
PROGRAM = BIN / "flexinfer"
PROJECT = Path(__file__).resolve().parents[3]
SHARED = PROJECT.parent / "shared" / "data"
STORYTELLER = PROJECT / "models" / "storyteller.gguf"
LONG = "FX_TEST_LONG" in os.environ  # sweeps at full length, not samples of them

SCRATCH = tempfile.TemporaryDirectory(prefix="flexinfer-cli-")


def scratch(name):
    return Path(SCRATCH.name) / name


def clean_env(extra=None):
    """The environment without options of ours that the caller may have set."""
    env = {k: v for k, v in os.environ.items() if not k.startswith("FLEXINFER_")}
    return {**env, **(extra or {})}


def defaults():
    """Signals as a login shell has them: a test runner may have them ignored."""
    for number in (signal.SIGINT, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)


def start(*args, env=None, program=PROGRAM, **how):
    how = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE, **how}
    return subprocess.Popen([program, *map(str, args)], env=clean_env(env), preexec_fn=defaults, **how)


def is_caught(process, number):
    """Whether the program has a handler for a signal."""
    status = Path(f"/proc/{process.pid}/status").read_text()
    return int(re.search(r"^SigCgt:\s*(\w+)$", status, re.MULTILINE).group(1), 16) >> (number - 1) & 1


def wait_until_caught(process, number):
    while process.poll() is None:
        if is_caught(process, number):
            return
        time.sleep(0.005)
    raise AssertionError(f"ended with status {process.returncode}: {process.stderr.read()}")


def run(*args, stdin=b"", env=None, timeout=120, program=PROGRAM):
    with start(*args, env=env, program=program, stdin=subprocess.PIPE) as process:
        out, err = process.communicate(stdin, timeout=timeout)
    return subprocess.CompletedProcess(args, process.returncode, out, err)


def tiny_model(ctx=256, weights="f32"):
    """A model with random weights, made once per test program."""
    path = scratch(f"tiny{ctx}-{weights}.gguf")
    if not path.exists():
        shape = f"--layers 2 --dim 64 --ffn 128 --heads 4 --kv-heads 2 --vocab 512 --ctx {ctx} --type {weights} --seed 1"
        subprocess.run([BIN / "make_model", "-o", path, *shape.split()], check=True, stdout=subprocess.DEVNULL)
    return path


# ---- servers -----------------------------------------------------------------------------------

class Server:
    """A running `flexinfer serve`: the lines before the one that says that it listens, and its URL, or unix:FILE."""

    def __init__(self, *options, model=None, env=None, port=0):
        self.process = start("serve", "-m", model or tiny_model(), "--port", port, *options, env=env)
        self.lines, self.headers = [], {}
        for raw in self.process.stderr:
            line = raw.decode().rstrip("\n")
            if "listening on" in line:
                self.url = re.search(r"(https?://|unix:)[^\s\"]+", line).group(0)
                self.ready = line
                self.port = 0 if self.url.startswith("unix:") else int(self.url.rsplit(":", 1)[1])
                return
            self.lines.append(line)
        raise AssertionError(f"the server has ended: {self.lines}")

    def call(self, path, fields=None, headers=None):
        """The status and the body of a GET or, with fields, a POST of JSON."""
        body = None if fields is None else json.dumps(fields).encode()
        headers = {**({"Content-Type": "application/json"} if body else {}), **self.headers, **(headers or {})}
        try:
            with urllib.request.urlopen(urllib.request.Request(self.url + path, body, headers), timeout=120) as reply:
                return reply.status, reply.read().decode()
        except urllib.error.HTTPError as error:
            return error.code, error.read().decode()

    def post(self, path, **fields):
        """The status and the body's JSON."""
        status, body = self.call(path, fields)
        return status, json.loads(body)

    def wait_line(self, text):
        """Reads the log up to a line with `text`, and returns that."""
        while text not in (line := self.process.stderr.readline().decode()):
            if not line:
                raise AssertionError(f"no line with {text}")
        return line.rstrip("\n")

    def stop(self):
        """Ends it: (status, what remained to be read of its log)."""
        self.process.send_signal(signal.SIGTERM)
        _, err = self.process.communicate(timeout=60)
        return self.process.returncode, err.decode()

    def kill(self):
        if self.process.poll() is None or not self.process.stderr.closed:
            self.process.kill()
            self.process.communicate()


# ---- benches -----------------------------------------------------------------------------------

def bench(name, *args, env=None):
    command = [BIN / name, *map(str, args)]
    return subprocess.run(command, capture_output=True, text=True, env=clean_env(env), check=False)


def rows(done):
    """The rows of CSV that a bench has printed."""
    assert done.returncode == 0, done.stderr
    found = list(csv.DictReader(io.StringIO(done.stdout)))
    for row in found:
        assert None not in row and None not in row.values(), row
    return found


def measured(done):
    """{section: {case: {what: value}}} from the rows."""
    found = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in rows(done):
        found[row["section"]][row["case"]][row["what"]] = float(row["value"])
    return found


# ---- GGUF files without tensors ----------------------------------------------------------------

U32, F32, BOOL, STR, ARRAY = 4, 6, 7, 8, 9
FORMATS = {U32: "<I", F32: "<f", BOOL: "<?", 5: "<i"}


def pack_str(text):
    data = text.encode() if isinstance(text, str) else text
    return struct.pack("<Q", len(data)) + data


def pack_value(kind, value):
    if kind == STR:
        return pack_str(value)
    if kind == ARRAY:
        of, items = value
        return struct.pack("<IQ", of, len(items)) + b"".join(pack_value(of, item) for item in items)
    return struct.pack(FORMATS[kind], value)


def write_gguf(path, metadata):
    """metadata: (key, type, value) in order."""
    body = b"".join(pack_str(key) + struct.pack("<I", kind) + pack_value(kind, value) for key, kind, value in metadata)
    path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, 0, len(metadata)) + body)
    return path


# A vocabulary small enough to tokenise by hand: ids 0-2 special, 3-258 bytes, then pieces with their scores.
PIECES = ["\u2581", "h", "e", "l", "o", "w", "r", "d", "he", "ll", "hell", "hello", "\u2581hello"]


def vocab_model(extra=()):
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)] + PIECES
    kinds = [2, 3, 3] + [6] * 256 + [1] * len(PIECES)
    scores = [0.0] * 259 + [-float(i) for i in range(len(PIECES))]
    return write_gguf(scratch("vocab.gguf"), [
        ("general.architecture", STR, "llama"),
        ("tokenizer.ggml.model", STR, "llama"),
        ("tokenizer.ggml.tokens", ARRAY, (STR, tokens)),
        ("tokenizer.ggml.scores", ARRAY, (F32, scores)),
        ("tokenizer.ggml.token_type", ARRAY, (5, kinds)),
        ("tokenizer.ggml.bos_token_id", U32, 1),
        ("tokenizer.ggml.eos_token_id", U32, 2),
        *extra,
    ])


def with_key(model, name, text):
    """A copy of a model with one more key, a text, which white space after it fills up so that tensors stay aligned."""
    data = model.read_bytes()
    n_tensor, n_key = struct.unpack_from("<QQ", data, 8)
    filler, key = pack_str("filler") + struct.pack("<I", STR), pack_str(name) + struct.pack("<I", STR) + pack_str(text)
    filler += pack_str(" " * (-(len(filler) + 8 + len(key)) % 32))
    path = scratch(f"with_{name}.gguf")
    path.write_bytes(data[:8] + struct.pack("<QQ", n_tensor, n_key + 2) + filler + key + data[24:])
    return path


def with_chat_template(model, text):
    return with_key(model, "tokenizer.chat_template", text)


# ---- the form of every test --------------------------------------------------------------------

class TestCase(unittest.TestCase):
    maxDiff = None

    def ok(self, *args, **how):
        done = run(*args, **how)
        self.assertEqual(done.returncode, 0, (args, done.stderr))
        return done

    def serve(self, *options, **how):
        server = Server(*options, **how)
        self.addCleanup(server.kill)
        return server

    def fails(self, status, text, *args, **how):
        """Exactly one line on stderr with `text` in it, nothing on stdout, and this exit status."""
        done = run(*args, **how)
        message = done.stderr.decode(errors="replace")
        self.assertEqual(done.returncode, status, (args, message))
        self.assertEqual(done.stdout, b"", args)
        self.assertTrue(message.startswith("flexinfer: ") and message.endswith("\n"), (args, message))
        self.assertEqual(message.count("\n"), 1, (args, message))
        self.assertIn(text, message, args)


def skip(why):
    print(f"skipped: {why}")
    sys.exit(77)


def main():
    unittest.main(module="__main__", verbosity=1)
