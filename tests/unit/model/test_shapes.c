// test_shapes.c - weights of every type, models of odd shapes, and mixes of types, end to end:
//   - logits near those of the same numbers stored as F32
//   - the same bits in every way that a model can be run
//   - the same bits whether embeddings are rows of their own or read from the output's panels
//
// How near: F16 and BF16 widen exactly, so the logits are equal. Layers of block types round their
// activations to 8 bits; test_vectors.c derives the bound of 3 % (measured: 1.4 % to 2.5 %).
//
// A sample: each type is in one shape, and experts of every fourth type are run in every way; with
// FX_TEST_LONG everything is.
#include "suite.h"
#include "unit/cmocka_all.h"

#include "unit/model/runner.h"
#include "unit/model/small_model.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define N_TOK 12
#define BOUND 0.03

static const char path[] = FX_BINARY_DIR "/test_shapes.gguf";

// Rows of any length.
static const small_shape float_shapes[] = {
    {"one of everything", 1, 2, 1, 1, 2, 1, 1, false},
    {"one token, one number between up and down", 1, 6, 3, 1, 2, 1, 1, true},
    {"three heads of ten", 2, 30, 3, 3, 10, 17, 37, true},
    {"heads wider than the stream", 2, 22, 5, 1, 18, 70, 65, false},
    {"panels cut everywhere", 1, 257, 3, 1, 34, 259, 33, false},
};

// Rows of blocks of 32.
static const small_shape block_shapes[] = {
    {"96 wide, three heads", 2, 96, 3, 3, 32, 160, 33, false},
    {"17 blocks wide, one block of heads", 1, 544, 1, 1, 32, 32, 50, true},
    {"32 wide", 2, 32, 1, 1, 64, 544, 19, false},
};

// Rows of blocks of 256.
static const small_shape wide_shapes[] = {
    {"256 wide, three heads of 256", 1, 256, 3, 1, 256, 256, 40, true},
    {"768 wide", 1, 768, 8, 1, 32, 256, 17, false},
};

static const fxi_dtype floats[] = {FXI_F32, FXI_F16, FXI_BF16};
static const fxi_dtype blocks[] = {FXI_Q8_0, FXI_Q4_0,   FXI_Q4_1, FXI_Q5_0,
                                   FXI_Q5_1, FXI_IQ4_NL, FXI_MXFP4};
static const fxi_dtype wides[] = {FXI_Q2_K, FXI_Q3_K, FXI_Q4_K, FXI_Q5_K, FXI_Q6_K, FXI_IQ4_XS};

#define COUNT(a) (sizeof(a) / sizeof *(a))

typedef void model_check(const small_model *m);
static model_check near_wide;

// Each type in one of the shapes.
static void for_each_of(model_check *check, const small_shape *s, size_t n, const fxi_dtype *types,
                        size_t n_type)
{
    for (size_t t = 0; t < n_type; t++)
        for (size_t i = 0; i < n; i++)
            if (suite_is_long() || i == t % n)
                check(&(small_model){.shape = s[i], .type = types[t]});
}

// Every layer has another mix of types, so that layers with the same input read it both as f32 and
// rounded.
static void for_each_mix(model_check *check)
{
    static const fxi_dtype all[] = {FXI_Q4_K, FXI_F16,    FXI_Q8_0,   FXI_Q6_K, FXI_Q4_0, FXI_BF16,
                                    FXI_Q2_K, FXI_Q5_1,   FXI_F32,    FXI_Q3_K, FXI_Q5_0, FXI_Q5_K,
                                    FXI_Q4_1, FXI_IQ4_NL, FXI_IQ4_XS, FXI_MXFP4};
    const small_shape s = {"all types in turn", 3, 256, 4, 2, 64, 256, 35, false};
    small_model m = {.shape = s, .types = all, .n_type = COUNT(all)};
    check(&m);
    m.shape.tied = true;
    check(&m);
}

