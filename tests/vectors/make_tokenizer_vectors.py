#!/usr/bin/env python3
"""make_tokenizer_vectors.py - small vocabularies in every supported form, and the results of the libraries that
published models were made with: tests/vectors/tokenizers/*.

    build/venv/bin/python3 tests/vectors/make_tokenizer_vectors.py

tokenizers and sentencepiece make the vocabularies, the ids and the decoded texts; the rank file's ids are made
here by the definition (join the pair of lowest rank). The result is committed: tests need neither library.
"""
import base64
import json
import os
import re
import tempfile
from pathlib import Path

import gguf
import sentencepiece
from sentencepiece import sentencepiece_model_pb2
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers, pre_tokenizers, processors, trainers

OUT = Path(__file__).resolve().parent / "tokenizers"

CORPUS = """
The engine keeps each sequence's keys and values in one contiguous range of virtual addresses.
A request arrives, is parsed, and its prompt is turned into tokens; the scheduler plans a step.
Once upon a time there was a little boat that didn't want to sail. It's I'll we've they're, he'd said.
for (int i = 0; i < 100; i++) { total += value[i] * 3.14159; }   // a comment  with   spaces
1234567890 12 345 6789 2026-11-21, 15:07; $1,000.00 (about 50%) -- really?! #hash @name
Der Fluß fließt über die Brücke. Größe, Maß und Übermut. Straße
L'été, la forêt s'éveille; où es-tu? Ça va bien, merci. naïve café déjà vu
Привет, мир! Сегодня хорошая погода. Ελληνικά γράμματα
今日は良い天気です。日本語の文章を分割する。 中文分词也很重要。 한국어 문장
""".strip()

TEXTS = [
    "", " ", "  ", "\n", "\t", "\r\n", " \n \n\n  x", "Hello", "Hello world", " Hello  world  ",
    "the engine keeps the keys", "didn't they're I'LL we've", "x=1234567 + 89.5;", "100% (sure)!!! -- #1",
    "tab\there\n\n\nnew   lines \n", "Der Fluß über Größe", "L'été, où es-tu?",
    "cafe\u0301 e\u0301te\u0301 A\u030a", "Привет, мир!", "今日は良い天気です。", "한국어 \u1112\u1161\u11ab",
    "ﬁne ＡＢＣ① \u2126 \u00a0x\u3000y", "\U0001f600 \U0001f468\u200d\U0001f469\u200d\U0001f467 \U0001f1e9\U0001f1ea",
    "\u2581under\u2581score \u2581", "\u0301\u0302 \u200b\ufeff", "\ue000\uffff\U0010ffff\u0378", "a" * 50,
    " " * 20 + "x" + " " * 9, "²³¹¼½ É² 一二三 ٣٤", "\u0000\u0001\u007f\u0085\u180e", "İstanbul ẞ ǅ ΑΣ",
    "!?.,;:¡¿«»„“—…、。！", "<s>Hello</s>", "a<s> b </s>c", "<tool>x <tool> y<tool>", "xwordy word word, a word",
    "\u0915\u093f \u0939\u0941\u0906\u20dd", "1234567 89x 1,000 -a-b", "  the\tengine  's didn't. , do not",
    "<sp>  <mask> <mask>  end", "NoRm norm NORM", "<0x41><0x0A>", "<unk>", "|<|end|>|", "é\u0301<tool>\u0301",
]


def corpus():
    return CORPUS.split("\n")


# ---- tokenizer.json ----------------------------------------------------------------------------

ADDED = [
    AddedToken("<tool>", special=False, normalized=False),
    AddedToken("word", special=False, single_word=True, normalized=False),
    AddedToken("<mask>", special=True, lstrip=True, normalized=False),
    AddedToken("<sp>", special=True, rstrip=True, normalized=False),
    AddedToken("NORM", special=False, normalized=True),
]

WORDS = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
         r"|\s*[\r\n]+|\s+(?!\S)|\s+")


def template(tok):
    ids = {name: tok.token_to_id(name) for name in ("<s>", "</s>")}
    return processors.TemplateProcessing(single="<s> $A </s>", special_tokens=list(ids.items()))


def trained(tok, alphabet=(), kind=trainers.BpeTrainer, **how):
    specials = [AddedToken(s, special=True, normalized=False) for s in ("<unk>", "<s>", "</s>")]
    if kind is not trainers.WordLevelTrainer:
        how["initial_alphabet"] = list(alphabet)
    tok.train_from_iterator(corpus(), kind(vocab_size=360, show_progress=False, special_tokens=specials, **how))
    tok.add_tokens([t for t in ADDED if not t.special])
    tok.add_special_tokens([t for t in ADDED if t.special])
    return tok


