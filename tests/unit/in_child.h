// in_child.h - runs a part of a test in a child of fork(2).
#ifndef TEST_IN_CHILD_H
#define TEST_IN_CHILD_H

#include "unit/cmocka_all.h"

#include <sys/wait.h>
#include <unistd.h>

enum { CHILD_S = 20 };

// Runs fn in a child, which ends with 0 and within CHILD_S seconds or is ended by its alarm.
static inline void run_in_child(void (*fn)(void *of), void *of)
{
    int status = -1;
    pid_t child = fork();
    assert_true(child >= 0);
    if (child == 0) {
        alarm(CHILD_S);
        fn(of);
        _exit(0);
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
}

#endif
