"""The page in Chromium, over the built program with the embedded model.

Run by CTest through run_page.sh; by hand as test_stream.py, with pytest. With FLEXINFER_SHOTS=FOLDER it leaves
pictures of the page there, 1280 and 390 wide, light and dark.
"""
import json
import os
import shutil
import threading
import urllib.request
from pathlib import Path

import pytest
from selenium import webdriver
from selenium.webdriver.common.by import By
from selenium.webdriver.common.keys import Keys
from selenium.webdriver.support.ui import Select, WebDriverWait

import serving

CHROMIUM, DRIVER = shutil.which("chromium"), shutil.which("chromedriver")

WAIT_S = int(os.environ.get("FLEXINFER_WAIT_S", 120))
ENDLESS = 15000  # tokens of an answer that is stopped long before it ends
SYSTEM = "You tell long, friendly stories about animals, robots, lakes and forests, and every one of them ends well. " * 2


class Page:
    """A browser with the page open."""

    def __init__(self, url, width=1280, height=900, dark=False):
        options = webdriver.ChromeOptions()
        options.binary_location = CHROMIUM
        for argument in ("--headless=new", "--no-sandbox", "--disable-gpu", "--hide-scrollbars", "--disable-dev-shm-usage"):
            options.add_argument(argument)
        options.set_capability("goog:loggingPrefs", {"browser": "ALL"})
        self.browser = webdriver.Chrome(options=options, service=webdriver.ChromeService(DRIVER))
        self.browser.set_script_timeout(WAIT_S)
        self.browser.execute_cdp_cmd("Emulation.setDeviceMetricsOverride",
                                     {"width": width, "height": height, "deviceScaleFactor": 1, "mobile": width < 500})
        self.browser.execute_cdp_cmd("Emulation.setEmulatedMedia", {
            "features": [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]})
        self.browser.get(url)

    def find(self, css):
        return self.browser.find_element(By.CSS_SELECTOR, css)

    def all(self, css):
        return self.browser.find_elements(By.CSS_SELECTOR, css)

    def run(self, script, *args):
        return self.browser.execute_script(script, *args)

    def until(self, is_so, what="it"):
        return WebDriverWait(self.browser, WAIT_S, 0.05).until(lambda _: is_so(), f"{what}: {self.log()}")

    def until_live(self):
        self.until(lambda: self.find("#link").text == "live", "the stream is live")

    def snapshot(self, expression):
        """A value of the page's snapshot `p`."""
        return self.run("const p = document.querySelector('main').flexinfer.subscription.snapshot; return p && (" + expression + ")")

    def send(self, text):
        self.find("#say").send_keys(text, Keys.ENTER)

    def answer(self):
        """The text of the last message."""
        return self.all("#log .message")[-1].find_element(By.CSS_SELECTOR, ".text").text

    def is_busy(self):
        return self.find("#stop").is_displayed()

    def finish(self):
        self.until(lambda: not self.is_busy(), "the answer ends")

    def stop(self):
        self.find("#stop").click()
        self.finish()

    def set(self, css, value):
        """As somebody who types it."""
        box = self.find(css)
        box.clear()
        box.send_keys(str(value))

    def prepare(self, system="", max_tokens=60, to_the_end=False):
        """to_the_end: the answer has max_tokens tokens."""
        self.run("document.querySelector('.settings').open = true")
        self.set("#system", system)
        self.set("#max-tokens", max_tokens)
        self.run("document.querySelector('main').flexinfer.chat.more.ignore_eos = arguments[0]", to_the_end)

    def log(self):
        return [entry["message"] for entry in self.browser.get_log("browser")]

    def quit(self):
        self.browser.quit()


@pytest.fixture(scope="module")
def server():
    server = serving.Server("--ctx", 2 * ENDLESS, "--kv-memory", "96M", "--max-seq", "8")
    yield server
    server.stop()


