// admission.c - what a request must pass before it is answered, and which client it is from then.
//
//   framing (head.h) -> a place for its connection -> Host -> Origin -> path -> key -> state of the
//   server -> type and size of its body -> memory for it
//
// Each step refuses with the status that fits; the first one that does decides the answer.
#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text/utf8.h"
#include "server/http/http.h"

#define MAX_DROPPED 4 // times max_body_bytes: bytes of a refused body that are read

// ---- the connection, names and pages ----------------------------------------------------------

// The place of the connection, and the names by which it came. What fails here is refused without
// its body.
static bool check_sender(fxi_http_job *job)
{
    const int status = job->conn->place.refused;
    const char *host = fxi_http_job_header(job, "Host");
    const char *origin = fxi_http_job_header(job, "Origin");
    if (status)
        fxi_http_fail(&job->early, status, status == 429 ? "too_many_connections" : "overloaded",
                      NULL,
                      status == 429 ? "this address has too many connections"
                                    : "the server has too many connections");
    else if (host && !fxi_host_is_known(&job->srv->origins, host))
        fxi_http_fail(
            &job->early, 403, "host_not_allowed", NULL,
            "this server is not known as '%.*s'; --allowed-host names what it is known as",
            FXI_UTF8_HEAD(host, 100));
    else if (origin && !fxi_origin_is_allowed(&job->srv->origins, origin, host ? host : ""))
        fxi_http_fail(&job->early, 403, "origin_not_allowed", NULL,
                      "pages of '%.*s' may not use this server; --cors names those that may",
                      FXI_UTF8_HEAD(origin, 100));
    else
        job->origin = origin;
    job->at_once = job->early.status != 0;
    return !job->at_once;
}

// ---- keys -------------------------------------------------------------------------------------

static bool check_key(fxi_http_job *job)
{
    static const char scheme[] = "Bearer ";
    const char *key = fxi_http_job_header(job, "Authorization");
    if (key && !strncasecmp(key, scheme, sizeof scheme - 1))
        key += strspn(key + sizeof scheme - 1, " ") + sizeof scheme - 1;
    else
        key = fxi_http_job_header(job, "x-api-key");
    const fxi_tenant *t = key ? fxi_keyring_find(job->srv->keys, key) : NULL;
    if (!t)
        return fxi_http_fail(&job->early, 401, "invalid_api_key", NULL,
                             key ? "the API key is wrong"
                                 : "an API key is needed: Authorization: Bearer KEY");
    job->tenant = t;
    return true;
}

// Without keys, clients that should not learn of each other's prompts get caches of their own, and
// may not watch the engine, unless they are on this machine.
static bool check_access(fxi_http_job *job)
{
    const fxi_access access = job->route->access;
    const fxi_isolation by = job->srv->opt.isolate;
    const fxi_place *place = &job->conn->place;
    const fxi_keyring_facts keys = fxi_keyring_look(job->srv->keys);
    if (access == FXI_ACCESS_PROBE) return true;
    if (access == FXI_ACCESS_METRICS && job->srv->opt.open_metrics) return true;
    if (access == FXI_ACCESS_PAGE && job->wants_page) return true;
    if (keys.n_key) {
        if (!check_key(job)) return false;
    } else if (by == FXI_ISOLATE_CONNECTION) {
        snprintf(job->scope, sizeof job->scope, "c%llu", (unsigned long long)place->serial);
    } else if (by == FXI_ISOLATE_ADDRESS) {
        _Static_assert(sizeof job->scope >= FXI_ADDRESS_TEXT_BYTES, "an address fits");
        fxi_address_text(&place->address, job->scope);
    }
    if ((access != FXI_ACCESS_ADMIN && access != FXI_ACCESS_WATCH) || job->tenant->is_admin)
        return true;
    const bool is_keyless_watch = access == FXI_ACCESS_WATCH && !keys.n_key;
    if (is_keyless_watch && (by == FXI_ISOLATE_NONE || fxi_address_is_loopback(&place->address)))
        return true;
    return fxi_http_fail(&job->early, 403, "admin_only", NULL,
                         is_keyless_watch
                             ? "this path needs an admin's API key where clients are isolated"
                         : keys.has_admin ? "this path needs an admin's API key"
                                          : "this path is off: --api-key-file has no admin's key");
}

// ---- the body ---------------------------------------------------------------------------------

// Where no worker reads it, a body is counted and dropped: it takes no memory.
static bool keeps_body(const fxi_http_job *job)
{
    return job->route && job->route->on_worker;
}

