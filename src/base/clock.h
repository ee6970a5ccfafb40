// clock.h - time that never goes back.
#ifndef FXI_BASE_CLOCK_H
#define FXI_BASE_CLOCK_H

double fxi_now_s(void); // seconds since some moment in the past

#endif
