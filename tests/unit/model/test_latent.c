// test_latent.c - latent attention: the same bits with every type of cache and of weights,
// whichever way a file holds the matrices of its heads; and what is refused. test_families.c
// compares the models with their reference.
#include "suite.h"
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "format/gguf_write.h"
#include "format/quantize.h"
#include "unit/model/host_ranks.h"
#include "unit/model/runner.h"

#define VECTORS FX_SOURCE_DIR "/tests/vectors/"
#define LITE    VECTORS "models/deepseek2-lite.gguf"
#define JOINED  VECTORS "models/deepseek2-joined.gguf" // attn_kv_b
#define SPLIT   VECTORS "models/deepseek2-32.gguf"     // the same weights: attn_k_b and attn_v_b

enum { N_TOK = 40 };

static const char made[] = FX_BINARY_DIR "/test_latent.gguf";

// ---- bits --------------------------------------------------------------------------------------

static void expect_same(const char *what, const float *a, const float *b, int n)
{
    if (memcmp(a, b, (size_t)n * sizeof *a) != 0) fail_msg("%s: other bits", what);
}

FX_TEST(test_every_cache)
{
    static const char *const types[] = {"f32", "f16", "bf16", "q8_0"};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        check_variants((runner_model){JOINED, types[i]}, types[i], N_TOK, true);
}

// Floats: the transpose of the joined form is what the other form has.
FX_TEST(test_both_forms_have_the_same_bits)
{
    int n, n_split;
    float *joined = run_plain((runner_model){JOINED, NULL}, N_TOK, &n);
    float *split = run_plain((runner_model){SPLIT, NULL}, N_TOK, &n_split);
    assert_int_equal(n, n_split);
    expect_same("split", joined, split, n);
    free(joined), free(split);
}

static void quantize(const char *path, const char *type)
{
    fxi_gguf *g;
    fx_error err;
    fxi_rewritten done;
    fxi_rewrite how = {.mixture = fxi_mixture_find(type)};
    assert_int_equal(fxi_pool_create(2, &how.pool, &err), FX_OK);
    if (fxi_model_file_open(path, &g, &err) != FX_OK) fail_msg("%s", err.text);
    if (fxi_rewrite_model(g, made, &how, &done, &err) != FX_OK) fail_msg("%s", err.text);
    fxi_gguf_close(g);
    fxi_pool_destroy(how.pool);
}

// The products of heads read rows rounded to Q8; of the joined form those of queries do not.
FX_TEST(test_quantized_heads)
{
    static const struct {
        const char *path, *type, *tensor;
        fxi_dtype is;
    } all[] = {{SPLIT, "q8_0", "blk.1.attn_k_b.weight", FXI_Q8_0},
               {SPLIT, "q4_0", "blk.1.attn_v_b.weight", FXI_Q4_0},
               {JOINED, "q8_0", "blk.1.attn_kv_b.weight", FXI_Q8_0}};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        fxi_gguf *g;
        quantize(all[i].path, all[i].type);
        assert_int_equal(fxi_gguf_open(made, &g, NULL), FX_OK);
        assert_int_equal(fxi_gguf_find_tensor(g, all[i].tensor)->type->id, all[i].is);
        fxi_gguf_close(g);
        check_variants((runner_model){made, NULL}, all[i].tensor, N_TOK, true);
    }
    unlink(made);
}

// ---- what a token costs ------------------------------------------------------------------------

FX_TEST(test_a_layer_has_one_plane)
{
    fxi_gguf *g;
    fxi_model *m;
    assert_int_equal(fxi_gguf_open(LITE, &g, NULL), FX_OK);
    assert_int_equal(fxi_model_inspect(g, &(fxi_model_options){.kv_type = "f16"}, &m, NULL), FX_OK);
    assert_int_equal(m->shape.kv.n_group, 1);
    assert_int_equal(m->shape.kv.group[0].n_plane, m->shape.n_layer);
    assert_int_equal(m->shape.kv.group[0].row_bytes, (32 + 6) * 2);
    fxi_model_free(m);
    fxi_gguf_close(g);
}

// ---- what is refused ---------------------------------------------------------------------------

