"""bench_kernels prints valid CSV rows, each with the limits of its time, and says which goals are reached."""
import csv
import io
import subprocess
import unittest

import cli

ROW_OPS = {"rms_norm", "layer_norm", "add", "add_scaled", "softcap", "swiglu", "swiglu_clamped", "geglu", "geglu_erf", "relu",
           "rope", "quant_q8", "store_kv"}
SMALL = ("--n-in", "256", "--n-out", "40", "--row-ms", "1")


def bench(*args):
    return subprocess.run([cli.BIN / "bench_kernels", *args], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, timeout=240)


def rows(done):
    found = list(csv.DictReader(io.StringIO(done.stdout)))
    for row in found:
        assert None not in row and None not in row.values(), row
    return found


class BenchKernels(unittest.TestCase):
    def test_a_layer_beside_its_limits_and_goals(self):
        done = bench(*SMALL, "--only", "linear", "--type", "Q8_0", "--tok", "1", "--goals")
        self.assertEqual(done.returncode, 0, done.stderr)
        (row,) = rows(done)
        self.assertEqual([row[k] for k in ("op", "type", "n_in", "n_out", "n_tok")], ["linear", "Q8_0", "256", "40", "1"])
        for key in ("median_s", "limit GB/s", "limit GFLOP/s"):
            self.assertGreater(float(row[key]), 0)
        lines = done.stderr.splitlines()
        self.assertRegex(lines[0], r"^ +(pass|FAIL) +linear Q8_0, tokens: 1: [\d.e+-]+ % of the bandwidth, goal 90 %")
        self.assertTrue(all("not measured" in line for line in lines[1:]), done.stderr)

    def test_cpu_time_is_that_of_one_thread(self):
        done = bench(*SMALL, "--only", "linear", "--type", "Q6_K", "--tok", "7", "--cpu-time", "--cached", "--threads", "2")
        self.assertEqual(done.returncode, 0, done.stderr)
        (row,) = rows(done)
        self.assertEqual((row["n_tok"], row["threads"]), ("7", "1"))
        for key in ("median_s", "limit GB/s", "limit GFLOP/s"):
            self.assertGreater(float(row[key]), 0)

    def test_every_row_operation(self):
        done = bench("--only", "rows", "--row-ms", "1")
        self.assertEqual(done.returncode, 0, done.stderr)
        found = rows(done)
        self.assertEqual({row["op"] for row in found}, ROW_OPS)
        self.assertEqual([row["type"] for row in found if row["op"] == "store_kv"], ["F32", "F16", "BF16", "Q8_0"])

    def test_bad_options(self):
        for args, why in ((["--type", "Q9_9"], "--type: there is no 'Q9_9'"),
                          (["--only", "nothing"], "--only: 'nothing' is no part of this bench"),
                          (["--tok", "-1"], "--tok: '-1' is not a whole number from 0 to 1048576"),
                          (["--n-in", "33"], "--n-in: 33 is not a multiple of 32"),
                          (["--path", "none"], "--path: 'none' is unknown or does not run here"),
                          (["--tok"], "--tok: missing value (N)")):
            done = bench(*args)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"bench_kernels: {why}\n"), args)


if __name__ == "__main__":
    unittest.main()
