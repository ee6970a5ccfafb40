// test_families.c - every family against what its reference implementation computes in F32: logits
// within and after a prompt, greedy tokens, and the logits after these; and the same bits in every
// way that a model can be run, a paged cache included.
//
// vectors/make_model_vectors.py makes the models and the reference. With a cache in F32 all numbers
// are, so the bound is that of sums in another order. Layers of block types round their activations
// to 8 bits: such a model has a bound of its own (test_vectors.c derives one), and its tokens are
// those of the reference.
#include "suite.h"
#include "unit/json_cases.h"

#include "model/pooling.h"
#include "unit/model/runner.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODELS FX_SOURCE_DIR "/tests/vectors/models/"
#define BOUND  1e-4 // of the largest difference, relative to the largest logit

enum { MAX_TOK = 1024, MAX_BATCH = 400, LEAST_SAME = 60, MOST_SAME = 80 };

typedef struct family_run {
    fxi_pool *pool;
    fxi_model *model;
    fxi_kv *kv;
    fxi_kv_seq *seq;
    float *logits;
    int n_vocab, n_done;
} family_run;

static void run_open(family_run *r, const char *path, int ctx_tok)
{
    fxi_gguf *g;
    fx_error err = {0};
    memset(r, 0, sizeof *r);
    assert_int_equal(fxi_gguf_open(path, &g, &err), FX_OK);
    assert_int_equal(fxi_pool_create(2, &r->pool, &err), FX_OK);
    const fxi_model_options opt = {.pool = r->pool,
                                   .ctx_tok = ctx_tok,
                                   .max_batch_tok = MAX_BATCH,
                                   .max_batch_logit = 1,
                                   .kv_type = "f32"};
    if (fxi_model_load(g, &opt, &r->model, &err) != FX_OK) fail_msg("%s", err.text);
    fxi_gguf_close(g);
    const fxi_model_shape *s = &r->model->shape;
    const fxi_kv_shape shape = {
        .layout = s->kv, .ctx_tok = MAX_TOK, .max_seq = 1, .budget_bytes = 64 << 20};
    assert_int_equal(fxi_kv_open("vtensor", &shape, &r->kv, &err), FX_OK);
    assert_int_equal(fxi_kv_create(r->kv, &(fxi_kv_expect){0}, &r->seq), FX_OK);
    r->n_vocab = s->n_vocab;
    r->logits = malloc((size_t)s->n_vocab * sizeof *r->logits);
}

static void run_close(family_run *r)
{
    free(r->logits);
    fxi_kv_close(r->kv);
    fxi_model_free(r->model);
    fxi_pool_destroy(r->pool);
}

// Feeds tokens up to `end`, in chunks; the logits are those of the last one.
static void run_to(family_run *r, const int32_t *tok, int end)
{
    while (r->n_done < end) {
        const int n = end - r->n_done < 64 ? end - r->n_done : 64;
        assert_int_equal(fxi_kv_extend(r->kv, r->seq, r->n_done + n), FX_OK);
        const fxi_batch_seq seq = {
            .views = fxi_kv_get_views(r->kv, r->seq), .pos = r->n_done, .n_tok = n, .n_logit = 1};
        const fxi_batch batch = {.token = tok + r->n_done, .n_tok = n, .seq = &seq, .n_seq = 1};
        assert_int_equal(fxi_model_forward(r->model, &batch, r->logits, NULL), FX_OK);
        r->n_done += n;
    }
}

static double distance_to(const family_run *r, const fxi_json *want)
{
    double diff = 0, most = 0;
    assert_int_equal(fxi_json_array_size(want), r->n_vocab);
    for (int i = 0; i < r->n_vocab; i++) {
        const double w = fxi_json_number(fxi_json_at(want, (size_t)i));
        const double d = fabs((double)r->logits[i] - w);
        diff = d <= diff ? diff : d; // NaN stays
        most = fmax(most, fabs(w));
    }
    return diff / most;
}

static int32_t likeliest(const family_run *r)
{
    int best = 0;
    for (int i = 0; i < r->n_vocab; i++)
        if (r->logits[i] > r->logits[best]) best = i;
    return best;
}

static double check_prompt(family_run *r, const fxi_json *c, const int32_t *tok)
{
    const fxi_json *at = fxi_json_get(c, "at"), *logits = fxi_json_get(c, "logits");
    double worst = 0;
    assert_true(fxi_json_array_size(at) > 0);
    for (size_t i = 0; i < fxi_json_array_size(at); i++) {
        run_to(r, tok, (int)fxi_json_int(fxi_json_at(at, i)) + 1);
        const double d = distance_to(r, fxi_json_at(logits, i));
        worst = d <= worst ? worst : d;
    }
    return worst;
}

