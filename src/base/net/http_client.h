// http_client.h - HTTP and TLS as a client, by libcurl: one request at a time over a connection
// that is kept. Redirects are not followed, and no proxy is used unless a call asks for it.
#ifndef FXI_BASE_HTTP_CLIENT_H
#define FXI_BASE_HTTP_CLIENT_H

#include "base/text/buf.h"
#include "flexinfer/error.h"

typedef struct fxi_http_client fxi_http_client; // one thread at a time

// Errors: FX_EINVAL: the text is no http:// or https:// URL, or has a user's name.
fx_status fxi_http_url_check(const char *url, fx_error *err);

// ca_file: a PEM file with the authorities to trust for https, borrowed; NULL: the system's.
// stop_fd: a request ends with FX_EIO while this can be read; -1: none. Errors: FX_ENOMEM, FX_EIO
// (ca_file cannot be read).
fx_status fxi_http_client_open(const char *ca_file, int stop_fd, fxi_http_client **out,
                               fx_error *err);
void fxi_http_client_close(fxi_http_client *c); // NULL is allowed

typedef struct fxi_http_answer { // fxi_http_answer_free
    int status;
    int retry_after_s; // 0: the answer does not say
    fxi_buf body;
    // Only where the call keeps heads:
    fxi_buf head;     // the status line and the fields, as they came
    fxi_buf location; // of a redirect: its URL, absolute
} fxi_http_answer;

void fxi_http_answer_free(fxi_http_answer *a); // all zero again

// Takes bytes of a body as they come; `a` has status and head. False ends the call with FX_EIO.
typedef bool fxi_http_body(void *ud, const fxi_http_answer *a, const char *p, size_t n_bytes);

typedef struct fxi_http_call {
    const char *url;
    const char *socket; // path of a Unix socket to connect to instead of the URL's host; NULL
    const char *const *header; // [n_header] "Name: value", further ones
    int n_header;
    const fxi_buf *body;    // what to POST; NULL: GET
    double timeout_s;       // for all of it; 0: none
    size_t max_bytes;       // of the answer's body, if it is kept
    fxi_http_body *on_body; // takes a body of any length; NULL: it is kept
    void *ud;               // for on_body
    double stall_s;         // ends the call after so long without a byte; 0: no limit
    bool keeps_head;
    bool by_proxy; // that http_proxy, https_proxy, no_proxy or all_proxy in the environment name
} fxi_http_call;

// Any status is FX_OK. Errors: FX_EIO, with the reason in one line: there is no connection, the
// server is not trusted, does not speak HTTP, takes too long, or answers too much; FX_ENOMEM.
fx_status fxi_http_client_call(fxi_http_client *c, const fxi_http_call *call, fxi_http_answer *out,
                               fx_error *err);

#endif
