#!/usr/bin/env python3
"""Runs the steps of dist/Containerfile in a bare Debian 12, and the image's program in what they leave.

    sudo tests/install/bare_root.py WORK [MODEL]

WORK is a folder for the roots (3 GB), which are deleted and made again, but for WORK/base, a bare root that debootstrap
makes if it is not there. MODEL is served; without it, one with random weights that the build's own make_model writes.
Needs root, debootstrap and the network, so CTest does not run it.

Checked: the package is made and installs with what it depends on; its user, configuration and completions are there;
the entry point serves /health and a completion as that user; the command of the systemd unit serves with the
configuration; removing and purging leaves nothing behind.
"""
import json
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import urllib.request
from pathlib import Path

SOURCE = Path(__file__).resolve().parents[2]
PATH = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin"


def say(*words):
    print("bare_root:", *words, flush=True)


def run(*command, **how):
    return subprocess.run([str(word) for word in command], check=True, **how)


# ---- a Containerfile, as far as ours goes --------------------------------------------------------

def instructions(path):
    """(name, rest) of each; lines that end in a backslash go on."""
    text = re.sub(r"\\\n\s*", " ", path.read_text(encoding="utf-8"))
    for line in text.splitlines():
        if line.strip() and not line.startswith("#"):
            yield line.split(None, 1)


class Stage:
    def __init__(self, root, base):
        self.root, self.env, self.user, self.folder, self.entry = root, {}, "root", "/", []
        say("a new root:", root)
        shutil.rmtree(root, ignore_errors=True)
        run("cp", "-a", "--reflink=auto", base, root)
        shutil.copy("/etc/resolv.conf", root / "etc" / "resolv.conf")

    def command(self, words, user=None, folder=None):
        """The command line that runs `words` within the root."""
        env = [f"{name}={value}" for name, value in {"PATH": PATH, "HOME": "/", **self.env}.items()]
        inside = ["sh", "-c", 'cd "$0" && exec "$@"', folder or self.folder, *words]
        return ["chroot", f"--userspec={user or self.user}:{user or self.user}", str(self.root),
                "/usr/bin/env", "-i", *env, *inside]

    def shell(self, text, mounts=()):
        """Runs a line of shell; each mount is (source, folder within the root)."""
        mounts = [("/proc", "proc"), ("/dev", "dev"), *mounts]
        done = []
        try:
            for source, target in mounts:
                (self.root / target).mkdir(parents=True, exist_ok=True)
                run("mount", "--bind", source, self.root / target)
                done.append(self.root / target)
            run(*self.command(["sh", "-ec", text]), stdin=subprocess.DEVNULL)
        finally:
            for target in reversed(done):
                run("umount", "--lazy", target)


def copy_source(root):
    """What git knows of the source, and new files that it does not ignore."""
    root.mkdir(parents=True, exist_ok=True)
    names = run("git", "-C", SOURCE, "ls-files", "-z", "--cached", "--others", "--exclude-standard",
                stdout=subprocess.PIPE).stdout
    run("tar", "-C", root, "-x", input=run("tar", "-C", SOURCE, "--null", "-T", "-", "-c", input=names,
                                           stdout=subprocess.PIPE).stdout)


def run_step(stage, stages, text):
    mounts = []
    while found := re.match(r"--mount=(\S+)\s+", text):
        field = dict(pair.split("=", 1) for pair in found.group(1).split(","))
        assert field.pop("type") == "bind", found.group(0)
        mounts.append((stages[field["from"]].root / field["source"].lstrip("/"), field["target"].lstrip("/")))
        text = text[found.end():]
    say("RUN", text)
    stage.shell(text, mounts)


def build(path, work, base):
    """The last stage of the Containerfile, and all of them by name."""
    stages, stage = {}, None
    for name, rest in instructions(path):
        if name == "FROM":
            image, _, alias = rest.partition(" AS ")
            assert image == "docker.io/library/debian:bookworm-slim", image
            alias = alias or "image"
            stage = stages[alias] = Stage(work / alias, base)
        elif name == "RUN":
            run_step(stage, stages, rest)
        elif name == "COPY":
            assert rest == ". .", rest
            copy_source(stage.root / stage.folder.lstrip("/"))
        elif name == "WORKDIR":
            stage.folder = rest
        elif name == "ENV":
            stage.env.update(word.split("=", 1) for word in shlex.split(rest))
        elif name == "USER":
            stage.user = rest
        elif name == "ENTRYPOINT":
            stage.entry = json.loads(rest)
        else:
            assert name in ("EXPOSE", "STOPSIGNAL"), name
    return stage, stages


