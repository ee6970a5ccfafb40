// test_hub_names.c - texts to names of models: what is a hub's, a URL, a path, or wrong.
#include "unit/cmocka_all.h"

#include <string.h>

#include "hub/hub_parts.h"

static const struct name_case {
    const char *text;
    fxi_hub_kind kind;
    const char *repo, *rev, *type, *file;
} good[] = {
    {"hf:a/b", FXI_HUB_REPO, "a/b", "", "", ""},
    {"HF://a/b", FXI_HUB_REPO, "a/b", "", "", ""},
    {"hf:a.b/c_d-e.F:Q4_K_M", FXI_HUB_REPO, "a.b/c_d-e.F", "", "Q4_K_M", ""},
    {"hf:a/b:UD-Q4_K_XL", FXI_HUB_REPO, "a/b", "", "UD-Q4_K_XL", ""},
    {"hf:a/b/c d/e:f@g.gguf", FXI_HUB_REPO, "a/b", "", "", "c d/e:f@g.gguf"},
    {"hf:a/b@v1.0", FXI_HUB_REPO, "a/b", "v1.0", "", ""},
    {"hf:a/b@v1:q8_0", FXI_HUB_REPO, "a/b", "v1", "q8_0", ""},
    {"hf:a/b@v1/x.gguf", FXI_HUB_REPO, "a/b", "v1", "", "x.gguf"},
    {"hf:a/b@refs/pr/12/x.gguf", FXI_HUB_REPO, "a/b", "refs/pr/12", "", "x.gguf"},
    {"http://hub:8/a/b", FXI_HUB_REPO, "a/b", "", "", ""},
    {"http://hub:8/a/b/", FXI_HUB_REPO, "a/b", "", "", ""},
    {"http://HUB:8/a/b/tree/dev", FXI_HUB_REPO, "a/b", "dev", "", ""},
    {"http://hub:8/a/b/blob/main/c/d.gguf", FXI_HUB_REPO, "a/b", "main", "", "c/d.gguf"},
    {"http://hub:8/a/b/resolve/main/d.gguf?x=/y", FXI_HUB_REPO, "a/b", "main", "", "d.gguf"},
    {"http://hub:8/a/b/resolve/refs%2Fpr%2F1/d", FXI_HUB_URL, "", "", "", ""},
    {"http://hub:8/a", FXI_HUB_URL, "", "", "", ""},
    {"http://hub:80/a/b", FXI_HUB_URL, "", "", "", ""},
    {"HTTPS://x/y.gguf", FXI_HUB_URL, "", "", "", ""},
    {"a/b", FXI_HUB_PATH, "", "", "", ""},
    {"hf/a.gguf", FXI_HUB_PATH, "", "", "", ""},
    {"", FXI_HUB_PATH, "", "", "", ""},
};

static bool is_text(fxi_str s, const char *text)
{
    return s.n ? fxi_str_is(s, text) : !*text;
}

FX_TEST(test_names_that_are_taken)
{
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        const struct name_case *c = &good[i];
        fxi_hub_name n;
        fx_error err;
        if (fxi_hub_name_read(c->text, "http://hub:8", &n, &err) != FX_OK)
            fail_msg("%s: %s", c->text, err.text);
        if (n.kind != c->kind || !is_text(n.repo, c->repo) || !is_text(n.rev, c->rev) ||
            !is_text(n.type, c->type) || !is_text(n.file, c->file))
            fail_msg("%s: kind %d, %.*s @%.*s :%.*s /%.*s", c->text, n.kind, (int)n.repo.n,
                     n.repo.p, (int)n.rev.n, n.rev.p, (int)n.type.n, n.type.p, (int)n.file.n,
                     n.file.p);
        assert_int_equal(fxi_hub_is_name(c->text), c->kind != FXI_HUB_PATH);
    }
}

FX_TEST(test_names_that_are_refused)
{
    static const char *const bad[] = {
        "hf:",        "hf:a",          "hf:a/",       "hf:/b",
        "hf:a/b:",    "hf:a/b/",       "hf:a/b@",     "hf:a/b@:x",
        "hf:a/-b",    "hf:a/b.",       "hf:a--b/c",   "hf:a/b..c",
        "hf:../b",    "hf:a/b/..",     "hf:a/b//c",   "hf:a/b/c/../d",
        "hf:a/b/\\c", "hf:a/b/c\n",    "hf:a/b@-x",   "hf:a/b@x y",
        "hf:a/b@..",  "hf:a/b:x y",    "hf:a/b:Q4/x", "hf:a b/c",
        "http://",    "https://u@h/x", "hf:a/b/.",    "hf:a/b@refs/../x/y",
    };
    fxi_hub_name n;
    fx_error err;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        if (fxi_hub_name_read(bad[i], "http://hub:8", &n, &err) == FX_OK)
            fail_msg("taken: %s", bad[i]);
        assert_int_equal(err.status, FX_EINVAL);
    }
}

FX_TEST(test_parts)
{
    unsigned no, count;
    size_t at;
    assert_true(fxi_hub_part_read("a/b-00002-of-00010.gguf", &no, &count, &at));
    assert_int_equal(no, 2);
    assert_int_equal(count, 10);
    assert_int_equal(at, 4);
    static const char *const whole[] = {"-0001-of-00002.gguf",
                                        "a-00003-of-00002.gguf",
                                        "a-00000-of-00002.gguf",
                                        "a-00001-of-00002",
                                        "a.gguf",
                                        "",
                                        "a-00001_of-00002.gguf"};
    for (size_t i = 0; i < sizeof whole / sizeof *whole; i++)
        if (fxi_hub_part_read(whole[i], &no, &count, &at)) fail_msg("%s", whole[i]);
}

FX_RUN(test_hub_names)
