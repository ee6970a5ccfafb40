"""Programs and libraries that are set up with a base URL, in their ordinary use: litellm, langchain-openai, llm.

Each must get the answer that a plain request gets, whole and streamed, and know the errors that it has names for.
"""
import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import serving

PROMPT = "Once upon a time there was a"
MESSAGES = [{"role": "user", "content": "Tell me of a cat."}]
KEY = "sk-test-1"
GREEDY = {"temperature": 0, "max_tokens": 16}


@pytest.fixture(scope="module")
def server(tmp_path_factory):
    keys = tmp_path_factory.mktemp("keys") / "keys"
    keys.write_text(f"tester {KEY}\n", encoding="ascii")
    keys.chmod(0o600)
    one = serving.Server("--pooling", "mean", "--api-key-file", keys, key=KEY)
    yield one
    serving.check_end(one)


@pytest.fixture(scope="module")
def said(server):
    """What the model says to MESSAGES."""
    body = server.call("POST", "/v1/chat/completions", {"messages": MESSAGES} | GREEDY)[1]
    return json.loads(body)["choices"][0]["message"]["content"]


@pytest.fixture(scope="module")
def written(server):
    return server.complete(prompt=PROMPT, **GREEDY)[0]


# ---- litellm ------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def litellm():
    os.environ["LITELLM_LOCAL_MODEL_COST_MAP"] = "True"  # else it asks the network for prices
    module = pytest.importorskip("litellm")
    module.suppress_debug_info = True
    return module


@pytest.fixture(params=["openai", "hosted_vllm"])
def lite(request, server):
    return {"model": f"{request.param}/{server.model}", "api_base": server.url + "/v1", "api_key": KEY, "timeout": 120,
            "num_retries": 0, "max_retries": 0}


def test_litellm_chat(litellm, lite, said):
    whole = litellm.completion(messages=MESSAGES, **lite, **GREEDY)
    assert whole.choices[0].message.content == said and whole.usage.completion_tokens > 0
    pieces = litellm.completion(messages=MESSAGES, stream=True, **lite, **GREEDY)
    assert "".join(one.choices[0].delta.content or "" for one in pieces) == said


def test_litellm_text(litellm, server, written):
    args = {"model": f"text-completion-openai/{server.model}", "api_base": server.url + "/v1", "api_key": KEY}
    assert litellm.text_completion(prompt=PROMPT, **args, **GREEDY).choices[0].text == written


def test_litellm_embedding(litellm, server):
    args = {"model": f"openai/{server.model}", "api_base": server.url + "/v1", "api_key": KEY}
    found = litellm.embedding(input=["a cat", "a dog"], encoding_format="float", **args)
    assert len(found.data) == 2 and len(found.data[0]["embedding"]) == len(found.data[1]["embedding"]) > 0


def test_litellm_errors(litellm, lite):
    def fails(kind, **more):
        with pytest.raises(kind):
            litellm.completion(**{"messages": MESSAGES} | lite | more)

    fails(litellm.AuthenticationError, api_key="wrong")
    fails(litellm.NotFoundError, model="openai/gpt-99")
    fails(litellm.BadRequestError, temperature=9)
    fails(litellm.ContextWindowExceededError, messages=[{"role": "user", "content": "word " * 5000}])


# ---- langchain ----------------------------------------------------------------------------------


@pytest.fixture
def chain(server):
    return {"base_url": server.url + "/v1", "api_key": KEY, "model": server.model, "max_retries": 0, "timeout": 120}


def test_langchain_chat(chain, said):
    langchain_openai = pytest.importorskip("langchain_openai")
    chat = langchain_openai.ChatOpenAI(**chain, **GREEDY)
    whole = chat.invoke("Tell me of a cat.")
    assert whole.content == said and whole.usage_metadata["output_tokens"] > 0
    assert "".join(piece.content for piece in chat.stream("Tell me of a cat.")) == said
    assert [one.content for one in chat.batch(["Tell me of a cat."] * 4)] == [said] * 4
    scored = chat.bind(logprobs=True).invoke("Tell me of a cat.")
    assert len(scored.response_metadata["logprobs"]["content"]) == scored.usage_metadata["output_tokens"]


def test_langchain_text_and_embeddings(chain, written):
    langchain_openai = pytest.importorskip("langchain_openai")
    assert langchain_openai.OpenAI(**chain, **GREEDY).invoke(PROMPT) == written
    vectors = langchain_openai.OpenAIEmbeddings(**chain, check_embedding_ctx_length=False).embed_documents(["a", "b"])
    assert len(vectors) == 2 and len(vectors[0]) == len(vectors[1]) > 0


# ---- llm ----------------------------------------------------------------------------------------


@pytest.fixture
def llm(server, tmp_path):
    """Runs the program `llm` with the server as one of its models."""
    (tmp_path / "extra-openai-models.yaml").write_text(
        f"- model_id: story\n  model_name: {server.model}\n  api_base: {server.url}/v1\n  api_key_name: story\n",
        encoding="ascii")
    (tmp_path / "keys.json").write_text(json.dumps({"story": KEY}), encoding="ascii")

    def run(*args, ok=True):
        done = subprocess.run([Path(sys.executable).parent / "llm", *args], capture_output=True, text=True, timeout=120,
                              env=os.environ | {"LLM_USER_PATH": str(tmp_path)}, stdin=subprocess.DEVNULL)
        assert (done.returncode == 0) == ok, done.stderr
        return done.stdout if ok else done.stderr

    return run


def test_llm(llm, said):
    ask = ["-m", "story", "-o", "temperature", "0", "-o", "max_tokens", "16", "Tell me of a cat."]
    assert llm(*ask) == said + "\n"
    assert llm("--no-stream", *ask) == said + "\n"
    assert llm("-c", "And then?").strip()  # goes on with the conversation
    assert "temperature" in llm("-m", "story", "-o", "temperature", "9", "hello", ok=False).lower()
