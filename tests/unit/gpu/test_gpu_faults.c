// test_gpu_faults.c - a GPU that fails: every call of the driver in turn, while a model is loaded,
// while it runs and while it ends, and a device that is lost. The same of two that compute a model
// together, and of NCCL.
//
// Whatever fails, one line says so, a pass that succeeds afterwards is right, and all is given back
// but what the driver refused to take.
#include "gpu_model_rig.h"
#include "suite.h"

#include "unit/cmocka_all.h"

#include <stdlib.h>
#include <string.h>

#include "standin/standin.h"
#include "standin/standin_nccl.h"

#define MODEL FX_SOURCE_DIR "/tests/vectors/logits/tiny-q8_0.gguf"

static const char *devices = "cuda:0"; // with a comma: they compute the model together

enum { N_TOK = 6, N_VOCAB = 320, MAX_ROW = 2 };

static const int32_t tokens[N_TOK] = {1, 5, 9, 30, 7, 11};

typedef struct faulty {
    gpu_model_rig g;
    float *logits; // [MAX_ROW][N_VOCAB]
    int32_t *best; // [MAX_ROW]
} faulty;

static fx_status open_all(faulty *f, fx_error *err)
{
    const gpu_way way = {.math = "batch-invariant",
                         .ranks = fxi_gpu_is_list(devices) ? devices : NULL};
    FX_TRY(gpu_model_try(&f->g, (runner_model){MODEL, NULL}, &way, err));
    fxi_device *d = f->g.device;
    void *logits, *best;
    FX_TRY(d->ops->take_host(d, sizeof(float[MAX_ROW][N_VOCAB]), &logits, err));
    FX_TRY(d->ops->take_host(d, sizeof(int32_t[MAX_ROW]), &best, err));
    f->logits = logits;
    f->best = best;
    return FX_OK;
}

// Logits of the last of n tokens, or of the last two.
static int rows_of(int n)
{
    return n < MAX_ROW ? n : MAX_ROW;
}

// Computes tokens [from, to), the logits of the last ones. *st: what the pass said
static bool try_pass(faulty *f, int from, int to, fx_status *st, fx_error *err)
{
    if (fxi_kv_extend(f->g.r.kv, f->g.r.seq[0], to) != FX_OK) return false;
    const fxi_batch_seq seq = {.views = fxi_kv_get_views(f->g.r.kv, f->g.r.seq[0]),
                               .pos = from,
                               .n_tok = to - from,
                               .n_logit = rows_of(to - from)};
    const fxi_batch b = {
        .token = tokens + from, .n_tok = to - from, .seq = &seq, .n_seq = 1, .best = f->best};
    memset(f->best, 0x55, MAX_ROW * sizeof *f->best);
    *st = fxi_model_forward(f->g.r.model, &b, f->logits, err);
    return true;
}

static int largest_in(const float *row)
{
    int best = 0;
    for (int i = 1; i < N_VOCAB; i++)
        if (row[i] > row[best]) best = i;
    return best;
}

static void must_pass(faulty *f, int from, int to)
{
    fx_status st;
    fx_error err = {0};
    assert_true(try_pass(f, from, to, &st, &err));
    if (st != FX_OK) fail_msg("%s", err.text);
    for (int i = 0; i < rows_of(to - from); i++)
        assert_int_equal(f->best[i], largest_in(f->logits + i * N_VOCAB));
}

static void assert_line(const fx_error *err, const char *when)
{
    const bool is_ours = fxi_gpu_is_list(devices) ? !strncmp(err->text, "cuda:", 5)
                                                  : !strncmp(err->text, "cuda:0: ", 8);
    if (!is_ours || strchr(err->text, '\n')) fail_msg("%s: '%s'", when, err->text);
}

// Nothing is left of a trial before; a failing cuCtxPopCurrent leaves a context.
static void begin_trial(void)
{
    standin_reset();
    standin_nccl_reset();
    standin_use_context(-1);
}

static void assert_nothing_left(const char *when)
{
    if (standin_left()) fail_msg("%s: %s", when, standin_left());
    if (standin_nccl_look().n_comm) fail_msg("%s: a communicator is left", when);
}

static float want[N_VOCAB]; // the logits after all tokens

static void must_open(faulty *f)
{
    fx_error err = {0};
    begin_trial();
    if (open_all(f, &err) != FX_OK) fail_msg("%s", err.text);
}

static void make_reference(void)
{
    faulty f;
    must_open(&f);
    must_pass(&f, 0, 3);
    for (int i = 3; i < N_TOK; i++) must_pass(&f, i, i + 1);
    memcpy(want, f.logits, sizeof want);
    gpu_model_close(&f.g);
    assert_nothing_left("the reference");
}

// ---- loading -----------------------------------------------------------------------------------

