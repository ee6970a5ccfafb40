// bench_quality.c - what number types cost: perplexity, and the distance of a model's predictions
// from those of a base model, over a text.
//
//     bench_quality --text FILE BASE MODEL...
//
// Each MODEL is a model of BASE's vocabulary, or MODEL@TYPE with its KV cache in that type (f16
// otherwise; the base's is f32 unless it says so). The text is cut into windows of 512 tokens, each
// computed alone; the second half of each is scored, so that every token has a context of at least
// 256. That is how llama.cpp's perplexity tool counts, too. All models are in memory at once, so
// that the base is computed once.
//
// CSV on stdout, a row per model: model,tokens,bytes, perplexity and its standard error, perplexity
// over the base's and its standard error, the Kullback-Leibler divergence from the base (of whole
// vocabularies, in nats): mean, standard error of the mean, 99th percentile, worst; and the share
// of tokens whose likeliest next token is the base's.
#include "figures.h"

#include "base/option/opt.h"
#include "base/system/regions.h" // defines: fxi_mapping_open
#include "format/vocab.h"
#include "kv/kv.h"
#include "model/model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

enum { WINDOW_TOK = 512, SCORED_TOK = WINDOW_TOK / 2 };

typedef struct options {
    const char *text;
    int n_thread;
} options;

static const fxi_opt opts[] = {
    {"text", 0, "FILE", FXI_OPT_STR, 0, 0, NULL, offsetof(options, text), 1, "the text"},
    {"threads", 't', "N", FXI_OPT_INT, 0, 1024, "0", offsetof(options, n_thread), 1,
     "threads (default: one per core)"},
};
static const fxi_opt_table table = {
    .opt = opts, .n_opt = sizeof opts / sizeof *opts, .env_prefix = "BENCH_"};

// A mean that is taken one value at a time (Welford), and its standard error.
typedef struct mean {
    double n, mean, squares;
} mean;

typedef struct judged {
    const char *name;
    double size_bytes;
    fxi_model *model;
    fxi_kv *kv;
    fxi_kv_seq *seq;
    mean loss, excess, divergence; // of a token: -log p, that less the base's, and KL
    samples divergences;
    int n_same;
} judged;

static void add_value(mean *m, double v)
{
    const double from_mean = v - m->mean;
    m->n++;
    m->mean += from_mean / m->n;
    m->squares += from_mean * (v - m->mean);
}

static double error_of(const mean *m)
{
    return m->n > 1 ? sqrt(m->squares / (m->n - 1) / m->n) : 0;
}

// ---- models ------------------------------------------------------------------------------------

static void open_judged(judged *j, const char *name, const char *kv_type, fxi_pool *pool)
{
    char path[4096];
    fxi_gguf *g;
    fx_error err;
    struct stat file;
    const char *at = strrchr(name, '@');
    snprintf(path, sizeof path, "%.*s", at ? (int)(at - name) : (int)strlen(name), name);
    j->name = name;
    if (stat(path, &file) == 0) j->size_bytes = (double)file.st_size;
    if (fxi_model_file_open(path, &g, &err) != FX_OK) die("%s", err.text);
    const fxi_model_options opt = {.pool = pool,
                                   .ctx_tok = WINDOW_TOK,
                                   .max_batch_tok = WINDOW_TOK,
                                   .max_batch_logit = SCORED_TOK,
                                   .kv_type = at ? at + 1 : kv_type};
    if (fxi_model_load(g, &opt, &j->model, &err) != FX_OK) die("%s", err.text);
    fxi_gguf_close(g);
    if (!j->model->shape.generates) die("%s: this model does not generate", path);
    const fxi_kv_shape shape = {.layout = j->model->shape.kv,
                                .ctx_tok = WINDOW_TOK,
                                .max_seq = 1,
                                .budget_bytes = UINT64_C(4) << 30}; // mapped as it is needed
    if (fxi_kv_open(NULL, &shape, &j->kv, &err) != FX_OK) die("%s", err.text);
}

// The logits of the window's second half, [SCORED_TOK][n_vocab].
static void compute_window(judged *j, const int32_t *token, float *logits)
{
    fx_error err = {0};
    if (fxi_kv_create(j->kv, &(fxi_kv_expect){.begin_tok = WINDOW_TOK}, &j->seq) != FX_OK ||
        fxi_kv_extend(j->kv, j->seq, WINDOW_TOK) != FX_OK)
        die("no memory for a window of %d tokens", WINDOW_TOK);
    const fxi_batch_seq seq = {
        .views = fxi_kv_get_views(j->kv, j->seq), .n_tok = WINDOW_TOK, .n_logit = SCORED_TOK};
    const fxi_batch batch = {.token = token, .n_tok = WINDOW_TOK, .seq = &seq, .n_seq = 1};
    if (fxi_model_forward(j->model, &batch, logits, &err) != FX_OK) die("%s", err.text);
    fxi_kv_release(j->kv, j->seq);
}

// ---- what predictions are worth ----------------------------------------------------------------

// Turns a row of logits into logprobs; returns the likeliest token.
static int normalize_row(float *row, int n_vocab)
{
    int best = 0;
    double sum = 0;
    for (int i = 1; i < n_vocab; i++)
        if (row[i] > row[best]) best = i;
    const float most = row[best];
    for (int i = 0; i < n_vocab; i++) sum += expf(row[i] - most);
    const float log_sum = most + (float)log(sum);
    for (int i = 0; i < n_vocab; i++) row[i] -= log_sum;
    return best;
}

