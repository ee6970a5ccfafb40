"""Broken and unfit model files: one line and exit status 1, whatever the command."""
import struct

import cli

COMMANDS = [("run", "-p", "x", "-m"), ("serve", "--port", "0", "-m"), ("tokenize", "-m"), ("inspect",)]


class Files(cli.TestCase):
    def all_fail(self, text, path, commands=None):
        for command in commands or COMMANDS:
            self.fails(1, text, *command, path)

    def test_missing(self):
        self.all_fail("no/such.gguf", "no/such.gguf")

    def test_directory(self):
        self.all_fail("directory", cli.SCRATCH.name)

    def test_not_gguf(self):
        for name, data in [("empty.gguf", b""), ("short.gguf", b"GG"), ("text.gguf", b"Once upon a time " * 99)]:
            path = cli.scratch(name)
            path.write_bytes(data)
            self.all_fail(name, path)

    def test_truncated(self):
        whole = cli.tiny_model().read_bytes()
        path = cli.scratch("cut.gguf")
        for part in range(1, 16):
            path.write_bytes(whole[:len(whole) * part // 16])
            self.all_fail("cut.gguf", path, [("run", "-p", "x", "-m")])
            self.inspects(path, len(whole) * part // 16)

    def inspects(self, path, n_bytes):
        """The header is shown if it is whole, and why the model does not run."""
        done = cli.run("inspect", path)
        if done.returncode:
            self.fails(1, "cut.gguf", "inspect", path)
        else:
            self.assertIn(f"GGUF version 3, {n_bytes} bytes", done.stdout.decode())
            self.assertRegex(done.stdout.decode(), "does not run: .*is past the end of the file")

    def test_counts_near_the_top(self):
        path = cli.scratch("huge.gguf")
        for n_tensor, n_kv in [(2**64 - 1, 0), (0, 2**64 - 1), (2**63, 2**63), (1, 0), (0, 1)]:
            path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, n_tensor, n_kv))
            self.all_fail("huge.gguf", path)

    def test_name_with_a_newline(self):
        self.fails(1, "a?b.gguf", "inspect", "a\nb.gguf")

    def test_no_tensors(self):
        self.all_fail("vocab.gguf", cli.vocab_model(), [("run", "-p", "x", "-m"), ("serve", "--port", "0", "-m")])

    def test_no_vocabulary(self):
        path = cli.write_gguf(cli.scratch("bare.gguf"), [("general.architecture", cli.STR, "llama")])
        self.all_fail("bare.gguf", path, [("run", "-p", "x", "-m"), ("tokenize", "-m")])
        self.ok("inspect", path)


cli.main()
