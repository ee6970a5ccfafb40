// str.c - byte runs compared, hashed, cut into lines.
#include "base/text/str.h"

#include <string.h>

uint64_t fxi_str_hash(fxi_str s)
{
    uint64_t h = 0xcbf29ce484222325u;
    for (size_t i = 0; i < s.n; i++) h = (h ^ (unsigned char)s.p[i]) * 0x100000001b3u;
    return h;
}

int fxi_str_compare(fxi_str a, fxi_str b)
{
    size_t n = a.n < b.n ? a.n : b.n;
    int order = n ? memcmp(a.p, b.p, n) : 0;
    return order ? order : (a.n > b.n) - (a.n < b.n);
}

bool fxi_str_is(fxi_str s, const char *text)
{
    return s.n == strlen(text) && !memcmp(s.p, text, s.n);
}

bool fxi_str_is_any(fxi_str s, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (fxi_str_is(s, list[i])) return true;
    return false;
}

bool fxi_str_next_line(fxi_str *rest, fxi_str *line)
{
    if (rest->n == 0) return false;
    const char *end = memchr(rest->p, '\n', rest->n);
    *line = (fxi_str){rest->p, end ? (size_t)(end - rest->p) : rest->n};
    const size_t taken = line->n + (end != NULL);
    rest->p += taken;
    rest->n -= taken;
    if (line->n > 0 && line->p[line->n - 1] == '\r') line->n--;
    return true;
}
