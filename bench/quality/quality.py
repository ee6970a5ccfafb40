#!/usr/bin/env python3
"""quality.py - measures what each type of weights and of KV cache costs, and writes the tables of docs/quality.md.

    cmake --build build/release --target flexinfer bench_quality
    bench/quality/quality.py [--llama PYTHON] [--model MODEL] [--text FILE]

MODEL (SmolLM2 of tools/fetch_model) is converted to F32; `flexinfer quantize` makes every type that it knows of that
file, and bench_quality compares each with it over FILE (tests/vectors/trained/manual.txt). PYTHON is one that has
llama-cpp-python: then llama.cpp computes the same from the same files. Needs 3 GB of disk in build/quality, 4 GB of
memory, and about ten minutes on two cores. bench/results/quality-smollm2.csv gets all rows.
"""
import argparse
import csv
import os
import re
import subprocess
import sys
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
PROGRAMS = SOURCE / "build/release/bin"
WORK = SOURCE / "build/quality"
RESULTS = SOURCE / "bench/results/quality-smollm2.csv"
PAGE = SOURCE / "docs/quality.md"
GROUP = 7  # models that a call compares with the base, all in memory at once


def output_of(*command):
    return subprocess.run([str(word) for word in command], check=True, stdout=subprocess.PIPE, text=True).stdout


def weight_types():
    """What quantize offers, in its order, but f32, which is the base."""
    types = output_of(PROGRAMS / "flexinfer", "quantize", "--help").partition("\nTypes: ")[2].partition(".")[0]
    return [name for name in re.findall(r"\w*\d\w*", types) if name != "f32"]


def kv_types():
    return re.search(r"--kv-type (\S+)", output_of(PROGRAMS / "flexinfer", "serve", "--help")).group(1).split("|")


def make_models(model):
    """(base, {type: file})."""
    WORK.mkdir(parents=True, exist_ok=True)
    base = WORK / "f32.gguf"
    output_of(PROGRAMS / "flexinfer", "convert", model, "-o", base, "--type", "f32")
    files = {name: WORK / f"{name}.gguf" for name in weight_types()}
    for name, file in files.items():
        output_of(PROGRAMS / "flexinfer", "quantize", "--allow-requantize", base, file, name)
    return base, files


def measure(command, base, names):
    """The CSV's rows of the models of these names, by name; some at a time."""
    rows = {}
    for at in range(0, len(names), GROUP):
        print("measuring", *(Path(name).name for name in names[at:at + GROUP]), file=sys.stderr)
        for row in csv.DictReader(output_of(*command, base, *names[at:at + GROUP]).splitlines()):
            rows[row.pop("model")] = row
    return rows


def percent(value):
    return f"{100 * float(value):.1f} %"


def line_of(name, row, with_bytes):
    cells = [f"`{name}`"]
    if with_bytes:
        cells.append(f"{int(row['bytes']) / 1e6:.0f}")
    cells += [f"{float(row['perplexity']):.2f}",
              f"{100 * (float(row['ratio']) - 1):+.2f} ± {100 * float(row['ratio_se']):.2f} %",
              f"{float(row['kl_mean']):.5f} ± {float(row['kl_se']):.5f}", f"{float(row['kl_p99']):.4f}",
              percent(row["same_likeliest"])]
    return cells


def table(first, entries, ours, theirs):
    """Markdown; entries: (name in the first column, name of the model)."""
    with_bytes = first == "weights"
    head = [first] + ["MB"] * with_bytes + ["perplexity", "more than the base", "KL, mean", "KL, 99 %", "same likeliest"]
    head += ["llama.cpp: more than its base", "KL, mean", "same likeliest"] if theirs else []
    lines = [head, ["---"] * len(head)]
    for name, model in entries:
        cells = line_of(name, ours[model], with_bytes)
        if theirs:
            other = line_of(name, theirs[model], False) if model in theirs else [""] * 6
            cells += [other[2], other[3], other[5]]
        lines.append(cells)
    return "\n".join("| " + " | ".join(cells) + " |" for cells in lines)


def put_table(name, text):
    """Replaces what stands between the page's marks of this name."""
    page, begin, end = PAGE.read_text(encoding="utf-8"), f"<!-- {name}: bench/quality/quality.py -->\n", "\n<!-- end -->"
    before, rest = page.split(begin)
    PAGE.write_text(before + begin + text + end + rest.split(end, 1)[1], encoding="utf-8")


def publish(weights, caches, ours, theirs):
    """Writes the rows and the tables."""
    with open(RESULTS, "w", encoding="utf-8", newline="") as file:
        columns = ["program", "model", *next(iter(ours.values()))]
        out = csv.DictWriter(file, columns, lineterminator="\n")
        out.writeheader()
        for program, rows in (("flexinfer", ours), ("llama.cpp", theirs)):
            out.writerows({"program": program, "model": Path(name).name, **row} for name, row in rows.items())
    put_table("weights", table("weights", weights, ours, theirs))
    put_table("caches", table("cache", caches, ours, theirs))


def main():
    cache = Path(os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache"))
    options = argparse.ArgumentParser(description="see the top of this file")
    options.add_argument("--model", type=Path, default=cache / "flexinfer/models/SmolLM2-135M-Instruct.Q4_1.gguf")
    options.add_argument("--text", type=Path, default=SOURCE / "tests/vectors/trained/manual.txt")
    options.add_argument("--llama", metavar="PYTHON")
    o = options.parse_args()
    base, files = make_models(o.model)
    weights = [("f32", str(base))] + [(name, str(file)) for name, file in files.items()]
    caches = [(name, f"{base}@{name}") for name in kv_types()]
    names = [model for _, model in weights[1:] + caches]
    ours = measure([PROGRAMS / "bench_quality", "--text", o.text], base, names)
    theirs = measure([o.llama, SOURCE / "bench/quality/llama_quality.py", o.text], base, names) if o.llama else {}
    publish(weights, caches, ours, theirs)


if __name__ == "__main__":
    main()
