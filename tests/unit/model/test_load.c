// test_load.c - well-formed GGUF files that are not a supported Llama model are refused with a line
// that says why.
//
// Each case writes a complete small model with one flaw.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "format/gguf_write.h"
#include "model/model.h"
#include "unit/model/small_model.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { DIM = 32, N_FFN = 64, N_HEAD = 4, N_VOCAB = 40 };

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

typedef struct tensor {
    const char *name;
    uint64_t n_in, n_out;
} tensor;

static const tensor tensors[] = {
    {"token_embd.weight", DIM, N_VOCAB},   {"output_norm.weight", DIM, 1},
    {"blk.0.attn_norm.weight", DIM, 1},    {"blk.0.ffn_norm.weight", DIM, 1},
    {"blk.0.attn_q.weight", DIM, DIM},     {"blk.0.attn_k.weight", DIM, DIM / 2},
    {"blk.0.attn_v.weight", DIM, DIM / 2}, {"blk.0.attn_output.weight", DIM, DIM},
    {"blk.0.ffn_gate.weight", DIM, N_FFN}, {"blk.0.ffn_up.weight", DIM, N_FFN},
    {"blk.0.ffn_down.weight", N_FFN, DIM},
};

static bool same(const char *a, const char *b)
{
    return a && strcmp(a, b) == 0;
}

// Writes a key unless the flaw drops it or sets it to something else.
static bool untouched(const flaw *f, const char *key)
{
    return !same(f->drop_key, key) && !same(f->set_u32, key) && !same(f->set_f32, key) &&
           !same(f->set_str, key);
}

static void put_u32(fxi_gguf_writer *w, const flaw *f, const char *key, uint32_t v)
{
    if (untouched(f, key)) fxi_gguf_write_u32(w, key, v);
}

static void put_keys(fxi_gguf_writer *w, const flaw *f)
{
    if (untouched(f, "general.architecture"))
        fxi_gguf_write_str(w, "general.architecture", "llama");
    put_u32(w, f, "llama.block_count", 1);
    put_u32(w, f, "llama.embedding_length", DIM);
    put_u32(w, f, "llama.feed_forward_length", N_FFN);
    put_u32(w, f, "llama.attention.head_count", N_HEAD);
    put_u32(w, f, "llama.attention.head_count_kv", N_HEAD / 2);
    put_u32(w, f, "llama.context_length", 64);
    if (untouched(f, "llama.attention.layer_norm_rms_epsilon"))
        fxi_gguf_write_f32(w, "llama.attention.layer_norm_rms_epsilon", 1e-5f);
    if (f->set_u32) fxi_gguf_write_u32(w, f->set_u32, f->u32);
    if (f->set_f32) fxi_gguf_write_f32(w, f->set_f32, f->f32);
    if (f->set_str) fxi_gguf_write_str(w, f->set_str, f->str);
}

static void declare(fxi_gguf_writer *w, const flaw *f, const tensor *t)
{
    uint64_t ne[2] = {t->n_in, t->n_out};
    if (same(f->swap_tensor, t->name)) ne[0] = t->n_out, ne[1] = t->n_in;
    if (!same(f->drop_tensor, t->name))
        fxi_gguf_declare_tensor(w, t->name, FXI_F32, t->n_out > 1 ? 2 : 1, ne);
}

static void put_data(fxi_gguf_writer *w, const flaw *f, const tensor *t)
{
    static const float numbers[DIM * N_FFN];
    if (!same(f->drop_tensor, t->name))
        fxi_gguf_write_data(w, numbers, t->n_in * t->n_out * sizeof(float));
}

static void write_model(const char *path, const flaw *f)
{
    fxi_gguf_writer *w;
    fx_error err = {0};
    const tensor extra = {f->add_tensor, DIM, 1};
    const size_t n = sizeof tensors / sizeof *tensors;
    assert_int_equal(fxi_gguf_writer_open(path, &w, &err), FX_OK);
    put_keys(w, f);
    for (size_t i = 0; i < n; i++) declare(w, f, &tensors[i]);
    if (f->add_tensor) declare(w, f, &extra);
    fxi_gguf_begin_data(w);
    for (size_t i = 0; i < n; i++) put_data(w, f, &tensors[i]);
    if (f->add_tensor) put_data(w, f, &extra);
    if (fxi_gguf_writer_finish(w, &err) != FX_OK) fail_msg("%s", err.text);
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

static void test_whole_model_loads(void **state)
{
    (void)state;
    const flaw none = {0};
    fx_error err = {0};
    write_model(path, &none);
    assert_int_equal(load(path, &err), FX_OK);
    unlink(path);
}

static void test_flaws_are_named(void **state)
{
    (void)state;
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
static void test_types_we_do_not_run(void **state)
{
    (void)state;
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

FX_SUITE(test_load)
{
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_whole_model_loads),
                                       cmocka_unit_test(test_flaws_are_named),
                                       cmocka_unit_test(test_types_we_do_not_run)};
    return cmocka_run_group_tests(tests, NULL, NULL);
}
