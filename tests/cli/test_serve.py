"""flexinfer serve: the start block, the ready line, signals, a busy port. The HTTP surface has tests of its own."""
import json
import os
import re
import resource
import signal
import socket
import subprocess
import time
import urllib.error
import urllib.request

import cli


class Serve(cli.TestCase):
    def serve(self, *options, env=None, model=None):
        """A running server: the process, the lines before the ready line, and its URL."""
        process = cli.start("serve", "-m", model or cli.tiny_model(), "--port", "0", *options, env=env)
        self.addCleanup(self.end, process)
        lines = []
        for raw in process.stderr:
            lines.append(raw.decode().rstrip("\n"))
            match = re.match(r"^listening on (http://\S+:\d+)$", lines[-1])
            if match:
                return process, lines[:-1], match.group(1)
        self.fail(lines)

    @staticmethod
    def health(url):
        with urllib.request.urlopen(url + "/health", timeout=30) as reply:
            return reply.status

    @staticmethod
    def end(process):
        process.kill()
        process.communicate()

    def test_start_block(self):
        _, lines, url = self.serve("--threads", "2", "--ctx", "128", "--kv-memory", "32M")
        self.assertEqual([line.split()[0] for line in lines], ["model", "kernels", "context", "KV"])
        self.assertIn("llama, F32", lines[0])
        self.assertIn("2 threads", lines[1])
        self.assertIn("128 tokens", lines[2])
        self.assertEqual(lines[3], "KV cache   256 bytes per token, budget 32.0 MiB (as given): 131 K tokens")
        self.assertEqual(self.health(url), 200)

    def test_default_budget_is_told(self):
        _, lines, _ = self.serve()
        self.assertEqual(len(lines), 4)
        self.assertRegex(lines[3], r"^KV cache   256 bytes per token, budget \d[\d.]* [KMGT]iB "
                                   r"\(half of what was free\): \d[\d.]* [KMBT] tokens$")

    def test_swap_is_told(self):
        place = cli.scratch("swap")
        place.mkdir()
        for options, env in ((["--swap-dir", place], {}), ([], {"TMPDIR": str(place)})):
            _, lines, url = self.serve("--swap", "64M", *options, env=env)
            self.assertEqual(lines[4:], [f"swap       64.0 MiB in {place}"])
            self.assertEqual(self.health(url), 200)

    def test_swap_needs_a_folder(self):
        self.fails(1, "swap: cannot write to /nowhere/at/all", "serve", "-m", cli.tiny_model(), "--port", "0", "--swap",
                   "64M", "--swap-dir", "/nowhere/at/all")

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
                self.assertEqual(self.health(f"http://127.0.0.1:{port}"), 200)
                break
            except (urllib.error.URLError, ConnectionError):
                time.sleep(0.05)
        for fd in range(3):
            self.assertEqual(os.readlink(f"/proc/{process.pid}/fd/{fd}"), "/dev/null")

    def test_a_limit_on_files_is_named(self):
        limit = lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (1 << 20, 1 << 20))
        done = subprocess.run([cli.PROGRAM, "serve", "-m", cli.tiny_model(), "--port", "0", "--kv-memory", "32M"],
                              capture_output=True, env=cli.clean_env(), preexec_fn=limit)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.decode(), r"^flexinfer: KV cache: .* 33554432 bytes: .*\(ulimit -f\)\n$")

    @staticmethod
    def post(url, **fields):
        """The status and the body's JSON."""
        request = urllib.request.Request(url, json.dumps(fields).encode(), {"Content-Type": "application/json"})
        try:
            with urllib.request.urlopen(request, timeout=60) as reply:
                return reply.status, json.load(reply)
        except urllib.error.HTTPError as error:
            return error.code, json.load(error)

    def test_chat_template(self):
        path = cli.scratch("tools.jinja")
        path.write_text("{% for t in tools or [] %}[{{ t.function.name }}]{% endfor %}{% for m in messages %}{{ m.role }}:"
                        "{% for c in m.tool_calls %}{{ c.function.arguments.x }}{% endfor %}{{ m.content }};{% endfor %}"
                        "{{ 'think' if thinking }}{% if messages[0].content == 'no' %}{{ raise_exception('I will not') }}"
                        "{% endif %}{{ '>' if add_generation_prompt }}")
        _, lines, url = self.serve("--chat-template", path)
        self.assertEqual(len(lines), 4)
        tools = [{"type": "function", "function": {"name": "f", "parameters": {"type": "object"}}}]
        messages = [{"role": "user", "content": [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]},
                    {"role": "assistant", "content": None, "tool_calls": [
                        {"id": "1", "type": "function", "function": {"name": "f", "arguments": "{\"x\": 5}"}}]},
                    {"role": "tool", "tool_call_id": "1", "content": "7"}]
        status, reply = self.post(url + "/apply-template", messages=messages, tools=tools,
                                  chat_template_kwargs={"thinking": True})
        self.assertEqual((status, reply), (200, {"prompt": "[f]user:a\nb;assistant:5;tool:7;think>"}))
        status, reply = self.post(url + "/apply-template", messages=messages[:1], tools=tools, tool_choice="none",
                                  add_generation_prompt=False)
        self.assertEqual((status, reply), (200, {"prompt": "user:a\nb;"}))
        status, reply = self.post(url + "/v1/chat/completions", messages=messages, tools=tools, max_tokens=2)
        self.assertEqual(status, 200, reply)
        for path in ("/apply-template", "/v1/chat/completions"):
            status, reply = self.post(url + path, messages=[{"role": "user", "content": "no"}])
            self.assertEqual((status, reply["error"]["param"]), (400, "messages"), reply)
            self.assertEqual(reply["error"]["message"], "chat template, line 1: I will not")

    def test_broken_chat_template(self):
        model = cli.with_chat_template(cli.tiny_model(), "a\n{% nonsense %}")
        why = "chat template, line 2: the tag 'nonsense' is not supported here"
        _, lines, url = self.serve(model=model)
        self.assertEqual(lines[4:], [f"warning: chats will fail: {why} (--chat-template takes another)"])
        status, reply = self.post(url + "/v1/chat/completions", messages=[{"role": "user", "content": "x"}])
        self.assertEqual((status, reply["error"]["message"]), (400, why))
        status, reply = self.post(url + "/v1/completions", prompt="x", max_tokens=2)
        self.assertEqual(status, 200, reply)
        _, lines, url = self.serve("--chat-template", "chatml", model=model)
        self.assertEqual(len(lines), 4)
        status, reply = self.post(url + "/apply-template", messages=[{"role": "user", "content": "x"}])
        self.assertEqual(status, 200, reply)

    def test_limits_of_queue_and_step(self):
        _, lines, url = self.serve("--max-queue-tokens", "100", "--step-tokens", "64")
        self.assertEqual(len(lines), 4)
        self.assertEqual(self.health(url), 200)

    def test_signals_end_it_cleanly(self):
        for number in (signal.SIGINT, signal.SIGTERM):
            process, _, _ = self.serve()
            process.send_signal(number)
            out, err = process.communicate(timeout=60)
            self.assertEqual((process.returncode, out, err), (0, b"", b"stopping\n"), number)

    def test_requests_are_logged(self):
        process, _, url = self.serve()
        urllib.request.urlopen(url + "/v1/models", timeout=30).read()
        self.assertIn(b"/v1/models", process.stderr.readline())

    def test_busy_port(self):
        with socket.socket() as taken:
            taken.bind(("127.0.0.1", 0))
            taken.listen()
            port = taken.getsockname()[1]
            self.fails(1, f"127.0.0.1:{port}", "serve", "-m", cli.tiny_model(), "--port", port)

    def test_bad_host(self):
        self.fails(1, "nowhere.invalid", "serve", "-m", cli.tiny_model(), "--host", "nowhere.invalid", "--port", "0")

    def test_open_address_is_warned_about(self):
        _, lines, _ = self.serve("--host", "0.0.0.0")
        self.assertIn("warning: 0.0.0.0 can be reached from other machines, and no API key is needed (--api-key-file)", lines)


cli.main()
