// quantize.c - a model file with other types of weights.
#include "format/gguf_write.h"
#include "format/quantize/quantize_impl.h"
#include "format/show.h"

#include <float.h>
#include <inttypes.h>
#include <math.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// ---- rows to blocks -----------------------------------------------------------------------------

// Converts rows from one type to another, a task per row, and refines quantized blocks by the
// weights of an importance matrix.
//
// Refining is coordinate descent on the weighted squared error: the scales of the block by least
// squares for the codes, then for each run the stored scale (and offset) and their neighbours, each
// with the nearest codes. A round that does not help ends it; a block never gets worse. Sums have
// one order: the same bits everywhere.

enum { MAX_ROUND = 4, LANES = 4, MAX_SUB = 32 };

#define F16_MAX 65504.0f

static uint16_t nearest_f16(float v)
{
    return fxi_f32_to_f16(v > F16_MAX ? F16_MAX : v < -F16_MAX ? -F16_MAX : v);
}

static double weigh_error(const fxi_qformat *f, const float *x, const float *weight,
                          const fxi_qblock *b)
{
    float y[FXI_QBLOCK_MAX];
    double sum = 0;
    fxi_qblock_to_f32(f, b, y);
    for (int i = 0; i < f->n; i++) {
        const double e = (double)y[i] - (double)x[i];
        sum += (double)weight[i] * e * e;
    }
    return sum;
}

// ---- d and m for given codes -------------------------------------------------------------------

// Least squares of x ~ d a + m o over the block.
static void fit_block_scales(const fxi_qformat *f, const float *x, const float *weight,
                             fxi_qblock *b)
{
    double aa = 0, ao = 0, oo = 0, ax = 0, ox = 0;
    for (int i = 0; i < f->n; i++) {
        // What m is multiplied with: types of 32 add it, the others subtract multiples of it.
        const int run = i / f->sub, scale = f->sc_max > 0 ? b->sc[run] : 1;
        const int offset = !f->has_min ? 0 : f->sc_max > 0 ? -(int)b->mn[run] : 1;
        const double a = scale * (b->code[i] - f->zero), o = offset;
        const double w = (double)weight[i], v = (double)x[i];
        aa += w * a * a;
        ao += w * a * o;
        oo += w * o * o;
        ax += w * a * v;
        ox += w * o * v;
    }
    const double det = aa * oo - ao * ao;
    if (f->has_min && det > 1e-12 * aa * oo) {
        b->d = nearest_f16((float)((ax * oo - ox * ao) / det));
        b->m = nearest_f16((float)((aa * ox - ao * ax) / det));
    } else if (aa > 0) {
        b->d = nearest_f16((float)((ax - ao * (double)fxi_f16_to_f32(b->m)) / aa));
    }
}

// ---- codes and the runs' scales ----------------------------------------------------------------

// The nearest codes of a run with a scale and an offset; the weighted error, in LANES sums so that
// the compiler may vectorise them.
static float set_nearest_codes(const fxi_qformat *f, const float *x, const float *weight,
                               float scale, float offset, uint8_t *code)
{
    const float inv = scale != 0 ? 1 / scale : 0, zero = (float)f->zero;
    const float top = (float)((1 << f->bits) - 1);
    float c[MAX_SUB], sum[LANES] = {0};
    for (int i = 0; i < f->sub; i++) {
        float v = (x[i] - offset) * inv + zero;
        v = v > 0 ? v : 0;
        v = v < top ? v : top;
        c[i] = (v + 0x1.8p23f) - 0x1.8p23f; // to the nearest whole number
    }
    for (int i = 0; i < f->sub; i += LANES)
        for (int l = 0; l < LANES; l++) {
            const float e = scale * (c[i + l] - zero) + offset - x[i + l];
            sum[l] += weight[i + l] * (e * e);
        }
    for (int i = 0; i < f->sub; i++) code[i] = (uint8_t)c[i];
    return (sum[0] + sum[2]) + (sum[1] + sum[3]);
}

static bool in_range(int v, int lo, int hi)
{
    return v >= lo && v <= hi;
}

