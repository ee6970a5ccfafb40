// test_ranks.c - several devices that compute one model together, on hosts: what each loads, and
// that they compute what one does.
//
// Sums in parts are other bits than sums in one go, so they are compared within a bound, but only
// where several devices add: of one rank, and whatever the batch and the chunks, with ==.
#include "suite.h"
#include "unit/cmocka_all.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/model/host_ranks.h"
#include "unit/model/logit_distance.h"
#include "unit/model/runner.h"
#include "unit/model/small_model.h"
#include "unit/model/twin_heads.h"

#define MODELS FX_SOURCE_DIR "/tests/vectors/models/"

enum { N_TOK = 24 };

static const variant at_once = {"at once", RUNNER_MAX_TOK, 1, 0, NULL, NULL};

// ---- what they compute -------------------------------------------------------------------------

static void check_same(const char *what, const float *got, const float *want, int n)
{
    if (memcmp(got, want, (size_t)n * sizeof *got) != 0) fail_msg("%s: other bits", what);
}

static void check_ways(runner_model m, int n, const float *want, int n_out)
{
    static const variant ways[] = {
        {"one token at a time, vAttention's rows", 1, 1, 0, NULL, "vattention"},
        {"chunks of 7, beside others", 7, 2, 2, NULL, NULL},
        {"plain C, planes side by side", 9, 1, 1, "ref", "vattention-mega"}};
    fx_error err;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        float *got = host_ranks_run(m, n, &ways[i], N_TOK, &n_out, &err);
        assert_non_null(got);
        check_same(ways[i].what, got, want, n_out);
        free(got);
    }
}

// Returns whether n devices can share it out.
static bool check_shared(runner_model m, int n, const float *whole, bool in_every_way)
{
    int n_out;
    fx_error err = {0};
    float *got = host_ranks_run(m, n, &at_once, N_TOK, &n_out, &err);
    if (!got && !strstr(err.text, "device")) fail_msg("%s: %s", m.path, err.text);
    if (!got) return false;
    // Rounding to Q8 moves a number by up to 1 / 254 of the largest; without it only sums differ.
    const double d = logit_distance(got, whole, n_out);
    if (!(d < 0.05)) fail_msg("%s: several devices are %g away from one", m.path, d);
    if (in_every_way) check_ways(m, n, got, n_out);
    free(got);
    return true;
}

// The same model with more KV heads, which are its one again: a head that several devices have is
// as good as one for each. Norms over all heads are refused. Returns whether there is such a model,
// and n devices can share it out.
static bool check_twin(runner_model m, const float *whole)
{
    const runner_model twin = {"ranks-twin.gguf", m.kv_type};
    int n_out;
    fx_error err = {0};
    const int n = strstr(m.path, "olmo") ? 0 : twin_heads_write(twin.path, m.path);
    if (!n) return false;
    float *same = run_plain(twin, N_TOK, &n_out);
    check_same(m.path, same, whole, n_out);
    float *want = host_ranks_run(twin, n, &at_once, N_TOK, &n_out, &err);
    float *got = host_ranks_run(m, n, &at_once, N_TOK, &n_out, &err);
    const bool is_shared = got != NULL;
    assert_int_equal(is_shared, want != NULL);
    if (is_shared) check_same("a head that several have", got, want, n_out);
    free(same), free(want), free(got);
    remove(twin.path);
    return is_shared;
}

static int n_twin; // models that check_twin has compared

// By two devices, or by three. Returns whether they can share it out.
static bool check_model(runner_model m, bool in_every_way)
{
    int n_out;
    fx_error err = {0};
    float *whole = run_plain(m, N_TOK, &n_out);
    float *one = host_ranks_run(m, 1, &at_once, N_TOK, &n_out, &err);
    if (!one) { // refused by name
        if (!strstr(err.text, "recurrent layers")) fail_msg("%s", err.text);
        free(whole);
        return false;
    }
    check_same(m.path, one, whole, n_out);
    free(one);
    const bool is_shared =
        check_shared(m, 2, whole, in_every_way) || check_shared(m, 3, whole, in_every_way);
    n_twin += check_twin(m, whole);
    free(whole);
    return is_shared;
}

