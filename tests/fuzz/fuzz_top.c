// fuzz_top.c - what `flexinfer top` reads of a server: events of /kv/stream and a page of /metrics.
// Whatever comes, every screen can be drawn; chunks are counted as their states say, and lists stay
// sorted.
//
// An input is a stream of server-sent events; an event named "page" is a page of /metrics.
#include "fuzz.h"

#include <string.h>

#include "cli/top/sse.h"
#include "cli/top/top_view.h"

FUZZ_TARGET(fuzz_top);

static void check_lists(const fxi_watched *w)
{
    uint64_t n_owned = 0;
    for (size_t i = 1; i < w->n_request; i++) FUZZ_CHECK(w->request[i - 1].id < w->request[i].id);
    for (size_t i = 1; i < w->n_span; i++) {
        const fxi_top_span *a = &w->span[i - 1], *b = &w->span[i];
        FUZZ_CHECK(a->request < b->request || (a->request == b->request && a->choice < b->choice));
    }
    for (size_t i = 0; i < w->here.cap; i++) n_owned += w->here.state[i] == FXI_TOP_owned;
    for (size_t i = 0; i < w->swapped.cap; i++) n_owned += w->swapped.state[i] == FXI_TOP_owned;
    FUZZ_CHECK(n_owned == w->n_chunk[FXI_TOP_owned]);
}

static void check_screen(const fxi_watched *w, int sort)
{
    const fxi_top_view v = {.url = "u", .sort = sort % FXI_TOP_N_SORT};
    fxi_screen s;
    fxi_buf b = {0};
    double mean_s;
    if (!fxi_screen_make(&s, 20, 70)) abort();
    FUZZ_CHECK(fxi_top_draw(&s, w, &v) && fxi_screen_text(&s, &b));
    for (size_t i = 0; i < b.n; i++) FUZZ_CHECK(b.p[i] == '\n' || (b.p[i] >= ' ' && b.p[i] <= '~'));
    for (int i = 0; i < FXI_TOP_N_TIME; i++)
        if (fxi_watched_time(w, i, &mean_s)) FUZZ_CHECK(mean_s >= 0);
    fxi_buf_free(&b);
    fxi_screen_free(&s);
}

static void take_event(fxi_watched *w, const fxi_sse_event *ev)
{
    fx_error err = {0};
    if (fxi_str_is(ev->name, "page")) {
        fxi_watched_page(w, ev->data.p, ev->data.n);
        return;
    }
    const bool is_whole = fxi_str_is(ev->name, "picture");
    if (fxi_watched_take(w, is_whole, ev->data.p, ev->data.n, &err) == FX_OK)
        check_lists(w);
    else
        FUZZ_CHECK(err.text[0] && !strchr(err.text, '\n') && !w->number);
}

int fuzz_top_run(const uint8_t *data, size_t n_bytes)
{
    fxi_watched *w = calloc(1, sizeof *w);
    fxi_buf in = {0};
    fxi_sse_event ev;
    size_t from = 0;
    if (!w || !fxi_buf_add(&in, data, n_bytes)) abort();
    for (int i = 0; i < 16 && fxi_sse_next(&in, &from, &ev); i++) {
        take_event(w, &ev);
        check_screen(w, i);
    }
    fxi_watched_free(w);
    free(w);
    fxi_buf_free(&in);
    return 0;
}

bool fuzz_top_seed(unsigned i, fxi_buf *out)
{
    static const char *const seeds[] = {
        "event: picture\ndata: {\"number\":1,\"at_us\":5,\"version\":\"1\",\"manager\":\"m\","
        "\"stats\":{\"n_running\":1,\"n_step\":7},\"chunks\":[[0,2,3,0],[2,1,2,0]],\"spans\":["
        "{\"request\":1,\"choice\":0,\"tokens\":9,\"generating\":1,\"segments\":[[0,0,0,2],"
        "[0,3,2,1],[1,0,2,1]]}],\"requests\":[{\"id\":1,\"state\":\"running\",\"place\":0,"
        "\"prompt\":5,\"generated\":4,\"sequences\":1,\"submit_us\":2}]}\n\n"
        "event: change\ndata: {\"number\":2,\"after\":1,\"at_us\":2000005,\"stats\":{\"n_step\":9},"
        "\"chunks\":[[0,1,0,0]],\"gone_spans\":[[1,0]],\"gone_requests\":[1]}\n\n",
        "event: page\ndata: flexinfer_time_to_first_token_seconds_sum 3\n"
        "data: flexinfer_time_to_first_token_seconds_count 2\n\n",
        ": ping\n\nretry: 1\n\ndata: {}\n\nevent: change\ndata:{\"number\":1}\n\n",
    };
    return i < sizeof seeds / sizeof *seeds && fxi_buf_str(out, seeds[i]);
}
