// hub_net.c - GET as a hub wants it: redirects, on which the token stays with the host that it is
// for; refusals in words; and waits before another try.
#include "base/fail.h"
#include "hub/hub_parts.h"

#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#define MAX_ASK_BYTES   (256u << 20) // of a list of files
#define MAX_OTHER_BYTES (1u << 20)   // of a body that nobody reads
#define MAX_WAIT_S      300.0        // that a server may ask for
#define FIRST_WAIT_S    0.5
#define STALL_S         30.0
#define ASK_STALL_S     10.0 // of what is short
#define MAX_ASK_S       120.0

enum { MAX_HOP = 6, HEADER_ROOM = 600 };

fx_status fxi_hub_net_open(const fxi_hub_net *net, fxi_http_client **out, fx_error *err)
{
    return fxi_http_client_open(net->ca_file, net->stop_fd, out, err);
}

void fxi_hub_reply_free(fxi_hub_reply *r)
{
    fxi_http_answer_free(&r->answer);
    fxi_buf_free(&r->heads);
    *r = (fxi_hub_reply){0};
}

bool fxi_hub_net_is_stopped(const fxi_hub_net *net)
{
    struct pollfd p = {.fd = net->stop_fd, .events = POLLIN};
    return net->stop_fd >= 0 && poll(&p, 1, 0) > 0;
}

// ---- one hop ------------------------------------------------------------------------------------

// Scheme, host and port are the same texts. A default port that only one of them states makes them
// different, and the token stays behind.
static bool same_origin(const char *a, const char *b)
{
    const char *host = strstr(a, "://");
    if (!host) return false;
    const size_t n = (size_t)(host + 3 - a) + strcspn(host + 3, "/?#");
    return !strncasecmp(a, b, n) && (!b[n] || strchr("/?#", b[n]));
}

typedef struct body_filter {
    const fxi_hub_get *get;
    size_t n_other;
    bool is_refused;
} body_filter;

static bool has_content(int status)
{
    return status == 200 || status == 206;
}

static bool pass_body(void *ud, const fxi_http_answer *a, const char *p, size_t n)
{
    body_filter *f = ud;
    if (has_content(a->status)) {
        f->is_refused = !f->get->on_body(f->get->ud, a, p, n);
        return !f->is_refused;
    }
    f->n_other += n;
    return f->n_other <= MAX_OTHER_BYTES;
}

static fx_status call_hop(const fxi_hub_net *net, fxi_http_client *c, const fxi_hub_get *get,
                          const char *url, fxi_hub_reply *out, fx_error *err)
{
    char range[64], key[HEADER_ROOM];
    const char *header[2];
    body_filter filter = {.get = get};
    fxi_http_call call = {.url = url,
                          .header = header,
                          .timeout_s = get->on_body ? 0 : MAX_ASK_S,
                          .max_bytes = MAX_ASK_BYTES,
                          .on_body = get->on_body ? pass_body : NULL,
                          .ud = &filter,
                          .stall_s = get->on_body ? STALL_S : ASK_STALL_S,
                          .keeps_head = true,
                          .by_proxy = true};
    if (get->has_range) {
        snprintf(range, sizeof range, "Range: bytes=%llu-%llu", (unsigned long long)get->from,
                 (unsigned long long)get->to - 1);
        header[call.n_header++] = range;
    }
    if (net->token && same_origin(get->url, url)) {
        snprintf(key, sizeof key, "Authorization: Bearer %s", net->token);
        header[call.n_header++] = key;
    }
    fxi_http_answer_free(&out->answer);
    const fx_status st = fxi_http_client_call(c, &call, &out->answer, err);
    const fxi_buf *head = &out->answer.head;
    out->is_refused = filter.is_refused;
    if (head->n && !fxi_buf_add(&out->heads, head->p, head->n)) return fxi_fail_memory(err);
    return st;
}

// ---- refusals -----------------------------------------------------------------------------------

// What a status, or the hub's own word for it, means to the user. 0 and NULL: any.
static const struct refusal {
    int status;
    const char *code, *text;
} refusals[] = {
    {0, "GatedRepo",
     "its owner asks for consent: accept the terms on the model's page, and set HF_TOKEN to that "
     "account's token"},
    {0, "RevisionNotFound", "there is no such revision"},
    {0, "EntryNotFound", "there is no such file"},
    {401, NULL, "there is no such model, or it needs a token that may read it (HF_TOKEN)"},
    {403, NULL, "access is refused: the token (HF_TOKEN) may not read it"},
    {404, NULL, "it is not there"},
    {407, NULL, "the proxy asks for a password"},
    {416, NULL, "it is shorter than was said"},
    {429, NULL, "too many requests"},
};

