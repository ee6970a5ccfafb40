"""The official `openai` client against the real program: what users' programs will do.

Run by CTest through run_pytest.sh, or by hand:
    FLEXINFER=build/debug/bin/flexinfer build/venv/bin/python -m pytest tests/server/test_openai.py
FLEXINFER_MODEL names another model than models/storyteller.gguf.
"""

import array
import concurrent.futures
import json
import subprocess
import urllib.error
import urllib.request

import openai
import pytest
from real_server import MODEL, PROGRAM, Server


@pytest.fixture(scope="module")
def server():
    one = Server()
    yield one
    assert one.stop() == 0, "\n".join(one.lines)


@pytest.fixture(scope="module")
def client(server):
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0, timeout=120) as c:
        yield c


@pytest.fixture(scope="module")
def model(client):
    return client.models.list().data[0].id


PROMPT = "Once upon a time"
MESSAGES = [{"role": "system", "content": "Tell stories."}, {"role": "user", "content": PROMPT}]


def complete(client, model, **more):
    args = {"prompt": PROMPT, "max_tokens": 24, "temperature": 0} | more
    return client.completions.create(model=model, **args)


def chat(client, model, **more):
    args = {"messages": MESSAGES, "max_tokens": 24, "temperature": 0} | more
    return client.chat.completions.create(model=model, **args)


# ---- the models ---------------------------------------------------------------------------------


def test_models(client, model):
    one = client.models.retrieve(model)
    assert one.id == model and one.object == "model" and one.max_model_len > 0
    with pytest.raises(openai.NotFoundError):
        client.models.retrieve("no-such-model")


def test_health(server):
    with urllib.request.urlopen(server.url + "/health") as r:
        assert json.load(r) == {"status": "ok"}


# ---- whole answers ------------------------------------------------------------------------------


def check_usage(usage, n_completion=None):
    assert usage.prompt_tokens > 0
    assert usage.total_tokens == usage.prompt_tokens + usage.completion_tokens
    assert usage.prompt_tokens_details.cached_tokens >= 0
    if n_completion is not None:
        assert usage.completion_tokens == n_completion


def test_completion(client, model):
    r = complete(client, model, extra_body={"ignore_eos": True})
    assert r.object == "text_completion" and r.id.startswith("cmpl-") and r.model == model
    assert r.choices[0].text and r.choices[0].finish_reason == "length"
    check_usage(r.usage, 24)
    assert complete(client, model, extra_body={"ignore_eos": True}).choices[0].text == r.choices[0].text


def test_completion_default_length(client, model):
    r = client.completions.create(model=model, prompt=PROMPT, extra_body={"ignore_eos": True})
    assert r.usage.completion_tokens == 16


def test_chat(client, model):
    r = chat(client, model)
    assert r.object == "chat.completion" and r.id.startswith("chatcmpl-")
    message = r.choices[0].message
    assert message.role == "assistant" and isinstance(message.content, str)
    assert r.choices[0].finish_reason in ("stop", "length")
    check_usage(r.usage)


def test_chat_content_parts(client, model):
    parts = [{"type": "text", "text": PROMPT}]
    a = chat(client, model, messages=[{"role": "user", "content": parts}])
    b = chat(client, model, messages=[{"role": "user", "content": PROMPT}])
    assert a.choices[0].message.content == b.choices[0].message.content


def test_max_completion_tokens(client, model):
    r = chat(client, model, max_completion_tokens=5, extra_body={"ignore_eos": True})
    assert r.usage.completion_tokens == 5


def test_n(client, model):
    r = complete(client, model, n=2, temperature=1, seed=7)
    assert [c.index for c in r.choices] == [0, 1]
    assert r.choices[0].text != r.choices[1].text
    again = complete(client, model, n=2, temperature=1, seed=7)
    assert [c.text for c in again.choices] == [c.text for c in r.choices]


