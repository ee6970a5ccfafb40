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
LAW = {
    "include/vtensor": [],
    "include/flexinfer": [],
    "vtensor": ["include/vtensor"],
    "base": [ERROR],
    "format": ["base", "format/jinja/marked.h", "format/vocab", ERROR],
    "format/template": ["base", "format", "format/jinja/jinja.h", "format/jinja/marked.h", ERROR],
    "format/jinja": ["base", "format/jinja/library", "format/jinja/read", "format/jinja/run", "format/jinja/tree", ERROR],
    "format/jinja/tree": ["base", "format/jinja/jinja.h", ERROR],
    "format/jinja/read": ["base", "format/jinja/tree", ERROR],
    "format/jinja/run": ["base", "format/jinja/tree", ERROR],
    "format/jinja/library": ["base", "format/jinja/run", "format/jinja/tree", ERROR],
    "format/vocab": ["base", "format", ERROR],
    "kernels": ["base", "kernels/cpu/cpu.h", "kernels/ref/ref.h", "kernels/ref/expf.h", ERROR],
    "kernels/ref": ["base", "kernels", ERROR],
    "kernels/cpu": ["base", "kernels", "kernels/ref/expf.h", ERROR],
    "kv": ["base", "include/vtensor", "kernels/kv_view.h", ERROR],
    "model": ["base", "format", "kernels", ERROR],
    "engine": ["base", "format", "format/jinja/marked.h", "format/vocab/vocab_open.h", "kv", "model",
               "kernels/kv_view.h", "kernels/probe.h", "include/flexinfer"],
    "server": ["base", "include/flexinfer"],
    "cli": ["base", "format", "format/vocab/vocab_open.h", "server/server.h", "include/flexinfer"],
}

# Headers of other libraries, and the shelves that may use them. Those of the C library are everyone's.
SYSTEM = {
    "microhttpd.h": ["server/..."],
    "jansson.h": ["format/...", "server/...", "cli/..."],
    "pcre2.h": ["format/vocab/..."],
    "utf8proc.h": ["format/..."],
}

# Files of a room, highest first: a file never uses a symbol of one above it, neither directly nor through files that
# are not listed.
ORDER = {
    "engine": ["turn", "plan", "step", "settle", "answer", "room", "cache", "lists", "group"],
}

# Files that may call each other in a circle: (files, reason).
CIRCLES = [
    ({"rtree.c", "rtree_evict.c"}, "one structure in two files: eviction changes the tree, whose changes may evict"),
    ({"jinja_eval.c", "jinja_exec.c"}, "expressions call macros, and macros run statements, which evaluate expressions"),
]

# Global functions that need no second word behind the prefix: known terms.
GLOBAL_TERMS = {"fxi_fail", "fxi_expf", "fxi_exp", "fxi_philox"}

# Static functions of one word: names of algorithms and terms that everybody knows.
STATIC_TERMS = {"main", "heapify", "lowercase", "rope", "swiglu", "softmax", "rmsnorm", "must"}

# Names in documents and comments that are not ours: functions, files and options of other projects.
FOREIGN_NAMES = {"malloc_trim", "cuda.h", "variant"}
