// clock.c - CLOCK_MONOTONIC and CLOCK_THREAD_CPUTIME_ID, in seconds and in nanoseconds.
#include "base/system/clock.h"

#define NS_PER_S 1000000000u

static uint64_t read_clock_ns(clockid_t clock)
{
    struct timespec t;
    clock_gettime(clock, &t);
    return (uint64_t)t.tv_sec * NS_PER_S + (uint64_t)t.tv_nsec;
}

uint64_t fxi_now_ns(void)
{
    return read_clock_ns(CLOCK_MONOTONIC);
}

double fxi_now_s(void)
{
    return 1e-9 * (double)fxi_now_ns();
}

uint64_t fxi_monotonic_us(void *ud)
{
    (void)ud;
    return fxi_now_ns() / 1000;
}

uint64_t fxi_thread_cpu_ns(void)
{
    return read_clock_ns(CLOCK_THREAD_CPUTIME_ID);
}

double fxi_thread_cpu_s(void)
{
    return 1e-9 * (double)fxi_thread_cpu_ns();
}

struct timespec fxi_clock_after(double s)
{
    const uint64_t ns = fxi_now_ns() + (uint64_t)(s * 1e9);
    return (struct timespec){(time_t)(ns / NS_PER_S), (long)(ns % NS_PER_S)};
}

void fxi_cond_init(pthread_cond_t *cond)
{
    pthread_condattr_t attr;
    pthread_condattr_init(&attr);
    pthread_condattr_setclock(&attr, CLOCK_MONOTONIC);
    pthread_cond_init(cond, &attr);
    pthread_condattr_destroy(&attr);
}
