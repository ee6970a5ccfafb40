// test_engine_fault.c - every call to the KV manager fails once, with each error: the request that
// needed it may end with an error, all others answer what they answer alone, nothing leaks, and the
// engine goes on. Among the requests are forked choices and a beam search; in a second round
// requests are preempted again and again, by swap and by recompute, and the budget changes; and all
// of that once more with drafts, and with the next call failing, too. Then forks that fail in a
// row: they are retried, and a request that makes no progress ends. And a smaller budget that has
// to wait.
//
// Which calls fail is a sample: first each, then fewer and fewer, with each error other ones, and
// in two of the four kinds of rounds; with FX_TEST_LONG many more, and the same ones with every
// error and in every round.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "model/model.h"
#include "unit/engine/support/company.h"
#include "unit/engine/support/unthreaded.h"

#include <stdio.h>
#include <string.h>

enum { N_TOGETHER = 4 };

// The manager's table, with calls that can fail.
static struct {
    fxi_kv_ops ops;
    const fxi_kv_ops *real;
    int n_call, fail_at;     // the fail_at-th call fails, counted from 1,
    int n_in_a_row;          // and with it as many as this, 1 or more
    int n_fork, n_fork_fail; // forks so far; this many fail first
    int n_budget_fail;       // calls of aim_budget that are still to fail
    fx_status how;
} fault;

static bool fails_now(void)
{
    const int n_since = ++fault.n_call - fault.fail_at;
    return fault.fail_at && n_since >= 0 && n_since < fault.n_in_a_row;
}

static fx_status faulty_domain(fxi_kv *kv, const char *key, size_t key_bytes, fxi_kv_domain **out)
{
    return fails_now() ? fault.how : fault.real->domain_open(kv, key, key_bytes, out);
}

static fx_status faulty_match(fxi_kv *kv, fxi_kv_domain *d, const int32_t *tok, int n_tok,
                              const fxi_kv_expect *expect, fxi_kv_seq **out, int *n_hit)
{
    *out = NULL;
    if (fails_now()) return fault.how;
    return fault.real->seq_match(kv, d, tok, n_tok, expect, out, n_hit);
}

static fx_status faulty_fork(fxi_kv *kv, fxi_kv_seq *s, int len_tok, fxi_kv_seq **out)
{
    *out = NULL;
    if (fails_now() || fault.n_fork++ < fault.n_fork_fail) return fault.how;
    return fault.real->seq_fork(kv, s, len_tok, out);
}

static fx_status faulty_extend(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    return fails_now() ? fault.how : fault.real->seq_extend(kv, s, len_tok);
}

static fx_status faulty_truncate(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    return fails_now() ? fault.how : fault.real->seq_truncate(kv, s, len_tok);
}

static fx_status faulty_record(fxi_kv *kv, fxi_kv_seq *s, fxi_kv_domain *d, const int32_t *tok,
                               int n_tok, const fxi_kv_keep *keep)
{
    return fails_now() ? fault.how : fault.real->seq_record(kv, s, d, tok, n_tok, keep);
}

static fx_status faulty_swap_out(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving)
{
    *is_moving = false;
    return fails_now() ? fault.how : fault.real->seq_swap_out(kv, s, is_moving);
}

static fx_status faulty_swap_in(fxi_kv *kv, fxi_kv_seq *s, bool *is_moving)
{
    *is_moving = false;
    return fails_now() ? fault.how : fault.real->seq_swap_in(kv, s, is_moving);
}

static fx_status faulty_budget(fxi_kv *kv, uint64_t budget_bytes)
{
    if (fails_now() || fault.n_budget_fail-- > 0) return fault.how;
    return fault.real->aim_budget(kv, budget_bytes);
}