static void check_case(const fxi_json *c)
{
    const char *name = fxi_json_text(fxi_json_get(c, "name"));
    char path[256];
    int32_t tok[MAX_TOK];
    family_run r;
    if (!fxi_json_get(c, "logits")) return; // it embeds only
    const fxi_json *wide = fxi_json_get(c, "bound");
    const double bound = wide ? fxi_json_number(wide) : BOUND;
    snprintf(path, sizeof path, MODELS "%s", fxi_json_text(fxi_json_get(c, "file")));
    run_open(&r, path, (int)fxi_json_int(fxi_json_get(c, "ctx")));
    const int n_prompt = json_read_tokens(fxi_json_get(c, "prompt"), tok, MAX_TOK * 3 / 4);
    const int n_greedy =
        json_read_tokens(fxi_json_get(c, "greedy"), tok + n_prompt, MAX_TOK - n_prompt);
    const double in_prompt = check_prompt(&r, c, tok);
    print_message("%-22s prompt %.1e", name, in_prompt);
    for (int i = 0; i < n_greedy; i++) {
        const int32_t got = likeliest(&r);
        if (got != tok[n_prompt + i] && bound <= BOUND)
            fail_msg("%s: greedy token %d is %d, not %d", name, i, got, tok[n_prompt + i]);
        run_to(&r, tok, n_prompt + i + 1);
    }
    const double after = distance_to(&r, fxi_json_get(c, "last"));
    print_message("  after %.1e\n", after);
    if (!(in_prompt <= bound && after <= bound)) fail_msg("%s: logits differ", name);
    run_close(&r);
}

// ---- embeddings --------------------------------------------------------------------------------

// The embedding of a text that comes in chunks.
static void embed(family_run *r, const int32_t *tok, int n_tok, int chunk, float *out)
{
    const fxi_model_shape *s = &r->model->shape;
    float *rows = malloc((size_t)chunk * (size_t)s->dim * sizeof *rows);
    memset(out, 0, (size_t)s->dim * sizeof *out);
    for (int at = 0, n; at < n_tok; at += n) {
        n = n_tok - at < chunk ? n_tok - at : chunk;
        const int n_row = fxi_pooling_rows(s, n, at + n == n_tok);
        assert_int_equal(fxi_kv_extend(r->kv, r->seq, at + n), FX_OK);
        const fxi_batch_seq seq = {fxi_kv_get_views(r->kv, r->seq), at, n, n_row, true, 0};
        const fxi_batch batch = {tok + at, n, &seq, 1, rows, NULL, NULL};
        assert_int_equal(fxi_model_forward(r->model, &batch, NULL, NULL), FX_OK);
        fxi_pooling_add(s, rows, n_row, at + n, out);
    }
    assert_true(fxi_pooling_finish(s, n_tok, s->dim, s->has_unit_length, out));
    free(rows);
}

static void check_embedding(const fxi_json *c)
{
    const fxi_json *want = fxi_json_get(c, "embedding");
    char path[256];
    int32_t tok[MAX_TOK];
    float got[64], again[64];
    family_run r;
    bool is_causal;
    if (!want) return;
    snprintf(path, sizeof path, MODELS "%s", fxi_json_text(fxi_json_get(c, "file")));
    run_open(&r, path, 0);
    const int n = json_read_tokens(fxi_json_get(c, "prompt"), tok, MAX_TOK * 3 / 4),
              dim = (int)fxi_json_array_size(want);
    assert_int_equal(dim, r.model->shape.dim);
    is_causal = r.model->shape.is_causal;
    embed(&r, tok, n, is_causal ? 64 : n, got);
    embed(&r, tok, n, is_causal ? 7 : n, again);
    assert_memory_equal(got, again, (size_t)dim * sizeof *got);
    double diff = 0;
    for (int i = 0; i < dim; i++) {
        const double w = fxi_json_number(fxi_json_at(want, (size_t)i));
        const double d = fabs((double)got[i] - w);
        diff = d <= diff ? diff : d; // NaN stays
    }
    print_message("%-22s embedding %.1e\n", fxi_json_text(fxi_json_get(c, "name")), diff);
    if (!(diff < BOUND / 10)) fail_msg("%s: another embedding", path);
    run_close(&r);
}

FX_TEST(test_reference_logits_and_tokens)
{
    json_each_case(MODELS "models.json", 30, check_case);
}

FX_TEST(test_reference_embeddings)
{
    json_each_case(MODELS "models.json", 30, check_embedding);
}

// As long as the prompt, within bounds: some models have few positions, others blocks of 64.
static void same_bits_of(const fxi_json *c)
{
    char path[256];
    const int n_prompt = (int)fxi_json_array_size(fxi_json_get(c, "prompt"));
    const int n = n_prompt < LEAST_SAME ? LEAST_SAME : n_prompt < MOST_SAME ? n_prompt : MOST_SAME;
    snprintf(path, sizeof path, MODELS "%s", fxi_json_text(fxi_json_get(c, "file")));
    check_variants((runner_model){path, NULL}, path, n, true);
}

FX_TEST(test_same_bits)
{
    json_each_case(MODELS "models.json", 30, same_bits_of);
}

FX_RUN(test_families)
