// transport.h - the bytes of a connection, plain or through TLS. Nothing here waits.
#ifndef FXI_SERVER_TRANSPORT_H
#define FXI_SERVER_TRANSPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "flexinfer/error.h"

typedef struct fxi_identity fxi_identity; // a certificate and its key

// Reads two PEM files; both NULL: *out is NULL, and there is no TLS. Errors: FX_EIO (a file cannot
// be read), FX_EINVAL (they are no certificate and key), FX_ENOMEM.
fx_status fxi_identity_open(const char *cert_file, const char *key_file, fxi_identity **out,
                            fx_error *err);
void fxi_identity_close(fxi_identity *id); // NULL is allowed

typedef struct fxi_transport {
    int fd;
    struct gnutls_session_int *tls; // NULL: plain
    bool shakes_hands;              // the handshake is not over
    bool wants_to_write;            // the handshake waits until the socket takes more
    bool is_blocked;                // a record is half sent
} fxi_transport;

// Takes fd over in any case. False: out of memory.
bool fxi_transport_open(fxi_transport *t, int fd, const fxi_identity *id);
void fxi_transport_close(fxi_transport *t);

#define FXI_TRANSPORT_AGAIN (-1) // nothing now; the socket says when
#define FXI_TRANSPORT_ERROR (-2)

// Bytes received, 0: the client sends no more, or one of the above.
ssize_t fxi_transport_receive(fxi_transport *t, char *dst, size_t n);
// Whether there are bytes that the socket does not tell of.
bool fxi_transport_has_more(const fxi_transport *t);
// Sends of a, then of b (which may be empty); bytes sent, or one of the above. What has not been
// sent must come first in the next call.
ssize_t fxi_transport_send(fxi_transport *t, const char *a, size_t n_a, const char *b, size_t n_b);
// Tells the client that nothing more will be sent.
void fxi_transport_finish(fxi_transport *t);
// Bytes that the socket holds and the client's machine has not acknowledged.
size_t fxi_transport_queued_bytes(int fd);

#endif