static void inject(fx_engine *eng, int fail_at, fx_status how)
{
    fault.real = eng->kv->ops;
    fault.ops = *fault.real;
    fault.ops.domain_open = faulty_domain;
    fault.ops.seq_match = faulty_match;
    fault.ops.seq_fork = faulty_fork;
    fault.ops.seq_extend = faulty_extend;
    fault.ops.seq_extend_many = NULL; // by that one
    fault.ops.seq_truncate = faulty_truncate;
    fault.ops.seq_record = faulty_record;
    fault.ops.seq_swap_out = faulty_swap_out;
    fault.ops.seq_swap_in = faulty_swap_in;
    fault.ops.aim_budget = faulty_budget;
    fault.n_call = fault.n_fork = fault.n_fork_fail = fault.n_budget_fail = 0;
    fault.fail_at = fail_at;
    fault.n_in_a_row = 1;
    fault.how = how;
    eng->kv->ops = &fault.ops;
}

// The model's table, with a pass that looks at its batch: each run has tokens, and no more rows of
// logits than tokens.
static struct {
    fxi_model_ops ops;
    const fxi_model_ops *real;
} pass;

static fx_status checked_pass(fxi_model *m, const fxi_batch *b, float *logits, fx_error *err)
{
    for (int i = 0; i < b->n_seq; i++) {
        assert_true(b->seq[i].n_tok > 0);
        assert_in_range(b->seq[i].n_logit, 0, b->seq[i].n_tok);
    }
    return pass.real->submit(m, b, logits, err);
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
    client_run(&c);
    assert_true(ended_well(&c, 0));
    client_free(&c);
}

static void check_nothing_is_held(fx_engine *eng)
{
    fx_stats st;
    (void)fxi_iteration_run(eng);
    fx_engine_stats(eng, &st);
    assert_int_equal(st.n_running, 0);
    assert_int_equal(st.n_waiting, 0);
    assert_int_equal(st.kv_live_bytes, 0);
}

// Request i of those that run together: the first two are those of company.h, then four choices of
// one request, then a beam search.
static void start_one_of(client *c, prompt *p, fx_engine *eng, int i)
{
    if (i < 2) {
        start_client(c, eng, p, i);
        return;
    }
    *p = make_prompt(i);
    client_init(c, eng, p->tok, p->n, N_GEN);
    if (i == 2)
        c->req.n_choice = 4;
    else
        c->req.beam_width = 3;
    assert_int_equal(client_submit(c, NULL), FX_OK);
}

// Whether all choices have ended well, with the same tokens (at temperature 0).
static bool forks_ended_well(const client *c)
{
    assert_int_equal(c->n_event_after_last, 0);
    for (int k = 0; k < c->req.n_choice; k++) {
        const client_choice *ch = &c->choice[k];
        if (ch->finish == FX_FINISH_ERROR) return false;
        assert_int_equal(ch->finish, FX_FINISH_LENGTH);
        assert_int_equal(ch->n_tok, N_GEN);
        assert_memory_equal(ch->tok, c->choice[0].tok, sizeof alone[0]);
    }
    return true;
}

// What request 0 or 1 answers, with a wrong token at the end of every third draft; to others, one
// token again and again.
static int guess_alone(void *ud, const fxi_seq *s, int32_t *tok, int most)
{
    const int n_gen = fxi_seq_n_generated(s), which = (int)s->request->id - 1;
    (void)ud;
    for (int i = 0; i < most; i++)
        tok[i] = which < 2 && n_gen + i < N_GEN ? alone[which][n_gen + i] : 7;
    if (n_gen % 3 == 0) tok[most - 1] = tok[most - 1] == 8 ? 9 : 8;
    return most;
}

