// test_device.c - the decoder over a device whose memory the host cannot read: the same bits as
// over the plain host; and whatever call fails, loading or a pass ends with the device's line, and
// what comes next works.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "format/gguf.h"
#include "kv/kv.h"
#include "unit/model/hidden_device.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODELS FX_SOURCE_DIR "/tests/vectors/models/"

enum { N_SEQ = 2, N_TOK = 23, CHUNK = 15, CTX_TOK = 64 };

typedef struct rig {
    fxi_pool *pool;
    hidden_device hidden;
    bool is_hidden;
    fxi_model *model;
    fxi_kv *kv;
    fxi_kv_seq *seq[N_SEQ];
    const fxi_model_shape *shape;
    int n_out; // numbers of a row that is returned
} rig;

// ---- opening -----------------------------------------------------------------------------------

static fx_status load_model(rig *r, const char *name, fx_error *err)
{
    char path[300];
    fxi_gguf *g;
    snprintf(path, sizeof path, MODELS "%s.gguf", name);
    if (fxi_model_file_open(path, &g, err) != FX_OK) fail_msg("%s", err->text);
    const fxi_model_options opt = {.pool = r->pool,
                                   .device = r->is_hidden ? &r->hidden.dev : NULL,
                                   .ctx_tok = CTX_TOK,
                                   .max_batch_tok = N_SEQ * N_TOK,
                                   .max_batch_logit = N_SEQ * N_TOK};
    const fx_status st = fxi_model_load(g, &opt, &r->model, err);
    fxi_gguf_close(g);
    return st;
}

static void open_pool(rig *r, bool is_hidden)
{
    memset(r, 0, sizeof *r);
    r->is_hidden = is_hidden;
    assert_int_equal(fxi_pool_create(2, &r->pool, NULL), FX_OK);
    if (is_hidden) hidden_open(&r->hidden, r->pool);
}

static void open_caches(rig *r)
{
    r->shape = &r->model->shape;
    const fxi_kv_shape shape = {
        .layout = r->shape->kv, .ctx_tok = CTX_TOK, .max_seq = N_SEQ, .budget_bytes = 64 << 20};
    assert_int_equal(fxi_kv_open("vtensor", &shape, &r->kv, NULL), FX_OK);
    for (int s = 0; s < N_SEQ; s++)
        assert_int_equal(fxi_kv_create(r->kv, &(fxi_kv_expect){0}, &r->seq[s]), FX_OK);
    r->n_out = r->shape->generates ? r->shape->n_vocab : r->shape->dim;
}

static void open_rig(rig *r, const char *name, bool is_hidden)
{
    fx_error err = {0};
    open_pool(r, is_hidden);
    if (load_model(r, name, &err) != FX_OK) fail_msg("%s: %s", name, err.text);
    open_caches(r);
}

static void close_rig(rig *r)
{
    fxi_kv_close(r->kv);
    fxi_model_free(r->model);
    if (r->is_hidden) r->hidden.dev.ops->close(&r->hidden.dev);
    fxi_pool_destroy(r->pool);
}

// ---- passes ------------------------------------------------------------------------------------

static fxi_kv_views views_of(const rig *r, int s)
{
    fxi_kv_views v = fxi_kv_get_views(r->kv, r->seq[s]);
    for (int g = 0; r->is_hidden && g < FXI_KV_MAX_GROUP; g++)
        v.group[g].base = (char *)((uintptr_t)v.group[g].base + r->hidden.shift);
    return v;
}

// Tokens [from, from + n) of all sequences; rows of the last ones, those of sequence 0 first.
static fx_status run_pass(const rig *r, int from, int n, int n_row, float *out, int32_t *best,
                          fx_error *err)
{
    int32_t tok[N_SEQ * N_TOK];
    fxi_batch_seq seq[N_SEQ];
    fxi_batch b = {.token = tok, .seq = seq, .n_seq = N_SEQ, .best = best};
    const bool embeds = !r->shape->generates;
    if (embeds) b.rows = out;
    for (int s = 0; s < N_SEQ; s++) {
        assert_int_equal(fxi_kv_extend(r->kv, r->seq[s], from + n), FX_OK);
        for (int i = 0; i < n; i++)
            tok[b.n_tok++] = (3 + s * 7 + (from + i) * 11) % r->shape->n_vocab;
        seq[s] = (fxi_batch_seq){.views = views_of(r, s),
                                 .pos = from,
                                 .n_tok = n,
                                 .n_logit = s ? n_row : 2 * n_row,
                                 .embeds = embeds};
    }
    return fxi_model_forward(r->model, &b, embeds ? NULL : out, err);
}

static float *new_rows(const rig *r, int n_row)
{
    float *out = calloc((size_t)n_row * (size_t)r->n_out, sizeof *out);
    assert_non_null(out);
    return out;
}

// In two chunks, of which the first wants no rows; a model that is not causal gets all at once.
static float *run_text(const rig *r, int32_t *best)
{
    fx_error err = {0};
    float *out = new_rows(r, 3);
    const int first = r->shape->is_causal ? CHUNK : 0;
    if (first) assert_int_equal(run_pass(r, 0, first, 0, NULL, NULL, &err), FX_OK);
    if (run_pass(r, first, N_TOK - first, 1, out, best, &err) != FX_OK) fail_msg("%s", err.text);
    return out;
}

// Every kind of step, weights of blocks and of floats.
static const char *const models[] = {
    "llama",      "falcon-7b",     "falcon-40b",   "gemma2",        "gemma3",
    "gpt-oss",    "gpt-oss-mxfp4", "qwen2moe",     "qwen3moe",      "mixtral",
    "granitemoe", "olmo2",         "phi2",         "opt-post-norm", "starcoder2",
    "gpt2",       "command-r",     "ministral3",   "phi3-long",     "bert",
    "nomic-bert", "glm4moe",       "ernie4-5-moe", "hunyuan-dense", "exaone4",
};

