"""flexinfer serve from outside: its start, its configuration, its log, its signals. The HTTP surface and what each
option does have tests of their own."""
import http.client
import json
import os
import re
import resource
import signal
import socket
import subprocess
import sys
import time

import cli

LONG_ANSWER = {"prompt": "a", "max_tokens": 3900, "ignore_eos": True, "stream": True, "temperature": 0}


def file_of(name, text, mode=0o600):
    path = cli.scratch(name)
    path.write_text(text)
    path.chmod(mode)
    return path


def connect(test, server):
    connection = http.client.HTTPConnection("127.0.0.1", server.port, timeout=60)
    test.addCleanup(connection.close)
    return connection


class Start(cli.TestCase):
    def test_start_block(self):
        server = self.serve("--threads", "2", "--ctx", "128", "--kv-memory", "32M", "--max-queue-tokens", "100",
                            "--step-tokens", "64")
        lines = server.lines
        self.assertEqual([line.split()[0] for line in lines], ["model", "kernels", "context", "KV", "warning:"])
        self.assertIn("the model has no chat template", lines[4])
        self.assertIn("llama, F32", lines[0])
        self.assertIn("2 threads", lines[1])
        self.assertIn("128 tokens", lines[2])
        self.assertEqual(lines[3], "KV cache   256 bytes per token, budget 32.0 MiB (as given): 131 K tokens")
        self.assertEqual(server.call("/health")[0], 200)

    def test_the_type_is_the_files(self):
        file = cli.scratch("mixture.gguf")
        self.ok("quantize", cli.tiny_model(), file, "q4_k_m")
        self.assertIn("llama, Q4_K_M, ", self.serve(model=file).lines[0])

    def test_default_budget_is_told(self):
        lines = self.serve("--chat-template", "plain").lines
        self.assertEqual(len(lines), 4)
        self.assertRegex(lines[3], r"^KV cache   256 bytes per token, budget \d[\d.]* [KMGT]iB "
                                   r"\(half of what was free\): \d[\d.]* [KMBT] tokens$")

    def test_swap_is_told(self):
        place = cli.scratch("swap")
        place.mkdir()
        for options, env in ((["--swap-dir", place], {}), ([], {"TMPDIR": str(place)})):
            server = self.serve("--swap", "64M", "--chat-template", "plain", *options, env=env)
            self.assertEqual(server.lines[4:], [f"swap       64.0 MiB in {place}"])
            self.assertEqual(server.call("/health")[0], 200)

    def test_warnings(self):
        keys = file_of("open-keys", "ann sk-1\n", 0o644)
        for options, text in (
                (["--host", "0.0.0.0"], "0.0.0.0 can be reached from other machines, and no API key is needed (--api-key-file)"),
                (["--host", "0.0.0.0"], "hosts      clients reach it by address or as localhost; other names need --allowed-host"),
                (["--cors", "*"], "any web page may use this server (--cors)"),
                (["--api-key-file", keys], f"{keys} can be read or changed by users other than its owner")):
            line = text if text.startswith("hosts") else f"warning: {text}"
            self.assertIn(line, self.serve(*options).lines)

    def test_what_cannot_be_served(self):
        keys = file_of("bad-keys", "ann sk-1\nann\n")
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            for options, text in (
                    (["--port", port], f"127.0.0.1:{port}"), (["--host", "nowhere.invalid"], "nowhere.invalid"),
                    (["--swap", "64M", "--swap-dir", "/nowhere/at/all"], "swap: cannot write to /nowhere/at/all"),
                    (["--api-key-file", keys], f"{keys}, line 2: a key must follow the name"),
                    (["--tls-cert", "/nowhere", "--tls-key", "/nowhere"], "/nowhere: No such file or directory"),
                    (["--tls-key", keys], "TLS needs both a certificate and its key")):
                self.fails(1, text, "serve", "-m", cli.tiny_model(), "--port", "0", *options)

    def test_a_limit_on_mappings_that_is_too_low_is_told(self):
        lines = self.serve("--max-seq", "16384", model=cli.tiny_model(4096)).lines
        with open("/proc/sys/vm/max_map_count", encoding="ascii") as f:
            if int(f.read()) > 2 * 16384 * 4:
                self.skipTest("the system allows many mappings")
        self.assertRegex("\n".join(lines), r"warning: of 16384 sequences \(--max-seq\) \d+ will run together: .*max_map_count")

    def test_a_limit_on_files_is_named(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        done = subprocess.run([cli.PROGRAM, "serve", "-m", cli.tiny_model(), "--port", "0", "--kv-memory", "32M"],
                              capture_output=True, env=cli.clean_env(), preexec_fn=limit)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.decode(), r"^flexinfer: KV cache: .* 33554432 bytes: .*\(ulimit -f\).*\n$")

    def test_nothing_of_its_own_takes_the_place_of_a_closed_stderr(self):
        with socket.socket() as free:
            free.bind(("127.0.0.1", 0))
            port = free.getsockname()[1]
        process = subprocess.Popen([cli.PROGRAM, "serve", "-m", cli.tiny_model(), "--port", str(port)],
                                   env=cli.clean_env(), preexec_fn=lambda: os.closerange(0, 3))
        self.addCleanup(process.wait)
        self.addCleanup(process.kill)
        for _ in range(600):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=60).close()
                break
            except OSError:
                time.sleep(0.05)
        for fd in range(3):
            self.assertEqual(os.readlink(f"/proc/{process.pid}/fd/{fd}"), "/dev/null")

    def test_few_open_files_are_enough_to_serve(self):
        before = resource.getrlimit(resource.RLIMIT_NOFILE)
        resource.setrlimit(resource.RLIMIT_NOFILE, (64, before[1]))
        try:
            server = self.serve("--header-timeout", "600")
        finally:
            resource.setrlimit(resource.RLIMIT_NOFILE, before)
        idle = [socket.create_connection(("127.0.0.1", server.port), timeout=60) for _ in range(100)]
        for _ in range(10):
            self.assertEqual(server.call("/health")[0], 200)
        for client in idle:
            client.close()

    def test_a_service_manager_hears_of_start_and_stop(self):
        path = str(cli.scratch("notify"))
        for name, address in ((path, path), (f"@flexinfer-{os.getpid()}", f"\0flexinfer-{os.getpid()}")):
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
                manager.bind(address)
                manager.settimeout(60)
                server = self.serve(env={"NOTIFY_SOCKET": name})
                self.assertEqual(manager.recv(100), b"READY=1")
                server.process.send_signal(signal.SIGHUP)  # a reload does not end it, even without a key file
                server.process.send_signal(signal.SIGTERM)
                self.assertEqual(manager.recv(100), b"STOPPING=1")
                _, err = server.process.communicate(timeout=60)
                self.assertEqual(server.process.returncode, 0, err)


