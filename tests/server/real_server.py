"""A running program for the tests of this folder: FLEXINFER names it, FLEXINFER_MODEL another model than
models/storyteller.gguf. It has no client of its own, since importing one takes longer than some of these tests.
"""

import http.client
import json
import os
import pathlib
import re
import signal
import subprocess
import threading
import time
import urllib.request

SOURCE = pathlib.Path(os.environ.get("FLEXINFER_SOURCE", pathlib.Path(__file__).parents[2]))
PROGRAM = os.environ.get("FLEXINFER", str(SOURCE / "build/debug/bin/flexinfer"))
MODEL = os.environ.get("FLEXINFER_MODEL", str(SOURCE / "models/storyteller.gguf"))
START_S = 120  # a debug build with sanitizers on a busy machine


class Server:
    """One `flexinfer serve`, its log kept line by line."""

    def __init__(self, *args, model=MODEL):
        self.lines = []
        self.child = subprocess.Popen(
            [PROGRAM, "serve", "-m", str(model), "--port", "0", *args],
            stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
        self.reader = threading.Thread(target=self._read, daemon=True)
        self.reader.start()
        self.url = self.wait_line(r"listening on (http://\S+)", START_S).group(1)

    def _read(self):
        for line in self.child.stderr:
            self.lines.append(line.rstrip("\n"))

    def wait_line(self, pattern, limit_s=20, start=0):
        end_s = time.monotonic() + limit_s
        while time.monotonic() < end_s:
            for line in self.lines[start:]:
                if found := re.search(pattern, line):
                    return found
            if self.child.poll() is not None and not self.reader.is_alive():
                break
            time.sleep(0.01)
        raise AssertionError(f"no line like {pattern!r} in:\n" + "\n".join(self.lines))

    def wait_running(self, some):
        """Returns once the engine computes something (some: True) or nothing (False)."""
        while True:
            with urllib.request.urlopen(self.url + "/stats") as r:
                if bool(json.load(r)["n_running"]) == some:
                    return

    def leave_once_running(self, **fields):
        """Posts a completion to an idle server and hangs up when the engine computes it."""
        self.wait_running(False)
        connection = http.client.HTTPConnection(self.url.removeprefix("http://"))
        connection.request("POST", "/v1/completions", json.dumps(fields), {"Content-Type": "application/json"})
        self.wait_running(True)
        connection.close()

    def stop(self):
        self.child.send_signal(signal.SIGTERM)
        self.child.wait(60)
        self.reader.join(10)
        return self.child.returncode
