// engine.h - what an engine is made of, and which thread may touch it.
//
// Each part belongs to the folder that defines it, and most functions see their part only:
//
//   record/     journal: the clock and the flight recorder; statistics
//   grammar/    what answers may look like, and the thread that works on it
//   request/    requests and sequences as data; what requests are checked against (service)
//   sched/      which requests wait and run, and what each client has been served
//   memory/     caches of sequences: growing, preemption, budget, prefix cache
//   draft/      drafted tokens: where they come from, how many are worth computing
//   sampling/   from a row of logits to a token
//
// The files of this folder see the whole engine. Calls among them go down this list only:
//
//   engine, api         the life of an engine and its thread, loading, the small public calls
//   iteration           the engine's loop, the one place where requests end
//   plan, admit         which sequences compute what in the next forward pass
//   forward             one forward pass and what follows from it
//   commit, sample      its results: tokens sampled and appended, beams chosen and forked
//   output              the events of a request
//   engine_snapshot     the state as data for subscribers, taken between iterations
//   mailbox             what other threads leave for the engine thread
//
// Everything belongs to the engine thread, except for the atomics and the fields that are marked as
// guarded by a mutex or constant once the engine is open.
#ifndef FXI_ENGINE_H
#define FXI_ENGINE_H

#include "engine/draft/drafting.h"
#include "engine/engine_snapshot.h"
#include "engine/grammar/grammars.h"
#include "engine/mailbox.h"
#include "engine/memory/kv_memory.h"
#include "engine/record/record.h"
#include "engine/sched/sched.h"
#include "flexinfer/flexinfer.h"
#include "format/chat.h"
#include "model/model.h"

enum {
    FXI_MIN_HEADROOM_TOK = 32, // of sched.headroom_tok
    FXI_MASK_SPEND = 4000,     // of sched.mask_spend: 10 to 40 us
    FXI_PREFIX_PASS = 16,      // of fx_options.prefix_pass
};

// What tests, and replays of traces, set before the engine is loaded or fitted.
typedef struct fxi_hooks {
    struct vt_vmm *vmm; // memory of the KV manager; NULL: the device's
    int tile_tok;       // rows of the cache that the model's kernels read at once
    int ahead_tok;      // memory to prefetch for each sequence; 0: none
    bool single_thread; // the KV manager starts no thread
    bool is_unguarded;  // shared KV memory can be written
} fxi_hooks;

// What an idle engine has done so far (iteration.c).
typedef struct fxi_idle {
    uint64_t since_us; // 0: busy
    int n_done;        // actions taken since then
    uint64_t mark;     // how far memory is on its way back to the system,
    int wait_ms;       // and how long until that is looked at again
    // batching delay
    bool is_delaying; // waiting requests found the engine idle, and are delayed
    uint64_t delay_since_us;
} fxi_idle;

struct fx_engine {
    // constant once open
    fx_options opt; // defaults filled in
    fx_model_info info;
    fxi_hooks hooks;
    fxi_draft_hooks draft_hooks;
    fxi_vocab *vocab;
    fxi_chat *chat, *pair_chat; // pair_chat NULL: pairs of texts follow each other
    fxi_pool *pool;
    struct fxi_device *device; // of model, kv and what passes return
    bool is_on_host;           // its memory is the host's
    fxi_model *model;
    fxi_kv *kv;
    fxi_draft_model *draft_model; // NULL: there is none
    pthread_t thread;
    pid_t pid; // of the process that opened it

    // parts, whose headers say which threads may touch them
    fxi_journal journal;
    fxi_service service;
    fxi_grammars grammars;
    fxi_mailbox mailbox;
    fxi_statistics stats;
    fxi_snapshots snapshots;
    fxi_sched sched;
    fxi_memory memory;
    fxi_drafting *drafting;   // NULL: it does not draft
    struct fxi_forward *pass; // iteration.h
    fxi_idle idle;
    int n_planned_tok; // in the last iteration
    struct fxi_prompt_share
        *prompt; // [max_seq] plan.c: the prompts of the pass that was planned last
    int n_prompt;

    pthread_mutex_t step_mu;   // held while on_step runs
    void (*on_step)(void *ud); // guarded by step_mu
    void *on_step_ud;
};

static inline uint64_t fxi_now_us(const fx_engine *eng)
{
    return fxi_journal_us(&eng->journal);
}

// ---- engine.c ----------------------------------------------------------------------------------

// What the engine's thread does: iterations until the mailbox is closing, then ends all requests.
void fxi_engine_run(fx_engine *eng);

// Gives a zeroed engine its clock, its locks and the settings that are not options.
fx_status fxi_engine_init(fx_engine *eng, fx_error *err);
// Loads everything that the options name; neither `opt` nor its strings are needed afterwards.
fx_status fxi_engine_load(fx_engine *eng, const fx_options *opt, fx_error *err);
// The last part of that, once model and vocabulary are loaded: end tokens, KV manager, scratch.
fx_status fxi_engine_fit(fx_engine *eng, fx_error *err);
// Frees an engine, including one that is only partly initialised or loaded.
void fxi_engine_unload(fx_engine *eng);

// ---- api.c ------------------------------------------------------------------------------

// Fills what follows from the file and the model, loaded or not; the context is the trained one.
// FX_EFORMAT: the vocabulary, which lies in `path`, has more tokens than the embedding rows.
fx_status fxi_info_check_vocab(const fx_model_info *info, const fxi_vocab *v, const char *path,
                               fx_error *err);
void fxi_info_fill(fx_model_info *info, const fxi_gguf *g, const fxi_model *m, const char *path);

// ---- model_name.c -----------------------------------------------------------------------

// The name of a model's file or folder, cut to n_out bytes with its NUL.
void fxi_model_name(const char *path, char *out, size_t n_out);

#endif
