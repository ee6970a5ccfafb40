// snapshot_json.c - the long lists are rows of numbers, which are written without printf: a large
// snapshot has tens of thousands of them.
#include "server/endpoint/snapshot_json.h"

#include <inttypes.h>

enum { MAX_DIGITS = 20 }; // of 2^64 - 1

static bool begin_list(fxi_buf *b, const char *name)
{
    return fxi_buf_fmt(b, ",\"%s\":[", name);
}

// A comma, unless the item is the first one.
static bool separate_item(fxi_buf *b)
{
    const char last = b->p[b->n - 1];
    return last == '[' || last == '{' || fxi_buf_str(b, ",");
}

// Writes v in decimal and returns the end.
static char *write_number(char *to, uint64_t v)
{
    char digits[MAX_DIGITS];
    int n = 0;
    do digits[n++] = (char)('0' + v % 10);
    while (v /= 10);
    while (n) *to++ = digits[--n];
    return to;
}

static bool put_row(fxi_buf *b, const uint64_t *v, int n)
{
    if (!separate_item(b) || !fxi_buf_reserve(b, (size_t)n * (MAX_DIGITS + 1) + 2)) return false;
    char *at = b->p + b->n;
    *at++ = '[';
    for (int i = 0; i < n; i++) {
        if (i) *at++ = ',';
        at = write_number(at, v[i]);
    }
    *at++ = ']';
    *at = 0;
    b->n = (size_t)(at - b->p);
    return true;
}

#define PUT_ROW(b, ...)                         \
    put_row(b, (const uint64_t[]){__VA_ARGS__}, \
            (int)(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)))

static bool put_snapshot_head(fxi_buf *b, const fx_snapshot *s)
{
    bool ok = fxi_buf_fmt(
        b, "{\"number\":%" PRIu64 ",\"at_us\":%" PRIu64 ",\"version\":\"%s\",\"manager\":\"%s\"",
        s->number, s->at_us, fx_version(), s->manager);
    ok = ok && begin_list(b, "groups");
    for (uint32_t g = 0; ok && g < s->n_group; g++)
        ok = fxi_buf_fmt(
            b,
            "%s{\"chunk_bytes\":%" PRIu64 ",\"chunk_tokens\":%" PRIu32 ",\"device\":%" PRIu32 "}",
            g ? "," : "", s->group[g].chunk_bytes, s->group[g].chunk_tok, s->group[g].device);
    return ok && fxi_buf_str(b, "]");
}

static bool put_stats(fxi_buf *b, const fx_stats *st)
{
    bool ok = fxi_buf_str(b, ",\"stats\":{");
#define PUT_STAT(name, help) \
    ok = ok && separate_item(b) && fxi_buf_fmt(b, "\"" #name "\":%" PRIu64, st->name);
    FX_STATS(PUT_STAT)
#undef PUT_STAT
    return ok && fxi_buf_str(b, "}");
}

static bool put_counts(fxi_buf *b, const fx_snapshot *s)
{
    bool ok = fxi_buf_str(b, ",\"counts\":{\"chunks\":");
    ok = ok && fxi_buf_str(b, "[");
    for (int i = 0; ok && i < FX_N_CHUNK_STATE; i++)
        ok = fxi_buf_fmt(b, "%s%" PRIu64, i ? "," : "", s->n_chunk[i]);
    return ok &&
           fxi_buf_fmt(b, "],\"spans\":%" PRIu64 ",\"nodes\":%" PRIu64 ",\"requests\":%" PRIu64 "}",
                       s->n_all_span, s->n_all_node, s->n_all_request);
}

static bool put_chunks(fxi_buf *b, const fx_snapshot *s)
{
    bool ok = begin_list(b, "chunks");
    for (size_t i = 0; ok && i < s->n_chunk_run; i++) {
        const fx_chunk_run *r = &s->chunk[i];
        ok = PUT_ROW(b, r->first, r->n, r->state, r->group);
    }
    return ok && fxi_buf_str(b, "]");
}

static bool put_spans(fxi_buf *b, const fx_snapshot *s)
{
    bool ok = begin_list(b, "spans");
    for (size_t i = 0; ok && i < s->n_span; i++) {
        const fx_span *p = &s->span[i];
        ok = separate_item(b) &&
             fxi_buf_fmt(b,
                         "{\"request\":%" PRIu64 ",\"choice\":%" PRIu32 ",\"tokens\":%" PRIu32
                         ",\"generating\":%" PRIu32,
                         p->request, p->choice, p->n_tok, p->n_generating) &&
             begin_list(b, "segments");
        for (uint32_t k = 0; ok && k < p->n_run; k++) {
            const fx_segment_run *r = &s->segment[p->first_run + k];
            ok = PUT_ROW(b, r->group, r->at, r->chunk, r->n);
        }
        ok = ok && fxi_buf_str(b, "]}");
    }
    return ok && fxi_buf_str(b, "]");
}

static bool put_nodes(fxi_buf *b, const fx_snapshot *s)
{
    bool ok = begin_list(b, "nodes");
    for (size_t i = 0; ok && i < s->n_node; i++) {
        const fx_prefix_node *n = &s->node[i];
        ok = PUT_ROW(b, n->id, n->parent, n->domain, n->n_tok, n->n_seq, n->held_bytes);
    }
    return ok && fxi_buf_str(b, "]");
}

static bool put_requests(fxi_buf *b, const fx_snapshot *s)
{
    bool ok = begin_list(b, "requests");
    for (size_t i = 0; ok && i < s->n_request; i++) {
        const fx_request_view *r = &s->request[i];
        ok = separate_item(b) &&
             fxi_buf_fmt(b,
                         "{\"id\":%" PRIu64 ",\"state\":\"%s\",\"place\":%" PRIu32
                         ",\"prompt\":%" PRIu32 ",\"cached\":%" PRIu32 ",\"generated\":%" PRIu32
                         ",\"max\":%" PRIu32 ",\"sequences\":%" PRIu32 ",\"priority\":%" PRId32
                         ",\"submit_us\":%" PRIu64 "}",
                         r->id, fx_request_state_name(r->state), r->place, r->n_prompt, r->n_cached,
                         r->n_generated, r->max_tok, r->n_seq, r->priority, r->submit_us);
    }
    return ok && fxi_buf_str(b, "]");
}

bool fxi_snapshot_json(fxi_buf *out, const fx_snapshot *s)
{
    return put_snapshot_head(out, s) && put_stats(out, &s->stats) && put_counts(out, s) &&
           put_chunks(out, s) && put_spans(out, s) && put_nodes(out, s) && put_requests(out, s) &&
           fxi_buf_str(out, "}");
}
