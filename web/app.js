// app.js - the page: the chat on one side, the memory on the other, and what joins them.

import { Api } from "./api.js";
import { Chart } from "./chart.js";
import { Chat } from "./chat.js";
import { bytes, count, percent, seconds, several } from "./format.js";
import { MemoryMap } from "./map.js";
import { Replay } from "./replay.js";
import { Cells, STATES, Subscription } from "./snapshot.js";

const $ = (id) => document.getElementById(id);
const MOST_ROWS = 200; // of tables
const MOST_PATHS = 100; // of the tree

// ---- key

function askForKey(why) {
  const dialog = $("key-dialog");
  $("key-why").textContent = why;
  $("key").value = "";
  dialog.returnValue = "";
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener("close", () => resolve(dialog.returnValue === "ok" ? $("key").value.trim() : null),
      { once: true });
  });
}

$("key-cancel").addEventListener("click", () => $("key-dialog").close(""));

const api = new Api(askForKey);

// ---- theme and views

function setTheme(theme) {
  if (theme === "auto") delete document.documentElement.dataset.theme;
  else document.documentElement.dataset.theme = theme;
  $("theme").value = theme;
  redrawAll();
}

function setView(view) {
  document.body.dataset.view = view;
  for (const b of document.querySelectorAll("[data-show]"))
    b.setAttribute("aria-pressed", String(b.dataset.show === view));
  redrawAll();
}

function redrawAll() {
  map.readColours();
  map.ask();
  chart.draw();
}

for (const b of document.querySelectorAll("[data-show]")) b.addEventListener("click", () => setView(b.dataset.show));
$("theme").addEventListener("change", () => {
  localStorage.setItem("flexinfer-theme", $("theme").value);
  setTheme($("theme").value);
});
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => redrawAll());

// ---- the memory panel

const map = new MemoryMap($("map"), (text) => $("pointed").textContent = text);
const chart = new Chart($("chart"), {
  mapped: document.querySelector(".line.mapped"),
  live: document.querySelector(".line.live"),
  shared: document.querySelector(".line.shared-bytes"),
});

function row(...cells) {
  const tr = document.createElement("tr");
  for (const text of cells) tr.insertCell().textContent = text;
  return tr;
}

// `requests` as in a snapshot, of n; those that wait in their order, after the others.
function showRequests(requests, n) {
  const list = [...requests].sort((a, b) => a.place - b.place || a.id - b.id);
  $("request-count").textContent = n ? several(n, "request") : "none";
  $("requests").replaceChildren(...list.slice(0, MOST_ROWS).map((r) =>
    row(r.id, r.place ? `${r.state}, place ${r.place}` : r.state, count(r.prompt), count(r.cached), count(r.generated))));
}

function pathItem(path, most) {
  const li = document.createElement("li");
  const bar = document.createElement("i");
  bar.className = path.sequences ? "bar-of-tokens used" : "bar-of-tokens";
  bar.style.width = `${Math.max(2, 60 * path.tokens / most)}px`;
  const used = path.sequences ? ` · ${several(path.sequences, "sequence")}` : "";
  li.append(bar, `${several(path.tokens, "token")} · ${several(path.blocks, "block")}${used}`);
  if (!path.children.length) return li;
  const ul = document.createElement("ul");
  ul.append(...path.children.slice(0, MOST_PATHS).map((c) => pathItem(c, most)));
  li.append(ul);
  return li;
}

function showTree(snapshot) {
  const paths = snapshot.tree();
  const tokens = sum([...snapshot.nodes.values()].map((node) => node.tokens));
  const blocks = snapshot.counts.nodes;
  const rest = snapshot.nodes.size < blocks ? ` in ${count(snapshot.nodes.size)} of ${several(blocks, "block")}` : "";
  $("node-count").textContent = paths.length ? `${count(tokens)} tokens${rest}` : "nothing recorded";
  const longest = (p) => Math.max(p.tokens, ...p.children.map(longest));
  const most = Math.max(1, ...paths.map(longest));
  $("tree").replaceChildren(...paths.slice(-MOST_PATHS).map((p) => pathItem(p, most)));
}

