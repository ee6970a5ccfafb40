"""judge_tool_walks.py TOOL_WALKS N - whatever a grammar for calls lets through, the arguments of strict tools validate.

Every published format writes calls at random, with marks where the grammar lets them stand, and the server's parser
takes the texts apart. Judged by `jsonschema_rs`: calls that must be made, strict ones beside text, and answers of a
given form, which are either the form or calls. A third of N is a sample, and all of N are written with FX_TEST_LONG.
Exit status 77 without the package.
"""
import collections
import json
import os
import subprocess
import sys
import tempfile

try:
    import jsonschema_rs
except ImportError:
    print("skipped: jsonschema_rs is not installed")
    sys.exit(77)

TEXT = {"type": "string"}
SCHEMAS = {
    "write": {
        "type": "object",
        "$defs": {"node": {"type": "object", "additionalProperties": False, "required": ["v"],
                           "properties": {"v": {"type": "integer"}, "next": {"$ref": "#/$defs/node"}}}},
        "properties": {"path": {"type": "string", "pattern": "^/[a-z/]{0,8}$"}, "mode": {"enum": ["a", "b c", "<d>"]},
                       "count": {"type": "integer", "minimum": 0, "maximum": 9}, "text": TEXT,
                       "tags": {"type": "array", "items": TEXT, "maxItems": 2},
                       "maybe": {"anyOf": [{"type": "string", "maxLength": 4}, {"type": "null"}]},
                       "tree": {"$ref": "#/$defs/node"}, "like": {"$ref": "#/properties/path"}},
        "required": ["mode", "count", "tags", "tree"], "additionalProperties": False},
    "note": {"type": "object", "properties": {"text": {"type": "string", "minLength": 2, "maxLength": 5},
                                              "flag": {"type": "boolean"}}, "additionalProperties": False},
    "ping": None,
}
FORM = {"type": "object", "properties": {"name": TEXT, "parameters": {"type": "object"}}, "required": ["name"],
        "additionalProperties": False}


def tool(name, schema, strict):
    function = {"name": name, "strict": strict, **({"parameters": schema} if schema else {})}
    return {"type": "function", "function": function}


STRICT = [tool(name, schema, True) for name, schema in SCHEMAS.items()]
CASES = {"tools": STRICT + [tool("loose", {"type": "object", "properties": {"a": {"type": "integer"}}}, False)],
         "modes": {"auto": {}, "one": {"parallel_tool_calls": False}, "required": {"tool_choice": "required"},
                   "form": {"response_format": {"type": "json_schema", "json_schema": {"name": "f", "schema": FORM}}}}}


def judge_call(call, mode):
    schema = SCHEMAS.get(call["name"])
    arguments = json.loads(call["arguments"])
    if call["name"] == "loose":
        return mode != "required" or isinstance(arguments.get("a", 1), int)
    return jsonschema_rs.is_valid(schema, arguments) if schema else arguments == {}


def judge(walk):
    """What is wrong with it, or None."""
    mode, calls, text = walk["mode"], walk["calls"], walk.get("text", "").strip()
    done = [call for call in calls if call.get("done")]
    for call in done:
        if not judge_call(call, mode):
            return f"{call['name']}({call['arguments']})"
    if mode == "required" and (not done or text or "broken" in walk):
        return "not calls alone"
    if mode == "form" and not (done and not text) and not jsonschema_rs.is_valid(FORM, json.loads(text)):
        return "neither calls nor the form"
    return None


def main():
    program, n_walk = sys.argv[1], int(sys.argv[2]) // (1 if "FX_TEST_LONG" in os.environ else 3)
    with tempfile.NamedTemporaryFile("w", suffix=".json") as cases:
        json.dump(CASES, cases)
        cases.flush()
        run = subprocess.run([program, cases.name, str(n_walk)], capture_output=True, text=True, check=False)
    if run.returncode:
        print(run.stderr)
        return 1
    wrong, n_call = [], collections.Counter()
    for line in run.stdout.split("\n")[:-1]:
        walk = json.loads(line)
        n_call[walk["format"], walk["mode"]] += len(walk["calls"])
        try:
            bad = judge(walk)
        except ValueError as e:
            bad = str(e)
        if bad:
            wrong.append(f"{walk['format']} {walk['think']} {walk['mode']}: {bad}: {walk['raw']!r}"[:600])
    few = [case for case, n in n_call.items() if n < n_walk // 20]
    print(f"{sum(n_call.values())} calls of {len(n_call)} formats and modes, {len(wrong)} wrong")
    print("\n".join(wrong[:20]))
    print("few calls:", few) if few else None
    return 1 if wrong or few or len(n_call) != 4 * 18 else 0


sys.exit(main())
