"""Model files: what inspect shows; broken and unfit files, which are one line and status 1 whatever the command; split
files, Hugging Face folders, converted and quantized ones, headers of large ones; and real models by others."""
import json
import os
import re
import resource
import signal
import struct
import subprocess
import time
import unittest

import cli

FOLDERS = cli.Path(__file__).resolve().parents[1] / "vectors" / "folders"
MODELS = FOLDERS.parent / "models"
ALIGNMENT = 32


def pack_tensors(tensors):
    """Entries of F16 tensors one after the other, and how many bytes their data have."""
    body, at = b"", 0
    for name, shape in tensors:
        n = 2
        for dim in shape:
            n *= dim
        body += cli.pack_str(name) + struct.pack("<I", len(shape)) + struct.pack(f"<{len(shape)}Q", *shape)
        body += struct.pack("<IQ", 1, at)
        at += -(-n // ALIGNMENT) * ALIGNMENT
    return body, at


def large_model(name, arch, keys, tensors):
    """A file of full size that holds a header and nothing else: its data are a hole."""
    path = cli.write_gguf(cli.scratch(name), [("general.architecture", cli.STR, arch), *keys])
    entries, n_data = pack_tensors(tensors)
    data = path.read_bytes()
    data = data[:8] + struct.pack("<Q", len(tensors)) + data[16:] + entries
    data += b"\0" * (-len(data) % ALIGNMENT)
    path.write_bytes(data)
    os.truncate(path, len(data) + n_data)
    return path


def numbers(arch, **values):
    keys = []
    for key, value in values.items():
        kind = cli.F32 if isinstance(value, float) else cli.U32
        keys.append((f"{arch}.{key.replace('__', '.')}", kind, value))
    return keys


def vocab_keys():
    tokens = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256)]
    return [("tokenizer.ggml.model", cli.STR, "llama"), ("tokenizer.ggml.tokens", cli.ARRAY, (cli.STR, tokens)),
            ("tokenizer.ggml.scores", cli.ARRAY, (cli.F32, [0.0] * 259)),
            ("tokenizer.ggml.token_type", cli.ARRAY, (5, [2, 3, 3] + [6] * 256))]


def llama_layers(n_layer, dim, kv, ffn, experts=0):
    for i in range(n_layer):
        b = f"blk.{i}."
        yield from [(b + "attn_norm.weight", [dim]), (b + "ffn_norm.weight", [dim]), (b + "attn_q.weight", [dim, dim]),
                    (b + "attn_k.weight", [dim, kv]), (b + "attn_v.weight", [dim, kv]),
                    (b + "attn_output.weight", [dim, dim])]
        more = [experts] if experts else []
        end = "_exps.weight" if experts else ".weight"
        yield from [(b + "ffn_gate" + end, [dim, ffn] + more), (b + "ffn_up" + end, [dim, ffn] + more),
                    (b + "ffn_down" + end, [ffn, dim] + more)]
        if experts:
            yield (b + "ffn_gate_inp.weight", [dim, experts])


def ends(dim, vocab):
    return [("token_embd.weight", [dim, vocab]), ("output_norm.weight", [dim]), ("output.weight", [dim, vocab])]


def split_model(stem, n_part):
    """A GGUF file in parts of one tensor each."""
    parts = [cli.scratch(f"{stem}-{i + 1:05}-of-{n_part:05}.gguf") for i in range(n_part)]
    for i, part in enumerate(parts):
        large_model(part.name, "llama", [("split.no", cli.U32, i), ("split.count", cli.U32, n_part)],
                    [(f"blk.{i}.ffn_up.weight", [32, 32])])
    return parts


def split_weights(folder):
    """The folder's model.safetensors becomes two files and their index."""
    data = (folder / "model.safetensors").read_bytes()
    n_head, = struct.unpack("<Q", data[:8])
    tensors = json.loads(data[8:8 + n_head])
    tensors.pop("__metadata__", None)
    files, where = [], {}
    for half in range(2):
        head, body = {}, b""
        files.append(folder / f"model-{half + 1:05}-of-00002.safetensors")
        for name in sorted(tensors)[half::2]:
            first, end = tensors[name]["data_offsets"]
            head[name] = dict(tensors[name], data_offsets=[len(body), len(body) + end - first])
            body += data[8 + n_head + first:8 + n_head + end]
            where[name] = files[half].name
        text = json.dumps(head).encode()
        text += b" " * (-len(text) % 8)
        files[half].write_bytes(struct.pack("<Q", len(text)) + text + body)
    (folder / "model.safetensors.index.json").write_text(json.dumps({"weight_map": where}))
    (folder / "model.safetensors").unlink()
    return files


