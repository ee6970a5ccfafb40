"""rules.py - the house's rules in tables: which folder may include which, which files call which, and the exempt names.

check_layers and check_calls enforce the first part, check_names the last. An entry that nothing needs any more is an
offence too, so the tables stay true.
"""

ERROR = "include/flexinfer/error.h"
ROWS = "include/flexinfer/snapshot_rows.h"  # plain data that a KV manager fills

# Every folder of src/, include/ and lab/ that holds sources must stand here. A file may include what lies in its own
# folder and what its folder lists:
#     "base"               the files of that folder, not of folders inside it
#     "format/vocab/..."   that folder and everything inside it
#     "kernels/kv_view.h"  one header
# Calls follow the same rules: a file uses a symbol of another folder only if a header that names the symbol is allowed.
PORT = ["include/vtensor/vmm.h", "include/vtensor/status.h"]
VOCAB_FLOOR = ["format/vocab/lookup", "format/vocab.h", "format/show.h", "base/...", ERROR]

RULES = {
    "include/vtensor": [],
    "include/flexinfer": [],

    # libvtensor: sequence -> operations -> tree -> core; vattention is a library of its own.
    "vtensor/core": ["include/vtensor"],
    "vtensor/tree": ["vtensor/core", "include/vtensor"],
    "vtensor/operations": ["vtensor/tree", "vtensor/core", "include/vtensor"],
    "vtensor/sequence": ["vtensor/operations", "vtensor/tree", "vtensor/core", "include/vtensor"],
    "vtensor/vattention": ["vtensor/core/common.h", "vtensor/core/mapper.h", "include/vtensor/vattention.h", *PORT],
    "vtensor/backend/host": ["vtensor/core/common.h", *PORT],
    "vtensor/backend/cuda": ["vtensor/core/common.h", *PORT],

    "base/text": [],
    "base": ["base/text/utf8.h", ERROR],
    "base/option": ["base/system/grow.h", "base/text", "base", ERROR],
    "base/number": ["base/text", "base", ERROR],
    "base/system": ["base/text", "base", ERROR],
    "base/keyed": ["base/text", "base", ERROR],
    "base/json": ["base/text", "base/system", "base/keyed", "base", ERROR],
    # HTTP and TLS as a client.
    "base/net": ["base/text", "base", ERROR],

    # Models by name: the hub, and what of it is on the disk.
    "hub": ["base/...", ERROR],

    # Grammars: front ends (syntax) make a grammar as data; the automaton runs it over bytes.
    "grammar/syntax": ["base/...", ERROR],
    "grammar/automaton": ["grammar/syntax", "base/...", ERROR],
    "grammar/schema": ["grammar/automaton", "grammar/syntax", "base/...", ERROR],
    "grammar/matcher": ["grammar/automaton", "grammar/syntax", "base/...", ERROR],

    # What a model says, taken apart: text, reasoning, tool calls.
    "output_parser": ["base/...", ERROR],

    "format": ["base/...", ERROR],
    "format/template": ["format", "format/jinja/jinja.h", "base/...", ERROR],
    "format/jinja": ["format/marked.h", "base/...", ERROR],
    "format/gguf": ["format", "base/...", ERROR],
    # A Hugging Face folder, presented as a GGUF file.
    "format/hf": ["format", "format/gguf/gguf_made.h", "base/...", ERROR],
    "format/quantize": ["format", "base/...", ERROR],
    # Vocabularies: readers fill the spec, build makes the tables that encode reads. Readers never see the encoder.
    "format/vocab/lookup": ["format/vocab.h", "format/show.h", "base/...", ERROR],
    "format/vocab/spec": VOCAB_FLOOR,
    "format/vocab/read": ["format/vocab/spec", "format/gguf.h", "format/members.h", *VOCAB_FLOOR],
    "format/vocab/encode": ["format/vocab/spec", *VOCAB_FLOOR],
    "format/vocab/build": ["format/vocab/encode", "format/vocab/spec", *VOCAB_FLOOR],
    "format/vocab": ["format/vocab/build", "format/vocab/read", "format/vocab/spec", "format/vocab/lookup",
                     "format/gguf_write.h", "format/vocab.h", "format/gguf.h", "format/show.h", "base/...", ERROR],

    # kernels states the operations; ref is their definition, cpu its vector paths and the choice of one.
    "kernels": ["base/...", ERROR],
    "kernels/ref": ["kernels", "base/...", ERROR],
    "kernels/cpu": ["kernels/cpu/body", "kernels/ref", "kernels", "base/...", ERROR],
    "kernels/cpu/body": ["kernels", "base/...", ERROR],
    "kernels/cuda": ["kernels/ref/mathf_text.h", "kernels", "base/...", ERROR],

    # KV managers over one port: a file or a folder each, and the pool that some of them share.
    "kv": ["kernels/kv_view.h", "include/flexinfer/counters.h", "include/vtensor", ROWS, "base/...", ERROR],
    "kv/paged": ["kv", "kernels/kv_view.h", *PORT, ROWS, "base/...", ERROR],
    # The model: a plan as data and the device that runs it (model); the host as a device; the loading
    # that makes a plan; the pass.
    "model": ["kernels", "format", "base/...", ERROR],
    "model/host": ["model", "kernels", "base/...", ERROR],
    "model/load": ["model", "format", "kernels", "base/...", ERROR],
    "model/run": ["model/load", "model", "format", "kernels", "base/...", ERROR],

    # A GPU: NVIDIA's driver, loaded when it is asked for, and the kernels that the build made for it.
    # The table of the driver is libvtensor's, so that there is one.
    "gpu/driver": ["vtensor/backend/cuda/cuda_driver.h", "include/vtensor/status.h", "base", ERROR],
    # NVIDIA's NCCL, loaded when several GPUs are asked for.
    "gpu/comm": ["gpu/driver", "vtensor/backend/cuda/cuda_driver.h", "base/...", ERROR],
    "gpu": ["gpu/comm", "gpu/driver", "kernels/cuda", "kernels", "model/device.h", "model/plan.h", "include/vtensor/vmm.h",
            "base/...", ERROR],

    # The engine: each folder defines a part of it; only the files of `engine` itself see all of them.
    "engine/sampling": ["base/...", "include/flexinfer"],
    "engine/record": ["kv/kv.h", "include/flexinfer"],
    "engine/grammar": ["grammar/matcher", "grammar/schema/schema.h", "grammar/syntax", "format", "base/...", "include/flexinfer"],
    "engine/request": ["engine/grammar", "engine/sampling", "grammar/matcher", "kv/kv.h", "model/model.h", "model/pooling.h",
                       "format", "base/...", "include/flexinfer"],
    "engine/sched": ["engine/request", "engine/record", "base/...", "include/flexinfer"],
    "engine/memory": ["engine/sched", "engine/request", "engine/record", "kv/kv.h", "base/...", "include/flexinfer"],
    "engine/draft": ["engine/memory", "engine/sched", "engine/request", "engine/sampling", "engine/record", "kv/kv.h",
                     "model/model.h", "model/device.h", "format", "base/...", "include/flexinfer"],
    "engine": ["engine/draft", "engine/memory", "engine/sched", "engine/request", "engine/grammar", "engine/sampling",
               "engine/record", "grammar/matcher", "gpu/gpu.h", "kv/kv.h", "kv/kv_snapshot.h", "model/device.h", "model/model.h", *PORT,
               "model/pooling.h", "format", "kernels/kv_view.h", "kernels/probe.h", "base/...", "include/flexinfer"],

    # The server: http -> request -> reply; http -> guard, which is policy as data: tenants, keys, names of hosts;
    # work is below all: bytes held and threads that work, without a word of HTTP.
    "server/work": ["base/...", "include/flexinfer"],
    # What the flight recorder holds, as a file for other programs; the bench writes it, too.
    "server/trace": ["base/...", "include/flexinfer"],
    "server/guard": ["base/...", "include/flexinfer"],
    # Lines that hold nobody up; the program logs through it, too.
    "server/log": ["base/...", "include/flexinfer"],
    # Requests as spans of OpenTelemetry, and the thread that sends them.
    "server/spans": ["base/...", "include/flexinfer"],
    "server/metrics": ["server/spans/exporter.h", "server/spans/span.h", "server/work/quota.h", "server/work/workers.h", "base/...", "include/flexinfer"],
    "server/reply": ["server/http_error.h", "output_parser/output_parser.h", "base/...", "include/flexinfer"],
    "server/request": ["server/http_error.h", "output_parser/output_parser.h", "server/work/quota.h", "server/reply", "base/...", "include/flexinfer"],
    "server/endpoint": ["server/http_error.h", "server/trace/chrome_trace.h", "server/work/quota.h", "server/request", "server/reply", "base/...", "include/flexinfer"],
    "server/schema": ["server/http_error.h", "server/request", "server/reply", "base/...", "include/flexinfer"],
    "server/web": ["base/..."],
    "server/http": ["output_parser/output_parser.h", "server/http_error.h", "server/web", "server/guard", "server/spans", "server/log", "server/metrics", "server/work", "server/endpoint", "server/schema", "server/request", "server/reply", "server/server.h", "base/...", "include/flexinfer"],
    "server": ["server/guard/origin.h", "base/...", "include/flexinfer"],

    # The program: cli -> top -> terminal; flexinfer-lab runs over its tables and over the inside of the engine.
    "cli/terminal": ["include/flexinfer/error.h"],
    # `top`: what is known of a server, and how it is shown; without network or screen but for two files.
    "cli/top": ["cli/terminal", "base/...", "include/flexinfer"],
    "cli": ["cli/top", "cli/terminal", "hub/hub.h", "server/server.h", "server/guard/origin.h", "server/log/log.h",
            "server/trace/chrome_trace.h", "format", "base/...", "include/flexinfer"],
    "lab": ["cli", "cli/terminal", "engine/engine.h", "engine/iteration.h", "kv/kv.h", "kv/kv_snapshot.h", "kv/kv_pool.h", "model/model.h",
            "format/gguf/gguf_made.h", "format", *PORT, "base/...", "include/flexinfer"],
}

