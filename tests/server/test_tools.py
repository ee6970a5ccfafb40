"""Calls that must be made, by the real program and a model that was never taught to call: grammars make it, and the
arguments validate.

Run by CTest through run_pytest.sh, or by hand:
    FLEXINFER=build/debug/bin/flexinfer build/venv/bin/python -m pytest tests/server/test_tools.py
Of the answers that may be a form or calls, each format gives three; with FX_TEST_LONG eight.
"""

import json
import os

import jsonschema_rs
import openai
import pytest
from real_server import Server
from test_openai import MESSAGES

SCHEMAS = {
    "paint": {"type": "object", "properties": {"color": {"enum": ["red", "green", "dark blue"]},
                                               "coats": {"type": "integer", "minimum": 1, "maximum": 40},
                                               "dry": {"type": "boolean"}},
              "required": ["color", "coats", "dry"], "additionalProperties": False},
    "walk": {"type": "object", "properties": {"steps": {"type": "array", "maxItems": 3, "minItems": 1,
                                                        "items": {"enum": ["left", "right"]}},
                                              "to": {"anyOf": [{"const": None}, {"const": "home"}]}},
             "required": ["steps"], "additionalProperties": False},
    "stop": None,
}
TOOLS = [{"type": "function", "function": {"name": name, **({"parameters": schema} if schema else {})}}
         for name, schema in SCHEMAS.items()]


@pytest.fixture(scope="module", params=["auto", "hermes", "mistral_v11", "qwen3_coder", "pythonic"])
def client(request):
    server = Server("--tool-parser", request.param)
    yield openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=600)
    assert server.stop() == 0, "\n".join(server.lines)


@pytest.fixture(scope="module")
def model(client):
    return client.models.list().data[0].id


def check_call(name, arguments):
    value = json.loads(arguments)
    schema = SCHEMAS[name]
    assert jsonschema_rs.is_valid(schema, value) if schema else value == {}, (name, arguments)


def test_required_calls_validate(client, model):
    for seed in range(4):
        answer = client.chat.completions.create(model=model, messages=MESSAGES, tools=TOOLS, tool_choice="required",
                                                parallel_tool_calls=False, seed=seed, temperature=1, max_tokens=400)
        choice = answer.choices[0]
        assert choice.finish_reason == "tool_calls", choice
        assert choice.message.content is None and len(choice.message.tool_calls) == 1
        call = choice.message.tool_calls[0].function
        check_call(call.name, call.arguments)


def test_a_named_function_is_called(client, model):
    for name in SCHEMAS:
        stream = client.chat.completions.create(
            model=model, messages=MESSAGES, tools=TOOLS, tool_choice={"type": "function", "function": {"name": name}},
            parallel_tool_calls=False, seed=3, temperature=1, max_tokens=400, stream=True)
        chunks = [chunk.choices[0] for chunk in stream]
        deltas = [call for chunk in chunks for call in chunk.delta.tool_calls or []]
        assert deltas[0].function.name == name
        check_call(name, "".join(delta.function.arguments for delta in deltas))
        assert not any(chunk.delta.content for chunk in chunks) and chunks[-1].finish_reason == "tool_calls"


def test_responses_must_call_too(client, model):
    tools = [{"type": "function", "name": "paint", "parameters": SCHEMAS["paint"], "strict": True}]
    answer = client.responses.create(model=model, input="Once upon a time", tools=tools, tool_choice="required",
                                     parallel_tool_calls=False, temperature=1, max_output_tokens=400)
    assert [item.type for item in answer.output] == ["function_call"]
    check_call("paint", answer.output[0].arguments)


def test_only_allowed_tools_are_called(client, model):
    for name in SCHEMAS:
        allowed = {"type": "allowed_tools", "allowed_tools": {
            "mode": "required", "tools": [{"type": "function", "function": {"name": name}}]}}
        answer = client.chat.completions.create(model=model, messages=MESSAGES, tools=TOOLS, tool_choice=allowed,
                                                parallel_tool_calls=False, seed=5, temperature=1, max_tokens=400)
        call = answer.choices[0].message.tool_calls[0].function
        assert call.name == name
        check_call(call.name, call.arguments)


def test_responses_name_the_allowed_tools(client, model):
    tools = [{"type": "function", "name": name, "parameters": schema, "strict": True} for name, schema in SCHEMAS.items()]
    allowed = {"type": "allowed_tools", "mode": "required", "tools": [{"type": "function", "name": "paint"}]}
    answer = client.responses.create(model=model, input="Once upon a time", tools=tools, tool_choice=allowed,
                                     parallel_tool_calls=False, temperature=1, max_output_tokens=400)
    assert [item.name for item in answer.output] == ["paint"]
    check_call("paint", answer.output[0].arguments)


def test_two_tools_of_one_name_are_refused(client, model):
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=model, messages=MESSAGES, tools=TOOLS + TOOLS[:1])
    assert refused.value.param == "tools" and TOOLS[0]["function"]["name"] in str(refused.value)


def test_a_schema_that_is_not_supported_is_refused(client, model):
    bad = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object", "not": {"required": ["a"]}}}}]
    with pytest.raises(openai.BadRequestError) as refused:
        client.chat.completions.create(model=model, messages=MESSAGES, tools=bad, tool_choice="required")
    assert refused.value.param == "tools" and "not" in str(refused.value)


def test_a_form_or_calls(client, model):
    form = {"type": "json_schema", "json_schema": {"name": "f", "schema": SCHEMAS["paint"], "strict": True}}
    seen = set()
    for seed in range(8 if "FX_TEST_LONG" in os.environ else 3):
        answer = client.chat.completions.create(model=model, messages=MESSAGES, tools=TOOLS, response_format=form,
                                                parallel_tool_calls=False, seed=seed, temperature=2, max_tokens=400)
        choice = answer.choices[0]
        seen.add(choice.finish_reason)
        if choice.finish_reason == "stop":
            check_call("paint", choice.message.content)
        elif choice.finish_reason == "tool_calls":
            assert choice.message.content is None and len(choice.message.tool_calls) == 1
    assert seen & {"stop", "tool_calls"}
