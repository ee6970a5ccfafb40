// test_safetensors.c - safetensors files: what is there is read, and each way to be broken is named
// in one line.
#include "suite.h"
#include "unit/cmocka_all.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/buf.h"
#include "format/hf/hf_files.h"

static const char sound[] =
    "{\"__metadata__\": {\"format\": \"pt\"}, "
    "\"b\": {\"dtype\": \"BF16\", \"shape\": [2, 3], \"data_offsets\": [4, 16]}, "
    "\"a\": {\"dtype\": \"F32\", \"shape\": [], \"data_offsets\": [0, 4]}, "
    "\"c\": {\"dtype\": \"F8_E4M3\", \"shape\": [0, 7], \"data_offsets\": [16, 16]}}    ";

enum { N_DATA = 16 };

static fxi_buf file_of(const char *header, size_t n_data)
{
    fxi_buf b = {0};
    const uint64_t n = strlen(header);
    assert_true(fxi_buf_add(&b, &n, sizeof n) && fxi_buf_add(&b, header, n));
    for (size_t i = 0; i < n_data; i++) {
        const char c = (char)i;
        assert_true(fxi_buf_add(&b, &c, 1));
    }
    return b;
}

static void test_what_is_there_is_read(void **state)
{
    (void)state;
    fxi_safetensors s;
    fx_error err;
    fxi_buf b = file_of(sound, N_DATA);
    if (fxi_safetensors_parse(b.p, b.n, "x", &s, &err) != FX_OK) fail_msg("%s", err.text);
    assert_int_equal(s.n_tensor, 3);
    assert_string_equal(s.tensor[0].name, "a");
    assert_int_equal(s.tensor[0].n_elem, 1);
    assert_int_equal(s.tensor[0].n_dim, 0);
    const fxi_st_tensor *t = &s.tensor[1];
    assert_string_equal(t->name, "b");
    assert_int_equal(t->type, FXI_ST_BF16);
    assert_true(t->n_dim == 2 && t->dim[0] == 2 && t->dim[1] == 3 && t->size_bytes == 12);
    assert_int_equal(t->data[0], 4);
    fxi_safetensors_close(&s);
    fxi_buf_free(&b);
}

static void expect_broken(const char *header, size_t n_data, const char *text)
{
    fxi_safetensors s;
    fx_error err = {0};
    fxi_buf b = file_of(header, n_data);
    assert_int_equal(fxi_safetensors_parse(b.p, b.n, "x", &s, &err), FX_EFORMAT);
    if (strncmp(err.text, "x: ", 3) || !strstr(err.text, text) || strchr(err.text, '\n'))
        fail_msg("'%s' lacks '%s'", err.text, text);
    fxi_safetensors_close(&s);
    fxi_buf_free(&b);
}

#define ONE(dtype, shape, offsets) \
    "{\"t\": {\"dtype\": " dtype ", \"shape\": " shape ", \"data_offsets\": " offsets "}}"
#define TWO(offsets)                                                           \
    "{\"t\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": [0, 4]}, " \
    "\"u\": {\"dtype\": \"F32\", \"shape\": [1], \"data_offsets\": " offsets "}}"

static void test_broken_headers_are_named(void **state)
{
    (void)state;
    static const struct {
        const char *header;
        size_t n_data;
        const char *error;
    } cases[] = {
        {"", 0, "the header is not JSON"},
        {"[]", 0, "the header is not an object"},
        {"{\"t\": 1}", 0, "tensor 't': is not an object"},
        {"{\"t\": {}}", 0, "tensor 't': has no dtype"},
        {"{\"t\": {\"dtype\": \"F32\"}}", 0, "tensor 't': has no shape"},
        {ONE("\"Q4\"", "[1]", "[0, 4]"), 4, "has the unknown type 'Q4'"},
        {ONE("\"F32\"", "[1.5]", "[0, 4]"), 4, "dimension 0 is not a count"},
        {ONE("\"F32\"", "[-1]", "[0, 4]"), 4, "dimension 0 is not a count"},
        {ONE("\"F32\"", "[1,1,1,1,1,1,1,1,1]", "[0, 4]"), 4, "has 9 dimensions"},
        {ONE("\"F32\"", "[4294967296, 4294967296]", "[0, 4]"), 4, "product is too large"},
        {ONE("\"F32\"", "[4611686018427387904]", "[0, 4]"), 4, "is not a count"},
        {ONE("\"F32\"", "[1]", "[0]"), 4, "data_offsets are not two counts"},
        {ONE("\"F32\"", "[1]", "[4, 0]"), 4, "bytes 4 to 0 are not within the 4 bytes"},
        {ONE("\"F32\"", "[1]", "[0, 8]"), 4, "bytes 0 to 8 are not within the 4 bytes"},
        {ONE("\"F32\"", "[2]", "[0, 4]"), 4, "4 bytes of data for 2 numbers of type F32"},
        {ONE("\"F32\"", "[1]", "[0, 4]"), 6, "the last 2 bytes belong to no tensor"},
        {TWO("[2, 6]"), 6, "tensor 'u': overlaps tensor 't'"},
        {TWO("[6, 10]"), 10, "tensor 'u': 2 bytes before it belong to no tensor"},
        {"{\"t\": {}, \"t\": {}}", 0, "duplicate object key"},
        {"{\"t\\u0000\": {}}", 0, "the header is not JSON"},
        {"{\"\": {\"dtype\": \"F32\"}}", 0, "a name of 0 bytes"},
        {"{\"t\": [[[[[[[[[]]]]]]]]]}", 0, "deep"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++)
        expect_broken(cases[i].header, cases[i].n_data, cases[i].error);
}

static void test_cut_anywhere(void **state)
{
    (void)state;
    fxi_buf b = file_of(sound, N_DATA);
    for (size_t n = 0; n < b.n; n++) {
        fxi_safetensors s;
        fx_error err = {0};
        char *part = malloc(n + 1); // so that reading past it is caught
        memcpy(part, b.p, n);
        assert_int_equal(fxi_safetensors_parse(part, n, "cut", &s, &err), FX_EFORMAT);
        assert_true(!strncmp(err.text, "cut: ", 5) && !strchr(err.text, '\n'));
        fxi_safetensors_close(&s);
        free(part);
    }
    fxi_buf_free(&b);
}

static void test_huge_headers(void **state)
{
    (void)state;
    fxi_safetensors s;
    fx_error err;
    const uint64_t huge[2] = {UINT64_MAX, 0}, large[2] = {1000, 0};
    assert_int_equal(fxi_safetensors_parse(huge, 16, "x", &s, &err), FX_EFORMAT);
    assert_non_null(strstr(err.text, "a header of 18446744073709551615 bytes"));
    fxi_safetensors_close(&s);
    assert_int_equal(fxi_safetensors_parse(large, 16, "x", &s, &err), FX_EFORMAT);
    assert_non_null(strstr(err.text, "ends inside the header of 1000 bytes (8 left)"));
    fxi_safetensors_close(&s);
    enum { N = 3000000 };
    char *commas = malloc(N + 1); // would become a tree of hundreds of megabytes
    memset(commas, ',', N);
    commas[0] = '[';
    commas[N] = 0;
    expect_broken(commas, 0, "values");
    free(commas);
}

FX_SUITE(test_safetensors)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_what_is_there_is_read),
        cmocka_unit_test(test_broken_headers_are_named),
        cmocka_unit_test(test_cut_anywhere),
        cmocka_unit_test(test_huge_headers),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