static bool refuse_large_body(fxi_http_job *job)
{
    return fxi_http_fail(&job->early, 413, NULL, NULL, "the body is larger than %zu bytes",
                         job->srv->opt.max_body_bytes);
}

// Bodies of the types that a page may send anywhere without being asked about (text/plain, forms,
// none) are not accepted, JSON or not.
static bool check_body(fxi_http_job *job)
{
    static const char json[] = "application/json";
    const size_t n = sizeof json - 1;
    const fxi_head *h = &job->conn->head;
    const char *type = fxi_http_job_header(job, "Content-Type");
    const char *coding = fxi_http_job_header(job, "Content-Encoding");
    if (!strcmp(h->method, "POST") && h->has_body) {
        if (coding && strcasecmp(coding, "identity") != 0)
            return fxi_http_fail(&job->early, 415, NULL, NULL,
                                 "compressed bodies are not accepted");
        if (!type || strncasecmp(type, json, n) != 0 || (type[n] && !strchr("; \t", type[n])))
            return fxi_http_fail(
                &job->early, 415, NULL, NULL,
                "the body must be JSON, with the header Content-Type: application/json");
    }
    if (h->n_bytes > job->srv->opt.max_body_bytes) return refuse_large_body(job);
    return !keeps_body(job) ||
           fxi_bytes_granted(&job->early, fxi_body_reserve(&job->body, &job->charge, h->n_bytes));
}

bool fxi_admission_take_body(fxi_http_job *job, const char *p, size_t n)
{
    const size_t max = job->srv->opt.max_body_bytes;
    job->n_body_bytes += n;
    if (job->n_body_bytes / MAX_DROPPED > max) return false;
    if (!job->early.status && job->n_body_bytes > max) refuse_large_body(job);
    if (!job->early.status && keeps_body(job))
        fxi_bytes_granted(&job->early, fxi_body_add(&job->body, &job->charge, p, n));
    if (job->early.status) fxi_body_free(&job->body, &job->charge);
    return true;
}

// ---- all of it --------------------------------------------------------------------------------

static bool check_head(fxi_http_job *job)
{
    const fxi_conn *c = job->conn;
    const char *accept = fxi_http_job_header(job, "Accept");
    if (!check_sender(job)) return false;
    // What a browser asks before it sends a request of another origin; it comes without a key.
    job->preflight = job->origin && !strcmp(c->head.method, "OPTIONS") &&
                     fxi_http_job_header(job, "Access-Control-Request-Method");
    if (job->preflight) return true;
    job->wants_page = accept && strstr(accept, "text/html");
    job->route =
        fxi_route_find(c->head.method, c->head.path, job->allow, sizeof job->allow, &job->early);
    if (!job->route || !check_access(job)) return false;
    // The engine may come meanwhile: what this request has seen counts.
    job->eng = job->srv->eng;
    const fxi_access access = job->route->access;
    const bool is_free = access == FXI_ACCESS_KEY || access == FXI_ACCESS_PAGE ||
                         access == FXI_ACCESS_PROBE || (access == FXI_ACCESS_METRICS && job->eng);
    if (!is_free && !job->eng) return fxi_http_fail_loading(&job->early);
    if (!is_free && !fxi_permit_work(job->srv, &job->early)) return false;
    job->client =
        fxi_tenant_client(job->tenant, &c->place.address, job->srv->loop.places.addresses.secret);
    return true;
}

bool fxi_admission_check(fxi_http_job *job, const fxi_http_error *err)
{
    const fxi_head *h = &job->conn->head;
    // The client's own id if it is one word of printable ASCII, else a new one.
    const char *id = fxi_http_job_header(job, "X-Request-Id");
    const size_t n = id ? strlen(id) : 0;
    bool is_good = n && n < sizeof job->request_id;
    for (size_t i = 0; is_good && i < n; i++) is_good = id[i] > ' ' && id[i] <= '~';
    if (is_good)
        memcpy(job->request_id, id, n + 1);
    else
        fxi_random_id(job->request_id, sizeof job->request_id, "req");
    job->is_head = h->method && !strcmp(h->method, "HEAD");
    if (err->status) {
        job->early = *err;
        job->at_once = true;
        return false;
    }
    const bool is_admitted = check_head(job) && check_body(job);
    fxi_account_begin(job);
    // A client that waits for "100 Continue", or announces far too much, is not to send its body.
    job->at_once |= !is_admitted && (fxi_http_job_header(job, "Expect") ||
                                     h->n_bytes / MAX_DROPPED > job->srv->opt.max_body_bytes);
    return is_admitted;
}
