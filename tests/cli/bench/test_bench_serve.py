"""bench_serve measures every part, server and engine give the same answers, and no victim's request fails."""
import collections
import csv
import io
import os
import socket
import subprocess
import unittest
from pathlib import Path

import cli

STORYTELLER = Path(__file__).resolve().parents[3] / "models" / "storyteller.gguf"

# The sizes of --quick.
LEVELS = {"1 stream": 2, "8 streams": 16}  # requests
VICTIM = 4
ABUSES = ["slow heads", "half bodies", "garbage", "huge bodies", "slow readers", "many prompts"]


def bench(*args):
    return subprocess.run([cli.BIN / "bench_serve", "-m", STORYTELLER, *args], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env=cli.clean_env(), check=False, timeout=280)


def measured(done):
    """{section: {case: {what: value}}} from the rows, read as CSV."""
    found = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in csv.DictReader(io.StringIO(done.stdout)):
        assert None not in row and None not in row.values(), row
        found[row["section"]][row["case"]][row["what"]] = float(row["value"])
    return found


class BenchServe(unittest.TestCase):
    def test_counts(self):
        done = bench("--quick", "--csv", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = measured(done)
        self.assertEqual(set(found), {"floor", "load", "idle", "victim", "watch"})
        self.check_floor(found["floor"])
        self.check_load(found["load"])
        self.assertEqual(list(found["idle"]), ["0 connections", "128 connections"])
        self.check_victim(found["victim"])
        self.check_watch(found["watch"])
        self.assertIn("not measured  more time through the server, 1.1 B", done.stderr)
        self.assertIn("CPU of the idle server: ", done.stderr)

    def check_floor(self, rows):
        self.assertEqual(list(rows), ["1 connection", "8 connections", "32 connections", "128 connections"])
        for row in rows.values():
            self.assertGreater(row["CPU of a send p50"], 0)
            self.assertGreaterEqual(row["CPU of a send p99"], row["CPU of a send p50"])

    def check_load(self, rows):
        for level, n in LEVELS.items():
            for side in ("server", "engine alone"):
                row = rows[f"{level}, {side}"]
                self.assertEqual(row["n"], n)
                for what in ("rate", "first token p50", "first token p99", "between tokens p99", "CPU of a request"):
                    self.assertGreater(row[what], 0, (level, side, what))
                # Each request of 1 stream takes 8; the last one is counted a little after its token was sent.
                self.assertIn(row["forward passes"], (15, 16) if level == "1 stream" else range(15, 33))
            row = rows[f"{level}, server over engine"]
            self.assertEqual((row["different"], row["failed"]), (0, 0), level)
        self.assertEqual(len(rows), 3 * len(LEVELS))

    def check_victim(self, rows):
        self.assertEqual(list(rows), ["alone", *ABUSES])
        for case, row in rows.items():
            self.assertEqual((row["n"], row["failed"]), (VICTIM, 0), case)
            if case != "alone":
                self.assertGreater(row["abuses"], 0, case)
                self.assertGreater(row["p99 over its own"], 0, case)

    def check_watch(self, rows):
        for n_stream in (8, 64):
            row = rows[f"{n_stream} streams, 4 onlookers"]
            self.assertEqual(row["failed"], 0)
            self.assertGreater(row["n"], 0)
            self.assertGreater(row["rate watched"], 0)
            self.assertGreater(row["snapshot"], 0)
            self.assertGreaterEqual(row["events sent"], row["events made"])
            self.assertLessEqual(row["more time low"], row["more time"])
            self.assertLessEqual(row["more time"], row["more time high"])
        self.assertEqual(len(rows), 2)

    def test_a_server_that_runs_already(self):
        """Its answers are compared too; its CPU is not known, so there is no part about idling."""
        with cli.start("serve", "-m", STORYTELLER, "--port", "0", stderr=subprocess.PIPE, text=True) as server:
            line = next(line for line in server.stderr if line.startswith("listening on "))
            done = bench("--quick", "--only", "load,idle", "--csv", "-", "--port", line.rsplit(":", 1)[1].strip())
            server.terminate()
            server.stderr.read()
        self.assertEqual(done.returncode, 0, done.stderr)
        found = measured(done)
        self.assertEqual(set(found), {"load"})
        self.assertEqual(found["load"]["8 streams, server over engine"]["different"], 0)
        self.assertNotIn("CPU of a request", found["load"]["8 streams, server"])
        self.assertIn("not measured  CPU of the idle server", done.stderr)

    def test_one_level(self):
        done = bench("--quick", "--only", "load", "--streams", "8", "--csv", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertEqual(list(measured(done)["load"]),
                         [f"8 streams, {what}" for what in ("server", "engine alone", "server over engine")])

    def test_table(self):
        done = bench("--quick", "--only", "idle")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("idle: CPU of the server while nothing is asked of it", done.stdout)
        self.assertNotIn("load:", done.stdout)

    def test_wrong_options(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = str(closed.getsockname()[1])
            for args, why in ((["--only", "load,nothing"], "--only: 'nothing' is no part of this bench"),
                              (["stray"], "'stray' is not understood"),
                              (["--csv", "/nowhere/rows.csv"], "/nowhere/rows.csv: cannot be written"),
                              (["--only", "load", "--streams", "5", "--csv", os.devnull],
                               "--streams: no level of load has so many"),
                              (["--port", port, "--csv", os.devnull], "--port: no server listens at this port of 127.0.0.1"),
                              (["--program", "/nowhere/flexinfer", "--csv", os.devnull],
                               "the server: /nowhere/flexinfer: No such file or directory")):
                done = bench("--quick", *args)
                self.assertEqual((done.returncode, done.stderr), (1, f"bench_serve: {why}\n"), args)


if __name__ == "__main__":
    unittest.main()
