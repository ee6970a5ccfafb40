// test_forward.c - the law of order in a whole model: a token's logits have the same bits whatever
// the chunking of the prompt, the other sequences of the batch, the number of threads, and the
// instruction set.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "unit/model/runner.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define N_TOK       RUNNER_MAX_TOK
#define VECTORS     FX_SOURCE_DIR "/tests/vectors/logits/"
#define STORYTELLER FX_SOURCE_DIR "/models/storyteller.gguf" // has heads of 32

static const runner_model models[] = {
    {VECTORS "tiny-f32.gguf", NULL},   {VECTORS "tiny-f16.gguf", NULL},
    {VECTORS "tiny-bf16.gguf", NULL},  {VECTORS "tiny-q8_0.gguf", NULL},
    {VECTORS "tiny-f32.gguf", "bf16"}, {VECTORS "tiny-f32.gguf", "f32"}};
static const runner_model kv_q8_0 = {STORYTELLER, "q8_0"};

FX_TEST(test_same_bits)
{
    for (size_t m = 0; m < sizeof models / sizeof *models; m++)
        check_variants(models[m], models[m].path, N_TOK, true);
    check_variants(kv_q8_0, "a cache of q8_0", N_TOK, false);
}

FX_TEST(test_other_tokens_other_logits)
{
    int n_vocab;
    float *a = run_plain(models[0], N_TOK, &n_vocab),
          *b = run_plain(models[0], N_TOK - 1, &n_vocab);
    assert_memory_not_equal(a, b, (size_t)n_vocab * sizeof *b);
    free(a);
    free(b);
}

// Logits of all tokens in one pass: each row equals the row of a run that ends there.
FX_TEST(test_logits_of_every_token)
{
    const variant v = {"", N_TOK, 2, RUNNER_OTHERS, NULL, NULL};
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        runner r;
        runner_open(&r, models[m], &v);
        const size_t n_vocab = (size_t)r.n_vocab;
        float *all = malloc(N_TOK * n_vocab * sizeof *all);
        runner_pass(&r, &v, 0, N_TOK, N_TOK, all);
        runner_close(&r);
        for (int n = 1; n <= N_TOK; n += 11) {
            int again;
            float *one = run_plain(models[m], n, &again);
            assert_memory_equal(one, all + (size_t)(n - 1) * n_vocab, n_vocab * sizeof *one);
            free(one);
        }
        free(all);
    }
}

// The largest difference from the logits with an f32 cache, relative to the largest logit.
static double kv_error(const char *type)
{
    int n_vocab;
    float *exact = run_plain((runner_model){STORYTELLER, "f32"}, N_TOK, &n_vocab);
    float *got = run_plain((runner_model){STORYTELLER, type}, N_TOK, &n_vocab);
    double most = 0, far = 0;
    for (int i = 0; i < n_vocab; i++) {
        most = fmax(most, fabs((double)exact[i]));
        far = fmax(far, fabs((double)got[i] - (double)exact[i]));
    }
    free(exact), free(got);
    return far / most;
}

FX_TEST(test_kv_types_are_near)
{
    assert_true(kv_error("f16") < 0.001);
    assert_true(kv_error("bf16") < 0.01);
    assert_true(kv_error("q8_0") < 0.01);
}

static void expect_refused(runner_model m, const char *says)
{
    fxi_gguf *g;
    fxi_model *model;
    fx_error err = {0};
    fxi_pool *pool;
    assert_int_equal(fxi_pool_create(1, &pool, &err), FX_OK);
    assert_int_equal(fxi_gguf_open(m.path, &g, &err), FX_OK);
    fxi_model_options opt = {
        .pool = pool, .max_batch_tok = 1, .max_batch_logit = 1, .kv_type = m.kv_type};
    assert_int_equal(fxi_model_load(g, &opt, &model, &err), FX_EINVAL);
    if (!strstr(err.text, says)) fail_msg("expected \"%s\" in: %s", says, err.text);
    fxi_gguf_close(g);
    fxi_pool_destroy(pool);
}

FX_TEST(test_kv_types_refused)
{
    expect_refused((runner_model){VECTORS "tiny-f32.gguf", "q8_0"}, "multiple of 32");
    expect_refused((runner_model){VECTORS "tiny-f32.gguf", "q4_0"}, "'q4_0' is none of");
    expect_refused((runner_model){VECTORS "tiny-f32.gguf", ""}, "'' is none of");
}

FX_RUN(test_forward)