def test_several_prompts(client, model):
    prompts = [PROMPT, "The cat", "One day"]
    r = complete(client, model, prompt=prompts, n=2)
    assert [c.index for c in sorted(r.choices, key=lambda c: c.index)] == list(range(6))
    for i, prompt in enumerate(prompts):
        alone = complete(client, model, prompt=prompt)
        assert r.choices[2 * i].text == alone.choices[0].text == r.choices[2 * i + 1].text


def test_stop(client, model):
    whole = complete(client, model, max_tokens=60).choices[0].text
    word = whole.split()[4]
    r = complete(client, model, max_tokens=60, stop=[word, "never seen"])
    assert r.choices[0].text == whole[: whole.index(word)]
    assert r.choices[0].finish_reason == "stop"


def test_empty_prompt(client, model):
    assert complete(client, model, prompt="", max_tokens=4).usage.prompt_tokens == 1  # BOS


# ---- sampling -----------------------------------------------------------------------------------


def last_token(text):
    """The id that ends `text`."""
    out = subprocess.run([PROGRAM, "tokenize", "-m", MODEL, "--no-bos"], input=text, text=True,
                         capture_output=True, check=True).stdout
    return int(out.split()[-1])


def text_of(reply):
    return reply.choices[0].text


@pytest.fixture(scope="module")
def cat():
    return last_token("a cat")


@pytest.fixture(scope="module")
def fox():
    return last_token("a fox")


def test_logit_bias(client, model, cat):
    r = complete(client, model, max_tokens=4, logit_bias={str(cat): 100})
    assert text_of(r).split() == ["cat"] * 4
    r = complete(client, model, max_tokens=60, logit_bias={str(cat): -100}, extra_body={"ignore_eos": True})
    assert "cat" not in text_of(r).split()


def test_allowed_token_ids(client, model, cat, fox):
    r = complete(client, model, max_tokens=20, temperature=2, seed=1, extra_body={"allowed_token_ids": [cat, fox]})
    assert set(text_of(r).split()) == {"cat", "fox"}


def test_repetition_penalty(client, model, cat, fox):
    only = {"allowed_token_ids": [cat, fox]}
    bias = {str(cat): 100, str(fox): 50}
    r = complete(client, model, max_tokens=2, logit_bias=bias, extra_body=only)
    assert text_of(r).split() == ["cat", "cat"]
    r = complete(client, model, max_tokens=2, logit_bias=bias, extra_body=only | {"repetition_penalty": 1e20})
    assert text_of(r).split() == ["cat", "fox"]


def test_penalties_change_the_answer(client, model):
    def words(**more):
        more = {"extra_body": {"ignore_eos": True}} | more
        return text_of(complete(client, model, max_tokens=100, **more)).split()

    plain = words()
    assert len(set(words(presence_penalty=2, frequency_penalty=2))) > len(set(plain))
    assert len(set(words(presence_penalty=-2, frequency_penalty=-2))) < len(set(plain))


def test_typical_p(client, model):
    """A tiny typical_p leaves one token to draw, whatever the seed."""
    texts = {text_of(complete(client, model, temperature=1, seed=i, extra_body={"typical_p": 1e-6})) for i in range(4)}
    assert len(texts) == 1


# ---- where an answer ends -----------------------------------------------------------------------


def first_sentence(client, model, **more):
    """Stopped by the token of the first full stop."""
    stop = {"stop_token_ids": [last_token("a cat.")], "ignore_eos": True}
    return complete(client, model, max_tokens=100, extra_body=stop | more)


def test_stop_token_ids(client, model):
    whole = text_of(complete(client, model, max_tokens=100, extra_body={"ignore_eos": True}))
    r = first_sentence(client, model)
    assert text_of(r) == whole[: whole.index(".")]
    assert r.choices[0].finish_reason == "stop" and r.choices[0].stop_reason == last_token("a cat.")
    r = first_sentence(client, model, include_stop_str_in_output=True)
    assert text_of(r) == whole[: whole.index(".") + 1]


