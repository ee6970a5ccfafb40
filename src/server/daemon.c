// daemon.c - how MHD's daemon is started.
//
// MHD's own limit of connections is far above ours: it would stop accepting, and whoever holds the
// connections would decide for how long. The table of connections (peers.h) makes room instead.
#include "server/daemon.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "server/http/http.h"

#define CONN_MEMORY_BYTES (64u << 10) // MHD's buffer for the head and the block that it sends
#define MORE_CONN         128 // connections beside ours: refused ones, and those being closed
#define MAX_PEM_BYTES     (1u << 20)

// ---- TLS --------------------------------------------------------------------------------------

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
        return fxi_fail(err, FX_EINVAL, "%s: there is nothing in PEM form in it", name);
    return FX_OK;
}

static void wipe_pem(fxi_buf *b)
{
    if (b->p) explicit_bzero(b->p, b->cap);
    fxi_buf_free(b);
}

typedef struct tls_files { // PEM; empty: no TLS
    fxi_buf cert, key;
} tls_files;

static void wipe_tls(tls_files *tls)
{
    wipe_pem(&tls->cert);
    wipe_pem(&tls->key);
}

static fx_status read_tls(const fxi_server_options *o, tls_files *tls, fx_error *err)
{
    if (!o->tls_cert && !o->tls_key) return FX_OK;
    if (!o->tls_cert || !o->tls_key)
        return fxi_fail(err, FX_EINVAL, "TLS needs both a certificate and its key");
    if (MHD_is_feature_supported(MHD_FEATURE_TLS) != MHD_YES)
        return fxi_fail(err, FX_EINVAL, "this build of libmicrohttpd has no TLS");
    FX_TRY(read_pem(o->tls_cert, &tls->cert, err));
    return read_pem(o->tls_key, &tls->key, err);
}

fx_status fxi_daemon_check(const fxi_server_options *opt, fx_error *err)
{
    tls_files tls = {{0}, {0}};
    const fx_status st = read_tls(opt, &tls, err);
    wipe_tls(&tls);
    return st;
}

// ---- start ------------------------------------------------------------------------------------

// poll, not epoll: with epoll, the serving thread and the one that calls MHD_quiesce_daemon may
// both remove the listening socket from the set, and the second removal ends the process (0.9.75).
static void start_mhd(fxi_server *srv, const tls_files *tls)
{
    const fxi_server_options *o = &srv->opt;
    const unsigned n_thread = (unsigned)o->n_io_thread, pool = n_thread > 1 ? n_thread : 0;
    const unsigned flags = MHD_USE_POLL_INTERNAL_THREAD | MHD_ALLOW_SUSPEND_RESUME | MHD_USE_ITC |
                           (tls->cert.n ? MHD_USE_TLS : 0);
    const struct MHD_OptionItem with_tls[] = {
        {MHD_OPTION_HTTPS_MEM_CERT, 0, tls->cert.p},
        {MHD_OPTION_HTTPS_MEM_KEY, 0, tls->key.p},
        {MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)"NORMAL:-VERS-TLS1.0:-VERS-TLS1.1"},
        {MHD_OPTION_END, 0, NULL}};
    const struct MHD_OptionItem none[] = {{MHD_OPTION_END, 0, NULL}};
    srv->mhd = MHD_start_daemon(flags, 0, NULL, NULL, fxi_http_on_request, srv,          //
                                MHD_OPTION_LISTEN_SOCKET, srv->listen_fd,                //
                                MHD_OPTION_NOTIFY_COMPLETED, fxi_http_on_completed, srv, //
                                MHD_OPTION_NOTIFY_CONNECTION, fxi_conn_notify, srv,      //
                                MHD_OPTION_URI_LOG_CALLBACK, fxi_conn_take_target, srv,  //
                                MHD_OPTION_CONNECTION_LIMIT,
                                ((unsigned)o->max_conn + MORE_CONN) * n_thread,                //
                                MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)CONN_MEMORY_BYTES, //
                                MHD_OPTION_CONNECTION_TIMEOUT, (unsigned)o->idle_timeout_s,    //
                                MHD_OPTION_ARRAY, tls->cert.n ? with_tls : none,               //
                                MHD_OPTION_THREAD_POOL_SIZE, pool, MHD_OPTION_END);
}

fx_status fxi_daemon_start(fxi_server *srv, fx_error *err)
{
    tls_files tls = {{0}, {0}};
    fx_status st = read_tls(&srv->opt, &tls, err);
    if (st == FX_OK) {
        start_mhd(srv, &tls);
        if (!srv->mhd && tls.cert.n)
            st = fxi_fail(err, FX_EINVAL, "TLS cannot be used with %s and %s", srv->opt.tls_cert,
                          srv->opt.tls_key);
        else if (!srv->mhd)
            st = fxi_fail(err, FX_EINTERNAL, "cannot start the HTTP threads");
    }
    wipe_tls(&tls);
    return st;
}
