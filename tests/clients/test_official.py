"""The official `openai` client, with its strict validation on: whatever is not of the type that the client declares
fails. Every endpoint that it and the server both know, whole and streamed, and each class of its errors.

Run by CTest, or by hand:
    FLEXINFER=build/asan/bin/flexinfer PYTHONPATH=tests/clients/support build/venv/bin/python -m pytest \
        tests/clients/test_official.py
"""
import asyncio
import math
import threading
from typing import Literal

import openai
import pydantic
import pytest
import serving
from openai.types import Completion, CreateEmbeddingResponse, Model
from openai.types.chat import ChatCompletion, ChatCompletionChunk
from openai.types.responses import Response

PROMPT = "Once upon a time there was a"
MESSAGES = [{"role": "system", "content": "Tell stories."}, {"role": "user", "content": "One of a cat."}]
GREEDY = {"max_tokens": 20, "temperature": 0, "extra_body": {"ignore_eos": True}}


def strict(server, kind=openai.OpenAI, **how):
    """A client without the certificates of authorities, which take longer to load than a request takes."""
    web = openai.DefaultHttpxClient if kind is openai.OpenAI else openai.DefaultAsyncHttpxClient
    how = {"api_key": "none", "max_retries": 0, "timeout": 120, "_strict_response_validation": True} | how
    how["http_client"] = web(verify=False)
    return kind(base_url=server.url + "/v1", **how)


server = serving.fixture("--pooling", "mean", "--max-seq", "16")


@pytest.fixture(scope="module")
def client(server):
    with strict(server) as one:
        yield one


@pytest.fixture(scope="module")
def loose(server):
    """For what OpenAI's own service sends and the client's types leave out: a null finish_reason in a stream of
    completions, a null logprob of the first token, embeddings in base64."""
    with strict(server, _strict_response_validation=False) as one:
        yield one


@pytest.fixture(scope="module")
def model(client):
    return client.models.list().data[0].id


# ---- models -------------------------------------------------------------------------------------


def test_models(client, model):
    page = client.models.list()
    assert [type(one) for one in page] == [Model] and page.data[0].id == model
    one = client.models.retrieve(model)
    assert isinstance(one, Model) and one.object == "model" and one.owned_by and one.created > 0


# ---- completions --------------------------------------------------------------------------------


def test_completion(client, model):
    r = client.completions.create(model=model, prompt=PROMPT, **GREEDY)
    assert isinstance(r, Completion) and r.object == "text_completion"
    assert r.choices[0].finish_reason == "length" and r.choices[0].logprobs is None
    assert r.usage.completion_tokens == 20 and r.usage.total_tokens == r.usage.prompt_tokens + 20


def test_completion_with_logprobs_and_echo(loose, model):
    r = loose.completions.create(model=model, prompt=PROMPT, echo=True, logprobs=3, **GREEDY)
    whole, found = r.choices[0].text, r.choices[0].logprobs
    assert whole.startswith(PROMPT)
    n = r.usage.total_tokens
    assert [len(x) for x in (found.tokens, found.token_logprobs, found.top_logprobs, found.text_offset)] == [n] * 4
    assert found.token_logprobs[0] is None and found.top_logprobs[0] is None
    assert all(-100 < x <= 0 for x in found.token_logprobs[1:])
    check_offsets(whole, found)
    for token, value, top in list(zip(found.tokens, found.token_logprobs, found.top_logprobs))[r.usage.prompt_tokens:]:
        assert top[token] == value == max(top.values())  # greedy, and the same float in both places
        assert 3 <= len(top) <= 4


def check_offsets(whole, found):
    """A token's text begins where it says, or is one that adds none."""
    assert found.text_offset == sorted(found.text_offset)
    ends = found.text_offset[1:] + [len(whole)]
    for token, begin, end in zip(found.tokens, found.text_offset, ends):
        assert whole[begin:end] in (token, token[1:], "")


def test_completion_scores_a_prompt(loose, model):
    """No token is generated, and the prompt is scored as it is when one follows."""
    args = {"model": model, "prompt": PROMPT, "echo": True, "logprobs": 1, "temperature": 0}
    alone = loose.completions.create(max_tokens=0, **args)
    more = loose.completions.create(max_tokens=1, **args)
    n = alone.usage.prompt_tokens
    assert alone.choices[0].text == PROMPT and alone.usage.completion_tokens == 0
    assert alone.choices[0].logprobs.token_logprobs == more.choices[0].logprobs.token_logprobs[:n]


