// dial.h - a connection as a client that waits no longer than it was told to: TCP, or TLS over it.
//
// All waits are polls that a deadline and a file descriptor end. Looking a name up is the
// exception: libc's resolver has timeouts of its own. A line is one thread's at a time.
#ifndef FXI_BASE_DIAL_H
#define FXI_BASE_DIAL_H

#include <stddef.h>

#include "base/net/patience.h"
#include "base/net/tls.h"
#include "base/net/url.h"

typedef struct fxi_link {
    int fd;       // -1: there is none
    fxi_tls *tls; // NULL: plain TCP
} fxi_link;

// Connects to the URL's host and port, one address after the other, and shakes hands for an https
// URL. trust: whom it believes then; not needed for http. *out is the caller's to close, also after
// an error. Errors: FX_EIO, with the reason; FX_ENOMEM.
fx_status fxi_dial_open(const fxi_url *url, const fxi_trust *trust, const fxi_patience *wait,
                        fxi_link *out, fx_error *err);
void fxi_dial_close(fxi_link *line);

// Sends all of p[0..n). Errors: FX_EIO.
fx_status fxi_dial_send(const fxi_link *line, const void *p, size_t n, const fxi_patience *wait,
                        fx_error *err);

// Receives at least a byte and at most n. *got 0: the other side has closed. Errors: FX_EIO.
fx_status fxi_dial_receive(const fxi_link *line, void *p, size_t n, size_t *got,
                           const fxi_patience *wait, fx_error *err);

#endif