@pytest.fixture
def page(server):
    page = Page(server.url)
    page.until_live()
    yield page
    bad = [line for line in page.log() if "SEVERE" in line or "Content Security" in line or "Uncaught" in line]
    page.quit()
    assert not bad


def chunks(page, request, choice=0):
    return page.snapshot(f"p.spans.has('{request}.{choice}') ? p.segmentsOf(p.spans.get('{request}.{choice}')).map((s) => s.chunk) : []")


def settle(page):
    """Until nothing runs and no sequence holds a chunk."""
    page.until(lambda: page.snapshot("p.requests.size === 0 && p.spans.size === 0 && p.cells.counts[2] === 0 && p.cells.counts[3] === 0"),
               "chunks are freed")


def test_a_chat_streams_and_stops(page):
    page.prepare(max_tokens=ENDLESS, to_the_end=True)
    page.send("Tell me a long story.")
    page.until(lambda: len(page.answer()) > 20, "text comes")
    assert page.is_busy(), "it is still coming"
    seen = page.answer()
    page.stop()
    assert page.answer().startswith(seen.split("\n")[0][:20])
    assert "stopped" in page.all("#log .message")[-1].text
    settle(page)


def test_facts_of_an_answer(page):
    page.prepare(SYSTEM, 12)
    for i, cached in ((0, None), (1, True)):
        if i:
            page.find("#new").click()
        page.send("Tell me of a hen.")
        page.finish()
        facts = page.all("#log .facts")[-1].text
        assert "first token after" in facts and "tokens/s" in facts, facts
        if cached:
            n_cached, _, n_prompt = facts.split(" · ")[-1].split(" ")[:3]
            assert int(n_cached) >= int(n_prompt) - 2, facts


def test_a_second_chat_shares_the_first_cells(page):
    page.prepare(SYSTEM, ENDLESS, to_the_end=True)
    page.send("Tell me of a robot.")
    page.until(lambda: page.snapshot("p.spans.size === 1 && [...p.spans.values()][0].generating"), "the first runs")
    page.find("#new").click()
    page.send("Tell me of a lake.")
    page.until(lambda: page.snapshot("p.spans.size === 2 && [...p.spans.values()].every((s) => s.generating)"), "both run")
    found = page.snapshot("""(() => {
        const [a, b] = [...p.spans.values()].map((s) => p.segmentsOf(s).map((x) => x.chunk));
        return {a, b, state: p.cells.stateOf(a[0]), cells: a.map((c) => p.cells.cellOf(c))};
    })()""")
    assert found["a"][0] == found["b"][0], found
    assert found["state"] == 3, found
    assert found["a"][-1] != found["b"][-1], found
    page.find("#spans").send_keys(Keys.ARROW_DOWN)
    page.until(lambda: "shared" in page.find("#pointed").text, "the first segment is pointed at")
    assert "also mapped by 1 sequence" in page.find("#pointed").text
    assert page.run("return document.querySelector('main').flexinfer.map.pointed().spans.length") == 2
    page.stop()
    Select(page.find("#conversations")).select_by_index(0)
    page.stop()
    settle(page)
    assert page.find("[data-count=owned]").text == "0"


NOTE = """
const { subscription } = document.querySelector("main").flexinfer;
const was = subscription.onSnapshot;
const seen = window.seen = { states: {}, swapped: 0, forked: 0, evicted: 0, most: 0, least: 1e9 };
let nodes = [];
subscription.onSnapshot = (p) => {
  was(p);
  const holders = new Map();
  for (const s of p.spans.values())
    for (const { chunk } of p.segmentsOf(s)) holders.set(chunk, (holders.get(chunk) ?? new Set()).add(s.request));
  for (const [chunk, of] of holders)
    if (of.size === 1 && p.cells.stateOf(chunk) === 3 && p.spansWith(chunk).length > 1) seen.forked++;
  seen.evicted += nodes.filter((id) => !p.nodes.has(id)).length;
  nodes = [...p.nodes.keys()];
  seen.most = Math.max(seen.most, p.cells.size);
};
new MutationObserver(() => {
  for (const td of document.querySelectorAll("#requests td:nth-child(2)")) seen.states[td.textContent] = true;
  seen.swapped = Math.max(seen.swapped, Number(document.querySelector("[data-count=swapped]").textContent));
}).observe(document.querySelector("#requests"), { childList: true });
"""


