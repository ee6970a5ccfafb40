// shapes.h - managers of several groups: K and V of different widths, scales of two bytes, windows,
// recurrent state, on every backend, beside a slow and obvious reference: an array of tokens for
// each sequence. There is one at a time.
//
// The content of a row is a function of the tokens up to it and its plane, that of a state a
// function of all tokens. So the bytes of every row are known that a window has not passed, whether
// it was written, matched, forked or swapped in, and of which length a state is. A match may begin
// only where something was recorded, and with a state only where one was.
#ifndef VT_TEST_SHAPES_H
#define VT_TEST_SHAPES_H

#include <stdbool.h>

#include "vmm_fake.h"
#include "vmm_fault.h"
#include "vtensor/vtensor.h"

enum {
    SHAPE_N_SEQ = 6,
    SHAPE_MAX_TOK = 240,
    SHAPE_MAX_TALE = 300,
    SHAPE_MAX_PLANE = 8,
    SHAPE_N_SETUP = 7
};

typedef enum shape_where {
    SHAPE_ON_HOST = 0,
    SHAPE_ON_FAKE,
    SHAPE_ON_DEVICE, // the fake, which runs kernels beside us
    SHAPE_ON_CUDA,
    SHAPE_N_WHERE
} shape_where;

typedef struct shape_setup {
    const char *name;
    uint32_t n_group;
    vt_group group[4];
    uint64_t budget_bytes; // in chunks of the first group; UINT64_MAX: no limit
    bool swap;
} shape_setup;

extern const shape_setup shapes_all[SHAPE_N_SETUP];

// Errors end the test.
void shapes_open(const shape_setup *sh, shape_where at, vt_layout layout, vt_mapper mapper,
                 uint64_t seed);
void shapes_close(void); // and nothing may be left, and no rule broken

// Does something, drawn at random, to a sequence, drawn at random, and disarms the fault backend.
// Not faulty: only a lack of space may be answered.
void shapes_step(bool faulty);

// Operation number `op` on the sequence at `place`, with draws of its own; the last one makes a
// sequence there. VT_OK if there is none, or is one already; else what the operation answers.
vt_status shapes_run_op(uint32_t op, uint32_t place, uint64_t seed);
bool shapes_has_op(uint32_t op);
bool shapes_release_lost(void); // false: there is none

void shapes_look(void);   // every byte that can be read, beside whatever the mapper does
void shapes_verify(void); // the same, vt_check, and sums; disarms the fault backend

vt_vmm *shapes_fault(void);
vt_manager *shapes_manager(void);

#endif
