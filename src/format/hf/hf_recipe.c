// hf_recipe.c - makes the rows of a tensor by its recipe.
#include "format/hf/hf_recipe.h"

#include "format/hf/hf_packed.h"

#include <string.h>

enum { CHUNK = 256, MX_BYTES = 16 };

// The source's unit for a unit of the tensor.
static uint64_t source_unit(const fxi_recipe *r, uint64_t unit)
{
    const fxi_recipe_view *v = r->view;
    if (!r->n_view) return unit;
    for (; unit >= v->n; v++) unit -= v->n;
    return v->from + unit / (v->n1 * v->n2) * v->step[0] + unit / v->n2 % v->n1 * v->step[1] +
           unit % v->n2 * v->step[2];
}

// ---- numbers -----------------------------------------------------------------------------------

fxi_dtype fxi_recipe_type_of(const fxi_st_tensor *t)
{
    static const fxi_dtype type[] = {
        [FXI_ST_F32] = FXI_F32,         [FXI_ST_F16] = FXI_F16,      [FXI_ST_BF16] = FXI_BF16,
        [FXI_ST_F8_E4M3] = FXI_BF16,    [FXI_ST_U8] = FXI_DTYPE_END, [FXI_ST_I32] = FXI_DTYPE_END,
        [FXI_ST_OTHER] = FXI_DTYPE_END,
    };
    return t->packed ? t->packed->type : type[t->type];
}

// FP8 E4M3 without infinities (Micikevicius et al.: FP8 Formats for Deep Learning, 2022): the
// exponent's bias is 7, 0x7f and 0xff are NaN.
static float f8_to_f32(uint8_t b)
{
    const uint32_t nan = (b & 0x7f) == 0x7f ? 0x7fc00000u : 0;
    const uint32_t bits = (uint32_t)(b & 0x80) << 24 | (uint32_t)(b & 0x7f) << 20 | nan;
    float f;
    memcpy(&f, &bits, sizeof f);
    return f * 0x1p120f; // 2^(127 - 7)
}

static float scale_at(const fxi_recipe_src *s, uint64_t i)
{
    const fxi_st_tensor *t = s->scale;
    float f;
    fxi_row_to_f32(fxi_recipe_type_of(t), t->data + i * t->elem_bytes, 1, &f);
    return f;
}

// Numbers [at, at + n) of an FP8 tensor.
static void read_f8(const fxi_recipe_src *s, uint64_t at, size_t n, float *dst)
{
    const uint64_t n_col = s->t->dim[s->t->n_dim - 1];
    const uint64_t n_scale_col = (n_col + s->block_cols - 1) / s->block_cols;
    for (size_t i = 0; i < n;) {
        const uint64_t row = (at + i) / n_col, col = (at + i) % n_col;
        const uint64_t to_end = n_col - col, to_block = s->block_cols - col % s->block_cols;
        const uint64_t run = to_end < to_block ? to_end : to_block;
        const float scale =
            s->scale ? scale_at(s, row / s->block_rows * n_scale_col + col / s->block_cols) : 1;
        const size_t stop = n - i < run ? n : i + run;
        for (; i < stop; i++) dst[i] = f8_to_f32(s->t->data[at + i]) * scale;
    }
}

static bool is_copied(const fxi_recipe *r)
{
    return r->plus == 0 && r->src->t->type != FXI_ST_F8_E4M3 && !r->src->t->packed &&
           fxi_recipe_type_of(r->src->t) == r->type;
}

// n numbers of the sources together, from number `at` on, all of one source; of a packed source a
// row.
static void make_run(const fxi_recipe *r, uint64_t at, uint64_t n, char *dst)
{
    const uint64_t each = r->src->t->n_elem;
    const fxi_recipe_src *s = &r->src[at / each];
    const size_t elem_bytes = fxi_dtype_find(r->type)->block_bytes;
    at %= each;
    if (s->t->packed) {
        fxi_packed_row(s->t->packed, at / n, r->type, dst);
        return;
    }
    if (is_copied(r)) {
        memcpy(dst, s->t->data + at * elem_bytes, n * elem_bytes);
        return;
    }
    for (uint64_t i = 0; i < n; i += CHUNK) {
        float v[CHUNK];
        const size_t m = n - i < CHUNK ? n - i : CHUNK;
        if (s->t->type == FXI_ST_F8_E4M3)
            read_f8(s, at + i, m, v);
        else
            fxi_row_to_f32(fxi_recipe_type_of(s->t), s->t->data + (at + i) * s->t->elem_bytes, m,
                           v);
        for (size_t k = 0; r->plus != 0 && k < m; k++) v[k] += r->plus;
        fxi_row_from_f32(r->type, v, m, dst + i * elem_bytes);
    }
}

// ---- MXFP4 -------------------------------------------------------------------------------------

// A block of gpt-oss has 32 numbers of 4 bits in order, the even ones in the low halves of bytes;
// GGUF has the scale first, then number i and number i + 16 in byte i.
static void make_mx_block(const uint8_t *codes, uint8_t scale, uint8_t *dst)
{
    uint8_t v[2 * MX_BYTES];
    for (int i = 0; i < MX_BYTES; i++) {
        v[2 * i] = codes[i] & 15;
        v[2 * i + 1] = codes[i] >> 4;
    }
    dst[0] = scale;
    for (int i = 0; i < MX_BYTES; i++) dst[1 + i] = (uint8_t)(v[i] | v[i + MX_BYTES] << 4);
}

static void make_mx_row(const fxi_recipe *r, uint64_t row, uint8_t *dst)
{
    const uint64_t n_block = r->ne[0] / (2 * MX_BYTES), from = source_unit(r, row);
    const uint8_t *codes = r->src->t->data + from * n_block * MX_BYTES;
    const uint8_t *scale = r->src->scale->data + from * n_block;
    for (uint64_t b = 0; b < n_block; b++)
        make_mx_block(codes + b * MX_BYTES, scale[b], dst + b * (1 + MX_BYTES));
}

// ---- rows --------------------------------------------------------------------------------------

static void make_row(const fxi_recipe *r, uint64_t row, char *dst)
{
    const size_t elem_bytes = fxi_dtype_find(r->type)->block_bytes;
    const uint64_t n_unit = r->ne[0] / r->run;
    for (uint64_t k = 0; k < n_unit; k++) {
        const uint64_t unit = source_unit(r, row * n_unit + k);
        make_run(r, unit * r->run, r->run, dst + k * r->run * elem_bytes);
    }
}

void fxi_recipe_make(const fxi_recipe *r, uint64_t row, uint64_t n_row, void *dst)
{
    const fxi_dtype_info *type = fxi_dtype_find(r->type);
    const uint64_t row_bytes = r->ne[0] / type->block_elems * type->block_bytes;
    for (uint64_t i = 0; i < n_row; i++) {
        char *to = (char *)dst + i * row_bytes;
        if (r->values)
            memcpy(to, r->values, row_bytes);
        else if (r->mxfp4)
            make_mx_row(r, row + i, (uint8_t *)to);
        else
            make_row(r, row + i, to);
    }
}

const void *fxi_recipe_place(const fxi_recipe *r)
{
    if (r->values) return r->values;
    if (r->mxfp4 || r->n_view || r->n_src != 1 || !is_copied(r)) return NULL;
    const unsigned char *data = r->src->t->data;
    return (uintptr_t)data % r->src->t->elem_bytes ? NULL : data; // numbers may lie at odd bytes
}
