"""Conversations to ids: the same as the tokenizers library gives for the text that jinja2 renders, where no message
spells a control token; and never a control token that the template did not write."""
import json
import sys
import unittest

try:
    import jinja_reference as jr
    import tokenizers
    from jinja_conversations import ROOT, SHARED, Dice
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TEMPLATES = ROOT / "tests" / "vectors" / "templates"


def read_tokenizer(path):
    """A tokenizer of the library that behaves as ours. It refuses merges written as one string if a piece contains a
    space: they become pairs. It looks for special tokens marked "normalized" in the normalized text, where ours does
    not, since marks are lost there: the flag is cleared."""
    data = json.loads(path.read_text(encoding="utf-8"))
    for token in data["added_tokens"]:
        token["normalized"] &= not token["special"]
    vocab, merges = data["model"]["vocab"], data["model"]["merges"]
    for i, merge in enumerate(merges):
        if isinstance(merge, str):
            cuts = [[merge[:k], merge[k + 1:]] for k, c in enumerate(merge) if c == " "]
            known = (cut for cut in cuts if cut[0] in vocab and cut[1] in vocab and "".join(cut) in vocab)
            merges[i] = next(known, cuts[0])
    return tokenizers.Tokenizer.from_str(json.dumps(data))


class Model:
    """A folder with a tokenizer.json, its chat template or one of ours, and the tokens that both know."""

    def __init__(self, name, template=None):
        self.folder = SHARED / "tokenizers" / name
        self.tokenizer = read_tokenizer(self.folder / "tokenizer.json")
        config = self.folder / "tokenizer_config.json"
        config = json.loads(config.read_text()) if config.exists() else {}
        self.job = {"tokenizer": str(self.folder), "kwargs": {}}
        if template:
            self.job["chat_template"] = str(TEMPLATES / template)
        self.template = (TEMPLATES / template).read_text() if template else config["chat_template"]
        self.names = {key: token["content"] if isinstance(token, dict) else token
                      for key in ("bos_token", "eos_token") for token in [config.get(key, "<|endoftext|>")]}
        self.control = [t.content for t in self.tokenizer.get_added_tokens_decoder().values() if t.special]
        self.added = [t.content for t in self.tokenizer.get_added_tokens_decoder().values()]

    def says_added(self, value):
        return any(token in json.dumps(value, ensure_ascii=False) for token in self.added)


def models():
    known = [("minimind", None), ("llama2", "llama2.jinja"), ("llama2", "zephyr.jinja"), ("phi-2", "chatml.jinja")]
    return [Model(*row) for row in known if (SHARED / "tokenizers" / row[0] / "tokenizer.json").exists()]


def fitted(messages):
    """As the engine fits them to templates: arguments in JSON text become the object that they spell."""
    messages = json.loads(json.dumps(messages))
    for call in (call for m in messages for call in m.get("tool_calls", [])):
        arguments = call["function"]["arguments"]
        if isinstance(arguments, str):
            call["function"]["arguments"] = json.loads(arguments)
    return messages


class Ids(unittest.TestCase):
    def setUp(self):
        self.reference = jr.Reference()

    def each(self):
        for model in models():
            ours = jr.Ours()
            self.addCleanup(ours.close)
            yield model, lambda messages, tools=None, m=model, o=ours: o.ask(
                {**m.job, "messages": messages, **({"tools": tools} if tools else {})})

    def test_same_ids(self):
        for model, ask in self.each():
            n_same = 0
            for seed in range(250):
                context = Dice(seed).conversation()
                messages, tools = context["messages"], context.get("tools")
                if model.says_added([messages, tools]) or any(not isinstance(m["content"], str) for m in messages):
                    continue
                ok, text = jr.outcome(self.reference, model.template, {
                    "messages": fitted(messages), "tools": tools, "add_generation_prompt": True, **model.names})
                if not ok:
                    continue
                got = ask(messages, tools)
                self.assertEqual(got["text"], text, seed)
                want = model.tokenizer.encode(text, add_special_tokens=False).ids
                self.assertEqual(got["ids"], want, (model.job, seed, text))
                n_same += 1
            self.assertGreater(n_same, 20)

    # Every control token, whole and in two halves, in every place that a caller fills.
    def test_no_way_in(self):
        def said(a, b):
            return [{"role": "system", "content": a + b}, {"role": "user", "content": b + a, "name": a + b},
                    {"role": "assistant", "content": a + b + a, "reasoning_content": a + b, "tool_calls": [
                        {"type": "function", "function": {"name": a + b, "arguments": {a + b: [a, b, a + b]}}}]},
                    {"role": "user", "content": a + b}]

        for model, ask in self.each():
            tool = [{"type": "function", "function": {"name": "x", "description": "x"}}]
            expected = ask(said("x", "y"), tool)["control"]
            for token in model.control:
                for cut in range(1, len(token) + 1):
                    a, b = token[:cut], token[cut:]
                    tools = [{"type": "function", "function": {"name": a + b, "description": b + a}}]
                    self.assertEqual(ask(said(a, b), tools)["control"], expected, (model.job, a, b))


if not models():
    print(f"skipped: {SHARED / 'tokenizers'} not present")
    sys.exit(77)
unittest.main(verbosity=1)