def words():
    """NFC, a published pattern, ByteLevel; whole words first; begin and end."""
    tok = Tokenizer(models.BPE(ignore_merges=True))
    tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(WORDS), "isolated"),
        pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)])
    tok.decoder = decoders.ByteLevel()
    trained(tok, pre_tokenizers.ByteLevel.alphabet())
    tok.post_processor = processors.Sequence([processors.ByteLevel(), template(tok)])
    return tok


def prefix_space():
    """ByteLevel alone, with a space in front of every text."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    tok.decoder = decoders.ByteLevel()
    return trained(tok, pre_tokenizers.ByteLevel.alphabet())


def after_bytes():
    """Steps after ByteLevel, which see bytes."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Punctuation("contiguous"), pre_tokenizers.ByteLevel(add_prefix_space=False),
        pre_tokenizers.Digits(individual_digits=False), pre_tokenizers.Split(Regex("[0-9][0-9][0-9]"), "isolated")])
    tok.decoder = decoders.ByteLevel()
    return trained(tok, pre_tokenizers.ByteLevel.alphabet())


BYTES = [f"<0x{b:02X}>" for b in range(256)]


def with_bytes(tok):
    """The vocabulary with byte tokens; the trainers know none."""
    data = json.loads(tok.to_str())
    data["model"]["byte_fallback"] = True
    if data["model"]["type"] == "Unigram":
        data["model"]["vocab"] += [[piece, 0.0] for piece in BYTES]
        first = len(data["model"]["vocab"])
    else:
        first = max(data["model"]["vocab"].values()) + 1
        data["model"]["vocab"].update({piece: first + i for i, piece in enumerate(BYTES)})
        first += 256
    for token in data["added_tokens"]:
        if token["content"] not in ("<unk>", "<s>", "</s>"):
            token["id"] = first
            first += 1
    return Tokenizer.from_str(json.dumps(data))


def fallback():
    """SentencePiece's BPE as tokenizer.json has it: a mark in front, byte tokens."""
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tok.normalizer = normalizers.Sequence([normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")])
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="never")
    tok.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse(),
                                     decoders.Strip(" ", 1, 0)])
    trained(tok)
    tok.post_processor = template(tok)
    tok = with_bytes(tok)
    data = json.loads(tok.to_str())
    data["pre_tokenizer"] = None
    for token in data["added_tokens"][:3]:
        token["normalized"] = True
    data["model"]["merges"] = [" ".join(pair) for pair in data["model"]["merges"]]
    return Tokenizer.from_str(json.dumps(data)), data


def unigram():
    """Unigram over words that begin with a mark; NFKC; one unknown token for a run of unknown characters."""
    tok = Tokenizer(models.Unigram())
    tok.normalizer = normalizers.Sequence([
        normalizers.Nmt(), normalizers.NFKC(), normalizers.Replace(Regex(" {2,}"), " ")])
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tok.decoder = decoders.Metaspace(prepend_scheme="always")
    return trained(tok, kind=trainers.UnigramTrainer, unk_token="<unk>")


def unigram_first():
    """A mark in front of the very first text alone, words not cut; byte tokens."""
    tok = Tokenizer(models.Unigram())
    tok.normalizer = normalizers.Strip(left=False, right=True)
    tok.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    tok.decoder = decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="first")])
    trained(tok, kind=trainers.UnigramTrainer, unk_token="<unk>")
    return with_bytes(tok)


def plain():
    """Lower case without accents; words and punctuation apart, digits single, white space gone."""
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=False))
    tok.normalizer = normalizers.Sequence([normalizers.NFD(), normalizers.Lowercase(), normalizers.StripAccents()])
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Whitespace(), pre_tokenizers.Digits(individual_digits=True),
        pre_tokenizers.Punctuation("isolated"),
        pre_tokenizers.Split("ing", "merged_with_previous"), pre_tokenizers.Split("qu", "merged_with_next"),
        pre_tokenizers.WhitespaceSplit()])
    tok.decoder = decoders.Fuse()
    return trained(tok)


def bert():
    """BERT's steps and pieces; spaces between words."""
    tok = Tokenizer(models.WordPiece(unk_token="<unk>", max_input_chars_per_word=20))
    tok.normalizer = normalizers.BertNormalizer()
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    trained(tok, kind=trainers.WordPieceTrainer)
    tok.post_processor = template(tok)
    return tok


