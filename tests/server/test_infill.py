"""`suffix`: the real program fills in what stands between prompt and suffix, where the vocabulary has marks for that.

Run by CTest through run_pytest.sh. The vocabulary is made here: single bytes, and control tokens.
"""

import openai
import pytest
import tokenizers
from real_server import Server
from tokenizers import decoders, models, pre_tokenizers

FIRST_MARK = 1000
FAMILIES = {
    "qwen": ("<|fim_prefix|>", "<|fim_suffix|>", "<|fim_middle|>"),
    "starcoder": ("<fim_prefix>", "<fim_suffix>", "<fim_middle>"),
    "deepseek": ("<\uff5cfim\u2581begin\uff5c>", "<\uff5cfim\u2581hole\uff5c>", "<\uff5cfim\u2581end\uff5c>"),
}


def made_vocabulary(folder, marks):
    """A tokenizer.json whose ids 1000 and on are the marks."""
    pieces = sorted(pre_tokenizers.ByteLevel.alphabet())
    pieces += [f"<piece {i}>" for i in range(len(pieces), FIRST_MARK)]
    one = tokenizers.Tokenizer(models.BPE(vocab={piece: i for i, piece in enumerate(pieces)}, merges=[]))
    one.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False)
    one.decoder = decoders.ByteLevel()
    one.add_special_tokens([*marks, "<|endoftext|>"])
    one.save(str(folder / "tokenizer.json"))
    return one, folder / "tokenizer.json"


@pytest.fixture(scope="module", params=FAMILIES)
def filled(request, tmp_path_factory):
    vocabulary, path = made_vocabulary(tmp_path_factory.mktemp("vocabulary"), FAMILIES[request.param])
    server = Server("--tokenizer", str(path))
    yield vocabulary, openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0)
    assert server.stop() == 0, "\n".join(server.lines)


def prompt_ids(client, **fields):
    r = client.completions.create(model="storyteller", max_tokens=1, extra_body={"return_token_ids": True}, **fields)
    return [choice.prompt_token_ids for choice in r.choices]


def test_each_text_follows_its_mark(filled):
    vocabulary, client = filled
    before, after = "def f(a):\n    return ", "\n\nprint(f(1)) # \u00e9"
    marks = [[FIRST_MARK + i] for i in range(3)]
    want = marks[0] + vocabulary.encode(before).ids + marks[1] + vocabulary.encode(after).ids + marks[2]
    assert prompt_ids(client, prompt=before, suffix=after) == [want]
    several = prompt_ids(client, prompt=["a", "b"], suffix="c")
    assert [ids[1] for ids in several] == vocabulary.encode("ab").ids
    assert prompt_ids(client, prompt="", suffix="c") == [marks[0] + marks[1] + vocabulary.encode("c").ids + marks[2]]
    assert prompt_ids(client, prompt="a", suffix="") == [vocabulary.encode("a").ids]


@pytest.mark.parametrize("fields", [{"prompt": [5, 6]}, {"prompt": "a", "echo": True},
                                    {"prompt": "a", "extra_body": {"truncate_prompt_tokens": 1}}])
def test_what_a_suffix_excludes(filled, fields):
    with pytest.raises(openai.BadRequestError) as refused:
        filled[1].completions.create(**{"model": "storyteller", "suffix": "b"} | fields)
    assert refused.value.param == "suffix"


def test_both_count_towards_the_context(filled):
    for fields in ({"prompt": "a" * 300, "suffix": "b" * 300}, {"prompt": "a", "suffix": "b" * 600}):
        with pytest.raises(openai.BadRequestError) as refused:
            filled[1].completions.create(model="storyteller", **fields)
        assert refused.value.code == "context_length_exceeded"


def test_without_marks_it_is_refused():
    server = Server()
    with openai.OpenAI(base_url=server.url + "/v1", api_key="none", max_retries=0) as client:
        with pytest.raises(openai.BadRequestError) as refused:
            client.completions.create(model="storyteller", prompt="a", suffix="b")
    assert (refused.value.param, refused.value.code) == ("suffix", "unsupported_parameter")
    assert server.stop() == 0
