"""judge_walks.py SCHEMA_WALKS VECTORS N - what grammars of schemas write at random is valid, says `jsonschema_rs`.

At least N texts in all must come to an end; a third of N is a sample, and all of N are written with FX_TEST_LONG.
Formats are checked, too. Exit status 77 without the package.
"""
import json
import os
import subprocess
import sys

try:
    import jsonschema_rs
except ImportError:
    print("skipped: jsonschema_rs is not installed")
    sys.exit(77)


class Twice(Exception):
    """A name comes twice, which a grammar does not notice."""


def members(pairs):
    if len(dict(pairs)) < len(pairs):
        raise Twice
    return dict(pairs)


def main():
    program, vectors, n_walk = sys.argv[1:]
    least = int(n_walk) // (1 if "FX_TEST_LONG" in os.environ else 3)
    with open(vectors, encoding="utf-8") as f:
        groups = json.load(f)["groups"]
    judges = [jsonschema_rs.Draft202012Validator(g["schema"], validate_formats=True) for g in groups]
    run = subprocess.run([program, vectors, str(least)], capture_output=True, check=True)
    n_text, wrong = 0, []
    for line in run.stdout.decode("utf-8").split("\0"):
        if "\t" not in line:
            assert not line, line
            continue
        group, text = line.split("\t", 1)
        n_text += 1
        try:
            valid = judges[int(group)].is_valid(json.loads(text, object_pairs_hook=members))
        except Twice:
            continue
        except ValueError as e:
            valid = False
            text = f"{e}: {text}"
        if not valid:
            wrong.append(f"{groups[int(group)]['name']}: {text[:200]}")
    print(run.stderr.decode().strip(), f"{n_text} judged, {len(wrong)} not valid")
    print("\n".join(wrong[:20]))
    return 1 if wrong or n_text < least else 0


sys.exit(main())
