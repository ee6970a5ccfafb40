// test_device_fault.c - a device that fails at one call of a pass, whichever: the requests of that
// pass end with the device's line, caches are accounted for, and the next request gets what it
// would have got. A device that is lost is reported as lost.
#include "unit/cmocka_all.h"

#include "model/plan.h"
#include "unit/engine/support/bits.h"
#include "unit/engine/support/unthreaded.h"
#include "unit/model/hidden_device.h"

#include <stdio.h>
#include <string.h>

#define MODEL FX_SOURCE_DIR "/tests/vectors/logits/tiny-f32.gguf"

enum { N_GEN = 6, N_CALL_OF_PASS = 20 };

static const int32_t one[] = {1, 5, 6, 7, 8, 9}, two[] = {1, 9, 8, 7, 6}, three[] = {1, 44, 45};

typedef struct rig {
    fx_engine *eng;
    hidden_device device;
    bits_answer want; // of request three
} rig;

static void ask_third(rig *r, bits_answer *out)
{
    const fx_request req = bits_request(three, 3, N_GEN, out);
    bits_ask(r->eng, &req, out);
}

static void open_rig(rig *r, bool prefers_best)
{
    r->eng = unthreaded_open_single(MODEL, (fx_options){.n_thread = 1, .ctx_tok = 128});
    hidden_put_before(&r->device, r->eng->device);
    r->device.dev.prefers_best = prefers_best;
    r->eng->device = &r->device.dev;
    ((fxi_transformer *)r->eng->model)->dev = &r->device.dev;
    ask_third(r, &r->want);
    assert_int_equal(r->want.choice[0].finish, FX_FINISH_LENGTH);
}

// Nothing is held by requests that ended, and the manager's books are right.
static void expect_nothing_held(const fx_engine *eng)
{
    fxi_kv_stats s;
    const char *what = NULL;
    fxi_kv_get_stats(eng->kv, &s);
    assert_int_equal(s.held_bytes, 0);
    if (fxi_kv_check(eng->kv, &what) != FX_OK) fail_msg("%s", what);
    assert_null(eng->sched.running.head);
    assert_null(eng->sched.waiting.head);
}

// Whether the answer is an error, which must then name the call that failed.
static bool is_failed(const rig *r, const bits_answer *a)
{
    char want[80];
    const bits_choice *c = &a->choice[0];
    assert_true(a->last);
    if (c->finish == FX_FINISH_LENGTH) return false;
    snprintf(want, sizeof want, "the device that computes the model failed: hidden:0: %s failed",
             r->device.failed_in);
    assert_int_equal(c->finish, FX_FINISH_ERROR);
    assert_string_equal(c->error, want);
    return true;
}

// Two requests, of which the second begins when the first one decodes. Returns how many failed.
static int ask_two(rig *r)
{
    static bits_answer a, b;
    const fx_request first = bits_request(one, 6, N_GEN, &a),
                     second = bits_request(two, 5, N_GEN, &b);
    (void)bits_submit(r->eng, &first);
    while (!a.last && a.choice[0].n_tok < 2) (void)fxi_iteration_run(r->eng);
    (void)bits_submit(r->eng, &second);
    bits_finish(r->eng, &a);
    bits_finish(r->eng, &b);
    return is_failed(r, &a) + is_failed(r, &b);
}

FX_TEST(test_every_call_fails_once)
{
    static rig r;
    open_rig(&r, true);
    int n_failed = 1, n_both = 0, n = 0;
    while (n_failed) {
        fx_stats before, after;
        fx_engine_stats(r.eng, &before);
        hidden_fail_after(&r.device, ++n);
        n_failed = ask_two(&r);
        hidden_fail_after(&r.device, 0);
        fx_clear_cache(r.eng);
        static bits_answer got;
        char what[128];
        ask_third(&r, &got);
        if (!bits_same_answer(&r.want, &got, what)) fail_msg("%s", what);
        fx_clear_cache(r.eng);
        (void)fxi_iteration_run(r.eng);
        expect_nothing_held(r.eng);
        fx_engine_stats(r.eng, &after);
        assert_int_equal(after.n_failed_step - before.n_failed_step, n_failed > 0);
        assert_int_equal(after.device_is_lost, 0);
        n_both += n_failed == 2;
    }
    assert_true(n > N_CALL_OF_PASS * N_GEN); // every call of every pass
    assert_true(n_both > N_CALL_OF_PASS);    // also while both ran
    unthreaded_close(r.eng);
}

