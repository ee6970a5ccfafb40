// qblock.h - GGUF's block formats unpacked: the fields of a block of quantised numbers, in one form
// for all types.
//
// Number i of a block is
//
//     types of 32:             d x (value(code[i]) - zero) [+ m]
//     types of 256 (_K, _XS):  d x sc[j] x (value(code[i]) - zero) [- m x mn[j]],   j = i / sub
//
// value(code) is the code itself or, in IQ4_NL, IQ4_XS and MXFP4, an entry of a table of 16. d and
// m are stored as f16; MXFP4 stores the exponent of d (E8M0 of OCP's Microscaling formats; codes
// are its E2M1). The formats are GGUF's, as published: files of other programs are read exactly.
#ifndef FXI_BASE_QBLOCK_H
#define FXI_BASE_QBLOCK_H

#include "base/number/dtype.h"

#define FXI_QBLOCK_MAX 256 // numbers in a block at most

// A block's fields; those its type does not have are 0, except codes from its n on.
typedef struct fxi_qblock {
    uint16_t d, m;                // f16; MXFP4: d is a power of two as bf16
    int8_t sc[16];                // scales of the runs of `sub` numbers, _K types
    uint8_t mn[16];               // their offsets
    uint8_t code[FXI_QBLOCK_MAX]; // 0 .. 2^bits - 1
} fxi_qblock;

typedef struct fxi_qformat {
    fxi_dtype type;
    int n;                                            // numbers in a block: 32 or 256
    int sub;                                          // numbers that share a scale: 32 or 16
    int bits;                                         // of a code
    int zero;                                         // the value that means 0
    bool has_min;                                     // m (and mn) are used
    int sc_min, sc_max;                               // range of sc; mn is 0 .. sc_max
    void (*read)(const void *block, fxi_qblock *out); // block: at any address
    void (*write)(const fxi_qblock *in, void *block);
    const uint8_t *value; // [16], of the codes; NULL: codes are values
    bool d_bf16;          // d is bf16, a power of two
} fxi_qformat;

// The tables, on their zeros: IQ4_NL and IQ4_XS are 128 + -127 .. 113, MXFP4 is 12 + 2 x E2M1.
enum { FXI_IQ4_ZERO = 128, FXI_E2M1_ZERO = 12 };
extern const uint8_t fxi_iq4_values[16], fxi_e2m1_values[16];

// value(code) - zero.
static inline int fxi_qformat_value(const fxi_qformat *f, int code)
{
    return (f->value ? f->value[code] : code) - f->zero;
}

// d as f32.
float fxi_qformat_scale(const fxi_qformat *f, uint16_t d);

// NULL for types that are not made of such blocks.
const fxi_qformat *fxi_qformat_find(fxi_dtype type);

// Dequantises a block to dst [n].
void fxi_qblock_to_f32(const fxi_qformat *f, const fxi_qblock *in, float *dst);

// A block close to x [n]: scales are searched for, not just taken from the largest number. The same
// bits on every machine. Numbers beyond the format's range become its largest. Pre: x is finite.
void fxi_qblock_from_f32(const fxi_qformat *f, const float *x, fxi_qblock *out);

#endif
