// protobuf.h - Protocol Buffers on the wire, read field by field.
//
//     fxi_pb pb = fxi_pb_of(bytes, n);
//     fxi_pb_field f;
//     while (fxi_pb_next(&pb, &f)) ...        // f.number, f.wire, f.value or f.bytes
//     if (pb.bad) ...                         // what is wrong, at byte pb.at
//
// A message is a sequence of fields: a key (number << 3 | wire type), then a value by the wire
// type. A nested message is bytes; read it with an fxi_pb of its own. Nothing is copied.
#ifndef FXI_FORMAT_PROTOBUF_H
#define FXI_FORMAT_PROTOBUF_H

#include <stdint.h>

#include "base/text/str.h"

typedef enum fxi_pb_wire {
    FXI_PB_VARINT = 0,
    FXI_PB_I64 = 1,
    FXI_PB_BYTES = 2, // strings and messages
    FXI_PB_I32 = 5,
} fxi_pb_wire;

typedef struct fxi_pb {
    const unsigned char *p;
    size_t n, at;    // at <= n: the next byte, or where reading stopped
    const char *bad; // NULL, or what is wrong at byte `at`
} fxi_pb;

typedef struct fxi_pb_field {
    uint32_t number; // from 1
    fxi_pb_wire wire;
    uint64_t value; // of the wire types VARINT, I64, I32
    fxi_str bytes;  // of BYTES
} fxi_pb_field;

// Starts at the first byte of a message, which must outlive the reading.
fxi_pb fxi_pb_of(const void *p, size_t n);

// Reads the next field. False at the end of the message, or where it is broken (pb->bad is set).
bool fxi_pb_next(fxi_pb *pb, fxi_pb_field *f);

#endif