def test_what_pressure_does_is_seen_as_it_happens():
    """Much more is asked than fits: places in the queue, choices that share, prefixes evicted, sequences in the swap;
    and then memory that goes back, when nothing is asked any more."""
    server = serving.Server("--kv-memory", "2M", "--max-seq", "6", "--swap", "32M")
    page = Page(server.url)
    try:
        page.until_live()
        page.run(NOTE)

        def ask(i):
            server.call("POST", "/v1/completions", {"prompt": f"{i} {SYSTEM}", "max_tokens": 250, "n": 2, "seed": i,
                                                    "ignore_eos": True})

        def seen():
            return page.run("return window.seen")
        for _ in range(5):
            threads = [threading.Thread(target=ask, args=(i,)) for i in range(12)]
            for t in threads:
                t.start()
            for t in threads:
                t.join()
            now = seen()
            if now["swapped"] and now["forked"] and now["evicted"]:
                break
        states = set(now["states"])
        assert "running" in states and "waiting, place 1" in states, states
        assert states & {"leaving", "away", "coming"}, states
        assert now["swapped"] > 0 and now["forked"] > 0 and now["evicted"] > 0, now
        settle(page)
        page.until(lambda: page.snapshot("p.cells.counts[1] * p.groups[0].chunk_bytes <= p.stats.kv_budget_bytes / 16"),
                   "spare memory goes back")
        assert page.find("[data-count=swapped]").text == "0"
    finally:
        page.quit()
        server.stop()


def test_edit_regenerate_and_fork(page):
    page.prepare(max_tokens=8)
    page.send("Say one.")
    page.finish()
    page.all("#log .message.assistant header button")[0].click()  # Regenerate
    page.finish()
    assert "2/2" in page.all("#log .message.assistant")[-1].text
    page.find("#log .message.user header button").click()  # Edit
    area = page.find("#log .edit textarea")
    area.clear()
    area.send_keys("Say two.")
    page.find("#log .edit [type=submit]").click()
    page.finish()
    assert [m.find_element(By.CSS_SELECTOR, ".text").text for m in page.all("#log .user")] == ["Say two."]
    page.find("#log .message.user [aria-label='You: previous version']").click()
    assert [m.find_element(By.CSS_SELECTOR, ".text").text for m in page.all("#log .user")] == ["Say one."]
    before = [m.find_element(By.CSS_SELECTOR, ".text").text for m in page.all("#log .message")]
    page.all("#log .message.assistant header button")[-1].click()  # Fork
    assert [m.find_element(By.CSS_SELECTOR, ".text").text for m in page.all("#log .message")] == before
    assert len(Select(page.find("#conversations")).options) == 2
    page.send("And more.")
    page.finish()
    assert len(page.all("#log .message")) == 4
    Select(page.find("#conversations")).select_by_index(0)
    assert len(page.all("#log .message")) == 2


