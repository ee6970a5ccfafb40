// fuzz_guard.c - what guards the server reads of its clients and of its operator: a Host header
// that is taken for the server's names it or this machine, by a reader of its own; a page that may
// use the server comes from it; a key file gives keys within their limits, or one line of error.
//
// An input is a Host, an Origin and a key file, with a NUL after each of the first two.
#include "fuzz.h"

#include <arpa/inet.h>
#include <ctype.h>
#include <string.h>
#include <strings.h>

#include "server/guard/keys.h"
#include "server/guard/origin.h"

FUZZ_TARGET(fuzz_guard);

static const fxi_origins plain = {.listen_host = "127.0.0.1"};

// ---- names --------------------------------------------------------------------------------------

// Cuts ":80" or any other port off a copy of the name, brackets off an address, and the last dot.
static void read_name(const char *host, char *name, size_t cap, char *port)
{
    const char *colon = strrchr(host, ':'), *bracket = strrchr(host, ']');
    const bool has_port = colon && (bracket ? colon > bracket : strchr(host, ':') == colon);
    const size_t n = has_port ? (size_t)(colon - host) : strlen(host);
    snprintf(port, 16, "%s", has_port ? colon + 1 : "");
    const bool bracketed = n > 1 && host[0] == '[' && host[n - 1] == ']';
    const bool is_full = !bracketed && n > 0 && host[n - 1] == '.'; // a name of the DNS in full
    snprintf(name, cap, "%.*s", (int)(n - 2 * bracketed - is_full), host + bracketed);
}

static bool is_this_machine(const char *name)
{
    struct in_addr v4;
    struct in6_addr v6;
    if (!strcasecmp(name, "localhost")) return true;
    if (inet_pton(AF_INET, name, &v4) == 1) return ntohl(v4.s_addr) >> 24 == 127;
    if (inet_pton(AF_INET6, name, &v6) != 1) return false;
    return IN6_IS_ADDR_LOOPBACK(&v6) || (IN6_IS_ADDR_V4MAPPED(&v6) && v6.s6_addr[12] == 127);
}

static void check_host(const char *host)
{
    char name[256], port[16];
    if (!fxi_host_is_known(&plain, host)) return;
    read_name(host, name, sizeof name, port);
    FUZZ_CHECK(is_this_machine(name));
    for (const char *c = port; *c; c++) FUZZ_CHECK(isdigit((unsigned char)*c));
}

// The server's own pages have its scheme and the name under which it was reached.
static void check_origin(const char *origin, const char *host)
{
    char page[256], server[256], page_port[16], server_port[16];
    if (!fxi_origin_is_allowed(&plain, origin, host)) return;
    FUZZ_CHECK(!strncasecmp(origin, "http://", 7) && fxi_host_is_known(&plain, host));
    read_name(origin + 7, page, sizeof page, page_port);
    read_name(host, server, sizeof server, server_port);
    FUZZ_CHECK(!strcasecmp(page, server));
    const char *a = page_port[0] ? page_port : "80", *b = server_port[0] ? server_port : "80";
    FUZZ_CHECK(!strcmp(a, b));
}

// ---- keys ---------------------------------------------------------------------------------------

static void check_key(const fxi_key *k)
{
    FUZZ_CHECK(k->tenant.id[0] && strlen(k->tenant.id) < FXI_TENANT_ID_BYTES);
    FUZZ_CHECK(strspn(k->tenant.id, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                    "_.-") == strlen(k->tenant.id));
    FUZZ_CHECK(!strchr(k->tenant.salt, '/') && strstr(k->tenant.salt, k->tenant.id));
    FUZZ_CHECK(k->tenant.max_priority >= 0 && k->tenant.max_priority <= 100);
    FUZZ_CHECK(k->n_bytes > 0 && k->n_bytes <= FXI_MAX_KEY_BYTES);
    for (size_t i = 0; i < k->n_bytes; i++) FUZZ_CHECK(k->text[i] > ' ' && k->text[i] <= '~');
}

static void check_keys(const char *text, size_t n_bytes)
{
    fxi_key_set *set = calloc(1, sizeof *set);
    fx_error err = {0};
    if (!set) abort();
    if (fxi_key_set_read(set, text, n_bytes, "keys", &err) != FX_OK)
        FUZZ_CHECK(err.text[0] && !strchr(err.text, '\n'));
    FUZZ_CHECK(set->n <= FXI_MAX_KEY);
    for (int i = 0; i < set->n; i++) check_key(set->key[i]);
    fxi_key_set_clear(set);
    free(set);
}

// ---- the target ---------------------------------------------------------------------------------

// Takes a text of less than 200 bytes off the front.
static bool take_text(const uint8_t **p, size_t *n, char text[200])
{
    const uint8_t *end = memchr(*p, 0, *n);
    if (!end || end - *p >= 200) return false;
    memcpy(text, *p, (size_t)(end - *p) + 1);
    *n -= (size_t)(end - *p) + 1;
    *p = end + 1;
    return true;
}

int fuzz_guard_run(const uint8_t *data, size_t n_bytes)
{
    char host[200], origin[200];
    if (!take_text(&data, &n_bytes, host) || !take_text(&data, &n_bytes, origin)) return 0;
    check_host(host);
    check_origin(origin, host);
    check_keys((const char *)data, n_bytes);
    return 0;
}

bool fuzz_guard_seed(unsigned i, fxi_buf *out)
{
    static const char *const seeds[][3] = {
        {"localhost:8080", "http://localhost:8080", "ann sk-1\nbob sk-2 admin priority=7\n"},
        {"127.0.0.1", "http://127.0.0.1:80", "# comment\n\n\tops\tsk-3\tadmin\r\n"},
        {"[::1]:8080", "http://[::1]:8080", "ann sk-1 priority=100\nann sk-2"},
        {"[::ffff:127.0.0.1]", "null", "a b priority=101\n"},
        {"evil.example", "http://evil.example", "a"},
        {"LOCALHOST:80", "HTTP://LocalHost", ""},
    };
    if (i >= sizeof seeds / sizeof *seeds) return false;
    for (int k = 0; k < 3; k++)
        if (!fxi_buf_add(out, seeds[i][k], strlen(seeds[i][k]) + (k < 2))) return false;
    return true;
}
