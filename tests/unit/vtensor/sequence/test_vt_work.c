// test_vt_work.c - calls cost what they touch. A prompt that is recorded bit by bit costs what it
// is long: each record compares the blocks that are new, and none of those before; where the tokens
// after them may have changed, it begins earlier. A new sequence looks at a few idle spans, however
// many there are. A step looks at the spans that are due: counted with many sequences that rest.
// vt_check says that no other has anything to do (invariant 12).
#include "assert_vt.h"

#include "family.h"
#include "suite.h"
#include "vmm_fake.h"
#include "vtensor/core/manager.h"
#include "vtensor/operations/operations.h"

enum { N_BLOCK = 200, ROW_BYTES = 128, BLOCK_TOK = 32, N_SEQ = 1000, MAX_LOOK = 64 };

static uint32_t all_tok[N_BLOCK * BLOCK_TOK];
static uint64_t n_looked; // blocks looked for

vti_node *__real_vti_child_like(const vti_node *n, const uint32_t *t, uint32_t n_tok,
                                uint32_t *n_same);
vti_node *__wrap_vti_child_like(const vti_node *n, const uint32_t *t, uint32_t n_tok,
                                uint32_t *n_same);
vti_node *__wrap_vti_child_like(const vti_node *n, const uint32_t *t, uint32_t n_tok,
                                uint32_t *n_same)
{
    n_looked++;
    return __real_vti_child_like(n, t, n_tok, n_same);
}

vt_status __real_vti_span_is_quiet(vt_manager *m, const vti_span *sp);
vt_status __wrap_vti_span_is_quiet(vt_manager *m, const vti_span *sp);
vt_status __wrap_vti_span_is_quiet(vt_manager *m, const vti_span *sp)
{
    n_looked++;
    return __real_vti_span_is_quiet(m, sp);
}

typedef struct made {
    vt_manager *m;
    vt_domain *d;
    vt_seq *s;
} made;

static made make_it(void)
{
    made x;
    vt_config cfg = vt_config_default();
    cfg.n_plane = 1;
    cfg.row_bytes = ROW_BYTES;
    cfg.max_tok = N_BLOCK * BLOCK_TOK;
    cfg.max_seq = N_SEQ;
    cfg.budget_bytes = 2 * sizeof all_tok * ROW_BYTES;
    cfg.mapper = VT_MAPPER_OWNER;
    cfg.vmm = vt_fake_open();
    for (uint32_t i = 0; i < N_BLOCK * BLOCK_TOK; i++) all_tok[i] = i;
    assert_ok(vt_manager_create(&cfg, &x.m));
    assert_ok(vt_domain_open(x.m, "one", 3, &x.d));
    assert_ok(vt_seq_create(x.m, 0, &x.s));
    n_looked = 0;
    return x;
}

static void record_bit_by_bit(const made *x)
{
    for (uint32_t n = BLOCK_TOK; n <= N_BLOCK * BLOCK_TOK; n += BLOCK_TOK) {
        assert_ok(vt_seq_extend(x->s, n));
        assert_ok(vt_seq_record(x->s, x->d, all_tok, n, NULL));
    }
}

FX_TEST(test_a_record_looks_at_what_is_new)
{
    made x = make_it();
    record_bit_by_bit(&x);
    assert_true(n_looked <= 4 * N_BLOCK);
    assert_int_equal(N_BLOCK * BLOCK_TOK, vt_match(x.d, all_tok, N_BLOCK * BLOCK_TOK));
    assert_ok(vt_check(x.m, NULL));
    vt_manager_destroy(x.m);
}