def test_numbers_equal_metrics(page, server):
    page.prepare(SYSTEM, 20)
    page.send("Tell me of a fox.")
    page.finish()
    settle(page)

    def same():
        stats = server.stats() | {"snapshot_us": 0, "picture_us": 0}  # which is that of the snapshot before
        return stats == page.snapshot("({...p.stats, snapshot_us: 0, picture_us: 0})") and stats
    stats = page.until(same, "the page has the figures")
    text = server.call("GET", "/metrics")[1].decode()
    for name in ("kv_mapped_bytes", "kv_live_bytes", "kv_shared_bytes"):
        line = next(x for x in text.splitlines() if x.startswith(f"flexinfer_{name}"))
        assert float(line.split()[-1]) == stats[name]

    def units(n):
        for unit in ("B", "KiB", "MiB"):
            if n < 1024:
                return f"{n:.1f} {unit}" if unit != "B" and n < 100 else f"{n:.0f} {unit}"
            n /= 1024
        return None
    page.until(lambda: [page.find(f"#{name}").text for name in ("mapped", "live", "shared")] ==
               [units(stats[f"kv_{name}_bytes"]) for name in ("mapped", "live", "shared")], "they are shown")
    by_state = page.snapshot("p.cells.counts.slice(1, 5).reduce((a, b) => a + b) * p.groups[0].chunk_bytes")
    assert by_state == stats["kv_mapped_bytes"]


def test_model_output_is_never_html(page):
    text = "<img src=x onerror=\"window.bad=1\"><script>window.bad=1</script> [x](javascript:window.bad=1) **b**"
    page.run("""const {chat} = document.querySelector('main').flexinfer;
        chat.talk.add(chat.talk.root, 'assistant', arguments[0]); chat.draw();""", text)
    box = page.all("#log .message")[-1]
    assert "<script>" in box.text
    assert box.find_elements(By.CSS_SELECTOR, "img, script, a") == []
    assert box.find_element(By.CSS_SELECTOR, "strong").text == "b"
    assert page.run("return window.bad") is None
    # Nor could anybody else on the page: the policy takes no HTML, no inline script, no foreign address.
    assert page.run("try { document.body.innerHTML = '<b></b>'; return 'taken' } catch { return 'refused' }") == "refused"
    page.log()


def test_thoughts_are_apart(page):
    """What a model thinks comes in a field of its own, and is folded away."""
    page.run("""window.fetch = async () => new Response('data: ' + JSON.stringify(
            {choices: [{delta: {reasoning_content: 'hm <b>'}}]}) + '\\n\\ndata: ' + JSON.stringify(
            {choices: [{delta: {content: 'yes', reasoning_content: null}}]}) + '\\n\\ndata: [DONE]\\n\\n')""")
    page.send("Is it?")
    page.finish()
    assert page.answer() == "yes"
    assert not page.find("#log .assistant .thought p").is_displayed()
    page.find("#log .assistant .thought summary").click()
    assert page.find("#log .assistant .thought p").text == "hm <b>"


def test_files_and_headers(server):
    def get(path, **headers):
        request = urllib.request.Request(server.url + path, headers=headers)
        try:
            with urllib.request.urlopen(request) as reply:
                return reply.status, dict(reply.headers), reply.read()
        except urllib.error.HTTPError as error:
            return error.code, dict(error.headers), error.read()
    folder = serving.SOURCE / "web"
    for path, name in [("/", "index.html")] + [(f"/web/{f.name}", f.name) for f in folder.iterdir() if f.suffix != ".json"]:
        status, headers, body = get(path, Accept="text/html,*/*")
        assert (status, body) == (200, (folder / name).read_bytes()), path
        policy = headers["Content-Security-Policy"]
        assert "default-src 'none'" in policy and "unsafe" not in policy
        assert headers["X-Content-Type-Options"] == "nosniff"
        assert get(path, **{"If-None-Match": headers["ETag"], "Accept": "text/html"})[::2] == (304, b"")
        assert get(path, **{"If-None-Match": '"other"', "Accept": "text/html"})[0] == 200
    assert get("/web/none.js")[0] == 404
    assert get("/", Accept="*/*")[2].startswith(b"flexinfer ")  # the list of paths, as before
    assert get("/", Accept="text/html", Host="evil.example")[0] == 403
    html = (folder / "index.html").read_text()
    assert "<style" not in html and "style=" not in html and html.count("<script") == 1 and " on" + "click" not in html


