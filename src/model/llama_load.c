// llama_load.c - loads a GGUF file of the Llama family: checks keys, packs tensors, allocates the
// buffers of a pass.
#include "model/llama.h"

#include <math.h>
#include <stdlib.h>

// ---- keys --------------------------------------------------------------------------------------

// An integer key of the architecture, where it is stored, and its plausible range.
typedef struct int_key {
    const char *name;
    size_t offset; // in fxi_model_shape
    bool must;
    uint32_t min, max;
} int_key;

static const int_key int_keys[] = {
    {"llama.block_count", offsetof(fxi_model_shape, n_layer), true, 1, 1024},
    {"llama.embedding_length", offsetof(fxi_model_shape, dim), true, 1, 1 << 17},
    {"llama.feed_forward_length", offsetof(fxi_model_shape, n_ffn), true, 1, 1 << 20},
    {"llama.attention.head_count", offsetof(fxi_model_shape, n_head), true, 1, 4096},
    {"llama.attention.head_count_kv", offsetof(fxi_model_shape, n_kv_head), false, 1, 4096},
    {"llama.attention.key_length", offsetof(fxi_model_shape, head_dim), false, 1, 1024},
    {"llama.context_length", offsetof(fxi_model_shape, train_ctx_tok), true, 1, 1 << 24},
};

static fx_status read_int_key(const fxi_gguf *g, const int_key *key, fxi_model_shape *shape,
                              fx_error *err)
{
    int *dst = (int *)((char *)shape + key->offset);
    uint32_t v = 0;
    FX_TRY(fxi_gguf_u32(g, key->name, key->must, &v, err));
    if (!v && !key->must && !fxi_gguf_find(g, key->name)) return FX_OK;
    if (v < key->min || v > key->max)
        return fxi_fail(err, FX_EFORMAT, "%s: key '%s': %u is not from %u to %u", fxi_gguf_name(g),
                        key->name, v, key->min, key->max);
    *dst = (int)v;
    return FX_OK;
}

static fx_status bad_file(const fxi_gguf *g, const char *what, fx_error *err)
{
    return fxi_fail(err, FX_EFORMAT, "%s: %s", fxi_gguf_name(g), what);
}

static fx_status check_shape(const fxi_gguf *g, fxi_model_shape *s, fx_error *err)
{
    if (!s->n_kv_head) s->n_kv_head = s->n_head;
    if (!s->head_dim) {
        if (s->dim % s->n_head)
            return bad_file(g, "embedding_length is not a multiple of head_count", err);
        s->head_dim = s->dim / s->n_head;
    }
    if (s->n_head % s->n_kv_head)
        return bad_file(g, "attention.head_count is not a multiple of head_count_kv", err);
    if (s->head_dim % 2)
        return bad_file(g, "the head size is odd, which rotary embedding does not allow", err);
    if (s->head_dim > 1024) return bad_file(g, "the head size is over 1024", err);
    return FX_OK;
}

// Refuses, by name, what would change the result and is not implemented.
static fx_status refuse_foreign(const fxi_gguf *g, const fxi_model_shape *s, fx_error *err)
{
    uint32_t n_expert = 0, value_length = (uint32_t)s->head_dim;
    FX_TRY(fxi_gguf_u32(g, "llama.expert_count", false, &n_expert, err));
    if (n_expert)
        return bad_file(g, "mixtures of experts (llama.expert_count) are not supported", err);
    FX_TRY(fxi_gguf_u32(g, "llama.attention.value_length", false, &value_length, err));
    if (value_length != (uint32_t)s->head_dim)
        return bad_file(g, "attention.key_length and value_length differ", err);
    return FX_OK;
}

static fx_status read_model_shape(const fxi_gguf *g, fxi_model_shape *shape, fx_error *err)
{
    for (size_t i = 0; i < sizeof int_keys / sizeof *int_keys; i++)
        FX_TRY(read_int_key(g, &int_keys[i], shape, err));
    FX_TRY(check_shape(g, shape, err));
    return refuse_foreign(g, shape, err);
}

// ---- rotary embedding --------------------------------------------------------------------------

