// test_embedding.c - texts become vectors through the engine: those of the reference, with the same
// bits whatever else the engine does; what is refused; what ends with an error.
#include "unit/json_cases.h"

#include "model/model.h"
#include "unit/engine/support/unthreaded.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MODELS  FX_SOURCE_DIR "/tests/vectors/models/"
#define FOLDERS FX_SOURCE_DIR "/tests/vectors/folders/"

enum { MAX_DIM = 64, MAX_TEXT = 400, N_TEXT = 7, N_VOCAB = 48 };

typedef struct answer {
    float v[MAX_DIM];
    int n, n_event, n_cached, n_prompt;
    fx_finish finish;
    bool last;
    char error[128];
} answer;

static void keep_event(void *ud, const fx_event *ev)
{
    answer *a = ud;
    a->n_event++;
    a->finish = ev->finish;
    a->last = ev->last;
    a->n = ev->n_embd;
    a->n_cached = ev->n_cached;
    a->n_prompt = ev->n_prompt;
    assert_true(ev->n_embd <= MAX_DIM);
    assert_true((ev->embedding != NULL) == (ev->finish == FX_FINISH_STOP));
    if (ev->embedding) memcpy(a->v, ev->embedding, (size_t)ev->n_embd * sizeof *a->v);
    snprintf(a->error, sizeof a->error, "%s", ev->error ? ev->error : "");
}

static fx_request request_of(const int32_t *tok, size_t n, answer *out)
{
    fx_request r = fx_request_default();
    *out = (answer){0};
    r.task = FX_TASK_EMBED;
    r.prompt = tok;
    r.n_prompt = n;
    r.on_event = keep_event;
    r.ud = out;
    return r;
}

static uint64_t submit(fx_engine *eng, const fx_request *r)
{
    uint64_t id = 0;
    fx_error err = {0};
    if (fx_submit(eng, r, &id, &err) != FX_OK) fail_msg("%s", err.text);
    return id;
}

static void finish(fx_engine *eng, const answer *a)
{
    for (int i = 0; i < 10000 && !a->last; i++) (void)fxi_iteration_run(eng);
    assert_true(a->last);
    assert_int_equal(a->n_event, 1);
}

static answer embed(fx_engine *eng, const int32_t *tok, size_t n)
{
    answer a;
    const fx_request r = request_of(tok, n, &a);
    (void)submit(eng, &r);
    finish(eng, &a);
    assert_int_equal(a.finish, FX_FINISH_STOP);
    assert_int_equal(a.n_prompt, n);
    return a;
}

// Text i begins like all others of an even number.
static size_t make_text(int i, int32_t *tok)
{
    static const size_t n_tok[N_TEXT] = {90, 1, 97, 2, 150, 33, 64};
    for (size_t k = 0; k < n_tok[i]; k++)
        tok[k] = (int32_t)(3 + (k * 7 + k * k * 3 + (k < 40 ? 0 : (size_t)i * 11)) % (N_VOCAB - 3));
    return n_tok[i];
}

static void expect_same(const answer *got, const answer *want, const char *what)
{
    if (got->finish != FX_FINISH_STOP) fail_msg("%s: %s", what, got->error);
    assert_int_equal(got->n, want->n);
    if (memcmp(got->v, want->v, (size_t)want->n * sizeof *want->v))
        fail_msg("%s: other bits", what);
}

// ---- the reference -----------------------------------------------------------------------------

static void check_reference(const fxi_json *c)
{
    int32_t tok[1024];
    char path[256];
    const fxi_json *want = fxi_json_get(c, "embedding"), *prompt = fxi_json_get(c, "prompt");
    if (!want) return;
    snprintf(path, sizeof path, MODELS "%s", fxi_json_text(fxi_json_get(c, "file")));
    fx_engine *eng = unthreaded_open(path, (fx_options){.n_thread = 2, .kv_type = "f32"});
    const fx_model_info *info = fx_engine_info(eng);
    const size_t n = (size_t)json_read_tokens(prompt, tok, 1024);
    assert_true(info->embeds);
    assert_int_equal(info->n_embd, fxi_json_array_size(want));
    const answer a = embed(eng, tok, n);
    double diff = 0;
    for (int i = 0; i < a.n; i++)
        diff = fmax(diff, fabs((double)a.v[i] - fxi_json_number(fxi_json_at(want, (size_t)i))));
    if (!(diff < 1e-5)) fail_msg("%s: %g from the reference", path, diff);
    unthreaded_close(eng);
}