FX_TEST(test_every_family_is_shared_out)
{
    glob_t found;
    int n_shared = 0;
    assert_int_equal(glob(MODELS "*.gguf", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        n_shared += check_model((runner_model){found.gl_pathv[i], NULL}, i % 4 == 0);
    globfree(&found);
    assert_true(n_twin >= 10);
    assert_true(n_shared >= 42); // not olmo's norms, and mxfp4's blocks in so small a model
}

static void check_small(const small_model *m, const char *kv_type)
{
    const char *path = "ranks.gguf";
    small_model_write(path, m);
    if (!check_model((runner_model){path, kv_type}, true)) fail_msg("%s", m->shape.what);
    remove(path);
}

// Blocks of 256 numbers are not cut: the devices get 256 and 512 of 768.
FX_TEST(test_every_type_of_weights_is_cut)
{
    static const fxi_dtype types[] = {FXI_F32, FXI_BF16, FXI_Q8_0, FXI_Q4_0, FXI_Q4_K, FXI_Q6_K};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        check_small(&(small_model){.shape = {"a type", 2, 256, 8, 4, 64, 768, 300, i % 2},
                                   .type = types[i]},
                    i % 2 ? "q8_0" : NULL);
}

FX_TEST(test_four_devices)
{
    int n_out;
    fx_error err = {0};
    const small_model m = {.shape = {"four", 2, 128, 8, 4, 32, 288, 300, true}, .type = FXI_F32};
    small_model_write("ranks.gguf", &m);
    const runner_model path = {"ranks.gguf", NULL};
    float *whole = run_plain(path, N_TOK, &n_out);
    float *four = host_ranks_run(path, 4, &at_once, N_TOK, &n_out, &err);
    if (!four) fail_msg("%s", err.text);
    assert_true(logit_distance(four, whole, n_out) < 1e-4);
    free(whole), free(four);
    remove("ranks.gguf");
}

// A model on hosts.
typedef struct hosts_rig {
    runner r;
    host_ranks hosts;
} hosts_rig;

static void open_hosts(hosts_rig *v, const small_model *m, const char *kv_type, int n)
{
    fx_error err = {0};
    const runner_model file = {"ranks.gguf", kv_type};
    small_model_write(file.path, m);
    *v = (hosts_rig){0};
    assert_int_equal(fxi_pool_create(1, &v->r.pool, &err), FX_OK);
    host_ranks_open(&v->hosts, n, v->r.pool, NULL);
    if (!runner_open_on(&v->r, &v->hosts.dev, file, &at_once, &err)) fail_msg("%s", err.text);
}

static void close_hosts(hosts_rig *v)
{
    fxi_kv_close(v->r.kv);
    fxi_model_free(v->r.model);
    v->hosts.dev.ops->close(&v->hosts.dev);
    fxi_pool_destroy(v->r.pool);
    remove("ranks.gguf");
}

// Two heads of keys and values for four devices: each has the one that its queries read.
FX_TEST(test_devices_may_have_the_same_kv_head)
{
    enum { HEAD = 32, N_KV = 2, N_DEV = 4 };
    const small_model m = {.shape = {"kv heads", 2, 256, 8, N_KV, HEAD, 288, 300, false},
                           .type = FXI_F32};
    const runner_model file = {"ranks.gguf", "f32"};
    int n_out;
    fx_error err = {0};
    hosts_rig v;
    small_model_write(file.path, &m);
    float *whole = run_plain(file, N_TOK, &n_out);
    float *four = host_ranks_run(file, N_DEV, &at_once, N_TOK, &n_out, &err);
    if (!four) fail_msg("%s", err.text);
    assert_true(logit_distance(four, whole, n_out) < 1e-4);
    check_ways(file, N_DEV, four, n_out);
    free(whole), free(four);
    open_hosts(&v, &m, "f32", N_DEV);
    const fxi_model_shape *s = &v.r.model->shape;
    assert_int_equal(s->n_kv_head, N_KV); // the model's, but the caches of all devices
    assert_int_equal(s->kv.group[0].row_bytes, N_DEV * HEAD * sizeof(float));
    close_hosts(&v);
}

// ---- the vocabulary ----------------------------------------------------------------------------

enum { N_ROW = 3, N_VOCAB = 300, N_RANK = 3 };

typedef struct vocab_rig {
    hosts_rig on;
    float logits[N_ROW * N_VOCAB];
    int32_t best[N_ROW];
} vocab_rig;

static void open_vocab(vocab_rig *v, bool is_tied)
{
    const small_model m = {.shape = {"parts", 1, 96, 3, 3, 32, 96, N_VOCAB, is_tied},
                           .type = FXI_Q8_0};
    *v = (vocab_rig){0};
    open_hosts(&v->on, &m, NULL, N_RANK);
}

static fxi_transformer *vocab_part(const vocab_rig *v, int rank)
{
    return ((fxi_transformer *)v->on.r.model)->ranks.part[rank];
}

static void compute_vocab(vocab_rig *v, bool wants_logits)
{
    static const int32_t tok[N_ROW] = {5, 170, 299};
    assert_int_equal(fxi_kv_extend(v->on.r.kv, v->on.r.seq[0], N_ROW), FX_OK);
    const fxi_batch_seq seq = {
        .views = fxi_kv_get_views(v->on.r.kv, v->on.r.seq[0]), .n_tok = N_ROW, .n_logit = N_ROW};
    const fxi_batch b = {.token = tok, .n_tok = N_ROW, .seq = &seq, .n_seq = 1, .best = v->best};
    float *logits = wants_logits ? v->logits : NULL;
    assert_int_equal(fxi_model_forward(v->on.r.model, &b, logits, NULL), FX_OK);
}

static int first_largest(const float *row)
{
    int best = 0;
    for (int i = 0; i < N_VOCAB; i++) {
        if (!isfinite(row[i])) return -1;
        if (row[i] > row[best]) best = i;
    }
    return best;
}

static void check_best(vocab_rig *v)
{
    for (int wants_logits = 1; wants_logits >= 0; wants_logits--) {
        compute_vocab(v, wants_logits);
        for (int i = 0; i < N_ROW; i++)
            assert_int_equal(v->best[i], first_largest(v->logits + i * N_VOCAB));
    }
}

// Each device has its rows of the output matrix and no others, whole panels.
static void check_parts(const vocab_rig *v, bool is_tied)
{
    int n = 0;
    for (int k = 0; k < N_RANK; k++) {
        const fxi_transformer *m = vocab_part(v, k);
        assert_int_equal(m->vocab0, n);
        assert_int_equal(m->vocab0 % FXI_PANEL, 0);
        assert_in_range(m->output.w.n_out, N_VOCAB / N_RANK - FXI_PANEL,
                        N_VOCAB / N_RANK + FXI_PANEL);
        assert_int_equal(m->embd.n_out, N_VOCAB);
        assert_int_equal(m->embd.data == m->output.w.data, is_tied);
        n += m->output.w.n_out;
    }
    assert_int_equal(n, N_VOCAB);
}

// Logits that are cut off at the same number are equal in all parts: the first one is best. A part
// with a number that is not finite spoils the row, whichever part it is.
FX_TEST(test_the_vocabulary_is_shared_out)
{
    for (int is_tied = 0; is_tied < 2; is_tied++) {
        vocab_rig v;
        open_vocab(&v, is_tied);
        check_parts(&v, is_tied);
        check_best(&v);
        for (int k = 0; k < N_RANK; k++) vocab_part(&v, k)->rules.logit_cap = 1e-30f;
        check_best(&v);
        vocab_part(&v, 0)->rules.logit_scale = -1; // its largest are others'
        check_best(&v);
        for (int k = 0; k < N_RANK; k++) {
            vocab_part(&v, k)->rules.logit_cap = 0;
            vocab_part(&v, k)->rules.logit_scale = INFINITY;
            check_best(&v);
            assert_int_equal(v.best[0], -1);
            vocab_part(&v, k)->rules.logit_scale = 1;
        }
        close_hosts(&v.on);
    }
}

// A part is computed as it would be in one matrix: the first device gives all parts' logits.
FX_TEST(test_parts_have_the_bits_of_the_whole)
{
    vocab_rig v;
    static float parts[N_ROW * N_VOCAB];
    open_vocab(&v, true);
    compute_vocab(&v, true);
    memcpy(parts, v.logits, sizeof parts);
    for (int k = 0; k < N_RANK; k++) {
        fxi_transformer *m = vocab_part(&v, k);
        m->output.w = m->embd;
        m->output.w.n_out = k ? FXI_PANEL : N_VOCAB; // which have the first one's bits
        m->vocab0 = 0;
    }
    compute_vocab(&v, true);
    check_same("all rows by each device", v.logits, parts, N_ROW * N_VOCAB);
    close_hosts(&v.on);
}

// ---- loading -----------------------------------------------------------------------------------

typedef struct progress_seen {
    uint64_t done_bytes, total_bytes;
    int n;
} progress_seen;

static void see_progress(void *ud, uint64_t done_bytes, uint64_t total_bytes)
{
    progress_seen *seen = ud;
    assert_true(done_bytes >= seen->done_bytes && done_bytes <= total_bytes);
    *seen = (progress_seen){done_bytes, total_bytes, seen->n + 1};
}

FX_TEST(test_progress_of_all_parts_reaches_the_end)
{
    const small_model file = {.shape = {"parts", 1, 96, 3, 3, 32, 96, N_VOCAB, true},
                              .type = FXI_Q8_0};
    host_ranks hosts;
    fxi_pool *pool;
    fx_error err;
    fxi_gguf *g;
    fxi_model *m;
    progress_seen seen = {0};
    small_model_write("ranks.gguf", &file);
    assert_int_equal(fxi_pool_create(1, &pool, &err), FX_OK);
    host_ranks_open(&hosts, N_RANK, pool, NULL);
    const fxi_model_options opt = {.pool = pool,
                                   .device = &hosts.dev,
                                   .ctx_tok = 64,
                                   .max_batch_tok = 8,
                                   .max_batch_logit = 1,
                                   .on_progress = see_progress,
                                   .progress_ud = &seen};
    assert_int_equal(fxi_gguf_open("ranks.gguf", &g, &err), FX_OK);
    assert_int_equal(fxi_model_load(g, &opt, &m, &err), FX_OK);
    assert_true(seen.n > 2 * N_RANK);
    assert_true(seen.total_bytes > 0 && seen.done_bytes == seen.total_bytes);
    fxi_model_free(m);
    fxi_gguf_close(g);
    hosts.dev.ops->close(&hosts.dev);
    fxi_pool_destroy(pool);
    remove("ranks.gguf");
}

// ---- what they refuse --------------------------------------------------------------------------

static void check_refused(const small_model *m, int n, const char *want)
{
    int n_out;
    fx_error err = {0};
    small_model_write("ranks.gguf", m);
    assert_null(
        host_ranks_run((runner_model){"ranks.gguf", NULL}, n, &at_once, N_TOK, &n_out, &err));
    assert_string_equal(err.text, want);
    remove("ranks.gguf");
}

FX_TEST(test_what_cannot_be_shared_out_is_refused)
{
    small_model m = {.shape = {"", 1, 64, 4, 2, 16, 64, 300, true}, .type = FXI_F32};
    check_refused(&m, 3, "ranks.gguf: 3 devices cannot share out 2 KV heads");
    check_refused(&m, 8, "ranks.gguf: 8 devices cannot share out 4 heads");
    m.shape.n_kv_head = 4;
    m.shape.head_dim = m.shape.n_ffn = 32;
    m.type = FXI_Q8_0;
    check_refused(&m, 4,
                  "ranks.gguf: 4 devices cannot share out the 32 numbers of a feed-forward block");
    m = (small_model){.shape = {"", 1, 256, 4, 4, 64, 512, 300, true}, .type = FXI_Q4_K};
    check_refused(&m, 4,
                  "ranks.gguf: tensor 'blk.0.attn_output.weight' is of type Q4_K: a device's 64 "
                  "columns of it would cut blocks of 256 numbers");
}

FX_RUN(test_ranks)
