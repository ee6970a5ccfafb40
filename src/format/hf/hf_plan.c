// hf_plan.c - what each tensor of a folder becomes: a recipe, with the shape checked.
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/grow.h"
#include "format/hf/hf_folder.h"
#include "format/show.h"

enum { MX_ELEMS = 32 };

// ---- recipes -----------------------------------------------------------------------------------

// *out is valid until the next recipe is added.
static fx_status add_recipe(fxi_folder *f, const char *name, size_t n_src, fxi_recipe **out)
{
    if (!fxi_grow(&f->recipe, sizeof *f->recipe, f->n_recipe, &f->cap_recipe))
        return fxi_fail_memory(f->err);
    fxi_recipe *r = &f->recipe[f->n_recipe];
    *r = (fxi_recipe){.type = FXI_F32, .n_dim = 1, .ne = {1, 1, 1, 1}, .n_src = n_src};
    snprintf(r->name, sizeof r->name, "%s", name);
    r->src = calloc(n_src + 1, sizeof *r->src);
    if (!r->src) return fxi_fail_memory(f->err);
    f->n_recipe++;
    *out = r;
    return FX_OK;
}

void fxi_hf_free_recipes(fxi_folder *f)
{
    for (size_t i = 0; i < f->n_recipe; i++) {
        free(f->recipe[i].src);
        free(f->recipe[i].values);
    }
    free(f->recipe);
    f->recipe = NULL;
    f->n_recipe = f->cap_recipe = 0;
}

fx_status fxi_hf_plan_vector(fxi_folder *f, const char *name, float *values, uint64_t n)
{
    fxi_recipe *r = NULL;
    fx_status st = add_recipe(f, name, 0, &r);
    if (st != FX_OK) {
        free(values);
        return st;
    }
    r->values = values;
    r->ne[0] = r->run = n;
    return FX_OK;
}

// Small tensors that must be exact, as converters to GGUF leave them.
static bool is_kept_f32(const fxi_recipe *r)
{
    static const char *const part[] = {"norm",        "ffn_gate_inp", "position_embd",
                                       "token_types", "attn_sinks",   ".bias"};
    if (r->n_dim == 1) return true;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (strstr(r->name, part[i])) return true;
    return false;
}

static fx_status set_type(const fxi_folder *f, fxi_recipe *r)
{
    const fxi_st_tensor *t = r->src->t;
    r->type = fxi_recipe_type_of(t);
    if (r->type == FXI_DTYPE_END)
        return fxi_st_fail(f->err, t, "weights of type %s are not supported", t->type_name);
    if (is_kept_f32(r)) r->type = FXI_F32;
    const bool norm = strstr(r->name, "norm") && fxi_str_ends_in(fxi_str_of(r->name), ".weight");
    if (norm && (f->family->flags & FXI_HF_PLUS_1)) {
        r->plus = 1;
        r->type = FXI_F32;
    }
    return FX_OK;
}

// The source's shape, fastest dimension first.
static fx_status set_shape(const fxi_folder *f, fxi_recipe *r, const fxi_st_tensor *t)
{
    const int n = t->n_dim ? t->n_dim : 1;
    if (n > FXI_GGUF_MAX_DIM || !t->n_elem)
        return fxi_st_fail(f->err, t, "%d dimensions with %" PRIu64 " numbers", t->n_dim,
                           t->n_elem);
    r->n_dim = (uint32_t)n;
    for (int i = 0; i < n; i++) r->ne[i] = t->dim[n - 1 - i];
    r->run = r->ne[0];
    return FX_OK;
}

// ---- scales of FP8 -----------------------------------------------------------------------------

static const fxi_st_tensor *find_scale(const fxi_folder *f, const fxi_st_tensor *t)
{
    static const char *const end[] = {"_scale_inv", "_scale"};
    char name[600];
    for (size_t i = 0; i < sizeof end / sizeof *end; i++) {
        snprintf(name, sizeof name, "%s%s", t->name, end[i]);
        const fxi_st_tensor *s = fxi_hf_files_find(&f->files, name);
        if (s) return s;
    }
    return NULL;
}

