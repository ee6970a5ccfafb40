// tls.h - the client's side of TLS over a connected socket, by GnuTLS: TLS 1.2 or 1.3, the server's
// certificate checked against its host's name and the authorities that one trusts.
#ifndef FXI_BASE_TLS_H
#define FXI_BASE_TLS_H

#include <stddef.h>

#include "base/net/patience.h"

typedef struct fxi_trust fxi_trust; // authorities; read only, so any number of threads may share it
typedef struct fxi_tls fxi_tls;     // one connection; one thread at a time

// Reads the authorities of a PEM file; NULL: the system's. Errors: FX_EIO (the file cannot be read,
// or has no certificate), FX_ENOMEM.
fx_status fxi_trust_open(const char *ca_file, fxi_trust **out, fx_error *err);
void fxi_trust_close(fxi_trust *t); // NULL is allowed

// Shakes hands over fd, which is non-blocking, stays the caller's and outlives *out. host: a name
// or an address. Errors: FX_EIO, with the reason: the certificate is another host's, has expired,
// is signed by nobody who is trusted; FX_ENOMEM.
fx_status fxi_tls_open(int fd, const char *host, const fxi_trust *trust, const fxi_patience *wait,
                       fxi_tls **out, fx_error *err);
// Says goodbye if that needs no wait.
void fxi_tls_close(fxi_tls *t);

// As fxi_dial_send and fxi_dial_receive.
fx_status fxi_tls_send(fxi_tls *t, const void *p, size_t n, const fxi_patience *wait,
                       fx_error *err);
fx_status fxi_tls_receive(fxi_tls *t, void *p, size_t n, size_t *got, const fxi_patience *wait,
                          fx_error *err);

#endif
