// test_top_view.c - `flexinfer top` without a server or a terminal: snapshots become what is known,
// and what is known becomes a screen.
#include <stdlib.h>
#include <string.h>

#include "cli/top/top.h"
#include "unit/cmocka_all.h"

// Two requests: one with two choices that share chunk 0, one that waits. Chunk 2^48 + 1 lies in the
// swap.
#define SNAPSHOT                                                                                \
    "{\"number\":3,\"at_us\":5000000,\"version\":\"1.2.3\",\"manager\":\"vtensor\","            \
    "\"groups\":[{\"chunk_bytes\":65536,\"chunk_tokens\":32}],"                                 \
    "\"stats\":{\"n_running\":2,\"n_waiting\":1,\"n_waiting_tok\":77,\"n_generated_tok\":100,"  \
    "\"n_step\":50,\"kv_mapped_bytes\":1048576,\"kv_live_bytes\":524288,"                       \
    "\"kv_budget_bytes\":1073741824,\"kv_max_mappings\":18446744073709551615},"                 \
    "\"counts\":{\"chunks\":[0,2,3,1,0,1],\"spans\":2,\"nodes\":0,\"requests\":2},"             \
    "\"chunks\":[[0,1,3,0],[1,3,2,0],[4,2,1,0],[281474976710657,1,5,0]],"                       \
    "\"spans\":[{\"request\":7,\"choice\":0,\"tokens\":70,\"generating\":1,"                    \
    "\"segments\":[[0,0,0,1],[0,1,1,2]]},"                                                      \
    "{\"request\":7,\"choice\":1,\"tokens\":40,\"generating\":1,"                               \
    "\"segments\":[[0,0,0,1],[0,1,3,1],[0,4,281474976710657,1]]}],"                             \
    "\"nodes\":[],\"requests\":["                                                               \
    "{\"id\":7,\"state\":\"running\",\"place\":0,\"prompt\":64,\"cached\":32,\"generated\":10," \
    "\"max\":200,\"sequences\":2,\"priority\":0,\"submit_us\":2000000},"                        \
    "{\"id\":9,\"state\":\"waiting\",\"place\":1,\"prompt\":77,\"cached\":0,\"generated\":0,"   \
    "\"max\":5,\"sequences\":1,\"priority\":0,\"submit_us\":4000000}]}"

static fx_status take(fxi_top_state *w, const char *text)
{
    return fxi_top_take_snapshot(w, text, strlen(text), NULL);
}

static fxi_top_state known(void)
{
    fxi_top_state w = {0};
    assert_int_equal(take(&w, SNAPSHOT), FX_OK);
    return w;
}

static fxi_buf drawn(const fxi_top_state *w, const fxi_top_view *v, int n_row, int n_col)
{
    fxi_screen s;
    fxi_buf b = {0};
    assert_true(fxi_top_draw(&s, n_row, n_col, w, v));
    assert_true(fxi_screen_text(&s, &b));
    fxi_screen_free(&s);
    return b;
}

static void expect_drawn(const fxi_top_state *w, const fxi_top_view *v, int n_row, int n_col,
                         const char *want)
{
    fxi_buf b = drawn(w, v, n_row, n_col);
    assert_string_equal(b.p, want);
    fxi_buf_free(&b);
}

static void expect_in(const fxi_top_state *w, const fxi_top_view *v, int n_row, const char *want)
{
    fxi_buf b = drawn(w, v, n_row, 80);
    if (!strstr(b.p, want)) fail_msg("want: %s\nin:\n%s", want, b.p);
    fxi_buf_free(&b);
}

// ---- the screen --------------------------------------------------------------------------------

FX_TEST(test_a_whole_screen)
{
    fxi_top_state w = known();
    const fxi_top_view v = {.url = "http://h:1", .has_no_keys = true};
    expect_drawn(
        &w, &v, 12, 80,
        "flexinfer 1.2.3  http://h:1  vtensor"
        "                                        live\n"
        "sequences  2 running  1 waiting (77 prompt tokens)  2 requests  0 B in the swap\n"
        "tokens/s   0.0 generated  0.0 prompt  0.0 steps/s\n"
        "memory     1.0 MiB mapped  1.0 GiB budget  512 KiB live  0 B shared  0 B cached\n"
        "chunks     . 2 spare  o 3 owned  S 1 shared  c 0 cached  ~ 1 swapped\n"
        "mapped     #\n"
        "live       =\n"
        "shared\n"
        "REQUEST  STATE    PROMPT CACHED OUTPUT    MAX  TOK/S  AGE CHUNKS\n"
        "7.0      running      64     32     10    200    0.0   3s Soo\n"
        "7.1                                                       So--~\n"
        "9        waiting      77      0      0      5    0.0   1s place 1 in the queue\n");
    assert_int_equal(fxi_top_height(&w), 12);
    fxi_top_free(&w);
}