FX_TEST(test_vectors_of_the_reference)
{
    json_each_case(MODELS "models.json", 30, check_reference);
}

// A folder's text: the ids of its own tokenizer with the tokens around them, and the vector.
static void check_text(const fxi_json *c)
{
    const fxi_json *ids = fxi_json_get(c, "ids"), *want = fxi_json_get(c, "embedding");
    const char *text = fxi_json_text(fxi_json_get(c, "text"));
    char path[256];
    fx_tokens tok = {0};
    fx_error err;
    double diff = 0;
    snprintf(path, sizeof path, FOLDERS "%s", fxi_json_text(fxi_json_get(c, "folder")));
    fx_engine *eng = unthreaded_open(path, (fx_options){.n_thread = 2, .kv_type = "f32"});
    if (fx_tokenize(eng, text, strlen(text), FX_TOKENIZE_EMBED, &tok, &err) != FX_OK)
        fail_msg("%s", err.text);
    assert_int_equal(tok.n, fxi_json_array_size(ids));
    for (size_t i = 0; i < tok.n; i++)
        assert_int_equal(tok.id[i], fxi_json_int(fxi_json_at(ids, i)));
    const answer a = embed(eng, tok.id, tok.n);
    assert_int_equal(a.n, fxi_json_array_size(want));
    for (int i = 0; i < a.n; i++)
        diff = fmax(diff, fabs((double)a.v[i] - fxi_json_number(fxi_json_at(want, (size_t)i))));
    if (!(diff < 1e-5)) fail_msg("%s, '%s': %g from the reference", path, text, diff);
    fx_tokens_free(&tok);
    unthreaded_close(eng);
}

FX_TEST(test_texts_of_the_reference)
{
    json_each_case(MODELS "texts.json", 20, check_text);
}

// ---- the same bits -----------------------------------------------------------------------------

// The first two are causal, the others read in both directions; they pool the last row or the mean,
// and the last row, the mean or the first row.
static const char *const models[] = {MODELS "qwen3-embedding.gguf", MODELS "llama-mean.gguf",
                                     MODELS "qwen2-both-ways.gguf", MODELS "nomic-bert.gguf",
                                     MODELS "bert.gguf"};

enum { LAST, MEAN, BOTH_WAYS, N_CAUSAL = BOTH_WAYS, BERT = 4, N_MODEL };

static fx_engine *open_model(int m, fx_options opt)
{
    opt.ctx_tok = 200;
    if (!opt.n_thread) opt.n_thread = 2;
    return unthreaded_open_single(models[m], opt);
}

static void embed_alone(int m, answer want[N_TEXT])
{
    int32_t tok[MAX_TEXT];
    fx_engine *eng = open_model(m, (fx_options){.n_thread = 1});
    for (int i = 0; i < N_TEXT; i++) {
        fx_request r;
        answer a;
        const size_t n = make_text(i, tok);
        r = request_of(tok, n, &a);
        r.no_cache = true;
        (void)submit(eng, &r);
        finish(eng, &a);
        want[i] = a;
    }
    unthreaded_close(eng);
}

static void ignore_event(void *ud, const fx_event *ev)
{
    (void)ud, (void)ev;
}

// A request that generates beside them, where the model does.
static void add_company(fx_engine *eng)
{
    static const int32_t tok[] = {1, 5, 6, 7, 8};
    fx_request r = fx_request_default();
    if (!fx_engine_info(eng)->generates) return;
    r.prompt = tok;
    r.n_prompt = 5;
    r.max_tok = 30;
    r.n_choice = 2;
    r.on_event = ignore_event;
    (void)submit(eng, &r);
}

