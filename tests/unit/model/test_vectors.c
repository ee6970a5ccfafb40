// test_vectors.c - the forward pass against another program: logits that PyTorch computed from the
// same files' weights (see tests/vectors/README.md).
//
// Two figures are bounded: the largest difference relative to its row's largest logit, and the root
// mean square of all differences relative to that of the logits.
//   - Weights of f32, f16 and bf16 widen exactly, and the vectors keep keys and values in f16 as
//     the cache does, so only the order of f32 sums differs: 1e-4 (measured: about 1e-5).
//   - Q8_0 layers round their activations to 8 bits as well, in blocks of 32; the vectors keep them
//     in f32. The step is the block's max|x| / 127; for normal numbers max|x| is about 2.5 sigma,
//     so the error of a number, and of a sum of products, is 2.5 / 127 / sqrt(12) = 0.57 % of
//     sigma. About 15 such roundings follow each other through two layers and the output: 0.57 % x
//     sqrt(15) = 2.2 % (measured: 2.4 %). The bound is 3 %, and twice that for the largest.
#include "suite.h"
#include "unit/json_cases.h"

#include "kv/kv.h"
#include "model/model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>

typedef struct vector_file {
    const char *model, *json;
    double max_bound, rms_bound;
} vector_file;

// The distance of logits from the expected ones.
typedef struct distance {
    double max;                // worst row
    double sum_diff, sum_want; // squares, over all rows
} distance;

typedef struct rig {
    fxi_gguf *g;
    fxi_pool *pool;
    fxi_model *model;
    fxi_kv *kv;
    fxi_kv_seq *seq;
    float *logits;
} rig;

static void rig_open(rig *r, const char *model_path, const char *kernel_path)
{
    fx_error err = {0};
    *r = (rig){0};
    if (fxi_gguf_open(model_path, &r->g, &err) != FX_OK) fail_msg("%s", err.text);
    assert_int_equal(fxi_pool_create(2, &r->pool, &err), FX_OK);
    fxi_model_options opt = {
        .pool = r->pool, .max_batch_tok = 64, .max_batch_logit = 4, .kernel_path = kernel_path};
    if (fxi_model_load(r->g, &opt, &r->model, &err) != FX_OK) fail_msg("%s", err.text);
    const fxi_model_shape *s = &r->model->shape;
    fxi_kv_shape shape = {
        .layout = s->kv, .ctx_tok = s->train_ctx_tok, .max_seq = 2, .budget_bytes = 64 << 20};
    assert_int_equal(fxi_kv_open("vtensor", &shape, &r->kv, &err), FX_OK);
    r->logits = malloc((size_t)s->n_vocab * sizeof(float));
}

static void rig_close(rig *r)
{
    fxi_kv_close(r->kv);
    fxi_model_free(r->model);
    fxi_pool_destroy(r->pool);
    fxi_gguf_close(r->g);
    free(r->logits);
}

// Computes tokens [from, to) of a case, in passes of at most 64; r->logits gets those of the last
// one.
static void feed(rig *r, const int32_t *tok, int from, int to)
{
    while (from < to) {
        int n = to - from < 64 ? to - from : 64;
        assert_int_equal(fxi_kv_extend(r->kv, r->seq, from + n), FX_OK);
        fxi_batch_seq seq = {.views = fxi_kv_get_views(r->kv, r->seq),
                             .pos = from,
                             .n_tok = n,
                             .n_logit = from + n == to};
        fxi_batch batch = {.token = tok + from, .n_tok = n, .seq = &seq, .n_seq = 1};
        assert_int_equal(fxi_model_forward(r->model, &batch, r->logits, NULL), FX_OK);
        from += n;
    }
}

static distance between(const float *got, const fxi_json *want, int *argmax)
{
    double max_diff = 0, max_want = 0, sum_diff = 0, sum_want = 0;
    *argmax = 0;
    for (size_t i = 0; i < fxi_json_array_size(want); i++) {
        double w = fxi_json_number(fxi_json_at(want, i)), diff = fabs(w - (double)got[i]);
        max_diff = fmax(max_diff, diff);
        max_want = fmax(max_want, fabs(w));
        sum_diff += diff * diff;
        sum_want += w * w;
        if (got[i] > got[*argmax]) *argmax = (int)i;
    }
    return (distance){max_diff / max_want, sum_diff, sum_want};
}

static void widen(distance *d, distance more)
{
    d->max = fmax(d->max, more.max);
    d->sum_diff += more.sum_diff;
    d->sum_want += more.sum_want;
}

static distance run_case(rig *r, const fxi_json *c, bool exact)
{
    int32_t tok[256];
    (void)json_read_tokens(fxi_json_get(c, "tokens"), tok, 256);
    const fxi_json *positions = fxi_json_get(c, "positions"), *logits = fxi_json_get(c, "logits");
    distance worst = {0};
    int done = 0;
    assert_int_equal(fxi_kv_create(r->kv, &(fxi_kv_expect){0}, &r->seq), FX_OK);
    for (size_t i = 0; i < fxi_json_array_size(positions); i++) {
        int upto = (int)fxi_json_int(fxi_json_at(positions, i)) + 1, argmax;
        feed(r, tok, done, upto);
        done = upto;
        widen(&worst, between(r->logits, fxi_json_at(logits, i), &argmax));
        if (exact)
            assert_int_equal(argmax, fxi_json_int(fxi_json_at(fxi_json_get(c, "argmax"), i)));
    }
    fxi_kv_release(r->kv, r->seq);
    return worst;
}

static void check_file(const vector_file *f, const char *kernel_path)
{
    rig r;
    fxi_json_doc root_doc = json_doc_file(f->json);
    const fxi_json *root = root_doc.root;
    if (!root) fail_msg("%s: not JSON", f->json);
    rig_open(&r, f->model, kernel_path);
    distance worst = {0};
    const fxi_json *cases = fxi_json_get(root, "cases");
    assert_true(fxi_json_array_size(cases) > 0);
    for (size_t i = 0; i < fxi_json_array_size(cases); i++)
        widen(&worst, run_case(&r, fxi_json_at(cases, i), f->max_bound < 1e-3));
    double rms = sqrt(worst.sum_diff / worst.sum_want);
    print_message("%s: worst difference %.2e (bound %.0e), rms %.2e (bound %.0e), path %s\n",
                  f->model, worst.max, f->max_bound, rms, f->rms_bound, r.model->path);
    assert_true(worst.max <= f->max_bound);
    assert_true(rms <= f->rms_bound);
    rig_close(&r);
    fxi_json_doc_free(&root_doc);
}

#define VECTORS FX_SOURCE_DIR "/tests/vectors/logits/"

static const vector_file files[] = {
    {VECTORS "tiny-f32.gguf", VECTORS "tiny-f32.json", 1e-4, 1e-4},
    {VECTORS "tiny-f16.gguf", VECTORS "tiny-f16.json", 1e-4, 1e-4},
    {VECTORS "tiny-bf16.gguf", VECTORS "tiny-bf16.json", 1e-4, 1e-4},
    {VECTORS "tiny-q8_0.gguf", VECTORS "tiny-q8_0.json", 6e-2, 3e-2},
    {FX_SOURCE_DIR "/models/storyteller.gguf", VECTORS "storyteller.json", 1e-4, 1e-4},
};

FX_TEST(test_all_files)
{
    for (size_t i = 0; i < sizeof files / sizeof *files; i++) check_file(&files[i], NULL);
}

FX_TEST(test_plain_c)
{
    check_file(&files[0], "ref");
}

FX_RUN(test_vectors)
