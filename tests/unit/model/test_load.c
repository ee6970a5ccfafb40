// test_load.c - well-formed GGUF files that are not a supported Llama model are refused with a line
// that says why.
//
// Each case writes a complete small model with one flaw.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "format/gguf_write.h"
#include "model/device.h"
#include "model/model.h"
#include "unit/model/small_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define WHOLE FX_BINARY_DIR "/test_load_whole.gguf"

enum { DIM = 32, N_FFN = 64 };

// A flaw of the file.
typedef struct flaw {
    const char *drop_key, *drop_tensor;      // left out
    const char *set_u32, *set_f32, *set_str; // key that gets the value below
    uint32_t u32;
    float f32;
    const char *str;
    const char *add_tensor;  // an unknown one
    const char *swap_tensor; // written with its dimensions swapped
    const char *says;        // part of the error's text
} flaw;

static const flaw flaws[] = {
    {.drop_key = "llama.block_count", .says = "llama.block_count"},
    {.drop_key = "llama.embedding_length", .says = "llama.embedding_length"},
    {.drop_key = "llama.attention.layer_norm_rms_epsilon", .says = "layer_norm_rms_epsilon"},
    {.drop_key = "general.architecture", .says = "general.architecture"},
    {.set_str = "general.architecture", .str = "mamba", .says = "mamba"},
    {.set_u32 = "llama.block_count", .u32 = 0, .says = "llama.block_count"},
    {.set_u32 = "llama.block_count", .u32 = 4000000000u, .says = "llama.block_count"},
    {.set_u32 = "llama.block_count", .u32 = 2, .says = "blk.1."},
    {.set_u32 = "llama.attention.head_count", .u32 = 5, .says = "head_count"},
    {.set_u32 = "llama.attention.head_count_kv", .u32 = 3, .says = "head_count_kv"},
    {.set_u32 = "llama.rope.dimension_count", .u32 = 7, .says = "rope.dimension_count"},
    {.set_u32 = "llama.rope.dimension_count", .u32 = 64, .says = "rope.dimension_count"},
    {.set_u32 = "llama.expert_count", .u32 = 8, .says = "expert"},
    {.set_f32 = "llama.rope.freq_base", .f32 = -1, .says = "freq_base"},
    {.set_f32 = "llama.rope.scaling.factor", .f32 = -1, .says = "rope.scaling.factor"},
    {.set_str = "llama.rope.scaling.type", .str = "ntk", .says = "'ntk' is not supported"},
    {.set_str = "llama.block_count", .str = "two", .says = "llama.block_count"},
    {.drop_tensor = "token_embd.weight", .says = "token_embd.weight"},
    {.drop_tensor = "blk.0.ffn_up.weight", .says = "blk.0.ffn_up.weight"},
    {.drop_tensor = "output_norm.weight", .says = "output_norm.weight"},
    {.swap_tensor = "blk.0.ffn_down.weight", .says = "blk.0.ffn_down.weight"},
    {.add_tensor = "blk.0.attn_x.bias", .says = "blk.0.attn_x.bias"},
};

static bool same(const char *a, fxi_str b)
{
    return a && fxi_str_is(b, a);
}

// A small model written again, without what the flaw leaves out and with what it sets.
static void write_model(const char *path, const flaw *f)
{
    static const float zeros[DIM];
    const small_model whole = {.shape = {"whole", 1, DIM, 4, 2, 8, N_FFN, 40, true}};
    fxi_gguf_writer *w;
    fxi_gguf *g;
    fx_error err = {0};
    small_model_write(WHOLE, &whole);
    assert_int_equal(fxi_gguf_open(WHOLE, &g, &err), FX_OK);
    assert_int_equal(fxi_gguf_writer_open(path, &w, &err), FX_OK);
    for (uint64_t i = 0; i < fxi_gguf_n_kv(g); i++) {
        const fxi_gguf_kv *kv = fxi_gguf_kv_at(g, i);
        if (!same(f->drop_key, kv->key) && !same(f->set_u32, kv->key) &&
            !same(f->set_f32, kv->key) && !same(f->set_str, kv->key))
            fxi_gguf_write_kv(w, kv);
    }
    if (f->set_u32) fxi_gguf_write_u32(w, f->set_u32, f->u32);
    if (f->set_f32) fxi_gguf_write_f32(w, f->set_f32, f->f32);
    if (f->set_str) fxi_gguf_write_str(w, f->set_str, f->str);
    for (int has_begun = 0; has_begun < 2; has_begun++) {
        if (has_begun) fxi_gguf_begin_data(w);
        for (uint64_t i = 0; i < fxi_gguf_n_tensor(g); i++) {
            const fxi_gguf_tensor *t = fxi_gguf_tensor_at(g, i);
            uint64_t ne[2] = {t->ne[0], t->ne[1]};
            char name[64];
            snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.p);
            if (same(f->drop_tensor, t->name)) continue;
            if (same(f->swap_tensor, t->name)) ne[0] = t->ne[1], ne[1] = t->ne[0];
            if (has_begun)
                fxi_gguf_write_data(w, t->data, t->size_bytes);
            else
                fxi_gguf_declare_tensor(w, name, (fxi_dtype)t->type->id, t->n_dim, ne);
        }
        if (f->add_tensor && has_begun) fxi_gguf_write_data(w, zeros, sizeof zeros);
        if (f->add_tensor && !has_begun)
            fxi_gguf_declare_tensor(w, f->add_tensor, FXI_F32, 1, (uint64_t[]){DIM, 1});
    }
    if (fxi_gguf_writer_finish(w, &err) != FX_OK) fail_msg("%s", err.text);
    fxi_gguf_close(g);
    unlink(WHOLE);
}