// Tries the neighbours of run j's stored scale and offset, keeps the best with its codes.
static void refine_run(const fxi_qformat *f, const float *x, const float *weight, int j,
                       fxi_qblock *b)
{
    const int at = j * f->sub, sc0 = b->sc[j], mn0 = b->mn[j], reach = f->has_min ? 1 : 0;
    const float d = fxi_f16_to_f32(b->d), m = fxi_f16_to_f32(b->m);
    float best = INFINITY;
    for (int ds = -1; ds <= 1; ds++)
        for (int dm = -reach; dm <= reach; dm++) {
            uint8_t code[MAX_SUB];
            const int sc = sc0 + ds, mn = mn0 + dm;
            if (!in_range(sc, f->sc_min, f->sc_max) || !in_range(mn, 0, f->has_min ? f->sc_max : 0))
                continue;
            const double e =
                set_nearest_codes(f, x + at, weight + at, d * (float)sc, -(m * (float)mn), code);
            if (!(e < best)) continue;
            best = e;
            b->sc[j] = (int8_t)sc;
            b->mn[j] = (uint8_t)mn;
            for (int i = 0; i < f->sub; i++) b->code[at + i] = code[i];
        }
}

void fxi_qblock_refine(const fxi_qformat *f, const float *x, const float *weight, fxi_qblock *b)
{
    double error = weigh_error(f, x, weight, b);
    for (int round = 0; round < MAX_ROUND && error > 0; round++) {
        fxi_qblock next = *b;
        fit_block_scales(f, x, weight, &next);
        if (f->sc_max <= 0)
            set_nearest_codes(f, x, weight, fxi_f16_to_f32(next.d), fxi_f16_to_f32(next.m),
                              next.code);
        for (int j = 0; f->sc_max > 0 && j < f->n / f->sub; j++) refine_run(f, x, weight, j, &next);
        const double e = weigh_error(f, x, weight, &next);
        if (!(e < error)) return;
        error = e;
        *b = next;
    }
}

// ---- converting rows ----------------------------------------------------------------------------

typedef struct encode_task {
    const fxi_encode_rows *job;
    size_t src_bytes, dst_bytes; // sizes of a row
    float *number;               // [n_row][n_col]
    float limit;                 // the largest magnitude of a number
    _Atomic size_t bad_row;
} encode_task;

static size_t bytes_of_row(const fxi_dtype_info *type, size_t n_col)
{
    return n_col / type->block_elems * type->block_bytes;
}

static void encode_row(void *arg, int task)
{
    encode_task *t = arg;
    const fxi_encode_rows *job = t->job;
    const size_t row = (size_t)task, n = job->n_col;
    const char *src = (const char *)job->src + row * t->src_bytes;
    char *dst = (char *)job->dst + row * t->dst_bytes;
    float *x = t->number + row * n;
    fxi_row_to_f32((fxi_dtype)job->from->id, src, n, x);
    bool fits = true;
    for (size_t i = 0; i < n; i++) fits &= fabsf(x[i]) <= t->limit; // NaN does not
    if (!fits) {
        size_t known = atomic_load(&t->bad_row);
        while (row < known && !atomic_compare_exchange_weak(&t->bad_row, &known, row)) continue;
        return;
    }
    const fxi_qformat *f = fxi_qformat_find((fxi_dtype)job->to->id);
    const float *weight = NULL;
    if (job->weight) {
        const size_t slice = (job->first_row + row) / job->rows_per_slice;
        weight = job->weight + (slice < job->n_slice ? slice : job->n_slice - 1) * n;
    }
    // Where the scales are quantized as well, refining pays even without weights.
    if (!f || f->type == FXI_Q8_0 || f->value || (!weight && f->sc_max <= 0)) {
        fxi_row_from_f32((fxi_dtype)job->to->id, x, n, dst);
        return;
    }
    float alike[FXI_QBLOCK_MAX];
    for (int i = 0; i < FXI_QBLOCK_MAX; i++) alike[i] = 1;
    for (size_t i = 0; i < n; i += (size_t)f->n, dst += job->to->block_bytes) {
        fxi_qblock b;
        fxi_qblock_from_f32(f, x + i, &b);
        fxi_qblock_refine(f, x + i, weight ? weight + i : alike, &b);
        f->write(&b, dst);
    }
}

