"""The files of dist/ for a service: the unit, as systemd reads it, and the configuration, as the program does."""
import os
import re
import shutil
import signal
import subprocess
import unittest
import urllib.request

import installed
from installed import BIN, ENV, ROOT, needs, run

UNIT = ROOT / "dist" / "systemd" / "flexinfer.service"
CONFIG = ROOT / "dist" / "flexinfer.conf"


def members(group):
    """The system calls of a group of systemd's."""
    calls = set()
    for line in run("systemd-analyze", "syscall-filter", group).splitlines()[1:]:
        word = line.strip().split(" ")[0]
        if word.startswith("@"):
            calls |= members(word)
        elif word and word[0] != "#":
            calls.add(word)
    return calls


class Service(installed.TestCase):
    def with_certificate(self, text):
        """TLS with a certificate that openssl makes; without openssl, no TLS."""
        if not shutil.which("openssl"):
            return re.sub(r"^tls-\w+ = .*\n", "", text, flags=re.MULTILINE)
        run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
            "/CN=localhost", "-keyout", self.scratch / "key.pem", "-out", self.scratch / "cert.pem")
        return text

    def unit(self):
        """The unit with the program of this build."""
        path = self.scratch / "flexinfer.service"
        path.write_text(UNIT.read_text().replace("/usr/bin/flexinfer", str(BIN / "flexinfer")))
        return path

    def test_every_key_of_the_configuration(self):
        """With all its comments taken away it is a configuration, and what it shows are the defaults or within bounds."""
        text = CONFIG.read_text()
        run(BIN / "flexinfer", "serve", "--check-config", "--config", CONFIG, "-m", self.model())
        keys = re.findall(r"^#([\w-]+) = ", text, re.MULTILINE)
        self.assertGreater(len(keys), 8)
        text = re.sub(r"^#([\w-]+ = )", r"\1", text, flags=re.MULTILINE)
        places = {"/var/lib/flexinfer/model.gguf": self.model(), "/var/cache/flexinfer": self.scratch,
                  "/etc/flexinfer/": f"{self.scratch}/"}
        for place, here in places.items():
            self.assertIn(place, text)
            text = text.replace(place, str(here))
        (self.scratch / "keys").write_text("someone sk-1\n")
        text = self.with_certificate(text)
        path = self.scratch / "all.conf"
        path.write_text(text)
        shown = run(BIN / "flexinfer", "serve", "--check-config", "--config", path)
        for key in re.findall(r"^([\w-]+) = ", text, re.MULTILINE):
            self.assertRegex(shown, rf"(?m)^{key} = .*  # {path}:\d+$")

    def test_the_units_command(self):
        """It reads the file that the package installs, and stops on the signal that systemd sends."""
        self.assertIn("\nExecStart=/usr/bin/flexinfer serve --config /etc/flexinfer/flexinfer.conf\n", UNIT.read_text())
        self.assertEqual((ROOT / "dist" / "debian" / "conffiles").read_text(), "/etc/flexinfer/flexinfer.conf\n")

    @needs("systemd-analyze")
    def test_systemd_reads_the_unit(self):
        self.assertEqual(run("systemd-analyze", "verify", "--man=no", self.unit()), "")

    @needs("systemd-analyze")
    def test_the_unit_is_hardened(self):
        run("systemd-analyze", "security", "--offline=yes", "--threshold=15", self.unit())

    @needs("systemd-analyze", "strace")
    def test_the_unit_allows_what_the_program_calls(self):
        allowed = set()
        for line in re.findall(r"^SystemCallFilter=(.*)$", UNIT.read_text(), re.MULTILINE):
            groups = set().union(*(members(group) for group in line.lstrip("~").split()))
            allowed = allowed - groups if line.startswith("~") else allowed | groups
        trace = self.scratch / "trace"
        command = ["strace", "-f", "-q", "-o", trace, "-e", "signal=none", BIN / "flexinfer", "serve", "-m", self.model(),
                   "--port", "0", "--swap", "16M", "--swap-dir", self.scratch]
        env = {**ENV, "ASAN_OPTIONS": "detect_leaks=0"}  # it needs ptrace, which strace has
        with subprocess.Popen([str(word) for word in command], stderr=subprocess.PIPE, text=True, env=env,
                              start_new_session=True) as child:
            url = next(re.search(r"http://\S+", line).group(0) for line in child.stderr if "listening on" in line)
            request = urllib.request.Request(url + "/v1/completions", b'{"prompt": "a", "max_tokens": 3}',
                                             {"Content-Type": "application/json"})
            urllib.request.urlopen(request, timeout=60).read()
            urllib.request.urlopen(url + "/metrics", timeout=60).read()
            os.killpg(child.pid, signal.SIGTERM)
            child.communicate(timeout=60)
        called = set(re.findall(r"^\d+ +(?:<\.\.\. )?(\w+)(?:\(| resumed)", trace.read_text(), re.MULTILINE))
        self.assertIn("sendto" if "sendto" in called else "sendmsg", called)
        self.assertEqual(called - allowed, set())


if __name__ == "__main__":
    unittest.main()
