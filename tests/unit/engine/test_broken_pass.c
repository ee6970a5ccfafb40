// test_broken_pass.c - a forward pass that fails, and logits that are not finite: the requests that
// they concern end with an error that says so; others, and later ones, are served.
#include "unit/cmocka_all.h"

#include "model/model.h"
#include "unit/engine/support/bits.h"
#include "unit/engine/support/unthreaded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define MODEL FX_SOURCE_DIR "/tests/vectors/logits/tiny-f32.gguf"

enum { N_GEN = 12, N_VOCAB = 320 };

static const int32_t one[] = {1, 5, 6, 7}, two[] = {1, 9, 8, 7, 6};

// What is done to the passes of an engine's model; the real one runs first.
static struct probe {
    fxi_model_ops ops;
    const fxi_model_ops *real;
    bool fails;
    int n_spoilt; // passes from now on whose rows are spoilt; -1: all
    int only_tok; // only the row of a run that ends with this token; -1: all
    float with;   // what a logit becomes
} probe;

static fx_status probe_pass(fxi_model *m, const fxi_batch *b, float *logits, fx_error *err)
{
    const fx_status st = probe.real->submit(m, b, logits, err);
    if (probe.fails) return fxi_fail(err, FX_EINTERNAL, "the device is gone");
    if (probe.n_spoilt) {
        const int32_t *tok = b->token;
        for (int i = 0; i < b->n_seq; i++) {
            tok += b->seq[i].n_tok;
            logits += b->seq[i].n_logit * N_VOCAB;
            if (b->seq[i].n_logit && (probe.only_tok < 0 || *(tok - 1) == probe.only_tok))
                logits[-17] = probe.with;
        }
    }
    return st;
}

static fx_engine *open_probed(void)
{
    fx_engine *eng = unthreaded_open(MODEL, (fx_options){.n_thread = 2, .ctx_tok = 128});
    probe = (struct probe){
        .ops = *eng->model->ops, .real = eng->model->ops, .only_tok = -1, .with = NAN};
    probe.ops.submit = probe_pass;
    eng->model->ops = &probe.ops;
    return eng;
}

static void expect_error(const bits_answer *a, const char *says)
{
    for (int i = 0; i < a->n_choice; i++) {
        assert_int_equal(a->choice[i].finish, FX_FINISH_ERROR);
        if (!strstr(a->choice[i].error, says))
            fail_msg("expected \"%s\" in: %s", says, a->choice[i].error);
    }
    assert_true(a->n_choice > 0);
}

static void expect_answer(fx_engine *eng)
{
    static bits_answer a;
    const fx_request req = bits_request(one, 4, N_GEN, &a);
    bits_ask(eng, &req, &a);
    assert_int_equal(a.choice[0].finish, FX_FINISH_LENGTH);
    assert_int_equal(a.choice[0].n_tok, N_GEN);
}

// The recorder has an end for the step that failed, which says so.
static void expect_recorded_failure(const fx_engine *eng)
{
    fx_record ev[256];
    uint64_t first;
    const size_t n = fx_record_copy(eng, 0, ev, 256, &first);
    int n_open = 0, n_failed = 0;
    for (size_t i = 0; i < n; i++) {
        n_open += (ev[i].kind == FX_RECORD_step_begin) - (ev[i].kind == FX_RECORD_step_end);
        n_failed += ev[i].kind == FX_RECORD_step_end && ev[i].status == FX_EINTERNAL;
    }
    assert_int_equal(n_open, 0);
    assert_int_equal(n_failed, 1);
}

FX_TEST(test_failed_pass)
{
    static bits_answer a, b;
    fx_engine *eng = open_probed();
    const fx_request first = bits_request(one, 4, N_GEN, &a),
                     second = bits_request(two, 5, N_GEN, &b);
    (void)bits_submit(eng, &first);
    (void)bits_submit(eng, &second);
    while (a.choice[0].n_tok < 2) (void)fxi_iteration_run(eng);
    probe.fails = true;
    bits_finish(eng, &a);
    bits_finish(eng, &b);
    expect_error(&a, "device");
    expect_error(&b, "device");
    probe.fails = false;
    expect_recorded_failure(eng);
    expect_answer(eng);
    unthreaded_close(eng);
}

