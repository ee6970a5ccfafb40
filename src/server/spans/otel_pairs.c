// otel_pairs.c - pairs of a list, blanks around them cut off.
#include "server/spans/otel_pairs.h"

#include <ctype.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

// p[0..n) without blanks around it, decoded. False: it does not fit, or is broken.
static bool decode_text(const char *p, size_t n, char *out, size_t cap)
{
    size_t at = 0;
    while (n > 0 && (*p == ' ' || *p == '\t')) p++, n--;
    while (n > 0 && (p[n - 1] == ' ' || p[n - 1] == '\t')) n--;
    for (size_t i = 0; i < n; i++, at++) {
        const char *digit = p + i + 1;
        const bool is_coded = p[i] == '%';
        if (at + 1 >= cap) return false;
        if (is_coded &&
            (n - i < 3 || !isxdigit((unsigned char)digit[0]) || !isxdigit((unsigned char)digit[1])))
            return false;
        const char hex[3] = {is_coded ? digit[0] : '0', is_coded ? digit[1] : '0', 0};
        out[at] = is_coded ? (char)strtol(hex, NULL, 16) : p[i];
        if (!out[at]) return false;
        i += is_coded ? 2 : 0;
    }
    out[at] = 0;
    return true;
}

static bool take_pair(const char *p, size_t n, fxi_otel_pair *out)
{
    const char *eq = memchr(p, '=', n);
    const size_t n_key = eq ? (size_t)(eq - p) : 0;
    return eq && decode_text(p, n_key, out->key, sizeof out->key) && out->key[0] &&
           decode_text(eq + 1, n - n_key - 1, out->value, sizeof out->value);
}

bool fxi_otel_pair_next(const char **list, fxi_otel_pair *out)
{
    while (*list && **list) {
        const char *p = *list;
        const size_t n = strcspn(p, ",");
        *list = p + n + (p[n] == ',');
        if (take_pair(p, n, out)) return true;
    }
    return false;
}

bool fxi_otel_pair_is_header(const fxi_otel_pair *p)
{
    static const char *const own[] = {"Host", "Content-Type", "Content-Length", "Connection",
                                      "Transfer-Encoding"};
    for (size_t i = 0; i < sizeof own / sizeof *own; i++)
        if (!strcasecmp(p->key, own[i])) return false;
    for (const char *c = p->key; *c; c++)
        if (!isalnum((unsigned char)*c) && !strchr("!#$%&'*+-.^_`|~", *c)) return false;
    for (const char *c = p->value; *c; c++)
        if (*c < ' ' || *c > '~') return false;
    return true;
}
