// Valid files are read as written; the error for each way of breaking one is a line that names the
// place. Broken files are heap blocks of exactly their size, so a sanitizer detects any byte read
// past the end.
#include <ctype.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cmocka.h>

#include "suite.h"
#include "unit/format/gguf_bytes.h"

static fx_status parse_copy(const void *data, size_t n, char **copy, fxi_gguf **g, fx_error *err)
{
    *copy = malloc(n ? n : 1);
    memcpy(*copy, data, n);
    return fxi_gguf_parse(*copy, n, "mem.gguf", g, err);
}

static void expect_line(const fx_error *err, const char *expected, const char *label)
{
    bool ok = !strncmp(err->text, "mem.gguf: ", 10) && strstr(err->text, expected);
    for (const char *c = err->text; *c; c++) ok &= isprint((unsigned char)*c) != 0;
    if (!ok) fail_msg("%s: \"%s\" does not say \"%s\"", label, err->text, expected);
}

static void expect_bad(const void *data, size_t n, const char *expected, const char *label)
{
    char *copy;
    fxi_gguf *g = NULL;
    fx_error err;
    fx_status st = parse_copy(data, n, &copy, &g, &err);
    if (st != FX_EFORMAT) fail_msg("%s: status %d, FX_EFORMAT expected", label, (int)st);
    assert_null(g);
    assert_int_equal(err.status, FX_EFORMAT);
    expect_line(&err, expected, label);
    free(copy);
}

static void expect_str(fxi_str s, const char *text)
{
    if (!fxi_str_is(s, text)) fail_msg("'%.*s' is not '%s'", (int)s.n, s.p, text);
}

//
// Valid files
//

static void check_sound(uint32_t version)
{
    size_t mark[N_MARK];
    fxi_buf b = sound_file(version, mark);
    fxi_gguf *g;
    char *copy;
    assert_int_equal(parse_copy(b.p, b.n, &copy, &g, NULL), FX_OK);
    assert_string_equal(fxi_gguf_name(g), "mem.gguf");
    assert_int_equal(fxi_gguf_version(g), version);
    assert_int_equal(fxi_gguf_size(g), b.n);
    assert_int_equal(fxi_gguf_n_kv(g), 6);
    assert_int_equal(fxi_gguf_n_tensor(g), 2);
    expect_str(fxi_gguf_kv_at(g, 1)->key, "k.str");
    const fxi_gguf_tensor *one = fxi_gguf_find_tensor(g, "t.one"),
                          *two = fxi_gguf_find_tensor(g, "t.two");
    assert_ptr_equal(one, fxi_gguf_tensor_at(g, 0));
    assert_int_equal(one->n_dim, 2);
    assert_int_equal(one->ne[0], 4);
    assert_int_equal(one->ne[1], 2);
    assert_int_equal(one->ne[2], 1);
    assert_int_equal(one->size_bytes, 32);
    assert_memory_equal(one->data, b.p + mark[AT_DATA], 32);
    assert_string_equal(two->type->name, "Q8_0");
    assert_int_equal(two->size_bytes, 34);
    assert_ptr_equal(two->data, copy + mark[AT_DATA] + 32);
    assert_null(fxi_gguf_find_tensor(g, "t.on"));
    assert_null(fxi_gguf_find(g, "k.in"));
    fxi_gguf_close(g);
    free(copy);
    fxi_buf_free(&b);
}

static void test_sound_files(void **state)
{
    (void)state;
    check_sound(2);
    check_sound(3);
}

static void test_trailing_bytes_and_no_padding(void **state)
{
    (void)state;
    fxi_buf b = {0};
    fxi_gguf *g;
    put_header(&b, 3, 0, 1); // metadata only, its end is not aligned
    put_kv(&b, "k", FXI_GGUF_U8, "\5", 1);
    assert_int_equal(fxi_gguf_parse(b.p, b.n, "m", &g, NULL), FX_OK);
    fxi_gguf_close(g);
    put_bytes(&b, "trailing", 8);
    assert_int_equal(fxi_gguf_parse(b.p, b.n, "m", &g, NULL), FX_OK);
    fxi_gguf_close(g);
    fxi_buf_free(&b);
}

