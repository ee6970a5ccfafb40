// listen.h - the listening socket.
#ifndef FXI_SERVER_LISTEN_H
#define FXI_SERVER_LISTEN_H

#include "flexinfer/error.h"

// Whether `host` is an IPv4 or IPv6 address, or "localhost". Error: FX_EINVAL.
fx_status fxi_listen_check(const char *host, fx_error *err);
// Binds and listens; *port becomes the port that it listens on. Errors: FX_EINVAL (not an address),
// FX_EIO ("cannot listen on 127.0.0.1:8080: Address already in use").
fx_status fxi_listen_open(const char *host, int *port, int *fd, fx_error *err);

#endif