def test_completion_of_tokens(client, model):
    """A prompt as tokens is the prompt that the text is."""
    text = client.completions.create(model=model, prompt=PROMPT, **GREEDY | {"extra_body": {"return_token_ids": True}})
    ids = text.choices[0].prompt_token_ids
    several = client.completions.create(model=model, prompt=[ids, ids[:3]], **GREEDY)
    assert several.choices[0].text == client.completions.create(model=model, prompt=PROMPT, **GREEDY).choices[0].text
    assert [one.index for one in several.choices] == [0, 1]


def test_completion_stream(client, loose, model):
    args = {"model": model, "prompt": PROMPT, "n": 2, "logprobs": 2, "seed": 3, "max_tokens": 20}
    whole = client.completions.create(**args)
    texts, probs = ["", ""], [[], []]
    with loose.completions.create(stream=True, stream_options={"include_usage": True}, **args) as stream:
        chunks = list(stream)
    assert all(isinstance(one, Completion) for one in chunks) and len({one.id for one in chunks}) == 1
    for choice in (one.choices[0] for one in chunks[:-1]):
        texts[choice.index] += choice.text
        probs[choice.index] += choice.logprobs.token_logprobs if choice.logprobs else []
    assert texts == [one.text for one in whole.choices]
    assert probs == [one.logprobs.token_logprobs for one in whole.choices]
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens


# ---- chats --------------------------------------------------------------------------------------


def test_chat(client, model):
    r = client.chat.completions.create(model=model, messages=MESSAGES, n=2, seed=1, max_completion_tokens=12)
    assert isinstance(r, ChatCompletion) and r.object == "chat.completion" and r.system_fingerprint
    assert [one.index for one in r.choices] == [0, 1]
    assert r.choices[0].message.role == "assistant" and r.choices[0].message.refusal is None


def test_chat_with_logprobs(client, model):
    args = {"model": model, "messages": MESSAGES, "logprobs": True, "top_logprobs": 4} | GREEDY
    r = client.chat.completions.create(**args)
    found = r.choices[0].logprobs.content
    assert len(found) == r.usage.completion_tokens
    for one in found:
        assert [len(one.top_logprobs), one.top_logprobs[0].logprob] == [4, one.logprob]  # greedy
        assert one.top_logprobs == sorted(one.top_logprobs, key=lambda x: -x.logprob)
        assert one.bytes is None or bytes(one.bytes).decode("utf-8", "replace") == one.token
    chunks = [c.choices[0] for c in client.chat.completions.create(stream=True, **args)]
    assert [one for c in chunks if c.logprobs for one in c.logprobs.content] == found


def test_chat_stream(client, model):
    args = {"model": model, "messages": MESSAGES} | GREEDY
    whole = client.chat.completions.create(**args)
    chunks = list(client.chat.completions.create(stream=True, stream_options={"include_usage": True}, **args))
    assert all(isinstance(one, ChatCompletionChunk) for one in chunks)
    assert chunks[0].choices[0].delta.role == "assistant"
    assert "".join(one.choices[0].delta.content or "" for one in chunks[:-1]) == whole.choices[0].message.content
    assert chunks[-1].usage == whole.usage.model_copy(
        update={"prompt_tokens_details": chunks[-1].usage.prompt_tokens_details})


def test_chat_goes_on_with_the_last_message(client, model):
    """An answer that is cut and sent back is continued as if it had not been cut."""
    args = {"model": model, "temperature": 0, "extra_body": {"ignore_eos": True}}
    whole = client.chat.completions.create(messages=MESSAGES, max_tokens=40, **args).choices[0].message.content
    part = client.chat.completions.create(messages=MESSAGES, max_tokens=15, **args).choices[0].message.content
    said = [*MESSAGES, {"role": "assistant", "content": part}]
    args["extra_body"] |= {"continue_final_message": True}
    rest = client.chat.completions.create(messages=said, max_tokens=25, **args).choices[0].message.content
    assert part + rest == whole and rest
    begun = client.post("/messages", cast_to=object, body={"model": model, "system": said[0]["content"], "max_tokens": 25,
                                                           "messages": said[1:], "temperature": 0, "ignore_eos": True})
    assert begun["content"][0]["text"] == rest  # as Anthropic's API has it
    with pytest.raises(openai.BadRequestError) as e:
        client.chat.completions.create(messages=[*MESSAGES, {"role": "assistant", "content": ""}], **args)
    assert e.value.param == "messages"