// One run in which n_in_a_row calls fail. Returns the number of calls made; *n_bad is how many
// requests failed.
static int run(int fail_at, int n_in_a_row, fx_status how, bool is_disturbed, bool drafts,
               int *n_bad)
{
    static client c[N_TOGETHER];
    static prompt p[N_TOGETHER];
    fx_engine *eng = unthreaded_open(MODEL, (fx_options){.n_thread = 1,
                                                         .step_tok = 64,
                                                         .swap_bytes = 64 << 20,
                                                         .speculate = drafts ? "auto" : NULL});
    if (drafts) eng->draft_hooks.drafter = guess_alone;
    inject(eng, fail_at, how);
    pass.real = eng->model->ops;
    pass.ops = *pass.real;
    pass.ops.submit = checked_pass;
    eng->model->ops = &pass.ops;
    fault.n_in_a_row = n_in_a_row;
    for (int i = 0; i < N_TOGETHER; i++) start_one_of(&c[i], &p[i], eng, i);
    for (int iteration = 0; fxi_iteration_run(eng); iteration++)
        // Every few iterations the request that goes first is preempted, by swap and by recompute
        // in turn, and the budget changes.
        if (is_disturbed) {
            static const uint64_t budget[] = {64 << 20, 48 << 20};
            if (iteration % 5 == 4 && eng->sched.running.head)
                fxi_preempt_request(&eng->memory, eng->sched.running.head,
                                    iteration % 2 ? FXI_SWAP : FXI_RECOMPUTE);
            if (iteration % 16 == 7)
                assert_int_equal(fx_set_kv_memory(eng, budget[iteration / 16 % 2], NULL), FX_OK);
        }
    *n_bad = 0;
    for (int i = 0; i < N_TOGETHER; i++) {
        assert_true(c[i].last);
        *n_bad += !(i < 2 ? ended_well(&c[i], i) : forks_ended_well(&c[i]));
        client_free(&c[i]);
    }
    int n_call = fault.n_call;
    check_engine_serves(eng);
    check_nothing_is_held(eng);
    unthreaded_close(eng);
    return n_call;
}

static void sweep_calls(bool is_disturbed, bool drafts, fx_status how)
{
    int n_bad, n_call = run(0, 1, how, is_disturbed, drafts, &n_bad);
    assert_int_equal(n_bad, 0);
    assert_true(n_call > N_TOGETHER * N_GEN);
    const int first = suite_is_long() ? 1 : how == FX_EIO ? 1 : how == FX_ENOMEM ? 2 : 3;
    for (int i = first; i <= n_call; i += suite_is_long() ? 1 + i / 5 : i) {
        run(i, 1, how, is_disturbed, drafts, &n_bad);
        assert_in_range(n_bad, 0, 1);
        if (!drafts || is_disturbed) continue;
        run(i, 2, how, is_disturbed, drafts, &n_bad);
        assert_in_range(n_bad, 0, 2);
    }
}

static void sweep(fx_status how)
{
    for (int i = 0; i < 4; i++)
        if (suite_takes((size_t)(i % 2 + i / 2 + (how == FX_ENOMEM)), 2))
            sweep_calls(i % 2, i / 2, how);
}

// Four choices of one request, or a beam search, beside one that needs no forks, while the first
// n_fork_fail forks fail.
static void run_with_failing_forks(client *c, int which, int n_fork_fail, fx_status how)
{
    prompt p[2];
    client other;
    fx_engine *eng = unthreaded_open(MODEL, (fx_options){.n_thread = 1, .step_tok = 64});
    inject(eng, 0, how);
    fault.n_fork_fail = n_fork_fail;
    start_one_of(c, &p[0], eng, which);
    start_client(&other, eng, &p[1], 0);
    while (fxi_iteration_run(eng)) {
    }
    assert_true(c->last && other.last);
    assert_true(ended_well(&other, 0));
    client_free(&other);
    fault.n_fork_fail = 0;
    check_engine_serves(eng);
    check_nothing_is_held(eng);
    unthreaded_close(eng);
}

FX_TEST(test_choices_whose_forks_fail_some_times_end_well)
{
    static const fx_status hows[] = {FX_ENOSPACE, FX_EIO};
    static client c;
    for (int i = 0; i < 2; i++) {
        run_with_failing_forks(&c, 2, 15, hows[i]);
        assert_true(forks_ended_well(&c));
        client_free(&c);
    }
}

