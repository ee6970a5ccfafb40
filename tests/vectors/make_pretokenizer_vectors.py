#!/usr/bin/env python3
"""make_pretokenizer_vectors.py - the ids that the `tokenizers` package gives texts cut by the pre-tokenizers of
published models, written to pretokenizers.json beside this file:

    merges   pairs, in the order of their ranks; ids are 256 bytes, then what the merges make
    texts
    ids      by the name of the pre-tokenizer, of each text

The merges were learned from the same texts without any cut: wherever a pre-tokenizer does not cut, something merges, so
that a cut too many or too few gives other ids. The patterns are those of the models' own tokenizer.json, as published.
"""
import json
from pathlib import Path

from tokenizers import Regex, Tokenizer, models, normalizers, pre_tokenizers, trainers

TEXTS = [
    "Hello, world! It's 12 o'clock; I'LL go, you'Re late, we've 'd 'x.",
    "1 12 123 1234 12345 123456 1,234.5 3.14e-10 7th x2 x22 2x 22x 1st2nd",
    "    four spaces\n\n\n  two\t\ttabs \t mixed\r\n\r\nend  \n ",
    "HelloWorld iPhone XMLHttpRequest camelCase UPPER lower MiXeD Ünïcödé ÀÉÎ éÀ",
    "def f(x):\n    return x[0]->y(); // note...!!! #tag @me <b>&amp;</b> $5 +1 =2 `q` ~/a\\b|c^d",
    "https://example.com/a/b?c=d&e=f#g user_name@mail.org __init__ ____ -- --- a-b",
    "日本語のテキスト、そして漢字とカタカナ。123円「括弧」！？ 全角　スペース",
    "中文文本，没有空格。价格是１２３元；共45个。",
    "한국어 문장입니다. 숫자 2024년 그리고 조사들을",
    "Привет, мир! Съешь 12 ещё этих мягких. ΑΒΓ αβγ Ωmega",
    "नमस्ते दुनिया १२३ हिन्दी। ภาษาไทย ๑๒๓ שלום עולם ١٢٣ مرحبا، العالم۔",
    "e\u0301 cafe\u0301 n\u0303 \u1112\u1161\u11ab a\u0323\u0307 \u212b \ufb01",
    "½ ¼ ² ³ x² ① Ⅷ ٣ 12½ ⅓3",
    "🙂🙂 👩‍👩‍👧 ❤️ 🇩🇪 a🙂b",
    "\u00a0nbsp\u00a0\u00a0x \u2009thin \u3000ideo\u3000 \u200bzero \u180emongol \u0085nel \u2028line",
    "…wait… “quoted” ‘single’ «guillemets» —dash– •bullet °C €5 £6 ©®™",
    "a  b   c    d     e\n f\n  g\n\n h \n",
    "'s 'S 't 'LL 'ſ don'tSTOP can'T'm 'revel 'dog",
    "ſ K Ω ǅ ǆ Ǆ ª º ʰ ˈ ـ々〆",
    "\x00\x01\x1c\x1f\x7f control \x0b\x0c feeds",
    "a/b\n/c\r\n//\r\n!?\n\n?!\r\r",
    "  leading and trailing  ",
    "1234567 12345678 ١٢٣٤٥ <sentinel:12>IMGIMGABZ 漢字kanji ㄅㄆㄇ ｱｲｳ ไทย๑๒ မြန်မာ it 's a test ,x",
    "\n", " ", "", "x",
]

GPT2 = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
QWEN35 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
O200K = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?"
         r"|\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
          r"|[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
          r"|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
BLOOM = r" ?[^(\s|[.,!?…。，、।۔،])]+"
CONTRACTIONS, WORD = "(?i:'s|'t|'re|'ve|'m|'ll|'d)", r"[^\r\n\p{L}\p{N}]?"
SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
JAIS2 = LLAMA3[:LLAMA3.index(r"|\s+(?!\S)")] + "".join(
    r"|\s{%s}(?!\S)" % n for n in (512, 256, 128, 64, 32, 16, 8, 4, "1,2")) + r"|\s{1}"
SEED_CODER = CONTRACTIONS + "|" + WORD + r"\p{L}+|\p{N}{1}| ?[^\s\p{L}\p{N}\r\n]+" + SPACES
BAILING = (r"'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}+|\p{N}| ?[^\s\p{L}\p{N}]++[\r\n]*|\s*[\r\n]|\s+(?!\S)|\s+")
EXAONE_MOE = (CONTRACTIONS + "|" + WORD + r"(?:\p{L}\p{M}*(?: \p{L}\p{M}*)*)+|\p{N}| ?[^\s\p{L}\p{N}]+[\r\n/]?"
              r"|\s*[\r\n]|\s+(?!\S)|\s+")
