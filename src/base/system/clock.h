// clock.h - a monotonic clock, and that of a thread's work.
#ifndef FXI_BASE_CLOCK_H
#define FXI_BASE_CLOCK_H

#include <stdint.h>
#include <time.h>

// Since one arbitrary moment.
double fxi_now_s(void);
uint64_t fxi_now_ns(void);
// The processor time of the calling thread so far: what it did, not what it waited for.
uint64_t fxi_thread_ns(void);
// The moment in s >= 0 seconds, for waits on CLOCK_MONOTONIC.
struct timespec fxi_clock_after(double s);

#endif
