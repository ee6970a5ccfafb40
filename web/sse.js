// sse.js - server-sent events over fetch, which, unlike EventSource, sends a key.

const END = /\r?\n\r?\n/;
const END_CHARS = 4; // at most

// Cuts a stream of text into events: push(text) returns those that are complete. A snapshot may come
// in many pieces: each is looked at once, and they are joined when its end has come.
export class EventCutter {
  #pieces = [];
  #seam = ""; // what an end may have begun with

  push(text) {
    const fresh = this.#seam + text;
    this.#pieces.push(text);
    this.#seam = fresh.slice(1 - END_CHARS);
    if (fresh.search(END) < 0) return [];
    const blocks = this.#pieces.join("").split(END);
    const rest = blocks.pop();
    this.#pieces = [rest];
    this.#seam = rest.slice(1 - END_CHARS);
    return blocks.map(parseEvent).filter((event) => event.data !== null);
  }
}

function parseEvent(block) {
  const event = { type: "message", data: null };
  for (const line of block.split(/\r?\n/)) {
    const [, name, value] = /^([^:]*):? ?(.*)$/s.exec(line);
    if (name === "event") event.type = value;
    if (name === "data") event.data = event.data === null ? value : `${event.data}\n${value}`;
  }
  return event;
}

// The events of a response, as they come.
export async function* eventsOf(response) {
  const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
  const cutter = new EventCutter();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      yield* cutter.push(value);
    }
  } finally {
    reader.cancel().catch(() => {});
  }
}
