// chat.js - the chat: conversations on the screen, and answers as they stream.

import { count, seconds } from "./format.js";
import { render } from "./markdown.js";
import { eventsOf } from "./sse.js";
import { Facts, Talk } from "./talk.js";

const now = () => performance.now() / 1000;

function make(name, properties = {}, ...children) {
  const e = Object.assign(document.createElement(name), properties);
  e.append(...children);
  return e;
}

export class Chat {
  talks = [];
  streams = new Map(); // talk to the AbortController of its answer
  more = {}; // further fields of requests, for the console

  constructor(api, root) {
    this.api = api;
    this.el = Object.fromEntries(["log", "form", "say", "send", "stop", "conversations", "new", "system", "temperature",
      "max-tokens"].map((id) => [id, root.querySelector(`#${id}`)]));
    this.el.form.addEventListener("submit", (e) => {
      e.preventDefault();
      this.send();
    });
    this.el.say.addEventListener("keydown", (e) => {
      if (e.key !== "Enter" || e.shiftKey || e.isComposing) return;
      e.preventDefault();
      this.send();
    });
    this.el.stop.addEventListener("click", () => this.stop());
    this.el.new.addEventListener("click", () => this.open(new Talk(this.talk.system)));
    this.el.system.addEventListener("change", () => this.talk.system = this.el.system.value);
    this.el.conversations.addEventListener("change", () => {
      this.show(this.talks.find((t) => String(t.id) === this.el.conversations.value));
    });
    this.open(new Talk());
  }

  open(talk) {
    this.talks.push(talk);
    this.show(talk);
  }

  show(talk) {
    this.talk = talk;
    this.el.system.value = talk.system;
    this.draw();
  }

  // ---- sending

  send() {
    const text = this.el.say.value.trim();
    if (!text || this.streams.has(this.talk)) return;
    this.el.say.value = "";
    this.talk.system = this.el.system.value;
    const path = this.talk.path();
    this.answer(this.talk, this.talk.add(path.at(-1) ?? this.talk.root, "user", text));
  }

  stop() {
    this.streams.get(this.talk)?.abort();
  }

  async answer(talk, question) {
    const controller = new AbortController();
    const message = talk.add(question, "assistant", "");
    message.facts = new Facts(now());
    this.streams.set(talk, controller);
    this.draw();
    try {
      await this.#stream(talk, question, message, controller.signal);
    } catch (error) {
      message.failed = controller.signal.aborted ? "stopped" : error.message;
    }
    this.streams.delete(talk);
    this.#drawIf(talk);
  }