static const char *const loading[] = {"cuInit",
                                      "cuDevicePrimaryCtxRetain",
                                      "cuCtxPushCurrent_v2",
                                      "cuDeviceGetAttribute",
                                      "cuModuleLoadData",
                                      "cuModuleGetFunction",
                                      "cuMemAlloc_v2",
                                      "cuMemHostAlloc",
                                      "cuMemcpyHtoDAsync_v2",
                                      "cuEventCreate",
                                      "cuEventRecord",
                                      "cuEventSynchronize",
                                      "cuStreamCreate",
                                      "cuStreamSynchronize"};

// The i-th call fails while all is opened. False: there are not so many.
static bool fail_loading(const char *symbol, uint64_t i)
{
    faulty f;
    fx_error err = {0};
    begin_trial();
    standin_fail(symbol, i, 1, STANDIN_UNKNOWN);
    const fx_status st = open_all(&f, &err);
    const bool fired = standin_fired() > 0;
    standin_fail(symbol, 0, 0, 0);
    gpu_model_close(&f.g);
    if (!fired) return false;
    if (st == FX_OK) fail_msg("call %d of %s failed, and nobody said so", (int)i, symbol);
    if (strncmp(err.text, "KV cache: ", 10) != 0) assert_line(&err, symbol);
    assert_nothing_left(symbol);
    return true;
}

FX_TEST(test_a_call_that_fails_while_loading)
{
    for (size_t s = 0; s < sizeof loading / sizeof *loading; s++)
        for (uint64_t i = 0; i < 200 && fail_loading(loading[s], i); i += 1 + i / 3) continue;
}

// ---- passes ------------------------------------------------------------------------------------

// Devices that do not go together any more say so again.
static void must_be_lost(faulty *f, int from, int to, const fx_error *why)
{
    fx_status st;
    fx_error again = {0};
    assert_true(try_pass(f, from, to, &st, &again));
    assert_true(st != FX_OK);
    assert_string_equal(again.text, why->text);
}

// Tokens [from, to) after a pass that failed. False: the devices are lost, which one that computes
// alone never is.
static bool go_on(faulty *f, int from, int to, const fx_error *why)
{
    const bool is_lost = f->g.device->ops->is_lost(f->g.device);
    assert_true(!is_lost || f->g.device->ranks);
    (is_lost ? (void)must_be_lost(f, from, to, why) : must_pass(f, from, to));
    return !is_lost;
}

// The i-th call of any function fails in one of the passes; the pass is run again. False: there are
// not so many calls.
static bool fail_pass(uint64_t i)
{
    bool is_lost = false;
    faulty f;
    fx_error err = {0};
    must_open(&f);
    standin_fail(NULL, i, 1, STANDIN_UNKNOWN);
    for (int from = 0, to; from < N_TOK && !is_lost; from = to) {
        fx_status st = FX_OK;
        to = from ? from + 1 : 3;
        const bool extended = try_pass(&f, from, to, &st, &err);
        if (extended && st == FX_OK) continue;
        if (extended) assert_line(&err, "a pass");
        is_lost = !go_on(&f, from, to, &err);
    }
    const bool fired = standin_fired() > 0;
    standin_fail(NULL, 0, 0, 0);
    if (!is_lost && memcmp(f.logits, want, sizeof want) != 0)
        fail_msg("other bits after call %d", (int)i);
    gpu_model_close(&f.g);
    return fired;
}

FX_TEST(test_a_call_that_fails_in_a_pass)
{
    make_reference();
    begin_trial();
    for (uint64_t i = 0; i < 4000 && fail_pass(i); i += 1 + i / 16) continue;
}

// ---- two devices -------------------------------------------------------------------------------

FX_TEST(test_a_call_that_fails_with_two_devices)
{
    devices = "cuda:0,cuda:1";
    test_a_call_that_fails_while_loading(state);
    make_reference();
    assert_int_equal(standin_calls("cuMemcpy2DAsync_v2"), 2); // their parts of two rows of logits
    begin_trial();
    for (uint64_t i = 0; i < 4000 && fail_pass(i); i += 1 + i / 16) continue;
    devices = "cuda:0";
}

// The i-th call of NCCL fails. False: there are not so many.
static bool fail_together(uint64_t i)
{
    faulty f;
    fx_status st = FX_OK;
    fx_error err = {0};
    begin_trial();
    standin_nccl_fail(i, 1);
    const bool is_open = open_all(&f, &err) == FX_OK;
    if (is_open) {
        assert_true(try_pass(&f, 0, 3, &st, &err));
        if (st != FX_OK) must_be_lost(&f, 0, 3, &err);
        assert_int_equal(f.g.device->ops->is_lost(f.g.device), st != FX_OK);
    }
    const bool failed = !is_open || st != FX_OK;
    if (failed) assert_line(&err, "NCCL");
    gpu_model_close(&f.g);
    assert_nothing_left("NCCL");
    return failed;
}