// The factor that positions are divided by: llama.rope.scaling.{type, factor}, or the older
// llama.rope.scale_linear.
static fx_status read_rope_scaling(const fxi_gguf *g, llama *m, fx_error *err)
{
    float factor = 1;
    fxi_str type = {"linear", 6};
    FX_TRY(fxi_gguf_str(g, "llama.rope.scaling.type", false, &type, err));
    FX_TRY(fxi_gguf_f32(g, "llama.rope.scale_linear", false, &factor, err));
    FX_TRY(fxi_gguf_f32(g, "llama.rope.scaling.factor", false, &factor, err));
    if (fxi_str_is(type, "none"))
        factor = 1;
    else if (!fxi_str_is(type, "linear"))
        return fxi_fail(err, FX_EFORMAT,
                        "%s: key 'llama.rope.scaling.type': '%.*s' is not supported (none, linear)",
                        fxi_gguf_name(g), type.n < 32 ? (int)type.n : 32, type.p);
    if (!(factor > 0) || !isfinite(factor))
        return bad_file(g, "the rope scaling factor is not positive", err);
    m->rope_scale = 1 / factor;
    return FX_OK;
}

static fx_status read_numbers(const fxi_gguf *g, llama *m, fx_error *err)
{
    uint32_t n_rot = (uint32_t)m->model.shape.head_dim;
    m->rope_base = 10000;
    FX_TRY(fxi_gguf_f32(g, "llama.attention.layer_norm_rms_epsilon", true, &m->rms_eps, err));
    FX_TRY(fxi_gguf_u32(g, "llama.rope.dimension_count", false, &n_rot, err));
    FX_TRY(fxi_gguf_f32(g, "llama.rope.freq_base", false, &m->rope_base, err));
    if (!(m->rms_eps >= 0) || !isfinite(m->rms_eps))
        return bad_file(g, "layer_norm_rms_epsilon is not a number >= 0", err);
    if (!(m->rope_base > 0) || !isfinite(m->rope_base))
        return bad_file(g, "rope.freq_base is not positive", err);
    if (n_rot % 2 || n_rot > (uint32_t)m->model.shape.head_dim)
        return bad_file(g, "rope.dimension_count is odd or larger than a head", err);
    m->n_rot = (int)n_rot;
    return read_rope_scaling(g, m, err);
}

// rope_freqs.weight holds a divisor for each pair's frequency (Llama 3's long-context files).
static fx_status make_rope(fxi_loader *ld, llama *m, fx_error *err)
{
    const fxi_tensor_key key = {"rope_freqs.weight", -1};
    float *factor = NULL;
    if (fxi_loader_find(ld, key)) FX_TRY(fxi_load_vector(ld, key, m->n_rot / 2, &factor, err));
    int n_pos = ld->opt->ctx_tok ? ld->opt->ctx_tok : m->model.shape.train_ctx_tok;
    return fxi_rope_make(n_pos, m->n_rot, m->rope_base, m->rope_scale, factor, &m->rope, err);
}

// ---- weights -----------------------------------------------------------------------------------

static fx_status load_embedding(fxi_loader *ld, llama *m, fx_error *err)
{
    const fxi_tensor_key embd = {"token_embd.weight", -1}, output = {"output.weight", -1};
    const fxi_gguf_tensor *t = fxi_loader_find(ld, embd);
    fxi_model_shape *s = &m->model.shape;
    if (!t) return bad_file(ld->g, "tensor 'token_embd.weight' is missing", err);
    if (t->ne[1] < 1 || t->ne[1] > 1 << 24)
        return bad_file(ld->g, "tensor 'token_embd.weight' has an implausible number of rows", err);
    s->n_vocab = (int)t->ne[1];
    if (!fxi_loader_find(ld, output))
        return fxi_load_linear(ld, embd, s->dim, s->n_vocab, &m->output, err);
    FX_TRY(fxi_load_rows(ld, embd, s->dim, s->n_vocab, &m->embd, err));
    return fxi_load_linear(ld, output, s->dim, s->n_vocab, &m->output, err);
}