MANY = """
const done = arguments[arguments.length - 1];
(async () => {
  const { Snapshot } = await import("/web/snapshot.js");
  const { MemoryMap } = await import("/web/map.js");
  const N_SPAN = 2000, N_CHUNK = 100000, EACH = N_CHUNK / N_SPAN;
  const spans = [], chunks = [];
  for (let i = 0; i < N_SPAN; i++)
    spans.push({request: i + 1, choice: 0, tokens: 32 * EACH, generating: 1, segments: [[0, 0, i * EACH, EACH]]});
  for (let i = 0; i < N_CHUNK; i += 5) chunks.push([i, 5, 1 + (i / 5) % 4, 0]);
  const { map, subscription } = document.querySelector("main").flexinfer;
  subscription.onSnapshot = () => {};
  const counts = {chunks: [0, 0, 0, 0, 0, 0], spans: 0, nodes: 0, requests: 0};
  const shown = (number, cells) => new Snapshot({number, at_us: 0, version: "", manager: "vtensor", counts,
    groups: [{chunk_bytes: 4096, chunk_tokens: 32}], stats: {}, chunks: [...chunks], spans, nodes: [],
    requests: []}, cells);
  let p = shown(1);
  map.show(p);
  await new Promise(requestAnimationFrame);
  map.draw();
  const frames = map.frames, start = performance.now();
  let number = 1, most = 0;
  const each = () => {
    const begun = performance.now();
    number++;
    // In each frame a tenth of all sequences have grown, and as many runs of chunks have changed.
    for (let i = number % 10; i < N_SPAN; i += 10) {
      const k = i * EACH / 5;
      chunks[k] = [chunks[k][0], 5, 1 + number % 4, 0];
      spans[i] = {...spans[i], tokens: 32 * EACH + number};
    }
    p = shown(number, p.cells);
    map.show(p);
    map.draw();
    most = Math.max(most, performance.now() - begun);
    if (performance.now() - start < 3000) requestAnimationFrame(each);
    else done({rate: (map.frames - frames) / (performance.now() - start) * 1000, most,
      cells: p.cells.size, spans: p.spans.size, size: [map.cells.width, map.cells.height]});
  };
  requestAnimationFrame(each);
})().catch((e) => done({error: String(e)}));
"""


def test_many_sequences_and_chunks_draw_fast(server):
    """2,000 sequences over 100,000 chunks, a tenth of them changing in every frame. How fast is said, and judged only
    where nothing slows the machine down: the build's sanitizers do not, since the browser has none."""
    page = Page(server.url)
    page.until_live()
    found = page.browser.execute_async_script(MANY)
    page.quit()
    print(f"{found}")
    assert found["cells"] == 100000 and found["spans"] == 2000, found
    assert found["rate"] >= 30, found


def test_by_keyboard_alone(page):
    """From the top, the Tab key reaches every control that is shown, and each has a name."""
    page.run("document.body.focus()")
    reached, body = [], page.find("body")
    for _ in range(60):
        page.browser.switch_to.active_element.send_keys(Keys.TAB)
        name = page.run("""const e = document.activeElement;
            return e === document.body ? null : e.id || e.textContent.trim().slice(0, 20) || e.tagName""")
        if name is None or (reached and name == reached[0]):
            break
        reached.append(name)
    assert body
    for wanted in ("theme", "conversations", "new", "say", "send", "mode", "spans"):
        assert wanted in reached, reached


