// span.c - how a span begins: the headers of its trace, and ids; lists of pairs; spans as the JSON
// of OTLP.
#include "server/spans/span.h"
#include "base/json/json.h"
#include "base/keyed/hash.h"   // defines: fxi_secret_make
#include "base/system/clock.h" // defines: fxi_now_ns
#include "base/text/str.h"     // defines: fxi_hex_digit

#include <ctype.h>
#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <unistd.h>

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

// False: it is NULL or not valid; then *out is unchanged.
static bool read_traceparent(const char *text, fxi_trace_context *out)
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

static bool is_valid_state(const char *text)
{
    const size_t n = text ? strlen(text) : 0;
    bool ok = n > 0 && n < FXI_TRACE_STATE_BYTES;
    for (size_t i = 0; ok && i < n; i++) ok = text[i] >= ' ' && text[i] <= '~';
    return ok;
}

// ---- spans -------------------------------------------------------------------------------------

fxi_trace_span *fxi_trace_span_begin(const char *traceparent, const char *tracestate)
{
    fxi_trace_context c = {.is_sampled = true};
    const bool goes_on = read_traceparent(traceparent, &c);
    const fxi_secret of_trace = fxi_secret_make(), of_span = fxi_secret_make();
    fxi_trace_span *s = c.is_sampled ? calloc(1, sizeof *s) : NULL;
    if (!s) return NULL;
    s->context = c;
    if (!goes_on) memcpy(s->context.trace_id, of_trace.key, sizeof s->context.trace_id);
    memcpy(s->id, of_span.key, sizeof s->id);
    if (goes_on && is_valid_state(tracestate))
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
        const bool is_coded = p[i] == '%';
        const int high = is_coded && n - i >= 3 ? fxi_hex_digit(p[i + 1]) : -1;
        const int low = high >= 0 ? fxi_hex_digit(p[i + 2]) : -1;
        if (at + 1 >= cap || (is_coded && low < 0)) return false;
        out[at] = is_coded ? (char)(high << 4 | low) : p[i];
        if (!out[at]) return false;
        i += is_coded ? 2 : 0;
    }
    out[at] = 0;
    return true;
}

