// doors.c - what a request must pass before its body is read, and who it is from then.
//
//   framing -> a place for its connection -> Host -> Origin -> path -> key -> state of the server
//
// Each step refuses with the status that fits; the first one that does decides the answer.
#include "server/http/http.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

#include "base/text/utf8.h"

static const char *header_of(const fxi_http_job *job, const char *name)
{
    return MHD_lookup_connection_value(job->conn, MHD_HEADER_KIND, name);
}

// Refuses without reading the body; the connection closes.
static bool refuse_at_once(fxi_http_job *job)
{
    job->at_once = true;
    return false;
}

// ---- the connection ---------------------------------------------------------------------------

static bool check_peer_place(fxi_http_job *job)
{
    const int status = fxi_peers_refusal(&job->srv->peers, job->peer);
    if (!status) return true;
    fxi_http_fail(&job->early, status, status == 429 ? "too_many_connections" : "overloaded", NULL,
                  status == 429 ? "this address has too many connections"
                                : "the server has too many connections");
    return refuse_at_once(job);
}

// ---- names and pages --------------------------------------------------------------------------

static bool check_host(fxi_http_job *job)
{
    const char *host = header_of(job, "Host");
    if (!host || fxi_host_is_known(&job->srv->origins, host)) return true;
    fxi_http_fail(&job->early, 403, "host_not_allowed", NULL,
                  "this server is not known as '%.*s'; --allowed-host names what it is known as",
                  FXI_UTF8_HEAD(host, 100));
    return refuse_at_once(job);
}

static bool check_origin(fxi_http_job *job)
{
    const char *origin = header_of(job, "Origin"), *host = header_of(job, "Host");
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

// The key that the request comes with, or NULL.
static const char *given_key(const fxi_http_job *job)
{
    static const char scheme[] = "Bearer ";
    const char *auth = header_of(job, "Authorization");
    if (!auth || strncasecmp(auth, scheme, sizeof scheme - 1) != 0)
        return header_of(job, "x-api-key");
    auth += sizeof scheme - 1;
    return auth + strspn(auth, " ");
}

static bool check_key(fxi_http_job *job)
{
    const char *key = given_key(job);
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
        snprintf(job->scope, sizeof job->scope, "c%llu", (unsigned long long)job->peer->serial);
    if (by == FXI_ISOLATE_ADDRESS)
        snprintf(job->scope, sizeof job->scope, "%s",
                 fxi_address_text(&job->peer->visitor->address, text));
}

// Without keys: who is kept apart from others is not to see what they do.
static bool check_watch(fxi_http_job *job)
{
    if (job->route->access != FXI_ACCESS_WATCH || job->srv->opt.isolate == FXI_ISOLATE_NONE ||
        fxi_address_is_loopback(&job->peer->visitor->address))
        return true;
    return fxi_http_fail(&job->early, 403, "admin_only", NULL,
                         "this path needs an admin's API key where clients are kept apart");
}

static bool check_admin(fxi_http_job *job, const fxi_keyring_facts *keys)
{
    const fxi_access access = job->route->access;
    if ((access != FXI_ACCESS_ADMIN && access != FXI_ACCESS_WATCH) || job->tenant->is_admin)
        return true;
    if (access == FXI_ACCESS_WATCH && !keys->n_key) return check_watch(job);
    return fxi_http_fail(&job->early, 403, "admin_only", NULL,
                         keys->has_admin ? "this path needs an admin's API key"
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

static bool asks_for_page(const fxi_http_job *job)
{
    const char *accept = header_of(job, "Accept");
    return accept && strstr(accept, "text/html");
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

// ---- all of them ------------------------------------------------------------------------------

// What a browser asks before it sends a request of another origin; it comes without a key.
static bool is_preflight(const fxi_http_job *job, const char *method)
{
    return job->origin && !strcmp(method, "OPTIONS") &&
           header_of(job, "Access-Control-Request-Method");
}

bool fxi_doors_pass(fxi_http_job *job, const char *method, const char *url, const char *version)
{
    if (!fxi_framing_check(job, method, version, &job->early)) return refuse_at_once(job);
    if (!check_peer_place(job) || !check_host(job) || !check_origin(job)) return false;
    if (is_preflight(job, method)) {
        job->preflight = true;
        return true;
    }
    job->wants_page = asks_for_page(job);
    job->route = fxi_route_find(method, url, job->allow, sizeof job->allow, &job->early);
    if (!job->route || !check_access(job) || !check_state(job)) return false;
    job->client =
        fxi_tenant_client(job->tenant, &job->peer->visitor->address, job->srv->peers.crowd.secret);
    return true;
}