FX_TEST(test_a_record_after_a_truncate_is_of_the_new_tokens)
{
    made x = make_it();
    record_bit_by_bit(&x);
    assert_ok(vt_seq_truncate(x.s, 50 * BLOCK_TOK));
    for (uint32_t i = 50 * BLOCK_TOK; i < 60 * BLOCK_TOK; i++) all_tok[i] = 7;
    assert_ok(vt_seq_extend(x.s, 60 * BLOCK_TOK));
    assert_ok(vt_seq_record(x.s, x.d, all_tok, 60 * BLOCK_TOK, NULL));
    assert_int_equal(60 * BLOCK_TOK, vt_match(x.d, all_tok, N_BLOCK * BLOCK_TOK));
    for (uint32_t i = 50 * BLOCK_TOK; i < 60 * BLOCK_TOK; i++) all_tok[i] = i;
    assert_int_equal(N_BLOCK * BLOCK_TOK, vt_match(x.d, all_tok, N_BLOCK * BLOCK_TOK));
    assert_ok(vt_check(x.m, NULL));
    vt_manager_destroy(x.m);
}

FX_TEST(test_a_record_after_a_forget_is_of_all_tokens)
{
    made x = make_it();
    record_bit_by_bit(&x);
    vt_domain_forget(x.d);
    assert_int_equal(0, vt_match(x.d, all_tok, N_BLOCK * BLOCK_TOK));
    assert_ok(vt_seq_record(x.s, x.d, all_tok, N_BLOCK * BLOCK_TOK, NULL));
    assert_int_equal(N_BLOCK * BLOCK_TOK, vt_match(x.d, all_tok, N_BLOCK * BLOCK_TOK));
    vt_manager_destroy(x.m);
}

FX_TEST(test_a_new_sequence_looks_at_few_idle_spans)
{
    static vt_seq *s[N_SEQ];
    made x = make_it();
    vt_seq_release(x.s);
    for (int i = 0; i < N_SEQ; i++) assert_ok(vt_seq_create(x.m, 0, &s[i]));
    for (int i = 0; i < N_SEQ; i++) vt_seq_release(s[i]);
    for (uint64_t i = 0; i < 3; i++) assert_ok(vt_step(x.m, VT_AHEAD_NONE, 0, i));
    n_looked = 0;
    assert_ok(vt_seq_create(x.m, 100, &s[0]));
    assert_true(n_looked <= MAX_LOOK);
    vt_manager_destroy(x.m);
}

enum { CHUNK_TOK = 32, N_AT_REST = 200, SLACK_TOK = 8 };

static vt_manager *m;
static vt_vmm *fake;
static vt_domain *d;
static vt_seq *at_rest[N_AT_REST];

static void step(vt_ahead policy, uint32_t n_tok)
{
    assert_ok(vt_step(m, policy, n_tok, 0));
    vt_work(m, UINT32_MAX, NULL);
}

// Spans that a step looks at, of which the mapper then does all that it is given.
static uint64_t looks(vt_ahead policy, uint32_t n_tok)
{
    const uint64_t had = m->looks;
    step(policy, n_tok);
    assert_ok(vt_check(m, NULL));
    return m->looks - had;
}

// Until a step finds nothing more to do.
static void settle(void)
{
    for (int i = 0; i < 8 && m->vset.n_due > 0; i++) step(VT_AHEAD_SLACK, SLACK_TOK);
    assert_int_equal(looks(VT_AHEAD_SLACK, SLACK_TOK), 0);
}

static uint64_t settled_looks(void)
{
    return looks(VT_AHEAD_SLACK, SLACK_TOK);
}

static void open_with(uint32_t n_seq, uint64_t budget_chunks)
{
    vt_config cfg = vt_config_default();
    fake = vt_fake_open();
    assert_non_null(fake);
    cfg.n_plane = 2;
    cfg.row_bytes = 128;
    cfg.slice_bytes = CHUNK_TOK * 128;
    cfg.max_tok = 8 * CHUNK_TOK;
    cfg.max_seq = N_AT_REST + 16;
    cfg.budget_bytes = budget_chunks * 2 * cfg.slice_bytes;
    cfg.mapper = VT_MAPPER_OWNER;
    cfg.swap_bytes = 1 << 20;
    cfg.swap_dir = "/tmp";
    cfg.vmm = fake;
    assert_ok(vt_manager_create(&cfg, &m));
    assert_ok(vt_domain_open(m, "d", 1, &d));
    for (uint32_t i = 0; i < n_seq; i++) {
        assert_ok(vt_seq_create(m, 0, &at_rest[i]));
        assert_ok(vt_seq_extend(at_rest[i], 1));
    }
    settle();
}

