// test_sizes.c - models of published sizes from their header alone: what they are and what a token
// costs in the cache is right, and no tensor's data is read.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "format/gguf/gguf_made.h"
#include "format/gguf_write.h"
#include "model/model.h"

#include <stdio.h>
#include <string.h>

typedef struct published {
    const char *name, *arch;
    uint32_t n_layer, dim, n_head, n_kv_head, head_dim, n_ffn, n_vocab, n_ctx;
    uint32_t n_expert, window;
    bool layer_norm, tied; // layer_norm: biases, a feed-forward block without a gate, and positions
    double params;         // as published, in units of 1e9
    uint64_t kv_bytes;     // of a token in a cache of f16
    uint32_t n_lora;       // latent attention, of which head_dim - n_lora numbers are rotated
} published;

static const published models[] = {
    {"Yi-6B", "llama", 32, 4096, 32, 4, 128, 11008, 64000, 4096, 0, 0, false, false, 6.06, 65536,
     0},
    {"Yi-9B", "llama", 48, 4096, 32, 4, 128, 11008, 64000, 4096, 0, 0, false, false, 8.83, 98304,
     0},
    {"Yi-34B", "llama", 60, 7168, 56, 8, 128, 20480, 64000, 4096, 0, 0, false, false, 34.39, 245760,
     0},
    {"OPT-175B", "opt", 96, 12288, 96, 96, 128, 49152, 50272, 2048, 0, 0, true, true, 174.6,
     4718592, 0},
    {"Mixtral-8x22B", "llama", 56, 6144, 48, 8, 128, 16384, 32768, 65536, 8, 0, false, false, 140.6,
     229376, 0},
    {"Gemma-2-27B", "gemma2", 46, 4608, 32, 16, 128, 36864, 256000, 8192, 0, 4096, false, true,
     27.23, 376832, 0},
    {"DeepSeek-V2-Lite", "deepseek2", 27, 2048, 16, 1, 576, 1408, 102400, 163840, 64, 0, false,
     false, 15.71, 31104, 512},
};

enum { LATENT_NOPE = 128, LATENT_VALUE = 128, DENSE_FFN = 10944, N_SHARED = 2 };

// ---- a header ----------------------------------------------------------------------------------

typedef struct header {
    fxi_gguf_writer *w;
    const published *m;
} header;

static void add_key(const header *h, const char *key, uint32_t v)
{
    char name[96];
    snprintf(name, sizeof name, "%s.%s", h->m->arch, key);
    if (v) fxi_gguf_write_u32(h->w, name, v);
}

// layer < 0: not of a layer; n_out 0: a vector
static void add_tensor(const header *h, int layer, const char *part, uint64_t n_in, uint64_t n_out,
                       uint64_t n_slice)
{
    char name[96];
    const uint64_t ne[3] = {n_in, n_out, n_slice};
    if (layer < 0)
        snprintf(name, sizeof name, "%s", part);
    else
        snprintf(name, sizeof name, "blk.%d.%s", layer, part);
    fxi_gguf_declare_tensor(h->w, name, n_out ? FXI_F16 : FXI_F32, n_slice ? 3 : n_out ? 2 : 1, ne);
}

static void add_linear(const header *h, int layer, const char *part, uint64_t n_in, uint64_t n_out)
{
    char name[64];
    snprintf(name, sizeof name, "%s.weight", part);
    add_tensor(h, layer, name, n_in, n_out, 0);
    snprintf(name, sizeof name, "%s.bias", part);
    if (h->m->layer_norm) add_tensor(h, layer, name, n_out, 0, 0);
}

static void add_norm(const header *h, int layer, const char *part)
{
    char name[64];
    snprintf(name, sizeof name, "%s.weight", part);
    add_tensor(h, layer, name, h->m->dim, 0, 0);
    snprintf(name, sizeof name, "%s.bias", part);
    if (h->m->layer_norm) add_tensor(h, layer, name, h->m->dim, 0, 0);
}

static void add_feed(const header *h, int i)
{
    const published *m = h->m;
    if (m->n_lora && i) {
        add_linear(h, i, "ffn_gate_shexp", m->dim, N_SHARED * m->n_ffn);
        add_linear(h, i, "ffn_up_shexp", m->dim, N_SHARED * m->n_ffn);
        add_linear(h, i, "ffn_down_shexp", N_SHARED * m->n_ffn, m->dim);
    }
    const uint64_t n_ffn = m->n_lora ? DENSE_FFN : m->n_ffn;
    if (m->n_expert && (i || !m->n_lora)) {
        add_tensor(h, i, "ffn_gate_inp.weight", m->dim, m->n_expert, 0);
        add_tensor(h, i, "ffn_gate_exps.weight", m->dim, m->n_ffn, m->n_expert);
        add_tensor(h, i, "ffn_up_exps.weight", m->dim, m->n_ffn, m->n_expert);
        add_tensor(h, i, "ffn_down_exps.weight", m->n_ffn, m->dim, m->n_expert);
        return;
    }
    if (!m->layer_norm) add_linear(h, i, "ffn_gate", m->dim, n_ffn);
    add_linear(h, i, "ffn_up", m->dim, n_ffn);
    add_linear(h, i, "ffn_down", n_ffn, m->dim);
}

static void add_attention(const header *h, int i)
{
    const published *m = h->m;
    const uint64_t n_q = (uint64_t)m->n_head * m->head_dim,
                   n_kv = (uint64_t)m->n_kv_head * m->head_dim;
    add_linear(h, i, "attn_q", m->dim, n_q);
    add_linear(h, i, "attn_k", m->dim, n_kv);
    add_linear(h, i, "attn_v", m->dim, n_kv);
    add_linear(h, i, "attn_output", n_q, m->dim);
}