static void check_together(int m, fx_options opt, const answer want[N_TEXT])
{
    int32_t tok[N_TEXT][MAX_TEXT];
    answer a[N_TEXT];
    fx_engine *eng = open_model(m, opt);
    for (int round = 0; round < 2; round++) {
        add_company(eng);
        for (int i = 0; i < N_TEXT; i++) {
            const fx_request r = request_of(tok[i], make_text(i, tok[i]), &a[i]);
            (void)submit(eng, &r);
        }
        for (int i = 0; i < N_TEXT; i++) {
            finish(eng, &a[i]);
            expect_same(&a[i], &want[i], models[m]);
        }
    }
    unthreaded_close(eng);
}

FX_TEST(test_same_bits_in_company)
{
    for (int m = 0; m < N_MODEL; m++) {
        answer want[N_TEXT];
        embed_alone(m, want);
        check_together(m, (fx_options){.n_thread = 3}, want);
        check_together(m, (fx_options){.step_tok = 160, .max_seq = 3}, want);
        check_together(m, (fx_options){.step_tok = 200, .kv_memory_bytes = 1 << 20}, want);
        if (m < N_CAUSAL) check_together(m, (fx_options){.step_tok = 7, .max_seq = 7}, want);
    }
}

FX_TEST(test_cached_prefixes)
{
    for (int m = 0; m < N_MODEL; m++) {
        int32_t tok[MAX_TEXT];
        answer want[N_TEXT];
        embed_alone(m, want);
        fx_engine *eng = open_model(m, (fx_options){0});
        for (int i = 0; i < 2 * N_TEXT; i++) {
            const size_t n = make_text(i % N_TEXT, tok);
            const answer a = embed(eng, tok, n);
            expect_same(&a, &want[i % N_TEXT], models[m]);
            // The last row of a causal model follows from what is cached; a mean needs all rows.
            if (i >= N_TEXT) assert_int_equal(a.n_cached, m == LAST ? (int)n - 1 : 0);
        }
        unthreaded_close(eng);
    }
}

// Takes the running text out of memory after each of its steps.
static void check_preempted(int m, fxi_preempt_how how, const answer want[N_TEXT])
{
    int32_t tok[MAX_TEXT];
    answer a;
    const bool is_causal = m < N_CAUSAL;
    fx_options opt = {.step_tok = is_causal ? 16 : 200, .max_seq = 4};
    if (how == FXI_SWAP) opt.swap_bytes = 8 << 20;
    fx_engine *eng = open_model(m, opt);
    const fx_request r = request_of(tok, make_text(4, tok), &a);
    (void)submit(eng, &r);
    for (int n = 0, n_iteration = 0; n < 3 && n_iteration < 100 && !a.last; n_iteration++) {
        (void)fxi_iteration_run(eng);
        if (!eng->sched.running.head) continue; // on its way out, or back
        fxi_preempt_request(&eng->memory, eng->sched.running.head, how);
        if (++n == 3) (void)fxi_kv_forget_idle(eng->kv); // all is computed again
    }
    finish(eng, &a);
    expect_same(&a, &want[4], models[m]);
    fx_stats st;
    fx_engine_stats(eng, &st);
    if (is_causal) assert_true(st.n_preempt_recompute + st.n_preempt_swap >= 3);
    unthreaded_close(eng);
}

FX_TEST(test_same_bits_after_preemption)
{
    for (int m = 0; m < N_MODEL; m++) {
        answer want[N_TEXT];
        embed_alone(m, want);
        check_preempted(m, FXI_RECOMPUTE, want);
        check_preempted(m, FXI_SWAP, want);
    }
}

// ---- what a request says -----------------------------------------------------------------------

static double length_of(const answer *a)
{
    double sum = 0;
    for (int i = 0; i < a->n; i++) sum += (double)a->v[i] * (double)a->v[i];
    return sqrt(sum);
}

