"""bench/figures.py: figures of every kind from rows of CSV, their scripts, and clear errors."""
import os
import re
import shutil
import subprocess
import sys
import unittest
import xml.etree.ElementTree as ElementTree

import cli

EVALUATION = cli.PROJECT / "bench" / "evaluation"
PROGRAM = cli.PROJECT / "bench" / "figures.py"

WASTE = """manager,used_percent,reserved_percent,internal_percent,external_percent,cached_percent,spare_percent
vtensor,91,0,1,0,6,2
reserve-max,8,7,77,0,0,8
"""
LATENCY = "rate_per_s,manager,s_per_token_mean\n1,vtensor,0.1\n2,vtensor,0.4\n1,paged,0.2\n2,paged,0.5\n"
BATCH = "trace,manager,mean_batch\nsharegpt,vtensor,14.25\nsharegpt,paged,14\nalpaca,vtensor,57\nalpaca,paged,57.5\n"


def folder(name, **files):
    path = cli.scratch(name)
    shutil.rmtree(path, ignore_errors=True)
    path.mkdir()
    for file, text in files.items():
        (path / (file.replace("_", "-") + ".csv")).write_text(text)
    return path


@unittest.skipUnless(shutil.which("gnuplot"), "gnuplot is not installed")
class Figures(unittest.TestCase):
    def draw(self, source, to, env=None):
        env = {**os.environ, "PYTHONDONTWRITEBYTECODE": "1", **(env or {})}
        return subprocess.run([sys.executable, PROGRAM, source, to], capture_output=True, env=env, timeout=120,
                              check=False)

    def names(self, begin):
        done = subprocess.run([sys.executable, PROGRAM, "--list"], capture_output=True, text=True, check=True)
        return {name for name in done.stdout.split() if name.startswith(begin)}

    def test_kinds(self):
        """Stacks, lines and bars: each is drawn twice, with the names of its parts."""
        source = folder("from", vllm_02_waste=WASTE, vllm_12_sharegpt_opt_13b=LATENCY, vllm_13_batch=BATCH)
        to = folder("to")
        done = self.draw(source, to)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        self.assertIn(b"3 figures", done.stdout)
        for name, words in [("vllm-02-waste", ["tokens", "internal", "reserve-max"]),
                            ("vllm-12-sharegpt-opt-13b", ["vtensor", "paged", "requests per second"]),
                            ("vllm-13-batch", ["vtensor", "paged", "sharegpt", "alpaca", "mean batch"])]:
            svg = " ".join(ElementTree.parse(to / (name + ".svg")).getroot().itertext())
            for word in words:
                self.assertIn(word, svg, name)
            self.assertEqual((to / (name + ".png")).read_bytes()[:8], b"\x89PNG\r\n\x1a\n")

    def test_script_holds_the_data(self):
        to = folder("to")
        self.draw(folder("from", vllm_13_batch=BATCH), to)
        script = (to / "vllm-13-batch.gp").read_text()
        self.assertIn('"sharegpt" 14.25 14\n"alpaca" 57 57.5\n', script)

    @unittest.skipUnless((cli.SHARED / "traces").is_dir(), "../shared/data not present")
    def test_every_figure(self):
        """bench/evaluation makes data for each figure of the table, with a few requests each; without FX_TEST_LONG, for
        those that need one trace alone."""
        to, traces = folder("evaluation"), folder("traces")
        for path in (cli.SHARED / "traces").glob("*.csv" if cli.LONG else "alpaca*.csv"):
            (traces / path.name).symlink_to(path)
        done = subprocess.run([EVALUATION, "--quick", traces, to], capture_output=True, text=True, timeout=250, check=False,
                              env=cli.clean_env({"PROGRAM": str(cli.BIN / "flexinfer-lab")}))
        self.assertEqual(done.returncode, 0, done.stderr)
        names, drawn = self.names("v"), {path.stem for path in to.glob("*.svg")}
        self.assertGreater(len(names), 20)
        if cli.LONG:
            self.assertEqual(drawn, names)
        else:
            self.assertLess(drawn, names)
            self.assertGreaterEqual(len(drawn), 5)

    def test_scale(self):
        """The rows of bench/results have what each figure of bench_vtensor's needs, in every series up to its size."""
        to = folder("scale")
        done = self.draw(cli.PROJECT / "bench" / "results", to)
        self.assertEqual((done.returncode, done.stderr), (0, b""))
        names = self.names("scale-")
        self.assertEqual({path.stem for path in to.glob("*.svg")}, names)
        for most, name in [(10000, "sequences"), (1000000, "nodes"), (1000000, "tokens")]:
            for who in ("sequence", "manager"):
                for chunk in ("64k", "2m"):
                    script = (to / f"scale-{name}-{who}-{chunk}.gp").read_text()
                    series = re.findall(r"^\$s\d+ << END\n(.*?)^END", script, re.MULTILINE | re.DOTALL)
                    self.assertGreater(len(series), 12)
                    self.assertTrue(all(f"\n{most} " in points for points in series), name)

    def test_errors(self):
        to = folder("to")
        good = folder("good", vllm_13_batch=BATCH)
        nowhere = {"PATH": str(folder("empty"))}
        for source, where, env, text in [
                (folder("none"), to, None, "no data of any figure"),
                (folder("short", vllm_13_batch="trace,manager\na,b\n"), to, None, "no column 'mean_batch'"),
                (folder("ragged", vllm_13_batch=BATCH + "a,b\n"), to, None, "vllm-13-batch.csv:6: 2 fields, expected 3"),
                (folder("head", vllm_13_batch="trace,manager,mean_batch\n"), to, None, "vllm-13-batch.csv: no rows"),
                (good, cli.scratch("not") / "there", None, "No such file or directory"),
                (good, to, nowhere, "gnuplot: No such file or directory"),
        ]:
            done = self.draw(source, where, env)
            self.assertEqual(done.returncode, 1, source)
            self.assertIn(text, done.stderr.decode())
            self.assertEqual(done.stderr.count(b"\n"), 1, done.stderr)


if __name__ == "__main__":
    unittest.main()
