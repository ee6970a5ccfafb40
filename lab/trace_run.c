// trace_run.c - from the rows of a trace to requests; what is noted while they run, and the
// figures.
#include "lab/trace_run.h"
#include "base/number/rng.h"
#include "base/system/grow.h"

#include <math.h>
#include <stdlib.h>

// ---- from rows to requests ---------------------------------------------------------------------
//
// The times and the tokens of requests follow from the trace and the seed alone.

#define PREFIX (UINT64_MAX / 2) // what the tokens that all prompts begin with follow from

fxi_load fxi_load_start(void)
{
    return (fxi_load){.speed = 1, .shrink = 1, .n_choice = 1};
}

fx_status fxi_load_check(const fxi_load *l, fx_error *err)
{
    if (l->rate_per_s >= 0 && l->speed > 0 && l->shrink >= 1 && l->n_choice >= 1 &&
        l->beam_width >= 0 && l->prefix_tok >= 0)
        return FX_OK;
    return fxi_fail(err, FX_EINVAL, "a rate, a speed or a number of answers is out of range");
}

// ---- times -------------------------------------------------------------------------------------

// The time after the arrival before, for a Poisson process.
static double gap_us(const fxi_load *l, size_t i)
{
    return -log(1 - fxi_rng_unit(l->seed, 0, i)) * 1e6 / l->rate_per_s;
}

double fxi_arrival_us(const fxi_load *l, const fxi_trace *t, size_t i, double before_us)
{
    if (i == 0) return 0;
    if (l->rate_per_s > 0) return before_us + gap_us(l, i);
    return (t->row[i].arrival_ms - t->row[0].arrival_ms) * 1e3 / l->speed;
}

// ---- prompts -----------------------------------------------------------------------------------

static int32_t random_token(uint64_t of, uint64_t k, uint32_t n_vocab)
{
    return (int32_t)(fxi_rng_u64(of, 1, k) % n_vocab);
}

// Token k of a row's prompt: what its block's id and the place in it say, or the row alone. A
// shrunk prompt has shrunk blocks.
static int32_t prompt_token(const fxi_trace *t, size_t i, int k, int block_tok, uint32_t n)
{
    const fxi_trace_row *row = &t->row[i];
    if (row->n_hash == 0) return random_token(UINT64_MAX - i, (uint64_t)k, n);
    const size_t block = (size_t)(k / block_tok);
    const uint64_t id = t->hash[row->hash + (block < row->n_hash ? block : row->n_hash - 1)];
    return random_token(id, (uint64_t)(k % block_tok), n);
}

static int shrunk_tok(const fxi_load *l, int n_tok)
{
    const int n = (int)(n_tok / l->shrink + 0.5);
    return n > 1 ? n : 1;
}

static fx_status reserve_prompt(int32_t **prompt, size_t *cap, size_t n_tok, fx_error *err)
{
    if (n_tok <= *cap) return FX_OK;
    int32_t *more = realloc(*prompt, n_tok * sizeof *more);
    if (!more) return fxi_fail(err, FX_ENOMEM, "out of memory for a prompt of %zu tokens", n_tok);
    *prompt = more;
    *cap = n_tok;
    return FX_OK;
}

fx_status fxi_arrival_request(const fxi_load *l, const fxi_trace *t, size_t i, uint32_t n_vocab,
                              int32_t **prompt, size_t *cap, fx_request *out, fx_error *err)
{
    const int n_own = shrunk_tok(l, t->row[i].n_prompt),
              block_tok = shrunk_tok(l, FXI_TRACE_BLOCK_TOK);
    const size_t n_tok = (size_t)l->prefix_tok + (size_t)n_own;
    FX_TRY(reserve_prompt(prompt, cap, n_tok, err));
    int32_t *to = *prompt;
    for (int k = 0; k < l->prefix_tok; k++) *to++ = random_token(PREFIX, (uint64_t)k, n_vocab);
    for (int k = 0; k < n_own; k++) *to++ = prompt_token(t, i, k, block_tok, n_vocab);
    *out = fx_request_default();
    out->prompt = *prompt;
    out->n_prompt = n_tok;
    out->max_tok = out->expect_tok = shrunk_tok(l, t->row[i].n_output);
    out->n_choice = l->n_choice;
    out->beam_width = l->beam_width;
    out->no_cache = l->no_cache;
    out->sampling.temperature = 0;
    out->ignore_eos = true;
    return FX_OK;
}

