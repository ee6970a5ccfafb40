// chart.js - mapped, live and shared bytes over time.

import { contextOf } from "./map.js";
import { bytes } from "./format.js";

const KEPT_S = 120;
const LEAST_S = 20; // shown, at least

export class Chart {
  #points = []; // {s, mapped, live, shared}
  #range = null; // {from, to, now} of a replay; null: the last two minutes

  constructor(canvas, swatches) {
    this.canvas = canvas;
    this.swatches = swatches; // name to the element that has its colour
    new ResizeObserver(() => this.draw()).observe(canvas);
  }

  add(s, mapped, live, shared) {
    this.#points.push({ s, mapped, live, shared });
    const first = this.#points.findIndex((p) => p.s >= s - KEPT_S);
    if (first > 1) this.#points.splice(0, first - 1);
    this.draw();
  }

  // All points of a replay, and the moment that is shown.
  set(points, range) {
    this.#points = points;
    this.#range = range;
    this.draw();
  }

  clear() {
    this.set([], null);
  }

  draw() {
    const width = this.canvas.clientWidth;
    const height = this.canvas.clientHeight;
    if (!width) return;
    const ctx = contextOf(this.canvas, width, height);
    ctx.clearRect(0, 0, width, height);
    const last = this.#points.at(-1);
    if (!last) return;
    const to = this.#range ? this.#range.to : last.s;
    const from = this.#range ? this.#range.from : Math.min(to - LEAST_S, Math.max(to - KEPT_S, this.#points[0].s));
    const most = Math.max(1, ...this.#points.map((p) => Math.max(p.mapped, p.live)));
    const x = (s) => (to > from ? (s - from) / (to - from) : 1) * width;
    const y = (v) => height - 2 - v / most * (height - 18);
    for (const name of ["mapped", "live", "shared"]) this.#drawLine(ctx, name, x, y, width);
    const style = getComputedStyle(this.canvas);
    ctx.fillStyle = ctx.strokeStyle = style.color;
    ctx.font = "12px system-ui, \"DejaVu Sans\", sans-serif";
    ctx.fillText(bytes(most), 2, 11);
    this.#drawSpan(ctx, to - from, width);
    if (this.#range) {
      ctx.beginPath();
      ctx.moveTo(x(this.#range.now), 0);
      ctx.lineTo(x(this.#range.now), height);
      ctx.stroke();
    }
  }

  // How much time the chart covers.
  #drawSpan(ctx, s, width) {
    const text = `${this.#range ? "" : "last "}${s < 10 ? s.toFixed(1) : Math.round(s)} s`;
    ctx.textAlign = "right";
    ctx.fillText(text, width - 2, 11);
    ctx.textAlign = "left";
  }

  // Values hold until the next one.
  #drawLine(ctx, name, x, y, width) {
    ctx.strokeStyle = getComputedStyle(this.swatches[name]).borderTopColor;
    ctx.lineWidth = 2;
    ctx.setLineDash(name === "live" ? [5, 3] : name === "shared" ? [2, 2] : []);
    ctx.beginPath();
    let before = null;
    for (const p of this.#points) {
      if (before === null) ctx.moveTo(x(p.s), y(p[name]));
      else ctx.lineTo(x(p.s), y(before));
      ctx.lineTo(x(p.s), y(p[name]));
      before = p[name];
    }
    ctx.lineTo(width, y(before));
    ctx.stroke();
    ctx.setLineDash([]);
  }
}
