// test_score.c - pairs of texts become scores through the engine: the ids and scores of the
// reference, the same bits in company, what is refused, heads that are broken.
#include "unit/json_cases.h"

#include "model/pooling.h"
#include "unit/engine/support/unthreaded.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

#define MODELS  FX_SOURCE_DIR "/tests/vectors/models/"
#define FOLDERS FX_SOURCE_DIR "/tests/vectors/folders/"

enum { MAX_TOK = 200, N_PAIR = 9, DIM = 3 };

typedef struct verdict {
    float score;
    fx_finish finish;
    bool last;
} verdict;

static void keep_event(void *ud, const fx_event *ev)
{
    verdict *v = ud;
    v->finish = ev->finish;
    v->last = ev->last;
    assert_int_equal(ev->n_embd, ev->finish == FX_FINISH_STOP);
    if (ev->embedding) v->score = ev->embedding[0];
}

static fx_request request_of(const int32_t *tok, size_t n, int n_first, verdict *out)
{
    fx_request r = fx_request_default();
    *out = (verdict){0};
    r.task = FX_TASK_SCORE;
    r.n_first = n_first;
    r.prompt = tok;
    r.n_prompt = n;
    r.on_event = keep_event;
    r.ud = out;
    return r;
}

static void submit(fx_engine *eng, const fx_request *r)
{
    uint64_t id;
    fx_error err = {0};
    if (fx_submit(eng, r, &id, &err) != FX_OK) fail_msg("%s", err.text);
}

static float finish(fx_engine *eng, const verdict *v)
{
    for (int i = 0; i < 1000 && !v->last; i++) (void)fxi_iteration_run(eng);
    assert_true(v->last);
    assert_int_equal(v->finish, FX_FINISH_STOP);
    return v->score;
}

static float score(fx_engine *eng, const int32_t *tok, size_t n, int n_first)
{
    verdict v;
    const fx_request r = request_of(tok, n, n_first, &v);
    submit(eng, &r);
    return finish(eng, &v);
}

static void expect_near(const char *what, float got, const fxi_json *want)
{
    const double diff = fabs((double)got - fxi_json_number(want));
    if (!(diff < 2e-6)) fail_msg("%s: %g from the reference", what, diff);
}

// ---- the reference -----------------------------------------------------------------------------

static void check_model(const fxi_json *c)
{
    int32_t tok[MAX_TOK];
    char path[256];
    const fxi_json *want = fxi_json_get(c, "score");
    if (!want) return;
    snprintf(path, sizeof path, MODELS "%s", fxi_json_text(fxi_json_get(c, "file")));
    fx_engine *eng = unthreaded_open(path, (fx_options){.n_thread = 2, .kv_type = "f32"});
    const size_t n = (size_t)json_read_tokens(fxi_json_get(c, "prompt"), tok, MAX_TOK);
    const fx_model_info *info = fx_engine_info(eng);
    assert_true(info->scores && !info->embeds && !info->generates);
    assert_int_equal(info->n_embd, 0);
    assert_string_equal(info->pooling, "rank");
    expect_near(path, score(eng, tok, n, (int)fxi_json_int(fxi_json_get(c, "n_first"))), want);
    unthreaded_close(eng);
}

FX_TEST(test_scores_of_the_reference)
{
    json_each_case(MODELS "models.json", 30, check_model);
}

