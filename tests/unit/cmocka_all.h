// cmocka_all.h - cmocka with what its header wants included before it, and tests that list
// themselves:
//
//     FX_TEST(test_sums)
//     {
//         assert_int_equal(1 + 1, 2);
//     }
//
//     FX_RUN(test_numbers)
//
// FX_RUN is the suite of the file (tests/suite.h): it runs the tests in their order.
#ifndef TESTS_CMOCKA_ALL_H
#define TESTS_CMOCKA_ALL_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

enum { MAX_LISTED_TEST = 64 };

static struct CMUnitTest listed_tests[MAX_LISTED_TEST] __attribute__((unused));
static int n_listed_test __attribute__((unused));

// setup, teardown: of this test alone.
#define FX_TEST_WITH(name, setup, teardown)                              \
    static void name(void **state);                                      \
    __attribute__((constructor)) static void name##_list(void)           \
    {                                                                    \
        listed_tests[n_listed_test++] =                                  \
            (struct CMUnitTest){#name, name, (setup), (teardown), NULL}; \
    }                                                                    \
    static void name(__attribute__((unused)) void **state)

#define FX_TEST(name) FX_TEST_WITH(name, NULL, NULL)

#define FX_RUN(name) FX_RUN_GROUP(name, NULL, NULL)

// setup and teardown once, around all tests.
#define FX_RUN_GROUP(name, setup, teardown)                                       \
    int name(void);                                                               \
    int name(void)                                                                \
    {                                                                             \
        return cmocka_run_group_tests_name(#name, listed_tests, setup, teardown); \
    }

// setup and teardown around every test.
#define FX_RUN_EACH(name, setup, teardown)                                   \
    int name(void);                                                          \
    int name(void)                                                           \
    {                                                                        \
        for (int i = 0; i < n_listed_test; i++) {                            \
            listed_tests[i].setup_func = (setup);                            \
            listed_tests[i].teardown_func = (teardown);                      \
        }                                                                    \
        return cmocka_run_group_tests_name(#name, listed_tests, NULL, NULL); \
    }

#endif
