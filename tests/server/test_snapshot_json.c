// test_snapshot_json.c - every figure and every row of a snapshot is in its JSON.
#include <stdlib.h>
#include <string.h>

#include "server/endpoint/endpoint.h"
#include "unit/cmocka_all.h"

static void expect_in(const char *text, const char *part)
{
    if (!strstr(text, part)) fail_msg("no %s in %s", part, text);
}

FX_TEST(test_everything_is_written)
{
    static const fx_chunk_run chunk[] = {{0, 3, 0, FX_CHUNK_spare},
                                         {FX_SWAP_CHUNK, 1, 1, FX_CHUNK_swapped}};
    static const fx_span span[] = {{7, 1, 90, 0, 2, 1}, {8, 0, 5, 2, 0, 0}};
    static const fx_segment_run segment[] = {{4, 0, 2, 0}, {9, 3, 1, 1}};
    static const fx_prefix_node node[] = {{1, 0, 5, 4096, 32, 2}, {2, 1, 5, 8192, 31, 0}};
    static const fx_request_view request[] = {
        {7, 12, FX_REQUEST_running, 0, 64, 10, 32, 2, 200, -1},
        {UINT64_MAX, 0, FX_REQUEST_waiting, 3, 1, 0, 0, 1, 5, 0}};
    fx_snapshot s = {.number = 6,
                     .at_us = 1234,
                     .manager = "m",
                     .n_chunk = {0, 3, 2, 1, 0, 1},
                     .n_all_span = 4,
                     .n_all_node = 1000000,
                     .n_all_request = 2,
                     .n_group = 2,
                     .group = {{98304, 42, 0}, {4096, 0, 1}},
                     .chunk = chunk,
                     .n_chunk_run = 2,
                     .span = span,
                     .n_span = 2,
                     .segment = segment,
                     .n_segment_run = 2,
                     .node = node,
                     .n_node = 2,
                     .request = request,
                     .n_request = 2};
    s.stats.n_step = 3;
    s.stats.kv_max_mappings = UINT64_MAX;
    fxi_buf b = {0};
    assert_true(fxi_snapshot_json(&b, &s));
    expect_in(b.p, "{\"number\":6,\"at_us\":1234,\"version\":\"");
    expect_in(b.p, "\"manager\":\"m\",\"groups\":[{\"chunk_bytes\":98304,\"chunk_tokens\":42,"
                   "\"device\":0},{\"chunk_bytes\":4096,\"chunk_tokens\":0,\"device\":1}]");
    expect_in(b.p, "\"n_step\":3,");
    expect_in(b.p, "\"kv_max_mappings\":18446744073709551615,");
    expect_in(b.p, ",\"counts\":{\"chunks\":[0,3,2,1,0,1],\"spans\":4,\"nodes\":1000000,"
                   "\"requests\":2},\"chunks\":[[0,3,1,0],[281474976710656,1,5,1]],\"spans\":["
                   "{\"request\":7,\"choice\":1,\"tokens\":90,\"generating\":1,\"segments\":"
                   "[[0,0,4,2],[1,3,9,1]]},{\"request\":8,\"choice\":0,\"tokens\":5,"
                   "\"generating\":0,\"segments\":[]}],\"nodes\":[[1,0,5,32,2,4096],"
                   "[2,1,5,31,0,8192]],\"requests\":[{\"id\":7,\"state\":\"running\","
                   "\"place\":0,\"prompt\":64,\"cached\":32,\"generated\":10,\"max\":200,"
                   "\"sequences\":2,\"priority\":-1,\"submit_us\":12},"
                   "{\"id\":18446744073709551615,\"state\":\"waiting\",\"place\":3,");
    assert_int_equal(b.p[b.n - 1], '}');
    assert_null(strchr(b.p, '\n'));
    fxi_buf_free(&b);
}

FX_TEST(test_an_empty_snapshot)
{
    const fx_snapshot s = {.number = 1, .manager = "m"};
    fxi_buf b = {0};
    assert_true(fxi_snapshot_json(&b, &s));
    expect_in(b.p, "\"groups\":[],\"stats\":{");
    expect_in(b.p, "\"chunks\":[],\"spans\":[],\"nodes\":[],\"requests\":[]}");
    fxi_buf_free(&b);
}

FX_RUN(test_snapshot_json)
