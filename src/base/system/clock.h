// clock.h - a monotonic clock, and the CPU time of a thread.
#ifndef FXI_BASE_CLOCK_H
#define FXI_BASE_CLOCK_H

#include <pthread.h>
#include <stdint.h>
#include <time.h>

// Since one arbitrary moment.
double fxi_now_s(void);
uint64_t fxi_now_ns(void);
uint64_t fxi_monotonic_us(void *ud); // as a replaceable clock; ud is not used
// The CPU time that the calling thread has used: what it did, not what it waited for.
double fxi_thread_cpu_s(void);
uint64_t fxi_thread_cpu_ns(void);
// The moment in s >= 0 seconds, for waits on CLOCK_MONOTONIC.
struct timespec fxi_clock_after(double s);
void fxi_cond_init(pthread_cond_t *cond); // whose timed waits are on CLOCK_MONOTONIC

#endif