// The first tensor in the list need not be the first in the data; other alignments are respected.
static void test_alignment_and_order(void **state)
{
    (void)state;
    fxi_buf b = {0};
    fxi_gguf *g;
    const uint64_t ne[1] = {2};
    put_header(&b, 3, 2, 1);
    put_kv(&b, "general.alignment", FXI_GGUF_U32, &(uint32_t){8}, 4);
    put_tensor(&b, "late", 1, ne, FXI_F32, 8);
    put_tensor(&b, "early", 1, ne, FXI_F32, 0);
    pad_to(&b, 8);
    put_zeros(&b, 16);
    assert_int_equal(fxi_gguf_parse(b.p, b.n, "m", &g, NULL), FX_OK);
    assert_ptr_equal(fxi_gguf_find_tensor(g, "late")->data, b.p + b.n - 8);
    assert_ptr_equal(fxi_gguf_find_tensor(g, "early")->data, b.p + b.n - 16);
    fxi_gguf_close(g);
    fxi_buf_free(&b);
}

static void test_many_names(void **state)
{
    (void)state;
    enum { N = 5000 };
    fxi_buf b = {0};
    fxi_gguf *g;
    char name[16];
    put_header(&b, 3, 0, N);
    for (uint32_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "k%u", (i * 7919) % N);
        put_kv(&b, name, FXI_GGUF_U32, &(uint32_t){(i * 7919) % N}, 4);
    }
    assert_int_equal(fxi_gguf_parse(b.p, b.n, "m", &g, NULL), FX_OK);
    for (uint32_t i = 0; i < N; i++) {
        uint32_t v;
        snprintf(name, sizeof name, "k%u", i);
        assert_int_equal(fxi_gguf_u32(g, name, true, &v, NULL), FX_OK);
        assert_int_equal(v, i);
    }
    fxi_gguf_close(g);
    fxi_buf_free(&b);
}

//
// Broken files
//

static void test_truncated_at_every_byte(void **state)
{
    (void)state;
    size_t mark[N_MARK];
    fxi_buf b = sound_file(3, mark);
    char label[48];
    for (size_t n = 0; n < b.n; n++) {
        snprintf(label, sizeof label, "first %zu bytes", n);
        expect_bad(b.p, n, "", label);
    }
    fxi_buf_free(&b);
}