function showSpanTable(snapshot) {
  if (!$("as-table").open) return;
  const rows = [...snapshot.spans.values()].slice(0, MOST_ROWS).map((span) => {
    const segments = snapshot.segmentsOf(span);
    const shared = segments.filter((s) => snapshot.spansWith(s.chunk).length > 1).length;
    return row(`${span.request}.${span.choice}`, count(span.tokens), count(segments.length), count(shared));
  });
  $("span-rows").replaceChildren(...rows);
}

function showFigures(f) {
  for (const name of ["mapped", "live", "shared", "swapped"]) $(name).textContent = bytes(f[name]);
  $("running").textContent = count(f.running);
  $("waiting").textContent = count(f.waiting);
  $("rate").textContent = f.rate === null ? "–" : f.rate.toFixed(f.rate < 10 ? 1 : 0);
  $("hits").textContent = f.hits;
}

// Tokens per second over about the last two seconds.
const generated = [];

function rateOf(snapshot) {
  generated.push({ s: snapshot.atUs / 1e6, n: snapshot.stats.n_generated_tok });
  while (generated.length > 2 && generated.at(-1).s - generated[1].s > 2) generated.shift();
  const [first, last] = [generated[0], generated.at(-1)];
  return last.s > first.s ? Math.max(0, (last.n - first.n) / (last.s - first.s)) : 0;
}

const sum = (numbers) => numbers.reduce((a, b) => a + b, 0);

// The lists of a snapshot have limits.
function shownOf(n, all) {
  return n < all ? `the first ${count(n)} of ${count(all)}` : count(all);
}

function showCounts(snapshot) {
  STATES.forEach((name, i) => {
    const b = document.querySelector(`[data-count="${name}"]`);
    if (b) b.textContent = count(snapshot.counts.chunks[i]);
  });
  $("chunk-count").textContent = snapshot.groups.length
    ? `${shownOf(snapshot.cells.size, sum(snapshot.counts.chunks))} of ${bytes(snapshot.groups[0].chunk_bytes)}`
    : "this manager shows none";
  $("span-count").textContent = snapshot.counts.spans ? shownOf(snapshot.spans.size, snapshot.counts.spans) : "none";
}

// While the engine is idle there are no snapshots, and no tokens.
setInterval(() => {
  if (shown && !replaying && performance.now() - shown.at > 1500) $("rate").textContent = "0.0";
}, 500);

let shown = null; // {snapshot, at} of the last one

function showSnapshot(snapshot) {
  if (replaying) return;
  const st = snapshot.stats;
  shown = { snapshot, at: performance.now() };
  chart.add(snapshot.atUs / 1e6, st.kv_mapped_bytes, st.kv_live_bytes, st.kv_shared_bytes);
  map.show(snapshot);
  $("manager").textContent = `${snapshot.manager}, budget ${bytes(st.kv_budget_bytes)}`;
  showFigures({ mapped: st.kv_mapped_bytes, live: st.kv_live_bytes, shared: st.kv_shared_bytes,
    swapped: st.kv_swapped_bytes, running: st.n_running, waiting: st.n_waiting, rate: rateOf(snapshot),
    hits: percent(st.n_cached_tok, st.n_lookup_tok) });
  showCounts(snapshot);
  showRequests(snapshot.requests.values(), snapshot.counts.requests);
  showTree(snapshot);
  showSpanTable(snapshot);
}

$("as-table").addEventListener("toggle", () => shown && showSpanTable(shown.snapshot));

// ---- the stream

const WORDS = { connecting: "connecting", live: "live", lost: "the server is away; trying again", locked: "locked" };

function setLink(state, why) {
  if ($("link").dataset.state === state) return;
  if (state === "live") {
    generated.length = 0;
    loadModel();
  }
  $("link").dataset.state = state;
  $("link").textContent = WORDS[state];
  $("link").title = why;
  $("locked").hidden = state !== "locked";
  $("locked-why").textContent = why;
}

const subscription = new Subscription(api, showSnapshot, setLink);

$("ask-key").addEventListener("click", async () => {
  if (await api.getKey("The memory is shown to admins: their key opens it.")) subscription.unlock?.();
});

async function loadModel() {
  try {
    const models = await api.json("/v1/models");
    $("model").textContent = models.data[0].id;
  } catch { /* the stream says what is wrong */ }
}

