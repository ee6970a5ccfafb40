// tls.c - GnuTLS never waits here: where it says "again", a poll waits for the socket, with the
// caller's patience.
#include "base/net/tls.h"

#include <arpa/inet.h>
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <poll.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY

struct fxi_trust {
    gnutls_certificate_credentials_t authorities;
};

struct fxi_tls {
    gnutls_session_t session;
    int fd;
};

// ---- authorities -------------------------------------------------------------------------------

static fx_status read_authorities(fxi_trust *t, const char *ca_file, fx_error *err)
{
    const int n = ca_file ? gnutls_certificate_set_x509_trust_file(t->authorities, ca_file,
                                                                   GNUTLS_X509_FMT_PEM)
                          : gnutls_certificate_set_x509_system_trust(t->authorities);
    if (n > 0) return FX_OK;
    const char *where = ca_file ? ca_file : "the system's certificates";
    return fxi_fail(err, FX_EIO, "%.200s: %s", where,
                    n < 0 ? gnutls_strerror(n) : "there is no certificate");
}

fx_status fxi_trust_open(const char *ca_file, fxi_trust **out, fx_error *err)
{
    fxi_trust *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t || gnutls_certificate_allocate_credentials(&t->authorities) < 0) {
        free(t);
        return fxi_fail(err, FX_ENOMEM, "out of memory");
    }
    const fx_status st = read_authorities(t, ca_file, err);
    if (st == FX_OK)
        *out = t;
    else
        fxi_trust_close(t);
    return st;
}

void fxi_trust_close(fxi_trust *t)
{
    if (!t) return;
    gnutls_certificate_free_credentials(t->authorities);
    free(t);
}

// ---- the handshake -----------------------------------------------------------------------------

// After a call that has not succeeded: waits for the socket, if that is all. FX_OK: call again.
static fx_status wait_for_tls(const fxi_tls *t, ssize_t rc, const fxi_patience *wait, fx_error *err)
{
    if (gnutls_error_is_fatal((int)rc))
        return fxi_fail(err, FX_EIO, "TLS: %s", gnutls_strerror((int)rc));
    if (rc != GNUTLS_E_AGAIN) return FX_OK; // a signal, or a warning of the other side
    return fxi_patience_wait(wait, t->fd,
                             gnutls_record_get_direction(t->session) ? POLLOUT : POLLIN, err);
}

// What is wrong with the certificate, in GnuTLS's words.
static fx_status fail_certificate(const fxi_tls *t, const char *host, fx_error *err)
{
    const unsigned status = gnutls_session_get_verify_cert_status(t->session);
    gnutls_datum_t text = {0};
    (void)gnutls_certificate_verification_status_print(
        status, gnutls_certificate_type_get(t->session), &text, 0);
    const fx_status st = fxi_fail(err, FX_EIO, "the certificate of %.200s is not trusted: %.250s",
                                  host, text.data ? (const char *)text.data : "out of memory");
    gnutls_free(text.data);
    return st;
}

static fx_status shake_hands(const fxi_tls *t, const char *host, const fxi_patience *wait,
                             fx_error *err)
{
    for (int rc; (rc = gnutls_handshake(t->session)) != GNUTLS_E_SUCCESS;) {
        if (rc == GNUTLS_E_CERTIFICATE_VERIFICATION_ERROR) return fail_certificate(t, host, err);
        FX_TRY(wait_for_tls(t, rc, wait, err));
    }
    return FX_OK;
}

static bool is_address(const char *host)
{
    unsigned char bytes[sizeof(struct in6_addr)];
    return inet_pton(AF_INET, host, bytes) == 1 || inet_pton(AF_INET6, host, bytes) == 1;
}

// Servers are told the name they are wanted by; addresses are no names.
static bool prepare_session(fxi_tls *t, const char *host, const fxi_trust *trust)
{
    if (gnutls_init(&t->session, GNUTLS_CLIENT | GNUTLS_NONBLOCK | GNUTLS_NO_SIGNAL) < 0) {
        t->session = NULL;
        return false;
    }
    if (gnutls_set_default_priority_append(t->session, "-VERS-ALL:+VERS-TLS1.3:+VERS-TLS1.2", NULL,
                                           0) < 0 ||
        gnutls_credentials_set(t->session, GNUTLS_CRD_CERTIFICATE, trust->authorities) < 0 ||
        (!is_address(host) &&
         gnutls_server_name_set(t->session, GNUTLS_NAME_DNS, host, strlen(host)) < 0))
        return false;
    gnutls_session_set_verify_cert(t->session, host, 0);
    gnutls_transport_set_int(t->session, t->fd);
    return true;
}

static void free_tls(fxi_tls *t)
{
    if (t->session) gnutls_deinit(t->session);
    free(t);
}

fx_status fxi_tls_open(int fd, const char *host, const fxi_trust *trust, const fxi_patience *wait,
                       fxi_tls **out, fx_error *err)
{
    fxi_tls *t = calloc(1, sizeof *t);
    *out = NULL;
    if (!t) return fxi_fail(err, FX_ENOMEM, "out of memory");
    t->fd = fd;
    const fx_status st = prepare_session(t, host, trust)
                             ? shake_hands(t, host, wait, err)
                             : fxi_fail(err, FX_ENOMEM, "out of memory");
    if (st == FX_OK)
        *out = t;
    else
        free_tls(t);
    return st;
}

void fxi_tls_close(fxi_tls *t)
{
    (void)gnutls_bye(t->session, GNUTLS_SHUT_WR);
    free_tls(t);
}

// ---- bytes -------------------------------------------------------------------------------------

fx_status fxi_tls_send(fxi_tls *t, const void *p, size_t n, const fxi_patience *wait, fx_error *err)
{
    for (const char *at = p; n > 0;) {
        const ssize_t k = gnutls_record_send(t->session, at, n);
        if (k < 0) {
            FX_TRY(wait_for_tls(t, k, wait, err));
            continue;
        }
        at += k;
        n -= (size_t)k;
    }
    return FX_OK;
}

// A connection that is closed without a goodbye has been closed: HTTP knows whether all has come.
fx_status fxi_tls_receive(fxi_tls *t, void *p, size_t n, size_t *got, const fxi_patience *wait,
                          fx_error *err)
{
    ssize_t k;
    *got = 0;
    while ((k = gnutls_record_recv(t->session, p, n)) < 0) {
        if (k == GNUTLS_E_PREMATURE_TERMINATION) return FX_OK;
        FX_TRY(wait_for_tls(t, k, wait, err));
    }
    *got = (size_t)k;
    return FX_OK;
}