// ---- notes -------------------------------------------------------------------------------------
//
// Numbers are kept as they come; figures are made of them at the end.

static void add_number(fxi_notes *n, fxi_series *s, double v)
{
    if (fxi_grow(&s->v, sizeof v, s->n, &s->cap))
        s->v[s->n++] = v;
    else
        n->no_memory = true;
}

void fxi_notes_begin(fxi_notes *n, double now_us, double sample_us, fxi_replay_figures *out)
{
    *n = (fxi_notes){.out = out, .start_us = now_us, .noted_us = now_us, .sample_us = sample_us};
    n->next_sample_us = now_us;
}

void fxi_notes_idle(fxi_notes *n, double now_us)
{
    n->noted_us = now_us;
}

// ---- the state ---------------------------------------------------------------------------------

// The kinds of bytes as numbers side by side.
enum { N_KIND = sizeof(fxi_memory_kinds) / sizeof(double) };

static void add_bytes(fxi_memory_kinds *sum, const fxi_memory_kinds *v, double weight)
{
    double *to = (double *)sum;
    const double *from = (const double *)v;
    for (int i = 0; i < N_KIND; i++) to[i] += weight * from[i];
}

static void add_load_sample(fxi_notes *n, double now_us, const fxi_load_state *state)
{
    fxi_replay_figures *f = n->out;
    if (!fxi_grow(&f->sample, sizeof *f->sample, f->n_sample, &f->cap_sample)) {
        n->no_memory = true;
        return;
    }
    f->sample[f->n_sample++] = (fxi_replay_sample){(now_us - n->start_us) / 1e6, *state};
    n->next_sample_us = now_us + n->sample_us;
}

void fxi_notes_stop(fxi_notes *n, double now_us)
{
    const double us = n->has_last ? now_us - n->noted_us : 0;
    add_bytes(&n->out->mean, &n->last.kv, us);
    n->busy_us += us;
    n->noted_us = now_us;
    n->has_last = false;
}

void fxi_notes_state(fxi_notes *n, double now_us, const fxi_load_state *from_now_on)
{
    fxi_notes_stop(n, now_us);
    n->last = *from_now_on;
    n->has_last = true;
    if (n->last.kv.mapped > n->out->peak_mapped_bytes)
        n->out->peak_mapped_bytes = n->last.kv.mapped;
    if (n->sample_us > 0 && now_us >= n->next_sample_us) add_load_sample(n, now_us, &n->last);
}

// ---- requests ----------------------------------------------------------------------------------

void fxi_notes_first(fxi_notes *n, double us)
{
    add_number(n, &n->first, us / 1e6);
}

void fxi_notes_done(fxi_notes *n, double us, int n_output)
{
    n->out->n_done++;
    add_number(n, &n->per_tok, us / 1e6 / n_output);
}

// ---- figures -----------------------------------------------------------------------------------

static int by_value(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

static fxi_quantiles take_quantiles(fxi_series *s)
{
    fxi_quantiles q = {0};
    if (s->n > 0) {
        qsort(s->v, s->n, sizeof *s->v, by_value);
        for (size_t i = 0; i < s->n; i++) q.mean += s->v[i] / (double)s->n;
        q.p50 = s->v[(s->n - 1) / 2];
        q.p99 = s->v[(s->n - 1) * 99 / 100];
    }
    free(s->v);
    *s = (fxi_series){0};
    return q;
}

fx_status fxi_notes_end(fxi_notes *n, double now_us, fx_error *err)
{
    fxi_replay_figures *f = n->out;
    const fxi_memory_kinds sum = f->mean;
    f->mean = (fxi_memory_kinds){0};
    if (n->busy_us > 0) add_bytes(&f->mean, &sum, 1 / n->busy_us);
    f->end_s = (now_us - n->start_us) / 1e6;
    f->first_s = take_quantiles(&n->first);
    f->per_tok_s = take_quantiles(&n->per_tok);
    return n->no_memory ? fxi_fail(err, FX_ENOMEM, "out of memory for the figures") : FX_OK;
}

void fxi_replay_figures_free(fxi_replay_figures *f)
{
    free(f->sample);
    *f = (fxi_replay_figures){0};
}
