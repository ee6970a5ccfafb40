"""Real models and vocabularies by others: the program agrees with the programs of their authors."""
import cli

MODEL = cli.SHARED / "models" / "stories260K.gguf"
VOCAB = cli.SHARED / "tokenizers" / "ggml-vocab-llama-spm.gguf"

if not MODEL.exists() or not VOCAB.exists():
    cli.skip("../shared/data not present")


class Golden(cli.TestCase):
    def test_greedy_text(self):
        """200 tokens from BOS; the program that made the file prints a newline at the end, too."""
        expected = (cli.SHARED / "models" / "expected_greedy_200_karpathy.txt").read_bytes()
        for threads in (1, 2):
            done = self.ok("run", "-m", MODEL, "-p", "", "-n", "200", "--temperature", "0", "--ignore-eos",
                           "--threads", threads)
            self.assertEqual(done.stdout, expected.rstrip(b"\n") + b"\n")

    def test_tokenizer(self):
        texts = (VOCAB.parent / (VOCAB.name + ".inp")).read_bytes().split(b"\n__ggml_vocab_test__\n")
        lines = (VOCAB.parent / (VOCAB.name + ".out")).read_bytes().split(b"\n")[:len(texts)]
        self.assertEqual((len(texts), len(lines)), (47, 47))
        for text, line in zip(texts, lines):
            done = self.ok("tokenize", "-m", VOCAB, "--no-bos", stdin=text)
            self.assertEqual(done.stdout.split(), line.split(), text)

    def test_inspect(self):
        text = self.ok("inspect", MODEL).stdout.decode()
        self.assertIn("KV cache      640 bytes per token in f16", text)  # 2 x 5 layers x 4 heads x 8 x 2


cli.main()
