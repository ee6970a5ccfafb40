// picture.test.mjs - pictures and their changes: cells keep their places, a change that does not fit
// is refused, prefixes become paths.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Cells, Picture, STATES } from "../../../web/picture.js";

const OWNED = STATES.indexOf("owned");
const SHARED = STATES.indexOf("shared");

function whole(more = {}) {
  return { number: 1, at_us: 5, version: "1", manager: "vtensor", groups: [{ chunk_bytes: 4096, chunk_tokens: 32 }],
    stats: { n_running: 0 }, chunks: [], spans: [], nodes: [], requests: [], ...more };
}

function change(number, more = {}) {
  return { number, after: number - 1, at_us: 6, stats: {}, chunks: [], spans: [], nodes: [], requests: [],
    gone_spans: [], gone_nodes: [], gone_requests: [], ...more };
}

test("a chunk keeps its cell, and the lowest free cell is next", () => {
  const cells = new Cells();
  for (let i = 0; i < 5; i++) cells.set(100 + i, OWNED);
  assert.equal(cells.cellOf(103), 3);
  cells.set(103, 0);
  cells.set(101, 0);
  assert.equal(cells.size, 3);
  assert.equal(cells.cellOf(104), 4);
  cells.set(7, SHARED);
  cells.set(8, SHARED);
  assert.deepEqual([cells.cellOf(7), cells.cellOf(8)], [1, 3]);
  assert.deepEqual([cells.counts[OWNED], cells.counts[SHARED], cells.counts[0]], [3, 2, 0]);
});

test("cells stay dense and distinct through random changes", () => {
  const cells = new Cells();
  const model = new Map();
  let seed = 1;
  const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
  for (let i = 0; i < 20000; i++) {
    const name = random(3000);
    const state = random(6);
    cells.set(name, state);
    if (state) model.set(name, state);
    else model.delete(name);
  }
  assert.equal(cells.size, model.size);
  const taken = new Set();
  for (const [name, state] of model) {
    const cell = cells.cellOf(name);
    assert.ok(!taken.has(cell) && cell < cells.n);
    taken.add(cell);
    assert.equal(cells.state[cell], state);
    assert.equal(cells.name[cell], name);
  }
  for (let s = 1; s < STATES.length; s++)
    assert.equal(cells.counts[s], [...model.values()].filter((x) => x === s).length);
});

test("a change keeps what it does not name", () => {
  const p = Picture.whole(whole({
    chunks: [[10, 4, OWNED, 0]],
    spans: [{ request: 3, choice: 0, tokens: 40, generating: 0, segments: [[0, 0, 10, 2]] },
      { request: 4, choice: 1, tokens: 9, generating: 1, segments: [[0, 0, 12, 1]] }],
    requests: [{ id: 3, place: 0 }, { id: 4, place: 2 }, { id: 5, place: 1 }],
  }));
  assert.ok(p.change(change(2, {
    chunks: [[11, 1, SHARED, 0], [13, 1, 0, 0]],
    spans: [{ request: 3, choice: 0, tokens: 41, generating: 1 }],
    gone_spans: [[4, 1]],
    gone_requests: [4],
    stats: { n_running: 1 },
  })));
  assert.deepEqual(p.segmentsOf(p.spans.get("3.0")).map((s) => s.chunk), [10, 11]);
  assert.equal(p.spans.get("3.0").tokens, 41);
  assert.equal(p.spans.size, 1);
  assert.equal(p.cells.stateOf(11), SHARED);
  assert.equal(p.cells.stateOf(13), 0);
  assert.equal(p.cells.size, 3);
  assert.deepEqual(p.queue().map((r) => r.id), [5]);
  assert.equal(p.stats.n_running, 1);
});

test("a change from another picture is refused", () => {
  const p = Picture.whole(whole());
  assert.equal(p.change(change(3, { stats: { n_running: 7 } })), false);
  assert.equal(p.number, 1);
  assert.equal(p.stats.n_running, 0);
});

test("who maps a chunk is found", () => {
  const span = (request, first) => ({ request, choice: 0, tokens: 1, generating: 1, segments: [[0, 0, first, 3]] });
  const p = Picture.whole(whole({ spans: [span(1, 5), span(2, 7), span(3, 20)] }));
  assert.deepEqual(p.spansWith(7).map((s) => s.request), [1, 2]);
  assert.deepEqual(p.spansWith(8).map((s) => s.request), [2]);
  assert.deepEqual(p.spansWith(30), []);
});

test("nodes in a row are one path, and branches are its children", () => {
  const p = Picture.whole(whole({
    nodes: [[1, 0, 1, 32, 0, 4096], [2, 1, 1, 32, 1, 4096], [3, 2, 1, 8, 0, 4096], [4, 2, 1, 9, 2, 4096],
      [9, 7, 1, 5, 0, 4096]], // its parent has been evicted
  }));
  const [a, b] = p.tree();
  assert.deepEqual([a.tokens, a.blocks, a.sequences], [64, 2, 1]);
  assert.deepEqual(a.children.map((c) => c.tokens), [8, 9]);
  assert.equal(b.tokens, 5);
});

test("a group is of a device, where there are several", () => {
  const group = { chunk_bytes: 4096, chunk_tokens: 32 };
  assert.equal(Picture.whole(whole({ groups: [{ ...group, device: 0 }, { ...group, device: 0 }] })).deviceOf(1), null);
  const two = Picture.whole(whole({ groups: [{ ...group, device: 0 }, { ...group, device: 1 }] }));
  assert.deepEqual([two.deviceOf(0), two.deviceOf(1)], [0, 1]);
  assert.equal(Picture.whole(whole({ groups: [] })).deviceOf(0), null);
});
