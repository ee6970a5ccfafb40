// hf_packed.c - see hf_packed.h.
#include "format/hf/hf_packed.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "base/number/qblock.h"
#include "format/show.h"

enum { BITS = 4, PER_WORD = 32 / BITS, MAX_CODE = (1 << BITS) - 1, RUN = 32 };

// ---- config.json -------------------------------------------------------------------------------

static bool has_text(fxi_str s, const char *word)
{
    return s.n == strlen(word) && !strncasecmp(s.p, word, s.n);
}

static fx_status read_gptq_form(const fxi_members *q, fxi_packed_form *out)
{
    fxi_str form = fxi_str_of("gptq");
    FX_TRY(fxi_members_str(q, "checkpoint_format", false, &form));
    out->zero_less = has_text(form, "gptq");
    if (out->zero_less || has_text(form, "gptq_v2")) return FX_OK;
    return fxi_members_fail(q, "checkpoint_format", "'%s' is not supported (gptq, gptq_v2)",
                            fxi_show_text(form).s);
}

static fx_status read_awq_form(const fxi_members *q, fxi_packed_form *out)
{
    fxi_str version = fxi_str_of("gemm");
    FX_TRY(fxi_members_str(q, "version", false, &version));
    out->is_awq = true;
    if (has_text(version, "gemm")) return FX_OK;
    return fxi_members_fail(q, "version", "'%s' is not supported (gemm)", fxi_show_text(version).s);
}

fx_status fxi_packed_form_read(const fxi_members *q, fxi_str method, fxi_packed_form *out)
{
    uint32_t bits = 0;
    *out = (fxi_packed_form){.is_used = true};
    FX_TRY(fxi_members_u32(q, "bits", true, &bits));
    if (bits != BITS) return fxi_members_fail(q, "bits", "only %d are supported", BITS);
    const fxi_json *group = fxi_members_get(q, "group_size");
    const double n = fxi_json_is_number(group) ? fxi_json_number(group) : 0;
    if (!(n == -1 || (n >= 1 && n <= 1 << 20 && n == (double)(uint64_t)n)))
        return fxi_members_fail(q, "group_size", "neither -1 nor a number of inputs");
    out->group = n > 0 ? (uint64_t)n : 0;
    return has_text(method, "awq") ? read_awq_form(q, out) : read_gptq_form(q, out);
}

// ---- single numbers ----------------------------------------------------------------------------

static uint32_t packed_word(const fxi_st_tensor *t, uint64_t i)
{
    uint32_t word;
    memcpy(&word, t->data + i * sizeof word, sizeof word);
    return word;
}

static uint16_t packed_half(const fxi_st_tensor *t, uint64_t i)
{
    uint16_t half;
    memcpy(&half, t->data + i * sizeof half, sizeof half);
    return half;
}

static int code_in(uint32_t word, unsigned slot)
{
    return (int)(word >> slot * BITS & MAX_CODE);
}

// Where an output's code is in its word, where words lie along the outputs.
static unsigned output_slot(const fxi_packed *p, uint64_t row)
{
    static const unsigned awq[PER_WORD] = {0, 4, 1, 5, 2, 6, 3, 7};
    return p->form.is_awq ? awq[row % PER_WORD] : row % PER_WORD;
}

static int packed_code(const fxi_packed *p, uint64_t row, uint64_t k)
{
    const uint64_t n_out = p->weight.dim[0];
    if (p->form.is_awq)
        return code_in(packed_word(p->codes, k * (n_out / PER_WORD) + row / PER_WORD),
                       output_slot(p, row));
    return code_in(packed_word(p->codes, k / PER_WORD * n_out + row), k % PER_WORD);
}

static int packed_zero(const fxi_packed *p, uint64_t row, uint64_t group)
{
    const uint64_t at = group * (p->weight.dim[0] / PER_WORD) + row / PER_WORD;
    return (code_in(packed_word(p->zeros, at), output_slot(p, row)) + p->form.zero_less) & MAX_CODE;
}

static uint64_t group_of(const fxi_packed *p, uint64_t k)
{
    if (p->order) return packed_word(p->order, k);
    return p->form.group ? k / p->form.group : 0;
}

// ---- the parts of a weight ---------------------------------------------------------------------

