// http_client.c - a handle of libcurl, driven in a loop that also sees stop_fd.
#include "base/net/http_client.h"

#include <curl/curl.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY

#define CONNECT_S      5l
#define MAX_HEAD_BYTES 65536u

struct fxi_http_client {
    CURLM *multi;
    CURL *easy;
    const char *ca_file;
    int stop_fd;
    char reason[CURL_ERROR_SIZE];
};

// Where the bytes of an answer go.
typedef struct answer_sink {
    const fxi_http_call *call;
    fxi_http_answer *answer;
    CURL *easy;
    bool is_full, has_no_memory, is_refused;
} answer_sink;

fx_status fxi_http_url_check(const char *url, fx_error *err)
{
    const size_t n_scheme = !strncasecmp(url, "https://", 8) ? 8 : 7;
    if ((n_scheme == 7 && strncasecmp(url, "http://", 7) != 0) || url[n_scheme] == '/')
        return fxi_fail(err, FX_EINVAL, "'%.100s' is not a URL like http://HOST:PORT/PATH", url);
    for (const char *p = url; *p; p++)
        if (*p <= ' ' || *p > '~' || *p == '#')
            return fxi_fail(err, FX_EINVAL, "the URL has a character that is not allowed at %zu",
                            (size_t)(p - url));
    CURLU *u = curl_url();
    if (!u) return fxi_fail(err, FX_ENOMEM, "out of memory");
    char *port = NULL;
    CURLUcode rc = curl_url_set(u, CURLUPART_URL, url, CURLU_DISALLOW_USER);
    if (!rc) rc = curl_url_get(u, CURLUPART_PORT, &port, CURLU_DEFAULT_PORT);
    if (!rc && !strcmp(port, "0")) rc = CURLUE_BAD_PORT_NUMBER;
    curl_free(port);
    curl_url_cleanup(u);
    if (rc == CURLUE_USER_NOT_ALLOWED)
        return fxi_fail(err, FX_EINVAL, "the URL must not have a user's name");
    return rc ? fxi_fail(err, FX_EINVAL, "'%.100s': %s", url, curl_url_strerror(rc)) : FX_OK;
}

fx_status fxi_http_client_open(const char *ca_file, int stop_fd, fxi_http_client **out,
                               fx_error *err)
{
    fx_status st = FX_OK;
    fxi_http_client *c = calloc(1, sizeof *c);
    *out = NULL;
    if (!c) return fxi_fail(err, FX_ENOMEM, "out of memory");
    c->stop_fd = stop_fd;
    c->multi = curl_multi_init();
    c->easy = curl_easy_init();
    c->ca_file = ca_file;
    if (!c->multi || !c->easy)
        st = fxi_fail(err, FX_ENOMEM, "out of memory");
    else if (ca_file && access(ca_file, R_OK))
        st = fxi_fail(err, FX_EIO, "%s: %s", ca_file, strerror(errno));
    if (st == FX_OK)
        *out = c;
    else
        fxi_http_client_close(c);
    return st;
}

void fxi_http_client_close(fxi_http_client *c)
{
    if (!c) return;
    curl_easy_cleanup(c->easy);
    curl_multi_cleanup(c->multi);
    free(c);
}

// ---- one call ----------------------------------------------------------------------------------

void fxi_http_answer_free(fxi_http_answer *a)
{
    fxi_buf_free(&a->body);
    fxi_buf_free(&a->head);
    fxi_buf_free(&a->location);
    *a = (fxi_http_answer){0};
}

static bool keep_answer(answer_sink *to, fxi_buf *b, size_t max_bytes, const char *p, size_t n)
{
    to->is_full = b->n + n > max_bytes;
    if (to->is_full) return false;
    to->has_no_memory = !fxi_buf_add(b, p, n);
    return !to->has_no_memory;
}

static size_t take_body_bytes(char *p, size_t size, size_t n, void *ud)
{
    answer_sink *to = ud;
    long status = 0;
    if (!to->call->on_body)
        return keep_answer(to, &to->answer->body, to->call->max_bytes, p, size * n) ? size * n : 0;
    curl_easy_getinfo(to->easy, CURLINFO_RESPONSE_CODE, &status);
    to->answer->status = (int)status;
    to->is_refused = !to->call->on_body(to->call->ud, to->answer, p, size * n);
    return to->is_refused ? 0 : size * n;
}

// Of several heads, like that of 100 Continue, the last one stays.
static size_t take_head_line(char *p, size_t size, size_t n, void *ud)
{
    answer_sink *to = ud;
    if (size * n > 5 && !memcmp(p, "HTTP/", 5)) fxi_buf_clear(&to->answer->head);
    return keep_answer(to, &to->answer->head, MAX_HEAD_BYTES, p, size * n) ? size * n : 0;
}

