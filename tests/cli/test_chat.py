"""flexinfer run without -p: a chat, here through a pipe and through a pseudo-terminal."""
import os
import pty
import select
import signal
import subprocess
import time

import cli


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

    def test_commands(self):
        done = self.chat("/help", "/nonsense", "/quit", "hello")
        self.assertEqual(done.stdout, b"")
        self.assertIn(b"/reset", done.stderr)
        self.assertIn(b"no such command: /nonsense", done.stderr)

    def test_no_input(self):
        self.assertEqual(self.chat().stdout, b"")
        self.assertEqual(self.chat("", "").stdout, b"")

    def test_context_full(self):
        done = cli.run("run", "-m", cli.tiny_model(), stdin=b"word " * 500 + b"\n")
        self.assertEqual((done.returncode, done.stdout, done.stderr.count(b"\n")), (1, b"", 1), done.stderr)
        self.assertIn(b"/reset starts a new conversation", done.stderr)


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


cli.main()
