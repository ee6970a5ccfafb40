// test_folders.c - a Hugging Face folder, the GGUF file that it is converted to, and the file that
// was made independently give the same logits, for every family.
#include "suite.h"
#include "unit/vector_folders.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "format/gguf.h"
#include "format/quantize.h"
#include "unit/model/logit_distance.h"
#include "unit/model/runner.h"

#define CONVERTED FX_BINARY_DIR "/test_folders.tmp.gguf"

enum { N_TOK = 40 };

static void convert_folder(const char *folder, const char *type)
{
    fxi_gguf *g;
    fx_error err;
    fxi_rewritten done;
    fxi_rewrite how = {.mixture = type ? fxi_mixture_find(type) : NULL};
    assert_int_equal(fxi_pool_create(2, &how.pool, &err), FX_OK);
    if (fxi_model_file_open(folder, &g, &err) != FX_OK) fail_msg("%s", err.text);
    if (fxi_rewrite_model(g, CONVERTED, &how, &done, &err) != FX_OK) fail_msg("%s", err.text);
    fxi_gguf_close(g);
    fxi_pool_destroy(how.pool);
}

static void check_folder(const char *name, const char *folder, const char *file)
{
    int n, n_converted, n_made;
    convert_folder(folder, NULL);
    float *direct = run_plain((runner_model){folder, NULL}, N_TOK, &n);
    float *converted = run_plain((runner_model){CONVERTED, NULL}, N_TOK, &n_converted);
    float *made = run_plain((runner_model){file, NULL}, N_TOK, &n_made);
    if (n != n_converted || memcmp(direct, converted, (size_t)n * sizeof *direct))
        fail_msg("%s: converted, other logits", name);
    const double d = logit_distance(direct, made, n);
    if (n != n_made || !(d < 1e-5)) fail_msg("%s: %g from the file made independently", name, d);
    free(direct);
    free(converted);
    free(made);
}

FX_TEST(test_loaded_directly_or_converted)
{
    for_each_folder(check_folder);
    remove(CONVERTED);
}

// Q8_0 keeps the logits near; the bound is a few times what 8 bits cost in two layers.
static void check_quantized(const char *folder)
{
    int n, n_same;
    convert_folder(folder, "q8_0");
    float *direct = run_plain((runner_model){folder, NULL}, N_TOK, &n);
    float *quantized = run_plain((runner_model){CONVERTED, NULL}, N_TOK, &n_same);
    assert_int_equal(n, n_same);
    const double d = logit_distance(quantized, direct, n);
    assert_true(d > 0 && d < 0.1);
    free(direct);
    free(quantized);
    remove(CONVERTED);
}

FX_TEST(test_quantized_folder)
{
    check_quantized(VECTORS "folders/gpt-oss");
    check_quantized(VECTORS "folders/opt-post-norm"); // embeddings of another width
}

FX_RUN(test_folders)
