"""The completions of dist/completion in the shells themselves; those that are not installed are skipped."""
import os
import pty
import re
import select
import shutil
import subprocess
import time
import unittest

import cli

SCRIPTS = cli.PROJECT / "dist" / "completion"
ENVIRONMENT = {**os.environ, "PATH": f"{cli.BIN}:{os.environ['PATH']}"}  # the scripts ask the program
COMMANDS = {"serve", "run", "tokenize", "inspect", "convert", "quantize", "bench", "pull", "list", "rm", "top", "help"}


def needs(shell):
    return unittest.skipUnless(shutil.which(shell), f"no {shell} here")


def folder_with(*names):
    folder = cli.scratch("some models")
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).touch()
    return folder


def cache_with(*names):
    """The environment of a hub's cache that holds one repository, org/repo, with these files."""
    cache = cli.scratch("hub")
    repo = cache / "models--org--repo"
    for folder in ("blobs", "refs", "snapshots/" + "1" * 40):
        (repo / folder).mkdir(parents=True, exist_ok=True)
    (repo / "refs/main").write_text("1" * 40)
    for name in names:
        (repo / "blobs" / name).write_bytes(b"GGUF")
        link = repo / "snapshots" / ("1" * 40) / name
        link.unlink(missing_ok=True)
        link.symlink_to(f"../../blobs/{name}")
    return {"HF_HUB_CACHE": str(cache), "XDG_CACHE_HOME": str(cache)}


def options_of(command):
    return set(re.findall(r"(--[\w-]+)", "".join(
        line[:28] for line in cli.run("help", command).stdout.decode().splitlines(True) if line.startswith("  "))))


class Bash(unittest.TestCase):
    def complete(self, *words, **env):
        """What completes the last word, as readline would cut the line."""
        script = f'source "{SCRIPTS}/flexinfer.bash"; COMP_WORDS=("$@"); COMP_CWORD=$(($# - 1)); _flexinfer; ' \
                 'printf "%s\\n" "${COMPREPLY[@]}"'
        done = subprocess.run(["bash", "--norc", "-c", script, "bash", "flexinfer", *words], capture_output=True,
                              text=True, timeout=60, check=True, cwd=cli.scratch(""), env={**ENVIRONMENT, **env})
        self.assertEqual(done.stderr, "")
        return {word for word in done.stdout.splitlines() if word}

    def test_commands(self):
        self.assertEqual(self.complete(""), COMMANDS | {"--help", "--version"})
        self.assertEqual(self.complete("help", "ru"), {"run"})

    def test_options_of_every_command(self):
        for command in COMMANDS - {"help", "inspect"}:
            self.assertEqual(self.complete(command, "--"), options_of(command) | {"--help"}, command)

    def test_options_of_another_command(self):
        self.assertEqual(self.complete("bench", "--cors"), set())

    def test_values(self):
        self.assertEqual(self.complete("serve", "--log-format", ""), {"text", "json"})
        self.assertEqual(self.complete("serve", "--log-format", "=", "j"), {"json"})
        self.assertEqual(self.complete("serve", "--log-format", "="), {"text", "json"})
        self.assertEqual(self.complete("serve", "--port", ""), set())
        self.assertEqual(self.complete("bench", "--prompt", ""), set())

    def test_files_and_folders(self):
        folder = folder_with("a model.gguf", "deep/x")
        self.assertEqual(self.complete("serve", "-m", f"{folder}/a"), {f"{folder}/a model.gguf"})
        self.assertEqual(self.complete("serve", "--swap-dir", f"{folder}/"), {f"{folder}/deep"})
        self.assertEqual(self.complete("inspect", f"{folder}/a"), {f"{folder}/a model.gguf"})


    def test_models_that_were_fetched(self):
        """readline cuts a name at its colons, and keeps what stands before the last one."""
        env = cache_with("m-Q8_0.gguf", "m-Q4_0.gguf")
        names = {"hf:org/repo/m-Q8_0.gguf", "hf:org/repo/m-Q4_0.gguf"}
        self.assertEqual(self.complete("rm", "", **env), names)
        self.assertEqual(self.complete("rm", "hf", **env), names)
        self.assertEqual(self.complete("serve", "-m", "hf", **env), names)
        cut = {name.removeprefix("hf:") for name in names}
        self.assertEqual(self.complete("run", "hf", ":", **env), cut)
        self.assertEqual(self.complete("serve", "--draft", "=", "hf", ":", "org/", **env), cut)
        self.assertEqual(self.complete("pull", "hf", ":", "org/repo/m-Q8", **env), {"org/repo/m-Q8_0.gguf"})
        self.assertEqual(self.complete("serve", "--config", "hf", **env), set())


