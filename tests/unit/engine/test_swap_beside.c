// test_swap_beside.c - swapping holds nobody up with `vtensor`, which swaps in a thread of its own:
// while the calls that move rows stand still at a gate, every iteration gives every stream its
// token; a sequence that needs the memory waits alone; and the engine's thread makes none of these
// calls itself.
//
// The test is the engine's thread: it runs the iterations. The manager's own thread waits at the
// gate.
#include "unit/cmocka_all.h"

#include "unit/engine/support/bits.h"
#include "unit/engine/support/unthreaded.h"
#include "unit/vtensor/support/vmm/vmm_fault.h"

#include <sched.h>
#include <unistd.h>

#define MODEL FX_SOURCE_DIR "/tests/vectors/logits/tiny-f32.gguf"

enum { N_PROMPT = 100, N_GEN = 150, N_REQUEST = 3, CTX_TOK = 256, N_HELD_ITERATION = 12 };

static bits_answer alone[N_REQUEST], got[N_REQUEST];
static int32_t prompts[N_REQUEST][N_PROMPT];
static uint64_t ids[N_REQUEST];
static vt_vmm *fault;
static fx_engine *eng;

static fx_engine *open_over_fault(void)
{
    const fx_options opt = {.n_thread = 1,
                            .ctx_tok = CTX_TOK,
                            .kv_memory_bytes = 16 << 20,
                            .max_seq = 8,
                            .swap_bytes = 16 << 20};
    vt_vmm *host = NULL;
    assert_int_equal(vt_vmm_host_open(&host), VT_OK);
    fault = vt_fault_open(host);
    assert_non_null(fault);
    return unthreaded_open_over(fault, MODEL, opt);
}

static fx_request request_of(int i, bits_answer *out)
{
    for (int t = 0; t < N_PROMPT; t++) prompts[i][t] = 3 + (i * 7 + t * t * 7 + t * 13) % 310;
    return bits_request(prompts[i], N_PROMPT, N_GEN, out);
}

static int ask_alone(void **state)
{
    (void)state;
    eng = open_over_fault();
    for (int i = 0; i < N_REQUEST; i++) {
        fx_request req = request_of(i, &alone[i]);
        req.no_cache = true;
        bits_ask(eng, &req, &alone[i]);
    }
    unthreaded_close(eng);
    return 0;
}

// All decode, and the calls of the swap will stand still.
static int setup(void **state)
{
    (void)state;
    eng = open_over_fault();
    for (int i = 0; i < N_REQUEST; i++) {
        const fx_request req = request_of(i, &got[i]);
        ids[i] = bits_submit(eng, &req);
    }
    while (got[N_REQUEST - 1].choice[0].n_tok < 3) (void)fxi_iteration_run(eng);
    vt_fault_hold_swap(fault, true, true);
    return 0;
}

static int teardown(void **state)
{
    (void)state;
    vt_fault_hold_swap(fault, false, false);
    unthreaded_close(eng);
    return 0;
}

static fxi_live_request *request_at(int i)
{
    return bits_live_request(eng, ids[i]);
}

// What is written may pass until then. The streams go on meanwhile: each iteration leaves the
// manager's thread time, so that they do not end before it has come through on a busy machine.
static void await_state(int i, fxi_request_state state)
{
    vt_fault_hold_swap(fault, false, state == FXI_SWAPPING_IN);
    while (request_at(i)->state != state) {
        (void)fxi_iteration_run(eng);
        (void)usleep(5000);
    }
    vt_fault_hold_swap(fault, true, true);
}

// Iterations in which the streams [0, n) get a token each, and the others none.
static void expect_streams(int n, int n_iteration)
{
    for (int k = 0; k < n_iteration; k++) {
        int had[N_REQUEST];
        for (int i = 0; i < N_REQUEST; i++) had[i] = got[i].choice[0].n_tok;
        (void)fxi_iteration_run(eng);
        for (int i = 0; i < N_REQUEST; i++)
            assert_int_equal(got[i].choice[0].n_tok, had[i] + (i < n));
    }
}

static void expect_same_answers(int n)
{
    char what[128];
    for (int i = 0; i < n; i++) {
        bits_finish(eng, &got[i]);
        if (!bits_same_choice(&got[i].choice[0], &alone[i].choice[0], what)) fail_msg("%s", what);
    }
}

static void check_manager(void)
{
    const char *what = "";
    if (fxi_kv_check(eng->kv, &what) != FX_OK) fail_msg("%s", what);
}

