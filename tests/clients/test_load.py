"""Many streams for a while, with random hang-ups, too little memory for all, and swap: every finished answer is the
answer that its request gets alone, and after each round everything is given back.

The rounds are short by default; FLEXINFER_LOAD_S=60 makes each last that long. No outcome depends on the time: a
round that lasts longer sends more requests.
"""
import asyncio
import json
import os
import random
import tempfile
import time
import unittest

import serving

N_STREAM = 200 if serving.LONG else 100
ROUND_S = float(os.environ.get("FLEXINFER_LOAD_S", "0"))
EACH = 1  # requests that each stream sends at least
N_ROUND = 3 if serving.LONG else 2
N_ORDER = 28  # different requests, so that each is sent often
KV_BYTES = 1 << 20  # so little that every round preempts
FAR_TOO_MUCH = 24 << 20  # resident bytes that a round may add to the one before

WORDS = "the boat and a frog saw little cat with hat who went home from tree said that bird under moon".split()


def make_order(rng, i):
    """A request: prompts that share beginnings or not, sampled or not, one choice, several, or beams."""
    shared = "Once upon a time there was a " if i % 3 else f"{i} "
    prompt = shared + " ".join(rng.choice(WORDS) for _ in range(rng.randrange(4, 40)))
    order = {"prompt": prompt, "max_tokens": rng.choice((4, 12, 24, 48)), "temperature": rng.choice((0, 1)),
             "seed": i, "ignore_eos": bool(i % 2)}
    if i % 7 == 3:
        order |= {"n": 3, "temperature": 1}
    if i % 11 == 5:
        order |= {"n": 2, "best_of": 4, "temperature": 1}
    if i % 13 == 6:
        order |= {"n": 2, "use_beam_search": True}
    if i % 4 == 1:  # grows far beyond what it was admitted with
        order = {"prompt": f"{i} cats", "max_tokens": 200, "temperature": 0, "ignore_eos": True}
    if i % 5 == 2:
        order["stop"] = ["moon", "\n"]
    return order


def can_stream(order):
    return "best_of" not in order and "use_beam_search" not in order


class Round:
    """Streams over one server until `until` says that it is time, or each has sent EACH requests."""

    def __init__(self, server, orders, alone, seed):
        self.server, self.orders, self.alone, self.seed = server, orders, alone, seed
        self.n_equal = self.n_left = 0
        self.wrong = []

    def run(self):
        asyncio.run(self.all_streams(time.monotonic() + ROUND_S))
        assert not self.wrong, self.wrong[:3]

    async def all_streams(self, end_s):
        await asyncio.gather(*(self.stream(i, end_s) for i in range(N_STREAM)))

    async def stream(self, i, end_s):
        rng = random.Random(f"{self.seed} {i}")
        n = 0
        while n < EACH or time.monotonic() < end_s:
            await self.one_request(rng)
            n += 1

    async def one_request(self, rng):
        which = rng.randrange(len(self.orders))
        fields = dict(self.orders[which], stream=can_stream(self.orders[which]) and rng.random() < 0.7)
        leaves_after = rng.randrange(0, 3000) if rng.random() < 0.25 else None
        reader, writer = await asyncio.open_connection("127.0.0.1", self.server.port)
        try:
            writer.write(serving.request_bytes("/v1/completions", fields, headers="Connection: close\r\n"))
            data = await self.read(reader, leaves_after)
        finally:
            writer.transport.abort() if leaves_after is not None else writer.close()
        if leaves_after is not None:
            self.n_left += 1
        else:
            self.compare(which, fields, data)

    @staticmethod
    async def read(reader, at_most):
        """The reply, or its first bytes; a client that leaves after 0 bytes reads none."""
        data = b""
        while at_most is None or len(data) < at_most:
            piece = await reader.read(1 << 16 if at_most is None else at_most - len(data))
            if not piece:
                break
            data += piece
        return data

    def compare(self, which, fields, data):
        try:
            texts = answer(data, fields)
        except (AssertionError, ValueError, KeyError, IndexError) as error:
            self.wrong.append((repr(error), data[:300], data[-300:]))
            return
        if texts == self.alone[which]:
            self.n_equal += 1
        else:
            self.wrong.append((fields, texts, self.alone[which]))