static const fxi_st_tensor *find_part(const fxi_hf_files *files, const fxi_packed *p,
                                      const char *part)
{
    char name[600];
    const int n = (int)(strlen(p->name) - strlen("weight"));
    snprintf(name, sizeof name, "%.*s%s", n, p->name, part);
    return fxi_hf_files_find(files, name);
}

static bool has_shape(const fxi_st_tensor *t, fxi_st_type type, uint64_t n_row, uint64_t n_col)
{
    return t && t->type == type && t->n_dim == 2 && t->dim[0] == n_row && t->dim[1] == n_col;
}

// The groups of inputs; drops an order that says what is so without it.
static fx_status check_order(fxi_packed *p, uint64_t n_group, fx_error *err)
{
    const fxi_st_tensor *order = p->order;
    const uint64_t n_in = p->weight.dim[1];
    bool follows = true;
    if (!order) return FX_OK;
    if (order->type != FXI_ST_I32 || order->n_dim != 1 || order->n_elem != n_in)
        return fxi_st_fail(err, order, "is not a group for each of %" PRIu64 " inputs", n_in);
    for (uint64_t k = 0; k < n_in; k++) {
        const uint32_t group = packed_word(order, k);
        if (group >= n_group)
            return fxi_st_fail(err, order, "input %" PRIu64 " is of group %" PRIu32 ", of %" PRIu64,
                               k, group, n_group);
        follows &= group == (p->form.group ? k / p->form.group : 0);
    }
    if (follows) p->order = NULL;
    return FX_OK;
}

static fx_status check_parts(fxi_packed *p, const fxi_hf_files *files, fx_error *err)
{
    const fxi_st_tensor *c = p->codes;
    if (c->type != FXI_ST_I32 || c->n_dim != 2 || !c->n_elem)
        return fxi_st_fail(err, c, "is not a matrix of I32");
    const uint64_t wide = p->form.is_awq ? PER_WORD : 1;
    const uint64_t n_out = c->dim[1] * wide, n_in = c->dim[0] * (PER_WORD / wide);
    const uint64_t n_group = p->form.group ? (n_in - 1) / p->form.group + 1 : 1;
    p->zeros = find_part(files, p, "qzeros");
    p->scales = find_part(files, p, "scales");
    p->order = p->form.is_awq ? NULL : find_part(files, p, "g_idx");
    p->weight = *c;
    p->weight.name = p->name;
    p->weight.type = FXI_ST_PACKED;
    p->weight.type_name = "4 bits";
    p->weight.dim[0] = n_out;
    p->weight.dim[1] = n_in;
    p->weight.n_elem = n_out * n_in;
    p->weight.packed = p;
    if (n_out % PER_WORD || !has_shape(p->zeros, FXI_ST_I32, n_group, n_out / PER_WORD) ||
        !has_shape(p->scales, FXI_ST_F16, n_group, n_out))
        return fxi_st_fail(err, c,
                           "qzeros are not I32 of %" PRIu64 " x %" PRIu64
                           ", or scales not F16 of %" PRIu64 " x %" PRIu64,
                           n_group, n_out / PER_WORD, n_group, n_out);
    return check_order(p, n_group, err);
}

// ---- all weights -------------------------------------------------------------------------------

static bool zeros_are_8(const fxi_packed *p)
{
    const uint32_t want = p->form.zero_less ? 0x77777777 : 0x88888888;
    for (uint64_t i = 0; i < p->zeros->n_elem; i++)
        if (packed_word(p->zeros, i) != want) return false;
    return true;
}

// The narrowest type that holds the weights of all.
static fxi_dtype common_type(const fxi_packed *p, size_t n)
{
    fxi_dtype type = FXI_Q4_0;
    for (size_t i = 0; i < n; i++) {
        const bool in_blocks = !p[i].order && p[i].weight.dim[1] % RUN == 0 &&
                               (!p[i].form.group || p[i].form.group % RUN == 0);
        if (!in_blocks) return FXI_F16;
        if (!zeros_are_8(&p[i])) type = FXI_Q5_0;
    }
    return type;
}

// Whether a tensor's name comes after, among (0) or before those of the parts of p.
static int compare_prefix(const fxi_st_tensor *t, const fxi_packed *p)
{
    return strncmp(t->name, p->name, strlen(p->name) - strlen("weight"));
}