def test_chat_stream_helper(client, model):
    """The client's own way to gather a stream finds the answer that is sent whole. (It refuses those cut short.)"""
    args = {"model": model, "messages": MESSAGES, "temperature": 0, "stop": "."}
    with client.chat.completions.stream(**args) as stream:
        kinds = {event.type for event in stream}
        gathered = stream.get_final_completion()
    assert {"chunk", "content.delta", "content.done"} <= kinds
    whole = client.chat.completions.create(**args).choices[0]
    assert gathered.choices[0].message.content == whole.message.content
    assert gathered.choices[0].finish_reason == whole.finish_reason


# ---- responses ----------------------------------------------------------------------------------

ASKED = {"instructions": MESSAGES[0]["content"], "input": MESSAGES[1]["content"], "temperature": 0}


def test_response(client, model):
    """A response is the chat of its instructions and input, in the types of its own; as a list of items, too."""
    chat = client.chat.completions.create(model=model, messages=MESSAGES, temperature=0, max_tokens=20)
    whole = client.responses.create(model=model, max_output_tokens=20, **ASKED)
    assert isinstance(whole, Response) and whole.object == "response"
    assert whole.output_text == chat.choices[0].message.content
    assert (whole.status, whole.incomplete_details.reason) == ("incomplete", "max_output_tokens")
    assert [whole.usage.input_tokens, whole.usage.output_tokens] == [chat.usage.prompt_tokens, 20]
    items = client.responses.create(model=model, input=MESSAGES, temperature=0, max_output_tokens=20)
    assert items.output_text == whole.output_text
    again = client.responses.create(model=model, max_output_tokens=20, store=False, **ASKED)
    assert again.output_text == whole.output_text and again.id != whole.id


def test_response_stream(client, model):
    whole = client.responses.create(model=model, max_output_tokens=20, **ASKED)
    events = list(client.responses.create(model=model, max_output_tokens=20, stream=True, **ASKED))
    assert [one.sequence_number for one in events] == list(range(len(events)))
    kinds = [one.type for one in events]
    assert kinds[:4] == ["response.created", "response.in_progress", "response.output_item.added",
                         "response.content_part.added"]
    assert kinds[-4:] == ["response.output_text.done", "response.content_part.done", "response.output_item.done",
                          "response.incomplete"]
    assert set(kinds[4:-4]) == {"response.output_text.delta"}
    assert "".join(one.delta for one in events[4:-4]) == events[-4].text == whole.output_text
    assert events[-1].response.output_text == whole.output_text and events[-1].response.usage == whole.usage.model_copy(
        update={"input_tokens_details": events[-1].response.usage.input_tokens_details})


def test_response_stream_helper(client, model):
    with client.responses.stream(model=model, max_output_tokens=20, **ASKED) as stream:
        text = "".join(one.delta for one in stream if one.type == "response.output_text.delta")
    assert text == client.responses.create(model=model, max_output_tokens=20, **ASKED).output_text


def test_response_of_a_form(client, model):
    """Parsed into a type of the caller's."""
    class Cat(pydantic.BaseModel):
        name: Literal["Tom", "Kit"]
        age: int = pydantic.Field(ge=0, le=20)

    cat = client.responses.parse(model=model, text_format=Cat, max_output_tokens=100, **ASKED).output_parsed
    assert cat.name in ("Tom", "Kit") and 0 <= cat.age <= 20


@pytest.mark.parametrize("field, value", [("previous_response_id", "resp_1"), ("background", True), ("store", True),
                                          ("input", 5)])
def test_response_that_is_refused(client, model, field, value):
    with pytest.raises(openai.BadRequestError) as e:
        client.responses.create(**{"model": model} | ASKED | {field: value})
    assert e.value.param == field


