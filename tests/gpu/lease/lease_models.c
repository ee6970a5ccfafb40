// lease_models.c - every family of models on a GPU: the same bits as the host's, in several ways.
//
//     lease_models TREE [FILE]
//
// TREE has tests/vectors and models; FILE is one of tests/vectors/models. Real kernels are fast, so
// every family runs in every way; the check has the same in test_gpu_models.c.
#include "gpu_model_rig.h"

#include "unit/cmocka_all.h"

#include <glob.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { N_TOK = 60 }; // some of the models have no more positions than 64

static const gpu_way ways[] = {
    {"one pass", .n_prompt = N_TOK, .chunk = N_TOK},
    {"one token at a time", .chunk = 1},
    {"chunks of 7, then decoding", .n_prompt = 50, .chunk = 7},
    {"without graphs", .n_prompt = 48, .chunk = 16, .no_graphs = true},
    {"beside three others", .n_prompt = 48, .chunk = 11, .n_other = 3},
    {"a paged cache", .n_prompt = 48, .chunk = 13, .n_other = 1, .kv = "paged"},
    {"results not pinned", .n_prompt = 48, .chunk = 23, .unpinned = true},
};

static const char *pattern;

static void check_path(const char *path, int n_tok)
{
    const runner_model m = {path, NULL};
    int n_out;
    float *want = run_plain(m, n_tok, &n_out);
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++)
        check_gpu_model(m, path, &ways[i], n_tok, want);
    free(want);
}

static void test_families(void **state)
{
    (void)state;
    glob_t found;
    assert_int_equal(glob(pattern, 0, NULL, &found), 0);
    for (size_t i = 0; i < found.gl_pathc; i++) {
        check_path(found.gl_pathv[i], strstr(pattern, "*") ? N_TOK : 20);
        printf("%s: the host's bits\n", strrchr(found.gl_pathv[i], '/') + 1);
        fflush(stdout);
    }
    globfree(&found);
}

int main(int argc, char **argv)
{
    char path[1024];
    const struct CMUnitTest tests[] = {cmocka_unit_test(test_families)};
    if (argc < 2) return 2;
    snprintf(path, sizeof path, "%s/tests/vectors/models/%s", argv[1],
             argc > 2 ? argv[2] : "*.gguf");
    pattern = path;
    return cmocka_run_group_tests(tests, NULL, NULL);
}
