"""flexinfer tokenize on a vocabulary that can be tokenised by hand."""
import cli


def ids(*pieces):
    return [259 + cli.PIECES.index(p) for p in pieces]


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


cli.main()
