"""The benches measure everything, their counts are exact, and wrong options are one line.

    test_benches.py [CLASS]     Kernels, Quality, Serve, Serving, Speculate or Vtensor; all without
"""
import json
import os
import socket
import sys
import unittest

import cli


def check_wrong(test, name, cases, *always):
    """Each case: the options, and the line that says what is wrong. The CSV has its columns at most."""
    for args, why in cases:
        done = cli.bench(name, *always, *args)
        test.assertEqual((done.returncode, done.stderr), (1, f"{name}: {why}\n"), args)
        test.assertLessEqual(done.stdout.count("\n"), 1, args)


ROW_OPS = {"rms_norm", "layer_norm", "add", "add_scaled", "softcap", "swiglu", "swiglu_clamped", "geglu", "geglu_erf", "relu",
           "rope", "quant_q8", "store_kv"}
SMALL = ("--n-in", "256", "--n-out", "40", "--row-ms", "1")


class Kernels(unittest.TestCase):
    def test_a_layer_with_its_limits_and_goals(self):
        done = cli.bench("bench_kernels", *SMALL, "--only", "linear", "--type", "Q8_0", "--tok", "1", "--goals")
        (row,) = cli.rows(done)
        self.assertEqual([row[k] for k in ("op", "type", "n_in", "n_out", "n_tok")], ["linear", "Q8_0", "256", "40", "1"])
        for key in ("median_s", "limit GB/s", "limit GFLOP/s"):
            self.assertGreater(float(row[key]), 0)
        lines = done.stderr.splitlines()
        self.assertRegex(lines[0], r"^ +(pass|FAIL) +linear Q8_0, tokens: 1: [\d.e+-]+ % of the bandwidth, goal 90 %")
        self.assertTrue(all("not measured" in line for line in lines[1:]), done.stderr)

    def test_widths_of_small_models(self):
        done = cli.bench("bench_kernels", "--only", "widths", "--type", "Q5_1", "--row-ms", "1", "--cached")
        found = cli.rows(done)
        self.assertEqual({(row["op"], row["type"], row["n_tok"]) for row in found}, {("width", "Q5_1", "1")})
        self.assertIn(("640", "262144"), [(row["n_in"], row["n_out"]) for row in found])

    def test_cpu_time_is_that_of_one_thread(self):
        done = cli.bench("bench_kernels", *SMALL, "--only", "linear", "--type", "Q6_K", "--tok", "7", "--cpu-time",
                         "--cached", "--threads", "2")
        (row,) = cli.rows(done)
        self.assertEqual((row["n_tok"], row["threads"]), ("7", "1"))
        for key in ("median_s", "limit GB/s", "limit GFLOP/s"):
            self.assertGreater(float(row[key]), 0)

    def test_every_row_operation(self):
        done = cli.bench("bench_kernels", "--only", "rows", "--row-ms", "1")
        found = cli.rows(done)
        self.assertEqual({row["op"] for row in found}, ROW_OPS)
        self.assertEqual([row["type"] for row in found if row["op"] == "store_kv"], ["F32", "F16", "BF16", "Q8_0"])

    def test_bad_options(self):
        check_wrong(self, "bench_kernels", (
            (["--type", "Q9_9"], "--type: there is no 'Q9_9'"),
            (["--only", "nothing"], "--only: 'nothing' is no part of this bench"),
            (["--tok", "-1"], "--tok: '-1' is not a whole number from 0 to 1048576"),
            (["--n-in", "33"], "--n-in: 33 is not a multiple of 32"),
            (["--path", "none"], "--path: 'none' is unknown or does not run here"),
            (["--tok"], "--tok: missing value (N)")))


# The sizes of --quick.
LEVELS = {"1 stream": 2, "8 streams": 16}  # requests
VICTIM = 4
ABUSES = ["slow heads", "half bodies", "garbage", "huge bodies", "slow readers", "many prompts"]


