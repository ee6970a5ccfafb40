#!/usr/bin/env python3
"""tokenizer_compare.py - how fast texts become ids: bench_tokenizer next to tokenizers and tiktoken.

    build/venv/bin/python3 bench/tokenizer/tokenizer_compare.py build/release/bin/bench_tokenizer [ROUNDS] > rows.csv

On ../shared/data, everything in one thread. In every round the programs run in turn, ours first; medians of the rounds
are shown. Rates are 10^6 bytes of text in a second. Our program gets a text in one call; the libraries are faster with
a few kilobytes at a time, so both are measured and the ratio is to the better. Libraries that are not installed are
left out (./check does not install tiktoken).

CSV: vocabulary,text,library,ours_mb_s,theirs_whole_mb_s,theirs_parts_mb_s,ratio,load_ms
"""
import base64
import csv
import importlib
import importlib.metadata
import io
import json
import os
import statistics
import subprocess
import sys
import time
from pathlib import Path

os.environ["TOKENIZERS_PARALLELISM"] = "false"
os.environ["RAYON_NUM_THREADS"] = "1"
DATA = Path(__file__).resolve().parents[3] / "shared" / "data"
TEXTS = ["tinyshakespeare.txt", "wagahaiwa_nekodearu.txt", "sharegpt_multiturn_run.json"]
CL100K = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}%s| ?[^\s\p{L}\p{N}]+[\r\n]*"
          r"|\s*[\r\n]+|\s+(?!\S)|\s+")
VOCABULARIES = [  # file, pre-tokenizer, library
    ("gpt-neox-20b/20B_tokenizer.json", None, "tokenizers"), ("phi-2/tokenizer.json", None, "tokenizers"),
    ("minimind/tokenizer.json", None, "tokenizers"), ("llama2/tokenizer.json", None, "tokenizers"),
    ("llama3/tokenizer.model", "llama-bpe", "tiktoken"), ("qwen/qwen.tiktoken", "qwen2", "tiktoken"),
]


def as_pair(merge, vocab):
    """The library wants merges of pieces with spaces inside as pairs."""
    cuts = [[merge[:i], merge[i + 1:]] for i, c in enumerate(merge) if c == " "] if isinstance(merge, str) else [merge]
    return next((cut for cut in cuts if len(cuts) > 1 and all(p in vocab for p in (*cut, "".join(cut)))), cuts[0])


def load_tokenizers(library, path, _):
    data = json.loads(path.read_text(encoding="utf-8"))
    data["model"]["merges"] = [as_pair(merge, data["model"]["vocab"]) for merge in data["model"]["merges"]]
    tok = library.Tokenizer.from_str(json.dumps(data))
    return lambda text: tok.encode(text, add_special_tokens=False)


def load_tiktoken(library, path, pre):
    ranks = {base64.b64decode(token): int(rank) for token, rank in map(bytes.split, path.read_bytes().splitlines())}
    pattern = CL100K % ("{1,3}" if pre == "llama-bpe" else "")
    return library.Encoding(path.name, pat_str=pattern, mergeable_ranks=ranks, special_tokens={}).encode_ordinary


LOAD = {"tokenizers": load_tokenizers, "tiktoken": load_tiktoken}


def ours(bench, path, pre, text):
    """MB/s and the time to load, of one run after an uncounted one."""
    args = [bench, *(["--pre", pre] if pre else []), "--runs", "3", path, "--", text]
    out = subprocess.run(args, check=True, capture_output=True, text=True).stdout
    row = next(csv.DictReader(io.StringIO(out)))
    return float(row["encode_mb_s"]), float(row["load_ms"])


def theirs(encode, texts):
    n_bytes = sum(len(text.encode()) for text in texts)
    start = time.perf_counter()
    for text in texts:
        encode(text)
    return n_bytes / 1e6 / (time.perf_counter() - start)


def parts_of(text, size=4000):
    return [text[i:i + size] for i in range(0, len(text), size)]


def compare(bench, rounds, path, pre, encode, text_path):
    text = text_path.read_bytes().decode()
    theirs(encode, parts_of(text[:20000]))
    runs = [(*ours(bench, path, pre, text_path), theirs(encode, [text]), theirs(encode, parts_of(text)))
            for _ in range(rounds)]
    return [statistics.median(column) for column in zip(*runs)]


def main(bench, rounds="5"):
    write = csv.writer(sys.stdout, lineterminator="\n").writerow
    write(["vocabulary", "text", "library", "ours_mb_s", "theirs_whole_mb_s", "theirs_parts_mb_s", "ratio", "load_ms"])
    for name, pre, library in VOCABULARIES:
        try:
            module = importlib.import_module(library)
        except ImportError:
            continue
        path = DATA / "tokenizers" / name
        encode = LOAD[library](module, path, pre)
        for text in TEXTS:
            mine, load_ms, whole, parts = compare(bench, int(rounds), path, pre, encode, DATA / "prompts" / text)
            version = importlib.metadata.version(library)
            write([name, text, f"{library} {version}", f"{mine:.2f}", f"{whole:.2f}", f"{parts:.2f}",
                   f"{mine / max(whole, parts):.1f}", f"{load_ms:.0f}"])
            sys.stdout.flush()


if __name__ == "__main__":
    main(*sys.argv[1:])
