"""lm-evaluation-harness through `local-completions`: its scores are the sums of the engine's logprobs, to the bit.

It finds that the server has a tokenizer, and uses that. It scores a whole text as a prompt. Expected is another way
through the engine: each token of the continuation is generated, forced by allowed_token_ids, after those before it,
and its logprob is taken from the answer.
"""
import json
import math
import os

import pytest
import serving

os.environ |= {"HF_HUB_OFFLINE": "1", "HF_DATASETS_OFFLINE": "1", "TOKENIZERS_PARALLELISM": "false"}
lm_eval = pytest.importorskip("lm_eval")

QUESTIONS = [
    ("Once upon a time there was a", [" cat", " small girl", " mountain of gold"], 0),
    ("The dog went to the", [" park", " moon and back", " the"], 0),
    ("Tim was sad because", [" he lost his ball.", " of.", " x"], 1),
    ("A", [" bird", " bee sat on the nose of the king", " B"], 2),
]
TEXTS = ["Once upon a time there was a small boat.", "The cat and the dog are friends. They play all day."]


server = serving.fixture()


@pytest.fixture(scope="module")
def harness(server, tmp_path_factory):
    """Runs one task of the harness's own kinds over rows of ours; returns (results, samples)."""
    place = tmp_path_factory.mktemp("harness")
    patch = pytest.MonkeyPatch()
    patch.setenv("HF_HOME", str(place))

    def run(name, rows, **how):
        data = place / f"{name}.jsonl"
        data.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
        task = {"task": name, "dataset_path": "json", "dataset_kwargs": {"data_files": {"test": str(data)}},
                "test_split": "test", "num_fewshot": 0} | how
        done = lm_eval.simple_evaluate(
            model="local-completions", tasks=[task], bootstrap_iters=0, log_samples=True,
            model_args={"base_url": server.url + "/v1/completions", "model": server.model, "num_concurrent": 4, "batch_size": 3, "max_length": 512, "max_retries": 1})
        return done["results"][name], sorted(done["samples"][name], key=lambda one: one["doc_id"])

    yield run
    patch.undo()


def ids_of(server, text):
    body = server.call("POST", "/tokenize", {"prompt": text, "add_special_tokens": False})[1]
    return json.loads(body)["tokens"]


def score(server, ids, n_context):
    """(sum of the logprobs of ids[n_context:], whether each was the likeliest)"""
    values, greedy = [], True
    for i in range(n_context, len(ids)):
        status, body = server.call("POST", "/v1/completions", {
            "prompt": ids[:i], "max_tokens": 1, "logprobs": 1, "temperature": 0, "allowed_token_ids": [ids[i]],
            "min_tokens": 1, "ignore_eos": True})
        assert status == 200, body
        found = json.loads(body)["choices"][0]["logprobs"]
        values.append(found["token_logprobs"][0])
        greedy &= values[-1] == max(found["top_logprobs"][0].values())
    return sum(values), greedy


def test_multiple_choice(server, harness):
    rows = [{"question": q, "choices": c, "answer": a} for q, c, a in QUESTIONS]
    results, samples = harness("choices", rows, output_type="multiple_choice", doc_to_text="{{question}}",
                               doc_to_choice="choices", doc_to_target="answer", target_delimiter="",
                               metric_list=[{"metric": "acc"}])
    n_right = 0
    for (question, choices, answer), sample in zip(QUESTIONS, samples):
        n_context = len(ids_of(server, question))
        right = [score(server, ids_of(server, question + one), n_context) for one in choices]
        assert [tuple(one) for one in sample["filtered_resps"]] == right
        n_right += max(range(len(choices)), key=lambda i: right[i][0]) == answer
    assert results["acc,none"] == n_right / len(QUESTIONS)


def test_perplexity(server, harness):
    results, samples = harness("words", [{"text": text} for text in TEXTS], output_type="loglikelihood_rolling",
                               doc_to_text="", doc_to_target="text",
                               metric_list=[{"metric": "word_perplexity"}])
    total = 0
    for text, sample in zip(TEXTS, samples):
        right = score(server, ids_of(server, "<s>") + ids_of(server, text), 1)[0]
        assert sample["filtered_resps"] == [right]
        total += right
    assert math.isclose(results["word_perplexity,none"], math.exp(-total / sum(len(t.split()) for t in TEXTS)))


def test_generation(server, harness):
    """Generates until a mark, at temperature 0."""
    rows = [{"text": text} for text, _, _ in QUESTIONS]
    _, samples = harness("words_on", rows, output_type="generate_until", doc_to_text="text", doc_to_target="",
                         generation_kwargs={"until": ["."], "max_gen_toks": 24, "do_sample": False},
                         metric_list=[{"metric": "exact_match"}])
    for (text, _, _), sample in zip(QUESTIONS, samples):
        whole = server.complete(prompt=ids_of(server, text), max_tokens=24, temperature=0, stop=["."])[0]
        assert sample["filtered_resps"] == [whole]
