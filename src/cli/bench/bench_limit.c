// bench_limit.c - the least time that this machine needs for the work of a row.
//
//     operations   two for each multiply-add of the linear layers (a prompt needs one row of
//                  logits), at the arithmetic peak of the type that most weights are computed in
//     bytes        the weights once per step, and when decoding the contents of the caches, at the
//                  bandwidth of memory
//
// The longer of the two is the limit, as if the other were fully hidden behind it. Work between the
// linear layers counts as free. A second limit counts what the scales of blocks cost the ports that
// multiply: int8_scaled_gop_s is the peak there.
#include "cli/bench/bench.h"

#include <math.h>
#include <string.h>

#include "base/number/dtype.h"

// Quantised blocks are computed in int8 if the kernels have the instruction, all else in f32.
static bool uses_int8(const fxi_bench *b)
{
    const fxi_dtype_info *type = fxi_dtype_by_name(b->model.type);
    const bool is_block = type && type->block_elems > 1;
    return is_block && strstr(b->model.kernel_path, "vnni") && b->machine.int8_gop_s > 0;
}

// n_tok tokens need n_mul multiply-adds and n_bytes of reading in all.
static void set_limit(const fxi_bench *b, fxi_bench_row *r, double n_tok, double n_mul,
                      double n_bytes)
{
    const fx_machine *m = &b->machine;
    const bool int8 = uses_int8(b);
    const double op_s = 2e-9 * n_mul / (int8 ? m->int8_gop_s : m->fma_gflop_s);
    const double scaled_s = 2e-9 * n_mul / (int8 ? m->int8_scaled_gop_s : m->fma_gflop_s);
    const double byte_s = 1e-9 * n_bytes / m->read_gb_s;
    r->by_memory = byte_s > op_s;
    r->limit_tok_s = n_tok / fmax(byte_s, op_s);
    r->scaled_limit_tok_s = n_tok / fmax(byte_s, scaled_s);
}

static void limit_prompt(const fxi_bench *b, fxi_bench_row *r)
{
    const fx_model_info *m = &b->model;
    const double n_tok = (double)r->batch * r->n_tok;
    set_limit(b, r, n_tok,
              n_tok * (double)m->mul_per_prompt_tok + r->batch * (double)m->mul_per_logit_row,
              (double)m->weight_bytes_per_pass);
}

// The limit of one step.
static void limit_decode(const fxi_bench *b, fxi_bench_row *r)
{
    const fx_model_info *m = &b->model;
    const double kv_bytes = r->batch * r->mean_ctx * (double)m->kv_bytes_per_tok;
    set_limit(b, r, r->batch, r->batch * (double)(m->mul_per_prompt_tok + m->mul_per_logit_row),
              (double)m->weight_bytes_per_pass + kv_bytes);
}

void fxi_bench_set_limits(fxi_bench *b)
{
    for (int i = 0; i < b->n_prompt; i++) limit_prompt(b, &b->prompt_row[i]);
    for (int i = 0; i < b->n_decode; i++) limit_decode(b, &b->decode_row[i]);
}