static bool is_part(const fxi_st_tensor *t, const fxi_packed *p)
{
    static const char *const parts[] = {"qweight", "qzeros", "scales", "g_idx"};
    if (compare_prefix(t, p) != 0) return false;
    const fxi_str rest = fxi_str_of(t->name + strlen(p->name) - strlen("weight"));
    return fxi_str_is_any(rest, parts, sizeof parts / sizeof *parts);
}

static fx_status make_weights(const fxi_hf_files *files, const fxi_packed_form *form, fxi_packed *p,
                              fx_error *err)
{
    for (size_t i = 0; i < files->n_tensor; i++) {
        const fxi_st_tensor *t = files->tensor[i];
        const fxi_str name = fxi_str_of(t->name);
        if (!fxi_str_ends_in(name, ".qweight")) continue;
        p->codes = t;
        p->form = *form;
        snprintf(p->name, sizeof p->name, "%.*sweight", (int)(name.n - strlen("qweight")), t->name);
        if (fxi_hf_files_find(files, p->name))
            return fxi_st_fail(err, t, "stands beside a weight of that name");
        FX_TRY(check_parts(p++, files, err));
    }
    return FX_OK;
}

fx_status fxi_packed_find(fxi_hf_files *files, const fxi_packed_form *form, fxi_packed **out,
                          fx_error *err)
{
    size_t n = 0, n_left = 0;
    *out = NULL;
    if (!form->is_used) return FX_OK;
    for (size_t i = 0; i < files->n_tensor; i++)
        n += fxi_str_ends_in(fxi_str_of(files->tensor[i]->name), ".qweight");
    fxi_packed *p = *out = calloc(n + 1, sizeof *p);
    if (!p) return fxi_fail_memory(err);
    FX_TRY(make_weights(files, form, p, err));
    const fxi_dtype type = common_type(p, n);
    for (size_t i = 0, at = 0; i < files->n_tensor; i++) { // both in the order of names
        while (at < n && compare_prefix(files->tensor[i], &p[at]) > 0) at++;
        if (at == n || !is_part(files->tensor[i], &p[at]))
            files->tensor[n_left++] = files->tensor[i];
    }
    for (size_t i = 0; i < n; i++) { // each has given up a place
        p[i].type = type;
        files->tensor[n_left++] = &p[i].weight;
    }
    files->n_tensor = n_left;
    fxi_hf_files_sort(files);
    return FX_OK;
}

// ---- rows --------------------------------------------------------------------------------------

// A run of inputs of one group.
static void write_packed_block(const fxi_packed *p, uint64_t row, uint64_t k0, const fxi_qformat *f,
                               void *dst)
{
    const uint64_t group = group_of(p, k0);
    const int shift = f->zero - packed_zero(p, row, group);
    fxi_qblock block = {.d = packed_half(p->scales, group * p->weight.dim[0] + row)};
    for (int i = 0; i < RUN; i++)
        block.code[i] = (uint8_t)(packed_code(p, row, k0 + (uint64_t)i) + shift);
    f->write(&block, dst);
}

static void write_packed_numbers(const fxi_packed *p, uint64_t row, uint64_t k0, size_t n,
                                 fxi_dtype type, void *dst)
{
    float v[RUN];
    for (size_t i = 0; i < n; i++) {
        const uint64_t k = k0 + i, group = group_of(p, k);
        v[i] = fxi_f16_to_f32(packed_half(p->scales, group * p->weight.dim[0] + row)) *
               (float)(packed_code(p, row, k) - packed_zero(p, row, group));
    }
    fxi_row_from_f32(type, v, n, dst);
}

void fxi_packed_row(const fxi_packed *p, uint64_t row, fxi_dtype type, void *dst)
{
    const fxi_qformat *f = fxi_qformat_find(type);
    const fxi_dtype_info *info = fxi_dtype_find(type);
    const uint64_t n_in = p->weight.dim[1];
    char *to = dst;
    for (uint64_t k = 0; k < n_in; k += RUN) {
        const size_t n = n_in - k < RUN ? (size_t)(n_in - k) : RUN;
        if (f)
            write_packed_block(p, row, k, f, to);
        else
            write_packed_numbers(p, row, k, n, type, to);
        to += n / info->block_elems * info->block_bytes;
    }
}
