// transport.c - connected sockets, and GnuTLS above them.
#include "server/http/transport.h"

#include <errno.h>
#include <gnutls/gnutls.h>
#include <linux/sockios.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "base/text/buf.h"

#define MAX_PEM_BYTES (1u << 20)
#define PRIORITIES    "NORMAL:-VERS-TLS1.0:-VERS-TLS1.1"

struct fxi_identity {
    gnutls_certificate_credentials_t pair;
    gnutls_priority_t priorities;
};

// ---- certificate and key ----------------------------------------------------------------------

static fx_status read_pem(const char *name, fxi_buf *b, fx_error *err)
{
    char piece[4096];
    FILE *file = fopen(name, "re");
    if (!file) return fxi_fail(err, FX_EIO, "%s: %s", name, strerror(errno));
    bool ok = fxi_buf_reserve(b, 1);
    for (size_t n; ok && b->n <= MAX_PEM_BYTES && (n = fread(piece, 1, sizeof piece, file));)
        ok = fxi_buf_add(b, piece, n);
    const bool failed = ferror(file);
    fclose(file);
    if (!ok) return fxi_fail(err, FX_ENOMEM, "out of memory");
    if (failed) return fxi_fail(err, FX_EIO, "%s: cannot be read", name);
    if (!strstr(b->p, "-----BEGIN "))
        return fxi_fail(err, FX_EINVAL, "%s: it holds nothing in PEM format", name);
    return FX_OK;
}

static void wipe_pem(fxi_buf *b)
{
    if (b->p) explicit_bzero(b->p, b->cap);
    fxi_buf_free(b);
}

fx_status fxi_identity_open(const char *cert_file, const char *key_file, fxi_identity **out,
                            fx_error *err)
{
    fxi_buf cert = {0}, key = {0};
    *out = NULL;
    if (!cert_file && !key_file) return FX_OK;
    if (!cert_file || !key_file)
        return fxi_fail(err, FX_EINVAL, "TLS needs both a certificate and its key");
    fxi_identity *id = calloc(1, sizeof *id);
    if (!id) return fxi_fail(err, FX_ENOMEM, "out of memory");
    fx_status st = read_pem(cert_file, &cert, err);
    if (st == FX_OK) st = read_pem(key_file, &key, err);
    if (st == FX_OK) {
        const gnutls_datum_t c = {(unsigned char *)cert.p, (unsigned)cert.n};
        const gnutls_datum_t k = {(unsigned char *)key.p, (unsigned)key.n};
        int rc = gnutls_certificate_allocate_credentials(&id->pair);
        if (rc >= 0) rc = gnutls_priority_init(&id->priorities, PRIORITIES, NULL);
        if (rc >= 0)
            rc = gnutls_certificate_set_x509_key_mem(id->pair, &c, &k, GNUTLS_X509_FMT_PEM);
        if (rc == GNUTLS_E_MEMORY_ERROR)
            st = fxi_fail(err, FX_ENOMEM, "out of memory");
        else if (rc < 0)
            st = fxi_fail(err, FX_EINVAL, "TLS cannot be used with %s and %s: %s", cert_file,
                          key_file, gnutls_strerror(rc));
    }
    wipe_pem(&cert);
    wipe_pem(&key);
    if (st == FX_OK)
        *out = id;
    else
        fxi_identity_close(id);
    return st;
}

void fxi_identity_close(fxi_identity *id)
{
    if (!id) return;
    if (id->pair) gnutls_certificate_free_credentials(id->pair);
    if (id->priorities) gnutls_priority_deinit(id->priorities);
    free(id);
}

// ---- a connection -----------------------------------------------------------------------------

