// test_engine_gpu.c - an engine on a GPU, the stand-in for the driver: memory grows beside the
// passes, goes back when it is idle, and a device that fails ends the requests it hit.
//
// The test is the engine's thread: it runs the iterations, and counts the driver's calls that it
// makes there. What the manager's own thread maps, it maps beside it. No time is measured.
//
// Where sequences grow, they grow by 24 tokens, with FX_TEST_LONG by 40.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "engine/engine_snapshot.h"
#include "standin/standin.h"
#include "standin/standin_nccl.h"
#include "unit/engine/support/bits.h"
#include "unit/engine/support/unthreaded.h"

#include <string.h>

#define STORYTELLER FX_SOURCE_DIR "/models/storyteller.gguf"
#define SMALL       FX_SOURCE_DIR "/tests/vectors/logits/tiny-bf16.gguf"
#define THREE_HEADS FX_SOURCE_DIR "/tests/vectors/models/llama.gguf" // for three devices

enum { N_REQUEST = 3, N_PROMPT = 20, S = 1000000 };

static bits_answer got[N_REQUEST], want[N_REQUEST];
static int32_t prompts[N_REQUEST][N_PROMPT];
static uint64_t clock_us;

static uint64_t test_clock(void *ud)
{
    (void)ud;
    return clock_us;
}

static const char *model = SMALL, *devices = "cuda:0", *manager;

static fx_engine *open_gpu(bool single_thread)
{
    const fx_options opt = {.device = devices,
                            .kv_manager = manager,
                            .gpu_math = "batch-invariant",
                            .n_thread = 1,
                            .ctx_tok = 256,
                            .kv_memory_bytes = 32 << 20,
                            .max_seq = 4};
    standin_reset();
    return single_thread ? unthreaded_open_single(model, opt) : unthreaded_open(model, opt);
}

static fx_request nth_request(int i, int n_gen, bits_answer *out)
{
    for (int t = 0; t < N_PROMPT; t++) prompts[i][t] = 3 + (i * 7 + t * t * 7 + t * 13) % 45;
    return bits_request(prompts[i], N_PROMPT, n_gen, out);
}

static void expect_sound(const fx_engine *eng)
{
    const char *what = NULL;
    const standin_report r = standin_look();
    if (fxi_kv_check(eng->kv, &what) != FX_OK) fail_msg("%s", what);
    if (r.n_breach) fail_msg("%s", r.breach);
}

// ---- growth ------------------------------------------------------------------------------------

static const char *const mapping[] = {"cuMemCreate", "cuMemMap", "cuMemSetAccess", "cuMemUnmap",
                                      "cuMemRelease"};

static uint64_t mapping_calls(uint64_t count(const char *symbol))
{
    uint64_t n = 0;
    for (size_t i = 0; i < sizeof mapping / sizeof *mapping; i++) n += count(mapping[i]);
    return n;
}

static bool all_decode(void)
{
    for (int i = 0; i < N_REQUEST; i++)
        if (got[i].choice[0].n_tok < 2) return false;
    return true;
}

// The manager's thread has a pass for what the next one needs; on a stand-in, whose kernels run in
// the thread that waits for them, it is given its time between the iterations (vt_check waits for
// it). Then no call that maps is the engine's, in no iteration, though every sequence grows.
FX_TEST(test_growth_is_mapped_beside_the_passes)
{
    const int n_gen = suite_is_long() ? 60 : 36; // all leave their chunk well before the end
    model = STORYTELLER;
    fx_engine *eng = open_gpu(false);
    for (int i = 0; i < N_REQUEST; i++) {
        const fx_request req = nth_request(i, n_gen, &got[i]);
        (void)bits_submit(eng, &req);
    }
    do {
        (void)fxi_iteration_run(eng);
        expect_sound(eng);
    } while (!all_decode());
    const uint64_t all = mapping_calls(standin_calls), waits = standin_waits();
    uint64_t n_iteration = 0, here = 0;
    while (!got[0].last) {
        const uint64_t before = mapping_calls(standin_calls_here);
        (void)fxi_iteration_run(eng);
        n_iteration++;
        here += mapping_calls(standin_calls_here) - before;
        expect_sound(eng);
    }
    assert_true(n_iteration > (uint64_t)n_gen / 2);
    assert_int_equal(here, 0);
    assert_true(mapping_calls(standin_calls) > all + 2 * N_REQUEST);        // it did grow
    assert_in_range(standin_waits() - waits, n_iteration, 3 * n_iteration); // for the passes alone
    unthreaded_close(eng);
}

// ---- idle memory -------------------------------------------------------------------------------

