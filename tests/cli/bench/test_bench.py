"""flexinfer bench: JSON, CSV and the table are complete, limits follow from the work and the machine, and lists that
are invalid or cannot run are refused. Of the lists that are none each option gets a third; with FX_TEST_LONG all."""
import csv
import io
import json
import os
import pty
import re
import signal
import tempfile
from pathlib import Path

import cli

TWICE = ["--prompt", "24,24,10", "--context", "24,40,24,24", "--gen", "6", "--batch", "3,1,3", "--repeat", "2", "--threads", "1"]
SMALL = ["--prompt", "24,10", "--context", "24,40", "--gen", "6", "--batch", "3,1", "--repeat", "2", "--threads", "1"]
# The work of cli.tiny_model (f32): the linear layers q, k and v; o, gate, up and down, which the last layer computes
# for rows of logits only; the output; the cache.
QKV_MUL = 64 * 64 + 2 * 64 * 32
REST_MUL = 64 * 64 + 3 * 64 * 128
LAYER_MUL = 2 * QKV_MUL + REST_MUL
OUTPUT_MUL = REST_MUL + 64 * 512
WEIGHT_BYTES = 4 * (LAYER_MUL + OUTPUT_MUL)
KV_BYTES_PER_TOK = 2 * 2 * 2 * 32
COLUMNS = ["phase", "batch", "tokens", "context", "tokens_per_s", "limit_tokens_per_s", "share_of_limit",
           "share_of_scaled_limit", "limited_by", "read_gbps", "fp32_gflops", "int8_gops", "int8_scaled_gops", "threads", "kernel_path", "model", "type", "version"]


