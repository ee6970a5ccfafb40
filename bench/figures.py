#!/usr/bin/env python3
"""figures.py - draws rows of CSV as figures, with gnuplot.

    bench/figures.py FROM TO    for each figure whose data is in the folder FROM: TO/NAME.svg, TO/NAME.png, and the
                                gnuplot script TO/NAME.gp, which holds the data and can be changed and run again
    bench/figures.py --list     the figures' names

Most figures redraw one of the papers':

    vllm-*        PagedAttention (arXiv 2309.06180)
    vtensor-*     vTensor (arXiv 2407.15309)
    vattention-*  vAttention (arXiv 2405.04437)

The number is that of the paper's figure (t: table); docs/design/evaluation.md compares them. bench/evaluation makes
the data.

    scale-*       what a call of libvtensor costs by what it does not touch: bench_vtensor --only scale;
                  bench/REPORT.md shows them
"""
import subprocess
import sys
from pathlib import Path

LINES, BARS, STACKS = "lines", "bars", "stacks"


def figure(name, title, kind, x, x_label, y, y_label, series=None, data=None, only="", settings=""):
    """x and series name columns; y maps columns to their names in the key ("" shows the series alone); data is the CSV
    file's name without ".csv"; only is "column=value,..": the rows that are drawn. LINES: a line for each series; BARS:
    a bar for each series at each x; STACKS: a bar for each x, whose parts are the columns of y."""
    y = y if isinstance(y, dict) else {y: ""}
    return {"name": name, "title": title, "kind": kind, "x": x, "x_label": x_label, "y": y, "y_label": y_label,
            "series": series, "data": data or name, "settings": settings,
            "only": dict(pair.split("=") for pair in only.split(",") if pair)}


def latency(name, title, **more):
    """Normalised latency over the request rate: where a line turns up, the system is full."""
    return figure(name, title, LINES, "rate_per_s", "requests per second", "s_per_token_mean", "s per token",
                  series="manager", settings="set yrange [0:1]\n", **more)


def choices(name, title, way, x_label, only, y, y_label):
    return figure(name, title, BARS, way, x_label, y, y_label, series="manager", data="vllm-14-choices", only=only)


def waste(name, title):
    """What the budget holds: a bar for each manager."""
    parts = {"used_percent": "tokens", "reserved_percent": "reserved", "internal_percent": "internal",
             "external_percent": "external", "cached_percent": "prefixes", "spare_percent": "spare"}
    return figure(name, title, STACKS, "manager", "", parts, "% of the budget", settings="set yrange [0:100]\n")


def bars(name, title, x, y, y_label, x_label="", series="manager", data=None):
    return figure(name, title, BARS, x, x_label, y, y_label, series=series, data=data)


def scale(name, title, x_label, only):
    axes = "set logscale xy\nset autoscale xfix\nset format x '%.0s%c'\nset yrange [0.01:30000]\n"
    return figure(name, title, LINES, "n", x_label, "value", "us", series="what", data="vtensor-scale-xeon-2cores",
                  only=only, settings=axes)


def scale_figures():
    for chunk, kib in (("64k", 64), ("2m", 2048)):
        size = "64 KiB" if kib == 64 else "2 MiB"
        for what, x_label in (("sequences", "sequences alive"), ("nodes", "nodes of the prefix tree"),
                              ("tokens", "tokens of another sequence")):
            for who in ("sequence", "manager"):
                article = "a" if who == "sequence" else "the"
                yield scale(f"scale-{what}-{who}-{chunk}", f"Calls on {article} {who}, slices of {size}", x_label,
                            f"case={article} {who} next to {what},slice_kib={kib}")
        yield scale(f"scale-giving-{chunk}", f"The longest call while memory goes back, slices of {size}",
                    "GiB that go back to the system", f"case=GiB go back,slice_kib={kib},unit=us")


