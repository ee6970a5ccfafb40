"""judge_walks.py SCHEMA_WALKS VECTORS N - what grammars of schemas write at random is valid, says `jsonschema_rs`.

At least 10,000 texts in all must come to an end. Formats are checked, too. Exit status 77 without the package.
"""
import json
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
    with open(vectors, encoding="utf-8") as f:
        groups = json.load(f)["groups"]
    judges = [jsonschema_rs.Draft202012Validator(g["schema"], validate_formats=True) for g in groups]
    run = subprocess.run([program, vectors, n_walk], capture_output=True, check=True)
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
    return 1 if wrong or n_text < 10000 else 0


sys.exit(main())