bool fxi_transport_open(fxi_transport *t, int fd, const fxi_identity *id)
{
    *t = (fxi_transport){.fd = fd};
    if (!id) return true;
    if (gnutls_init(&t->tls, GNUTLS_SERVER | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0) {
        t->tls = NULL;
        return false;
    }
    t->shakes_hands = true;
    gnutls_transport_set_int(t->tls, fd);
    return gnutls_priority_set(t->tls, id->priorities) >= 0 &&
           gnutls_credentials_set(t->tls, GNUTLS_CRD_CERTIFICATE, id->pair) >= 0;
}

void fxi_transport_close(fxi_transport *t)
{
    if (t->tls) gnutls_deinit(t->tls);
    if (t->fd >= 0) close(t->fd);
    *t = (fxi_transport){.fd = -1};
}

void fxi_transport_finish(fxi_transport *t)
{
    if (t->tls && !t->shakes_hands) (void)gnutls_bye(t->tls, GNUTLS_SHUT_WR);
    shutdown(t->fd, SHUT_WR);
}

size_t fxi_transport_queued_bytes(int fd)
{
    int n = 0;
    return ioctl(fd, SIOCOUTQ, &n) || n < 0 ? 0 : (size_t)n;
}

// ---- receiving --------------------------------------------------------------------------------

// What a call of GnuTLS that returned rc < 0 means; GNUTLS_E_INTERRUPTED and warnings: again.
static ssize_t tls_result(ssize_t rc)
{
    if (rc == GNUTLS_E_PREMATURE_TERMINATION) return 0;
    return gnutls_error_is_fatal((int)rc) ? FXI_TRANSPORT_ERROR : FXI_TRANSPORT_AGAIN;
}

// 1: the handshake is over.
static ssize_t continue_handshake(fxi_transport *t)
{
    int rc;
    do rc = gnutls_handshake(t->tls);
    while (rc < 0 && rc != GNUTLS_E_AGAIN && !gnutls_error_is_fatal(rc));
    t->shakes_hands = rc < 0;
    t->wants_to_write = rc == GNUTLS_E_AGAIN && gnutls_record_get_direction(t->tls);
    return rc < 0 ? tls_result(rc) : 1;
}

ssize_t fxi_transport_receive(fxi_transport *t, char *dst, size_t n)
{
    ssize_t k = t->shakes_hands ? continue_handshake(t) : 1;
    if (k <= 0) return k;
    if (t->tls) {
        do k = gnutls_record_recv(t->tls, dst, n);
        while (k < 0 && k != GNUTLS_E_AGAIN && !gnutls_error_is_fatal((int)k));
        return k < 0 ? tls_result(k) : k;
    }
    k = recv(t->fd, dst, n, MSG_DONTWAIT);
    if (k >= 0) return k;
    return errno == EAGAIN || errno == EINTR ? FXI_TRANSPORT_AGAIN : FXI_TRANSPORT_ERROR;
}

bool fxi_transport_has_more(const fxi_transport *t)
{
    return t->tls && !t->shakes_hands && gnutls_record_check_pending(t->tls) > 0;
}

// ---- sending ----------------------------------------------------------------------------------

// A record that is half sent goes on by itself, whatever was to be sent meanwhile.
static ssize_t send_tls(fxi_transport *t, const char *p, size_t n)
{
    const ssize_t k =
        t->is_blocked ? gnutls_record_send(t->tls, NULL, 0) : gnutls_record_send(t->tls, p, n);
    t->is_blocked = k == GNUTLS_E_AGAIN || k == GNUTLS_E_INTERRUPTED;
    if (k >= 0) return k;
    return t->is_blocked ? FXI_TRANSPORT_AGAIN : FXI_TRANSPORT_ERROR;
}

ssize_t fxi_transport_send(fxi_transport *t, const char *a, size_t n_a, const char *b, size_t n_b)
{
    if (t->tls) return n_a ? send_tls(t, a, n_a) : send_tls(t, b, n_b);
    struct iovec v[] = {{(char *)a, n_a}, {(char *)b, n_b}};
    const struct msghdr msg = {.msg_iov = n_a ? v : v + 1, .msg_iovlen = n_a && n_b ? 2 : 1};
    const ssize_t k = sendmsg(t->fd, &msg, MSG_DONTWAIT | MSG_NOSIGNAL);
    if (k >= 0) return k;
    return errno == EAGAIN || errno == EINTR ? FXI_TRANSPORT_AGAIN : FXI_TRANSPORT_ERROR;
}
