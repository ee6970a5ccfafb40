// twin_heads.c - see twin_heads.h.
#include "unit/model/twin_heads.h"

#include "unit/cmocka_all.h"

#include "format/gguf_write.h"

#include <stdio.h>
#include <string.h>

#define KV_KEY "attention.head_count_kv"

static bool ends_with(fxi_str s, const char *end)
{
    const size_t n = strlen(end);
    return s.n >= n && memcmp(s.p + s.n - n, end, n) == 0;
}

static uint32_t read_number(const fxi_gguf *g, const char *end)
{
    for (uint64_t i = 0; i < fxi_gguf_n_kv(g); i++)
        if (ends_with(fxi_gguf_kv_at(g, i)->key, end))
            return (uint32_t)fxi_gguf_int_at(fxi_gguf_kv_at(g, i), 0);
    return 0;
}

// Which dimension of a tensor counts the rows of keys and values; -1: it has none.
static int kv_dimension(const fxi_gguf_tensor *t)
{
    static const char *const names[] = {"attn_k.weight", "attn_v.weight", "attn_qkv.weight",
                                        "attn_k.bias",   "attn_v.bias",   "attn_qkv.bias"};
    for (int i = 0; i < 6; i++)
        if (ends_with(t->name, names[i])) return i < 3;
    return -1;
}

static bool is_fused(const fxi_gguf_tensor *t)
{
    return ends_with(t->name, "attn_qkv.weight") || ends_with(t->name, "attn_qkv.bias");
}

static void copy_keys(fxi_gguf_writer *w, const fxi_gguf *g, uint32_t n_copy)
{
    for (uint64_t i = 0; i < fxi_gguf_n_kv(g); i++) {
        const fxi_gguf_kv *kv = fxi_gguf_kv_at(g, i);
        char key[128];
        snprintf(key, sizeof key, "%.*s", (int)kv->key.n, kv->key.p);
        if (ends_with(kv->key, KV_KEY))
            fxi_gguf_write_u32(w, key, n_copy);
        else
            fxi_gguf_write_kv(w, kv);
    }
}

static void declare_tensor(fxi_gguf_writer *w, const fxi_gguf_tensor *t, uint64_t n_head,
                           uint64_t n_copy)
{
    char name[128];
    uint64_t ne[FXI_GGUF_MAX_DIM];
    const int d = kv_dimension(t);
    memcpy(ne, t->ne, sizeof ne);
    if (d >= 0) ne[d] = is_fused(t) ? ne[d] / (n_head + 2) * (n_head + 2 * n_copy) : n_copy * ne[d];
    snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.p);
    fxi_gguf_declare_tensor(w, name, (fxi_dtype)t->type->id, t->n_dim, ne);
}

static void write_rows(fxi_gguf_writer *w, const fxi_gguf_tensor *t, size_t n_head, size_t n_copy)
{
    const char *p = t->data;
    if (kv_dimension(t) < 0) {
        fxi_gguf_write_data(w, p, t->size_bytes);
        return;
    }
    const size_t head = is_fused(t) ? t->size_bytes / (n_head + 2) : t->size_bytes;
    const size_t n_q = is_fused(t) ? n_head : 0, n = is_fused(t) ? 2 : 1;
    fxi_gguf_write_data(w, p, n_q * head);
    for (size_t i = 0; i < n_copy * n; i++)
        fxi_gguf_write_data(w, p + (n_q + i / n_copy) * head, head);
}

static void write_twin(const char *path, const fxi_gguf *g, uint32_t n_head, uint32_t n_copy)
{
    fxi_gguf_writer *w;
    fx_error err = {0};
    assert_int_equal(fxi_gguf_writer_open(path, &w, &err), FX_OK);
    copy_keys(w, g, n_copy);
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(g); i++)
        declare_tensor(w, fxi_gguf_tensor_at(g, i), n_head, n_copy);
    fxi_gguf_begin_data(w);
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(g); i++)
        write_rows(w, fxi_gguf_tensor_at(g, i), n_head, n_copy);
    if (fxi_gguf_writer_finish(w, &err) != FX_OK) fail_msg("%s", err.text);
}

int twin_heads_write(const char *path, const char *from)
{
    fxi_gguf *g;
    fx_error err = {0};
    assert_int_equal(fxi_model_file_open(from, &g, &err), FX_OK);
    const uint32_t n_head = read_number(g, "attention.head_count");
    const int n_copy = read_number(g, KV_KEY) != 1 ? 0
                       : n_head % 2 == 0           ? 2
                       : n_head % 3 == 0           ? 3
                                                   : 0;
    if (n_copy) write_twin(path, g, n_head, (uint32_t)n_copy);
    fxi_gguf_close(g);
    return n_copy;
}