static answer embed_as(fx_engine *eng, int n_dim, fx_embd_norm norm)
{
    int32_t tok[MAX_TEXT];
    answer a;
    fx_request r = request_of(tok, make_text(0, tok), &a);
    r.n_dim = n_dim;
    r.norm = norm;
    r.max_tok = -7; // such fields are not read
    r.sampling.top_p = 7;
    (void)submit(eng, &r);
    finish(eng, &a);
    assert_int_equal(a.finish, FX_FINISH_STOP);
    return a;
}

FX_TEST(test_dimensions_and_norm)
{
    fx_engine *eng = open_model(BERT, (fx_options){0});
    const answer unit = embed_as(eng, 0, FX_NORM_MODEL), raw = embed_as(eng, 0, FX_NORM_NONE);
    const answer cut = embed_as(eng, 5, FX_NORM_UNIT), raw_cut = embed_as(eng, 5, FX_NORM_NONE);
    assert_int_equal(unit.n, 24);
    assert_int_equal(cut.n, 5);
    assert_true(fabs(length_of(&unit) - 1) < 1e-6 && fabs(length_of(&cut) - 1) < 1e-6);
    assert_true(fabs(length_of(&raw) - 1) > 0.1);
    for (int i = 0; i < 5; i++) {
        assert_true(raw_cut.v[i] == raw.v[i]);
        assert_true(fabs((double)cut.v[i] - (double)raw.v[i] / length_of(&raw_cut)) < 1e-6);
        assert_true(fabs((double)unit.v[i] - (double)raw.v[i] / length_of(&raw)) < 1e-6);
    }
    unthreaded_close(eng);
}

static void expect_refusal(fx_engine *eng, const fx_request *r, fx_status st, const char *says)
{
    uint64_t id;
    fx_error err = {0};
    assert_int_equal(fx_submit(eng, r, &id, &err), st);
    if (!strstr(err.text, says)) fail_msg("expected \"%s\" in: %s", says, err.text);
    assert_null(strchr(err.text, '\n'));
}

FX_TEST(test_refused_requests)
{
    static int32_t tok[MAX_TEXT] = {0};
    answer a;
    fx_engine *eng = open_model(BERT, (fx_options){.step_tok = 120});
    fx_request r = request_of(tok, 121, &a);
    assert_int_equal(fx_engine_info(eng)->embd_tok, 120);
    assert_false(fx_engine_info(eng)->generates);
    assert_string_equal(fx_engine_info(eng)->pooling, "first");
    expect_refusal(eng, &r, FX_ECONTEXT, "the text has 121 tokens, at most 120 are embedded");
    r.n_prompt = 0;
    expect_refusal(eng, &r, FX_EINVAL, "no tokens");
    r.n_prompt = 3;
    r.n_dim = 25;
    expect_refusal(eng, &r, FX_EINVAL, "dimensions: 25 is not from 1 to 24");
    r.n_dim = 0;
    r.norm = (fx_embd_norm)3;
    expect_refusal(eng, &r, FX_EINVAL, "norm: 3");
    r.norm = FX_NORM_MODEL;
    r.task = (fx_task)3;
    expect_refusal(eng, &r, FX_EINVAL, "task: 3");
    r.task = FX_TASK_GENERATE;
    expect_refusal(eng, &r, FX_EINVAL, "(bert) embeds texts, it does not generate any");
    assert_int_equal(a.n_event, 0);
    unthreaded_close(eng);
}