  async #stream(talk, question, message, signal) {
    const response = await this.api.post("/v1/chat/completions", {
      messages: talk.request(question),
      temperature: Number(this.el.temperature.value),
      max_tokens: Number(this.el["max-tokens"].value),
      stream: true,
      stream_options: { include_usage: true },
      ...this.more,
    }, signal);
    let isWhole = false;
    for await (const { data } of eventsOf(response)) {
      if (data === "[DONE]") {
        isWhole = true;
        break;
      }
      this.#take(talk, message, JSON.parse(data));
    }
    if (!isWhole) throw new Error("the server went away");
  }

  #take(talk, message, chunk) {
    if (chunk.error) throw new Error(chunk.error.message);
    if (chunk.usage) message.facts.usage = chunk.usage;
    const { content = "", reasoning_content: thought = "" } = chunk.choices?.[0]?.delta ?? {};
    if (!content && !thought) return;
    message.facts.piece(now());
    message.content += content ?? "";
    message.thought += thought ?? "";
    this.#redraw(talk, message);
  }

  // ---- drawing

  // A message that grows is drawn once per frame.
  #redraw(talk, message) {
    if (talk !== this.talk || this.asked) return;
    this.asked = requestAnimationFrame(() => {
      this.asked = 0;
      const box = this.el.log.querySelector(`[data-id="${message.id}"]`);
      if (!box || talk !== this.talk) return;
      const log = this.el.log;
      const isAtEnd = log.scrollHeight - log.scrollTop - log.clientHeight < 60;
      box.querySelector(".text").replaceChildren(render(message.content, document, copyText));
      box.querySelector(".thought").hidden = !message.thought;
      box.querySelector(".thought p").textContent = message.thought;
      box.querySelector(".facts").textContent = factsOf(message);
      if (isAtEnd) log.scrollTop = log.scrollHeight;
    });
  }

  #drawIf(talk) {
    if (talk === this.talk) this.draw();
    else this.#drawList();
  }

  draw() {
    const isBusy = this.streams.has(this.talk);
    this.#drawList();
    this.el.send.hidden = isBusy;
    this.el.stop.hidden = !isBusy;
    this.el.log.setAttribute("aria-busy", String(isBusy));
    this.el.log.replaceChildren(...this.talk.path().map((m) => this.#messageBox(m, isBusy)));
    this.el.log.scrollTop = this.el.log.scrollHeight;
  }

  #drawList() {
    this.el.conversations.replaceChildren(...this.talks.map((t) =>
      make("option", { value: t.id, selected: t === this.talk },
        t.title + (this.streams.has(t) ? " …" : ""))));
  }

  #messageBox(m, isBusy) {
    const who = m.role === "user" ? "You" : "Model";
    const head = make("header", {}, make("span", { className: "who", textContent: who }));
    if (m.parent.children.length > 1) head.append(...this.#alternatives(m, who));
    if (!isBusy) head.append(...this.#actions(m));
    const thought = make("details", { className: "thought", hidden: !m.thought },
      make("summary", { textContent: "Thoughts" }), make("p", { textContent: m.thought }));
    const box = make("article", { className: `message ${m.role}` }, head, thought,
      make("div", { className: "text" }, render(m.content, document, copyText)));
    if (m.failed) box.append(make("p", { className: "failed", textContent: m.failed }));
    if (m.role === "assistant") box.append(make("p", { className: "facts", textContent: factsOf(m) }));
    box.dataset.id = m.id;
    box.setAttribute("aria-label", who);
    return box;
  }

  #alternatives(m, who) {
    const step = (text, label, by) => {
      const b = make("button", { type: "button", textContent: text });
      b.setAttribute("aria-label", label);
      b.disabled = this.streams.has(this.talk);
      b.addEventListener("click", () => {
        this.talk.choose(m, by);
        this.draw();
      });
      return b;
    };
    const at = make("span", { textContent: `${m.parent.chosen + 1}/${m.parent.children.length}` });
    return [step("‹", `${who}: previous version`, -1), at, step("›", `${who}: next version`, 1)];
  }

  #actions(m) {
    const button = (text, act) => {
      const b = make("button", { type: "button", textContent: text });
      b.addEventListener("click", act);
      return b;
    };
    const out = [];
    if (m.role === "user") out.push(button("Edit", () => this.#edit(m)));
    else out.push(button("Regenerate", () => this.answer(this.talk, m.parent)));
    out.push(button("Fork", () => this.open(this.talk.fork(m))));
    return out;
  }

  // The new text is another version of the message; the old one stays.
  #edit(m) {
    const box = this.el.log.querySelector(`[data-id="${m.id}"] .text`);
    const area = make("textarea", { value: m.content, rows: 3 });
    area.setAttribute("aria-label", "Edited message");
    const form = make("form", { className: "edit" }, area, make("div", { className: "row" },
      make("button", { type: "submit", className: "main", textContent: "Send" }),
      make("button", { type: "button", textContent: "Cancel", onclick: () => this.draw() })));
    form.addEventListener("submit", (e) => {
      e.preventDefault();
      const text = area.value.trim();
      if (text) this.answer(this.talk, this.talk.add(m.parent, "user", text));
    });
    box.replaceChildren(form);
    area.focus();
  }
}

function factsOf(m) {
  const f = m.facts;
  if (!f) return "";
  if (f.wait === null) return m.failed ? "" : "waiting for the first token";
  const parts = [`first token after ${seconds(f.wait)}`, `${count(f.tokens)} tokens`];
  if (f.rate !== null) parts.push(`${f.rate.toFixed(1)} tokens/s`);
  if (f.usage) parts.push(`${count(f.cached ?? 0)} of ${count(f.usage.prompt_tokens)} prompt tokens cached`);
  return parts.join(" · ");
}

async function copyText(text, button) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    button.textContent = "Copying is not allowed here";
  }
}