# ---- what is checked -----------------------------------------------------------------------------

def serve(stage, words, user):
    """Starts a server, asks it something, and ends it."""
    command = stage.command([*words], user)
    say("serving:", *words)
    with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as child:
        lines = []
        for line in child.stderr:
            lines.append(line)
            if found := re.search(r"listening on http://[^:]+:(\d+)", line):
                break
        else:
            raise AssertionError("".join(lines))
        url = f"http://127.0.0.1:{found.group(1)}"
        with urllib.request.urlopen(url + "/health", timeout=60) as reply:
            assert reply.status == 200
        body = json.dumps({"prompt": "a", "max_tokens": 4, "ignore_eos": True}).encode()
        request = urllib.request.Request(url + "/v1/completions", body, {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=60) as reply:
            assert json.load(reply)["usage"]["completion_tokens"] == 4
        child.send_signal(signal.SIGTERM)
        child.communicate(timeout=60)
    assert child.returncode == 0, child.returncode


def unit_command(root):
    unit = (root / "usr/lib/systemd/system/flexinfer.service").read_text(encoding="utf-8")
    return shlex.split(re.search(r"^ExecStart=(.*)$", unit, re.MULTILINE).group(1)), \
        re.search(r"^User=(.*)$", unit, re.MULTILINE).group(1)


def check_service(stage):
    words, user = unit_command(stage.root)
    config = stage.root / "etc/flexinfer/flexinfer.conf"
    text = config.read_text(encoding="utf-8")
    config.write_text(text.replace("#model = /var/lib/flexinfer/model.gguf", "model = /models/model.gguf")
                      + "port = 0\n", encoding="utf-8")
    run(*stage.command([*words, "--check-config"], user), stdout=subprocess.DEVNULL)
    stage.env = {}
    serve(stage, words, user)
    config.write_text(text, encoding="utf-8")


def traces(root):
    found = subprocess.run(["find", root, "-xdev", "-path", root / "models", "-prune", "-o", "-iname", "*flexinfer*",
                            "-print"], stdout=subprocess.PIPE, text=True, check=True).stdout.split()
    users = [line for line in (root / "etc/passwd").read_text().splitlines() if "flexinfer" in line]
    return found + users


def main():
    if os.geteuid() != 0 or len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    work = Path(sys.argv[1]).resolve()
    base = work / "base"
    work.mkdir(parents=True, exist_ok=True)
    if not base.exists():
        run("debootstrap", "--variant=minbase", "bookworm", base)
    stage, stages = build(SOURCE / "dist" / "Containerfile", work, base)
    (stage.root / "models").mkdir()
    model = Path(sys.argv[2]) if len(sys.argv) == 3 else stages["build"].root / "tmp" / "tiny.gguf"
    if len(sys.argv) == 2:
        stages["build"].shell("cmake --build --preset release --target make_model && build/release/bin/make_model "
                              "-o /tmp/tiny.gguf --layers 2 --dim 64 --ffn 128 --heads 4 --kv-heads 2 --vocab 512 "
                              "--ctx 256 --type f32 --seed 1")
    shutil.copy(model, stage.root / "models" / "model.gguf")
    os.chmod(stage.root / "models" / "model.gguf", 0o644)
    size = run("du", "-sm", stage.root, stdout=subprocess.PIPE, text=True).stdout.split()[0]
    before = run("du", "-sm", base, stdout=subprocess.PIPE, text=True).stdout.split()[0]
    say(f"the image: {size} MB, the bare root: {before} MB")
    serve(stage, [*stage.entry, "-m", "/models/model.gguf", "--port", "0"], stage.user)
    check_service(stage)
    stage.user, stage.folder = "root", "/"
    stage.shell("dpkg --verify flexinfer && dpkg --purge flexinfer")
    assert traces(stage.root) == [], traces(stage.root)
    say("done")


if __name__ == "__main__":
    main()
