"""Answers of a given form from the real program, by the `openai` client: each parses and validates, whole and streamed.

Run by CTest through run_pytest.sh. The model is models/storyteller.gguf, which knows no JSON: what it writes is what
its grammar lets it.
"""

import json
import re

import jsonschema_rs
import openai
import pytest
from real_server import Server


PERSON = {
    "type": "object",
    "properties": {
        "name": {"type": "string", "minLength": 1, "maxLength": 12},
        "age": {"type": "integer", "minimum": 0, "maximum": 150},
        "kind": {"enum": ["cat", "dog", "bird"]},
        "born": {"type": "string", "format": "date"},
        "scores": {"type": "array", "items": {"type": "number", "minimum": -1, "maximum": 1}, "maxItems": 3},
    },
    "required": ["name", "age", "kind", "born", "scores"],
    "additionalProperties": False,
}
TREE = {
    "$defs": {"node": {"type": "object",
                       "properties": {"label": {"enum": ["a", "b"]},
                                      "children": {"type": "array", "items": {"$ref": "#/$defs/node"}, "maxItems": 1}},
                       "required": ["label", "children"], "additionalProperties": False}},
    "$ref": "#/$defs/node",
}
SCHEMAS = {"person": PERSON, "tree": TREE}
ASK = [{"role": "user", "content": "Tell me about Tom."}]


@pytest.fixture(scope="module")
def client():
    server = Server()
    yield openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    assert server.stop() == 0, "\n".join(server.lines)


def format_of(schema):
    return {"type": "json_schema", "json_schema": {"name": "form", "schema": schema, "strict": True}}


@pytest.mark.parametrize("name", SCHEMAS)
def test_answers_validate(client, name):
    judge = jsonschema_rs.Draft202012Validator(SCHEMAS[name], validate_formats=True)
    reply = client.chat.completions.create(model="storyteller", messages=ASK, response_format=format_of(SCHEMAS[name]),
                                           n=8, max_tokens=600, seed=1)
    ended = [c for c in reply.choices if c.finish_reason == "stop"]
    assert len(ended) >= 6
    for c in ended:
        assert judge.is_valid(json.loads(c.message.content)), c.message.content


def test_streams_are_the_same_answer(client):
    judge = jsonschema_rs.Draft202012Validator(PERSON, validate_formats=True)
    ask = dict(model="storyteller", messages=ASK, response_format=format_of(PERSON), max_tokens=600, seed=7)
    whole = client.chat.completions.create(**ask).choices[0]
    text, reason = "", None
    for chunk in client.chat.completions.create(stream=True, **ask):
        text += chunk.choices[0].delta.content or ""
        reason = chunk.choices[0].finish_reason or reason
    assert (text, reason) == (whole.message.content, whole.finish_reason)
    if reason == "stop":
        assert judge.is_valid(json.loads(text))


def test_json_objects(client):
    reply = client.chat.completions.create(model="storyteller", messages=ASK, response_format={"type": "json_object"},
                                           n=8, max_tokens=300, seed=3)
    for c in reply.choices:
        if c.finish_reason == "stop":
            assert isinstance(json.loads(c.message.content), dict)
        else:
            assert c.message.content.startswith("{")


@pytest.mark.parametrize("field,value,pattern", [
    ("guided_regex", r"(Mr|Mrs)\. [A-Z][a-z]{2,8}", r"(Mr|Mrs)\. [A-Z][a-z]{2,8}"),
    ("guided_choice", ["yes", "no", "perhaps not"], "yes|no|perhaps not"),
    ("guided_grammar", 'root ::= "<" [0-9]{3} ">"', "<[0-9]{3}>"),
    ("guided_grammar", 'start: "on"i | "off"\n', "(?i:on)|off"),
    ("structured_outputs", {"regex": "[ab]{4}"}, "[ab]{4}"),
    ("guided_json", {"type": "integer", "minimum": 10, "maximum": 99}, "[1-9][0-9]"),
])
def test_completions(client, field, value, pattern):
    reply = client.completions.create(model="storyteller", prompt="Once upon a time", n=4, max_tokens=100,
                                      extra_body={field: value})
    for c in reply.choices:
        assert c.finish_reason == "stop" and re.fullmatch(pattern, c.text), c.text


def test_refusals_name_the_construct(client):
    for fields, what in [({"guided_regex": "a(?=b)"}, "lookahead"),
                         ({"guided_json": {"not": {}}}, '"not" is not supported at #'),
                         ({"guided_grammar": "root ::= b"}, '"b" is not defined')]:
        with pytest.raises(openai.BadRequestError) as e:
            client.completions.create(model="storyteller", prompt="a", extra_body=fields)
        assert what in e.value.body["message"] and e.value.body["param"] == next(iter(fields))
