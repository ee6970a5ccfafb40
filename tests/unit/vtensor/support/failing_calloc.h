// failing_calloc.h - a countdown to the failure of calloc, for programs linked with --wrap=calloc.
#ifndef TESTS_FAILING_CALLOC_H
#define TESTS_FAILING_CALLOC_H

#include <stdint.h>

// How many calls of calloc still succeed; UINT64_MAX: all of them.
extern uint64_t n_alloc_left;

#endif
