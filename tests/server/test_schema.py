"""The schema at /openapi.json against the real program, by schemathesis: whatever fits the schema, or just does not, is
answered as the schema says and never with a 5xx.

Run by CTest through run_pytest.sh, or by hand:
    FLEXINFER=build/debug/bin/flexinfer build/venv/bin/python -m pytest tests/server/test_schema.py
SCHEMA_EXAMPLES sets how many bodies are drawn per path and kind: 2 if it is not set, 20 with FX_TEST_LONG. Of the cases
that schemathesis lists for every property a sample is sent (sample_cases.py), and with FX_TEST_LONG all.
"""

import json
import os
import pathlib
import subprocess
import sys
import urllib.request

import jsonschema_rs
import pytest
from real_server import Server

# Not positive_data_acceptance: some rules join fields (best_of is at least n), which the schema does not say.
CHECKS = ("not_a_server_error,status_code_conformance,content_type_conformance,response_schema_conformance,"
          "negative_data_rejection,unsupported_method,allow_header_conformance")

LONG = "FX_TEST_LONG" in os.environ
SAMPLE = {} if LONG else {"SCHEMATHESIS_HOOKS": str(pathlib.Path(__file__).with_name("sample_cases.py"))}
KEY = "sk-schema-0123456789abcdef"


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"root {KEY} admin\n")
    keys.chmod(0o600)
    one = Server("--ctx", "40", "--api-key-file", str(keys))  # answers are short, whatever max_tokens
    yield one
    assert one.stop() == 0, "\n".join(one.lines)


def get(server, path):
    request = urllib.request.Request(server.url + path, headers={"Authorization": f"Bearer {KEY}"})
    with urllib.request.urlopen(request) as reply:
        return reply.read().decode()


def test_nothing_is_a_server_error(server, tmp_path):
    done = subprocess.run(
        [pathlib.Path(sys.executable).parent / "schemathesis", "run", server.url + "/openapi.json",
         "--phases", "examples,coverage,fuzzing", "--checks", CHECKS, "--generation-deterministic",
         "--max-examples", os.environ.get("SCHEMA_EXAMPLES", "20" if LONG else "2"),
         "--exclude-path", "/sleep",  # it refuses everything else from then on
         "--exclude-path", "/kv/stream",  # it does not end
         "--header", f"Authorization: Bearer {KEY}", "--request-timeout", "240",
         "--suppress-health-check", "all", "--continue-on-failure", "--warnings", "off", "--no-color"],
        cwd=tmp_path, env=os.environ | SAMPLE, capture_output=True, text=True, timeout=560)
    assert done.returncode == 0, done.stdout + done.stderr
    tested = [line for line in done.stdout.splitlines() if "generated" in line]
    assert int(tested[0].split()[0]) > (4000 if LONG else 700), done.stdout


def test_every_path_is_in_the_schema(server):
    """The list at / and the schema name the same paths."""
    items = json.loads(get(server, "/openapi.json"))["paths"].items()
    paths = {(method.upper(), path) for path, item in items for method in item}
    listed = {tuple(line.split()) for line in get(server, "/").splitlines()[2:]}
    assert paths == listed


def test_every_schema_is_a_schema(server):
    document = json.loads(get(server, "/openapi.json"))
    assert document["openapi"].startswith("3.1.")
    for name, schema in document["components"]["schemas"].items():
        whole = {"$ref": f"#/components/schemas/{name}", "components": document["components"]}
        jsonschema_rs.validator_for(whole)
        assert jsonschema_rs.meta.is_valid(schema), name
