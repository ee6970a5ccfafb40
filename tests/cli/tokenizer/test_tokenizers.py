"""Vocabularies against the libraries that published models were made with: the same ids, the same decoded text.

    tokenizers      every tokenizer.json of ../shared/data/tokenizers
    sentencepiece   models that are trained here, and the one there, as GGUF's keys say them
    .inp/.out       published vectors for the rank files

The texts: what ../shared/data/prompts holds, and random ones of every kind of character. FX_TOKENIZERS_ALL=1, as
FX_TEST_LONG, takes all of them; otherwise a sample that takes seconds.
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
    import gguf
    import sentencepiece
    import tokenizers
    from sentencepiece import sentencepiece_model_pb2
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

ANSWERS = os.environ["FLEXINFER_ANSWERS"]
SHARED = Path(__file__).resolve().parents[4] / "shared" / "data"
FILES = SHARED / "tokenizers"
ALL = bool(os.environ.get("FX_TOKENIZERS_ALL") or os.environ.get("FX_TEST_LONG"))
SPACE, CONTROL = 1, 2  # FXI_ENCODE_
SHOW_CONTROL = 1       # FXI_DECODE_


class Ours:
    """A running tokenizer_answers."""

    def __init__(self, path, pre=None):
        self.process = subprocess.Popen([ANSWERS, str(path), *([pre] if pre else [])],
                                        stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.size, bos, eos = (self.answer(0) for _ in range(3))
        self.before, self.after = [[id - 1] if id else [] for id in (bos, eos)]

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

    def encode_around(self, text):
        """With the tokens that the vocabulary puts around a text."""
        return self.before + self.encode(text) + self.after

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
        yield text if ALL else text[:20000]


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
        text = path.read_text(encoding="utf-8")
        lines = text.splitlines() if path.suffix == ".jsonl" else [text]
        texts += [s for line in lines for s in strings_in(json.loads(line))]
    return texts if ALL else random.Random(1).sample(texts, min(len(texts), 60))


def settled(c):
    """Whether Unicode versions from 3.2 on agree on a character: the libraries' tables come from different versions."""
    c = chr(c)
    if unicodedata.ucd_3_2_0.category(c) != "Cn" or "\U00040000" <= c < "\U000e0000":
        return True
    return unicodedata.category(c) != "Cn" and not unicodedata.combining(c) and not unicodedata.decomposition(c)


