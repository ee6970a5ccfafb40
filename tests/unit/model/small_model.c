// small_model.c - see small_model.h.
#include "unit/model/small_model.h"

#include "unit/cmocka_all.h"

#include "base/number/rng.h"
#include "format/gguf_write.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define MAX_TENSOR 64
#define N_BLOCK    61 // different blocks of a type; a tensor repeats them

typedef struct tensor {
    char name[48];
    uint64_t ne[3];
    uint32_t n_dim;
    fxi_dtype type;
} tensor;

typedef struct tensors {
    const small_model *m;
    tensor list[MAX_TENSOR];
    int n, n_matrix;
} tensors;

static tensor *add(tensors *t, int layer, const char *name)
{
    assert_true(t->n < MAX_TENSOR);
    tensor *new = &t->list[t->n++];
    if (layer < 0)
        snprintf(new->name, sizeof new->name, "%s.weight", name);
    else
        snprintf(new->name, sizeof new->name, "blk.%d.%s.weight", layer, name);
    return new;
}

static void add_vector(tensors *t, int layer, const char *name)
{
    tensor *new = add(t, layer, name);
    new->ne[0] = (uint64_t)t->m->shape.dim;
    new->n_dim = 1;
    new->type = FXI_F32;
}

static void add_matrix(tensors *t, int layer, const char *name, int n_in, int n_out)
{
    tensor *new = add(t, layer, name);
    new->ne[0] = (uint64_t)n_in;
    new->ne[1] = (uint64_t)n_out;
    new->n_dim = 2;
    new->type = t->m->n_type ? t->m->types[t->n_matrix % t->m->n_type] : t->m->type;
    t->n_matrix++;
}

static void add_experts(tensors *t, int layer, const char *name, int n_in, int n_out)
{
    add_matrix(t, layer, name, n_in, n_out);
    t->list[t->n - 1].ne[2] = (uint64_t)t->m->n_expert;
    t->list[t->n - 1].n_dim = 3;
}

static void add_router(tensors *t, int layer)
{
    add_matrix(t, layer, "ffn_gate_inp", t->m->shape.dim, t->m->n_expert);
    t->list[t->n - 1].type = FXI_F32;
}

static void add_feed(tensors *t, int i)
{
    const small_shape *m = &t->m->shape;
    if (!t->m->n_expert) {
        add_matrix(t, i, "ffn_gate", m->dim, m->n_ffn);
        add_matrix(t, i, "ffn_up", m->dim, m->n_ffn);
        add_matrix(t, i, "ffn_down", m->n_ffn, m->dim);
        return;
    }
    add_router(t, i);
    add_experts(t, i, "ffn_gate_exps", m->dim, m->n_ffn);
    add_experts(t, i, "ffn_up_exps", m->dim, m->n_ffn);
    add_experts(t, i, "ffn_down_exps", m->n_ffn, m->dim);
}

static void add_layer(tensors *t, int i)
{
    const small_shape *m = &t->m->shape;
    const int n_q = m->n_head * m->head_dim, n_kv = m->n_kv_head * m->head_dim;
    add_vector(t, i, "attn_norm");
    add_vector(t, i, "ffn_norm");
    add_matrix(t, i, "attn_q", m->dim, n_q);
    add_matrix(t, i, "attn_k", m->dim, n_kv);
    add_matrix(t, i, "attn_v", m->dim, n_kv);
    add_matrix(t, i, "attn_output", n_q, m->dim);
    add_feed(t, i);
}

static void add_all(tensors *t)
{
    const small_shape *m = &t->m->shape;
    add_matrix(t, -1, "token_embd", m->dim, m->n_vocab);
    if (!m->tied) add_matrix(t, -1, "output", m->dim, m->n_vocab);
    add_vector(t, -1, "output_norm");
    for (int i = 0; i < m->n_layer; i++) add_layer(t, i);
    if (t->m->output_twice) add_matrix(t, -1, "output", m->dim, m->n_vocab);
}

static void write_keys(fxi_gguf_writer *w, const small_shape *m)
{
    const struct {
        const char *key;
        int v;
    } keys[] = {
        {"llama.block_count", m->n_layer},
        {"llama.embedding_length", m->dim},
        {"llama.feed_forward_length", m->n_ffn},
        {"llama.attention.head_count", m->n_head},
        {"llama.context_length", 128},
        {"llama.attention.key_length", m->head_dim},
        {"llama.attention.value_length", m->head_dim},
        {"llama.rope.dimension_count", m->head_dim},
        {"llama.attention.head_count_kv", m->n_kv_head},
    };
    fxi_gguf_write_str(w, "general.architecture", "llama");
    for (size_t i = 0; i < sizeof keys / sizeof *keys; i++)
        fxi_gguf_write_u32(w, keys[i].key, (uint32_t)keys[i].v);
    fxi_gguf_write_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
}