// Offsets from an entry's length field: after key "k.int" of 5 bytes its type is at 8 + 5, its
// value at 17.
static const struct {
    field at;
    int skip, n_bytes;
    uint64_t value;
    const char *expected;
} spoil[] = {
    {AT_START, 0, 1, 'g', "not a GGUF file: it begins with 'gGUF'"},
    {AT_START, 0, 4, 0x0A1B00FF, "begins with '\\xFF\\x00\\x1B\\x0A'"},
    {AT_VERSION, 0, 4, 0, "GGUF version 0"},
    {AT_VERSION, 0, 4, 1, "GGUF version 1 at byte 4"},
    {AT_VERSION, 0, 4, 4, "GGUF version 4"},
    {AT_VERSION, 0, 4, 0x03000000, "big-endian"},
    {AT_N_KV, 0, 8, UINT64_MAX, "18446744073709551615 keys do not fit"},
    {AT_N_KV, 0, 8, UINT64_MAX / 14 + 2, "keys do not fit"},
    {AT_N_KV, 0, 8, 7, ""},
    {AT_N_TENSOR, 0, 8, UINT64_MAX - 1, "18446744073709551614 tensors do not fit"},
    {AT_N_TENSOR, 0, 8, 1ull << 61, "tensors do not fit"},
    {AT_N_TENSOR, 0, 8, 3, ""},
    {AT_KEY, 0, 8, UINT64_MAX, "the file ends inside a key at byte 32"},
    {AT_KEY, 0, 8, UINT64_MAX - 31, "the file ends inside a key"},
    {AT_KEY, 0, 8, 0, "a key at byte 24 has 0 bytes"},
    {AT_KEY, 9, 1, 0, "'k\\x00int') contains a NUL byte"},
    {AT_KEY, 13, 4, 13, "key 'k.int': unknown value type 13 at byte 37"},
    {AT_KEY, 13, 4, UINT32_MAX, "key 'k.int': unknown value type 4294967295"},
    {AT_STR, 17, 8, UINT64_MAX, "the file ends inside a string value"},
    {AT_STR, 10, 3, 'i' | 'n' << 8 | 't' << 16, "key 'k.int' appears twice"},
    {AT_INTS, 18, 4, FXI_GGUF_ARRAY, "key 'k.ints': arrays of arrays are not supported"},
    {AT_INTS, 18, 4, 77, "key 'k.ints': unknown value type 77"},
    {AT_INTS, 22, 8, UINT64_MAX, "key 'k.ints': an array of 18446744073709551615 elements"},
    {AT_INTS, 22, 8, (UINT64_MAX >> 2) + 1,
     "key 'k.ints': an array of 4611686018427387904 elements"},
    {AT_STRS, 22, 8, UINT64_MAX / 8, "key 'k.strs': an array of"},
    {AT_STRS, 30, 8, UINT64_MAX - 7, "the file ends inside a string value"},
    {AT_BOOL, 18, 1, 2, "key 'k.bool': the bool at byte"},
    {AT_ALIGNMENT, 29, 4, 0, "key 'general.alignment': 0 is not a power of two"},
    {AT_ALIGNMENT, 29, 4, 48, "key 'general.alignment': 48 is not a power of two"},
    {AT_ALIGNMENT, 29, 4, 4, "key 'general.alignment': 4 is"},
    {AT_ALIGNMENT, 29, 4, 1u << 31, "key 'general.alignment': 2147483648 is"},
    {AT_ALIGNMENT, 29, 4, 1 << 20, "the file ends inside the padding"},
    {AT_ALIGNMENT, 25, 4, FXI_GGUF_F32, "key 'general.alignment' is of type f32, not an integer"},
    {AT_ONE, 0, 8, 256, "a tensor's name at byte"},
    {AT_ONE, 10, 3, 't' | 'w' << 8 | 'o' << 16, "tensor 't.two' appears twice"},
    {AT_ONE, 13, 4, 0, "tensor 't.one' has 0 dimensions"},
    {AT_ONE, 13, 4, 5, "tensor 't.one' has 5 dimensions"},
    {AT_ONE, 13, 4, UINT32_MAX, "tensor 't.one' has 4294967295 dimensions"},
    {AT_ONE, 17, 8, 0, "tensor 't.one': a dimension is 0"},
    {AT_ONE, 25, 8, 1ull << 60, "tensor 't.one': its dimensions' product is too large"},
    {AT_ONE, 17, 8, UINT64_MAX, "tensor 't.one': its dimensions' product is too large"},
    {AT_ONE, 25, 8, 1ull << 59,
     "tensor 't.one': offset 0 with 9223372036854775808 bytes is past the end"},
    {AT_ONE, 33, 4, 4, "tensor 't.one' has the unknown type 4"},
    {AT_ONE, 33, 4, 12345, "tensor 't.one' has the unknown type 12345"},
    {AT_ONE, 33, 4, FXI_Q8_0,
     "tensor 't.one': rows of 4 numbers are not a multiple of Q8_0's block of 32"},
    {AT_ONE, 37, 8, 32, "tensors 't.one' and 't.two' overlap at offset 32"},
    {AT_TWO, 29, 8, 0, "overlap at offset 0"},
    {AT_TWO, 29, 8, 33, "tensor 't.two': offset 33 is not a multiple of the alignment 32"},
    {AT_TWO, 29, 8, 64, "tensor 't.two': offset 64 with 34 bytes is past the end of the file"},
    {AT_TWO, 29, 8, -(uint64_t)32,
     "tensor 't.two': offset 18446744073709551584 with 34 bytes is past the end"},
    {AT_TWO, 17, 8, 64, "tensor 't.two': offset 32 with 68 bytes is past the end"},
};

static void test_spoilt_fields(void **state)
{
    (void)state;
    size_t mark[N_MARK];
    fxi_buf sound = sound_file(3, mark);
    for (size_t i = 0; i < sizeof spoil / sizeof *spoil; i++) {
        fxi_buf b = {0};
        put_bytes(&b, sound.p, sound.n);
        memcpy(b.p + mark[spoil[i].at] + spoil[i].skip, &spoil[i].value, (size_t)spoil[i].n_bytes);
        expect_bad(b.p, b.n, spoil[i].expected, spoil[i].expected);
        fxi_buf_free(&b);
    }
    fxi_buf_free(&sound);
}

// A name from the file is cut and escaped in the error.
static void test_long_hostile_names_are_shown_short(void **state)
{
    (void)state;
    fxi_buf b = {0};
    char name[5000];
    memset(name, '\n', sizeof name - 1);
    name[sizeof name - 1] = 0;
    put_header(&b, 3, 0, 1);
    put_kv(&b, name, 99, "", 0);
    put_zeros(&b, 64);
    expect_bad(b.p, b.n, "\\x0A...': unknown value type 99", "newlines in a key");
    fxi_buf_free(&b);
}

//
// Typed readers
//

