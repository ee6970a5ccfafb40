// fuzz_spans.c - what spans take from outside: traceparent and tracestate of a client, a list of
// pairs, and a collector's answer. A traceparent that is taken has 32 digits of a trace and 16 of a
// parent that are not all zeros, and is written back as it came.
//
// An input is a traceparent, a tracestate or list, and an answer, with a NUL after each of the
// first two.
#include "fuzz.h"

#include <stdlib.h>
#include <string.h>

#include "server/spans/span.h"

FUZZ_TARGET(fuzz_spans);

static void check_span(const char *parent, const char *state)
{
    static const uint8_t none[FXI_SPAN_ID_BYTES];
    fxi_trace_span *s = fxi_trace_span_begin(parent, state);
    char again[64] = "";
    size_t n = 0;
    if (s && memcmp(s->context.parent_id, none, sizeof none) != 0) {
        for (int i = 0; i < FXI_TRACE_ID_BYTES; i++)
            n += (size_t)snprintf(again + n, sizeof again - n, "%02x", s->context.trace_id[i]);
        again[n++] = '-';
        for (int i = 0; i < FXI_SPAN_ID_BYTES; i++)
            n += (size_t)snprintf(again + n, sizeof again - n, "%02x", s->context.parent_id[i]);
        FUZZ_CHECK(!strncmp(parent + 3, again, n) && strspn(again, "0-") < n);
        FUZZ_CHECK(strlen(parent) >= 55 && parent[52] == '-');
    }
    if (s && s->trace_state[0])
        FUZZ_CHECK(!strcmp(s->trace_state, state) && !strpbrk(state, "\r\n\x7f"));
    free(s);
}

static void check_pairs(const char *list)
{
    fxi_otel_pair p;
    while (fxi_otel_pair_next(&list, &p)) {
        FUZZ_CHECK(p.key[0] && strlen(p.key) < sizeof p.key && strlen(p.value) < sizeof p.value);
        if (fxi_otel_pair_is_header(&p))
            FUZZ_CHECK(!strpbrk(p.key, ": \r\n") && !strpbrk(p.value, "\r\n"));
    }
}

static void check_answer(const char *text, size_t n)
{
    char why[32];
    (void)fxi_otlp_rejected(text, n, why, sizeof why);
    FUZZ_CHECK(memchr(why, 0, sizeof why));
}

int fuzz_spans_run(const uint8_t *data, size_t n_bytes)
{
    const char *parent = (const char *)data, *end = parent + n_bytes;
    const char *state = n_bytes ? memchr(parent, 0, n_bytes) : NULL;
    const char *answer = state ? memchr(state + 1, 0, (size_t)(end - state - 1)) : NULL;
    if (!answer) return 0;
    check_span(parent, state + 1);
    check_pairs(state + 1);
    check_answer(answer + 1, (size_t)(end - answer - 1));
    return 0;
}

bool fuzz_spans_seed(unsigned i, fxi_buf *out)
{
    static const char *const seeds[][3] = {
        {"00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "rojo=00f067,congo=t61",
         "{\"partialSuccess\":{\"rejectedSpans\":\"3\",\"errorMessage\":\"no\"}}"},
        {"cc-00000000000000000000000000000001-0000000000000001-00-more", "a=b%20c,d=e", "{}"},
        {"ff-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01", "a",
         "{\"partialSuccess\":{\"rejectedSpans\":4}}"},
    };
    if (i >= sizeof seeds / sizeof *seeds) return false;
    for (int k = 0; k < 3; k++)
        if (!fxi_buf_add(out, seeds[i][k], strlen(seeds[i][k]) + (k < 2))) return false;
    return true;
}