fx_status fxi_rows_encode(const fxi_encode_rows *job, fxi_pool *pool, size_t *bad_row,
                          fx_error *err)
{
    // A type whose scale is an f16 reaches 65504 times the largest code.
    const uint32_t to = job->to->id;
    encode_task t = {.job = job,
                     .src_bytes = bytes_of_row(job->from, job->n_col),
                     .dst_bytes = bytes_of_row(job->to, job->n_col),
                     .limit = to == FXI_F32    ? FLT_MAX
                              : to == FXI_BF16 ? 0x1.fep127f
                                               : F16_MAX};
    atomic_init(&t.bad_row, job->n_row);
    t.number = malloc(job->n_row * job->n_col * sizeof *t.number);
    if (!t.number) return fxi_fail_memory(err);
    fxi_pool_run(pool, encode_row, &t, (int)job->n_row);
    free(t.number);
    *bad_row = atomic_load(&t.bad_row);
    return FX_OK;
}

// ---- a file rewritten ---------------------------------------------------------------------------

// A model to a new GGUF file, tensor by tensor, some megabytes at a time; which tensor gets which
// type.
//
// The rules are llama.cpp's, so that files of one name hold the same types, whichever program wrote
// them: mixtures give more bits to tensors whose errors cost most (the output, the values, the
// second matrix of the feed-forward), in the first and last eighth of the layers and in every third
// of those between. Vectors, norms, routers and positions keep their types.

// ---- mixtures of types --------------------------------------------------------------------------

struct fxi_mixture {
    const char *name;
    fxi_dtype base;
    uint32_t file_type; // llama.cpp's number
    // The types of tensors that get more bits, and of fused q, k and v; base: none does.
    fxi_dtype more, some;
};

static const fxi_mixture mixtures[] = {
    {"F32", FXI_F32, 0, FXI_F32, FXI_F32},        {"F16", FXI_F16, 1, FXI_F16, FXI_F16},
    {"BF16", FXI_BF16, 32, FXI_BF16, FXI_BF16},   {"Q8_0", FXI_Q8_0, 7, FXI_Q8_0, FXI_Q8_0},
    {"Q4_0", FXI_Q4_0, 2, FXI_Q4_0, FXI_Q4_0},    {"Q4_1", FXI_Q4_1, 3, FXI_Q4_1, FXI_Q4_1},
    {"Q5_0", FXI_Q5_0, 8, FXI_Q5_0, FXI_Q5_0},    {"Q5_1", FXI_Q5_1, 9, FXI_Q5_1, FXI_Q5_1},
    {"Q4_K_M", FXI_Q4_K, 15, FXI_Q6_K, FXI_Q5_K}, {"Q5_K_M", FXI_Q5_K, 17, FXI_Q6_K, FXI_Q6_K},
    {"Q6_K", FXI_Q6_K, 18, FXI_Q6_K, FXI_Q6_K},
};

const fxi_mixture *fxi_mixture_find(const char *name)
{
    for (size_t i = 0; i < sizeof mixtures / sizeof *mixtures; i++)
        if (!strcasecmp(mixtures[i].name, name)) return &mixtures[i];
    return NULL;
}

const char *fxi_mixture_names(void)
{
    return "f32, f16, bf16, q8_0, q6_k, q5_k_m, q5_1, q5_0, q4_k_m, q4_1, q4_0";
}

// ---- mixtures: what they depend on --------------------------------------------------------------

static uint32_t mixture_number(const fxi_gguf *g, fxi_str arch, const char *name,
                               uint32_t otherwise)
{
    char key[128];
    uint32_t v = otherwise;
    snprintf(key, sizeof key, "%.*s.%s", arch.n < 64 ? (int)arch.n : 64, arch.p, name);
    return fxi_gguf_u32(g, key, false, &v, NULL) == FX_OK ? v : otherwise;
}

static void look_at_model(const fxi_gguf *g, bool has_imatrix, fxi_mixture_model *out)
{
    *out = (fxi_mixture_model){.arch = {"", 0}, .has_imatrix = has_imatrix};
    (void)fxi_gguf_str(g, "general.architecture", false, &out->arch, NULL);
    out->n_layer = mixture_number(g, out->arch, "block_count", 0);
    out->n_head = mixture_number(g, out->arch, "attention.head_count", 0);
    out->n_kv_head = mixture_number(g, out->arch, "attention.head_count_kv", out->n_head);
    out->n_expert = mixture_number(g, out->arch, "expert_count", 0);
    out->has_output = fxi_gguf_find_tensor(g, "output.weight") != NULL;
}

// ---- mixtures: the type of one tensor -----------------------------------------------------------