static void check_pair(const fxi_json *c)
{
    const fxi_json *ids = fxi_json_get(c, "ids");
    const fxi_json *first = fxi_json_get(c, "text_1"), *second = fxi_json_get(c, "text_2");
    const char *const text[] = {fxi_json_text(first), fxi_json_text(second)};
    const size_t n_bytes[] = {fxi_json_string(first).n, fxi_json_string(second).n};
    char path[256];
    fx_tokens tok = {0};
    size_t n_first;
    fx_error err;
    snprintf(path, sizeof path, FOLDERS "%s", fxi_json_text(fxi_json_get(c, "folder")));
    fx_engine *eng = unthreaded_open(path, (fx_options){.n_thread = 2, .kv_type = "f32"});
    assert_int_equal(fx_tokenize_pair(eng, text, n_bytes, 0, &tok, &n_first, &err), FX_OK);
    assert_int_equal(tok.n, fxi_json_array_size(ids));
    for (size_t i = 0; i < tok.n; i++)
        assert_int_equal(tok.id[i], fxi_json_int(fxi_json_at(ids, i)));
    assert_int_equal(n_first, fxi_json_int(fxi_json_get(c, "n_first")));
    expect_near(path, score(eng, tok.id, tok.n, (int)n_first), fxi_json_get(c, "score"));
    const size_t n = tok.n;
    for (size_t max = 1; max <= n; max++) { // appended, or nothing is
        const fx_status st = fx_tokenize_pair(eng, text, n_bytes, max, &tok, &n_first, &err);
        if (st != (max < n ? FX_ECONTEXT : FX_OK)) fail_msg("%s: at most %zu", path, max);
        assert_int_equal(tok.n, max < n ? n : 2 * n);
    }
    fx_tokens_free(&tok);
    unthreaded_close(eng);
}

FX_TEST(test_pairs_of_the_reference)
{
    json_each_case(MODELS "pairs.json", 10, check_pair);
}

// The template's own text alone becomes control tokens; its braces and line feeds stay.
FX_TEST(test_pairs_in_a_template)
{
    static const char *const pairs[][2] = {{"12", "HE?"}, {"", ""}, {"</s>", "<s>{QUERY}"}};
    fx_engine *eng = unthreaded_open(MODELS "qwen3-reranker.gguf", (fx_options){.n_thread = 1});
    for (size_t i = 0; i < sizeof pairs / sizeof *pairs; i++) {
        const size_t n_bytes[] = {strlen(pairs[i][0]), strlen(pairs[i][1])};
        char whole[128];
        fx_tokens tok = {0}, want = {0};
        size_t n_first, n = 0;
        fx_error err;
        snprintf(whole, sizeof whole, "<s>Q%s</s>D%s:<s>{0}\n\n", pairs[i][0], pairs[i][1]);
        assert_int_equal(fx_tokenize_pair(eng, pairs[i], n_bytes, 0, &tok, &n_first, &err), FX_OK);
        assert_int_equal(fx_tokenize(eng, whole, strlen(whole), FX_TOKENIZE_CONTROL, &want, &err),
                         FX_OK);
        for (size_t k = 0; k < tok.n; k++) n += tok.id[k] == 2;
        assert_int_equal(n, 1); // </s>
        assert_int_equal(n_first, tok.n);
        if (!strchr(pairs[i][0], '<')) {
            assert_int_equal(tok.n, want.n);
            assert_memory_equal(tok.id, want.id, want.n * sizeof *want.id);
        }
        const size_t n_before = tok.n;
        assert_int_equal(
            fx_tokenize_pair(eng, pairs[i], n_bytes, n_before - 1, &tok, &n_first, &err),
            FX_ECONTEXT);
        assert_int_equal(tok.n, n_before);
        fx_tokens_free(&tok);
        fx_tokens_free(&want);
    }
    unthreaded_close(eng);
}

// ---- the same bits -----------------------------------------------------------------------------

static size_t make_pair(int i, int32_t *tok)
{
    const size_t n = 3 + (size_t)i * 13;
    for (size_t k = 0; k < n; k++) tok[k] = (int32_t)(3 + (k * 7 + k * k * 3 + (size_t)i) % 45);
    return n;
}

FX_TEST(test_scores_have_the_same_bits_in_company)
{
    static int32_t tok[N_PAIR][MAX_TOK];
    float alone[N_PAIR];
    verdict v[N_PAIR];
    fx_engine *eng = unthreaded_open(MODELS "bert-rank.gguf", (fx_options){.n_thread = 1});
    for (int i = 0; i < N_PAIR; i++) {
        const size_t n = make_pair(i, tok[i]);
        alone[i] = score(eng, tok[i], n, 2 + i);
        if (i) assert_true(alone[i] != score(eng, tok[i], n, 0)); // types count
    }
    unthreaded_close(eng);
    eng = unthreaded_open(MODELS "bert-rank.gguf", (fx_options){.n_thread = 2, .step_tok = 130});
    for (int i = 0; i < N_PAIR; i++) {
        const fx_request r = request_of(tok[i], make_pair(i, tok[i]), 2 + i, &v[i]);
        submit(eng, &r);
    }
    for (int i = 0; i < N_PAIR; i++) assert_true(finish(eng, &v[i]) == alone[i]);
    unthreaded_close(eng);
}

