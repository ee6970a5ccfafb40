"""flexinfer run -p: what goes where, reproducibility, the edges of every limit."""
import re
import signal
from pathlib import Path

import cli

STORYTELLER = Path(__file__).resolve().parents[2] / "models" / "storyteller.gguf"


class Run(cli.TestCase):
    def complete(self, *options, prompt="Once upon a time", n=24):
        return self.ok("run", "-m", cli.tiny_model(), "-p", prompt, "-n", n, "--ignore-eos", *options)

    def text(self, *options, **how):
        return self.complete(*options, **how).stdout

    def test_stdout_holds_the_text_alone(self):
        done = self.complete("--temperature", "0")
        self.assertNotIn(b"tokens/s", done.stdout)
        self.assertNotIn(b"Once upon", done.stdout)
        self.assertRegex(done.stderr.decode(), r"prompt tokens, first token after .* 24 tokens at .*KV cache")

    def test_greedy_is_reproducible(self):
        first = self.text("--temperature", "0")
        self.assertGreater(len(first), 8)
        for options in (["--seed", "9"], ["--threads", "1"], ["--threads", "3"], ["--kv-memory", "64M"], ["--ctx", "64"],
                        ["--step-tokens", "3"]):
            self.assertEqual(self.text("--temperature", "0", *options), first, options)

    def test_seed(self):
        draws = [self.text("--temperature", "1", "--seed", seed) for seed in (1, 1, 2)]
        self.assertEqual(draws[0], draws[1])
        self.assertNotEqual(draws[0], draws[2])
        self.assertNotEqual(self.text("--temperature", "1"), self.text("--temperature", "1"))

    def test_drafts_change_nothing(self):
        for how in (["--temperature", "0"], ["--temperature", "0.9", "--seed", "4"]):
            plain = self.text(*how, "--speculate", "off", n=200)
            for options in ([], ["--speculate", "auto"], ["--speculate", "prompt", "--draft-tokens", "20"],
                            ["--speculate", "prefix"], ["--draft", cli.tiny_model()]):
                self.assertEqual(self.text(*how, *options, n=200), plain, options)
        self.fails(1, "vocabulary", "run", "-m", cli.tiny_model(), "-p", "x", "--draft", STORYTELLER)

    def test_top_k_of_one_is_greedy(self):
        greedy = self.text("--temperature", "0")
        self.assertEqual(self.text("--top-k", "1", "--temperature", "2"), greedy)
        self.assertEqual(self.text("--top-p", "0.000001"), greedy)
        self.assertEqual(self.text("--min-p", "1"), greedy)

    def test_a_prefix_of_a_longer_answer(self):
        long, short = self.text("--temperature", "0"), self.text("--temperature", "0", n=8)
        self.assertTrue(long.startswith(short.rstrip(b"\n").rstrip(b"\xef\xbf\xbd")))

    def test_no_tokens(self):
        self.assertEqual(self.text(n=0), b"\n")

    def test_empty_prompt_is_legal(self):
        self.assertGreater(len(self.text("--temperature", "0", prompt="")), 8)

    def test_answer_ends_with_the_context(self):
        done = self.complete("--ctx", "32", n=1000)
        self.assertRegex(done.stderr.decode(), r"\[\d+ prompt tokens")

    def test_prompt_beyond_the_context(self):
        self.fails(1, "context", "run", "-m", cli.tiny_model(), "-p", "word " * 400)

    def test_bad_utf8(self):
        self.fails(1, "UTF-8", "run", "-m", cli.tiny_model(), "-p", b"abc\xff".decode("utf-8", "surrogateescape"))

    def test_kv_type(self):
        greedy = self.text("--temperature", "0")
        self.assertEqual(self.text("--temperature", "0", "--kv-type", "F16"), greedy)
        for kind in ("bf16", "f32"):
            self.assertGreater(len(self.text("--temperature", "0", "--kv-type", kind)), 8)
        self.fails(1, "a KV cache of q8_0 needs heads of a multiple of 32 numbers, not 16",
                   "run", "-m", cli.tiny_model(), "-p", "x", "--kv-type", "q8_0")
        self.fails(2, "'q4_0' is not one of f16|bf16|f32|q8_0", "run", "-m", cli.tiny_model(), "-p", "x", "--kv-type",
                   "q4_0")

    def test_budget_too_small(self):
        self.fails(1, "", "run", "-m", cli.tiny_model(), "-p", "x", "--kv-memory", "1")

    def test_context_beyond_all_bounds(self):
        done = cli.run("run", "-m", cli.tiny_model(), "-p", "x", "-n", "4", "--ctx", "2147483647")
        if done.returncode:
            self.assertEqual((done.returncode, done.stderr.count(b"\n")), (1, 1))

    def test_interrupt(self):
        """Text arrives as it is generated, long before the last of 100,000 tokens, and a signal ends it."""
        process = cli.start("run", "-m", cli.tiny_model(ctx=100000), "-p", "x", "--ignore-eos", bufsize=0)
        self.assertTrue(process.stdout.read(1))
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=120)
        self.assertEqual(process.returncode, 130)
        self.assertLess(int(re.search(rb", (\d+) tokens at", err).group(1)), 90000)

    def test_reader_that_goes_away(self):
        process = cli.start("run", "-m", cli.tiny_model(), "-p", "x", "--ignore-eos")
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        self.assertEqual((process.wait(timeout=60), err), (-signal.SIGPIPE, b""))

    def test_full_device(self):
        with open("/dev/full", "wb") as full:
            process = cli.start("run", "-m", cli.tiny_model(), "-p", "x", stdout=full)
            _, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, err),
                         (1, b"flexinfer: cannot write to stdout: No space left on device\n"))


cli.main()