static bool name_has(const fxi_gguf_tensor *t, const char *part)
{
    return memmem(t->name.p, t->name.n, part, strlen(part)) != NULL;
}

static bool is_kept(const fxi_gguf_tensor *t)
{
    static const char *const part[] = {"_norm.weight",       "ffn_gate_inp", "position_embd.weight",
                                       "token_types.weight", "attn_sinks",   "cls."};
    if (t->n_dim < 2 || !fxi_str_ends_in(t->name, ".weight")) return true;
    for (size_t i = 0; i < sizeof part / sizeof *part; i++)
        if (name_has(t, part[i])) return true;
    return false;
}

static bool needs_more_bits(uint32_t layer, uint32_t n_layer)
{
    const uint32_t eighth = n_layer / 8;
    return layer < eighth || layer >= 7 * n_layer / 8 || (layer - eighth) % 3 == 2;
}

static bool is_falcon(const fxi_mixture_model *model)
{
    return fxi_str_is(model->arch, "falcon");
}

// The values' matrix is small and its errors are costly, most of all where 8 experts or 8 heads
// share it.
static fxi_dtype values_type(const fxi_mixture *m, const fxi_mixture_model *model, uint32_t layer)
{
    if (model->n_expert == 8) return FXI_Q8_0;
    if (m->more != m->base && needs_more_bits(layer, model->n_layer)) return m->more;
    const bool of_70b = model->n_layer == 80 && model->n_head != model->n_kv_head;
    return of_70b && m->base == FXI_Q4_K ? FXI_Q5_K : m->base;
}

static fxi_dtype down_type(const fxi_mixture *m, const fxi_mixture_model *model, uint32_t layer)
{
    const bool more = needs_more_bits(layer, model->n_layer);
    if (model->has_imatrix && layer < model->n_layer / 8 && !is_falcon(model)) {
        if (m->base == FXI_Q4_0) return FXI_Q4_1;
        if (m->base == FXI_Q5_0) return FXI_Q5_1;
    }
    if (m->more == m->base) return m->base;
    if (is_falcon(model) && m->base == FXI_Q4_K)
        return layer < model->n_layer / 16 ? FXI_Q6_K : more ? FXI_Q5_K : FXI_Q4_K;
    return more ? m->more : m->base;
}

static fxi_dtype wanted_type(const fxi_mixture *m, const fxi_mixture_model *model,
                             const fxi_gguf_tensor *t)
{
    const bool in_layer = t->name.n > 4 && !memcmp(t->name.p, "blk.", 4);
    const uint32_t layer = in_layer ? (uint32_t)strtoul(t->name.p + 4, NULL, 10) : 0;
    if (fxi_str_is(t->name, model->has_output ? "output.weight" : "token_embd.weight")) {
        if (is_falcon(model) || t->ne[0] % 256) return FXI_Q8_0;
        return m->base == FXI_Q8_0 ? FXI_Q8_0 : FXI_Q6_K;
    }
    if (name_has(t, ".attn_v.weight")) return values_type(m, model, layer);
    if (name_has(t, ".attn_k.weight") && model->n_expert == 8) return FXI_Q8_0;
    if (name_has(t, ".attn_qkv.weight")) return m->some;
    if (name_has(t, ".ffn_down")) return down_type(m, model, layer);
    if (name_has(t, ".attn_output.weight") && model->n_expert == 8 && m->base == FXI_Q4_K)
        return FXI_Q5_K;
    return m->base;
}

// Rows that are no multiple of a block get a type of smaller blocks.
static const fxi_dtype_info *fitting_type(fxi_dtype type, uint64_t n_col)
{
    static const struct {
        fxi_dtype from, to;
    } instead[] = {{FXI_Q4_K, FXI_Q5_0}, {FXI_Q5_K, FXI_Q5_1}, {FXI_Q6_K, FXI_Q8_0}};
    const fxi_dtype_info *info = fxi_dtype_find(type);
    for (size_t i = 0; i < sizeof instead / sizeof *instead; i++)
        if (instead[i].from == type && n_col % info->block_elems)
            return fitting_type(instead[i].to, n_col);
    return n_col % info->block_elems ? fxi_dtype_find(FXI_F16) : info;
}

