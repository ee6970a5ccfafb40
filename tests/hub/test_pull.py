"""Models by name from a hub of the tests' own: names and choices, ranges and breaks, refusals and lies, what is used
without the hub, and what is listed and removed."""
import contextlib
import json
import os
import pty
import random
import re
import signal
import subprocess
import threading
import time
import unittest
from pathlib import Path

import cli
from hub_server import Hub, Proxy, git_sha1, range_of, sha256

MIB = 1 << 20
TLS = cli.PROJECT / "tests" / "vectors" / "tls"
STORY = cli.STORYTELLER.read_bytes()
LARGE = random.Random(1).randbytes(40 * MIB + 12345)


class PullTest(cli.TestCase):
    def setUp(self):
        self.hub = Hub()
        self.addCleanup(self.hub.close)
        self.cache = cli.scratch(self.id())
        self.repo = self.cache / "hub" / "models--org--repo"
        self.vars = self.hub.env(self.cache)

    def pull(self, name="hf:org/repo", **more):
        """The path that pull prints."""
        done = self.ok("pull", name, env={**self.vars, **more})
        return Path(done.stdout.decode().rstrip("\n"))

    def refused(self, text, name="hf:org/repo", status=1, **more):
        self.fails(status, text, "pull", name, env={**self.vars, **more})

    def final_names(self):
        """Files with their final names: blobs and links of snapshots."""
        return [p for p in self.cache.rglob("*")
                if p.parts[-2] == "blobs" and ".incomplete" not in p.name or p.is_symlink()]

    def partial(self):
        return list(self.cache.rglob("*.incomplete"))


