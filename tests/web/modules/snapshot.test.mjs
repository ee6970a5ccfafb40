// snapshot.test.mjs - snapshots: cells keep their places, prefixes become paths.
import assert from "node:assert/strict";
import { test } from "node:test";
import { Cells, Snapshot, STATES } from "../../../web/snapshot.js";

const OWNED = STATES.indexOf("owned");
const SHARED = STATES.indexOf("shared");

function message(more = {}) {
  return { number: 1, at_us: 5, version: "1", manager: "vtensor", groups: [{ chunk_bytes: 4096, chunk_tokens: 32 }],
    stats: { n_running: 0 }, counts: { chunks: [0, 0, 0, 0, 0, 0], spans: 0, nodes: 0, requests: 0 },
    chunks: [], spans: [], nodes: [], requests: [], ...more };
}

const snapshot = (more, cells) => new Snapshot(message(more), cells);

test("a chunk keeps its cell, and the lowest free cell is next", () => {
  const cells = new Cells();
  cells.update([[100, 5, OWNED, 0]]);
  assert.equal(cells.cellOf(103), 3);
  cells.update([[100, 1, OWNED, 0], [102, 1, OWNED, 0], [104, 1, OWNED, 0]]);
  assert.equal(cells.size, 3);
  assert.equal(cells.cellOf(104), 4);
  cells.update([[7, 2, SHARED, 0], [100, 1, OWNED, 0], [102, 1, OWNED, 0], [104, 1, OWNED, 0]]);
  assert.deepEqual([cells.cellOf(7), cells.cellOf(8)], [1, 3]);
  assert.deepEqual([cells.counts[OWNED], cells.counts[SHARED], cells.counts[0]], [3, 2, 0]);
});

test("cells are distinct and follow snapshots, whatever their runs are", () => {
  const cells = new Cells();
  let seed = 7;
  const random = (n) => (seed = (seed * 48271) % 2147483647) % n;
  for (let round = 0; round < 300; round++) {
    const runs = [];
    const model = new Map();
    for (let at = random(4); at < 200; at += 1 + random(4)) {
      const run = [at, 1 + random(9), 1 + random(5), 0];
      runs.push(run);
      for (at = run[0]; at < run[0] + run[1]; at++) model.set(at, run[2]);
    }
    cells.update(runs);
    assert.equal(cells.size, model.size);
    const taken = new Set();
    for (const [name, state] of model) {
      const cell = cells.cellOf(name);
      assert.ok(!taken.has(cell) && cell < cells.n);
      taken.add(cell);
      assert.equal(cells.stateOf(name), state);
      assert.equal(cells.name[cell], name);
    }
    for (let k = 1; k < STATES.length; k++)
      assert.equal(cells.counts[k], [...model.values()].filter((x) => x === k).length);
  }
});

test("a snapshot takes the cells of the one before", () => {
  const was = snapshot({
    chunks: [[10, 4, OWNED, 0]],
    spans: [{ request: 3, choice: 0, tokens: 40, generating: 0, segments: [[0, 0, 10, 2]] }],
  });
  const cell = was.cells.cellOf(12);
  const is = snapshot({ chunks: [[10, 1, OWNED, 0], [11, 1, SHARED, 0], [12, 1, OWNED, 0]] }, was.cells);
  assert.equal(is.cells.cellOf(12), cell);
  assert.deepEqual([is.cells.stateOf(11), is.cells.stateOf(13), is.cells.size], [SHARED, 0, 3]);
  assert.equal(is.spans.size, 0);
});

test("who maps a chunk is found", () => {
  const span = (request, first) => ({ request, choice: 0, tokens: 1, generating: 1, segments: [[0, 0, first, 3]] });
  const p = snapshot({ spans: [span(1, 5), span(2, 7), span(3, 20)] });
  assert.deepEqual(p.spansWith(7).map((s) => s.request), [1, 2]);
  assert.deepEqual(p.spansWith(8).map((s) => s.request), [2]);
  assert.deepEqual(p.spansWith(30), []);
});

test("nodes in a row are one path, and branches are its children", () => {
  const p = snapshot({
    nodes: [[1, 0, 1, 32, 0, 4096], [2, 1, 1, 32, 1, 4096], [3, 2, 1, 8, 0, 4096], [4, 2, 1, 9, 2, 4096],
      [9, 7, 1, 5, 0, 4096]], // its parent has been evicted
  });
  const [a, b] = p.tree();
  assert.deepEqual([a.tokens, a.blocks, a.sequences], [64, 2, 1]);
  assert.deepEqual(a.children.map((c) => c.tokens), [8, 9]);
  assert.equal(b.tokens, 5);
});

test("a group is of a device, where there are several", () => {
  const group = { chunk_bytes: 4096, chunk_tokens: 32 };
  assert.equal(snapshot({ groups: [{ ...group, device: 0 }, { ...group, device: 0 }] }).deviceOf(1), null);
  const two = snapshot({ groups: [{ ...group, device: 0 }, { ...group, device: 1 }] });
  assert.deepEqual([two.deviceOf(0), two.deviceOf(1)], [0, 1]);
  assert.equal(snapshot({ groups: [] }).deviceOf(0), null);
});
