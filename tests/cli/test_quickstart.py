"""What ./quickstart refuses before it installs or builds anything. ./check runs the whole script."""
import socket
import subprocess
from pathlib import Path

import cli

SCRIPT = Path(__file__).resolve().parents[2] / "quickstart"


class Quickstart(cli.TestCase):
    def refused(self, status, text, *args):
        done = subprocess.run([SCRIPT, *map(str, args)], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        first, *rest = done.stderr.splitlines()
        self.assertIn(text, first)
        self.assertTrue(status == 2 or not rest, done.stderr)

    def test_help(self):
        done = subprocess.run([SCRIPT, "--help"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("--once", done.stdout)

    def test_wrong_usage(self):
        self.refused(2, "unknown option '--twice'", "--twice")
        self.refused(2, "--port needs a value", "--port")
        self.refused(2, "--port: '65536' is not a number", "--port", "65536")
        self.refused(2, "--port: 'x' is not a number", "--port", "x")

    def test_missing_model(self):
        self.refused(1, "there is no file no/such.gguf", "--model", "no/such.gguf")

    def test_busy_port(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.refused(1, f"port {port} is in use", "--model", cli.tiny_model(), "--port", port)


cli.main()
