// test_vt_steady.c - the steady state of a server on a device: the budget is full of prefixes that
// nobody uses, sequences decode, end, are recorded, and others arrive. Chunks go from the evicted
// to the growing: none is created, none destroyed, and no operation waits for the device. And the
// load of a server that keeps no prefixes: memory follows it.
#include "assert_vt.h"
#include "suite.h"

#include "standin_assert.h"
#include "vmm_fake.h"
#include "vtensor/vtensor.h"

enum { N_SEQ = 8, CHUNK_TOK = 16, N_CHUNK = 200, PROMPT = 40, WARM_UP = 300, N_STEP = 1500 };

typedef struct run {
    vt_vmm *vmm;
    bool on_standin;
    size_t page;
    vt_manager *m;
    vt_domain *d;
    vt_seq *s[N_SEQ];
    uint32_t end_tok[N_SEQ];
    uint32_t tok[512];
    uint64_t rng, n_wait, n_evicted;
} run;

static run r;

static uint32_t draw(uint32_t below)
{
    r.rng = r.rng * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((r.rng >> 33) % below);
}

static void run_open(bool on_standin, uint32_t n_spare)
{
    vt_vmm_cuda_config cuda = {.device = 0};
    r = (run){.rng = 3, .on_standin = on_standin};
    if (on_standin) {
        standin_reset();
        standin_use_context(0);
        assert_ok(vt_vmm_cuda_open(&cuda, &r.vmm, NULL));
    } else {
        assert_non_null(r.vmm = vt_fake_open());
        vt_fake_set_async(r.vmm, true);
    }
    r.page = r.vmm->ops->granularity(r.vmm);
    vt_config cfg = vt_config_default();
    cfg.n_plane = 2;
    cfg.row_bytes = r.page / CHUNK_TOK;
    cfg.max_tok = 512;
    cfg.max_seq = N_SEQ + 1;
    cfg.slice_bytes = r.page;
    cfg.budget_bytes = N_CHUNK * 2 * r.page;
    if (n_spare) cfg.spare_high_bytes = n_spare * 2 * r.page;
    cfg.mapper = VT_MAPPER_OWNER;
    cfg.vmm = r.vmm;
    assert_ok(vt_manager_create(&cfg, &r.m));
    assert_ok(vt_domain_open(r.m, "steady", 6, &r.d));
}

// The device ends what it was given.
static void device_ends(void)
{
    uint64_t ticket;
    if (r.on_standin) {
        standin_settle();
        return;
    }
    assert_ok(r.vmm->ops->fence(r.vmm, &ticket));
    vt_fake_finish(r.vmm, ticket);
}

static uint64_t waits_now(void)
{
    return r.on_standin ? standin_waits() : vt_fake_look(r.vmm).n_wait;
}

static void step_all(void)
{
    uint32_t n_left = 1;
    device_ends();
    assert_ok(vt_step(r.m, VT_AHEAD_SLACK, CHUNK_TOK, 0));
    while (n_left > 0) vt_work(r.m, 8, &n_left);
}

static void new_prompt(void)
{
    for (uint32_t t = 0; t < 512; t++) r.tok[t] = draw(100000);
}

static void fill_budget(void)
{
    vt_stats st;
    do {
        vt_seq *s;
        new_prompt();
        assert_ok(vt_seq_create(r.m, PROMPT, &s));
        assert_ok(vt_seq_extend(s, PROMPT));
        assert_ok(vt_seq_record(s, r.d, r.tok, PROMPT, NULL));
        vt_seq_release(s);
        step_all();
        vt_get_stats(r.m, &st);
    } while (st.prefix_evicted == 0);
}

static void seq_arrive(uint32_t i)
{
    uint32_t n_hit;
    new_prompt();
    uint64_t had = waits_now();
    assert_ok(vt_seq_match(r.d, r.tok, PROMPT, 0, &r.s[i], &n_hit));
    assert_ok(vt_seq_extend(r.s[i], PROMPT));
    r.n_wait += waits_now() - had;
    r.end_tok[i] = PROMPT + 10 + draw(150);
}

