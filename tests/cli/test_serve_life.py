"""flexinfer serve: keys that are read again, a log that nobody reads, answers that end before the server does."""
import http.client
import json
import re
import resource
import signal
import socket
import time
import urllib.error
import urllib.request

import cli

LONG = {"prompt": "a", "max_tokens": 3900, "ignore_eos": True, "stream": True, "temperature": 0}


class ServeLife(cli.TestCase):
    def serve(self, *options, read_until_ready=True):
        process = cli.start("serve", "-m", cli.tiny_model(4096), "--port", "0", *options)
        self.addCleanup(self.end, process)
        self.lines = []
        while read_until_ready:
            self.lines.append(process.stderr.readline().decode().rstrip("\n"))
            match = re.match(r"^listening on http://127.0.0.1:(\d+)$", self.lines[-1])
            if match:
                return process, int(match.group(1))
            self.assertIsNone(process.poll(), self.lines)

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    @staticmethod
    def call(port, path="/v1/models", headers=None):
        """The status of a GET."""
        request = urllib.request.Request(f"http://127.0.0.1:{port}{path}", headers=headers or {})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status
        except urllib.error.HTTPError as error:
            return error.code

    def connect(self, port):
        connection = http.client.HTTPConnection("127.0.0.1", port, timeout=60)
        self.addCleanup(connection.close)
        return connection

    def stream(self, port):
        """A response of which the first event has been read."""
        connection = self.connect(port)
        connection.request("POST", "/v1/completions", json.dumps(LONG), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        self.assertEqual(reply.status, 200)
        self.assertTrue(reply.readline().startswith(b"data: "))
        return reply

    # ---- keys ------------------------------------------------------------------------------------------------------

    def test_keys_are_read_again_on_a_signal(self):
        path = cli.scratch("keys")
        path.write_text("ann sk-old\n")
        path.chmod(0o600)
        process, port = self.serve("--api-key-file", path)
        self.assertNotIn("warning", " ".join(self.lines))
        self.assertEqual(self.call(port), 401)
        self.assertEqual(self.call(port, headers={"Authorization": "Bearer sk-old"}), 200)
        path.write_text("ann sk-new\nops sk-ops admin\n")
        process.send_signal(signal.SIGHUP)
        self.wait_for_line(process, b"2 API keys read")
        self.assertEqual(self.call(port, headers={"Authorization": "Bearer sk-old"}), 401)
        self.assertEqual(self.call(port, headers={"Authorization": "Bearer sk-new"}), 200)
        path.write_text("ann\n")
        process.send_signal(signal.SIGHUP)
        self.wait_for_line(process, b"the API keys stay as they were: ")
        self.assertEqual(self.call(port, headers={"Authorization": "Bearer sk-new"}), 200)

    def wait_for_line(self, process, text):
        while text not in (line := process.stderr.readline()):
            self.assertTrue(line, f"no line with {text}")

    def test_a_key_file_that_others_can_read_is_warned_about(self):
        path = cli.scratch("open-keys")
        path.write_text("ann sk-1\n")
        path.chmod(0o644)
        self.serve("--api-key-file", path)
        self.assertIn(f"warning: {path} can be read or changed by others than its owner", self.lines)

    def test_wrong_keys_and_certificates_end_it(self):
        path = cli.scratch("bad-keys")
        path.write_text("ann sk-1\nann\n")
        start = ("serve", "-m", cli.tiny_model(4096), "--port", "0")
        self.fails(1, f"{path}, line 2: a key must follow the name", *start, "--api-key-file", path)
        self.fails(1, "/nowhere: No such file or directory", *start, "--tls-cert", "/nowhere", "--tls-key", "/nowhere")
        self.fails(1, "TLS needs both a certificate and its key", *start, "--tls-key", path)

    def test_a_limit_on_mappings_that_is_too_low_is_told(self):
        self.serve("--max-seq", "16384")
        told = [line for line in self.lines if "vm.max_map_count" in line]
        with open("/proc/sys/vm/max_map_count", encoding="ascii") as f:
            most = int(f.read())
        if most > 2 * 16384 * 4:
            self.skipTest("the system allows many mappings")
        self.assertRegex(" ".join(told), r"warning: of 16384 sequences \(--max-seq\) \d+ will run together: ")

    # ---- names and pages -------------------------------------------------------------------------------------------

    def test_hosts_and_origins_are_options(self):
        page = {"Origin": "https://chat.example"}
        _, port = self.serve("--cors", "https://b.example,https://chat.example", "--allowed-host", "llm.example")
        self.assertEqual(self.call(port, headers=page), 200)
        self.assertEqual(self.call(port, headers={"Origin": "https://c.example"}), 403)
        self.assertEqual(self.call(port, headers={"Host": "llm.example"}), 200)
        self.assertEqual(self.call(port, headers={"Host": "evil.example"}), 403)
        _, port = self.serve("--cors", "*")
        self.assertIn("warning: any web page may use this server (--cors)", self.lines)
        self.assertEqual(self.call(port, headers=page), 200)

    def test_names_of_the_model_are_an_option(self):
        _, port = self.serve("--alias", "gpt-4o,other")
        self.assertEqual([self.call(port, f"/v1/models/{name}") for name in ("gpt-4o", "other", "gpt-4")], [200, 200, 404])

    def test_places_are_an_option(self):
        _, port = self.serve("--max-connections", "2")
        streams = [self.stream(port) for _ in range(2)]
        self.assertEqual(self.call(port), 503)
        for reply in streams:
            reply.close()

    def test_few_open_files_are_enough_to_serve(self):
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, before[1]))
        try:
            _, port = self.serve("--header-timeout", "600")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        idle = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(100)]
        for _ in range(10):
            self.assertEqual(self.call(port, "/health"), 200)
        for client in idle:
            client.close()

    def test_deadlines_are_options(self):
        _, port = self.serve("--header-timeout", "0.1")
        with socket.create_connection(("127.0.0.1", port), timeout=60) as slow:
            slow.sendall(b"GET /health HTTP/1.1\r\n")
            self.assertTrue(slow.recv(100).startswith(b"HTTP/1.1 408 "))

    def test_an_idle_server_forgets_prefixes_as_the_option_says(self):
        """By default after 10 minutes, which is longer than this test may take."""
        _, port = self.serve("--cache-idle", "1")
        connection = self.connect(port)

        def mapped_bytes():
            connection.request("GET", "/stats")
            return json.load(connection.getresponse())["kv_mapped_bytes"]

        connection.request("POST", "/v1/completions", json.dumps({"prompt": "a b c d " * 100, "max_tokens": 1}),
                           {"Content-Type": "application/json"})
        self.assertEqual(connection.getresponse().read()[:1], b"{")
        while mapped_bytes():  # all that is left is the prompt's prefix
            time.sleep(0.1)

    # ---- a log that nobody reads -----------------------------------------------------------------------------------

    def test_a_log_that_nobody_reads_holds_nobody_up(self):
        process, port = self.serve()
        connection = self.connect(port)
        for _ in range(5000):
            connection.request("GET", "/v1/models", headers={"X-Request-Id": "r" * 100})
            connection.getresponse().read()
        self.assertEqual(self.call(port, "/health"), 200)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), 0)

    def test_what_was_dropped_is_told(self):
        process, port = self.serve()
        connection = self.connect(port)
        for _ in range(5000):
            connection.request("GET", "/v1/models", headers={"X-Request-Id": "r" * 100})
            connection.getresponse().read()
        process.send_signal(signal.SIGTERM)
        _, err = process.communicate(timeout=60)
        self.assertRegex(err, rb"warning: \d+ log lines were dropped: nobody read them\n")

    # ---- the end ---------------------------------------------------------------------------------------------------

    def test_answers_end_before_the_server_does(self):
        process, port = self.serve()
        reply = self.stream(port)
        process.send_signal(signal.SIGTERM)
        rest = reply.read()
        self.assertIn(b'"finish_reason":"length"', rest)
        self.assertTrue(rest.endswith(b"data: [DONE]\n\n"))
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertIn(b"stopping\n", err)
        self.assertNotIn(b"cut off", err)

    def test_a_drain_ends_at_its_deadline(self):
        process, port = self.serve("--drain-timeout", "0.01")
        reply = self.stream(port)
        process.send_signal(signal.SIGTERM)
        rest = reply.read()
        self.assertIn(b'"code":"draining"', rest)
        _, err = process.communicate(timeout=60)
        self.assertEqual(process.returncode, 0)
        self.assertIn(b"warning: answers were cut off\n", err)

    def test_a_second_signal_ends_it_at_once(self):
        process, port = self.serve("--drain-timeout", "1000")
        reply = self.stream(port)
        process.send_signal(signal.SIGTERM)
        self.wait_for_line(process, b"stopping")
        while process.poll() is None and self.stops_caught(process):
            time.sleep(0.005)
        process.send_signal(signal.SIGTERM)
        self.assertEqual(process.wait(timeout=60), -signal.SIGTERM)
        reply.close()

    @staticmethod
    def stops_caught(process):
        """Whether SIGTERM is still taken as the wish to drain."""
        with open(f"/proc/{process.pid}/status", encoding="ascii") as status:
            caught = next(line for line in status if line.startswith("SigCgt:"))
        return int(caught.split()[1], 16) >> (signal.SIGTERM - 1) & 1


cli.main()