def test_responses_are_not_kept(client, model):
    one = client.responses.create(model=model, max_output_tokens=1, **ASKED)
    with pytest.raises(openai.NotFoundError):
        client.responses.retrieve(one.id)


# ---- many at a time -----------------------------------------------------------------------------


def test_async_client(server, client, model):
    """Twelve at a time, streamed and not, get what each gets alone."""
    async def one(many, i):
        args = {"model": model, "prompt": PROMPT, "seed": i, "temperature": 1, "max_tokens": 10}
        if i % 2:
            return "".join([c.choices[0].text async for c in await many.completions.create(stream=True, **args)])
        return (await many.completions.create(**args)).choices[0].text

    async def all_of_them():
        async with strict(server, openai.AsyncOpenAI, _strict_response_validation=False) as many:
            return await asyncio.gather(*(one(many, i) for i in range(12)))

    alone = [client.completions.create(model=model, prompt=PROMPT, seed=i, temperature=1, max_tokens=10)
             for i in range(12)]
    assert asyncio.run(all_of_them()) == [r.choices[0].text for r in alone]


# ---- embeddings ---------------------------------------------------------------------------------


def test_embeddings(client, loose, model):
    texts = ["a cat", "a dog and a bird", "the sea"]
    r = client.embeddings.create(model=model, input=texts, encoding_format="float")
    assert isinstance(r, CreateEmbeddingResponse) and [one.index for one in r.data] == [0, 1, 2]
    assert r.usage.prompt_tokens == r.usage.total_tokens > 3
    for one in r.data:
        assert math.isclose(math.hypot(*one.embedding), 1, abs_tol=1e-5)
    packed = loose.embeddings.create(model=model, input=texts)  # base64, which the client decodes
    for one, other in zip(r.data, packed.data):
        assert one.embedding == pytest.approx(other.embedding, rel=1e-7, abs=1e-9)
    alone = client.embeddings.create(model=model, input=texts[1], encoding_format="float")
    assert alone.data[0].embedding == r.data[1].embedding


def test_embeddings_of_fewer_dimensions(loose, model):
    whole = loose.embeddings.create(model=model, input="a cat").data[0].embedding
    part = loose.embeddings.create(model=model, input="a cat", dimensions=16).data[0].embedding
    length = math.hypot(*whole[:16])
    assert part == pytest.approx([x / length for x in whole[:16]], rel=1e-5, abs=1e-7)


# ---- errors by class ----------------------------------------------------------------------------


def test_bad_request(client, model):
    with pytest.raises(openai.BadRequestError) as e:
        client.completions.create(model=model, prompt=PROMPT, temperature=3)
    assert (e.value.status_code, e.value.param, e.value.type) == (400, "temperature", "invalid_request_error")
    assert e.value.request_id and "temperature" in str(e.value)


def test_context_length(client, model):
    with pytest.raises(openai.BadRequestError) as e:
        client.chat.completions.create(model=model, messages=[{"role": "user", "content": "word " * 5000}])
    assert e.value.code == "context_length_exceeded"


def test_not_found(client):
    with pytest.raises(openai.NotFoundError) as e:
        client.chat.completions.create(model="gpt-99", messages=MESSAGES)
    assert e.value.code == "model_not_found"
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("gpt-99")


def test_what_is_not_there(client):
    """Endpoints of OpenAI's that this server does not have."""
    with pytest.raises(openai.NotFoundError):
        client.images.generate(prompt="a cat")
    with pytest.raises(openai.NotFoundError):
        client.moderations.create(input="a cat")


def test_timeout(server, model):
    """The client gives up, and the server stops computing for it."""
    with strict(server, timeout=0.05) as hasty, pytest.raises(openai.APITimeoutError):
        hasty.completions.create(model=model, prompt=[PROMPT] * 8, n=8, max_tokens=400, extra_body={"ignore_eos": True})
    server.wait_idle()


def test_no_connection(server):
    with strict(server) as one:
        nobody = one.with_options(base_url="http://127.0.0.1:1/v1")
        with pytest.raises(openai.APIConnectionError):
            nobody.models.list()


def test_a_stream_that_is_left(server, loose, model):
    stream = loose.completions.create(model=model, prompt=[PROMPT] * 4, n=4, max_tokens=400, stream=True,
                                       extra_body={"ignore_eos": True})
    next(iter(stream))
    stream.close()
    server.wait_idle()


