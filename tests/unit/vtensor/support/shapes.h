// shapes.h - families of several groups: K and V of different widths, scales of two bytes, windows,
// recurrent state.
#ifndef VT_TEST_SHAPES_H
#define VT_TEST_SHAPES_H

#include "family.h"

enum { SHAPE_N_SETUP = 9, SHAPE_N_SEQ = 6 };

typedef enum shape_where {
    SHAPE_ON_HOST = 0,
    SHAPE_ON_FAKE,
    SHAPE_ON_DEVICE, // the fake, which runs kernels beside us
    SHAPE_ON_CUDA,
    SHAPE_N_WHERE
} shape_where;

// Setup number k.
family_setup shape_setup(uint32_t k, shape_where at, vt_layout layout, vt_mapper mapper);

#endif
