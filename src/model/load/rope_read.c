// rope_read.c - the frequencies of rotary embedding, from keys and tensors, for every kind of
// scaling to longer contexts.
//
//   none       base^(-2 i / n_rot)
//   linear     positions / factor (Chen et al., arXiv 2306.15595)
//   dynamic    the base grows with the position, see plan.h
//   llama3     a divisor per pair, rope_freqs.weight
//   yarn       slow pairs are interpolated, fast ones are not, with a ramp in between (Peng et al.,
//              arXiv 2309.00071)
//   longrope   a divisor per pair: rope_factors_long.weight for contexts beyond the original one,
//              otherwise rope_factors_short.weight (Ding et al., arXiv 2402.13753). Which of them
//              is decided by the context that the model is loaded for, not by a sequence's length,
//              so that a cached key stays valid as its sequence grows.
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "format/show.h"
#include "model/load/loading.h"

typedef struct rope_read {
    fxi_loader *l;
    double factor; // of the context; 1: none
    int orig_tok;  // context before scaling
    double gain;   // as the file says it
} rope_read;

typedef fx_status scaling_fn(const rope_read *r, fxi_rope *rope, fx_error *err);

// ---- kinds of scaling --------------------------------------------------------------------------

static fx_status scale_linear(const rope_read *r, fxi_rope *rope, fx_error *err)
{
    (void)err;
    rope->scale = (double)(1 / (float)r->factor);
    return FX_OK;
}

static fx_status scale_dynamic(const rope_read *r, fxi_rope *rope, fx_error *err)
{
    (void)err;
    rope->dynamic_tok = r->orig_tok;
    rope->dynamic_factor = r->factor;
    return FX_OK;
}

// The pair that turns n_turn times in the original context, as a real number.
static double pair_of_turns(const rope_read *r, const fxi_rope *rope, double n_turn)
{
    const double pi = 3.14159265358979323846;
    return rope->n_rot * log(r->orig_tok / (n_turn * 2 * pi)) / (2 * log(rope->base));
}

static fx_status scale_yarn(const rope_read *r, fxi_rope *rope, fx_error *err)
{
    (void)err;
    const fxi_keys *k = &r->l->keys;
    double low = pair_of_turns(r, rope, (double)k->beta_fast),
           high = pair_of_turns(r, rope, (double)k->beta_slow);
    const bool rough = r->l->family->flags & FXI_ROUGH_YARN;
    if (k->yarn_truncates < 0 ? !rough : k->yarn_truncates) low = floor(low), high = ceil(high);
    low = fmax(low, 0);
    high = fmin(high, rope->n_rot - 1);
    for (int i = 0; i < rope->n_pair; i++) {
        const double ramp = fmin(fmax((i - low) / fmax(high - low, 0.001), 0), 1);
        const double keep = (1 - ramp) * (double)k->ext_factor;
        rope->freq[i] = rope->freq[i] / r->factor * (1 - keep) + rope->freq[i] * keep;
    }
    if (k->ext_factor == 0 || r->factor <= 1) return FX_OK;
    double gain = 0.1 * log(r->factor) + 1;
    if (k->log_multiplier > 0) gain /= 0.1 * (double)k->log_multiplier * log(r->factor) + 1;
    rope->gain *= gain;
    return FX_OK;
}

static fx_status divide_by(const rope_read *r, const char *tensor, fxi_rope *rope, fx_error *err)
{
    const int n = rope->n_pair;
    const float *by;
    FX_TRY(fxi_read_vector(r->l, &(fxi_part_of){.key = {tensor, -1, false}, .n_out = n}, &by, err));
    for (int i = 0; !r->l->is_dry && i < n; i++) {
        if (!(by[i] > 0))
            return fxi_fail(err, FX_EFORMAT, "%s: tensor '%s.weight' has a number that is not > 0",
                            fxi_gguf_name(r->l->g), tensor);
        rope->freq[i] /= (double)by[i];
    }
    return FX_OK;
}

// Both tensors are checked; one is used.
static fx_status scale_longrope(const rope_read *r, fxi_rope *rope, fx_error *err)
{
    if (r->orig_tok < 2) // the gain has its logarithm as a divisor
        return fxi_loading_fail(
            r->l, "rope.scaling.original_context_length: longrope needs at least 2 tokens", err);
    const double grown = (double)r->l->keys.n_ctx / r->orig_tok;
    const bool is_long = r->l->m->ctx_tok > r->orig_tok;
    fxi_rope other = *rope;
    other.freq = calloc((size_t)rope->n_pair + 1, sizeof *other.freq);
    if (!other.freq) return fxi_fail_memory(err);
    fx_status st = divide_by(r, "rope_factors_long", is_long ? rope : &other, err);
    if (st == FX_OK) st = divide_by(r, "rope_factors_short", is_long ? &other : rope, err);
    free(other.freq);
    if (!(r->l->keys.attn_factor > 0) && grown > 1)
        rope->gain *= sqrt(1 + log(grown) / log(r->orig_tok));
    return st;
}

