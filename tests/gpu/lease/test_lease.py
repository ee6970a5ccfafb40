"""The lease's own rules, on invented parts and results: what runs in which order, what ends it, what the goals say."""
import argparse
import contextlib
import io
import tempfile
import time
import unittest
from pathlib import Path

import lease
import lease_goals

SPEED = "math,cache,memory,layers,batch,positions,new_tokens,kv_heads,us,gb_per_s,tflop_per_s,to_plain"
WHOLE = "figure,manager,batch,tokens,per_s_or_ratio,prompt_per_s,mapped_mib,live_mib,pass_mib"


def part(name, command, limit=60):
    return (name, limit, "invented", command, None)


class Folder(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()
        self.addCleanup(self.folder.cleanup)
        self.out = Path(self.folder.name)
        self.all_parts, self.least_s = lease.PARTS, lease.LEAST_S

    def tearDown(self):
        lease.PARTS, lease.LEAST_S = self.all_parts, self.least_s

    def write(self, name, *lines, good=True):
        (self.out / f"{name}.txt").write_text("\n".join(lines) + "\n")
        if good:
            (self.out / f"{name}.ok").touch()

    def ends(self, pid):
        for _ in range(100):  # what was killed may take a moment
            try:
                if Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] in "ZX":
                    return True
            except OSError:
                return True
            time.sleep(0.1)
        return False

    def run_lease(self, parts, minutes=30, small=False):
        lease.PARTS = parts
        args = argparse.Namespace(bin=".", out=str(self.out), only=None, minutes=minutes, small=small)
        said = io.StringIO()
        with contextlib.redirect_stdout(said):
            status = lease.run(args)
        return status, said.getvalue()

    def goal(self, word):
        found = [row for row in lease_goals.table_of(self.out) if word in row[0]]
        self.assertEqual(len(found), 1, word)
        return found[0][1:]


class Parts(Folder):
    def test_a_lease_goes_on_where_the_last_one_ended(self):
        self.write("first", "its result")
        self.write("second", "what it said", good=False)
        order = self.out / "order"
        status, _ = self.run_lease([part(n, f"echo {n} >>{order}") for n in ("first", "second", "third", "fourth")])
        self.assertEqual(status, 0)
        self.assertEqual(order.read_text().split(), ["third", "fourth", "second"])
        self.assertEqual(self.run_lease(lease.PARTS), (0, ""))

    def test_a_part_that_fails_stops_no_other(self):
        status, said = self.run_lease([part("bad", "echo why; exit 3"), part("good", "true")])
        self.assertEqual(status, 1)
        self.assertIn("FAILED (3)", said)
        self.assertIn("why", said)
        self.assertTrue((self.out / "good.ok").exists())
        self.assertFalse((self.out / "bad.ok").exists())

    def test_a_part_that_takes_too_long_leaves_nothing_running(self):
        pid = self.out / "pid"
        for limit in (0.3, 3, 30):  # on a busy machine a shell may take long to begin
            status, said = self.run_lease([part("long", f"sleep 600 & echo $! >{pid}; wait", limit)])
            self.assertEqual(status, 1)
            self.assertIn("too long", said)
            if pid.exists() and pid.read_text().strip():
                break
        self.assertTrue(self.ends(int(pid.read_text())))

    def test_a_part_that_the_end_cuts_short_is_as_never_tried(self):
        lease.LEAST_S = 0.1
        status, said = self.run_lease([part("long", "sleep 60"), part("next", "true")], minutes=0.01)
        self.assertEqual(status, 0)
        self.assertIn("cut short", said)
        self.assertIn("the time is over", said)
        self.assertFalse((self.out / "long.txt").exists())
        self.assertEqual([p[0] for p in lease.parts_left(argparse.Namespace(out=self.out, only=None))], ["long", "next"])

    def test_limits_and_order(self):
        names = [p[0] for p in self.all_parts]
        self.assertEqual(len(set(names)), len(names))
        self.assertLess(max(p[1] for p in self.all_parts), 600)
        value = ["contract", "exact", "batch-invariant", "attention", "prefill", "llama_3_8b", "attention_torch", "yi_9b"]
        self.assertEqual(value, [n for n in names if n in value])
        for goal in lease_goals.GOALS:
            self.assertLessEqual(set(goal[1]), set(names))