// Forks that fail for as long as another request runs, which may hold what they lack: they are
// retried until it has ended.
FX_TEST(test_choices_outwait_a_request_beside_which_forks_fail)
{
    static client c, other;
    prompt p[2];
    fx_engine *eng = unthreaded_open(MODEL, (fx_options){.n_thread = 1, .step_tok = 64});
    inject(eng, 0, FX_ENOSPACE);
    fault.n_fork_fail = 1 << 30;
    p[0] = make_prompt(0);
    client_init(&other, eng, p[0].tok, p[0].n, 4 * N_GEN);
    assert_int_equal(client_submit(&other, NULL), FX_OK);
    start_one_of(&c, &p[1], eng, 2);
    while (fxi_iteration_run(eng))
        if (other.last) fault.n_fork_fail = 0;
    assert_true(fault.n_fork > 20);
    assert_true(c.last && forks_ended_well(&c));
    assert_int_equal(other.choice[0].n_tok, 4 * N_GEN);
    client_free(&other);
    client_free(&c);
    check_nothing_is_held(eng);
    unthreaded_close(eng);
}

// A request that makes no progress ends, with one line that says why.
FX_TEST(test_choices_that_can_never_be_forked_end_with_an_error)
{
    static const fx_status hows[] = {FX_ENOSPACE, FX_EIO};
    static client c;
    for (int i = 0; i < 2; i++) {
        run_with_failing_forks(&c, 2, 1 << 30, hows[i]);
        for (int k = 0; k < c.req.n_choice; k++) {
            assert_int_equal(c.choice[k].finish, FX_FINISH_ERROR);
            assert_int_equal(c.choice[k].n_tok, 0);
            assert_non_null(strstr(c.choice[k].error, "could not be forked"));
            assert_int_equal(c.choice[k].error_status, FX_EINTERNAL); // the budget suffices
        }
        assert_in_range(fault.n_fork, 2, 64);
        client_free(&c);
    }
}

// A beam search grows by a token with each failure: it is computed again each time, and finds the
// same beams.
FX_TEST(test_beams_that_can_never_be_forked_find_the_same_answer)
{
    static client good, bad;
    run_with_failing_forks(&good, 3, 0, FX_ENOSPACE);
    run_with_failing_forks(&bad, 3, 1 << 30, FX_ENOSPACE);
    assert_true(forks_ended_well(&good) && forks_ended_well(&bad));
    assert_memory_equal(good.choice[0].tok, bad.choice[0].tok, sizeof alone[0]);
    client_free(&good);
    client_free(&bad);
}

// Memory that the old budget still has would be promised again: until the smaller one is in effect,
// nobody runs. A budget that fails for another reason stops nobody.
FX_TEST(test_smaller_budget_that_waits_admits_nobody)
{
    static const struct {
        fx_status how;
        int n_run;
    } row[] = {{FX_ENOSPACE, 0}, {FX_EIO, 1}};
    for (int i = 0; i < 2; i++) {
        client c;
        prompt p;
        fx_engine *eng = unthreaded_open(MODEL, (fx_options){.n_thread = 1, .step_tok = 64});
        inject(eng, 0, row[i].how);
        fault.n_budget_fail = 3;
        assert_int_equal(fx_set_kv_memory(eng, eng->service.budget_bytes / 2, NULL), FX_OK);
        start_client(&c, eng, &p, 0);
        for (int iteration = 0; iteration < 3; iteration++) {
            (void)fxi_iteration_run(eng);
            assert_int_equal(eng->sched.running.n_seq, row[i].n_run);
            assert_int_equal(fxi_iteration_is_blocked(eng), !row[i].n_run);
        }
        client_run(&c);
        assert_true(ended_well(&c, 0));
        client_free(&c);
        check_nothing_is_held(eng);
        unthreaded_close(eng);
    }
}

FX_TEST(test_device_failure)
{
    sweep(FX_EIO);
}

FX_TEST(test_no_host_memory)
{
    sweep(FX_ENOMEM);
}

FX_TEST(test_out_of_kv_memory)
{
    sweep(FX_ENOSPACE);
}

FX_RUN_GROUP(test_engine_fault, run_alone, NULL)