class Names(PullTest):
    def test_a_model_by_its_name(self):
        commit = self.hub.add("org/repo", {"m-Q8_0.gguf": LARGE, "m-Q4_K_M.gguf": STORY, "mmproj-F16.gguf": LARGE,
                                           "README.md": b"text"})
        done = self.ok("pull", "hf:org/repo", env=self.vars)
        path = Path(done.stdout.decode().strip())
        self.assertEqual(path, self.repo / "snapshots" / commit / "m-Q4_K_M.gguf")
        self.assertEqual(path.read_bytes(), STORY)
        self.assertEqual(os.readlink(path), f"../../blobs/{sha256(STORY)}")
        self.assertEqual((self.repo / "refs" / "main").read_text(), commit)
        self.assertEqual(done.stderr.decode(),
                         "hf:org/repo: m-Q4_K_M.gguf was chosen; there are also: Q8_0\n")
        self.assertEqual(self.partial(), [])
        n, ref = len(self.hub.log), (self.repo / "refs" / "main").stat()
        self.assertEqual(self.pull(), path)
        self.assertEqual(len(self.hub.log), n + 1, "only the list of files is asked for again")
        self.assertEqual((self.repo / "refs" / "main").stat(), ref, "nothing is written")

    def test_types_files_and_revisions(self):
        tiny = STORY[:MIB // 2]
        old = self.hub.add("org/repo", {"sub/x.Q8_0.gguf": STORY[:MIB], "y-q4_0.gguf": STORY[:2 * MIB]}, rev="v1.0")
        self.hub.add("org/repo", {"sub/x.Q8_0.gguf": STORY, "y-q4_0.gguf": tiny, "odd name+1.gguf": STORY[:3 * MIB]})
        self.hub.add("org/repo", {"y-q4_0.gguf": STORY[:4 * MIB]}, rev="refs/pr/7")
        for name, data in (("hf:org/repo:Q8_0", STORY), ("hf:org/repo:q4_0", tiny), ("hf://org/repo:Q4_0", tiny),
                           ("hf:org/repo/odd name+1.gguf", STORY[:3 * MIB]), ("hf:org/repo@v1.0:Q8_0", STORY[:MIB]),
                           ("hf:org/repo@refs/pr/7", STORY[:4 * MIB]), (f"hf:org/repo@{old}/y-q4_0.gguf", STORY[:2 * MIB]),
                           (f"{self.hub.url}/org/repo/blob/main/sub/x.Q8_0.gguf", STORY),
                           (f"{self.hub.url}/org/repo/resolve/v1.0/y-q4_0.gguf?download=true", STORY[:2 * MIB])):
            self.assertEqual(self.pull(name).read_bytes(), data, name)
        self.refused("there is no GGUF file of type Q5_0; it offers odd name+1, sub/x.Q8_0, y-q4_0",
                     "hf:org/repo:Q5_0")
        self.refused("there is no file z.gguf", "hf:org/repo/z.gguf")
        for name in ("hf:", "hf:repo", "hf:org/", "hf:org/re po", "hf:org/repo:", "hf:org/repo/../x", "hf:org/a--b",
                     "hf:../repo", "hf:org/repo@", "hf:org/repo@-x", "hf:org/repo/a//b"):
            self.refused("is not a model's name like hf:ORG/REPO", name)
        self.refused("is not a model's name", "model.gguf")
        self.fails(2, "missing file", "pull")

    def test_a_model_in_parts(self):
        parts = {f"q8/m-{i:05}-of-00003.gguf": STORY[:i * MIB] for i in (1, 2, 3)}
        self.hub.add("org/repo", {**parts, "n-00001-of-00002.gguf": STORY})
        path = self.pull("hf:org/repo/q8/m-00002-of-00003.gguf")
        self.assertEqual(path.name, "m-00001-of-00003.gguf")
        for name, data in parts.items():
            self.assertEqual((path.parent.parent / name).read_bytes(), data)
        self.refused("the file n-00002-of-00002.gguf is missing", "hf:org/repo/n-00001-of-00002.gguf")

    @staticmethod
    def folder_files():
        source = cli.PROJECT / "tests" / "vectors" / "folders" / "llama"
        files = {f.name: f.read_bytes() for f in source.iterdir()}
        files["tokenizer.json"] = json.dumps({
            "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "decoder": {"type": "Fuse"},
            "post_processor": None, "model": {"type": "BPE", "vocab": {chr(33 + i): i for i in range(40)}, "merges": [],
                                              "unk_token": "!"}}).encode()
        return files

    def test_a_folder_runs(self):
        files = self.folder_files()
        self.hub.add("org/repo", {**files, "pytorch_model.bin": LARGE, "onnx/model.onnx": LARGE, "README.md": b"x",
                                  "1_Pooling/config.json": b"{}"})
        run = ("run", "-p", "5+7=", "-n", "8", "--temperature", "0", "--ignore-eos", "-m")
        done = self.ok(*run, "hf:org/repo", env=self.vars)
        path = self.pull()
        self.assertEqual({str(p.relative_to(path)) for p in path.rglob("*.*")}, {*files, "1_Pooling/config.json"})
        self.assertEqual(done.stdout, self.ok(*run, path).stdout)
        self.assertRegex(self.ok("inspect", path).stdout.decode(), r'(?m)^  general.name +str +"repo"$')
        small = next(p for p in path.iterdir() if p.name == "config.json")
        self.assertEqual(os.readlink(small), f"../../blobs/{git_sha1(small.read_bytes())}")

    def test_a_vocabulary_alone(self):
        """tokenize and --tokenizer need no weights of a folder."""
        source = self.folder_files()
        self.hub.add("org/repo", source)
        self.ok("tokenize", "-m", "hf:org/repo", stdin=b"+7", env=self.vars)
        self.assertEqual([p.name for p in self.repo.rglob("*.safetensors")], [])
        self.fails(1, "it is not here as a whole", "run", "-m", "hf:org/repo", env={**self.vars, "HF_HUB_OFFLINE": "1"})
        self.ok("tokenize", "-m", "hf:org/repo", stdin=b"+7", env={**self.vars, "HF_HUB_OFFLINE": "1"})
        self.ok("inspect", "hf:org/repo", env=self.vars)
        self.assertEqual([p.name for p in self.repo.rglob("*.safetensors")], ["model.safetensors"])

    def test_a_folder_in_parts(self):
        names = [f"model-{i:05}-of-00002.safetensors" for i in (1, 2)]
        index = json.dumps({"weight_map": dict(zip("ab", names))}).encode()
        files = {"config.json": b"{}", "model.safetensors.index.json": index, **dict.fromkeys(names, STORY)}
        self.hub.add("org/repo", {**files, "consolidated.safetensors": LARGE})
        self.assertEqual({p.name for p in self.pull().iterdir()}, set(files))

    def test_what_is_no_model(self):
        self.hub.add("org/repo", {"config.json": b"{}", "pytorch_model.bin": STORY})
        self.refused("it holds no model that can be read")

    def test_a_hub_that_states_neither_sizes_nor_hashes(self):
        self.hub.states_blobs = False
        self.hub.add("org/repo", {"m.gguf": STORY, "config.json": b"{}"})
        path = self.pull()
        self.assertEqual(os.readlink(path), f"../../blobs/{sha256(STORY)}")
        self.assertEqual(path.read_bytes(), STORY)


class Transfer(PullTest):
    def test_ranges_at_a_time(self):
        """Four connections, each range once, every byte once."""
        meeting = threading.Barrier(2, timeout=60)

        def wait_for_another(h):
            if h.headers["Range"] != "bytes=0-16777215":  # the first tries whether there are ranges
                with contextlib.suppress(threading.BrokenBarrierError):
                    meeting.wait()
            return False

        self.hub.add("org/repo", {"m.gguf": LARGE})
        self.hub.fail_storage = wait_for_another
        self.assertEqual(self.pull().read_bytes(), LARGE)
        self.assertEqual(meeting.n_waiting, 0)
        self.assertEqual(self.hub.storage_bytes(), len(LARGE))

    def test_breaks_are_resumed(self):
        """Each connection is cut off after 3 MiB; what came is not fetched again."""
        def cut(h):
            first, last = range_of(h, LARGE)
            h.send(206, LARGE[first:min(first + 3 * MIB, last + 1)], last + 1 - first,
                   Content_Range=f"bytes {first}-{last}/{len(LARGE)}")
            h.close_connection = True
            return True

        self.hub.add("org/repo", {"m.gguf": LARGE})
        self.hub.fail_storage = cut
        # No wait between tries that gain something would be wrong, too: each is the first after a gain.
        self.hub.repos["org/repo"]["main"][1]["m.gguf"] = LARGE
        done = self.pull()
        self.assertEqual(sha256(done.read_bytes()), sha256(LARGE))
        starts = [r.headers["Range"].split("=")[1].split("-")[0] for r in self.hub.asked("storage")]
        self.assertEqual(len(starts), len(set(starts)), "no piece is asked for twice")

    def hold_at(self, n_bytes):
        """The storage sends so much of each range, sets the event, and then nothing until the end."""
        reached, release = threading.Event(), threading.Event()
        self.addCleanup(release.set)

        def hold(h):
            first, last = range_of(h, LARGE)
            h.send_response(206)
            h.send_header("Content-Range", f"bytes {first}-{last}/{len(LARGE)}")
            h.send_header("Content-Length", str(last + 1 - first))
            h.end_headers()
            h.wfile.write(LARGE[first:first + n_bytes])
            reached.set()
            release.wait()
            h.close_connection = True
            return True

        self.hub.add("org/repo", {"m.gguf": LARGE})
        self.hub.fail_storage = hold
        return reached

    def wait_for_pieces(self, n):
        """Until the journal at the end of the partial file has so many pieces."""
        while True:
            for path in self.partial():
                if path.stat().st_size > len(LARGE) and path.read_bytes()[len(LARGE):-8].count(1) >= n:
                    return
            time.sleep(0.01)

    def ended_by(self, number, status):
        self.hold_at(5 * MIB + 100)
        process = cli.start("pull", "hf:org/repo", env=self.vars)
        self.wait_for_pieces(10)
        process.send_signal(number)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (status, b""))
        self.assertEqual(self.final_names(), [])
        self.hub.fail_storage = None
        with self.hub.mutex:
            self.hub.log.clear()
        self.assertEqual(self.pull().read_bytes(), LARGE)
        self.assertLess(self.hub.storage_bytes(), len(LARGE) - 9 * MIB)
        self.assertEqual(self.partial(), [])
        return err.decode()

    def test_killed_and_resumed(self):
        self.ended_by(signal.SIGKILL, -signal.SIGKILL)

    def test_interrupted_and_resumed(self):
        self.assertEqual(self.ended_by(signal.SIGINT, 130), "flexinfer: hf:org/repo: interrupted; what came is kept, "
                         "and the next time goes on from there\n")

    def test_two_at_once_fetch_it_once(self):
        self.hub.add("org/repo", {"m.gguf": LARGE})
        both = [cli.start("pull", "hf:org/repo", env=self.vars) for _ in range(2)]
        paths = [p.communicate(timeout=60)[0] for p in both]
        self.assertEqual([p.returncode for p in both], [0, 0])
        self.assertEqual(paths[0], paths[1])
        self.assertEqual(self.hub.storage_bytes(), len(LARGE))

    def test_no_ranges(self):
        def send_whole(h):
            h.send(200, LARGE)
            return True

        self.hub.add("org/repo", {"m.gguf": LARGE})
        self.hub.fail_storage = send_whole
        self.assertEqual(self.pull().read_bytes(), LARGE)
        self.assertEqual(len(self.hub.asked("storage")), 1)

    def test_an_empty_file(self):
        self.hub.add("org/repo", {"m.gguf": STORY, "config.json": b""})
        self.assertEqual(self.pull("hf:org/repo/config.json").read_bytes(), b"")

    def test_a_disk_that_is_too_small(self):
        def huge(listing):
            listing["siblings"][0]["lfs"]["size"] = 1 << 60
            return listing

        self.hub.add("org/repo", {"m.gguf": STORY})
        self.hub.alter = huge
        self.refused("hf:org/repo needs 1152921504.6 GB more, and ")
        self.assertEqual(self.partial(), [])

    def test_a_write_that_fails(self):
        """The limit on the size of files stands for a full disk: one line, and what came is kept."""
        self.hub.add("org/repo", {"m.gguf": LARGE})
        limited = ["sh", "-c", "trap '' XFSZ; ulimit -f 20000; exec \"$@\"", "sh", cli.PROGRAM, "pull", "hf:org/repo"]
        done = subprocess.run(limited, env=cli.clean_env(self.vars), capture_output=True, check=False)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.decode(), r"\Aflexinfer: .*: File too large\n\Z")
        self.assertEqual(self.final_names(), [])

    def test_a_bar_on_a_terminal_alone(self):
        self.hub.add("org/repo", {"m.gguf": LARGE})
        main, side = pty.openpty()
        self.hub.fail_storage = lambda h: time.sleep(0.7)
        process = cli.start("pull", "hf:org/repo", env=self.vars, stderr=side)
        os.close(side)
        seen = b""
        with contextlib.suppress(OSError):
            while data := os.read(main, 4096):
                seen += data
        os.close(main)
        self.assertEqual(process.wait(), 0)
        process.stdout.close()
        self.assertRegex(seen.decode(), r"\rm\.gguf \[#*\.*\] +\d+ % of 40\.0 MiB")
        self.assertRegex(seen.decode(), r"MiB/s, \d+:\d\d:\d\d left")
        self.assertEqual(self.ok("pull", "hf:org/repo/m.gguf", env=self.vars).stderr, b"")