VT_FIXTURE(setup)
{
    open_with(N_AT_REST, 4 * N_AT_REST);
}

VT_FIXTURE(teardown)
{
    vt_fake_report end;
    assert_ok(vt_check(m, NULL));
    vt_domain_close(d);
    vt_fake_set_epitaph(fake, &end);
    vt_manager_destroy(m);
    assert_int_equal(end.n_violation, 0);
}

FX_TEST_WITH(test_a_step_looks_at_what_calls_have_touched, setup, teardown)
{
    static const uint32_t tok[2 * CHUNK_TOK];
    vt_seq *child;
    uint32_t n_hit;
    assert_ok(vt_seq_extend(at_rest[3], 2));
    assert_ok(vt_seq_extend(at_rest[7], 3));
    assert_int_equal(settled_looks(), 2);
    assert_int_equal(settled_looks(), 0);
    assert_ok(vt_seq_extend(at_rest[7], 2 * CHUNK_TOK));
    settle();
    assert_ok(vt_seq_record(at_rest[7], d, tok, 2 * CHUNK_TOK, NULL)); // it is to be guarded
    assert_int_equal(settled_looks(), 1);
    assert_int_equal(at_rest[7]->span->lane[0].n_ro, 2);
    assert_ok(vt_seq_truncate(at_rest[7], CHUNK_TOK + 1));
    assert_int_equal(settled_looks(), 1);
    settle();
    assert_ok(vt_seq_fork(at_rest[7], CHUNK_TOK, &child));
    assert_int_equal(settled_looks(), 1); // of the parent nothing has changed: it was guarded
    vt_seq_release(child);
    assert_ok(vt_seq_match(d, tok, CHUNK_TOK, 0, &child, &n_hit));
    assert_int_equal(n_hit, CHUNK_TOK);
    assert_in_range(settled_looks(), 1, 2); // the span that was released is another, or the same
    vt_seq_release(child);
    settle();
}

// What is asked of all, all are looked at for, once.
FX_TEST_WITH(test_another_policy_is_news_for_all, setup, teardown)
{
    assert_int_equal(looks(VT_AHEAD_SLACK, CHUNK_TOK), N_AT_REST);
    assert_true(vt_seq_backed(at_rest[5]) >= 1 + CHUNK_TOK);
    assert_true(looks(VT_AHEAD_SLACK, CHUNK_TOK) <= N_AT_REST); // the jobs have come back
    assert_int_equal(looks(VT_AHEAD_SLACK, CHUNK_TOK), 0);
    assert_int_equal(looks(VT_AHEAD_NEXT, 2 * CHUNK_TOK), N_AT_REST);
    assert_true(looks(VT_AHEAD_NEXT, 2 * CHUNK_TOK) <= N_AT_REST);
    assert_int_equal(looks(VT_AHEAD_NEXT, 2 * CHUNK_TOK), 0);
    assert_true(vt_seq_backed(at_rest[5]) >= 2 + 2 * CHUNK_TOK);
}

// Steps look at it on its way, and once more when it has arrived.
FX_TEST_WITH(test_who_comes_back_is_looked_at, setup, teardown)
{
    vt_seq *s = at_rest[9];
    assert_ok(vt_seq_extend(s, CHUNK_TOK));
    assert_ok(swap_out_now(s));
    settle();
    vt_status st = vt_seq_swap_in(s);
    for (int i = 0; i < 8; i++) step(VT_AHEAD_SLACK, SLACK_TOK);
    assert_false(s->span->is_due);
    assert_status(VT_BUSY, st);
    assert_ok(vt_seq_swap_in(s));
    step(VT_AHEAD_SLACK, SLACK_TOK);
    assert_true(vt_seq_backed(s) >= CHUNK_TOK + SLACK_TOK);
    settle();
}