class Candidates(unittest.TestCase):
    """What the program itself prints for the shells: a word, and after a tab what it means."""

    def complete(self, *words):
        return cli.run("complete", *words, env={"HF_HUB_CACHE": "/nowhere", "XDG_CACHE_HOME": "/nowhere"}).stdout.decode().splitlines()

    def test_lines(self):
        self.assertEqual(self.complete("quan"), ["quantize\ta model to a GGUF file of smaller numbers"])
        self.assertEqual(self.complete("serve", "--log-f"), ["--log-format=\tformat of log lines"])
        self.assertEqual(self.complete("serve", "--log-format=j"), ["--log-format=json"])
        self.assertEqual(self.complete("serve", "--kv-type", "b"), ["bf16"])
        self.assertEqual(self.complete("serve", "-m", ""), [":files"])
        self.assertEqual(self.complete("rm", ""), [])
        self.assertEqual(self.complete("serve", "--swap-dir", ""), [":folders"])
        self.assertEqual(self.complete("serve", "--model-draft", ""), [":files"])  # spelled as llama.cpp does
        for command in ("inspect", "serve", "run"):
            self.assertEqual(self.complete(command, ""), [":files"])
        self.assertEqual(self.complete("dance", ""), [])
        self.assertEqual(self.complete(), [])


@needs("zsh")
class Zsh(unittest.TestCase):
    def type(self, keys, **env):
        """The arguments that flexinfer gets when these keys are typed and the line is sent."""
        setup = f"PS1=; fpath=('{SCRIPTS}' $fpath); autoload -Uz compinit; compinit -D -u; " \
                "flexinfer() { print -r -- GOT ${(q)@} END }\n"
        child, fd = pty.fork()
        if child == 0:
            os.execvpe("zsh", ["zsh", "-f", "-i"], {**ENVIRONMENT, "TERM": "dumb", "HOME": str(cli.scratch("")), **env})
        try:
            os.write(fd, setup.encode() + f"flexinfer {keys}\n".encode())
            text, end = "", time.monotonic() + 60
            while not re.search(r"^GOT .* END\r?$", text, re.MULTILINE) and time.monotonic() < end:
                if select.select([fd], [], [], 1)[0]:
                    text += os.read(fd, 65536).decode(errors="replace")
        finally:
            os.kill(child, 9)
            os.waitpid(child, 0)
            os.close(fd)
        found = re.search(r"^GOT (.*) END\r?$", text, re.MULTILINE)
        self.assertTrue(found, text)
        return found.group(1).strip()

    def test_commands_options_values_files(self):
        folder = folder_with("unique-model.gguf")
        self.assertEqual(self.type("ser\t"), "serve")
        self.assertEqual(self.type("serve --log-f\tj\t"), "serve --log-format=json")
        self.assertEqual(self.type("serve --kv-type b\t"), "serve --kv-type bf16")
        self.assertEqual(self.type("help quan\t"), "help quantize")
        self.assertTrue(self.type(f"inspect {str(folder).replace(' ', chr(92) + ' ')}/uni\t").endswith("unique-model.gguf"))

    def test_models_that_were_fetched(self):
        self.assertEqual(self.type("rm hf:org/repo/m-Q8\t", **cache_with("m-Q8_0.gguf")), "rm hf:org/repo/m-Q8_0.gguf")


@needs("fish")
class Fish(unittest.TestCase):
    def complete(self, line, **env):
        done = subprocess.run(["fish", "--no-config", "-c", f"source '{SCRIPTS}/flexinfer.fish'; complete -C $argv[1]",
                               f"flexinfer {line}"], capture_output=True, text=True, timeout=60, check=True,
                              env={**ENVIRONMENT, "HOME": str(cli.scratch("")), **env})
        self.assertEqual(done.stderr, "")
        return {row.split("\t")[0] for row in done.stdout.splitlines()}

    def test_commands_options_values(self):
        self.assertEqual(self.complete("") - {"--help", "--version"}, COMMANDS)  # which not every fish shows
        self.assertEqual(self.complete("serve --log-format "), {"text", "json"})
        for command in ("serve", "run", "bench"):
            self.assertEqual(self.complete(f"{command} --"), options_of(command) | {"--help"}, command)
        self.assertEqual(self.complete("help "), COMMANDS)
        self.assertEqual(self.complete("bench --cors"), set())
        self.assertIn("hf:org/repo/m-Q8_0.gguf", self.complete("run hf:org", **cache_with("m-Q8_0.gguf")))
        folder = folder_with("deep/x", "file")
        self.assertIn(f"{folder}/deep/", self.complete(f"serve --swap-dir '{folder}/'"))


cli.main()
