"""law.py - the house's law in tables: which shelf may include which, which files call which, and the exempt names.

check_layers and check_calls enforce the first part, check_names the last. An entry that nothing needs any more is an
offence too, so the tables stay true.
"""

ERROR = "include/flexinfer/error.h"

# Every folder of src/ and include/ that holds sources is a shelf, and must stand here. A file may include what lies on
# its own shelf and what its shelf lists:
#     "base"               the files of that folder, not of folders inside it
#     "format/vocab/..."   that folder and everything inside it
#     "kernels/kv_view.h"  one header
# Calls follow the same law: a file uses a symbol of another shelf only if a header that names the symbol is allowed.
PORT = ["include/vtensor/vmm.h", "include/vtensor/status.h"]
VOCAB_FLOOR = ["format/vocab/lookup", "format/vocab.h", "format/show.h", "base/...", ERROR]

LAW = {
    "include/vtensor": [],
    "include/flexinfer": [],

    # libvtensor: team -> sequence -> verbs -> tree -> structure -> common; vattention is a library of its own.
    "vtensor/common": PORT,
    "vtensor/structure": ["vtensor/common", "include/vtensor"],
    "vtensor/tree": ["vtensor/structure", "vtensor/common", "include/vtensor"],
    "vtensor/verbs": ["vtensor/tree", "vtensor/structure", "vtensor/common", "include/vtensor"],
    "vtensor/sequence": ["vtensor/verbs", "vtensor/tree", "vtensor/structure", "vtensor/common", "include/vtensor"],
    "vtensor/team": ["vtensor/sequence/seq_undo.h", "vtensor/common/try.h", "include/vtensor"],
    "vtensor/vattention": ["vtensor/common", "include/vtensor/vattention.h", *PORT],
    "vtensor/backend/host": ["vtensor/common/try.h", *PORT],
    "vtensor/backend/cuda": ["vtensor/common/try.h", *PORT],

    "base/text": [],
    "base": ["base/text/utf8.h", ERROR],
    "base/option": ["base/text", "base", ERROR],
    "base/number": ["base/text", "base", ERROR],
    "base/system": ["base/text", "base", ERROR],
    "base/keyed": ["base/text", "base", ERROR],
    "base/json": ["base/system", "base", ERROR],
    # HTTP as a client speaks it.
    "base/net": ["base/text", "base/system", "base", ERROR],

    # Grammars: front ends make a form; the automaton runs it over bytes.
    "grammar/form": ["base/...", ERROR],
    "grammar/read": ["grammar/form", "base/...", ERROR],
    "grammar/run": ["grammar/form", "base/...", ERROR],
    "grammar/meet": ["grammar/run/gram_auto.h", "grammar/form", "base/...", ERROR],
    "grammar/rules": ["grammar/read", "grammar/form", "base/...", ERROR],
    "grammar/schema": ["grammar/meet", "grammar/read", "grammar/run/gram_auto.h", "grammar/form", "base/...", ERROR],
    "grammar/mask": ["grammar/run/gram_auto.h", "grammar/run/gram_near.h", "grammar/run/gram_wide.h", "grammar/form", "base/...", ERROR],
    "grammar/guide": ["grammar/mask", "grammar/run/gram_auto.h", "grammar/form", "base/...", ERROR],

    # What a model says, taken apart: text, reasoning, calls of tools.
    "answer": ["base/...", ERROR],

    "format": ["format/jinja/marked.h", "base/...", ERROR],
    "format/template": ["format", "format/jinja/jinja.h", "format/jinja/marked.h", "base/...", ERROR],
    # Jinja: library and run lean on the tree; the parser and the run get the library as a table.
    "format/jinja/tree": ["format/jinja/jinja.h", "base/...", ERROR],
    "format/jinja/read": ["format/jinja/tree", "base/...", ERROR],
    "format/jinja/run": ["format/jinja/tree", "base/...", ERROR],
    "format/jinja/library": ["format/jinja/run", "format/jinja/tree", "base/...", ERROR],
    "format/jinja": ["format/jinja/tree", "format/jinja/read", "format/jinja/run", "format/jinja/library",
                     "format/jinja/marked.h", "format", "base/...", ERROR],
    "format/gguf": ["format/gguf.h", "format/gguf_write.h", "format/show.h", "base/...", ERROR],
    # A Hugging Face folder, presented as a GGUF file.
    "format/hf/read": ["format", "base/...", ERROR],
    "format/hf": ["format/hf/read", "format", "format/gguf/gguf_made.h", "base/...", ERROR],
    "format/quantize": ["format", "base/...", ERROR],
    # Vocabularies: readers fill the spec, build makes the tables that encode reads. Readers never see the encoder.
    "format/vocab/lookup": ["format/vocab.h", "format/show.h", "base/...", ERROR],
    "format/vocab/spec": VOCAB_FLOOR,
    "format/vocab/read": ["format/vocab/spec", "format/gguf.h", *VOCAB_FLOOR],
    "format/vocab/read/hf": ["format/vocab/read", "format/vocab/spec", "format/json_text.h", *VOCAB_FLOOR],
    "format/vocab/encode/norm": ["format/vocab/spec/vocab_kinds.h", *VOCAB_FLOOR],
    "format/vocab/encode": ["format/vocab/encode/norm", "format/vocab/spec/vocab_kinds.h", *VOCAB_FLOOR],
    "format/vocab/build": ["format/vocab/encode", "format/vocab/encode/norm", "format/vocab/spec", *VOCAB_FLOOR],
    "format/vocab/write": ["format/vocab/spec", "format/gguf_write.h", *VOCAB_FLOOR],
    "format/vocab": ["format/gguf_write.h", "format/vocab/build", "format/vocab/read", "format/vocab/write", "format/vocab/spec", "format/vocab.h",
                     "format/gguf.h", "base/...", ERROR],

    "kernels": ["kernels/cpu/cpu.h", "kernels/ref/ref.h", "kernels/ref/mathf.h", "base/...", ERROR],
    "kernels/ref": ["kernels", "base/...", ERROR],
    "kernels/cpu": ["kernels/cpu/body", "kernels/cpu/probe", "kernels", "kernels/ref/mathf.h", "base/...", ERROR],
    "kernels/cpu/body": ["kernels", "base/...", ERROR],
    "kernels/cpu/probe": ["kernels"],
    "kernels/cuda": ["kernels/cuda/body", "kernels", "base/...", ERROR],
    "kernels/cuda/law": ["kernels/cuda/body", "kernels/cuda/ptx.h"],
    "kernels/cuda/body": ["kernels/cuda/cuda_args.h", "kernels/cuda/ptx.h", "kernels", "kernels/ref/mathf_text.h"],

    # KV managers behind one port: a file or a shelf each, and the memory that two of them share.
    "kv": ["kernels/kv_view.h", "include/vtensor", "base/...", ERROR],
    "kv/pool": ["kv/kv_status.h", "kv/kv.h", "kernels/kv_view.h", *PORT, "base/...", ERROR],
    "kv/paged": ["kv/pool", "kv/kv_managers.h", "kv/kv.h", "kernels/kv_view.h", *PORT, "base/...", ERROR],
    "kv/reserve": ["kv/pool", "kv/kv_managers.h", "kv/kv.h", "kernels/kv_view.h", *PORT, "base/...", ERROR],
    # The model: a plan as data, the loading that makes it, and the host as a device that runs it.
    "model/plan": ["model/model_base.h", "model/model.h", "kernels", "base/...", ERROR],
    "model/host": ["model/device.h", "model/plan", "model/model.h", "kernels", "base/...", ERROR],
    "model/load": ["model/device.h", "model/plan", "model/model_base.h", "model/model.h", "model/pooling.h", "format",
                   "kernels", "base/...", ERROR],
    "model": ["model/load", "model/plan", "kernels", "format", "base/...", ERROR],

    # A GPU: NVIDIA's driver, loaded when it is asked for, and the kernels that the build made for it.
    "gpu/driver": ["base", ERROR],
    "gpu/image": [],
    # Libraries of NVIDIA's that compute in our memory, loaded when they are asked for.
    "gpu/library": ["gpu/driver", "base/...", ERROR],
    "gpu/pack": ["gpu/driver", "kernels/cuda/cuda_pack.h", "kernels", "base/...", ERROR],
    "gpu/device": ["gpu/gpu.h", "gpu/pack", "gpu/library", "gpu/driver", "gpu/image", "kernels/cuda", "kernels", "model/device.h",
                   "model/plan", "include/vtensor/vmm.h", "base/...", ERROR],
    "gpu": ["model/device.h", "base/...", ERROR],

    # The engine: loop -> memory -> group -> sampling; engine.h holds the types that all of them share.
    "engine/sampling": ["base/...", "include/flexinfer"],
    "engine/record": ["include/flexinfer"],
    # Drafts as data; speculate puts them into steps.
    "engine/draft": ["include/flexinfer"],
    "engine/picture": ["engine/group", "engine/record", "engine/engine.h", "kv/kv.h", "base/...", "include/flexinfer"],
    "engine/grammar": ["grammar/guide", "grammar/mask/gram_tokens.h", "grammar/schema/schema.h", "grammar/rules/rules.h",
                       "grammar/read", "grammar/form", "engine/engine.h", "format",
                       "base/...", "include/flexinfer"],
    "engine/group": ["engine/draft", "engine/grammar", "grammar/guide", "engine/sampling", "engine/engine.h", "engine/record",
                     "engine/picture/gallery.h", "kv/kv.h", "model/model.h", "model/pooling.h", "format", "base/...", "include/flexinfer"],
    "engine/speculate": ["engine/sampling", "model/model.h", "model/device.h", "format", "engine/memory", "engine/group", "engine/draft", "engine/record", "engine/engine.h", "kv/kv.h", "base/...",
                         "include/flexinfer"],
    "engine/memory": ["engine/draft", "engine/group", "engine/record", "engine/engine.h", "kv/kv.h", "base/...", "include/flexinfer"],
    "engine/loop": ["engine/speculate", "engine/draft", "engine/memory", "engine/group", "engine/grammar", "grammar/guide", "engine/record",
                    "engine/sampling", "engine/engine.h", "kv/kv.h", "model/device.h", "model/model.h", "format", "kernels/kv_view.h",
                    "base/...", "include/flexinfer"],
    "engine": ["engine/speculate", "engine/draft", "engine/loop", "engine/memory", "engine/picture", "engine/group", "engine/grammar",
               "engine/record", "engine/sampling", "gpu/gpu.h", "kv/kv.h", "model/device.h", "model/model.h", *PORT,
               "model/pooling.h", "format", "format/jinja/marked.h", "kernels/kv_view.h", "kernels/probe.h", "base/...", "include/flexinfer"],

    # Traces in virtual time: the engine over a model and memory that are not there (paper).
    "replay/trace": ["base/...", ERROR],
    "replay/paper": ["model/model_base.h", "model/model.h", "include/vtensor/vmm.h", "include/vtensor/status.h", "base/...", ERROR],
    "replay": ["replay/paper", "replay/trace/trace.h", "engine/engine.h", "engine/loop", "kv/kv.h", "format/gguf/gguf_made.h",
               "format", "include/vtensor/vmm.h", "base/...", "include/flexinfer"],

    # The server: http -> request -> reply; http -> guard, which is policy as data: tenants, keys, names of hosts;
    # work is below all: bytes held and threads that work, without a word of HTTP.
    "server/work": ["base/...", "include/flexinfer"],
    # What the flight recorder holds, as a file for other programs; the bench writes it, too.
    "server/trace": ["base/...", "include/flexinfer"],
    "server/guard": ["base/...", "include/flexinfer"],
    # Lines that hold nobody up; the program logs through it, too.
    "server/log": ["server/reply/json_out.h", "base/...", "include/flexinfer"],
    # Requests as spans of OpenTelemetry, and the thread that sends them.
    "server/spans": ["server/reply/json_out.h", "base/...", "include/flexinfer"],
    "server/metrics": ["server/spans/exporter.h", "server/spans/span.h", "server/work/quota.h", "server/work/workers.h", "base/...", "include/flexinfer"],
    "server/reply/dialect": ["server/reply", "answer/answer.h", "base/...", "include/flexinfer"],
    "server/reply": ["server/reply/dialect", "answer/answer.h", "answer/call_format.h", "base/...", "include/flexinfer"],
    "server/request": ["answer/call_format.h", "answer/answer.h", "server/work/quota.h", "server/reply", "base/...", "include/flexinfer"],
    "server/request/dialect": ["server/request", "server/work/quota.h", "server/reply", "base/...", "include/flexinfer"],
    "server/request/tools": ["server/request", "server/work/quota.h", "server/reply", "answer/answer.h", "answer/call_format.h", "base/...", "include/flexinfer"],
    "server/endpoint": ["server/trace/chrome_trace.h", "server/work/quota.h", "server/request", "server/reply", "base/...", "include/flexinfer"],
    "server/schema": ["server/request", "server/reply", "base/...", "include/flexinfer"],
    # The KV memory as JSON, those who watch it, and the files of the page. viewer/ works on jobs, as http.h has them.
    "server/picture": ["base/...", "include/flexinfer"],
    "server/viewer": ["server/http/http.h", "server/picture", "server/guard", "server/metrics", "server/work", "server/endpoint", "server/request", "server/reply", "server/server.h", "server/web", "base/...", "include/flexinfer"],
    "server/web": ["base/..."],
    "server/http": ["server/reply/dialect/dialect_out.h", "server/viewer", "server/web", "server/guard", "server/spans", "server/log", "server/metrics", "server/work", "server/endpoint", "server/schema", "server/request", "server/reply", "server/server.h", "base/...", "include/flexinfer"],
    "server": ["answer/call_format.h", "server/request/api_request.h", "server/viewer", "server/web", "server/http", "server/guard", "server/spans/exporter.h", "server/log/log_line.h", "server/metrics", "server/work", "server/reply", "base/...", "include/flexinfer"],

    "cli/terminal": ["cli/cli.h", "base/...", "include/flexinfer"],
    "cli/bench": ["server/trace/chrome_trace.h", "cli/terminal", "cli/cli.h", "replay", "replay/paper", "replay/trace", "base/...", "include/flexinfer"],
    "cli/figures": ["base/...", ERROR],
    # `top`: what is known of a server, and how it is shown; without network or screen but for two files.
    "cli/top": ["cli/terminal/terminal.h", "base/...", "include/flexinfer"],
    "cli/command": ["cli/top", "replay", "replay/paper", "replay/trace", "cli/bench", "cli/figures", "cli/terminal", "cli/cli.h", "server/server.h", "server/guard/origin.h", "server/log/log.h", "server/log/log_line.h", "format", "base/...",
                    "include/flexinfer"],
    "cli/manual": ["cli/cli.h", "base/..."],
    "cli": ["cli/command", "cli/terminal", "base/...", "include/flexinfer"],
}

