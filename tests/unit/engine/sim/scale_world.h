// scale_world.h - the engine at any size: the real scheduler and the real manager over memory that
// is only counted and a model that computes nothing (lab/simulated_memory.h), so that 10,000
// sequences live beside a prefix tree of 1,000,000 nodes and contexts of 1,000,000 tokens. The
// clock is a counter, and nothing depends on how long something takes.
//
// What an iteration costs is counted: the manager and what an iteration consists of are compiled
// once more for this test, with a call in each block of code (-fsanitize-coverage=trace-pc).
//
// If something fails, the first line that says what is in `what`.
#ifndef TESTS_ENGINE_SCALE_WORLD_H
#define TESTS_ENGINE_SCALE_WORLD_H

#include "lab/replay.h"

enum { SCALE_BLOCK_TOK = 64 }; // tokens of a node of the prefix tree, which fill a chunk

typedef struct scale_size {
    size_t chunk_bytes; // 64 KiB or 2 MiB
    int n_seq;          // that run together
    int n_node;         // of the prefix tree, at least
    int ctx_tok;        // of the longest prompt, which those nodes consist of
    uint64_t kv_bytes;  // 0: 8 TiB
    bool keeps_up; // the manager's thread does in an iteration all that it is given, not some jobs
} scale_size;

typedef struct scale_world scale_world;

// A request, and what is known of its answer so far.
typedef struct scale_ask {
    struct scale_ask *next; // of those that have not ended
    scale_world *w;
    uint64_t id;
    int32_t last_tok;
    int n_prompt, max_tok, n_got, n_cached;
    uint64_t asked_at; // iteration
    bool is_cancelled;
} scale_ask;

struct scale_world {
    fxi_replay r;
    fxi_replay_options opt;
    fxi_geometry geometry;
    fxi_simulated_device device;
    scale_size size;
    int n_doc; // documents that the prefix cache has
    int32_t *tok;
    uint64_t clock_us, iteration, n_made, n_asked, n_ended, n_cut;
    uint64_t longest; // iterations that a request took beyond those of its own tokens
    const char *wrong;
};

// With the documents recorded, and nothing alive. Errors end the test.
void scale_open(scale_world *w, scale_size size);
void scale_close(scale_world *w);

// Short requests come and go, until what is made ready for newcomers is what such need.
void scale_forget_long(scale_world *w);

// A request for max_tok tokens, behind n_doc_tok tokens of a document and n_own_tok that nobody
// else has. Its id.
uint64_t scale_ask_for(scale_world *w, int doc, int n_doc_tok, int n_own_tok, int max_tok);

// One iteration. Returns the blocks of code that it ran.
uint64_t scale_iteration(scale_world *w);

uint64_t scale_work(void); // blocks so far

// What always holds: tokens are right, budget, mappings; `all`: and vt_check. Ends the test if not.
void scale_check(scale_world *w, bool all);

#endif
