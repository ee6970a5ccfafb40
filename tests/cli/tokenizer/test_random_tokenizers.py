"""Random tokenizers against the `tokenizers` package: the same ids, the same decoded text.

Each case draws a model, a normalizer, a pre-tokenizer, added tokens and the decoder that fits, trains on a few
sentences, and compares texts of all kinds of characters. Seeded: case N is always the same.

    FX_RANDOM_TOKENIZERS=FROM:TO    the cases to run, to the last one, whatever fails (0:60 by default, 0:150 with
                                    FX_TEST_LONG, to the first
                                    that fails)

Where the library itself stops in a case (its own assertions), the case is counted and skipped.
"""
import json
import os
import random
import sys
import tempfile
import unicodedata
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent))
try:
    from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
    from tokenizers import trainers
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)
from test_tokenizers import SHOW_CONTROL, Compare, Ours, random_texts

N_TEXTS = 60
MARK = "\u2581"

CORPUS = """
The engine keeps each sequence's keys and values in one contiguous range of virtual addresses.
Once upon a time there was a little boat that didn't want to sail. It's I'll we've they're, he'd said.
for (int i = 0; i < 100; i++) { total += value[i] * 3.14159; }   // a comment  with   spaces
1234567890 12 345 6789 2026-11-21, 15:07; $1,000.00 (about 50%) -- really?! #hash @name
Der Fluß fließt über die Brücke. Größe, Maß und Übermut. Straße L'été, la forêt s'éveille; naïve café
Привет, мир! Сегодня хорошая погода. Ελληνικά γράμματα हिन्दी में कुछ शब्द ภาษาไทย العربية
今日は良い天気です。日本語の文章を分割する。 中文分词也很重要。 한국어 문장 e\u0301 n\u0303 \u1112\u1161\u11ab ﬁ Ａ ①
the the the of of and and a to in is was that engine's engine engines the engines' do not can't won't
""".strip().split("\n")

PATTERNS = [
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+",
    r"'s|'t| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+", r"\w+|[^\w\s]+", r"\s+", r"\d{1,3}(?=(?:\d{3})*\b)",
    r"[[:punct:]]", r"[[:alpha:]]+|[[:digit:]]", r"[\p{L}&&[^\p{Han}]]+|\p{Han}", r"[a-z&&[^aeiou]]+", r"\b", r"[^[:space:]]+",
    r"[A-Z][[:lower:]]*|[^\W\d_]+", r"\p{Lu}?[[a-z][^\x00-\x7f]]+", r"(?m:.)\h", r"[\S&&\D&&[^,.]]+", r"\p{Alnum}+", r".",
    r"[[:upper:][:digit:]]+|[[:^ascii:]]", r"$|^", r"(?i)THE|[[:blank:][:cntrl:]]", r"[\w&&\H]+", r"\Bi\B|[[:graph:]]\u0069",
]
BEHAVIORS = ["isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"]


def is_stable(c):
    """Whether every version of Unicode from 3.2 on says the same of a character: the library's tables come from several
    versions, up to 25 years old."""
    old, new = unicodedata.ucd_3_2_0.category(c), unicodedata.category(c)
    return (old == new and not "\u0363" <= c <= "\u036f"
            and unicodedata.combining(c) == unicodedata.ucd_3_2_0.combining(c)
            and unicodedata.decomposition(c) == unicodedata.ucd_3_2_0.decomposition(c))


