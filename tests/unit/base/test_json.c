// test_json.c - JSON texts as trees in memory of their own, counted and given back, by every rule.
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/system/regions.h"
#include "base/text/buf.h"
#include "json_doc.h"
#include "unit/cmocka_all.h"

// ---- memory that fails ------------------------------------------------------------------------

static struct {
    long n_map, fail_map; // the fail_map-th mapping fails, counted from 1; 0: none
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

static void assert_json(const fxi_json *v, const char *want)
{
    char *text = json_text_of(v);
    assert_string_equal(text, want);
    free(text);
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

// ---- trees --------------------------------------------------------------------------------------

FX_TEST(test_a_tree_is_its_text)
{
    char *text = long_text();
    fxi_json_doc d = {0};
    meter m = {.limit = 1 << 30};
    const fxi_json_room room = {take, give, &m};
    const fxi_json_rules rules = {.room = &room};
    assert_int_equal(fxi_json_parse(&d, fxi_str_of(text), &rules, NULL), FX_OK);
    assert_int_equal(m.held, d.held_bytes);
    assert_true(mem.mapped_bytes > 0 && mem.mapped_bytes <= d.held_bytes);
    assert_true(m.peak < 12 * strlen(text));
    assert_int_equal(d.n_value, 3 + 20000 + 3 * 20000 + 9000);
    const fxi_json *list = fxi_json_get(d.root, "list"), *object = fxi_json_get(d.root, "object");
    assert_int_equal(fxi_json_array_size(list), 20000);
    assert_int_equal(fxi_json_object_size(object), 9000);
    for (int i = 0; i < 9000; i++) { // by index, and in order
        char key[24];
        assert_int_equal(fxi_json_int(fxi_json_at(fxi_json_at(list, (size_t)i), 0)), i);
        snprintf(key, sizeof key, "key %d", i);
        assert_true(fxi_json_is_null(fxi_json_get(object, key)));
    }
    assert_null(fxi_json_get(object, "key 9000"));
    assert_null(fxi_json_at(list, 20000));
    for (fxi_json_iter it = fxi_json_items(list); fxi_json_next(&it);)
        assert_int_equal(fxi_json_int(fxi_json_at(it.value, 0)), it.i);
    fxi_json_doc again = {0};
    char *written = json_text_of(d.root);
    assert_int_equal(fxi_json_parse(&again, fxi_str_of(written), &(fxi_json_rules){0}, NULL),
                     FX_OK);
    assert_json(again.root, written);
    fxi_json_doc_free(&again);
    fxi_json_doc_free(&d);
    assert_int_equal(mem.mapped_bytes, 0);
    free(written);
    free(text);
}

// Values as they are written, and as they are read: numbers by their types.
FX_TEST(test_values_are_written_as_they_were)
{
    static const char *const rows[][2] = {
        {"0", "0"},
        {"-0", "0"},
        {"-9223372036854775808", "-9223372036854775808"},
        {"9223372036854775807", "9223372036854775807"},
        {"1.0", "1.0"},
        {"-0.0", "-0.0"},
        {"0.1", "0.1"},
        {"1e300", "1e+300"},
        {"0.30000000000000004", "0.30000000000000004"},
        {" [ ] ", "[]"},
        {"{}", "{}"},
        {"[1, [2, []], {\"a\": {\"b\": [null, true, false]}}]",
         "[1,[2,[]],{\"a\":{\"b\":[null,true,false]}}]"},
        {"\"\\u00e4\\ud83d\\ude00\\/\\n\\u0000\"", "\"\u00e4\U0001F600/\\n\\u0000\""},
        {"{\"a\":1,\"b\":2,\"a\":3}", "{\"b\":2,\"a\":3}"},
        {"{\"a\":1,\"a\":[{}],\"a\":{\"a\":1,\"a\":2}}", "{\"a\":{\"a\":2}}"},
        {"{\"a\\u0000\":1,\"a\":2}", "{\"a\\u0000\":1,\"a\":2}"},
        {"{\"0\":0,\"1\":0,\"2\":0,\"3\":0,\"4\":0,\"5\":0,\"6\":0,\"7\":0,\"8\":0,\"3\":[],\"0\":"
         "1}",
         "{\"1\":0,\"2\":0,\"4\":0,\"5\":0,\"6\":0,\"7\":0,\"8\":0,\"3\":[],\"0\":1}"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fxi_json_doc d = json_doc_of(rows[i][0]);
        if (!d.root) fail_msg("refused: %s", rows[i][0]);
        assert_json(d.root, rows[i][1]);
        fxi_json_doc_free(&d);
    }
}

// Of equal keys the last counts, for lookups, walks and sizes, in objects of every size.
FX_TEST(test_patterns)
{
    fxi_buf b = {0}, raw = {0};
    assert_true(fxi_buf_str(&raw, "[1]"));
    assert_true(fxi_json_fmt(&b, "{'a':%q,'b':%q,'c':%t,'d':%b,'e':%s,'f':%v,", "x\"y", NULL,
                             (fxi_str){"\nz", 1}, &raw, "{}", fxi_json_null()));
    assert_true(fxi_json_fmt(&b, "'g':[%d,%l,%z,%f]}", -1, -5000000000ll, (size_t)7, 0.5));
    assert_string_equal(b.p, "{\"a\":\"x\\\"y\",\"b\":null,\"c\":\"\\n\",\"d\":[1],\"e\":{},"
                             "\"f\":null,\"g\":[-1,-5000000000,7,0.5]}");
    fxi_buf_free(&b);
    fxi_buf_free(&raw);
}

FX_TEST(test_the_last_of_equal_keys_counts)
{
    for (int n = 1; n < 40; n++) {
        fxi_buf b = {0};
        for (int i = 0; i < 3 * n; i++)
            fxi_buf_fmt(&b, "%s\"k%d\":[%d,{\"x\":[]}]", i ? "," : "{", i % n, i);
        fxi_buf_str(&b, "}");
        fxi_json_doc d = json_doc_sized(b.p, b.n);
        size_t n_walked = 0;
        assert_int_equal(fxi_json_object_size(d.root), n);
        for (fxi_json_iter it = fxi_json_members(d.root); fxi_json_next(&it);) {
            assert_int_equal(it.i, n_walked++);
            assert_ptr_equal(fxi_json_get(d.root, it.key), it.value);
            assert_int_equal(fxi_json_int(fxi_json_at(it.value, 0)), 2 * n + (int)it.i);
        }
        assert_int_equal(n_walked, n);
        fxi_json_doc_free(&d);
        fxi_buf_free(&b);
    }
}

FX_TEST(test_what_is_absent_reads_as_nothing)
{
    fxi_json_doc d = json_doc_of("[1,{\"a\":2.5},\"s\",true]");
    const fxi_json *const values[] = {NULL, d.root, fxi_json_at(d.root, 1), fxi_json_at(d.root, 3)};
    for (size_t i = 0; i < 4; i++) {
        const fxi_json *v = values[i];
        assert_null(fxi_json_text(v));
        assert_null(fxi_json_string(v).p);
        assert_true(!fxi_json_int(v) && fxi_json_number(v) == 0);
        assert_null(fxi_json_get(v, "b"));
        assert_null(fxi_json_at(v, 4));
        assert_int_equal(fxi_json_is_true(v), i == 3);
        for (fxi_json_iter it = fxi_json_members(v); fxi_json_next(&it);)
            assert_string_equal(it.key, "a");
    }
    assert_int_equal(fxi_json_array_size(fxi_json_at(d.root, 1)), 0);
    assert_int_equal(fxi_json_object_size(d.root), 0);
    assert_true(fxi_json_number(fxi_json_at(d.root, 0)) == 1);
    assert_json(fxi_json_null(), "null");
    assert_json(fxi_json_bool(true), "true");
    fxi_json_doc_free(&d);
}

// ---- rules --------------------------------------------------------------------------------------

FX_TEST(test_texts_that_are_refused)
{
    static const struct {
        const char *text;
        fxi_json_rules rules;
        fx_status st;
        const char *says;
    } rows[] = {
        {"", {0}, FX_EFORMAT, "line 1, column 1: "},
        {"{", {0}, FX_EFORMAT, "line 1, column 2: "},
        {"[1,\n 2,]", {0}, FX_EFORMAT, "line 2, column 3: "},
        {"nul", {0}, FX_EFORMAT, ""},
        {"\"\\ud800\"", {0}, FX_EFORMAT, ""},
        {"\"\\udc00\"", {0}, FX_EFORMAT, ""},
        {"\"\\ud800\\u0041\"", {0}, FX_EFORMAT, ""},
        {"[\"\xff\"]", {0}, FX_EFORMAT, ""},
        {"[\"\xed\xa0\x80\"]", {0}, FX_EFORMAT, ""},
        {"[\"\n\"]", {0}, FX_EFORMAT, ""},
        {"{}{}", {0}, FX_EFORMAT, ""},
        {"[01]", {0}, FX_EFORMAT, ""},
        {"[NaN]", {0}, FX_EFORMAT, ""},
        {"[1] // a", {0}, FX_EFORMAT, ""},
        {"\xef\xbb\xbf[]", {0}, FX_EFORMAT, ""},
        {"[9223372036854775808]", {0}, FX_EINVAL, "has a number beyond 64 bits"},
        {"[-9223372036854775809]", {0}, FX_EINVAL, "has a number beyond 64 bits"},
        {"[18446744073709551616]", {0}, FX_EINVAL, "has a number beyond 64 bits"},
        {"[1e400]", {0}, FX_EINVAL, "has a number beyond 64 bits"},
        {"[1e400]", {.reals = true}, FX_EFORMAT, ""},
        {"[Infinity]", {.reals = true}, FX_EFORMAT, ""},
        {"[9223372036854775808,1]", {.reals = true}, FX_OK, "[9.223372036854776e+18,1.0]"},
        {"\"\\u0000\"", {0}, FX_EINVAL, "U+0000"},
        {"{\"\\u0000\":1}", {.nul_texts = true}, FX_EINVAL, "U+0000"},
        {"{\"\\u0000\":\"a\"}", {.nul_keys = true}, FX_OK, "{\"\\u0000\":\"a\"}"},
        {"[\"\\u0000\"]", {.nul_keys = true}, FX_EINVAL, "U+0000"},
        {"[[[]]]", {.max_depth = 2}, FX_EINVAL, "nests deeper than 2"},
        {"[[{}],[]]", {.max_depth = 3}, FX_OK, "[[{}],[]]"},
        {"[1,{\"a\":2}]", {.max_value = 2}, FX_EINVAL, "has more than 2 values"},
        {"[1,{\"a\":2}]", {.max_value = 3}, FX_OK, "[1,{\"a\":2}]"},
        {"{\"a\":1,\"b\":{\"a\":1}}", {.unique = true}, FX_OK, "{\"a\":1,\"b\":{\"a\":1}}"},
        {"[{\"a\":1,\"a\":1}]", {.unique = true}, FX_EINVAL, "the key 'a' twice"},
        {"{\"0\":0,\"1\":0,\"2\":0,\"3\":0,\"4\":0,\"5\":0,\"6\":0,\"7\":0,\"8\":0,\"3\":0}",
         {.unique = true},
         FX_EINVAL,
         "the key '3' twice"},
    };
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
        fxi_json_doc d = {0};
        fx_error e = {.text = ""};
        const fx_status st = fxi_json_parse(&d, fxi_str_of(rows[i].text), &rows[i].rules, &e);
        if (st != rows[i].st) fail_msg("%s: %d, %s", rows[i].text, (int)st, e.text);
        if (st == FX_OK)
            assert_json(d.root, rows[i].says);
        else if (!strstr(e.text, rows[i].says) || d.root)
            fail_msg("%s: %s", rows[i].text, e.text);
        fxi_json_doc_free(&d);
    }
    assert_int_equal(mem.mapped_bytes, 0);
}

// As Python writes them; other JSON has no such numbers.
FX_TEST(test_numbers_that_are_not_finite)
{
    static const fxi_json_rules rules = {.not_finite = true};
    fxi_json_doc d = {0};
    fx_error e;
    assert_int_equal(fxi_json_parse(&d, fxi_str_of("[-Infinity, NaN, 1]"), &rules, &e), FX_OK);
    assert_true(fxi_json_number(fxi_json_at(d.root, 0)) == -(double)INFINITY);
    assert_true(isnan(fxi_json_number(fxi_json_at(d.root, 1))));
    assert_true(fxi_json_number(fxi_json_at(d.root, 2)) == 1);
    fxi_json_doc_free(&d);
}

// Brackets that nest without an end take no stack.
FX_TEST(test_deep_texts)
{
    enum { N = 1 << 20 };
    char *text = malloc(2 * N);
    fx_error e;
    fxi_json_doc d = {0};
    memset(text, '[', N);
    memset(text + N, ']', N);
    assert_int_equal(fxi_json_parse(&d, (fxi_str){text, N}, &(fxi_json_rules){0}, &e), FX_EFORMAT);
    fxi_json_doc_free(&d);
    assert_int_equal(fxi_json_parse(&d, (fxi_str){text, 2 * N}, &(fxi_json_rules){0}, &e),
                     FX_EINVAL);
    assert_string_equal(e.text, "nests deeper than 2048");
    fxi_json_doc_free(&d);
    free(text);
}

// ---- memory -------------------------------------------------------------------------------------

// Every block is refused once, by the room and by the system.
FX_TEST(test_every_block_may_fail)
{
    char *text = long_text();
    fx_status st = FX_ENOMEM;
    for (size_t limit = 0; st != FX_OK; limit += 100000) {
        fxi_json_doc d = {0};
        meter m = {.limit = limit};
        const fxi_json_room room = {take, give, &m};
        const fxi_json_rules rules = {.room = &room};
        st = fxi_json_parse(&d, fxi_str_of(text), &rules, NULL);
        assert_true(st == FX_OK || st == FX_ENOMEM);
        assert_true(m.peak <= limit);
        assert_int_equal(m.held, d.held_bytes);
        fxi_json_doc_free(&d);
    }
    st = FX_ENOMEM;
    for (long at = 1; st != FX_OK; at++) {
        fxi_json_doc d = {0};
        mem.n_map = 0, mem.fail_map = at;
        st = fxi_json_parse(&d, fxi_str_of(text), &(fxi_json_rules){0}, NULL);
        assert_int_equal(st, mem.n_map < at ? FX_OK : FX_ENOMEM);
        assert_true(st == FX_OK || !d.root);
        fxi_json_doc_free(&d);
        assert_int_equal(mem.mapped_bytes, 0);
    }
    mem.fail_map = 0;
    free(text);
}

FX_RUN(test_json)
