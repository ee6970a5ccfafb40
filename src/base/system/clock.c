// clock.c - CLOCK_MONOTONIC in seconds.
#include "base/system/clock.h"

#include <time.h>

double fxi_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}
