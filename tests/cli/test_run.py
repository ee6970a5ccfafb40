"""flexinfer run: with -p, what goes where, reproducibility, the edges of every limit; without, a chat, here through a
pipe and through a pseudo-terminal; and every KV manager gives the same text."""
import os
import pty
import re
import select
import signal
import subprocess
import time

import cli


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
        self.fails(1, "vocabulary", "run", "-m", cli.tiny_model(), "-p", "x", "--draft", cli.STORYTELLER)

    def test_what_drafts_brought_is_told(self):
        """A last line, if the engine found drafts worth computing; never where there are none."""
        figures = rb"\[\d+ prompt tokens, .* live\]\n"
        drafts = rb"\[drafts: \d+ of \d+ tokens accepted, \d+\.\d per draft, about \d+\.\d\d s (?:saved|lost)\]\n"
        self.assertRegex(self.complete("--temperature", "0", n=200).stderr, rb"^" + figures + rb"(?:" + drafts + rb")?$")
        self.assertRegex(self.complete("--temperature", "0", "--speculate", "off", n=200).stderr, rb"^" + figures + rb"$")

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

    def test_a_context_that_the_memory_cuts(self):
        """One line says to how many tokens, and what memory the whole of it needs; with a bit more than that nothing."""
        model = cli.tiny_model(ctx=100000)
        for wanted, options in ((100000, ()), (50000, ("--ctx", 50000))):
            err = self.ok("run", model, "-p", "x", "-n", 1, "--kv-memory", "1M", *options).stderr.decode()
            found = re.match(r"warning: the context is cut to (\d+) tokens, which 1.0 MiB of KV memory hold; "
                             rf"all {wanted} need about ([\d.]+) MiB \(--kv-memory\)\n", err)
            self.assertTrue(found, err)
            self.assertLessEqual(int(found.group(1)), 1 << 12)
            enough = f"{float(found.group(2)) * 1.25:.1f}M"
            self.assertNotIn(b"warning", self.ok("run", model, "-p", "x", "-n", 1, "--kv-memory", enough, *options).stderr)

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


class Message(cli.TestCase):
    """`run MODEL MESSAGE` answers once, as the chat would; -f completes a file's text, as -p does."""
    HOW = ("--temp", 0, "--ignore-eos", "-n", 8)

    def test_one_message_is_a_chat_of_one(self):
        chat = self.ok("run", "-m", cli.tiny_model(), *self.HOW, stdin=b"hello\n").stdout
        for args in (("run", cli.tiny_model(), "hello"), ("run", "-m", cli.tiny_model(), "hello"),
                     ("run", "--ctx-size", 64, cli.tiny_model(), "hello")):
            done = self.ok(*args, *self.HOW)
            self.assertEqual(done.stdout, chat)
            self.assertIn(b"8 tokens at", done.stderr)
        self.fails(1, "context", "run", cli.tiny_model(), "word " * 400, "--chat-template", "plain")

    def test_file(self):
        plain = self.ok("run", cli.tiny_model(), "-p", "Once upon", *self.HOW).stdout
        path = cli.scratch("prompt.txt")
        for text in ("Once upon", "Once upon\n"):  # the last line's end does not count
            path.write_text(text)
            self.assertEqual(self.ok("run", cli.tiny_model(), "-f", path, *self.HOW).stdout, plain)
        self.assertEqual(self.ok("run", cli.tiny_model(), "--file", "-", *self.HOW, stdin=b"Once upon").stdout, plain)
        path.write_text("Once upon\n\n")
        self.assertNotEqual(self.ok("run", cli.tiny_model(), "-f", path, *self.HOW).stdout, plain)
        self.fails(1, "nowhere.txt: No such file or directory", "run", cli.tiny_model(), "-f", "nowhere.txt")
        self.fails(1, "cannot read /: Is a directory", "run", cli.tiny_model(), "-f", "/")