FIGURES = [
    waste("vllm-02-waste", "Where the KV memory is (ShareGPT, OPT-13B, full load)"),
    waste("vllm-02-real", "Where the KV memory is (Alpaca, a real model, full load)"),
    latency("vllm-12-sharegpt-opt-13b", "ShareGPT, OPT-13B on one A100 40 GB"),
    latency("vllm-12-sharegpt-opt-66b", "ShareGPT, OPT-66B on four A100 40 GB"),
    latency("vllm-12-alpaca-opt-13b", "Alpaca, OPT-13B on one A100 40 GB"),
    latency("vllm-12-alpaca-opt-66b", "Alpaca, OPT-66B on four A100 40 GB"),
    bars("vllm-13-batch", "Sequences in a step (OPT-13B, all requests at once)", "trace", "mean_batch", "mean batch"),
    bars("vllm-13-real", "Sequences in a step (a real model)", "trace", "mean_batch", "mean batch",
         data="vllm-02-real"),
    choices("vllm-14-parallel", "Parallel sampling (Alpaca, OPT-13B)", "choices", "answers to each prompt", "beams=0",
            "requests_per_s", "requests per second"),
    choices("vllm-14-beam", "Beam search (Alpaca, OPT-13B)", "beams", "beams", "choices=1", "requests_per_s",
            "requests per second"),
    choices("vllm-15-parallel", "Memory saved by sharing: parallel sampling", "choices", "answers to each prompt",
            "beams=0", "shared_percent", "% of the tokens held"),
    choices("vllm-15-beam", "Memory saved by sharing: beam search", "beams", "beams", "choices=1", "shared_percent",
            "% of the tokens held"),
    latency("vllm-16-prefix-80", "A shared prefix of 80 tokens (LLaMA-13B)", data="vllm-16-prefix",
            only="prefix_tokens=80"),
    latency("vllm-16-prefix-341", "A shared prefix of 341 tokens (LLaMA-13B)", data="vllm-16-prefix",
            only="prefix_tokens=341"),
    figure("vllm-18-block-size", "Block size of paged memory (OPT-13B)", LINES, "block_tokens", "tokens in a block",
           "s_per_token_mean", "s per token", series="trace", settings="set logscale x 2\n"),
    figure("vllm-19-preempt", "Preemption: swap or compute again (ShareGPT, OPT-13B)", LINES, "rate_per_s",
           "requests per second", "s_per_token_mean", "s per token", series="preempt"),
    figure("vtensor-02-memory", "Memory against the batch (Yi-6B, A100 80 GB)", LINES, "max_seq", "sequences",
           "mapped_mean_gb", "GB of KV memory taken", series="manager"),
    bars("vtensor-09-throughput", "Throughput without sharing (A100 80 GB)", "model", "output_tokens_per_s",
         "tokens per second"),
    bars("vtensor-10-sharing", "Throughput of conversations in turns and of shared prefixes", "trace",
         "output_tokens_per_s", "tokens per second"),
    figure("vtensor-11-timeline", "Memory as load rises and falls (Yi-6B, A100 80 GB)", LINES, "at_s", "s",
           {"mapped_gb": "taken", "live_gb": "tokens"}, "GB of KV memory", series="manager"),
    bars("vattention-09-offline", "Long documents, all at once (arXiv)", "model", "requests_per_s",
         "requests per second"),
    figure("vattention-10-online", "Long documents arrive at random times (arXiv, Yi-6B)", LINES, "rate_per_s",
           "requests per second", "first_token_p50_s", "s to the first token, median", series="manager",
           settings="set yrange [0:30]\n"),
    bars("vattention-12-ahead", "Time in memory calls that a step waits for", "model", "driver_percent",
         "% of the time"),
    bars("vattention-t8-page", "Page size against the batch", "page_kib", "mean_batch", "mean batch",
         x_label="KiB in a page", series="model"),
    *scale_figures(),
]

HEAD = """# {name}, drawn by bench/figures.py; draw again: gnuplot {name}.gp
set encoding utf8
set title "{title}"
set xlabel "{x_label}"
set ylabel "{y_label}"
set grid y lc rgb '#dddddd'
set border 3
set tics nomirror
set key outside right top
set colorsequence podo
set yrange [0:*]
{settings}set output '/dev/null'
set terminal svg
"""

OUTPUTS = """name = '{name}'
set output name.'.svg'
set terminal svg size 760,400 dynamic font 'sans-serif,13' background 'white' noenhanced
replot
set output name.'.png'
set terminal pngcairo size 1140,600 font 'sans-serif,13' noenhanced
replot
"""