static void set_call_options(fxi_http_client *c, const fxi_http_call *call,
                             struct curl_slist *headers, answer_sink *to)
{
    CURL *e = c->easy;
    curl_easy_reset(e);
    curl_easy_setopt(e, CURLOPT_URL, call->url);
    if (call->socket) curl_easy_setopt(e, CURLOPT_UNIX_SOCKET_PATH, call->socket);
    if (!call->by_proxy) curl_easy_setopt(e, CURLOPT_PROXY, "");
    curl_easy_setopt(e, CURLOPT_SUPPRESS_CONNECT_HEADERS, 1l); // a proxy's head is not the answer's
    curl_easy_setopt(e, CURLOPT_NOSIGNAL, 1l);
#if LIBCURL_VERSION_NUM >= 0x075700
    curl_easy_setopt(e, CURLOPT_QUICK_EXIT, 1l); // an end does not wait for the resolver
#endif
    curl_easy_setopt(e, CURLOPT_SSLVERSION, (long)CURL_SSLVERSION_TLSv1_2);
    curl_easy_setopt(e, CURLOPT_USERAGENT, "flexinfer");
    curl_easy_setopt(e, CURLOPT_HTTPHEADER, headers);
    curl_easy_setopt(e, CURLOPT_CONNECTTIMEOUT, CONNECT_S);
    curl_easy_setopt(e, CURLOPT_TIMEOUT_MS, (long)(call->timeout_s * 1e3));
    curl_easy_setopt(e, CURLOPT_ERRORBUFFER, c->reason);
    curl_easy_setopt(e, CURLOPT_WRITEFUNCTION, take_body_bytes);
    curl_easy_setopt(e, CURLOPT_WRITEDATA, to);
    if (call->on_body) curl_easy_setopt(e, CURLOPT_BUFFERSIZE, 256l << 10);
    if (call->stall_s > 0) {
        curl_easy_setopt(e, CURLOPT_LOW_SPEED_LIMIT, 1l);
        curl_easy_setopt(e, CURLOPT_LOW_SPEED_TIME, (long)call->stall_s);
    }
    if (call->keeps_head) {
        curl_easy_setopt(e, CURLOPT_HEADERFUNCTION, take_head_line);
        curl_easy_setopt(e, CURLOPT_HEADERDATA, to);
    }
    if (c->ca_file) {
        curl_easy_setopt(e, CURLOPT_CAINFO, c->ca_file);
        curl_easy_setopt(e, CURLOPT_PROXY_CAINFO, c->ca_file);
    }
    if (!call->body) return;
    curl_easy_setopt(e, CURLOPT_POSTFIELDSIZE_LARGE, (curl_off_t)call->body->n);
    curl_easy_setopt(e, CURLOPT_POSTFIELDS, call->body->p ? call->body->p : "");
}

// Runs the transfer to its end, or until stop_fd can be read.
static CURLcode run_transfer(fxi_http_client *c)
{
    struct curl_waitfd stop = {.fd = c->stop_fd, .events = CURL_WAIT_POLLIN};
    int n_running = 1, n_left;
    curl_multi_add_handle(c->multi, c->easy);
    while (!stop.revents) {
        if (curl_multi_perform(c->multi, &n_running) || !n_running) break;
        if (curl_multi_poll(c->multi, &stop, c->stop_fd >= 0, 1000, NULL)) break;
    }
    const CURLMsg *done = curl_multi_info_read(c->multi, &n_left);
    const CURLcode rc =
        done && done->msg == CURLMSG_DONE ? done->data.result : CURLE_ABORTED_BY_CALLBACK;
    curl_multi_remove_handle(c->multi, c->easy);
    return rc;
}

// The variable by which libcurl finds a proxy for the call; NULL: none is set.
static const char *proxy_variable(const fxi_http_call *call)
{
    static const char *const names[] = {"https_proxy", "HTTPS_PROXY", "http_proxy", "all_proxy",
                                        "ALL_PROXY"};
    const bool is_https = !strncasecmp(call->url, "https:", 6);
    for (size_t i = 0; call->by_proxy && i < sizeof names / sizeof *names; i++) {
        const bool is_for_url = i < 2 ? is_https : i > 2 || !is_https;
        const char *v = is_for_url ? getenv(names[i]) : NULL;
        if (v && v[0]) return names[i];
    }
    return NULL;
}

