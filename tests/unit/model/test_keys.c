// test_keys.c - no key is silently ignored: what is applied changes the logits, what is neutral
// does not change a bit, and what is not understood is refused by name.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "unit/model/runner.h"
#include "unit/model/small_model.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { N_TOK = 40 };

static const char path[] = FX_BINARY_DIR "/test_keys.gguf";
static const small_shape shape = {"keys", 2, 32, 4, 2, 8, 48, 40, false};

static float *logits_with(const small_key *key, size_t n_key)
{
    int n_vocab;
    small_model m = {.shape = shape, .type = FXI_F32};
    for (size_t i = 0; i < n_key; i++) m.key[i] = key[i];
    small_model_write(path, &m);
    float *logits = run_plain((runner_model){path, "f32"}, N_TOK, &n_vocab);
    unlink(path);
    return logits;
}

// The largest difference from the logits without keys, relative to the largest logit.
static double change_by(const small_key *key, size_t n_key)
{
    float *plain = logits_with(NULL, 0), *got = logits_with(key, n_key);
    double diff = 0, most = 0;
    for (int i = 0; i < shape.n_vocab; i++) {
        diff = fmax(diff, fabs((double)got[i] - (double)plain[i]));
        most = fmax(most, fabs((double)plain[i]));
        assert_true(isfinite(got[i]));
    }
    free(plain), free(got);
    return diff / most;
}

static const small_key applied[] = {
    {"llama.attention.sliding_window", 'u', 5, NULL},
    {"llama.attention.scale", 'f', 1, NULL},
    {"llama.attn_logit_softcapping", 'f', 0.5, NULL},
    {"llama.final_logit_softcapping", 'f', 1, NULL},
    {"llama.embedding_scale", 'f', 3, NULL},
    {"llama.residual_scale", 'f', 0.5, NULL},
    {"llama.logit_scale", 'f', 2, NULL},
    {"llama.use_parallel_residual", 'b', 1, NULL},
    {"llama.rope.freq_base", 'f', 500, NULL},
    {"llama.rope.scaling.factor", 'f', 4, NULL},
    {"llama.rope.scale_linear", 'f', 4, NULL},
    {"llama.rope.scaling.attn_factor", 'f', 1.5, NULL},
    {"flexinfer.activation", 's', 0, "relu"},
};

static const small_key neutral[] = {
    {"llama.attention.sliding_window", 'u', 0, NULL},
    {"llama.attention.sliding_window", 'u', N_TOK, NULL},
    {"llama.attention.scale", 'f', 0, NULL},
    {"llama.attn_logit_softcapping", 'f', 0, NULL},
    {"llama.final_logit_softcapping", 'f', 0, NULL},
    {"llama.embedding_scale", 'f', 1, NULL},
    {"llama.residual_scale", 'f', 1, NULL},
    {"llama.logit_scale", 'f', 1, NULL},
    {"llama.use_parallel_residual", 'b', 0, NULL},
    {"llama.attention.clamp_kqv", 'f', 0, NULL},
    {"llama.attention.max_alibi_bias", 'f', 0, NULL},
    {"llama.attention.causal", 'b', 1, NULL},
    {"llama.rope.scaling.factor", 'f', 0, NULL}, // as other programs read it: 1
    {"llama.rope.scaling.factor", 'f', 1, NULL},
    {"llama.rope.scaling.attn_factor", 'f', 1, NULL},
    {"llama.rope.scaling.type", 's', 0, "none"},
    {"llama.expert_count", 'u', 0, NULL},
    {"llama.something_new", 'u', 0, NULL},
    {"llama.something_new", 'f', 0, NULL},
    {"llama.something_new", 's', 0, ""},
    {"llama.something_new", 'b', 0, NULL},
    {"qwen2.something_else", 'u', 7, NULL}, // of another architecture
    {"general.something", 'u', 7, NULL},
};