ROWS = """
const done = arguments[arguments.length - 1];
(async () => {
  const { Snapshot } = await import("/web/snapshot.js");
  const { map, subscription } = document.querySelector("main").flexinfer;
  subscription.onSnapshot = () => {};
  const shown = (first) => new Snapshot({number: first, at_us: 0, version: "", manager: "vtensor",
    counts: {chunks: [0, 0, 30, 0, 0, 0], spans: 4, nodes: 0, requests: 0},
    groups: [{chunk_bytes: 4096, chunk_tokens: 32}], stats: {}, chunks: [[0, 30, 2, 0]], nodes: [], requests: [],
    spans: [0, 1, 2, 3].map((i) => ({request: first + i, choice: 0, tokens: 64, generating: 1,
      segments: [[0, 0, i * 2, 2]]}))});
  const press = (key) => map.scroller.dispatchEvent(new KeyboardEvent("keydown", {key, cancelable: true}));
  const at = () => map.pointed() && [map.pointed().span.request, map.pointed().segment.at];
  const found = [];
  map.show(shown(1));
  for (const key of ["ArrowDown", "ArrowDown", "ArrowRight"]) press(key);
  found.push(at());
  map.show(shown(11));
  found.push(at());
  press("ArrowDown");
  found.push(at());
  done(found);
})().catch((e) => done(String(e)));
"""


def test_arrow_keys_go_on_where_a_sequence_has_ended(server):
    page = Page(server.url)
    page.until_live()
    found = page.browser.execute_async_script(ROWS)
    page.quit()
    assert found == [[2, 1], None, [13, 1]], found


def test_axe_finds_no_serious_fault(page):
    axe = Path(__import__("axe_selenium_python").__file__).parent
    source = next(p for p in axe.rglob("axe.min.js"))
    page.prepare(SYSTEM, ENDLESS, to_the_end=True)
    page.send("Tell me a story with `code`.")
    page.until(lambda: page.snapshot("p.spans.size > 0"), "it runs")
    for theme in ("light", "dark"):
        Select(page.find("#theme")).select_by_value(theme)
        for mode in range(2):
            if mode:
                page.find("#mode").click()
            page.run(source.read_text())
            found = page.browser.execute_async_script(
                "const done = arguments[0]; axe.run(document).then((r) => done(r.violations), (e) => done(String(e)))")
            assert isinstance(found, list), found
            bad = [(v["id"], v["impact"], [n["html"][:120] for n in v["nodes"]]) for v in found if v["impact"] in ("serious", "critical")]
            assert not bad, (theme, mode, bad)
        page.find("#mode").click()
    page.stop()


def test_it_comes_back_with_the_server():
    server = serving.Server("--kv-memory", "6M")
    page = Page(server.url)
    page.until_live()
    page.prepare(max_tokens=5)
    page.send("Say one.")
    page.finish()
    server.stop()
    page.until(lambda: "away" in page.find("#link").text, "it says that the server is away")
    page.send("Say two.")
    page.finish()
    assert page.find("#log .failed").text
    again = serving.Server("--kv-memory", "6M", "--port", server.port)
    try:
        page.until_live()
        page.until(lambda: page.snapshot("p.stats.n_request === 0"), "it has the new server's snapshot")
        page.all("#log .message.assistant header button")[-2].click()  # Regenerate
        page.finish()
        page.until(lambda: page.snapshot("p.stats.n_request === 1"), "it is served")
    finally:
        page.quit()
        again.stop()


def test_it_asks_for_a_key(tmp_path):
    keys = tmp_path / "keys"
    keys.write_text("ann sk-ann\nroot sk-root admin\n", encoding="ascii")
    server = serving.Server("--api-key-file", keys)
    page = Page(server.url)
    try:
        page.until(lambda: page.find("#key-dialog").is_displayed(), "it asks")
        page.find("#key").send_keys("sk-ann", Keys.ENTER)
        page.until(lambda: page.find("#locked").is_displayed(), "the memory is for admins")
        page.prepare(max_tokens=5)
        page.send("Say one.")
        page.finish()
        assert page.answer()
        page.find("#ask-key").click()
        page.find("#key").send_keys("sk-root", Keys.ENTER)
        page.until_live()
        assert not page.find("#locked").is_displayed()
        assert page.run("return sessionStorage.getItem('flexinfer-key')") == "sk-root"
        assert page.run("return localStorage.getItem('flexinfer-key')") is None
    finally:
        page.quit()
        server.stop()


