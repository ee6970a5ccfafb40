"""The hub's own Python client (huggingface_hub) and pull share one cache: each finds what the other has stored, without
fetching it again, and they wait for each other's locks."""
import contextlib
import json
import subprocess
import sys
import unittest
from pathlib import Path

import cli
from hub_server import Hub

STORY = cli.STORYTELLER.read_bytes()
FOLDER = {"config.json": b"{}", "tokenizer.json": b"{}", "model.safetensors": STORY[:2000000]}
try:
    from huggingface_hub.utils import WeakFileLock
except ImportError:
    cli.skip("huggingface_hub is not installed")


class SharedCache(cli.TestCase):
    def setUp(self):
        self.hub = Hub()
        self.addCleanup(self.hub.close)
        self.cache = cli.scratch(self.id())
        self.vars = self.hub.env(self.cache, HF_HUB_DISABLE_TELEMETRY="1", HF_HUB_DISABLE_XET="1",
                                 HF_HUB_DISABLE_PROGRESS_BARS="1")
        self.commit = self.hub.add("org/repo", {"m-Q4_K_M.gguf": STORY, "n-Q8_0.gguf": STORY[:3000000]})
        self.hub.add("org/folder", FOLDER)

    def client(self, call, **more):
        """What an expression over the client's library gives, in a process of its own."""
        code = f"import json, huggingface_hub as hub; print(json.dumps({call}))"
        done = subprocess.run([sys.executable, "-c", code], env=cli.clean_env({**self.vars, **more}), check=False,
                              stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        self.assertEqual(done.returncode, 0, done.stderr)
        return json.loads(done.stdout)

    def pull(self, name, **more):
        return self.ok("pull", name, env={**self.vars, **more}).stdout.decode().strip()

    @contextlib.contextmanager
    def nothing_is_fetched(self):
        n = len(self.hub.asked("storage"))
        yield
        self.assertEqual(len(self.hub.asked("storage")), n)

    def test_the_client_finds_what_pull_stored(self):
        path, folder = self.pull("hf:org/repo"), self.pull("hf:org/folder")
        with self.nothing_is_fetched():
            for offline in ("", "1"):
                call = "hub.hf_hub_download('org/repo', 'm-Q4_K_M.gguf')"
                self.assertEqual(self.client(call, HF_HUB_OFFLINE=offline), path)
                self.assertEqual(self.client("hub.snapshot_download('org/folder')", HF_HUB_OFFLINE=offline), folder)

    def test_the_client_counts_it(self):
        self.pull("hf:org/repo")
        seen = self.client("(lambda c: [c.size_on_disk, [str(w) for w in c.warnings], [(r.repo_id, [[v.commit_hash, "
                           "sorted(v.refs), len(v.files)] for v in r.revisions]) for r in c.repos]])(hub.scan_cache_dir())")
        self.assertEqual(seen, [len(STORY), [], [["org/repo", [[self.commit, ["main"], 1]]]]])

    def test_pull_finds_what_the_client_stored(self):
        path = self.client("hub.hf_hub_download('org/repo', 'n-Q8_0.gguf')")
        folder = self.client("hub.snapshot_download('org/folder')")
        with self.nothing_is_fetched():
            self.assertEqual(self.pull("hf:org/repo:Q8_0"), path)
            self.assertEqual(self.pull("hf:org/folder"), folder)
            names = self.ok("list", env=self.vars).stdout.decode()
            self.assertIn("hf:org/repo/n-Q8_0.gguf\n", names)
            self.assertIn("hf:org/folder\n", names)
        self.assertEqual(Path(path).read_bytes(), STORY[:3000000])

    def test_a_branch_of_the_client(self):
        self.hub.add("org/repo", {"n-Q8_0.gguf": STORY[:1000000]}, rev="refs/pr/3")
        path = self.client("hub.hf_hub_download('org/repo', 'n-Q8_0.gguf', revision='refs/pr/3')")
        with self.nothing_is_fetched():
            self.assertEqual(self.pull("hf:org/repo@refs/pr/3"), path)
        self.assertIn("hf:org/repo@refs/pr/3/n-Q8_0.gguf\n", self.ok("list", env=self.vars).stdout.decode())

    def test_a_half_fetched_snapshot_is_not_used(self):
        """The client has fetched config.json alone."""
        self.client("hub.hf_hub_download('org/folder', 'config.json')")
        self.fails(1, "hf:org/folder: it is not here as a whole", "tokenize", "-m", "hf:org/folder",
                   env={**self.vars, "HF_HUB_OFFLINE": "1"})
        self.pull("hf:org/folder")

    def test_what_rm_leaves(self):
        """After rm the client fetches again."""
        self.pull("hf:org/repo")
        self.pull("hf:org/repo:Q8_0")
        self.ok("rm", "hf:org/repo:Q8_0", env=self.vars)
        with self.nothing_is_fetched():
            self.client("hub.hf_hub_download('org/repo', 'm-Q4_K_M.gguf')")
        path = self.client("hub.hf_hub_download('org/repo', 'n-Q8_0.gguf')")
        self.assertEqual(Path(path).read_bytes(), STORY[:3000000])

    def test_a_lock_of_the_client(self):
        """pull waits for the client that holds a blob's lock, and says so."""
        blob = Path(self.pull("hf:org/repo")).resolve().name
        self.ok("rm", "hf:org/repo", env=self.vars)
        with WeakFileLock(self.cache / "hub" / ".locks" / "models--org--repo" / f"{blob}.lock"):
            process = cli.start("pull", "hf:org/repo/m-Q4_K_M.gguf", env=self.vars)
            self.assertEqual(process.stderr.readline(), b"m-Q4_K_M.gguf: another process fetches it; waiting\n")
            self.assertIsNone(process.poll())
        out, _ = process.communicate(timeout=60)
        self.assertEqual((process.returncode, Path(out.decode().strip()).read_bytes()), (0, STORY))


unittest.main(module="__main__", verbosity=1)
