// fuzz.h - what a fuzz target defines. One file per target; fx_fuzz() in CMakeLists.txt makes a
// program of it: with the driver fuzz_main.c for every compiler, and with libFuzzer in the preset
// fuzz.
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text/buf.h"

// Runs one input. Returns 0; aborts if a property does not hold. The outcome of an input must not
// depend on the inputs before it.
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t n_bytes);

// Puts seed i, an input to start mutations from, into the empty *out. False: there are only i.
bool fuzz_seed(unsigned i, fxi_buf *out);

#define FUZZ_CHECK(condition)                                                          \
    do {                                                                               \
        if (condition) break;                                                          \
        fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
        abort();                                                                       \
    } while (0)

#endif
