#!/usr/bin/env python3
"""What is worth knowing from half an hour on a machine with an NVIDIA GPU, the most valuable first.

    lease.py pack DIR     copies what the parts run, with the libraries and files it needs, from a build with the preset
                          cuda; DIR then has all, this script, too. --python FOLDER: and Python's packages from there,
                          such as torch and flashinfer (pip install --target FOLDER ..)
    lease.py run DIR OUT  runs the parts that have no result in OUT yet; each has a limit, and none stops the others
    lease.py goals OUT    what the results say of the goals: each met, missed or not run (also printed by run)
    lease.py list         the parts

A part leaves OUT/NAME.txt, all that it printed, and OUT/NAME.ok when it succeeded: a lease that ended early goes on
with the next one, first with what was never tried, then with what failed. What a part leaves running is ended with it,
and a part that the lease's end cut short counts as never tried. `--small` are sizes for the stand-in for the driver, on
which this runs in ./check.
"""
import argparse
import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import lease_goals

TREE = Path(__file__).resolve().parents[3]
LEAST_S = 30  # of the lease's time that is worth beginning a part
PROGRAMS = ["flexinfer", "make_model", "test_gpu_vmm", "test_gpu_order", "lease_beside", "lease_models", "lease_whole",
            "lease_span.so", "gpu_vmm_cost", "gpu_attention_speed"]
DATA = ["tests/vectors/models", "tests/vectors/logits", "models/storyteller.gguf", "tests/gpu/lease/lease.py",
        "tests/gpu/lease/lease_goals.py", "tests/gpu/lease/attention_torch.py", "tests/gpu/lease/others_torch.py"]


def whole(options):
    """Commands of a part that runs a whole model: of its shape, and for the stand-in."""
    model = "{work}/whole.gguf"
    tiny = "--layers 2 --dim 128 --ffn 256 --heads 2 --kv-heads 1 --head-dim 64 --vocab 600 --ctx 256"
    return tuple(f"{{bin}}/make_model -o {model} --type bf16 --holes {o} && {{bin}}/lease_whole {model}{small}; "
                 f"s=$?; rm -f {model}; exit $s" for o, small in ((options, ""), (tiny, " small")))


ONE_B = "--layers 16 --dim 2048 --ffn 8192 --heads 32 --kv-heads 8 --vocab 32000 --ctx 4096 --seed 1"


def of_1b(kind, command):
    """A command over a model of 1 B weights of a type, which it finds as {work}/1b.gguf."""
    return (f"{{bin}}/make_model -o {{work}}/1b.gguf {ONE_B} --type {kind} && {command}; s=$?; rm -f {{work}}/1b.gguf;"
            " exit $s")


def same_text(program, model, options):
    """`cpu-exact` on the GPU must say what the host says."""
    run = f"{{bin}}/{program} run -m {model} --temperature 0 {options}"
    return (f"{run} --device cuda:0 --gpu-math cpu-exact > {{work}}/gpu.txt && {run} > {{work}}/cpu.txt &&"
            " cmp {work}/gpu.txt {work}/cpu.txt")


BENCH_1B = "{bin}/flexinfer bench -m {work}/1b.gguf --device cuda:0 --batch 1,8,16,17,64 --prompt 512 --gen 64 --csv"
SHAPES = same_text("flexinfer", "{work}/1b.gguf", "-n 24 -p \"$(seq -s ' ' 300)\"")
STORY = "{tree}/models/storyteller.gguf"
SMALL_STORY = same_text("flexinfer_standin", STORY, "--ctx 128 --kv-memory 32M -p Once -n 4")

