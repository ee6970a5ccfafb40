// span.c - how a span begins: the headers of its trace, and ids. Lists of pairs.
#include "server/spans/span.h"

#include <ctype.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/random.h>

#include "base/system/clock.h" // defines: fxi_now_ns

// ---- traceparent: 00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01 ----------------------
//
// Version, trace, span, flags, in lower-case hexadecimal digits. Ids of zeros and the version ff
// are invalid.

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

// ---- spans -------------------------------------------------------------------------------------

// Ids must not be zero. Where the kernel has no entropy yet, the clock tells them apart.
static void fill_random(uint8_t *p, size_t n)
{
    const uint64_t now = fxi_now_ns();
    if (getrandom(p, n, GRND_NONBLOCK) == (ssize_t)n) return;
    memset(p, 1, n);
    memcpy(p, &now, sizeof now);
}

fxi_trace_span *fxi_trace_span_begin(const char *traceparent, const char *tracestate)
{
    fxi_trace_context c = {.is_sampled = true};
    const bool goes_on = fxi_trace_context_read(traceparent, &c);
    fxi_trace_span *s = c.is_sampled ? calloc(1, sizeof *s) : NULL;
    if (!s) return NULL;
    s->context = c;
    if (!goes_on) fill_random(s->context.trace_id, sizeof s->context.trace_id);
    fill_random(s->id, sizeof s->id);
    if (goes_on && fxi_trace_state_is_valid(tracestate))
        snprintf(s->trace_state, sizeof s->trace_state, "%s", tracestate);
    s->start_us = fxi_now_ns() / 1000;
    return s;
}

// ---- lists of pairs -----------------------------------------------------------------------------

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
