// clock.c - CLOCK_MONOTONIC and CLOCK_THREAD_CPUTIME_ID, in seconds and in nanoseconds.
#include "base/system/clock.h"

uint64_t fxi_now_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

double fxi_now_s(void)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

uint64_t fxi_monotonic_us(void *ud)
{
    (void)ud;
    return (uint64_t)(fxi_now_s() * 1e6);
}

uint64_t fxi_thread_cpu_ns(void)
{
    struct timespec t;
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

double fxi_thread_cpu_s(void)
{
    return 1e-9 * (double)fxi_thread_cpu_ns();
}

struct timespec fxi_clock_after(double s)
{
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    const long long ns = t.tv_nsec + (long long)(s * 1e9);
    t.tv_sec += ns / 1000000000;
    t.tv_nsec = ns % 1000000000;
    return t;
}

void fxi_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}
