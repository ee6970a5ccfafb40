// test_picture_json.c - a change between two random pictures, applied to the first one, is the
// second one; a whole picture says everything.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <jansson.h>

#include "server/picture/picture_json.h"
#include "suite.h"

enum { N_NAME = 400, N_ITEM = 24, N_SEGMENT = 3, N_ROUND = 400 };

// A picture with room for its lists.
typedef struct drawn {
    fx_picture p;
    fx_chunk_run chunk[N_NAME];
    fx_span span[N_ITEM];
    fx_segment_run segment[N_ITEM * N_SEGMENT];
    const fx_node_block *node[N_ITEM], *shown[N_ITEM]; // by first id; those with nodes
    fx_request_view request[N_ITEM];
} drawn;

static uint64_t seed = 1;

static uint32_t random_below(uint32_t n)
{
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)(seed >> 33) % n;
}

// Names by state and group; the last ones are in the swap.
static void draw_chunks(drawn *d)
{
    d->p.n_chunk_run = 0;
    for (uint64_t at = 0; at < N_NAME;) {
        const uint32_t n = 1 + random_below(9);
        const uint64_t name = at < N_NAME - 40 ? at : FX_SWAP_CHUNK + at;
        const bool fits = at + n <= N_NAME - 40 || at >= N_NAME - 40;
        if (fits && random_below(3))
            d->chunk[d->p.n_chunk_run++] =
                (fx_chunk_run){name, n, (uint16_t)random_below(2),
                               (uint16_t)(1 + random_below(FX_N_CHUNK_STATE - 1))};
        at += n;
    }
    d->p.chunk = d->chunk;
}

static void draw_spans(drawn *d)
{
    d->p.n_span = d->p.n_segment_run = 0;
    for (uint32_t i = 0; i < N_ITEM; i++) {
        if (!random_below(3)) continue;
        fx_span *s = &d->span[d->p.n_span++];
        *s = (fx_span){.request = 1 + i / 3,
                       .choice = i % 3,
                       .n_tok = random_below(3),
                       .first_run = d->p.n_segment_run,
                       .n_run = random_below(N_SEGMENT + 1)};
        for (uint32_t k = 0; k < s->n_run; k++)
            d->segment[d->p.n_segment_run++] =
                (fx_segment_run){random_below(4), 10 * k, 1 + random_below(2), random_below(2)};
    }
    d->p.span = d->span;
    d->p.segment = d->segment;
}

static void draw_lists(drawn *d)
{
    d->p.n_request = 0;
    for (uint64_t i = 1; i <= N_ITEM; i++) {
        if (random_below(2))
            d->request[d->p.n_request++] = (fx_request_view){
                .id = i, .state = random_below(2), .n_generated = random_below(2)};
    }
    d->p.request = d->request;
}

// Blocks that are never changed again, as a picture's are.
static fx_node_block *new_block(void)
{
    static fx_node_block block[(N_ROUND + 2) * N_ITEM / 4];
    static int n_block;
    assert_true(n_block < (int)(sizeof block / sizeof block[0]));
    return &block[n_block++];
}

// Nodes in blocks of up to four ids. Half of those whose ids `other` has, too, are shared with it.
static void draw_nodes(drawn *d, const drawn *other)
{
    d->p.n_node_block = d->p.n_node = 0;
    for (uint64_t first = 1; first <= N_ITEM; first += 4) {
        const fx_node_block *shared = other ? other->node[first / 4] : NULL;
        fx_node_block *b = new_block();
        for (uint64_t i = first; i < first + 4; i++)
            if (random_below(2))
                b->node[b->n++] = (fx_prefix_node){
                    .id = i, .parent = i - 1, .domain = 1, .n_tok = random_below(3), .n_seq = 1};
        d->node[first / 4] = shared && random_below(2) ? shared : b;
    }
    for (int i = 0; i < N_ITEM / 4; i++) {
        if (!d->node[i]->n) continue;
        d->p.n_node += d->node[i]->n;
        d->shown[d->p.n_node_block++] = d->node[i];
    }
    d->p.node = d->shown;
}

