// talk.test.mjs - conversations as trees, what an answer took, and events cut out of a stream.
import assert from "node:assert/strict";
import { test } from "node:test";
import { EventCutter } from "../../../web/sse.js";
import { Facts, Talk } from "../../../web/talk.js";

test("an edit and a regeneration are alternatives", () => {
  const talk = new Talk("be kind");
  const hello = talk.add(talk.root, "user", "hello");
  const hi = talk.add(hello, "assistant", "hi");
  const bye = talk.add(hi, "user", "bye");
  const again = talk.add(hello, "assistant", "good day");
  assert.deepEqual(talk.path().map((m) => m.content), ["hello", "good day"]);
  talk.choose(again, -1);
  assert.deepEqual(talk.path(), [hello, hi, bye]);
  talk.add(talk.root, "user", "hey");
  assert.deepEqual(talk.path().map((m) => m.content), ["hey"]);
  assert.deepEqual(talk.request(bye), [{ role: "system", content: "be kind" }, { role: "user", content: "hello" },
    { role: "assistant", content: "hi" }, { role: "user", content: "bye" }]);
});

test("a fork has the path and goes its own way", () => {
  const talk = new Talk("s");
  const a = talk.add(talk.root, "user", "a");
  const b = talk.add(a, "assistant", "b");
  talk.add(b, "user", "c");
  const fork = talk.fork(b);
  assert.deepEqual(fork.path().map((m) => m.content), ["a", "b"]);
  fork.add(fork.path().at(-1), "user", "other");
  assert.deepEqual(talk.path().map((m) => m.content), ["a", "b", "c"]);
  assert.equal(fork.system, "s");
});

test("facts", () => {
  const f = new Facts(10);
  assert.equal(f.wait, null);
  f.piece(10.5);
  assert.equal(f.rate, null);
  f.piece(11.5);
  assert.deepEqual([f.wait, f.tokens, f.rate, f.cached], [0.5, 2, 1, null]);
  f.usage = { completion_tokens: 11, prompt_tokens: 20, prompt_tokens_details: { cached_tokens: 7 } };
  assert.deepEqual([f.rate, f.cached], [10, 7]);
});

test("events are cut wherever the stream is", () => {
  const text = "retry: 2000\n\nevent: picture\ndata: {\"a\":\ndata: 1}\n\n: ping\n\ndata: x\r\n\r\ndata: rest";
  for (let size = 1; size < 9; size++) {
    const cutter = new EventCutter();
    const events = [];
    for (let i = 0; i < text.length; i += size) events.push(...cutter.push(text.slice(i, i + size)));
    assert.deepEqual(events.filter((e) => e.data !== null),
      [{ type: "picture", data: "{\"a\":\n1}" }, { type: "message", data: "x" }], `in pieces of ${size}`);
  }
});

test("a large event in many pieces is read about once", () => {
  const { split, search } = Symbol, was = [RegExp.prototype[split], RegExp.prototype[search]];
  const data = "x".repeat(1 << 20), text = `event: picture\ndata: ${data}\n\n`;
  let seen = 0;
  [split, search].forEach((which, i) => {
    RegExp.prototype[which] = function (string, ...rest) {
      seen += string.length;
      return was[i].call(this, string, ...rest);
    };
  });
  const events = [];
  try {
    const cutter = new EventCutter();
    for (let i = 0; i < text.length; i += 1024) events.push(...cutter.push(text.slice(i, i + 1024)));
  } finally {
    [split, search].forEach((which, i) => RegExp.prototype[which] = was[i]);
  }
  assert.deepEqual(events, [{ type: "picture", data }]);
  assert.ok(seen < 4 * text.length, `${seen} characters for ${text.length}`);
});
