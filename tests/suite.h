// suite.h - the suites of a test program. A test file defines one suite, named after the file;
// CMake's fx_suites() lists the suites of a program, and suite_main.c runs them.
#ifndef TESTS_SUITE_H
#define TESTS_SUITE_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h> // needs those above

// FX_SUITE(test_x) { .. }: runs the tests of a file. Returns 0 if all passed, SUITE_SKIPPED if none
// can run here, else how many failed, as cmocka_run_group_tests does.
#define FX_SUITE(name) \
    int name(void);    \
    int name(void)

enum { SUITE_SKIPPED = 77 };

// Whether sweeps run at full length: FX_TEST_LONG is set, as ./check --long does.
int suite_is_long(void);

// Whether a sweep takes its case i: one of `every` cases; all if suite_is_long.
int suite_takes(size_t i, size_t every);

typedef struct suite {
    const char *name;
    int (*run)(void);
} suite;

// What CMake generates for a program; the last one has no name.
extern const suite suite_list[];

#endif