class Serve(unittest.TestCase):
    @staticmethod
    def bench(*args):
        return cli.bench("bench_serve", "-m", cli.STORYTELLER, "--quick", *args)

    def test_counts(self):
        done = self.bench("--csv", "-")
        found = cli.measured(done)
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
        """Its answers are compared too; its CPU is not known, so there is no part about idling. One level alone."""
        server = cli.Server(model=cli.STORYTELLER)
        self.addCleanup(server.kill)
        done = self.bench("--only", "load,idle", "--streams", "8", "--csv", "-", "--port", server.port)
        found = cli.measured(done)
        self.assertEqual(set(found), {"load"})
        self.assertEqual(list(found["load"]), [f"8 streams, {side}" for side in ("server", "engine alone", "server over engine")])
        self.assertEqual(found["load"]["8 streams, server over engine"]["different"], 0)
        self.assertNotIn("CPU of a request", found["load"]["8 streams, server"])
        self.assertIn("not measured  CPU of the idle server", done.stderr)

    def test_table(self):
        done = self.bench("--only", "idle")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("idle: CPU of the server while nothing is asked of it", done.stdout)
        self.assertNotIn("load:", done.stdout)

    def test_wrong_options(self):
        with socket.socket() as closed:
            closed.bind(("127.0.0.1", 0))
            port = str(closed.getsockname()[1])
            check_wrong(self, "bench_serve", (
                (["--only", "load,nothing"], "--only: 'nothing' is no part of this bench"),
                (["stray"], "'stray' is not understood"),
                (["--csv", "/nowhere/rows.csv"], "/nowhere/rows.csv: cannot be written"),
                (["--streams", "5", "--csv=-"], "--streams: no level of load has so many"),
                (["--port", port, "--csv=-"], "--port: no server listens at this port of 127.0.0.1"),
                (["--program", "/nowhere/flexinfer", "--csv=-"],
                 "the server: /nowhere/flexinfer: No such file or directory")),
                "-m", cli.STORYTELLER, "--quick", "--only=load")


SERVING_SECTIONS = {"outside", "ttft", "prepare", "chat", "prefix", "preempt"}

# The sizes of --quick.
TALK, TURNS, CONVERSATIONS = 72, 3, 2  # TALK: tokens of a turn and its answer
REQUESTS, SYSTEM, QUESTION, ANSWER = 6, 128, 20, 32
CHUNK = 64  # at least the tokens of a chunk