# Headers of other libraries, and the shelves that may use them. Those of the C library may be used everywhere.
SYSTEM = {
    "gnutls/gnutls.h": ["base/net", "server/http"],
    "gnutls/x509.h": ["base/net"],
    "curses.h": ["cli/top"],
    "jansson.h": ["base/json", "engine/grammar", "format/...", "grammar/schema", "server/...", "cli/...", "replay/trace"],
    "pcre2.h": ["format/vocab/lookup"],
    "utf8proc.h": ["format/vocab/...", "format/jinja/..."],
}

# Files of a room, highest first: a file never uses a symbol of one above it, neither directly nor through files that
# are not listed.
ORDER = {
    "engine": ["engine", "gather", "paint", "turn", "idle", "plan", "prompts", "admit", "join", "step", "step_batch", "draw", "settle", "fork",
               "output", "inbox", "speculate_plan", "speculate_find", "draft_model", "budget", "room", "preempt", "cache", "lists", "group", "beam", "embedding",
               "seq", "text", "gallery", "recorder", "draft", "ngram"],
}

# Files that may call each other in a circle: (files, reason).
CIRCLES = [
    ({"jinja_eval.c", "jinja_exec.c"}, "expressions call macros, and macros run statements, which evaluate expressions"),
]

# Global functions that need no second word after the prefix: known terms.
GLOBAL_TERMS = {"fxi_fail", "fxi_expf", "fxi_tanhf", "fxi_erff", "fxi_exp", "fxi_philox", "fxi_sigmoid"}

# Static functions of one word: names of algorithms and terms that everybody knows.
STATIC_TERMS = {"main", "heapify", "lowercase", "rope", "swiglu", "softmax", "rmsnorm", "must"}

# Names in documents and comments that are not ours: functions, files and options of other projects, and placeholders.
FOREIGN_NAMES = {"malloc_trim", "cuda.h", "cublasLt.h", "nccl.h", "variant", "prefix_noun_verb"}
