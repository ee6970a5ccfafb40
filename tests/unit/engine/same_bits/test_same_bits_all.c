// test_same_bits_all.c - all combinations of {chunks of each size, a warm prefix}, batch, threads
// and preemption on a small model; see test_same_bits.c.
#include "unit/cmocka_all.h"

#include "unit/engine/same_bits/variants.h"

enum { N_PROMPT = 66, N_GEN = 5 };

// Chunks of each size, and a warm prefix.
static const variant begins[] = {
    {.chunk = 0}, {.chunk = 1}, {.chunk = 2}, {.chunk = 3}, {.chunk = 2, .start = WARM_MID_CHUNK},
};

FX_TEST(test_all_combinations)
{
    enum { N_BEGIN = sizeof begins / sizeof *begins };
    enum { N_ALL = N_BEGIN * N_BATCH_LEVEL * N_THREAD_LEVEL * N_PREEMPT_LEVEL };
    rig *r = rig_open(model_is_present(STORIES) ? STORIES : TINY, N_PROMPT, N_GEN);
    for (int i = 0; i < N_ALL; i++) {
        variant v = begins[i % N_BEGIN];
        v.batch = i / N_BEGIN % N_BATCH_LEVEL;
        v.thread = i / (N_BEGIN * N_BATCH_LEVEL) % N_THREAD_LEVEL;
        v.preempt = i / (N_BEGIN * N_BATCH_LEVEL * N_THREAD_LEVEL);
        v.kind = i % N_KIND;
        v.draft = (enum drafts)(i % N_DRAFTS);
        rig_compare(r, &v);
    }
    rig_check_preemptions(r);
    rig_close(r);
}

FX_RUN(test_same_bits_all)
