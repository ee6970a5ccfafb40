// picture_json.c - every list of a picture is sorted by its key, so a change is a merge of two
// lists: what is new or different is written, and the keys of what is gone. A whole picture is the
// change from an empty one.
#include "server/picture/picture_json.h"

#include <inttypes.h>
#include <string.h>

_Static_assert(sizeof(fx_segment_run) == 24 && sizeof(fx_prefix_node) == 40 &&
                   sizeof(fx_request_view) == 48,
               "items are compared byte by byte");

typedef struct sheet {
    fxi_buf *out;
    const fx_picture *from, *to;
    bool ok;
} sheet;

#define ADD(s, ...) ((s)->ok = (s)->ok && fxi_buf_fmt((s)->out, __VA_ARGS__))

enum { MAX_DIGITS = 20 }; // of 2^64 - 1

static void begin_list(sheet *s, const char *name)
{
    ADD(s, ",\"%s\":[", name);
}

static void end_list(sheet *s)
{
    s->ok = s->ok && fxi_buf_str(s->out, "]");
}

static void separate_item(sheet *s)
{
    const char last = s->out->n ? s->out->p[s->out->n - 1] : 0;
    if (last != '[' && last != '{') s->ok = s->ok && fxi_buf_str(s->out, ",");
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

// Items of the long lists are rows of numbers: a large picture has 100,000 and more, which printf
// would take ten times as long for.
static void put_row(sheet *s, const uint64_t *v, int n)
{
    separate_item(s);
    s->ok = s->ok && fxi_buf_reserve(s->out, (size_t)n * (MAX_DIGITS + 1) + 2);
    if (!s->ok) return;
    char *at = s->out->p + s->out->n;
    *at++ = '[';
    for (int i = 0; i < n; i++) {
        if (i) *at++ = ',';
        at = write_number(at, v[i]);
    }
    *at++ = ']';
    *at = 0;
    s->out->n = (size_t)(at - s->out->p);
}

#define PUT_ROW(s, ...)                         \
    put_row(s, (const uint64_t[]){__VA_ARGS__}, \
            (int)(sizeof((uint64_t[]){__VA_ARGS__}) / sizeof(uint64_t)))

static void put_number(sheet *s, uint64_t v)
{
    char text[MAX_DIGITS + 1];
    const char *end = write_number(text, v);
    s->ok = s->ok && fxi_buf_add(s->out, text, (size_t)(end - text));
}

static void put_field(sheet *s, const char *name, uint64_t v)
{
    s->ok = s->ok && fxi_buf_str(s->out, name);
    put_number(s, v);
}

// ---- figures -----------------------------------------------------------------------------------

static void put_stats(sheet *s, bool is_whole)
{
    const fx_stats *a = &s->from->stats, *b = &s->to->stats;
    ADD(s, ",\"stats\":{");
#define PUT_STAT(name, help)                       \
    if (is_whole || a->name != b->name) {          \
        separate_item(s);                          \
        ADD(s, "\"" #name "\":%" PRIu64, b->name); \
    }
    FX_STATS(PUT_STAT)
#undef PUT_STAT
    ADD(s, "}");
}

// ---- chunks ------------------------------------------------------------------------------------

// A list of runs, read from one name on.
typedef struct run_cursor {
    const fx_chunk_run *run, *end;
} run_cursor;

typedef struct piece { // names up to `end` are all like this
    uint64_t end;
    unsigned state, group;
} piece;

// What name x is; earlier names are not asked for any more.
static piece piece_at(run_cursor *c, uint64_t x)
{
    while (c->run < c->end && c->run->first + c->run->n <= x) c->run++;
    if (c->run == c->end) return (piece){.end = UINT64_MAX};
    if (x < c->run->first) return (piece){.end = c->run->first};
    return (piece){c->run->first + c->run->n, c->run->state, c->run->group};
}

static void put_chunks_like(sheet *s, uint64_t first, uint64_t n, piece p)
{
    PUT_ROW(s, first, n, p.state, p.group);
}

// Neighbours that become alike are one entry, whatever they were.
static void put_chunks(sheet *s)
{
    run_cursor a = {s->from->chunk, s->from->chunk + s->from->n_chunk_run};
    run_cursor b = {s->to->chunk, s->to->chunk + s->to->n_chunk_run};
    piece open = {0};
    uint64_t first = 0, n = 0;
    begin_list(s, "chunks");
    for (uint64_t x = 0; s->ok;) {
        const piece was = piece_at(&a, x), is = piece_at(&b, x);
        const uint64_t end = was.end < is.end ? was.end : is.end;
        const bool differs = was.state != is.state || (is.state && was.group != is.group);
        const bool goes_on = differs && n && first + n == x && open.state == is.state &&
                             (!is.state || open.group == is.group);
        if (n && !goes_on) put_chunks_like(s, first, n, open);
        if (!goes_on) first = x, n = 0, open = is;
        if (differs) n += end - x;
        if (end == UINT64_MAX) break;
        x = end;
    }
    end_list(s);
}

// ---- spans -------------------------------------------------------------------------------------

static int order_spans(const fx_span *x, const fx_span *y)
{
    if (x->request != y->request) return x->request < y->request ? -1 : 1;
    return (x->choice > y->choice) - (x->choice < y->choice);
}

static bool has_same_segments(const sheet *s, const fx_span *was, const fx_span *is)
{
    return was->n_run == is->n_run &&
           (!is->n_run || !memcmp(s->from->segment + was->first_run, s->to->segment + is->first_run,
                                  is->n_run * sizeof *s->to->segment));
}

static void put_segments(sheet *s, const fx_span *span)
{
    begin_list(s, "segments");
    for (uint32_t i = 0; i < span->n_run; i++) {
        const fx_segment_run *r = &s->to->segment[span->first_run + i];
        PUT_ROW(s, r->group, r->at, r->chunk, r->n);
    }
    end_list(s);
}

// was NULL: it is new.
static void put_span(sheet *s, const fx_span *was, const fx_span *is)
{
    const bool same = was && has_same_segments(s, was, is);
    if (same && was->n_tok == is->n_tok && was->n_generating == is->n_generating) return;
    separate_item(s);
    put_field(s, "{\"request\":", is->request);
    put_field(s, ",\"choice\":", is->choice);
    put_field(s, ",\"tokens\":", is->n_tok);
    put_field(s, ",\"generating\":", is->n_generating);
    if (!same) put_segments(s, is);
    s->ok = s->ok && fxi_buf_str(s->out, "}");
}

static void put_spans(sheet *s)
{
    const fx_span *a = s->from->span, *a_end = a + s->from->n_span;
    const fx_span *b = s->to->span, *b_end = b + s->to->n_span;
    begin_list(s, "spans");
    for (; s->ok && b < b_end; b++) {
        while (a < a_end && order_spans(a, b) < 0) a++;
        put_span(s, a < a_end && !order_spans(a, b) ? a : NULL, b);
    }
    end_list(s);
}

static void put_gone_spans(sheet *s)
{
    const fx_span *a = s->from->span, *a_end = a + s->from->n_span;
    const fx_span *b = s->to->span, *b_end = b + s->to->n_span;
    begin_list(s, "gone_spans");
    for (; s->ok && a < a_end; a++) {
        while (b < b_end && order_spans(b, a) < 0) b++;
        if (b < b_end && !order_spans(a, b)) continue;
        PUT_ROW(s, a->request, a->choice);
    }
    end_list(s);
}

// ---- lists whose items begin with an id --------------------------------------------------------

typedef struct id_list {
    const char *name, *gone;
    const char *from, *to; // [n] items of `bytes` bytes, which begin with their ids
    size_t n_from, n_to, bytes;
    void (*put)(sheet *s, const void *item);
} id_list;

static uint64_t id_of(const void *item)
{
    uint64_t id;
    memcpy(&id, item, sizeof id);
    return id;
}

static void put_id_list(sheet *s, const id_list *l)
{
    const char *a = l->from, *a_end = a + l->n_from * l->bytes;
    begin_list(s, l->name);
    for (const char *b = l->to; s->ok && b < l->to + l->n_to * l->bytes; b += l->bytes) {
        while (a < a_end && id_of(a) < id_of(b)) a += l->bytes;
        if (a < a_end && !memcmp(a, b, l->bytes)) continue;
        l->put(s, b);
    }
    end_list(s);
}

static void put_gone_ids(sheet *s, const id_list *l)
{
    const char *b = l->to, *b_end = b + l->n_to * l->bytes;
    begin_list(s, l->gone);
    for (const char *a = l->from; s->ok && a < l->from + l->n_from * l->bytes; a += l->bytes) {
        while (b < b_end && id_of(b) < id_of(a)) b += l->bytes;
        if (b < b_end && id_of(a) == id_of(b)) continue;
        separate_item(s);
        put_number(s, id_of(a));
    }
    end_list(s);
}

static void put_prefix_node(sheet *s, const void *item)
{
    const fx_prefix_node *n = item;
    PUT_ROW(s, n->id, n->parent, n->domain, n->n_tok, n->n_seq, n->held_bytes);
}

static id_list nodes_of(const sheet *s)
{
    return (id_list){
        "nodes",         "gone_nodes",  (const char *)s->from->node, (const char *)s->to->node,
        s->from->n_node, s->to->n_node, sizeof(fx_prefix_node),      put_prefix_node};
}

static void put_request_view(sheet *s, const void *item)
{
    const fx_request_view *r = item;
    separate_item(s);
    put_field(s, "{\"id\":", r->id);
    s->ok = s->ok && fxi_buf_str(s->out, ",\"state\":\"") &&
            fxi_buf_str(s->out, fx_request_state_name(r->state));
    put_field(s, "\",\"place\":", r->place);
    put_field(s, ",\"prompt\":", r->n_prompt);
    put_field(s, ",\"cached\":", r->n_cached);
    put_field(s, ",\"generated\":", r->n_generated);
    put_field(s, ",\"max\":", r->max_tok);
    put_field(s, ",\"sequences\":", r->n_seq);
    ADD(s, ",\"priority\":%d", r->priority);
    put_field(s, ",\"submit_us\":", r->submit_us);
    s->ok = s->ok && fxi_buf_str(s->out, "}");
}

static id_list requests_of(const sheet *s)
{
    return (id_list){"requests",
                     "gone_requests",
                     (const char *)s->from->request,
                     (const char *)s->to->request,
                     s->from->n_request,
                     s->to->n_request,
                     sizeof(fx_request_view),
                     put_request_view};
}

// ---- the whole ---------------------------------------------------------------------------------

static void put_lists(sheet *s)
{
    const id_list nodes = nodes_of(s), requests = requests_of(s);
    put_chunks(s);
    put_spans(s);
    put_id_list(s, &nodes);
    put_id_list(s, &requests);
}

static void put_gone(sheet *s)
{
    const id_list nodes = nodes_of(s), requests = requests_of(s);
    put_gone_spans(s);
    put_gone_ids(s, &nodes);
    put_gone_ids(s, &requests);
}

bool fxi_picture_whole(fxi_buf *out, const fx_picture *p)
{
    static const fx_picture nothing = {0};
    sheet s = {out, &nothing, p, true};
    ADD(&s, "{\"number\":%" PRIu64 ",\"at_us\":%" PRIu64 ",\"version\":\"%s\",\"manager\":\"%s\"",
        p->number, p->at_us, fx_version(), p->manager);
    begin_list(&s, "groups");
    for (uint32_t g = 0; g < p->n_group; g++)
        ADD(&s, "%s{\"chunk_bytes\":%" PRIu64 ",\"chunk_tokens\":%u,\"device\":%u}", g ? "," : "",
            p->group[g].chunk_bytes, p->group[g].chunk_tok, p->group[g].device);
    end_list(&s);
    put_stats(&s, true);
    put_lists(&s);
    ADD(&s, "}");
    return s.ok;
}

bool fxi_picture_change(fxi_buf *out, const fx_picture *from, const fx_picture *to)
{
    sheet s = {out, from, to, true};
    ADD(&s, "{\"number\":%" PRIu64 ",\"after\":%" PRIu64 ",\"at_us\":%" PRIu64, to->number,
        from->number, to->at_us);
    put_stats(&s, false);
    put_lists(&s);
    put_gone(&s);
    ADD(&s, "}");
    return s.ok;
}
