// stats.h - the statistics of an engine: what fx_engine_stats and fx_engine_details return.
#ifndef FXI_ENGINE_STATS_H
#define FXI_ENGINE_STATS_H

#include "engine/record/recorder.h"
#include "kv/kv.h"

#include <pthread.h>

typedef struct fxi_statistics {
    pthread_mutex_t mu; // a leaf
    fx_stats now;       // guarded by mu
    fx_details details; // guarded by mu
    // engine thread: what the flight recorder was told last
    uint64_t n_evicted;
    fx_record memory;
} fxi_statistics;

void fxi_stats_count_request(fxi_statistics *s); // any thread
// A forward pass over n_tok tokens, n_prompt_tok of them from prompts, after which n_generated_tok
// were sampled.
void fxi_stats_count_pass(fxi_statistics *s, int n_tok, int n_prompt_tok, int n_generated_tok);
void fxi_stats_count_failure(fxi_statistics *s, bool device_is_lost); // of a forward pass
// A prompt of n_tok tokens was looked up in the prefix cache, which had n_cached_tok of them.
void fxi_stats_count_lookup(fxi_statistics *s, int n_tok, int n_cached_tok);
void fxi_stats_count_preemption(fxi_statistics *s, bool is_swap);
// n drafts were computed; the i-th had n_accepted[i] tokens accepted, of n_tok in all of them.
void fxi_stats_count_drafts(fxi_statistics *s, const int *n_accepted, int n, int n_tok);
// What the KV manager says at the end of an iteration, here and in the flight recorder. Engine
// thread.
void fxi_stats_publish_kv(fxi_statistics *s, const fxi_journal *j, const fxi_kv *kv,
                          const fxi_kv_stats *now);

#endif
