// daemon.h - MHD's daemon.
#ifndef FXI_SERVER_DAEMON_H
#define FXI_SERVER_DAEMON_H

#include "flexinfer/error.h"

struct fxi_server;
struct fxi_server_options;

// Whether the files of the options' certificate can be read, if they name one. Errors: FX_EIO,
// FX_EINVAL, FX_ENOMEM.
fx_status fxi_daemon_check(const struct fxi_server_options *opt, fx_error *err);

// Starts MHD on srv->listen_fd, with TLS if the options name a certificate. Errors: FX_EIO (a PEM
// file cannot be read), FX_EINVAL (certificate and key), FX_ENOMEM, FX_EINTERNAL.
fx_status fxi_daemon_start(struct fxi_server *srv, fx_error *err);

#endif
