// test_model_name.c - the name of a model is that of its file or folder.
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>
#include <unistd.h>

#include "engine/engine.h"
#include "unit/cmocka_all.h"

static void expect_name(const char *path, const char *want)
{
    char name[128];
    fxi_model_name(path, name, sizeof name);
    assert_string_equal(name, want);
}

FX_TEST(test_a_file_is_called_by_its_stem)
{
    expect_name("/models/SmolLM2-135M-Instruct.Q4_1.gguf", "SmolLM2-135M-Instruct.Q4_1");
    expect_name("a.gguf", "a");
    expect_name(".gguf", ".gguf");
    expect_name("dir.gguf/model.bin", "model.bin");
    expect_name("big-00001-of-00012.gguf", "big");
    expect_name("big-0001-of-00012.gguf", "big-0001-of-00012");
    expect_name("-00001-of-00012.gguf", "-00001-of-00012");
    expect_name("", "");
}

// A folder of the hub's cache has a revision for a name: the repository's says more.
FX_TEST(test_a_folder_is_called_by_its_name)
{
    char top[] = "/tmp/model_name_XXXXXX", path[256], back[256];
    static const char *const folders[] = {"", "/gemma-3.1", "/models--me--my--model",
                                          "/models--me--my--model/snapshots",
                                          "/models--me--my--model/snapshots/0a1b"};
    assert_non_null(mkdtemp(top));
    assert_non_null(getcwd(back, sizeof back));
    for (size_t i = 1; i < 5; i++) {
        snprintf(path, sizeof path, "%s%s", top, folders[i]);
        assert_int_equal(mkdir(path, 0700), 0);
    }
    expect_name(path, "me/my--model");
    snprintf(path, sizeof path, "%s/gemma-3.1/", top);
    expect_name(path, "gemma-3.1");
    assert_int_equal(chdir(path), 0);
    expect_name(".", "gemma-3.1");
    assert_int_equal(chdir(back), 0);
    for (size_t i = 5; i-- > 0;) {
        snprintf(path, sizeof path, "%s%s", top, folders[i]);
        assert_int_equal(rmdir(path), 0);
    }
}

FX_TEST(test_a_long_name_is_cut)
{
    char name[8];
    fxi_model_name("0123456789.gguf", name, sizeof name);
    assert_string_equal(name, "0123456");
}

FX_RUN(test_model_name)