def test_stop_reason(client, model):
    whole = text_of(complete(client, model, max_tokens=60))
    word = whole.split()[4]
    r = complete(client, model, max_tokens=60, stop=["never seen", word])
    assert r.choices[0].stop_reason == word
    r = complete(client, model, max_tokens=60, stop=word, extra_body={"include_stop_str_in_output": True})
    assert text_of(r) == whole[: whole.index(word) + len(word)] and r.choices[0].stop_reason == word
    chunks = list(chat(client, model, stop=".", max_tokens=100, stream=True))
    assert chunks[-1].choices[0].finish_reason == "stop" and chunks[-1].choices[0].stop_reason == "."
    r = complete(client, model, max_tokens=2)
    assert r.choices[0].finish_reason == "length" and r.choices[0].stop_reason is None


def test_end_of_text_is_no_stop_reason(client, model):
    r = complete(client, model, max_tokens=5, logit_bias={"2": 100})
    assert r.choices[0].finish_reason == "stop" and r.choices[0].stop_reason is None
    assert text_of(r) == "" and r.usage.completion_tokens == 1


def test_min_tokens(client, model):
    n = first_sentence(client, model).usage.completion_tokens
    r = first_sentence(client, model, min_tokens=n + 10)
    assert r.usage.completion_tokens >= n + 10
    r = complete(client, model, max_tokens=20, logit_bias={"2": 100}, extra_body={"min_tokens": 12})
    assert r.usage.completion_tokens == 13 and r.choices[0].finish_reason == "stop"


# ---- several answers ----------------------------------------------------------------------------


def test_n_at_temperature_0(client, model):
    r = complete(client, model, n=4, max_tokens=40)
    assert len({c.text for c in r.choices}) == 1 and len(r.choices) == 4


def test_best_of(client, model):
    """The best are among the choices that `n` would have given."""
    args = dict(temperature=1, seed=5, max_tokens=12)
    all_six = complete(client, model, n=6, **args)
    r = complete(client, model, n=2, best_of=6, **args)
    assert [c.index for c in r.choices] == [0, 1]
    assert {c.text for c in r.choices} < {c.text for c in all_six.choices}
    assert r.usage.completion_tokens == all_six.usage.completion_tokens  # the discarded ones too
    again = complete(client, model, n=2, best_of=6, **args)
    assert [c.text for c in again.choices] == [c.text for c in r.choices]


def test_beam_search(client, model):
    r = complete(client, model, n=3, extra_body={"use_beam_search": True})
    assert len({c.text for c in r.choices}) == 3
    again = complete(client, model, n=3, temperature=1, seed=9, extra_body={"use_beam_search": True})
    assert [c.text for c in again.choices] == [c.text for c in r.choices]
    wide = complete(client, model, best_of=6, extra_body={"use_beam_search": True, "early_stopping": "never"})
    assert len(wide.choices) == 1
    r = chat(client, model, n=2, extra_body={"use_beam_search": True, "length_penalty": 0.5})
    assert len({c.message.content for c in r.choices}) == 2


def test_narrow_beam_is_greedy(client, model):
    greedy = complete(client, model, extra_body={"ignore_eos": True})
    beam = complete(client, model, extra_body={"ignore_eos": True, "use_beam_search": True})
    assert text_of(beam) == text_of(greedy) and beam.usage == greedy.usage


# ---- what prompts share -------------------------------------------------------------------------


def test_cached_tokens(client, model):
    prompt = PROMPT + " there was a cat who lived in a big house by the sea with a dog and two birds."

    def n_cached(**more):
        r = complete(client, model, prompt=prompt, max_tokens=4, extra_body=more)
        assert r.usage.prompt_tokens_details.cached_tokens < r.usage.prompt_tokens
        return r.usage.prompt_tokens_details.cached_tokens

    assert n_cached(cache_salt="one") == 0
    assert n_cached(cache_salt="one", cache_prompt=True) > 0
    assert n_cached(cache_salt="two") == 0
    assert n_cached(cache_salt="one", cache_prompt=False) == 0
    assert n_cached(cache_salt="one", priority=5) > 0


# ---- streams ------------------------------------------------------------------------------------


