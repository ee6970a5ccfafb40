// test_forward.c - the law of order, seen from above: a token's logits are the same bits whatever
// the chunking of the prompt, the batch it shares a pass with, the number of threads, and the
// instruction set.
#include "unit/cmocka_all.h"

#include "kernels/kernels.h"
#include "kv/kv.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define N_TOK   90
#define N_OTHER 3

#define VECTORS     FX_SOURCE_DIR "/tests/vectors/"
#define STORYTELLER FX_SOURCE_DIR "/models/storyteller.gguf" // has heads of 32

// A model's file, and its cache's type.
static const struct model {
    const char *path, *kv_type;
} models[] = {{VECTORS "tiny-f32.gguf", NULL},
              {VECTORS "tiny-f16.gguf", NULL},
              {VECTORS "tiny-bf16.gguf", NULL},
              {VECTORS "tiny-q8_0.gguf", NULL},
              {VECTORS "tiny-f32.gguf", "bf16"},
              {VECTORS "tiny-f32.gguf", "f32"},
              {STORYTELLER, "q8_0"}};

// How one run differs from the plain one.
typedef struct variant {
    const char *what;
    int chunk, n_thread, n_other;
    const char *kernel_path;
} variant;

static const variant plain = {"plain", N_TOK, 1, 0, NULL};
static const variant variants[] = {
    {"one token at a time", 1, 1, 0, NULL},
    {"chunks of 7", 7, 1, 0, NULL},
    {"chunks of 16", 16, 2, 0, NULL},
    {"3 threads", N_TOK, 3, 0, NULL},
    {"3 others beside it", 13, 2, 3, NULL},
    {"plain C", 11, 2, 1, "ref"},
    {"AVX2", 9, 2, 1, "avx2"},
    {"AVX2 with VNNI", 9, 2, 1, "avx2-vnni"},
    {"AVX-512", 9, 2, 1, "avx512"},
};

static int32_t token(int seq, int i)
{
    return i == 0 ? 1 : 3 + (i * 37 + seq * 101 + i * i * 5) % 300;
}

typedef struct runner {
    fxi_pool *pool;
    fxi_model *model;
    fxi_kv *kv;
    fxi_kv_seq *seq[1 + N_OTHER];
    int n_vocab;
} runner;

static void runner_open(runner *r, const struct model *m, const variant *v)
{
    fxi_gguf *g;
    fx_error err = {0};
    assert_int_equal(fxi_gguf_open(m->path, &g, &err), FX_OK);
    assert_int_equal(fxi_pool_create(v->n_thread, &r->pool, &err), FX_OK);
    fxi_model_options opt = {.pool = r->pool,
                             .max_batch_tok = N_TOK * (1 + N_OTHER),
                             .max_batch_logit = 1 + N_OTHER,
                             .kernel_path = v->kernel_path,
                             .kv_type = m->kv_type};
    if (fxi_model_load(g, &opt, &r->model, &err) != FX_OK) fail_msg("%s", err.text);
    fxi_gguf_close(g);
    const fxi_model_shape *s = fxi_model_get_shape(r->model);
    fxi_kv_shape shape = {.n_layer = s->n_layer,
                          .row_bytes = fxi_model_kv_row_bytes(r->model),
                          .ctx_tok = s->train_ctx_tok,
                          .max_seq = 8,
                          .budget_bytes = 64 << 20};
    assert_int_equal(fxi_kv_find("vtensor")->open(&shape, &r->kv, &err), FX_OK);
    for (int i = 0; i <= v->n_other; i++)
        assert_int_equal(r->kv->ops->seq_create(r->kv, 0, &r->seq[i], &err), FX_OK);
    r->n_vocab = s->n_vocab;
}

static void runner_close(runner *r)
{
    r->kv->ops->close(r->kv);
    fxi_model_free(r->model);
    fxi_pool_destroy(r->pool);
}

// One pass: `n` tokens of sequence 0 from `from`, and as many of the others; the others stand
// before it in the batch.
static void pass(runner *r, const variant *v, int from, int n, float *logits)
{
    int32_t tok[N_TOK * (1 + N_OTHER)];
    fxi_batch_seq seq[1 + N_OTHER];
    fxi_batch b = {.token = tok, .seq = seq};
    for (int s = v->n_other; s >= 0; s--) {
        assert_int_equal(r->kv->ops->seq_extend(r->kv, r->seq[s], from + n, NULL), FX_OK);
        for (int i = 0; i < n; i++) tok[b.n_tok++] = token(s, from + i);
        seq[b.n_seq++] = (fxi_batch_seq){r->kv->ops->seq_view(r->kv, r->seq[s]), from, n, s == 0};
    }
    fxi_model_forward(r->model, &b, logits);
}

