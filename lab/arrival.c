// arrival.c - the times and the tokens of requests follow from the trace and the seed alone.
#include "lab/arrival.h"

#include "base/number/rng.h"

#include <math.h>
#include <stdlib.h>

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