static fx_status load_layer(fxi_loader *ld, const fxi_model_shape *s, int i, llama_layer *l,
                            fx_error *err)
{
    const int n_q = s->n_head * s->head_dim, n_kv = s->n_kv_head * s->head_dim;
    const struct {
        const char *name;
        int n_in, n_out;
        fxi_linear *dst;
    } part[] = {
        {"attn_q.weight", s->dim, n_q, &l->q},
        {"attn_k.weight", s->dim, n_kv, &l->k},
        {"attn_v.weight", s->dim, n_kv, &l->v},
        {"attn_output.weight", n_q, s->dim, &l->o},
        {"ffn_gate.weight", s->dim, s->n_ffn, &l->gate},
        {"ffn_up.weight", s->dim, s->n_ffn, &l->up},
        {"ffn_down.weight", s->n_ffn, s->dim, &l->down},
    };
    FX_TRY(
        fxi_load_vector(ld, (fxi_tensor_key){"attn_norm.weight", i}, s->dim, &l->attn_norm, err));
    FX_TRY(fxi_load_vector(ld, (fxi_tensor_key){"ffn_norm.weight", i}, s->dim, &l->ffn_norm, err));
    for (size_t p = 0; p < sizeof part / sizeof *part; p++)
        FX_TRY(fxi_load_linear(ld, (fxi_tensor_key){part[p].name, i}, part[p].n_in, part[p].n_out,
                               part[p].dst, err));
    return FX_OK;
}

static void count_layer(fxi_model_shape *s, const fxi_linear *w, uint64_t *n_mul)
{
    *n_mul += (uint64_t)w->n_in * (uint64_t)w->n_out;
    s->pass_bytes += fxi_linear_bytes(w->type, w->n_in, w->n_out);
}

// After the last K and V only the rows that want logits are computed.
static void count_work(llama *m)
{
    fxi_model_shape *s = &m->model.shape;
    for (int i = 0; i < s->n_layer; i++) {
        const llama_layer *l = &m->layer[i];
        const fxi_linear *all[] = {&l->q, &l->k, &l->v},
                         *rest[] = {&l->o, &l->gate, &l->up, &l->down};
        uint64_t *n_mul = i < s->n_layer - 1 ? &s->layer_mul : &s->output_mul;
        for (size_t p = 0; p < sizeof all / sizeof *all; p++) count_layer(s, all[p], &s->layer_mul);
        for (size_t p = 0; p < sizeof rest / sizeof *rest; p++) count_layer(s, rest[p], n_mul);
    }
    count_layer(s, &m->output, &s->output_mul);
}

static fx_status load_weights(fxi_loader *ld, llama *m, fx_error *err)
{
    fxi_model_shape *s = &m->model.shape;
    m->layer = calloc((size_t)s->n_layer, sizeof *m->layer);
    if (!m->layer) return fxi_fail(err, FX_ENOMEM, "%s: no memory", fxi_gguf_name(ld->g));
    FX_TRY(load_embedding(ld, m, err));
    FX_TRY(
        fxi_load_vector(ld, (fxi_tensor_key){"output_norm.weight", -1}, s->dim, &m->out_norm, err));
    for (int i = 0; i < s->n_layer; i++) FX_TRY(load_layer(ld, s, i, &m->layer[i], err));
    FX_TRY(make_rope(ld, m, err));
    s->type = fxi_dtype_find((uint32_t)m->layer[0].gate.type);
    s->n_param = ld->n_param;
    count_work(m);
    return fxi_loader_finish(ld, err);
}

// ---- buffers -----------------------------------------------------------------------------------

// Numbers of down's input for a batch of n tokens; 0 if no down layer reads this form of it.
static size_t mid_elems(const llama *m, size_t n, bool q8)
{
    const fxi_model_shape *s = &m->model.shape;
    for (int i = 0; i < s->n_layer; i++)
        if (fxi_linear_reads_q8(&m->layer[i].down) == q8) return n * (size_t)s->n_ffn;
    return 0;
}