// The file with another value of a key; value 0: without it.
static void write_with(const char *key, uint32_t value)
{
    fxi_gguf *g;
    fxi_gguf_writer *w;
    assert_int_equal(fxi_gguf_open(LITE, &g, NULL), FX_OK);
    assert_int_equal(fxi_gguf_writer_open(made, &w, NULL), FX_OK);
    for (uint64_t i = 0; i < fxi_gguf_n_kv(g); i++) {
        const fxi_gguf_kv *kv = fxi_gguf_kv_at(g, i);
        if (!fxi_str_is(kv->key, key)) fxi_gguf_write_kv(w, kv);
    }
    if (value) fxi_gguf_write_u32(w, key, value);
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(g); i++) {
        const fxi_gguf_tensor *t = fxi_gguf_tensor_at(g, i);
        char name[96];
        snprintf(name, sizeof name, "%.*s", (int)t->name.n, t->name.p);
        fxi_gguf_declare_tensor(w, name, (fxi_dtype)t->type->id, t->n_dim, t->ne);
    }
    fxi_gguf_begin_data(w);
    for (uint64_t i = 0; i < fxi_gguf_n_tensor(g); i++)
        fxi_gguf_write_data(w, NULL, fxi_gguf_tensor_at(g, i)->size_bytes);
    assert_int_equal(fxi_gguf_writer_finish(w, NULL), FX_OK);
    fxi_gguf_close(g);
}

static void expect_refused(const fxi_model_options *opt, const char *path, fx_status st,
                           const char *says)
{
    fxi_gguf *g;
    fxi_model *m;
    fx_error err = {0};
    assert_int_equal(fxi_gguf_open(path, &g, NULL), FX_OK);
    assert_int_equal(fxi_model_inspect(g, opt, &m, &err), st);
    assert_null(m);
    if (!strstr(err.text, says)) fail_msg("'%s' does not say '%s'", err.text, says);
    fxi_gguf_close(g);
}

FX_TEST(test_sizes_that_do_not_fit)
{
    static const struct {
        const char *key;
        uint32_t value;
        const char *says;
    } all[] = {
        {"attention.kv_lora_rank", 0, "missing key 'deepseek2.attention.kv_lora_rank'"},
        {"attention.kv_lora_rank", 24,
         "attention.key_length is 38, but kv_lora_rank and "
         "rope.dimension_count are 30 together"},
        {"attention.value_length", 30, "attention.value_length is 30, but kv_lora_rank is 32"},
        {"attention.key_length_mla", 6, "6 numbers of a head, of which 6 are rotated"},
        {"attention.key_length_mla", 15, "attn_q.weight' is 30 x 48 x 1 x 1, expected 30 x 45"},
        {"attention.value_length_mla", 10, "attn_v_b.weight' is 32 x 12 x 3 x 1, expected 32 x 10"},
        {"rope.dimension_count", 0, "missing key 'deepseek2.rope.dimension_count'"},
        {"attention.q_lora_rank", 24, "attn_q_a.weight' is missing"},
        {"attention.head_count", 4, "attn_q.weight' is 30 x 48 x 1 x 1, expected 30 x 64"},
    };
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
        char key[96];
        snprintf(key, sizeof key, "deepseek2.%s", all[i].key);
        write_with(key, all[i].value);
        expect_refused(&(fxi_model_options){0}, made, FX_EFORMAT, all[i].says);
    }
    unlink(made);
}

FX_TEST(test_rows_that_q8_0_does_not_hold)
{
    expect_refused(&(fxi_model_options){.kv_type = "q8_0"}, LITE, FX_EINVAL,
                   "a multiple of 32 numbers, not 38");
}

FX_TEST(test_several_devices_are_refused)
{
    static const variant at_once = {"at once", RUNNER_MAX_TOK, 1, 0, NULL, NULL};
    int n;
    fx_error err = {0};
    assert_null(host_ranks_run((runner_model){LITE, NULL}, 2, &at_once, N_TOK, &n, &err));
    assert_non_null(strstr(err.text, "several devices cannot share out latent attention"));
}

// A device without the step says so before a weight is loaded.
FX_TEST(test_a_device_without_it_is_named)
{
    static const fxi_device_ops none = {0};
    fxi_device other = {.ops = &none, .name = "other:0", .path = "none"};
    expect_refused(&(fxi_model_options){.device = &other}, LITE, FX_EINVAL,
                   "other:0: latent attention is not computed here");
}

FX_RUN(test_latent)
