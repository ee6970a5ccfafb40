// sse.js - server-sent events over fetch, which, unlike EventSource, sends a key.

// Cuts a stream of text into events: push(text) returns those that are complete.
export class EventCutter {
  #rest = "";

  push(text) {
    const parts = (this.#rest + text).split(/\r?\n\r?\n/);
    this.#rest = parts.pop();
    return parts.map(parseEvent).filter((event) => event.data !== null);
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
