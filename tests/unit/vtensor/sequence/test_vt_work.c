// test_vt_work.c - calls cost what they touch. A prompt that is recorded bit by bit costs what it
// is long: each record compares the blocks that are new, and none of those before; where the tokens
// behind them may have changed, it begins earlier. A new sequence looks at a few idle spans,
// however many there are.
#include "assert_vt.h"
#include "suite.h"

#include "family.h"
#include "vtensor/operations/operations.h"

enum { N_BLOCK = 200, ROW_BYTES = 128, BLOCK_TOK = 32, N_SEQ = 1000, MAX_LOOK = 64 };

static uint32_t tok[N_BLOCK * BLOCK_TOK];
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
    cfg.budget_bytes = 2 * sizeof tok * ROW_BYTES;
    cfg.mapper = VT_MAPPER_OWNER;
    cfg.vmm = vt_fake_open();
    for (uint32_t i = 0; i < N_BLOCK * BLOCK_TOK; i++) tok[i] = i;
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
        assert_ok(vt_seq_record(x->s, x->d, tok, n, NULL));
    }
}

static void test_a_record_looks_at_what_is_new(void **state)
{
    (void)state;
    made x = make_it();
    record_bit_by_bit(&x);
    assert_true(n_looked <= 4 * N_BLOCK);
    assert_int_equal(N_BLOCK * BLOCK_TOK, vt_match(x.d, tok, N_BLOCK * BLOCK_TOK));
    assert_ok(vt_check(x.m, NULL));
    vt_manager_destroy(x.m);
}

static void test_a_record_after_a_truncate_is_of_the_new_tokens(void **state)
{
    (void)state;
    made x = make_it();
    record_bit_by_bit(&x);
    assert_ok(vt_seq_truncate(x.s, 50 * BLOCK_TOK));
    for (uint32_t i = 50 * BLOCK_TOK; i < 60 * BLOCK_TOK; i++) tok[i] = 7;
    assert_ok(vt_seq_extend(x.s, 60 * BLOCK_TOK));
    assert_ok(vt_seq_record(x.s, x.d, tok, 60 * BLOCK_TOK, NULL));
    assert_int_equal(60 * BLOCK_TOK, vt_match(x.d, tok, N_BLOCK * BLOCK_TOK));
    for (uint32_t i = 50 * BLOCK_TOK; i < 60 * BLOCK_TOK; i++) tok[i] = i;
    assert_int_equal(N_BLOCK * BLOCK_TOK, vt_match(x.d, tok, N_BLOCK * BLOCK_TOK));
    assert_ok(vt_check(x.m, NULL));
    vt_manager_destroy(x.m);
}

static void test_a_record_after_a_forget_is_of_all_tokens(void **state)
{
    (void)state;
    made x = make_it();
    record_bit_by_bit(&x);
    vt_domain_forget(x.d);
    assert_int_equal(0, vt_match(x.d, tok, N_BLOCK * BLOCK_TOK));
    assert_ok(vt_seq_record(x.s, x.d, tok, N_BLOCK * BLOCK_TOK, NULL));
    assert_int_equal(N_BLOCK * BLOCK_TOK, vt_match(x.d, tok, N_BLOCK * BLOCK_TOK));
    vt_manager_destroy(x.m);
}

static void test_a_new_sequence_looks_at_few_idle_spans(void **state)
{
    (void)state;
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

FX_SUITE(test_vt_work)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_a_record_looks_at_what_is_new),
        cmocka_unit_test(test_a_record_after_a_truncate_is_of_the_new_tokens),
        cmocka_unit_test(test_a_record_after_a_forget_is_of_all_tokens),
        cmocka_unit_test(test_a_new_sequence_looks_at_few_idle_spans),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
