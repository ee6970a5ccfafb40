"""Conversations to ids: those of the text that jinja2 renders, by the tokenizers library, where nobody spells a control
token; and no control token that the template did not write, whatever is said."""
import json
import sys
import unittest

try:
    import jinja_reference as jr
    import tokenizers
    from jinja_conversations import MINIMIND, Dice
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

if not MINIMIND.exists():
    print(f"skipped: {MINIMIND} not present")
    sys.exit(77)

FOLDER = MINIMIND.parent
CONFIG = json.loads(MINIMIND.read_text())
TOKENIZER = tokenizers.Tokenizer.from_file(str(FOLDER / "tokenizer.json"))
CONTROL = [token.content for token in TOKENIZER.get_added_tokens_decoder().values()]


def says_control(value):
    return any(token in json.dumps(value, ensure_ascii=False) for token in CONTROL)


class Ids(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.reference, cls.ours = jr.Reference(), jr.Ours()

    @classmethod
    def tearDownClass(cls):
        cls.ours.close()

    def ask(self, messages, tools):
        job = {"tokenizer": str(FOLDER), "messages": messages, "kwargs": {}}
        return self.ours.ask({**job, "tools": tools} if tools else job)

    def test_same_ids(self):
        n_same = 0
        for seed in range(400):
            context = Dice(seed).conversation()
            messages, tools = context["messages"], context.get("tools")
            if says_control(messages) or says_control(tools) or any(not isinstance(m["content"], str) for m in messages):
                continue
            ok, text = jr.outcome(self.reference, CONFIG["chat_template"], {
                "messages": messages, "tools": tools, "add_generation_prompt": True, "bos_token": CONFIG["bos_token"],
                "eos_token": CONFIG["eos_token"]})
            if not ok:
                continue
            got = self.ask(messages, tools)
            self.assertEqual(got["text"], text, seed)
            self.assertEqual(got["ids"], TOKENIZER.encode(text, add_special_tokens=False).ids, (seed, text))
            n_same += 1
        self.assertGreater(n_same, 50)

    # Every control token, whole and in two halves, in every place that a caller fills.
    def test_no_way_in(self):
        def said(a, b):
            return [{"role": "system", "content": a + b}, {"role": "user", "content": b + a, "name": a + b},
                    {"role": "assistant", "content": a, "reasoning_content": a + b, "tool_calls": [
                        {"type": "function", "function": {"name": a + b, "arguments": {a + b: [a, b, a + b]}}}]},
                    {"role": "tool", "content": a + b}, {"role": "user", "content": a + b}]

        tool = [{"type": "function", "function": {"name": "x", "description": "x"}}]
        expected = self.ask(said("x", "y"), tool)["control"]
        self.assertGreater(len(expected), 5)
        for token in CONTROL:
            for cut in range(1, len(token) + 1):
                a, b = token[:cut], token[cut:]
                tools = [{"type": "function", "function": {"name": a + b, "description": b + a}}]
                self.assertEqual(self.ask(said(a, b), tools)["control"], expected, (a, b))


unittest.main(verbosity=1)