def yi_34b():
    keys = numbers("llama", block_count=60, context_length=4096, embedding_length=7168, feed_forward_length=20480,
                   attention__head_count=56, attention__head_count_kv=8, rope__freq_base=5e6,
                   attention__layer_norm_rms_epsilon=1e-5)
    return large_model("yi-34b.gguf", "llama", keys + vocab_keys(),
                       ends(7168, 64000) + list(llama_layers(60, 7168, 1024, 20480)))


def mixtral_8x22b():
    keys = numbers("llama", block_count=56, context_length=65536, embedding_length=6144, feed_forward_length=16384,
                   attention__head_count=48, attention__head_count_kv=8, rope__freq_base=1e6, expert_count=8,
                   expert_used_count=2, attention__layer_norm_rms_epsilon=1e-5)
    return large_model("mixtral-8x22b.gguf", "llama", keys + vocab_keys(),
                       ends(6144, 32768) + list(llama_layers(56, 6144, 1024, 16384, 8)))


def opt_175b():
    dim, ffn = 12288, 49152
    keys = numbers("opt", block_count=96, context_length=2048, embedding_length=dim, feed_forward_length=ffn,
                   attention__head_count=96, attention__head_count_kv=96, attention__layer_norm_epsilon=1e-5)
    tensors = [("token_embd.weight", [dim, 50272]), ("position_embd.weight", [dim, 2048])]
    tensors += [(f"output_norm.{kind}", [dim]) for kind in ("weight", "bias")]
    for i in range(96):
        shapes = [("attn_norm", [dim]), ("ffn_norm", [dim]), ("attn_q", [dim, dim]), ("attn_k", [dim, dim]),
                  ("attn_v", [dim, dim]), ("attn_output", [dim, dim]), ("ffn_up", [dim, ffn]), ("ffn_down", [ffn, dim])]
        for name, shape in shapes:
            tensors += [(f"blk.{i}.{name}.weight", shape), (f"blk.{i}.{name}.bias", shape[-1:])]
    return large_model("opt-175b.gguf", "opt", keys + vocab_keys(), tensors)


class TestCase(cli.TestCase):
    def inspect(self, path):
        done = self.ok("inspect", path)
        self.assertEqual(done.stderr, b"")
        return done.stdout.decode()


