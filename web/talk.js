// talk.js - conversations as trees: each message has alternatives, one of which is chosen. No DOM.
//
//   root -- user "hello" -- assistant "hi"          regenerate: one more child of the same parent
//                        \- assistant "good day"    edit: one more child of the message's parent
//        \- user "hey" ...                          fork: the path so far, as a new conversation

let lastId = 0;

export class Talk {
  constructor(system = "") {
    this.id = ++lastId;
    this.system = system;
    this.root = { role: "root", children: [], chosen: 0, parent: null };
  }

  // Adds a message after `parent`, and chooses it.
  add(parent, role, content) {
    const message = { id: ++lastId, role, content, thought: "", parent, children: [], chosen: 0, facts: null,
      failed: "" };
    parent.chosen = parent.children.push(message) - 1;
    return message;
  }

  // The chosen messages, from the first on.
  path() {
    const out = [];
    for (let m = this.root; (m = m.children[m.chosen]);) out.push(m);
    return out;
  }

  // From the first message to this one.
  pathTo(message) {
    const out = [];
    for (let m = message; m.parent; m = m.parent) out.unshift(m);
    return out;
  }

  // What is sent to have `message` answered.
  request(message) {
    const system = this.system.trim() ? [{ role: "system", content: this.system }] : [];
    return [...system, ...this.pathTo(message).map(({ role, content }) => ({ role, content }))];
  }

  // by: 1 or -1: the next or the previous alternative.
  choose(message, by) {
    const { parent } = message;
    parent.chosen = Math.min(parent.children.length - 1, Math.max(0, parent.chosen + by));
  }

  // A new conversation with the messages up to this one.
  fork(message) {
    const talk = new Talk(this.system);
    let at = talk.root;
    for (const m of this.pathTo(message)) {
      at = talk.add(at, m.role, m.content);
      at.facts = m.facts;
    }
    return talk;
  }

  get title() {
    const first = this.path()[0];
    const text = first ? first.content.replace(/\s+/g, " ").trim() : "";
    return text ? text.length > 32 ? `${text.slice(0, 31)}…` : text : "new conversation";
  }
}

// What an answer took: times in seconds, counted here, and the server's counts of tokens.
export class Facts {
  constructor(now) {
    this.sent = now;
    this.first = null;
    this.last = null;
    this.pieces = 0;
    this.usage = null;
  }

  piece(now) {
    this.first ??= now;
    this.last = now;
    this.pieces++;
  }

  get tokens() {
    return this.usage ? this.usage.completion_tokens : this.pieces;
  }

  get cached() {
    return this.usage?.prompt_tokens_details?.cached_tokens ?? null;
  }

  // Seconds to the first token; null: none has come.
  get wait() {
    return this.first === null ? null : this.first - this.sent;
  }

  // Tokens per second from the first token on; null: there are too few.
  get rate() {
    return this.tokens > 1 && this.last > this.first ? (this.tokens - 1) / (this.last - this.first) : null;
  }
}