// A model whose file does not say how it pools embeds once the caller says so.
FX_TEST(test_pooling_is_chosen_at_opening)
{
    int32_t tok[MAX_TEXT];
    answer a;
    fx_engine *eng = unthreaded_open(MODELS "llama.gguf", (fx_options){.n_thread = 1});
    const fx_request r = request_of(tok, make_text(0, tok), &a);
    assert_false(fx_engine_info(eng)->embeds);
    assert_int_equal(fx_engine_info(eng)->n_embd, 0);
    expect_refusal(eng, &r, FX_EINVAL, "not made to embed");
    unthreaded_close(eng);
    eng = unthreaded_open(MODELS "llama.gguf", (fx_options){.n_thread = 1, .pooling = "cls"});
    assert_string_equal(fx_engine_info(eng)->pooling, "first");
    assert_true(fx_engine_info(eng)->generates);
    assert_int_equal(embed(eng, tok, 90).n, 30);
    unthreaded_close(eng);
    fx_error err;
    const fx_options bad = {.model_path = MODELS "llama.gguf", .n_thread = 1, .pooling = "max"};
    assert_int_equal(fx_engine_open(&bad, &eng, &err), FX_EINVAL);
    assert_string_equal(err.text, "pooling 'max' is none of mean, first, last, rank");
}

// ---- ends --------------------------------------------------------------------------------------

static struct {
    fxi_model_ops ops;
    const fxi_model_ops *real;
    bool fails;
} probe;

static fx_status probe_pass(fxi_model *m, const fxi_batch *b, float *logits, fx_error *err)
{
    const fx_status st = probe.real->submit(m, b, logits, err);
    if (probe.fails) return fxi_fail(err, FX_EINTERNAL, "the device is gone");
    b->rows[3] = NAN; // of the first text of the batch
    return st;
}

FX_TEST(test_rows_that_are_not_finite)
{
    int32_t tok[2][MAX_TEXT];
    answer a[2];
    fx_engine *eng = open_model(BERT, (fx_options){0});
    probe.ops = *eng->model->ops;
    probe.real = eng->model->ops;
    probe.ops.submit = probe_pass;
    eng->model->ops = &probe.ops;
    for (int round = 0; round < 2; round++) {
        probe.fails = round;
        for (int i = 0; i < 2; i++) {
            const fx_request r = request_of(tok[i], make_text(5 + i, tok[i]), &a[i]);
            (void)submit(eng, &r);
        }
        for (int i = 0; i < 2; i++) finish(eng, &a[i]);
        assert_int_equal(a[0].finish, FX_FINISH_ERROR);
        assert_non_null(strstr(a[0].error, round ? "device" : "finite"));
        assert_int_equal(a[1].finish, round ? FX_FINISH_ERROR : FX_FINISH_STOP);
    }
    unthreaded_close(eng);
}

FX_TEST(test_cancelled_and_closed)
{
    int32_t tok[2][MAX_TEXT];
    answer a[2];
    fx_engine *eng = open_model(MEAN, (fx_options){.step_tok = 8, .max_seq = 4});
    for (int i = 0; i < 2; i++) {
        const fx_request r = request_of(tok[i], make_text(4, tok[i]), &a[i]);
        const uint64_t id = submit(eng, &r);
        (void)fxi_iteration_run(eng);
        if (!i) fx_cancel(eng, id);
    }
    finish(eng, &a[0]);
    assert_int_equal(a[0].finish, FX_FINISH_CANCEL);
    assert_false(a[1].last);
    unthreaded_close(eng);
    assert_int_equal(a[1].finish, FX_FINISH_ABORT);
}

// A text of most of a step does not wait for ever behind short ones that keep coming.
enum { N_ONE = 14 };

FX_TEST(test_whole_texts_take_turns)
{
    int32_t long_text[MAX_TEXT], one[] = {5};
    static answer other[20 * N_ONE];
    answer a;
    fx_engine *eng = open_model(BERT, (fx_options){.step_tok = 160});
    const fx_request r = request_of(long_text, make_text(4, long_text), &a);
    for (int i = 0; i < 20 && !a.last; i++) {
        for (int k = 0; k < N_ONE; k++) {
            const fx_request s = request_of(one, 1, &other[i * N_ONE + k]);
            (void)submit(eng, &s);
        }
        if (i == 1) (void)submit(eng, &r);
        (void)fxi_iteration_run(eng);
    }
    assert_true(a.last);
    assert_int_equal(a.finish, FX_FINISH_STOP);
    unthreaded_close(eng);
}

FX_RUN(test_embedding)