// The logits after the last token of sequence 0.
static float *run(const struct model *m, const variant *v, int *n_vocab)
{
    runner r;
    runner_open(&r, m, v);
    float *logits = malloc((size_t)r.n_vocab * sizeof *logits);
    for (int from = 0; from < N_TOK; from += v->chunk)
        pass(&r, v, from, N_TOK - from < v->chunk ? N_TOK - from : v->chunk, logits);
    *n_vocab = r.n_vocab;
    runner_close(&r);
    return logits;
}

static void check_variant(const struct model *m, const variant *v, const float *want, int n_vocab)
{
    if (!fxi_kernels_get(v->kernel_path)) {
        print_message("%s: not run by this machine\n", v->what);
        return;
    }
    float *got = run(m, v, &n_vocab);
    if (memcmp(got, want, (size_t)n_vocab * sizeof *got) != 0)
        fail_msg("%s, %s: %s gives other bits", m->path, m->kv_type ? m->kv_type : "f16", v->what);
    free(got);
}

// Plain C takes minutes for the larger model, under the sanitizers.
static bool too_slow(const struct model *m, const variant *v)
{
    return strcmp(m->path, STORYTELLER) == 0 && v->kernel_path && !strcmp(v->kernel_path, "ref");
}

static void test_same_bits(void **state)
{
    (void)state;
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        int n_vocab;
        float *want = run(&models[m], &plain, &n_vocab);
        for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
            if (!too_slow(&models[m], &variants[i]))
                check_variant(&models[m], &variants[i], want, n_vocab);
        free(want);
    }
}

static void test_other_tokens_other_logits(void **state)
{
    (void)state;
    int n_vocab;
    const variant shorter = {"", 45, 1, 0, NULL};
    float *a = run(&models[0], &plain, &n_vocab);
    runner r;
    runner_open(&r, &models[0], &shorter);
    float *b = malloc((size_t)n_vocab * sizeof *b);
    pass(&r, &shorter, 0, N_TOK - 1, b);
    assert_memory_not_equal(a, b, (size_t)n_vocab * sizeof *b);
    runner_close(&r);
    free(a);
    free(b);
}

// The largest distance of logits to those with a cache of f32, as a share of the largest logit.
static double kv_error(const char *type)
{
    int n_vocab;
    float *exact = run(&(struct model){STORYTELLER, "f32"}, &plain, &n_vocab);
    float *got = run(&(struct model){STORYTELLER, type}, &plain, &n_vocab);
    double most = 0, far = 0;
    for (int i = 0; i < n_vocab; i++) {
        most = fmax(most, fabs((double)exact[i]));
        far = fmax(far, fabs((double)got[i] - (double)exact[i]));
    }
    free(exact), free(got);
    return far / most;
}

static void test_kv_types_are_near(void **state)
{
    (void)state;
    assert_true(kv_error("f16") < 0.001);
    assert_true(kv_error("bf16") < 0.01);
    assert_true(kv_error("q8_0") < 0.01);
}

static void expect_refused(const struct model *m, const char *says)
{
    fxi_gguf *g;
    fxi_model *model;
    fx_error err = {0};
    fxi_pool *pool;
    assert_int_equal(fxi_pool_create(1, &pool, &err), FX_OK);
    assert_int_equal(fxi_gguf_open(m->path, &g, &err), FX_OK);
    fxi_model_options opt = {
        .pool = pool, .max_batch_tok = 1, .max_batch_logit = 1, .kv_type = m->kv_type};
    assert_int_equal(fxi_model_load(g, &opt, &model, &err), FX_EINVAL);
    if (!strstr(err.text, says)) fail_msg("expected \"%s\" in: %s", says, err.text);
    fxi_gguf_close(g);
    fxi_pool_destroy(pool);
}

static void test_kv_types_refused(void **state)
{
    (void)state;
    expect_refused(&(struct model){VECTORS "tiny-f32.gguf", "q8_0"}, "multiple of 32");
    expect_refused(&(struct model){VECTORS "tiny-f32.gguf", "q4_0"}, "'q4_0' is none of");
    expect_refused(&(struct model){VECTORS "tiny-f32.gguf", ""}, "'' is none of");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_same_bits), cmocka_unit_test(test_other_tokens_other_logits),
        cmocka_unit_test(test_kv_types_are_near), cmocka_unit_test(test_kv_types_refused)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