static void write_more_keys(fxi_gguf_writer *w, const small_model *m)
{
    if (m->n_expert) {
        fxi_gguf_write_u32(w, "llama.expert_count", (uint32_t)m->n_expert);
        fxi_gguf_write_u32(w, "llama.expert_used_count", (uint32_t)m->n_used);
    }
    for (size_t i = 0; i < sizeof m->key / sizeof *m->key; i++) {
        const small_key *k = &m->key[i];
        if (k->kind == 'u') fxi_gguf_write_u32(w, k->key, (uint32_t)k->number);
        if (k->kind == 'f') fxi_gguf_write_f32(w, k->key, (float)k->number);
        if (k->kind == 's') fxi_gguf_write_str(w, k->key, k->text);
        if (k->kind == 'b') fxi_gguf_write_bool(w, k->key, k->number != 0);
    }
}

// Numbers of variance 1 / n_in, so that sums of n_in products are as large as their inputs, stored
// as `type`. Types that have no codec: zeros.
static void make_blocks(fxi_dtype type, uint64_t n_in, char *blocks)
{
    const fxi_dtype_info *t = fxi_dtype_find(type);
    float x[256];
    if (!t->runs) memset(blocks, 0, N_BLOCK * t->block_bytes);
    for (uint64_t b = 0; t->runs && b < N_BLOCK; b++) {
        for (uint64_t i = 0; i < t->block_elems; i++)
            x[i] = (float)(fxi_rng_unit(7, b, i) - 0.5) * sqrtf(12 / (float)n_in);
        fxi_row_from_f32(type, x, t->block_elems, blocks + b * t->block_bytes);
    }
}

// number: of the tensor, so that each has its own order of blocks.
static void write_matrix(fxi_gguf_writer *w, const tensor *t, uint64_t number, bool widened)
{
    const fxi_dtype_info *d = fxi_dtype_find(t->type);
    char *blocks = malloc(N_BLOCK * d->block_bytes);
    float wide[256];
    make_blocks(t->type, t->ne[0], blocks);
    const uint64_t n = t->ne[0] * t->ne[1] * (t->n_dim == 3 ? t->ne[2] : 1);
    for (uint64_t i = 0; i < n / d->block_elems; i++) {
        const char *block = blocks + fxi_rng_u64(8, number, i) % N_BLOCK * d->block_bytes;
        if (widened) fxi_row_to_f32(t->type, block, d->block_elems, wide);
        if (widened)
            fxi_gguf_write_data(w, wide, d->block_elems * sizeof *wide);
        else
            fxi_gguf_write_data(w, block, d->block_bytes);
    }
    free(blocks);
}

static void write_vector(fxi_gguf_writer *w, const tensor *t, uint64_t number)
{
    for (uint64_t i = 0; i < t->ne[0]; i++) {
        float x = (float)(0.75 + 0.5 * fxi_rng_unit(9, number, i));
        fxi_gguf_write_data(w, &x, sizeof x);
    }
}

void small_model_write(const char *path, const small_model *m)
{
    fxi_gguf_writer *w;
    fx_error err = {0};
    tensors t = {.m = m};
    add_all(&t);
    assert_int_equal(fxi_gguf_writer_open(path, &w, &err), FX_OK);
    write_keys(w, &m->shape);
    write_more_keys(w, m);
    for (int i = 0; i < t.n; i++) {
        const bool wide = m->widened && t.list[i].n_dim >= 2;
        fxi_gguf_declare_tensor(w, t.list[i].name, wide ? FXI_F32 : t.list[i].type, t.list[i].n_dim,
                                t.list[i].ne);
    }
    fxi_gguf_begin_data(w);
    for (int i = 0; i < t.n; i++)
        if (t.list[i].n_dim >= 2)
            write_matrix(w, &t.list[i], m->output_twice && i == t.n - 1 ? 0 : (uint64_t)i,
                         m->widened);
        else
            write_vector(w, &t.list[i], (uint64_t)i);
    if (fxi_gguf_writer_finish(w, &err) != FX_OK) fail_msg("%s: %s", m->shape.what, err.text);
}
