// trace_context.c - 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01: version, trace, span,
// flags, in lower-case hexadecimal digits. Ids of zeros and the version ff are invalid.
#include "server/spans/trace_context.h"

#include <stddef.h>
#include <string.h>

static int id_digit_of(char c)
{
    if (c >= '0' && c <= '9') return c - '0';
    return c >= 'a' && c <= 'f' ? c - 'a' + 10 : -1;
}

// n bytes from 2 n digits, which a '-' or, at `last`, the end follows. NULL: they are not there.
static const char *take_id(const char *p, uint8_t *out, size_t n, bool last)
{
    for (size_t i = 0; i < n; i++, p += 2) {
        const int high = id_digit_of(p[0]), low = high < 0 ? -1 : id_digit_of(p[1]);
        if (low < 0) return NULL;
        out[i] = (uint8_t)(high << 4 | low);
    }
    return *p == '-' || (last && !*p) ? p + (*p == '-') : NULL;
}

static bool is_zero(const uint8_t *p, size_t n)
{
    while (n > 0 && !p[n - 1]) n--;
    return n == 0;
}

bool fxi_trace_context_read(const char *text, fxi_trace_context *out)
{
    fxi_trace_context c = {0};
    uint8_t version, flags = 0;
    const char *p = text ? take_id(text, &version, 1, false) : NULL;
    if (p) p = take_id(p, c.trace_id, sizeof c.trace_id, false);
    if (p) p = take_id(p, c.parent_id, sizeof c.parent_id, false);
    const char *end = p ? take_id(p, &flags, 1, true) : NULL;
    if (!end || version == 0xff || (version == 0 && end != p + 2)) return false;
    if (is_zero(c.trace_id, sizeof c.trace_id) || is_zero(c.parent_id, sizeof c.parent_id))
        return false;
    c.is_sampled = flags & 1;
    *out = c;
    return true;
}

bool fxi_trace_state_is_valid(const char *text)
{
    const size_t n = text ? strlen(text) : 0;
    bool ok = n > 0 && n < FXI_TRACE_STATE_BYTES;
    for (size_t i = 0; ok && i < n; i++) ok = text[i] >= ' ' && text[i] <= '~';
    return ok;
}