// One goes out and comes back; each way is held up for ever, as far as the streams can tell.
FX_TEST_WITH(test_streams_do_not_wait_for_the_swap, setup, teardown)
{
    const int last = N_REQUEST - 1;
    fxi_preempt_request(&eng->memory, request_at(last), FXI_SWAP);
    vt_fault_await_held(fault, 1);
    expect_streams(last, N_HELD_ITERATION);
    assert_int_equal(request_at(last)->state, FXI_SWAPPING_OUT);
    await_state(last, FXI_SWAPPING_IN);
    expect_streams(last, N_HELD_ITERATION);
    assert_int_equal(request_at(last)->state, FXI_SWAPPING_IN);
    await_state(last, FXI_RUNNING);
    vt_fault_hold_swap(fault, false, false);
    expect_same_answers(N_REQUEST);
    assert_int_equal(eng->stats.now.n_preempt_swap, 1);
    assert_int_equal(eng->stats.now.n_preempt_recompute, 0);
    assert_int_equal(vt_fault_swap_here(fault), 0);
    check_manager();
}

// No way to the swap is worth longer than computing the tokens again.
FX_TEST_WITH(test_a_way_that_takes_too_long_ends_in_recompute, setup, teardown)
{
    const int last = N_REQUEST - 1;
    fxi_live_request *g = request_at(last);
    fxi_preempt_request(&eng->memory, g, FXI_SWAP);
    eng->memory.us_per_tok = 1e6;
    assert_false(fxi_preempt_drop_late(&eng->memory));
    eng->memory.us_per_tok = 1e-3;
    g->swap_since_us -= 1000000;
    vt_fault_hold_swap(fault, false, false);
    assert_true(fxi_preempt_drop_late(&eng->memory));
    assert_int_equal(g->state, FXI_WAITING);
    assert_int_equal(eng->sched.n_swapping_out, 0);
    expect_same_answers(N_REQUEST);
    check_manager();
}

// Whatever way it was on, a request that is cancelled leaves nothing behind.
FX_TEST_WITH(test_cancel_on_the_way, setup, teardown)
{
    const int last = N_REQUEST - 1;
    for (int k = 0; k < 2; k++) {
        fxi_preempt_request(&eng->memory, request_at(last - k), FXI_SWAP);
        if (k) await_state(last - k, FXI_SWAPPING_IN);
        vt_fault_hold_swap(fault, false, false);
        fx_cancel(eng, ids[last - k]);
        (void)fxi_iteration_run(eng);
        assert_true(got[last - k].last);
        assert_int_equal(got[last - k].choice[0].finish, FX_FINISH_CANCEL);
        vt_fault_hold_swap(fault, true, true);
    }
    assert_int_equal(eng->sched.n_swapped + eng->sched.n_swapping_out + eng->sched.n_swapping_in,
                     0);
    vt_fault_hold_swap(fault, false, false);
    expect_same_answers(1);
    check_manager();
}

// A swap that cannot be written, or read: the request is computed again, and says the same.
FX_TEST_WITH(test_a_failing_swap_ends_in_recompute, setup, teardown)
{
    static const vt_status how[] = {VT_NOSPACE, VT_EDEVICE};
    const int last = N_REQUEST - 1;
    for (size_t k = 0; k < sizeof how / sizeof *how; k++) {
        const uint64_t n = eng->stats.now.n_preempt_swap;
        fxi_preempt_request(&eng->memory, request_at(last), FXI_SWAP);
        assert_int_equal(eng->stats.now.n_preempt_swap, n + 1);
        if (k) await_state(last, FXI_SWAPPING_IN);
        while (vt_fault_held(fault) == 0) (void)fxi_iteration_run(eng);
        vt_fault_arm(fault, 0, 0, how[k]);
        vt_fault_hold_swap(fault, false, false);
        while (vt_fault_fired(fault) == 0) (void)sched_yield();
        vt_fault_disarm(fault);
        while (request_at(last)->state != FXI_WAITING && request_at(last)->state != FXI_RUNNING)
            (void)fxi_iteration_run(eng);
        while (request_at(last)->state != FXI_RUNNING || !request_at(last)->seq[0].kv)
            (void)fxi_iteration_run(eng);
        vt_fault_hold_swap(fault, true, true);
    }
    vt_fault_hold_swap(fault, false, false);
    expect_same_answers(N_REQUEST);
    check_manager();
}

FX_RUN_GROUP(test_swap_beside, ask_alone, NULL)
