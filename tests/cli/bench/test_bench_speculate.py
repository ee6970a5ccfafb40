"""bench_speculate asks for every text with and without drafts, and prints a row for each kind."""
import csv
import io
import json
import subprocess
import unittest

import cli

FIGURES = ("plain tok/s", "drafts tok/s", "ratio", "median ratio", "CPU ratio", "median CPU ratio", "came true %",
           "drafted per token", "again tok/s")
TEXTS = [{"kind": "quote", "prompt": "the cat sat on the mat and looked at the dog", "answer": "the cat sat on the mat and"},
         {"kind": "other", "prompt": "once upon a time", "answer": "there was a little robot in the garden"},
         {"kind": "quote", "prompt": "one two three four five six", "answer": "one two three four five six"}]


def bench(*args):
    return subprocess.run([cli.BIN / "bench_speculate", *map(str, args)], stdout=subprocess.PIPE, stderr=subprocess.PIPE,
                          text=True, check=False, timeout=240)


class BenchSpeculate(unittest.TestCase):
    def test_a_row_for_each_kind(self):
        path = cli.scratch("texts.jsonl")
        path.write_text("".join(json.dumps(t) + "\n" for t in TEXTS))
        done = bench("-m", cli.tiny_model(), "-t", 1, "--repeat", 2, path)
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = list(csv.DictReader(io.StringIO(done.stdout)))
        self.assertEqual([(r["kind"], r["texts"]) for r in rows], [("quote", "2"), ("other", "1")])
        for row in rows:
            self.assertNotIn(None, row)
            for key in FIGURES:
                self.assertGreaterEqual(float(row[key]), 0, key)
            self.assertGreater(float(row["plain tok/s"]), 0)

    def test_adverse_texts(self):
        done = bench("-m", cli.tiny_model(), "-t", 1, "--repeat", 2, "--tokens", 20, "--adverse")
        self.assertEqual(done.returncode, 0, done.stderr)
        rows = {row["kind"]: row for row in csv.DictReader(io.StringIO(done.stdout))}
        self.assertEqual(list(rows), [f"{kind} {n}" for n in (1, 8, 32) for kind in ("random", "few", "hot")])
        for row in rows.values():
            self.assertGreater(float(row["CPU ratio"]), 0, row)
        only = bench("-m", cli.tiny_model(), "-t", 1, "--repeat", 1, "--tokens", 20, "--adverse", "--only", "few 8")
        self.assertEqual([row["kind"] for row in csv.DictReader(io.StringIO(only.stdout))], ["few 8"])

    def test_what_is_wrong_is_said(self):
        self.assertRegex(bench().stderr,
                         r"^bench_speculate: a model \(-m\) and one file of texts, or --adverse, are expected\n$")
        self.assertRegex(bench("-m", "none.gguf", "texts").stderr, r"^bench_speculate: none.gguf: .*\n$")


if __name__ == "__main__":
    unittest.main()