static double row_divergence(const float *base, const float *row, int n_vocab)
{
    double sum = 0;
    for (int i = 0; i < n_vocab; i++) sum += (double)expf(base[i]) * (double)(base[i] - row[i]);
    return sum > 0 ? sum : 0; // the sum's own error is below zero for equal rows
}

// One position: token follows it. base: its logprobs by the base model, whose likeliest token is
// base_best.
static void judge_row(judged *j, float *row, const float *base, int base_best, int32_t token)
{
    const int n_vocab = j->model->shape.n_vocab;
    j->n_same += normalize_row(row, n_vocab) == base_best;
    add_value(&j->loss, (double)-row[token]);
    add_value(&j->excess, (double)(base[token] - row[token]));
    const double divergence = row_divergence(base, row, n_vocab);
    add_value(&j->divergence, divergence);
    samples_add(&j->divergences, divergence);
}

// The last scored position has no next token in its window, so it is left out.
static void judge_window(judged *j, int n_judged, const int32_t *token, float *base, float *row)
{
    const size_t n_vocab = (size_t)j->model->shape.n_vocab;
    int best[SCORED_TOK];
    compute_window(&j[0], token, base);
    for (int i = 0; i < SCORED_TOK; i++)
        best[i] = normalize_row(base + n_vocab * (size_t)i, (int)n_vocab);
    for (int m = 0; m < n_judged; m++) {
        if (m == 0)
            memcpy(row, base, SCORED_TOK * n_vocab * sizeof *row);
        else
            compute_window(&j[m], token, row);
        for (int i = 0; i < SCORED_TOK - 1; i++)
            judge_row(&j[m], row + n_vocab * (size_t)i, base + n_vocab * (size_t)i, best[i],
                      token[WINDOW_TOK - SCORED_TOK + i + 1]);
    }
}

// ---- the program -------------------------------------------------------------------------------

static void read_tokens(const char *path, const char *model, fxi_ids *ids)
{
    fxi_mapping file;
    fxi_vocab *vocab;
    fx_error err;
    char name[4096];
    snprintf(name, sizeof name, "%.*s", (int)strcspn(model, "@"), model);
    if (fxi_mapping_open(path, &file, &err) != FX_OK) die("%s", err.text);
    if (fxi_vocab_open(name, NULL, NULL, &vocab, &err) != FX_OK ||
        fxi_vocab_encode(vocab, (const char *)file.data, file.size_bytes, FXI_ENCODE_SPACE, ids,
                         &err) != FX_OK)
        die("%s", err.text);
    fxi_vocab_free(vocab);
    fxi_mapping_close(&file);
}

static void print_judged(judged *j)
{
    const double ppl = exp(j->loss.mean), ratio = exp(j->excess.mean);
    printf("%s,%.0f,%.0f,%.4f,%.4f,%.5f,%.5f,%.6f,%.6f,%.5f,%.4f,%.4f\n", j->name, j->loss.n,
           j->size_bytes, ppl, ppl * error_of(&j->loss), ratio, ratio * error_of(&j->excess),
           j->divergence.mean, error_of(&j->divergence), samples_at(&j->divergences, 0.99),
           samples_at(&j->divergences, 1), j->n_same / j->loss.n);
}

int main(int argc, char **argv)
{
    options o = {0};
    fxi_opt_rest rest;
    fxi_pool *pool;
    fxi_ids ids = {0};
    fx_error err;
    if (fxi_opt_parse(&table, 1, argc - 1, argv + 1, &o, &rest, &err) != FX_OK) die("%s", err.text);
    if (!o.text || rest.n < 1) die("--text FILE, a base model and others are expected");
    if (fxi_pool_create(o.n_thread ? o.n_thread : fxi_usable_cores(), &pool, &err) != FX_OK)
        die("%s", err.text);
    judged *j = need(calloc((size_t)rest.n, sizeof *j));
    for (int m = 0; m < rest.n; m++) {
        open_judged(&j[m], rest.arg[m], m == 0 ? "f32" : "f16", pool);
        if (j[m].model->shape.n_vocab != j[0].model->shape.n_vocab)
            die("%s: another vocabulary than the base's", j[m].name);
    }
    read_tokens(o.text, rest.arg[0], &ids);
    const size_t row_bytes = (size_t)j[0].model->shape.n_vocab * sizeof(float);
    float *base = need(malloc(SCORED_TOK * row_bytes)), *row = need(malloc(SCORED_TOK * row_bytes));
    for (size_t at = 0; at + WINDOW_TOK <= ids.n; at += WINDOW_TOK)
        judge_window(j, rest.n, ids.id + at, base, row);
    if (j[0].loss.n == 0) die("%s: fewer than %d tokens", o.text, WINDOW_TOK);
    printf(
        "model,tokens,bytes,perplexity,perplexity_se,ratio,ratio_se,kl_mean,kl_se,kl_p99,kl_worst,"
        "same_likeliest\n");
    for (int m = 0; m < rest.n; m++) print_judged(&j[m]);
    for (int m = 0; m < rest.n; m++) {
        fxi_kv_close(j[m].kv);
        fxi_model_free(j[m].model);
        samples_free(&j[m].divergences);
    }
    free(base), free(row), free(j), free(ids.id);
    fxi_pool_destroy(pool);
    fxi_opt_rest_free(&rest);
    return 0;
}