FX_TEST(test_a_call_of_nccl_that_fails)
{
    devices = "cuda:0,cuda:1";
    uint64_t n = 0;
    while (n < 100 && fail_together(n)) n++;
    assert_in_range(n, 5, 99);
    devices = "cuda:0";
}

static void open_two(faulty *f)
{
    devices = "cuda:0,cuda:1";
    must_open(f);
    must_pass(f, 0, 3);
}

// Begins a pass in which cuda:1 reads where there is nothing.
static fx_status submit_astray(faulty *f, fx_error *err)
{
    static fxi_batch_seq seq;
    static fxi_batch b;
    assert_int_equal(fxi_kv_extend(f->g.r.kv, f->g.r.seq[0], 4), FX_OK);
    seq = (fxi_batch_seq){
        .views = fxi_kv_get_views(f->g.r.kv, f->g.r.seq[0]), .pos = 3, .n_tok = 1, .n_logit = 1};
    seq.views.rank_base[0][0] += (size_t)1 << 40;
    b = (fxi_batch){.token = tokens + 3, .n_tok = 1, .seq = &seq, .n_seq = 1};
    return fxi_model_submit(f->g.r.model, &b, f->logits, err);
}

// A kernel of cuda:1 reads where there is no memory: no call of that device works any more. The
// other one does not wait for it for ever, and they are lost together.
FX_TEST(test_one_lost_device_is_both)
{
    faulty f;
    fx_error err = {0};
    open_two(&f);
    assert_int_equal(submit_astray(&f, &err), FX_OK);
    assert_int_equal(fxi_model_wait(f.g.r.model, &err), FX_EINTERNAL);
    assert_line(&err, "cuda:1 reads where there is nothing");
    assert_true(f.g.device->ops->is_lost(f.g.device));
    must_be_lost(&f, 3, 4, &err);
    gpu_model_close(&f.g);
    devices = "cuda:0";
}

// It is lost in a pass that nobody waits for: what the ranks do together is ended by force, because
// the others never come out of their sum by themselves.
FX_TEST(test_a_device_lost_at_the_end_is_not_waited_for)
{
    faulty f;
    fx_error err = {0};
    open_two(&f);
    assert_int_equal(submit_astray(&f, &err), FX_OK);
    assert_int_equal(standin_nccl_look().n_aborted, 0);
    gpu_model_close(&f.g);
    assert_int_equal(standin_nccl_look().n_aborted, 2);
    devices = "cuda:0";
}

// ---- a lost device -----------------------------------------------------------------------------

// As after an illegal address: every wait answers the same error from now on.
FX_TEST(test_a_lost_device_says_why_again)
{
    faulty f;
    fx_status st;
    fx_error err = {0}, again = {0};
    must_open(&f);
    must_pass(&f, 0, 3);
    standin_fail("cuStreamSynchronize", 0, UINT64_MAX, 700);
    assert_true(try_pass(&f, 3, 4, &st, &err));
    assert_int_equal(st, FX_EINTERNAL);
    assert_string_equal(err.text, "cuda:0: cuStreamSynchronize: CUDA_ERROR_ILLEGAL_ADDRESS");
    assert_true(f.g.device->ops->is_lost(f.g.device));
    standin_fail(NULL, 0, 0, 0);
    assert_true(try_pass(&f, 3, 4, &st, &again));
    assert_int_equal(st, FX_EINTERNAL);
    assert_string_equal(again.text, err.text);
    gpu_model_close(&f.g);
}

FX_TEST(test_too_little_memory_is_one_line)
{
    faulty f;
    fx_error err = {0};
    begin_trial();
    standin_limit_allocs(1 << 10);
    assert_int_equal(open_all(&f, &err), FX_ENOMEM);
    assert_line(&err, "memory");
    assert_non_null(strstr(err.text, "CUDA_ERROR_OUT_OF_MEMORY"));
    gpu_model_close(&f.g);
    assert_nothing_left("too little memory");
}

// ---- the end -----------------------------------------------------------------------------------

FX_TEST(test_a_call_that_fails_at_the_end_breaks_nothing)
{
    static const char *const ending[] = {"cuMemFree_v2",       "cuMemFreeHost",
                                         "cuStreamDestroy_v2", "cuEventDestroy_v2",
                                         "cuModuleUnload",     "cuGraphDestroy",
                                         "cuGraphExecDestroy", "cuCtxPushCurrent_v2",
                                         "cuCtxPopCurrent_v2", "cuDevicePrimaryCtxRelease_v2",
                                         "cuStreamSynchronize"};
    for (size_t s = 0; s < sizeof ending / sizeof *ending; s++) {
        faulty f;
        must_open(&f);
        for (int i = 0; i < N_TOK; i++) must_pass(&f, i, i + 1);
        standin_fail(ending[s], 0, 1, STANDIN_UNKNOWN);
        gpu_model_close(&f.g);
        assert_true(standin_fired() > 0);
    }
}

FX_RUN(test_gpu_faults)