def unchunked(data):
    body = b""
    while True:
        size, _, data = data.partition(b"\r\n")
        n = int(size, 16)
        if not n:
            return body
        body, data = body + data[:n], data[n + 2:]


def answer(data, fields):
    """The texts of the choices from a whole reply."""
    head, _, body = data.partition(b"\r\n\r\n")
    assert head.startswith(b"HTTP/1.1 200 "), head
    if not fields["stream"]:
        return [choice["text"] for choice in json.loads(body)["choices"]]
    text = unchunked(body).decode()
    assert text.endswith("data: [DONE]\n\n"), text[-200:]
    texts = [""] * fields.get("n", 1)
    for event in serving.events(text):
        assert "error" not in event, event
        for choice in event["choices"]:
            texts[choice["index"]] += choice["text"]
    return texts


class Load(serving.TestCase):
    def test_load(self):
        rng = random.Random(1)
        orders = [make_order(rng, i) for i in range(N_ORDER)]
        # The answers of a server with memory for all, one after the other.
        whole = self.serve()
        alone = [whole.complete(**order) for order in orders]
        swap = self.enterContext(tempfile.TemporaryDirectory(prefix="flexinfer-load-"))
        server = serving.Server("--kv-memory", KV_BYTES, "--swap", "256M", "--swap-dir", swap, "--max-queue", 4096)
        try:
            self.rounds(server, orders, alone)
        finally:
            serving.check_end(server)
        self.assertEqual(os.listdir(swap), [])

    def rounds(self, server, orders, alone):
        server.complete(prompt="a", max_tokens=1)
        n_file, resident = server.n_file() + 1, []  # 1: the swap file
        for i in range(N_ROUND):
            one = Round(server, orders, alone, i)
            one.run()
            stats = server.wait_idle(n_file)
            resident.append(server.resident_bytes())
            print(f"round {i}: {one.n_equal} answers equal, {one.n_left} left, preempted "
                  f"{stats['n_preempt_swap']} swapped {stats['n_preempt_recompute']} computed again, "
                  f"resident {resident[-1] >> 20} MiB", flush=True)
            self.assertGreater(one.n_equal, 0)
            self.assertGreater(one.n_left, 0)
            self.check_given_back(stats)
        self.assertGreater(stats["n_preempt_swap"] + stats["n_preempt_recompute"], 0)
        self.assertGreater(stats["n_cached_tok"], 0)
        self.assertLess(resident[-1], resident[0] + FAR_TOO_MUCH, resident)
        self.check_chunks_are_free(server)

    def check_given_back(self, stats):
        """Only the prefix cache holds memory, and the swap file holds nothing."""
        self.assertEqual(stats["kv_live_bytes"], 0)
        self.assertEqual(stats["kv_swapped_bytes"], 0)
        self.assertEqual(stats["n_waiting_tok"], 0)
        self.assertLessEqual(stats["kv_mapped_bytes"], stats["kv_budget_bytes"])
        self.assertLessEqual(stats["kv_peak_mapped_bytes"], KV_BYTES)

    def check_chunks_are_free(self, server):
        """No chunk is held for ever: a request for nearly the whole budget fits."""
        tokens = json.loads(server.call("GET", "/v1/models")[1])["data"][0]["max_model_len"]
        status, body = server.call("POST", "/v1/completions", {
            "prompt": "a", "max_tokens": tokens - 8, "ignore_eos": True, "temperature": 0})
        self.assertEqual(status, 200, body)


if __name__ == "__main__":
    unittest.main()
