// picture_json.c - every list of a picture is sorted by its key, so a change is a merge of two
// lists: what is new or different is written, and the keys of what is gone. Blocks of nodes that
// two pictures share are not looked at. A whole picture is the change from an empty one.
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

// ---- nodes -------------------------------------------------------------------------------------

// A list of blocks, read node by node.
typedef struct node_cursor {
    const fx_node_block *const *block, *const *end;
    size_t at; // in *block
} node_cursor;

static node_cursor nodes_from(const fx_picture *p)
{
    return (node_cursor){p->node, p->node + p->n_node_block, 0};
}

// NULL: the list has ended.
static const fx_prefix_node *node_at(const node_cursor *c)
{
    return c->block < c->end ? &(*c->block)->node[c->at] : NULL;
}

static void next_node(node_cursor *c)
{
    if (++c->at < (*c->block)->n) return;
    c->block++;
    c->at = 0;
}

static const fx_prefix_node *node_from(node_cursor *c, uint64_t id)
{
    const fx_prefix_node *n;
    while ((n = node_at(c)) && n->id < id) next_node(c);
    return n;
}

// Whether both have come to a block that they share; then both are behind it.
static bool skip_shared(node_cursor *a, node_cursor *b)
{
    if (a->at || b->at || a->block == a->end || b->block == b->end || *a->block != *b->block)
        return false;
    a->block++;
    b->block++;
    return true;
}

static void put_nodes(sheet *s)
{
    node_cursor a = nodes_from(s->from), b = nodes_from(s->to);
    begin_list(s, "nodes");
    for (const fx_prefix_node *n; s->ok && (n = node_at(&b));) {
        const fx_prefix_node *was = node_from(&a, n->id);
        if (skip_shared(&a, &b)) continue;
        if (!was || memcmp(was, n, sizeof *n))
            PUT_ROW(s, n->id, n->parent, n->domain, n->n_tok, n->n_seq, n->held_bytes);
        next_node(&b);
    }
    end_list(s);
}

static void put_gone_nodes(sheet *s)
{
    node_cursor a = nodes_from(s->from), b = nodes_from(s->to);
    begin_list(s, "gone_nodes");
    for (const fx_prefix_node *n; s->ok && (n = node_at(&a));) {
        const fx_prefix_node *is = node_from(&b, n->id);
        if (skip_shared(&a, &b)) continue;
        if (!is || is->id != n->id) {
            separate_item(s);
            put_number(s, n->id);
        }
        next_node(&a);
    }
    end_list(s);
}

// ---- requests ----------------------------------------------------------------------------------

static void put_request_view(sheet *s, const fx_request_view *r)
{
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

static void put_requests(sheet *s)
{
    const fx_request_view *a = s->from->request, *a_end = a + s->from->n_request;
    const fx_request_view *b = s->to->request, *b_end = b + s->to->n_request;
    begin_list(s, "requests");
    for (; s->ok && b < b_end; b++) {
        while (a < a_end && a->id < b->id) a++;
        if (a == a_end || memcmp(a, b, sizeof *b)) put_request_view(s, b);
    }
    end_list(s);
}

static void put_gone_requests(sheet *s)
{
    const fx_request_view *a = s->from->request, *a_end = a + s->from->n_request;
    const fx_request_view *b = s->to->request, *b_end = b + s->to->n_request;
    begin_list(s, "gone_requests");
    for (; s->ok && a < a_end; a++) {
        while (b < b_end && b->id < a->id) b++;
        if (b < b_end && b->id == a->id) continue;
        separate_item(s);
        put_number(s, a->id);
    }
    end_list(s);
}

// ---- the whole ---------------------------------------------------------------------------------

static void put_lists(sheet *s)
{
    put_chunks(s);
    put_spans(s);
    put_nodes(s);
    put_requests(s);
}

static void put_gone(sheet *s)
{
    put_gone_spans(s);
    put_gone_nodes(s);
    put_gone_requests(s);
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
