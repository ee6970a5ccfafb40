"""Commands, options, environment and help, without a model."""
import os
import re
import socket
import subprocess

import cli

COMMANDS = ["serve", "run", "tokenize", "inspect", "convert", "quantize", "bench", "pull", "list", "rm", "top", "help"]


class Usage(cli.TestCase):
    def test_version(self):
        self.assertRegex(self.ok("--version").stdout.decode(), r"^flexinfer \d+\.\d+\.\d+\n$")

    def test_help_is_asked_for_on_stdout(self):
        for args in (["--help"], ["-h"], ["help"]):
            done = self.ok(*args)
            self.assertEqual(done.stderr, b"")
            for name in COMMANDS:
                self.assertIn(f"flexinfer {name} ", done.stdout.decode())

    def test_a_closed_stdout_is_an_error(self):
        done = subprocess.run([cli.PROGRAM, "--version"], stderr=subprocess.PIPE, env=cli.clean_env(),
                              preexec_fn=lambda: os.close(1))
        self.assertEqual((done.returncode, done.stderr),
                         (1, b"flexinfer: cannot write to stdout: Bad file descriptor\n"))

    def test_no_command_is_wrong_usage(self):
        done = cli.run()
        self.assertEqual((done.returncode, done.stdout), (2, b""))
        self.assertIn(b"flexinfer serve", done.stderr)

    def test_help_of_a_command(self):
        for args in (["help", "run"], ["run", "--help"], ["run", "-h"], ["run", "-m", "x", "-h", "--nonsense"]):
            text = self.ok(*args).stdout.decode()
            for option in ("-m, --model MODEL", "-p, --prompt TEXT", "-n, --max-tokens N", "--temperature T",
                           "--top-k K", "--top-p P", "--min-p P", "-s, --seed S", "-f, --file FILE", "--ignore-eos", "--threads N", "--ctx N",
                           "--kv-memory SIZE", "--kv-type f16|bf16|f32|q8_0", "--step-tokens N", "FLEXINFER_KV_MEMORY"):
                self.assertIn(option, text)
            self.assertNotIn("--port", text)
            self.assertNotIn("--swap", text)

    def test_help_of_serve(self):
        text = self.ok("help", "serve").stdout.decode()
        for option in ("--kv-memory SIZE", "--swap SIZE", "--swap-dir DIR", "--step-tokens N", "--max-seq N",
                       "--max-queue N", "--max-queue-tokens N", "--max-queue-bytes SIZE", "--send-percent P", "--workers N"):
            self.assertIn(option, text)

    def test_every_command_has_help(self):
        for name in COMMANDS:
            text = self.ok("help", *name.split()).stdout.decode()
            self.assertTrue(text.startswith(f"flexinfer {name} "), text)
            self.assertTrue(all(len(line) <= 120 for line in text.splitlines()), text)

    def test_unknown_and_missing_things(self):
        for text, *args in (
                ("unknown command 'dance'", "dance"), ("unknown command 'dance'", "help", "dance"),
                ("unknown command '--prot'", "--prot"),
                ("unknown command 'srve'; did you mean 'serve'?", "srve"),
                ("unknown option '--prot'; did you mean '--port'?", "serve", "--prot", "1"),
                ("unknown option '--port'", "tokenize", "--port", "1"), ("unknown option '--swap'", "run", "--swap", "1G"),
                ("unknown option '-z'", "run", "-z"), ("unexpected argument 'extra'", "run", "-m", "x", "hi", "extra"),
                ("unexpected argument 'extra'", "run", "x", "hi", "extra"), ("unexpected argument 'b'", "serve", "a", "b"),
                ("unexpected argument 'b'", "serve", "-m", "a", "b"),
                ("a message, --prompt or --file: one of them", "run", "x", "hi", "-p", "there"),
                ("a message, --prompt or --file: one of them", "run", "x", "-f", "a", "-p", "there"),
                ("unexpected argument 'b'", "inspect", "a", "b"), ("missing file", "inspect"),
                ("-m: missing value (MODEL)", "run", "-m"), ("--port: missing value (PORT)", "serve", "--port"),
                *(("missing model: -m MODEL", name, *model) for name in ("serve", "run", "tokenize", "bench")
                  for model in ((), ("-m", "")))):
            self.fails(2, text, *args)

    def test_spellings_of_other_programs(self):
        """Those that mean the same are taken; for the others a line says what to do instead."""
        taken = ("serve", "--check-config", "-m", cli.tiny_model())
        for option, words in (("ctx = 128", ("--ctx-size", 128)), ("ctx = 128", ("--max-model-len=128",)),
                              ("max-seq = 3", ("-np", 3)), ("max-seq = 3", ("--parallel", 3)),
                              ("max-seq = 3", ("--max-num-seqs", 3)), ("step-tokens = 64", ("-b", 64)),
                              ("step-tokens = 64", ("--ubatch-size=64",)), ('alias = "gpt"', ("-a", "gpt")),
                              ('alias = "gpt"', ("--served-model-name", "gpt")), ("draft-tokens = 4", ("--draft-max", 4))):
            self.assertIn(f"\n{option}  # ", self.ok(*taken, *words).stdout.decode(), words)
        self.assertIn("\nctx = 128  # FLEXINFER_CTX_SIZE\n",
                      self.ok(*taken, env={"FLEXINFER_CTX_SIZE": "128"}).stdout.decode())
        config = cli.scratch("other.conf")
        config.write_text("ctx-size = 128\n")
        self.assertIn("\nctx = 128  # ", self.ok(*taken, "--config", config).stdout.decode())
        config.write_text("n-gpu-layers = 99\n")
        self.fails(2, "other.conf:1: no option 'n-gpu-layers' here: --device cuda:0 runs", *taken, "--config", config)
        for command, word, text in (("serve", "-ngl", "--device cuda:0 runs all layers on a GPU"),
                                    ("run", "--n-gpu-layers", "--device cuda:0 runs all layers on a GPU"),
                                    ("bench", "-fa", "needs no option"), ("serve", "--mlock", "MemorySwapMax=0"),
                                    ("serve", "--no-mmap", "read into memory at the start"),
                                    ("serve", "--api-key", "--api-key-file FILE"),
                                    ("serve", "--gpu-memory-utilization", "--kv-memory SIZE")):
            self.fails(2, f"no option '{word}' here: ", command, "-m", "x", word, "1")
            self.fails(2, text, command, "-m", "x", word, "1")
        self.fails(2, "did you mean '--ctx-size'?", "serve", "--ctx-sise", "1")
        self.fails(2, "unknown option '--frobnicate' (", "serve", "--frobnicate", "1")

    def test_every_spelling_means_an_option(self):
        """The rows of the table in the manual: each word is taken for the option next to it."""
        table = (cli.PROJECT / "docs" / "user" / "configure.md").read_text().split("| you type | which is |")[1].split("\n\n")[0]
        rows = re.findall(r"^\| (`-.*`) \| `--([\w-]+)` \|$", table, re.MULTILINE)
        self.assertGreater(len(rows), 10)
        for words, option in rows:
            for word in re.findall(r"`(-[\w-]+)`", words):
                commands = [c for c in ("serve", "run", "bench") if f"--{option} " in self.ok("help", c).stdout.decode()]
                for command in commands:
                    done = cli.run(command, word)
                    self.assertIn(f"{word}: missing value (", done.stderr.decode(), (command, word))
                self.assertTrue(commands, option)

    def test_the_model_is_the_first_argument(self):
        for command in ("serve", "run", "bench", "tokenize"):
            self.fails(1, "nowhere.gguf", command, "nowhere.gguf")
            self.fails(1, "nowhere.gguf", command, "nowhere.gguf", env={"FLEXINFER_MODEL": "variable.gguf"})
        shown = self.ok("serve", cli.tiny_model(), "--check-config").stdout.decode()
        self.assertIn(f'model = "{cli.tiny_model()}"  # --model\n', shown)
        self.fails(2, "missing model: -m MODEL", "run", "")

    def test_former_spellings_name_what_replaces_them(self):
        for name in ("replay", "serve"):
            self.fails(2, f"'bench {name}' is now 'flexinfer-lab {name}'", "bench", name, "trace.csv", "--speed", "2")
        self.fails(2, "'bench figures' is now 'bench/figures.py'", "bench", "figures", "a", "b")

    def test_bad_values(self):
        for command, option, value, text in [
            ("serve", "--port", "99999", "--port: '99999' is not a whole number from 0 to 65535"),
            ("serve", "--port", "-1", "from 0 to 65535"),
            ("serve", "--port", "http", "from 0 to 65535"),
            ("serve", "--kv-memory", "plenty", "is not a size in bytes"),
            ("serve", "--swap", "-1", "--swap: '-1' is not a size in bytes"),
            ("serve", "--step-tokens", "65537", "--step-tokens: '65537' is not a whole number from 0 to 65536"),
            ("serve", "--max-queue-tokens", "-1", "--max-queue-tokens: '-1' is not a whole number of at least 0"),
            ("run", "--temperature", "hot", "--temperature: 'hot' is not a number from -1 to 100"),
            ("run", "--temperature", "nan", "is not a number from -1 to 100"),
            ("run", "--top-p", "1.5", "is not a number from 0 to 1"),
            ("run", "--top-p", "1.1", "is not a number from"),
            ("run", "--min-p", "-1.5", "is not a number from -1 to 1"),
            ("run", "--top-k", "-2", "is not a whole number of at least -1"),
            ("run", "-n", "-2", "-n: '-2' is not a whole number of at least -1"),
            ("run", "--seed", "18446744073709551616", "is not a whole number"),
            ("run", "--threads", "9999999", "from 0 to 4096"),
            ("run", "--ctx", "1e3", "is not a whole number"),
            ("run", "--ignore-eos=perhaps", "x", "--ignore-eos: 'perhaps' is not yes or no"),
            ("bench", "--batch", "1,,8", "is not a list of whole numbers from 1 to 1024"),
            ("bench", "--gen", "0", "is not a whole number"),
            ("bench", "--repeat", "0", "from 1 to 1000"),
            ("serve", "--port", "1\n2", "--port: '1?2' is not"),
        ]:
            self.fails(2, text, command, option, value)

    def test_environment(self):
        self.fails(2, "FLEXINFER_PORT: 'x' is not a whole number", "serve", env={"FLEXINFER_PORT": "x"})
        self.fails(1, "nowhere.gguf", "run", env={"FLEXINFER_MODEL": "nowhere.gguf"})
        self.fails(1, "flag.gguf", "run", "-m", "flag.gguf", env={"FLEXINFER_MODEL": "nowhere.gguf"})
        self.fails(2, "missing model", "run", env={"FLEXINFER_MODEL": "", "FLEXINFER_PORT": "x"})

    def test_full_device(self):
        with open("/dev/full", "wb") as full:
            process = cli.start("help", "run", stdout=full)
            _, err = process.communicate()
        self.assertEqual(process.returncode, 1)
        self.assertEqual(err, b"flexinfer: cannot write to stdout: No space left on device\n")