class Templates(cli.TestCase):
    def test_chat_template(self):
        path = file_of("tools.jinja",
                       "{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}{% for m in messages %}{{ m.role }}:"
                       "{% for c in m.tool_calls %}{{ c.function.arguments.x }}{% endfor %}{{ m.content }};{% endfor %}"
                       "{{ 'think' if thinking }}{% if messages[0].content == 'no' %}{{ raise_exception('I will not') }}"
                       "{% endif %}{{ '>' if add_generation_prompt }}")
        server = self.serve("--chat-template", path)
        self.assertEqual(len(server.lines), 4)
        tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
        messages = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                    {"role": "assistant", "content": None, "tool_calls": [
                        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 5}"}}]},
                    {"role": "tool", "tool_call_id": "1", "content": "7"}]
        for fields, prompt in (
                ({"messages": messages, "chat_template_kwargs": {"thinking": True}},
                 "[f]user:a\nb;assistant:5;tool:7;think>"),
                ({"messages": messages[:1], "tool_choice": "none", "add_generation_prompt": False}, "user:a\nb;")):
            self.assertEqual(server.post("/apply-template", tools=tools, **fields), (200, {"prompt": prompt}))
        status, reply = server.post("/v1/chat/completions", messages=messages, tools=tools, max_tokens=2)
        self.assertEqual(status, 200, reply)
        for path in ("/apply-template", "/v1/chat/completions"):
            status, reply = server.post(path, messages=[{"role": "user", "content": "no"}])
            self.assertEqual((status, reply["error"]["param"]), (400, "messages"), reply)
            self.assertEqual(reply["error"]["message"], "chat template, line 1: I will not")

    def test_broken_chat_template(self):
        model = cli.with_chat_template(cli.tiny_model(), "a\n{% nonsense %}")
        why = "chat template, line 2: the tag 'nonsense' is not supported here"
        server = self.serve(model=model)
        self.assertEqual(server.lines[4:], [f"warning: chats will fail: {why} (--chat-template takes another)"])
        chat = [{"role": "user", "content": "x"}]
        status, reply = server.post("/v1/chat/completions", messages=chat)
        self.assertEqual((status, reply["error"]["message"]), (400, why))
        self.assertEqual(server.post("/v1/completions", prompt="x", max_tokens=2)[0], 200)
        server = self.serve("--chat-template", "chatml", model=model)
        self.assertEqual(len(server.lines), 4)
        self.assertEqual(server.post("/apply-template", messages=chat)[0], 200)


