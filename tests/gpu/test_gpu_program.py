"""flexinfer --device cuda:0, from outside: run, serve and bench give what the host gives, and what is missing is told.

The GPU is the stand-in for the driver, with the kernels compiled for the CPU, and a stand-in for NCCL;
FLEXINFER_GPU=1 runs the program's own kernels on a real one (two for what shares a model out).
"""
import json
import os
import re
import subprocess
import tempfile
import unittest
import urllib.request

import cli

REAL = os.environ.get("FLEXINFER_GPU") == "1"
GPU = cli.BIN / ("flexinfer" if REAL else "flexinfer_standin")
MODEL = cli.Path(__file__).resolve().parents[2] / "models" / "storyteller.gguf"
ENV = {} if REAL else {"LD_LIBRARY_PATH": os.environ["VT_STANDIN"]}
TINY = MODEL.parents[1] / "tests" / "vectors" / "logits" / "tiny-q8_0.gguf"
SMALL = ["-m", MODEL, "--ctx", "256", "--kv-memory", "32M", "--threads", "1", "--step-tokens", "64"]


def run(*args, program=GPU, env=ENV):
    done = subprocess.run([program, *map(str, args)], capture_output=True, env=cli.clean_env(env), timeout=240)
    return done.returncode, done.stdout.decode(), done.stderr.decode()


class Program(unittest.TestCase):
    def test_run_tells_the_same_story(self):
        story = ["run", *SMALL, "-p", "Once upon", "-n", "10", "--temperature", "0"]
        want = run(*story, program=cli.PROGRAM)
        for math in ("cpu-exact", "batch-invariant"):
            got = run(*story, "--device", "cuda:0", "--gpu-math", math)
            self.assertEqual(got[0], 0, got)
            self.assertEqual(got[1], want[1])

    def test_two_devices_share_a_model_out(self):
        for math in ("cpu-exact", "batch-invariant"):
            story = ["run", "-m", TINY, "--ctx", "64", "--kv-memory", "8M", "--threads", "1", "-p", "ab", "-n", "8",
                     "--temperature", "0"]
            want = run(*story, program=cli.PROGRAM)
            got = run(*story, "--device", "cuda:0,cuda:1", "--gpu-math", math)
            self.assertEqual((got[0], got[1]), (0, want[1]), got[2])

    @unittest.skipIf(REAL, "it may have fewer devices")
    def test_three_devices_serve(self):
        self.expect_the_hosts_answer(self.serve("--device", "cuda:2,cuda:0,cuda:1"))

    def test_bench_measures_it(self):
        status, out, err = run("bench", *SMALL, "--device", "cuda:0", "--batch", "2", "--prompt", "8", "--gen", "3",
                               "--repeat", "1", "--json")
        self.assertEqual(status, 0, err)
        self.assertRegex(json.dumps(json.loads(out)), r'"sm_\d+ batch-invariant"')

    def test_bench_names_the_arithmetic(self):
        for math in ("cpu-exact", "batch-invariant"):
            status, out, err = run("bench", *SMALL, "--device", "cuda:0", "--gpu-math", math, "--batch", "2",
                                   "--prompt", "4", "--gen", "2", "--repeat", "1", "--json")
            self.assertEqual(status, 0, err)
            self.assertRegex(json.dumps(json.loads(out)), rf'"sm_\d+ {math}"')

    def serve(self, *options):
        process = subprocess.Popen([GPU, "serve", *map(str, SMALL), "--port", "0", *options], env=cli.clean_env(ENV),
                                   stderr=subprocess.PIPE, stdout=subprocess.DEVNULL)
        self.addCleanup(lambda: (process.kill(), process.communicate()))
        for raw in process.stderr:
            match = re.match(r"^listening on (http://\S+:\d+)$", raw.decode().rstrip("\n"))
            if match:
                return match.group(1)
        self.fail("it did not start")

    def expect_the_hosts_answer(self, url):
        body = {"prompt": "Once upon", "max_tokens": 6, "temperature": 0}
        request = urllib.request.Request(url + "/v1/completions", json.dumps(body).encode(),
                                         {"Content-Type": "application/json"})
        with urllib.request.urlopen(request, timeout=120) as reply:
            text = json.load(reply)["choices"][0]["text"]
        self.assertTrue(text.strip())
        self.assertIn(text.strip(), run("run", *SMALL, "-p", "Once upon", "-n", "6", "--temperature", "0",
                                        program=cli.PROGRAM)[1])

    def test_serve_answers(self):
        url = self.serve("--device", "cuda:0")
        self.expect_the_hosts_answer(url)
        with urllib.request.urlopen(url + "/health", timeout=60) as reply:
            self.assertEqual(reply.status, 200)


@unittest.skipIf(REAL, "the machine has what these lack")
class Missing(unittest.TestCase):
    def refused(self, *args, program=GPU, env=ENV):
        status, out, err = run("run", *SMALL, "-p", "a", "-n", "1", *args, program=program, env=env)
        self.assertEqual((status, out), (1, ""))
        self.assertEqual(err.count("\n"), 1, err)
        return err

    def test_no_driver(self):
        self.assertEqual(self.refused("--device", "cuda:0", env={"LD_LIBRARY_PATH": "/nonexistent"}),
                         "flexinfer: cuda:0: libcuda.so.1, NVIDIA's driver, cannot be loaded\n")

    def test_odd_arithmetic(self):
        status, out, err = run("run", *SMALL, "-p", "a", "--device", "cuda:0", "--gpu-math", "exakt")
        self.assertEqual((status, out), (2, ""))
        self.assertIn("cpu-exact", err)

    def test_no_such_device(self):
        self.assertEqual(self.refused("--device", "cuda:5"),
                         "flexinfer: cuda:5: this machine has 4 NVIDIA GPUs: cuda:0 and so on\n")

    def test_no_kernels(self):
        self.assertIn("cuda:0: this build has no CUDA kernels",
                      self.refused("--device", "cuda", program=cli.PROGRAM))

    def test_devices_that_cannot_share(self):
        refusals = {
            ("cuda:0,cuda:0",): "device 'cuda:0,cuda:0' names cuda:0 twice",
            ("cuda:0,cuda:7",): "cuda:7: this machine has 4 NVIDIA GPUs: cuda:0 and so on",
            ("cuda:0,cpu",): "device 'cuda:0,cpu': 'cpu' is not cuda:N",
            ("cuda:0,cuda:1",): f"{MODEL}: 2 devices cannot share out 3 KV heads",
        }
        for args, line in refusals.items():
            self.assertEqual(self.refused("--device", *args), f"flexinfer: {line}\n")

    def test_no_nccl(self):
        with tempfile.TemporaryDirectory() as folder:
            os.symlink(cli.Path(os.environ["VT_STANDIN"]) / "libcuda.so.1", f"{folder}/libcuda.so.1")
            cli.Path(f"{folder}/libnccl.so.2").write_text("no library")
            kernels = cli.Path(os.environ["VT_STANDIN"]) / "libcuda_kernels.so"
            env = {"LD_LIBRARY_PATH": folder, "STANDIN_KERNELS": str(kernels)}
            self.assertIn("libnccl.so.2", self.refused("--device", "cuda:0,cuda:1,cuda:2", env=env))

    def test_odd_names(self):
        self.assertIn("device 'cuda:x' is not cuda:N with a number N", self.refused("--device", "cuda:x"))
        self.assertIn("device 'tpu' is unknown", self.refused("--device", "tpu"))


if __name__ == "__main__":
    unittest.main()
