"""Shared by the tests of installations: where the build is, commands that must succeed, a folder for each test."""
import os
import re
import shutil
import subprocess
import tempfile
import unittest
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD, CMAKE = Path(os.environ["VT_BUILD"]), os.environ["VT_CMAKE"]
BIN = BUILD / "bin"
VERSION = re.search(r"project\(\w+ VERSION ([\d.]+)", (ROOT / "CMakeLists.txt").read_text(encoding="utf-8")).group(1)
ENV = {name: value for name, value in os.environ.items() if not name.startswith("FLEXINFER_")}


def run(*command, env=None, cwd=None):
    """The output of a command that must succeed."""
    command = [str(word) for word in command]
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=cwd, check=False,
                          env={**ENV, **(env or {})})
    if done.returncode != 0:
        raise AssertionError(f"{' '.join(command)}: status {done.returncode}\n{done.stdout}")
    return done.stdout


def needs(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    return unittest.skipIf(missing, f"not here: {', '.join(missing)}")


def move_installed(to, *component):
    """Installs into to/first, moves that, and returns where it is then."""
    first, prefix = to / "first", to / "a place" / "moved"
    run(CMAKE, "--install", BUILD, *component, "--prefix", first)
    prefix.parent.mkdir()
    first.rename(prefix)
    return prefix


class TestCase(unittest.TestCase):
    def setUp(self):
        self.scratch = Path(self.enterContext(tempfile.TemporaryDirectory(prefix="flexinfer-install-")))

    def model(self):
        path = self.scratch / "tiny.gguf"
        shape = "--layers 1 --dim 32 --ffn 64 --heads 2 --kv-heads 1 --vocab 512 --ctx 64 --type f32 --seed 1"
        run(BIN / "make_model", "-o", path, *shape.split())
        return path