// kind: a change to the request
static void spoil_request(float with, void (*kind)(fx_request *req))
{
    static bits_answer a;
    fx_engine *eng = open_probed();
    fx_request req = bits_request(one, 4, N_GEN, &a);
    if (kind) kind(&req);
    probe.with = with;
    probe.n_spoilt = -1;
    bits_ask(eng, &req, &a);
    expect_error(&a, "not finite");
    assert_int_equal(a.choice[0].n_tok, 0);
    probe.n_spoilt = 0;
    expect_answer(eng);
    unthreaded_close(eng);
}

static void ask_beams(fx_request *req)
{
    req->n_choice = req->beam_width = 3;
}

static void ask_choices(fx_request *req)
{
    req->n_choice = 3;
    req->sampling.temperature = 1;
}

static void ask_prompt_probs(fx_request *req)
{
    req->prompt_logprobs = true;
}

FX_TEST(test_logits_that_are_not_finite)
{
    spoil_request(NAN, NULL);
    spoil_request(INFINITY, NULL);
    spoil_request(-INFINITY, NULL);
    spoil_request(NAN, ask_beams);
    spoil_request(NAN, ask_choices);
    spoil_request(NAN, ask_prompt_probs);
}

// One of two requests in the same step.
FX_TEST(test_others_go_on)
{
    static bits_answer a, b;
    fx_engine *eng = open_probed();
    const fx_request first = bits_request(one, 4, N_GEN, &a),
                     second = bits_request(two, 5, N_GEN, &b);
    probe.only_tok = two[4];
    probe.n_spoilt = -1;
    (void)bits_submit(eng, &first);
    (void)bits_submit(eng, &second);
    bits_finish(eng, &b);
    probe.n_spoilt = 0;
    bits_finish(eng, &a);
    expect_error(&b, "not finite");
    assert_int_equal(a.choice[0].finish, FX_FINISH_LENGTH);
    assert_int_equal(a.choice[0].n_tok, N_GEN);
    unthreaded_close(eng);
}

// ---- weights that are not numbers --------------------------------------------------------------

static const char spoilt_path[] = FX_BINARY_DIR "/test_broken_pass.gguf";

// Where the data of the last tensor ends, from the start of all data; the file ends there.
static uint64_t data_bytes(const fxi_gguf *g)
{
    uint64_t most = 0;
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(g); i++) {
        const fxi_gguf_tensor *t = fxi_gguf_tensor_at(g, i);
        if (t->offset + t->size_bytes > most) most = t->offset + t->size_bytes;
    }
    return most;
}

// Writes MODEL with NaN in the place of a number.
static void write_spoilt(const char *tensor, size_t number)
{
    fxi_gguf *g;
    fx_error err;
    const float nan = NAN;
    assert_int_equal(fxi_gguf_open(MODEL, &g, &err), FX_OK);
    const size_t n = (size_t)fxi_gguf_size(g);
    const fxi_gguf_tensor *t = fxi_gguf_find_tensor(g, tensor);
    char *bytes = malloc(n);
    FILE *f = fopen(MODEL, "rb");
    assert_true(bytes && f && t && fread(bytes, 1, n, f) == n);
    fclose(f);
    memcpy(bytes + (n - data_bytes(g)) + t->offset + number * sizeof nan, &nan, sizeof nan);
    fxi_gguf_close(g);
    f = fopen(spoilt_path, "wb");
    assert_true(f && fwrite(bytes, 1, n, f) == n && fclose(f) == 0);
    free(bytes);
}

FX_TEST(test_weight_that_is_not_a_number)
{
    static bits_answer a;
    write_spoilt("blk.0.ffn_down.weight", 77);
    fx_engine *eng = unthreaded_open(spoilt_path, (fx_options){.n_thread = 1, .ctx_tok = 128});
    const fx_request req = bits_request(one, 4, N_GEN, &a);
    bits_ask(eng, &req, &a);
    expect_error(&a, "not finite");
    unthreaded_close(eng);
    unlink(spoilt_path);
}

// The few numbers of a norm are looked at when the model is loaded.
FX_TEST(test_norm_that_is_not_a_number)
{
    fx_engine *eng;
    fx_error err = {0};
    fx_options opt = fx_options_default();
    write_spoilt("blk.1.attn_norm.weight", 3);
    opt.model_path = spoilt_path;
    assert_int_equal(fx_engine_open(&opt, &eng, &err), FX_EFORMAT);
    assert_non_null(strstr(err.text, "blk.1.attn_norm.weight"));
    unlink(spoilt_path);
}

FX_RUN(test_broken_pass)