class Models(TestCase):
    def folder(self, name="llama", tokenizer=True):
        """A copy of one of the test folders, with a vocabulary of 40 tokens."""
        to = cli.scratch(f"folder-{name}-{tokenizer}")
        if not to.exists():
            to.mkdir()
            for file in (FOLDERS / name).iterdir():
                (to / file.name).write_bytes(file.read_bytes())
        if tokenizer:
            vocab = {chr(33 + i): i for i in range(40)}
            (to / "tokenizer.json").write_text(json.dumps({
                "version": "1.0", "added_tokens": [], "normalizer": None, "pre_tokenizer": None, "decoder": {"type": "Fuse"},
                "post_processor": None, "model": {"type": "BPE", "vocab": vocab, "merges": [], "unk_token": "!"}}))
        return to

    def complete(self, model):
        args = ("run", "-m", model, "-p", "5+7=", "-n", "8", "--temperature", "0", "--ignore-eos")
        return self.ok(*args).stdout

    # ---- sizes ----

    def test_geometry_of_large_models(self):
        for path, arch, per_tok, n_param in [(yi_34b(), "llama", 60 * 8 * 2 * 128 * 2, "34.4 B"),
                                             (mixtral_8x22b(), "llama", 56 * 8 * 2 * 128 * 2, "141 B"),
                                             (opt_175b(), "opt", 96 * 96 * 2 * 128 * 2, "175 B")]:
            text = self.inspect(path)[-600:]
            self.assertIn(f"KV cache      {per_tok} bytes per token in f16", text)
            self.assertIn(f"runs: {arch}, {n_param} parameters, weights in F16", text)

    def test_latent_rows(self):
        text = self.inspect(FOLDERS.parent / "models" / "deepseek3.gguf")
        self.assertIn("KV cache      228 bytes per token in f16 (3 layers x (32 + 6) x 2)", text)
        self.assertIn("runs: deepseek2, ", text)

    def test_states(self):
        """One of three layers has keys and values; the others have states of 960 bytes and 64 rows of 448."""
        text = self.inspect(FOLDERS.parent / "models" / "qwen3next.gguf")
        self.assertIn("KV cache      64 bytes per token in f16, and 57.9 KiB for each sequence", text)

    def test_header_alone(self):
        path = yi_34b()
        os.truncate(path, 100000)
        text = self.inspect(path)[-600:]
        self.assertIn("KV cache      245760 bytes per token in f16", text)
        self.assertRegex(text, "does not run: .*is past the end of the file")
        path.unlink()

    # ---- folders ----

    def test_a_folder_runs_and_converts(self):
        folder, file = self.folder(), cli.scratch("converted.gguf")
        self.assertIn("Hugging Face folder", self.inspect(folder))
        self.assertIn("runs: llama", self.inspect(folder))
        self.ok("convert", folder, "-o", file)
        self.assertIn("runs: llama", self.inspect(file))
        self.assertRegex(self.inspect(file), rf'(?m)^  general.name +str +"{folder.name}"$')
        self.assertEqual(self.complete(folder), self.complete(file))
        self.assertEqual(self.complete(folder), self.complete(folder / "config.json"))
        ids = [self.ok("tokenize", "-m", model, stdin=b"1+2=3").stdout for model in (folder, file)]
        self.assertEqual(ids[0], ids[1])

    def test_a_model_says_how_it_is_sampled(self):
        folder, file = self.folder(), cli.scratch("sampled.gguf")
        said = {"temperature": 0, "top_p": 0.5, "min_p": 7, "top_k": "many"}  # the last two are nothing
        (folder / "generation_config.json").write_text(json.dumps(said))
        self.ok("convert", folder, "-o", file)
        self.assertRegex(self.inspect(file), r"(?m)^  general.sampling.top_p +f32 +0.5$")
        self.assertNotIn("sampling.top_k", self.inspect(file))
        for model in (folder, file):
            def texts(*args):
                return {self.ok("run", "-m", model, "-p", "1+2", "-n", "6", "--seed", seed, *args).stdout for seed in "123456"}
            self.assertEqual(len(texts()), 1)
            self.assertGreater(len(texts("--temperature", "9", "--top-p", "1")), 1)
        (folder / "generation_config.json").unlink()

    def test_types(self):
        folder = self.folder("gpt-oss")
        for kind in ("f32", "f16", "bf16", "q8_0", "q4_0"):
            file = cli.scratch(f"as-{kind}.gguf")
            self.ok("convert", folder, "-o", file, "--type", kind)
            self.assertRegex(self.inspect(file), rf"blk.0.attn_output.weight +{kind.upper()} ")
            self.complete(file)

    def test_a_folder_without_a_tokenizer(self):
        folder = self.folder("qwen3", tokenizer=False)
        self.assertIn("does not run: ", self.inspect(folder))
        self.fails(1, "has no vocabulary", "run", "-p", "x", "-m", folder)
        self.ok("convert", folder, "-o", cli.scratch("bare.gguf"))

    def test_a_model_that_embeds_only(self):
        text = self.inspect(MODELS / "bert.gguf")[-300:]
        self.assertIn("runs: bert", text)
        self.assertIn("embeds texts of up to 300 tokens: 24 numbers, pooling first", text)
        self.assertIn("generates no text", text)
        self.assertIn("embeds texts of up to 512 tokens: 28 numbers, pooling last",
                      self.inspect(MODELS / "qwen3-embedding.gguf"))
        self.assertNotIn("embeds texts", self.inspect(MODELS / "qwen3.gguf"))
        for command in (("run", "-p", "x"), ("run",), ("bench",)):
            self.fails(1, "embeds texts and generates none: start 'flexinfer serve'", *command, "-m",
                       MODELS / "bert.gguf")

    def test_a_model_that_scores_pairs(self):
        text = self.inspect(MODELS / "bert-rank.gguf")[-300:]
        self.assertIn("scores pairs of texts of up to 300 tokens", text)
        self.assertNotIn("embeds texts", text)
        self.fails(1, "scores pairs of texts and generates none: start 'flexinfer serve'", "run", "-p", "x", "-m",
                   MODELS / "bert-rank.gguf")

    # ---- convert and quantize ----

    def test_quantize(self):
        model = cli.tiny_model()
        for kind, stored in [("q8_0", "Q8_0"), ("q4_0", "Q4_0"), ("Q4_K_M", "Q5_0"), ("q6_k", "Q8_0"), ("q4_k_s", "Q5_0"),
                             ("q5_k_s", "Q5_1"), ("q3_k_m", "IQ4_NL")]:
            file = cli.scratch(f"quantized-{kind}.gguf")
            done = self.ok("quantize", model, file, kind)
            self.assertEqual(done.stderr, b"")
            self.assertRegex(self.inspect(file), rf"blk.0.ffn_gate.weight +{stored} ")
            self.assertIn(f" parameters, weights in {kind.upper()}\n", self.inspect(file))  # not one tensor's type
            self.complete_tiny(file)

    def complete_tiny(self, file):
        self.ok("run", "-m", file, "-p", "a", "-n", "4", "--temperature", "0")

    def test_the_same_bytes_whatever_the_threads(self):
        files = [cli.scratch(f"threads-{n}.gguf") for n in (1, 3)]
        for n, file in zip((1, 3), files):
            self.ok("quantize", cli.tiny_model(), file, "q4_0", "-t", n)
        self.assertEqual(files[0].read_bytes(), files[1].read_bytes())

    def test_what_cannot_be_written(self):
        model, file = cli.tiny_model(), cli.scratch("q8.gguf")
        self.fails(1, "unknown type 'q9'", "quantize", model, file, "q9")
        self.fails(1, "is the model itself", "quantize", model, model, "q8_0")
        self.fails(1, "No such file", "quantize", model, cli.scratch("no/such/file"), "q8_0")
        self.fails(2, "missing --output FILE", "convert", model)
        types = re.search(r"types: (.*)", cli.run("quantize", model, file, "q9").stderr.decode()).group(1).split(", ")
        for name in types:  # all of them stand in the help
            self.assertRegex(" ".join(self.ok("help", "quantize").stdout.decode().split()), rf"\b{name}\b")
        if os.access("/dev/full", os.W_OK):
            self.fails(1, "/dev/full: No space left on device", "quantize", model, "/dev/full", "q8_0")

    def test_weights_that_are_rounded_already(self):
        """They are rounded again by a word of consent; back to floats without one, and the file tells."""
        model, once, again = cli.tiny_model(), cli.scratch("once.gguf"), cli.scratch("again.gguf")
        self.ok("quantize", model, once, "q4_0")
        self.fails(1, "once.gguf: its weights are Q4_0 already, and both errors would stay: quantize the original, or say "
                   "--allow-requantize", "quantize", once, again, "q8_0")
        self.assertFalse(again.exists())
        note = b"note: the weights were rounded to Q4_0 before, and what that lost stays lost; a file made from the original"
        self.assertIn(note, self.ok("quantize", once, again, "q8_0", "--allow-requantize").stderr)
        self.complete_tiny(again)
        floats = cli.scratch("floats.gguf")
        self.assertIn(note, self.ok("quantize", once, floats, "f32").stderr)
        self.complete_tiny(floats)
        self.fails(1, "its weights are Q4_0 already", "quantize", floats, again, "q4_0")  # no original
        self.fails(1, "its weights are Q4_0 already", "convert", floats, "-o", again, "--type", "q4_0")
        self.ok("convert", floats, "-o", again, "--type", "q4_0", "--allow-requantize")
        self.ok("quantize", model, once, "q8_0")  # loses nearly nothing
        self.assertEqual(self.ok("quantize", once, again, "q4_0").stderr, b"")
        self.assertEqual(self.ok("convert", floats, "-o", again).stderr, b"")  # as it is

    def test_the_original_is_named(self):
        model = cli.with_key(cli.tiny_model(), "general.repo_url", "https://example.org/me/model")
        once = cli.scratch("named.gguf")
        self.ok("quantize", model, once, "q4_0")
        self.fails(1, "quantize the original of https://example.org/me/model, or", "quantize", once, cli.scratch("x.gguf"),
                   "q5_0")
        self.assertIn(b"the original of https://example.org/me/model is",
                      self.ok("quantize", once, cli.scratch("x.gguf"), "f16").stderr)

    def refuses_to_replace(self, model, file, *command):
        """No name of a file that the model is read from is taken for the output."""
        names = [file, f"{file.parent}/./{file.name}", cli.scratch("soft-link"), cli.scratch("hard-link")]
        os.symlink(file, names[2])
        os.link(file, names[3])
        before = file.read_bytes()
        for name in names:
            args = [arg if arg != "TO" else name for arg in command]
            self.fails(1, f"{name}: is one of the model's own files", *args)
            self.assertEqual((file.read_bytes(), os.stat(file).st_nlink), (before, 2))
        names[2].unlink()
        names[3].unlink()

    def test_a_part_of_the_model_is_not_replaced(self):
        parts = split_model("parts", 3)
        for part in parts[1:]:
            self.refuses_to_replace(parts[0], part, "quantize", parts[0], "TO", "q8_0")
            self.refuses_to_replace(parts[0], part, "convert", parts[0], "-o", "TO")
        self.refuses_to_replace(parts[2], parts[0], "quantize", parts[2], "TO", "q8_0")
        self.ok("quantize", parts[1], cli.scratch("parts.gguf"), "q8_0")

    def test_a_shard_of_the_folder_is_not_replaced(self):
        folder = self.folder("llama-long")
        shards = split_weights(folder)
        for shard in shards:
            self.refuses_to_replace(folder, shard, "convert", folder, "-o", "TO")
            self.refuses_to_replace(folder, shard, "quantize", folder, "TO", "q8_0")
        self.ok("convert", folder, "-o", folder / "whole.gguf")

    def test_the_importance_matrix_is_not_replaced(self):
        matrix = cli.scratch("matrix.dat")
        matrix.write_bytes(b"any")
        self.fails(1, "is the importance matrix itself", "quantize", cli.tiny_model(), matrix, "q8_0", "--imatrix", matrix)
        self.assertEqual(matrix.read_bytes(), b"any")

    def test_a_full_disk_leaves_nothing(self):
        model, folder = cli.tiny_model(), cli.scratch("full")
        folder.mkdir()
        limit = lambda: (signal.signal(signal.SIGXFSZ, signal.SIG_DFL),
                         resource.setrlimit(resource.RLIMIT_FSIZE, (50000, 50000)))
        done = subprocess.run([cli.PROGRAM, "quantize", model, folder / "x.gguf", "q8_0"], capture_output=True,
                              env=cli.clean_env(), preexec_fn=limit)
        self.assertEqual(done.returncode, 1)
        self.assertRegex(done.stderr.decode(), r"^flexinfer: .*x.gguf: File too large\n$")
        self.assertEqual(list(folder.iterdir()), [])

    def test_an_old_file_stays_until_the_new_one_is_whole(self):
        file = cli.scratch("old.gguf")
        file.write_bytes(b"old")
        bad = self.with_a_nan("blk.1.ffn_up.weight", 5)
        self.fails(1, "tensor 'blk.1.ffn_up.weight' row 5 holds a number that is not finite", "quantize", bad, file,
                   "q8_0")
        self.assertEqual(file.read_bytes(), b"old")
        self.ok("quantize", cli.tiny_model(), file, "q8_0")
        self.assertEqual(file.read_bytes()[:4], b"GGUF")
        self.assertEqual([p.name for p in file.parent.iterdir() if ".part-" in p.name], [])

    def with_a_nan(self, tensor, row):
        """The tiny model with a NaN in this row of F32 numbers."""
        entries = re.findall(r"(?m)^  (\S+) +\S+ +(\d+)(?: x \d+)* +(\d+) bytes at (\d+)$",
                             self.inspect(cli.tiny_model()))
        data = bytearray(cli.tiny_model().read_bytes())
        n_data = max(int(at) + -(-int(n) // ALIGNMENT) * ALIGNMENT for _, _, n, at in entries)
        n_col, at = next((int(col), int(at)) for name, col, _, at in entries if name == tensor)
        struct.pack_into("<f", data, len(data) - n_data + at + 4 * n_col * row, float("nan"))
        path = cli.scratch("nan.gguf")
        path.write_bytes(data)
        return path

    def test_an_interrupt_leaves_nothing(self):
        model, folder = yi_34b(), cli.scratch("interrupted")  # zeros without an end
        folder.mkdir(exist_ok=True)
        for number in (signal.SIGINT, signal.SIGHUP):
            with cli.start("quantize", model, folder / "x.gguf", "q4_0") as process:
                while process.poll() is None and not list(folder.iterdir()):
                    time.sleep(0.01)
                process.send_signal(number)
                self.assertEqual(process.wait(timeout=60), 128 + number)
                self.assertEqual(process.stderr.read(), b"")
            self.assertEqual(list(folder.iterdir()), [])
        model.unlink()

    # ---- split files ----

    def test_a_missing_part_is_named(self):
        path = cli.write_gguf(cli.scratch("m-00001-of-00003.gguf"), [
            ("general.architecture", cli.STR, "llama"), ("split.no", cli.U32, 0), ("split.count", cli.U32, 3)])
        for command in (("run", "-p", "x", "-m"), ("inspect",)):
            self.fails(1, "part 2 of 3: ", *command, path)

    # ---- context ----

    def test_a_context_beyond_training_warns(self):
        done = self.ok("run", "-m", cli.tiny_model(), "-p", "a", "-n", "2", "--ctx", "300")
        self.assertIn(b"warning: --ctx 300 is beyond the 256 tokens that the model was trained with", done.stderr)
        done = self.ok("run", "-m", cli.tiny_model(), "-p", "a", "-n", "2", "--ctx", "256")
        self.assertNotIn(b"warning", done.stderr)


COMMANDS = [("run", "-p", "x", "-m"), ("serve", "--port", "0", "-m"), ("tokenize", "-m"), ("inspect",)]


class Broken(cli.TestCase):
    def all_fail(self, text, path, commands=None):
        for command in commands or COMMANDS:
            self.fails(1, text, *command, path)

    def test_missing(self):
        self.all_fail("no/such.gguf", "no/such.gguf")

    def test_directory(self):
        self.all_fail("directory", cli.SCRATCH.name)

    def test_not_gguf(self):
        for name, data in [("empty.gguf", b""), ("short.gguf", b"GG"), ("text.gguf", b"Once upon a time " * 99)]:
            path = cli.scratch(name)
            path.write_bytes(data)
            self.all_fail(name, path)

    def test_truncated(self):
        whole = cli.tiny_model().read_bytes()
        path = cli.scratch("cut.gguf")
        for part in range(1, 16) if cli.LONG else (1, 9, 15):
            path.write_bytes(whole[:len(whole) * part // 16])
            self.all_fail("cut.gguf", path, [("run", "-p", "x", "-m")])
            self.inspects(path, len(whole) * part // 16)

    def inspects(self, path, n_bytes):
        """The header is shown if it is whole, and why the model does not run."""
        done = cli.run("inspect", path)
        if done.returncode:
            self.fails(1, "cut.gguf", "inspect", path)
        else:
            self.assertIn(f"GGUF version 3, {n_bytes} bytes", done.stdout.decode())
            self.assertRegex(done.stdout.decode(), "does not run: .*is past the end of the file")

    def test_counts_near_the_top(self):
        path = cli.scratch("huge.gguf")
        for n_tensor, n_kv in [(2**64 - 1, 0), (0, 2**64 - 1), (2**63, 2**63), (1, 0), (0, 1)]:
            path.write_bytes(b"GGUF" + struct.pack("<IQQ", 3, n_tensor, n_kv))
            self.all_fail("huge.gguf", path)

    def test_name_with_a_newline(self):
        self.fails(1, "a?b.gguf", "inspect", "a\nb.gguf")

    def test_no_tensors(self):
        self.all_fail("vocab.gguf", cli.vocab_model(), [("run", "-p", "x", "-m"), ("serve", "--port", "0", "-m")])

    def test_no_vocabulary(self):
        path = cli.write_gguf(cli.scratch("bare.gguf"), [("general.architecture", cli.STR, "llama")])
        self.all_fail("bare.gguf", path, [("run", "-p", "x", "-m"), ("tokenize", "-m")])
        self.ok("inspect", path)


class Inspect(TestCase):
    def test_model(self):
        text = self.inspect(cli.tiny_model())
        self.assertRegex(text, r"GGUF version 3, \d+ bytes")
        self.assertRegex(text, r"(?m)^  llama.block_count +u32 +2$")
        self.assertRegex(text, r"(?m)^  blk.1.ffn_down.weight +F32 +128 x 64 +32768 bytes at \d+$")
        self.assertRegex(text, r"(?m)^  tokenizer.ggml.tokens +array +512 x str: \[")
        self.assertIn("KV cache      256 bytes per token in f16", text)  # 2 x 2 layers x 2 heads x 16 x 2

    def test_totals_add_up(self):
        text = self.inspect(cli.tiny_model())
        n_param = int(text.split("parameters    ")[1].split()[0])
        layer = 64 * 64 * 2 + 64 * 32 * 2 + 3 * 64 * 128 + 2 * 64
        self.assertIn(n_param, [2 * layer + 64 + n_vocab * 512 * 64 for n_vocab in (1, 2)])

    def test_hostile_strings(self):
        path = cli.write_gguf(cli.scratch("hostile.gguf"), [
            ("general.name", cli.STR, b"a\x1b[2Jb\nc\x7f\xc2\x9bd\xff"),
            ("evil\x1bkey\n", cli.STR, "x"),
            ("long", cli.STR, "\u00e9" * 500),
            ("flags", cli.ARRAY, (cli.BOOL, [True, False])),
            ("empty", cli.ARRAY, (cli.STR, [])),
        ])
        done = self.ok("inspect", path)
        for bad in (b"\x1b", b"\x7f", b"\xc2\x9b"):
            self.assertNotIn(bad, done.stdout)
        self.assertIn(rb'"a\x1b[2Jb\x0ac\x7f', done.stdout)
        self.assertIn("... (1000 bytes)".encode(), done.stdout)
        self.assertIn(b"2 x bool: [true, false]", done.stdout)
        self.assertIn(b"0 x str: []", done.stdout)

    def test_metadata_only(self):
        text = self.inspect(cli.vocab_model([("llama.block_count", cli.U32, 4),
                                             ("llama.attention.head_count", cli.U32, 8),
                                             ("llama.embedding_length", cli.U32, 256)]))
        self.assertIn("0 tensors", text)
        self.assertIn("KV cache      4096 bytes per token in f16", text)  # 2 x 4 x 8 x 32 x 2

    def test_reader_that_goes_away(self):
        process = cli.start("inspect", cli.tiny_model())
        process.stdout.close()
        err = process.stderr.read()
        process.stderr.close()
        self.assertIn(process.wait(), (0, -13))
        self.assertEqual(err, b"")


@unittest.skipUnless((cli.SHARED / "models").is_dir(), "../shared/data not present")
class Golden(cli.TestCase):
    MODEL = cli.SHARED / "models" / "stories260K.gguf"
    VOCAB = cli.SHARED / "tokenizers" / "ggml-vocab-llama-spm.gguf"

    def test_greedy_text(self):
        """200 tokens from BOS; the program that made the file prints a newline at the end, too."""
        expected = (cli.SHARED / "models" / "expected_greedy_200_karpathy.txt").read_bytes()
        for threads in (1, 2):
            done = self.ok("run", "-m", self.MODEL, "-p", "", "-n", "200", "--temperature", "0", "--ignore-eos",
                           "--threads", threads)
            self.assertEqual(done.stdout, expected.rstrip(b"\n") + b"\n")

    def test_tokenizer(self):
        texts = (self.VOCAB.parent / (self.VOCAB.name + ".inp")).read_bytes().split(b"\n__ggml_vocab_test__\n")
        lines = (self.VOCAB.parent / (self.VOCAB.name + ".out")).read_bytes().split(b"\n")[:len(texts)]
        self.assertEqual((len(texts), len(lines)), (47, 47))
        for text, line in list(zip(texts, lines))[::1 if cli.LONG else 9]:
            done = self.ok("tokenize", "-m", self.VOCAB, "--no-bos", stdin=text)
            self.assertEqual(done.stdout.split(), line.split(), text)

    def test_inspect(self):
        text = self.ok("inspect", self.MODEL).stdout.decode()
        self.assertIn("KV cache      640 bytes per token in f16", text)  # 2 x 5 layers x 4 heads x 8 x 2


cli.main()