class Quickstart(cli.TestCase):
    """What ./quickstart refuses before it installs or builds anything. ./check runs the whole script."""
    SCRIPT = cli.PROJECT / "quickstart"

    def refused(self, status, text, *args):
        done = subprocess.run([self.SCRIPT, *map(str, args)], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stdout), (status, ""), done.stderr)
        first, *rest = done.stderr.splitlines()
        self.assertIn(text, first)
        self.assertTrue(status == 2 or not rest, done.stderr)

    def test_help(self):
        done = subprocess.run([self.SCRIPT, "--help"], capture_output=True, text=True, timeout=60, check=False)
        self.assertEqual((done.returncode, done.stderr), (0, ""))
        self.assertIn("--once", done.stdout)

    def test_wrong_usage(self):
        for text, *args in (("unknown option '--twice'", "--twice"), ("--port needs a value", "--port"),
                            ("--port: '65536' is not a number", "--port", "65536"),
                            ("--port: 'x' is not a number", "--port", "x")):
            self.refused(2, text, *args)

    def test_missing_model(self):
        self.refused(1, "there is no file no/such.gguf", "--model", "no/such.gguf")

    def test_busy_port(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.refused(1, f"port {port} is in use", "--model", cli.tiny_model(), "--port", port)


cli.main()