class Chat(cli.TestCase):
    def chat(self, *lines, options=("-n", "8")):
        text = "".join(line + "\n" for line in lines).encode()
        return self.ok("run", "-m", cli.tiny_model(), "--temperature", "0", "--ignore-eos", *options, stdin=text)

    def test_each_line_gets_an_answer(self):
        one, two = self.chat("hello").stdout, self.chat("hello", "more").stdout
        self.assertTrue(one.endswith(b"\n"))
        self.assertTrue(two.startswith(one))
        self.assertGreater(len(two), len(one))

    def test_history_is_kept_and_reset_forgets_it(self):
        one = self.chat("hello").stdout
        kept, reset = self.chat("hello", "hello").stdout, self.chat("hello", "/reset", "hello").stdout
        self.assertEqual(reset, one + one)
        self.assertNotEqual(kept, one + one)

    def test_a_message_of_the_system(self):
        taught = cli.with_chat_template(cli.tiny_model(), "{% for m in messages %}{{ m.role }}: {{ m.content }}\n{% endfor %}")

        def chat(*lines, options=()):
            text = "".join(line + "\n" for line in lines).encode()
            return self.ok("run", taught, "--temp", 0, "-n", 8, "--ignore-eos", *options, stdin=text).stdout

        told = chat("hello", options=("--system", "Be brief."))
        self.assertNotEqual(told, chat("hello"))
        self.assertEqual(chat("hello", "/clear", "hello", options=("-sys", "Be brief.")), told + told)
        once = self.ok("run", taught, "hello", "--system", "Be brief.", "--temp", 0, "-n", 8, "--ignore-eos").stdout
        self.assertEqual(once, told)
        self.fails(2, "--system is for chats", "run", taught, "-p", "x", "--system", "y")

    def test_commands(self):
        done = self.chat("/help", "/nonsense", "/nonsense of mine", "/exit", "hello")
        self.assertEqual(done.stdout, b"")
        self.assertIn(b"/clear /reset /new    start a new conversation\n", done.stderr)
        self.assertEqual(done.stderr.count(b"no command /nonsense; there are /clear, /exit, /help\n"), 2)
        self.assertEqual(self.chat("/?", "/q").stderr.count(b"start a new conversation"), 1)
        for word in ("/exit", "/quit", "/bye", "/q", "/EXIT", "/exit now"):
            self.assertEqual(self.chat(word, "hello").stdout, b"", word)
        one = self.chat("hello").stdout
        for word in ("/clear", "/reset", "/new"):
            self.assertEqual(self.chat("hello", word, "hello").stdout, one + one, word)

    def test_a_base_model_warns(self):
        warning = b"warning: the model has no chat template, as one that was not trained to chat: "
        self.assertEqual(self.chat("hello", "more").stderr.count(b"warning: "), 1)
        self.assertIn(warning, self.chat("hello").stderr)
        self.assertIn(warning, self.ok("run", cli.tiny_model(), "hello", "-n", 4).stderr)
        self.assertNotIn(warning, self.ok("run", cli.tiny_model(), "-p", "hello", "-n", 4).stderr)
        for name in ("plain", "chatml"):  # as was asked for
            self.assertEqual(self.chat("hello", options=("-n", 4, "--chat-template", name)).stderr, b"")
        taught = cli.with_chat_template(cli.tiny_model(), "{{ messages[0].content }}")
        self.assertNotIn(warning, self.ok("run", taught, "hello", "-n", 4).stderr)

    def test_no_input(self):
        self.assertEqual(self.chat().stdout, b"")
        self.assertEqual(self.chat("", "").stdout, b"")

    def test_context_full(self):
        done = cli.run("run", "-m", cli.tiny_model(), "--chat-template", "plain", stdin=b"word " * 500 + b"\n")
        self.assertEqual((done.returncode, done.stdout, done.stderr.count(b"\n")), (1, b"", 1), done.stderr)
        self.assertIn(b"/clear starts a new conversation", done.stderr)


