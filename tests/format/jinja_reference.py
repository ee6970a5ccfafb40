"""jinja2 as transformers sets it up for chat templates, and the project's own renderer, for tests that compare the two."""
import functools
import json
import os
import subprocess
import unittest
from datetime import datetime, timezone

import jinja2
import jinja2.ext
import jinja2.nodes
import jinja2.sandbox

CLOCK = datetime(2026, 2, 3, 4, 5, 6, tzinfo=timezone.utc)  # the time on jinja_render's clock


class Generation(jinja2.ext.Extension):
    """{% generation %} marks what the model said; it is rendered as its body."""
    tags = {"generation"}

    def parse(self, parser):
        line = next(parser.stream).lineno
        body = parser.parse_statements(["name:endgeneration"], drop_needle=True)
        return jinja2.nodes.CallBlock(self.call_method("_same"), [], [], body).set_lineno(line)

    def _same(self, caller):
        return caller()


def raise_exception(message):
    raise jinja2.exceptions.TemplateError(message)


def tojson(x, ensure_ascii=False, indent=None, separators=None, sort_keys=False):
    return json.dumps(x, ensure_ascii=ensure_ascii, indent=indent, separators=separators, sort_keys=sort_keys)


def environment():
    env = jinja2.sandbox.ImmutableSandboxedEnvironment(
        trim_blocks=True, lstrip_blocks=True, extensions=[Generation, jinja2.ext.loopcontrols])
    env.filters["tojson"] = tojson
    env.globals["raise_exception"] = raise_exception
    env.globals["strftime_now"] = CLOCK.strftime
    return env


class Failed(Exception):
    pass


class Reference:
    """Renders with jinja2."""

    def __init__(self):
        self.env = environment()
        self.compiled = functools.lru_cache(64)(self.env.from_string)

    def render(self, template, context):
        try:
            return self.compiled(template).render(**context)
        except Exception as why:  # whatever Python raises: the other side must fail too
            raise Failed(f"{type(why).__name__}: {why}") from why


class Ours:
    """Renders with the project's interpreter: the program jinja_render."""

    def __init__(self):
        self.process = subprocess.Popen([os.environ["JINJA_RENDER"]], stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def ask(self, job):
        self.process.stdin.write(json.dumps(job).encode() + b"\n")
        self.process.stdin.flush()
        line = self.process.stdout.readline()
        if not line:
            raise AssertionError(f"jinja_render died on {job!r}")
        reply = json.loads(line)
        if "error" in reply:
            raise Failed(reply["error"])
        return reply

    def render_marked(self, template, context):
        reply = self.ask({"template": template, "context": context})
        return reply["text"], reply["own"]

    def render(self, template, context):
        return self.render_marked(template, context)[0]

    def close(self):
        self.process.stdin.close()
        self.process.stdout.close()
        if self.process.wait() != 0:
            raise AssertionError("jinja_render failed")


def outcome(side, template, context):
    """(True, text) or (False, why)."""
    try:
        return True, side.render(template, context)
    except Failed as why:
        return False, str(why)


class ReferenceTest(unittest.TestCase):
    """Both sides, open while a class's tests run."""

    @classmethod
    def setUpClass(cls):
        cls.reference, cls.ours = Reference(), Ours()

    @classmethod
    def tearDownClass(cls):
        cls.ours.close()