// Experts of every kind of type. How near: as before, if all experts are used; a choice of few
// depends on numbers that are rounded.
static void for_each_expert_model(model_check *check)
{
    static const fxi_dtype types[] = {FXI_F32,  FXI_F16,  FXI_BF16,  FXI_Q8_0,
                                      FXI_Q4_0, FXI_Q4_K, FXI_MXFP4, FXI_Q6_K};
    static const fxi_dtype mix[] = {FXI_Q4_K, FXI_F16, FXI_Q8_0, FXI_F32, FXI_MXFP4};
    small_model m = {.shape = {"experts", 2, 256, 4, 2, 64, 256, 35, false}, .n_expert = 3};
    for (size_t i = 0; i <= COUNT(types); i++) {
        if (check != near_wide && !suite_takes(i, 4)) continue;
        if (i < COUNT(types)) m.type = types[i];
        if (i == COUNT(types)) m.types = mix, m.n_type = COUNT(mix);
        m.n_used = 3;
        check(&m);
        m.n_used = 1 + (int)i % 2;
        if (check != near_wide) check(&m);
    }
    unlink(path);
}

static void for_each_model(model_check *check)
{
    for_each_of(check, float_shapes, COUNT(float_shapes), floats, COUNT(floats));
    for_each_of(check, block_shapes, COUNT(block_shapes), blocks, COUNT(blocks));
    for_each_of(check, wide_shapes, COUNT(wide_shapes), blocks, 1);
    for_each_of(check, wide_shapes, COUNT(wide_shapes), wides, COUNT(wides));
    for_each_mix(check);
    for_each_expert_model(check);
    unlink(path);
}

static const char *describe(const small_model *m, char text[128])
{
    const char *type = m->n_type ? "mixed" : fxi_dtype_find(m->type)->name;
    snprintf(text, 128, "%s, %s%s, %d experts of %d", m->shape.what, type,
             m->shape.tied ? ", tied" : "", m->n_used, m->n_expert);
    return text;
}

// The root mean square of the differences, relative to that of the logits.
static double distance(const float *got, const float *want, int n)
{
    double diff = 0, all = 0;
    for (int i = 0; i < n; i++) {
        diff += ((double)got[i] - want[i]) * ((double)got[i] - want[i]);
        all += (double)want[i] * want[i];
    }
    return sqrt(diff / all);
}

static void near_wide(const small_model *m)
{
    char text[128];
    small_model wide = *m;
    wide.widened = true;
    int n_vocab;
    small_model_write(path, m);
    float *got = run_plain((runner_model){path, NULL}, N_TOK, &n_vocab);
    small_model_write(path, &wide);
    float *want = run_plain((runner_model){path, NULL}, N_TOK, &n_vocab);
    const bool exact = !m->n_type && fxi_dtype_find(m->type)->block_elems == 1;
    const double d = distance(got, want, n_vocab);
    if (!(d <= (exact ? 0 : BOUND))) fail_msg("%s: %g", describe(m, text), d);
    free(got);
    free(want);
}

FX_TEST(test_near_f32)
{
    for_each_model(near_wide);
}

// An embedding that is also the output, against two tensors with the same numbers.
static void same_as_twice(const small_model *m)
{
    char text[128];
    int n_vocab;
    small_model two = *m, one = *m;
    one.shape.tied = two.shape.tied = two.output_twice = true;
    small_model_write(path, &one);
    float *got = run_plain((runner_model){path, NULL}, N_TOK, &n_vocab);
    small_model_write(path, &two);
    float *want = run_plain((runner_model){path, NULL}, N_TOK, &n_vocab);
    if (memcmp(got, want, (size_t)n_vocab * sizeof *got)) fail_msg("%s", describe(&one, text));
    free(got);
    free(want);
}

FX_TEST(test_tied)
{
    for_each_of(same_as_twice, float_shapes, COUNT(float_shapes), floats, COUNT(floats));
    for_each_of(same_as_twice, block_shapes, COUNT(block_shapes), blocks, COUNT(blocks));
    for_each_of(same_as_twice, wide_shapes, COUNT(wide_shapes), wides, COUNT(wides));
    unlink(path);
}

static void same_bits(const small_model *m)
{
    char text[128];
    small_model_write(path, m);
    check_variants((runner_model){path, NULL}, describe(m, text), N_TOK, true);
}

FX_TEST(test_same_bits)
{
    for_each_model(same_bits);
}

FX_RUN(test_shapes)