def test_stream_completion(client, model):
    whole = complete(client, model)
    chunks = list(complete(client, model, stream=True, stream_options={"include_usage": True}))
    assert len({c.id for c in chunks}) == 1
    assert "".join(c.choices[0].text for c in chunks if c.choices) == whole.choices[0].text
    assert chunks[-2].choices[0].finish_reason == whole.choices[0].finish_reason
    assert chunks[-1].choices == [] and chunks[-1].usage.completion_tokens == whole.usage.completion_tokens
    check_usage(chunks[-1].usage)
    assert all(c.usage is None for c in chunks[:-1])


def test_stream_chat(client, model):
    whole = chat(client, model)
    chunks = list(chat(client, model, stream=True))
    assert chunks[0].choices[0].delta.role == "assistant"
    text = "".join(c.choices[0].delta.content or "" for c in chunks)
    assert text == whole.choices[0].message.content
    assert [c.choices[0].finish_reason for c in chunks[:-1]] == [None] * (len(chunks) - 1)
    assert chunks[-1].choices[0].finish_reason == whole.choices[0].finish_reason
    assert all("usage" not in c.model_fields_set for c in chunks)


def test_stream_n(client, model):
    whole = complete(client, model, n=3, temperature=1, seed=3)
    texts = ["", "", ""]
    for c in complete(client, model, n=3, temperature=1, seed=3, stream=True):
        texts[c.choices[0].index] += c.choices[0].text
    assert texts == [c.text for c in whole.choices]


# ---- errors -------------------------------------------------------------------------------------


def test_unknown_model(client):
    with pytest.raises(openai.NotFoundError) as e:
        complete(client, "gpt-99")
    assert e.value.code == "model_not_found" and e.value.param == "model"


@pytest.mark.parametrize("param, value", [
    ("temperature", 3), ("temperature", "hot"), ("top_p", 0), ("n", 0), ("max_tokens", -1),
    ("prompt", []), ("stop", [""]), ("seed", 0.5), ("stream_options", {"include_usage": True}),
    ("logit_bias", {"cat": 1}), ("stop_token_ids", [2**31]), ("best_of", 0), ("min_tokens", 25), ("priority", 101),
    ("cache_salt", ""), ("allowed_token_ids", []), ("early_stopping", "soon")])
def test_bad_value(client, model, param, value):
    with pytest.raises(openai.BadRequestError) as e:
        complete(client, model, extra_body={param: value})
    assert e.value.param == param and e.value.type == "invalid_request_error"


def test_no_messages(client, model):
    with pytest.raises(openai.BadRequestError) as e:
        chat(client, model, messages=[])
    assert e.value.param == "messages"


def test_prompt_too_long(client, model):
    n = client.models.retrieve(model).max_model_len
    with pytest.raises(openai.BadRequestError) as e:
        complete(client, model, prompt="word " * (n + 10))
    assert e.value.code == "context_length_exceeded"


@pytest.mark.parametrize("param, value", [("best_of", 2), ("use_beam_search", True)])
def test_not_in_a_stream(client, model, param, value):
    with pytest.raises(openai.BadRequestError) as e:
        complete(client, model, stream=True, extra_body={param: value})
    assert e.value.param == param


def test_what_never_fits(model):
    """More choices than the KV budget holds are refused at once, not queued for ever."""
    small = Server("--kv-memory", "4M")
    with openai.OpenAI(base_url=small.url + "/v1", api_key="none", max_retries=0, timeout=120) as client:
        with pytest.raises(openai.BadRequestError) as e:
            complete(client, model, n=8, max_tokens=400)
        assert e.value.code == "kv_budget_exceeded" and e.value.param == "max_tokens"
        assert "budget" in e.value.message
        assert len(complete(client, model, n=2, max_tokens=40).choices) == 2
    assert small.stop() == 0, "\n".join(small.lines)


def test_token_outside_vocabulary(client, model):
    with pytest.raises(openai.BadRequestError):
        complete(client, model, prompt=[1, 2**30])


def test_not_supported(client, model):
    """A client's fault, so that clients do not try again."""
    with pytest.raises(openai.BadRequestError) as e:
        complete(client, model, suffix="the end")
    assert e.value.code == "unsupported_parameter" and e.value.param == "suffix"