static fx_status load(const char *path, fx_error *err)
{
    fxi_gguf *g;
    fxi_pool *pool;
    fxi_model *m = NULL;
    assert_int_equal(fxi_gguf_open(path, &g, err), FX_OK);
    assert_int_equal(fxi_pool_create(1, &pool, err), FX_OK);
    fxi_model_options opt = {.pool = pool, .max_batch_tok = 8, .max_batch_logit = 1};
    fx_status st = fxi_model_load(g, &opt, &m, err);
    assert_true((st == FX_OK) == (m != NULL));
    fxi_model_free(m);
    fxi_pool_destroy(pool);
    fxi_gguf_close(g);
    return st;
}

static const char path[] = FX_BINARY_DIR "/test_load.gguf";

FX_TEST(test_whole_model_loads)
{
    const flaw none = {0};
    fx_error err = {0};
    write_model(path, &none);
    assert_int_equal(load(path, &err), FX_OK);
    unlink(path);
}

FX_TEST(test_flaws_are_named)
{
    for (size_t i = 0; i < sizeof flaws / sizeof *flaws; i++) {
        fx_error err = {0};
        write_model(path, &flaws[i]);
        assert_int_equal(load(path, &err), FX_EFORMAT);
        if (!strstr(err.text, flaws[i].says))
            fail_msg("'%s' does not name '%s'", err.text, flaws[i].says);
        assert_null(strchr(err.text, '\n'));
    }
    unlink(path);
}

// Types of GGUF that are not supported, in the sixth matrix of a layer.
FX_TEST(test_types_we_do_not_run)
{
    // IQ1_S, IQ1_M, IQ2_XXS, IQ2_XS, IQ2_S, IQ3_XXS, IQ3_S, TQ1_0, TQ2_0
    static const uint32_t foreign[] = {19, 29, 16, 17, 22, 18, 21, 34, 35};
    for (size_t i = 0; i < sizeof foreign / sizeof *foreign; i++) {
        const fxi_dtype types[9] = {[7] = (fxi_dtype)foreign[i]}; // all others F32
        const small_model m = {
            .shape = {"foreign", 1, 256, 2, 1, 128, 256, 5, false}, .types = types, .n_type = 9};
        char says[128];
        fx_error err = {0};
        small_model_write(path, &m);
        assert_int_equal(load(path, &err), FX_EFORMAT);
        snprintf(says, sizeof says,
                 "tensor 'blk.0.ffn_up.weight' is of type %s, which is not supported",
                 fxi_dtype_find(foreign[i])->name);
        if (!strstr(err.text, says)) fail_msg("%s", err.text);
        assert_null(strchr(err.text, '\n'));
    }
    unlink(path);
}

// As on a GPU.
FX_TEST(test_device_without_recurrent_layers)
{
    fx_error err;
    fxi_gguf *g;
    fxi_pool *pool;
    fxi_model *m;
    fxi_device *d;
    assert_int_equal(fxi_pool_create(1, &pool, &err), FX_OK);
    assert_int_equal(fxi_host_device_open(pool, NULL, &d, &err), FX_OK);
    assert_int_equal(fxi_gguf_open(FX_SOURCE_DIR "/tests/vectors/models/lfm2.gguf", &g, &err),
                     FX_OK);
    fxi_device_ops ops = *d->ops;
    ops.recur_store = ops.recur = NULL;
    d->ops = &ops;
    const fxi_model_options opt = {
        .pool = pool, .device = d, .max_batch_tok = 1, .max_batch_logit = 1};
    assert_int_equal(fxi_model_load(g, &opt, &m, &err), FX_EINVAL);
    assert_non_null(strstr(err.text, "lfm2.gguf: cpu computes no recurrent layers"));
    d->ops->close(d);
    fxi_gguf_close(g);
    fxi_pool_destroy(pool);
}

FX_RUN(test_load)