# Name, limit in seconds, what it shows, command; {bin}, {tree} and {work} are folders, {python} is a program. With
# --small the second command.
PARTS = [
    ("contract", 120, "libvtensor's backend keeps the port's contract on this driver", "{bin}/test_gpu_vmm", None),
    ("order", 120, "queued work, several streams, captures", "{bin}/test_gpu_order", None),
    ("beside", 120, "mappings change while a kernel reads", "{bin}/lease_beside", None),
    ("exact", 300, "every family: logits of the GPU == those of the CPU", "{bin}/lease_models {tree} families",
     "{bin}/lease_models {tree} families llama.gguf"),
    ("batch-invariant", 200, "tensor cores: the same bits in every way",
     "{bin}/lease_models {tree} batch-invariant", "{bin}/lease_models {tree} batch-invariant small"),
    ("lost", 60, "an illegal address ends a pass with one line", "{bin}/lease_models {tree} lost", None),
    ("two_ranks", 120, "two GPUs compute a model together (skipped where there is one)", "{bin}/lease_models {tree} ranks",
     "{bin}/lease_models {tree} ranks small"),
    ("program", 200, "flexinfer run --device cuda:0 tells the host's story",
     same_text("flexinfer", STORY, "-p 'Once upon' -n 100"), SMALL_STORY),
    ("shapes", 200, "matrices of a 1 B model's size, bf16 and blocks: the GPU says what the host says",
     f"({of_1b('bf16', SHAPES)}) && ({of_1b('q4_k_m', SHAPES)})", "true"),
    ("vmm_cost", 120, "calls of virtual memory management (vAttention, tables 2 and 7)", "{bin}/gpu_vmm_cost",
     "{bin}/gpu_vmm_cost small"),
    ("attention", 300, "decode attention over batch, positions and KV heads (vTensor, figure 7)",
     "{bin}/gpu_attention_speed batch-invariant", "{bin}/gpu_attention_speed small batch-invariant"),
    ("prefill", 300, "attention of prompts after prefixes, contiguous and paged (vTensor, figure 8)",
     "{bin}/gpu_attention_speed prefill batch-invariant", "{bin}/gpu_attention_speed small prefill batch-invariant"),
    ("llama_3_8b", 400, "a whole model of Llama-3-8B's shape (vTensor, figures 2, 9, 10, 11; growth; idle memory)",
     *whole("--layers 32 --dim 4096 --ffn 14336 --heads 32 --kv-heads 8 --vocab 128256 --ctx 8192")),
    ("attention_torch", 300, "the same decoding by PyTorch's SDPA and FlashInfer, where they are installed",
     "{python} {tree}/tests/gpu/lease/attention_torch.py", "{python} {tree}/tests/gpu/lease/attention_torch.py small"),
    ("prefill_torch", 300, "the same prompts by them",
     "{python} {tree}/tests/gpu/lease/attention_torch.py prefill",
     "{python} {tree}/tests/gpu/lease/attention_torch.py small prefill"),
    ("others", 120, "FlashAttention and cuBLAS of PyTorch, unchanged, on libvtensor's memory",
     "{python} {tree}/tests/gpu/lease/others_torch.py {bin}/lease_span.so",
     "{python} {tree}/tests/gpu/lease/others_torch.py {bin}/lease_span.so"),
    ("yi_6b", 400, "the same of Yi-6B's",
     whole("--layers 32 --dim 4096 --ffn 11008 --heads 32 --kv-heads 4 --vocab 64000 --ctx 4096")[0], "true"),
    ("sanitizer", 300, "compute-sanitizer finds nothing in a model's kernels",
     "compute-sanitizer --report-api-errors no --error-exitcode 3 {bin}/lease_models {tree} families qwen3moe.gguf", "true"),
    ("decode", 400, "whole models: tokens per second of a 1 B model, batch 1 to 64", of_1b("bf16", BENCH_1B), "true"),
    ("decode_blocks", 400, "the same in Q4_K_M", of_1b("q4_k_m", BENCH_1B), "true"),
    ("yi_9b", 500, "and of Yi-9B's",
     whole("--layers 48 --dim 4096 --ffn 11008 --heads 32 --kv-heads 4 --vocab 64000 --ctx 4096")[0], "true"),
    ("attention_exact", 300, "the same attention in the CPU's order", "{bin}/gpu_attention_speed cpu-exact",
     "{bin}/gpu_attention_speed small cpu-exact"),
]


def libraries_of(program):
    """Those that may be missing elsewhere: not the C library's own."""
    own = ("linux-vdso", "ld-linux", "libc.so", "libm.so", "libpthread", "libdl.so", "librt.so")
    for line in subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout.splitlines():
        parts = line.split()
        if "=>" in parts and len(parts) > 2 and parts[2].startswith("/") and not parts[0].startswith(own):
            yield Path(parts[2])


