"""flexinfer tokenize on a vocabulary that can be tokenised by hand."""
import json
import subprocess
from pathlib import Path

import cli

VECTORS = Path(__file__).resolve().parents[2] / "vectors" / "tokenizers"

def ids(*pieces):
    return [259 + cli.PIECES.index(p) for p in pieces]


def listed(numbers):
    return " ".join(map(str, numbers)).encode()


def byte_ids(data):
    return [3 + b for b in data]


class Tokenize(cli.TestCase):
    def tokenize(self, text, *options):
        done = self.ok("tokenize", "-m", cli.vocab_model(), *options, stdin=text)
        self.assertEqual(done.stderr, b"")
        self.assertTrue(done.stdout.endswith(b"\n") and done.stdout.count(b"\n") == 1)
        return [int(word) for word in done.stdout.split()]

    def test_bos(self):
        self.assertEqual(self.tokenize(b"hello"), [1] + ids("\u2581hello"))
        self.assertEqual(self.tokenize(b"hello", "--no-bos"), ids("\u2581hello"))

    def test_empty(self):
        self.assertEqual(self.tokenize(b""), [1])
        self.assertEqual(self.tokenize(b"", "--no-bos"), [])

    def test_merges(self):
        self.assertEqual(self.tokenize(b"hell", "--no-bos"), ids("\u2581", "hell"))
        self.assertEqual(self.tokenize(b"hello world", "--no-bos"),
                         ids("\u2581hello", "\u2581", "w", "o", "r", "l", "d"))

    def test_byte_fallback(self):
        self.assertEqual(self.tokenize("\u00df\n".encode(), "--no-bos"), ids("\u2581") + byte_ids(b"\xc3\x9f\n"))

    def test_control_text_stays_text(self):
        self.assertNotIn(2, self.tokenize(b"</s>", "--no-bos"))

    def test_bad_utf8(self):
        self.fails(1, "bad UTF-8 at byte 3", "tokenize", "-m", cli.vocab_model(), stdin=b"abc\xff")

    def test_large_text(self):
        self.assertEqual(len(self.tokenize(b"hello " * 100000, "--no-bos")), 100001)

    def test_decode(self):
        done = self.ok("tokenize", "-m", cli.vocab_model(), "--decode", stdin=listed([1] + ids("\u2581hello", "\u2581", "w")))
        self.assertEqual(done.stdout, b"hello w")

    def test_decode_nothing(self):
        self.assertEqual(self.ok("tokenize", "-m", cli.vocab_model(), "--decode", stdin=b" \n").stdout, b"")

    def test_decode_what_is_no_list(self):
        for text, error in ((b"1 x", "not a list of ids at byte 2"), (b"1,2", "not a list of ids at byte 0"),
                            (b"272", "id 272, but there are 272 tokens"), (b"-1", "id -1, but"),
                            (b"1\x002", "not a list of ids at byte 1")):
            self.fails(1, error, "tokenize", "-m", cli.vocab_model(), "--decode", stdin=text)


class OldFiles(cli.TestCase):
    """A GGUF file that does not say how words are cut: as in llama.cpp, and a warning."""

    def gpt2(self, *more):
        pieces = [chr(33 + i) for i in range(94)] + ["11"]
        return cli.write_gguf(cli.scratch("old.gguf"), [
            ("tokenizer.ggml.model", cli.STR, "gpt2"),
            ("tokenizer.ggml.tokens", cli.ARRAY, (cli.STR, pieces)),
            ("tokenizer.ggml.merges", cli.ARRAY, (cli.STR, ["1 1"])),
            *more,
        ])

    def test_missing_pre(self):
        warning = b"warning: %s: key 'tokenizer.ggml.pre' is missing: the pre-tokenizer 'default' is used, which may differ"
        path = self.gpt2()
        done = self.ok("tokenize", "-m", path, stdin=b"1111")
        self.assertEqual(done.stdout, b"94 16 16\n")
        self.assertIn(warning % str(path).encode(), done.stderr)
        self.assertIn(warning % str(path).encode(), self.ok("inspect", path).stdout)

    def test_named_pre(self):
        path = self.gpt2(("tokenizer.ggml.pre", cli.STR, "gpt-2"))
        done = self.ok("tokenize", "-m", path, stdin=b"1111")
        self.assertEqual((done.stdout, done.stderr), (b"94 94\n", b""))
        self.assertNotIn(b"warning", self.ok("inspect", path).stdout)


