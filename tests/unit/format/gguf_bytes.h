// gguf_bytes.h - GGUF files assembled byte by byte, valid or broken, for tests. Independent of the
// writer under test. The positions of fields that tests corrupt are kept as marks.
#ifndef TESTS_GGUF_BYTES_H
#define TESTS_GGUF_BYTES_H

#include <stdlib.h>
#include <string.h>

#include "base/text/buf.h"
#include "format/gguf.h"

static inline void put_bytes(fxi_buf *b, const void *p, size_t n)
{
    if (!fxi_buf_add(b, p, n)) abort();
}

static inline void put_u32(fxi_buf *b, uint32_t v)
{
    put_bytes(b, &v, sizeof v);
}

static inline void put_u64(fxi_buf *b, uint64_t v)
{
    put_bytes(b, &v, sizeof v);
}

static inline void put_text(fxi_buf *b, const char *s)
{
    put_u64(b, strlen(s));
    put_bytes(b, s, strlen(s));
}

static inline void put_header(fxi_buf *b, uint32_t version, uint64_t n_tensor, uint64_t n_kv)
{
    put_bytes(b, "GGUF", 4);
    put_u32(b, version);
    put_u64(b, n_tensor);
    put_u64(b, n_kv);
}

static inline void put_kv(fxi_buf *b, const char *key, fxi_gguf_type type, const void *value,
                          size_t n)
{
    put_text(b, key);
    put_u32(b, type);
    put_bytes(b, value, n);
}

static inline void put_array(fxi_buf *b, const char *key, fxi_gguf_type elem_type, uint64_t n)
{
    put_text(b, key);
    put_u32(b, FXI_GGUF_ARRAY);
    put_u32(b, elem_type);
    put_u64(b, n);
}

static inline void put_tensor(fxi_buf *b, const char *name, uint32_t n_dim, const uint64_t *ne,
                              uint32_t type, uint64_t offset)
{
    put_text(b, name);
    put_u32(b, n_dim);
    put_bytes(b, ne, n_dim * sizeof *ne);
    put_u32(b, type);
    put_u64(b, offset);
}

static inline void put_zeros(fxi_buf *b, size_t n)
{
    while (n--) put_bytes(b, "", 1);
}

static inline void pad_to(fxi_buf *b, size_t alignment)
{
    while (b->n % alignment) put_bytes(b, "", 1);
}

typedef enum field {
    AT_START,
    AT_VERSION,
    AT_N_TENSOR,
    AT_N_KV,
    AT_KEY,       // "k.int", a u32
    AT_STR,       // "k.str", "hello"
    AT_INTS,      // "k.ints", three i32
    AT_STRS,      // "k.strs", "x" and "yy"
    AT_BOOL,      // "k.bool"
    AT_ALIGNMENT, // "general.alignment", a u32
    AT_ONE,       // tensor "t.one", F32 [4, 2] at 0
    AT_TWO,       // tensor "t.two", Q8_0 [32] at 32
    AT_DATA,      // the first byte of tensor data
    N_MARK
} field;

// A valid file with every kind of entry. mark[f]: the position of the key or name length that
// begins entry f.
static inline fxi_buf sound_file(uint32_t version, size_t mark[N_MARK])
{
    fxi_buf b = {0};
    const uint64_t one[2] = {4, 2}, two[1] = {32};
    const int32_t ints[3] = {-1, 0, 70000};
    mark[AT_START] = 0, mark[AT_VERSION] = 4, mark[AT_N_TENSOR] = 8, mark[AT_N_KV] = 16;
    put_header(&b, version, 2, 6);
    mark[AT_KEY] = b.n;
    put_kv(&b, "k.int", FXI_GGUF_U32, &(uint32_t){7}, 4);
    mark[AT_STR] = b.n;
    put_kv(&b, "k.str", FXI_GGUF_STR, "", 0);
    put_text(&b, "hello");
    mark[AT_INTS] = b.n;
    put_array(&b, "k.ints", FXI_GGUF_I32, 3);
    put_bytes(&b, ints, sizeof ints);
    mark[AT_STRS] = b.n;
    put_array(&b, "k.strs", FXI_GGUF_STR, 2);
    put_text(&b, "x");
    put_text(&b, "yy");
    mark[AT_BOOL] = b.n;
    put_kv(&b, "k.bool", FXI_GGUF_BOOL, "\1", 1);
    mark[AT_ALIGNMENT] = b.n;
    put_kv(&b, "general.alignment", FXI_GGUF_U32, &(uint32_t){32}, 4);
    mark[AT_ONE] = b.n;
    put_tensor(&b, "t.one", 2, one, FXI_F32, 0);
    mark[AT_TWO] = b.n;
    put_tensor(&b, "t.two", 1, two, FXI_Q8_0, 32);
    pad_to(&b, 32);
    mark[AT_DATA] = b.n;
    for (int i = 0; i < 8; i++) put_bytes(&b, &(float){(float)i}, 4);
    put_zeros(&b, sizeof(fxi_block_q8_0));
    return b;
}

#endif