# Headers of other libraries, and the folders that may use them. Those of the C library may be used everywhere.
SYSTEM = {
    "gnutls/gnutls.h": ["server/http", "hub"],
    "gnutls/crypto.h": ["hub"],
    "curses.h": ["cli/top"],
    "curl/curl.h": ["base/net"],
    "yyjson.h": ["base/json"],
    "pcre2.h": ["format/vocab/lookup"],
    "utf8proc.h": ["format/vocab/...", "format/jinja/..."],
}

# Files of a module, highest first: a file never uses a symbol of one above it, neither directly nor through files that
# are not listed.
ORDER = {
    "engine": ["engine", "api", "engine_snapshot", "iteration", "plan", "admit", "forward", "commit", "sample", "output",
               "mailbox", "drafting", "draft_model", "budget", "kv_alloc", "preempt", "prefix_cache", "sched",
               "request", "request_check", "seq", "record", "draft_control", "ngram"],
}

# Files that may call each other in a cycle: (files, reason).
CYCLES = []

# Global functions that need no second word after the prefix: known terms.
GLOBAL_TERMS = {"fxi_fail", "fxi_expf", "fxi_tanhf", "fxi_erff", "fxi_softplusf", "fxi_exp", "fxi_philox", "fxi_sigmoid"}

# Static functions of one word: names of algorithms and terms that everybody knows.
STATIC_TERMS = {"main", "lowercase", "rope", "swiglu", "softmax", "rmsnorm", "must"}

# Names in documents and comments that are not ours: functions, files and options of other projects, and placeholders.
FOREIGN_NAMES = {"malloc_trim", "cuda.h", "nccl.h", "variant", "prefix_noun_verb", "rm", "keys.txt", "proxy_buffering",
                 "proxy_read_timeout", "chat_completions",
                 "unix-socket"}
