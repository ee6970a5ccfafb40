// test_admission.c - what an admission costs and what it counts: an iteration's calls of the KV
// manager are as many as its newcomers; those who decode grow together; mappings are a resource as
// bytes are; who waits for a prefix holds up nobody else.
#include "unit/cmocka_all.h"

#include "engine/memory/kv_memory.h"
#include "unit/engine/support/company.h"
#include "unit/engine/support/unthreaded.h"
#include "vtensor/vmm.h"

#include <string.h>

enum { N_NEW = 500, N_TOGETHER = 4, N_LATER = 100 };

static fx_engine *eng;
static fxi_kv_ops counted;
static const fxi_kv_ops *real;
static uint64_t n_cost, n_stats;
static uint64_t n_error, n_last;

static uint64_t count_cost(const fxi_kv *kv, const fxi_kv_need *need)
{
    n_cost++;
    return real->cost(kv, need);
}

static uint64_t count_growth(const fxi_kv *kv, const fxi_kv_seq *s, int end_tok)
{
    n_cost++;
    return real->seq_growth(kv, s, end_tok);
}

static void count_stats(const fxi_kv *kv, fxi_kv_stats *out)
{
    n_stats++;
    real->stats(kv, out);
}

static void take_event(void *ud, const fx_event *ev)
{
    (void)ud;
    n_error += ev->finish == FX_FINISH_ERROR;
    n_last += ev->last;
}

static fx_status submit_some(const int32_t *tok, int n_tok, int n_choice, int max_tok,
                             fx_error *err)
{
    uint64_t id;
    fx_request q = fx_request_default();
    q.prompt = tok;
    q.n_prompt = (size_t)n_tok;
    q.n_choice = n_choice;
    q.max_tok = max_tok;
    q.ignore_eos = true;
    q.on_event = take_event;
    return fx_submit(eng, &q, &id, err);
}

static void submit_own(int i, int n_choice, int max_tok)
{
    const int32_t tok[] = {3 + i % 300, 3 + i / 300, 5, 6};
    assert_int_equal(submit_some(tok, 4, n_choice, max_tok, NULL), FX_OK);
}

// The place of a request among those that ended.
typedef struct asker {
    int place;
} asker;

static void take_place(void *ud, const fx_event *ev)
{
    asker *a = ud;
    if (ev->last) a->place = (int)n_last++;
}

static void submit_told(asker *a, const int32_t *tok, int n_tok)
{
    uint64_t id;
    fx_request q = fx_request_default();
    q.prompt = tok;
    q.n_prompt = (size_t)n_tok;
    q.max_tok = 4;
    q.ignore_eos = true;
    q.on_event = take_place;
    q.ud = a;
    assert_int_equal(fx_submit(eng, &q, &id, NULL), FX_OK);
}

static int tear_down(void **state)
{
    (void)state;
    unthreaded_close(eng);
    return 0;
}

// ---- work ---------------------------------------------------------------------------------------

FX_TEST_WITH(test_newcomers_of_an_iteration_cost_so_many_calls, NULL, tear_down)
{
    const fx_options opt = {.max_seq = N_NEW,
                            .max_queue = N_NEW,
                            .n_thread = 1,
                            .kv_manager = "paged",
                            .kv_memory_bytes = 256 << 20}; // the manager fills it when it opens
    eng = unthreaded_open(MODEL, opt);
    for (int i = 0; i < N_NEW; i++) submit_own(i, 1, 4);
    real = eng->kv->ops;
    counted = *real;
    counted.cost = count_cost;
    counted.seq_growth = count_growth;
    counted.stats = count_stats;
    eng->kv->ops = &counted;
    n_cost = n_stats = 0;
    fxi_iteration_collect(eng);
    (void)fxi_plan_pass(eng);
    assert_int_equal(eng->sched.running.n_seq, N_NEW);
    assert_in_range(n_cost, N_NEW, 3 * N_NEW);
    assert_int_equal(n_stats, 0);
    eng->kv->ops = real;
}

// ---- growth -------------------------------------------------------------------------------------

static int n_extend, n_extend_many;

static fx_status count_extend(fxi_kv *kv, fxi_kv_seq *s, int len_tok)
{
    n_extend++;
    return real->seq_extend(kv, s, len_tok);
}

static fx_status count_extend_many(fxi_kv *kv, fxi_kv_seq *const *s, const int *len_tok, int n,
                                   int *n_done)
{
    n_extend_many++;
    assert_in_range(n, 1, FXI_ALLOC_BATCH);
    return real->seq_extend_many(kv, s, len_tok, n, n_done);
}

// Groups of three, so that a list ends within some.
FX_TEST_WITH(test_sequences_that_decode_grow_in_few_calls, NULL, tear_down)
{
    enum { N_ASKED = 50, N_CHOICE = 3, N_SEQ = N_ASKED * N_CHOICE };
    const fx_options opt = {.max_seq = N_SEQ, .max_queue = N_SEQ, .n_thread = 1};
    eng = unthreaded_open(MODEL, opt);
    n_error = n_last = 0;
    for (int i = 0; i < N_ASKED; i++) submit_own(i, N_CHOICE, 12);
    real = eng->kv->ops;
    counted = *real;
    counted.seq_extend = count_extend;
    counted.seq_extend_many = count_extend_many;
    eng->kv->ops = &counted;
    int n_whole = 0; // steps in which all decode
    for (; fxi_iteration_run(eng); n_extend = n_extend_many = 0) {
        if (eng->n_planned_tok != N_SEQ || eng->sched.running.n_seq != N_SEQ) continue;
        n_whole++;
        assert_int_equal(n_extend_many, (N_SEQ + FXI_ALLOC_BATCH - 1) / FXI_ALLOC_BATCH);
        assert_int_equal(n_extend, 0);
    }
    assert_true(n_whole > 5);
    assert_int_equal(n_last, N_ASKED);
    assert_int_equal(n_error, 0);
    eng->kv->ops = real;
}

