#!/usr/bin/env python3
"""texts.py DATA OUT - prompts with answers for bench_speculate, from texts that people wrote.

DATA is a folder with sharegpt_multiturn_run.json (conversations as whole histories, LMBenchmark) and
tinyshakespeare.txt; OUT gets a JSON object per line: kind, prompt, answer.

    chat        a turn of a conversation, and what was answered
    summary     one whose user asks for a summary or the main points
    code        one whose answer is code, mostly
    edit        a passage, and the same with names replaced: what an editor asks for
    novel       a passage, and how it really goes on: nothing of it is quoted

The answers are the texts', no model's: bench_speculate has a model compute them, token by token.
"""

import json
import re
import sys
from pathlib import Path

PER_KIND = 6
MAX_PROMPT, MIN_ANSWER, MAX_ANSWER = 6000, 300, 1600  # characters


def turns(histories):
    """(prompt, answer) of each turn whose successor is there: the history goes on with the answer, and ends with the
    next question, a line."""
    by_length = sorted(histories, key=len)
    for i, prompt in enumerate(by_length):
        after = next((h for h in by_length[i + 1:] if h.startswith(prompt + "\n")), None)
        if not after or len(prompt) > MAX_PROMPT:
            continue
        answer = after[len(prompt) + 1:].rpartition("\n")[0]
        if len(answer) >= MIN_ANSWER:
            yield prompt, answer[:MAX_ANSWER]


def kind_of(prompt, answer):
    question = prompt.rpartition("\n")[2].lower()
    if re.search(r"summar|main (ideas|points)|key (points|takeaways)|tl;?dr|bullet", question):
        return "summary"
    if len(re.findall(r"[;{}]\s*$|^\s*(def|import|public|class|return|const|let|var|#include)\b", answer, re.M)) >= 5:
        return "code"
    return "chat"


def edits(text):
    parts = [p for p in text.split("\n\n") if len(p) > 60]
    for i in range(PER_KIND):
        passage = "\n\n".join(parts[i * 40:i * 40 + 12])[:1400]
        edited = re.sub(r"\b(MENENIUS|First Citizen|thou|Rome|good|lord)\b", lambda m: m.group(0).swapcase(), passage)
        yield "Change the case of some names:\n\n" + passage + "\n\nThe result:\n\n", edited


def novel(text):
    for i in range(PER_KIND):
        at = 50000 + i * 60000
        yield text[at:at + 1400], text[at + 1400:at + 2600]


def main():
    data, out = Path(sys.argv[1]), Path(sys.argv[2])
    histories = [e["input"] for e in json.loads((data / "sharegpt_multiturn_run.json").read_text())]
    shakespeare = (data / "tinyshakespeare.txt").read_text()
    found = {"chat": [], "summary": [], "code": [], "edit": list(edits(shakespeare)), "novel": list(novel(shakespeare))}
    for prompt, answer in turns(histories):
        kind = kind_of(prompt, answer)
        if len(found[kind]) < PER_KIND:
            found[kind].append((prompt, answer))
    with out.open("w") as f:
        for kind, pairs in found.items():
            print(f"{kind}: {len(pairs)}", file=sys.stderr)
            for prompt, answer in pairs:
                f.write(json.dumps({"kind": kind, "prompt": prompt, "answer": answer}) + "\n")


if __name__ == "__main__":
    main()
