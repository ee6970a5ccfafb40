// Files in parts: any part opens all of them; what is missing, foreign or twice is named with its
// part.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "format/gguf_write.h"
#include "suite.h"

#define STEM FX_BINARY_DIR "/test_gguf_split"

enum { N_PART = 3 };

static const char *const path[N_PART] = {STEM "-00001-of-00003.gguf", STEM "-00002-of-00003.gguf",
                                         STEM "-00003-of-00003.gguf"};

typedef struct part_keys {
    uint32_t no, count, n_tensor;
    const char *tensor;
} part_keys;

static const part_keys sound[N_PART] = {{0, 3, 2, NULL}, {1, 3, 2, "b"}, {2, 3, 2, "a"}};

static void write_part(const char *to, const part_keys *p)
{
    fx_error err;
    fxi_gguf_writer *w;
    const uint64_t ne[] = {4};
    const float v[4] = {(float)p->no, 1, 2, 3};
    assert_int_equal(fxi_gguf_writer_open(to, &w, &err), FX_OK);
    if (!p->no) fxi_gguf_write_str(w, "general.architecture", "test");
    fxi_gguf_write_u32(w, "split.no", p->no);
    fxi_gguf_write_u32(w, "split.count", p->count);
    fxi_gguf_write_u32(w, "split.tensors.count", p->n_tensor);
    if (p->tensor) {
        fxi_gguf_declare_tensor(w, p->tensor, FXI_F32, 1, ne);
        fxi_gguf_begin_data(w);
        fxi_gguf_write_data(w, v, sizeof v);
    }
    assert_int_equal(fxi_gguf_writer_finish(w, &err), FX_OK);
}

static int write_parts(void **state)
{
    (void)state;
    for (int i = 0; i < N_PART; i++) write_part(path[i], &sound[i]);
    return 0;
}

static int remove_parts(void **state)
{
    (void)state;
    for (int i = 0; i < N_PART; i++) remove(path[i]);
    return 0;
}

static void test_any_part_opens_all(void **state)
{
    (void)state;
    for (int i = 0; i < N_PART; i++) {
        fxi_gguf *g;
        fx_error err;
        fxi_str arch = {0};
        if (fxi_gguf_open(path[i], &g, &err) != FX_OK) fail_msg("%s", err.text);
        assert_string_equal(fxi_gguf_name(g), path[i]);
        assert_int_equal(fxi_gguf_n_tensor(g), 2);
        assert_int_equal(fxi_gguf_str(g, "general.architecture", true, &arch, &err), FX_OK);
        assert_true(fxi_str_is(arch, "test"));
        const fxi_gguf_tensor *a = fxi_gguf_find_tensor(g, "a"), *b = fxi_gguf_find_tensor(g, "b");
        assert_true(((const float *)a->data)[0] == 2 && ((const float *)b->data)[0] == 1);
        assert_int_equal(fxi_gguf_fetch(g, a, 0, a->size_bytes, NULL, &err), FX_OK);
        fxi_gguf_drop(g, a->data, a->size_bytes);
        assert_true(((const float *)a->data)[3] == 3);
        fxi_gguf_close(g);
    }
}

static void expect_refused(const char *open_path, fx_status st, const char *text)
{
    fxi_gguf *g;
    fx_error err;
    assert_int_equal(fxi_gguf_open(open_path, &g, &err), st);
    if (!strstr(err.text, text)) fail_msg("'%s' lacks '%s'", err.text, text);
}

static void test_a_missing_part_is_named(void **state)
{
    (void)state;
    remove(path[1]);
    expect_refused(path[0], FX_EIO,
                   "part 2 of 3: " STEM "-00002-of-00003.gguf: the file is missing");
}

static void test_a_broken_part_is_named(void **state)
{
    (void)state;
    assert_int_equal(truncate(path[1], 40), 0);
    expect_refused(path[2], FX_EFORMAT,
                   "part 2 of 3: " STEM "-00002-of-00003.gguf: 3 keys do not fit");
}

static void test_wrong_keys_are_named(void **state)
{
    (void)state;
    write_part(path[1], &(part_keys){1, 4, 2, "b"});
    expect_refused(path[0], FX_EFORMAT, "its keys say part 2 of 4, its name part 2 of 3");
    write_part(path[1], &(part_keys){2, 3, 2, "b"});
    expect_refused(path[0], FX_EFORMAT, "its keys say part 3 of 3, its name part 2 of 3");
    write_part(path[1], &(part_keys){7, 3, 2, "b"});
    expect_refused(path[1], FX_EFORMAT, "'split.no' and 'split.count': 7 of 3");
    write_part(path[1], &(part_keys){1, 3, 2, "a"});
    expect_refused(path[0], FX_EFORMAT, "part 3 of 3: tensor 'a' is in part 2 already");
    write_part(path[1], &(part_keys){1, 3, 2, "b"});
    write_part(path[0], &(part_keys){0, 3, 5, NULL});
    expect_refused(path[0], FX_EFORMAT,
                   "the 3 parts hold 2 tensors, key 'split.tensors.count' says 5");
}

static void test_a_renamed_part_is_named(void **state)
{
    (void)state;
    assert_int_equal(rename(path[1], STEM ".gguf"), 0);
    expect_refused(STEM ".gguf", FX_EFORMAT,
                   "is part 2 of 3, but its name does not end in -00002-of-00003.gguf");
    remove(STEM ".gguf");
}

FX_SUITE(test_gguf_split)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(test_any_part_opens_all, write_parts, remove_parts),
        cmocka_unit_test_setup_teardown(test_a_missing_part_is_named, write_parts, remove_parts),
        cmocka_unit_test_setup_teardown(test_a_broken_part_is_named, write_parts, remove_parts),
        cmocka_unit_test_setup_teardown(test_wrong_keys_are_named, write_parts, remove_parts),
        cmocka_unit_test_setup_teardown(test_a_renamed_part_is_named, write_parts, remove_parts),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