// Numbers of a dimension that share a scale, for n scales: `block`, where there are several.
static bool set_block(uint64_t n_elem, uint64_t n, uint64_t block, uint64_t *out)
{
    *out = n == 1 ? n_elem : n == n_elem ? 1 : block;
    return *out > 0 && (n_elem + *out - 1) / *out == n;
}

static fx_status set_scale(const fxi_folder *f, fxi_recipe_src *s)
{
    enum { BLOCK = 128 };
    const fxi_st_tensor *t = s->t;
    s->scale = find_scale(f, t);
    if (!s->scale) return fxi_st_fail(f->err, t, "FP8 weights without a scale (%s_scale)", t->name);
    const fxi_st_tensor *c = s->scale;
    if (t->n_dim != 2 || c->n_dim > 2 || fxi_recipe_type_of(c) == FXI_DTYPE_END ||
        c->type == FXI_ST_F8_E4M3)
        return fxi_st_fail(f->err, t, "FP8 of %d dimensions with scales of type %s", t->n_dim,
                           c->type_name);
    const uint64_t n_row = c->n_dim ? c->dim[0] : 1, n_col = c->n_dim == 2 ? c->dim[1] : 1;
    if (!set_block(t->dim[0], n_row, BLOCK, &s->block_rows) ||
        !set_block(t->dim[1], n_col, BLOCK, &s->block_cols))
        return fxi_st_fail(f->err, t,
                           "%" PRIu64 " x %" PRIu64 " scales for %" PRIu64 " x %" PRIu64 " numbers",
                           n_row, n_col, t->dim[0], t->dim[1]);
    return FX_OK;
}

// Codes of 4 bits move over row by row.
static fx_status check_packed(const fxi_folder *f, const fxi_recipe *r, const fxi_st_tensor *t)
{
    if (!t->packed || r->run == t->dim[1]) return FX_OK;
    return fxi_st_fail(f->err, t, "a matrix of 4 bits in this order is not supported");
}

static fx_status set_source(const fxi_folder *f, fxi_recipe_src *s, const fxi_st_tensor *t)
{
    s->t = t;
    return t->type == FXI_ST_F8_E4M3 ? set_scale(f, s) : FX_OK;
}

// ---- kinds of recipes --------------------------------------------------------------------------

static void set_view(fxi_recipe *r, fxi_recipe_view v)
{
    v.n = UINT64_MAX;
    r->view[0] = v;
    r->n_view = 1;
}

// Units from `first` on, `step` apart.
static void set_steps(fxi_recipe *r, uint64_t first, uint64_t step)
{
    set_view(r, (fxi_recipe_view){.from = first, .n1 = 1, .n2 = 1, .step = {step}});
}

static uint64_t n_out_of(const fxi_recipe *r)
{
    return r->n_dim == 1 ? r->ne[0] : r->ne[1];
}

// Rope by halves to rope by pairs: rows i and i + half of each head side by side. The numbers of a
// bias are reordered like a matrix's rows.
static fx_status plan_same(const fxi_folder *f, fxi_recipe *r, const fxi_hf_match *m)
{
    (void)m;
    const uint64_t size = f->head_dim, half = size / 2;
    const bool rotated = strstr(r->name, ".attn_q.") || strstr(r->name, ".attn_k.");
    if (!rotated || !(f->family->flags & FXI_HF_PAIRS)) return FX_OK;
    if (!size || size % 2 || n_out_of(r) % size)
        return fxi_st_fail(f->err, r->src->t,
                           "%" PRIu64 " rows are not a multiple of the head size %" PRIu64,
                           n_out_of(r), size);
    if (r->n_dim == 1) r->run = 1;
    set_view(r, (fxi_recipe_view){.n1 = half, .n2 = 2, .step = {size, 1, half}});
    return FX_OK;
}

static fx_status plan_flat(const fxi_folder *f, fxi_recipe *r, const fxi_hf_match *m)
{
    (void)f;
    (void)m;
    r->ne[0] = r->run = r->src->t->n_elem;
    r->n_dim = 1;
    for (int i = 1; i < FXI_GGUF_MAX_DIM; i++) r->ne[i] = 1;
    return FX_OK;
}