class Bench(cli.TestCase):
    done = {}

    def traced(self, *args):
        """What it prints, and its trace. Of equal calls one runs: each measures the machine, which takes most of the time."""
        if args not in self.done:
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "trace.json"
                out = self.ok("bench", "-m", cli.tiny_model(), *SMALL, "--trace", path, *args).stdout.decode()
                self.done[args] = out, json.loads(path.read_text())
        return self.done[args]

    def check_row(self, row, limit):
        """limit: (seconds of arithmetic, seconds of reading) for a second's worth of tokens."""
        self.assertGreater(row["tokens_per_s"], 0)
        self.assertEqual(row["limited_by"], "memory" if limit[1] > limit[0] else "arithmetic")
        self.assertAlmostEqual(row["share_of_limit"] / (max(limit) * row["tokens_per_s"]), 1, delta=1e-3)
        self.assertAlmostEqual(row["share_of_limit"] * row["limit_tokens_per_s"] / row["tokens_per_s"], 1, delta=1e-3)
        self.assertEqual(row["share_of_scaled_limit"], row["share_of_limit"])  # floats have no scales

    def test_json(self):
        found = json.loads(self.traced("--json", "--record-events", "0")[0])
        machine = found["machine"]
        self.assertEqual((found["repeat"], found["model"]["type"], machine["threads"]), (2, "F32", 1))
        self.assertTrue(found["version"] and machine["kernel_path"])
        op_s, byte_s = 1e-9 / machine["fp32_gflops"], 1e-9 / machine["read_gbps"]
        self.assertEqual([(r["batch"], r["tokens"]) for r in found["prompt"]], [(3, 24), (3, 10), (1, 24), (1, 10)])
        for row in found["prompt"]:
            self.check_row(row, (2 * op_s * (LAYER_MUL + OUTPUT_MUL / row["tokens"]),
                                 byte_s * WEIGHT_BYTES / (row["batch"] * row["tokens"])))
        self.assertEqual([(r["batch"], r["context"]) for r in found["decode"]], [(3, 24), (3, 40), (1, 24), (1, 40)])
        for row in found["decode"]:
            self.assertEqual(row["tokens"], 6)
            self.assertGreaterEqual(row["mean_context"], row["context"] + 3)
            self.check_row(row, (2 * op_s * (LAYER_MUL + OUTPUT_MUL),
                                 byte_s * (WEIGHT_BYTES / row["batch"] + row["mean_context"] * KV_BYTES_PER_TOK)))
            if row["batch"] == 1:
                self.assertEqual(row["mean_context"], row["context"] + 3)

    def test_blocks(self):
        """Of block types, a second share counts what their scales cost where products are counted in int8. A number
        that is there twice is run once."""
        found = json.loads(self.ok("bench", "-m", cli.tiny_model(weights="q8_0"), "--json", *TWICE).stdout)
        self.assertEqual([(r["batch"], r["tokens"]) for r in found["prompt"]], [(3, 24), (3, 10), (1, 24), (1, 10)])
        self.assertEqual([(r["batch"], r["context"]) for r in found["decode"]], [(3, 24), (3, 40), (1, 24), (1, 40)])
        machine = found["machine"]
        self.assertEqual("vnni" in machine["kernel_path"], machine["int8_gops"] > 0)
        mul_per_tok, byte_s = LAYER_MUL + OUTPUT_MUL, 1e-9 / machine["read_gbps"]
        peaks = [machine[name] or machine["fp32_gflops"] for name in ("int8_gops", "int8_scaled_gops")]
        for row in found["decode"]:
            read_s = byte_s * (WEIGHT_BYTES / 4 * 34 / 32 / row["batch"] + row["mean_context"] * KV_BYTES_PER_TOK)
            for name, peak in zip(("share_of_limit", "share_of_scaled_limit"), peaks):
                limit_s = max(2e-9 / peak * mul_per_tok, read_s)
                self.assertAlmostEqual(row[name] / (limit_s * row["tokens_per_s"]), 1, delta=1e-3)

    def test_csv(self):
        text, _ = self.traced("--csv", "--record-events", "16")
        self.assertEqual(text.splitlines()[0], ",".join(COLUMNS))
        rows = list(csv.DictReader(io.StringIO(text)))
        self.assertEqual([(r["phase"], r["batch"], r["tokens"], r["context"]) for r in rows], [
            ("prompt", "3", "24", "0"), ("prompt", "3", "10", "0"), ("prompt", "1", "24", "0"), ("prompt", "1", "10", "0"),
            ("decode", "3", "6", "24"), ("decode", "3", "6", "40"), ("decode", "1", "6", "24"), ("decode", "1", "6", "40")])
        for row in rows:
            self.assertGreater(float(row["share_of_limit"]), 0)
            self.assertEqual((row["type"], row["model"], row["threads"]), ("F32", "tiny256-f32", "1"))

    def test_table(self):
        text, _ = self.traced()
        for words in ("GB/s", "FMA", "tokens/s", "limited by"):
            self.assertIn(words, text)
        head, *rows = text.split("\n\n")[1].splitlines()
        self.assertEqual(head.split()[:3], ["phase", "batch", "length"])
        self.assertEqual([line.split()[:3] for line in rows], [
            [phase, batch, length] for batch in ("3", "1")
            for phase, length in (("prompt", "24"), ("decode", "24"), ("prompt", "10"), ("decode", "40"))])
        self.assertTrue(all(re.search(r" \d+ %  (memory|arithmetic)$", line) for line in rows), text)

    def test_rows_come_as_they_are_measured(self):
        """The head and the row of one length, while a thousand runs of another are still to come."""
        process = cli.start("bench", cli.tiny_model(), "--batch", 1, "--prompt", "1,200", "--gen", 1, "--repeat", 1000)
        lines = [process.stdout.readline().decode() for _ in range(6)]
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        self.assertEqual((process.returncode, err), (130, b""))
        self.assertNotIn(b" 200 ", out)
        self.assertEqual([line.split()[:1] for line in lines], [["model"], ["run"], ["machine"], [], ["phase"], ["prompt"]])

    def test_what_runs_is_on_the_terminal(self):
        master, slave = pty.openpty()
        process = cli.start("bench", cli.tiny_model(), "--batch", 1, "--prompt", 1, "--gen", 1, "--repeat", 2, stderr=slave)
        os.close(slave)
        out, _ = process.communicate(timeout=120)
        shown = os.read(master, 4096)
        os.close(master)
        self.assertEqual([line.split()[0] for line in out.decode().splitlines()[5:7]], ["prompt", "decode"])
        self.assertEqual(shown, b"".join(b"\r\x1b[Kbatch 1, prompts of 1 tokens: run %d of 2" % run for run in (1, 2)) +
                         b"\r\x1b[K")

    def test_defaults_fit_a_short_context(self):
        found = json.loads(self.ok("bench", "-m", cli.STORYTELLER, "--json", "--repeat", "1", "--gen", "4", "--batch",
                                  "1").stdout)
        self.assertEqual([r["tokens"] for r in found["prompt"]], [256])
        self.assertEqual([(r["context"], r["tokens"]) for r in found["decode"]], [(256, 4)])

    def test_bad_lists(self):
        values = ["", "0", "-1", "1,", ",1", "1,,2", "1;2", "x", "1.5", "1,99999999999", ",".join("1" * 17)]
        for i, option in enumerate(("--batch", "--prompt", "--context")):
            for value in values if cli.LONG else values[i::3]:
                self.fails(2, f"{option}: '{value}' is not a list of whole numbers", "bench", "-m", cli.STORYTELLER,
                           f"{option}={value}")
        self.fails(2, "--json and --csv: one of them", "bench", "-m", cli.STORYTELLER, "--json", "--csv")

    def test_more_than_the_context(self):
        for option in ("--prompt", "--context"):
            self.fails(1, f"{option} 250 and --gen 6 do not fit the context of 256 tokens", "bench", "-m",
                       cli.tiny_model(), option, "8,250,9", *(["--prompt", "8"] if option == "--context" else []),
                       "--gen", "6")

    def test_budget_too_small_for_the_batch(self):
        done = cli.run("bench", "-m", cli.tiny_model(), "--prompt", "100", "--gen", "100", "--batch", "64", "--repeat",
                       "1", "--kv-memory", "256K")
        self.assertIn(done.returncode, (0, 1))
        self.assertEqual(done.stderr.count(b"\n"), done.returncode, done.stderr)

    def test_trace(self):
        _, trace = self.traced()
        self.assertEqual(trace["otherData"]["lost_events"], 0)
        events = trace["traceEvents"]
        begun = [e for e in events if e["ph"] == "b"]
        self.assertEqual(len([e for e in begun if e["name"] == "request"]), 2 * (3 + 1) * 3)  # runs of 10, 24 and 40
        self.assertEqual(sorted((e["id"], e["name"]) for e in begun),
                         sorted((e["id"], e["name"]) for e in events if e["ph"] == "e"))
        generated = sum(e["args"].get("generated", 0) for e in events if e["name"] == "step")
        self.assertGreaterEqual(generated, 2 * (3 + 1) * 3 * 7)
        self.fails(1, "/nowhere/trace.json: No such file", "bench", "-m", cli.tiny_model(), "--trace",
                   "/nowhere/trace.json")

    def test_trace_of_a_small_ring(self):
        _, few = self.traced("--csv", "--record-events", "16")
        _, none = self.traced("--json", "--record-events", "0")
        self.assertEqual(few["otherData"]["events"], 16)
        self.assertGreater(few["otherData"]["lost_events"], 100)
        self.assertEqual((none["otherData"]["events"], none["otherData"]["lost_events"]), (0, 0))

    def test_help_says_what_the_limit_is(self):
        text = self.ok("help", "bench").stdout.decode()
        for words in ("--context LIST", "--csv", "operations of the linear layers", "weights and KV cache"):
            self.assertIn(words, text)

    def test_interrupt(self):
        process = cli.start("bench", "-m", cli.tiny_model(), "--repeat", "1000", "--prompt", "200", "--gen", "20")
        cli.wait_until_caught(process, signal.SIGINT)  # after that come 2000 runs
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=120)
        self.assertEqual((process.returncode, err), (130, b""))
        self.assertRegex(out, rb"^model .*\nrun .*\nmachine .*\n\nphase .*\n$")


cli.main()