static void seq_end(uint32_t i)
{
    vt_seq *child;
    uint64_t had = waits_now();
    assert_ok(vt_seq_record(r.s[i], r.d, r.tok, vt_seq_len(r.s[i]), NULL));
    assert_ok(vt_seq_fork(r.s[i], vt_seq_len(r.s[i]) - 3, &child));
    assert_ok(vt_seq_truncate(child, 20));
    vt_seq_release(child);
    vt_seq_release(r.s[i]);
    r.n_wait += waits_now() - had;
}

static void decode_one(uint32_t i)
{
    uint64_t had = waits_now();
    assert_ok(vt_seq_extend(r.s[i], vt_seq_len(r.s[i]) + 1));
    r.n_wait += waits_now() - had;
    if (vt_seq_len(r.s[i]) < r.end_tok[i]) return;
    seq_end(i);
    step_all();
    seq_arrive(i);
}

static void verify_steady(const vt_stats *before, uint64_t n_create, uint64_t n_release)
{
    vt_stats st;
    vt_get_stats(r.m, &st);
    assert_int_equal(st.create_calls, before->create_calls);
    assert_int_equal(st.destroy_calls, before->destroy_calls);
    assert_true(st.prefix_evicted > before->prefix_evicted + 100);
    assert_true(st.map_calls > before->map_calls + 100);
    assert_int_equal(r.n_wait, 0);
    if (!r.on_standin) return;
    assert_int_equal(standin_calls("cuMemCreate"), n_create);
    assert_int_equal(standin_calls("cuMemRelease"), n_release);
}

static void run_steady(bool on_standin)
{
    vt_stats before = {0};
    uint64_t n_create = 0, n_release = 0;
    run_open(on_standin, 0);
    fill_budget();
    for (uint32_t i = 0; i < N_SEQ; i++) seq_arrive(i);
    for (uint32_t t = 0; t < WARM_UP + N_STEP; t++) {
        if (t == WARM_UP) {
            vt_get_stats(r.m, &before);
            n_create = on_standin ? standin_calls("cuMemCreate") : 0;
            n_release = on_standin ? standin_calls("cuMemRelease") : 0;
        }
        for (uint32_t i = 0; i < N_SEQ; i++) decode_one(i);
        step_all();
    }
    verify_steady(&before, n_create, n_release);
    const char *what = NULL;
    if (vt_check(r.m, &what) != VT_OK) fail_msg("vt_check: %s", what);
    vt_domain_close(r.d);
    vt_manager_destroy(r.m);
    if (on_standin) standin_assert_empty();
}

FX_TEST(test_nothing_is_created_or_destroyed_on_the_fake)
{
    run_steady(false);
}

FX_TEST(test_nothing_is_created_or_destroyed_on_cuda)
{
    run_steady(true);
}

// Without prefixes: long and short sequences come and go in spans that once held others. What the
// spans keep stays near the mark, however many long ones there have been.
static void run_by_turns(bool on_standin)
{
    enum { N_SPARE = 12, MOST = 2 * N_SPARE };
    vt_stats st;
    run_open(on_standin, N_SPARE);
    for (uint32_t t = 0; t < 400; t++) {
        const uint32_t i = t % N_SEQ, len = draw(8) == 0 ? 300 + draw(200) : 1 + draw(40);
        if (r.s[i]) vt_seq_release(r.s[i]);
        step_all();
        assert_ok(vt_seq_create(r.m, len, &r.s[i]));
        assert_ok(vt_seq_extend(r.s[i], len));
        step_all();
        vt_get_stats(r.m, &st);
        if (t > 100) assert_in_range(st.spare_bytes, 0, MOST * 2 * r.page);
    }
    assert_true(st.map_calls > 100);
    vt_domain_close(r.d);
    vt_manager_destroy(r.m);
    if (on_standin) standin_assert_empty();
}

FX_TEST(test_memory_follows_the_load_on_the_fake)
{
    run_by_turns(false);
}

FX_TEST(test_memory_follows_the_load_on_cuda)
{
    run_by_turns(true);
}

FX_RUN(test_vt_steady)