static uint64_t bytes_on_device(fx_engine *eng, uint64_t at_us)
{
    clock_us = at_us;
    do (void)fxi_iteration_run(eng);
    while (eng->memory.returning_bytes);
    return standin_look().memory_bytes;
}

// Once memory has been idle for long enough, the driver gets it back, a bit in each iteration:
// spare memory after 1 s, prefixes, and so all of it, after the time that the option says.
FX_TEST(test_idle_memory_goes_back_to_the_driver)
{
    model = STORYTELLER;
    fx_engine *eng = open_gpu(true);
    eng->journal.now_us = test_clock;
    clock_us = S;
    for (int i = 0; i < N_REQUEST; i++) {
        fx_request req = nth_request(i, 4, &got[i]);
        req.no_cache = true;
        (void)bits_submit(eng, &req);
    }
    for (int i = 0; i < N_REQUEST; i++) bits_finish(eng, &got[i]);
    assert_int_equal(fx_set_kv_memory(eng, 1 << 20, NULL), FX_OK);
    const uint64_t since = clock_us, used = bytes_on_device(eng, since);
    assert_true(used > 4 * STANDIN_GRANULARITY);
    assert_int_equal(bytes_on_device(eng, since + S - 1), used);
    assert_in_range(bytes_on_device(eng, since + S), 0, STANDIN_GRANULARITY);
    assert_int_equal(bytes_on_device(eng, since + 600 * S), 0);
    expect_sound(eng);
    unthreaded_close(eng);
}

// ---- failures ----------------------------------------------------------------------------------

// The answer keeps the beginning of a line.
static void assert_begins(const char *line, const char *with)
{
    if (strncmp(line, with, strlen(with)) != 0) fail_msg("'%s' does not begin so: %s", line, with);
}

static void ask_request(fx_engine *eng, int i, bits_answer *out)
{
    fx_request req = nth_request(i, 6, out);
    req.no_cache = true;
    bits_ask(eng, &req, out);
}

// Two requests run; one of the launches of their pass fails. Both end with one line; the next
// gets what it would have got.
FX_TEST(test_a_failed_call_ends_the_requests_it_hit)
{
    char what[128];
    fx_stats s;
    model = SMALL;
    fx_engine *eng = open_gpu(true);
    for (int i = 0; i < N_REQUEST; i++) ask_request(eng, i, &want[i]);
    for (int i = 0; i < 2; i++) {
        const fx_request req = nth_request(i, 30, &got[i]);
        (void)bits_submit(eng, &req);
    }
    while (got[0].choice[0].n_tok < 2 || got[1].choice[0].n_tok < 2) (void)fxi_iteration_run(eng);
    standin_fail("cuGraphLaunch", 0, 1, STANDIN_UNKNOWN);
    for (int i = 0; i < 2; i++) bits_finish(eng, &got[i]);
    for (int i = 0; i < 2; i++) {
        assert_int_equal(got[i].choice[0].finish, FX_FINISH_ERROR);
        assert_begins(got[i].choice[0].error,
                      "the device that computes the model failed: cuda:0: cuGraphLaunch of ");
    }
    ask_request(eng, 2, &got[2]);
    if (!bits_same_answer(&want[2], &got[2], what)) fail_msg("%s", what);
    fx_engine_stats(eng, &s);
    assert_int_equal(s.n_failed_step, 1);
    assert_int_equal(s.device_is_lost, 0);
    expect_sound(eng);
    unthreaded_close(eng);
}

// After an illegal address every call of the context answers the same error.
FX_TEST(test_a_lost_device_is_said_to_be_lost)
{
    fx_stats s;
    fx_engine *eng = open_gpu(true);
    ask_request(eng, 0, &got[0]);
    standin_fail("cuStreamSynchronize", 0, UINT64_MAX, 700);
    for (int i = 0; i < 2; i++) {
        ask_request(eng, i, &got[i]);
        assert_int_equal(got[i].choice[0].finish, FX_FINISH_ERROR);
        assert_begins(got[i].choice[0].error,
                      "the device that computes the model failed: cuda:0: cuStreamSynchronize: ");
    }
    (void)fxi_iteration_run(eng);
    fx_engine_stats(eng, &s);
    assert_int_equal(s.device_is_lost, 1);
    standin_fail(NULL, 0, 0, 0);
    unthreaded_close(eng);
}

// ---- three devices -----------------------------------------------------------------------------

static const char *const sharing[] = {"vtensor", "vattention", "vattention-mega",
                                      "vattention-start", "paged"};

enum { N_SHARING = sizeof sharing / sizeof *sharing };

static void on_three_devices(void (*test)(void))
{
    model = THREE_HEADS;
    devices = "cuda:0,cuda:1,cuda:2";
    for (int i = 0; i < N_SHARING; i++) {
        manager = sharing[i];
        test();
    }
    devices = "cuda:0";
    manager = NULL;
}