VT_FIXTURE(setup_tight)
{
    open_with(2, 4);
}

// What could not be had is tried again in each step, until it is there.
FX_TEST_WITH(test_a_failed_look_is_repeated, setup_tight, teardown)
{
    vt_seq *a = at_rest[0], *b = at_rest[1];
    assert_ok(vt_seq_extend(b, 2 * CHUNK_TOK)); // the last chunks of the budget
    assert_ok(vt_seq_extend(a, CHUNK_TOK));
    for (int i = 0; i < 5; i++) {
        step(VT_AHEAD_SLACK, SLACK_TOK);
        assert_true(a->span->is_due);
        assert_int_equal(vt_seq_backed(a), CHUNK_TOK);
        assert_ok(vt_check(m, NULL));
    }
    vt_seq_release(b);
    for (int i = 0; i < 4; i++) step(VT_AHEAD_SLACK, SLACK_TOK);
    assert_true(vt_seq_backed(a) >= CHUNK_TOK + SLACK_TOK);
    assert_false(a->span->is_due);
}

// A budget that is exceeded stops the look-ahead, and puts off what it would have done.
FX_TEST_WITH(test_what_an_exceeded_budget_puts_off_is_done_later, setup_tight, teardown)
{
    vt_seq *a = at_rest[0];
    const uint64_t most = 4 * m->geo.group[0].chunk_bytes;
    assert_ok(vt_seq_extend(a, CHUNK_TOK));
    assert_ok(vt_seq_prepare(at_rest[1], 3 * CHUNK_TOK, 1));
    vt_work(m, UINT32_MAX, NULL);
    assert_int_equal(m->pset.cls[0].n_in[VT_CHUNK_SPARE], 2);
    assert_ok(vt_aim_budget(m, most / 2)); // what the other has prepared goes
    assert_ok(vt_step(m, VT_AHEAD_SLACK, SLACK_TOK, 0));
    assert_ok(vt_check(m, NULL));
    for (int i = 0; i < 8; i++) step(VT_AHEAD_SLACK, SLACK_TOK);
    assert_int_equal(vt_seq_backed(a), CHUNK_TOK);
    assert_ok(vt_aim_budget(m, most));
    for (int i = 0; i < 2; i++) step(VT_AHEAD_SLACK, SLACK_TOK);
    assert_true(vt_seq_backed(a) >= CHUNK_TOK + SLACK_TOK);
}

// A chunk of the pool that is to go back, behind another one, is not prepared for a sequence.
FX_TEST_WITH(test_what_is_to_go_back_is_not_prepared, setup_tight, teardown)
{
    static const uint32_t tok[3 * CHUNK_TOK];
    vt_seq *a = at_rest[0], *b = at_rest[1];
    const uint64_t chunk_bytes = m->geo.group[0].chunk_bytes;
    assert_ok(vt_seq_extend(a, CHUNK_TOK));
    assert_ok(vt_seq_extend(b, 3 * CHUNK_TOK));
    assert_ok(vt_seq_record(b, d, tok, 3 * CHUNK_TOK, NULL));
    vt_seq_release(b);
    for (uint64_t n = 3; n > 0; n--) assert_ok(vt_aim_budget(m, n * chunk_bytes));
    assert_true(m->pset.cls[0].n_in[VTI_POOLED] > 0);
    assert_status(VT_NOSPACE, vt_seq_prepare(a, 2 * CHUNK_TOK, 1));
    for (int i = 0; i < 8; i++) step(VT_AHEAD_NEXT, 1);
    assert_int_equal(vt_seq_backed(a), CHUNK_TOK);
    assert_int_equal(vti_pset_created_bytes(&m->pset), chunk_bytes);
    assert_ok(vt_aim_budget(m, 2 * chunk_bytes));
    for (int i = 0; i < 2; i++) step(VT_AHEAD_NEXT, 1);
    assert_int_equal(vt_seq_backed(a), 2 * CHUNK_TOK);
}

