"""flexinfer bench: the JSON and the table hold what they promise; sizes that cannot run are refused."""
import json
import signal
import time

import cli

SMALL = ["--prompt", "24", "--gen", "6", "--batch", "1,3", "--repeat", "2", "--threads", "1"]
# The linear layers of cli.tiny_model: q and o, k and v, gate, up and down; the output.
LAYER_MUL = 2 * (2 * 64 * 64 + 2 * 64 * 32 + 3 * 64 * 128)
OUTPUT_MUL = 64 * 512


class Bench(cli.TestCase):
    def test_json(self):
        done = self.ok("bench", "-m", cli.tiny_model(), "--json", *SMALL)
        all_of_it = json.loads(done.stdout)
        self.assertEqual((all_of_it["prompt_tok"], all_of_it["gen_tok"], all_of_it["repeat"]), (24, 6, 2))
        self.assertEqual(all_of_it["model"]["type"], "F32")
        self.assertEqual(all_of_it["machine"]["threads"], 1)
        self.assertGreater(all_of_it["machine"]["read_gb_s"], 0)
        self.assertGreater(all_of_it["machine"]["fma_gflop_s"], 0)
        self.assertEqual([r["batch"] for r in all_of_it["results"]], [1, 3])
        for result in all_of_it["results"]:
            self.assertGreater(result["prompt_tok_s"], 0)
            self.assertGreater(result["decode_tok_s"], 0)
            self.assertAlmostEqual(result["prompt_tok_s"] * result["first_token_s"] / result["batch"], 24, delta=0.1)
            gop = 2e-9 * (LAYER_MUL + OUTPUT_MUL / 24) * result["prompt_tok_s"]
            self.assertAlmostEqual(result["prompt_gop_s"] / gop, 1, delta=1e-3)
            gb = 4e-9 * (LAYER_MUL + OUTPUT_MUL) * result["decode_tok_s"] / result["batch"]
            self.assertAlmostEqual(result["decode_weights_gb_s"] / gb, 1, delta=1e-3)

    def test_table(self):
        text = self.ok("bench", "-m", cli.tiny_model(), *SMALL).stdout.decode()
        for words in ("GB/s", "FMA", "prompt tokens/s", "decode tokens/s"):
            self.assertIn(words, text)
        self.assertEqual([line.split()[0] for line in text.splitlines()[-2:]], ["1", "3"])

    def test_more_than_the_context(self):
        self.fails(1, "do not fit the context of 256 tokens", "bench", "-m", cli.tiny_model(), "--prompt", "250",
                   "--gen", "6")

    def test_budget_too_small_for_the_batch(self):
        done = cli.run("bench", "-m", cli.tiny_model(), "--prompt", "100", "--gen", "100", "--batch", "64", "--repeat",
                       "1", "--kv-memory", "256K")
        self.assertIn(done.returncode, (0, 1))
        self.assertEqual(done.stderr.count(b"\n"), done.returncode, done.stderr)

    def test_interrupt(self):
        process = cli.start("bench", "-m", cli.tiny_model(), "--repeat", "1000", "--prompt", "200", "--gen", "20")
        time.sleep(4)  # beyond the measuring of the machine, far from the end
        process.send_signal(signal.SIGINT)
        out, err = process.communicate(timeout=60)
        self.assertIn(process.returncode, (130, -signal.SIGINT))
        self.assertEqual((out, err), (b"", b""))


cli.main()