class OtherFiles(cli.TestCase):
    """Files of every kind; what is in them is compared elsewhere."""

    def tokenize(self, *args, text=b"the engine"):
        return [int(word) for word in self.ok("tokenize", "-m", *args, stdin=text).stdout.split()]

    def test_kinds(self):
        for name, *options in (("words.json",), ("sp_bpe.gguf",), ("ranks.tiktoken", "--tokenizer-pre", "gpt-2")):
            ids = self.tokenize(VECTORS / name, *options)
            done = self.ok("tokenize", "-m", VECTORS / name, *options, "--decode", stdin=listed(ids))
            self.assertEqual(done.stdout, b"the engine", name)

    def test_begin(self):
        self.assertEqual(self.tokenize(VECTORS / "words.json")[0], 1)
        self.assertNotIn(1, self.tokenize(VECTORS / "words.json", "--no-bos"))

    def test_folder(self):
        folder = cli.scratch("folder")
        folder.mkdir()
        self.fails(1, "a directory without tokenizer.json; transformers makes one", "tokenize", "-m", folder)
        (folder / "tokenizer.json").write_bytes((VECTORS / "plain.json").read_bytes())
        self.assertEqual(self.tokenize(folder), self.tokenize(VECTORS / "plain.json"))
        (folder / "tokenizer_config.json").write_text('{"bos_token": "</s>", "add_bos_token": true}')
        self.assertEqual(self.tokenize(folder)[0], 2)
        (folder / "tokenizer_config.json").write_text('{"bos_token": "<no>"}')
        self.fails(1, "tokenizer_config.json: bos_token: '<no>' is not in the vocabulary", "tokenize", "-m", folder)

    def test_pre(self):
        ranks, words = VECTORS / "ranks.tiktoken", VECTORS / "words.json"
        self.fails(1, "the name of a pre-tokenizer must be given", "tokenize", "-m", ranks)
        self.fails(1, "unknown pre-tokenizer 'no-such'", "tokenize", "-m", ranks, "--tokenizer-pre", "no-such")
        self.fails(1, "names its own pre-tokenizer", "tokenize", "-m", words, "--tokenizer-pre", "gpt-2")

    def test_broken(self):
        path = cli.scratch("broken")
        for text, error in ((b"", "broken: the file is empty"),
                            (b"???", "broken: neither GGUF nor a tokenizer.json nor a rank file"),
                            (b"{}", "model: not an object"), (b'{"model": {', "line 1"),
                            (b"AA== 0\nAA== 0\n", "line 2: duplicate rank 0")):
            path.write_bytes(text)
            self.fails(1, error, "tokenize", "-m", path, *(["--tokenizer-pre", "gpt-2"] if text[:1] == b"A" else []))


class OtherTokenizer(cli.TestCase):
    """A model with another file's vocabulary."""

    def test_run(self):
        args = "run", "-m", cli.tiny_model(), "-p", "Hello", "-n", "3", "--temperature", "0"
        self.ok(*args, "--tokenizer", VECTORS / "words.json")
        self.ok(*args, "--tokenizer", VECTORS / "ranks.tiktoken", "--tokenizer-pre", "gpt-2")

    def test_too_large(self):
        self.fails(1, "unigram_first.json: the vocabulary has", "run", "-m", small_model(), "-p", "x",
                   "--tokenizer", VECTORS / "unigram_first.json")

    def test_pre_alone(self):
        self.fails(1, "a pre-tokenizer ('gpt-2') is named, but no tokenizer file", "run", "-m", cli.tiny_model(),
                   "-p", "x", "--tokenizer-pre", "gpt-2")


def small_model():
    path = cli.scratch("small.gguf")
    shape = "--layers 1 --dim 32 --ffn 64 --heads 2 --kv-heads 2 --vocab 384 --ctx 64 --type f32 --seed 1"
    subprocess.run([cli.BIN / "make_model", "-o", path, *shape.split()], check=True, stdout=subprocess.DEVNULL)
    return path


cli.main()