static void share_the_cache_out(void)
{
    fx_stats s;
    fx_engine *eng = open_gpu(true);
    for (int i = 0; i < N_REQUEST; i++) {
        ask_request(eng, i, &want[i]);
        assert_int_equal(want[i].choice[0].finish, FX_FINISH_LENGTH);
    }
    fx_engine_stats(eng, &s);
    assert_int_equal(s.kv_mapped_bytes, standin_look().memory_bytes);
    expect_sound(eng);
    unthreaded_close(eng);
    assert_int_equal(standin_look().memory_bytes, 0);
}

// They share the cache out: what each maps is its part of every row, and all of it goes back.
FX_TEST(test_devices_share_the_cache_out)
{
    on_three_devices(share_the_cache_out);
}

static uint64_t bytes_on(const fx_snapshot *p, uint32_t device)
{
    uint64_t sum = 0;
    for (size_t i = 0; i < p->n_chunk_run; i++) {
        const fx_chunk_group *g = &p->group[p->chunk[i].group];
        if (g->device == device && p->chunk[i].state != FX_CHUNK_swapped)
            sum += p->chunk[i].n * g->chunk_bytes;
    }
    return sum;
}

// All that each has mapped, but for what a pool keeps beside its blocks.
static void see_devices(void)
{
    uint32_t n_of[3] = {0};
    fx_engine *eng = open_gpu(true);
    uint64_t id;
    const fx_request req = nth_request(0, 8, &got[0]);
    assert_int_equal(fx_submit(eng, &req, &id, NULL), FX_OK);
    for (int i = 0; i < 3; i++) (void)fxi_iteration_run(eng);
    fx_snapshot_subscribe(eng);
    assert_int_equal(fxi_snapshot_act(eng), 0); // the first is due at once
    const fx_snapshot *p = fx_snapshot_get(eng, 0);
    assert_non_null(p);
    assert_int_equal(p->n_group % 3, 0);
    const uint64_t all = p->stats.kv_mapped_bytes, seen = bytes_on(p, 0);
    if (fxi_kv_can(eng->kv, FXI_KV_ELASTIC)) assert_int_equal(seen * 3, all);
    assert_in_range(seen * 3, all / 2, all);
    for (uint32_t k = 1; k < 3; k++) assert_int_equal(bytes_on(p, k), seen);
    assert_int_equal(p->n_span, 1);
    for (size_t i = 0; i < p->n_segment_run; i++)
        n_of[p->group[p->segment[i].group].device] += p->segment[i].n;
    assert_true(n_of[0] > 0 && n_of[0] == n_of[1] && n_of[0] == n_of[2]);
    fx_snapshot_unref(p);
    fx_snapshot_unsubscribe(eng);
    unthreaded_close(eng);
}

// Each device's chunks are seen; each backs every sequence.
FX_TEST(test_devices_are_seen)
{
    on_three_devices(see_devices);
}

// NCCL fails: no pass can run any more.
FX_TEST(test_devices_that_do_not_add_are_lost)
{
    fx_stats s;
    devices = "cuda:0,cuda:1,cuda:2";
    fx_engine *eng = open_gpu(true);
    ask_request(eng, 0, &got[0]);
    standin_nccl_fail(0, 1);
    for (int i = 0; i < 2; i++) {
        ask_request(eng, i, &got[i]);
        assert_int_equal(got[i].choice[0].finish, FX_FINISH_ERROR);
        assert_begins(got[i].choice[0].error,
                      "the device that computes the model failed: cuda:0, cuda:1, cuda:2: nccl");
    }
    (void)fxi_iteration_run(eng);
    fx_engine_stats(eng, &s);
    assert_int_equal(s.device_is_lost, 1);
    unthreaded_close(eng);
    devices = "cuda:0";
}

static void expect_refused(fx_options opt, const char *want_text)
{
    fx_engine *eng;
    fx_error err = {0};
    opt.model_path = SMALL;
    opt.n_thread = 1;
    assert_int_equal(fx_engine_open(&opt, &eng, &err), FX_EINVAL);
    assert_string_equal(err.text, want_text);
}

FX_TEST(test_what_devices_cannot_share_is_refused)
{
    standin_reset();
    expect_refused((fx_options){.device = "cuda:0,cuda:0"},
                   "device 'cuda:0,cuda:0' names cuda:0 twice");
    expect_refused((fx_options){.device = "cpu,cuda:0"},
                   "device 'cpu,cuda:0' is unknown (cpu, cuda:N, cuda:N,cuda:M)");
}

FX_RUN(test_engine_gpu)
