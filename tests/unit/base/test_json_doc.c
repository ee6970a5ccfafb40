// test_json_doc.c - trees in memory of their own: equal to jansson's, counted, and given back; each
// failure of memory ends in one status.
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "base/json/json_doc.h"
#include "base/system/regions.h"
#include "base/text/buf.h"
#include "suite.h"

// ---- memory that fails ------------------------------------------------------------------------

static struct {
    long n_map, fail_map; // the fail_map-th mapping fails, counted from 1; 0: none
    long n_heap, fail_heap;
    bool heap; // count, and fail
    size_t mapped_bytes;
} mem;

void *__real_fxi_pages_map(size_t n);
void __real_fxi_pages_unmap(void *p, size_t n);
void *__wrap_fxi_pages_map(size_t n);
void __wrap_fxi_pages_unmap(void *p, size_t n);

void *__wrap_fxi_pages_map(size_t n)
{
    if (++mem.n_map == mem.fail_map) return NULL;
    mem.mapped_bytes += n;
    return __real_fxi_pages_map(n);
}

void __wrap_fxi_pages_unmap(void *p, size_t n)
{
    if (p) mem.mapped_bytes -= n;
    __real_fxi_pages_unmap(p, n);
}

static void *heap_malloc(size_t n)
{
    return mem.heap && ++mem.n_heap == mem.fail_heap ? NULL : malloc(n);
}

// ---- room -------------------------------------------------------------------------------------

typedef struct meter {
    size_t held, peak, limit;
} meter;

static bool take(void *ud, size_t n)
{
    meter *m = ud;
    if (m->held + n > m->limit) return false;
    m->held += n;
    if (m->held > m->peak) m->peak = m->held;
    return true;
}

static void give(void *ud, size_t n)
{
    ((meter *)ud)->held -= n;
}

// ---- texts ------------------------------------------------------------------------------------

static char *long_text(void)
{
    fxi_buf b = {0};
    fxi_buf_str(&b, "{\"list\":[");
    for (int i = 0; i < 20000; i++) fxi_buf_fmt(&b, "%s[%d,\"x%d\",%d.5]", i ? "," : "", i, i, i);
    fxi_buf_str(&b, "],\"object\":{");
    for (int i = 0; i < 9000; i++) fxi_buf_fmt(&b, "%s\"key %d\":null", i ? "," : "", i);
    fxi_buf_str(&b, "},\"\\u00e4\\ud83d\\ude00\":\"");
    for (int i = 0; i < 300000; i++) fxi_buf_str(&b, i % 7 ? "a" : "\\n");
    fxi_buf_str(&b, "\"}");
    return b.p;
}

static const char short_text[] = "{\"a\":[1,2.5,true,false,null,\"a string of more than thirteen "
                                 "bytes\"],\"b\":{\"c\":\"\\u0041\"}}";

static void test_tree_is_what_jansson_makes(void **state)
{
    (void)state;
    char *text = long_text();
    fxi_json_doc d = {0};
    json_error_t e;
    meter m = {.limit = 1 << 30};
    const fxi_json_room room = {take, give, &m};
    assert_int_equal(fxi_json_doc_parse(&d, text, strlen(text), 0, &room, &e), FXI_JSON_OK);
    json_t *plain = json_loads(text, 0, &e), *copy = fxi_json_copy(d.root);
    assert_true(json_equal(d.root, plain));
    assert_true(json_equal(copy, plain));
    assert_int_equal(m.held, d.held_bytes);
    assert_int_equal(mem.mapped_bytes, d.held_bytes);
    assert_true(m.peak < 30 * strlen(text));
    fxi_json_doc_free(&d);
    assert_int_equal(mem.mapped_bytes, 0);
    assert_true(json_equal(copy, plain)); // has nothing of the document
    json_decref(plain), json_decref(copy);
    free(text);
}

