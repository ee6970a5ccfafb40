// map.js - the memory map: every chunk a cell, every sequence a row of segments. Only what is seen is
// drawn: cells as one image, of the rows those that are scrolled into view.

import { STATES, SWAPPED } from "./snapshot.js";
import { bytes, count, several } from "./format.js";

const LEAST_CELL = 2; // CSS pixels
const MOST_CELL = 14;
const MOST_HEIGHT = 420; // of all cells, if they can be smaller
const MOST_LINES = 60; // from a segment to chunks and from a chunk to rows

export class MemoryMap {
  #snapshot = null;
  #rows = []; // spans by request, then choice
  #was = []; // the keys of the snapshot before, in this order
  #grid = { size: MOST_CELL, perRow: 1, gap: 2 };
  #row = { height: 16, most: 1, left: 64 };
  #point = null; // {key, index} of a segment, or {chunk}
  #lost = null; // {row, index} of the segment that was pointed at when its sequence ended
  #colour = {};
  #said = "";
  #image = null;
  #drawnN = -1;
  frames = 0; // drawn so far

  constructor(root, onPoint) {
    this.root = root;
    this.onPoint = onPoint;
    this.cells = root.querySelector("#cells");
    this.scroller = root.querySelector("#spans");
    this.room = root.querySelector("#spans-room");
    this.spans = root.querySelector("#spans-canvas");
    this.overlay = root.querySelector("#overlay");
    this.readColours();
    this.scroller.addEventListener("scroll", () => this.ask());
    this.cells.addEventListener("pointermove", (e) => this.#pointAtCell(e));
    this.spans.addEventListener("pointermove", (e) => this.#pointAtSegment(e));
    for (const c of [this.cells, this.spans]) c.addEventListener("pointerleave", () => this.point(null));
    this.scroller.addEventListener("keydown", (e) => this.#move(e));
    this.scroller.addEventListener("blur", () => this.point(null));
    new ResizeObserver(() => this.ask()).observe(root);
  }

  // The colours of the theme, from the legend.
  readColours() {
    for (const state of STATES.slice(1)) {
      const swatch = this.root.querySelector(`.cell.${state}`);
      this.#colour[state] = getComputedStyle(swatch).backgroundColor;
    }
    const style = getComputedStyle(this.root);
    this.#colour.text = style.color;
    this.#drawnN = -1;
  }

  show(snapshot) {
    if (this.#snapshot?.cells !== snapshot.cells) this.#drawnN = -1;
    this.#snapshot = snapshot;
    this.#was = this.#rows.map((span) => span.key);
    this.#rows = [...snapshot.spans.values()].sort((a, b) => a.request - b.request || a.choice - b.choice);
    this.#keepPoint();
    this.ask();
  }

  // Draws with the next frame.
  ask() {
    if (this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      this.draw();
    });
  }

  draw() {
    if (!this.#snapshot || !this.root.offsetWidth) return;
    this.#drawCells();
    this.#drawRows();
    this.#drawOverlay();
    this.frames++;
  }

  // ---- cells

  #fitCells(n, width) {
    let size = MOST_CELL;
    while (size > LEAST_CELL && Math.ceil(n / Math.floor(width / size)) * size > MOST_HEIGHT) size--;
    this.#grid = { size, perRow: Math.max(1, Math.floor(width / size)), gap: size > 8 ? 2 : size > 3 ? 1 : 0 };
  }

  #drawCells() {
    const cells = this.#snapshot.cells;
    const width = this.cells.parentElement.clientWidth;
    const was = this.#grid;
    this.#fitCells(Math.max(cells.n, 1), width);
    const { size, perRow } = this.#grid;
    const height = Math.ceil(Math.max(cells.n, 1) / perRow) * size;
    const ctx = contextOf(this.cells, width, height);
    const all = ctx.resized || cells.dirty === null || this.#drawnN < 0 || was.size !== size ||
      was.perRow !== perRow || !this.#image;
    if (ctx.resized || !this.#image) this.#image = ctx.createImageData(ctx.canvas.width, ctx.canvas.height);
    this.#palette();
    if (all) {
      new Uint32Array(this.#image.data.buffer).fill(0);
      for (let i = 0; i < cells.n; i++) this.#paintCell(ctx, i, cells.state[i]);
    } else {
      for (const i of cells.dirty) this.#paintCell(ctx, i, cells.state[i]);
    }
    if (all || cells.dirty.size) ctx.putImageData(this.#image, 0, 0);
    cells.dirty = new Set();
    this.#drawnN = cells.n;
  }

  #palette() {
    this.palette = STATES.map((name, i) => (i ? pixelOf(this.#colour[name]) : 0));
  }

  // Shared chunks have a dot and swapped ones a slash, where there is room for it.
  #paintCell(ctx, i, state) {
    const { size, perRow, gap } = this.#grid;
    const scale = ctx.scaleOf;
    const x0 = Math.round((i % perRow) * size * scale);
    const y0 = Math.round(Math.floor(i / perRow) * size * scale);
    const side = Math.max(1, Math.round((size - gap) * scale));
    const data = new Uint32Array(this.#image.data.buffer);
    const width = this.#image.width;
    const colour = this.palette[state];
    for (let y = y0; y < y0 + side; y++) data.fill(colour, y * width + x0, y * width + x0 + side);
    if (size < 8 || !state) return;
    const hole = Math.round(side / 3);
    if (STATES[state] === "shared")
      for (let y = y0 + hole; y < y0 + side - hole; y++) data.fill(0, y * width + x0 + hole, y * width + x0 + side - hole);
    if (STATES[state] === "cached")
      for (let y = y0 + hole; y < y0 + side - hole; y++) data.fill(0, y * width + x0, y * width + x0 + side);
    if (state === SWAPPED)
      for (let k = 0; k < side; k++) data[(y0 + k) * width + x0 + k] = 0;
  }

  #placeOfChunk(chunk) {
    const cell = this.#snapshot.cells.cellOf(chunk);
    if (cell === undefined) return null;
    const { size, perRow, gap } = this.#grid;
    return { x: (cell % perRow) * size, y: Math.floor(cell / perRow) * size, side: size - gap };
  }

  #pointAtCell(e) {
    const { size, perRow } = this.#grid;
    const cell = Math.floor(e.offsetY / size) * perRow + Math.floor(e.offsetX / size);
    const chunk = this.#snapshot?.cells.name[cell];
    this.point(chunk === undefined ? null : { chunk });
  }

  // ---- rows

  #fitRows() {
    const n = this.#rows.length;
    const height = n <= 24 ? 18 : n <= 80 ? 12 : 8;
    let most = 8;
    for (const span of this.#rows) most = Math.max(most, lengthOf(span));
    this.#row = { height, most, left: height >= 12 ? 64 : 4 };
  }

  #drawRows() {
    this.#fitRows();
    const { height } = this.#row;
    const whole = Math.max(this.#rows.length * height, height);
    const seen = Math.min(whole, 352);
    this.room.style.height = `${whole}px`;
    const width = this.scroller.clientWidth;
    const ctx = contextOf(this.spans, width, seen);
    ctx.clearRect(0, 0, width, seen);
    ctx.font = `${Math.min(12, height - 2)}px system-ui, "DejaVu Sans", sans-serif`;
    ctx.textBaseline = "middle";
    const first = Math.floor(this.scroller.scrollTop / height);
    const last = Math.min(this.#rows.length, first + Math.ceil(seen / height) + 1);
    for (let i = first; i < last; i++) this.#drawRow(ctx, i, i * height - this.scroller.scrollTop, width);
  }

  #drawRow(ctx, i, y, width) {
    const span = this.#rows[i];
    const { height, left } = this.#row;
    if (left > 20) {
      ctx.fillStyle = this.#colour.text;
      ctx.fillText(`${span.request}.${span.choice}`, 4, y + height / 2, left - 8);
    }
    const step = this.#step(width);
    const gap = step > 5 ? 1 : 0;
    if (!span.segments.length) {
      ctx.fillStyle = this.#colour.owned;
      ctx.fillRect(left, y + 2, Math.max(2, lengthOf(span) * step), height - 4);
      return;
    }
    for (const [, at, chunk, n] of span.segments) {
      for (let k = 0, run; k < n; k += run) {
        const state = this.#snapshot.cells.stateOf(chunk + k);
        for (run = 1; k + run < n && !gap && this.#snapshot.cells.stateOf(chunk + k + run) === state; run++);
        ctx.fillStyle = this.#colour[STATES[state]] ?? "transparent";
        ctx.fillRect(left + (at + k) * step, y + 2, Math.max(1, run * step - gap), height - 4);
      }
    }
  }

  #step(width) {
    return Math.min(18, (width - this.#row.left - 8) / this.#row.most);
  }

  #pointAtSegment(e) {
    const { height, left } = this.#row;
    const row = Math.floor((e.offsetY + this.scroller.scrollTop) / height);
    const span = this.#rows[row];
    const at = Math.floor((e.offsetX - left) / this.#step(this.scroller.clientWidth));
    const segments = span ? this.#snapshot.segmentsOf(span) : [];
    const index = segments.findIndex((s) => s.at === at);
    this.point(index < 0 ? null : { key: span.key, index });
  }

  #move(e) {
    const by = { ArrowLeft: [0, -1], ArrowRight: [0, 1], ArrowUp: [-1, 0], ArrowDown: [1, 0] }[e.key];
    if (!by || !this.#rows.length) return;
    e.preventDefault();
    const from = this.#place();
    const row = Math.min(this.#rows.length - 1, Math.max(0, from ? from.row + by[0] : 0));
    const last = this.#snapshot.segmentsOf(this.#rows[row]).length - 1;
    const index = from ? Math.min(last, Math.max(0, from.index + by[1])) : 0;
    this.point({ key: this.#rows[row].key, index });
    const y = row * this.#row.height;
    if (y < this.scroller.scrollTop) this.scroller.scrollTop = y;
    else if (y + this.#row.height > this.scroller.scrollTop + this.scroller.clientHeight)
      this.scroller.scrollTop = y + this.#row.height - this.scroller.clientHeight;
  }

  // Where the arrow keys start from: the row of a sequence that has ended is as good as its own.
  #place() {
    if (!this.#point?.key) return this.#lost;
    return { row: this.#rows.findIndex((s) => s.key === this.#point.key), index: this.#point.index };
  }

  // ---- what is pointed at

  point(point) {
    this.#lost = null;
    if (JSON.stringify(point) === JSON.stringify(this.#point)) return;
    this.#point = point;
    this.#say();
    this.ask();
  }

  #keepPoint() {
    const key = this.#point?.key;
    if (key && !this.#snapshot.spans.has(key)) {
      this.#lost = { row: this.#was.indexOf(key), index: this.#point.index };
      this.#point = null;
    }
    this.#say();
  }

  // The chunk that is pointed at, and who maps it.
  pointed() {
    if (!this.#point) return null;
    const span = this.#snapshot.spans.get(this.#point.key);
    const segment = span && this.#snapshot.segmentsOf(span)[this.#point.index];
    const chunk = segment ? segment.chunk : this.#point.chunk;
    if (chunk === undefined) return null;
    return { span, segment, chunk, spans: this.#snapshot.spansWith(chunk) };
  }

  // What is pointed at, in words; again when it has changed.
  #say() {
    const text = this.describe();
    if (text === this.#said) return;
    this.#said = text;
    this.onPoint(text);
  }

  describe() {
    const p = this.pointed();
    if (!p) return "";
    const state = STATES[this.#snapshot.cells.stateOf(p.chunk)];
    const group = this.#snapshot.groups[p.segment?.group ?? 0];
    const device = this.#snapshot.deviceOf(p.segment?.group ?? 0);
    const where = p.segment
      ? `Sequence ${p.span.request}.${p.span.choice}, segment ${p.segment.at + 1}${device === null ? "" : ` on device ${device}`}: `
      : "";
    const others = p.spans.filter((s) => s !== p.span);
    const names = others.slice(0, 4).map((s) => `${s.request}.${s.choice}`).join(", ");
    const mapped = others.length
      ? `${p.span ? "also mapped" : "mapped"} by ${several(others.length, "sequence")} (${names}${others.length > 4 ? ", …" : ""})`
      : p.span ? "mapped by no other sequence" : "mapped by no sequence";
    const size = group ? `, ${bytes(group.chunk_bytes)}` : "";
    return `${where}chunk ${count(p.chunk)}, ${state}${size}; ${mapped}`;
  }

  #drawOverlay() {
    const width = this.root.clientWidth;
    const height = this.root.clientHeight;
    const ctx = contextOf(this.overlay, width, height);
    ctx.clearRect(0, 0, width, height);
    const p = this.pointed();
    if (!p) return;
    const cell = this.#placeOfChunk(p.chunk);
    ctx.strokeStyle = ctx.fillStyle = this.#colour.text;
    ctx.lineWidth = 2;
    const target = cell && {
      x: this.cells.offsetLeft + cell.x + cell.side / 2,
      y: this.cells.offsetTop + cell.y + cell.side / 2,
    };
    if (cell)
      ctx.strokeRect(this.cells.offsetLeft + cell.x - 2, this.cells.offsetTop + cell.y - 2, cell.side + 4, cell.side + 4);
    for (const span of p.spans.slice(0, MOST_LINES)) this.#drawMark(ctx, span, p.chunk, target, span === p.span);
  }

  // Around a segment in view, with a line to its chunk.
  #drawMark(ctx, span, chunk, target, isPointed) {
    const { height, left } = this.#row;
    const row = this.#rows.indexOf(span);
    const y = row * height - this.scroller.scrollTop;
    if (row < 0 || y < 0 || y + height > this.scroller.clientHeight + 1) return;
    const at = this.#snapshot.segmentsOf(span).find((s) => s.chunk === chunk)?.at ?? 0;
    const step = this.#step(this.scroller.clientWidth);
    const x = this.scroller.offsetLeft + left + at * step;
    const top = this.scroller.offsetTop + y;
    ctx.globalAlpha = isPointed || !this.#point.key ? 1 : 0.6;
    ctx.lineWidth = 2;
    ctx.strokeRect(x - 1, top + 1, Math.max(2, step) + 1, height - 2);
    if (target) {
      ctx.lineWidth = 1;
      ctx.beginPath();
      ctx.moveTo(x + step / 2, top);
      ctx.bezierCurveTo(x + step / 2, top - 40, target.x, target.y + 40, target.x, target.y);
      ctx.stroke();
    }
    ctx.globalAlpha = 1;
  }
}

// Positions that a row needs: of a span without chunks, a guess from its tokens.
function lengthOf(span) {
  let n = span.segments.length ? 0 : Math.ceil(span.tokens / 32);
  for (const [, at, , many] of span.segments) n = Math.max(n, at + many);
  return n;
}

// A canvas of this size in CSS pixels, sharp on any screen.
export function contextOf(canvas, width, height) {
  const scale = Math.min(window.devicePixelRatio || 1, 2);
  const w = Math.max(1, Math.round(width * scale));
  const h = Math.max(1, Math.round(height * scale));
  const ctx = canvas.getContext("2d");
  ctx.resized = canvas.width !== w || canvas.height !== h;
  if (ctx.resized) {
    canvas.width = w;
    canvas.height = h;
    canvas.style.height = `${height}px`;
  }
  ctx.scaleOf = scale;
  ctx.setTransform(scale, 0, 0, scale, 0, 0);
  return ctx;
}

// "rgb(1, 2, 3)" as a pixel of an image.
function pixelOf(colour) {
  const [r, g, b] = (colour.match(/[\d.]+/g) ?? [0, 0, 0]).map(Number);
  return (255 << 24 | b << 16 | g << 8 | r) >>> 0;
}
