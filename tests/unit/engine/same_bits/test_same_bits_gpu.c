// test_same_bits_gpu.c - the same bits on a GPU: an engine on cuda:0 answers as the host does, and
// one on two that share the model out gives the same answers whatever happens, whoever manages its
// caches.
//
// Under what the engine does to a request: choices and beams are forked, sequences preempted,
// swapped and computed again, prefixes found; see test_same_bits.c. The GPU is the stand-in for the
// driver, with the kernels compiled for the CPU.
//
// A sample: of the other managers the first and the last, each with half of the kinds of requests;
// of the pairs of variants a third in the host's order of sums, another by tensor cores on one
// device, and the last on two. With FX_TEST_LONG all.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "standin/standin.h"
#include "unit/engine/same_bits/variants.h"

enum { N_PROMPT = 20, N_GEN = 4, N_LEVEL = 3 };

static rig *open_managed(int model, const rig_device *on)
{
    rig *r = rig_open_device(model, on, N_PROMPT, N_GEN);
    r->settle = standin_settle;
    assert_string_equal(r->eng[0]->info.device, on->name);
    return r;
}

static rig *open_gpus(int model, const char *devices, const char *math)
{
    return open_managed(model, &(rig_device){devices, math, NULL});
}

static rig *open_gpu(int model, const char *math)
{
    return open_gpus(model, "cuda:0", math);
}

static void close_gpu(rig *r)
{
    rig_close(r);
    const standin_report left = standin_look();
    if (left.n_breach) fail_msg("%s", left.breach);
    assert_false(left.n_alloc | left.n_pinned | left.n_module | left.n_stream | left.n_context);
}

FX_TEST(test_an_engine_gives_the_hosts_answers)
{
    char what[128];
    rig *host = rig_open(TINY, N_PROMPT, N_GEN), *r = open_gpu(TINY, "cpu-exact");
    for (int kind = 0; kind < N_KIND; kind++)
        if (!bits_same_answer(rig_want(r, kind), rig_want(host, kind), what))
            fail_msg("%s, kind %d: %s", r->name, kind, what);
    rig_compare_some_pairs(r, N_LEVEL, 3, 0);
    close_gpu(r);
    rig_close(host);
}

FX_TEST(test_windows_give_the_hosts_answers)
{
    char what[128];
    rig *host = rig_open(WINDOWED, N_PROMPT, N_GEN), *r = open_gpu(WINDOWED, "cpu-exact");
    if (!bits_same_answer(rig_want(r, BEAMS), rig_want(host, BEAMS), what))
        fail_msg("%s: %s", r->name, what);
    for (int i = 0; i < N_LEVEL; i++) // chunks, company and preemptions of its own
        rig_compare(r, &(variant){.kind = BEAMS, .start = i, .chunk = i, .preempt = i + 1});
    close_gpu(r);
    rig_close(host);
}

// By tensor cores: bits of its own, the same whatever happens.
FX_TEST(test_law_gives_the_same_answers)
{
    rig *r = open_gpu(TINY_BF16, "batch-invariant");
    rig_compare_some_pairs(r, N_LEVEL, 3, 1);
    rig_compare(r, &(variant){.kind = BEAMS, .chunk = 2, .batch = 1, .preempt = 2});
    close_gpu(r);
}

// Each has its heads and its part of the cache; chunks, company, preemptions, swaps and prefixes
// change no bit. With one device in the list it is that device.
FX_TEST(test_two_devices_give_the_same_answers)
{
    char what[128];
    rig *alone = open_gpu(TINY_BF16, "batch-invariant"),
        *one = open_gpus(TINY_BF16, "cuda:1", "batch-invariant");
    if (!bits_same_answer(rig_want(one, BEAMS), rig_want(alone, BEAMS), what)) fail_msg("%s", what);
    rig_close(one);
    close_gpu(alone);
    rig *r = open_gpus(TINY_BF16, "cuda:0,cuda:1", "batch-invariant");
    rig_compare_some_pairs(r, N_LEVEL, 3, 2);
    rig_compare(r, &(variant){.kind = BEAMS, .chunk = 2, .batch = 1, .preempt = 2});
    close_gpu(r);
    r = open_gpus(TINY, "cuda:0,cuda:1", "cpu-exact");
    for (int i = 0; i < N_LEVEL; i++)
        rig_compare(r, &(variant){.kind = BEAMS, .start = i, .chunk = i, .preempt = i + 1});
    close_gpu(r);
}

// Whoever manages the parts of the cache. Each has the answers of the first manager on the same
// devices, and gives them whatever happens.
FX_TEST(test_managers_give_the_same_answers_on_two_devices)
{
    static const char *const managers[] = {"vattention", "vattention-mega", "vattention-start",
                                           "paged"};
    char what[128];
    rig *reference = open_gpus(TINY_BF16, "cuda:0,cuda:1", "batch-invariant");
    for (size_t i = 0; i < sizeof managers / sizeof *managers; i++) {
        if (!suite_takes(i, 3)) continue;
        rig *r =
            open_managed(TINY_BF16, &(rig_device){"cuda:0,cuda:1", "batch-invariant", managers[i]});
        for (int kind = 0; kind < N_KIND; kind++)
            if (suite_takes((size_t)kind + i, 2) &&
                !bits_same_answer(rig_want(r, kind), rig_want(reference, kind), what))
                fail_msg("%s, kind %d: %s", managers[i], kind, what);
        for (int k = 0; k < N_LEVEL; k++)
            rig_compare(r, &(variant){.kind = BEAMS, .start = k, .chunk = k, .preempt = k + 1});
        rig_close(r);
    }
    close_gpu(reference);
}

FX_RUN(test_same_bits_gpu)
