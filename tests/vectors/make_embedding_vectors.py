#!/usr/bin/env python3
"""make_embedding_vectors.py - texts and their vectors, by encoders with vocabularies of their own.

Gives the folders of encoders a small tokenizer.json. Writes models/texts.json: texts, the ids that `tokenizers` gives
them, and what `transformers` and PyTorch make of these, pooled as the folder says and divided by the vector's length;
and models/pairs.json: pairs of texts, their ids and score. tests/unit/engine/test_embedding.c and test_score.c
compare.

Needs torch, transformers and tokenizers (PyPI; tried with 2.15, 5.23 and 0.23). Run it after make_folder_vectors.py.
"""
import glob
import json
import os

import torch
from safetensors.torch import load_file
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers, processors
from transformers import AutoModel, AutoModelForSequenceClassification

HERE = os.path.dirname(os.path.abspath(__file__))
VOCAB = 48
TEXTS = ["", "the cat", "The CAT sat.", "a bat at the mat, the hat?", "caf\u00e9 \u4e2d\u6587 caf", "unbelievable",
         "  spaces\tand\nlines  ", "cats! " * 20]

PAIRS = [("the cat", "a bat sat at the mat"), ("The CAT sat.", ""), ("", "the hat"), ("caf\u00e9 \u4e2d\u6587", "unbelievable, cats!"),
         ("a", "cats! " * 16)]


def wordpiece():
    words = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", "the", "a", "c", "b", "h", "m", "s", "t", "cat", "sat", "bat",
             "at", "mat", "hat", "cafe", "space", "and", "line", "##s", "##at", "##a", "##t", "##e", "##n", "##d", "##l",
             "##i", "un", "##b", "##el", "##iev", "##able", ".", ",", "?", "!", "\u4e2d", "\u6587", "ca", "##f", "##c",
             "##p", "##h"]
    assert len(words) == VOCAB
    tok = Tokenizer(models.WordPiece({w: i for i, w in enumerate(words)}, unk_token="[UNK]"))
    tok.normalizer = normalizers.BertNormalizer()
    tok.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tok.decoder = decoders.WordPiece()
    tok.add_special_tokens(words[:5])
    tok.post_processor = processors.TemplateProcessing("[CLS] $A [SEP]", "[CLS] $A [SEP] $B:1 [SEP]:1",
                                                       [("[CLS]", 2), ("[SEP]", 3)])
    return tok


def unigram():
    mark = "\u2581"
    words = ["<s>", "<pad>", "</s>", "<unk>", mark, mark + "the", mark + "cat", "s", mark + "a", "at", "c", "b", "h", "m", "t", "e",
             "a", ".", ",", "?", "!", mark + "c", mark + "sat", "caf", "\u00e9", "\u4e2d", "\u6587", "un", "be", "l", "i", "ev",
             "able", "n", "d", "p", mark + "and", mark + "line", "space", "v", mark + "un", "f", "ma", "ha", "ba", "believ",
             "<mask>", "o"]
    assert len(words) == VOCAB
    tok = Tokenizer(models.Unigram([(w, 0.0 if i < 4 else -2.0 - i / 16) for i, w in enumerate(words)], 3))
    tok.pre_tokenizer = pre_tokenizers.Metaspace()
    tok.decoder = decoders.Metaspace()
    tok.add_special_tokens(words[:4] + ["<mask>"])
    tok.post_processor = processors.TemplateProcessing("<s> $A </s>", "<s> $A </s> </s> $B </s>",
                                                       [("<s>", 0), ("</s>", 2)])
    return tok


def pooled(folder, model, ids):
    with open(os.path.join(folder, "1_Pooling", "config.json")) as f:
        first = json.load(f)["pooling_mode_cls_token"]
    with torch.no_grad():
        rows = model(torch.tensor([ids])).last_hidden_state[0]
    v = rows[0] if first else rows.mean(0)
    for dense in sorted(glob.glob(os.path.join(folder, "?_Dense", "model.safetensors"))):
        v = load_file(dense)["linear.weight"] @ v
    return [float(f"{x:.7g}") for x in (v / v.norm()).tolist()]


def write_tokenizer(name, tok):
    folder = os.path.join(HERE, "folders", name)
    with open(os.path.join(folder, "tokenizer.json"), "w", encoding="utf-8") as f:
        json.dump(json.loads(tok.to_str()), f, ensure_ascii=False)
        f.write("\n")
    return folder


def make_pairs(name, tok):
    folder = write_tokenizer(name, tok)
    auto = AutoModelForSequenceClassification
    model = auto.from_pretrained(folder, dtype=torch.float32, attn_implementation="eager").eval()
    for first, second in PAIRS:
        e = tok.encode(first, second)
        types = e.type_ids if model.config.type_vocab_size > 1 else [0] * len(e.ids)
        with torch.no_grad():
            logit = model(torch.tensor([e.ids]), token_type_ids=torch.tensor([types])).logits[0, 0]
        n_first = e.sequence_ids.index(1) if 1 in e.sequence_ids else len(e.ids) - 1
        yield {"folder": name, "text_1": first, "text_2": second, "ids": e.ids, "n_first": n_first,
               "score": float(torch.sigmoid(logit.double()))}


def make_folder(name, tok):
    folder = write_tokenizer(name, tok)
    saved = folder + "@transformers" if os.path.exists(folder + "@transformers") else folder
    model = AutoModel.from_pretrained(saved, dtype=torch.float32, attn_implementation="eager").eval()
    for text in TEXTS:
        ids = tok.encode(text).ids
        if len(ids) <= model.config.max_position_embeddings - 2:
            yield {"folder": name, "text": text, "ids": ids, "embedding": pooled(folder, model, ids)}


cases = [c for name, tok in (("bert", wordpiece()), ("bert-mean", wordpiece()), ("nomic-bert", wordpiece()), ("xlm-roberta", unigram()),
                           ("jina-v3", unigram()), ("modern-bert", wordpiece()), ("gemma-embedding", unigram()))
         for c in make_folder(name, tok)]
pairs = [c for name, tok in (("bert-rank", wordpiece()), ("xlm-roberta-rank", unigram())) for c in make_pairs(name, tok)]
for name, all_cases in (("texts", cases), ("pairs", pairs)):
    with open(os.path.join(HERE, "models", f"{name}.json"), "w", encoding="utf-8") as f:
        f.write('{"cases": [\n' + ",\n".join(json.dumps(c) for c in all_cases) + "\n]}\n")
    print(len(all_cases), name)