static const struct {
    const char *name;
    scaling_fn *scale; // NULL: nothing to do
} kinds[] = {{"none", NULL},       {"linear", scale_linear},     {"dynamic", scale_dynamic},
             {"yarn", scale_yarn}, {"longrope", scale_longrope}, {"su", scale_longrope},
             {"llama3", NULL}}; // llama3: by its tensor

// ---- reading -----------------------------------------------------------------------------------

static bool has_tensor(const fxi_loader *l, const char *name)
{
    return fxi_loader_find(l, (fxi_tensor_key){.name = name, .layer = -1}) != NULL;
}

static fx_status scale_rope(const rope_read *r, fxi_rope *rope, fx_error *err)
{
    fxi_str type = r->l->keys.rope_type;
    if (has_tensor(r->l, "rope_factors_long")) type = fxi_str_of("longrope");
    if (!type.n) type = fxi_str_of("linear");
    if (fxi_str_is(type, "llama3") && !has_tensor(r->l, "rope_freqs"))
        return fxi_loading_fail(r->l, "tensor 'rope_freqs.weight' is missing", err);
    rope->gain = r->gain;
    for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
        if (fxi_str_is(type, kinds[i].name))
            return kinds[i].scale ? kinds[i].scale(r, rope, err) : FX_OK;
    return fxi_fail(err, FX_EFORMAT,
                    "%s: key '%.*s.rope.scaling.type': '%s' is not supported (none, linear, "
                    "dynamic, yarn, longrope)",
                    fxi_gguf_name(r->l->g), (int)r->l->arch.n, r->l->arch.p, fxi_show_text(type).s);
}

// Frequencies without scaling.
static fx_status plain_rope(const fxi_loader *l, double base, fxi_rope *rope, fx_error *err)
{
    const int head_dim = l->m->model.shape.head_dim, n_rot = l->keys.n_rot;
    *rope = (fxi_rope){.n_rot = n_rot ? n_rot : head_dim, .base = base, .scale = 1, .gain = 1};
    rope->n_pair = rope->n_rot / 2;
    if (rope->n_rot % 2 || rope->n_rot > head_dim)
        return fxi_loading_fail(l, "rope.dimension_count is odd or larger than a head", err);
    rope->freq = calloc((size_t)rope->n_pair, sizeof *rope->freq);
    if (!rope->freq) return fxi_fail_memory(err);
    for (int i = 0; i < rope->n_pair; i++) rope->freq[i] = pow(base, -2.0 * i / rope->n_rot);
    return FX_OK;
}

static fx_status open_table(const fxi_loader *l, fxi_rope *rope, fx_error *err)
{
    return l->is_dry ? FX_OK : fxi_rope_open(rope, l->m->ctx_tok, err);
}

// Windowed layers may differ: another base, and no scaling.
static fx_status read_window_rope(fxi_loader *l, double base, fx_error *err)
{
    const float said = l->keys.window_base > 0 ? l->keys.window_base : l->family->window_base;
    if (!l->keys.window || !(l->family->flags & FXI_PLAIN_WINDOWS || said > 0)) return FX_OK;
    FX_TRY(plain_rope(l, said > 0 ? (double)said : base, &l->m->rope[1], err));
    return open_table(l, &l->m->rope[1], err);
}

static fx_status read_full_rope(fxi_loader *l, double base, fx_error *err)
{
    const fxi_keys *k = &l->keys;
    const float factor = k->factor > 0 ? k->factor : k->linear > 0 ? k->linear : 1;
    const rope_read r = {.l = l,
                         .factor = (double)factor,
                         .orig_tok = k->orig_ctx ? k->orig_ctx : k->n_ctx,
                         .gain = k->attn_factor > 0 ? (double)k->attn_factor : 1};
    fxi_rope *rope = &l->m->rope[0];
    FX_TRY(plain_rope(l, base, rope, err));
    FX_TRY(scale_rope(&r, rope, err));
    if (has_tensor(l, "rope_freqs")) FX_TRY(divide_by(&r, "rope_freqs", rope, err));
    return open_table(l, rope, err);
}

fx_status fxi_ropes_read(fxi_loader *l, fx_error *err)
{
    const double base = l->keys.rope_base > 0 ? (double)l->keys.rope_base : 10000;
    if (l->family->rope == FXI_ROPE_NONE) return FX_OK;
    FX_TRY(read_full_rope(l, base, err));
    return read_window_rope(l, base, err);
}