// Any size is drawn, down to one cell; a bar with less room than chunks shows most of each part.
FX_TEST(test_any_size)
{
    fxi_top_state w = known();
    fxi_top_view v = {.url = "http://h:1"};
    for (int help = 0; help < 2; help++, v.shows_help = true)
        for (int n_row = 1; n_row < 40; n_row += 1 + n_row / 8)
            for (int n_col = 1; n_col < 200; n_col += 1 + n_col / 6) {
                fxi_buf b = drawn(&w, &v, n_row, n_col);
                size_t n_line = 0;
                for (const char *p = b.p; *p; p++) n_line += *p == '\n';
                assert_int_equal(n_line, n_row);
                fxi_buf_free(&b);
            }
    v.shows_help = false;
    fxi_buf b = drawn(&w, &v, 10, 60); // two cells for five positions
    assert_non_null(strstr(b.p, " o~\n"));
    fxi_buf_free(&b);
    fxi_top_free(&w);
}

// 80 columns have the budget and all but the last figure of memory, however long they are.
FX_TEST(test_long_sizes)
{
    fxi_top_state w = known();
    const uint64_t bytes = 1023 << 10;
    w.stats.kv_mapped_bytes = w.stats.kv_budget_bytes = w.stats.kv_live_bytes = bytes;
    w.stats.kv_shared_bytes = w.stats.kv_cached_bytes = bytes;
    expect_in(&w, &(fxi_top_view){.url = "u"}, 12,
              "memory     1023 KiB mapped  1023 KiB budget  1023 KiB live  1023 KiB shared");
    fxi_top_free(&w);
}

FX_TEST(test_sorted_and_scrolled)
{
    fxi_top_state w = known();
    fxi_top_view v = {.url = "u", .sort = FXI_TOP_BY_prompt, .has_no_keys = true};
    expect_in(&w, &v, 12, "CHUNKS\n9        waiting");
    v.sort = FXI_TOP_BY_output;
    expect_in(&w, &v, 12, "CHUNKS\n7.0      running");
    v.is_reversed = true;
    expect_in(&w, &v, 12, "CHUNKS\n9        waiting");
    v = (fxi_top_view){.url = "u", .first = 2};
    expect_in(&w, &v, 8, "CHUNKS\n9        waiting");
    expect_in(&w, &v, 8, "q quit  p pause  s sort: id  r reverse  ? help  3-3 of 3");
    fxi_top_free(&w);
}

FX_TEST(test_pause_trouble_and_nothing)
{
    fxi_top_state w = known(), nothing = {0};
    fxi_top_view v = {.url = "u", .is_paused = true};
    expect_in(&w, &v, 12, "PAUSED\n");
    v.trouble = "Connection \033[31mrefused";
    expect_in(&w, &v, 12, "NO CONNECTION\n");
    expect_in(&w, &v, 12, "no connection: Connection ?[31mrefused; trying again\n");
    expect_in(&w, &v, 12, "7.0      running"); // what was known last stays
    v.trouble = NULL;
    expect_in(&nothing, &v, 12, "waiting for the server");
    v.shows_help = true;
    expect_in(&w, &v, 30, "o owned    this sequence alone holds it");
    fxi_top_free(&w);
}

// ---- what is known -----------------------------------------------------------------------------

#define NEXT(number, at_us, more)               \
    "{\"number\":" #number ",\"at_us\":" #at_us \
    ",\"counts\":{\"chunks\":[0,3,0,0,1,0],\"requests\":1}," more "}"

FX_TEST(test_the_next_snapshot)
{
    fxi_top_state w = known();
    assert_int_equal(w.stats.kv_max_mappings, UINT64_MAX);
    assert_int_equal(
        take(&w, NEXT(4, 7000000,
                      "\"stats\":{\"n_generated_tok\":140,\"n_step\":70,\"n_running\":1},"
                      "\"chunks\":[[3,1,4,0],[9,3,1,0]],"
                      "\"spans\":[{\"request\":7,\"choice\":1,\"tokens\":41,\"generating\":1,"
                      "\"segments\":[[0,0,3,1]]}],"
                      "\"requests\":[{\"id\":7,\"state\":\"running\",\"generated\":30}]")),
        FX_OK);
    const fxi_json *spans = fxi_top_get(&w, "spans"), *span = fxi_json_at(spans, 0);
    assert_int_equal(fxi_json_array_size(spans), 1);
    assert_int_equal(fxi_top_number(span, "tokens"), 41);
    assert_int_equal(fxi_json_array_size(fxi_json_get(span, "segments")), 1);
    assert_int_equal(w.n_request, 1);
    expect_in(&w, &(fxi_top_view){.url = "u"}, 12, "7        running");
    assert_int_equal(w.stats.n_waiting, 0);
    assert_int_equal(w.n_chunk[FX_CHUNK_spare], 3);
    assert_int_equal(w.n_chunk[FX_CHUNK_owned], 0);
    static const struct {
        uint64_t name, n;
        unsigned state;
    } chunks[] = {{3, 1, FX_CHUNK_cached},
                  {9, 3, FX_CHUNK_spare},
                  {11, 1, FX_CHUNK_spare},
                  {12, 1, FX_CHUNK_absent},
                  {0, 1, FX_CHUNK_absent}};
    for (size_t i = 0; i < sizeof chunks / sizeof *chunks; i++) {
        uint64_t n;
        assert_int_equal(fxi_top_chunk_state(&w, chunks[i].name, &n), chunks[i].state);
        assert_int_equal(n, chunks[i].n);
    }
    assert_true(w.rate.generated_tok == 20 && w.rate.step == 10); // over 2 s
    assert_true(w.request[0].tok_s == 10);
    assert_int_equal(w.n_sample, 2);
    // The same one again, and an idle second.
    assert_int_equal(take(&w, NEXT(4, 7000000,
                                   "\"stats\":{\"n_step\":70},\"requests\":[{\"id\":7,"
                                   "\"generated\":30}]")),
                     FX_OK);
    assert_true(w.request[0].tok_s == 10 && w.rate.step == 10);
    assert_int_equal(w.n_sample, 2);
    assert_int_equal(take(&w, NEXT(5, 8000000, "\"stats\":{\"n_step\":70}")), FX_OK);
    assert_true(w.rate.step == 0);
    fxi_top_free(&w);
}

