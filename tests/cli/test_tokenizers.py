"""Vocabularies against the libraries that published models were made with: the same ids, the same decoded text.

    tokenizers      every tokenizer.json of ../shared/data/tokenizers
    sentencepiece   every SentencePiece model there, and some that are trained here
    .inp/.out       published vectors for the rank files

The texts: what ../shared/data/prompts holds, and random ones of every kind of character. FX_TOKENIZERS_ALL=1 takes all
of them; otherwise a sample that takes seconds.
"""
import json
import os
import random
import struct
import subprocess
import sys
import tempfile
import unicodedata
import unittest
from pathlib import Path

try:
    import sentencepiece
    import tokenizers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ANSWERS = os.environ["FLEXINFER_ANSWERS"]
SHARED = Path(__file__).resolve().parents[3] / "shared" / "data"
FILES = SHARED / "tokenizers"
ALL = bool(os.environ.get("FX_TOKENIZERS_ALL"))
SPACE, CONTROL = 1, 2  # FXI_ENCODE_
SHOW_CONTROL = 1       # FXI_DECODE_


class Ours:
    """tokenizer_answers, asked."""

    def __init__(self, path, pre=None):
        self.process = subprocess.Popen([ANSWERS, str(path), *([pre] if pre else [])],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.size = self.answer(0)

    def answer(self, unit):
        n, _, error = self.process.stdout.readline().decode().rstrip("\n").partition(" ")
        if not n or int(n) < 0:
            raise RuntimeError(error or "no answer")
        return self.process.stdout.read(int(n) * unit) if unit else int(n)

    def ask(self, what, flags, n, body, unit):
        self.process.stdin.write(b"%s %d %d\n" % (what, flags, n) + body)
        self.process.stdin.flush()
        return self.answer(unit)

    def encode(self, text, flags=SPACE | CONTROL):
        body = text.encode()
        raw = self.ask(b"E", flags, len(body), body, 4)
        return list(struct.unpack(f"<{len(raw) // 4}i", raw))

    def decode(self, ids, flags=0):
        return self.ask(b"D", flags, len(ids), struct.pack(f"<{len(ids)}i", *ids), 1).decode(errors="replace")

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        return self.process.wait()


# ---- texts -------------------------------------------------------------------------------------

def prompt_files():
    for path in sorted((SHARED / "prompts").glob("*.txt")):
        text = path.read_bytes().decode()
        yield text if ALL else text[:60000]


def strings_in(data):
    """Every string of a JSON document."""
    if isinstance(data, str):
        yield data
    elif isinstance(data, dict):
        for value in data.values():
            yield from strings_in(value)
    elif isinstance(data, list):
        for value in data:
            yield from strings_in(value)


def prompts():
    texts = []
    for path in sorted((SHARED / "prompts").glob("*.json*")):
        lines = path.read_text(encoding="utf-8").splitlines() if path.suffix == ".jsonl" else [path.read_text(encoding="utf-8")]
        texts += [s for line in lines for s in strings_in(json.loads(line))]
    return texts if ALL else random.Random(1).sample(texts, min(len(texts), 150))


def settled(c):
    """Whether Unicode's versions of some years agree on a character: assigned long ago, or never."""
    return unicodedata.category(chr(c)) != "Cn" or 0x40000 <= c < 0xE0000


KINDS = [  # ranges of code points, each a kind of text
    [(0x20, 0x7F)], [(0x09, 0x0E), (0x20, 0x21)], [(0x20, 0x21)], [(0x30, 0x3A), (0x660, 0x66A), (0xB2, 0xB4), (0x2160, 0x2180)],
    [(0x41, 0x5B), (0x61, 0x7B), (0x27, 0x28)], [(0xA0, 0x250)], [(0x300, 0x370)], [(0x370, 0x500)], [(0x590, 0x700)],
    [(0x900, 0xE00)], [(0x1100, 0x1200), (0xAC00, 0xD7A4)], [(0x2000, 0x2070)], [(0x2070, 0x2C00)], [(0x3000, 0x3100), (0x4E00, 0x9FA6)],
    [(0xE000, 0xE100)], [(0xF900, 0xFB00)], [(0xFB00, 0xFE00)], [(0xFE00, 0xFFF0)], [(0x0, 0x20), (0x7F, 0xA0)],
    [(0x1F300, 0x1F700), (0x200D, 0x200E), (0xFE0F, 0xFE10)], [(0x10000, 0x10400)], [(0x20000, 0x2A6D7)], [(0x2F800, 0x2FA1E)],
    [(0x1D400, 0x1D800)], [(0xF0000, 0xF0100)], [(0x10FF00, 0x110000)], [(0x40000, 0x50000)], [(0xFFFE, 0x10000)],
]


def random_run(dice):
    kind = dice.choice(KINDS)
    out = []
    for _ in range(dice.choice([1, 1, 2, 3, 5, 12])):
        low, high = dice.choice(kind)
        c = dice.randrange(low, high)
        if settled(c) and not 0xD800 <= c < 0xE000:
            out.append(chr(c))
    return "".join(out) * dice.choice([1, 1, 1, 1, 2, 30])


def random_texts(n, words=(), seed=7):
    """Runs of characters of some kind each, among them pieces of the vocabulary's own special words."""
    dice = random.Random(seed)
    extra = [" ", "  ", "\n", "\r\n", "\u2581", "\t", " \n", "'s", "don't", "I'LL", "<0x0A>", "e\u0301", "123456789"]
    for _ in range(n):
        parts = []
        for _ in range(dice.randrange(1, 9)):
            roll = dice.random()
            if words and roll < 0.2:
                parts.append(dice.choice(words))
            elif roll < 0.5:
                parts.append(dice.choice(extra))
            else:
                parts.append(random_run(dice))
        yield "".join(parts)


def n_random():
    return 20000 if ALL else 400


# ---- the comparisons ---------------------------------------------------------------------------

class Compare(unittest.TestCase):
    def same(self, name, text, want, got):
        if want == got:
            return
        at = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
        self.fail(f"{name}: {text[:300]!a}: differs at {at}: want {want[at:at + 12]!a}, got {got[at:at + 12]!a}")


class TokenizerJson(Compare):
    def compare(self, name, ours, theirs, text, marks):
        for special in (True, False):
            theirs.encode_special_tokens = not special
            want = theirs.encode(text, add_special_tokens=False).ids
            self.same(name, text, want, ours.encode(text, SPACE | (CONTROL if special else 0)))
        theirs.encode_special_tokens = False
        want = theirs.encode(text, add_special_tokens=False).ids
        for flags, skip in ((0, True), (SHOW_CONTROL, False)):
            self.same(name + " decoded", text, theirs.decode(want, skip_special_tokens=skip), ours.decode(want, flags))

    def one_file(self, path):
        theirs = tokenizers.Tokenizer.from_file(str(path))
        ours = Ours(path)
        added = [t.content for t in theirs.get_added_tokens_decoder().values()]
        self.assertEqual(ours.size, theirs.get_vocab_size(with_added_tokens=True))
        for texts in (prompt_files(), prompts(), random_texts(n_random(), added)):
            for text in texts:
                self.compare(path.parent.name, ours, theirs, text, added)
        self.assertEqual(ours.close(), 0)


def add_file(path):
    name = path.parent.name.replace("-", "_").replace(".", "_")
    setattr(TokenizerJson, f"test_{name}", lambda self: self.one_file(path))


class SentencePiece(Compare):
    def one_model(self, name, path):
        theirs = sentencepiece.SentencePieceProcessor(model_file=str(path))
        ours = Ours(path)
        self.assertEqual(ours.size, theirs.get_piece_size())
        marks = ["<s>", "</s>", "<unk>", "<0x0A>", "\u2581\u2581", "<tool>"]
        for texts in (prompt_files(), prompts(), random_texts(n_random(), marks)):
            for text in texts:
                if "\0" in text:
                    continue  # the library takes it for the text's end in places
                want = theirs.encode(text)
                self.same(name, text, want, ours.encode(text, SPACE))
                if theirs.unk_id() not in want:
                    self.same(name + " decoded", text, theirs.decode(want), ours.decode(want))
        self.assertEqual(ours.close(), 0)

    def trained(self, name, **how):
        """A model of the prompts' text, made now: with the full maps of characters that are too large to keep."""
        with tempfile.TemporaryDirectory() as folder:
            corpus = Path(folder) / "corpus.txt"
            corpus.write_text("\n".join(text[:30000] for text in prompt_files()), encoding="utf-8")
            sentencepiece.SentencePieceTrainer.train(
                input=str(corpus), model_prefix=f"{folder}/m", minloglevel=2, vocab_size=3000, character_coverage=0.999, **how)
            self.one_model(name, f"{folder}/m.model")

    def test_llama2(self):
        self.one_model("llama2", FILES / "llama2" / "tokenizer.model")

    def test_bpe_nfkc(self):
        self.trained("bpe, nmt_nfkc", model_type="bpe", user_defined_symbols=["<tool>", "\u2581\u2581"])

    def test_unigram_nfkc(self):
        self.trained("unigram, nmt_nfkc_cf", model_type="unigram", normalization_rule_name="nmt_nfkc_cf",
                     user_defined_symbols=["<tool>"])

    def test_unigram_bytes(self):
        self.trained("unigram, bytes", model_type="unigram", byte_fallback=True, normalization_rule_name="identity",
                     remove_extra_whitespaces=False)


class Vectors(Compare):
    """Published texts and ids for files that no library here reads."""

    def compare(self, name, ours):
        base = FILES / f"ggml-vocab-{name}.gguf"
        texts = base.with_suffix(".gguf.inp").read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
        lines = base.with_suffix(".gguf.out").read_text().splitlines()
        self.assertEqual(len(texts), len(lines))
        for text, line in zip(texts, lines):
            self.same(name, text, [int(word) for word in line.split()], ours.encode(text, SPACE))
        self.assertEqual(ours.close(), 0)
        self.assertEqual(len(lines), 47)

    def test_llama3(self):
        self.compare("llama-bpe", Ours(FILES / "llama3" / "tokenizer.model", "llama-bpe"))

    def test_llama3_pair(self):
        self.compare("llama-bpe", Ours(FILES / "llama3.2" / "encoder.json", "llama-bpe"))

    def test_qwen(self):
        self.compare("qwen2", Ours(FILES / "qwen" / "qwen.tiktoken", "qwen2"))

    def test_llama2(self):
        self.compare("llama-spm", Ours(FILES / "llama2" / "tokenizer.model"))
        self.compare("llama-spm", Ours(FILES / "llama2"))

    def test_pair_and_ranks(self):
        ranks = Ours(FILES / "llama3" / "tokenizer.model", "llama-bpe")
        pair = Ours(FILES / "llama3.2" / "encoder.json", "llama-bpe")
        for texts in (prompts(), random_texts(n_random(), ["<|eot_id|>", "<|begin_of_text|>"])):
            for text in texts:
                self.same("pair", text, ranks.encode(text), pair.encode(text))
        self.assertEqual((ranks.close(), pair.close()), (0, 0))


def main():
    if not FILES.is_dir():
        print("skipped: ../shared/data not present")
        sys.exit(77)
    for path in sorted(FILES.glob("*/*tokenizer.json")):
        add_file(path)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