static void draw_picture(drawn *d, uint64_t number, const drawn *other)
{
    *d = (drawn){.p = {.number = number, .at_us = number * 10, .manager = "m", .n_group = 2}};
    d->p.group[1] = (fx_chunk_group){4096, 32, 0};
    d->p.stats.n_step = random_below(2);
    d->p.stats.kv_live_bytes = UINT64_MAX - random_below(2);
    draw_chunks(d);
    draw_spans(d);
    draw_lists(d);
    draw_nodes(d, other);
}

static json_t *parse_text(bool ok, fxi_buf *b)
{
    json_error_t e;
    assert_true(ok);
    json_t *doc = json_loadb(b->p, b->n, JSON_REJECT_DUPLICATES | JSON_DECODE_INT_AS_REAL, &e);
    if (!doc) fail_msg("%s at %d: %s", e.text, e.position, b->p);
    fxi_buf_free(b);
    return doc;
}

static json_t *whole_of(const fx_picture *p)
{
    fxi_buf b = {0};
    return parse_text(fxi_picture_whole(&b, p), &b);
}

// ---- an independent reader ---------------------------------------------------------------------

// Items of a list by a text made of their first `n_key` values.
static json_t *by_key(const json_t *list, size_t n_key, const char *const *key)
{
    json_t *out = json_object(), *item;
    size_t i;
    char text[80];
    json_array_foreach((json_t *)list, i, item)
    {
        size_t at = 0;
        for (size_t k = 0; k < n_key; k++) {
            const json_t *v = !json_is_array(item) && !key ? item
                              : key                        ? json_object_get(item, key[k])
                                                           : json_array_get(item, k);
            at += (size_t)snprintf(text + at, sizeof text - at, "%.0f ", json_number_value(v));
        }
        assert_int_equal(json_object_get(out, text), NULL);
        json_object_set(out, text, item);
    }
    return out;
}

static const char *const span_keys[] = {"request", "choice"};
static const char *const id_key[] = {"id"};

// Each name on its own: "name" to [state, group].
static void spread_chunks(json_t *out, const json_t *doc)
{
    size_t i;
    json_t *run;
    char text[32];
    json_array_foreach(json_object_get(doc, "chunks"), i, run)
    {
        const double first = json_number_value(json_array_get(run, 0));
        const double n = json_number_value(json_array_get(run, 1));
        const bool is_there = json_number_value(json_array_get(run, 2)) > 0;
        assert_true(n >= 1);
        for (double k = 0; k < n; k++) {
            snprintf(text, sizeof text, "%.0f", first + k);
            if (is_there)
                json_object_set_new(
                    out, text, json_pack("[O,O]", json_array_get(run, 2), json_array_get(run, 3)));
            else
                assert_int_equal(json_object_del(out, text), 0);
        }
    }
}

// The lists of a document as objects by key.
static json_t *lists_of(const json_t *doc)
{
    json_t *chunks = json_object();
    spread_chunks(chunks, doc);
    return json_pack("{s:o,s:o,s:o,s:o,s:O}", "chunks", chunks, "spans",
                     by_key(json_object_get(doc, "spans"), 2, span_keys), "nodes",
                     by_key(json_object_get(doc, "nodes"), 1, NULL), "requests",
                     by_key(json_object_get(doc, "requests"), 1, id_key), "stats",
                     json_object_get(doc, "stats"));
}

static void remove_keys(json_t *from, const json_t *gone)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)gone, key, value) assert_int_equal(json_object_del(from, key), 0);
}

// What comes replaces; a span without segments keeps those that it has.
static void merge_items(json_t *into, json_t *news)
{
    const char *key;
    json_t *value;
    json_object_foreach(news, key, value)
    {
        json_t *was = json_object_get(into, key);
        assert_false(was && json_equal(was, value)); // else it is no news
        if (was && json_is_object(value))
            json_object_update(was, value);
        else
            json_object_set(into, key, value);
    }
    json_decref(news);
}

static void apply_change(json_t *to, const json_t *doc)
{
    static const struct {
        const char *list, *gone;
        size_t n_key;
        const char *const *key;
    } rows[] = {{"spans", "gone_spans", 2, span_keys},
                {"nodes", "gone_nodes", 1, NULL},
                {"requests", "gone_requests", 1, id_key}};
    spread_chunks(json_object_get(to, "chunks"), doc);
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++) {
        json_t *list = json_object_get(to, rows[i].list);
        json_t *gone = by_key(json_object_get(doc, rows[i].gone), rows[i].n_key, NULL);
        remove_keys(list, gone);
        json_decref(gone);
        merge_items(list, by_key(json_object_get(doc, rows[i].list), rows[i].n_key, rows[i].key));
    }
    json_object_update(json_object_get(to, "stats"), json_object_get(doc, "stats"));
}