class Template(cli.TestCase):
    """--chat-template: a built-in's name or a file."""

    def chat(self, *options):
        return self.ok("run", "-m", cli.tiny_model(), "--temperature", "0", "--ignore-eos", "-n", "8", *options,
                       stdin=b"hello\n").stdout

    def file(self, text):
        path = cli.scratch("template.jinja")
        path.write_text(text)
        return path

    def test_a_file_says_what_a_built_in_says(self):
        chatml = self.file("{{ bos_token }}{% for m in messages %}<|im_start|>{{ m.role }}\n{{ m.content }}<|im_end|>\n"
                           "{% endfor %}<|im_start|>assistant\n\n")
        self.assertEqual(self.chat("--chat-template", chatml), self.chat("--chat-template", "chatml"))
        self.assertNotEqual(self.chat("--chat-template", "chatml"), self.chat("--chat-template", "llama2"))

    def test_plain_is_for_models_without_a_template(self):
        self.assertEqual(self.chat("--chat-template", "plain"), self.chat())

    def test_templates_that_cannot_be_had(self):
        model = cli.tiny_model()
        self.fails(1, "no chat template 'nonsense'", "run", "-m", model, "--chat-template", "nonsense")
        self.fails(1, "line 2: the tag 'include' is not supported here", "run", "-m", model, "--chat-template",
                   self.file("a\n{% include 'x' %}"))

    def test_a_template_that_refuses(self):
        path = self.file("{{ raise_exception('not today') }}")
        done = cli.run("run", "-m", cli.tiny_model(), "--chat-template", path, stdin=b"hello\n")
        self.assertEqual((done.returncode, done.stdout), (1, b""), done.stderr)
        self.assertIn(b"chat template, line 1: not today", done.stderr)


class Terminal(cli.TestCase):
    def setUp(self):
        self.master, slave = pty.openpty()
        self.process = subprocess.Popen(
            [cli.PROGRAM, "run", "-m", cli.tiny_model(), "--temperature", "0", "--ignore-eos"], stdin=slave,
            stdout=slave, stderr=slave, env=cli.clean_env(), preexec_fn=cli.defaults)
        os.close(slave)
        self.seen = b""

    def tearDown(self):
        self.process.kill()
        self.process.wait()
        os.close(self.master)

    def wait_for(self, text, since=0):
        end = time.monotonic() + 60
        while text not in self.seen[since:] and time.monotonic() < end:
            if select.select([self.master], [], [], 0.1)[0]:
                self.seen += os.read(self.master, 4096)
        self.assertIn(text, self.seen[since:])
        return len(self.seen)

    def test_prompt_figures_interrupt_and_end(self):
        self.wait_for(b"> ")
        os.write(self.master, b"hello\n")
        at = self.wait_for(b"KV cache at most")
        at = self.wait_for(b"> ", at - 2)
        self.process.send_signal(signal.SIGINT)  # at the prompt: no reason to leave
        at = self.wait_for(b"Ctrl-D ends", at)
        self.wait_for(b"> ", at - 2)
        os.write(self.master, b"/quit\n")
        self.assertEqual(self.process.wait(timeout=60), 0)

    def test_end_of_input(self):
        self.wait_for(b"> ")
        os.write(self.master, b"\x04")
        self.assertEqual(self.process.wait(timeout=60), 0)

    def test_sigterm_at_the_prompt(self):
        self.wait_for(b"> ")
        self.process.send_signal(signal.SIGTERM)
        self.assertEqual(self.process.wait(timeout=60), 128 + signal.SIGTERM)


class Managers(cli.TestCase):
    def names(self):
        wrong = ("run", "-m", cli.tiny_model(), "-p", "x", "--kv", "none")
        self.fails(1, "unknown KV manager 'none'", *wrong)
        return re.search(r"managers: (.*)", cli.run(*wrong).stderr.decode()).group(1).strip().split(", ")

    def test_every_manager_says_the_same(self):
        names = self.names()
        self.assertGreaterEqual(len(names), 5)
        self.assertEqual(names[0], "vtensor")
        texts = {name: self.ok("run", "-m", cli.tiny_model(), "-p", "Once upon a time", "-n", 40, "--ignore-eos",
                               "--temperature", "0", "--kv-memory", "16M", "--kv", name).stdout for name in names}
        for name in names:
            self.assertEqual(texts[name], texts[names[0]], name)

    def test_managers_of_the_laboratory(self):
        for name in ("reserve-max", "reserve-pow2", "reserve-oracle"):
            self.fails(1, f"--kv {name}: only flexinfer-lab has this manager", "run", "-m", cli.tiny_model(), "-p", "x",
                       "--kv", name)

    def test_block_size(self):
        run = ("run", "-m", cli.tiny_model(), "-p", "x", "-n", 4, "--kv-memory", "16M", "--kv", "paged", "--kv-block")
        self.ok(*run, "64")
        for size in ("8", "48", "512"):
            self.fails(1, "blocks of %s tokens" % size, *run, size)


cli.main()
