"""Whole chat templates over generated conversations: the same text as jinja2, and failure where it fails. What a
caller says is never marked as the template's own."""
import json
import sys
import unittest

try:
    import jinja_reference as jr
    from jinja_conversations import MINIMIND, ROOT, Dice
except ImportError as missing:
    print(f"skipped: {missing}")
    sys.exit(77)

TEMPLATES = ROOT / "tests" / "vectors" / "templates"

def templates():
    found = [(path.stem, path.read_text()) for path in sorted(TEMPLATES.glob("*.jinja"))]
    if MINIMIND.exists():
        found.append(("minimind", json.loads(MINIMIND.read_text())["chat_template"]))
    return found


N_CONVERSATION = 80


class Templates(jr.ReferenceTest):
    def test_same_text(self):
        for name, template in templates():
            n_ok = 0
            for seed in range(N_CONVERSATION):
                context = Dice(seed).conversation()
                want, got = (jr.outcome(side, template, context) for side in (self.reference, self.ours))
                where = f"{name}, conversation {seed}: {json.dumps(context)}\n{want}\n{got}"
                self.assertEqual(want[0], got[0], where)
                if want[0]:
                    self.assertEqual(want[1], got[1], where)
                n_ok += want[0]
            self.assertGreater(n_ok, N_CONVERSATION // 8, f"{name}: too few conversations are rendered at all")

    def test_the_reasons_given(self):
        context = {"messages": [{"role": "assistant", "content": "x"}], "bos_token": "<s>", "eos_token": "</s>", "tools": None}
        for name, template in templates():
            want, got = (jr.outcome(side, template, context) for side in (self.reference, self.ours))
            if not want[0] and want[1].startswith("TemplateError: "):
                self.assertIn(want[1].removeprefix("TemplateError: "), got[1], name)
                self.assertRegex(got[1], r"^chat template, line \d+: ", name)

    # The caller's characters are ones that no template contains: none of them may be marked.
    def test_marks(self):
        shift = {c: 0xE000 + c for c in range(33, 127)}
        for name, template in templates():
            for seed in range(20):
                context = Dice(seed).conversation()
                messages = json.loads(json.dumps(context["messages"]))
                for m in messages:
                    if isinstance(m["content"], str):
                        m["content"] = m["content"].translate(shift)
                try:
                    text, own = self.ours.render_marked(template, {**context, "messages": messages})
                except jr.Failed:
                    continue
                data = text.encode()
                self.assertEqual(len(data), len(own), name)
                at = 0
                for char in text:
                    n = len(char.encode())
                    if "\ue000" <= char <= "\ue0ff":
                        self.assertEqual(own[at:at + n], "0" * n, (name, seed, text))
                    at += n


unittest.main(verbosity=1)