class Case:
    """A tokenizer from dice."""

    def __init__(self, number):
        self.dice = random.Random(number)
        family = self.dice.choice(["bytes", "marks", "plain", "plain"])
        getattr(self, family)()
        self.add_tokens()

    def chance(self, p):
        return self.dice.random() < p

    # ---- normalizers

    def normalizer(self):
        pick = self.dice.choice
        return pick([
            normalizers.NFC, normalizers.NFD, normalizers.NFKC, normalizers.NFKD, normalizers.Lowercase,
            normalizers.StripAccents, normalizers.Nmt,
            lambda: normalizers.Strip(left=self.chance(0.7), right=self.chance(0.5)),
            lambda: normalizers.Replace(pick(["a", "th", "  ", "'"]), pick(["", "b", " ", "''"])),
            lambda: normalizers.Replace(Regex(pick(PATTERNS)), pick(["", "x", " "])),
            lambda: normalizers.Replace(Regex(" {2,}"), pick([" ", MARK])),
            lambda: normalizers.Prepend(pick([" ", "x", MARK])),
            lambda: normalizers.BertNormalizer(clean_text=self.chance(0.7), handle_chinese_chars=self.chance(0.7),
                                               strip_accents=pick([None, True, False]), lowercase=self.chance(0.6)),
        ])()

    def normalizers(self, more=()):
        steps = [self.normalizer() for _ in range(self.dice.choice([0, 0, 1, 1, 2, 3]))] + list(more)
        if len(steps) == 1 and self.chance(0.5):
            return steps[0]
        return normalizers.Sequence(steps) if steps else None

    # ---- pre-tokenizers

    def cut(self):
        pick = self.dice.choice
        return pick([
            lambda: pre_tokenizers.Split(Regex(pick(PATTERNS)), pick(BEHAVIORS), invert=self.chance(0.2)),
            lambda: pre_tokenizers.Split(pick([" ", ".", "th", MARK]), pick(BEHAVIORS)),
            lambda: pre_tokenizers.Digits(individual_digits=self.chance(0.5)),
            lambda: pre_tokenizers.Punctuation(pick(BEHAVIORS)),
            pre_tokenizers.Whitespace, pre_tokenizers.WhitespaceSplit, pre_tokenizers.BertPreTokenizer,
            lambda: pre_tokenizers.CharDelimiterSplit(pick([" ", "e", "."])),
        ])()

    def cuts(self, most=2):
        return [self.cut() for _ in range(self.dice.randrange(most + 1))]

    def pre_tokenizer(self, steps):
        if not steps:
            return None
        return steps[0] if len(steps) == 1 else pre_tokenizers.Sequence(steps)

    # ---- families

    def bytes(self):
        self.tok = Tokenizer(models.BPE(ignore_merges=self.chance(0.3)))
        norm = self.normalizers()
        if norm:
            self.tok.normalizer = norm
        steps = self.cuts()
        steps.append(pre_tokenizers.ByteLevel(add_prefix_space=self.chance(0.4), use_regex=self.chance(0.5)))
        if self.chance(0.2):
            steps.append(pre_tokenizers.Digits(individual_digits=self.chance(0.5)))
        self.tok.pre_tokenizer = self.pre_tokenizer(steps)
        self.tok.decoder = decoders.ByteLevel()
        alphabet = pre_tokenizers.ByteLevel.alphabet()
        if self.chance(0.4):
            alphabet = self.dice.sample(sorted(alphabet), 200)  # bytes without a token
        self.train(trainers.BpeTrainer, initial_alphabet=alphabet)

    def metaspace(self):
        return self.dice.choice(["always", "first", "never"])

    def marks(self):
        """U+2581 for spaces: by Metaspace, or by a normalizer, as Llama's files do."""
        model = self.dice.choice(["BPE", "Unigram"])
        fallback = self.chance(0.5)
        scheme = self.metaspace()
        by_norm = self.chance(0.4)
        how = {"byte_fallback": fallback}
        self.tok = Tokenizer(models.BPE(fuse_unk=self.chance(0.5), **how) if model == "BPE" else models.Unigram())
        replace = [normalizers.Replace(" ", MARK)] if by_norm else []
        if by_norm and self.chance(0.5):
            replace.insert(self.dice.randrange(2), normalizers.Prepend(MARK))
        norm = self.normalizers(replace)
        if norm:
            self.tok.normalizer = norm
        steps = self.cuts(1)
        if not by_norm:
            steps.append(pre_tokenizers.Metaspace(prepend_scheme=scheme, split=self.chance(0.6)))
            steps += self.cuts(1)
        if steps:
            self.tok.pre_tokenizer = self.pre_tokenizer(steps)
        if by_norm:
            steps = [decoders.Replace(MARK, " "), decoders.ByteFallback(), decoders.Fuse()]
            self.tok.decoder = decoders.Sequence(steps + [decoders.Strip(" ", 1, 0)] * self.chance(0.5))
        else:
            metaspace = decoders.Metaspace(prepend_scheme=scheme)
            self.tok.decoder = decoders.Sequence([metaspace, decoders.ByteFallback()]) if fallback else metaspace
        if model == "BPE":
            self.train(trainers.BpeTrainer, limit_alphabet=self.dice.choice([40, 1000]))
        else:
            self.train(trainers.UnigramTrainer)
        if fallback:
            self.add_bytes(model)

    def add_bytes(self, model):
        data = json.loads(self.tok.to_str())
        pieces = [f"<0x{b:02X}>" for b in range(256)]
        if self.chance(0.2):
            pieces = self.dice.sample(pieces, 220)
        vocab = data["model"]["vocab"]
        for piece in pieces:
            if model == "BPE":
                vocab.setdefault(piece, len(vocab))
            else:
                vocab.append([piece, -20.0])
        data["model"]["byte_fallback"] = True
        self.tok = Tokenizer.from_str(json.dumps(data))

    def plain(self):
        kind = self.dice.choice(["WordPiece", "WordPiece", "WordLevel", "BPE", "Unigram"])
        norm = self.normalizers()
        steps = self.cuts(3) or [pre_tokenizers.BertPreTokenizer()]
        prefix = self.dice.choice(["##", "##", "@", ""])
        make = {
            "WordPiece": lambda: models.WordPiece(unk_token="[UNK]", continuing_subword_prefix=prefix,
                                                  max_input_chars_per_word=self.dice.choice([100, 4])),
            "WordLevel": lambda: models.WordLevel(unk_token="[UNK]"),
            "BPE": lambda: models.BPE(unk_token="[UNK]" if self.chance(0.3) else None, fuse_unk=self.chance(0.5)),
            "Unigram": models.Unigram,
        }
        self.tok = Tokenizer(make[kind]())
        if norm:
            self.tok.normalizer = norm
        self.tok.pre_tokenizer = self.pre_tokenizer(steps)
        train = {"WordPiece": trainers.WordPieceTrainer, "WordLevel": trainers.WordLevelTrainer,
                 "BPE": trainers.BpeTrainer, "Unigram": trainers.UnigramTrainer}[kind]
        how = {"continuing_subword_prefix": prefix} if kind == "WordPiece" else {}
        if kind in ("BPE", "WordPiece"):
            how["limit_alphabet"] = self.dice.choice([40, 1000])
        self.train(train, **how)
        decoder = self.dice.choice(["none", "fuse", "words", "words"])
        if decoder == "fuse":
            self.tok.decoder = decoders.Fuse()
        elif decoder == "words":
            self.tok.decoder = decoders.WordPiece(prefix=prefix or "##", cleanup=self.chance(0.6))

    def train(self, kind, **how):
        specials = ["[UNK]", "[CLS]", "[SEP]"]
        sizes = [300, 600] if kind is trainers.UnigramTrainer else [150, 300, 600]
        if kind is trainers.UnigramTrainer:
            how["unk_token"] = "[UNK]"
        if kind is not trainers.WordLevelTrainer:
            how["show_progress"] = False
        self.tok.train_from_iterator(CORPUS, kind(vocab_size=self.dice.choice(sizes), special_tokens=specials,
                                                  **how))

    def add_tokens(self):
        self.words = []
        spelled = {""}
        for content in ("<tool>", "word", " lead", "NoRm", "\u00e9t\u00e9", MARK + "x", "  ", "the"):
            normalizer = self.tok.normalizer
            spelling = normalizer.normalize_str(content) if normalizer else content
            if not self.chance(0.25) or spelling in spelled:
                continue
            spelled.add(spelling)
            self.words.append(content)
            self.tok.add_tokens([AddedToken(content, lstrip=self.chance(0.2), rstrip=self.chance(0.2),
                                            single_word=self.chance(0.3), normalized=self.chance(0.5))])
        if self.chance(0.5):
            ids = [(name, self.tok.token_to_id(name)) for name in ("[CLS]", "[SEP]")]
            self.tok.post_processor = self.dice.choice([
                lambda: processors.BertProcessing(ids[1], ids[0]),
                lambda: processors.TemplateProcessing(single="[CLS] $A [SEP]", special_tokens=ids)])()


    def can_decode(self, ids):
        """Not where the library decodes an added token as the steps leave it."""
        added = {i: t.content for i, t in self.tok.get_added_tokens_decoder().items()}
        changed = {i for i, content in added.items() if self.tok.id_to_token(i) != content or not content.isascii()}
        return not changed & set(ids)

    def texts(self, number):
        yield from CORPUS[:2]
        for text in random_texts(N_TEXTS, self.words + ["the ", "engine", "  "], seed=number):
            text = "".join(filter(is_stable, text))
            yield text.replace("<0x", "<x")  # Unigram finds byte tokens in a text


