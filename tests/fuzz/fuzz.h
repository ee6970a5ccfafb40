// fuzz.h - what a fuzz target defines. The program `fuzz` has all targets, and runs them with any
// compiler (fuzz_main.c). The preset fuzz also makes a program of each with libFuzzer.
#ifndef TESTS_FUZZ_H
#define TESTS_FUZZ_H

#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "base/text/buf.h"

// Announces the two functions of a target:
//   NAME_run    runs one input and returns 0; aborts if a property does not hold. The outcome must
//               not depend on the inputs before it.
//   NAME_seed   puts seed i, an input to start mutations from, into the empty *out; false: there
//               are only i seeds
#define FUZZ_TARGET(name)                                \
    int name##_run(const uint8_t *data, size_t n_bytes); \
    bool name##_seed(unsigned i, fxi_buf *out)

// The seeds of a target, as texts.
#define FUZZ_SEEDS(name, ...)                                                  \
    bool name##_seed(unsigned i, fxi_buf *out)                                 \
    {                                                                          \
        static const char *const seeds[] = {__VA_ARGS__};                      \
        return i < sizeof seeds / sizeof *seeds && fxi_buf_str(out, seeds[i]); \
    }

// The same, with ' for each quote of a text.
#define FUZZ_JSON_SEEDS(name, ...)                                         \
    bool name##_seed(unsigned i, fxi_buf *out)                             \
    {                                                                      \
        static const char *const seeds[] = {__VA_ARGS__};                  \
        if (i >= sizeof seeds / sizeof *seeds) return false;               \
        for (const char *c = seeds[i]; *c; c++)                            \
            if (!fxi_buf_add(out, *c == '\'' ? "\"" : c, 1)) return false; \
        return true;                                                       \
    }

#define FUZZ_CHECK(condition)                                                          \
    do {                                                                               \
        if (condition) break;                                                          \
        fprintf(stderr, "%s:%d: does not hold: %s\n", __FILE__, __LINE__, #condition); \
        abort();                                                                       \
    } while (0)

#endif
