// picture.js - the KV memory as the server last told: a whole picture, then changes. No DOM here.

export const STATES = ["absent", "spare", "owned", "shared", "cached", "swapped"];
export const ABSENT = 0;
export const SWAPPED = 5;

export const spanKey = (request, choice) => `${request}.${choice}`;

// Chunks in cells. A chunk keeps its cell while it has memory; the lowest free cell is next. Chunks
// come by name: neighbours in memory begin as neighbours on the page.
export class Cells {
  #cellOf = new Map(); // name to cell
  #free = []; // a heap of free cells, the lowest first
  state = new Uint8Array(1024); // by cell
  name = []; // by cell
  n = 0; // cells in use are below
  counts = new Array(STATES.length).fill(0);
  dirty = new Set(); // cells that have changed since whoever draws them looked; null: all

  set(name, state) {
    let cell = this.#cellOf.get(name);
    if (cell === undefined) {
      if (state === ABSENT) return;
      cell = this.#take();
      this.#cellOf.set(name, cell);
      this.name[cell] = name;
    } else {
      this.counts[this.state[cell]]--;
    }
    this.state[cell] = state;
    this.counts[state]++;
    this.dirty?.add(cell);
    if (state !== ABSENT) return;
    this.counts[ABSENT]--;
    this.#cellOf.delete(name);
    this.name[cell] = undefined;
    this.#give(cell);
  }

  cellOf(name) {
    return this.#cellOf.get(name);
  }

  stateOf(name) {
    const cell = this.#cellOf.get(name);
    return cell === undefined ? ABSENT : this.state[cell];
  }

  get size() {
    return this.#cellOf.size;
  }

  names() {
    return this.#cellOf.keys();
  }

  #take() {
    if (this.#free.length) return this.#popFree();
    if (this.n === this.state.length) {
      const wider = new Uint8Array(2 * this.n);
      wider.set(this.state);
      this.state = wider;
    }
    return this.n++;
  }

  #give(cell) {
    const heap = this.#free;
    let i = heap.push(cell) - 1;
    for (let up; i > 0 && heap[up = (i - 1) >> 1] > cell; i = up) heap[i] = heap[up];
    heap[i] = cell;
  }

  #popFree() {
    const heap = this.#free;
    const least = heap[0];
    const last = heap.pop();
    if (!heap.length) return least;
    let i = 0;
    for (let down; (down = 2 * i + 1) < heap.length; i = down) {
      if (down + 1 < heap.length && heap[down + 1] < heap[down]) down++;
      if (heap[down] >= last) break;
      heap[i] = heap[down];
    }
    heap[i] = last;
    return least;
  }
}

export class Picture {
  number = 0;
  atUs = 0;
  version = "";
  manager = "";
  groups = [];
  stats = {};
  cells = new Cells();
  spans = new Map(); // by spanKey
  nodes = new Map(); // by id: {id, parent, domain, tokens, sequences, bytes}
  requests = new Map(); // by id

  static whole(msg) {
    const p = new Picture();
    p.version = msg.version;
    p.manager = msg.manager;
    p.groups = msg.groups;
    p.cells.dirty = null;
    p.#apply(msg);
    return p;
  }

  // False: the change is from another picture than this one.
  change(msg) {
    if (msg.after !== this.number) return false;
    for (const [request, choice] of msg.gone_spans) this.spans.delete(spanKey(request, choice));
    for (const id of msg.gone_nodes) this.nodes.delete(id);
    for (const id of msg.gone_requests) this.requests.delete(id);
    this.#apply(msg);
    return true;
  }

  #apply(msg) {
    this.number = msg.number;
    this.atUs = msg.at_us;
    Object.assign(this.stats, msg.stats);
    // What goes leaves its cells to what comes.
    for (const goes of [true, false])
      for (const [first, n, state] of msg.chunks)
        if ((state === ABSENT) === goes)
          for (let i = 0; i < n; i++) this.#setChunk(first + i, state);
    for (const s of msg.spans) this.#setSpan(s);
    for (const [id, parent, domain, tokens, sequences, bytes] of msg.nodes)
      this.nodes.set(id, { id, parent, domain, tokens, sequences, bytes });
    for (const r of msg.requests) this.requests.set(r.id, r);
  }

  #setChunk(name, state) {
    this.cells.set(name, state);
  }

  #setSpan(s) {
    const key = spanKey(s.request, s.choice);
    const was = this.spans.get(key);
    this.spans.set(key, { ...s, key, segments: s.segments ?? was?.segments ?? [] });
  }

  // The chunk behind each segment of a span, in the order of its addresses.
  segmentsOf(span) {
    const out = [];
    for (const [group, at, chunk, n] of span.segments)
      for (let i = 0; i < n; i++) out.push({ group, at: at + i, chunk: chunk + i });
    return out;
  }

  // Where several devices share the cache out, each has groups of its own. null: there is one device.
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

  // Requests that wait, in the order in which they are served.
  queue() {
    return [...this.requests.values()].filter((r) => r.place > 0).sort((a, b) => a.place - b.place);
  }
}