class Goals(Folder):
    def speed(self, name, *rows, good=True):
        self.write(name, SPEED, "bandwidth,,plain,,,,,,,3000.0,,", "# a remark, with a comma", *rows, good=good)

    def test_nothing_has_run(self):
        self.assertEqual({row[2] for row in lease_goals.table_of(self.out)}, {"not run"})

    def test_decode_attention_is_judged_by_its_worst_case(self):
        rows = ["batch-invariant,packed,vtensor,32,1,1024,1,8,10,100,1,1.001", "batch-invariant,packed,vtensor,32,16,4096,1,8,90,2700,1,1.001",
                "batch-invariant,packed,vtensor,32,64,4096,1,8,360,2600,1,1.004"]
        self.speed("attention", *rows)
        figure, state = self.goal("85 %")
        self.assertEqual(state, "met")
        self.assertIn("0.867 at batch 64, 4096 positions", figure)
        self.speed("attention", *rows, "batch-invariant,packed,vtensor,1,64,32768,1,8,1,2400,1,1.0")
        self.assertEqual(self.goal("85 %")[1], "missed")

    def test_contiguous_against_paged(self):
        row = "batch-invariant,{},32,{},4096,1,8,{},2700,1,{}"
        mine, other = "packed,vtensor", ["paged-16,pool", "paged-256,pool"]
        self.speed("attention", row.format(mine, 1, 100, "1.0"), row.format(other[0], 1, 120, ""),
                   row.format(other[1], 1, 100.2, ""))
        self.assertEqual(self.goal("decode attention: contiguous")[1], "met")
        self.speed("attention", row.format(mine, 1, 100, "1.0"), row.format(other[0], 1, 120, ""),
                   row.format(other[1], 1, 95, ""))
        figure, state = self.goal("decode attention: contiguous")
        self.assertEqual(state, "missed")
        self.assertIn("1.053", figure)

    def test_prefill_on_both_memories(self):
        rows = ["batch-invariant,packed,vtensor,32,4,4096,512,8,101,1,1,{}", "batch-invariant,packed,plain,32,4,4096,512,8,100,1,1,"]
        for ratio, state in (("1.0190", "met"), ("1.0210", "missed")):
            self.speed("prefill", *(r.format(ratio) for r in rows))
            self.assertEqual(self.goal("prefill: vTensor's memory")[1], state)

    def test_without_rows_a_goal_is_not_run(self):
        self.speed("prefill")
        self.assertEqual(self.goal("prefill: vTensor's memory"), ("no row says it", "not run"))

    def test_a_part_that_failed_has_missed_its_goals(self):
        self.speed("prefill", "batch-invariant,packed,vtensor,32,4,4096,512,8,101,1,1,1.0", good=False)
        self.assertEqual(self.goal("prefill: vTensor's memory"), ("part prefill failed", "missed"))

    def test_a_whole_model(self):
        self.speed("attention", "batch-invariant,packed,vtensor,32,16,4096,1,8,90,2700,1,1.001")
        rows = ["decode,vtensor,1,512,{},1000,100.0,72.0,14300.0", "decode,paged,1,512,500,1000,100,72,14300",
                "decode,vtensor,64,512,{},1000,4096,4000,14300", "growth,vtensor,64,90,{},,,,", "idle,vtensor,,,{},,9,0,"]
        for values, states in (((160, 7000, 1.01, 0.0009), ["met"] * 4), ((158, 6000, 1.03, 0.0011), ["missed"] * 4)):
            self.write("llama_3_8b", WHOLE, *(r.format(values[(0, 0, 1, 2, 3)[i]]) for i, r in enumerate(rows)))
            self.assertEqual([self.goal(w)[1] for w in ("batch 1:", "batch 64:", "growth", "idle")], states)
        self.assertIn("6000 tokens/s", self.goal("batch 64:")[0])
        self.write("llama_3_8b", WHOLE, "idle,vtensor,,,0.1,,9,9,")
        self.assertEqual(self.goal("idle")[1], "missed")

    def test_parts_without_figures(self):
        self.write("contract", "fine")
        self.assertEqual(self.goal("contract")[1], "not run")
        self.write("order", "fine")
        self.assertEqual(self.goal("contract")[1], "met")
        self.write("sanitizer", "========= ERROR", good=False)
        self.assertEqual(self.goal("compute-sanitizer")[1], "missed")


if __name__ == "__main__":
    unittest.main()