FX_TEST(test_lost_device_is_reported)
{
    static rig r;
    fx_stats s;
    open_rig(&r, false);
    r.device.fails_for_good = true;
    hidden_fail_after(&r.device, 30);
    assert_int_equal(ask_two(&r), 2);
    assert_int_equal(ask_two(&r), 2);
    (void)fxi_iteration_run(r.eng);
    fx_engine_stats(r.eng, &s);
    assert_int_equal(s.device_is_lost, 1);
    expect_nothing_held(r.eng);
    unthreaded_close(r.eng);
}

// Tokens of two requests that run together; logprobs: of the second.
static void ask_plainly(rig *r, bool logprobs, bits_answer *a, bits_answer *b)
{
    fx_request first = bits_request(one, 6, N_GEN, a), second = bits_request(two, 5, N_GEN, b);
    second.logprobs = logprobs;
    (void)bits_submit(r->eng, &first);
    (void)bits_submit(r->eng, &second);
    bits_finish(r->eng, a);
    bits_finish(r->eng, b);
}

// Where a device prefers to say which tokens are likeliest, it is asked for no logits, unless a
// request of the step needs them.
FX_TEST(test_likeliest_tokens)
{
    static rig r;
    static bits_answer want[2], got[2];
    char what[128];
    open_rig(&r, false);
    ask_plainly(&r, false, &want[0], &want[1]);
    assert_int_equal(r.device.n_best, 0);
    r.device.dev.prefers_best = true;
    fx_clear_cache(r.eng);
    ask_plainly(&r, false, &got[0], &got[1]);
    assert_int_equal(r.device.n_best, N_GEN);
    for (int i = 0; i < 2; i++)
        if (!bits_same_answer(&want[i], &got[i], what)) fail_msg("%s", what);
    ask_plainly(&r, true, &got[0], &got[1]);
    assert_int_equal(r.device.n_best, N_GEN);
    if (!bits_same_answer(&want[0], &got[0], what)) fail_msg("%s", what);
    unthreaded_close(r.eng);
}

FX_TEST(test_unknown_device)
{
    static const char *const names[] = {"gpu", "cpu:1", "", "cudax"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        fx_error err = {0};
        fx_engine *eng;
        fx_model_info info;
        fx_options opt = fx_options_default();
        opt.model_path = MODEL;
        opt.device = names[i];
        assert_int_equal(fx_engine_open(&opt, &eng, &err), FX_EINVAL);
        assert_non_null(strstr(err.text, "device"));
        assert_int_equal(fx_options_check(&opt, &info, &err), FX_EINVAL);
    }
}

FX_TEST(test_device_has_a_name)
{
    fx_error err = {0};
    fx_engine *eng;
    fx_model_info info;
    fx_options opt = fx_options_default();
    opt.model_path = MODEL;
    opt.device = "cpu";
    opt.n_thread = 1;
    opt.kv_memory_bytes = 8 << 20;
    if (fx_engine_open(&opt, &eng, &err) != FX_OK) fail_msg("%s", err.text);
    assert_string_equal(fx_engine_info(eng)->device, "cpu");
    fx_engine_close(eng);
    if (fx_options_check(&opt, &info, &err) != FX_OK) fail_msg("%s", err.text);
    assert_string_equal(info.device, "cpu");
    assert_true(info.kernel_path[0] != '\0');
}

FX_RUN(test_device_fault)