// Rows q.., k, v of each group of heads to all q, all k, all v.
static fx_status plan_qkv(const fxi_folder *f, fxi_recipe *r, const fxi_hf_match *m)
{
    (void)m;
    const uint64_t size = f->head_dim, n_group = f->n_kv_head, n_q = f->n_head / n_group * size;
    const uint64_t all = n_q + 2 * size, want = n_group * all;
    if (n_out_of(r) != want)
        return fxi_st_fail(f->err, r->src->t, "%" PRIu64 " rows, expected %" PRIu64, n_out_of(r),
                           want);
    if (r->n_dim == 1) r->run = 1;
    const uint64_t rows[3] = {n_q, size, size};
    for (uint64_t from = 0; r->n_view < 3; from += rows[r->n_view++])
        r->view[r->n_view] = (fxi_recipe_view){.n = n_group * rows[r->n_view],
                                               .from = from,
                                               .n1 = 1,
                                               .n2 = rows[r->n_view],
                                               .step = {all, 0, 1}};
    return FX_OK;
}

static fx_status plan_from_2(const fxi_folder *f, fxi_recipe *r, const fxi_hf_match *m)
{
    (void)m;
    if (r->n_dim != 2 || r->ne[1] <= 2)
        return fxi_st_fail(f->err, r->src->t, "has fewer than three rows");
    r->ne[1] -= 2;
    set_steps(r, 2, 1);
    return FX_OK;
}

// Matrices [n_in][n_out] to [n_out][n_in]; of [n_in][2 n_out] every other column.
static fx_status plan_transpose(const fxi_folder *f, fxi_recipe *r, const fxi_hf_match *m)
{
    const uint64_t step = m->how == FXI_HF_TRANSPOSE ? 1 : 2;
    if (r->n_dim == 1 && step == 1) return FX_OK; // a bias
    if (r->n_dim == 1 || r->ne[0] % step)
        return fxi_st_fail(f->err, r->src->t, "an odd number of columns");
    const uint64_t n_out = r->ne[0] / step, n_in = r->ne[1], slab = n_out * n_in;
    r->ne[0] = n_in;
    r->ne[1] = n_out;
    r->run = 1;
    set_view(r, (fxi_recipe_view){.from = m->how == FXI_HF_TRANSPOSE_ODD,
                                  .n1 = n_out,
                                  .n2 = n_in,
                                  .step = {slab * step, step, n_out * step}});
    return FX_OK;
}

static fx_status plan_every_other(const fxi_folder *f, fxi_recipe *r, const fxi_hf_match *m)
{
    if (r->ne[0] % 2) return fxi_st_fail(f->err, r->src->t, "an odd number of columns");
    r->ne[0] /= 2;
    r->run = 1;
    set_steps(r, m->how == FXI_HF_ODD, 2);
    return FX_OK;
}

static fx_status plan_half(const fxi_folder *f, fxi_recipe *r, const fxi_hf_match *m)
{
    if (r->n_dim < 2 || r->ne[1] % 2)
        return fxi_st_fail(f->err, r->src->t, "an odd number of rows");
    const uint64_t n = r->ne[1] /= 2;
    set_view(r,
             (fxi_recipe_view){
                 .from = m->how == FXI_HF_HALF_2 ? n : 0, .n1 = 1, .n2 = n, .step = {2 * n, 0, 1}});
    return FX_OK;
}

