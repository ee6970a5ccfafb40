// test_ranks.c - several devices that compute one model together, on hosts: what each loads, and
// that they compute what one does.
//
// Sums in parts are other bits than sums in one go, so they are compared within a bound, but only
// where several devices add: of one rank, and whatever the batch and the chunks, with ==.
#include "unit/cmocka_all.h"

#include <glob.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "unit/model/host_ranks.h"
#include "unit/model/runner.h"
#include "unit/model/small_model.h"
#include "unit/model/twin_heads.h"

#define MODELS FX_SOURCE_DIR "/tests/vectors/models/"

enum { N_TOK = 24 };

static const variant at_once = {"at once", RUNNER_MAX_TOK, 1, 0, NULL, NULL};

// How far two rows of numbers are apart, as a part of the larger one's length.
static double distance(const float *a, const float *b, int n)
{
    double diff = 0, len = 0;
    for (int i = 0; i < n; i++) {
        diff += ((double)a[i] - b[i]) * ((double)a[i] - b[i]);
        len += (double)a[i] * a[i];
    }
    return sqrt(diff / len);
}

// ---- what they compute -------------------------------------------------------------------------

static void check_same(const char *what, const float *got, const float *want, int n)
{
    if (memcmp(got, want, (size_t)n * sizeof *got) != 0) fail_msg("%s: other bits", what);
}

// Rounding to Q8 moves a number by up to 1 / 254 of the largest; without it only sums differ.
static void check_close(const char *path, const float *got, const float *want, int n)
{
    const double d = distance(got, want, n);
    if (!(d < 0.05)) fail_msg("%s: several devices are %g away from one", path, d);
}

static void check_ways(runner_model m, int n, const float *want, int n_out)
{
    static const variant ways[] = {{"one token at a time", 1, 1, 0, NULL, NULL},
                                   {"chunks of 7, beside others", 7, 2, 2, NULL, NULL},
                                   {"plain C", 9, 1, 1, "ref", NULL}};
    fx_error err;
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        float *got = host_ranks_run(m, n, &ways[i], N_TOK, &n_out, &err);
        assert_non_null(got);
        check_same(ways[i].what, got, want, n_out);
        free(got);
    }
}

// Returns whether n devices can share it out.
static bool check_shared(runner_model m, int n, const float *whole, bool in_every_way)
{
    int n_out;
    fx_error err = {0};
    float *got = host_ranks_run(m, n, &at_once, N_TOK, &n_out, &err);
    if (!got && !strstr(err.text, "device")) fail_msg("%s: %s", m.path, err.text);
    if (!got) return false;
    check_close(m.path, got, whole, n_out);
    if (in_every_way) check_ways(m, n, got, n_out);
    free(got);
    return true;
}

static void check_one(runner_model m, const float *whole)
{
    int n_out;
    fx_error err = {0};
    float *got = host_ranks_run(m, 1, &at_once, N_TOK, &n_out, &err);
    assert_non_null(got);
    check_same(m.path, got, whole, n_out);
    free(got);
}

// The same model with more KV heads, which are its one again. Norms over all heads are refused.
static bool check_twin(runner_model m, const float *whole, bool in_every_way)
{
    const runner_model twin = {"ranks-twin.gguf", m.kv_type};
    int n_out;
    const int n = strstr(m.path, "olmo") ? 0 : twin_heads_write(twin.path, m.path);
    if (!n) return false;
    float *same = run_plain(twin, N_TOK, &n_out);
    check_same(m.path, same, whole, n_out);
    const bool is_shared = check_shared(twin, n, whole, in_every_way);
    free(same);
    remove(twin.path);
    return is_shared;
}

// By two devices, or by three. Returns whether they can share it out.
static bool check_model(runner_model m, bool in_every_way)
{
    int n_out;
    float *whole = run_plain(m, N_TOK, &n_out);
    check_one(m, whole);
    const bool is_shared = check_shared(m, 2, whole, in_every_way) ||
                           check_shared(m, 3, whole, in_every_way) ||
                           check_twin(m, whole, in_every_way);
    free(whole);
    return is_shared;
}

static void test_every_family_is_shared_out(void **state)
{
    (void)state;
    glob_t found;
    int n_shared = 0;
    assert_int_equal(glob(MODELS "*.gguf", 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++)
        n_shared += check_model((runner_model){found.gl_pathv[i], NULL}, i % 4 == 0);
    globfree(&found);
    assert_true(n_shared >= 42); // not olmo's norms, and mxfp4's blocks in so small a model
}

static void check_small(const small_model *m, const char *kv_type)
{
    const char *path = "ranks.gguf";
    small_model_write(path, m);
    if (!check_model((runner_model){path, kv_type}, true)) fail_msg("%s", m->shape.what);
    remove(path);
}

// Blocks of 256 numbers are not cut: the devices get 256 and 512 of 768.
static void test_every_type_of_weights_is_cut(void **state)
{
    (void)state;
    static const fxi_dtype types[] = {FXI_F32, FXI_BF16, FXI_Q8_0, FXI_Q4_0, FXI_Q4_K, FXI_Q6_K};
    for (size_t i = 0; i < sizeof types / sizeof *types; i++)
        check_small(&(small_model){.shape = {"a type", 2, 256, 8, 4, 64, 768, 300, i % 2},
                                   .type = types[i]},
                    i % 2 ? "q8_0" : NULL);
}

static void test_four_devices(void **state)
{
    (void)state;
    int n_out;
    fx_error err = {0};
    const small_model m = {.shape = {"four", 2, 128, 8, 4, 32, 288, 300, true}, .type = FXI_F32};
    small_model_write("ranks.gguf", &m);
    const runner_model path = {"ranks.gguf", NULL};
    float *whole = run_plain(path, N_TOK, &n_out);
    float *four = host_ranks_run(path, 4, &at_once, N_TOK, &n_out, &err);
    if (!four) fail_msg("%s", err.text);
    assert_true(distance(four, whole, n_out) < 1e-4);
    free(whole), free(four);
    remove("ranks.gguf");
}

// ---- what they refuse --------------------------------------------------------------------------

static void check_refused(const small_model *m, int n, const char *want)
{
    int n_out;
    fx_error err = {0};
    small_model_write("ranks.gguf", m);
    assert_null(
        host_ranks_run((runner_model){"ranks.gguf", NULL}, n, &at_once, N_TOK, &n_out, &err));
    assert_string_equal(err.text, want);
    remove("ranks.gguf");
}

static void test_what_cannot_be_shared_out_is_refused(void **state)
{
    (void)state;
    small_model m = {.shape = {"", 1, 64, 4, 2, 16, 64, 300, true}, .type = FXI_F32};
    check_refused(&m, 4, "ranks.gguf: 4 devices cannot share out 2 KV heads");
    m.shape.n_kv_head = 4;
    m.shape.head_dim = m.shape.n_ffn = 32;
    m.type = FXI_Q8_0;
    check_refused(&m, 4,
                  "ranks.gguf: 4 devices cannot share out the 32 numbers of a feed-forward block");
    m = (small_model){.shape = {"", 1, 256, 4, 4, 64, 512, 300, true}, .type = FXI_Q4_K};
    check_refused(&m, 4,
                  "ranks.gguf: tensor 'blk.0.attn_output.weight' is of type Q4_K: a device's 64 "
                  "columns of it would cut blocks of 256 numbers");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_every_family_is_shared_out),
        cmocka_unit_test(test_every_type_of_weights_is_cut),
        cmocka_unit_test(test_four_devices),
        cmocka_unit_test(test_what_cannot_be_shared_out_is_refused),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
