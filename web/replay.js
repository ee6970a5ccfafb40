// replay.js - a trace of the flight recorder, played: what was running, waiting and in memory at any
// moment of it. The recorder does not name chunks; sequences are shown by their lengths. No DOM.

import { spanKey } from "./snapshot.js";

const STATES = ["waiting", "running", "leaving", "away", "coming"];

export class Replay {
  // trace: the JSON of a Chrome trace. Throws an Error if it is none of flexinfer.
  constructor(trace) {
    if (!Array.isArray(trace?.traceEvents)) throw new Error("this is no Chrome trace: it has no traceEvents");
    this.events = trace.traceEvents.filter((e) => e.ph !== "M" && Number.isFinite(e.ts)).map(simple);
    this.events.sort((a, b) => a.at - b.at || a.order - b.order);
    if (!this.events.length) throw new Error("the trace has no events");
    this.from = this.events[0].at / 1e6;
    this.to = this.events.at(-1).at / 1e6;
    this.lost = trace.otherData?.lost_events ?? 0;
    this.memory = this.events.filter((e) => e.kind === "memory").map((e) => ({ s: e.at / 1e6, ...e.memory }));
    this.#begin();
  }

  #begin() {
    this.next = 0;
    this.requests = new Map();
    this.spans = new Map();
    this.now = { mapped: 0, live: 0, shared: 0 };
    this.recent = [];
  }

  // Goes to this moment, in seconds of the engine's clock.
  seek(s) {
    const at = s * 1e6;
    if (this.next && this.events[this.next - 1].at > at) this.#begin();
    while (this.next < this.events.length && this.events[this.next].at <= at) this.#apply(this.events[this.next++]);
  }

  #apply(e) {
    if (e.kind === "memory") this.now = e.memory;
    else if (e.kind === "request") this.#applyRequest(e);
    else this.#applyCall(e);
    if (e.kind === "call" && e.name !== "extend") this.recent.push(e);
    if (this.recent.length > 8) this.recent.shift();
  }

  #applyRequest(e) {
    if (e.name === "request" && e.isEnd) {
      this.requests.delete(e.request);
      for (const [key, span] of this.spans) if (span.request === e.request) this.spans.delete(key);
    } else if (e.name === "request") {
      this.requests.set(e.request, { id: e.request, state: "waiting", prompt: e.args.tokens ?? 0, cached: 0,
        generated: 0, sequences: e.args.sequences ?? 1, place: 0 });
    } else if (!e.isEnd && STATES.includes(e.name) && this.requests.has(e.request)) {
      this.requests.get(e.request).state = e.name;
    }
  }

  #applyCall({ name, args }) {
    const { request, choice = 0, tokens = 0, status = 0 } = args;
    if (status) return;
    const key = spanKey(request, choice);
    if (name === "match" && this.requests.has(request)) this.requests.get(request).cached = tokens;
    if (name === "create" || name === "match" || name === "fork")
      this.spans.set(key, { key, request, choice, tokens, segments: [] });
    else if (name === "release") this.spans.delete(key);
    else if (name === "extend" && request) this.#grow(key, tokens);
    else if (name === "extend") for (const span of this.spans.values()) this.#growBy(span, tokens);
  }

  #grow(key, tokens) {
    const span = this.spans.get(key);
    if (span) span.tokens = Math.max(span.tokens, tokens);
  }

  // One token more for each sequence that decodes.
  #growBy(span) {
    const r = this.requests.get(span.request);
    if (r?.state !== "running" || span.tokens < r.prompt) return;
    span.tokens++;
    r.generated++;
  }

  queue() {
    return [...this.requests.values()].filter((r) => r.state === "waiting");
  }
}

function simple(e, order) {
  const args = e.args ?? {};
  const at = e.ts + (e.dur ?? 0);
  if (e.ph === "C")
    return { kind: "memory", at, order,
      memory: { mapped: 1024 * args.mapped, live: 1024 * args.live, shared: 1024 * args.shared } };
  if (e.ph === "b" || e.ph === "e")
    return { kind: "request", at, order, name: e.name, isEnd: e.ph === "e", request: e.id, args };
  return { kind: e.name === "step" ? "step" : "call", at, order, name: e.name, args };
}
