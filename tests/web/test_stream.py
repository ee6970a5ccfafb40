"""/kv/stream and /kv/snapshot of the built program: all subscribers get the same, figures agree with /metrics, nothing
is done without subscribers, slow readers get less, and only those who may watch do."""
import json
import re
import threading
import unittest

import snapshots
import serving

PROMPT = "Once upon a time there was a little robot who lived in a house by the lake with a cat and a dog and a hen. "


def ask(server, i=0, n=2, max_tokens=24, prompt=None):
    body = {"prompt": prompt or PROMPT * 2 + str(i), "max_tokens": max_tokens, "n": n, "ignore_eos": True, "seed": i}
    return server.call("POST", "/v1/completions", body)


def ask_many(server, many):
    serving.in_threads(many, lambda i: ask(server, i))


def meet(a, b):
    """Reads both until they are at the same snapshot."""
    while a.number != b.number or not a.state:
        (a if a.number <= b.number else b).next()


class StreamTest(serving.TestCase):
    def watch(self, server, **how):
        stream = snapshots.Stream(server.port, **how)
        self.addCleanup(stream.close)
        self.assertEqual(stream.answer.status, 200)
        self.assertEqual(stream.answer.getheader("Content-Type"), "text/event-stream")
        return stream

    def test_subscribers_get_the_same(self):
        for more in ((), ("--kv", "paged")):
            server = self.serve("--kv-memory", "2M", "--max-seq", "6", "--swap", "16M", *more)
            early = self.watch(server)
            early.next()
            ask_many(server, 10)
            server.wait_idle()
            late = self.watch(server)
            for stream in (early, late):
                stream.until(lambda s: s["stats"]["n_request"] == 10 and not s["requests"])
            meet(early, late)
            self.assertEqual(early.state, late.state)
            self.assertEqual(early.state["spans"], {})
            self.assertGreater(len(early.state["nodes"]), 0)
            status, text = server.call("GET", "/kv/snapshot")
            self.assertEqual(status, 200)
            now = snapshots.parse(text)
            self.assertEqual(now["nodes"], early.state["nodes"])

    def test_figures_agree(self):
        server = self.serve("--kv-memory", "2M", "--max-seq", "4")
        stream = self.watch(server)
        ask_many(server, 4)
        server.wait_idle()
        state = stream.until(lambda s: s["stats"]["n_request"] == 4 and not s["requests"])
        def figures(stats):
            return {k: v for k, v in stats.items() if k not in ("snapshot_us", "picture_us")}  # of the snapshot before
        while figures(now := server.stats()) != figures(state["stats"]):  # an idle engine takes one more
            state = stream.next()
        text = server.call("GET", "/metrics")[1].decode()
        for name in ("kv_mapped_bytes", "kv_live_bytes", "kv_shared_bytes", "kv_cached_bytes"):
            shown = re.search(rf"^flexinfer_{name}(?:{{[^}}]*}})? (\S+)$", text, re.M)
            self.assertEqual(float(shown.group(1)), now[name], name)
        mapped = (snapshots.SPARE, snapshots.OWNED, snapshots.SHARED, snapshots.CACHED)
        self.assertEqual(snapshots.bytes_in(state, *mapped), now["kv_mapped_bytes"])
        self.assertEqual(snapshots.bytes_in(state, snapshots.CACHED), now["kv_cached_bytes"])

    def test_choices_share_their_first_chunks(self):
        server = self.serve("--max-seq", "4")
        stream = self.watch(server)
        thread = threading.Thread(target=ask, args=(server, 1, 2, 900))  # for longer than snapshots are apart
        thread.start()
        state = stream.until(lambda s: len(s["spans"]) == 2 and all(x["generating"] for x in s["spans"].values()))
        first = {snapshots.chunks_of(span)[0] for span in state["spans"].values()}
        self.assertEqual(len(first), 1)
        self.assertEqual(state["chunks"][first.pop()][0], snapshots.SHARED)
        thread.join()
        state = stream.until(lambda s: not s["spans"] and not snapshots.bytes_in(s, snapshots.OWNED, snapshots.SHARED))
        self.assertEqual(state["stats"]["kv_live_bytes"], 0)

    def test_nothing_is_done_without_subscribers(self):
        server = self.serve("--max-seq", "4")
        ask_many(server, 3)
        self.assertEqual(server.wait_idle()["n_snapshot"], 0)
        stream = self.watch(server)
        stream.next()
        stream.close()
        before = -1
        while (now := server.stats()["n_snapshot"]) != before:  # until the server has seen it go
            before = now
            ask(server)
        self.assertGreater(now, 0)
        ask_many(server, 3)
        self.assertEqual(server.stats()["n_snapshot"], now)

    def test_no_text_is_in_it(self):
        server = self.serve("--max-seq", "2")
        stream = self.watch(server)
        ask(server, prompt="xylophones everywhere")
        seen = [stream.event()[1]]
        while json.loads(seen[-1])["stats"].get("n_generated_tok", 0) < 2 * 24:
            seen.append(stream.event()[1])
        self.assertNotIn("xylo", "".join(seen))

    def test_a_slow_reader_gets_less(self):
        """One that does not read skips snapshots, and ends where the others do."""
        server = self.serve("--max-seq", "2")
        fast, slow = self.watch(server), self.watch(server, receive_bytes=2048)
        slow.next()
        body = {"prompt": [f"{i} {PROMPT}" for i in range(400)], "max_tokens": 3, "ignore_eos": True}
        n_request = 0
        while fast.n_read < 10:  # meanwhile the slow one's snapshot is not read
            thread = threading.Thread(target=server.call, args=("POST", "/v1/completions", body))
            thread.start()
            n_request += 400
            fast.until(lambda s, n=n_request: s["stats"]["n_request"] >= n and not s["requests"])
            thread.join()
        server.wait_idle()
        slow.until(lambda s: s["stats"]["n_request"] == n_request and not s["requests"])
        meet(fast, slow)
        self.assertEqual(fast.state, slow.state)
        self.assertLess(slow.n_read, fast.n_read)

    def test_who_may_watch(self):
        keys = serving.SOURCE / "build" / "page-keys"
        keys.write_text("ann sk-ann\nroot sk-root admin\n", encoding="ascii")
        self.addCleanup(keys.unlink)
        server = self.serve("--api-key-file", keys)
        for key, status in ((None, 401), ("sk-wrong", 401), ("sk-ann", 403), ("sk-root", 200)):
            stream = snapshots.Stream(server.port, key=key)
            self.assertEqual(stream.answer.status, status, key)
            stream.close()

    def test_a_stop_ends_the_streams(self):
        server = self.serve()
        stream = self.watch(server)
        stream.next()
        self.assertEqual(server.stop(), 0)
        kind, data = stream.event()
        while kind == "snapshot":
            kind, data = stream.event()
        self.assertEqual(json.loads(data)["error"]["code"], "draining")


if __name__ == "__main__":
    unittest.main(verbosity=2)
