// patience.h - a wait for a file descriptor that a deadline and another descriptor end.
#ifndef FXI_BASE_PATIENCE_H
#define FXI_BASE_PATIENCE_H

#include "flexinfer/error.h"

typedef struct fxi_patience {
    double until_s; // by fxi_now_s; INFINITY: for ever
    int stop_fd;    // readable: give up; -1: none
} fxi_patience;

// Waits until fd is ready for these events of poll. Errors: FX_EIO, with the reason.
fx_status fxi_patience_wait(const fxi_patience *wait, int fd, short events, fx_error *err);

#endif