static fxi_buf file_of_scalars(void)
{
    static const struct {
        const char *key;
        fxi_gguf_type type;
        union {
            uint64_t u;
            double d;
            float f;
        } v;
        size_t n;
    } kv[] = {
        {"u8", FXI_GGUF_U8, {.u = 200}, 1},          {"i8", FXI_GGUF_I8, {.u = 0xFF}, 1},
        {"u16", FXI_GGUF_U16, {.u = 65535}, 2},      {"i16", FXI_GGUF_I16, {.u = 0x8000}, 2},
        {"u32", FXI_GGUF_U32, {.u = UINT32_MAX}, 4}, {"i32", FXI_GGUF_I32, {.u = 5}, 4},
        {"u64", FXI_GGUF_U64, {.u = UINT64_MAX}, 8}, {"i64", FXI_GGUF_I64, {.u = 1ull << 32}, 8},
        {"f32", FXI_GGUF_F32, {.f = 1.5f}, 4},       {"nan", FXI_GGUF_F32, {.u = 0x7FC00000}, 4},
        {"f64", FXI_GGUF_F64, {.d = -0.25}, 8},      {"big", FXI_GGUF_F64, {.d = 1e300}, 8},
        {"yes", FXI_GGUF_BOOL, {.u = 1}, 1},
    };
    fxi_buf b = {0};
    put_header(&b, 3, 0, sizeof kv / sizeof *kv);
    for (size_t i = 0; i < sizeof kv / sizeof *kv; i++)
        put_kv(&b, kv[i].key, kv[i].type, &kv[i].v, kv[i].n);
    return b;
}

static void test_scalars(void **state)
{
    (void)state;
    static const struct {
        const char *key;
        fx_status st;
        uint32_t v;
    } ints[] = {
        {"u8", FX_OK, 200},     {"i8", FX_EFORMAT, 0},      {"u16", FX_OK, 65535},
        {"i16", FX_EFORMAT, 0}, {"u32", FX_OK, UINT32_MAX}, {"i32", FX_OK, 5},
        {"u64", FX_EFORMAT, 0}, {"i64", FX_EFORMAT, 0},     {"f32", FX_EFORMAT, 0},
        {"yes", FX_EFORMAT, 0}, {"none", FX_EFORMAT, 0},
    };
    static const struct {
        const char *key;
        fx_status st;
        float v;
    } floats[] = {{"f32", FX_OK, 1.5f},   {"f64", FX_OK, -0.25f}, {"big", FX_EFORMAT, 0},
                  {"nan", FX_EFORMAT, 0}, {"i8", FX_OK, -1},      {"yes", FX_EFORMAT, 0}};
    fxi_buf b = file_of_scalars();
    fxi_gguf *g;
    fx_error err;
    assert_int_equal(fxi_gguf_parse(b.p, b.n, "mem.gguf", &g, &err), FX_OK);
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        uint32_t v = 0;
        assert_int_equal(fxi_gguf_u32(g, ints[i].key, true, &v, &err), ints[i].st);
        assert_int_equal(v, ints[i].v);
        if (ints[i].st != FX_OK) expect_line(&err, ints[i].key, "u32");
    }
    for (size_t i = 0; i < sizeof floats / sizeof *floats; i++) {
        float v = 0;
        assert_int_equal(fxi_gguf_f32(g, floats[i].key, true, &v, &err), floats[i].st);
        assert_true(v == floats[i].v);
        if (floats[i].st != FX_OK) expect_line(&err, floats[i].key, "f32");
    }
    assert_true(fxi_gguf_int_at(fxi_gguf_find(g, "i16"), 0) == -32768);
    assert_true(fxi_gguf_int_at(fxi_gguf_find(g, "i64"), 0) == 1ll << 32);
    fxi_gguf_close(g);
    fxi_buf_free(&b);
}

static void test_absent_keys(void **state)
{
    (void)state;
    fxi_buf b = file_of_scalars();
    fxi_gguf *g;
    fx_error err;
    assert_int_equal(fxi_gguf_parse(b.p, b.n, "mem.gguf", &g, &err), FX_OK);
    uint32_t v = 42;
    bool yes = true;
    fxi_str s = {"kept", 4};
    const fxi_gguf_kv *kv;
    assert_int_equal(fxi_gguf_u32(g, "none", false, &v, &err), FX_OK);
    assert_int_equal(v, 42);
    assert_int_equal(fxi_gguf_bool(g, "none", false, &yes, &err), FX_OK);
    assert_true(yes);
    assert_int_equal(fxi_gguf_str(g, "none", false, &s, &err), FX_OK);
    expect_str(s, "kept");
    assert_int_equal(fxi_gguf_array(g, "none", false, FXI_GGUF_STR, &kv, &err), FX_OK);
    assert_null(kv);
    assert_int_equal(fxi_gguf_str(g, "none", true, &s, &err), FX_EFORMAT);
    expect_line(&err, "missing key 'none'", "must");
    fxi_gguf_close(g);
    fxi_buf_free(&b);
}

