// replay.test.mjs - a trace played forwards and back shows the same at the same moment.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Replay } from "../../../web/replay.js";

const state = (ph, name, id, ts, args) => ({ ph, pid: 1, tid: 3, cat: "request", id, name, ts, args });
const call = (name, ts, args) => ({ ph: "X", pid: 1, tid: 2, name, ts, dur: 1, args: { choice: 0, n: 1, status: 0, ...args } });

const trace = {
  otherData: { lost_events: 4 },
  traceEvents: [
    { ph: "M", name: "process_name", ts: 0, pid: 1, tid: 1 },
    state("b", "request", 9, 1e6, { tokens: 40, sequences: 2 }),
    state("b", "waiting", 9, 1e6),
    state("e", "waiting", 9, 2e6),
    state("b", "running", 9, 2e6),
    call("match", 2e6 + 1, { request: 9, tokens: 32 }),
    call("extend", 2e6 + 2, { request: 9, tokens: 40 }),
    call("fork", 2e6 + 3, { request: 9, choice: 1, tokens: 40 }),
    { ph: "C", pid: 1, tid: 2, name: "KV memory, KiB", ts: 2.5e6, args: { mapped: 8, live: 4, shared: 2 } },
    call("extend", 3e6, { request: 0, tokens: 2, n: 2 }),
    call("fork", 3e6 + 5, { request: 9, choice: 2, tokens: 41, status: 3 }),
    { ph: "i", pid: 1, tid: 2, name: "release", ts: 4e6, args: { request: 9, choice: 1, tokens: 41 } },
    state("e", "running", 9, 5e6),
    state("e", "request", 9, 5e6),
  ],
};

const seen = (r) => JSON.stringify([[...r.requests], [...r.spans], r.now]);

test("what a moment shows", () => {
  const r = new Replay(trace);
  assert.deepEqual([r.from, r.to, r.lost], [1, 5, 4]);
  r.seek(1.5);
  assert.equal(r.requests.get(9).state, "waiting");
  assert.equal(r.queue().length, 1);
  r.seek(2.4);
  assert.deepEqual([...r.spans.values()].map((s) => s.tokens), [40, 40]);
  assert.deepEqual([r.requests.get(9).state, r.requests.get(9).cached, r.now.mapped], ["running", 32, 0]);
  r.seek(3.5);
  assert.deepEqual([...r.spans.values()].map((s) => s.tokens), [41, 41]); // the fork that failed is not there
  assert.deepEqual(r.now, { mapped: 8192, live: 4096, shared: 2048 });
  r.seek(4.5);
  assert.deepEqual([...r.spans.keys()], ["9.0"]);
  r.seek(5);
  assert.equal(r.requests.size + r.spans.size, 0);
});

test("back is the same as forth", () => {
  const moments = [1, 1.5, 2, 2.000003, 2.6, 3.2, 4.2, 5];
  const once = moments.map((s) => {
    const r = new Replay(trace);
    r.seek(s);
    return seen(r);
  });
  const r = new Replay(trace);
  for (const i of [7, 3, 5, 0, 2, 6, 1, 4]) {
    r.seek(moments[i]);
    assert.equal(seen(r), once[i]);
  }
});

test("what is no trace is refused", () => {
  for (const bad of [null, {}, { traceEvents: 3 }, { traceEvents: [] }, { traceEvents: [{ ph: "M", ts: 0 }] }])
    assert.throws(() => new Replay(bad), /trace/);
});