// libcurl's words may have the proxy's URL, and that a password.
static fx_status fail_proxy(const char *variable, const char *reason, long status, fx_error *err)
{
    if (status == 407) return fxi_fail(err, FX_EIO, "the proxy asks for a password");
    if (status >= 300) return fxi_fail(err, FX_EIO, "the proxy refuses (status %ld)", status);
    if (strchr(getenv(variable), '@') && strstr(reason, getenv(variable)))
        return fxi_fail(err, FX_EIO, "%s is not the URL of a proxy", variable);
    return fxi_fail(err, FX_EIO, "%.200s (%s names a proxy)", reason, variable);
}

static fx_status fail_transfer(fxi_http_client *c, CURLcode rc, const answer_sink *to,
                               fx_error *err)
{
    const char *proxy = proxy_variable(to->call);
    const char *reason = c->reason[0] ? c->reason : curl_easy_strerror(rc);
    long os_errno = 0, proxy_status = 0;
    curl_easy_getinfo(c->easy, CURLINFO_OS_ERRNO, &os_errno);
    curl_easy_getinfo(c->easy, CURLINFO_HTTP_CONNECTCODE, &proxy_status);
    if (to->has_no_memory || rc == CURLE_OUT_OF_MEMORY)
        return fxi_fail(err, FX_ENOMEM, "out of memory");
    if (to->is_full) return fxi_fail(err, FX_EIO, "its answer is too long");
    if (to->is_refused) return fxi_fail(err, FX_EIO, "its answer is not what was asked for");
    if (rc == CURLE_ABORTED_BY_CALLBACK) return fxi_fail(err, FX_EIO, "given up");
    if (rc == CURLE_OPERATION_TIMEDOUT) return fxi_fail(err, FX_EIO, "no answer in time");
    if (rc == CURLE_COULDNT_CONNECT && os_errno) reason = strerror((int)os_errno);
    if (proxy &&
        (proxy_status >= 300 || rc == CURLE_COULDNT_CONNECT || rc == CURLE_COULDNT_RESOLVE_PROXY))
        return fail_proxy(proxy, reason, proxy_status, err);
    if (rc == CURLE_UNSUPPORTED_PROTOCOL || rc == CURLE_WEIRD_SERVER_REPLY)
        return fxi_fail(err, FX_EIO, "it does not answer in HTTP");
    if (rc == CURLE_GOT_NOTHING) return fxi_fail(err, FX_EIO, "it closed the connection");
    if (rc == CURLE_PEER_FAILED_VERIFICATION)
        return fxi_fail(err, FX_EIO, "its certificate is not trusted: %.200s", reason);
    return fxi_fail(err, FX_EIO, "%.200s", reason);
}

static void read_outcome(CURL *easy, fxi_http_answer *out)
{
    long status = 0;
    curl_off_t retry_after_s = 0;
    curl_easy_getinfo(easy, CURLINFO_RESPONSE_CODE, &status);
    curl_easy_getinfo(easy, CURLINFO_RETRY_AFTER, &retry_after_s);
    out->status = (int)status;
    out->retry_after_s = retry_after_s > 0 && retry_after_s < 86400 ? (int)retry_after_s : 0;
}

fx_status fxi_http_client_call(fxi_http_client *c, const fxi_http_call *call, fxi_http_answer *out,
                               fx_error *err)
{
    *out = (fxi_http_answer){0};
    answer_sink to = {.call = call, .answer = out, .easy = c->easy};
    // libcurl would wait for "100 Continue" before a large body.
    struct curl_slist *headers = curl_slist_append(NULL, "Expect:"), *more = headers;
    for (int i = 0; more && i < call->n_header; i++)
        more = curl_slist_append(headers, call->header[i]);
    if (!more) {
        curl_slist_free_all(headers);
        return fxi_fail(err, FX_ENOMEM, "out of memory");
    }
    c->reason[0] = 0;
    set_call_options(c, call, headers, &to);
    const CURLcode rc = run_transfer(c);
    fx_status st = rc ? fail_transfer(c, rc, &to, err) : FX_OK;
    const char *location = NULL;
    read_outcome(c->easy, out);
    if (st == FX_OK && call->keeps_head &&
        !curl_easy_getinfo(c->easy, CURLINFO_REDIRECT_URL, &location) && location &&
        !fxi_buf_str(&out->location, location))
        st = fxi_fail(err, FX_ENOMEM, "out of memory");
    curl_slist_free_all(headers);
    if (st == FX_OK) return st;
    fxi_buf_free(&out->body);
    fxi_buf_free(&out->location);
    return st;
}