// What was asked for by name, and could not be had: the policy that goes on with it does.
FX_TEST_WITH(test_a_failed_prepare_is_repeated, setup_tight, teardown)
{
    vt_seq *a = at_rest[0], *b = at_rest[1];
    step(VT_AHEAD_NEXT, 1);
    step(VT_AHEAD_NEXT, 1);
    assert_int_equal(looks(VT_AHEAD_NEXT, 1), 0);
    assert_ok(vt_seq_extend(b, 3 * CHUNK_TOK));
    step(VT_AHEAD_NEXT, 1);
    assert_status(VT_NOSPACE, vt_seq_prepare(a, 3 * CHUNK_TOK, 1));
    assert_true(a->span->is_due);
    vt_seq_release(b);
    for (int i = 0; i < 4; i++) step(VT_AHEAD_NEXT, 1);
    assert_int_equal(vt_seq_backed(a), 3 * CHUNK_TOK);
}

// Another sequence takes what was prepared.
FX_TEST_WITH(test_who_loses_warm_chunks_is_looked_at, setup_tight, teardown)
{
    vt_seq *a = at_rest[0], *b = at_rest[1];
    assert_ok(vt_seq_extend(a, CHUNK_TOK));
    settle();
    assert_int_equal(vt_seq_backed(a), 2 * CHUNK_TOK);
    assert_ok(vt_seq_extend(b, 3 * CHUNK_TOK));
    assert_int_equal(vt_seq_backed(a), CHUNK_TOK);
    assert_true(a->span->is_due);
    assert_ok(vt_seq_truncate(b, 1));
    vt_seq_release(b);
    for (int i = 0; i < 4; i++) step(VT_AHEAD_SLACK, SLACK_TOK);
    assert_int_equal(vt_seq_backed(a), 2 * CHUNK_TOK);
}

static uint64_t count_dirty_idle(void)
{
    uint64_t n = 0;
    for (vti_span *sp = m->vset.in[VTI_SPAN_IDLE].newest; sp; sp = sp->older)
        n += sp->lane[0].dirty_end > 0;
    return n;
}

// Spans that were released are wiped once, and then left alone.
FX_TEST_WITH(test_idle_spans_are_left_alone, setup, teardown)
{
    for (uint32_t i = 100; i < N_AT_REST; i++) vt_seq_release(at_rest[i]);
    assert_int_equal(count_dirty_idle(), N_AT_REST - 100);
    assert_int_equal(settled_looks(), N_AT_REST - 100);
    settle();
    assert_int_equal(count_dirty_idle(), 0);
}

// The device is done with a sequence some steps after it has ended: then its span is wiped.
FX_TEST_WITH(test_a_span_that_becomes_idle_late_is_wiped, setup, teardown)
{
    uint64_t ticket;
    vt_fake_set_async(fake, true);
    vt_fake_run(fake, (uintptr_t)vt_seq_plane(at_rest[4], 0), 128);
    vt_seq_release(at_rest[4]);
    for (int i = 0; i < 3; i++) step(VT_AHEAD_SLACK, SLACK_TOK);
    assert_int_equal(m->vset.n_due, 0);
    assert_int_equal(m->vset.in[VTI_SPAN_RETIRED].n, 1);
    assert_ok(fake->ops->fence(fake, &ticket));
    vt_fake_finish(fake, ticket);
    assert_int_equal(settled_looks(), 1);
    settle();
    assert_int_equal(m->vset.in[VTI_SPAN_IDLE].n, 1);
    assert_int_equal(count_dirty_idle(), 0);
}

FX_RUN(test_vt_work)