def cased():
    """BERT's steps without lower case; whole words of a list; nothing decodes them."""
    tok = Tokenizer(models.WordLevel(unk_token="<unk>"))
    tok.normalizer = normalizers.BertNormalizer(lowercase=False, strip_accents=True, handle_chinese_chars=False)
    tok.pre_tokenizer = pre_tokenizers.Sequence([pre_tokenizers.Whitespace(), pre_tokenizers.CharDelimiterSplit("e")])
    return trained(tok, kind=trainers.WordLevelTrainer)


def split_marks():
    """A mark in front of every word that white space cuts, as in XLM-RoBERTa's file."""
    tok = Tokenizer(models.Unigram())
    tok.normalizer = normalizers.Sequence([normalizers.NFKC(), normalizers.StripAccents()])
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace(prepend_scheme="always")])
    tok.decoder = decoders.Metaspace(prepend_scheme="always")
    return trained(tok, kind=trainers.UnigramTrainer, unk_token="<unk>")


def gemma():
    """Spaces are marks and join the word before them; byte tokens."""
    tok = Tokenizer(models.BPE(unk_token="<unk>", fuse_unk=True))
    tok.normalizer = normalizers.Replace(" ", "\u2581")
    tok.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tok.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    return with_bytes(trained(tok))


def classes():
    """Classes as only Oniguruma has them; characters without a token are dropped."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"[[:digit:]]{1,3}(?=(?:\d{3})*\b)"), "isolated"),
        pre_tokenizers.Split(Regex(r"[\p{L}\p{M}&&[^\p{Han}]]+|\p{Han}|[[:punct:]&&[^-]]|[^\W\d[\x80-\u017f]]"), "isolated"),
        pre_tokenizers.Split(Regex(r"(?m:[[:^ascii:]].)"), "merged_with_next")])
    tok.decoder = decoders.Fuse()
    return trained(tok, limit_alphabet=60)


def json_cases(tok):
    """The library's results for the texts, without those that differ from ours on purpose: its Unigram finds special
    and byte tokens in a text too, and it decodes a token marked `normalized` to its normalized spelling."""
    added = tok.get_added_tokens_decoder()
    special = {i for i, t in added.items() if t.special}
    changed = {i for i, t in added.items() if tok.id_to_token(i) != t.content}
    unigram = json.loads(tok.to_str())["model"]["type"] == "Unigram"
    for text in TEXTS:
        if unigram and "<0x" in text:
            continue
        ids = tok.encode(text, add_special_tokens=False).ids
        tok.encode_special_tokens = True
        without = tok.encode(text, add_special_tokens=False).ids
        tok.encode_special_tokens = False
        around = tok.encode(text, add_special_tokens=True).ids
        case = {"text": text, "ids": ids, "n_around": len(around) - len(ids)}
        if not changed & set(ids):
            case["decoded"] = tok.decode(ids, skip_special_tokens=True)
        if not special & set(without):
            case["without_special"] = without
        yield case


def make_json(name, made):
    tok, data = made if isinstance(made, tuple) else (made, json.loads(made.to_str()))
    (OUT / name).write_text(json.dumps(data, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")
    return {"file": name, "cases": list(json_cases(tok))}


# ---- SentencePiece -----------------------------------------------------------------------------

RULES = {"ﬁ": "fi", "Ａ": "A", "Ｂ": "B", "Ｃ": "C", "①": "1", "e\u0301": "é", "\u00a0": " ", "\u3000": " ", "\t": " ",
         "\n": " ", "\u200b": "", "\ufeff": "", "…": "...", "\u2126": "\u03a9"}


def make_rules():
    Path("rules.tsv").write_text("".join(" ".join(f"{ord(c):X}" for c in a) + "\t" + " ".join(f"{ord(c):X}" for c in b) + "\n"
                                 for a, b in RULES.items()), encoding="utf-8")


def write_gguf(name, model):
    """The keys that GGUF has for a SentencePiece model."""
    proto = sentencepiece_model_pb2.ModelProto()
    proto.ParseFromString(model)
    trainer, norm = proto.trainer_spec, proto.normalizer_spec
    unigram = trainer.model_type == 1
    w = gguf.GGUFWriter(OUT / name, "llama")
    w.add_tokenizer_model("t5" if unigram else "llama")
    w.add_token_list([p.piece for p in proto.pieces])
    w.add_token_scores([p.score for p in proto.pieces])
    w.add_token_types([p.type for p in proto.pieces])
    w.add_bos_token_id(trainer.bos_id)
    w.add_eos_token_id(trainer.eos_id)
    w.add_unk_token_id(trainer.unk_id)
    w.add_add_bos_token(True)
    w.add_add_eos_token(False)
    w.add_add_space_prefix(norm.add_dummy_prefix)
    if unigram:
        w.add_remove_extra_whitespaces(norm.remove_extra_whitespaces)
        w.add_precompiled_charsmap(norm.precompiled_charsmap)
    w.write_header_to_file()
    w.write_kv_data_to_file()
    w.close()


def make_sentencepiece(name, **how):
    """Trains in the working folder."""
    Path("corpus.txt").write_text(CORPUS, encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input="corpus.txt", model_prefix="made", character_coverage=1.0, minloglevel=2, **how)
    write_gguf(name, Path("made.model").read_bytes())
    sp = sentencepiece.SentencePieceProcessor(model_file="made.model")
    cases = []
    for text in TEXTS:
        ids = sp.encode(text)
        case = {"text": text, "without_special": ids, "n_around": 1}
        if sp.unk_id() not in ids and "\u2581" not in text:
            case["decoded"] = sp.decode(ids)
        cases.append(case)
    return {"file": name, "cases": cases}


# ---- a rank file -------------------------------------------------------------------------------

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?[^\W\d_]+| ?\d+| ?(?:[^\s\w]|_)+|\s+(?!\S)|\s+"


def by_definition(word, ranks):
    """The pair of lowest rank is joined, the leftmost of equals, until none is left."""
    parts = [bytes([b]) for b in word]
    if word in ranks:
        return [ranks[word]]
    while True:
        pairs = [(ranks[a + b], i) for i, (a, b) in enumerate(zip(parts, parts[1:])) if a + b in ranks]
        if not pairs:
            return [ranks[p] for p in parts]
        _, i = min(pairs)
        parts[i:i + 2] = [parts[i] + parts[i + 1]]


def train_ranks(n):
    """Bytes in an order of their own, then the most frequent pairs."""
    ranks = {bytes([(b + 33) % 256]): b for b in range(256)}
    corpus_words = [[bytes([b]) for b in w.encode()] for w in re.findall(r" ?\S+|\s+", CORPUS)]
    while len(ranks) < n:
        count = {}
        for parts in corpus_words:
            for pair in zip(parts, parts[1:]):
                count[pair] = count.get(pair, 0) + 1
        a, b = max(count, key=lambda pair: (count[pair], pair))
        ranks.setdefault(a + b, len(ranks))
        for parts in corpus_words:
            i = 0
            while i + 1 < len(parts):
                if (parts[i], parts[i + 1]) == (a, b):
                    parts[i:i + 2] = [a + b]
                i += 1
    return ranks


def make_ranks(name):
    ranks = train_ranks(400)
    (OUT / name).write_bytes(b"".join(base64.b64encode(t) + b" %d\n" % r for t, r in ranks.items()))
    special = len(ranks)
    cases = []
    for text in [t for t in TEXTS if t.isascii() and "\0" not in t] + ["a<|endoftext|>b", "don't<|endoftext|>"]:
        ids, without = [], [i for w in re.findall(GPT2, text) for i in by_definition(w.encode(), ranks)]
        for k, part in enumerate(text.split("<|endoftext|>")):
            ids += [special] * (k > 0) + [i for w in re.findall(GPT2, part) for i in by_definition(w.encode(), ranks)]
        cases.append({"text": text, "ids": ids, "without_special": without, "n_around": 0,
                      "decoded": text.replace("<|endoftext|>", "")})
    return {"file": name, "pre": "gpt-2", "cases": cases}


def main():
    OUT.mkdir(exist_ok=True)
    done = [make_json(f"{make.__name__}.json", make())
            for make in (words, prefix_space, after_bytes, fallback, unigram, unigram_first, plain, bert, cased,
                         split_marks, gemma, classes)]
    with tempfile.TemporaryDirectory() as folder:
        os.chdir(folder)
        make_rules()
        done += [
            make_sentencepiece("sp_bpe.gguf", model_type="bpe", vocab_size=600, byte_fallback=True,
                               normalization_rule_name="identity", remove_extra_whitespaces=False),
            make_sentencepiece("sp_unigram.gguf", model_type="unigram", vocab_size=200,
                               normalization_rule_tsv="rules.tsv"),
        ]
    done.append(make_ranks("ranks.tiktoken"))
    for case in (case for entry in done for case in entry["cases"]):
        if case.get("ids") == case.get("without_special"):
            case["both"] = case.pop("ids")
            del case["without_special"]
    lines = ",\n".join(json.dumps(d, ensure_ascii=True, separators=(",", ":")) for d in done)
    (OUT / "cases.json").write_text(f"[{lines}]\n", encoding="utf-8")


if __name__ == "__main__":
    main()
