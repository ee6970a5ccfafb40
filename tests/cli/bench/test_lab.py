"""flexinfer-lab: a row for each manager, the same figures as a table and as CSV, and clear errors."""
import csv
import json
import io
import re
import unittest

import cli

SMALL = ("--geometry", "yi-6b", "--device", "a100-40g")


def write(name, text):
    path = cli.scratch(name)
    path.write_text(text)
    return path


def lab(*args):
    return cli.run(*args, program=cli.BIN / "flexinfer-lab")


def trace(n=40):
    rows = [f"{i * 250},{600 + i},{20 + i},1 2" if i % 2 else f"{i * 250},{100 + i},{20 + i},{i + 3}" for i in range(n)]
    return write("trace.csv", "arrival_ms,prompt_tokens,output_tokens,hash_ids\n" + "\n".join(rows) + "\n")


class Replay(unittest.TestCase):
    def figures(self, *args):
        done = lab("replay", *args, "--csv")
        self.assertEqual(done.returncode, 0, done.stderr)
        return list(csv.DictReader(io.StringIO(done.stdout.decode())))

    def test_csv(self):
        """Every request is done with the tokens that the trace asks for, twice the same."""
        row, = self.figures(trace(), *SMALL)
        self.assertEqual((row["manager"], row["model"], row["device"]), ("vtensor", "yi-6b", "a100-40g"))
        self.assertEqual((row["requests_done"], row["requests_refused"]), ("40", "0"))
        n_output = sum(20 + i for i in range(40))
        self.assertAlmostEqual(float(row["output_tokens_per_s"]) * float(row["virtual_s"]), n_output, places=3)
        self.assertGreaterEqual(float(row["virtual_s"]), 39 * 0.25)
        self.assertEqual([row], self.figures(trace(), *SMALL))

    def test_table(self):
        done = lab("replay", trace(), *SMALL, "--rate", "5")
        self.assertEqual(done.returncode, 0, done.stderr)
        text = done.stdout.decode()
        self.assertRegex(text, r"trace    \S+trace.csv, 5 requests/s\n")
        self.assertIn("setting  yi-6b on a100-40g, ", text)
        self.assertRegex(text, r"\nvtensor +40 ")

    def test_options(self):
        some, = self.figures(trace(), *SMALL, "--requests", "10")
        self.assertEqual(some["requests_done"], "10")
        slow, = self.figures(trace(), *SMALL, "--rate", "1")
        fast, = self.figures(trace(), *SMALL, "--rate", "100")
        self.assertGreater(float(slow["virtual_s"]), float(fast["virtual_s"]))
        self.assertLess(float(slow["mean_batch"]), float(fast["mean_batch"]))

    def test_every_named_setting(self):
        """The names that help shows are those that there are."""
        text = lab("help", "replay").stdout.decode()
        for option in ("geometry", "device"):
            names = re.search(rf"--{option} NAME +(.*?)(?: \(|\n +--)", text, re.S).group(1)
            names = [n for n in re.split(r"[\s,]+", names.replace("the model: ", "")) if n]
            self.assertGreaterEqual(len(names), 6, names)
            for name in names:
                done = lab("replay", trace(1), f"--{option}", name, "--kv-memory", "1G")
                self.assertEqual(done.returncode, 0, done.stderr)

    def test_timeline(self):
        path = cli.scratch("timeline.csv")
        self.figures(trace(), *SMALL, "--timeline", path, "--sample", "0.5")
        rows = list(csv.DictReader(path.read_text().splitlines()))
        at = [float(row["at_s"]) for row in rows]
        self.assertGreater(len(at), 10)
        self.assertEqual(at, sorted(at))
        self.assertTrue(all(float(row["live_gb"]) <= float(row["mapped_gb"]) for row in rows))

    def test_jsonl(self):
        """Rows as JSON give the same figures."""
        text = "".join(f'{{"timestamp": {i * 500}, "input_length": 50, "output_length": 9}}\n' for i in range(5))
        lines = "".join(f"{i * 500},50,9\n" for i in range(5))
        path = write("rows", text)
        row, = self.figures(path, *SMALL)
        path.write_text("timestamp,input_length,output_length\n" + lines)
        self.assertEqual([row], self.figures(path, *SMALL))

    def test_errors(self):
        good = trace(2)
        bad = write("bad.csv", "prompt_tokens,output_tokens\n10,5\nten,5\n")
        for args, text in [
                ((bad,), "bad.csv:3: "),
                ((cli.scratch("none.csv"),), "none.csv: No such file or directory"),
                ((good, "--geometry", "gpt-9"), "--geometry: no model 'gpt-9'"),
                ((good, "--device", "abacus"), "--device: no device 'abacus'"),
                ((good, "--kv", "magic"), "'magic'"),
                ((good, "--kv", "vtensor,,"), "--kv: 'vtensor,,' is not a list of names"),
                ((good, "--geometry", "opt-66b"), "opt-66b does not fit a100-40g"),
                ((good, "--page", "5000"), "pages of 5000 bytes"),
                ((good, "--timeline", cli.scratch("no") / "where"), "No such file or directory"),
        ]:
            done = lab("replay", *args)
            self.assertNotEqual(done.returncode, 0, args)
            self.assertIn(text, done.stderr.decode())
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)


class Serve(unittest.TestCase):
    def test_trace_of_the_engine(self):
        """What the engine did is written as a Chrome trace: all requests, from arrival to end."""
        path = cli.scratch("engine.json")
        requests = write("four.csv", "arrival_ms,prompt_tokens,output_tokens\n" + "0,20,5\n" * 4)
        done = lab("serve", requests, "-m", cli.tiny_model(), "--csv", "--trace", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        row, = csv.DictReader(done.stdout.decode().splitlines())
        events = json.loads(path.read_text())["traceEvents"]
        begun = [e["id"] for e in events if e["ph"] == "b" and e["name"] == "request"]
        self.assertEqual((len(begun), row["requests_done"]), (4, "4"))
        self.assertTrue(any(e["name"] == "step" for e in events))

    def test_trace_that_cannot_be_written(self):
        requests = write("one.csv", "prompt_tokens,output_tokens\n20,5\n")
        for args, text in [(("--trace", "/nowhere/t.json"), "/nowhere/t.json: No such file"),
                           (("--trace", cli.scratch("t.json"), "--kv", "vtensor,paged"), "name one manager (--kv)")]:
            done = lab("serve", requests, "-m", cli.tiny_model(), *args)
            self.assertEqual(done.returncode, 1)
            self.assertIn(text, done.stderr.decode())
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