const fxi_dtype_info *fxi_mixture_type(const fxi_mixture *m, const fxi_mixture_model *model,
                                       const fxi_gguf_tensor *t)
{
    if (!m || is_kept(t)) return t->type;
    if (fxi_dtype_find(m->base)->block_elems == 1) return fxi_dtype_find(m->base); // F32, F16, BF16
    return fitting_type(wanted_type(m, model, t), t->ne[0]);
}

// ---- writing the file ---------------------------------------------------------------------------

enum { PART_NUMBERS = 4 << 20, QUANTIZATION_VERSION = 2 };

typedef struct rewrite_job {
    const fxi_gguf *g;
    const fxi_rewrite *how;
    fxi_mixture_model model;
    fxi_gguf_writer *w;
    fxi_buf out; // converted rows
    uint64_t done_bytes, total_bytes;
    fx_error *err;
} rewrite_job;

static const fxi_dtype_info *new_type(const rewrite_job *j, const fxi_gguf_tensor *t)
{
    return fxi_mixture_type(j->how->mixture, &j->model, t);
}

static fx_status fail_rewrite(const rewrite_job *j, const fxi_gguf_tensor *t, const char *what)
{
    return fxi_fail(j->err, FX_EFORMAT, "%s: tensor '%s' %s", fxi_gguf_name(j->g),
                    fxi_show_text(t->name).s, what);
}

// ---- keys --------------------------------------------------------------------------------------

// Keys that this file has its own values of: a file in parts becomes one.
static bool is_own_key(const rewrite_job *j, const fxi_gguf_kv *kv)
{
    static const char *const always[] = {"general.alignment", "split.no", "split.count",
                                         "split.tensors.count"};
    static const char *const typed[] = {"general.file_type", "general.quantization_version"};
    if (fxi_str_is_any(kv->key, always, sizeof always / sizeof *always)) return true;
    return j->how->mixture && fxi_str_is_any(kv->key, typed, sizeof typed / sizeof *typed);
}

static void write_all_keys(const rewrite_job *j)
{
    for (uint64_t i = 0; i < fxi_gguf_n_kv(j->g); i++)
        if (!is_own_key(j, fxi_gguf_kv_at(j->g, i)))
            fxi_gguf_write_kv(j->w, fxi_gguf_kv_at(j->g, i));
    if (!j->how->mixture) return;
    fxi_gguf_write_u32(j->w, "general.file_type", j->how->mixture->file_type);
    fxi_gguf_write_u32(j->w, "general.quantization_version", QUANTIZATION_VERSION);
    if (!j->how->imatrix) return;
    const uint64_t n = fxi_imatrix_n_entry(j->how->imatrix);
    fxi_gguf_write_str(j->w, "quantize.imatrix.file", j->how->imatrix_name);
    fxi_gguf_write_array(j->w, "flexinfer.imatrix.entries", FXI_GGUF_U64, &n, 1);
}

// ---- tensors -----------------------------------------------------------------------------------

static fx_status declare_all(rewrite_job *j, fxi_rewritten *out)
{
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(j->g); i++) {
        const fxi_gguf_tensor *t = fxi_gguf_tensor_at(j->g, i);
        const fxi_dtype_info *from = t->type, *to = new_type(j, t);
        char name[256], what[96];
        const bool is_source = from->id == FXI_F32 || from->id == FXI_F16 || from->id == FXI_BF16 ||
                               from->id == FXI_Q8_0;
        if (to != from && !is_source) { // what was rounded to blocks once is not rounded to others
            snprintf(what, sizeof what, "is %s already; quantize from F32, F16, BF16 or Q8_0",
                     from->name);
            return fail_rewrite(j, t, what);
        }
        snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.p);
        fxi_gguf_declare_tensor(j->w, name, (fxi_dtype)to->id, t->n_dim, t->ne);
        out->in_bytes += t->size_bytes;
        out->out_bytes += bytes_of_row(to, t->size_bytes / from->block_bytes * from->block_elems);
    }
    j->total_bytes = out->in_bytes;
    fxi_gguf_begin_data(j->w);
    return FX_OK;
}

static fx_status tell_progress(rewrite_job *j, uint64_t n_bytes)
{
    j->done_bytes += n_bytes;
    if (!j->how->on_progress ||
        j->how->on_progress(j->how->progress_ud, j->done_bytes, j->total_bytes))
        return FX_OK;
    return fxi_fail(j->err, FX_ECLOSED, "%s: stopped", fxi_gguf_name(j->g));
}

