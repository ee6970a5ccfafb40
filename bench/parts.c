// parts.c - the parts of a bench, by name.
#include "parts.h"

#include <stdbool.h>
#include <string.h>

static bool is_named(const bench_part *p, const char *name, size_t n)
{
    return strlen(p->name) == n && !strncmp(p->name, name, n);
}

static const char *after_comma(const char *at)
{
    const char *comma = strchr(at, ',');
    return comma ? comma + 1 : NULL;
}

static bool is_listed(const char *only, const bench_part *p)
{
    for (const char *at = only; at; at = after_comma(at))
        if (is_named(p, at, strcspn(at, ","))) return true;
    return !only;
}

static bool is_part(const bench_part *part, int n_part, const char *name, size_t n)
{
    for (int i = 0; i < n_part; i++)
        if (is_named(&part[i], name, n)) return true;
    return false;
}

fx_status parts_check(const bench_part *part, int n_part, const char *only, fx_error *err)
{
    for (const char *at = only; at; at = after_comma(at)) {
        const size_t n = strcspn(at, ",");
        if (!is_part(part, n_part, at, n))
            return fxi_fail(err, FX_EINVAL, "--only: '%.*s' is no part of this bench", (int)n, at);
    }
    return FX_OK;
}

void parts_run(const bench_part *part, int n_part, const char *only, struct bench *b)
{
    for (int i = 0; i < n_part; i++)
        if (is_listed(only, &part[i])) part[i].run(b);
}
