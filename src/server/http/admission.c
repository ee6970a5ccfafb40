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

// Refuses without reading the body; the connection closes.
static bool refuse_at_once(fxi_http_job *job)
{
    job->at_once = true;
    return false;
}

// ---- the connection ---------------------------------------------------------------------------

static bool check_connection(fxi_http_job *job)
{
    const int status = job->conn->place.refused;
    if (!status) return true;
    fxi_http_fail(&job->early, status, status == 429 ? "too_many_connections" : "overloaded", NULL,
                  status == 429 ? "this address has too many connections"
                                : "the server has too many connections");
    return refuse_at_once(job);
}

// ---- names and pages --------------------------------------------------------------------------

static bool check_host(fxi_http_job *job)
{
    const char *host = fxi_http_job_header(job, "Host");
    if (!host || fxi_host_is_known(&job->srv->origins, host)) return true;
    fxi_http_fail(&job->early, 403, "host_not_allowed", NULL,
                  "this server is not known as '%.*s'; --allowed-host names what it is known as",
                  FXI_UTF8_HEAD(host, 100));
    return refuse_at_once(job);
}

static bool check_origin(fxi_http_job *job)
{
    const char *origin = fxi_http_job_header(job, "Origin"),
               *host = fxi_http_job_header(job, "Host");
    if (!origin) return true;
    if (!fxi_origin_is_allowed(&job->srv->origins, origin, host ? host : "")) {
        fxi_http_fail(&job->early, 403, "origin_not_allowed", NULL,
                      "pages of '%.*s' may not use this server; --cors names those that may",
                      FXI_UTF8_HEAD(origin, 100));
        return refuse_at_once(job);
    }
    job->origin = origin;
    return true;
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

// Without keys, clients that should not learn of each other's prompts get caches of their own.
static void set_scope(fxi_http_job *job)
{
    char text[FXI_ADDRESS_TEXT_BYTES];
    const fxi_isolation by = job->srv->opt.isolate;
    if (by == FXI_ISOLATE_CONNECTION)
        snprintf(job->scope, sizeof job->scope, "c%llu",
                 (unsigned long long)job->conn->place.serial);
    if (by == FXI_ISOLATE_ADDRESS)
        snprintf(job->scope, sizeof job->scope, "%s",
                 fxi_address_text(&job->conn->place.address, text));
}

// Without keys isolated clients may not watch the engine, unless they are on this machine.
static bool check_admin(fxi_http_job *job, const fxi_keyring_facts *keys)
{
    const fxi_access access = job->route->access;
    if ((access != FXI_ACCESS_ADMIN && access != FXI_ACCESS_WATCH) || job->tenant->is_admin)
        return true;
    const bool is_keyless_watch = access == FXI_ACCESS_WATCH && !keys->n_key;
    if (is_keyless_watch && (job->srv->opt.isolate == FXI_ISOLATE_NONE ||
                             fxi_address_is_loopback(&job->conn->place.address)))
        return true;
    return fxi_http_fail(&job->early, 403, "admin_only", NULL,
                         is_keyless_watch
                             ? "this path needs an admin's API key where clients are isolated"
                         : keys->has_admin ? "this path needs an admin's API key"
                                           : "this path is off: --api-key-file has no admin's key");
}

static bool check_access(fxi_http_job *job)
{
    const fxi_access access = job->route->access;
    const fxi_keyring_facts keys = fxi_keyring_look(job->srv->keys);
    if (access == FXI_ACCESS_PROBE) return true;
    if (access == FXI_ACCESS_METRICS && job->srv->opt.open_metrics) return true;
    if (access == FXI_ACCESS_PAGE && job->wants_page) return true;
    if (!keys.n_key)
        set_scope(job);
    else if (!check_key(job))
        return false;
    return check_admin(job, &keys);
}

// ---- the state of the server ------------------------------------------------------------------

static bool check_state(fxi_http_job *job)
{
    const fxi_access access = job->route->access;
    job->eng = job->srv->eng;
    if (access == FXI_ACCESS_KEY || access == FXI_ACCESS_PAGE || access == FXI_ACCESS_PROBE)
        return true;
    if (access == FXI_ACCESS_METRICS && job->eng) return true;
    // The engine may be there by now: what counts is what this request has seen.
    return job->eng ? fxi_permit_work(job->srv, &job->early) : fxi_http_fail_loading(&job->early);
}

// ---- the body ---------------------------------------------------------------------------------

// Bodies of the types that a page may send anywhere without being asked about (text/plain, forms,
// none) are not accepted, JSON or not.
static bool check_content_type(fxi_http_job *job)
{
    static const char json[] = "application/json";
    const size_t n = sizeof json - 1;
    const char *type = fxi_http_job_header(job, "Content-Type");
    const char *coding = fxi_http_job_header(job, "Content-Encoding");
    if (coding && strcasecmp(coding, "identity") != 0)
        return fxi_http_fail(&job->early, 415, NULL, NULL, "compressed bodies are not accepted");
    if (type && !strncasecmp(type, json, n) && (!type[n] || strchr("; \t", type[n]))) return true;
    return fxi_http_fail(&job->early, 415, NULL, NULL,
                         "the body must be JSON, with the header Content-Type: application/json");
}

static bool refuse_large_body(fxi_http_job *job)
{
    return fxi_http_fail(&job->early, 413, NULL, NULL, "the body is larger than %zu bytes",
                         job->srv->opt.max_body_bytes);
}

static bool check_reserved(fxi_http_job *job, fxi_quota_result res)
{
    if (res == FXI_QUOTA_OK) return true;
    fxi_body_free(&job->body, &job->charge);
    return fxi_bytes_granted(&job->early, res);
}

// Where no work reads it, a body is counted and dropped: it takes no memory.
static bool keeps_body(const fxi_http_job *job)
{
    return job->route && job->route->work;
}

static bool check_body(fxi_http_job *job)
{
    const fxi_head *h = &job->conn->head;
    if (!strcmp(h->method, "POST") && h->has_body && !check_content_type(job)) return false;
    if (h->n_bytes > job->srv->opt.max_body_bytes) return refuse_large_body(job);
    if (!keeps_body(job)) return true;
    return check_reserved(job, fxi_body_reserve(&job->body, &job->charge, h->n_bytes));
}

bool fxi_admission_take_body(fxi_http_job *job, const char *p, size_t n)
{
    const size_t max = job->srv->opt.max_body_bytes;
    job->n_body_bytes += n;
    if (job->n_body_bytes / MAX_DROPPED > max) return false;
    if (!job->early.status && job->n_body_bytes > max) refuse_large_body(job);
    if (!job->early.status && keeps_body(job))
        check_reserved(job, fxi_body_add(&job->body, &job->charge, p, n));
    if (job->early.status) fxi_body_free(&job->body, &job->charge);
    return true;
}

// ---- all of it --------------------------------------------------------------------------------

static bool check_head(fxi_http_job *job)
{
    const fxi_conn *c = job->conn;
    if (!check_connection(job) || !check_host(job) || !check_origin(job)) return false;
    // What a browser asks before it sends a request of another origin; it comes without a key.
    job->preflight = job->origin && !strcmp(c->head.method, "OPTIONS") &&
                     fxi_http_job_header(job, "Access-Control-Request-Method");
    if (job->preflight) return true;
    const char *accept = fxi_http_job_header(job, "Accept");
    job->wants_page = accept && strstr(accept, "text/html");
    job->route =
        fxi_route_find(c->head.method, c->head.path, job->allow, sizeof job->allow, &job->early);
    if (!job->route || !check_access(job) || !check_state(job)) return false;
    job->client =
        fxi_tenant_client(job->tenant, &c->place.address, job->srv->loop.places.addresses.secret);
    return true;
}

// The client's own id if it is one word of printable ASCII, else a new one.
static void take_request_id(fxi_http_job *job)
{
    const char *id = fxi_http_job_header(job, "X-Request-Id");
    const size_t n = id ? strlen(id) : 0;
    bool is_good = n && n < sizeof job->request_id;
    for (size_t i = 0; is_good && i < n; i++) is_good = id[i] > ' ' && id[i] <= '~';
    if (is_good)
        memcpy(job->request_id, id, n + 1);
    else
        fxi_random_id(job->request_id, sizeof job->request_id, "req");
}

bool fxi_admission_check(fxi_http_job *job, const fxi_http_error *err)
{
    const fxi_head *h = &job->conn->head;
    take_request_id(job);
    job->is_head = h->method && !strcmp(h->method, "HEAD");
    if (err->status) {
        job->early = *err;
        return refuse_at_once(job);
    }
    const bool is_good = check_head(job) && check_body(job);
    fxi_account_begin(job);
    // A client that waits for "100 Continue", or announces far too much, is not to send its body.
    job->at_once |= !is_good && (fxi_http_job_header(job, "Expect") ||
                                 h->n_bytes / MAX_DROPPED > job->srv->opt.max_body_bytes);
    return is_good;
}