static fx_status plan_mx(const fxi_folder *f, fxi_recipe *r, const fxi_hf_match *m)
{
    char name[600];
    const fxi_st_tensor *t = r->src->t;
    const bool every_other = m->how != FXI_HF_MX;
    snprintf(name, sizeof name, "%.*sscales", (int)(strlen(t->name) - strlen("blocks")), t->name);
    const fxi_st_tensor *s = fxi_hf_files_find(&f->files, name);
    if (!s) return fxi_st_fail(f->err, t, "has no scales");
    if (t->type != FXI_ST_U8 || s->type != FXI_ST_U8 || t->n_dim != 4 ||
        t->dim[3] != MX_ELEMS / 2 || s->n_elem != t->n_elem / (MX_ELEMS / 2) ||
        (every_other && t->dim[1] % 2))
        return fxi_st_fail(f->err, t, "its shape does not match that of its scales");
    r->src->scale = s;
    r->mxfp4 = true;
    r->type = FXI_MXFP4;
    r->n_dim = 3;
    r->ne[0] = r->run = t->dim[2] * MX_ELEMS;
    r->ne[1] = t->dim[1] / (every_other ? 2 : 1);
    r->ne[2] = t->dim[0];
    r->ne[3] = 1;
    if (every_other) set_steps(r, m->how == FXI_HF_MX_ODD, 2);
    return FX_OK;
}

typedef fx_status plan_fn(const fxi_folder *f, fxi_recipe *r, const fxi_hf_match *m);

static plan_fn *const plan_by_how[] = {
    [FXI_HF_SAME] = plan_same,
    [FXI_HF_FLAT] = plan_flat,
    [FXI_HF_TRANSPOSE] = plan_transpose,
    [FXI_HF_QKV] = plan_qkv,
    [FXI_HF_FROM_2] = plan_from_2,
    [FXI_HF_EVEN] = plan_every_other,
    [FXI_HF_ODD] = plan_every_other,
    [FXI_HF_TRANSPOSE_EVEN] = plan_transpose,
    [FXI_HF_TRANSPOSE_ODD] = plan_transpose,
    [FXI_HF_HALF_1] = plan_half,
    [FXI_HF_HALF_2] = plan_half,
    [FXI_HF_MX] = plan_mx,
    [FXI_HF_MX_EVEN] = plan_mx,
    [FXI_HF_MX_ODD] = plan_mx,
};

static fx_status plan_one(fxi_folder *f, const fxi_st_tensor *t, const fxi_hf_match *m)
{
    fxi_recipe *r = NULL;
    FX_TRY(add_recipe(f, m->to, 1, &r));
    FX_TRY(set_source(f, r->src, t));
    FX_TRY(set_shape(f, r, t));
    FX_TRY(plan_by_how[m->how](f, r, m));
    FX_TRY(check_packed(f, r, t));
    return r->mxfp4 ? FX_OK : set_type(f, r);
}

fx_status fxi_hf_plan_matrix(fxi_folder *f, const char *name, const fxi_st_tensor *t)
{
    fxi_hf_match m = {.how = FXI_HF_SAME};
    snprintf(m.to, sizeof m.to, "%s", name);
    return plan_one(f, t, &m);
}

// ---- stacks ------------------------------------------------------------------------------------

// Names are sorted, so that the parts of a layer's few stacks follow each other.
static fxi_recipe *find_stack(const fxi_folder *f, const char *to)
{
    enum { NEAR = 64 };
    const size_t end = f->n_recipe > NEAR ? f->n_recipe - NEAR : 0;
    for (size_t i = f->n_recipe; i > end; i--)
        if (!strcmp(f->recipe[i - 1].name, to)) return &f->recipe[i - 1];
    return NULL;
}

static fx_status begin_stack(fxi_folder *f, const fxi_st_tensor *t, const fxi_hf_match *m,
                             fxi_recipe **out)
{
    const uint32_t n = strstr(m->to, ".attn_q_norm")   ? f->n_head
                       : strstr(m->to, ".attn_k_norm") ? f->n_kv_head
                                                       : f->n_expert;
    if (!n) return fxi_st_fail(f->err, t, "config.json does not give the number of experts");
    FX_TRY(add_recipe(f, m->to, n, out));
    fxi_recipe *r = *out;
    FX_TRY(set_shape(f, r, t));
    if (r->n_dim == FXI_GGUF_MAX_DIM) return fxi_st_fail(f->err, t, "has too many dimensions");
    r->ne[r->n_dim++] = n;
    r->src->t = t; // for set_type; put_part sets it again
    fx_status st = set_type(f, r);
    r->src->t = NULL;
    return st;
}

