// origin.h - which names the server answers to, and which web pages may use it.
//
// A browser sends requests to any address that a page names, so a server on this machine is open to
// every page that its user visits. Two headers tell such requests apart. `Host` is the name in the
// URL: a page that points a name of its own at 127.0.0.1 (DNS rebinding) still sends that name.
// `Origin` is the site of the page that sends the request; programs do not send it.
#ifndef FXI_SERVER_ORIGIN_H
#define FXI_SERVER_ORIGIN_H

#include <stdbool.h>
#include <stddef.h>

// Texts of the command line; each may hold several names, separated by commas.
typedef struct fxi_name_list {
    const char *const *text; // [n]
    size_t n;
} fxi_name_list;

// The path in a host "unix:/run/flexinfer.sock"; NULL: it is none.
const char *fxi_host_file(const char *host);

typedef struct fxi_origins {
    const char *listen_host; // the address that the server listens on, or "unix:" and a path
    fxi_name_list hosts;     // more names that it answers to; "*": any
    fxi_name_list cors;      // origins like "https://example.org" that may use it; "*": any
    bool tls;                // it is reached by https
} fxi_origins;

// Whether a Host header names this server: localhost, a loopback address, the address it listens on
// or one of o->hosts, each with any port. A server that listens on all addresses has any of them,
// so there every IP address is known, too: what is rebound is always a name. Through a file's
// socket no browser comes: every name is known.
bool fxi_host_is_known(const fxi_origins *o, const char *host);

// Whether a page of this origin may use the server, which it reached under `host`: the server's own
// pages, and those of o->cors.
bool fxi_origin_is_allowed(const fxi_origins *o, const char *origin, const char *host);

// Whether one of the names of the list is `name`; letters A to Z equal their small ones.
bool fxi_name_list_has(const fxi_name_list *list, const char *name);

#endif