def test_replay(page, server, tmp_path):
    page.prepare(max_tokens=30)
    page.send("Tell me a story.")
    page.finish()
    page.find("#mode").click()
    page.find("#load-server").click()
    page.until(lambda: "event" in page.find("#player-note").text, "the trace is there")
    page.run("const t = document.getElementById('time'); t.value = 1000; t.dispatchEvent(new Event('input'))")
    end = page.find("#time-text").text
    page.run("const t = document.getElementById('time'); t.value = 0; t.dispatchEvent(new Event('input'))")
    assert page.find("#time-text").text == "0.000 s" != end
    Select(page.find("#speed")).select_by_value("100")
    page.find("#play").click()
    page.until(lambda: page.find("#play").text == "Play" and page.find("#time-text").text == end, "it plays to the end")
    trace = json.loads(server.call("GET", "/admin/trace")[1])
    first = next(e for e in trace["traceEvents"] if e["ph"] == "b" and e["name"] == "running")
    file = tmp_path / "trace.json"
    file.write_text(json.dumps(trace))
    page.find("#load-file").send_keys(str(file))
    begin = min(e["ts"] for e in trace["traceEvents"] if e["ph"] != "M")
    page.run("""const r = document.querySelector('main').flexinfer.replaying();
        document.querySelector('main').flexinfer.seek(arguments[0])""", (first["ts"] + 1) / 1e6)
    assert first["ts"] >= begin
    assert page.find("#requests td:nth-child(2)").text == "running"
    (tmp_path / "bad.json").write_text("{}")
    page.find("#load-file").send_keys(str(tmp_path / "bad.json"))
    page.until(lambda: "no Chrome trace" in page.find("#player-note").text, "it says why")
    page.find("#mode").click()
    page.until(lambda: page.find("#chunk-count").text != "", "live again")


def test_on_a_phone(server):
    """390 pixels wide: nothing is cut off at the side, one view at a time."""
    page = Page(server.url, 390, 844)
    try:
        page.until_live()
        for view in ("chat", "memory"):
            page.find(f"[data-show={view}]").click()
            assert page.run("return document.documentElement.scrollWidth") <= 390, view
            assert page.find(f"#{view}").is_displayed()
        assert not page.find("#chat").is_displayed()
    finally:
        page.quit()


@pytest.mark.skipif("FLEXINFER_SHOTS" not in os.environ, reason="no folder for pictures is named")
def test_pictures_of_the_page(server):
    folder = Path(os.environ["FLEXINFER_SHOTS"])

    def ask(i):
        server.call("POST", "/v1/chat/completions", {"messages": [
            {"role": "system", "content": SYSTEM}, {"role": "user", "content": f"Story {i}, please."}],
            "max_tokens": 300, "n": 1 + i % 2, "ignore_eos": True})
    for width, height in ((1280, 900), (390, 844)):
        for dark in (False, True):
            threads = [threading.Thread(target=ask, args=(i,)) for i in range(6)]
            page = Page(server.url, width, height, dark)
            page.until_live()
            page.prepare(SYSTEM, 60)
            page.run("document.querySelector('.settings').open = false")
            page.send("Tell me of a **robot** and `code`.")
            page.finish()
            for t in threads:
                t.start()
            name = f"{width}-{'dark' if dark else 'light'}"
            if width < 500:
                page.browser.save_screenshot(str(folder / f"{name}-chat.png"))
                page.find("[data-show=memory]").click()
            page.until(lambda: page.snapshot("p.spans.size >= 4 && [...p.spans.values()].filter((s) => s.generating).length > 3"), "they run")
            page.find("#spans").send_keys(Keys.ARROW_DOWN)
            page.run("return new Promise((r) => requestAnimationFrame(() => requestAnimationFrame(r)))")
            page.browser.save_screenshot(str(folder / f"{name}.png"))
            page.quit()
            for t in threads:
                t.join()