static void add_latent(const header *h, int i)
{
    const published *m = h->m;
    const uint64_t n_rope = m->head_dim - m->n_lora;
    add_linear(h, i, "attn_q", m->dim, m->n_head * (LATENT_NOPE + n_rope));
    add_linear(h, i, "attn_kv_a_mqa", m->dim, m->head_dim);
    add_tensor(h, i, "attn_kv_a_norm.weight", m->n_lora, 0, 0);
    add_tensor(h, i, "attn_k_b.weight", LATENT_NOPE, m->n_lora, m->n_head);
    add_tensor(h, i, "attn_v_b.weight", m->n_lora, LATENT_VALUE, m->n_head);
    add_linear(h, i, "attn_output", m->n_head * LATENT_VALUE, m->dim);
}

static void add_layer(const header *h, int i)
{
    const published *m = h->m;
    add_norm(h, i, "attn_norm");
    add_norm(h, i, "ffn_norm");
    if (m->window) add_norm(h, i, "post_attention_norm");
    if (m->window) add_norm(h, i, "post_ffw_norm");
    (m->n_lora ? add_latent : add_attention)(h, i);
    add_feed(h, i);
}

static void add_latent_keys(const header *h)
{
    const published *m = h->m;
    if (!m->n_lora) return;
    add_key(h, "attention.kv_lora_rank", m->n_lora);
    add_key(h, "rope.dimension_count", m->head_dim - m->n_lora);
    add_key(h, "attention.key_length_mla", LATENT_NOPE + m->head_dim - m->n_lora);
    add_key(h, "attention.value_length_mla", LATENT_VALUE);
    add_key(h, "expert_feed_forward_length", m->n_ffn);
}

static void add_keys(const header *h)
{
    const published *m = h->m;
    char eps[96];
    fxi_gguf_write_str(h->w, "general.architecture", m->arch);
    add_key(h, "block_count", m->n_layer);
    add_key(h, "embedding_length", m->dim);
    add_key(h, "feed_forward_length", m->n_lora ? DENSE_FFN : m->n_ffn);
    add_key(h, "attention.head_count", m->n_head);
    add_key(h, "attention.head_count_kv", m->n_kv_head);
    add_key(h, "attention.key_length", m->head_dim);
    add_key(h, "attention.value_length", m->n_lora ? m->n_lora : m->head_dim);
    add_latent_keys(h);
    add_key(h, "context_length", m->n_ctx);
    add_key(h, "expert_count", m->n_expert);
    add_key(h, "expert_used_count", m->n_expert ? 2 : 0);
    add_key(h, "attention.sliding_window", m->window);
    snprintf(eps, sizeof eps, "%s.attention.layer_norm_%sepsilon", m->arch,
             m->layer_norm ? "" : "rms_");
    fxi_gguf_write_f32(h->w, eps, 1e-5f);
}

static const void *no_place(void *ud, uint64_t i)
{
    (void)ud, (void)i;
    return NULL;
}

static void no_data(void *ud, uint64_t i, uint64_t row, uint64_t n_row, void *dst)
{
    (void)ud, (void)i, (void)row, (void)n_row, (void)dst;
    fail_msg("a tensor's data is read");
}

static void no_close(void *ud)
{
    (void)ud;
}

static fxi_gguf *present(const published *m)
{
    header h = {NULL, m};
    fxi_buf head = {0};
    fxi_gguf *g;
    fx_error err = {0};
    const fxi_gguf_maker maker = {.place = no_place, .make = no_data, .close = no_close};
    assert_int_equal(fxi_gguf_writer_open_memory(m->name, &h.w, &err), FX_OK);
    add_keys(&h);
    add_tensor(&h, -1, "token_embd.weight", m->dim, m->n_vocab, 0);
    if (!m->tied) add_tensor(&h, -1, "output.weight", m->dim, m->n_vocab, 0);
    if (m->layer_norm) add_tensor(&h, -1, "position_embd.weight", m->dim, m->n_ctx, 0);
    add_norm(&h, -1, "output_norm");
    for (uint32_t i = 0; i < m->n_layer; i++) add_layer(&h, (int)i);
    assert_int_equal(fxi_gguf_writer_take_head(h.w, &head, &err), FX_OK);
    if (fxi_gguf_present(m->name, &head, &maker, &g, &err) != FX_OK) fail_msg("%s", err.text);
    return g;
}

// ---- checks ------------------------------------------------------------------------------------

static void check_published(const published *m)
{
    fxi_model *model;
    fx_error err = {0};
    fxi_gguf *g = present(m);
    if (fxi_model_inspect(g, &(fxi_model_options){.kv_type = "f16"}, &model, &err) != FX_OK)
        fail_msg("%s: %s", m->name, err.text);
    const fxi_model_shape *s = &model->shape;
    assert_int_equal(s->n_layer, m->n_layer);
    assert_int_equal(s->n_vocab, m->n_vocab);
    assert_int_equal(s->head_dim, m->head_dim);
    assert_int_equal(fxi_kv_tok_bytes(&s->kv), m->kv_bytes);
    print_message("%s: %.2f thousand million numbers\n", m->name, (double)s->n_param / 1e9);
    assert_true((double)s->n_param / 1e9 > m->params * 0.995 &&
                (double)s->n_param / 1e9 < m->params * 1.005);
    for (uint32_t i = 0; i < m->n_layer; i++) // Gemma 2: every second layer sees everything
        assert_int_equal(s->window_tok[i], i % 2 ? 0 : m->window);
    fxi_model_free(model);
    fxi_gguf_close(g);
}

FX_TEST(test_published_sizes)
{
    for (size_t i = 0; i < sizeof models / sizeof *models; i++) check_published(&models[i]);
}

FX_RUN(test_sizes)