def test_rate_limit():
    """A full queue is a 429 that says when to come again; a client that may try again gets its answer."""
    small = serving.Server("--max-seq", "1", "--max-queue", "16")
    args = {"model": small.model, "temperature": 0, "extra_body": {"ignore_eos": True}}

    async def ask_at_once(n):
        async with strict(small, openai.AsyncOpenAI) as many:
            return await asyncio.gather(*(many.completions.create(prompt=[PROMPT] * 8, max_tokens=200, **args)
                                          for _ in range(n)), return_exceptions=True)

    def patient():
        with strict(small, max_retries=50) as one:
            done.append(one.completions.create(prompt=[PROMPT] * 8, max_tokens=4, **args))

    done = []
    waiting = threading.Thread(target=patient)
    waiting.start()
    refused = [e for e in asyncio.run(ask_at_once(12)) if isinstance(e, Exception)]
    waiting.join(120)
    assert refused and {type(e) for e in refused} == {openai.RateLimitError}
    assert all(e.code == "queue_full" and int(e.response.headers["retry-after"]) > 0 for e in refused)
    assert len(done[0].choices) == 8
    assert small.stop() == 0


# ---- keys, and the end --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def guarded(tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text("# NAME KEY\nalice sk-alice-1\nbob sk-bob-1\nroot sk-root-1 admin priority=5\n", encoding="ascii")
    keys.chmod(0o600)
    one = serving.Server("--api-key-file", keys)
    yield one
    serving.check_end(one)


def test_authentication(guarded):
    for key in ("none", "sk-alice-", "sk-alice-12", "SK-ALICE-1"):
        with strict(guarded, api_key=key) as stranger, pytest.raises(openai.AuthenticationError) as e:
            stranger.models.list()
        assert (e.value.status_code, e.value.code) == (401, "invalid_api_key")
        assert key not in str(e.value)
    with strict(guarded, api_key="sk-alice-1") as alice:
        assert alice.models.list().data


def test_permission(guarded):
    """Only an admin's key opens an admin's path, and only a key that may raises a priority."""
    with strict(guarded, api_key="sk-alice-1") as alice, strict(guarded, api_key="sk-root-1") as root:
        with pytest.raises(openai.PermissionDeniedError):
            alice.post("/../admin/cache/clear", cast_to=object)
        root.post("/../admin/cache/clear", cast_to=object)
        args = {"model": alice.models.list().data[0].id, "prompt": PROMPT, "max_tokens": 1}
        with pytest.raises(openai.PermissionDeniedError):
            alice.completions.create(extra_body={"priority": -5}, **args)
        assert root.completions.create(extra_body={"priority": -5}, **args).choices


def test_no_key_tells_of_another_keys_prompts(guarded):
    with strict(guarded, api_key="sk-alice-1") as alice, strict(guarded, api_key="sk-bob-1") as bob:
        args = {"model": alice.models.list().data[0].id, "prompt": PROMPT + " boat that sailed far away to the moon",
                "max_tokens": 4}

        def n_cached(client):
            return client.completions.create(**args).usage.prompt_tokens_details.cached_tokens

        assert [n_cached(alice), n_cached(bob)] == [0, 0]
        assert n_cached(alice) > 0 and n_cached(bob) > 0


def test_draining():
    """A server that ends serves what runs, and refuses what is new in a way that the client knows."""
    one = serving.Server()
    args = {"model": one.model, "prompt": PROMPT, "max_tokens": 400, "temperature": 0,
            "extra_body": {"ignore_eos": True}}
    with strict(one, _strict_response_validation=False) as client:
        whole = client.completions.create(**args).choices[0].text
        stream = client.completions.create(stream=True, **args)
        begun = next(iter(stream)).choices[0].text
        one.child.terminate()
        one.wait_line("stopping|draining")
        with pytest.raises((openai.InternalServerError, openai.APIConnectionError)) as e:
            client.completions.create(**args)
        if isinstance(e.value, openai.InternalServerError):
            assert (e.value.status_code, e.value.code) == (503, "draining")
        assert begun + "".join(chunk.choices[0].text for chunk in stream) == whole
    assert one.child.wait(60) == 0
    one.stop()