UPPER, LOWER = (r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]", r"[\p{Ll}\p{Lm}\p{Lo}\p{M}&&[^\p{Han}]]")
KIMI_K2 = "|".join([r"[\p{Han}]+", WORD + UPPER + "*" + LOWER + "+" + CONTRACTIONS + "?",
                    WORD + UPPER + "+" + LOWER + "*" + CONTRACTIONS + "?",
                    r"\p{N}{1,3}", r" ?[^\s\p{L}\p{N}]+[\r\n]*"]) + SPACES
HAN_KANA = r"[一-龥぀-ゟ゠-ヿ]+"
YOUTU_SCRIPTS = (r"[가-힣ㄱ-ㆎ]+|[！…“”‘’—：；，、-〿" "\ufe30-\ufe4f" r"]+|[ㄅ-ㄯ]+|" + HAN_KANA)
AFMOE_SCRIPTS = ("[\u4e00-\u9fff\u3400-\u4dbf\uf900-\ufaff\u3040-\u309f\u30a0-\u30ff\uff65-\uff9f\u2f00-\u2fdf"
                 "\u0e40-\u0e7f\u0e80-\u0eff\u1780-\u17ff\u1000-\u109f\uaa60-\uaa7f\ua9e0-\ua9ff\uac00-\ud7af"
                 "\u1100-\u11ff]+")
