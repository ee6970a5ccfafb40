// span.c - how a span begins.
#include "server/spans/span.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "base/system/clock.h" // defines: fxi_now_ns

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