// ---- tests -------------------------------------------------------------------------------------

static void test_changes_add_up(void **state)
{
    (void)state;
    drawn *d = calloc(2, sizeof *d);
    draw_picture(&d[0], 1, NULL);
    for (uint64_t k = 1; k <= N_ROUND; k++) {
        drawn *from = &d[(k + 1) % 2], *to = &d[k % 2];
        draw_picture(to, k + 1, from);
        json_t *was = whole_of(&from->p), *is = whole_of(&to->p);
        fxi_buf b = {0};
        json_t *doc = parse_text(fxi_picture_change(&b, &from->p, &to->p), &b);
        assert_true(json_number_value(json_object_get(doc, "after")) == (double)k);
        json_t *have = lists_of(was), *want = lists_of(is);
        apply_change(have, doc);
        if (!json_equal(have, want))
            fail_msg("%s\nbut\n%s", json_dumps(have, 0), json_dumps(want, 0));
        json_decref(was);
        json_decref(is);
        json_decref(doc);
        json_decref(have);
        json_decref(want);
    }
    free(d);
}

static void test_nothing_new_is_nothing(void **state)
{
    (void)state;
    static drawn d;
    draw_picture(&d, 5, NULL);
    fx_picture later = d.p;
    later.number = 6;
    fxi_buf b = {0};
    assert_true(fxi_picture_change(&b, &d.p, &later));
    assert_string_equal(b.p, "{\"number\":6,\"after\":5,\"at_us\":50,\"stats\":{},\"chunks\":[]"
                             ",\"spans\":[],\"nodes\":[],\"requests\":[],\"gone_spans\":[]"
                             ",\"gone_nodes\":[],\"gone_requests\":[]}");
    fxi_buf_free(&b);
}

static void test_a_whole_picture(void **state)
{
    (void)state;
    const fx_chunk_run chunk = {7, 3, 0, FX_CHUNK_shared};
    const fx_segment_run segment = {7, 0, 3, 0};
    const fx_span span = {.request = 2, .choice = 1, .n_tok = 90, .n_run = 1, .n_generating = 1};
    const fx_node_block block = {
        1, {{.id = 4, .domain = 1, .held_bytes = 96, .n_tok = 32, .n_seq = 1}}};
    const fx_node_block *const node = &block;
    const fx_request_view request = {.id = 2, .n_prompt = 80, .max_tok = 9, .priority = -3};
    const fx_picture p = {.number = 1,
                          .at_us = 2,
                          .manager = "vtensor",
                          .n_group = 2,
                          .group = {{4096, 32, 0}, {4096, 32, 1}},
                          .chunk = &chunk,
                          .n_chunk_run = 1,
                          .span = &span,
                          .n_span = 1,
                          .segment = &segment,
                          .n_segment_run = 1,
                          .node = &node,
                          .n_node_block = 1,
                          .n_node = 1,
                          .request = &request,
                          .n_request = 1};
    fxi_buf b = {0};
    assert_true(fxi_picture_whole(&b, &p));
    assert_non_null(strstr(b.p,
                           "\"groups\":[{\"chunk_bytes\":4096,\"chunk_tokens\":32,\"device\":0},"
                           "{\"chunk_bytes\":4096,\"chunk_tokens\":32,\"device\":1}]"));
    assert_non_null(strstr(b.p, "\"chunks\":[[7,3,3,0]]"));
    assert_non_null(strstr(b.p, "{\"request\":2,\"choice\":1,\"tokens\":90,\"generating\":1,"
                                "\"segments\":[[0,0,7,3]]}"));
    assert_non_null(strstr(b.p, "\"nodes\":[[4,0,1,32,1,96]]"));
    assert_non_null(strstr(b.p, "\"prompt\":80,\"cached\":0,\"generated\":0,\"max\":9,"
                                "\"sequences\":0,\"priority\":-3,\"submit_us\":0}"));
    fxi_buf_free(&b);
}

FX_SUITE(test_picture_json)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_changes_add_up),
        cmocka_unit_test(test_nothing_new_is_nothing),
        cmocka_unit_test(test_a_whole_picture),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
