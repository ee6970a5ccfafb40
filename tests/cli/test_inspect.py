"""flexinfer inspect: metadata, tensors, totals, KV bytes; nothing in a file can steer the terminal."""
import cli


class Inspect(cli.TestCase):
    def inspect(self, path):
        done = self.ok("inspect", path)
        self.assertEqual(done.stderr, b"")
        return done.stdout.decode()

    def test_model(self):
        text = self.inspect(cli.tiny_model())
        self.assertRegex(text, r"GGUF version 3, \d+ bytes")
        self.assertRegex(text, r"(?m)^  llama.block_count +u32 +2$")
        self.assertRegex(text, r"(?m)^  blk.1.ffn_down.weight +F32 +128 x 64 +32768 bytes at \d+$")
        self.assertRegex(text, r"(?m)^  tokenizer.ggml.tokens +array +512 x str: \[")
        self.assertIn("KV cache      256 bytes per token in f16", text)  # 2 x 2 layers x 2 heads x 16 x 2

    def test_totals_add_up(self):
        text = self.inspect(cli.tiny_model())
        n_param = int(text.split("parameters    ")[1].split()[0])
        layer = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128 + 2 * 64
        self.assertIn(n_param, [2 * layer + 64 + n_vocab * 512 * 64 for n_vocab in (1, 2)])

    def test_hostile_strings(self):
        path = cli.write_gguf(cli.scratch("hostile.gguf"), [
            ("general.name", cli.STR, b"a\x1b[2Jb\nc\x7f\xc2\x9bd\xff"),
            ("evil\x1bkey\n", cli.STR, "x"),
            ("long", cli.STR, "\u00e9" * 500),
            ("flags", cli.ARRAY, (cli.BOOL, [True, False])),
            ("empty", cli.ARRAY, (cli.STR, [])),
        ])
        done = self.ok("inspect", path)
        for bad in (b"\x1b", b"\x7f", b"\xc2\x9b"):
            self.assertNotIn(bad, done.stdout)
        self.assertIn(rb'"a\x1b[2Jb\x0ac\x7f', done.stdout)
        self.assertIn("... (1000 bytes)".encode(), done.stdout)
        self.assertIn(b"2 x bool: [true, false]", done.stdout)
        self.assertIn(b"0 x str: []", done.stdout)

    def test_metadata_only(self):
        text = self.inspect(cli.vocab_model([("llama.block_count", cli.U32, 4),
                                             ("llama.attention.head_count", cli.U32, 8),
                                             ("llama.embedding_length", cli.U32, 256)]))
        self.assertIn("0 tensors", text)
        self.assertIn("KV cache      4096 bytes per token in f16", text)  # 2 x 4 x 8 x 32 x 2

    def test_reader_that_goes_away(self):
        process = cli.start("inspect", cli.tiny_model())
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        self.assertIn(process.wait(), (0, -13))
        self.assertEqual(err, b"")


cli.main()
