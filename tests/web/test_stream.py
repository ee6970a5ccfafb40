"""/kv/stream of the built program: changes come to the same as a whole picture, figures agree with /metrics, nothing is
done while nobody watches, slow readers get less, and only those who may watch do."""
import json
import re
import threading
import unittest

import pictures
import serving

PROMPT = "Once upon a time there was a little robot who lived in a house by the lake with a cat and a dog and a hen. "


def ask(server, i=0, n=2, max_tokens=24, prompt=None):
    body = {"prompt": prompt or PROMPT * 2 + str(i), "max_tokens": max_tokens, "n": n, "ignore_eos": True, "seed": i}
    return server.call("POST", "/v1/completions", body)


def ask_many(server, many):
    threads = [threading.Thread(target=ask, args=(server, i)) for i in range(many)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()


def content(state):
    return {k: v for k, v in state.items() if k != "at_us"}


def meet(a, b):
    """Reads both until they are at the same picture."""
    while a.number != b.number or not a.state:
        (a if a.number <= b.number else b).next()


class StreamTest(unittest.TestCase):
    def start(self, *args):
        server = serving.Server(*args)
        self.addCleanup(server.stop)
        return server

    def watch(self, server, **how):
        stream = pictures.Stream(server.port, **how)
        self.addCleanup(stream.close)
        self.assertEqual(stream.answer.status, 200)
        self.assertEqual(stream.answer.getheader("Content-Type"), "text/event-stream")
        return stream

    def test_changes_come_to_the_whole(self):
        for more in ((), ("--kv", "paged")):
            server = self.start("--kv-memory", "2M", "--max-seq", "6", "--swap", "16M", *more)
            early = self.watch(server)
            early.next()
            ask_many(server, 10)
            server.wait_idle()
            late = self.watch(server)
            for stream in (early, late):
                stream.until(lambda s: s["stats"]["n_request"] == 10 and not s["requests"])
            meet(early, late)
            self.assertEqual(content(early.state), content(late.state))
            self.assertEqual((early.n_whole, late.n_whole), (1, 1))
            self.assertGreater(early.n_change, 0)
            self.assertEqual(early.state["spans"], {})
            self.assertGreater(len(early.state["nodes"]), 0)
            server.stop()

    def test_figures_agree(self):
        server = self.start("--kv-memory", "2M", "--max-seq", "4")
        stream = self.watch(server)
        ask_many(server, 4)
        server.wait_idle()
        state = stream.until(lambda s: s["stats"]["n_request"] == 4 and not s["requests"])
        def figures(stats):
            return {k: v for k, v in stats.items() if k != "picture_us"}  # of the picture before
        while figures(now := server.stats()) != figures(state["stats"]):  # an idle engine is pictured once more
            state = stream.next()
        text = server.call("GET", "/metrics")[1]
        text = text.decode() if isinstance(text, bytes) else text
        for name, metric in (("kv_mapped_bytes", "flexinfer_kv_mapped_bytes"), ("kv_live_bytes", "flexinfer_kv_live_bytes"),
                             ("kv_shared_bytes", "flexinfer_kv_shared_bytes"), ("kv_cached_bytes", "flexinfer_kv_cached_bytes")):
            shown = re.search(rf"^{metric}(?:{{[^}}]*}})? (\S+)$", text, re.M)
            self.assertIsNotNone(shown, metric)
            self.assertEqual(float(shown.group(1)), now[name], metric)
        self.assertEqual(pictures.bytes_in(state, pictures.SPARE, pictures.OWNED, pictures.SHARED, pictures.CACHED),
                         now["kv_mapped_bytes"])
        self.assertEqual(pictures.bytes_in(state, pictures.CACHED), now["kv_cached_bytes"])

    def test_choices_share_their_first_chunks(self):
        server = self.start("--max-seq", "4")
        stream = self.watch(server)
        thread = threading.Thread(target=ask, args=(server, 1, 2, 900))  # for longer than pictures are apart
        thread.start()
        state = stream.until(lambda s: len(s["spans"]) == 2 and all(x["generating"] for x in s["spans"].values()))
        first = {pictures.chunks_of(span)[0] for span in state["spans"].values()}
        self.assertEqual(len(first), 1)
        self.assertEqual(state["chunks"][first.pop()][0], pictures.SHARED)
        thread.join()
        state = stream.until(lambda s: not s["spans"] and not pictures.bytes_in(s, pictures.OWNED, pictures.SHARED))
        self.assertEqual(state["stats"]["kv_live_bytes"], 0)

    def test_nothing_is_done_while_nobody_watches(self):
        server = self.start("--max-seq", "4")
        ask_many(server, 3)
        self.assertEqual(server.wait_idle()["n_picture"], 0)
        stream = self.watch(server)
        stream.next()
        stream.close()
        before = -1
        while (now := server.stats()["n_picture"]) != before:  # until the server has seen it go
            before = now
            ask(server)
        self.assertGreater(now, 0)
        ask_many(server, 3)
        self.assertEqual(server.stats()["n_picture"], now)

    def test_no_text_is_in_it(self):
        server = self.start("--max-seq", "2")
        stream = self.watch(server)
        ask(server, prompt="xylophones everywhere")
        seen = [stream.event()[1]]
        while json.loads(seen[-1])["stats"].get("n_generated_tok", 0) < 2 * 24:
            seen.append(stream.event()[1])
        self.assertNotIn("xylo", "".join(seen))

    def test_a_slow_reader_gets_less(self):
        """One that does not read while a long queue moves: it gets few large changes, and ends where the others do."""
        server = self.start("--max-seq", "2")
        fast, slow = self.watch(server), self.watch(server, receive_bytes=2048)
        slow.next()
        body = {"prompt": [f"{i} {PROMPT}" for i in range(400)], "max_tokens": 3, "ignore_eos": True}
        n_request = 0
        while fast.n_change < 8:  # meanwhile the slow one's first picture is not read
            thread = threading.Thread(target=server.call, args=("POST", "/v1/completions", body))
            thread.start()
            n_request += 400
            fast.until(lambda s, n=n_request: s["stats"]["n_request"] >= n and not s["requests"])
            thread.join()
        server.wait_idle()
        meet(fast, slow)
        self.assertEqual(content(fast.state), content(slow.state))
        self.assertLess(slow.n_change, fast.n_change, (slow.n_bytes, fast.n_bytes))

    def test_who_may_watch(self):
        keys = serving.SOURCE / "build" / "page-keys"
        keys.write_text("ann sk-ann\nroot sk-root admin\n", encoding="ascii")
        self.addCleanup(keys.unlink)
        server = self.start("--api-key-file", keys)
        for key, status in ((None, 401), ("sk-wrong", 401), ("sk-ann", 403), ("sk-root", 200)):
            stream = pictures.Stream(server.port, key=key)
            self.assertEqual(stream.answer.status, status, key)
            stream.close()

    def test_a_stop_ends_the_streams(self):
        server = self.start()
        stream = self.watch(server)
        stream.next()
        self.assertEqual(server.stop(), 0)
        kind, data = stream.event()
        while kind == "change":
            kind, data = stream.event()
        self.assertEqual(json.loads(data)["error"]["code"], "draining")


if __name__ == "__main__":
    unittest.main(verbosity=2)