static const struct refusal {
    small_key key;
    const char *says;
} refused[] = {
    {{"llama.attention.clamp_kqv", 'f', 8, NULL}, "attention.clamp_kqv"},
    {{"llama.attention.max_alibi_bias", 'f', 8, NULL}, "attention.max_alibi_bias"},
    {{"llama.do_layer_norm_before", 'b', 0, NULL}, "do_layer_norm_before"},
    {{"llama.pooling_type", 'u', 4, NULL}, "tensor 'cls.output.weight' is missing"},
    {{"llama.pooling_type", 'u', 5, NULL}, "pooling_type"},
    {{"llama.something_new", 'u', 1, NULL}, "'llama.something_new'"},
    {{"llama.something_new", 'f', 0.5, NULL}, "'llama.something_new'"},
    {{"llama.something_new", 's', 0, "yes"}, "'llama.something_new'"},
    {{"llama.something_new", 'b', 1, NULL}, "'llama.something_new'"},
    {{"llama.attention.sliding_window", 's', 0, "5"}, "llama.attention.sliding_window"},
    {{"llama.attention.sliding_window_pattern", 's', 0, "all"}, "sliding_window_pattern"},
    {{"llama.attention.temperature_scale", 'f', 0.1, NULL}, "attention.temperature_length"},
    {{"llama.attention.scale", 'f', -1, NULL}, "llama.attention.scale"},
    {{"llama.attention.scale", 'f', NAN, NULL}, "llama.attention.scale"},
    {{"llama.attention.scale", 'f', INFINITY, NULL}, "llama.attention.scale"},
    {{"llama.logit_scale", 'f', NAN, NULL}, "llama.logit_scale"},
    {{"llama.rope.scaling.type", 's', 0, "longrope"}, "rope_factors"},
    {{"llama.rope.scaling.type", 's', 0, "llama3"}, "rope_freqs"},
    {{"llama.rope.scaling.type", 's', 0, "ntk-by-parts"}, "'ntk-by-parts' is not supported"},
    {{"llama.expert_count", 'u', 4, NULL}, "expert_used_count"},
    {{"llama.attention.kv_lora_rank", 'u', 16, NULL}, "kv_lora_rank"},
    {{"llama.expert_gating_func", 'u', 4, NULL}, "expert_gating_func"},
    {{"llama.expert_group_count", 'u', 2, NULL}, "expert_group_used_count"},
    {{"llama.expert_group_count", 'u', 65, NULL}, "groups"},
    {{"llama.nextn_predict_layers", 'u', 2, NULL}, "nextn_predict_layers"},
    {{"llama.full_attention_interval", 'u', 4, NULL}, "full_attention_interval"},
    {{"llama.ssm.state_size", 'u', 16, NULL}, "ssm.state_size"},
    {{"llama.ssm.conv_kernel", 'u', 4, NULL}, "ssm.conv_kernel"},
    {{"flexinfer.activation", 's', 0, "xielu"}, "'xielu'"},
};

#define COUNT(a) (sizeof(a) / sizeof *(a))

FX_TEST(test_keys_change_the_logits)
{
    for (size_t i = 0; i < COUNT(applied); i++)
        if (!(change_by(&applied[i], 1) > 1e-3)) fail_msg("%s is ignored", applied[i].key);
}

FX_TEST(test_neutral_values_change_nothing)
{
    for (size_t i = 0; i < COUNT(neutral); i++)
        if (change_by(&neutral[i], 1) > 0)
            fail_msg("%s changes the logits (number %zu)", neutral[i].key, i);
}

// A factor on the cosines and sines of both queries and keys is its square on their product.
FX_TEST(test_attn_factor_is_squared)
{
    const small_key both[] = {{"llama.rope.scaling.attn_factor", 'f', 1.5, NULL},
                              {"llama.attention.scale", 'f', 1 / (1.5 * 1.5 * sqrt(8)), NULL}};
    assert_true(change_by(both, 2) < 1e-5);
}

// other: a key beside it; NULL: none
static void expect_refused(const struct refusal *f, const small_key *other)
{
    fxi_gguf *g;
    fxi_pool *pool;
    fxi_model *m;
    fx_error err = {0};
    small_model file = {.shape = shape, .type = FXI_F32, .key = {f->key}};
    if (other) file.key[1] = *other;
    small_model_write(path, &file);
    assert_int_equal(fxi_gguf_open(path, &g, &err), FX_OK);
    assert_int_equal(fxi_pool_create(1, &pool, &err), FX_OK);
    const fxi_model_options opt = {.pool = pool, .max_batch_tok = 1, .max_batch_logit = 1};
    if (fxi_model_load(g, &opt, &m, &err) != FX_EFORMAT) fail_msg("%s is loaded", f->key.key);
    if (!strstr(err.text, f->says)) fail_msg("expected \"%s\" in: %s", f->says, err.text);
    assert_null(strchr(err.text, '\n'));
    assert_int_equal(fxi_model_inspect(g, &opt, &m, &err), FX_EFORMAT);
    fxi_gguf_close(g);
    fxi_pool_destroy(pool);
    unlink(path);
}

FX_TEST(test_others_are_refused)
{
    for (size_t i = 0; i < COUNT(refused); i++) expect_refused(&refused[i], NULL);
}

// Its gain is divided by the logarithm of the context that the model had first.
FX_TEST(test_longrope_needs_a_context)
{
    const small_key one = {"llama.rope.scaling.original_context_length", 'u', 1, NULL};
    const struct refusal longrope = {{"llama.rope.scaling.type", 's', 0, "longrope"},
                                     "original_context_length"};
    expect_refused(&longrope, &one);
}

FX_RUN(test_keys)