static fx_status fail_status(const fxi_hub_get *get, fxi_hub_reply *out, fx_error *err)
{
    const int status = out->answer.status;
    fxi_hub_head head;
    fxi_hub_head_read((fxi_str){out->heads.p, out->heads.n}, &head);
    const char *text = status >= 500 ? "the server fails" : "the server refuses";
    for (size_t i = 0; i < sizeof refusals / sizeof *refusals; i++) {
        const struct refusal *r = &refusals[i];
        if ((r->status && r->status != status) || (r->code && strcmp(r->code, head.error_code)))
            continue;
        text = r->text;
        break;
    }
    out->may_pass = status >= 500 || status == 429 || status == 408;
    out->wait_s = out->answer.retry_after_s;
    return fxi_fail(err, FX_EIO, "%s: %s (status %d)", get->what, text, status);
}

// ---- one try ------------------------------------------------------------------------------------

static bool is_redirect(const fxi_http_answer *a)
{
    static const int status[] = {301, 302, 303, 307, 308};
    for (size_t i = 0; i < sizeof status / sizeof *status; i++)
        if (a->status == status[i]) return a->location.n;
    return false;
}

fx_status fxi_hub_net_get(const fxi_hub_net *net, fxi_http_client *c, const fxi_hub_get *get,
                          fxi_hub_reply *out, fx_error *err)
{
    fxi_buf url = {0};
    *out = (fxi_hub_reply){0};
    if (!fxi_buf_str(&url, get->url)) return fxi_fail_memory(err);
    fx_status st = FX_OK;
    for (int hop = 0;; hop++) {
        st = call_hop(net, c, get, url.p, out, err);
        if (st != FX_OK) out->may_pass = out->answer.status && !out->is_refused; // it broke off
        if (st == FX_EIO) fxi_fail_in(err, "%s", get->what);
        if (st != FX_OK || !is_redirect(&out->answer)) break;
        const fxi_buf next = out->answer.location;
        out->answer.location = url;
        url = next;
        if (hop == MAX_HOP)
            st = fxi_fail(err, FX_EIO, "%s: more than %d redirects", get->what, MAX_HOP);
        else if (!strncasecmp(get->url, "https:", 6) && strncasecmp(url.p, "https:", 6) != 0)
            st = fxi_fail(err, FX_EIO, "%s: a redirect from https to %.100s is not followed",
                          get->what, url.p);
        else if (fxi_http_url_check(url.p, err) != FX_OK)
            st = fxi_fail_in(err, "%s: a redirect", get->what);
        if (st != FX_OK) break;
    }
    fxi_buf_free(&url);
    if (st == FX_OK && !has_content(out->answer.status)) st = fail_status(get, out, err);
    return st;
}

// ---- several tries ------------------------------------------------------------------------------

static double wait_before(const fxi_hub_reply *failed, int n_try)
{
    return fmax(failed->wait_s, ldexp(FIRST_WAIT_S, n_try - 1));
}

fx_status fxi_hub_net_wait(const fxi_hub_net *net, const fxi_hub_reply *failed, int n_try,
                           fx_error *err)
{
    const double wait_s = wait_before(failed, n_try);
    const fx_status st = err->status;
    if (wait_s > MAX_WAIT_S) {
        const size_t n = strlen(err->text);
        snprintf(err->text + n, sizeof err->text - n, "; it asks to wait %.0f s", wait_s);
        return st;
    }
    if (n_try >= net->max_try) return st;
    struct pollfd p = {.fd = net->stop_fd, .events = POLLIN};
    poll(&p, 1, (int)(wait_s * 1e3));
    return fxi_hub_net_is_stopped(net) ? fxi_fail(err, FX_EIO, "interrupted") : FX_OK;
}

fx_status fxi_hub_net_ask(const fxi_hub_net *net, fxi_http_client *c, const fxi_hub_get *get,
                          fxi_hub_reply *out, fx_error *err)
{
    fx_error failure = {0};
    for (int n_try = 1;; n_try++) {
        fx_status st = fxi_hub_net_get(net, c, get, out, &failure);
        if (st == FX_OK) return st;
        if (out->may_pass && n_try < net->max_try && wait_before(out, n_try) <= MAX_WAIT_S) {
            char line[FX_ERROR_TEXT_BYTES + 64];
            snprintf(line, sizeof line, "%s; trying again in %.1f s", failure.text,
                     wait_before(out, n_try));
            net->watch->on_note(net->watch->ud, line);
        }
        if (!out->may_pass || fxi_hub_net_wait(net, out, n_try, &failure) != FX_OK)
            return fxi_fail(err, failure.status, "%s", failure.text);
        fxi_hub_reply_free(out);
    }
}
