// watched.c - an event of the stream becomes the state that is shown.
#include "cli/top/watched.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/fail.h" // defines: fxi_fail, FX_TRY
#include "base/json/json_doc.h"

#define RATE_US   UINT64_C(1000000) // rates are of so long at least,
#define SMOOTH    0.5               // and follow by half
#define SAMPLE_US UINT64_C(500000)  // between samples of memory

static uint64_t number_in(const json_t *o, const char *key)
{
    uint64_t n;
    return fxi_watched_natural(json_object_get(o, key), FXI_TOP_MAX_NUMBER, &n) ? n : 0;
}

static void copy_word(const json_t *o, const char *key, char *dst, size_t cap)
{
    const char *text = json_string_value(json_object_get(o, key));
    snprintf(dst, cap, "%s", text ? text : "");
}

// ---- figures -----------------------------------------------------------------------------------

// Figures that are not among those of a change stay. Beyond 2^53 one is without a limit.
static void read_stats(fxi_watched *w, const json_t *o)
{
#define READ_STAT(name, help)                                                                \
    if (json_object_get(o, #name) &&                                                         \
        !fxi_watched_natural(json_object_get(o, #name), FXI_TOP_MAX_NUMBER, &w->stats.name)) \
        w->stats.name = UINT64_MAX;
    FX_STATS(READ_STAT)
#undef READ_STAT
}

static double rate_of(uint64_t before, uint64_t now, uint64_t us)
{
    return now > before ? (double)(now - before) * 1e6 / (double)us : 0;
}

static void measure_rates(fxi_watched *w)
{
    const uint64_t us = w->at_us - w->rated_us;
    if (w->rated_us && w->at_us > w->rated_us && us < RATE_US) return;
    if (w->rated_us && w->at_us > w->rated_us)
        w->rate = (fxi_top_rates){rate_of(w->rated.n_generated_tok, w->stats.n_generated_tok, us),
                                  rate_of(w->rated.n_prompt_tok, w->stats.n_prompt_tok, us),
                                  rate_of(w->rated.n_step, w->stats.n_step, us)};
    w->n_rate += w->rated_us != 0;
    w->rated = w->stats;
    w->rated_us = w->at_us;
}

static void measure_requests(fxi_watched *w)
{
    for (size_t i = 0; i < w->n_request; i++) {
        fxi_top_request *r = &w->request[i];
        const uint64_t us = w->at_us - r->rated_us;
        if (r->rated_us && us < RATE_US) continue;
        if (r->rated_us) {
            const double now = rate_of(r->rated_tok, r->n_generated, us);
            r->tok_s = r->tok_s > 0 ? SMOOTH * now + (1 - SMOOTH) * r->tok_s : now;
        }
        r->rated_us = w->at_us;
        r->rated_tok = r->n_generated;
    }
}

static void keep_sample(fxi_watched *w)
{
    w->history[w->n_sample++ % FXI_TOP_HISTORY] = (fxi_top_sample){
        w->at_us, w->stats.kv_mapped_bytes, w->stats.kv_live_bytes, w->stats.kv_shared_bytes};
}

static void sample_memory(fxi_watched *w)
{
    const fxi_top_sample *last =
        w->n_sample ? &w->history[(w->n_sample - 1) % FXI_TOP_HISTORY] : NULL;
    if (!last || w->at_us < last->at_us || w->at_us - last->at_us >= SAMPLE_US) keep_sample(w);
}

// No picture has come since the last page.
static void note_silence(fxi_watched *w)
{
    keep_sample(w);
    if (w->stats.n_running) return; // a long step
    w->rate = (fxi_top_rates){0};
    w->rated_us = 0;
}

// ---- events ------------------------------------------------------------------------------------

static fx_status begin_picture(fxi_watched *w, bool is_whole, const json_t *root, fx_error *err)
{
    const uint64_t number = number_in(root, "number");
    if (!number) return fxi_fail(err, FX_EFORMAT, "the server sends something else than pictures");
    if (!is_whole && (!w->number || number_in(root, "after") != w->number))
        return fxi_fail(err, FX_EFORMAT, "the server left out a change");
    if (is_whole) {
        fxi_watched_forget(w);
        w->rated_us = 0; // it may be another process
        copy_word(root, "version", w->version, sizeof w->version);
        copy_word(root, "manager", w->manager, sizeof w->manager);
    }
    w->number = number;
    w->at_us = number_in(root, "at_us");
    return FX_OK;
}

static fx_status take_root(fxi_watched *w, bool is_whole, const json_t *root, fx_error *err)
{
    FX_TRY(begin_picture(w, is_whole, root, err));
    read_stats(w, json_object_get(root, "stats"));
    FX_TRY(fxi_watched_read_chunks(w, root, err));
    FX_TRY(fxi_watched_read_spans(w, root, err));
    FX_TRY(fxi_watched_read_requests(w, root, err));
    measure_rates(w);
    measure_requests(w);
    sample_memory(w);
    return FX_OK;
}

fx_status fxi_watched_take(fxi_watched *w, bool is_whole, const char *text, size_t n, fx_error *err)
{
    fxi_json_doc doc = {0};
    json_error_t e;
    fx_status st;
    switch (fxi_json_doc_parse(&doc, text, n, JSON_DECODE_INT_AS_REAL, NULL, &e)) {
    case FXI_JSON_OK: st = take_root(w, is_whole, doc.root, err); break;
    case FXI_JSON_BROKEN: st = fxi_fail(err, FX_EFORMAT, "the server's event: %s", e.text); break;
    default: st = fxi_fail(err, FX_ENOMEM, "out of memory");
    }
    fxi_json_doc_free(&doc);
    if (st != FX_OK) w->number = 0;
    return st;
}

// ---- /metrics ----------------------------------------------------------------------------------

// The value of a sample without labels.
static double sample_value(const char *text, size_t n, const char *name)
{
    const size_t n_name = strlen(name);
    for (const char *p = text, *end = text + n; p < end;) {
        const char *nl = memchr(p, '\n', (size_t)(end - p));
        const size_t n_line = nl ? (size_t)(nl - p) : (size_t)(end - p);
        if (n_line > n_name + 1 && n_line < 256 && !memcmp(p, name, n_name) && p[n_name] == ' ') {
            char line[256];
            memcpy(line, p, n_line);
            line[n_line] = 0;
            const double v = strtod(line + n_name, NULL);
            return v > 0 && v < 1e300 ? v : 0;
        }
        p += n_line + 1;
    }
    return 0;
}

void fxi_watched_page(fxi_watched *w, const char *text, size_t n)
{
    if (w->number && w->number == w->page_number) note_silence(w);
    w->page_number = w->number;
    fxi_top_page *page = &w->page[w->n_page++ % FXI_TOP_PAGES];
#define READ_TIME(name, metric)                                                      \
    page->sum_s[FXI_TOP_##name] = sample_value(text, n, "flexinfer_" metric "_sum"); \
    page->count[FXI_TOP_##name] = sample_value(text, n, "flexinfer_" metric "_count");
    FXI_TOP_TIMES(READ_TIME)
#undef READ_TIME
}

bool fxi_watched_time(const fxi_watched *w, int time, double *mean_s)
{
    if (!w->n_page) return false;
    const uint64_t oldest = w->n_page > FXI_TOP_PAGES ? w->n_page - FXI_TOP_PAGES : 0;
    const fxi_top_page *a = &w->page[oldest % FXI_TOP_PAGES];
    const fxi_top_page *b = &w->page[(w->n_page - 1) % FXI_TOP_PAGES];
    double sum_s = b->sum_s[time], count = b->count[time];
    // A count that went down is of another process.
    if (count > a->count[time] && sum_s >= a->sum_s[time])
        sum_s -= a->sum_s[time], count -= a->count[time];
    *mean_s = count > 0 ? sum_s / count : 0;
    return count > 0;
}

void fxi_watched_free(fxi_watched *w)
{
    fxi_watched_forget(w);
    free(w->here.state);
    free(w->swapped.state);
    *w = (fxi_watched){0};
}