def test_broken_json(server):
    with pytest.raises(urllib.error.HTTPError) as e:
        urllib.request.urlopen(urllib.request.Request(
            server.url + "/v1/completions", data=b'{"prompt": "a', headers={"Content-Type": "application/json"}))
    with e.value as r:
        assert r.code == 400 and json.load(r)["error"]["code"] == "invalid_json"


# ---- scores and vectors -------------------------------------------------------------------------


def test_scores_of_a_text(client, model):
    """What evaluation harnesses read: where a token is the likeliest, its logprob equals the greatest."""
    r = complete(client, model, echo=True, max_tokens=0, logprobs=1).choices[0]
    assert r.text == PROMPT and r.logprobs.token_logprobs[0] is None
    for value, top in zip(r.logprobs.token_logprobs[1:], r.logprobs.top_logprobs[1:], strict=True):
        assert value in top.values() and value <= max(top.values()) and 1 <= len(top) <= 2
    whole = complete(client, model, echo=True, max_tokens=4, logprobs=1).choices[0].logprobs
    assert whole.token_logprobs[:len(r.logprobs.tokens)] == r.logprobs.token_logprobs
    assert all(value == max(top.values()) for value, top in zip(whole.token_logprobs[-4:], whole.top_logprobs[-4:]))


def test_embeddings(model):
    """The client asks for base64 unless told otherwise; both forms are the same floats."""
    embeds = Server("--pooling", "mean")
    with openai.OpenAI(base_url=embeds.url + "/v1", api_key="none", max_retries=0, timeout=120) as client:
        texts = [PROMPT, "The dog ran home."]
        packed = client.embeddings.create(model=model, input=texts)
        plain = client.embeddings.create(model=model, input=texts, encoding_format="float")
        assert [d.index for d in plain.data] == [0, 1]
        for one, other in zip(packed.data, plain.data, strict=True):
            assert array.array("f", one.embedding) == array.array("f", other.embedding)
        assert plain.data[0].embedding != plain.data[1].embedding and plain.usage.total_tokens > 2
        short = client.embeddings.create(model=model, input=PROMPT, dimensions=5)
        assert len(short.data[0].embedding) == 5
    assert embeds.stop() == 0, "\n".join(embeds.lines)


# ---- together -----------------------------------------------------------------------------------


def test_embeddings_of_a_model_that_embeds_none(client, model):
    with pytest.raises(openai.BadRequestError) as refused:
        client.embeddings.create(model=model, input="a cat")
    assert refused.value.param == "model"


def test_batch_mates_change_nothing(client, model):
    """Eight concurrent requests get the answers that each gets alone."""
    orders = [dict(prompt=f"{PROMPT} there was a {w}", seed=i, temperature=1 if i % 2 else 0,
                   max_tokens=20 + 5 * i, extra_body={"top_k": 20, "ignore_eos": True})
              for i, w in enumerate("cat dog bird fish girl boy tree king".split())]
    alone = [complete(client, model, **o).choices[0].text for o in orders]
    with concurrent.futures.ThreadPoolExecutor(8) as pool:
        together = list(pool.map(lambda o: complete(client, model, **o).choices[0].text, orders))
    assert together == alone


def test_hang_up(server, client, model):
    """A request whose client leaves is cancelled, streamed or not; the others go on."""
    long = dict(prompt=[PROMPT] * 8, n=8, max_tokens=100000)
    left = r" POST /v1/completions 499 "
    stream = complete(client, model, stream=True, extra_body={"ignore_eos": True}, **long)
    next(iter(stream))
    stream.close()
    server.wait_line(left)
    seen = len(server.lines)
    server.leave_once_running(model=model, ignore_eos=True, **long)
    server.wait_line(left, start=seen)
    assert complete(client, model).choices[0].text


def test_nothing_of_prompts_in_the_log(server, client, model):
    complete(client, model, prompt="xyzzy plugh")
    server.wait_line(r" POST /v1/completions 200 ")
    assert not any("xyzzy" in line or PROMPT in line for line in server.lines)