class Fault(Exception):
    """What is wrong, in one line."""


def read_rows(path):
    """The rows of a CSV file, none of whose fields holds a comma or a quote, as dictionaries."""
    names, *lines = [line.split(",") for line in path.read_text(encoding="utf-8").splitlines()] or [[]]
    for number, fields in enumerate(lines, 2):
        if len(fields) != len(names):
            raise Fault(f"{path}:{number}: {len(fields)} fields, expected {len(names)}")
    if not lines:
        raise Fault(f"{path}: no rows")
    return [dict(zip(names, fields)) for fields in lines]


def drawn_rows(f, rows, path):
    for column in [f["x"], *f["y"], *f["only"], *([f["series"]] if f["series"] else [])]:
        if column not in rows[0]:
            raise Fault(f"{path}: no column '{column}'")
    drawn = [row for row in rows if all(row[column] == value for column, value in f["only"].items())]
    if not drawn:
        raise Fault(f"{path}: no rows for {f['name']}")
    return drawn


def series_of(f, row):
    return row[f["series"]] if f["series"] else ""


def key(f, series, column):
    return f'title "{" ".join(word for word in (series, f["y"][column]) if word)}"'


def draw_lines(f, rows, names):
    blocks, plots = [], []
    for i, name in enumerate(names):
        points = [" ".join(row[column] for column in [f["x"], *f["y"]]) for row in rows if series_of(f, row) == name]
        blocks.append("\n".join([f"$s{i} << END", *points, "END\n"]))
        plots += [f"$s{i} using 1:{k + 2} with linespoints lw 2 dt {k + 1} pt {i + 1} ps 0.6 {key(f, name, column)}"
                  for k, column in enumerate(f["y"])]
    return "".join(blocks) + "plot " + ", \\\n     ".join(plots) + "\n"


def draw_bars(f, rows, names):
    lines, plots = [], []
    for x in dict.fromkeys(row[f["x"]] for row in rows):
        at_x = {series_of(f, row): row for row in reversed(rows) if row[f["x"]] == x}
        values = [at_x[name][column] if name in at_x else "0" for name in names for column in f["y"]]
        lines.append(" ".join([f'"{x}"', *values]))
    for name in names:
        plots += [f"$data using {len(plots) + 2 + k}:xtic(1) {key(f, name, column)}" for k, column in enumerate(f["y"])]
    style = "rowstacked" if f["kind"] == STACKS else "clustered gap 1"
    return "\n".join(["$data << END", *lines, "END", "set style data histograms", f"set style histogram {style}",
                      "set style fill solid 0.8", "set boxwidth 0.8 relative", "plot " + ", \\\n     ".join(plots)]) + "\n"


def script_of(f, path):
    rows = drawn_rows(f, read_rows(path), path)
    names = list(dict.fromkeys(series_of(f, row) for row in rows))
    draw = draw_lines if f["kind"] == LINES else draw_bars
    return HEAD.format(**f) + draw(f, rows, names) + OUTPUTS.format(**f)


def draw_all(source, to):
    n_drawn = 0
    for f in FIGURES:
        path = source / (f["data"] + ".csv")
        if not path.exists():
            continue
        script = to / (f["name"] + ".gp")
        script.write_text(script_of(f, path), encoding="utf-8")
        if subprocess.run(["gnuplot", script.name], cwd=to, check=False).returncode:
            raise Fault(f"gnuplot failed at {script}")
        n_drawn += 1
    if not n_drawn:
        raise Fault(f"{source}: no data of any figure")
    print(f"{n_drawn} figures in {to}")


def main():
    if sys.argv[1:] == ["--list"]:
        print("\n".join(f["name"] for f in FIGURES))
        return 0
    if len(sys.argv) != 3:
        print("usage: bench/figures.py FROM TO | --list", file=sys.stderr)
        return 2
    try:
        draw_all(Path(sys.argv[1]), Path(sys.argv[2]))
    except (Fault, OSError) as fault:
        text = fault if isinstance(fault, Fault) else f"{fault.filename}: {fault.strerror}"
        print(f"figures.py: {text}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
