// test_vt_waits.c - the owner never waits for the device: random traces on the GPU backend, beside
// kernels that are still running, with the budget full of prefixes. The stand-in for the driver
// counts the calls of this thread that wait, and does queued work as late as it may.
#include <sched.h>
#include <stdlib.h>

#include "standin_assert.h"
#include "suite.h"
#include "vtensor/vtensor.h"

enum { N_SEQ = 8, N_STEP = 1500, MAX_TOK = 2048, N_PLANE = 2, ROW = 1024, LAG = 3 };

// Operations, and how often each was called and succeeded.
typedef enum op_kind {
    OP_MATCH,
    OP_EXTEND,
    OP_FORK,
    OP_TRUNCATE,
    OP_RECORD,
    OP_RELEASE,
    OP_SWAP_OUT,
    OP_SWAP_IN,
    N_OP
} op_kind;

typedef struct trace {
    vt_manager *m;
    vt_domain *d;
    vt_seq *seq[N_SEQ];
    uint32_t tok[N_SEQ][MAX_TOK];
    uint64_t rng, n_done[N_OP];
    uint64_t n_running; // kernels
} trace;

static uint64_t draw_below(trace *t, uint64_t n)
{
    t->rng = t->rng * 6364136223846793005ULL + 1442695040888963407ULL;
    return (t->rng >> 33) % n;
}

static void open_trace(trace *t, vt_mapper mapper)
{
    standin_reset();
    standin_use_context(0);
    vt_config cfg = vt_config_default();
    cfg.n_plane = N_PLANE;
    cfg.row_bytes = ROW;
    cfg.max_tok = MAX_TOK;
    cfg.max_seq = N_SEQ;
    cfg.budget_bytes = 40 * (uint64_t)N_PLANE * STANDIN_GRANULARITY;
    cfg.slice_bytes = STANDIN_GRANULARITY;
    cfg.swap_bytes = 30 * (uint64_t)N_PLANE * STANDIN_GRANULARITY;
    cfg.spare_low_bytes = 4 * (uint64_t)N_PLANE * STANDIN_GRANULARITY;
    cfg.mapper = mapper;
    vt_vmm_cuda_config gpu = {.device = 0};
    assert_ok(vt_vmm_cuda_open(&gpu, &cfg.vmm, NULL));
    *t = (trace){.rng = 7};
    assert_ok(vt_manager_create(&cfg, &t->m));
    assert_ok(vt_domain_open(t->m, "d", 1, &t->d));
}

// A few families of prompts, so that some match.
static void new_prompt(trace *t, int i)
{
    uint32_t family = (uint32_t)draw_below(t, 12);
    for (uint32_t k = 0; k < MAX_TOK; k++) t->tok[i][k] = family * 5000 + k;
    for (uint32_t k = (uint32_t)draw_below(t, MAX_TOK); k < MAX_TOK; k++) t->tok[i][k] += 2500;
}

static vt_status match_seq(trace *t, int i)
{
    uint32_t n_hit;
    new_prompt(t, i);
    uint32_t n = 1 + (uint32_t)draw_below(t, 400);
    return vt_seq_match(t->d, t->tok[i], n, n, &t->seq[i], &n_hit);
}

static vt_status fork_seq(trace *t, int i)
{
    int from = (int)draw_below(t, N_SEQ);
    if (!t->seq[from]) return VT_EINVAL;
    for (int k = 0; k < MAX_TOK; k++) t->tok[i][k] = t->tok[from][k];
    uint32_t n = (uint32_t)draw_below(t, vt_seq_len(t->seq[from]) + 1);
    return vt_seq_fork(t->seq[from], n, &t->seq[i]);
}

static vt_status extend_seq(trace *t, int i)
{
    uint32_t n = vt_seq_len(t->seq[i]) + 1 + (uint32_t)draw_below(t, draw_below(t, 4) ? 8 : 300);
    return vt_seq_extend(t->seq[i], n < MAX_TOK ? n : MAX_TOK);
}

static vt_status release_seq(trace *t, int i)
{
    vt_seq_release(t->seq[i]);
    t->seq[i] = NULL;
    return VT_OK;
}

