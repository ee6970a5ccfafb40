"""What a lease's results say of the goals: rows of a goal, its figure, and whether it was met, missed or not run.

Figures are read from what the parts printed (OUT/NAME.txt). A goal over many cases is met if its worst case meets it.
A part that failed (no OUT/NAME.ok) has missed its goals: among other things it fails when results differ.
"""
import csv
import statistics
from pathlib import Path

# Output tokens per second of Llama-3.1-8B on one GPU, as published; at batch 64 exactly nobody was found to publish.
PEER_TOKENS_PER_S = 6583
PEER = "vLLM's pull request 18566: `vllm bench serve`, 1,000 chats at once, BF16"
NOISE = 1.01  # two medians of the same thing may differ by so much


class Results:
    """The CSV rows of each part, by its name."""

    def __init__(self, out):
        self.out = Path(out)

    def has_run(self, part):
        return (self.out / f"{part}.txt").exists()

    def has_failed(self, part):
        return self.has_run(part) and not (self.out / f"{part}.ok").exists()

    def rows(self, part):
        """Those under its heading; text between them is left out."""
        names, rows = None, []
        text = (self.out / f"{part}.txt").read_text(errors="replace") if self.has_run(part) else ""
        for cells in csv.reader(line for line in text.splitlines() if "," in line and not line.startswith("#")):
            if cells[0] in ("math", "figure"):
                names = cells
            elif names and len(cells) == len(names):
                rows.append(dict(zip(names, cells)))
        return rows

    def bandwidth(self):
        """GB/s; None: not measured."""
        for part in ("attention", "prefill"):
            for row in self.rows(part):
                if row.get("math") == "bandwidth":
                    return float(row["gb_per_s"])
        return None


def case_of(row):
    return tuple(int(row[k]) for k in ("batch", "positions", "new_tokens", "kv_heads"))


def name_of(case):
    return "batch {}, {} positions, {} new, {} KV heads".format(*case)


def chosen(rows, math, cache, memory):
    """Times by case."""
    return {case_of(r): r for r in rows if (r["math"], r["cache"], r["memory"]) == (math, cache, memory)}


def worst(values, is_bad=max):
    """The text of a figure over cases, and its worst value."""
    if not values:
        return None
    case = is_bad(values, key=values.get)
    return values[case], f"{values[case]:.3f} at {name_of(case)}; median {statistics.median(values.values()):.3f}"


def decode_bandwidth(results):
    limit = results.bandwidth()
    rows = chosen(results.rows("attention"), "batch-invariant", "packed", "vtensor")
    return worst({c: float(r["gb_per_s"]) / limit for c, r in rows.items() if c[0] >= 16}, min) if limit else None


def against_pages(part):
    def figure(results):
        rows = results.rows(part)
        ours, ratios = chosen(rows, "batch-invariant", "packed", "vtensor"), {}
        for pages in ("paged-16", "paged-256"):
            for case, row in chosen(rows, "batch-invariant", pages, "pool").items():
                if case in ours:
                    ratio = float(ours[case]["us"]) / float(row["us"])
                    ratios[case] = max(ratio, ratios.get(case, 0))
        return worst(ratios)
    return figure


def against_plain(part):
    """On plain memory laid out the same."""
    return lambda results: worst(
        {c: float(r["to_plain"]) for c, r in chosen(results.rows(part), "batch-invariant", "packed", "vtensor").items()})


def whole_row(results, figure, batch=None):
    for row in results.rows("llama_3_8b"):
        if row["figure"] == figure and row["manager"] == "vtensor" and batch in (None, int(row["batch"] or 0)):
            return row
    return None


def decode_of_model(results):
    row, limit = whole_row(results, "decode", 1), results.bandwidth()
    if not row or not limit:
        return None
    read = (float(row["pass_mib"]) + float(row["live_mib"])) * 2**20
    part = float(row["per_s_or_ratio"]) * read / limit / 1e9
    return part, f"{part:.3f} ({float(row['per_s_or_ratio']):.1f} tokens/s)"


def tokens_at_64(results):
    row = whole_row(results, "decode", 64)
    return (float(row["per_s_or_ratio"]), f"{float(row['per_s_or_ratio']):.0f} tokens/s") if row else None


def growth(results):
    row = whole_row(results, "growth")
    return (float(row["per_s_or_ratio"]), f"{float(row['per_s_or_ratio']):.3f}") if row else None


def idle(results):
    row = whole_row(results, "idle")
    if not row:
        return None
    before, after = float(row["mapped_mib"]), float(row["live_mib"])  # mapped, too, in this row
    took = float(row["per_s_or_ratio"]) if after < before else float("inf")
    return took, f"{took * 1e3:.3f} ms, {before:.1f} MiB before and {after:.1f} after"


# What is to be, the parts that it needs, its figure (value, text), None: no row says it, and what the value must be.
GOALS = [
    ("the driver keeps libvtensor's contract", ["contract", "order"], None, None),
    ("`cpu-exact` has the host's bits, `batch-invariant` its own in every way", ["exact", "batch-invariant"], None, None),
    ("a lost device ends with one line", ["lost"], None, None),
    ("decode attention, batch 16 and up: at least 85 % of the measured bandwidth", ["attention"], decode_bandwidth,
     lambda v: v >= 0.85),
    ("decode attention: contiguous never slower than paged", ["attention"], against_pages("attention"),
     lambda v: v <= NOISE),
    ("prefill: contiguous never slower than paged", ["prefill"], against_pages("prefill"), lambda v: v <= NOISE),
    ("prefill: vTensor's memory within 2 % of plain memory", ["prefill"],
     against_plain("prefill"), lambda v: v <= 1.02),
    ("decode attention: vTensor's memory within 2 % of plain memory", ["attention"],
     against_plain("attention"), lambda v: v <= 1.02),
    ("a whole 8 B model, batch 1: decodes at 80 % of the measured bandwidth", ["llama_3_8b", "attention"],
     decode_of_model, lambda v: v >= 0.8),
    (f"a whole 8 B model, batch 64: {PEER_TOKENS_PER_S} tokens/s ({PEER})", ["llama_3_8b"], tokens_at_64,
     lambda v: v >= PEER_TOKENS_PER_S),
    ("growth slows no step by more than 2 %", ["llama_3_8b"], growth, lambda v: v <= 1.02),
    ("no turn that gives idle memory back takes more than 1 ms", ["llama_3_8b"], idle, lambda v: v <= 0.001),
    ("compute-sanitizer finds nothing", ["sanitizer"], None, None),
]


def judge(results, goal):
    """The goal, its figure in words, and "met", "missed" or "not run"."""
    what, parts, figure, is_met = goal
    if not all(results.has_run(p) for p in parts):
        return what, "", "not run"
    failed = [p for p in parts if results.has_failed(p)]
    if failed:
        return what, f"part {failed[0]} failed", "missed"
    if not figure:
        return what, "", "met"
    found = figure(results)
    if not found:
        return what, "no row says it", "not run"
    return what, found[1], "met" if is_met(found[0]) else "missed"


def table_of(out):
    results = Results(out)
    return [judge(results, goal) for goal in GOALS]


def print_table(out):
    for what, figure, state in table_of(out):
        print(f"{state:8} {what}{': ' if figure else ''}{figure}")
