// test_hub_choice.c - which files of a repository are the model.
#include "unit/cmocka_all.h"

#include <string.h>

#include "hub/hub_parts.h"

#define ST "model-0000"

static const struct choice_case {
    const char *files; // of the repository, one a line
    const char *name;
    const char *wanted; // in the order of fetching; "ERROR: a part of the text"
    const char *others;
} cases[] = {
    {"m.gguf", "hf:a/b", "m.gguf", ""},
    {"m-Q8_0.gguf\nm-Q4_K_M.gguf\nm-F16.gguf", "hf:a/b", "m-Q4_K_M.gguf", "F16, Q8_0"},
    {"m-Q8_0.gguf\nm-Q4_0.gguf", "hf:a/b", "m-Q4_0.gguf", "Q8_0"},
    {"m-IQ2_XS.gguf\nm-IQ1_S.gguf", "hf:a/b", "m-IQ1_S.gguf", "IQ2_XS"},
    {"m.q4_k_m.gguf\nm.f16.gguf", "hf:a/b", "m.q4_k_m.gguf", "f16"},
    {"m-Q4_K_M.gguf\nmmproj-Q4_K_M.gguf", "hf:a/b", "m-Q4_K_M.gguf", ""},
    {"m-Q4_K_M.gguf\nm-Q4_K_S.gguf", "hf:a/b:q4_k_s", "m-Q4_K_S.gguf", "Q4_K_M"},
    {"m-Q4_K_M.gguf", "hf:a/b:Q4_K", "ERROR: no GGUF file of type Q4_K; it offers m-Q4_K_M", ""},
    {"m-IQ4_XS.gguf", "hf:a/b:Q4_XS", "ERROR: no GGUF file of type Q4_XS", ""},
    {"m-UD-Q4_K_XL.gguf", "hf:a/b:Q4_K_XL", "m-UD-Q4_K_XL.gguf", ""},
    {"BF16/m-BF16-00001-of-00002.gguf\nBF16/m-BF16-00002-of-00002.gguf", "hf:a/b:bf16",
     "BF16/m-BF16-00001-of-00002.gguf BF16/m-BF16-00002-of-00002.gguf", ""},
    {"m-00001-of-00002.gguf\nm-00002-of-00002.gguf", "hf:a/b/m-00002-of-00002.gguf",
     "m-00001-of-00002.gguf m-00002-of-00002.gguf", ""},
    {"m-00001-of-00003.gguf\nm-00003-of-00003.gguf", "hf:a/b",
     "ERROR: the file m-00002-of-00003.gguf is missing", ""},
    {"m-00002-of-00002.gguf", "hf:a/b/m-00002-of-00002.gguf",
     "ERROR: the file m-00001-of-00002.gguf is missing", ""},
    {"m-00001-of-99999.gguf", "hf:a/b", "ERROR: the file m-00002-of-99999.gguf is missing", ""},
    {"x/m-Q4_0.gguf\nx/m-F16-00001-of-00002.gguf\nx/m-F16-00002-of-00002.gguf\ny.gguf", "hf:a/b",
     "x/m-Q4_0.gguf", "x/m-F16, y"},
    {"m.gguf\nm-Q8_0.gguf", "hf:a/b:Q8_0", "m-Q8_0.gguf", "m"},
    {"m.gguf", "hf:a/b/n.gguf", "ERROR: there is no file n.gguf", ""},
    {"config.json\nmodel.safetensors\ntokenizer.json\nx.bin\nflax.msgpack\n.gitattributes",
     "hf:a/b", "config.json tokenizer.json model.safetensors", ""},
    {"config.json\nmodel.safetensors.index.json\n" ST "1-of-00002.safetensors\n" ST
     "2-of-00002.safetensors\nconsolidated.safetensors\nmodel.safetensors",
     "hf:a/b",
     "config.json model.safetensors.index.json " ST "1-of-00002.safetensors " ST
     "2-of-00002.safetensors",
     ""},
    {"1_Pooling/config.json\nconfig.json\nmodel.safetensors\nonnx/config.json", "hf:a/b",
     "1_Pooling/config.json config.json model.safetensors", ""},
    {"config.json\nmodel.safetensors.index.json\n" ST "1-of-00002.safetensors", "hf:a/b",
     "ERROR: " ST "2-of-00002.safetensors is missing", ""},
    {"config.json\npytorch_model.bin", "hf:a/b", "ERROR: it holds no model", ""},
    {"model.safetensors", "hf:a/b", "ERROR: it holds no model", ""},
    {"config.json\nmodel.safetensors", "hf:a/b:Q4_0", "ERROR: it offers none", ""},
    {"", "hf:a/b", "ERROR: it holds no model", ""},
};

static void check_case(const struct choice_case *c)
{
    fxi_hub_listing l = {0};
    fxi_hub_choice choice;
    fxi_hub_name name;
    fx_error err;
    fxi_buf got = {0};
    fxi_str rest = fxi_str_of(c->files), line;
    while (fxi_str_next_line(&rest, &line))
        assert_int_equal(fxi_hub_listing_add(&l, line, &err), FX_OK);
    fxi_hub_listing_sort(&l);
    assert_int_equal(fxi_hub_name_read(c->name, "http://hub", &name, &err), FX_OK);
    if (fxi_hub_choose(&l, &name, &choice, &err) != FX_OK) {
        if (strncmp(c->wanted, "ERROR: ", 7) || !strstr(err.text, c->wanted + 7))
            fail_msg("%s: %s", c->files, err.text);
    } else {
        for (size_t i = 0; i < choice.n; i++)
            assert_true(fxi_buf_fmt(&got, "%s%s", i ? " " : "", l.file[choice.at[i]].name));
        assert_string_equal(got.p, c->wanted);
        assert_string_equal(choice.others.n ? choice.others.p : "", c->others);
    }
    fxi_buf_free(&got);
    fxi_hub_choice_free(&choice);
    fxi_hub_listing_free(&l);
}

FX_TEST(test_choices)
{
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) check_case(&cases[i]);
}

FX_RUN(test_hub_choice)
