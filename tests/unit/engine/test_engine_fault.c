// test_engine_fault.c - every call to the KV manager fails once, in each way it can: the request that
// needed it may end with an error, bystanders answer what they answer alone, nothing leaks, and the
// engine goes on.
#include "unit/cmocka_all.h"

#include "engine/internal.h"
#include "unit/engine/company.h"

#include <stdio.h>
#include <string.h>

enum { N_TOGETHER = 4 };

// The manager's table with two calls replaced; owned by the engine thread while requests run.
static struct {
    fxi_kv_ops ops;
    const fxi_kv_ops *real;
    int n_call, fail_at; // the fail_at-th call fails, counted from 1
    fx_status how;
} fault;

static bool fails_now(void)
{
    return ++fault.n_call == fault.fail_at;
}

static fx_status faulty_create(fxi_kv *kv, fxi_kv_seq **out, fx_error *err)
{
    *out = NULL;
    return fails_now() ? fault.how : fault.real->seq_create(kv, out, err);
}

static fx_status faulty_extend(fxi_kv *kv, fxi_kv_seq *s, int len_tok, fx_error *err)
{
    return fails_now() ? fault.how : fault.real->seq_extend(kv, s, len_tok, err);
}

static void inject(fx_engine *eng, int fail_at, fx_status how)
{
    fault.real = eng->kv->ops;
    fault.ops = *fault.real;
    fault.ops.seq_create = faulty_create;
    fault.ops.seq_extend = faulty_extend;
    fault.n_call = 0;
    fault.fail_at = fail_at;
    fault.how = how;
    eng->kv->ops = &fault.ops;
}

static bool ended_well(const client *c, int i)
{
    const client_choice *ch = &c->choice[0];
    assert_int_equal(c->n_event_after_last, 0);
    assert_memory_equal(ch->tok, alone[i], (size_t)ch->n_tok * sizeof(int32_t));
    if (ch->finish == FX_FINISH_ERROR) return false;
    assert_int_equal(ch->finish, FX_FINISH_LENGTH);
    assert_int_equal(ch->n_tok, N_GEN);
    return true;
}

// The engine still serves after the fault.
static void check_engine_serves(fx_engine *eng)
{
    client c;
    prompt p;
    start_client(&c, eng, &p, 0);
    client_wait(&c);
    assert_true(ended_well(&c, 0));
    client_free(&c);
}

static void check_nothing_is_held(fx_engine *eng)
{
    fx_stats st;
    do fx_engine_stats(eng, &st); // the last step's figures come right after its last event
    while (st.n_running || st.kv_live_bytes);
    assert_int_equal(st.n_waiting, 0);
}

// One run with one fault. Returns the number of calls made; *n_bad is how many requests failed.
static int run(int fail_at, fx_status how, int *n_bad)
{
    static client c[N_TOGETHER];
    static prompt p[N_TOGETHER];
    fx_engine *eng = open_engine((fx_options){.n_thread = 1, .step_tok = 64});
    inject(eng, fail_at, how);
    for (int i = 0; i < N_TOGETHER; i++) start_client(&c[i], eng, &p[i], i);
    *n_bad = 0;
    for (int i = 0; i < N_TOGETHER; i++) {
        client_wait(&c[i]);
        *n_bad += !ended_well(&c[i], i);
        client_free(&c[i]);
    }
    int n_call = fault.n_call;
    check_engine_serves(eng);
    check_nothing_is_held(eng);
    fx_engine_close(eng);
    return n_call;
}

static void sweep(fx_status how)
{
    int n_bad, n_call = run(0, how, &n_bad);
    assert_int_equal(n_bad, 0);
    assert_true(n_call > N_TOGETHER * N_GEN);
    for (int i = 1; i <= n_call; i += 1 + i / 8) { // all of the first ones, then ever fewer
        run(i, how, &n_bad);
        assert_in_range(n_bad, 0, 1);
    }
}

static void test_device_failure(void **state)
{
    (void)state;
    sweep(FX_EIO);
}

static void test_no_host_memory(void **state)
{
    (void)state;
    sweep(FX_ENOMEM);
}

static void test_out_of_kv_memory(void **state)
{
    (void)state;
    sweep(FX_ENOSPACE);
}

int main(void)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_device_failure),
                                       cmocka_unit_test(test_no_host_memory),
                                       cmocka_unit_test(test_out_of_kv_memory)};
    return cmocka_run_group_tests(tests, run_alone, NULL);
}