class Refusals(PullTest):
    def test_statuses(self):
        self.hub.add("org/repo", {"m.gguf": STORY})
        for status, code, text in [(401, "RepoNotFound", "there is no such model, or it needs a token that may read it"),
                                   (401, "GatedRepo", "its owner asks for consent: accept the terms"),
                                   (403, "GatedRepo", "its owner asks for consent: accept the terms"),
                                   (403, "", "may not read it"), (404, "RepoNotFound", "it is not there"),
                                   (404, "RevisionNotFound", "there is no such revision"), (418, "", "refuses"),
                                   (407, "", "the proxy asks for a password")]:
            self.hub.fail_hub = lambda h, s=status, c=code: h.send(s, b"<html>", X_Error_Code=c) or True
            self.refused(f"{text}", status=1)
            self.assertEqual(self.final_names(), [])
        self.hub.fail_hub = None
        self.refused("there is no such revision (status 404)", "hf:org/repo@nothing")

    def test_a_server_that_is_busy(self):
        """429 with Retry-After and 503 pass; a wait that is too long is not waited for."""
        answers = [(429, {"Retry_After": 1}), (503, {})]
        self.hub.add("org/repo", {"m.gguf": STORY})
        self.hub.fail_hub = lambda h: bool(answers) and (lambda s, f: h.send(s, **f) or True)(*answers.pop(0))
        start = time.monotonic()
        done = self.ok("pull", "hf:org/repo", env=self.vars)
        self.assertGreaterEqual(time.monotonic() - start, 1)
        self.assertIn("too many requests (status 429); trying again in 1.0 s", done.stderr.decode())
        self.hub.fail_hub = lambda h: h.send(429, Retry_After=4000) or True
        self.refused("too many requests (status 429); it asks to wait 4000 s", "hf:org/repo:Q8_0")

    def test_a_storage_that_fails_for_good(self):
        self.hub.add("org/repo", {"m.gguf": STORY})
        self.hub.fail_storage = lambda h: h.send(503) or True
        self.refused("m.gguf: the server fails (status 503)")
        self.assertEqual(len(self.hub.asked("storage")), 5)
        self.assertEqual(self.final_names(), [])

    def test_wrong_bytes(self):
        self.hub.add("org/repo", {"m.gguf": STORY, "config.json": b"{}"})
        self.hub.blobs[sha256(STORY)] = STORY[:-1] + bytes([STORY[-1] ^ 1])
        self.refused(f"m.gguf: what came does not have the hash {sha256(STORY)[:12]}.. that the hub states")
        self.assertEqual(self.final_names() + self.partial(), [])
        self.hub.repos["org/repo"]["main"][1]["config.json"] = b"[]"
        self.hub.alter = lambda listing: {**listing, "siblings": [
            dict(s, blobId="0" * 40) if s["rfilename"] == "config.json" else s for s in listing["siblings"]]}
        self.refused("config.json: what came does not have the hash 000000000000..", "hf:org/repo/config.json")
        self.hub.alter = lambda listing: listing
        self.hub.blobs[sha256(STORY)] = STORY
        self.assertEqual(self.pull().read_bytes(), STORY)

    def test_lengths_that_lie(self):
        self.hub.add("org/repo", {"m.gguf": LARGE})
        short = LARGE[:20 * MIB]
        for answer, text in [
                (lambda h: Hub.send_range(h, short), "the server says another length than before"),
                (lambda h: h.send(200, LARGE + b"more"), "the server sends more than was asked for"),
                (lambda h: h.send(206, LARGE[:MIB], Content_Range=f"bytes 1-{MIB}/{len(LARGE)}"),
                 "the server sends another range than the one asked for"),
                (lambda h: h.send(206, LARGE[:MIB]), "the server sends another range than the one asked for")]:
            self.hub.fail_storage = lambda h, a=answer: a(h) or True
            self.refused(text)
        self.hub.fail_storage = lambda h: h.send(200, short) or True
        self.refused(f"the answer is {len(LARGE) - len(short)} bytes too short")
        self.assertEqual(self.final_names(), [])

    def test_listings_that_lie(self):
        self.hub.add("org/repo", {"m.gguf": STORY})
        good = {"rfilename": "m.gguf"}
        for change in ({"sha": "main"}, {"sha": None}, {"siblings": {}}, {"siblings": [{"rfilename": "../../m.gguf"}]},
                       {"siblings": [{"rfilename": "/etc/m.gguf"}]}, {"siblings": [{"rfilename": "a\nb.gguf"}]},
                       {"siblings": [{}]}, {"siblings": [good, good]}):
            self.hub.alter = lambda listing, c=change: {**listing, **c}
            self.refused("does not answer as a hub")
        self.hub.fail_hub = lambda h: h.send(200, b"<html>a page</html>") or True
        self.refused("does not answer as a hub")
        self.assertEqual(self.final_names() + self.partial(), [])

    def test_redirects(self):
        self.hub.add("org/repo", {"m.gguf": STORY})
        self.hub.fail_hub = lambda h: "/resolve/" in h.path and (h.send(302, Location=h.path) or True)
        self.refused("more than 6 redirects")
        self.hub.fail_hub = lambda h: "/resolve/" in h.path and (h.send(302, Location="file:///etc/passwd") or True)
        self.refused("m.gguf: a redirect: ")

    def test_the_token_stays_with_the_hub(self):
        self.hub.add("org/repo", {"m.gguf": STORY})
        self.hub.token = "hf_secret"
        self.refused("there is no such model, or it needs a token")
        self.pull(HF_TOKEN="hf_secret")
        (self.cache / "token").write_text("hf_secret\n")
        self.pull("hf:org/repo:m")
        self.assertTrue(self.hub.asked("storage"))
        for request in self.hub.asked("storage"):
            self.assertNotIn("Authorization", request.headers)
        self.refused("has a character that no token has", HF_TOKEN="hf_\x01")

    def test_hubs_that_cannot_be_named(self):
        self.refused("HF_ENDPOINT: 'nowhere' is not a URL", HF_ENDPOINT="nowhere")
        self.refused("Connection refused", HF_ENDPOINT="http://127.0.0.1:1")

    def test_a_proxy(self):
        self.hub.add("org/repo", {"config.json": b"{}"})
        path = self.pull("hf:org/repo/config.json", HF_ENDPOINT="http://hub.invalid", http_proxy=self.hub.url)
        self.assertEqual(path.read_bytes(), b"{}")
        self.assertEqual(len(self.hub.asked("proxy")), 2)