// Begins it, or asks how far it is.
static vt_status swap_seq(trace *t, int i, op_kind *op)
{
    *op = draw_below(t, 3) ? OP_SWAP_IN : OP_SWAP_OUT;
    return *op == OP_SWAP_IN ? vt_seq_swap_in(t->seq[i]) : vt_seq_swap_out(t->seq[i]);
}

static vt_status run_op(trace *t, int i, op_kind *op)
{
    if (!t->seq[i]) {
        *op = draw_below(t, 3) ? OP_MATCH : OP_FORK;
        return *op == OP_MATCH ? match_seq(t, i) : fork_seq(t, i);
    }
    uint32_t len = vt_seq_len(t->seq[i]);
    bool is_away = vt_seq_is_swapped(t->seq[i]);
    if (is_away ? draw_below(t, 12) : draw_below(t, 14) == 0) return swap_seq(t, i, op);
    uint64_t which = draw_below(t, 20);
    *op = which < 14 ? OP_EXTEND : which < 16 ? OP_TRUNCATE : which < 18 ? OP_RECORD : OP_RELEASE;
    if (*op == OP_EXTEND) return extend_seq(t, i);
    if (*op == OP_TRUNCATE)
        return vt_seq_truncate(t->seq[i], len - (uint32_t)draw_below(t, len < 70 ? len + 1 : 70));
    if (*op == OP_RECORD) return vt_seq_record(t->seq[i], t->d, t->tok[i], len, NULL);
    return release_seq(t, i);
}

static void step_once(trace *t, int step)
{
    uint64_t before = standin_waits();
    op_kind op = N_OP;
    int i = (int)draw_below(t, N_SEQ);
    vt_status st = run_op(t, i, &op);
    if (standin_waits() != before) print_message("step %d: operation %d waits\n", step, (int)op);
    assert_int_equal(standin_waits(), before);
    assert_int_not_equal(st, VT_EDEVICE);
    if (st == VT_OK) t->n_done[op]++;
    standin_launch(NULL, 0, 0, 0);
    if (++t->n_running > LAG) {
        standin_end_kernels(NULL, 1);
        t->n_running--;
    }
    assert_ok(vt_step(t->m, VT_AHEAD_SLACK, 16, (uint64_t)step));
    if (standin_look().n_breach > 0) fail_msg("step %d: %s", step, standin_look().breach);
    assert_int_equal(standin_waits(), before);
}

static void check_trace(trace *t)
{
    const char *what = NULL;
    if (vt_check(t->m, &what) != VT_OK) fail_msg("%s", what);
    if (standin_look().n_breach > 0) fail_msg("%s", standin_look().breach);
}

static void close_trace(trace *t)
{
    standin_end_kernels(NULL, (int)t->n_running);
    for (int i = 0; i < N_SEQ; i++) vt_seq_release(t->seq[i]);
    vt_domain_close(t->d);
    vt_manager_destroy(t->m);
    standin_assert_empty();
}

// An engine's steps are longer than these: the mapper gets through its queue.
static void let_mapper_work(trace *t)
{
    for (uint32_t n_left = 1; n_left > 0;) {
        vt_work(t->m, 0, &n_left);
        sched_yield();
    }
}

static void run_trace(vt_mapper mapper)
{
    trace *t = calloc(1, sizeof *t);
    vt_stats stats;
    assert_non_null(t);
    open_trace(t, mapper);
    for (int step = 0; step < N_STEP; step++) {
        step_once(t, step);
        if (mapper == VT_MAPPER_OWNER) vt_work(t->m, 2, NULL);
        if (mapper == VT_MAPPER_THREAD && step % 4 == 3) let_mapper_work(t);
        if (step % 100 == 99) check_trace(t);
    }
    vt_get_stats(t->m, &stats);
    for (int op = 0; op < OP_SWAP_OUT; op++) assert_true(t->n_done[op] > 10);
    assert_true(stats.prefix_evicted > 0 && stats.copied_chunks > 20);
    close_trace(t);
    free(t);
}

FX_TEST(test_no_operation_waits_beside_a_mapper_thread)
{
    run_trace(VT_MAPPER_THREAD);
}

FX_TEST(test_no_operation_waits_when_the_owner_works)
{
    run_trace(VT_MAPPER_OWNER);
}

FX_RUN(test_vt_waits)