FX_TEST(test_decoder_reads_no_device_memory)
{
    for (size_t m = 0; m < sizeof models / sizeof *models; m++) {
        rig plain, hidden;
        open_rig(&plain, models[m], false);
        open_rig(&hidden, models[m], true);
        float *want = run_text(&plain, NULL), *got = run_text(&hidden, NULL);
        if (memcmp(want, got, 3 * (size_t)plain.n_out * sizeof *want) != 0)
            fail_msg("%s: other bits", models[m]);
        free(want);
        free(got);
        close_rig(&hidden);
        close_rig(&plain);
    }
}

// ---- rows that are wanted -----------------------------------------------------------------------

FX_TEST(test_wanted_rows)
{
    const fxi_batch_seq seq[] = {{.n_tok = 3, .n_logit = 1},
                                 {.n_tok = 2},
                                 {.n_tok = 4, .n_logit = 4},
                                 {.n_tok = 2, .n_logit = 2, .embeds = true}};
    static const int want[] = {2, 5, 6, 7, 8, 9, 10};
    fxi_batch b = {.n_tok = 11, .seq = seq, .n_seq = 4};
    int row[11], n_logit;
    assert_int_equal(fxi_batch_wanted(&b, row, &n_logit), 7);
    assert_int_equal(n_logit, 5);
    assert_memory_equal(row, want, sizeof want);
    b.n_seq = 3;
    assert_int_equal(fxi_batch_wanted(&b, NULL, &n_logit), 5);
    assert_int_equal(n_logit, 5);
    b = (fxi_batch){.n_tok = 2, .seq = seq + 1, .n_seq = 1};
    assert_int_equal(fxi_batch_wanted(&b, row, &n_logit), 0);
    assert_int_equal(n_logit, 0);
}

// ---- the likeliest tokens ----------------------------------------------------------------------

static int32_t likeliest(const float *row, int n)
{
    int best = 0;
    for (int i = 0; i < n; i++) {
        if (!isfinite(row[i])) return -1;
        if (row[i] > row[best]) best = i;
    }
    return best;
}

FX_TEST(test_likeliest_tokens)
{
    rig r;
    int32_t best[3] = {-7, -7, -7}, alone[3];
    open_rig(&r, "llama", false);
    float *out = run_text(&r, best);
    for (int i = 0; i < 3; i++) assert_int_equal(best[i], likeliest(out + i * r.n_out, r.n_out));
    assert_int_equal(run_pass(&r, CHUNK, N_TOK - CHUNK, 1, NULL, alone, NULL), FX_OK);
    assert_memory_equal(alone, best, sizeof best);
    free(out);
    close_rig(&r);
}

// ---- failures ----------------------------------------------------------------------------------

static void expect_line(const rig *r, fx_status st, const fx_error *err)
{
    char want[80];
    snprintf(want, sizeof want, "hidden:0: %s failed", r->hidden.failed_in);
    assert_int_equal(st, FX_EINTERNAL);
    assert_string_equal(err->text, want);
}

FX_TEST(test_loading_fails_at_every_call)
{
    fx_status st = FX_EINTERNAL;
    int n = 0;
    while (st != FX_OK) {
        rig r;
        fx_error err = {0};
        open_pool(&r, true);
        hidden_fail_after(&r.hidden, ++n);
        st = load_model(&r, "qwen2moe", &err);
        if (st != FX_OK) {
            assert_null(r.model);
            expect_line(&r, st, &err);
        }
        close_rig(&r);
    }
    assert_true(n > 60); // every weight is taken and put
}

// The pass after one that failed computes the same tokens again.
static void check_failing_passes(const char *name)
{
    rig r;
    fx_status st = FX_EINTERNAL;
    int n = 0;
    open_rig(&r, name, true);
    const int first = r.shape->is_causal ? CHUNK : 0, rest = N_TOK - first;
    int32_t best[3];
    float *want = run_text(&r, NULL), *out = new_rows(&r, 3);
    while (st != FX_OK) {
        fx_error err = {0};
        hidden_fail_after(&r.hidden, ++n);
        st = run_pass(&r, first, rest, 1, out, r.shape->generates ? best : NULL, &err);
        if (st != FX_OK) expect_line(&r, st, &err);
        hidden_fail_after(&r.hidden, 0);
        assert_int_equal(run_pass(&r, first, rest, 1, out, NULL, &err), FX_OK);
        assert_memory_equal(out, want, 3 * (size_t)r.n_out * sizeof *out);
    }
    assert_true(n > 12); // the steps of two layers and what is around them
    free(want);
    free(out);
    close_rig(&r);
}

FX_TEST(test_passes_fail_at_every_call)
{
    check_failing_passes("llama");
    check_failing_passes("falcon-7b");
    check_failing_passes("qwen2moe");
    check_failing_passes("bert");
}

FX_TEST(test_lost_device_says_so_again)
{
    rig r;
    open_rig(&r, "llama", true);
    float *out = run_text(&r, NULL);
    r.hidden.fails_for_good = true;
    hidden_fail_after(&r.hidden, 9);
    for (int i = 0; i < 3; i++) {
        fx_error err = {0};
        const fx_status st = run_pass(&r, CHUNK, N_TOK - CHUNK, 1, out, NULL, &err);
        expect_line(&r, st, &err);
        assert_true(r.hidden.dev.ops->is_lost(&r.hidden.dev));
    }
    free(out);
    close_rig(&r);
}

FX_RUN(test_device)
