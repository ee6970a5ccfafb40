// test_same_bits_gpu.c - the same bits on a GPU: an engine on cuda:0 answers as the host does.
//
// Under what the engine does to a request: choices and beams are forked, sequences preempted,
// swapped and computed again, prefixes found; see test_same_bits.c. The GPU is the stand-in for the
// driver, with the kernels compiled for the CPU.
#include "unit/cmocka_all.h"

#include "standin/standin.h"
#include "unit/engine/same_bits/variants.h"

enum { N_PROMPT = 24, N_GEN = 5, N_LEVEL = 3 };

static void test_an_engine_on_a_gpu(void **state)
{
    (void)state;
    static const int on[] = {TINY, WINDOWED};
    char what[128];
    for (int i = 0; i < 2; i++) {
        rig *host = rig_open(on[i], N_PROMPT, N_GEN);
        rig *r = rig_open_device(on[i], "cuda:0", N_PROMPT, N_GEN);
        r->settle = standin_settle;
        assert_string_equal(r->eng[0]->info.device, "cuda:0");
        for (int kind = 0; kind < N_KIND; kind++)
            if (!bits_same_answer(rig_want(r, kind), rig_want(host, kind), what))
                fail_msg("%s, kind %d: %s", r->name, kind, what);
        rig_compare_pairs(r, N_LEVEL);
        rig_close(r);
        rig_close(host);
    }
    const standin_report left = standin_look();
    if (left.n_breach) fail_msg("%s", left.breach);
    assert_false(left.n_alloc | left.n_pinned | left.n_module | left.n_stream | left.n_context);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_an_engine_on_a_gpu)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