// The text of a long string is given back while it grows.
static void test_long_string_leaves_no_garbage(void **state)
{
    (void)state;
    size_t n = 8u << 20;
    char *text = malloc(n);
    memset(text, 'a', n);
    text[0] = '[', text[1] = text[n - 2] = '"', text[n - 1] = ']';
    fxi_json_doc d = {0};
    json_error_t e;
    assert_int_equal(fxi_json_doc_parse(&d, text, n, 0, NULL, &e), FXI_JSON_OK);
    assert_true(d.held_bytes < n + (256u << 10));
    fxi_json_doc_free(&d);
    free(text);
}

static void test_broken_text(void **state)
{
    static const char *const texts[] = {"",           "{",   "[1,]", "nul", "\"\\ud800\"",
                                        "[\"\xff\"]", "{}{}"};
    (void)state;
    for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
        fxi_json_doc d = {0};
        json_error_t e = {0}, want = {0};
        assert_null(json_loads(texts[i], 0, &want));
        assert_int_equal(fxi_json_doc_parse(&d, texts[i], strlen(texts[i]), 0, NULL, &e),
                         FXI_JSON_BROKEN);
        assert_string_equal(e.text, want.text);
        fxi_json_doc_free(&d);
    }
    assert_int_equal(mem.mapped_bytes, 0);
}

// Every block is refused once, by the room and by the system.
static void test_every_block_may_fail(void **state)
{
    (void)state;
    char *text = long_text();
    json_error_t e;
    fxi_json_status st = FXI_JSON_NO_ROOM;
    for (size_t limit = 0; st != FXI_JSON_OK; limit += 100000) {
        fxi_json_doc d = {0};
        meter m = {.limit = limit};
        const fxi_json_room room = {take, give, &m};
        st = fxi_json_doc_parse(&d, text, strlen(text), 0, &room, &e);
        assert_true(st == FXI_JSON_OK || st == FXI_JSON_NO_ROOM);
        assert_true(m.peak <= limit);
        assert_int_equal(m.held, d.held_bytes);
        fxi_json_doc_free(&d);
    }
    st = FXI_JSON_NO_MEMORY;
    for (long at = 1; st != FXI_JSON_OK; at++) {
        fxi_json_doc d = {0};
        mem.n_map = 0, mem.fail_map = at;
        st = fxi_json_doc_parse(&d, text, strlen(text), 0, NULL, &e);
        assert_int_equal(st, mem.n_map < at ? FXI_JSON_OK : FXI_JSON_NO_MEMORY);
        assert_true(st == FXI_JSON_OK || !d.root);
        fxi_json_doc_free(&d);
        assert_int_equal(mem.mapped_bytes, 0);
    }
    mem.fail_map = 0;
    free(text);
}

// With the heap failing at each allocation, a parse is not touched, and a copy is whole or NULL.
static void test_heap_may_fail(void **state)
{
    (void)state;
    fxi_json_doc d = {0};
    json_error_t e;
    mem.heap = true, mem.n_heap = 0, mem.fail_heap = 1;
    assert_int_equal(fxi_json_doc_parse(&d, short_text, strlen(short_text), 0, NULL, &e),
                     FXI_JSON_OK);
    assert_int_equal(mem.n_heap, 0);
    json_t *copy = NULL;
    for (long at = 1; !copy; at++) {
        mem.n_heap = 0, mem.fail_heap = at;
        copy = fxi_json_copy(d.root);
        assert_true(copy ? mem.n_heap < at : mem.n_heap >= at);
    }
    assert_true(json_equal(copy, d.root));
    mem.heap = false;
    json_decref(copy);
    fxi_json_doc_free(&d);
}

FX_SUITE(test_json_doc)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_tree_is_what_jansson_makes),
        cmocka_unit_test(test_long_string_leaves_no_garbage),
        cmocka_unit_test(test_broken_text),
        cmocka_unit_test(test_every_block_may_fail),
        cmocka_unit_test(test_heap_may_fail),
    };
    json_set_alloc_funcs(heap_malloc, free);
    return cmocka_run_group_tests(tests, NULL, NULL);
}
