"""Whatever bytes a text has, in prompts and in answers, what the real program sends is strict UTF-8 and valid JSON.

Run by CTest through run_pytest.sh. Token ids 3 to 258 of models/storyteller.gguf are the single bytes 0 to 255.
"""

import codecs
import json
import random
import urllib.error
import urllib.request

import pytest
from real_server import Server

FIRST_BYTE = 3
BYTE_IDS = list(range(FIRST_BYTE, FIRST_BYTE + 256))

random_bytes = random.Random(5).randbytes(400)
likely = random.Random(6)
TEXTS = {
    "every byte": bytes(range(256)),
    "NUL": b"a\0b\0\0",
    "quotes and controls": b"\"\\/\b\f\n\r\t\x1b\x7f",
    "split characters": "é€😀".encode(),
    "cut at the end": "ab😀".encode()[:-1],
    "surrogates": b"\xed\xa0\x80 \xed\xb0\x80 \xed\xa0\xbd\xed\xb8\x80",
    "overlong": b"\xc0\x80 \xe0\x80\xaf \xf0\x80\x80\xaf",
    "beyond Unicode": b"\xf4\x90\x80\x80 \xf8\x88\x80\x80\x80 \xff\xfe",
    "not characters": "\ufffe\uffff\u2028\u2029\U0010ffff".encode(),
    "what ends an event": b"\n\n\r\n\r\ndata: [DONE]\n\n: a\n\n",
    "random": random_bytes,
    "lead bytes and tails": bytes(likely.choice(b"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xed\xa0\xf4\x90\xff\"\\\0a") for _ in range(400)),
}


@pytest.fixture(scope="module")
def url():
    server = Server()
    yield server.url
    assert server.stop() == 0, "\n".join(server.lines)


def post(url, path, **fields):
    request = urllib.request.Request(url + path, json.dumps(fields).encode(), {"Content-Type": "application/json"})
    with urllib.request.urlopen(request) as answer:
        return answer.read().decode("utf-8")  # strict


def refuse_constant(name):
    raise AssertionError(f"{name} is not JSON")


def whole(url, path, **fields):
    return json.loads(post(url, path, **fields), parse_constant=refuse_constant)


def events(url, path, **fields):
    text = post(url, path, stream=True, **fields)
    assert text.endswith("data: [DONE]\n\n")
    lines = text.removesuffix("\n\n").split("\n\n")
    assert all(line.startswith("data: ") for line in lines)
    return [json.loads(line.removeprefix("data: "), parse_constant=refuse_constant) for line in lines[:-1]]


def show_byte(fault):
    return "\ufffd", fault.start + 1


codecs.register_error("one each", show_byte)


def shown(text):
    """Bytes as SentencePiece shows them: each that belongs to no character is one U+FFFD."""
    return text.decode("utf-8", "one each")


def spelled(ids):
    return bytes(id - FIRST_BYTE for id in ids)


@pytest.mark.parametrize("name", TEXTS)
def test_prompts(url, name):
    """Echoed whole and as a stream, with the bytes of every token, and detokenized."""
    ids = [FIRST_BYTE + byte for byte in TEXTS[name]]
    asked = {"prompt": ids, "echo": True, "max_tokens": 0, "logprobs": 2}
    answer = whole(url, "/v1/completions", **asked)["choices"][0]
    assert answer["text"] == shown(TEXTS[name])
    assert len(answer["logprobs"]["tokens"]) == len(ids)
    parts = [event["choices"][0]["text"] for event in events(url, "/v1/completions", **asked)]
    assert "".join(parts) == shown(TEXTS[name])
    detokenized = whole(url, "/detokenize", tokens=ids)
    assert detokenized["content"] == detokenized["prompt"] == shown(TEXTS[name])


# Answers of any bytes at all; the likely ones make characters, and break them.
SETS = {"any": BYTE_IDS, "likely": [FIRST_BYTE + byte for byte in b"\xc3\xa9\xe2\x82\xac\xf0\x9f\x98\x80\xed\xa0\0\"\\\n"]}
ASKED = {"temperature": 2, "max_tokens": 100, "n": 4, "seed": 11, "ignore_eos": True, "return_token_ids": True}


@pytest.mark.parametrize("name", SETS)
def test_completions(url, name):
    asked = ASKED | {"prompt": "Once", "logprobs": 2, "allowed_token_ids": SETS[name]}
    answer = whole(url, "/v1/completions", **asked)
    want = [shown(spelled(choice["token_ids"])) for choice in answer["choices"]]
    assert [choice["text"] for choice in answer["choices"]] == want
    texts = [""] * 4
    for choice in (event["choices"][0] for event in events(url, "/v1/completions", **asked)):
        texts[choice["index"]] += choice["text"]
    assert texts == want


@pytest.mark.parametrize("name", SETS)
def test_chats(url, name):
    messages = [{"role": "user", "content": "\ud83d\ude00\u2028"}]
    asked = ASKED | {"messages": messages, "logprobs": True, "top_logprobs": 2, "allowed_token_ids": SETS[name]}
    answer = whole(url, "/v1/chat/completions", **asked)
    want = [shown(spelled(choice["token_ids"])) for choice in answer["choices"]]
    assert [choice["message"]["content"] for choice in answer["choices"]] == want
    for choice, text in zip(answer["choices"], want):
        assert bytes(b for token in choice["logprobs"]["content"] for b in token["bytes"]) == spelled(choice["token_ids"])
    texts = [""] * 4
    for choice in (event["choices"][0] for event in events(url, "/v1/chat/completions", **asked)):
        texts[choice["index"]] += choice["delta"].get("content", "")
    assert texts == want


TEXT = "a\0b \U0001f600\u2028\x7f"
PARTS = [{"type": "text", "text": TEXT}]


@pytest.mark.parametrize("content", [TEXT, PARTS])
def test_requests(url, content):
    """A text with every kind of character, NUL among them, reaches the model as it is."""
    answer = whole(url, "/v1/completions", prompt=[TEXT], echo=True, max_tokens=0)
    assert answer["choices"][0]["text"] == TEXT
    ids = whole(url, "/tokenize", prompt=TEXT, add_special_tokens=False)["tokens"]
    assert whole(url, "/detokenize", tokens=ids)["content"] == TEXT
    messages = [{"role": "user", "content": content}]
    assert TEXT in whole(url, "/apply-template", messages=messages)["prompt"]
    counted = whole(url, "/v1/messages/count_tokens", model="storyteller", messages=messages)["input_tokens"]
    shorter = [{"role": "user", "content": TEXT.replace("\0", "")}]
    assert counted == whole(url, "/v1/messages/count_tokens", model="storyteller", messages=shorter)["input_tokens"] + 1
    assert whole(url, "/v1/responses", input=TEXT, instructions=TEXT, max_output_tokens=16)["status"]


@pytest.mark.parametrize("escape", ["\\ud800", "\\udc00", "a\\ud83d", "\\udc00\\ud800"])
def test_lone_surrogates_are_refused(url, escape):
    """A request's text is Unicode: half a character is none."""
    body = '{"prompt": "%s", "max_tokens": 1}' % escape
    request = urllib.request.Request(url + "/v1/completions", body.encode(), {"Content-Type": "application/json"})
    with pytest.raises(urllib.error.HTTPError) as refused:
        urllib.request.urlopen(request)
    assert refused.value.code == 400
    error = json.loads(refused.value.read().decode("utf-8"))["error"]
    assert error["type"] == "invalid_request_error" and error["message"]
