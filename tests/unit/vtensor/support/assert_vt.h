// assert_vt.h - what every test of libvtensor may use: cmocka's asserts, asserts on the status that
// libvtensor returns, and small helpers.
#ifndef VT_TEST_ASSERT_VT_H
#define VT_TEST_ASSERT_VT_H

#include <stdlib.h>

#include "unit/cmocka_all.h"
#include "vtensor/vtensor.h"

#define assert_status(want, got) assert_string_equal(vt_status_name(want), vt_status_name(got))
#define assert_ok(expr)          assert_status(VT_OK, expr)

// VT_FIXTURE(setup) { .. }: what is done before or after a test; a failing assert ends it.
#define VT_FIXTURE(name)                                                          \
    static void name##_run(void);                                                 \
    __attribute__((unused)) static int name(__attribute__((unused)) void **state) \
    {                                                                             \
        name##_run();                                                             \
        return 0;                                                                 \
    }                                                                             \
    static void name##_run(void)

// A call, or what is done before or after it, under a name: for tables of them.
#define VT_CALL(name, call)     \
    static vt_status name(void) \
    {                           \
        return call;            \
    }
#define VT_DO(name, call)  \
    static void name(void) \
    {                      \
        call;              \
    }

// Runs a test once for each case of a table, which is its state and begins with its name.
static inline int run_cases(const char *group, CMUnitTestFunction test, const void *cases,
                            size_t n_case, size_t case_bytes)
{
    struct CMUnitTest tests[32] = {{0}};
    assert_true(n_case <= 32);
    for (size_t i = 0; i < n_case; i++) {
        const char *at = (const char *)cases + i * case_bytes;
        tests[i] = (struct CMUnitTest){*(const char *const *)at, test, NULL, NULL, (void *)at};
    }
    return cmocka_run_group_tests_name(group, tests, NULL, NULL);
}
#define RUN_CASES(suite, test_each, cases) \
    run_cases(#suite, test_each, cases, sizeof(cases) / sizeof *(cases), sizeof *(cases))

// Runs the tests that the file lists once in each layout, with setup and teardown around every one.
static inline int run_in_both_layouts(const char *name, vt_layout *layout, CMFixtureFunction setup,
                                      CMFixtureFunction teardown)
{
    int n_failed = 0;
    for (int i = 0; i < n_listed_test; i++) {
        listed_tests[i].setup_func = setup;
        listed_tests[i].teardown_func = teardown;
    }
    for (int packed = 0; packed < 2; packed++) {
        *layout = packed ? VT_LAYOUT_PACKED : VT_LAYOUT_SPLIT;
        print_message("%s, %s\n", name, packed ? "packed" : "split");
        n_failed += cmocka_run_group_tests_name(name, listed_tests, NULL, NULL);
    }
    return n_failed;
}

// 2 planes x 128 bytes, 100 tokens, 2 sequences and 1 MiB, on the host.
static inline vt_config small_config(void)
{
    vt_config c = vt_config_default();
    c.n_plane = 2;
    c.row_bytes = 128;
    c.max_tok = 100;
    c.max_seq = 2;
    c.budget_bytes = 1 << 20;
    return c;
}

static inline uint64_t next_random(uint64_t *seed)
{
    *seed = *seed * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
    return *seed >> 33;
}

// A number from the environment, or a default.
static inline uint64_t env_or(const char *name, uint64_t otherwise)
{
    const char *text = getenv(name);
    return text ? strtoull(text, NULL, 0) : otherwise;
}

// What vt_stats says is held: a call that fails must leave it as it was. Counters have moved, and
// what the call has made stays spare.
static inline vt_stats gauges_of(vt_stats st)
{
    return (vt_stats){.budget_bytes = st.budget_bytes,
                      .chunks_owned = st.chunks_owned,
                      .chunks_shared = st.chunks_shared,
                      .chunks_cached = st.chunks_cached,
                      .chunks_swapped = st.chunks_swapped,
                      .live_bytes = st.live_bytes,
                      .slack_bytes = st.slack_bytes,
                      .seqs = st.seqs,
                      .prefix_nodes = st.prefix_nodes,
                      .prefix_tok = st.prefix_tok};
}

// Swaps a sequence and waits until it has arrived.
static inline vt_status swap_out_now(vt_seq *s)
{
    vt_status st = vt_seq_swap_out(s);
    return st == VT_BUSY ? vt_seq_wait(s) : st;
}

static inline vt_status swap_in_now(vt_seq *s)
{
    vt_status st = vt_seq_swap_in(s);
    return st == VT_BUSY ? vt_seq_wait(s) : st;
}

#endif