KINDS = [  # ranges of code points, each a kind of text
    [(0x20, 0x7F)], [(0x09, 0x0E), (0x20, 0x21)], [(0x20, 0x21)],
    [(0x30, 0x3A), (0x660, 0x66A), (0xB2, 0xB4), (0x2160, 0x2180)],
    [(0x41, 0x5B), (0x61, 0x7B), (0x27, 0x28)], [(0xA0, 0x250)], [(0x300, 0x370)], [(0x370, 0x500)], [(0x590, 0x700)],
    [(0x900, 0xE00)], [(0x1100, 0x1200), (0xAC00, 0xD7A4)], [(0x2000, 0x2070)], [(0x2070, 0x2C00)],
    [(0x3000, 0x3100), (0x4E00, 0x9FA6)],
    [(0xE000, 0xE100)], [(0xF900, 0xFB00)], [(0xFB00, 0xFE00)], [(0xFE00, 0xFFF0)], [(0x0, 0x20), (0x7F, 0xA0)],
    [(0x1F300, 0x1F700), (0x200D, 0x200E), (0xFE0F, 0xFE10)], [(0x10000, 0x10400)], [(0x20000, 0x2A6D7)],
    [(0x2F800, 0x2FA1E)],
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
    return 20000 if ALL else 150


# ---- the comparisons ---------------------------------------------------------------------------

class Compare(unittest.TestCase):
    def same(self, name, text, want, got):
        if want == got:
            return
        at = next((i for i, (a, b) in enumerate(zip(want, got)) if a != b), min(len(want), len(got)))
        self.fail(f"{name}: differs at {at}: want {want[at:at + 12]!a}, got {got[at:at + 12]!a}: {text[:300]!a}")


def looks_control(piece):
    """Spelled like a mark of chat templates: flexinfer never takes it for text, whatever the file says."""
    bars = piece[:2] in ("<|", "<\uff5c") and piece[-2:] in ("|>", "\uff5c>")
    return bars or piece in ("<s>", "</s>")


class Json:
    """Hugging Face's library with a tokenizer.json. It differs from flexinfer in two points:

    - it refuses merges of pieces that contain spaces if they are written as one string;
    - it decodes a normalized token to its normalized text, and so does not take it for special.
    """

    def __init__(self, path):
        data = json.loads(path.read_text(encoding="utf-8"))
        model = data["model"]
        model["merges"] = [self.pair(merge, model["vocab"]) for merge in model.get("merges", [])]
        self.tok = tokenizers.Tokenizer.from_str(json.dumps(data))
        added = self.tok.get_added_tokens_decoder()
        self.words = [t.content for t in added.values()]
        self.control = {i for i, t in added.items() if t.special or looks_control(t.content)}
        self.marks = [t.content for t in added.values() if not t.special and looks_control(t.content)]
        self.changed = {i for i, t in added.items() if self.tok.id_to_token(i) != t.content}
        self.size = self.tok.get_vocab_size(with_added_tokens=True)

    @staticmethod
    def pair(merge, vocab):
        if not isinstance(merge, str):
            return merge
        cuts = [(merge[:i], merge[i + 1:]) for i, c in enumerate(merge) if c == " "]
        good = [cut for cut in cuts if cut[0] in vocab and cut[1] in vocab and "".join(cut) in vocab]
        return list((good or cuts)[0])

    def encode(self, text, special=True, around=False):
        self.tok.encode_special_tokens = not special
        return self.tok.encode(text, add_special_tokens=around).ids

    def decode(self, ids, skip):
        return self.tok.decode([i for i in ids if not (skip and i in self.control)], skip_special_tokens=skip)


class TokenizerJson(Compare):
    def compare(self, name, ours, theirs, text):
        ids = theirs.encode(text)
        self.same(name, text, ids, ours.encode(text))
        self.same(name + " around", text, theirs.encode(text, around=True), ours.encode_around(text))
        if not any(mark in text for mark in theirs.marks):
            self.same(name + " plain", text, theirs.encode(text, special=False), ours.encode(text, SPACE))
        self.same(name + " decoded", text, theirs.decode(ids, True), ours.decode(ids))
        if not theirs.changed & set(ids):
            self.same(name + " decoded whole", text, theirs.decode(ids, False), ours.decode(ids, SHOW_CONTROL))

    def one_file(self, path):
        theirs, ours = Json(path), Ours(path)
        self.assertEqual(ours.size, theirs.size)
        for texts in (prompt_files(), prompts(), random_texts(n_random(), theirs.words)):
            for text in texts:
                self.compare(path.parent.name, ours, theirs, text)
        self.assertEqual(ours.close(), 0)


def add_file(path):
    name = path.parent.name.replace("-", "_").replace(".", "_")
    setattr(TokenizerJson, f"test_{name}", lambda self: self.one_file(path))


def split(regex, behavior="Isolated", invert=False):
    return {"type": "Split", "pattern": {"Regex": regex}, "behavior": behavior, "invert": invert}


def byte_level(regex):
    return {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": regex}


BYTES, GPT2 = byte_level(False), byte_level(True)
ENDINGS = r"(?i:'s|'t|'re|'ve|'m|'ll|'d)"
SPACES = r"\s*[\r\n]+|\s+(?!\S)|\s+"
CASED = r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]%s[\p{Ll}\p{Lm}\p{Lo}\p{M}]%s"
MARKS = r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~]"""
SHAPES = {  # pre-tokenizers of published models, and some that no model has
    "llama3": [split(ENDINGS + r"|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|" + SPACES), BYTES],
    "o200k": [split("|".join((CASED % ("*", "+") + ENDINGS + "?", CASED % ("+", "*") + ENDINGS + "?", r"\p{N}{1,3}",
                              r" ?[^\s\p{L}\p{N}]+[\r\n/]*", SPACES))), BYTES],
    "bloom": [split(" ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"), BYTES],
    "starcoder": [{"type": "Digits", "individual_digits": True}, GPT2],
    "falcon": [{"type": "Punctuation", "behavior": "Contiguous"}, GPT2, {"type": "Digits", "individual_digits": False},
               split("[0-9][0-9][0-9]")],
    "deepseek-v3": [split(r"\p{N}{1,3}"), split("[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"),
                    split(MARKS + r"[A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|" + SPACES),
                    BYTES],
    "deepseek-coder": [split("[\r\n]"), split(r"\s?\p{L}+"), split(r"\s?\p{P}+"), split(r"\s+$"),
                       {"type": "Digits", "individual_digits": True}, BYTES],
    "words": [split(r"\w+|[^\w\s]+|\W"), BYTES],
    "merged": [split(r"\d", "MergedWithPrevious"), split("[aeiou]", "MergedWithNext"), BYTES],
    "removed": [split(r"\p{L}+|\p{N}", "Removed", True), BYTES],
    "lines": [split("[.,]", "Contiguous"), split("^.|.$"), BYTES],
    "scripts": [split(r"\p{Han}+|\p{Katakana}+|\p{Hiragana}+|[\p{Greek}x]+|\P{Latin}"), BYTES],
    "apart": [{"type": "Punctuation", "behavior": "Isolated"}, {"type": "Whitespace"}, BYTES],
}


class PreTokenizers(Compare):
    def test_shapes(self):
        data = json.loads((FILES / "minimind" / "tokenizer.json").read_text(encoding="utf-8"))
        texts = [*random_texts(n_random() // 4), *(text[:5000] for text in prompt_files())]
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "tokenizer.json"
            for name, steps in SHAPES.items():
                data["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": steps}
                path.write_text(json.dumps(data), encoding="utf-8")
                theirs, ours = Json(path), Ours(path)
                for text in texts:
                    self.same(name, text, theirs.encode(text), ours.encode(text))
                self.assertEqual(ours.close(), 0)


def write_gguf(path, model):
    """A SentencePiece model as GGUF's keys."""
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    w = gguf.GGUFWriter(path, "llama")
    w.add_tokenizer_model("t5" if proto.trainer_spec.model_type == 1 else "llama")
    w.add_token_list([p.piece for p in proto.pieces])
    w.add_token_scores([p.score for p in proto.pieces])
    w.add_token_types([p.type for p in proto.pieces])
    w.add_add_space_prefix(proto.normalizer_spec.add_dummy_prefix)
    w.add_remove_extra_whitespaces(proto.normalizer_spec.remove_extra_whitespaces)
    if proto.normalizer_spec.precompiled_charsmap:
        w.add_precompiled_charsmap(proto.normalizer_spec.precompiled_charsmap)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


