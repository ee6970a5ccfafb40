"""The official clients of OpenAI and Anthropic over the server, as agents use them: loops of tools, streaming helpers,
reasoning, responses and messages. The model is a fake that writes what the last message orders (fake_engine.h), in
Hermes' format, its reasoning between <think> marks.

Run by CTest through run_pytest.sh, or by hand:
    FLEXINFER=build/debug/bin/fake_server build/venv/bin/python -m pytest tests/server/test_agents.py
"""

import json
import os
import subprocess

import openai
import pytest

PROGRAM = os.environ.get("FLEXINFER", "build/debug/bin/fake_server")
CALL = '<tool_call>\n{"name": "get_weather", "arguments": {"city": "%s"}}\n</tool_call>'
PARAMETERS = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"],
              "additionalProperties": False}
TOOLS = [{"type": "function", "function": {"name": "get_weather", "description": "the weather", "strict": True,
                                           "parameters": PARAMETERS}}]


@pytest.fixture(scope="module")
def url():
    child = subprocess.Popen([PROGRAM, "hermes", "think"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
    yield f"http://127.0.0.1:{int(child.stdout.readline())}"
    child.stdin.close()
    assert child.wait(60) == 0


@pytest.fixture(scope="module")
def client(url):
    return openai.OpenAI(base_url=url + "/v1", api_key="none", max_retries=0)


@pytest.fixture(scope="module")
def claude(url):
    anthropic = pytest.importorskip("anthropic")
    return anthropic.Anthropic(base_url=url, api_key="none", max_retries=0)


def order(text):
    return [{"role": "user", "content": "say " + text}]


# ---- chats ----------------------------------------------------------------------------------------------------------

def test_a_loop_of_tools(client):
    """The model calls two tools at once, gets their results and answers."""
    messages = order("<think> hm </think>" + CALL % "Paris" + "\n" + CALL % "Oslo")
    first = client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
    choice = first.choices[0]
    assert choice.finish_reason == "tool_calls"
    assert choice.message.content is None
    assert choice.message.reasoning_content == "hm"
    calls = choice.message.tool_calls
    assert [json.loads(call.function.arguments)["city"] for call in calls] == ["Paris", "Oslo"]
    assert len({call.id for call in calls}) == 2
    messages.append(choice.message)
    messages += [{"role": "tool", "tool_call_id": call.id, "content": "say sunny"} for call in calls]
    last = client.chat.completions.create(model="m", messages=messages, tools=TOOLS)
    assert last.choices[0].message.content == "sunny"
    assert last.choices[0].finish_reason == "stop"
    assert first.usage.completion_tokens_details.reasoning_tokens > 0


def test_the_streaming_helper(client):
    with client.chat.completions.stream(model="m", messages=order("So: " + CALL % "Paris"), tools=TOOLS) as stream:
        kinds = [event.type for event in stream]
        whole = stream.get_final_completion()
    assert "content.delta" in kinds
    assert "tool_calls.function.arguments.delta" in kinds
    assert kinds.index("tool_calls.function.arguments.done") > kinds.index("content.done")
    call = whole.choices[0].message.tool_calls[0]
    assert call.function.name == "get_weather"
    assert call.function.parsed_arguments == {"city": "Paris"}
    assert whole.choices[0].message.content == "So:"
    assert whole.choices[0].finish_reason == "tool_calls"


def test_raw_deltas(client):
    chunks = list(client.chat.completions.create(model="m", messages=order(CALL % "a b"), tools=TOOLS, stream=True))
    deltas = [call for chunk in chunks for call in chunk.choices[0].delta.tool_calls or []]
    assert deltas[0].id and deltas[0].function.name == "get_weather" and deltas[0].function.arguments == ""
    assert all(delta.index == 0 and delta.id is None for delta in deltas[1:])
    assert "".join(delta.function.arguments for delta in deltas) == '{"city": "a b"}'


def test_parallel_calls_may_be_refused(client):
    answer = client.chat.completions.create(model="m", messages=order(CALL % "a" + " and " + CALL % "b"), tools=TOOLS,
                                            parallel_tool_calls=False)
    assert len(answer.choices[0].message.tool_calls) == 1
    assert answer.choices[0].message.content is None and answer.choices[0].finish_reason == "tool_calls"


def test_no_tools_no_calls(client):
    answer = client.chat.completions.create(model="m", messages=order(CALL % "a"), tools=TOOLS, tool_choice="none")
    assert answer.choices[0].message.tool_calls is None
    assert "<tool_call>" in answer.choices[0].message.content


# ---- responses ------------------------------------------------------------------------------------------------------

RESPONSE_TOOLS = [{"type": "function", "name": "get_weather", "parameters": PARAMETERS, "strict": True}]


def test_a_loop_of_responses(client):
    items = [{"role": "user", "content": "say <think> hm </think> Let me see. " + CALL % "Paris"}]
    first = client.responses.create(model="m", input=items, tools=RESPONSE_TOOLS, instructions="be brief")
    assert first.status == "completed"
    assert [item.type for item in first.output] == ["reasoning", "message", "function_call"]
    assert first.output_text == "Let me see."
    assert first.instructions == "be brief"
    call = first.output[2]
    assert json.loads(call.arguments) == {"city": "Paris"}
    items += first.output
    items.append({"type": "function_call_output", "call_id": call.call_id, "output": "say sunny"})
    last = client.responses.create(model="m", input=items, tools=RESPONSE_TOOLS)
    assert last.output_text == "sunny"
    assert last.usage.total_tokens == last.usage.input_tokens + last.usage.output_tokens


def test_the_helper_of_responses(client):
    with client.responses.stream(model="m", input="say <think> hm </think> a b " + CALL % "Oslo",
                                 tools=RESPONSE_TOOLS) as stream:
        events = list(stream)
        whole = stream.get_final_response()
    assert [event.sequence_number for event in events] == list(range(len(events)))
    assert [event.type for event in events[:2]] == ["response.created", "response.in_progress"]
    assert events[-1].type == "response.completed"
    text = "".join(event.delta for event in events if event.type == "response.output_text.delta")
    assert text == whole.output_text == "a b"
    call = whole.output[2]
    assert call.parsed_arguments == {"city": "Oslo"}
    spelled = "".join(e.delta for e in events if e.type == "response.function_call_arguments.delta")
    assert spelled == call.arguments


def test_responses_that_are_cut_or_refused(client):
    cut = client.responses.create(model="m", input="say a b c d", max_output_tokens=2)
    assert cut.status == "incomplete" and cut.incomplete_details.reason == "max_output_tokens"
    with pytest.raises(openai.BadRequestError) as refused:
        client.responses.create(model="m", input="a", previous_response_id="resp_1")
    assert refused.value.param == "previous_response_id"


# ---- messages -------------------------------------------------------------------------------------------------------

CUSTOM_TOOLS = [{"name": "get_weather", "input_schema": PARAMETERS}]


def test_a_loop_of_messages(claude):
    messages = order("<think> hm </think> Let me see. " + CALL % "Paris")
    first = claude.messages.create(model="m", max_tokens=100, system="be brief", messages=messages, tools=CUSTOM_TOOLS)
    assert first.stop_reason == "tool_use"
    assert [block.type for block in first.content] == ["thinking", "text", "tool_use"]
    assert first.content[0].thinking == "hm" and first.content[1].text == "Let me see."
    use = first.content[2]
    assert use.input == {"city": "Paris"}
    messages.append({"role": "assistant", "content": first.content})
    messages.append({"role": "user", "content": [{"type": "tool_result", "tool_use_id": use.id,
                                                  "content": "say sunny"}]})
    last = claude.messages.create(model="m", max_tokens=100, messages=messages, tools=CUSTOM_TOOLS)
    assert last.content[0].text == "sunny" and last.stop_reason == "end_turn"


def test_the_helper_of_messages(claude):
    with claude.messages.stream(model="m", max_tokens=100, messages=order("<think> hm </think> a b " + CALL % "Oslo"),
                                tools=CUSTOM_TOOLS) as stream:
        events = list(stream)
        whole = stream.get_final_message()
    kinds = [event.type for event in events]
    assert kinds[0] == "message_start" and kinds[-1] == "message_stop"
    assert {"thinking", "text", "input_json"} <= set(kinds)
    assert whole.content[1].text == "a b"
    assert whole.content[2].input == {"city": "Oslo"}
    assert whole.usage.output_tokens > 0 and whole.stop_reason == "tool_use"


def test_messages_that_are_cut_counted_or_refused(claude):
    import anthropic
    cut = claude.messages.create(model="m", max_tokens=2, messages=order("a b c"))
    assert cut.stop_reason == "max_tokens" and cut.content[0].text == "a b"
    counted = claude.messages.count_tokens(model="m", messages=[{"role": "user", "content": "abc"}])
    assert counted.input_tokens == 4
    with pytest.raises(anthropic.NotFoundError):
        claude.messages.create(model="other", max_tokens=2, messages=order("a"))
    with pytest.raises(anthropic.RateLimitError):
        claude.messages.create(model="m", max_tokens=2, messages=[{"role": "user", "content": "full"}])
