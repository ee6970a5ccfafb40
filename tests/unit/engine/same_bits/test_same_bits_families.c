// test_same_bits_families.c - every family of models under what the engine does to a request:
// chunks, company, threads, preemption, prefixes, forks; see test_same_bits.c. Each family has a
// third of the pairs of variants, the next one another third; with FX_TEST_LONG each has all.
#include "unit/cmocka_all.h"

#include "unit/engine/same_bits/variants.h"

#include <dirent.h>
#include <stdio.h>
#include <string.h>

#define FOLDER FX_SOURCE_DIR "/tests/vectors/models"

enum { N_PROMPT = 60, N_LONG_PROMPT = 200, N_GEN = 5 };

static bool is_model(const char *name)
{
    const size_t n = strlen(name);
    return n > 5 && strcmp(name + n - 5, ".gguf") == 0;
}

// False: it generates nothing (test_embedding.c has such models).
static bool check_model(const char *name, int i)
{
    char path[512];
    fx_model_info info;
    snprintf(path, sizeof path, FOLDER "/%s", name);
    assert_int_equal(fx_model_inspect(path, NULL, &info, NULL), FX_OK);
    if (!info.generates) return false;
    rig *r = rig_open_file(path, N_PROMPT, N_GEN);
    rig_compare_some_pairs(r, 3, 3, i);
    rig_close(r);
    return true;
}

FX_TEST(test_every_family)
{
    DIR *d = opendir(FOLDER);
    int n = 0;
    assert_non_null(d);
    for (struct dirent *e; (e = readdir(d)) != NULL;)
        if (is_model(e->d_name)) n += check_model(e->d_name, n);
    closedir(d);
    assert_true(n >= 30);
}

// Prompts over several blocks of a recurrence: their states are shared, forked, swapped and made
// again.
FX_TEST(test_states_over_blocks)
{
    static const char *const models[] = {"qwen3next", "granitehybrid", "lfm2"};
    for (int i = 0; i < 3; i++) {
        char path[512];
        snprintf(path, sizeof path, FOLDER "/%s.gguf", models[i]);
        rig *r = rig_open_file(path, N_LONG_PROMPT, N_GEN);
        rig_compare_some_pairs(r, 3, 3, i);
        rig_close(r);
    }
}

FX_RUN(test_same_bits_families)