class Https(PullTest):
    def setUp(self):
        super().setUp()
        self.hub = Hub(tls=(TLS / "localhost-cert.pem", TLS / "localhost-key.pem"))
        self.addCleanup(self.hub.close)
        self.vars = self.hub.env(self.cache, SSL_CERT_FILE=str(TLS / "localhost-cert.pem"))
        self.hub.add("org/repo", {"m.gguf": STORY})

    def test_a_hub_over_tls(self):
        self.refused("its certificate is not trusted", SSL_CERT_FILE="")
        self.assertEqual(self.pull().read_bytes(), STORY)

    def proxy(self, **how):
        proxy = Proxy(**how)
        self.addCleanup(proxy.close)
        return proxy

    def test_a_proxy(self):
        """CONNECT, and TLS with the hub inside: the proxy sees neither token nor path."""
        proxy = self.proxy()
        self.hub.token = "hf_secret"
        way = {"HF_TOKEN": "hf_secret", "https_proxy": f"http://{proxy.address}"}
        self.assertEqual(self.pull(**way).read_bytes(), STORY)
        hosts = {url.removeprefix("https://") for url in (self.hub.url, self.hub.storage)}
        self.assertEqual({r.path for r in proxy.log}, hosts)
        self.assertNotIn("hf_secret", str(proxy.log))
        self.assertNotIn("Proxy-Authorization", str(self.hub.log))

    def test_a_proxy_that_is_not_for_all(self):
        proxy = self.proxy()
        self.pull(https_proxy=f"http://{proxy.address}", no_proxy="localhost,127.0.0.1")
        self.pull("hf:org/repo:m", all_proxy=f"http://{proxy.address}", no_proxy="*")
        self.assertEqual(proxy.log, [])

    def test_a_proxy_with_a_password(self):
        proxy = self.proxy(login="ann:s3cret")
        self.refused("hf:org/repo: the proxy asks for a password", https_proxy=f"http://{proxy.address}")
        done = cli.run("pull", "hf:org/repo", env={**self.vars, "https_proxy": f"http://ann:other@{proxy.address}"})
        self.assertIn(b"the proxy asks for a password", done.stderr)
        self.assertNotIn(b"other", done.stdout + done.stderr)
        self.assertEqual(self.pull(https_proxy=f"http://ann:s3cret@{proxy.address}").read_bytes(), STORY)
        self.assertNotIn("Proxy-Authorization", str(self.hub.log))

    def test_a_proxy_that_is_none(self):
        """One line that names the variable; what its URL holds stays out of it."""
        self.refused("Connection refused (https_proxy names a proxy)", https_proxy="http://127.0.0.1:1")
        self.refused("the proxy refuses (status 403)", https_proxy=f"http://{self.proxy(refuses=403).address}")
        for wrong in ("http://ann:s3cret@127.0.0.1:99999", "foo://ann:s3cret@127.0.0.1:1", "http://ann:s3cret@[::1"):
            done = cli.run("pull", "hf:org/repo", env={**self.vars, "https_proxy": wrong})
            self.assertEqual((done.returncode, done.stderr), (1, b"flexinfer: hf:org/repo: https_proxy is not the URL of a proxy\n"))

    def test_no_way_back_to_http(self):
        with Hub() as plain:
            plain.blobs = self.hub.blobs
            self.hub.storage = plain.storage
            self.refused("a redirect from https to http://127.0.0.1")
            self.assertEqual(plain.log, [])