// ---- what is refused ---------------------------------------------------------------------------

static void expect_refusal(fx_engine *eng, const fx_request *r, fx_status st, const char *says)
{
    uint64_t id;
    fx_error err = {0};
    assert_int_equal(fx_submit(eng, r, &id, &err), st);
    if (!strstr(err.text, says)) fail_msg("expected \"%s\" in: %s", says, err.text);
}

FX_TEST(test_refused_scores)
{
    static int32_t tok[MAX_TOK];
    verdict v;
    fx_engine *eng = unthreaded_open(MODELS "bert-rank.gguf", (fx_options){.step_tok = 120});
    fx_request r = request_of(tok, 121, 3, &v);
    expect_refusal(eng, &r, FX_ECONTEXT, "the text has 121 tokens, at most 120 are scored");
    r.n_prompt = 5;
    r.n_first = 6;
    expect_refusal(eng, &r, FX_EINVAL, "n_first: 6 is not from 0 to 5");
    r.n_first = -1;
    expect_refusal(eng, &r, FX_EINVAL, "n_first: -1");
    r.task = FX_TASK_EMBED;
    expect_refusal(eng, &r, FX_EINVAL, "scores pairs of texts, it does not embed any");
    r.task = FX_TASK_GENERATE;
    expect_refusal(eng, &r, FX_EINVAL, "scores pairs of texts, it does not generate any");
    unthreaded_close(eng);
    eng = unthreaded_open(MODELS "bert.gguf", (fx_options){.n_thread = 1});
    r.task = FX_TASK_SCORE;
    r.n_first = 3;
    expect_refusal(eng, &r, FX_EINVAL, "does not score pairs of texts");
    unthreaded_close(eng);
}

FX_TEST(test_rank_needs_a_head)
{
    static const struct {
        const char *model, *pooling, *says;
    } rows[] = {{"bert.gguf", "rank", "tensor 'cls.output.weight' is missing"},
                {"llama.gguf", "rank", "tensor 'cls.output.weight' is missing"},
                {"bert-rank.gguf", "most", "is none of mean, first, last, rank"},
                {"bert-rank.gguf", "mean", NULL}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        char path[256];
        fx_engine *eng;
        fx_error err = {0};
        snprintf(path, sizeof path, MODELS "%s", rows[i].model);
        const fx_options opt = {.model_path = path, .n_thread = 1, .pooling = rows[i].pooling};
        const fx_status st = fx_engine_open(&opt, &eng, &err);
        if (rows[i].says ? !strstr(err.text, rows[i].says) : st != FX_OK)
            fail_msg("%s, %s: %s", rows[i].model, rows[i].pooling, err.text);
        fx_engine_close(eng);
    }
}

// ---- the head ----------------------------------------------------------------------------------

FX_TEST(test_heads_of_all_kinds)
{
    const float dense[] = {0, 1, 0, 1, 0, 0, 0, 0, 2}, dense_b[] = {0.5f, 0, 0}, out[] = {1, 2, 4};
    const float x[] = {0.25f, -0.5f, 1};
    const double hidden = tanh(0.0) + 2 * tanh(0.25) + 4 * tanh(2.0) - 3, plain = 0.25 - 1 + 4 - 3;
    for (int i = 0; i < 4; i++) {
        const bool is_raw = i & 1, has_dense = i & 2;
        const fxi_score_head h = {has_dense ? dense : NULL, dense_b, out, -3, is_raw};
        const fxi_model_shape s = {.dim = DIM, .pooling = FXI_POOL_RANK, .head = &h};
        const double logit = has_dense ? hidden : plain;
        float v[DIM];
        memcpy(v, x, sizeof v);
        assert_true(fxi_pooling_score(&s, v));
        assert_true(fabs((double)v[0] - (is_raw ? logit : 1 / (1 + exp(-logit)))) < 1e-6);
        v[0] = NAN;
        assert_false(fxi_pooling_score(&s, v));
    }
}

FX_RUN(test_score)