// Another process after the first one: nothing of it is left but the memory over time.
FX_TEST(test_a_server_that_began_again)
{
    fxi_top_state w = known();
    assert_int_equal(take(&w, NEXT(1, 100, "\"stats\":{\"n_step\":1},\"requests\":[{\"id\":7}]")),
                     FX_OK);
    assert_int_equal(fxi_json_array_size(fxi_top_get(&w, "spans")), 0);
    assert_int_equal(w.n_chunk[FX_CHUNK_owned], 0);
    assert_int_equal(w.n_sample, 2);
    assert_true(w.rate.step == 0 && w.request[0].tok_s == 0);
    fxi_top_free(&w);
}

FX_TEST(test_snapshots_that_are_refused)
{
    static const char *const bad[] = {
        "",
        "[]",
        "{}",
        "{\"number\":4}",
        NEXT(0, 9000000, "\"chunks\":[]"),
        NEXT(4, 9000000, "\"chunks\":[[0,1,9,0]]"),
        NEXT(4, 9000000, "\"chunks\":[[0,99999999999,1,0]]"),
        NEXT(4, 9000000, "\"chunks\":[[-1,1,1,0]]"),
        NEXT(4, 9000000, "\"chunks\":[[5,2,1,0],[6,1,1,0]]"),
        NEXT(4, 9000000, "\"chunks\":[1]"),
        NEXT(4, 9000000, "\"spans\":[{}]"),
        NEXT(4, 9000000, "\"spans\":[{\"request\":1,\"segments\":[[0,0,0]]}]"),
        NEXT(4, 9000000, "\"spans\":[{\"request\":1,\"segments\":[[0,0,0,99999999]]}]"),
        NEXT(4, 9000000, "\"spans\":[{\"request\":2},{\"request\":1}]"),
        NEXT(4, 9000000, "\"requests\":[{\"id\":\"x\"}]"),
        NEXT(4, 9000000, "\"requests\":[{\"id\":2},{\"id\":2}]"),
    };
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        fxi_top_state w = known();
        fx_error err;
        if (fxi_top_take_snapshot(&w, bad[i], strlen(bad[i]), &err) != FX_EFORMAT)
            fail_msg("taken: %s", bad[i]);
        assert_null(strchr(err.text, '\n'));
        assert_int_equal(w.number, 3); // as before
        assert_int_equal(w.n_request, 2);
        fxi_top_free(&w);
    }
}

static void take_page(fxi_top_state *w, const char *text)
{
    fxi_top_take_metrics(w, text, strlen(text));
}

FX_TEST(test_figures_of_metrics)
{
    fxi_top_state w = known();
    double first_s, between_s;
    assert_false(fxi_top_time(&w, FXI_TOP_first_token, &first_s));
    take_page(&w, "# HELP flexinfer_time_to_first_token_seconds_sum 9\n"
                  "flexinfer_time_to_first_token_seconds_sum 3\n"
                  "flexinfer_time_to_first_token_seconds_count 6\n");
    assert_true(fxi_top_time(&w, FXI_TOP_first_token, &first_s));
    assert_false(fxi_top_time(&w, FXI_TOP_between, &between_s));
    assert_true(first_s == 0.5);
    take_page(&w, "flexinfer_time_to_first_token_seconds_sum 5\n"
                  "flexinfer_time_to_first_token_seconds_count 8\n"
                  "flexinfer_inter_token_latency_seconds_sum 1\n"
                  "flexinfer_inter_token_latency_seconds_count 4");
    assert_true(fxi_top_time(&w, FXI_TOP_first_token, &first_s));
    assert_true(fxi_top_time(&w, FXI_TOP_between, &between_s));
    assert_true(first_s == 1 && between_s == 0.25); // of what is new
    expect_in(&w, &(fxi_top_view){.url = "u"}, 12, "steps/s  first token 1.0000 s");
    fxi_top_free(&w);
}

FX_RUN(test_top_view)