bool fxi_otel_pair_next(const char **list, fxi_otel_pair *out)
{
    while (*list && **list) {
        const char *p = *list, *eq = strchr(p, '=');
        const size_t n = strcspn(p, ","), n_key = eq ? (size_t)(eq - p) : n;
        *list = p + n + (p[n] == ',');
        if (n_key < n && decode_text(p, n_key, out->key, sizeof out->key) && out->key[0] &&
            decode_text(eq + 1, n - n_key - 1, out->value, sizeof out->value))
            return true;
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

// ---- a batch of spans as JSON -------------------------------------------------------------------

// A request becomes a span with children, each written straight as text.

enum { KIND_INTERNAL = 1, KIND_SERVER = 2, STATUS_ERROR = 2 };
enum { FLAG_SAMPLED = 1, FLAG_HAS_REMOTE = 0x100, FLAG_IS_REMOTE = 0x200 };

typedef struct otlp_out {
    fxi_buf *b;
    const fxi_otlp *o;
    bool ok;
    bool has_some, has_attribute; // in the list of spans, of attributes
    int n_child;                  // of the span that is written, so far
} otlp_out;

#define PUT(w, ...) ((w)->ok = (w)->ok && fxi_buf_fmt((w)->b, __VA_ARGS__))

// ---- values -----------------------------------------------------------------------------------

static void put_json_text(otlp_out *w, const char *s)
{
    w->ok = w->ok && fxi_json_cstr(w->b, s);
}

static void put_hex(otlp_out *w, const char *name, const uint8_t *p, size_t n)
{
    PUT(w, "\"%s\":\"", name);
    for (size_t i = 0; i < n; i++) PUT(w, "%02x", p[i]);
    PUT(w, "\",");
}

static void put_time(otlp_out *w, const char *name, uint64_t at_us)
{
    const int64_t ns = (int64_t)at_us * 1000 + w->o->epoch_ns;
    PUT(w, "\"%s\":\"%" PRId64 "\"", name, ns > 0 ? ns : 0);
}

static void begin_attribute(otlp_out *w, const char *key)
{
    PUT(w, "%s{\"key\":", w->has_attribute ? "," : "");
    put_json_text(w, key);
    PUT(w, ",\"value\":");
    w->has_attribute = true;
}

static void put_attribute(otlp_out *w, const char *key, const char *value)
{
    if (!value || !*value) return;
    begin_attribute(w, key);
    PUT(w, "{\"stringValue\":");
    put_json_text(w, value);
    PUT(w, "}}");
}

static void put_int(otlp_out *w, const char *key, int64_t value)
{
    begin_attribute(w, key);
    PUT(w, "{\"intValue\":\"%" PRId64 "\"}}", value);
}

// ---- preemptions --------------------------------------------------------------------------------

enum { PIECE = 256 };

static uint64_t oldest_of_ring(const fxi_preempts *p)
{
    return p->n > FXI_N_PREEMPT ? p->n - FXI_N_PREEMPT : 0;
}

void fxi_preempts_follow(fxi_preempts *p, const fx_engine *eng)
{
    fx_record ev[PIECE];
    uint64_t first;
    for (size_t n; (n = fx_record_copy(eng, p->next, ev, PIECE, &first)) > 0; p->next = first + n)
        for (const fx_record *r = ev; r < ev + n; r++) {
            if (r->kind == FX_RECORD_preempt)
                p->at[p->n++ % FXI_N_PREEMPT] = (fxi_preempt){.request = r->request,
                                                              .from_us = r->at_us,
                                                              .n_tok = r->n_tok,
                                                              .is_swap = r->is_swap};
            if (r->kind != FX_RECORD_admit && r->kind != FX_RECORD_finish) continue;
            uint64_t k = p->n; // the last one of this request ends, if it has not
            while (k > oldest_of_ring(p) && p->at[(k - 1) % FXI_N_PREEMPT].request != r->request)
                k--;
            fxi_preempt *last = k > oldest_of_ring(p) ? &p->at[(k - 1) % FXI_N_PREEMPT] : NULL;
            if (last && !last->to_us) last->to_us = r->at_us;
        }
}

// ---- spans ------------------------------------------------------------------------------------

// A span up to its attributes, which the caller adds and closes with "]".
static void begin_span(otlp_out *w, const fxi_trace_span *s, const uint8_t *id,
                       const uint8_t *parent, int flags, const char *name, uint64_t from_us,
                       uint64_t to_us)
{
    const bool is_request = id == s->id;
    PUT(w, "%s\n{", w->has_some ? "," : "");
    w->has_some = true;
    w->has_attribute = false;
    put_hex(w, "traceId", s->context.trace_id, sizeof s->context.trace_id);
    put_hex(w, "spanId", id, FXI_SPAN_ID_BYTES);
    if (parent) put_hex(w, "parentSpanId", parent, FXI_SPAN_ID_BYTES);
    if (is_request && s->trace_state[0]) {
        PUT(w, "\"traceState\":");
        put_json_text(w, s->trace_state);
        PUT(w, ",");
    }
    PUT(w, "\"flags\":%d,\"name\":", FLAG_SAMPLED | FLAG_HAS_REMOTE | flags);
    put_json_text(w, name);
    PUT(w, ",\"kind\":%d,", is_request ? KIND_SERVER : KIND_INTERNAL);
    put_time(w, "startTimeUnixNano", from_us);
    PUT(w, ",");
    put_time(w, "endTimeUnixNano", to_us < from_us ? from_us : to_us);
    PUT(w, ",\"attributes\":[");
}

// Every child has an id of its own, made from its parent's (the finalizer of MurmurHash3).
static void begin_child(otlp_out *w, const fxi_trace_span *s, const char *name, uint64_t from_us,
                        uint64_t to_us)
{
    uint64_t v;
    memcpy(&v, s->id, sizeof v);
    v += UINT64_C(0x9e3779b97f4a7c15) * (uint64_t)++w->n_child;
    v = (v ^ v >> 33) * UINT64_C(0xff51afd7ed558ccd);
    v = (v ^ v >> 33) * UINT64_C(0xc4ceb9fe1a85ec53);
    v ^= v >> 33;
    if (!v) v = 1;
    begin_span(w, s, (const uint8_t *)&v, s->id, 0, name, from_us, to_us);
}

static void put_phase(otlp_out *w, const fxi_trace_span *s, int i, const char *name,
                      uint64_t from_us, uint64_t took_us)
{
    begin_child(w, s, name, from_us, from_us + took_us);
    put_int(w, "flexinfer.engine.request", (int64_t)s->part[i].request);
    if (s->n_prompt > 1) put_int(w, "flexinfer.prompt.index", i);
    PUT(w, "]}");
}

// What has not ended ends with the request.
static void put_prompt_part(otlp_out *w, const fxi_trace_span *s, int i)
{
    const fxi_trace_part *p = &s->part[i];
    const fxi_preempts *all = w->o->preempts;
    const uint64_t admitted_us = p->begun_us + p->queued_us;
    const uint64_t first_us = admitted_us + p->prefill_us;
    put_phase(w, s, i, "queue", p->begun_us, p->queued_us);
    if (p->prefill_us) put_phase(w, s, i, "prefill", admitted_us, p->prefill_us);
    if (p->decode_us) put_phase(w, s, i, "decode", first_us, p->decode_us);
    for (uint64_t k = all ? oldest_of_ring(all) : 0; all && k < all->n; k++) {
        const fxi_preempt *e = &all->at[k % FXI_N_PREEMPT];
        if (e->request != p->request) continue;
        begin_child(w, s, "preempted", e->from_us, e->to_us ? e->to_us : s->end_us);
        put_int(w, "flexinfer.engine.request", (int64_t)p->request);
        put_attribute(w, "flexinfer.preemption.mode", e->is_swap ? "swap" : "recompute");
        put_int(w, "flexinfer.preemption.tokens", e->n_tok);
        PUT(w, "]}");
    }
}

static void put_finish_reasons(otlp_out *w, unsigned reasons)
{
    static const char *const words[FX_N_FINISH] = {[FX_FINISH_STOP] = "stop",
                                                   [FX_FINISH_LENGTH] = "length",
                                                   [FX_FINISH_CANCEL] = "cancel",
                                                   [FX_FINISH_ABORT] = "aborted",
                                                   [FX_FINISH_ERROR] = "error"};
    bool some = false;
    if (!reasons) return;
    begin_attribute(w, "gen_ai.response.finish_reasons");
    PUT(w, "{\"arrayValue\":{\"values\":[");
    for (int f = FX_FINISH_STOP; f < FX_N_FINISH; f++) {
        if (!(reasons >> f & 1)) continue;
        PUT(w, "%s{\"stringValue\":\"%s\"}", some ? "," : "", words[f]);
        some = true;
    }
    PUT(w, "]}}}");
}

// first_us: when the first token of all prompts came; 0: none did.
static void put_attributes(otlp_out *w, const fxi_trace_span *s, uint64_t first_us)
{
    char status[16];
    snprintf(status, sizeof status, "%d", s->status);
    put_attribute(w, "http.request.method", s->method);
    put_attribute(w, "http.route", s->route);
    put_int(w, "http.response.status_code", s->status);
    if (s->error || s->status >= 400) put_attribute(w, "error.type", s->error ? s->error : status);
    put_attribute(w, "flexinfer.request_id", s->request_id);
    put_attribute(w, "flexinfer.tenant", s->tenant);
    if (s->n_prompt > 1) put_int(w, "flexinfer.prompts", s->n_prompt);
    if (!s->operation) return;
    put_attribute(w, "gen_ai.operation.name", s->operation);
    put_attribute(w, "gen_ai.provider.name", "flexinfer");
    put_attribute(w, "gen_ai.request.model", s->model);
    put_attribute(w, "gen_ai.response.model", s->response_model);
    put_attribute(w, "gen_ai.response.id", s->response_id);
    put_finish_reasons(w, s->finish_reasons);
    if (s->n_choice > 1) put_int(w, "gen_ai.request.choice.count", s->n_choice);
    if (s->has_usage) {
        put_int(w, "gen_ai.usage.input_tokens", s->n_prompt_tok);
        put_int(w, "gen_ai.usage.output_tokens", s->n_generated_tok);
        put_int(w, "gen_ai.usage.cache_read.input_tokens", s->n_cached_tok);
    }
    if (!first_us) return;
    begin_attribute(w, "flexinfer.time_to_first_token");
    PUT(w, "{\"doubleValue\":%.6f}}",
        first_us > s->start_us ? (double)(first_us - s->start_us) * 1e-6 : 0);
}

// Its name is "chat MODEL" as the conventions want it; without a model, or where nothing is
// generated, as HTTP. Errors of clients are no errors of the server: the conventions leave their
// status unset. An answer that fails after its head was sent has the status 200 and an error.
static void put_span(otlp_out *w, const fxi_trace_span *s)
{
    char name[256];
    const bool is_ai = s->operation && s->model[0];
    const bool has_parent = !is_zero(s->context.parent_id, FXI_SPAN_ID_BYTES);
    uint64_t first_us = 0;
    for (const fxi_trace_part *p = s->part; p < s->part + s->n_part; p++) {
        const uint64_t at_us = p->begun_us + p->queued_us + p->prefill_us;
        if (p->has_token && (!first_us || at_us < first_us)) first_us = at_us;
    }
    snprintf(name, sizeof name, "%s %s", is_ai ? s->operation : s->method,
             is_ai ? s->model : s->route);
    w->n_child = 0;
    begin_span(w, s, s->id, has_parent ? s->context.parent_id : NULL,
               has_parent ? FLAG_IS_REMOTE : 0, name, s->start_us, s->end_us);
    put_attributes(w, s, first_us);
    PUT(w, "]");
    if (first_us) {
        PUT(w, ",\"events\":[{\"name\":\"first_token\",");
        put_time(w, "timeUnixNano", first_us);
        PUT(w, "}]");
    }
    if (s->status >= 500 || (s->error && s->status < 400))
        PUT(w, ",\"status\":{\"code\":%d}", STATUS_ERROR);
    PUT(w, "}");
    for (int i = 0; i < s->n_part; i++)
        if (s->part[i].begun_us) put_prompt_part(w, s, i);
}

// A name given here counts for more than one in the list.
static void put_resource(otlp_out *w)
{
    const char *list = w->o->resource, *name = w->o->service_name;
    bool is_named = name && *name;
    if (is_named) put_attribute(w, "service.name", name);
    for (fxi_otel_pair p; fxi_otel_pair_next(&list, &p);) {
        const bool names = !strcmp(p.key, "service.name");
        if (names && is_named) continue;
        is_named = is_named || names;
        begin_attribute(w, p.key);
        PUT(w, "{\"stringValue\":");
        put_json_text(w, p.value);
        PUT(w, "}}");
    }
    if (!is_named) put_attribute(w, "service.name", "flexinfer");
}

bool fxi_otlp_write(fxi_buf *out, const fxi_otlp *o, fxi_trace_span *const *span, size_t n)
{
    otlp_out w = {.b = out, .o = o, .ok = true};
    PUT(&w, "{\"resourceSpans\":[{\"resource\":{\"attributes\":[");
    put_resource(&w);
    put_attribute(&w, "service.version", fx_version());
    put_int(&w, "process.pid", getpid());
    PUT(&w, "]},\"scopeSpans\":[{\"scope\":{\"name\":\"flexinfer\",\"version\":\"%s\"},\"spans\":[",
        fx_version());
    for (size_t i = 0; i < n; i++) put_span(&w, span[i]);
    PUT(&w, "]}]}]}\n");
    return w.ok;
}

// ---- what the collector says ------------------------------------------------------------------

// 64-bit numbers are texts in the JSON of protobuf; some write them as numbers.
uint64_t fxi_otlp_rejected(const char *body, size_t n_bytes, char *why, size_t cap)
{
    fxi_json_doc doc = {0};
    uint64_t n = 0;
    snprintf(why, cap, "%s", "");
    if (fxi_json_parse(&doc, (fxi_str){body, n_bytes}, &(fxi_json_rules){0}, NULL) == FX_OK) {
        const fxi_json *partial = fxi_json_get(doc.root, "partialSuccess");
        const fxi_json *count = fxi_json_get(partial, "rejectedSpans");
        const char *text = fxi_json_text(fxi_json_get(partial, "errorMessage"));
        const char *digits = fxi_json_text(count);
        if (fxi_json_int(count) > 0) n = (uint64_t)fxi_json_int(count);
        if (digits && !digits[strspn(digits, "0123456789")] && strlen(digits) < 19)
            n = strtoull(digits, NULL, 10);
        if (text) snprintf(why, cap, "%s", text);
    }
    fxi_json_doc_free(&doc);
    return n;
}
