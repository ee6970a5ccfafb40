"""The files of dist/ for a service: the unit, as systemd reads it, and the configuration, as the program does."""
import os
import re
import shutil
import signal
import subprocess
import tempfile
import unittest
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BIN = Path(os.environ["VT_BUILD"]) / "bin"
UNIT = ROOT / "dist" / "systemd" / "flexinfer.service"
CONFIG = ROOT / "dist" / "flexinfer.conf"
ENV = {name: value for name, value in os.environ.items() if not name.startswith("FLEXINFER_")}


def needs(*programs):
    missing = [program for program in programs if not shutil.which(program)]
    return unittest.skipIf(missing, f"not here: {', '.join(missing)}")


def run(*command, **how):
    return subprocess.run([str(word) for word in command], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True,
                          check=False, env=ENV, **how)


def members(group):
    """The system calls of a group of systemd's."""
    calls = set()
    for line in run("systemd-analyze", "syscall-filter", group).stdout.splitlines()[1:]:
        word = line.strip().split(" ")[0]
        if word.startswith("@"):
            calls |= members(word)
        elif word and word[0] != "#":
            calls.add(word)
    return calls


class Service(unittest.TestCase):
    def setUp(self):
        scratch = tempfile.TemporaryDirectory(prefix="flexinfer-service-")
        self.addCleanup(scratch.cleanup)
        self.scratch = Path(scratch.name)

    def model(self):
        path = self.scratch / "tiny.gguf"
        shape = "--layers 1 --dim 32 --ffn 64 --heads 2 --kv-heads 1 --vocab 512 --ctx 64 --type f32 --seed 1"
        self.assertEqual(run(BIN / "make_model", "-o", path, *shape.split()).returncode, 0)
        return path

    def with_certificate(self, text):
        """TLS with a certificate that openssl makes; without openssl, no TLS."""
        if not shutil.which("openssl"):
            return re.sub(r"^tls-\w+ = .*\n", "", text, flags=re.MULTILINE)
        done = run("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256", "-nodes", "-subj",
                   "/CN=localhost", "-keyout", self.scratch / "key.pem", "-out", self.scratch / "cert.pem")
        self.assertEqual(done.returncode, 0, done.stderr)
        return text

    def unit(self):
        """The unit with the program of this build."""
        path = self.scratch / "flexinfer.service"
        path.write_text(UNIT.read_text().replace("/usr/bin/flexinfer", str(BIN / "flexinfer")))
        return path

    def test_every_key_of_the_configuration(self):
        """With all its comments taken away it is a configuration, and what it shows are the defaults or within bounds."""
        text = CONFIG.read_text()
        self.assertEqual(run(BIN / "flexinfer", "serve", "--check-config", "--config", CONFIG, "-m",
                             self.model()).returncode, 0)
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
        done = run(BIN / "flexinfer", "serve", "--check-config", "--config", path)
        self.assertEqual(done.returncode, 0, done.stderr)
        for key in re.findall(r"^([\w-]+) = ", text, re.MULTILINE):
            self.assertRegex(done.stdout, rf"(?m)^{key} = .*  # {path}:\d+$")

    def test_the_units_command(self):
        """It reads the file that the package installs, and stops on the signal that systemd sends."""
        self.assertIn("\nExecStart=/usr/bin/flexinfer serve --config /etc/flexinfer/flexinfer.conf\n", UNIT.read_text())
        self.assertEqual((ROOT / "dist" / "debian" / "conffiles").read_text(), "/etc/flexinfer/flexinfer.conf\n")

    @needs("systemd-analyze")
    def test_systemd_reads_the_unit(self):
        done = run("systemd-analyze", "verify", "--man=no", self.unit())
        self.assertEqual((done.returncode, done.stdout + done.stderr), (0, ""))

    @needs("systemd-analyze")
    def test_the_unit_is_hardened(self):
        done = run("systemd-analyze", "security", "--offline=yes", "--threshold=15", self.unit())
        self.assertEqual(done.returncode, 0, done.stdout)

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