// ---- mappings -----------------------------------------------------------------------------------

static uint64_t max_runs;

static uint64_t few_runs(vt_vmm *vmm)
{
    (void)vmm;
    return max_runs;
}

// Over memory whose mappings are those of N_TOGETHER sequences.
static void open_limited(void)
{
    static vt_vmm_ops limited;
    vt_vmm *host;
    const fx_options opt = {.max_seq = 16, .n_thread = 1};
    max_runs = 2 * N_TOGETHER; // of one view each: all planes are side by side
    assert_int_equal(vt_vmm_host_open(&host), VT_OK);
    limited = *host->ops;
    limited.max_runs = few_runs;
    host->ops = &limited;
    eng = unthreaded_open_over(host, MODEL, opt);
    assert_int_equal(fxi_kv_mappings(eng->kv, NULL), 2);
    assert_int_equal(eng->info.mapped_seq, N_TOGETHER); // serve warns
    n_error = n_last = 0;
}

FX_TEST_WITH(test_no_more_run_than_can_be_mapped, NULL, tear_down)
{
    open_limited();
    for (int i = 0; i < 16; i++) submit_own(i, 1, 60);
    int most = 0;
    while (fxi_iteration_run(eng))
        most = eng->sched.running.n_seq > most ? eng->sched.running.n_seq : most;
    assert_int_equal(most, N_TOGETHER);
    assert_int_equal(n_last, 16);
    assert_int_equal(n_error, 0);
    assert_int_equal(eng->stats.now.n_preempt_recompute, 0);
}

FX_TEST_WITH(test_choices_that_cannot_be_mapped_are_refused, NULL, tear_down)
{
    const int32_t tok[] = {3, 4, 5};
    fx_error err;
    open_limited();
    assert_int_equal(submit_some(tok, 3, N_TOGETHER + 1, 8, &err), FX_ENOSPACE);
    assert_non_null(strstr(err.text, "vm.max_map_count"));
    submit_own(1, N_TOGETHER, 60);
    while (fxi_iteration_run(eng)) {
    }
    assert_int_equal(n_last, 1);
    assert_int_equal(n_error, 0);
    assert_int_equal(eng->stats.now.n_preempt_recompute, 0);
}

// ---- prefixes -----------------------------------------------------------------------------------

FX_TEST_WITH(test_who_waits_for_a_prefix_holds_up_nobody, NULL, tear_down)
{
    prompt p = make_prompt(1);
    p.n = MAX_PROMPT;
    for (int i = 0; i < MAX_PROMPT; i++) p.tok[i] = 3 + i;
    const fx_options opt = {.max_seq = 2 * N_LATER, .step_tok = 2 * N_LATER, .n_thread = 1};
    eng = unthreaded_open(MODEL, opt);
    for (int i = 0; i < N_LATER; i++)
        assert_int_equal(submit_some(p.tok, MAX_PROMPT, 1, 2, NULL), FX_OK);
    submit_own(1, 1, 4);
    fxi_iteration_collect(eng);
    (void)fxi_plan_pass(eng);
    assert_int_equal(eng->sched.running.n_seq, 2);
    assert_int_equal(eng->sched.aside.n_seq, N_LATER - 1);
    while (fxi_iteration_run(eng)) {
    }
    assert_true(eng->stats.now.n_prompt_tok < 3 * MAX_PROMPT + N_LATER); // it was computed once
    assert_null(eng->sched.aside.head);
}

// One place. The first request records a prompt; a cold one comes behind it, and then some that
// begin with the same prompt.
static void expect_cold_one(int prefix_pass, int n_before)
{
    enum { N_WARM = 12 };
    static asker cold, warm[N_WARM];
    prompt p = make_prompt(1), own = make_prompt(2);
    const fx_options opt = {.max_seq = 1, .n_thread = 1, .prefix_pass = prefix_pass};
    eng = unthreaded_open(MODEL, opt);
    n_last = 0;
    for (int i = 0; i < MAX_PROMPT; i++) p.tok[i] = 3 + i, own.tok[i] = 300 - i;
    submit_told(&warm[0], p.tok, MAX_PROMPT - 20);
    (void)fxi_iteration_run(eng);
    submit_told(&cold, own.tok, MAX_PROMPT);
    for (int i = 1; i < N_WARM; i++) submit_told(&warm[i], p.tok, MAX_PROMPT - i);
    while (fxi_iteration_run(eng)) {
    }
    assert_int_equal(n_last, N_WARM + 1);
    assert_int_equal(cold.place, 1 + n_before);
    for (int i = 2; i < N_WARM; i++) assert_true(warm[i].place > warm[i - 1].place);
    unthreaded_close(eng);
}

// The longest cached prefix goes first, but passes nobody for ever.
FX_TEST(test_what_is_cached_goes_first_a_few_times)
{
    expect_cold_one(-1, 0);
    expect_cold_one(1, 1);
    expect_cold_one(4, 4);
    expect_cold_one(100, 11);
}

FX_RUN(test_admission)
