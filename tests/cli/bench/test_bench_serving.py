"""bench_serving measures every part, and its counts are exact."""
import collections
import csv
import io
import subprocess
import unittest
from pathlib import Path

import cli

STORYTELLER = Path(__file__).resolve().parents[3] / "models" / "storyteller.gguf"
SECTIONS = {"outside", "ttft", "prepare", "chat", "prefix", "preempt"}

# The sizes of --quick.
TALK, TURNS, CONVERSATIONS = 72, 3, 2  # TALK: tokens of a turn and its answer
REQUESTS, SYSTEM, QUESTION, ANSWER = 6, 128, 20, 32
CHUNK = 64  # at least the tokens of a chunk


def bench(*args):
    return subprocess.run([cli.BIN / "bench_serving", "-m", STORYTELLER, *args], stdout=subprocess.PIPE,
                          stderr=subprocess.PIPE, text=True, env=cli.clean_env(), check=False, timeout=280)


def measured(done):
    """{section: {case: {what: value}}} from the rows, read as CSV."""
    found = collections.defaultdict(lambda: collections.defaultdict(dict))
    for row in csv.DictReader(io.StringIO(done.stdout)):
        assert None not in row and None not in row.values(), row
        found[row["section"]][row["case"]][row["what"], row["unit"]] = float(row["value"])
    return found


class BenchServing(unittest.TestCase):
    def test_counts(self):
        """Counts do not depend on the machine."""
        done = bench("--quick", "--csv", "-")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("pass          first token of a short request beside a long prompt: 2 steps", done.stderr)
        found = measured(done)
        self.assertEqual(set(found), SECTIONS)
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
            self.assertEqual(row["tokens", "per step"], int(case.split()[0]), case)

    def check_ttft(self, rows):
        self.assertEqual(len(rows), 3)
        for case, row in rows.items():
            self.assertEqual(row["tokens missed by those that decode", "tokens"], 0, case)
            self.assertGreater(row["n", "requests"], 0, case)
        self.assertEqual(rows["1 short, 1 long of 512"]["most", "steps"], 2)
        self.assertEqual(rows["1 short, 2 long of 512"]["most", "steps"], 2)

    def check_prepare(self, rows):
        """Both ways make equally many extends, and equally many into a new chunk."""
        for which in ("every extend", "into a new chunk", "the KV manager's step"):
            counts = {rows[f"{way}, {which}"]["n", "calls"] for way in ("ahead", "not ahead")}
            self.assertEqual(len(counts), 1, which)
        self.assertGreater(rows["ahead, into a new chunk"]["n", "calls"], 0)
        self.assertEqual(rows["ahead, every extend"]["n", "calls"], 32 * 32)  # steps, sequences

    def check_chat(self, rows):
        """Everything said before comes from the cache, except the last token of an answer, which is never computed;
        first turns share what their texts happen to have in common."""
        prompts = CONVERSATIONS * sum(TALK * turn + 40 for turn in range(TURNS))
        said = CONVERSATIONS * sum(TALK * turn - 1 for turn in range(1, TURNS))
        decoded = CONVERSATIONS * TURNS * 31
        with_cache, without = rows["2 conversations of 3 turns, cache"], rows["2 conversations of 3 turns, no cache"]
        for row in (with_cache, without):
            self.assertEqual(row["prompts", "tokens"], prompts)
            self.assertEqual(row["computed", "tokens"], prompts - row["cached", "tokens"] + decoded)
        self.assertEqual(without["cached", "tokens"], 0)
        self.assertGreaterEqual(with_cache["cached", "tokens"], said)
        self.assertLess(with_cache["cached", "tokens"], said + CONVERSATIONS)

    def check_prefix(self, rows):
        """The shared text is computed once, in any order of arrival."""
        prompts, decoded = REQUESTS * (SYSTEM + QUESTION), REQUESTS * (ANSWER - 1)
        for case, row in rows.items():
            self.assertEqual(row["prompts", "tokens"], prompts, case)
            self.assertEqual(row["computed", "tokens"], prompts - row["cached", "tokens"] + decoded, case)
            if case.endswith("no cache"):
                self.assertEqual(row["cached", "tokens"], 0, case)
            else:
                # While a request lives, others share its whole chunks.
                whole = SYSTEM if "in sequence" in case else SYSTEM - CHUNK
                self.assertGreaterEqual(row["cached", "tokens"], (REQUESTS - 1) * whole, case)
                self.assertLess(row["cached", "tokens"], (REQUESTS - 1) * (SYSTEM + QUESTION), case)
        memory = {case.split("requests ")[1]: row["peak memory", "MiB"] for case, row in rows.items()}
        self.assertLess(memory["together, cache"], memory["together, no cache"])

    def check_preempt(self, rows):
        fits, again = rows["memory for all"], rows["half, computed again"]
        self.assertEqual((fits["computed again", "%"], fits["recomputed", "requests"]), (0, 0))
        self.assertEqual(fits["swapped", "requests"], 0)
        self.assertGreater(again["recomputed", "requests"], 0)
        self.assertGreater(again["computed again", "%"], 0)
        self.assertEqual(again["swapped", "requests"], 0)
        self.assertGreater(rows["half, swapped"]["swapped", "requests"], 0)
        self.assertEqual(rows["half, swapped"]["recomputed", "requests"], 0)
        self.assertEqual(rows["half, swapped"]["computed again", "%"], 0)

    def test_table(self):
        done = bench("--quick", "--only", "ttft,chat")
        self.assertEqual(done.returncode, 0, done.stderr)
        self.assertIn("ttft: requests of 32 tokens come", done.stdout)
        self.assertIn("chat: turns of 40 tokens", done.stdout)
        self.assertNotIn("outside:", done.stdout)
        self.assertIn("not measured  step outside a model of 1.1 B, beams: goal 3 %", done.stdout)

    def test_wrong_options(self):
        for args, why in ((["--only", "ttft,nothing"], "--only: 'nothing' is no part of this bench"),
                          (["--only", "ttft,"], "--only: '' is no part of this bench"),
                          (["stray"], "'stray' is not understood"),
                          (["--csv", "/nowhere/rows.csv"], "/nowhere/rows.csv: cannot be written")):
            done = bench(*args)
            self.assertEqual((done.returncode, done.stdout, done.stderr), (1, "", f"bench_serving: {why}\n"), args)

    def test_no_model(self):
        done = bench("-m", "/nowhere/model.gguf", "--quick")
        self.assertEqual((done.returncode, done.stdout), (1, ""))
        self.assertTrue(done.stderr.startswith("bench_serving: /nowhere/model.gguf: "), done.stderr)


if __name__ == "__main__":
    unittest.main()
