// clock.h - a monotonic clock.
#ifndef FXI_BASE_CLOCK_H
#define FXI_BASE_CLOCK_H

double fxi_now_s(void); // seconds since an arbitrary moment

#endif