static void test_strings_and_arrays(void **state)
{
    (void)state;
    size_t mark[N_MARK];
    fxi_buf b = sound_file(3, mark);
    fxi_gguf *g;
    fx_error err;
    fxi_str s;
    bool yes = false;
    const fxi_gguf_kv *kv;
    assert_int_equal(fxi_gguf_parse(b.p, b.n, "mem.gguf", &g, &err), FX_OK);
    assert_int_equal(fxi_gguf_str(g, "k.str", true, &s, &err), FX_OK);
    expect_str(s, "hello");
    assert_int_equal(fxi_gguf_bool(g, "k.bool", true, &yes, &err), FX_OK);
    assert_true(yes);
    assert_int_equal(fxi_gguf_array(g, "k.ints", true, FXI_GGUF_I32, &kv, &err), FX_OK);
    assert_int_equal(kv->n_elem, 3);
    assert_true(fxi_gguf_int_at(kv, 0) == -1 && fxi_gguf_int_at(kv, 2) == 70000);
    assert_int_equal(fxi_gguf_array(g, "k.strs", true, FXI_GGUF_STR, &kv, &err), FX_OK);
    const unsigned char *at = kv->value;
    expect_str(fxi_gguf_next_str(&at), "x");
    expect_str(fxi_gguf_next_str(&at), "yy");
    assert_int_equal(fxi_gguf_array(g, "k.ints", true, FXI_GGUF_F32, &kv, &err), FX_EFORMAT);
    expect_line(&err, "key 'k.ints' is an array of i32, not an array of f32", "array");
    assert_int_equal(fxi_gguf_str(g, "k.ints", true, &s, &err), FX_EFORMAT);
    expect_line(&err, "key 'k.ints' is an array of i32, not a string", "str");
    assert_int_equal(fxi_gguf_bool(g, "k.str", true, &yes, &err), FX_EFORMAT);
    expect_line(&err, "key 'k.str' is of type string, not a bool", "bool");
    fxi_gguf_close(g);
    fxi_buf_free(&b);
}

//
// Files
//

static void expect_open(const char *path, fx_status st, const char *expected)
{
    fxi_gguf *g = NULL;
    fx_error err = {0};
    assert_int_equal(fxi_gguf_open(path, &g, &err), st);
    if (st != FX_OK && (strncmp(err.text, path, strlen(path)) || !strstr(err.text, expected)))
        fail_msg("\"%s\" does not say \"%s: .. %s\"", err.text, path, expected);
    fxi_gguf_close(g);
}

static void write_file(const char *path, const void *p, size_t n)
{
    FILE *f = fopen(path, "wb");
    assert_non_null(f);
    assert_int_equal(fwrite(p, 1, n, f), n);
    assert_int_equal(fclose(f), 0);
}

static void test_open(void **state)
{
    (void)state;
    static const char path[] = FX_BINARY_DIR "/test_gguf.tmp";
    size_t mark[N_MARK];
    fxi_buf b = sound_file(3, mark);
    write_file(path, b.p, b.n);
    expect_open(path, FX_OK, "");
    write_file(path, b.p, 10);
    expect_open(path, FX_EFORMAT, "too short for a GGUF file: 10 bytes");
    write_file(path, "", 0);
    expect_open(path, FX_EFORMAT, "the file is empty");
    remove(path);
    expect_open(path, FX_EIO, "No such file or directory");
    expect_open(FX_BINARY_DIR, FX_EIO, "is a directory");
    expect_open("/dev/null", FX_EIO, "not a regular file");
    assert_int_equal(mkfifo(path, 0600), 0);
    expect_open(path, FX_EIO, "not a regular file");
    remove(path);
    fxi_buf_free(&b);
}

FX_SUITE(test_gguf)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_sound_files),
        cmocka_unit_test(test_trailing_bytes_and_no_padding),
        cmocka_unit_test(test_alignment_and_order),
        cmocka_unit_test(test_many_names),
        cmocka_unit_test(test_truncated_at_every_byte),
        cmocka_unit_test(test_spoilt_fields),
        cmocka_unit_test(test_long_hostile_names_are_shown_short),
        cmocka_unit_test(test_scalars),
        cmocka_unit_test(test_absent_keys),
        cmocka_unit_test(test_strings_and_arrays),
        cmocka_unit_test(test_open),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