class WithoutTheHub(PullTest):
    def run_tiny(self, name, **more):
        return self.ok("tokenize", "-m", name, stdin=b"a b", env={**self.vars, **more})

    def test_what_is_here_is_used(self):
        self.hub.add("org/repo", {"m-Q8_0.gguf": STORY})
        wanted = self.ok("tokenize", "-m", cli.STORYTELLER, stdin=b"a b").stdout
        self.refused("HF_HUB_OFFLINE is set", HF_HUB_OFFLINE="1")
        self.fails(1, "hf:org/repo: it is not here, and HF_HUB_OFFLINE is set", "tokenize", "-m", "hf:org/repo", env={**self.vars, "HF_HUB_OFFLINE": "1"})
        self.assertEqual(self.run_tiny("hf:org/repo").stdout, wanted)
        n = len(self.hub.log)
        for name in ("hf:org/repo", "hf:org/repo:Q8_0", "hf:org/repo/m-Q8_0.gguf"):
            done = self.run_tiny(name, HF_HUB_OFFLINE="1")
            self.assertEqual((done.stdout, done.stderr), (wanted, b""))
        self.assertEqual(len(self.hub.log), n)
        done = self.run_tiny("hf:org/repo", HF_ENDPOINT="http://127.0.0.1:1")
        self.assertEqual(done.stdout, wanted)
        self.assertEqual(done.stderr.decode(),
                         "hf:org/repo: Connection refused; the copy that is here is used\n")
        self.refused("Connection refused", HF_ENDPOINT="http://127.0.0.1:1")

    def test_a_commit_asks_nobody(self):
        commit = self.hub.add("org/repo", {"m.gguf": STORY})
        self.run_tiny(f"hf:org/repo@{commit}")
        n = len(self.hub.log)
        self.run_tiny(f"hf:org/repo@{commit}")
        self.assertEqual(len(self.hub.log), n)

    def test_a_revision_that_moves(self):
        """The new files are fetched; until they are whole the old ones are used."""
        old = self.hub.add("org/repo", {"m.gguf": STORY})
        self.pull()
        new = self.hub.add("org/repo", {"m.gguf": LARGE})
        self.hub.fail_storage = lambda h: h.send(404) or True
        done = self.run_tiny("hf:org/repo")
        self.assertIn("the copy that is here is used", done.stderr.decode())
        self.assertEqual((self.repo / "refs" / "main").read_text(), old)
        self.hub.fail_storage = None
        self.assertEqual(self.pull().read_bytes(), LARGE)
        self.assertEqual((self.repo / "refs" / "main").read_text(), new)

    def test_other_options_and_commands(self):
        """A draft, a vocabulary, and what inspect and quantize take."""
        self.hub.add("org/repo", {"m.gguf": STORY})
        self.ok("run", "-m", cli.STORYTELLER, "--draft", "hf:org/repo", "--tokenizer", "hf:org/repo", "-p", "Once", "-n",
                "2", env=self.vars)
        self.assertIn("runs: llama", self.ok("inspect", "hf:org/repo", env=self.vars).stdout.decode())
        self.ok("quantize", "hf:org/repo", cli.scratch("q.gguf"), "q4_0", env=self.vars)
        self.ok("serve", "-m", "hf:org/repo", "--check-config", env=self.vars)
        self.fails(1, "hf:org/other: it is not here", "serve", "-m", "hf:org/other", "--check-config", env=self.vars)

    def test_a_server(self):
        self.hub.add("org/repo", {"m.gguf": STORY})
        server = self.serve(model="hf:org/repo", env=self.vars)
        status, answer = server.post("/v1/completions", prompt="Once upon", max_tokens=3, temperature=0)
        self.assertEqual((status, answer["usage"]["completion_tokens"]), (200, 3))
        self.assertEqual(server.stop()[0], 0)