// ---- replay

let replaying = null; // {replay, s, isPlaying}

// What MemoryMap draws, from a replay.
function drawnOf(replay) {
  return { cells: emptyCells, spans: replay.spans, groups: [], segmentsOf: () => [], spansWith: () => [] };
}

const emptyCells = new Cells();

function setReplaying(on) {
  $("mode").setAttribute("aria-pressed", String(on));
  $("mode").textContent = on ? "Live" : "Replay";
  $("player").hidden = !on;
  replaying = on ? { replay: null, s: 0, isPlaying: false } : null;
  chart.clear();
  map.point(null);
  generated.length = 0;
  $("cells").hidden = $("legend").hidden = on;
  if (!on && subscription.snapshot) {
    subscription.snapshot.cells.dirty = null;
    showSnapshot(subscription.snapshot);
  }
}

function openTrace(trace) {
  let replay;
  try {
    replay = new Replay(trace);
  } catch (error) {
    $("player-note").textContent = error.message;
    return;
  }
  replaying = { replay, s: replay.from, isPlaying: false };
  $("play").disabled = $("time").disabled = false;
  $("player-note").textContent = `${several(replay.events.length, "event")} over ${seconds(replay.to - replay.from)}` +
    (replay.lost ? `; ${count(replay.lost)} before them are lost` : "");
  seek(replay.from);
}

function seek(s) {
  const { replay } = replaying;
  replaying.s = Math.min(replay.to, Math.max(replay.from, s));
  replay.seek(replaying.s);
  const length = replay.to - replay.from;
  $("time").value = length ? 1000 * (replaying.s - replay.from) / length : 0;
  $("time-text").textContent = `${(replaying.s - replay.from).toFixed(3)} s`;
  const running = [...replay.requests.values()].filter((r) => r.state === "running");
  const sequences = (list) => sum(list.map((r) => r.sequences));
  showFigures({ ...replay.now, swapped: 0, running: sequences(running), waiting: sequences(replay.queue()), rate: null, hits: "–" });
  $("manager").textContent = replay.recent.length ? `last: ${replay.recent.at(-1).name}` : "";
  $("chunk-count").textContent = "not in a trace: sequences are shown by their tokens";
  $("span-count").textContent = replay.spans.size ? count(replay.spans.size) : "none";
  showRequests(replay.requests.values(), replay.requests.size);
  $("node-count").textContent = "not in a trace";
  $("tree").replaceChildren();
  chart.set(replay.memory, { from: replay.from, to: replay.to, now: replaying.s });
  map.show(drawnOf(replay));
}

function play(before) {
  if (!replaying?.isPlaying) return;
  requestAnimationFrame((t) => {
    if (!replaying?.isPlaying) return;
    seek(replaying.s + (t - before) / 1000 * Number($("speed").value));
    if (replaying.s >= replaying.replay.to) setPlaying(false);
    play(t);
  });
}

function setPlaying(on) {
  replaying.isPlaying = on;
  $("play").textContent = on ? "Pause" : "Play";
  if (on && replaying.s >= replaying.replay.to) replaying.s = replaying.replay.from;
  play(performance.now());
}

$("mode").addEventListener("click", () => setReplaying(!replaying));
$("play").addEventListener("click", () => setPlaying(!replaying.isPlaying));
$("time").addEventListener("input", () => {
  const { replay } = replaying;
  seek(replay.from + $("time").value / 1000 * (replay.to - replay.from));
});
$("load-server").addEventListener("click", async () => {
  try {
    openTrace(await api.json("/admin/trace"));
  } catch (error) {
    $("player-note").textContent = error.message;
  }
});
$("load-file").addEventListener("change", async () => {
  const file = $("load-file").files[0];
  if (!file) return;
  try {
    openTrace(JSON.parse(await file.text()));
  } catch (error) {
    $("player-note").textContent = `${file.name}: ${error.message}`;
  }
});

// ---- begin

const chat = new Chat(api, $("chat"));
setTheme(localStorage.getItem("flexinfer-theme") ?? "auto");
subscription.run();

// For tests and for the curious: document.querySelector("main").flexinfer in the console.
document.querySelector("main").flexinfer = { api, chat, map, chart, subscription, seek, replaying: () => replaying };