static fx_status convert_part(rewrite_job *j, const fxi_gguf_tensor *t, fxi_encode_rows *e)
{
    const uint64_t row_bytes = bytes_of_row(t->type, e->n_col);
    const uint64_t at = e->first_row * row_bytes, n_bytes = e->n_row * row_bytes;
    const size_t out_bytes = e->n_row * bytes_of_row(e->to, e->n_col);
    size_t bad_row;
    fxi_buf_clear(&j->out);
    if (!fxi_buf_reserve(&j->out, out_bytes)) return fxi_fail_memory(j->err);
    FX_TRY(fxi_gguf_fetch(j->g, t, at, n_bytes, j->how->pool, j->err));
    e->src = (const char *)t->data + at;
    e->dst = j->out.p;
    FX_TRY(fxi_rows_encode(e, j->how->pool, &bad_row, j->err));
    if (bad_row < e->n_row) {
        char what[128];
        snprintf(what, sizeof what,
                 "row %" PRIu64 " holds a number that is not finite or out of range for %s",
                 e->first_row + bad_row, new_type(j, t)->name);
        return fail_rewrite(j, t, what);
    }
    fxi_gguf_write_data(j->w, j->out.p, out_bytes);
    fxi_gguf_drop(j->g, e->src, n_bytes);
    return tell_progress(j, n_bytes);
}

static fx_status convert_tensor(rewrite_job *j, const fxi_gguf_tensor *t)
{
    const uint64_t n_row = t->ne[1] * t->ne[2] * t->ne[3];
    uint64_t step = PART_NUMBERS / t->ne[0];
    if (!step) step = 1;
    fxi_encode_rows e = {
        .from = t->type, .to = new_type(j, t), .n_col = t->ne[0], .rows_per_slice = t->ne[1]};
    if (j->how->imatrix)
        e.weight = fxi_imatrix_find(j->how->imatrix, t->name, t->ne[0], &e.n_slice);
    for (; e.first_row < n_row; e.first_row += e.n_row) {
        e.n_row = n_row - e.first_row < step ? n_row - e.first_row : step;
        FX_TRY(convert_part(j, t, &e));
        FX_TRY(fxi_gguf_writer_status(j->w));
    }
    return FX_OK;
}

static fx_status copy_tensor(rewrite_job *j, const fxi_gguf_tensor *t)
{
    enum { PART_BYTES = 8 << 20 };
    for (uint64_t at = 0; at < t->size_bytes; at += PART_BYTES) {
        const uint64_t rest = t->size_bytes - at, n_bytes = rest < PART_BYTES ? rest : PART_BYTES;
        const char *src = (const char *)t->data + at;
        FX_TRY(fxi_gguf_fetch(j->g, t, at, n_bytes, j->how->pool, j->err));
        fxi_gguf_write_data(j->w, src, n_bytes);
        fxi_gguf_drop(j->g, src, n_bytes);
        FX_TRY(tell_progress(j, n_bytes));
        FX_TRY(fxi_gguf_writer_status(j->w));
    }
    return FX_OK;
}

fx_status fxi_rewrite_model(const fxi_gguf *g, const char *path, const fxi_rewrite *how,
                            fxi_rewritten *out, fx_error *err)
{
    rewrite_job j = {.g = g, .how = how, .err = err};
    if (fxi_gguf_reads(g, path))
        return fxi_fail(err, FX_EINVAL, "%s: is one of the model's own files", path);
    look_at_model(g, how->imatrix != NULL, &j.model);
    *out = (fxi_rewritten){0};
    FX_TRY(fxi_gguf_writer_open(path, &j.w, err));
    write_all_keys(&j);
    fx_status st = declare_all(&j, out);
    for (uint64_t i = 0; st == FX_OK && i < fxi_gguf_n_tensor(g); i++) {
        const fxi_gguf_tensor *t = fxi_gguf_tensor_at(g, i);
        st = new_type(&j, t) == t->type ? copy_tensor(&j, t) : convert_tensor(&j, t);
    }
    fxi_buf_free(&j.out);
    if (st == FX_OK) return fxi_gguf_writer_finish(j.w, err);
    const fx_status written = fxi_gguf_writer_status(j.w);
    fxi_gguf_writer_abandon(j.w, err); // the disk is full, and the like
    return written != FX_OK ? written : st;
}
