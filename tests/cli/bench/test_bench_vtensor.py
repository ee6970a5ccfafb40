"""bench_vtensor measures everything on every backend and layout, and its counts are exact."""
import collections
import csv
import io
import os
import subprocess
import unittest

import cli

SECTIONS = {"ops", "alloc", "decode", "churn", "fork", "match", "vmas", "physical", "trim", "calls", "scale"}
N_PLANE = 4  # with --quick
# Backend calls of each operation: map and unmap per view, create, destroy. Releasing shared chunks is left out, because
# the mapper unmaps them later.
CALLS = {
    "create, addresses reserved": (0, 0, 0, 0),
    "create, span reused": (0, 0, 0, 0),
    "create, span warm and wiped": (0, 0, 0, 0),
    "create, 2 warm chunks to wipe": (0, 0, 0, 0),
    "extend by a chunk, cold": (1, 0, 1, 0),
    "extend by a chunk, prepared": (0, 0, 0, 0),
    "extend by 2 chunks, spare": (0, 0, 0, 0),
    "extend inside a chunk": (0, 0, 0, 0),
    "extend after a fork": (0, 0, 0, 0),
    "fork 2 chunks": (1, 0, 0, 0),
    "record 2 chunks": (0, 0, 0, 0),
    "match 2 chunks": (1, 0, 0, 0),
    "match 1 chunk and a part (copy)": (2, 0, 1, 0),
    "truncate a chunk": (0, 0, 0, 0),
    "release 2 chunks": (0, 0, 0, 0),
    "swap_out 2 chunks": (0, 1, 0, 0),
    "swap_out 2 chunks, begin": (0, 0, 0, 0),
    "swap_in 2 chunks": (1, 0, 0, 0),
    "trim 2 chunks": (0, 1, 0, 1),
    "step, nothing to do": (0, 0, 0, 0),
}


def bench(*args, env=None):
    return subprocess.run([cli.BIN / "bench_vtensor", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          env={**os.environ, **(env or {})}, check=False, timeout=240)


def measured(done):
    """{section: {case: {what: value}}} from the rows, read as CSV."""
    found = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in csv.DictReader(io.StringIO(done.stdout)):
        assert None not in row and None not in row.values(), row
        found[row["section"]][row["case"]][row["what"]] = float(row["value"])
    return found


class BenchVtensor(unittest.TestCase):
    def everything(self, n_view, handles, *args, env=None):
        done = bench("--quick", "--csv", "-", *args, env=env)
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("pass          physical memory off from 1 prompt + N tails: 0 bytes", done.stderr)
        found = measured(done)
        self.assertEqual(set(found), SECTIONS - {"churn", "scale"} if handles else SECTIONS)
        self.check_counts(found, n_view, handles)

    def check_counts(self, found, n_view, handles):
        """Counts do not depend on the machine."""
        for name, told in (("unshared, 16 chunks grown in turn", 1), ("conversation of 10 turns", 10 if handles else 2)):
            self.assertEqual(found["vmas"][name]["told"], told, name)
            self.assertTrue(handles or found["vmas"][name]["system"] == told, name)
        self.assertEqual(set(found["ops"]), {*CALLS, "release 2 shared chunks"})
        for case, (n_map, n_unmap, n_create, n_destroy) in CALLS.items():
            row = found["ops"][case]
            if case in ("swap_out 2 chunks", "swap_in 2 chunks") and 2 * n_view in (row["map"], row["unmap"]):
                n_map, n_unmap = 2 * n_map, 2 * n_unmap  # chunks larger than what the mapper does at a time
            self.assertEqual((row["map"], row["unmap"], row["create"], row["destroy"]),
                             (n_map * n_view, n_unmap * n_view, n_create, n_destroy), case)
        for case, row in found["calls"].items():
            self.assertEqual((row["map"], row["unmap"], row["runs"]), (n_view, n_view, n_view), case)
        for name in ("full: counted", "full, no guard: counted"):
            if not handles:
                self.assertEqual((found["churn"][name]["create"], found["churn"][name]["destroy"]), (0, 0), name)
        for case, row in found["trim"].items():
            self.assertEqual(row["resident after"], row["to be kept"], case)
        for case, row in found["physical"].items():
            self.assertEqual((row["mapped"], row["resident"]), (row["expected"], row["expected"]), case)

    def test_host(self):
        self.everything(N_PLANE, False)

    def test_host_packed(self):
        self.everything(1, False, "--layout", "packed")

    def test_cuda_standin(self):
        self.everything(N_PLANE, True, "--backend", "cuda", env={"LD_LIBRARY_PATH": os.environ["VT_STANDIN"]})

    def test_table(self):
        done = bench("--quick", "--only", "calls")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("calls: system calls of sharing go with runs, not with chunks", done.stdout)
        self.assertIn("not measured  extend into a new chunk, prepared, p99: goal 2 us", done.stdout)

    def test_usage(self):
        for args, why in ((["--only", "nothing"], "--only: 'nothing' is no part of this bench"),
                          (["--planes", "-1"], "--planes: '-1' is not a whole number from 0 to 1048576"),
                          (["--layout", "round"], "--layout: 'round' is not one of split|packed"),
                          (["--csv"], "--csv: missing value (FILE)"), (["stray"], "'stray' is not understood")):
            done = bench(*args)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"bench_vtensor: {why}\n"), args)

    def test_csv_that_cannot_be_written(self):
        done = bench("--quick", "--only", "calls", "--csv", "/nowhere/rows.csv")
        self.assertEqual((done.returncode, done.stderr), (1, "bench_vtensor: /nowhere/rows.csv: cannot be written\n"))


if __name__ == "__main__":
    unittest.main()