class Stored(PullTest):
    def listed(self):
        lines = self.ok("list", env=self.vars).stdout.decode().splitlines()
        return [re.sub(r"  \d{4}-\d\d-\d\d  ", " ", line.strip()) for line in lines]

    def test_list_and_rm(self):
        self.assertEqual(self.listed(), [])
        self.assertIn(b"none was fetched yet", self.ok("list", env=self.vars).stderr)
        self.hub.add("org/repo", {"a-Q8_0.gguf": STORY, "b-Q4_0.gguf": LARGE, "p-00001-of-00002.gguf": STORY[:MIB],
                                  "p-00002-of-00002.gguf": STORY[:MIB + 1]})
        self.hub.add("org/repo", {"again.gguf": STORY}, rev="dev")
        self.hub.add("org/weights", {"config.json": b"{}", "model.safetensors": STORY[:2 * MIB]})
        for name in ("hf:org/repo:Q8_0", "hf:org/repo:Q4_0", "hf:org/repo/p-00001-of-00002.gguf", "hf:org/repo@dev",
                     "hf:org/weights"):
            self.pull(name)
        self.assertEqual(set(self.listed()), {
            "5.4 MiB hf:org/repo/a-Q8_0.gguf", "40.0 MiB hf:org/repo/b-Q4_0.gguf",
            "2.0 MiB hf:org/repo/p-00001-of-00002.gguf", "5.4 MiB hf:org/repo@dev/again.gguf",
            "2.0 MiB hf:org/weights"})
        for line in self.listed():
            self.pull(line.split(" MiB ")[1], HF_HUB_OFFLINE="") # every name finds its model again
        done = self.ok("rm", "hf:org/repo:Q4_0", env=self.vars)
        self.assertEqual(done.stdout, b"removed hf:org/repo:Q4_0: 40.0 MiB\n")
        self.ok("rm", "hf:org/repo/a-Q8_0.gguf", env=self.vars)
        self.assertTrue((self.repo / "blobs" / sha256(STORY)).exists(), "the branch dev needs it")
        self.ok("rm", "hf:org/repo/p-00002-of-00002.gguf", env=self.vars)
        self.assertEqual(self.listed(), ["5.4 MiB hf:org/repo@dev/again.gguf", "2.0 MiB hf:org/weights"])
        self.ok("rm", "hf:org/repo", env=self.vars)
        self.assertFalse(self.repo.exists())
        self.assertEqual(self.listed(), ["2.0 MiB hf:org/weights"])
        self.ok("rm", "hf:org/weights", env=self.vars)
        self.assertEqual(self.listed(), [])
        self.fails(1, "hf:org/repo: it is not here", "rm", "hf:org/repo", env=self.vars)
        self.fails(1, "is a path", "rm", "/etc/passwd", env=self.vars)

    def test_a_revision_goes_alone(self):
        old = self.hub.add("org/repo", {"m.gguf": STORY[:MIB], "same.gguf": STORY})
        for name in ("m.gguf", "same.gguf"):
            self.pull(f"hf:org/repo/{name}")
        self.hub.add("org/repo", {"m.gguf": STORY[:3 * MIB], "same.gguf": STORY})
        self.hub.add("org/repo", {"m.gguf": STORY[:4 * MIB]}, rev="dev")
        for name in ("hf:org/repo/m.gguf", "hf:org/repo/same.gguf", "hf:org/repo@dev"):
            self.pull(name)
        self.assertEqual(set(self.listed()), {
            f"1.0 MiB hf:org/repo@{old}/m.gguf", f"5.4 MiB hf:org/repo@{old}/same.gguf", "3.0 MiB hf:org/repo/m.gguf",
            "5.4 MiB hf:org/repo/same.gguf", "4.0 MiB hf:org/repo@dev/m.gguf"})
        done = self.ok("rm", f"hf:org/repo@{old}/m.gguf", env=self.vars)
        self.assertEqual(done.stdout.decode(), f"removed hf:org/repo@{old}/m.gguf: 1.0 MiB\n")
        self.assertEqual(self.ok("rm", f"hf:org/repo@{old}", env=self.vars).stdout.decode(),
                         f"removed hf:org/repo@{old}: 0 B\n")
        self.ok("rm", "hf:org/repo@dev", env=self.vars)
        self.assertEqual(set(self.listed()), {"3.0 MiB hf:org/repo/m.gguf", "5.4 MiB hf:org/repo/same.gguf"})
        self.assertEqual([p.name for p in (self.repo / "refs").iterdir()], ["main"])

    def test_urls(self):
        self.hub.plain = {"/files/m.gguf": STORY, "/p/m-00001-of-00002.gguf": STORY[:MIB],
                          "/p/m-00002-of-00002.gguf": STORY[:2 * MIB]}
        url = f"{self.hub.storage}/files/m.gguf?key=1"
        path = self.pull(url)
        self.assertEqual((path.name, path.read_bytes()), ("m.gguf", STORY))
        self.assertEqual(self.pull(url, HF_ENDPOINT="http://127.0.0.1:1"), path)
        parts = self.pull(f"{self.hub.storage}/p/m-00001-of-00002.gguf")
        self.assertEqual((parts.parent / "m-00002-of-00002.gguf").read_bytes(), STORY[:2 * MIB])
        self.ok("tokenize", "-m", url, stdin=b"a", env={**self.vars, "HF_HUB_OFFLINE": "1"})
        self.assertEqual(sorted(self.listed()), sorted([f"5.4 MiB {url}", f"3.0 MiB {self.hub.storage}/p/m-00001-of-00002.gguf"]))
        self.ok("rm", url, env=self.vars)
        self.assertEqual(len(self.listed()), 1)
        self.refused("does not end with the name of a file", f"{self.hub.storage}/")
        self.refused("it is not there (status 404)", f"{self.hub.storage}/files/n.gguf")



unittest.main(module="__main__", verbosity=1)