class SentencePiece(Compare):
    def one_model(self, name, path):
        theirs = sentencepiece.SentencePieceProcessor(model_file=str(path))
        with tempfile.TemporaryDirectory() as folder:
            write_gguf(f"{folder}/m.gguf", Path(path).read_bytes())
            ours = Ours(f"{folder}/m.gguf")
        self.assertEqual(ours.size, theirs.get_piece_size())
        marks = ["<s>", "</s>", "<unk>", "<0x0A>", "\ufb01", "\uff21\uff22", "e\u0301", "CamelCase"]
        for texts in (prompt_files(), prompts(), random_texts(n_random(), marks)):
            for text in texts:
                if "\0" in text:
                    continue  # the library sometimes takes it for the end of the text
                want = theirs.encode(text)
                self.same(name, text, want, ours.encode(text, SPACE))
                if theirs.unk_id() not in want:
                    self.same(name + " decoded", text, theirs.decode(want), ours.decode(want))
        self.assertEqual(ours.close(), 0)

    def trained(self, name, **how):
        """A model trained here on the prompts, with the full character maps that are too large to keep in a file."""
        with tempfile.TemporaryDirectory() as folder:
            corpus = Path(folder) / "corpus.txt"
            corpus.write_text("\n".join(text[:30000] for text in prompt_files()), encoding="utf-8")
            sentencepiece.SentencePieceTrainer.train(
                input=str(corpus), model_prefix=f"{folder}/m", minloglevel=2, vocab_size=3000, character_coverage=0.999,
                **how)
            self.one_model(name, f"{folder}/m.model")

    def test_llama2(self):
        self.one_model("llama2", FILES / "llama2" / "tokenizer.model")

    def test_bpe(self):
        self.trained("bpe", model_type="bpe", byte_fallback=True, normalization_rule_name="identity",
                     remove_extra_whitespaces=False)

    def test_unigram_nfkc(self):
        self.trained("unigram, nmt_nfkc_cf", model_type="unigram", normalization_rule_name="nmt_nfkc_cf")

    def test_unigram_spaces(self):
        self.trained("unigram, spaces", model_type="unigram", normalization_rule_name="identity",
                     remove_extra_whitespaces=False)


class Vectors(Compare):
    """Published texts and ids, for files that none of the libraries reads."""

    def compare(self, name, ours):
        base = FILES / f"ggml-vocab-{name}.gguf"
        texts = base.with_suffix(".gguf.inp").read_text(encoding="utf-8").split("\n__ggml_vocab_test__\n")
        lines = base.with_suffix(".gguf.out").read_text().split("\n")
        self.assertEqual(len(texts), len(lines))
        for text, line in zip(texts, lines):
            self.same(name, text, [int(word) for word in line.split()], ours.encode(text, SPACE))
        self.assertEqual(ours.close(), 0)
        self.assertEqual(len(lines), 47)

    def test_llama3(self):
        self.compare("llama-bpe", Ours(FILES / "llama3" / "tokenizer.model", "llama-bpe"))

    def test_qwen(self):
        self.compare("qwen2", Ours(FILES / "qwen" / "qwen.tiktoken", "qwen2"))

    def test_llama2(self):
        self.compare("llama-spm", Ours(FILES / "ggml-vocab-llama-spm.gguf"))
        self.compare("llama-spm", Ours(FILES / "llama2"))


def main():
    if not FILES.is_dir():
        print("skipped: ../shared/data not present")
        sys.exit(77)
    for path in sorted(FILES.glob("*/*tokenizer.json")):
        add_file(path)
    unittest.main(verbosity=2)


if __name__ == "__main__":
    main()