static fx_status put_part(fxi_folder *f, const fxi_st_tensor *t, const fxi_hf_match *m)
{
    fxi_recipe *r = find_stack(f, m->to);
    if (!r) FX_TRY(begin_stack(f, t, m, &r));
    if (m->index >= r->n_src)
        return fxi_st_fail(f->err, t, "part %u, but there are %zu", m->index, r->n_src);
    if (r->src[m->index].t) return fxi_st_fail(f->err, t, "appears twice");
    for (size_t i = 0; i < r->n_src; i++)
        if (r->src[i].t && !(r->src[i].t->type == t->type && r->src[i].t->n_dim == t->n_dim &&
                             !memcmp(r->src[i].t->dim, t->dim, sizeof r->src[i].t->dim)))
            return fxi_st_fail(f->err, t, "its shape or type differs from that of '%s'",
                               r->src[i].t->name);
    return set_source(f, &r->src[m->index], t);
}

// ---- all tensors -------------------------------------------------------------------------------

// Scales are read with their weights, or scale activations and the KV cache, which are not
// quantised here; a model that sees pictures has more parts than that about text.
static bool is_aside(const fxi_folder *f, const fxi_st_tensor *t)
{
    static const char *const end[] = {".weight_scale", ".weight_scale_inv", ".input_scale",
                                      ".k_scale",      ".v_scale",          ".activation_scale"};
    static const char *const begin[] = {"vision_", "model.vision_", "multi_modal_projector.",
                                        "model.multi_modal_projector."};
    for (size_t i = 0; i < sizeof end / sizeof *end; i++)
        if (fxi_str_ends_in(fxi_str_of(t->name), end[i])) return true;
    for (size_t i = 0; f->config.root != f->whole.doc.root && i < sizeof begin / sizeof *begin; i++)
        if (!strncmp(t->name, begin[i], strlen(begin[i]))) return true;
    return false;
}

static fx_status plan_tensor(fxi_folder *f, const fxi_st_tensor *t)
{
    fxi_hf_match m[FXI_HF_MAX_MATCH];
    if (is_aside(f, t)) return FX_OK;
    const int n = fxi_hf_match_name(f->family, t->name, m);
    if (!n)
        return fxi_st_fail(f->err, t, "is not part of a model of type %s", f->family->model_type);
    for (int i = 0; i < n; i++) {
        const bool is_output = !strncmp(m[i].to, "output.", 7);
        if (m[i].how == FXI_HF_SKIP || (is_output && f->tied)) continue;
        FX_TRY(m[i].how == FXI_HF_STACK ? put_part(f, t, &m[i]) : plan_one(f, t, &m[i]));
    }
    return FX_OK;
}

static uint32_t layer_of(const fxi_recipe *r, const char **rest)
{
    char *end;
    *rest = r->name;
    if (strncmp(r->name, "blk.", 4)) return 0;
    const uint32_t layer = (uint32_t)strtoul(r->name + 4, &end, 10) + 1;
    *rest = end;
    return layer;
}

// The embedding and the like, then layer by layer.
static int compare_recipes(const void *a, const void *b)
{
    const char *x, *y;
    const uint32_t i = layer_of(a, &x), j = layer_of(b, &y);
    return i != j ? (i > j) - (i < j) : strcmp(x, y);
}

fx_status fxi_hf_plan_tensors(fxi_folder *f)
{
    for (size_t i = 0; i < f->files.n_tensor; i++) FX_TRY(plan_tensor(f, f->files.tensor[i]));
    for (size_t i = 0; i < f->n_recipe; i++)
        for (size_t k = 0; k < f->recipe[i].n_src; k++)
            if (!f->recipe[i].src[k].t)
                return fxi_fail(f->err, FX_EFORMAT, "%s: part %zu of %zu of '%s' is missing",
                                f->path, k, f->recipe[i].n_src, f->recipe[i].name);
    qsort(f->recipe, f->n_recipe, sizeof *f->recipe, compare_recipes);
    return FX_OK;
}
