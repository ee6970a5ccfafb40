// watch.js - follows /kv/stream, and connects again whenever the stream ends.

import { Picture } from "./picture.js";
import { eventsOf } from "./sse.js";

const FIRST_WAIT_MS = 500;
const MOST_WAIT_MS = 8000;

const pause = (ms) => new Promise((resolve) => setTimeout(resolve, ms));

export class Watcher {
  picture = null;
  waitMs = FIRST_WAIT_MS;

  // onPicture(picture), onState("connecting" | "live" | "lost" | "locked", why)
  constructor(api, onPicture, onState) {
    this.api = api;
    this.onPicture = onPicture;
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

  // Resolves when somebody has given a new key.
  #unlocked() {
    return new Promise((resolve) => this.unlock = resolve);
  }

  // A change that does not fit ends the stream: the next one begins with a whole picture.
  async #follow() {
    const response = await this.api.fetch("/kv/stream");
    for await (const event of eventsOf(response)) {
      if (event.type !== "picture" && event.type !== "change") continue;
      const msg = JSON.parse(event.data);
      if (event.type === "picture") this.picture = Picture.whole(msg);
      else if (!this.picture?.change(msg)) return;
      this.waitMs = FIRST_WAIT_MS;
      this.onState("live", "");
      this.onPicture(this.picture);
    }
  }
}