DEEPSEEK_V3 = (r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+"""
               r"""| ?[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+""")
SPARK = DEEPSEEK_V3.replace(r"[\p{P}\p{S}]+[\r\n]*|\s*[\r\n]+", r"[\p{P}\p{S}]+|[\r\n]")
# Ends of ranges that Unicode's normal forms would change are written as escapes.
DEEPSEEK_LETTERS = (
    r"\s?[A-Za-zµÀ-ÖØ-öø-ƺƼ-ƿǄ-ʓʕ-ʯͰ-ͳͶͷͻ-ͽͿΆΈ-ΊΌΎ-ΡΣ-ϵϷ-ҁҊ-ԯԱ-ՖႠ-ჅᎠ-Ᏽᏸ-ᏽᲐ-ᲺᲽ-Ჿᴀ-ᴫᵫ-ᵷᵹ-ᶚḀ-ἕἘ-Ἕἠ-ὅὈ-Ὅὐ-ὗὙὛὝὟ-"
    "\u1f7d" r"ᾀ-ᾴᾶ-ᾼ" "\u1fbe" r"ῂ-ῄῆ-ῌῐ-" "\u1fd3" r"ῖ-" "\u1fdb" r"Ῠ-Ῥῲ-ῴῶ-ῼℂℇℊ-ℓℕℙ-ℝℤ" "\u2126" r"ℨ" "\u212a"
    r"-ℭℯ-ℴℹℼ-ℿⅅ-ⅉⅎↃↄⰀ-ⱻⱾ-ⳤ" "\u2ceb-\u2cee\u2cf2\u2cf3"
    r"Ꙁ-ꙭꚀ-ꚛꜢ-ꝯꝱ-ꞇꞋ-ꞎꭰ-ꮿﬀ-ﬆﬓ-ﬗＡ-Ｚａ-ｚ𐐀-𐑏𐒰-𐓓𐓘-𐓻𐲀-𐲲𐳀-𐳲𑢠-𑣟𞤀-𞥃]+")
DEEPSEEK_MARKS = r"\s?[!-/:-~！-／：-～‘-‟　-。]+"
HAN_HANGUL = r"[一-龥ࠀ-一가-퟿]+"


def cut(*patterns):
    return [pre_tokenizers.Split(Regex(p), "isolated") for p in patterns]


BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
GPT2_BYTES = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
DIGITS = pre_tokenizers.Digits(individual_digits=True)

STEPS = {
    "gpt-2": [GPT2_BYTES],
    "smollm": [DIGITS, GPT2_BYTES],
    "llama-bpe": [*cut(LLAMA3), BYTES],
    "chatglm-bpe": [*cut(LLAMA3), BYTES],
    "qwen2": [*cut(QWEN2), BYTES],
    "stablelm2": [*cut(QWEN2), BYTES],
    "qwen35": [*cut(QWEN35), BYTES],
    "gpt-4o": [*cut(O200K), BYTES],
    "tekken": [*cut(TEKKEN), BYTES],
    "deepseek-llm": [*cut(r"[\r\n]", DEEPSEEK_LETTERS, DEEPSEEK_MARKS, r"\s+$", HAN_HANGUL, r"\p{N}+"), BYTES],
    "deepseek-coder": [*cut(r"[\r\n]", r"\s?\p{L}+", r"\s?\p{P}+", HAN_HANGUL), DIGITS, BYTES],
    "deepseek-v3": [*cut(r"\p{N}{1,3}", r"[一-龥぀-ゟ゠-ヿ]+", DEEPSEEK_V3), BYTES],
    "falcon": [pre_tokenizers.Punctuation("contiguous"), GPT2_BYTES, pre_tokenizers.Digits(individual_digits=False),
               *cut("[0-9][0-9][0-9]")],
    "bloom": [*cut(BLOOM), BYTES],
    "viking": [*cut(BLOOM), DIGITS, BYTES],
    "laguna": [*cut(r"[^\n]+|[\n]+", QWEN2), BYTES],
    "ufakzeka": [*cut(QWEN2.replace(CONTRACTIONS + "|", "")), BYTES],
    "minicpm5": [*cut(r"\p{N}{1,3}", LLAMA3.replace("{1,3}", "+")), BYTES],
    "jais-2": [*cut(JAIS2), BYTES],
    "seed-coder": [*cut(SEED_CODER), BYTES],
    "bailingmoe": [*cut(BAILING), BYTES],
    "exaone-moe": [*cut(EXAONE_MOE), BYTES],
    "tiny_aya": [*cut(r"\d{1,3}(?=(?:\d{3})*\b)", O200K), BYTES],
    "youtu": [*cut(YOUTU_SCRIPTS, O200K.replace("{1,3}", "")), BYTES],
    "kimi-k2": [*cut(KIMI_K2), BYTES],
    "spark2_5": [*cut(r"\p{N}{1,3}", HAN_KANA, SPARK, r"\p{N}"), BYTES],
    "afmoe": [*cut(r"\p{N}{1,3}(?=(?:\p{N}{3})*(?!\p{N}))", AFMOE_SCRIPTS, DEEPSEEK_V3), BYTES],
    "superbpe": [*cut(r"\p{N}+", r"(?=(\d{3})+(?!\d))"), BYTES],
    "chameleon": [*cut("<sentinel:[0-9]+>", "(IMGIMG)((A|B|C|D|E|F|G|H|I){1,4})Z", r"([\t\n]|    |  )"), DIGITS,
                  pre_tokenizers.Punctuation("isolated"), GPT2_BYTES],
    "default": [*cut(r"[\p{P}\$\+<=>\^~\|]+"), *cut(GPT2), *cut(r"\p{N}+", r"[0-9][0-9][0-9]"), BYTES],
}
NFC = {"qwen2", "qwen35"}
WHOLE_WORDS = {"llama-bpe", "tekken", "minicpm5", "youtu"}


def byte_characters():
    """GPT-2's characters, in the order of their bytes."""
    itself = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = iter(range(0x100, 0x200))
    return [chr(b) if b in itself else chr(next(others)) for b in range(256)]


def learn():
    """Merges of the texts as they are, byte by byte."""
    tok = Tokenizer(models.BPE())
    tok.pre_tokenizer = BYTES
    tok.train_from_iterator(TEXTS * 2, trainers.BpeTrainer(
        vocab_size=256 + 700, min_frequency=2, show_progress=False, max_token_length=9,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet()))
    merges = [tuple(m) for m in json.loads(tok.to_str())["model"]["merges"]]
    vocab = {c: i for i, c in enumerate(byte_characters())}
    for left, right in merges:
        vocab.setdefault(left + right, len(vocab))
    return vocab, merges


def encode_all(name, vocab, merges):
    tok = Tokenizer(models.BPE(vocab=vocab, merges=merges, ignore_merges=name in WHOLE_WORDS))
    if name in NFC:
        tok.normalizer = normalizers.NFC()
    tok.pre_tokenizer = pre_tokenizers.Sequence(STEPS[name])
    return [" ".join(map(str, tok.encode(t).ids)) for t in TEXTS]


def main():
    vocab, merges = learn()
    ids = {name: encode_all(name, vocab, merges) for name in STEPS}
    out = {"merges": [list(m) for m in merges], "texts": TEXTS, "ids": ids}
    path = Path(__file__).resolve().parent / "pretokenizers.json"
    path.write_text(json.dumps(out, ensure_ascii=False, separators=(",", ":")) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
