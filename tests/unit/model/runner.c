// runner.c - see runner.h.
#include "unit/model/runner.h"

#include "unit/cmocka_all.h"

#include "format/gguf.h"
#include "kernels/kernels.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const variant plain = {"plain", RUNNER_MAX_TOK, 1, 0, NULL, NULL};
static const variant variants[] = {
    {"one token at a time", 1, 1, 0, NULL, NULL},
    {"chunks of 7", 7, 1, 0, NULL, NULL},
    {"chunks of 16", 16, 2, 0, NULL, NULL},
    {"3 threads", RUNNER_MAX_TOK, 3, 0, NULL, NULL},
    {"3 others beside it", 13, 2, 3, NULL, NULL},
    {"a paged cache", 13, 2, 3, NULL, "paged"},
    {"plain C, a paged cache", 11, 1, 1, "ref", "paged"},
    {"plain C", 11, 1, 1, "ref", NULL},
    {"AVX2", 9, 2, 1, "avx2", NULL},
    {"AVX2 VNNI", 9, 1, 1, "avx2-vnni", NULL},
    {"AVX-512", 9, 1, 1, "avx512", NULL},
    {"AVX-512 VNNI", 9, 1, 1, "avx512-vnni", NULL},
};

static int32_t token(const runner *r, int seq, int i)
{
    int32_t any = i == 0 ? 1 : 3 + (i * 37 + seq * 101 + i * i * 5) % 300;
    return any % r->n_vocab;
}

static bool load_on(runner *r, fxi_device *device, runner_model m, const variant *v, fx_error *err)
{
    fxi_gguf *g;
    if (fxi_model_file_open(m.path, &g, err) != FX_OK) fail_msg("%s", err->text);
    fxi_model_options opt = {.pool = r->pool,
                             .device = device,
                             .max_batch_tok = RUNNER_MAX_TOK * (1 + RUNNER_OTHERS),
                             .max_batch_logit = RUNNER_MAX_TOK,
                             .kernel_path = v->kernel_path,
                             .kv_type = m.kv_type};
    const fx_status st = fxi_model_load(g, &opt, &r->model, err);
    fxi_gguf_close(g);
    return st == FX_OK;
}

// Layouts that not all managers keep: with states, or rows of several sizes.
static bool is_recurrent(const fxi_kv_layout *l)
{
    bool differs = false;
    for (int g = 0; g < l->n_group; g++)
        differs |= l->group[g].is_state || l->group[g].row_bytes != l->group[0].row_bytes;
    return differs;
}

bool runner_open_on(runner *r, fxi_device *device, runner_model m, const variant *v, fx_error *err)
{
    if (!load_on(r, device, m, v, err)) return false;
    const fxi_model_shape *s = &r->model->shape;
    fxi_kv_shape shape = {.layout = s->kv,
                          .ctx_tok = s->train_ctx_tok,
                          .max_seq = 8,
                          .budget_bytes = 16 << 20, // which a paged cache fills when it opens
                          .n_rank = device && device->ranks ? device->ranks->n : 0};
    const char *first = fxi_kv_manager_name(0), *manager = v->kv_manager ? v->kv_manager : first;
    fx_status st = fxi_kv_open(manager, &shape, &r->kv, err);
    if (st == FX_EINVAL && is_recurrent(&s->kv)) st = fxi_kv_open(first, &shape, &r->kv, err);
    if (st != FX_OK) fail_msg("%s", err->text);
    for (int i = 0; i <= v->n_other; i++)
        assert_int_equal(fxi_kv_create(r->kv, &(fxi_kv_expect){0}, &r->seq[i]), FX_OK);
    r->n_vocab = s->n_vocab;
    r->embeds = !s->generates;
    r->n_out = r->embeds ? s->dim : s->n_vocab;
    return true;
}

void runner_open(runner *r, runner_model m, const variant *v)
{
    fx_error err = {0};
    assert_int_equal(fxi_pool_create(v->n_thread, &r->pool, &err), FX_OK);
    if (!runner_open_on(r, NULL, m, v, &err)) fail_msg("%s", err.text);
}

void runner_close(runner *r)
{
    fxi_kv_close(r->kv);
    fxi_model_free(r->model);
    fxi_pool_destroy(r->pool);
}

void runner_pass(runner *r, const variant *v, int from, int n, int n_row, float *out)
{
    int32_t tok[RUNNER_MAX_TOK * (1 + RUNNER_OTHERS)];
    fxi_batch_seq seq[1 + RUNNER_OTHERS];
    const bool pairs = r->model->shape.pooling == FXI_POOL_RANK;
    fxi_batch b = {.token = tok, .seq = seq, .rows = r->embeds ? out : NULL};
    for (int s = v->n_other; s >= 0; s--) {
        assert_int_equal(fxi_kv_extend(r->kv, r->seq[s], from + n), FX_OK);
        for (int i = 0; i < n; i++) tok[b.n_tok++] = token(r, s, from + i);
        seq[b.n_seq++] = (fxi_batch_seq){.views = fxi_kv_get_views(r->kv, r->seq[s]),
                                         .pos = from,
                                         .n_tok = n,
                                         .n_logit = s == 0 ? n_row : 0,
                                         .embeds = r->embeds,
                                         .n_first = pairs ? n / 3 : 0};
    }
    assert_int_equal(fxi_model_forward(r->model, &b, r->embeds ? NULL : out, NULL), FX_OK);
}

float *runner_run(runner *r, const variant *v, int n_tok)
{
    float *out = malloc((size_t)r->n_out * sizeof *out);
    const int chunk = r->model->shape.is_causal ? v->chunk : n_tok;
    for (int from = 0; from < n_tok; from += chunk) {
        int n = n_tok - from < chunk ? n_tok - from : chunk;
        runner_pass(r, v, from, n, from + n == n_tok, out); // chunks before the last want none
    }
    return out;
}

static float *run(runner_model m, const variant *v, int n_tok, int *n_out)
{
    runner r;
    runner_open(&r, m, v);
    float *out = runner_run(&r, v, n_tok);
    *n_out = r.n_out;
    runner_close(&r);
    return out;
}

float *run_plain(runner_model m, int n_tok, int *n_out)
{
    return run(m, &plain, n_tok, n_out);
}

static void check_variant(runner_model m, const char *what, const variant *v, int n_tok,
                          const float *want)
{
    if (!fxi_kernels_get(v->kernel_path)) {
        print_message("%s: not run by this machine\n", v->what);
        return;
    }
    int n_out;
    float *got = run(m, v, n_tok, &n_out);
    if (memcmp(got, want, (size_t)n_out * sizeof *got) != 0)
        fail_msg("%s: %s gives other bits", what, v->what);
    free(got);
}

void check_variants(runner_model m, const char *what, int n_tok, bool with_ref)
{
    int n_out;
    float *want = run_plain(m, n_tok, &n_out);
    for (size_t i = 0; i < sizeof variants / sizeof *variants; i++)
        if (with_ref || !variants[i].kernel_path || strcmp(variants[i].kernel_path, "ref"))
            check_variant(m, what, &variants[i], n_tok, want);
    free(want);
}