def start_cases():
    """Metaspace of every scheme after normalizers that remove the first spaces; pieces of equal scores."""
    pieces = [("<unk>", 0.0)] + [(p, -1.0) for p in (MARK, MARK * 2, "a", MARK + "a", "b", MARK + "b", "ab", "aa")]
    strips = [None, normalizers.Strip(left=True, right=False), normalizers.Replace(Regex("^ +"), " "),
              normalizers.Sequence([normalizers.Strip(left=True, right=True), normalizers.Prepend(" ")])]
    for norm in strips:
        for scheme in ("always", "first", "never"):
            tok = Tokenizer(models.Unigram(pieces, 0))
            if norm:
                tok.normalizer = norm
            tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme)
            yield tok


class RandomTokenizers(Compare):
    def compare(self, number, case, ours, text):
        tok = case.tok
        try:
            tok.encode_special_tokens = False
            ids = tok.encode(text, add_special_tokens=False).ids
        except Exception:  # the library has no unknown token, or a pattern takes too long
            self.assertIsInstance(ours.encode(text), list)
            return
        self.same(f"case {number}: ids", text, ids, ours.encode(text))
        self.same(f"case {number}: around", text, tok.encode(text).ids, ours.encode_around(text))
        if case.can_decode(ids):
            self.same(f"case {number}: decoded", text, tok.decode(ids), ours.decode(ids))
            self.same(f"case {number}: decoded whole", text, tok.decode(ids, False), ours.decode(ids, SHOW_CONTROL))

    def one_case(self, number, folder):
        try:
            case = Case(number)
        except BaseException as panic:  # of the library's Rust code: no Exception
            if type(panic).__name__ != "PanicException":
                raise
            return False
        path = Path(folder) / "tokenizer.json"
        path.write_text(case.tok.to_str(), encoding="utf-8")
        ours = Ours(path)
        for text in case.texts(number):
            try:
                self.compare(number, case, ours, text)
            except BaseException as panic:
                if type(panic).__name__ != "PanicException":
                    raise
                return False
        self.assertEqual(ours.close(), 0)
        return True

    def test_spaces_at_the_start(self):
        """Where the first space of a text goes: into steps, in front of the first word, and out of the decoded text."""
        texts = ["", " ", "a", " a", "  a", "   a b", "a  b ", MARK + "a", MARK + MARK + " a", " <x> a", "<x>  a", "<x>"]
        for number, tok in enumerate(start_cases()):
            tok.decoder = decoders.Metaspace(prepend_scheme=("always", "first", "never")[number % 3])
            tok.add_tokens([AddedToken(" <x>" if number % 2 else "<x>", normalized=False)])
            with tempfile.TemporaryDirectory() as folder:
                path = Path(folder) / "tokenizer.json"
                path.write_text(tok.to_str(), encoding="utf-8")
                ours = Ours(path)
                for text in texts:
                    ids = tok.encode(text, add_special_tokens=False).ids
                    self.same(f"case {number}: ids", text, ids, ours.encode(text))
                    self.same(f"case {number}: decoded", text, tok.decode(ids), ours.decode(ids))
                self.assertEqual(ours.close(), 0)

    def test_random(self):
        wanted = os.environ.get("FX_RANDOM_TOKENIZERS")
        first, last = map(int, (wanted or ("0:150" if "FX_TEST_LONG" in os.environ else "0:60")).split(":"))
        n_compared = 0
        for number in range(first, last):
            with tempfile.TemporaryDirectory() as folder:
                if wanted:
                    with self.subTest(number):
                        n_compared += self.one_case(number, folder)
                else:
                    n_compared += self.one_case(number, folder)
        self.assertGreater(n_compared, (last - first) * 0.9)


if __name__ == "__main__":
    unittest.main(verbosity=2)