class Config(cli.TestCase):
    def check(self, status, *args, env=None):
        done = cli.run("serve", "--check-config", *args, env=env)
        self.assertEqual(done.returncode, status, done.stderr)
        self.assertLessEqual(done.stderr.count(b"\n"), 1)
        return (done.stdout if status == 0 else done.stderr).decode()

    def test_shows_what_is_in_effect(self):
        path = file_of("options.conf", f"model = {cli.tiny_model()}\n[serve]\nport = 1234\nmax-seq = 3\n[run]\nseed = 1\n")
        text = self.check(0, "--config", path, "--max-seq", "7", env={"FLEXINFER_LOG_LEVEL": "warn"})
        for line in (f"port = 1234  # {path}:3\n", "max-seq = 7  # --max-seq\n", 'log-level = "warn"  # FLEXINFER_LOG_LEVEL\n',
                     'host = "127.0.0.1"\n', "# swap-dir =\n"):
            self.assertIn(line, text)
        self.assertNotIn("seed", text)
        again = self.check(0, "--config", file_of("options.conf", text))
        self.assertEqual(re.sub(" *#.*", "", text), re.sub(" *#.*", "", again))

    def test_wrong_lines_of_the_file(self):
        for text, wrong in (("port = x", ":1: port: 'x' is not a whole number"),
                            ("\n\nhots = 1", ":3: unknown option 'hots'; did you mean 'host'?"),
                            ("[sever]\nport = 1", ":2: unknown command 'sever'"),
                            ("port", ":1: not 'key = value'")):
            path = file_of("options.conf", text)
            self.fails(2, f"{path}{wrong}", "serve", "--config", path, "-m", cli.tiny_model())

    def test_wrong_values_that_only_the_parts_know(self):
        model = cli.tiny_model()
        broken = cli.scratch("broken.gguf")
        broken.write_bytes(model.read_bytes()[:1000])
        for text, *args in (("nowhere.invalid", "--host", "nowhere.invalid"), ("No such file", "-m", cli.scratch("none.gguf")),
                            ("broken.gguf", "-m", broken), ("/nowhere/at/all", "--swap", "1M", "--swap-dir", "/nowhere/at/all"),
                            ("none.jinja", "--chat-template", "/nowhere/none.jinja"),
                            ("none.json", "--tokenizer", cli.scratch("none.json"))):
            self.assertIn(text, self.check(1, "-m", model, *args))

    def test_loads_no_weights(self):
        """A model whose weights are a hole is checked, though reading them would find zeros."""
        data, holed = cli.tiny_model().read_bytes(), cli.scratch("holed.gguf")
        holed.write_bytes(data[:len(data) // 2])
        os.truncate(holed, len(data))
        self.check(0, "-m", holed)


class Log(cli.TestCase):
    def complete(self, server, prompt):
        return server.call("/v1/completions", {"prompt": prompt, "max_tokens": 3, "ignore_eos": True},
                           {"X-Request-Id": "mine-1"})

    def stop(self, server):
        """The lines that remain to be read."""
        status, rest = server.stop()
        self.assertEqual(status, 0)
        return rest.splitlines()

    def test_json_lines(self):
        server = self.serve("--log-format", "json")
        start = json.loads(server.lines[0])
        self.assertEqual((start["event"], start["level"], start["context_tokens"]), ("start", "info", 256))
        self.assertEqual(json.loads(server.ready)["event"], "listening")
        for probe in ("/health", "/metrics"):  # get no line
            server.call(probe)
        self.complete(server, "xyzzy plugh")
        good = json.loads(server.wait_line("{"))
        self.complete(server, 5)
        bad = json.loads(server.wait_line("{"))
        self.assertEqual([json.loads(line)["event"] for line in self.stop(server)], ["stop"])
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
        server = self.serve()
        self.complete(server, "xyzzy plugh")
        self.assertRegex(server.wait_line(""),
                         r"^\d{4}-\d\d-\d\dT[\d:.]+Z info POST /v1/completions 200 request_id=mine-1 tenant=\S+ "
                         r"id=cmpl-\S+ prompt_tokens=\d+ cached_tokens=0 generated_tokens=3 queue_s=\d+\.\d{3} "
                         r"first_token_s=\d+\.\d{3} total_s=\d+\.\d{3}$")
        self.assertEqual(self.stop(server), ["stopping"])

    def test_levels(self):
        server = self.serve("--log-level", "warn")
        self.complete(server, "a")
        self.complete(server, 5)
        self.assertIn(" warn POST /v1/completions 400 ", server.wait_line(""))
        self.assertEqual(self.stop(server), ["stopping"])
        server = self.serve("--log-level", "debug")
        server.call("/health")
        self.assertIn(" debug GET /health 200 ", server.wait_line(""))

    def test_prompts_only_on_demand(self):
        server = self.serve("--log-prompts", "--log-format", "json")
        seen = []
        for prompt in ('xyzzy "plugh"\n', "y" * 20000):
            self.complete(server, prompt)
            seen.append(json.loads(server.wait_line("")))
            server.wait_line("")
        self.assertEqual((seen[0]["event"], seen[0]["request_id"]), ("prompt", "mine-1"))
        self.assertEqual(json.loads(seen[0]["body"])["prompt"], 'xyzzy "plugh"\n')
        self.assertEqual(len(seen[1]["body"]), 16384)
        self.assertGreater(seen[1]["body_bytes"], 20000)

    def test_a_log_that_nobody_reads_holds_nobody_up(self):
        """Requests are served; /metrics and, at the end, a line of the log say how many lines were dropped."""
        server = self.serve("--log-level", "debug")
        connection = connect(self, server)

        def get(path):
            connection.request("GET", path, headers={"X-Request-Id": "x" * 131})
            return connection.getresponse().read().decode()

        lost, n_round = 0, 0
        while not lost and n_round < 200:
            for _ in range(50):
                get("/health")
            n_round += 1
            lost = int(re.search(r"^flexinfer_log_lines_dropped_total (\d+)$", get("/metrics"), re.MULTILINE).group(1))
        self.assertGreater(lost, 0)
        status, rest = server.stop()
        self.assertEqual(status, 0)
        self.assertRegex(rest, r"warning: \d+ log lines were dropped: stderr did not take them\n")


class Life(cli.TestCase):
    """Keys that are read again, memory that goes back, and the end."""

    def stream(self, server):
        """A response of which the first event has been read."""
        connection = connect(self, server)
        connection.request("POST", "/v1/completions", json.dumps(LONG_ANSWER), {"Content-Type": "application/json"})
        reply = connection.getresponse()
        self.assertEqual(reply.status, 200)
        self.assertTrue(reply.readline().startswith(b"data: "))
        return reply

    def serve(self, *options):
        return super().serve(*options, model=cli.tiny_model(4096))

    def test_keys_are_read_again_on_a_signal(self):
        path = file_of("keys", "ann sk-old\n")
        server = self.serve("--api-key-file", path, "--chat-template", "plain")

        def status(key):
            return server.call("/v1/models", headers={"Authorization": f"Bearer {key}"} if key else {})[0]

        self.assertNotIn("warning", " ".join(server.lines))
        self.assertEqual([status(key) for key in (None, "sk-old")], [401, 200])
        for text, told, statuses in (("ann sk-new\nops sk-ops admin\n", "2 API keys read", [401, 200]),
                                     ("ann\n", "the API keys stay as they were: ", [401, 200])):
            path.write_text(text)
            server.process.send_signal(signal.SIGHUP)
            server.wait_line(told)
            self.assertEqual([status(key) for key in ("sk-old", "sk-new")], statuses)

    def test_places_are_an_option(self):
        server = self.serve("--max-connections", "2")
        streams = [self.stream(server) for _ in range(2)]
        self.assertEqual(server.call("/v1/models")[0], 503)
        for reply in streams:
            reply.close()

    def test_an_idle_server_forgets_prefixes_as_the_option_says(self):
        """By default after 10 minutes, which is longer than this test may take."""
        server = self.serve("--cache-idle", "1")
        self.assertEqual(server.post("/v1/completions", prompt="a b c d " * 100, max_tokens=1)[0], 200)
        while json.loads(server.call("/stats")[1])["kv_mapped_bytes"]:  # all that is left is the prompt's prefix
            time.sleep(0.1)

    def test_signals_end_it_cleanly(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            server = self.serve()
            server.process.send_signal(number)
            out, err = server.process.communicate(timeout=60)
            self.assertEqual((server.process.returncode, out, err), (0, b"", b"stopping\n"), number)

    def test_answers_end_before_the_server_does(self):
        """Or at the deadline, which is an option."""
        for options, in_stream, in_log, not_in_log in (
                ([], b'"finish_reason":"length"', b"stopping\n", b"cut off"),
                (["--drain-timeout", "0.01"], b'"code":"draining"', b"warning: answers were cut off\n", b"lines were dropped")):
            server = self.serve(*options)
            reply = self.stream(server)
            server.process.send_signal(signal.SIGTERM)
            rest = reply.read()
            self.assertIn(in_stream, rest)
            self.assertTrue(rest.endswith(b"data: [DONE]\n\n"))
            _, err = server.process.communicate(timeout=60)
            self.assertEqual(server.process.returncode, 0)
            self.assertIn(in_log, err)
            self.assertNotIn(not_in_log, err)

    def test_a_second_signal_ends_it_at_once(self):
        server = self.serve("--drain-timeout", "1000")
        reply = self.stream(server)
        server.process.send_signal(signal.SIGTERM)
        server.wait_line("stopping")
        while server.process.poll() is None and cli.is_caught(server.process, signal.SIGTERM):
            time.sleep(0.005)
        server.process.send_signal(signal.SIGTERM)
        self.assertEqual(server.process.wait(timeout=60), -signal.SIGTERM)
        reply.close()


if __name__ == "__main__":
    cli.unittest.main(argv=sys.argv)
