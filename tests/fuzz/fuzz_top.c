// fuzz_top.c - what `flexinfer top` reads of a server: snapshots and pages of /metrics. Whatever
// comes, every screen can be drawn, and lists stay sorted.
//
// An input is a list of texts with empty lines between them; one that begins with '{' is a
// snapshot, any other a page of /metrics.
#include "fuzz.h"

#include <string.h>

#include "cli/top/top.h"

FUZZ_TARGET(fuzz_top);

static void check_lists(const fxi_top_state *w)
{
    const fxi_json *spans = fxi_top_get(w, "spans"), *chunks = fxi_top_get(w, "chunks");
    for (size_t i = 1; i < w->n_request; i++) FUZZ_CHECK(w->request[i - 1].id < w->request[i].id);
    for (size_t i = 1; i < fxi_json_array_size(spans); i++) {
        const fxi_json *a = fxi_json_at(spans, i - 1), *b = fxi_json_at(spans, i);
        const uint64_t x = fxi_top_number(a, "request"), y = fxi_top_number(b, "request");
        FUZZ_CHECK(x < y || (x == y && fxi_top_number(a, "choice") < fxi_top_number(b, "choice")));
    }
    for (size_t i = 0; i < fxi_json_array_size(chunks); i++) {
        uint64_t v[4], n;
        FUZZ_CHECK(fxi_top_row(fxi_json_at(chunks, i), v, 4));
        if (v[1]) FUZZ_CHECK(fxi_top_chunk_state(w, v[0], &n) == v[2] && n == v[1]);
    }
}

static void check_screen(const fxi_top_state *w, int sort)
{
    const fxi_top_view v = {.url = "u", .sort = sort % FXI_TOP_N_SORT};
    fxi_screen s;
    fxi_buf b = {0};
    double mean_s;
    FUZZ_CHECK(fxi_top_draw(&s, 20, 70, w, &v) && fxi_screen_text(&s, &b));
    for (size_t i = 0; i < b.n; i++) FUZZ_CHECK(b.p[i] == '\n' || (b.p[i] >= ' ' && b.p[i] <= '~'));
    for (int i = 0; i < FXI_TOP_N_TIME; i++)
        if (fxi_top_time(w, i, &mean_s)) FUZZ_CHECK(mean_s >= 0);
    fxi_buf_free(&b);
    fxi_screen_free(&s);
}

static void take_text(fxi_top_state *w, const char *text, size_t n)
{
    fx_error err = {0};
    if (!n || text[0] != '{')
        fxi_top_take_metrics(w, text, n);
    else if (fxi_top_take_snapshot(w, text, n, &err) == FX_OK)
        check_lists(w);
    else
        FUZZ_CHECK(err.text[0] && !strchr(err.text, '\n'));
}

int fuzz_top_run(const uint8_t *data, size_t n_bytes)
{
    fxi_top_state *w = calloc(1, sizeof *w);
    const char *text = (const char *)data, *end = text + n_bytes;
    if (!w) abort();
    for (int i = 0; i < 16 && text < end; i++) {
        const char *gap = memmem(text, (size_t)(end - text), "\n\n", 2);
        const size_t n = (size_t)((gap ? gap : end) - text);
        take_text(w, text, n);
        check_screen(w, i);
        text = gap ? gap + 2 : end;
    }
    fxi_top_free(w);
    free(w);
    return 0;
}

FUZZ_JSON_SEEDS(
    fuzz_top,
    "{'number':1,'at_us':5,'version':'1','manager':'m','stats':{'n_running':1,'n_step':7},"
    "'counts':{'chunks':[0,0,1,2,0,0]},'chunks':[[0,2,3,0],[2,1,2,0]],'spans':[{'request':1,"
    "'choice':0,'tokens':9,'generating':1,'segments':[[0,0,0,2],[0,3,2,1],[1,0,2,1]]}],"
    "'requests':[{'id':1,'state':'running','place':0,'prompt':5,'generated':4,'sequences':1,"
    "'submit_us':2}]}\n\n{'number':2,'at_us':2000005,'stats':{'n_step':9},"
    "'counts':{'chunks':[0,0,0,0,0,0]},'requests':[{'id':1,'generated':9}]}\n\n",
    "flexinfer_time_to_first_token_seconds_sum 3\nflexinfer_time_to_first_token_second"
    "s_count 2\n\n",
    "{}\n\n{'number':1}\n\n")
