// variants.h - one request under every treatment by the engine.
//
// A variant is one level on each of seven axes: tokens of the prompt in a step, sequences in the
// batch, threads, how it is preempted at every step, what is cached when it starts, what it asks
// for, and what is drafted for it and its company. Its events are compared with those of the same
// request alone, cold, in one piece on one thread. Before that, after every iteration, the rows of
// its caches are compared with the ledger (bits.h), so that a failure names the first layer that
// differs.
#ifndef TESTS_ENGINE_VARIANTS_H
#define TESTS_ENGINE_VARIANTS_H

#include "unit/engine/same_bits/drafters.h"

enum { N_CHUNK_LEVEL = 4, N_BATCH_LEVEL = 3, N_THREAD_LEVEL = 2, N_PREEMPT_LEVEL = 4 };
enum start { COLD, WARM_MID_CHUNK, WARM_BY_ALL, BESIDE_TWIN, WARM_BY_FEW, WARM_BY_64, NO_CACHE };
enum kind { GREEDY, SEEDED, FORKS, BEAMS, PROMPT_PROBS, BEST_OF, ALL_RULES };
enum { N_START = NO_CACHE + 1, N_KIND = ALL_RULES + 1 };

// Indices into the tables in variants.c. All zero: how the reference is made.
typedef struct variant {
    int chunk, batch, thread, preempt, start, kind;
    enum drafts draft;
} variant;

enum { // models
    TINY,
    STORYTELLER,
    STORIES,
    STORYTELLER_Q8_KV,
    TINY_F32_KV,
    TINY_BF16,
    WINDOWED,
    LATENT
};
// False, with a message, if the model is not in the repository and its file is missing.
bool model_is_present(int model);

enum { RIG_MAX_PROMPT = 600, RIG_CTX_TOK = 1024, RIG_MAX_GEN = 24 };

// One model, with an engine for each number of threads.
typedef struct rig {
    const char *name;
    fx_engine *eng[N_THREAD_LEVEL];
    bits_ledger *ledger;
    void (*settle)(void); // before caches are read: what the device still copies is done; NULL
    int32_t prompt[RIG_MAX_PROMPT];
    int n_prompt, n_gen;
    fx_grammar *grammar[N_THREAD_LEVEL]; // of each engine, for ALL_RULES
    bits_answer want[N_KIND];            // rig_want
    drafter drafter;
} rig;

// Prompts of n_prompt tokens, n_gen to be generated.
rig *rig_open(int model, int n_prompt, int n_gen);
// The same over memory that this makes, once for each engine, which then owns it.
typedef struct vt_vmm *memory_maker(void);
rig *rig_open_over(int model, memory_maker *make_memory, int n_prompt, int n_gen);
// The same with this KV manager, whose memory is allocated at start: not more than it needs.
rig *rig_open_managed(int model, const char *manager, int n_prompt, int n_gen);
// The same on this device, which has its caches, too, with this arithmetic (fx_options.gpu_math)
// and this KV manager.
typedef struct rig_device {
    const char *name, *math, *manager; // manager NULL: the first one
} rig_device;
rig *rig_open_device(int model, const rig_device *on, int n_prompt, int n_gen);
// The model of a file, with its own context. path: kept as the rig's name
rig *rig_open_file(const char *path, int n_prompt, int n_gen);
void rig_close(rig *r);
// The reference: the answer to this kind of request when all levels are zero.
const bits_answer *rig_want(rig *r, int kind);
fx_request rig_request(const rig *r, int kind, bits_answer *out);
void rig_make_cold(fx_engine *eng);
// Runs the variant; fails the test with the first difference, if there is one.
void rig_compare(rig *r, const variant *v);
// Runs rows in which any two axes take all pairs of their first n_level levels; n_level is prime.
void rig_compare_pairs(rig *r, int n_level);
// A sample of these rows, one of `every`; with another `first` others. All with FX_TEST_LONG.
void rig_compare_some_pairs(rig *r, int n_level, int every, int first);
void rig_check_preemptions(const rig *r); // there were many, of both kinds
void rig_check_drafts(const rig *r);      // there were many, right and wrong ones

#endif
