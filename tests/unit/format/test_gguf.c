// test_gguf.c - GGUF files. Valid files are read as written; the error for each way of breaking one
// is a line that names the place. Broken files are heap blocks of exactly their size, so a
// sanitizer detects any byte read past the end. Any part of a file in parts opens all of them; what
// is missing, foreign or twice is named with its part. Rows of a tensor that is made on demand are
// made once, by several threads, and only those that were asked for.
#include <ctype.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/gguf/gguf_made.h"
#include "format/gguf_write.h"
#include "unit/cmocka_all.h"
#include "unit/format/gguf_bytes.h"

// ---- one file -----------------------------------------------------------------------------------

static fx_status parse_copy(const void *data, size_t n, char **copy, fxi_gguf **g, fx_error *err)
{
    *copy = malloc(n ? n : 1);
    memcpy(*copy, data, n);
    return fxi_gguf_parse(*copy, n, "mem.gguf", g, err);
}

static fxi_gguf *must_parse(const fxi_buf *b)
{
    fxi_gguf *g;
    fx_error err;
    if (fxi_gguf_parse(b->p, b->n, "mem.gguf", &g, &err) != FX_OK) fail_msg("%s", err.text);
    return g;
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

FX_TEST(test_sound_files)
{
    check_sound(2);
    check_sound(3);
}

FX_TEST(test_trailing_bytes_and_no_padding)
{
    fxi_buf b = {0};
    put_header(&b, 3, 0, 1); // metadata only, its end is not aligned
    put_kv(&b, "k", FXI_GGUF_U8, "\5", 1);
    fxi_gguf_close(must_parse(&b));
    put_bytes(&b, "trailing", 8);
    fxi_gguf_close(must_parse(&b));
    fxi_buf_free(&b);
}

// The first tensor in the list need not be the first in the data; other alignments are respected.
FX_TEST(test_alignment_and_order)
{
    fxi_buf b = {0};
    const uint64_t ne[1] = {2};
    put_header(&b, 3, 2, 1);
    put_kv(&b, "general.alignment", FXI_GGUF_U32, &(uint32_t){8}, 4);
    put_tensor(&b, "late", 1, ne, FXI_F32, 8);
    put_tensor(&b, "early", 1, ne, FXI_F32, 0);
    pad_to(&b, 8);
    put_zeros(&b, 16);
    fxi_gguf *g = must_parse(&b);
    assert_ptr_equal(fxi_gguf_find_tensor(g, "late")->data, b.p + b.n - 8);
    assert_ptr_equal(fxi_gguf_find_tensor(g, "early")->data, b.p + b.n - 16);
    fxi_gguf_close(g);
    fxi_buf_free(&b);
}

FX_TEST(test_many_names)
{
    enum { N = 5000 };
    fxi_buf b = {0};
    char name[16];
    put_header(&b, 3, 0, N);
    for (uint32_t i = 0; i < N; i++) {
        snprintf(name, sizeof name, "k%u", (i * 7919) % N);
        put_kv(&b, name, FXI_GGUF_U32, &(uint32_t){(i * 7919) % N}, 4);
    }
    fxi_gguf *g = must_parse(&b);
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

FX_TEST(test_truncated_at_every_byte)
{
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

FX_TEST(test_spoilt_fields)
{
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
FX_TEST(test_long_hostile_names_are_shown_short)
{
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
        {"f32", FXI_GGUF_F32, {.f = 1.5f}, 4},       {"f64", FXI_GGUF_F64, {.d = -0.25}, 8},
        {"yes", FXI_GGUF_BOOL, {.u = 1}, 1},
    };
    fxi_buf b = {0};
    put_header(&b, 3, 0, sizeof kv / sizeof *kv);
    for (size_t i = 0; i < sizeof kv / sizeof *kv; i++)
        put_kv(&b, kv[i].key, kv[i].type, &kv[i].v, kv[i].n);
    return b;
}

FX_TEST(test_scalars)
{
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
    fxi_buf b = file_of_scalars();
    fx_error err;
    fxi_gguf *g = must_parse(&b);
    for (size_t i = 0; i < sizeof ints / sizeof *ints; i++) {
        uint32_t v = 0;
        assert_int_equal(fxi_gguf_u32(g, ints[i].key, true, &v, &err), ints[i].st);
        assert_int_equal(v, ints[i].v);
        if (ints[i].st != FX_OK) expect_line(&err, ints[i].key, "u32");
    }
    assert_true(fxi_gguf_float_at(fxi_gguf_find(g, "f32"), 0) == 1.5);
    assert_true(fxi_gguf_float_at(fxi_gguf_find(g, "f64"), 0) == -0.25);
    assert_true(fxi_gguf_int_at(fxi_gguf_find(g, "i16"), 0) == -32768);
    assert_true(fxi_gguf_int_at(fxi_gguf_find(g, "i64"), 0) == 1ll << 32);
    fxi_gguf_close(g);
    fxi_buf_free(&b);
}

FX_TEST(test_absent_keys)
{
    fxi_buf b = file_of_scalars();
    fx_error err;
    fxi_gguf *g = must_parse(&b);
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

FX_TEST(test_strings_and_arrays)
{
    size_t mark[N_MARK];
    fxi_buf b = sound_file(3, mark);
    fx_error err;
    fxi_str s;
    bool yes = false;
    const fxi_gguf_kv *kv;
    fxi_gguf *g = must_parse(&b);
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

FX_TEST(test_open)
{
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

// ---- files in parts -----------------------------------------------------------------------------

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

static int write_parts(__attribute__((unused)) void **state)
{
    for (int i = 0; i < N_PART; i++) write_part(path[i], &sound[i]);
    return 0;
}

static int remove_parts(__attribute__((unused)) void **state)
{
    for (int i = 0; i < N_PART; i++) remove(path[i]);
    return 0;
}

FX_TEST_WITH(test_any_part_opens_all, write_parts, remove_parts)
{
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

FX_TEST_WITH(test_parts_that_do_not_fit_are_named, write_parts, remove_parts)
{
    static const struct {
        part_keys first, second; // what parts 1 and 2 say
        int opened;
        const char *says;
    } cases[] = {
        {{0, 3, 2, NULL}, {1, 4, 2, "b"}, 0, "its keys say part 2 of 4, its name part 2 of 3"},
        {{0, 3, 2, NULL}, {2, 3, 2, "b"}, 0, "its keys say part 3 of 3, its name part 2 of 3"},
        {{0, 3, 2, NULL}, {7, 3, 2, "b"}, 1, "'split.no' and 'split.count': 7 of 3"},
        {{0, 3, 2, NULL}, {1, 3, 2, "a"}, 0, "part 3 of 3: tensor 'a' is in part 2 already"},
        {{0, 3, 5, NULL},
         {1, 3, 2, "b"},
         0,
         "the 3 parts hold 2 tensors, key 'split.tensors.count' says 5"},
    };
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        write_part(path[0], &cases[i].first);
        write_part(path[1], &cases[i].second);
        expect_refused(path[cases[i].opened], FX_EFORMAT, cases[i].says);
    }
    write_parts(NULL);
    assert_int_equal(truncate(path[1], 40), 0);
    expect_refused(path[2], FX_EFORMAT,
                   "part 2 of 3: " STEM "-00002-of-00003.gguf: 3 keys do not fit");
    remove(path[1]);
    expect_refused(path[0], FX_EIO,
                   "part 2 of 3: " STEM "-00002-of-00003.gguf: the file is missing");
    write_part(STEM ".gguf", &sound[1]);
    expect_refused(STEM ".gguf", FX_EFORMAT,
                   "is part 2 of 3, but its name does not end in -00002-of-00003.gguf");
    remove(STEM ".gguf");
}

// ---- tensors made on demand ---------------------------------------------------------------------

enum { N_COL = 96, N_ROW = 20000, N_THREAD = 3 };

typedef struct counts {
    const fxi_gguf *g;
    atomic_int of_row[N_ROW];
    atomic_int n_call;
    int n_made, n_closed;
} counts;

static const void *no_place(void *ud, uint64_t i)
{
    (void)ud, (void)i;
    return NULL;
}

static float number_of(uint64_t row, uint64_t col)
{
    return (float)(row * N_COL + col);
}

static void make_numbers(void *ud, uint64_t i, uint64_t row, uint64_t n_row, void *dst)
{
    counts *c = ud;
    float *to = dst;
    assert_int_equal(i, 0);
    atomic_fetch_add(&c->n_call, 1);
    for (uint64_t r = row; r < row + n_row; r++) {
        atomic_fetch_add(&c->of_row[r], 1);
        for (uint64_t k = 0; k < N_COL; k++) *to++ = number_of(r, k);
    }
}

static void count_made(void *ud, uint64_t i)
{
    counts *c = ud;
    assert_int_equal(i, 0);
    c->n_made++;
}

static void count_closed(void *ud)
{
    ((counts *)ud)->n_closed++;
}

static fxi_gguf *present_numbers(counts *c)
{
    const fxi_gguf_maker maker = {.ud = c,
                                  .place = no_place,
                                  .make = make_numbers,
                                  .made = count_made,
                                  .close = count_closed};
    fxi_gguf_writer *w;
    fxi_buf head = {0};
    fxi_gguf *g;
    fx_error err;
    assert_int_equal(fxi_gguf_writer_open_memory("made", &w, &err), FX_OK);
    fxi_gguf_declare_tensor(w, "numbers", FXI_F32, 2, (const uint64_t[]){N_COL, N_ROW});
    assert_int_equal(fxi_gguf_writer_take_head(w, &head, &err), FX_OK);
    if (fxi_gguf_present("made", &head, &maker, &g, &err) != FX_OK) fail_msg("%s", err.text);
    return g;
}

// Rows [from, end) are made once, the others not; then they are forgotten.
static void fetch_rows(counts *c, fxi_gguf *g, uint64_t from, uint64_t end, fxi_pool *pool)
{
    const fxi_gguf_tensor *t = fxi_gguf_tensor_at(g, 0);
    const uint64_t row_bytes = N_COL * sizeof(float), n_bytes = (end - from) * row_bytes;
    const float *v = t->data;
    fx_error err;
    c->n_made = 0;
    assert_int_equal(fxi_gguf_fetch(g, t, from * row_bytes, n_bytes, pool, &err), FX_OK);
    for (uint64_t r = 0; r < N_ROW; r++) {
        assert_int_equal(c->of_row[r], r >= from && r < end);
        c->of_row[r] = 0;
    }
    for (uint64_t r = from; r < end; r++)
        for (uint64_t k = 0; k < N_COL; k++)
            if (v[r * N_COL + k] != number_of(r, k)) fail_msg("row %d", (int)r);
    assert_int_equal(c->n_made, 1);
    fxi_gguf_drop(g, (const char *)t->data + from * row_bytes, n_bytes);
}

FX_TEST(test_threads_make_each_row_once)
{
    static counts c;
    fxi_pool *pool;
    fx_error err;
    fxi_gguf *g = present_numbers(&c);
    assert_int_equal(fxi_pool_create(N_THREAD, &pool, &err), FX_OK);
    fetch_rows(&c, g, 0, N_ROW, pool);
    assert_true(c.n_call > N_THREAD); // tasks for all of them
    fetch_rows(&c, g, 7, 1234, pool);
    fetch_rows(&c, g, N_ROW - 1, N_ROW, pool);
    c.n_call = 0;
    fetch_rows(&c, g, 3, N_ROW - 5, NULL);
    assert_int_equal(c.n_call, 1);
    fxi_pool_destroy(pool);
    fxi_gguf_close(g);
    assert_int_equal(c.n_closed, 1);
}

FX_RUN(test_gguf)
