// api.js - requests to the server, with a key where it wants one. The key stays in this tab.

const KEPT = "flexinfer-key";

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status;
  }
}

export class Api {
  // ask(why): shows the user a form and resolves to a key, or to null.
  constructor(ask) {
    this.ask = ask;
    this.key = sessionStorage.getItem(KEPT) ?? "";
  }

  setKey(key) {
    this.key = key;
    sessionStorage.setItem(KEPT, key);
  }

  // A key from the user. False: there is none. Whoever asks meanwhile waits for the same answer.
  async getKey(why) {
    this.asking ??= this.ask(why).finally(() => this.asking = null);
    const key = await this.asking;
    if (key) this.setKey(key);
    return Boolean(key);
  }

  // The response, if its status is 200; otherwise an ApiError. Asks for a key where one is missing.
  async fetch(path, options = {}) {
    for (;;) {
      const key = this.key;
      const headers = { ...options.headers };
      if (key) headers.Authorization = `Bearer ${key}`;
      const response = await fetch(path, { ...options, headers, credentials: "omit", cache: "no-store" });
      if (response.ok) return response;
      const error = await errorOf(response);
      if (response.status !== 401) throw error;
      if (key === this.key && !await this.getKey(key ? "The key is wrong." : "This server wants a key.")) throw error;
    }
  }

  async json(path) {
    return (await this.fetch(path)).json();
  }

  post(path, body, signal) {
    return this.fetch(path, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify(body),
      signal,
    });
  }
}

async function errorOf(response) {
  const text = await response.text().catch(() => "");
  let message = `the server answered ${response.status}`;
  try {
    message = JSON.parse(text).error.message;
  } catch { /* not ours */ }
  return new ApiError(response.status, message);
}
