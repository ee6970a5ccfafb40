// protobuf.c - Protocol Buffers on the wire: keys, numbers, runs of bytes.
#include "format/vocab/read/protobuf.h"

fxi_pb fxi_pb_of(const void *p, size_t n)
{
    return (fxi_pb){.p = p, .n = n};
}

static bool fail_message(fxi_pb *pb, const char *what)
{
    pb->bad = what;
    return false;
}

// Seven bits per byte, the lowest first; the eighth says that more follow.
static bool read_varint(fxi_pb *pb, uint64_t *v)
{
    *v = 0;
    for (unsigned shift = 0; shift < 70; shift += 7) {
        if (pb->at == pb->n) return fail_message(pb, "the message ends inside a number");
        const unsigned char byte = pb->p[pb->at++];
        if (shift == 63 && byte > 1) break;
        *v |= (uint64_t)(byte & 0x7F) << shift;
        if (byte < 0x80) return true;
    }
    return fail_message(pb, "a number has more than 64 bits");
}

static bool read_fixed(fxi_pb *pb, unsigned n_bytes, uint64_t *v)
{
    if (pb->n - pb->at < n_bytes) return fail_message(pb, "the message ends inside a number");
    *v = 0;
    for (unsigned i = 0; i < n_bytes; i++) *v |= (uint64_t)pb->p[pb->at + i] << (8 * i);
    pb->at += n_bytes;
    return true;
}

static bool read_run(fxi_pb *pb, fxi_str *s)
{
    uint64_t n;
    if (!read_varint(pb, &n)) return false;
    if (n > pb->n - pb->at) return fail_message(pb, "a field is longer than what is left");
    *s = (fxi_str){(const char *)pb->p + pb->at, n};
    pb->at += n;
    return true;
}

bool fxi_pb_next(fxi_pb *pb, fxi_pb_field *f)
{
    uint64_t key;
    if (pb->bad || pb->at == pb->n || !read_varint(pb, &key)) return false;
    if (key >> 3 == 0 || key >> 3 > UINT32_MAX)
        return fail_message(pb, "a field has no valid number");
    *f = (fxi_pb_field){.number = (uint32_t)(key >> 3), .wire = (fxi_pb_wire)(key & 7)};
    switch (f->wire) {
    case FXI_PB_VARINT: return read_varint(pb, &f->value);
    case FXI_PB_I64: return read_fixed(pb, 8, &f->value);
    case FXI_PB_I32: return read_fixed(pb, 4, &f->value);
    case FXI_PB_BYTES: return read_run(pb, &f->bytes);
    }
    return fail_message(pb, "a field has an unknown wire type");
}
