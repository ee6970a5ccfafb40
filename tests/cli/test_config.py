"""`flexinfer serve --check-config`, options from a file, and the log's two forms."""
import http.client
import json
import os
import re
import signal
import socket
import subprocess
import unittest
import urllib.error
import urllib.request

import cli


def config(text):
    path = cli.scratch("options.conf")
    path.write_text(text)
    return path


class CheckConfig(unittest.TestCase):
    def check(self, status, *args, env=None):
        done = cli.run("serve", "--check-config", *args, env=env)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertLessEqual(done.stderr.count(b"\n"), 1)
        return (done.stdout if status == 0 else done.stderr).decode()

    def test_shows_what_is_in_effect(self):
        path = config(f"model = {cli.tiny_model()}\n[serve]\nport = 1234\nmax-seq = 3\n[run]\nseed = 1\n")
        text = self.check(0, "--config", path, "--max-seq", "7", env={"FLEXINFER_LOG_LEVEL": "warn"})
        self.assertIn(f"port = 1234  # {path}:3\n", text)
        self.assertIn("max-seq = 7  # --max-seq\n", text)
        self.assertIn('log-level = "warn"  # FLEXINFER_LOG_LEVEL\n', text)
        self.assertIn('host = "127.0.0.1"\n', text)
        self.assertIn("# swap-dir =\n", text)
        self.assertNotIn("seed", text)
        again = self.check(0, "--config", config(text))
        self.assertEqual(re.sub(" *#.*", "", text), re.sub(" *#.*", "", again))

    def test_wrong_lines_of_the_file(self):
        for text, wrong in (("port = x", ":1: port: 'x' is not a whole number"),
                            ("\n\nhots = 1", ":3: unknown option 'hots'; did you mean 'host'?"),
                            ("[sever]\nport = 1", ":2: unknown command 'sever'"),
                            ("port", ":1: not 'key = value'")):
            done = cli.run("serve", "--config", config(text), "-m", cli.tiny_model())
            self.assertEqual(done.returncode, 2)
            self.assertIn(f"{cli.scratch('options.conf')}{wrong}", done.stderr.decode())

    def test_wrong_values_that_only_the_parts_know(self):
        model = cli.tiny_model()
        broken = cli.scratch("broken.gguf")
        broken.write_bytes(model.read_bytes()[:1000])
        self.assertIn("nowhere.invalid", self.check(1, "-m", model, "--host", "nowhere.invalid"))
        self.assertIn("No such file", self.check(1, "-m", cli.scratch("none.gguf")))
        self.assertIn("broken.gguf", self.check(1, "-m", broken))
        self.assertIn("/nowhere/at/all", self.check(1, "-m", model, "--swap", "1M", "--swap-dir", "/nowhere/at/all"))
        self.assertIn("none.jinja", self.check(1, "-m", model, "--chat-template", "/nowhere/none.jinja"))
        self.assertIn("none.json", self.check(1, "-m", model, "--tokenizer", cli.scratch("none.json")))

    def test_loads_no_weights(self):
        """A model whose weights are a hole is checked, though reading them would find zeros."""
        source, holed = cli.tiny_model(), cli.scratch("holed.gguf")
        data = source.read_bytes()
        holed.write_bytes(data[:len(data) // 2])
        os.truncate(holed, len(data))
        self.check(0, "-m", holed)


class Notify(unittest.TestCase):
    def test_a_service_manager_hears_of_start_and_stop(self):
        path = str(cli.scratch("notify"))
        for name, address in ((path, path), (f"@flexinfer-{os.getpid()}", f"\0flexinfer-{os.getpid()}")):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                manager.bind(address)
                manager.settimeout(60)
                process = cli.start("serve", "-m", cli.tiny_model(), "--port", "0", env={"NOTIFY_SOCKET": name})
                try:
                    self.assertEqual(manager.recv(100), b"READY=1")
                    process.send_signal(signal.SIGHUP)  # a reload does not end it, even without a key file
                    process.send_signal(signal.SIGTERM)
                    self.assertEqual(manager.recv(100), b"STOPPING=1")
                    _, err = process.communicate(timeout=60)
                finally:
                    process.kill()
                self.assertEqual(process.returncode, 0, err)


class Log(unittest.TestCase):
    def test_lost_lines_are_counted(self):
        """Nobody reads stderr: requests go on, and /metrics tells how many lines are gone."""
        process, _, url = self.serve("--log-level", "debug")
        client = http.client.HTTPConnection(url.split("//")[1], timeout=60)

        def get(path):
            client.request("GET", path, headers={"X-Request-Id": "x" * 131})
            return client.getresponse().read().decode()

        lost = 0
        for _ in range(200):
            for _ in range(50):
                get("/health")
            lost = int(re.search(r"^flexinfer_log_lines_dropped_total (\d+)$", get("/metrics"), re.MULTILINE).group(1))
            if lost:
                break
        self.assertGreater(lost, 0)
        client.close()

    def serve(self, *args):
        process = cli.start("serve", "-m", cli.tiny_model(), "--port", "0", *args)
        self.addCleanup(self.end, process)
        lines = []
        while not lines or "listening on" not in lines[-1]:
            line = process.stderr.readline().decode()
            self.assertTrue(line, lines)
            lines.append(line.rstrip("\n"))
        return process, lines, re.search(r"http://[^\s\"]+", lines[-1]).group(0)

    def end(self, process):
        process.kill()
        process.communicate()

    def complete(self, url, prompt, **fields):
        body = json.dumps({"prompt": prompt, "max_tokens": 3, "ignore_eos": True, **fields}).encode()
        request = urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json",
                                                                         "X-Request-Id": "mine-1"})
        try:
            return urllib.request.urlopen(request, timeout=60).read()
        except urllib.error.HTTPError as e:
            return e.read()

    def read(self, process, n_line=1):
        """The lines of requests that are done: they are written soon after the client has its answer."""
        return [process.stderr.readline().decode().rstrip("\n") for _ in range(n_line)]

    def stop(self, process):
        """What remains to be read."""
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=60)
        self.assertEqual((process.returncode, out), (0, b""))
        return err.decode().splitlines()

    def test_json_lines(self):
        process, lines, url = self.serve("--log-format", "json")
        start = json.loads(lines[0])
        self.assertEqual((start["event"], start["level"], start["context_tokens"]), ("start", "info", 256))
        self.assertEqual(json.loads(lines[-1])["event"], "listening")
        for probe in ("/health", "/metrics"):  # get no line
            urllib.request.urlopen(url + probe, timeout=30).read()
        self.complete(url, "xyzzy plugh")
        good = json.loads(*self.read(process))
        self.complete(url, 5)
        bad = json.loads(*self.read(process))
        self.assertEqual([json.loads(line)["event"] for line in self.stop(process)], ["stop"])
        self.assertRegex(good["time"], r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$")
        self.assertEqual((good["event"], good["level"], good["method"], good["route"], good["status"]),
                         ("request", "info", "POST", "/v1/completions", 200))
        self.assertEqual((good["request_id"], good["generated_tokens"]), ("mine-1", 3))
        self.assertGreater(good["prompt_tokens"], 0)
        self.assertTrue(good["tenant"])
        self.assertTrue(0 <= good["queue_s"] <= good["first_token_s"] <= good["total_s"] < 60, good)
        self.assertEqual((bad["level"], bad["status"]), ("warn", 400))
        self.assertNotIn("xyzzy", json.dumps(good))

    def test_text_lines(self):
        process, _, url = self.serve()
        self.complete(url, "xyzzy plugh")
        self.assertRegex(*self.read(process),
                         r"^\d{4}-\d\d-\d\dT[\d:.]+Z info POST /v1/completions 200 request_id=mine-1 tenant=\S+ "
                         r"id=cmpl-\S+ prompt_tokens=\d+ cached_tokens=0 generated_tokens=3 queue_s=\d+\.\d{3} "
                         r"first_token_s=\d+\.\d{3} total_s=\d+\.\d{3}$")
        self.assertEqual(self.stop(process), ["stopping"])

    def test_levels(self):
        process, _, url = self.serve("--log-level", "warn")
        self.complete(url, "a")
        self.complete(url, 5)
        self.assertIn(" warn POST /v1/completions 400 ", *self.read(process))
        self.assertEqual(self.stop(process), ["stopping"])
        process, _, url = self.serve("--log-level", "debug")
        urllib.request.urlopen(url + "/health", timeout=30).read()
        self.assertIn(" debug GET /health 200 ", *self.read(process))

    def test_prompts_only_on_demand(self):
        process, _, url = self.serve("--log-prompts", "--log-format", "json")
        self.complete(url, 'xyzzy "plugh"\n')
        first, _ = [json.loads(line) for line in self.read(process, 2)]
        self.complete(url, "y" * 20000)
        second, _ = [json.loads(line) for line in self.read(process, 2)]
        self.assertEqual((first["event"], first["request_id"]), ("prompt", "mine-1"))
        self.assertEqual(json.loads(first["body"])["prompt"], 'xyzzy "plugh"\n')
        self.assertEqual(len(second["body"]), 16384)
        self.assertGreater(second["body_bytes"], 20000)


cli.main()
