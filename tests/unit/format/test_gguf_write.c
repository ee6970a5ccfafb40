// The reader reads what the writer writes; a failure leaves no file.
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "format/gguf_write.h"
#include "unit/cmocka_all.h"

static const char path[] = FX_BINARY_DIR "/test_gguf_write.tmp";

static fxi_gguf_writer *open_writer(void)
{
    fxi_gguf_writer *w;
    assert_int_equal(fxi_gguf_writer_open(path, &w, NULL), FX_OK);
    return w;
}

static void write_sample(fxi_gguf_writer *w)
{
    const fxi_str strs[] = {{"one", 3}, {"", 0}, {"th\0ee", 5}};
    const float floats[] = {1.5f, -2};
    const int32_t ints[] = {7, -8, 9};
    const uint64_t one[] = {3}, two[] = {32, 2}; // 12 bytes, then 20 of padding
    unsigned char data[68];
    for (size_t i = 0; i < sizeof data; i++) data[i] = (unsigned char)i;
    fxi_gguf_write_u32(w, "u32", 4000000000u);
    fxi_gguf_write_f32(w, "f32", 0.25f);
    fxi_gguf_write_bool(w, "yes", true);
    fxi_gguf_write_bool(w, "no", false);
    fxi_gguf_write_str(w, "str", "text");
    fxi_gguf_begin_strs(w, "strs", 3);
    for (size_t i = 0; i < 3; i++) fxi_gguf_put_str(w, strs[i]);
    fxi_gguf_write_array(w, "f32s", FXI_GGUF_F32, floats, 2);
    fxi_gguf_write_array(w, "i32s", FXI_GGUF_I32, ints, 3);
    fxi_gguf_declare_tensor(w, "one", FXI_F32, 1, one);
    fxi_gguf_declare_tensor(w, "two", FXI_Q8_0, 2, two);
    fxi_gguf_begin_data(w);
    fxi_gguf_write_data(w, data, 12);
    fxi_gguf_write_data(w, data, 5); // in several calls
    fxi_gguf_write_data(w, data + 5, 63);
    assert_int_equal(fxi_gguf_writer_status(w), FX_OK);
}

static void check_keys(const fxi_gguf *g)
{
    uint32_t u = 0;
    bool yes = false, no = true;
    fxi_str s = {0};
    const fxi_gguf_kv *kv;
    assert_int_equal(fxi_gguf_u32(g, "u32", true, &u, NULL), FX_OK);
    assert_int_equal(fxi_gguf_bool(g, "yes", true, &yes, NULL), FX_OK);
    assert_int_equal(fxi_gguf_bool(g, "no", true, &no, NULL), FX_OK);
    assert_int_equal(fxi_gguf_str(g, "str", true, &s, NULL), FX_OK);
    assert_true(u == 4000000000u && fxi_gguf_float_at(fxi_gguf_find(g, "f32"), 0) == 0.25 && yes &&
                !no && fxi_str_is(s, "text"));
    assert_int_equal(fxi_gguf_array(g, "strs", true, FXI_GGUF_STR, &kv, NULL), FX_OK);
    const unsigned char *at = kv->value;
    assert_true(fxi_str_is(fxi_gguf_next_str(&at), "one"));
    assert_true(fxi_str_is(fxi_gguf_next_str(&at), ""));
    s = fxi_gguf_next_str(&at);
    assert_true(s.n == 5 && !memcmp(s.p, "th\0ee", 5));
    assert_int_equal(fxi_gguf_array(g, "f32s", true, FXI_GGUF_F32, &kv, NULL), FX_OK);
    assert_true(kv->n_elem == 2 && fxi_gguf_float_at(kv, 0) == 1.5 &&
                fxi_gguf_float_at(kv, 1) == -2);
    assert_int_equal(fxi_gguf_array(g, "i32s", true, FXI_GGUF_I32, &kv, NULL), FX_OK);
    assert_true(kv->n_elem == 3 && fxi_gguf_int_at(kv, 1) == -8);
}

FX_TEST(test_round_trip)
{
    fxi_gguf *g;
    fx_error err;
    fxi_gguf_writer *w = open_writer();
    write_sample(w);
    assert_int_equal(fxi_gguf_writer_finish(w, &err), FX_OK);
    if (fxi_gguf_open(path, &g, &err) != FX_OK) fail_msg("%s", err.text);
    assert_int_equal(fxi_gguf_version(g), 3);
    assert_int_equal(fxi_gguf_n_kv(g), 8);
    assert_int_equal(fxi_gguf_n_tensor(g), 2);
    check_keys(g);
    const fxi_gguf_tensor *one = fxi_gguf_find_tensor(g, "one"),
                          *two = fxi_gguf_find_tensor(g, "two");
    assert_int_equal(one->size_bytes, 12);
    assert_int_equal(two->size_bytes, 68);
    assert_int_equal(two->offset, 32);
    for (unsigned char i = 0; i < 68; i++)
        assert_int_equal(((const unsigned char *)two->data)[i], i);
    fxi_gguf_close(g);
    remove(path);
}

