// dial.h - a TCP connection as a client that waits no longer than it was told to.
//
// All waits are polls that a deadline and a file descriptor end. Looking a name up is the
// exception: libc's resolver has timeouts of its own. Any thread.
#ifndef FXI_BASE_DIAL_H
#define FXI_BASE_DIAL_H

#include <stddef.h>
#include <sys/types.h>

#include "base/net/url.h"

typedef struct fxi_patience {
    double until_s; // by fxi_now_s; INFINITY: for ever
    int stop_fd;    // readable: give up; -1: none
} fxi_patience;

// Connects to the URL's host and port, one address after the other. *out is the caller's to close,
// non-blocking. Errors: FX_EIO, with the reason.
fx_status fxi_dial_open(const fxi_url *url, const fxi_patience *wait, int *out, fx_error *err);

// Sends all of p[0..n). Errors: FX_EIO.
fx_status fxi_dial_send(int fd, const void *p, size_t n, const fxi_patience *wait, fx_error *err);

// Receives at least a byte and at most n. *got 0: the other side has closed. Errors: FX_EIO.
fx_status fxi_dial_receive(int fd, void *p, size_t n, size_t *got, const fxi_patience *wait,
                           fx_error *err);

#endif