def pack(build, to, python):
    to = Path(to)
    if python:
        shutil.copytree(python, to / "python", dirs_exist_ok=True)
    (to / "lib").mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        source = Path(build) / "bin" / name
        if not source.exists():
            print(f"lease.py: {source} is not built: cmake --build {build} --target gpu_lease")
            return 1
        subprocess.run(["strip", "--strip-debug", "-o", to / name, source], check=True)
        for library in libraries_of(source):
            shutil.copy2(library, to / "lib" / library.name)
    for name in DATA:
        copy = shutil.copytree if (TREE / name).is_dir() else shutil.copy2
        (to / "tree" / name).parent.mkdir(parents=True, exist_ok=True)
        copy(TREE / name, to / "tree" / name, **({"dirs_exist_ok": True} if copy is shutil.copytree else {}))
    print(f"{sum(f.stat().st_size for f in to.rglob('*') if f.is_file()) >> 20} MiB in {to}; there, run\n"
          f"    python3 tree/tests/gpu/lease/lease.py run . OUT")
    return 0


def run_command(command, log, env, limit):
    """Its status; None: it was not done in time. Nothing of it goes on afterwards."""
    with open(log, "wb") as to:
        done = subprocess.Popen(command, shell=True, stdout=to, stderr=subprocess.STDOUT, env=env,
                                start_new_session=True)
        try:
            return done.wait(timeout=limit)
        except subprocess.TimeoutExpired:
            return None
        finally:
            try:
                os.killpg(done.pid, signal.SIGKILL)
            except ProcessLookupError:
                pass
            done.wait()


def run_part(part, args, folders, env, left_s):
    """False: it failed."""
    name, limit, what, command, small = part
    command = (small or command if args.small else command).format(**folders)
    log = Path(args.out) / f"{name}.txt"
    begin = time.monotonic()
    status = run_command(command, log, env, min(limit, left_s))
    is_cut = status is None and left_s < limit
    said = "ok" if status == 0 else "cut short" if is_cut else f"FAILED ({'too long' if status is None else status})"
    print(f"{name:16} {said:14} {time.monotonic() - begin:6.1f} s  {what}", flush=True)
    if is_cut:
        log.rename(log.with_suffix(".cut"))
        return True
    if status == 0:
        (Path(args.out) / f"{name}.ok").touch()
    else:
        print(*log.read_text(errors="replace").splitlines()[-12:], sep="\n", flush=True)
    return status == 0


def parts_left(args):
    """Those without a result, the ones that were tried and failed after the others."""
    out = Path(args.out)
    left = [p for p in PARTS if not (out / f"{p[0]}.ok").exists() and (not args.only or p[0] in args.only)]
    return sorted(left, key=lambda p: (out / f"{p[0]}.txt").exists())


def run_parts(args, folders, env):
    end = time.monotonic() + args.minutes * 60
    good = True
    for part in parts_left(args):
        left_s = end - time.monotonic()
        if left_s < LEAST_S:
            print("the time is over: run it again for the rest")
            break
        good &= run_part(part, args, folders, env, left_s)
    return good


def run(args):
    out = Path(args.out)
    (out / "work").mkdir(parents=True, exist_ok=True)
    folders = {"bin": Path(args.bin).resolve(), "tree": TREE, "work": out / "work", "python": sys.executable}
    paths = [str(folders["bin"] / "lib"), os.environ.get("LD_LIBRARY_PATH", "")]
    env = {**os.environ, "LD_LIBRARY_PATH": ":".join(p for p in paths if p)}
    if (folders["bin"] / "python").exists():
        env["PYTHONPATH"] = str(folders["bin"] / "python")
    if not parts_left(args):
        return 0
    good = run_parts(args, folders, env)
    lease_goals.print_table(out)
    return 0 if good else 1


def main():
    p = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    commands = p.add_subparsers(dest="command", required=True)
    c = commands.add_parser("pack")
    c.add_argument("to")
    c.add_argument("--build", default=TREE / "build" / "cuda")
    c.add_argument("--python")
    c = commands.add_parser("run")
    c.add_argument("bin")
    c.add_argument("out")
    c.add_argument("--minutes", type=float, default=30)
    c.add_argument("--only", nargs="*")
    c.add_argument("--small", action="store_true")
    c = commands.add_parser("goals")
    c.add_argument("out")
    commands.add_parser("list")
    args = p.parse_args()
    if args.command == "list":
        print(*(f"{name:16} {limit:4} s  {what}" for name, limit, what, _, _ in PARTS), sep="\n")
        return 0
    if args.command == "goals":
        lease_goals.print_table(args.out)
        return 0
    return pack(args.build, args.to, args.python) if args.command == "pack" else run(args)


if __name__ == "__main__":
    sys.exit(main())