class Serving(unittest.TestCase):
    @staticmethod
    def bench(*args):
        return cli.bench("bench_serving", "-m", cli.STORYTELLER, *args)

    def test_counts(self):
        """Counts do not depend on the machine."""
        done = self.bench("--quick", "--csv", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("pass          first token of a short request next to a long prompt: 2 steps", done.stderr)
        found = cli.measured(done)
        self.assertEqual(set(found), SERVING_SECTIONS)
        self.check_outside(found["outside"])
        self.check_ttft(found["ttft"])
        self.check_prepare(found["prepare"])
        self.check_chat(found["chat"])
        self.check_prefix(found["prefix"])
        self.check_preempt(found["preempt"])

    def check_outside(self, rows):
        """Every sequence decodes in every measured step, beams and choices too."""
        self.assertEqual(len(rows), 4 + 6)  # those of a single sequence have no choices and no beams
        for case, row in rows.items():
            self.assertEqual(row["tokens"], int(case.split()[0]), case)

    def check_ttft(self, rows):
        self.assertEqual(len(rows), 3)
        for case, row in rows.items():
            self.assertEqual(row["tokens missed by those that decode"], 0, case)
            self.assertGreater(row["n"], 0, case)
        self.assertEqual(rows["1 short, 1 long of 512"]["most"], 2)
        self.assertEqual(rows["1 short, 2 long of 512"]["most"], 2)

    def check_prepare(self, rows):
        """Both ways make equally many extends, and equally many into a new chunk."""
        for which in ("every extend", "into a new chunk", "the KV manager's step"):
            counts = {rows[f"{way}, {which}"]["n"] for way in ("ahead", "not ahead")}
            self.assertEqual(len(counts), 1, which)
        self.assertGreater(rows["ahead, into a new chunk"]["n"], 0)
        self.assertEqual(rows["ahead, every extend"]["n"], 32 * 32)  # steps, sequences

    def check_chat(self, rows):
        """Everything said before comes from the cache, except the last token of an answer, which is never computed;
        first turns share what their texts happen to have in common."""
        prompts = CONVERSATIONS * sum(TALK * turn + 40 for turn in range(TURNS))
        said = CONVERSATIONS * sum(TALK * turn - 1 for turn in range(1, TURNS))
        decoded = CONVERSATIONS * TURNS * 31
        with_cache, without = rows["2 conversations of 3 turns, cache"], rows["2 conversations of 3 turns, no cache"]
        for row in (with_cache, without):
            self.assertEqual(row["prompts"], prompts)
            self.assertEqual(row["computed"], prompts - row["cached"] + decoded)
        self.assertEqual(without["cached"], 0)
        self.assertGreaterEqual(with_cache["cached"], said)
        self.assertLess(with_cache["cached"], said + CONVERSATIONS)

    def check_prefix(self, rows):
        """The shared text is computed once, in any order of arrival."""
        prompts, decoded = REQUESTS * (SYSTEM + QUESTION), REQUESTS * (ANSWER - 1)
        for case, row in rows.items():
            self.assertEqual(row["prompts"], prompts, case)
            self.assertEqual(row["computed"], prompts - row["cached"] + decoded, case)
            if case.endswith("no cache"):
                self.assertEqual(row["cached"], 0, case)
            else:
                # While a request lives, others share its whole chunks.
                whole = SYSTEM if "in sequence" in case else SYSTEM - CHUNK
                self.assertGreaterEqual(row["cached"], (REQUESTS - 1) * whole, case)
                self.assertLess(row["cached"], (REQUESTS - 1) * (SYSTEM + QUESTION), case)
        memory = {case.split("requests ")[1]: row["peak memory"] for case, row in rows.items()}
        self.assertLess(memory["together, cache"], memory["together, no cache"])

    def check_preempt(self, rows):
        fits, again = rows["memory for all"], rows["half, computed again"]
        self.assertEqual((fits["computed again"], fits["recomputed"]), (0, 0))
        self.assertEqual(fits["swapped"], 0)
        self.assertGreater(again["recomputed"], 0)
        self.assertGreater(again["computed again"], 0)
        self.assertEqual(again["swapped"], 0)
        self.assertGreater(rows["half, swapped"]["swapped"], 0)
        self.assertEqual(rows["half, swapped"]["recomputed"], 0)
        self.assertEqual(rows["half, swapped"]["computed again"], 0)

    def test_table(self):
        done = self.bench("--quick", "--only", "ttft,chat")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ttft: requests of 32 tokens come", done.stdout)
        self.assertIn("chat: turns of 40 tokens", done.stdout)
        self.assertNotIn("outside:", done.stdout)
        self.assertIn("not measured  step outside a model of 1.1 B, beams: goal 3 %", done.stdout)

    def test_wrong_options(self):
        check_wrong(self, "bench_serving", (
            (["--only", "ttft,nothing"], "--only: 'nothing' is no part of this bench"),
            (["--only", "ttft,"], "--only: '' is no part of this bench"), (["stray"], "'stray' is not understood"),
            (["--csv", "/nowhere/rows.csv"], "/nowhere/rows.csv: cannot be written")))

    def test_no_model(self):
        done = self.bench("-m", "/nowhere/model.gguf", "--quick")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertTrue(done.stderr.startswith("bench_serving: /nowhere/model.gguf: "), done.stderr)


FIGURES = ("plain tok/s", "drafts tok/s", "ratio", "median ratio", "CPU ratio", "median CPU ratio", "accepted %",
           "drafted per token", "again tok/s")
TEXTS = [{"kind": "quote", "prompt": "the cat sat on the mat and looked at the dog", "answer": "the cat sat on the mat and"},
         {"kind": "other", "prompt": "once upon a time", "answer": "there was a little robot in the garden"},
         {"kind": "quote", "prompt": "one two three four five six", "answer": "one two three four five six"}]


class Quality(unittest.TestCase):
    def test_distances_from_the_base(self):
        text, model = cli.scratch("text.txt"), cli.PROJECT / "models/storyteller.gguf"
        text.write_text("Pip the fox ran home. His mother had made a cake, and nobody was sad any more. " * 30)
        done = cli.bench("bench_quality", "--text", text, model, f"{model}@f32", f"{model}@q8_0")
        base, same, rounded = cli.rows(done)
        self.assertEqual([row["model"] for row in (base, same, rounded)], [str(model), f"{model}@f32", f"{model}@q8_0"])
        for row in base, same, rounded:
            self.assertEqual(int(row["tokens"]) % 255, 0)
            self.assertEqual(int(row["bytes"]), model.stat().st_size)
            self.assertGreater(float(row["perplexity_se"]), 0)
        for row in base, same:
            self.assertEqual([float(row[key]) for key in ("ratio", "ratio_se", "kl_worst", "same_likeliest")], [1, 0, 0, 1])
        self.assertGreater(float(rounded["kl_mean"]), 0)
        self.assertLess(float(rounded["kl_mean"]), float(rounded["kl_worst"]))
        self.assertLess(float(rounded["kl_worst"]), 0.5)
        self.assertAlmostEqual(float(rounded["perplexity"]) / float(base["perplexity"]), float(rounded["ratio"]), 3)

    def test_what_is_wrong_is_said(self):
        text, model = cli.scratch("short.txt"), cli.PROJECT / "models/storyteller.gguf"
        text.write_text("Too short.")
        check_wrong(self, "bench_quality", [
            ((), "--text FILE, a base model and others are expected"),
            (("--text", text, model), f"{text}: fewer than 512 tokens"),
            (("--text", text, model, cli.tiny_model()), f"{cli.tiny_model()}: another vocabulary than the base's")])


class Speculate(unittest.TestCase):
    def test_a_row_for_each_kind(self):
        path = cli.scratch("texts.jsonl")
        path.write_text("".join(json.dumps(t) + "\n" for t in TEXTS))
        done = cli.bench("bench_speculate", "-m", cli.tiny_model(), "-t", 1, "--repeat", 2, path)
        rows = cli.rows(done)
        self.assertEqual([(r["kind"], r["texts"]) for r in rows], [("quote", "2"), ("other", "1")])
        for row in rows:
            for key in FIGURES:
                self.assertGreaterEqual(float(row[key]), 0, key)
            self.assertGreater(float(row["plain tok/s"]), 0)

    def test_adverse_texts(self):
        done = cli.bench("bench_speculate", "-m", cli.tiny_model(), "-t", 1, "--repeat", 2, "--tokens", 20, "--adverse")
        rows = {row["kind"]: row for row in cli.rows(done)}
        self.assertEqual(list(rows), [f"{kind} {n}" for n in (1, 8, 32) for kind in ("random", "few", "hot")])
        for row in rows.values():
            self.assertGreater(float(row["CPU ratio"]), 0, row)
        only = cli.bench("bench_speculate", "-m", cli.tiny_model(), "-t", 1, "--repeat", 1, "--tokens", 20, "--adverse", "--only", "few 8")
        self.assertEqual([row["kind"] for row in cli.rows(only)], ["few 8"])

    def test_what_is_wrong_is_said(self):
        self.assertRegex(cli.bench("bench_speculate").stderr,
                         r"^bench_speculate: a model \(-m\) and one file of texts, or --adverse, are expected\n$")
        self.assertRegex(cli.bench("bench_speculate", "-m", "none.gguf", "texts").stderr, r"^bench_speculate: none.gguf: .*\n$")


VTENSOR_SECTIONS = {"ops", "alloc", "decode", "churn", "fork", "match", "vmas", "physical", "trim", "calls", "scale"}
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


class Vtensor(unittest.TestCase):
    def everything(self, n_view, handles, *args, env=None):
        done = cli.bench("bench_vtensor", "--quick", "--csv", "-", *args, env=env)
        self.assertIn("pass          physical memory off from 1 prompt + N tails: 0 bytes", done.stderr)
        found = cli.measured(done)
        self.assertEqual(set(found), VTENSOR_SECTIONS - {"churn", "scale"} if handles else VTENSOR_SECTIONS)
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
        done = cli.bench("bench_vtensor", "--quick", "--only", "calls")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("calls: system calls of sharing go with runs, not with chunks", done.stdout)
        self.assertIn("not measured  extend into a new chunk, prepared, p99: goal 2 us", done.stdout)

    def test_wrong_options(self):
        check_wrong(self, "bench_vtensor", (
            (["--only", "nothing"], "--only: 'nothing' is no part of this bench"),
            (["--planes", "-1"], "--planes: '-1' is not a whole number from 0 to 1048576"),
            (["--layout", "round"], "--layout: 'round' is not one of split|packed"),
            (["--csv"], "--csv: missing value (FILE)"), (["stray"], "'stray' is not understood"),
            (["--csv", "/nowhere/rows.csv"], "/nowhere/rows.csv: cannot be written")), "--quick", "--only=calls")


if __name__ == "__main__":
    unittest.main(argv=sys.argv)