static fx_status alloc_pass_buffers(llama *m, const fxi_model_options *opt, fx_error *err)
{
    const fxi_model_shape *s = &m->model.shape;
    llama_scratch *b = &m->s;
    const size_t n = (size_t)opt->max_batch_tok, dim = (size_t)s->dim;
    const size_t n_q = (size_t)s->n_head * (size_t)s->head_dim,
                 n_kv = (size_t)s->n_kv_head * (size_t)s->head_dim;
    const size_t n_act = n * (dim > n_q ? dim : n_q), n_mid = mid_elems(m, n, true);
    const struct {
        void **dst;
        size_t n, elem_bytes;
    } part[] = {
        {(void **)&b->x, n * dim, sizeof(float)},
        {(void **)&b->h, n * dim, sizeof(float)},
        {(void **)&b->q, n * n_q, sizeof(float)},
        {(void **)&b->att, n * n_q, sizeof(float)},
        {(void **)&b->k, n * n_kv, sizeof(float)},
        {(void **)&b->v, n * n_kv, sizeof(float)},
        {(void **)&b->attn,
         fxi_compute_attn_scratch(&m->compute, s->n_head, s->n_kv_head, s->head_dim, m->ctx_tok),
         sizeof(float)},
        {(void **)&b->ffn, fxi_compute_ffn_scratch(&m->compute, opt->max_batch_tok), sizeof(float)},
        {(void **)&b->act_q, n_act, 1},
        {(void **)&b->act_d, n_act / 32 + n, sizeof(float)},
        {(void **)&b->act_sum, n_act / 16 + n, sizeof(int32_t)},
        {(void **)&b->mid, mid_elems(m, n, false), sizeof(float)},
        {(void **)&b->mid_q, n_mid, 1},
        {(void **)&b->mid_d, n_mid / 32, sizeof(float)},
        {(void **)&b->mid_sum, n_mid / 16, sizeof(int32_t)},
        {(void **)&b->tok_seq, n, sizeof(void *)},
        {(void **)&b->tok_pos, n, sizeof(int)},
        {(void **)&b->block, n, sizeof(fxi_attn_block)},
        {(void **)&b->logit_row, (size_t)opt->max_batch_logit, sizeof(int)},
    };
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) {
        size_t bytes = (part[i].n * part[i].elem_bytes + 63) / 64 * 64 + 64;
        *part[i].dst = aligned_alloc(64, bytes);
        if (!*part[i].dst)
            return fxi_fail(err, FX_ENOMEM, "no memory for a batch of %d tokens",
                            opt->max_batch_tok);
    }
    return FX_OK;
}

static void free_pass_buffers(llama_scratch *b)
{
    void *part[] = {b->x,       b->h,     b->q,        b->att,
                    b->k,       b->v,     b->attn,     b->ffn,
                    b->act_q,   b->act_d, b->act_sum,  b->mid,
                    b->mid_q,   b->mid_d, b->mid_sum,  (void *)b->tok_seq,
                    b->tok_pos, b->block, b->logit_row};
    for (size_t i = 0; i < sizeof part / sizeof *part; i++) free(part[i]);
}

// ---- the whole ---------------------------------------------------------------------------------

void fxi_llama_free(fxi_model *model)
{
    llama *m = (llama *)model;
    free(m->layer);
    fxi_arena_free(&m->mem);
    fxi_rope_free(&m->rope);
    free_pass_buffers(&m->s);
    free(m);
}

static fx_status load_llama(fxi_loader *ld, llama *m, fx_error *err)
{
    const fxi_model_shape *s = &m->model.shape;
    FX_TRY(read_model_shape(ld->g, &m->model.shape, err));
    FX_TRY(fxi_model_kv_type(ld->opt->kv_type, s->head_dim, &m->model.kv_type, err));
    m->ctx_tok = ld->opt->ctx_tok ? ld->opt->ctx_tok : s->train_ctx_tok;
    FX_TRY(read_numbers(ld->g, m, err));
    FX_TRY(load_weights(ld, m, err));
    return alloc_pass_buffers(m, ld->opt, err);
}

static fx_status make_llama(const fxi_gguf *g, const fxi_model_options *opt, llama **out,
                            fx_error *err)
{
    const fxi_kernels *k = fxi_kernels_get(opt->kernel_path);
    if (!k)
        return fxi_fail(err, FX_EINVAL, "kernel path '%s' is unknown or not run by this machine",
                        opt->kernel_path);
    llama *m = calloc(1, sizeof *m);
    if (!m) return fxi_fail(err, FX_ENOMEM, "%s: no memory", fxi_gguf_name(g));
    m->model = (fxi_model){.k = k, .pool = opt->pool};
    m->compute = (fxi_compute){k, opt->pool};
    *out = m;
    return FX_OK;
}

fx_status fxi_llama_load(const fxi_gguf *g, const fxi_model_options *opt, fxi_model **out,
                         fx_error *err)
{
    llama *m;
    FX_TRY(make_llama(g, opt, &m, err));
    fxi_loader ld;
    fx_status st = fxi_loader_init(&ld, g, opt, &m->mem, err);
    if (st == FX_OK) st = load_llama(&ld, m, err);
    fxi_loader_free(&ld);
    if (st != FX_OK) {
        fxi_llama_free(&m->model);
        return st;
    }
    *out = &m->model;
    return FX_OK;
}
