#!/usr/bin/env python3
"""make_schema_vectors.py SUITE OUT - schemas with valid and invalid instances, from JSON-Schema-Test-Suite.

SUITE is a checkout of https://github.com/json-schema-org/JSON-Schema-Test-Suite (MIT); the vectors were made from its
commit 44401e0c. OUT gets the groups of draft 2020-12 whose keywords src/grammar/schema reads, and a few of those that
it must refuse. Cases that no text in our spelling can be are left out:

  - integers with a fraction (1.0) and instances beyond 15 digits or with U+0000;
  - leap seconds, durations of more than 9 digits, quoted names and addresses of hosts in e-mail addresses,
    and encoded labels of hosts (xn--).
"""
import json
import os
import sys

FILES = ["additionalProperties", "allOf", "anchor", "anyOf", "boolean_schema", "const", "default", "defs", "enum",
         "exclusiveMaximum", "exclusiveMinimum", "infinite-loop-detection", "items", "maxItems", "maxLength",
         "maxProperties", "maximum", "minItems", "minLength", "minProperties", "minimum", "multipleOf", "oneOf",
         "pattern", "patternProperties", "prefixItems", "properties", "ref", "required", "type"]
# Groups of these files that are refused, and what for.
REFUSED = {
    "additionalProperties: additionalProperties with propertyNames": "propertyNames",
    "additionalProperties: dependentSchemas with additionalProperties": "dependentSchemas",
    "defs: validate definition against metaschema": "another document",
    "ref: remote ref, containing refs itself": "another document",
    "ref: ref creates new scope when adjacent to keywords": "unevaluatedProperties",
    "multipleOf: by number": "multipleOf",
    "multipleOf: float division = inf": "multipleOf",
    "oneOf: oneOf": "may both match",
    "oneOf: oneOf with base schema": "may both match",
    "oneOf: oneOf with boolean schemas, all true": "may both match",
    "oneOf: oneOf with boolean schemas, more than one true": "may both match",
    "oneOf: oneOf complex types": "may both match",
    "oneOf: oneOf with empty schema": "may both match",
    "oneOf: oneOf with required": "may both match",
    "oneOf: oneOf with missing optional property": "may both match",
    "pattern: pattern with Unicode property escape requires unicode mode": "Unicode property",
    "patternProperties: patternProperties with Unicode property escape": "Unicode property",
}
REFUSED_FILES = ["not", "if-then-else", "contains", "dependentRequired", "dependentSchemas", "propertyNames",
                 "unevaluatedItems", "unevaluatedProperties", "uniqueItems", "dynamicRef"]
FORMATS = ["date", "time", "date-time", "duration", "uuid", "email", "hostname", "ipv4", "ipv6", "uri",
           "uri-reference", "json-pointer"]


def is_spellable(v):
    if isinstance(v, bool) or v is None:
        return True
    if isinstance(v, int):
        return abs(v) < 10**15
    if isinstance(v, float):
        return v != int(v) and abs(v) < 1e15 if abs(v) < 1e300 else False
    if isinstance(v, str):
        if ":60" in v or len(v) > 70 and v.startswith("P9") or v.startswith('"') or v.startswith("xn--") or "@[" in v:
            return False
        return "\0" not in v and all(not 0xD800 <= ord(c) <= 0xDFFF for c in v)
    if isinstance(v, list):
        return all(map(is_spellable, v))
    return all(is_spellable(k) and is_spellable(x) for k, x in v.items())


def has_ids(schema):
    if isinstance(schema, dict):
        return "$id" in schema or any(map(has_ids, schema.values()))
    return isinstance(schema, list) and any(map(has_ids, schema))


def groups_of(suite, name, limit=None):
    with open(os.path.join(suite, "tests", "draft2020-12", name + ".json"), encoding="utf-8") as f:
        for group in json.load(f)[:limit]:
            tests = [{"data": t["data"], "valid": t["valid"]} for t in group["tests"] if is_spellable(t["data"])]
            schema = group["schema"]
            if "\\u0000" in json.dumps(schema) or has_ids(schema):
                continue
            if isinstance(schema, dict):
                schema = {k: v for k, v in schema.items() if k != "$schema"}
            yield {"name": f"{name}: {group['description']}", "schema": schema, "tests": tests}


def main():
    suite, out = sys.argv[1:]
    groups = [g for name in FILES for g in groups_of(suite, name)]
    groups += [g for name in FORMATS for g in groups_of(suite, "optional/format/" + name)]
    refused = [{**g, "for": REFUSED[g["name"]]} for g in groups if g["name"] in REFUSED]
    groups = [g for g in groups if g["name"] not in REFUSED]
    refused += [{**g, "for": "is not supported"} for name in REFUSED_FILES for g in groups_of(suite, name, 2)]
    for g in refused:
        del g["tests"]
    with open(out, "w", encoding="utf-8") as f:
        f.write('{"groups": [\n')
        f.write(",\n".join(json.dumps(g, ensure_ascii=True) for g in groups))
        f.write('\n],\n"refused": [\n')
        f.write(",\n".join(json.dumps(g, ensure_ascii=True) for g in refused))
        f.write("\n]}\n")


main()
