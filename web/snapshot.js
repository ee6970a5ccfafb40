// snapshot.js - the KV memory as the server's last snapshot has it, and the stream of snapshots. No
// DOM here.

import { eventsOf } from "./sse.js";

export const STATES = ["absent", "spare", "owned", "shared", "cached", "swapped"];
export const ABSENT = 0;
export const SWAPPED = 5;

export const spanKey = (request, choice) => `${request}.${choice}`;

// Chunks in cells. A chunk keeps its cell while it has memory; the lowest free cell is next. Chunks
// come by name: neighbours in memory begin as neighbours on the page.
export class Cells {
  #cellOf = new Map(); // name to cell
  #free = []; // cells below n without a chunk, the lowest last
  #runs = []; // as of the last update
  state = []; // by cell
  name = []; // by cell
  n = 0; // cells in use are below
  counts = new Array(STATES.length).fill(0);
  dirty = new Set(); // cells that have changed since they were drawn last; null: all

  // Takes the chunks of a snapshot: [first, n, state, group] by name. What goes leaves its cells to
  // what comes.
  update(runs) {
    const changes = [...differences(this.#runs, runs)];
    this.#runs = runs;
    for (const [first, end, state] of changes)
      if (state === ABSENT) for (let name = first; name < end; name++) this.#remove(name);
    this.#free.sort((a, b) => b - a);
    for (const [first, end, state] of changes)
      if (state !== ABSENT) for (let name = first; name < end; name++) this.#put(name, state);
  }

  #remove(name) {
    const cell = this.#cellOf.get(name);
    this.counts[this.state[cell]]--;
    this.state[cell] = ABSENT;
    this.name[cell] = undefined;
    this.#cellOf.delete(name);
    this.#free.push(cell);
    this.dirty?.add(cell);
  }

  #put(name, state) {
    let cell = this.#cellOf.get(name);
    if (cell === undefined) {
      cell = this.#free.pop() ?? this.n++;
      this.#cellOf.set(name, cell);
      this.name[cell] = name;
    } else {
      this.counts[this.state[cell]]--;
    }
    this.state[cell] = state;
    this.counts[state]++;
    this.dirty?.add(cell);
  }

  cellOf(name) {
    return this.#cellOf.get(name);
  }

  stateOf(name) {
    return this.state[this.#cellOf.get(name)] ?? ABSENT;
  }

  get size() {
    return this.#cellOf.size;
  }
}

// Where list b of runs differs from list a: [first, end, state in b].
function* differences(a, b) {
  const pieceAt = (run, at) => {
    if (!run) return { end: Infinity, state: ABSENT };
    return at < run[0] ? { end: run[0], state: ABSENT } : { end: run[0] + run[1], state: run[2] };
  };
  for (let i = 0, k = 0, at = 0; ;) {
    while (i < a.length && a[i][0] + a[i][1] <= at) i++;
    while (k < b.length && b[k][0] + b[k][1] <= at) k++;
    const was = pieceAt(a[i], at);
    const is = pieceAt(b[k], at);
    const end = Math.min(was.end, is.end);
    if (end === Infinity) return;
    if (was.state !== is.state) yield [at, end, is.state];
    at = end;
  }
}

export class Snapshot {
  spans = new Map(); // by spanKey
  nodes = new Map(); // by id: {id, parent, domain, tokens, sequences, bytes}
  requests = new Map(); // by id

  // msg: the data of an event; cells: those of the snapshot before, which become this one's.
  constructor(msg, cells = new Cells()) {
    this.number = msg.number;
    this.atUs = msg.at_us;
    this.version = msg.version;
    this.manager = msg.manager;
    this.groups = msg.groups;
    this.stats = msg.stats;
    this.counts = msg.counts;
    this.cells = cells;
    cells.update(msg.chunks);
    for (const s of msg.spans) {
      const key = spanKey(s.request, s.choice);
      this.spans.set(key, { ...s, key });
    }
    for (const [id, parent, domain, tokens, sequences, bytes] of msg.nodes)
      this.nodes.set(id, { id, parent, domain, tokens, sequences, bytes });
    for (const r of msg.requests) this.requests.set(r.id, r);
  }

  // The chunk of each segment of a span, in the order of its addresses.
  segmentsOf(span) {
    const out = [];
    for (const [group, at, chunk, n] of span.segments)
      for (let i = 0; i < n; i++) out.push({ group, at: at + i, chunk: chunk + i });
    return out;
  }

  // Where several devices share the cache, each has groups of its own. null: there is one device.
  deviceOf(group) {
    return this.groups.some((g) => g.device > 0) ? this.groups[group].device : null;
  }

  // The spans that map a chunk.
  spansWith(chunk) {
    const out = [];
    for (const span of this.spans.values())
      if (span.segments.some(([, , first, n]) => chunk >= first && chunk < first + n)) out.push(span);
    return out;
  }

  // Recorded prefixes as paths: a node with one child and the same sequences is one with it.
  tree() {
    const children = new Map();
    for (const node of this.nodes.values()) {
      const parent = this.nodes.has(node.parent) ? node.parent : 0;
      if (!children.has(parent)) children.set(parent, []);
      children.get(parent).push(node);
    }
    const pathFrom = (node) => {
      const path = { id: node.id, tokens: node.tokens, blocks: 1, bytes: node.bytes, sequences: node.sequences };
      let next = children.get(node.id) ?? [];
      while (next.length === 1) {
        path.tokens += next[0].tokens;
        path.bytes += next[0].bytes;
        path.sequences += next[0].sequences;
        path.blocks++;
        next = children.get(next[0].id) ?? [];
      }
      path.children = next.map(pathFrom);
      return path;
    };
    return (children.get(0) ?? []).map(pathFrom);
  }
}

const FIRST_WAIT_MS = 500;
const MOST_WAIT_MS = 8000;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

// Follows /kv/stream, and connects again whenever the stream ends.
export class Subscription {
  snapshot = null;
  waitMs = FIRST_WAIT_MS;

  // onSnapshot(snapshot), onState("connecting" | "live" | "lost" | "locked", why)
  constructor(api, onSnapshot, onState) {
    this.api = api;
    this.onSnapshot = onSnapshot;
    this.onState = onState;
  }

  async run() {
    for (;;) {
      try {
        await this.#follow();
        this.onState("lost", "the server closed the stream");
      } catch (error) {
        const locked = error.status === 401 || error.status === 403;
        this.onState(locked ? "locked" : "lost", error.message);
        if (locked) await this.#unlocked();
      }
      await pause(this.waitMs);
      this.waitMs = Math.min(2 * this.waitMs, MOST_WAIT_MS);
    }
  }

  // Resolves when a new key has been entered.
  #unlocked() {
    return new Promise((resolve) => this.unlock = resolve);
  }

  async #follow() {
    const response = await this.api.fetch("/kv/stream");
    const cells = new Cells(); // it may be another process
    cells.dirty = null;
    for await (const event of eventsOf(response)) {
      if (event.type !== "snapshot") continue;
      this.snapshot = new Snapshot(JSON.parse(event.data), cells);
      this.waitMs = FIRST_WAIT_MS;
      this.onState("live", "");
      this.onSnapshot(this.snapshot);
    }
  }
}
