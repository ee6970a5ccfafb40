// protobuf_bytes.h - SentencePiece models for tests, as bytes.
#ifndef TESTS_PROTOBUF_BYTES_H
#define TESTS_PROTOBUF_BYTES_H

#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "base/text/buf.h"

static inline void pb_raw(fxi_buf *b, const void *p, size_t n)
{
    if (!fxi_buf_add(b, p, n)) abort();
}

static inline void pb_varint(fxi_buf *b, uint64_t v)
{
    unsigned char byte;
    do {
        byte = (unsigned char)((v & 0x7F) | (v > 0x7F ? 0x80 : 0));
        pb_raw(b, &byte, 1);
    } while (v >>= 7);
}

static inline void pb_number(fxi_buf *b, unsigned field, uint64_t v)
{
    pb_varint(b, field << 3);
    pb_varint(b, v);
}

static inline void pb_bytes(fxi_buf *b, unsigned field, const void *p, size_t n)
{
    pb_varint(b, field << 3 | 2);
    pb_varint(b, n);
    pb_raw(b, p, n);
}

static inline void pb_float(fxi_buf *b, unsigned field, float v)
{
    pb_varint(b, field << 3 | 5);
    pb_raw(b, &v, 4);
}

// A nested message; frees *inner.
static inline void pb_message(fxi_buf *b, unsigned field, fxi_buf *inner)
{
    pb_bytes(b, field, inner->p, inner->n);
    fxi_buf_free(inner);
}

static inline void pb_piece(fxi_buf *b, const char *text, float score, unsigned type)
{
    fxi_buf piece = {0};
    pb_bytes(&piece, 1, text, strlen(text));
    pb_float(&piece, 2, score);
    pb_number(&piece, 3, type);
    pb_message(b, 1, &piece);
}

#endif
