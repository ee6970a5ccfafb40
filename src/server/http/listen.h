// listen.h - the socket that the server listens on: of an address, or of a file.
#ifndef FXI_SERVER_LISTEN_H
#define FXI_SERVER_LISTEN_H

#include <sys/types.h>

#include "flexinfer/error.h"

enum { FXI_HOST_BYTES = 120 }; // of a host, with its NUL

typedef struct fxi_listener {
    int fd;   // -1: it does not listen
    int port; // 0: a file's
    dev_t device;
    ino_t file; // a file's: that which was made
} fxi_listener;

// Whether `host` is an IPv4 or IPv6 address, "localhost", or "unix:" and a path. Error: FX_EINVAL.
fx_status fxi_listen_check(const char *host, fx_error *err);
// Binds and listens; the port, 0 for any, becomes that which it listens on. A file gets these
// permissions before anybody can connect; one that a server left and on which nobody listens is
// replaced. Errors: FX_EINVAL (not an address), FX_EIO ("cannot listen on 127.0.0.1:8080: Address
// already in use").
fx_status fxi_listen_open(const char *host, int port, mode_t mode, fxi_listener *out,
                          fx_error *err);
// Removes a file, unless another one is there now.
void fxi_listen_close(fxi_listener *l, const char *host);

#endif