FX_TEST(test_every_64th_is_refused)
{
    fxi_gguf_writer *w = open_writer();
    write_sample(w);
    assert_int_equal(fxi_gguf_writer_finish(w, NULL), FX_OK);
    FILE *f = fopen(path, "rb");
    char whole[4096];
    size_t n = fread(whole, 1, sizeof whole, f);
    fclose(f);
    remove(path);
    n -= 28; // the padding after the last tensor, which is optional
    for (size_t i = 0; i < 64; i++) {
        size_t cut = n * i / 64;
        char *part = malloc(cut + 1);
        fxi_gguf *g;
        fx_error err = {0};
        memcpy(part, whole, cut);
        assert_int_equal(fxi_gguf_parse(part, cut, "cut", &g, &err), FX_EFORMAT);
        assert_true(!strncmp(err.text, "cut: ", 5) && !strchr(err.text, '\n'));
        free(part);
    }
}

// Also at the end of the file, which is as long as if they had been written.
FX_TEST(test_zeros_are_a_hole)
{
    enum { N = 4 << 20 };
    const uint64_t ne[] = {N};
    struct stat st;
    fxi_gguf *g;
    fxi_gguf_writer *w = open_writer();
    fxi_gguf_declare_tensor(w, "zeros", FXI_F32, 1, ne);
    fxi_gguf_begin_data(w);
    fxi_gguf_write_data(w, NULL, N * 4 - 8);
    fxi_gguf_write_data(w, NULL, 8);
    assert_int_equal(fxi_gguf_writer_finish(w, NULL), FX_OK);
    assert_int_equal(stat(path, &st), 0);
    assert_true(st.st_size > N * 4);
    assert_true(st.st_blocks * 512 < N);
    assert_int_equal(fxi_gguf_open(path, &g, NULL), FX_OK);
    const float *at = fxi_gguf_find_tensor(g, "zeros")->data;
    for (int i = 0; i < N; i++)
        if (at[i] != 0) fail_msg("number %d is not 0", i);
    fxi_gguf_close(g);
    remove(path);
}

FX_TEST(test_metadata_only)
{
    fxi_gguf *g;
    fxi_gguf_writer *w = open_writer();
    fxi_gguf_write_str(w, "k", "v");
    assert_int_equal(fxi_gguf_writer_finish(w, NULL), FX_OK);
    assert_int_equal(fxi_gguf_open(path, &g, NULL), FX_OK);
    assert_int_equal(fxi_gguf_n_kv(g), 1);
    assert_int_equal(fxi_gguf_n_tensor(g), 0);
    fxi_gguf_close(g);
    remove(path);
}

FX_TEST(test_misuse_leaves_no_file)
{
    static const struct {
        fxi_dtype type;
        uint32_t n_dim;
        uint64_t ne[2];
        bool begins;   // the data
        size_t n_data; // bytes written
        bool key;      // after the tensor
    } misuse[] = {
        {FXI_F32, 1, {4}, true, 3, false},                       // the tensor is not complete
        {FXI_F32, 1, {4}, true, 17, false},                      // more than it
        {FXI_F32, 1, {4}, false, 4, false},                      // before the data begin
        {FXI_F32, 1, {4}, false, 0, true},                       // a key too late
        {FXI_F32, 1, {0}, false, 0, false},                      // no numbers
        {FXI_F32, 2, {1ull << 62, 1ull << 62}, false, 0, false}, // too many
        {FXI_Q8_0, 1, {4}, false, 0, false},                     // a part of a block
    };
    for (size_t i = 0; i < sizeof misuse / sizeof *misuse; i++) {
        fx_error err = {0};
        fxi_gguf_writer *w = open_writer();
        fxi_gguf_declare_tensor(w, "t", misuse[i].type, misuse[i].n_dim, misuse[i].ne);
        if (misuse[i].begins) fxi_gguf_begin_data(w);
        if (misuse[i].n_data) fxi_gguf_write_data(w, "12345678901234567", misuse[i].n_data);
        if (misuse[i].key) fxi_gguf_write_u32(w, "k", 1);
        assert_int_equal(fxi_gguf_writer_finish(w, &err), FX_EINVAL);
        assert_memory_equal(err.text, path, sizeof path - 1);
        assert_int_not_equal(access(path, F_OK), 0);
    }
}

FX_TEST(test_no_room)
{
    fx_error err = {0};
    fxi_gguf_writer *w;
    assert_int_equal(fxi_gguf_writer_open("/nonexistent/x", &w, &err), FX_EIO);
    if (access("/dev/full", W_OK)) return;
    assert_int_equal(fxi_gguf_writer_open("/dev/full", &w, &err), FX_OK);
    fxi_gguf_write_str(w, "k", "v");
    assert_int_equal(fxi_gguf_writer_finish(w, &err), FX_EIO);
    assert_string_equal(err.text, "/dev/full: No space left on device");
    assert_int_equal(access("/dev/full", F_OK), 0); // a device is not removed
}

FX_RUN(test_gguf_write)
